// Workflows: what got worse, where that began and what the counters show; and how each went on.
import { apiUrl, Column, Regression, Regressions, UsageBy, UsageGroup } from '../api';
import { count, gpuHours, moment, percent, signed } from '../format';
import { useApi } from '../live';
import { absolute, jobPath, link, route, windowOf } from '../route';
import {
  CsvButton,
  Empty,
  Name,
  Ofu,
  Section,
  Table,
  TableColumn,
  Value,
  Waiting,
  When,
} from '../ui';
import { WindowNote } from '../usage';

const kRows = 50;
const kMaxPoints = 60;
const kHourMs = 3_600_000;

const columns: TableColumn<Regression>[] = [
  {
    id: 'workflow',
    name: 'Workflow',
    text: true,
    show: (r) => (
      <a href={link('/jobs', { workflow: r.workflow })}>{r.workflow ?? 'without a name'}</a>
    ),
  },
  {
    id: 'run',
    name: 'Since run',
    text: true,
    show: (r) => <a href={link(jobPath(r.run))}>{r.run}</a>,
  },
  { id: 'from', name: 'From', minor: true, show: (r) => <When time={r.from} /> },
  {
    id: 'change',
    name: 'Change',
    show: (r) => `${signed(r.change, percent)} of ${r.metric === 'ofu' ? 'OFU' : 'duty'}`,
  },
  { id: 'cause', name: 'Cause', text: true, show: (r) => r.cause.replaceAll('_', ' ') },
  { id: 'lost', name: 'Lost GPU-h', show: (r) => gpuHours(r.lost_gpu_seconds) },
  { id: 'evidence', name: 'Evidence', text: true, wrap: true, show: (r) => r.evidence },
];

const csv = (found: Regressions) => ({
  header: [
    'kind',
    'workflow',
    'user',
    'run',
    'from',
    'metric',
    'before',
    'after',
    'change',
    'scatter',
    'confidence',
    'cause',
    'lost_gpu_seconds',
    'evidence',
  ],
  rows: found.rows.map((r) => [
    r.kind,
    r.workflow,
    r.user,
    r.run,
    r.from,
    r.metric,
    r.before,
    r.after,
    r.change,
    r.scatter,
    r.confidence,
    r.cause,
    r.lost_gpu_seconds,
    r.evidence,
  ]),
});

function Judged({ found }: { found: Regressions }) {
  const { too_few_runs, not_measured } = found.without_verdict;
  return (
    <p class="note">
      {count(found.workflows_judged)} of {count(found.workflows)} workflows were judged by{' '}
      {count(found.runs_judged)} runs
      {too_few_runs > 0 && `; ${count(too_few_runs)} have fewer than five runs before any`}
      {not_measured > 0 && `; of ${count(not_measured)} too few runs have a known OFU`}
      {found.jobs_without_workflow > 0 &&
        `; ${count(found.jobs_without_workflow)} jobs belong to no workflow`}
      .
    </p>
  );
}

