// A value that components can follow.
import { useEffect, useState } from 'preact/hooks';

export class Store<T> {
  private readonly followers = new Set<(value: T) => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }
  set(next: T): void {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const follower of [...this.followers]) follower(next);
  }
  follow(follower: (value: T) => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
  use(): T {
    const [value, setValue] = useState(this.current);
    useEffect(() => {
      setValue(this.current);
      return this.follow(setValue);
    }, []);
    return value;
  }
}
