// What pages with alerts have in common: an alert's row, its marks, how many fire, and the form of
// a silence.
import { useState } from 'preact/hooks';
import { Alert, Alerts, ApiError, apiUrl, JobMark, postJson, Severity, Silence } from './api';
import { count, duration, fixed, localInput, percent, unit } from './format';
import { refreshNow, useApi } from './live';
import { alertPath, jobPath, link } from './route';
import { Dot, Section, Table, TableColumn, Value, When } from './ui';

const kTones = { page: 'bad', ticket: 'warn', note: 'idle' } as const;

export const SeverityMark = ({ severity }: { severity: Severity }) => (
  <Dot tone={kTones[severity]}>{severity}</Dot>
);

export function Names({
  names,
  most,
  to,
  shown = (name) => name,
}: {
  names: string[];
  most: number;
  to?: (name: string) => string;
  shown?: (name: string) => string;
}) {
  return (
    <>
      {names.slice(0, most).map((name, k) => (
        <>
          {k > 0 && ', '}
          {to ? (
            <a href={to(name)} title={name}>
              {shown(name)}
            </a>
          ) : (
            shown(name)
          )}
        </>
      ))}
      {names.length > most && `, and ${count(names.length - most)} more`}
    </>
  );
}
export const nodeLink = (node: string): string => link('/gpus', { node });

const kShownNodes = 2;

export const alertColumns: TableColumn<Alert>[] = [
  {
    id: 'severity',
    name: 'Severity',
    text: true,
    show: (a) => <SeverityMark severity={a.severity} />,
  },
  {
    id: 'summary',
    name: 'What',
    text: true,
    wrap: true,
    show: (a) => <a href={link(alertPath(a.id))}>{a.summary}</a>,
  },
  { id: 'rule', name: 'Rule', text: true, minor: true, show: (a) => a.rule },
  {
    id: 'job',
    name: 'Job',
    text: true,
    minor: true,
    show: ({ subject: { job, jobs } }) =>
      job === null && jobs.length > kShownNodes ? (
        <span title={jobs.join(', ')}>{count(jobs.length)} jobs</span>
      ) : job === null && jobs.length > 0 ? (
        <Names names={jobs} most={kShownNodes} to={(name) => link(jobPath(name))} />
      ) : job === null ? (
        <Value value={null} text="" why="it is of no job" />
      ) : (
        <a href={link(jobPath(job))}>{job}</a>
      ),
  },
  {
    id: 'nodes',
    name: 'Nodes',
    text: true,
    minor: true,
    show: ({ subject: { nodes } }) =>
      nodes.length > kShownNodes ? (
        <span title={nodes.join(', ')}>{count(nodes.length)} nodes</span>
      ) : nodes.length === 0 ? (
        <Value value={null} text="" why="it is of no node" />
      ) : (
        <Names names={nodes} most={kShownNodes} to={nodeLink} />
      ),
  },
  { id: 'since', name: 'Since', text: true, show: (a) => <When time={a.since} /> },
  {
    id: 'told',
    name: 'Told',
    text: true,
    minor: true,
    show: (a) =>
      a.silenced_by ? 'silenced' : a.inhibited_by ? 'behind another' : (a.owner ?? 'yes'),
  },
];

// Beside the name of the page: how many fire, and the most severe of them.
export function AlertCount() {
  const { data, error } = useApi<Alerts>(apiUrl('alerts', { limit: 1 }));
  if (!data || error || data.total === 0) return null;
  return (
    <span class={`badge ${kTones[data.alerts[0].severity]}`}>
      {count(data.total)} <span class="sr">fire</span>
    </span>
  );
}

