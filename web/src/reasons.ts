// Reasons and quality flags in the words of the server, the same that the terminal has. A code
// whose words are not here yet, or that has none, is its own words.
import { apiUrl, getJson, Reasons } from './api';
import { Store } from './store';

type Words = Record<string, { title: string; advice: string | null }>;
const words = new Store<Words>({});
const kTryAgainMs = 10_000;

export function startReasons(): void {
  getJson<Reasons>(apiUrl('reasons')).then(
    ({ reasons }) => words.set(Object.fromEntries(reasons.map((r) => [r.reason, r]))),
    () => setTimeout(startReasons, kTryAgainMs),
  );
}

export function useReasons(): (id: string) => { title: string; advice: string | null } {
  const known = words.use();
  return (id) => known[id] ?? { title: id.replace(/_/g, ' '), advice: null };
}
