// All jobs of the window. Sorting, filtering and paging are the server's; their state is in the
// URL.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Alarms, apiUrl, getJson, Job, Jobs } from '../api';
import { Cell } from '../csv';
import { NoJobs } from '../empty';
import { count, gpuHours, percent, unit } from '../format';
import { Chip } from '../list';
import { useApi } from '../live';
import { isPart, PartChips, partOf } from '../part';
import { jobPath, link, navigate, route, windowOf, withQuery } from '../route';
import { jobLosses } from '../sankey';
import {
  CsvButton,
  Dot,
  Empty,
  Name,
  Note,
  Ofu,
  Pager,
  Section,
  Table,
  TableColumn,
  Value,
  Waiting,
  whyNot,
} from '../ui';

const kPage = 50;
const kCsvRows = 100_000;
const kTypingMs = 250;
const kMostAlarms = 1000;

const notReported = 'the exporter does not report it';

const columns: TableColumn<Job>[] = [
  {
    id: 'job',
    name: 'Job',
    text: true,
    sort: 'job',
    first: 'asc',
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
    id: 'state',
    name: 'State',
    text: true,
    minor: true,
    show: (j) => (j.running ? <Dot tone="ok">running</Dot> : <Dot tone="idle">ended</Dot>),
  },
  {
    id: 'user',
    name: 'User',
    text: true,
    minor: true,
    sort: 'user',
    first: 'asc',
    show: (j) =>
      j.user ? (
        <a href={withQuery({ user: j.user, offset: null })}>{j.user}</a>
      ) : (
        <Value value={null} text="" why="no label names a user" />
      ),
  },
  {
    id: 'workflow',
    name: 'Workflow',
    text: true,
    minor: true,
    show: (j) =>
      j.workflow ? (
        <a href={withQuery({ workflow: j.workflow, offset: null })}>{j.workflow}</a>
      ) : (
        <Value value={null} text="" why="only a job file names workflows" />
      ),
  },
  { id: 'gpus', name: 'GPUs', sort: 'gpus', minor: true, show: (j) => count(j.usage.gpus) },
  {
    id: 'gpu_hours',
    name: <Name id="gpu_hours" />,
    sort: 'gpu_seconds',
    minor: true,
    show: (j) => gpuHours(j.usage.gpu_seconds),
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
    show: (j) => <Ofu value={j.usage.ofu} why={whyNot(j.usage)} />,
  },
  {
    id: 'lost',
    name: <Name id="lost" />,
    sort: 'lost_gpu_seconds',
    show: (j) => (
      <Value value={j.usage.ofu} text={gpuHours(j.usage.lost_gpu_seconds)} why={whyNot(j.usage)} />
    ),
  },
  {
    id: 'coverage',
    name: <Name id="coverage" />,
    sort: 'coverage',
    first: 'asc',
    minor: true,
    show: (j) => (
      <Value
        value={j.usage.coverage}
        text={percent(j.usage.coverage)}
        why="nothing was expected in the window"
      />
    ),
  },
  {
    id: 'duty_cycle',
    name: <Name id="gpu_util" />,
    sort: 'gpu_util',
    minor: true,
    show: (j) => (
      <Value value={j.usage.gpu_util} text={percent(j.usage.gpu_util)} why={notReported} />
    ),
  },
  {
    id: 'power',
    name: <Name id="power" />,
    sort: 'power_w',
    minor: true,
    show: (j) => (
      <Value value={j.usage.power_w} text={unit(j.usage.power_w, 0, 'W')} why={notReported} />
    ),
  },
];

// By job, the headline of an alarm.
type AlarmOf = Record<string, string>;
const notes = (alarms: AlarmOf): TableColumn<Job> => ({
  id: 'notes',
  name: 'Notes',
  text: true,
  show: (j) => <Note usage={j.usage} alarm={alarms[j.job]} />,
});

export function jobsCsv(jobs: Job[]): { header: string[]; rows: Cell[][] } {
  return {
    header: [
      'job',
      'name',
      'user',
      'workflow',
      'running',
      'gpus',
      'gpu_seconds',
      'ofu',
      'ofu_reason',
      'lost_gpu_seconds',
      'coverage',
      'tensor_active',
      'sm_clock_mhz',
      'gpu_util',
      'power_w',
      'energy_j',
      'first',
      'last',
      'flags',
    ],
    rows: jobs.map((j) => {
      const u = j.usage;
      return [
        j.job,
        j.name,
        j.user,
        j.workflow,
        j.running,
        u.gpus,
        u.gpu_seconds,
        u.ofu,
        u.ofu_reason,
        u.lost_gpu_seconds,
        u.coverage,
        u.tensor_active,
        u.sm_clock_mhz,
        u.gpu_util,
        u.power_w,
        u.energy_j,
        u.first,
        u.last,
        j.flags.join(' '),
      ];
    }),
  };
}

