// One job: what it got out of its GPUs, over time, and which GPU is the odd one.
import { JobAlerts, JobMarks } from '../alerts';
import { apiUrl, JobDetail, JobGpu, JobHealth, JobNote } from '../api';
import { Cell } from '../csv';
import { fixed, gpuHours, percent, shortModel, shortUuid, unit } from '../format';
import { useApi } from '../live';
import { gpuPath, hasWindow, jobPath, link, navigate, route, timesOf, withQuery } from '../route';
import {
  CsvButton,
  Dot,
  Empty,
  Name,
  Note,
  Ofu,
  Pager,
  Ratio,
  Section,
  Table,
  TableColumn,
  Value,
  Waiting,
  When,
  whyNot,
} from '../ui';
import { clockShare, Headline, UsageCharts, UsageTiles } from '../usage';

const kPage = 128;
const kStripCells = 4096;
const notReported = 'the exporter does not report it';

type Key = (g: JobGpu) => number | string | null;
const padded = (n: number) => String(n).padStart(4, '0');
const keys: Record<string, Key> = {
  rank: (g) => g.rank,
  place: (g) => `${g.node ?? ''}:${padded(g.index ?? 0)}:${padded(g.gpu_instance ?? -1)}`,
  ofu: (g) => g.usage.ofu,
  tensor: (g) => g.usage.tensor_active,
  clock: (g) => g.usage.sm_clock_mhz,
  util: (g) => g.usage.gpu_util,
  power: (g) => g.usage.power_w,
  hours: (g) => g.usage.gpu_seconds,
  coverage: (g) => g.usage.coverage,
};

// Absent values last, whichever way.
function sorted(gpus: JobGpu[], sort: string, direction: string): JobGpu[] {
  const key = keys[sort] ?? keys.place;
  const sign = direction === 'asc' ? 1 : -1;
  return [...gpus].sort((a, b) => {
    const x = key(a);
    const y = key(b);
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    return x === y ? 0 : (x < y ? -1 : 1) * sign;
  });
}

const nameOf = (g: JobGpu): string =>
  `${g.node ?? '?'}:${g.index ?? '?'}${g.gpu_instance !== null ? `/${g.gpu_instance}` : ''}`;
const gpuLink = (g: JobGpu): string => link(gpuPath(g.gpu), { gpu_instance: g.gpu_instance });

function columns(gpus: JobGpu[]): TableColumn<JobGpu>[] {
  const maxPower = Math.max(1, ...gpus.map((g) => g.usage.power_w ?? 0));
  const ranked = gpus.some((g) => g.rank !== null);
  return [
    ...(ranked
      ? [
          {
            id: 'rank',
            name: 'Rank',
            sort: 'rank',
            first: 'asc' as const,
            minor: true,
            show: (g: JobGpu) => <Value value={g.rank} text={String(g.rank)} why="not known" />,
          },
        ]
      : []),
    {
      id: 'gpu',
      name: 'GPU',
      text: true,
      sort: 'place',
      first: 'asc',
      show: (g) => (
        <a href={gpuLink(g)} title={g.gpu}>
          {nameOf(g)}
          <span class="sub">{shortUuid(g.gpu)}</span>
        </a>
      ),
    },
    {
      id: 'model',
      name: 'Model',
      text: true,
      minor: true,
      show: (g) => (
        <Value value={g.model} text={shortModel(g.model ?? '')} why="the exporter names no model" />
      ),
    },
    {
      id: 'ofu',
      name: (
        <>
          <Name id="ofu" /> %
        </>
      ),
      sort: 'ofu',
      first: 'asc',
      show: (g) => <Ofu value={g.usage.ofu} why={whyNot(g.usage)} />,
    },
    {
      id: 'tensor',
      name: (
        <>
          <Name id="tensor_active" label="Tensor" /> %
        </>
      ),
      sort: 'tensor',
      minor: true,
      show: (g) => <Ratio value={g.usage.tensor_active} why={notReported} tone="second" />,
    },
    {
      id: 'clock',
      name: <Name id="sm_clock" />,
      sort: 'clock',
      first: 'asc',
      minor: true,
      show: (g) => (
        <Value
          value={g.usage.sm_clock_mhz}
          text={unit(g.usage.sm_clock_mhz, 0, 'MHz')}
          why={notReported}
        />
      ),
    },
    {
      id: 'util',
      name: <Name id="gpu_util" />,
      sort: 'util',
      minor: true,
      show: (g) => (
        <Value value={g.usage.gpu_util} text={percent(g.usage.gpu_util)} why={notReported} />
      ),
    },
    {
      id: 'power',
      name: (
        <>
          <Name id="power" /> W
        </>
      ),
      sort: 'power',
      minor: true,
      show: (g) => (
        <span class="ratio">
          <span class={`bar ${g.usage.power_w === null ? 'none' : 'third'}`} aria-hidden="true">
            <span style={{ width: `${(100 * (g.usage.power_w ?? 0)) / maxPower}%` }} />
          </span>
          <span class="num">
            <Value value={g.usage.power_w} text={fixed(g.usage.power_w, 0)} why={notReported} />
          </span>
        </span>
      ),
    },
    {
      id: 'hours',
      name: <Name id="gpu_hours" />,
      sort: 'hours',
      minor: true,
      show: (g) => gpuHours(g.usage.gpu_seconds),
    },
    {
      id: 'coverage',
      name: <Name id="coverage" />,
      sort: 'coverage',
      first: 'asc',
      show: (g) => (
        <Value
          value={g.usage.coverage}
          text={percent(g.usage.coverage)}
          why="nothing was expected in the window"
        />
      ),
    },
    { id: 'notes', name: 'Notes', text: true, show: (g) => <Note usage={g.usage} /> },
  ];
}

