// The frame: navigation, time window, freshness, keyboard.
import { ComponentChildren, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { AlertCount } from './alerts';
import { duration, localInput, moment } from './format';
import { freshness, paused, refreshNow, shownWindow, startRefreshing } from './live';
import { AlertPage } from './pages/alert';
import { AlertsPage, SilencesPage } from './pages/alerts';
import { ComparePage } from './pages/compare';
import { FleetPage } from './pages/fleet';
import { GpuPage } from './pages/gpu';
import { GpusPage, HostsPage } from './pages/hosts';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { TargetsPage } from './pages/targets';
import { TodayPage } from './pages/today';
import { UsagePage } from './pages/usage';
import { WorkflowsPage } from './pages/workflows';
import {
  absolute,
  hasWindow,
  kDefaultFrom,
  link,
  navigate,
  route,
  startRouting,
  windowOf,
  withQuery,
} from './route';
import { startReasons } from './reasons';
import { Store } from './store';
import { startTheme, theme, toggleTheme } from './theme';
import { Empty, HelpPopover } from './ui';

const kPresets = [
  ['-1h', '1 h'],
  ['-6h', '6 h'],
  ['-24h', '24 h'],
  ['-7d', '7 d'],
  ['-14d', '14 d'],
] as const;
const kStaleAfterS = 30;

const keysOpen = new Store(false);

function WindowPicker() {
  const { query, page } = route.use();
  const { from, to } = windowOf(query);
  const life = page === 'job' && !hasWindow(query);
  const [editing, setEditing] = useState(false);
  const isPreset = life || (to === '' && kPresets.some(([value]) => value === from));
  const start = absolute(from, new Date(Date.now() - 6 * 3_600_000));
  const end = to === '' ? new Date() : absolute(to, new Date());
  return (
    <div class="window">
      <span class="segments" role="group" aria-label="Time window">
        {page === 'job' && (
          <button
            type="button"
            aria-pressed={life}
            title="From the job's start to its end"
            onClick={() => navigate(withQuery({ from: null, to: null, offset: null }))}
          >
            Job
          </button>
        )}
        {kPresets.map(([value, label]) => (
          <button
            key={value}
            type="button"
            aria-pressed={!life && to === '' && from === value}
            onClick={() =>
              navigate(
                withQuery({
                  from: value === kDefaultFrom && page !== 'job' ? null : value,
                  to: null,
                  offset: null,
                }),
              )
            }
          >
            {label}
          </button>
        ))}
        <button
          type="button"
          aria-pressed={!isPreset}
          aria-expanded={editing}
          onClick={() => setEditing(!editing)}
        >
          {isPreset
            ? 'Custom'
            : `${moment(start.getTime())} – ${to === '' ? 'now' : moment(end.getTime())}`}
        </button>
      </span>
      {editing && (
        <form
          class="window-form"
          onSubmit={(e) => {
            e.preventDefault();
            const data = new FormData(e.currentTarget);
            const iso = (name: string) => {
              const text = String(data.get(name) ?? '');
              return text === '' ? null : new Date(text).toISOString().replace('.000Z', 'Z');
            };
            setEditing(false);
            navigate(withQuery({ from: iso('from'), to: iso('to'), offset: null }));
          }}
        >
          <label>
            From <input type="datetime-local" name="from" required value={localInput(start)} />
          </label>
          <label>
            To <input type="datetime-local" name="to" value={to === '' ? '' : localInput(end)} />
            <small>empty = now</small>
          </label>
          <button type="submit">Show</button>
        </form>
      )}
    </div>
  );
}

// The address of what is shown, with its window fixed: whoever opens it later sees the same.
function fixedLink(): string {
  const shown = shownWindow.value;
  const { from, to } = windowOf(route.value.query);
  const iso = (t: Date) => t.toISOString().replace('.000Z', 'Z');
  return (
    location.origin +
    withQuery({
      from: shown?.from ?? iso(absolute(from, new Date())),
      to: shown?.to ?? (to === '' ? iso(new Date()) : iso(absolute(to, new Date()))),
    })
  );
}

const kCopiedMs = 2500;

function CopyLink() {
  const [said, setSaid] = useState('');
  const say = (text: string) => {
    setSaid(text);
    setTimeout(() => setSaid(''), kCopiedMs);
  };
  return (
    <button
      type="button"
      class="quiet"
      title="A link to this page with the window as it is now"
      onClick={async () => {
        const link = fixedLink();
        try {
          await navigator.clipboard.writeText(link);
          say('Copied');
        } catch {
          // Browsers give the clipboard to https and to this computer's own pages alone.
          navigate(link.slice(location.origin.length), true);
          say('In the address bar');
        }
      }}
    >
      <span aria-live="polite">{said || 'Copy link'}</span>
    </button>
  );
}

// How old what is shown is, and whether it still moves.
function Freshness() {
  const { at, error } = freshness.use();
  const isPaused = paused.use();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const age = at === 0 ? null : Math.max(0, Math.round((now - at) / 1000));
  const tone = error
    ? 'bad'
    : isPaused
      ? 'idle'
      : age !== null && age > kStaleAfterS
        ? 'warn'
        : 'ok';
  const text =
    age === null ? (error ? 'no data' : 'loading') : age < 2 ? 'just now' : `${duration(age)} ago`;
  return (
    <div class="fresh">
      <span
        class={`dot ${tone}`}
        title={error ? error.message : 'When the shown data was loaded'}
        role="status"
      >
        <i aria-hidden="true" />
        {isPaused ? `paused, ${text}` : text}
      </span>
      <button
        type="button"
        class="icon"
        aria-pressed={isPaused}
        title={isPaused ? 'Resume refreshing (p)' : 'Pause refreshing (p)'}
        onClick={() => {
          paused.set(!isPaused);
          if (isPaused) refreshNow();
        }}
      >
        {isPaused ? '▶' : '❚❚'}
      </button>
    </div>
  );
}

// Data that could not be renewed is still shown, but says so.
function StaleBanner() {
  const { at, error } = freshness.use();
  if (!error || at === 0) return null;
  return (
    <div class="banner" role="alert">
      <b>Not renewed since {moment(at)}:</b> {error.message}. The numbers below are from then;
      asking again every 10 s.
    </div>
  );
}

function KeysDialog() {
  const open = keysOpen.use();
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) ref.current?.showModal();
    else ref.current?.close();
  }, [open]);
  const keys = [
    ['/', 'search'],
    ['g f', 'Fleet'],
    ['g d', 'Today'],
    ['g w', 'Workflows'],
    ['g u', 'Usage'],
    ['g j', 'Jobs'],
    ['g t', 'Targets'],
    ['g a', 'Alerts'],
    ['[  ]', 'window earlier, later'],
    ['p', 'pause or resume refreshing'],
    ['d', 'light or dark'],
    ['?', 'this list'],
    ['Esc', 'close'],
  ];
  return (
    <dialog ref={ref} class="keys" onClose={() => keysOpen.set(false)} aria-label="Keyboard">
      <h3>Keyboard</h3>
      <dl>
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(/ +/).map((k) => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="note">
        Drag over a chart to look closer; double-click to go back to the usual window. The name of a
        metric explains it.
      </p>
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}

// Moves the window by half its length.
function shiftWindow(direction: -1 | 1): void {
  const { from, to } = windowOf(route.value.query);
  const start = absolute(from, new Date(Date.now() - 3_600_000)).getTime();
  const end = to === '' ? Date.now() : absolute(to, new Date()).getTime();
  const by = ((end - start) / 2) * direction;
  const iso = (t: number) =>
    new Date(Math.round(t / 60_000) * 60_000).toISOString().replace('.000Z', 'Z');
  if (end + by >= Date.now())
    navigate(withQuery({ from: `-${Math.round((end - start) / 60_000)}m`, to: null }));
  else navigate(withQuery({ from: iso(start + by), to: iso(end + by) }));
}

function startKeys(): void {
  let prefix = 0; // when "g" was pressed
  addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) ||
      document.querySelector('dialog[open]')
    )
      return;
    const going = Date.now() - prefix < 1200;
    prefix = 0;
    if (going) {
      const page = {
        f: '/',
        d: '/today',
        w: '/workflows',
        u: '/usage',
        j: '/jobs',
        t: '/targets',
        a: '/alerts',
      }[event.key];
      if (page) navigate(link(page));
      return;
    }
    switch (event.key) {
      case 'g':
        prefix = Date.now();
        return;
      case '/': {
        event.preventDefault();
        const focus = () => document.querySelector<HTMLInputElement>('[data-search]')?.focus();
        if (!document.querySelector('[data-search]')) {
          navigate(link('/jobs'));
          requestAnimationFrame(() => requestAnimationFrame(focus));
        } else focus();
        return;
      }
      case 'd':
        return toggleTheme();
      case 'p':
        paused.set(!paused.value);
        if (!paused.value) refreshNow();
        return;
      case '[':
        return shiftWindow(-1);
      case ']':
        return shiftWindow(1);
      case '?':
        return keysOpen.set(true);
    }
  });
}