function GotWorse({ from, to }: { from: string; to: string }) {
  const found = useApi<Regressions>(apiUrl('regressions', { from, to, limit: kRows }), {
    main: true,
    fixed: true,
  });
  return (
    <Section
      title="What changed"
      actions={
        found.data && (
          <>
            <a href={link('/compare')}>Compare two runs</a>
            <span class="note">
              {moment(found.data.window.from)} – {moment(found.data.window.to)}
            </span>
            <CsvButton file="regressions.csv" make={() => csv(found.data as Regressions)} />
          </>
        )
      }
    >
      <Waiting loaded={found} height={300}>
        {(data) =>
          data.rows_total === 0 ? (
            <Empty title="No workflow changed">
              <Judged found={data} />
            </Empty>
          ) : (
            <>
              <Judged found={data} />
              <Table
                label="Changes"
                columns={columns}
                rows={data.rows}
                rowKey={(r) => `${r.workflow} ${r.run} ${r.metric} ${r.job} ${r.from}`}
              />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}

// A line from 0 to the largest value; a gap stays a gap.
function Spark({ values, label }: { values: Column; label: string }) {
  const known = values.filter((v): v is number => v !== null);
  if (known.length < 2) return <Value value={null} text="" why="not known in two steps" />;
  const width = 160;
  const height = 28;
  const top = Math.max(...known, 1e-9);
  const x = (i: number) => (i / Math.max(1, values.length - 1)) * (width - 4) + 2;
  const y = (v: number) => height - 2 - (v / top) * (height - 4);
  let path = '';
  values.forEach((v, i) => {
    if (v === null) return;
    const goes = i > 0 && values[i - 1] !== null;
    path += `${goes ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    if (!goes && (i + 1 >= values.length || values[i + 1] === null)) path += 'h1';
  });
  return (
    <svg class="spark" width={width} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      <path d={path} />
    </svg>
  );
}

const workflowColumns: TableColumn<UsageGroup>[] = [
  {
    id: 'name',
    name: 'Workflow',
    text: true,
    show: (g) =>
      g.name === null ? (
        <Value value={null} text="" why="nobody names the workflow of this time" />
      ) : (
        <a href={link('/jobs', { workflow: g.name })}>{g.name}</a>
      ),
  },
  { id: 'runs', name: 'Runs', show: (g) => count(g.jobs) },
  { id: 'gpu_hours', name: <Name id="gpu_hours" />, show: (g) => gpuHours(g.gpu_seconds) },
  {
    id: 'ofu',
    name: (
      <>
        <Name id="ofu" /> %
      </>
    ),
    show: (g) => <Ofu value={g.ofu} why={g.ofu_reason ?? 'not computable'} />,
  },
  {
    id: 'line',
    name: 'OFU over time',
    show: (g) => (
      <Spark
        values={g.points?.ofu ?? []}
        label={`OFU of ${g.name ?? 'jobs without a workflow'} over time, now ${percent(g.ofu)}`}
      />
    ),
  },
  {
    id: 'lost',
    name: <Name id="lost" />,
    show: (g) => (
      <Value
        value={g.lost_gpu_seconds}
        text={gpuHours(g.lost_gpu_seconds)}
        why={g.ofu_reason ?? 'not computable'}
      />
    ),
  },
];

function Lines({ from, to }: { from: string; to: string }) {
  const end = to === '' ? Date.now() : absolute(to, new Date()).getTime();
  const start = absolute(from, new Date(end - 6 * kHourMs)).getTime();
  const hours = Math.max(1, Math.ceil((end - start) / kHourMs / kMaxPoints));
  const usage = useApi<UsageBy>(
    apiUrl('usage', { from, to, by: 'workflow', step: `${hours}h`, limit: kRows }),
    { fixed: true },
  );
  return (
    <Section title="Workflows" actions={usage.data && <WindowNote window={usage.data.window} />}>
      <Waiting loaded={usage} height={500}>
        {(data) =>
          data.rows_total === 0 ? (
            <Empty title="No job held a GPU in this window" />
          ) : (
            <>
              {data.rows_total > kRows && (
                <p class="note">
                  The {kRows} largest of {count(data.rows_total)}; the others are in{' '}
                  <a href={link('/usage', { by: 'workflow' })}>Usage</a>.
                </p>
              )}
              <Table
                label="Workflows"
                columns={workflowColumns}
                rows={data.rows}
                rowKey={(g) => g.name ?? ''}
              />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}

export function WorkflowsPage() {
  const { query } = route.use();
  const { from, to } = windowOf(query);
  // Runs to compare with take longer than a morning: two weeks unless a window was chosen.
  const asked = query.get('from') === null ? '-14d' : from;
  return (
    <>
      <GotWorse from={asked} to={to} />
      <Lines from={asked} to={to} />
    </>
  );
}