function gpusCsv(gpus: JobGpu[]): { header: string[]; rows: Cell[][] } {
  return {
    header: [
      'rank',
      'node',
      'index',
      'gpu',
      'gpu_instance',
      'model',
      'ofu',
      'ofu_reason',
      'tensor_active',
      'sm_clock_mhz',
      'gpu_util',
      'power_w',
      'energy_j',
      'gpu_seconds',
      'coverage',
    ],
    rows: gpus.map((g) => {
      const u = g.usage;
      return [
        g.rank,
        g.node,
        g.index,
        g.gpu,
        g.gpu_instance,
        g.model,
        u.ofu,
        u.ofu_reason,
        u.tensor_active,
        u.sm_clock_mhz,
        u.gpu_util,
        u.power_w,
        u.energy_j,
        u.gpu_seconds,
        u.coverage,
      ];
    }),
  };
}

// One cell a GPU, shaded by OFU: the odd one shows at a glance.
function Strip({ gpus }: { gpus: JobGpu[] }) {
  const known = gpus.map((g) => g.usage.ofu).filter((v): v is number => v !== null);
  if (gpus.length < 2 || known.length === 0) return null;
  const top = Math.max(...known);
  const low = Math.min(...known);
  const shown = sorted(gpus, gpus.some((g) => g.rank !== null) ? 'rank' : 'place', 'asc').slice(
    0,
    kStripCells,
  );
  return (
    <div class="strip-box">
      <div class="strip">
        {shown.map((g) => (
          <a
            key={`${g.gpu}/${g.gpu_instance}`}
            href={gpuLink(g)}
            class={g.usage.ofu === null ? 'unknown' : ''}
            style={
              g.usage.ofu === null
                ? {}
                : { '--share': String(Math.round((100 * g.usage.ofu) / Math.max(top, 0.01))) }
            }
            title={
              `${g.rank !== null ? `rank ${g.rank}, ` : ''}${nameOf(g)}: ` +
              `OFU ${g.usage.ofu === null ? whyNot(g.usage) : percent(g.usage.ofu)}`
            }
            aria-label={`${nameOf(g)} OFU ${percent(g.usage.ofu)}`}
          />
        ))}
      </div>
      <span class="note">
        one cell a GPU, {percent(low)} to {percent(top)} OFU
        {gpus.length > kStripCells ? `, first ${kStripCells}` : ''}
      </span>
    </div>
  );
}

// OFU in its two factors, and the GPU furthest behind.
function Verdict({ data }: { data: JobDetail }) {
  const u = data.job.usage;
  if (u.ofu === null || u.tensor_active === null) return null;
  const share = clockShare(u);
  const known = data.gpus.filter((g) => g.usage.ofu !== null);
  const slowest = known.length > 1 ? sorted(known, 'ofu', 'asc')[0] : null;
  const behind =
    slowest && u.ofu > 0 && (slowest.usage.ofu as number) < 0.9 * u.ofu ? slowest : null;
  return (
    <p class="verdict">
      Tensor pipes were busy {percent(u.tensor_active)} of the time
      {share !== null && <> at {percent(share)} of the maximum clock</>}
      {u.gpu_util !== null && <>, while a kernel ran {percent(u.gpu_util)} of the time</>}.
      {behind && (
        <>
          {' '}
          Furthest behind: <a href={gpuLink(behind)}>{nameOf(behind)}</a> with{' '}
          {percent(behind.usage.ofu)}.
        </>
      )}
    </p>
  );
}

function Notes({ notes }: { notes: JobNote[] }) {
  if (notes.length === 0) return null;
  return (
    <ul class="advice" aria-label="Notes">
      {notes.map((n) => (
        <li key={n.finding} class={n.serious ? 'serious' : ''}>
          <b>{n.finding}</b> {n.action}
        </li>
      ))}
    </ul>
  );
}

