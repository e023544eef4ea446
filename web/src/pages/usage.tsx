// Who used the GPUs, how well, and what it cost: rows of one kind, lines over time of the largest,
// and what changed since the window before.
import { ComponentChildren } from 'preact';
import { apiUrl, Figures, UsageBy, UsageGroup } from '../api';
import { Chart } from '../chart';
import { Cell } from '../csv';
import { count, fixed, gpuHours, money, percent, percentNumber, signed } from '../format';
import { kPage, ListSection, offsetOf } from '../list';
import { useApi } from '../live';
import { absolute, link, navigate, route, Window, windowOf, withQuery } from '../route';
import { Empty, Name, Ofu, Section, Select, TableColumn, Value } from '../ui';
import { bounds, WindowNote } from '../usage';

const kinds: Record<string, string> = {
  user: 'user',
  account: 'account',
  workflow: 'workflow',
  model: 'GPU model',
  cluster: 'cluster',
  partition: 'partition',
  qos: 'QOS',
  node: 'node',
  state: 'state of the job',
  size: 'GPUs of the job',
};
// Who names them; where nobody does, all of the time is in one row.
const fromBooks = new Set(['account', 'cluster', 'partition', 'qos', 'state']);

const kLines = 5; // as many as there are colours: --line-1 …
const kMaxPoints = 100; // of the server
const kHourMs = 3_600_000;

const lengthOf = ({ from, to }: Window) => {
  const end = to === '' ? new Date() : absolute(to, new Date());
  const start = absolute(from, new Date(end.getTime() - 6 * kHourMs));
  return { start: start.getTime(), end: end.getTime() };
};

// Hours of a step of the lines: an hour up to two days, then days.
function stepHours(window: Window): number {
  const { start, end } = lengthOf(window);
  const hours = (end - start) / kHourMs;
  return hours <= 48 ? 1 : 24 * Math.max(1, Math.ceil(hours / 24 / kMaxPoints));
}

// Where the window before begins; it is as long and ends where this one begins.
function windowBefore(window: Window): string {
  const back = /^-(\d+)([mhd])$/.exec(window.from);
  if (back && window.to === '') return `-${2 * Number(back[1])}${back[2]}`;
  const { start, end } = lengthOf(window);
  // Whole minutes, so that the question stays the same while the page asks it again.
  const before = start - Math.ceil((end - start) / 60_000) * 60_000;
  return new Date(before).toISOString().replace(/\.\d+Z$/, 'Z');
}

const linkOf: Record<string, (name: string) => string> = {
  user: (name) => link('/jobs', { user: name }),
  workflow: (name) => link('/jobs', { workflow: name }),
  node: (name) => link('/gpus', { node: name }),
};

const noPrice = 'no price is known: [prices] (docs/usage.md)';
const notReported = 'the exporters do not report it';
const value = (v: number | null, text: string, why: string) => (
  <Value value={v} text={text} why={why} />
);

// By how much a figure differs from the window before.
function change(
  id: keyof Figures,
  name: ComponentChildren,
  text: (v: number) => string,
): TableColumn<UsageGroup> {
  return {
    id: `change_${id}`,
    name,
    sort: `change.${id}`,
    show: (g) =>
      g.change === null ? (
        'new'
      ) : (
        <Value
          value={g.change?.[id]}
          text={signed(g.change?.[id] ?? 0, text)}
          why="not known in one of the windows"
        />
      ),
  };
}