function Page() {
  const { page, key } = route.use();
  useEffect(() => {
    const titles = {
      fleet: 'Fleet',
      today: 'Today',
      workflows: 'Workflows',
      compare: 'Compare',
      usage: 'Usage',
      hosts: 'Hosts',
      jobs: 'Jobs',
      job: `Job ${key}`,
      gpus: 'GPUs',
      gpu: `GPU ${key}`,
      targets: 'Targets',
      alerts: 'Alerts',
      alert: 'Alert',
      silences: 'Silences',
      missing: 'Not found',
    };
    document.title = `${titles[page]} · flopwatch`;
    freshness.set({ at: 0, error: null });
    shownWindow.set(null);
  }, [page, key]);
  switch (page) {
    case 'fleet':
      return <FleetPage />;
    case 'today':
      return <TodayPage />;
    case 'workflows':
      return <WorkflowsPage />;
    case 'compare':
      return <ComparePage />;
    case 'usage':
      return <UsagePage />;
    case 'hosts':
      return <HostsPage />;
    case 'gpus':
      return <GpusPage />;
    case 'jobs':
      return <JobsPage />;
    case 'job':
      return <JobPage key={key} job={key} />;
    case 'gpu':
      return <GpuPage key={key} gpu={key} />;
    case 'targets':
      return <TargetsPage />;
    case 'alerts':
      return <AlertsPage />;
    case 'alert':
      return <AlertPage key={key} id={key} />;
    case 'silences':
      return <SilencesPage />;
    default:
      return (
        <Empty title="There is no such page">
          <p>
            <code>{key}</code> is not a page. Go to <a href={link('/')}>Fleet</a>,{' '}
            <a href={link('/jobs')}>Jobs</a> or <a href={link('/targets')}>Targets</a>.
          </p>
        </Empty>
      );
  }
}