// Those of one job: what fires, and what may.
export function JobAlerts({ job }: { job: string }) {
  const asked = (state: string) => apiUrl('alerts', { state, job, limit: 20 });
  const firing = useApi<Alerts>(asked('open'));
  const pending = useApi<Alerts>(asked('pending'));
  const rows = [...(firing.data?.alerts ?? []), ...(pending.data?.alerts ?? [])];
  if (rows.length === 0) return null;
  const state: TableColumn<Alert> = {
    id: 'state',
    name: 'State',
    text: true,
    show: (a) => a.state,
  };
  const own = alertColumns.filter((c) => c.id !== 'job');
  return (
    <Section title={`Alerts of this job (${count(firing.data?.total ?? 0)} fire)`}>
      <Table
        label="Alerts of this job"
        columns={[own[0], state, ...own.slice(1)]}
        rows={rows}
        rowKey={(a) => a.state + a.id}
      />
    </Section>
  );
}

// What somebody, mostly a recovery service, did to a job because of its alerts.
export function JobMarks({ marks }: { marks: JobMark[] }) {
  if (marks.length === 0) return null;
  return (
    <Section title="Restarts and drains">
      <ol class="history">
        {marks.map((m) => (
          <li key={m.ts + m.alert}>
            <When time={m.ts} />{' '}
            <span>
              {m.did} by {m.by}: {m.text} (<a href={link(alertPath(m.alert))}>its alert</a>)
            </span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

// A value as people read it, by the unit of its quantity.
export function inUnit(value: number | null, name: string | null): string {
  if (name === 'ratio') return percent(value);
  if (name === 's') return duration(value);
  if (name === 'degC') return unit(value, 1, '°C');
  if (value !== null && name === 'bits') return `0x${value.toString(16)}`;
  if (name === null || /^(1|code|GPUs)$/.test(name))
    return fixed(value, value !== null && value % 1 !== 0 ? 2 : 0);
  return unit(value, 0, name);
}

// --- silences ---

const kOwner = 'flopwatch-owner';
const kUsualHours = 4;
const kept = (): string => {
  try {
    return localStorage.getItem(kOwner) ?? '';
  } catch {
    return ''; // storage is switched off
  }
};

// `matchers`: what is offered to be silenced, one a line.
export function SilenceForm({ matchers }: { matchers: string }) {
  const [said, setSaid] = useState<{ silence?: Silence; error?: string }>({});
  const send = async (form: HTMLFormElement) => {
    const of = (name: string) => String(new FormData(form).get(name) ?? '').trim();
    try {
      const silence = await postJson<Silence>(apiUrl('silences'), {
        matchers: of('matchers')
          .split('\n')
          .map((line) => line.trim())
          .filter(Boolean),
        owner: of('owner'),
        comment: of('comment'),
        weekly: of('weekly'),
        until: new Date(of('until')).toISOString(),
      });
      setSaid({ silence });
      try {
        localStorage.setItem(kOwner, of('owner'));
      } catch {
        // It is asked for again.
      }
      refreshNow();
    } catch (e) {
      setSaid({ error: e instanceof ApiError ? e.message : String(e) });
    }
  };
  return (
    <form
      class="fields"
      aria-label="New silence"
      onSubmit={(e) => {
        e.preventDefault();
        void send(e.currentTarget);
      }}
    >
      <label class="wide">
        Alerts, one LABEL=PATTERN a line; all must match
        <textarea
          name="matchers"
          rows={2}
          required
          placeholder="rule=gpu_idle_held"
          defaultValue={matchers}
        />
      </label>
      <label>
        Owner: who is asked about it
        <input type="text" name="owner" required maxLength={200} defaultValue={kept()} />
      </label>
      <label>
        Until
        <input
          type="datetime-local"
          name="until"
          required
          defaultValue={localInput(new Date(Date.now() + kUsualHours * 3_600_000))}
        />
      </label>
      <label>
        Only at these times of the week, UTC (may be empty)
        <input type="text" name="weekly" placeholder="Sat 22:00-Sun 06:00" />
      </label>
      <label>
        Reason
        <input type="text" name="comment" maxLength={2000} />
      </label>
      <button type="submit">Silence</button>
      {said.silence && (
        <p role="status">
          Nobody is told until <When time={said.silence.until} /> (
          <a href={link('/silences')}>all silences</a>).
        </p>
      )}
      {said.error && (
        <p role="alert" class="wrong">
          {said.error}
        </p>
      )}
    </form>
  );
}