function columnsFor(by: string, currency: string | null, compared: boolean) {
  const columns: (TableColumn<UsageGroup> | false)[] = [
    {
      id: 'name',
      name: kinds[by],
      text: true,
      sort: 'name',
      first: 'asc',
      show: (g) =>
        g.name === null ? (
          value(null, '', `nobody names the ${kinds[by]} of this time`)
        ) : linkOf[by] ? (
          <a href={linkOf[by](g.name)}>{g.name}</a>
        ) : (
          g.name
        ),
    },
    { id: 'jobs', name: 'Jobs', sort: 'jobs', minor: true, show: (g) => count(g.jobs) },
    {
      id: 'gpu_hours',
      name: <Name id="gpu_hours" />,
      sort: 'gpu_seconds',
      show: (g) => gpuHours(g.gpu_seconds),
    },
    compared && change('gpu_seconds', 'Δ GPU-h', gpuHours),
    {
      id: 'ofu',
      name: (
        <>
          <Name id="ofu" /> %
        </>
      ),
      sort: 'ofu',
      first: 'asc',
      show: (g) => <Ofu value={g.ofu} why={g.ofu_reason ?? 'not computable'} />,
    },
    compared && change('ofu', 'Δ OFU, points', percentNumber),
    {
      id: 'lost',
      name: <Name id="lost" />,
      sort: 'lost_gpu_seconds',
      show: (g) =>
        value(g.lost_gpu_seconds, gpuHours(g.lost_gpu_seconds), g.ofu_reason ?? 'not computable'),
    },
    compared && change('lost_gpu_seconds', 'Δ lost', gpuHours),
    {
      id: 'cost',
      name: `Cost${currency ? ` ${currency}` : ''}`,
      sort: 'cost',
      show: (g) => value(g.cost, money(g.cost, null), noPrice),
    },
    compared && change('cost', 'Δ cost', (v) => money(v, null)),
    {
      id: 'lost_money',
      name: 'Of it lost',
      sort: 'lost_money',
      minor: true,
      show: (g) =>
        value(g.lost_money, money(g.lost_money, null), g.cost === null ? noPrice : 'OFU not known'),
    },
    {
      id: 'mfu',
      name: 'MFU (of time)',
      sort: 'mfu',
      minor: true,
      show: (g) => (
        <>
          {value(g.mfu, percent(g.mfu), 'no application claims one (docs/application.md)')}
          <span class="sub">{percent(g.mfu_coverage)}</span>
        </>
      ),
    },
    {
      id: 'duty',
      name: <Name id="gpu_util" />,
      sort: 'duty',
      minor: true,
      show: (g) => value(g.duty, percent(g.duty), notReported),
    },
    {
      id: 'sm_efficiency',
      name: 'SM active',
      sort: 'sm_efficiency',
      minor: true,
      show: (g) => value(g.sm_efficiency, percent(g.sm_efficiency), notReported),
    },
    {
      id: 'occupancy',
      name: 'Occupancy',
      sort: 'occupancy_active',
      minor: true,
      show: (g) =>
        value(g.occupancy_active, percent(g.occupancy_active), `${notReported} (DCGM 1003)`),
    },
  ];
  return columns.filter((c): c is TableColumn<UsageGroup> => c !== false);
}

type SortValue = string | number | null | undefined;

function sortValue(g: UsageGroup, sort: string): SortValue {
  const [first, id] = sort.split('.');
  if (id !== undefined) return g.change?.[id as keyof Figures];
  return (g as unknown as Record<string, SortValue>)[first];
}

// What is not known is last, whichever way.
export function sorted(rows: UsageGroup[], sort: string, direction: 'asc' | 'desc'): UsageGroup[] {
  const sign = direction === 'asc' ? 1 : -1;
  return [...rows].sort((a, b) => {
    const [x, y] = [sortValue(a, sort) ?? null, sortValue(b, sort) ?? null];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    return x === y ? 0 : x < y ? -sign : sign;
  });
}

const csvFields = [
  'jobs',
  'gpu_seconds',
  'ofu',
  'coverage',
  'mfu',
  'mfu_coverage',
  'sm_efficiency',
  'occupancy_active',
  'occupancy_elapsed',
  'duty',
  'energy_j',
  'kwh_per_eflop_bf16',
  'lost_gpu_seconds',
  'cost',
  'lost_money',
  'cost_coverage',
] as const;
const changeFields = ['gpu_seconds', 'ofu', 'lost_gpu_seconds', 'cost'] as const;

function usageCsv(data: UsageBy, rows: UsageGroup[]): { header: string[]; rows: Cell[][] } {
  const compared = data.compared_with !== undefined;
  return {
    header: [
      data.by,
      ...csvFields,
      'currency',
      ...(compared ? changeFields.map((f) => `change_${f}`) : []),
    ],
    rows: rows.map((g) => [
      g.name,
      ...csvFields.map((f) => g[f]),
      data.currency,
      ...(compared ? changeFields.map((f) => g.change?.[f]) : []),
    ]),
  };
}

