// Alerts: what fires, what may, what did lately; and silences.
import { useState } from 'preact/hooks';
import { alertColumns, SilenceForm } from '../alerts';
import { Alert, Alerts, ApiError, apiUrl, postJson, Silence, Silences } from '../api';
import { count, duration } from '../format';
import { kPage, offsetOf } from '../list';
import { Loaded, refreshNow, useApi } from '../live';
import { link, navigate, route, withQuery } from '../route';
import { Dot, Empty, Pager, Section, Table, TableColumn, Value, Waiting, When } from '../ui';
import { SearchField } from './jobs';

const kFewest = 20; // of those that do not fire, while all states are shown
const kTitles = { open: 'Firing', pending: 'Pending', resolved: 'Resolved lately' } as const;
type State = keyof typeof kTitles;
const kSeverities = ['', 'page', 'ticket', 'note'];
const kFilters = { state: null, severity: null, job: null, node: null, offset: null };

// A part of a name is enough.
const like = (text: string | null): string | null =>
  text && !text.includes('*') ? `*${text}*` : text;

const isOff = (error: ApiError | null): boolean =>
  error?.status === 503 && error.message.includes('alerts.enabled');

function Off() {
  return (
    <Empty title="Alerts are switched off">
      <p>
        The server runs with <code>alerts.enabled = false</code>. Without that line it looks every
        15 s for what needs somebody (docs/alerts.md).
      </p>
    </Empty>
  );
}

// Why nothing fires.
function None({ state, data, filtered }: { state: State; data: Alerts; filtered: boolean }) {
  const { rounds, last_round, grace_until } = data.engine;
  if (filtered)
    return (
      <Empty title={`${kTitles[state]}: none that matches`}>
        <p>
          <a href={withQuery(kFilters)}>Take the filters away</a>.
        </p>
      </Empty>
    );
  if (state === 'pending') return <Empty title="No condition holds that does not fire yet" />;
  if (state === 'resolved') return <Empty title="Nothing was resolved" />;
  if (rounds === 0) return <Empty title="The rules were not asked yet" />;
  if (grace_until !== null && Date.parse(grace_until) > Date.now())
    return (
      <Empty title="Nothing fires yet: the server has just begun">
        <p>
          The first samples after a first start say as much of the start as of the fleet. Alerts
          fire from <When time={grace_until} /> on (<code>alerts.grace</code>).
        </p>
      </Empty>
    );
  return (
    <Empty title="Nothing fires">
      <p>
        {count(rounds)} rounds of the rules, the last at <When time={last_round} />.
      </p>
    </Empty>
  );
}

const until: TableColumn<Alert> = {
  id: 'until',
  name: 'Until',
  text: true,
  show: (a) => <When time={a.until} />,
};
const fires: TableColumn<Alert> = {
  id: 'fires',
  name: 'Would fire',
  text: true,
  show: (a) => <When time={new Date(Date.parse(a.since) + a.for_s * 1000).toISOString()} />,
};
const columnsOf: Record<State, TableColumn<Alert>[]> = {
  open: alertColumns,
  pending: [...alertColumns.slice(0, -1), fires],
  resolved: [...alertColumns.slice(0, -1), until],
};

function List({ state, loaded, alone }: { state: State; loaded: Loaded<Alerts>; alone: boolean }) {
  const { query } = route.use();
  const filtered = ['severity', 'job', 'node'].some((name) => query.get(name));
  const total = loaded.data?.total ?? 0;
  const shown = loaded.data?.alerts.length ?? 0;
  const troubled = state === 'open' ? (loaded.data?.engine.receivers ?? []) : [];
  return (
    <Section
      title={`${kTitles[state]}${loaded.data ? ` (${count(total)})` : ''}`}
      actions={
        !alone && shown < total && <a href={withQuery({ state, offset: null })}>All of them</a>
      }
    >
      {troubled
        .filter((r) => r.last_error !== null)
        .map((r) => (
          <p class="note" key={r.name}>
            <Dot tone="warn">receiver {r.name}</Dot> {r.last_error}; {count(r.queued)} wait
          </p>
        ))}
      {isOff(loaded.error) ? (
        <Off />
      ) : (
        <Waiting loaded={loaded} height={120}>
          {(data) =>
            data.alerts.length === 0 ? (
              <None state={state} data={data} filtered={filtered} />
            ) : (
              <>
                <Table
                  label={kTitles[state]}
                  columns={columnsOf[state]}
                  rows={data.alerts}
                  rowKey={(a) => a.id}
                />
                {alone && total > kPage && (
                  <Pager total={total} limit={kPage} offset={offsetOf(query)} what="alerts" />
                )}
              </>
            )
          }
        </Waiting>
      )}
    </Section>
  );
}

