// Today: the ten actions that bring most, and below them all that is held idle and all that holds
// jobs back.
import { Actions } from '../advice';
import { Advice, apiUrl, Idle, IdleRow, Straggler, Stragglers } from '../api';
import { count, gpuHours, money, percent, shortUuid } from '../format';
import { useApi } from '../live';
import { gpuPath, jobPath, link, route, windowOf } from '../route';
import { CsvButton, Empty, Section, Table, TableColumn, Value, Waiting, When } from '../ui';
import { WindowNote } from '../usage';

const kRows = 20;

const idleColumns = (currency: string | null): TableColumn<IdleRow>[] => [
  {
    id: 'job',
    name: 'Job',
    text: true,
    show: (r) => <a href={link(jobPath(r.job))}>{r.job}</a>,
  },
  {
    id: 'user',
    name: 'User',
    text: true,
    show: (r) => <Value value={r.user} text={r.user ?? ''} why="nobody names a user" />,
  },
  { id: 'state', name: 'State', text: true, show: (r) => r.state.replaceAll('_', ' ') },
  { id: 'gpu_hours', name: 'GPU-h', show: (r) => gpuHours(r.gpu_seconds) },
  {
    id: 'money',
    name: 'Money',
    minor: true,
    show: (r) => (
      <Value
        value={r.money}
        text={money(r.money, currency)}
        why="no price is known: [prices] (docs/usage.md)"
      />
    ),
  },
  { id: 'since', name: 'Since', minor: true, show: (r) => <When time={r.since} /> },
  {
    id: 'evidence',
    name: 'What the counters show',
    text: true,
    wrap: true,
    show: (r) => r.evidence,
  },
];

function IdleHeld({ from, to }: { from: string; to: string }) {
  const idle = useApi<Idle>(apiUrl('idle', { from, to, limit: kRows }), { fixed: true });
  return (
    <Section title="Held and not used">
      <Waiting loaded={idle} height={300}>
        {(data) =>
          data.rows_total === 0 ? (
            <Empty title="No job held a GPU idle">
              <p>
                Of {gpuHours(data.held_gpu_seconds)} GPU-hours held; samples speak for{' '}
                {percent(data.coverage)}.
              </p>
            </Empty>
          ) : (
            <>
              <p class="note">
                {gpuHours(data.gpu_seconds)} of {gpuHours(data.held_gpu_seconds)} GPU-hours held
                {data.rows_total > kRows && `; the ${kRows} largest of ${count(data.rows_total)}`}
              </p>
              <Table
                label="GPU time held and not used"
                columns={idleColumns(data.currency)}
                rows={data.rows}
                rowKey={(r) => `${r.job} ${r.state}`}
              />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}

const stragglerColumns: TableColumn<Straggler>[] = [
  {
    id: 'job',
    name: 'Job',
    text: true,
    show: (r) => <a href={link(jobPath(r.job))}>{r.job}</a>,
  },
  {
    id: 'gpu',
    name: 'GPU',
    text: true,
    show: (r) =>
      r.gpu === null ? (
        'every one of its node'
      ) : (
        <a href={link(gpuPath(r.gpu))} title={r.gpu}>
          {shortUuid(r.gpu)}
        </a>
      ),
  },
  {
    id: 'node',
    name: 'Node',
    text: true,
    show: (r) => <Value value={r.node} text={r.node ?? ''} why="no label names a host" />,
  },
  { id: 'kind', name: 'Kind', text: true, show: (r) => r.kind.replaceAll('_', ' ') },
  {
    id: 'deficit',
    name: 'Slower by',
    show: (r) => <Value value={r.deficit} text={percent(r.deficit)} why={r.deficit_reason} />,
  },
  { id: 'seen', name: 'In jobs', minor: true, show: (r) => count(r.seen_in_jobs) },
  {
    id: 'evidence',
    name: 'What the counters show',
    text: true,
    wrap: true,
    show: (r) => r.evidence.map((e) => e.text).join(', '),
  },
];

function HoldingBack({ from, to }: { from: string; to: string }) {
  const found = useApi<Stragglers>(apiUrl('stragglers', { from, to, limit: kRows }), {
    fixed: true,
  });
  return (
    <Section title="Holding their jobs back">
      <Waiting loaded={found} height={200}>
        {(data) =>
          data.rows_total === 0 ? (
            <Empty title="No GPU holds its job back">
              <p>
                {count(data.jobs_judged)} synchronous jobs on {count(data.gpus_judged)} GPUs were
                judged.
              </p>
            </Empty>
          ) : (
            <>
              <p class="note">
                {count(data.rows_total)} among {count(data.gpus_judged)} GPUs of{' '}
                {count(data.jobs_judged)} synchronous jobs
              </p>
              <Table
                label="Stragglers"
                columns={stragglerColumns}
                rows={data.rows}
                rowKey={(r) => `${r.job} ${r.gpu} ${r.node}`}
              />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}

const csv = (advice: Advice) => ({
  header: ['action', 'cause', 'subject', 'gpu_seconds', 'money', 'currency', 'basis', 'evidence'],
  rows: advice.actions.map((a) => [
    a.action,
    a.cause,
    a.subject,
    a.gpu_seconds,
    a.money,
    advice.currency,
    a.basis,
    a.evidence.join('; '),
  ]),
});

export function TodayPage() {
  const { query } = route.use();
  const { from, to } = windowOf(query);
  // Raw rows are read for it: asked once, not every ten seconds.
  const advice = useApi<Advice>(apiUrl('advise', { from, to }), { main: true, fixed: true });
  return (
    <>
    <Section
      title="What to do first"
      actions={
        advice.data && (
          <>
            <WindowNote window={advice.data.window} />
            <CsvButton file="actions.csv" make={() => csv(advice.data as Advice)} />
          </>
        )
      }
    >
      <Waiting loaded={advice} height={600}>
        {(data) => (
          <>
            <p class="note">
              Of {gpuHours(data.allocated_gpu_seconds)} GPU-hours that jobs held. What an action
              brings is what comparable runs reach, never 100 %; no GPU-second stands in two.
            </p>
            <Actions advice={data} />
            {data.notes.map((note) => (
              <p class="note" key={note}>
                {note}
              </p>
            ))}
          </>
        )}
      </Waiting>
    </Section>
    <IdleHeld from={from} to={to} />
    <HoldingBack from={from} to={to} />
    </>
  );
}