// A text field whose value goes into the URL when the typing stops.
export function SearchField({
  name,
  value,
  label,
  placeholder,
}: {
  name: string;
  value: string;
  label: string;
  placeholder: string;
}) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  const send = (next: string, wait: number) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(
      () => navigate(withQuery({ [name]: next, offset: null }), true),
      wait,
    );
  };
  return (
    <input
      type="search"
      data-search={name === 'q' ? '' : undefined}
      aria-label={label}
      placeholder={placeholder}
      value={text}
      onInput={(e) => {
        setText(e.currentTarget.value);
        send(e.currentTarget.value, kTypingMs);
      }}
      onKeyDown={(e) => {
        if (e.key === 'Enter') send(e.currentTarget.value, 0);
        if (e.key === 'Escape') e.currentTarget.blur();
      }}
    />
  );
}

// Ranked by a loss, the list shows it, beside the job.
function columnsFor(sort: string, alarms: AlarmOf): TableColumn<Job>[] {
  const loss = jobLosses[sort];
  // Beside the OFU: at the end of the row it would lie beyond the screen.
  const at = columns.findIndex((c) => c.id === 'ofu') + 1;
  const all = [...columns.slice(0, at), notes(alarms), ...columns.slice(at)];
  if (loss === undefined) return all;
  const own: TableColumn<Job> = {
    id: sort,
    name: loss,
    sort,
    show: (j) => gpuHours(j.sort_value ?? null),
  };
  return [...all.slice(0, 1), own, ...all.slice(1)];
}

export function JobsPage() {
  const { query } = route.use();
  const text = (name: string): string => query.get(name) ?? '';
  const sort = text('sort') || 'gpu_seconds';
  const direction = (text('order') || (sort === 'job' || sort === 'user' ? 'asc' : 'desc')) as
    'asc' | 'desc';
  const offset = Math.max(0, Number.parseInt(text('offset'), 10) || 0);
  const running = text('running') === 'true';
  const part = partOf(query);
  const filters = {
    ...windowOf(query),
    q: text('q'),
    user: text('user'),
    workflow: text('workflow'),
    ...part,
    running,
    sort,
    order: direction,
  };
  const jobs = useApi<Jobs>(apiUrl('jobs', { ...filters, limit: kPage, offset: offset || null }), {
    main: true,
  });
  // Every claim of the window is compared for it: asked once, not every ten seconds.
  const flagged = useApi<Alarms>(
    apiUrl('divergence', { ...windowOf(query), flagged: true, limit: kMostAlarms }),
    { fixed: true },
  );
  const alarms = Object.fromEntries(
    (flagged.data?.jobs ?? []).map((d) => [d.job, `${d.verdict}: ${d.headline}`]),
  );
  const filtered =
    filters.q !== '' ||
    filters.user !== '' ||
    filters.workflow !== '' ||
    isPart(part) ||
    running;

  return (
    <Section
      title="Jobs"
      actions={
        <CsvButton
          file="jobs.csv"
          make={async () =>
            jobsCsv((await getJson<Jobs>(apiUrl('jobs', { ...filters, limit: kCsvRows }))).jobs)
          }
        />
      }
    >
      <div class="filters">
        <SearchField
          name="q"
          value={filters.q}
          label="Search jobs"
          placeholder="Search job, name, user, workflow  ( / )"
        />
        <label class="check">
          <input
            type="checkbox"
            checked={running}
            onChange={(e) =>
              navigate(
                withQuery({ running: e.currentTarget.checked ? 'true' : null, offset: null }),
              )
            }
          />
          running only
        </label>
        {filters.user && <Chip name="user" value={filters.user} />}
        {filters.workflow && <Chip name="workflow" value={filters.workflow} />}
        <PartChips part={part} />
      </div>
      <Waiting loaded={jobs} height={600}>
        {(data) =>
          data.total === 0 ? (
            filtered ? (
              <Empty title="No job matches">
                <p>
                  <a
                    href={withQuery({
                      q: null,
                      user: null,
                      workflow: null,
                      cluster: null,
                      partition: null,
                      model: null,
                      account: null,
                      running: null,
                      offset: null,
                    })}
                  >
                    Take the filters away
                  </a>{' '}
                  or choose a longer window.
                </p>
              </Empty>
            ) : (
              <NoJobs />
            )
          ) : (
            <>
              <Table
                label="Jobs"
                columns={columnsFor(sort, alarms)}
                rows={data.jobs}
                rowKey={(j) => j.job}
                order={{ sort, direction }}
                onOrder={(by, to) => navigate(withQuery({ sort: by, order: to, offset: null }))}
              />
              <Pager total={data.total} limit={kPage} offset={offset} what="jobs" />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}
