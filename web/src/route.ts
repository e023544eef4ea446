// All view state is in the URL: the page in the path, the window and filters in the query. A link
// carries the window on.
import { Store } from './store';

export interface Route {
  page:
    | 'fleet'
    | 'today'
    | 'workflows'
    | 'compare'
    | 'usage'
    | 'hosts'
    | 'jobs'
    | 'job'
    | 'gpus'
    | 'gpu'
    | 'targets'
    | 'alerts'
    | 'alert'
    | 'silences'
    | 'missing';
  key: string; // the job, GPU or alert
  query: URLSearchParams;
}

export const kDefaultFrom = '-6h';

function parse(): Route {
  const path = location.pathname.replace(/\/+$/, '');
  const query = new URLSearchParams(location.search);
  const rest = (prefix: string): string => {
    try {
      return decodeURIComponent(path.slice(prefix.length));
    } catch {
      return path.slice(prefix.length);
    }
  };
  if (path === '') return { page: 'fleet', key: '', query };
  const plain = (
    [
      'today',
      'workflows',
      'compare',
      'usage',
      'hosts',
      'jobs',
      'gpus',
      'targets',
      'alerts',
      'silences',
    ] as const
  ).find((page) => path === `/${page}`);
  if (plain) return { page: plain, key: '', query };
  if (path.startsWith('/jobs/')) return { page: 'job', key: rest('/jobs/'), query };
  if (path.startsWith('/gpus/')) return { page: 'gpu', key: rest('/gpus/'), query };
  if (path.startsWith('/alerts/')) return { page: 'alert', key: rest('/alerts/'), query };
  return { page: 'missing', key: path, query };
}

export const route = new Store<Route>(parse());
// These have times of their own: the window of the page before is kept over them.
const ownTime = ({ page }: Route): boolean => /^(job|alerts?|silences)$/.test(page);
let listed = ownTime(route.value) ? new URLSearchParams() : route.value.query;
route.follow((to) => {
  if (!ownTime(to)) listed = to.query;
});

export function navigate(url: string, replace = false): void {
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  const before = route.value.page + route.value.key;
  route.set(parse());
  if (before !== route.value.page + route.value.key) scrollTo(0, 0);
}

export type Window = { from: string; to: string };

export const hasWindow = (query: URLSearchParams): boolean => query.has('from') || query.has('to');

// Of a job: without a window in the URL, the job's own time, which the server knows.
export function timesOf(query: URLSearchParams): Partial<Window> {
  return hasWindow(query) ? windowOf(query) : {};
}

// As the API takes it: relative ("-6h") or absolute; an empty `to` is now.
export function windowOf(query: URLSearchParams): Window {
  return { from: query.get('from') ?? kDefaultFrom, to: query.get('to') ?? '' };
}

// Absolute bounds of a window as it is; `fallback` where the text is no time.
export function absolute(text: string, fallback: Date): Date {
  const back = /^-(\d+)([mhd])$/.exec(text);
  if (back) {
    const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 }[back[2] as 'm' | 'h' | 'd'];
    return new Date(Date.now() - Number(back[1]) * unitMs);
  }
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? fallback : time;
}

// A path with the current window and, where given, more of the query. The page of a job or an
// alert opens on its own time, and leads back to the window of the page before.
export function link(path: string, more: Record<string, string | number | null> = {}): string {
  const search = new URLSearchParams();
  for (const key of ['from', 'to']) {
    const value = listed.get(key);
    if (value !== null && !/^\/(jobs\/|alerts|silences)/.test(path)) search.set(key, value);
  }
  for (const [key, value] of Object.entries(more)) {
    if (value === null || value === '') search.delete(key);
    else search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

// The current page with some of its query changed; null takes a parameter away.
export function withQuery(changes: Record<string, string | number | null>): string {
  const search = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === '') search.delete(key);
    else search.set(key, String(value));
  }
  const text = search.toString();
  return location.pathname + (text ? `?${text}` : '');
}

export const jobPath = (job: string): string => `/jobs/${encodeURIComponent(job)}`;
export const alertPath = (id: string): string => `/alerts/${encodeURIComponent(id)}`;
export const gpuPath = (gpu: string): string => `/gpus/${encodeURIComponent(gpu)}`;

export function startRouting(): void {
  addEventListener('popstate', () => route.set(parse()));
  document.addEventListener('click', (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const anchor = (event.target as Element | null)?.closest?.('a');
    if (!anchor || anchor.hasAttribute('target') || anchor.hasAttribute('download')) return;
    // Of a link within a drawing the address is no text.
    const to = new URL(anchor.getAttribute('href') ?? '', location.href);
    if (to.origin !== location.origin) return;
    if (/^\/(api|metrics|openapi|healthz|readyz)/.test(to.pathname)) return;
    event.preventDefault();
    navigate(to.pathname + to.search);
  });
}