function Asked({ state, alone }: { state: State; alone: boolean }) {
  const { query } = route.use();
  const loaded = useApi<Alerts>(
    apiUrl('alerts', {
      state,
      severity: query.get('severity'),
      job: like(query.get('job')),
      node: like(query.get('node')),
      limit: alone || state === 'open' ? kPage : kFewest,
      offset: alone ? offsetOf(query) || null : null,
    }),
    { main: alone || state === 'open' },
  );
  // Switched off is said once.
  if (!alone && state !== 'open' && isOff(loaded.error)) return null;
  return <List state={state} loaded={loaded} alone={alone} />;
}

function Segments({ name, choices }: { name: string; choices: Record<string, string> }) {
  const value = route.use().query.get(name) ?? '';
  return (
    <span class="segments" role="group" aria-label={name}>
      {Object.entries(choices).map(([id, label]) => (
        <button
          key={id}
          type="button"
          aria-pressed={value === id}
          onClick={() => navigate(withQuery({ [name]: id, offset: null }))}
        >
          {label}
        </button>
      ))}
    </span>
  );
}

export function AlertsPage() {
  const { query } = route.use();
  const state = query.get('state') ?? '';
  const states = Object.keys(kTitles) as State[];
  const shown = states.filter((s) => state === '' || s === state);
  return (
    <>
      <div class="filters">
        <Segments
          name="state"
          choices={{ '': 'all', open: 'firing', pending: 'pending', resolved: 'resolved' }}
        />
        <Segments
          name="severity"
          choices={Object.fromEntries(kSeverities.map((s) => [s, s || 'all']))}
        />
        {['job', 'node'].map((name) => (
          <SearchField
            key={name}
            name={name}
            value={query.get(name) ?? ''}
            label={`Only of this ${name}`}
            placeholder={name}
          />
        ))}
        <a href={link('/silences')}>Silences</a>
      </div>
      {shown.map((s) => (
        <Asked key={s} state={s} alone={state !== ''} />
      ))}
    </>
  );
}

// --- silences ---

const inForce = (s: Silence) =>
  s.in_force ? (
    <Dot tone="ok">in force</Dot>
  ) : (
    <Dot tone="idle">{Date.parse(s.from) > Date.now() ? 'begins later' : 'waits for its time'}</Dot>
  );

const silenceColumns = (end: (s: Silence) => void): TableColumn<Silence>[] => [
  {
    id: 'matchers',
    name: 'Alerts with',
    text: true,
    wrap: true,
    show: (s) => s.matchers.map((m) => <code key={m}>{m}</code>),
  },
  { id: 'state', name: 'State', text: true, show: inForce },
  { id: 'holds', name: 'Holds now', show: (s) => count(s.holds) },
  { id: 'owner', name: 'Owner', text: true, show: (s) => s.owner },
  {
    id: 'until',
    name: 'Until',
    text: true,
    show: (s) => (
      <span title={`in ${duration((Date.parse(s.until) - Date.now()) / 1000)}`}>
        <When time={s.until} />
      </span>
    ),
  },
  {
    id: 'weekly',
    name: 'Weekly, UTC',
    text: true,
    minor: true,
    show: (s) => s.weekly ?? 'all the time',
  },
  {
    id: 'comment',
    name: 'Reason',
    text: true,
    minor: true,
    show: (s) => <Value value={s.comment} text={s.comment ?? ''} why="nobody wrote one" />,
  },
  {
    id: 'end',
    name: <span class="sr">End</span>,
    show: (s) => (
      <button
        type="button"
        class="quiet"
        aria-label={`End the silence of ${s.matchers.join(', ')}`}
        onClick={() => end(s)}
      >
        End
      </button>
    ),
  },
];

export function SilencesPage() {
  const loaded = useApi<Silences>(apiUrl('silences'), { main: true });
  const [wrong, setWrong] = useState('');
  const end = (s: Silence) =>
    postJson(apiUrl(`silences/${encodeURIComponent(s.id)}/end`), {})
      .then(
        () => setWrong(''),
        (e: Error) => setWrong(e.message),
      )
      .then(refreshNow);
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={link('/alerts')}>Alerts</a> / <span>Silences</span>
      </nav>
      <Section title="Silences">
        {wrong && (
          <p role="alert" class="wrong">
            {wrong}
          </p>
        )}
        {isOff(loaded.error) ? (
          <Off />
        ) : (
          <Waiting loaded={loaded} height={120}>
            {({ silences }) =>
              silences.length === 0 ? (
                <Empty title="Nothing is silenced" />
              ) : (
                <Table
                  label="Silences"
                  columns={silenceColumns(end)}
                  rows={silences}
                  rowKey={(s) => s.id}
                />
              )
            }
          </Waiting>
        )}
      </Section>
      {!isOff(loaded.error) && (
        <Section title="New silence">
          <SilenceForm matchers="" />
        </Section>
      )}
    </>
  );
}
