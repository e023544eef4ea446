// One alert: whom it is of, what it was decided on, what to do, and what happened to it.
import { ComponentChildren } from 'preact';
import { AlertChart, Scope, timesOfAlert } from '../alert_chart';
import { inUnit, Names, nodeLink, SeverityMark, SilenceForm } from '../alerts';
import { Alert, AlertRules, apiUrl } from '../api';
import { duration, shortUuid } from '../format';
import { useApi } from '../live';
import { alertPath, gpuPath, jobPath, link, route } from '../route';
import { Absent, Dot, Section, Table, TableColumn, Tile, Waiting, When } from '../ui';

type Evidence = Alert['evidence'][number];
const kShownNames = 16;
const states = { firing: 'warn', pending: 'idle', resolved: 'ok' } as const;

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return children === null ? null : (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Subject({ alert: { subject: s, ...a } }: { alert: Alert }) {
  const some = (
    names: string[],
    to?: (name: string) => string,
    shown?: (name: string) => string,
  ) =>
    names.length === 0 ? null : (
      <Names names={names} most={kShownNames} to={to} shown={shown} />
    );
  return (
    <dl class="facts">
      <Fact name="Job">{s.job && <a href={link(jobPath(s.job))}>{s.job}</a>}</Fact>
      {!s.job && <Fact name="Jobs">{some(s.jobs, (job) => link(jobPath(job)))}</Fact>}
      <Fact name="User">{s.user && <a href={link('/jobs', { user: s.user })}>{s.user}</a>}</Fact>
      <Fact name="Workflow">{s.workflow}</Fact>
      <Fact name="Account">{s.account}</Fact>
      <Fact name="Cluster">{s.cluster}</Fact>
      <Fact name="Partition">{s.partition}</Fact>
      <Fact name={s.nodes.length === 1 ? 'Node' : 'Nodes'}>{some(s.nodes, nodeLink)}</Fact>
      <Fact name="Racks">{some(s.racks)}</Fact>
      <Fact name="Ranks">{some(s.ranks.map(String))}</Fact>
      <Fact name={s.gpus.length === 1 ? 'GPU' : 'GPUs'}>
        {some(s.gpus, (gpu) => link(gpuPath(gpu)), shortUuid)}
      </Fact>
      <Fact name="For">{a.owner === 'user' ? 'whoever runs the job' : a.owner}</Fact>
    </dl>
  );
}

// Who is told, and why nobody is.
function Told({ alert }: { alert: Alert }) {
  if (alert.silenced_by)
    return (
      <p>
        <Dot tone="idle">Silenced</Dot> by <a href={link('/silences')}>{alert.silenced_by}</a>.
      </p>
    );
  if (alert.inhibited_by)
    return (
      <p>
        <Dot tone="idle">Not told</Dot>: it is behind{' '}
        <a href={link(alertPath(alert.inhibited_by))}>another alert</a> of the same node or job.
      </p>
    );
  return null;
}

const evidenceColumns = (rules: AlertRules | null, scope: Scope): TableColumn<Evidence>[] => [
  { id: 'quantity', name: 'Quantity', text: true, show: (e) => <code>{e.quantity}</code> },
  {
    id: 'value',
    name: 'Value',
    show: (e) => (e.value === null ? <Absent why="not known then" /> : inUnit(e.value, e.unit)),
  },
  {
    id: 'help',
    name: 'What it is',
    text: true,
    wrap: true,
    show: (e) =>
      rules?.quantities.find((q) => q.scope === scope && q.name === e.quantity)?.help ?? '',
  },
];

// The condition, its numbers, and for how long it must hold.
function Decided({
  alert,
  rules,
  scope,
}: {
  alert: Alert;
  rules: AlertRules | null;
  scope: Scope;
}) {
  const rule = rules?.rules.find((r) => r.rule === alert.rule);
  return (
    <Section title="What it was decided on">
      <p>
        <code>{alert.condition}</code>
      </p>
      <p class="note">
        {alert.for_s > 0 ? `for ${duration(alert.for_s)} without a break` : 'at once'}
        {rule &&
          `; resolved when it has not held for ${duration(rule.keep_firing_s)}` +
            `, or was not known for ${duration(rule.keep_unknown_s)}`}
        {alert.source && `. After: ${alert.source}`}
      </p>
      {alert.subject.gpus.length > 1 && (
        <p class="note">The numbers are of the first of its GPUs that fired.</p>
      )}
      <Table
        label="Evidence"
        columns={evidenceColumns(rules, scope)}
        rows={alert.evidence}
        rowKey={(e) => e.quantity}
      />
    </Section>
  );
}

function History({ alert }: { alert: Alert }) {
  const all = [
    { ts: alert.since, text: 'the condition begins to hold' },
    ...alert.history,
    ...alert.notes,
  ].sort((a, b) => Date.parse(a.ts) - Date.parse(b.ts));
  return (
    <Section title="What happened">
      <ol class="history">
        {all.map((h) => (
          <li key={h.ts + h.text}>
            <When time={h.ts} /> <span>{h.text}</span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

// What may be silenced of it, the narrowest first.
function matchersOf({ id, rule, subject: { job, nodes } }: Alert): string {
  if (job) return `rule=${rule}\njob=${job}`;
  return nodes.length === 1 ? `rule=${rule}\nnode=${nodes[0]}` : `id=${id}`;
}

function guessScope({ subject: s }: Alert): Scope {
  return s.gpus.length > 0 ? 'gpu' : s.job ? 'job' : s.nodes.length > 0 ? 'node' : 'fleet';
}

function Whole({ alert }: { alert: Alert }) {
  const { query } = route.use();
  const rules = useApi<AlertRules>(apiUrl('alerts/rules'), { fixed: true });
  const scope = rules.data?.rules.find((r) => r.rule === alert.rule)?.scope ?? guessScope(alert);
  return (
    <>
      <div class="card job">
        <header class="job-header">
          <h1>{alert.summary}</h1>
          <p class="marks">
            <SeverityMark severity={alert.severity} />
            <Dot tone={states[alert.state]}>{alert.state}</Dot>
            <span>
              {alert.rule}, since <When time={alert.since} />
              {alert.until && (
                <>
                  {' '}
                  until <When time={alert.until} /> ({alert.ended})
                </>
              )}
            </span>
          </p>
          <Subject alert={alert} />
        </header>
        <div class="tiles">
          <Tile name={alert.value_of ?? 'value'}>
            {alert.value === null ? (
              <Absent why="the rule names no value" />
            ) : (
              inUnit(alert.value, alert.value_unit)
            )}
          </Tile>
          <Tile name="threshold">
            {alert.threshold === null ? (
              <Absent why="the rule names none: its condition is below" />
            ) : (
              inUnit(alert.threshold, alert.value_unit)
            )}
          </Tile>
          <Tile name={alert.until ? 'lasted' : 'lasts'}>
            {duration(
              ((alert.until ? Date.parse(alert.until) : Date.now()) - Date.parse(alert.since)) /
                1000,
            )}
          </Tile>
        </div>
        {alert.action && (
          <p class="verdict">
            <b>What to do.</b> {alert.action}
          </p>
        )}
        <Told alert={alert} />
      </div>
      <Section title="Over time">
        <AlertChart alert={alert} scope={scope} window={timesOfAlert(alert, query)} />
      </Section>
      <Decided alert={alert} rules={rules.data} scope={scope} />
      <History alert={alert} />
      {alert.state !== 'resolved' && (
        <Section title="Silence" id="silence">
          <SilenceForm matchers={matchersOf(alert)} />
        </Section>
      )}
    </>
  );
}

export function AlertPage({ id }: { id: string }) {
  const loaded = useApi<Alert>(apiUrl(`alerts/${encodeURIComponent(id)}`), { main: true });
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={link('/alerts')}>Alerts</a> / <span>{id}</span>
      </nav>
      <Waiting loaded={loaded} height={640}>
        {(alert) => <Whole alert={alert} />}
      </Waiting>
    </>
  );
}