// Of the pages whose own first line is no heading.
const headings: Record<string, string> = {
  fleet: 'Fleet',
  today: 'Today',
  workflows: 'Workflows',
  compare: 'Compare',
  usage: 'Usage',
  hosts: 'Hosts',
  jobs: 'Jobs',
  gpus: 'GPUs',
  targets: 'Targets',
  alerts: 'Alerts',
  silences: 'Silences',
};

// What they show is of now, or of a time of its own.
const kWithoutWindow = ['targets', 'alerts', 'alert', 'silences'];

function App() {
  const { page } = route.use();
  const mode = theme.use();
  const tab = (path: string, label: ComponentChildren, active: boolean) => (
    <a href={link(path)} aria-current={active ? 'page' : undefined}>
      {label}
    </a>
  );
  return (
    <>
      <header class="top">
        <a class="brand" href={link('/')}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M2 13V8h3v5zm4.5 0V3h3v10zM11 13V6h3v7z" />
          </svg>
          flopwatch
        </a>
        <nav aria-label="Pages">
          {tab('/', 'Fleet', page === 'fleet' || page === 'hosts' || page === 'gpus')}
          {tab('/today', 'Today', page === 'today')}
          {tab('/workflows', 'Workflows', page === 'workflows' || page === 'compare')}
          {tab('/usage', 'Usage', page === 'usage')}
          {tab('/jobs', 'Jobs', page === 'jobs' || page === 'job')}
          {tab('/targets', 'Targets', page === 'targets')}
          {tab(
            '/alerts',
            <>
              Alerts
              <AlertCount />
            </>,
            /^(alerts?|silences)$/.test(page),
          )}
        </nav>
        <div class="top-right">
          {!kWithoutWindow.includes(page) && <WindowPicker />}
          {!kWithoutWindow.includes(page) && <CopyLink />}
          <Freshness />
          <button
            type="button"
            class="icon"
            title="Light or dark (d)"
            aria-label="Light or dark"
            onClick={toggleTheme}
          >
            {mode === 'dark' ? '☀' : '☾'}
          </button>
          <button
            type="button"
            class="icon"
            title="Keyboard (?)"
            aria-label="Keyboard"
            onClick={() => keysOpen.set(true)}
          >
            ?
          </button>
        </div>
      </header>
      <main>
        {page in headings && <h1 class="sr">{headings[page]}</h1>}
        <StaleBanner />
        <Page />
      </main>
      <footer>
        <span>Times in {Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time'}</span>
        <span>
          <a href="/openapi.json">API</a> · <a href="/metrics">Metrics</a>
        </span>
      </footer>
      <HelpPopover />
      <KeysDialog />
    </>
  );
}

startTheme();
startRouting();
startRefreshing();
startReasons();
startKeys();
render(<App />, document.getElementById('app') as HTMLElement);
