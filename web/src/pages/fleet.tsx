// The fleet: OFU now, over time, which jobs lose the most, which models there are, what could not
// be computed.
import { Actions } from '../advice';
import { Advice, apiUrl, Fleet, Job, Jobs, ModelUsage, Status } from '../api';
import { count, fixed, gpuHours, percent, percentNumber, shortModel, unit } from '../format';
import { NoJobs, NoSamples } from '../empty';
import { useApi } from '../live';
import { jobPath, link, route, windowOf } from '../route';
import { SankeySection } from '../sankey';
import {
  Absent,
  CsvButton,
  Empty,
  Name,
  Note,
  Ofu,
  Section,
  Table,
  TableColumn,
  Tile,
  Value,
  Waiting,
  whyNot,
} from '../ui';
import { FleetCharts, Headline, seriesCsv, WindowNote } from '../usage';

const kTopJobs = 10;

function StatusTiles({ status, fleet }: { status: Status | null; fleet: Fleet }) {
  const silent =
    status && status.gpus_reporting !== null ? status.gpus - status.gpus_reporting : null;
  return (
    <div class="tiles four">
      <Tile
        name="GPUs reporting"
        note={
          silent
            ? `${count(silent)} silent`
            : status?.mode === 'offline'
              ? 'offline: from the store'
              : `on ${count(status?.nodes)} nodes`
        }
      >
        <Value
          value={status?.gpus_reporting}
          text={`${count(status?.gpus_reporting)} / ${count(status?.gpus)}`}
          why={status ? 'no server is scraping' : 'not loaded yet'}
        />
      </Tile>
      <Tile name="Jobs running" note={<a href={link('/jobs', { running: 'true' })}>show them</a>}>
        {count(status?.jobs_running)}
      </Tile>
      <Tile name={<Name id="lost" />} note="in the window">
        <Value
          value={fleet.usage.ofu}
          text={gpuHours(fleet.usage.lost_gpu_seconds)}
          why={whyNot(fleet.usage)}
        />
      </Tile>
      <Tile name={<Name id="power" label="Power per GPU" />} note="mean in the window">
        <Value
          value={fleet.usage.power_w}
          text={unit(fleet.usage.power_w, 0, 'W')}
          why="the exporters do not report it"
        />
      </Tile>
    </div>
  );
}

const jobColumns: TableColumn<Job>[] = [
  {
    id: 'job',
    name: 'Job',
    text: true,
    show: (j) => (
      <>
        <a href={link(jobPath(j.job))}>{j.job}</a>
        {j.name && j.name !== j.job && !j.job.endsWith(`/${j.name}`) && (
          <span class="sub">{j.name}</span>
        )}
      </>
    ),
  },
  {
    id: 'user',
    name: 'User',
    text: true,
    minor: true,
    show: (j) => <Value value={j.user} text={j.user ?? ''} why="no label names a user" />,
  },
  { id: 'gpus', name: 'GPUs', minor: true, show: (j) => count(j.usage.gpus) },
  {
    id: 'gpu_hours',
    name: <Name id="gpu_hours" />,
    minor: true,
    show: (j) => gpuHours(j.usage.gpu_seconds),
  },
  {
    id: 'lost',
    name: <Name id="lost" />,
    show: (j) => (
      <Value value={j.usage.ofu} text={gpuHours(j.usage.lost_gpu_seconds)} why={whyNot(j.usage)} />
    ),
  },
  {
    id: 'ofu',
    name: (
      <>
        <Name id="ofu" /> %
      </>
    ),
    show: (j) => <Ofu value={j.usage.ofu} why={whyNot(j.usage)} />,
  },
  {
    id: 'flags',
    name: 'Notes',
    text: true,
    minor: true,
    show: (j) => <Note usage={j.usage} />,
  },
];

const kTopActions = 3;

// Raw rows are read for it: asked once, not every ten seconds.
function FirstActions({ from, to }: { from: string; to: string }) {
  const advice = useApi<Advice>(apiUrl('advise', { from, to }), { fixed: true });
  return (
    <Section title="What to do first" actions={<a href={link('/today')}>All actions</a>}>
      <Waiting loaded={advice} height={kTopActions * 56}>
        {(data) => (
          <>
            <Actions advice={data} most={kTopActions} brief />
            {data.notes.map((note) => (
              <p class="note" key={note}>
                {note}
              </p>
            ))}
          </>
        )}
      </Waiting>
    </Section>
  );
}

function TopJobs({ from, to }: { from: string; to: string }) {
  const jobs = useApi<Jobs>(
    apiUrl('jobs', { from, to, sort: 'lost_gpu_seconds', limit: kTopJobs }),
  );
  return (
    <Section
      title="Most lost GPU-hours"
      actions={<a href={link('/jobs', { sort: 'lost_gpu_seconds' })}>All jobs</a>}
    >
      <Waiting loaded={jobs} height={kTopJobs * 30}>
        {(data) =>
          data.total === 0 ? (
            <NoJobs />
          ) : (
            <Table
              label="Jobs by lost GPU-hours"
              columns={jobColumns}
              rows={data.jobs}
              rowKey={(j) => j.job}
            />
          )
        }
      </Waiting>
    </Section>
  );
}

