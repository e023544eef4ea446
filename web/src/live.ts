// Fetching with refresh: what was loaded stays on the screen, with its age, while the next answer
// is on its way or fails.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, getJson } from './api';
import { Store } from './store';

const kRefreshMs = 10_000;

export const paused = new Store(false);
// The page's main data: when it arrived, and what went wrong since.
export interface Freshness {
  at: number;
  error: ApiError | null;
}
export const freshness = new Store<Freshness>({ at: 0, error: null });
// The window that the page's main data is of, as the server answered it.
export const shownWindow = new Store<{ from: string; to: string } | null>(null);
const tick = new Store(0);

export function startRefreshing(): void {
  setInterval(() => {
    if (!paused.value && !document.hidden) tick.set(tick.value + 1);
  }, kRefreshMs);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && !paused.value) tick.set(tick.value + 1);
  });
}
export const refreshNow = (): void => tick.set(tick.value + 1);

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  at: number; // when data arrived
  // True while data answers another question (a window that was left): the new one is on its way.
  changing: boolean;
}

// Answers already seen, so that going back shows something at once.
const kCacheEntries = 24;
const cache = new Map<string, { data: unknown; at: number }>();

function remember(url: string, data: unknown): void {
  cache.delete(url);
  cache.set(url, { data, at: Date.now() });
  if (cache.size > kCacheEntries) cache.delete(cache.keys().next().value as string);
}

export interface LoadOptions {
  main?: boolean; // drives the freshness shown at the top
  fixed?: boolean; // the answer does not change: no refresh
}

export function useApi<T>(url: string, options: LoadOptions = {}): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { url: string }>(() => {
    const hit = cache.get(url);
    return { url, data: (hit?.data as T) ?? null, error: null, at: hit?.at ?? 0, changing: false };
  });
  const ticks = tick.use();
  const shown = useRef(url);

  useEffect(() => {
    const abort = new AbortController();
    const moved = shown.current !== url;
    shown.current = url;
    if (moved) {
      const hit = cache.get(url);
      setState((s) => ({
        url,
        data: (hit?.data as T) ?? s.data,
        error: null,
        at: hit?.at ?? s.at,
        changing: hit === undefined && s.data !== null,
      }));
    }
    getJson<T>(url, abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        remember(url, data);
        setState({ url, data, error: null, at: Date.now(), changing: false });
        if (options.main) {
          freshness.set({ at: Date.now(), error: null });
          shownWindow.set((data as { window?: { from: string; to: string } }).window ?? null);
        }
      },
      (e: unknown) => {
        if (abort.signal.aborted) return;
        const error = e instanceof ApiError ? e : new ApiError(0, String(e));
        // What is shown belongs to another question: an error is the only honest answer to this
        // one.
        setState((s) => ({ ...s, url, data: s.changing ? null : s.data, error, changing: false }));
        if (options.main) freshness.set({ at: freshness.value.at, error });
      },
    );
    return () => abort.abort();
  }, [url, options.fixed ? 0 : ticks]);

  return state;
}