function Gpus({ data }: { data: JobDetail }) {
  const { query } = route.use();
  const sort = query.get('sort') ?? (data.gpus.some((g) => g.rank !== null) ? 'rank' : 'place');
  const direction = query.get('order') === 'desc' ? 'desc' : 'asc';
  const offset = Math.max(0, Number.parseInt(query.get('offset') ?? '', 10) || 0);
  const rows = sorted(data.gpus, sort, direction);
  return (
    <Section
      title={`GPUs of this job (${data.gpus.length})`}
      actions={
        <CsvButton
          file={`job-${data.job.job.replace(/[^\w.-]/g, '_')}-gpus.csv`}
          make={() => gpusCsv(rows)}
        />
      }
    >
      {rows.length === 0 ? (
        <Empty title="No samples of its GPUs in this window">
          <p>
            {data.job.started ? (
              <>
                The job ran from <When time={data.job.started} />
                {data.job.ended && (
                  <>
                    {' '}
                    to <When time={data.job.ended} />
                  </>
                )}
                .{' '}
                <a href={withQuery({ from: data.job.started, to: data.job.ended })}>
                  Show that time
                </a>
                .
              </>
            ) : (
              'Choose a longer window.'
            )}
          </p>
        </Empty>
      ) : (
        <>
          <Strip gpus={data.gpus} />
          <Table
            label="GPUs of this job"
            columns={columns(data.gpus)}
            rows={rows.slice(offset, offset + kPage)}
            rowKey={(g) => `${g.gpu}/${g.gpu_instance}`}
            order={{ sort, direction }}
            onOrder={(by, to) => navigate(withQuery({ sort: by, order: to, offset: null }))}
          />
          {rows.length > kPage && (
            <Pager total={rows.length} limit={kPage} offset={offset} what="GPUs" />
          )}
        </>
      )}
    </Section>
  );
}

export function JobPage({ job }: { job: string }) {
  const { query } = route.use();
  const detail = useApi<JobDetail>(
    apiUrl(`jobs/${encodeURIComponent(job)}`, timesOf(query)),
    { main: true },
  );
  const health = useApi<JobHealth>(apiUrl(`jobs/${encodeURIComponent(job)}/health`));
  const marks = health.data?.marks ?? [];
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={link('/')}>Fleet</a> / <a href={link('/jobs')}>Jobs</a> / <span>{job}</span>
      </nav>
      <Waiting loaded={detail} height={640}>
        {(data) => {
          const j = data.job;
          return (
            <>
              <div class="card job">
                <header class="job-header">
                  <h1>
                    {j.name && j.name !== j.job && !j.job.endsWith(`/${j.name}`)
                      ? j.name
                      : `Job ${j.job}`}
                    {j.running ? <Dot tone="ok">running</Dot> : <Dot tone="idle">ended</Dot>}
                  </h1>
                  <dl class="facts">
                    <div>
                      <dt>Job</dt>
                      <dd>
                        <a href={link(jobPath(j.job))}>{j.job}</a>
                      </dd>
                    </div>
                    <div>
                      <dt>User</dt>
                      <dd>
                        {j.user ? (
                          <a href={link('/jobs', { user: j.user })}>{j.user}</a>
                        ) : (
                          <Value value={null} text="" why="no label names a user" />
                        )}
                      </dd>
                    </div>
                    <div>
                      <dt>Workflow</dt>
                      <dd>
                        {j.workflow ? (
                          <a href={link('/jobs', { workflow: j.workflow })}>{j.workflow}</a>
                        ) : (
                          <Value value={null} text="" why="only a job file names workflows" />
                        )}
                      </dd>
                    </div>
                    <div>
                      <dt>GPUs</dt>
                      <dd>{fixed(data.gpus.length || j.usage.gpus, 0)}</dd>
                    </div>
                    <div>
                      <dt>Started</dt>
                      <dd>
                        <When time={j.started} none="before what is stored" />
                      </dd>
                    </div>
                    <div>
                      <dt>Ended</dt>
                      <dd>{j.running ? 'running' : <When time={j.ended} none="not known" />}</dd>
                    </div>
                  </dl>
                </header>
                <div class="job-usage">
                  <Headline
                    usage={j.usage}
                    title={hasWindow(query) ? 'OFU in the window' : 'OFU of the job'}
                  />
                  <UsageTiles usage={j.usage} />
                </div>
                {j.usage.ofu !== null && <p class="note">Why this OFU: {j.cause.text}</p>}
                <Verdict data={data} />
                <Notes notes={data.notes} />
              </div>
              <JobAlerts job={j.job} />
              <JobMarks marks={marks} />
              <UsageCharts
                series={data.series}
                window={data.window}
                file={`job-${j.job.replace(/[^\w.-]/g, '_')}`}
                marks={marks.map((m) => ({ at: Date.parse(m.ts) / 1000, text: m.did }))}
              />
              <Gpus data={data} />
            </>
          );
        }}
      </Waiting>
    </>
  );
}