const modelColumns: TableColumn<ModelUsage>[] = [
  {
    id: 'model',
    name: 'Model',
    text: true,
    show: (m) => (
      <span
        title={
          m.tensor_clock_max_mhz === null
            ? 'not in the hardware table: no OFU'
            : `maximum tensor clock ${unit(m.tensor_clock_max_mhz, 0, 'MHz')}`
        }
      >
        <Value value={m.model} text={shortModel(m.model ?? '')} why="the exporter names no model" />
      </span>
    ),
  },
  { id: 'gpus', name: 'GPUs', show: (m) => count(m.gpus) },
  {
    id: 'ofu',
    name: (
      <>
        <Name id="ofu" /> %
      </>
    ),
    show: (m) => <Ofu value={m.usage.ofu} why={whyNot(m.usage)} />,
  },
  {
    id: 'coverage',
    name: <Name id="coverage" />,
    show: (m) => (
      <Value value={m.usage.coverage} text={percent(m.usage.coverage)} why="nothing was expected" />
    ),
  },
];

function Models({ fleet }: { fleet: Fleet }) {
  if (fleet.models.length === 0) return <Empty title="No GPU reported" />;
  return (
    <Table
      label="GPU models"
      columns={modelColumns}
      rows={fleet.models}
      rowKey={(m) => m.model ?? ''}
    />
  );
}

function NotComputable({ fleet }: { fleet: Fleet }) {
  const total = fleet.not_computable.reduce((sum, n) => sum + n.gpu_seconds, 0);
  if (total <= 0) return <Empty title="Nothing: OFU is known for all GPU-time" />;
  return (
    <table class="reasons">
      <tbody>
        {fleet.not_computable.map((n) => (
          <tr key={n.reason}>
            <td class="text">
              {n.title}
              {n.advice && <span class="sub">{n.advice}</span>}
            </td>
            <td>
              {gpuHours(n.gpu_seconds)} GPU-h
              <span class="sub">
                {fleet.usage.gpu_seconds > 0 ? (
                  percent(n.gpu_seconds / fleet.usage.gpu_seconds)
                ) : (
                  <Absent why="nothing was expected" />
                )}
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function FleetPage() {
  const { query } = route.use();
  const { from, to } = windowOf(query);
  const fleet = useApi<Fleet>(apiUrl('fleet', { from, to }), { main: true });
  const status = useApi<Status>(apiUrl('status'));
  return (
    <Waiting loaded={fleet} height={560}>
      {(data) => {
        const seen =
          data.usage.observed_gpu_seconds > 0 || (data.now?.observed_gpu_seconds ?? 0) > 0;
        return (
          <>
            <div class="hero card">
              {data.now ? (
                <Headline usage={data.now} title="OFU now, last 5 min" />
              ) : (
                <Headline usage={data.usage} title="OFU" />
              )}
              <div class="hero-side">
                <div class="hero-window">
                  <Name id="ofu" label="OFU in the window" />{' '}
                  <b>
                    <Value
                      value={data.usage.ofu}
                      text={percent(data.usage.ofu)}
                      why={whyNot(data.usage)}
                    />
                  </b>
                  {data.usage.ofu_ci95 !== null && (
                    <span class="ci">
                      ± {fixed(data.usage.ofu_ci95 * 100, data.usage.ofu_ci95 < 0.00095 ? 2 : 1)}
                    </span>
                  )}
                  <span class="sub">
                    <Name id="coverage" /> {percent(data.usage.coverage)} of{' '}
                    {gpuHours(data.usage.gpu_seconds)} GPU-h, <Name id="gpu_util" />{' '}
                    {percentNumber(data.usage.gpu_util)} %
                  </span>
                </div>
                <StatusTiles status={status.data} fleet={data} />
              </div>
            </div>
            {!seen ? (
              <NoSamples status={status.data} />
            ) : (
              <Section
                title="OFU over time"
                actions={
                  <>
                    <WindowNote window={data.window} stepS={data.series.step_s} />
                    <CsvButton file="fleet.csv" make={() => seriesCsv(data.series)} />
                  </>
                }
              >
                <FleetCharts series={data.series} window={data.window} />
              </Section>
            )}
            {seen && <FirstActions from={from} to={to} />}
            {seen && <SankeySection from={from} to={to} />}
            <div class="columns">
              <TopJobs from={from} to={to} />
              <div>
                <Section title="GPU models">
                  <Models fleet={data} />
                </Section>
                <Section title={<Name id="not_computable" />}>
                  <NotComputable fleet={data} />
                </Section>
              </div>
            </div>
          </>
        );
      }}
    </Waiting>
  );
}