function Lines({ by, window }: { by: string; window: Window }) {
  const step = stepHours(window);
  const lines = useApi<UsageBy>(
    apiUrl('usage', { ...window, by, step: `${step}h`, limit: kLines }),
    { fixed: true },
  );
  const data = lines.data;
  if (!data?.step_s || data.rows.length === 0) return null;
  const { from, to } = bounds(data.window);
  const ts: number[] = [];
  for (let t = from; t < to; t += data.step_s) ts.push(t);
  if (ts.length < 2) return null;
  const frame = { ts, stepS: data.step_s, from, to, height: 170 };
  // Hours, so that the axis has round ones.
  const line = (figure: 'gpu_seconds' | 'ofu', per: number, text: (v: number) => string) =>
    data.rows.map((g, k) => ({
      name: g.name ?? 'not named',
      values: (g.points?.[figure] ?? [])
        .slice(0, ts.length)
        .map((v) => (v === null ? null : v / per)),
      color: `line-${k + 1}`,
      text,
    }));
  return (
    <Section
      title="Most GPU-hours, over time"
      actions={<WindowNote window={data.window} stepS={data.step_s} />}
    >
      <div class="charts two">
        <Chart
          {...frame}
          label={`GPU-hours per ${step} h`}
          minTop={0.1}
          axisText={(v) => fixed(v, Number.isInteger(v) ? 0 : 1)}
          lines={line('gpu_seconds', 3600, (hours) => gpuHours(hours * 3600))}
        />
        <Chart
          {...frame}
          label="OFU"
          minTop={0.1}
          ratio
          axisText={(v) => `${fixed(v * 100, 0)} %`}
          lines={line('ofu', 1, percent)}
        />
      </div>
      <p class="note">Left GPU-hours per {step} h, right OFU.</p>
    </Section>
  );
}

export function UsagePage() {
  const { query } = route.use();
  const window = windowOf(query);
  const by = (query.get('by') ?? '') in kinds ? (query.get('by') as string) : 'user';
  const sort = query.get('sort') ?? 'gpu_seconds';
  const direction = (query.get('order') ?? (sort === 'name' ? 'asc' : 'desc')) as 'asc' | 'desc';
  const offset = offsetOf(query);
  const compare = query.get('compare') === 'true';
  const usage = useApi<UsageBy>(
    apiUrl('usage', { ...window, by, compare_from: compare ? windowBefore(window) : null }),
    { main: true },
  );
  const data = usage.data;
  return (
    <>
      <ListSection
        title="Usage"
        label="Usage"
        what="rows"
        loaded={usage}
        height={500}
        csv={
          data
            ? {
                file: `usage-${by}.csv`,
                make: () => usageCsv(data, sorted(data.rows, sort, direction)),
              }
            : undefined
        }
        filters={
          <>
            <Select
              label="A row for each"
              value={by}
              choices={kinds}
              onChoose={(next) => navigate(withQuery({ by: next, offset: null }))}
            />
            <label class="check">
              <input
                type="checkbox"
                checked={compare}
                onChange={(e) =>
                  navigate(withQuery({ compare: e.currentTarget.checked ? 'true' : null }))
                }
              />
              compare with the window before
            </label>
          </>
        }
        note={({ total, currency }) =>
          `${gpuHours(total.gpu_seconds)} GPU-h of ${count(total.jobs)} jobs` +
          (total.cost !== null ? `, ${money(total.cost, currency)}` : '')
        }
        empty={
          <Empty title="No job held a GPU in this window">
            <p>
              Jobs come from the exporters’ labels, a job file, or Slurm: <code>[slurm]</code> in
              the configuration, or <code>flopwatch import slurm</code>.
            </p>
          </Empty>
        }
        above={(answer) =>
          fromBooks.has(by) &&
          answer.rows.every((g) => g.name === null) && (
            <p class="note">
              Nobody names the {kinds[by]}: let the server ask Slurm (<code>[slurm]</code> in the
              configuration) or read its books (<code>flopwatch import slurm</code>).
            </p>
          )
        }
        total={(answer) => answer.rows.length}
        columns={(answer) => columnsFor(answer.by, answer.currency, !!answer.compared_with)}
        rows={(answer) => sorted(answer.rows, sort, direction).slice(offset, offset + kPage)}
        rowKey={(g) => g.name ?? ''}
        order={{ sort, direction }}
        onOrder={(next, to) => navigate(withQuery({ sort: next, order: to, offset: null }))}
        offset={offset}
      >
        {data && data.notes.length > 0 && (
          <ul class="sankey-notes">
            {data.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        )}
      </ListSection>
      <Lines by={by} window={window} />
    </>
  );
}
