// The quantity that a rule looks at, over the time of one alert. What rollups have comes from the
// series of the job, the GPU or the fleet; the rest (temperatures, error counters, silence) from
// the stored samples, reckoned as the rules do (docs/alerts.md, "Quantities").
import { inUnit } from './alerts';
import { Alert, apiUrl, Column, Fleet, GpuDetail, JobDetail, Series, SqlResult } from './api';
import { Chart, Line } from './chart';
import { fixed, percent, percentNumber, shortUuid } from './format';
import { useApi } from './live';
import { fromSamples, Reckoned } from './samples';
import { bounds } from './usage';
import { Empty, Waiting } from './ui';

export type Scope = 'gpu' | 'job' | 'node' | 'fleet';

// Of a series' step; `max`: the highest tensor clock of the GPU.
type Of = (s: Series, k: number, max: number | null) => number | null;
const over = (a: number | null, b: number | null): number | null =>
  a === null || b === null || b === 0 ? null : a / b;
const kLeastDuty = 0.05; // for OFU over the duty cycle, as in the rules
const kSeries: Record<string, { unit: string; of: Of }> = {
  ofu: { unit: 'ratio', of: (s, k) => s.ofu[k] },
  tensor_active: { unit: 'ratio', of: (s, k) => s.tensor_active[k] },
  gpu_util: { unit: 'ratio', of: (s, k) => s.gpu_util[k] },
  coverage: { unit: 'ratio', of: (s, k) => s.coverage[k] },
  power_w: { unit: 'W', of: (s, k) => s.power_w[k] },
  sm_clock_mhz: { unit: 'MHz', of: (s, k) => s.sm_clock_mhz[k] },
  clock_share: { unit: 'ratio', of: (s, k, max) => over(s.sm_clock_mhz[k], max) },
  busy_ofu: {
    unit: 'ratio',
    of: (s, k) => ((s.gpu_util[k] ?? 0) < kLeastDuty ? null : over(s.ofu[k], s.gpu_util[k])),
  },
};
// A GPU beside its job's others: both are drawn.
const kBeside: Record<string, string> = {
  clock_to_job: 'sm_clock_mhz',
  power_to_job: 'power_w',
  util_to_job: 'gpu_util',
  ofu_to_job: 'ofu',
};
// A column of `samples`: its highest value of a step, its growth as rules count it, or how long
// there was none.
const kSamples: Record<string, { column: string; how: Reckoned }> = {
  gpu_temp_c: { column: 'gpu_temp_c', how: 'highest' },
  fb_used_mib: { column: 'fb_used_mib', how: 'highest' },
  xid: { column: 'xid', how: 'highest' },
  xid_new: { column: 'xid', how: 'highest' },
  throttle: { column: 'clock_event_reasons', how: 'highest' },
  ecc_dbe_new: { column: 'ecc_dbe', how: 'growth' },
  row_remaps_new: { column: 'row_remaps', how: 'growth' },
  row_remap_pending: { column: 'row_remap_pending', how: 'highest' },
  row_remap_failed: { column: 'row_remap_failed', how: 'highest' },
  nvlink_errors_new: { column: 'nvlink_errors', how: 'growth' },
  pcie_replays_new: { column: 'pcie_replays', how: 'growth' },
  age_s: { column: 'epoch(ts)', how: 'silence' },
  silence_s: { column: 'epoch(ts)', how: 'silence' },
};

// What a job says of itself (docs/application.md). A loss that is no number leaves a gap in its
// line.
type Said = Record<'mfu' | 'tokens_per_s' | 'loss' | 'grad_norm', Column> & {
  ts: number[];
  step_s: number;
};
const kSaid: Record<string, { column: Exclude<keyof Said, 'ts' | 'step_s'>; unit: string }> = {
  tokens_per_s: { column: 'tokens_per_s', unit: '1/s' },
  reported_mfu: { column: 'mfu', unit: 'ratio' },
  loss: { column: 'loss', unit: '1' },
  grad_norm: { column: 'grad_norm', unit: '1' },
  not_finite: { column: 'loss', unit: '1' },
};

const kBeforeS = 3600;
const kAfterS = 900;
const kMostGpus = 4;
const kMostPoints = 720;
const kHeight = 170;

interface Frame {
  alert: Alert;
  quantity: string;
  unit: string;
  window: { from: string; to: string };
}

const axis = (unit: string) => (v: number) =>
  unit === 'ratio' ? percentNumber(v).replace('.0', '') : fixed(v, v < 10 && v % 1 ? 1 : 0);

// The rule's threshold, where it is of what is drawn; one that moves is drawn as it was last.
function thresholdLine({ alert, quantity, unit }: Frame, n: number, scale = 1): Line[] {
  if (alert.threshold === null || alert.value_of !== quantity) return [];
  const at = alert.threshold * scale;
  return [
    {
      name: 'threshold',
      values: Array<number>(n).fill(at),
      color: 'bad',
      text: (v) => inUnit(v, unit),
      dash: [6, 4],
    },
  ];
}

function Plot({
  frame,
  name,
  ts,
  stepS,
  window,
  lines,
}: {
  frame: Frame;
  name: string;
  ts: number[];
  stepS: number;
  window: { from: string; to: string };
  lines: Line[];
}) {
  const { unit, quantity } = frame;
  return (
    <Chart
      ts={ts}
      stepS={stepS}
      {...bounds(window)}
      lines={lines}
      height={kHeight}
      label={`${quantity} of ${name} over time`}
      minTop={unit === 'ratio' ? 0.1 : 1}
      fromZero={unit === 'MHz' ? false : undefined}
      axisText={axis(unit)}
    />
  );
}

type Detail = (JobDetail | GpuDetail | Fleet) & { gpu?: GpuDetail['gpu'] };

function OfSeries({ frame, path, name }: { frame: Frame; path: string; name: string }) {
  const loaded = useApi<Detail>(apiUrl(path, frame.window));
  const { unit, of } = kSeries[frame.quantity];
  return (
    <Waiting loaded={loaded} height={kHeight}>
      {({ series, window, gpu }) => (
        <Plot
          frame={frame}
          name={name}
          ts={series.ts}
          stepS={series.step_s}
          window={window}
          lines={[
            {
              name: `${frame.quantity}, ${name}`,
              values: series.ts.map((_, k) => of(series, k, gpu?.tensor_clock_max_mhz ?? null)),
              color: 'useful',
              text: (v) => inUnit(v, unit),
              width: 2,
            },
            ...thresholdLine(frame, series.ts.length),
          ]}
        />
      )}
    </Waiting>
  );
}

function OfSaid({ frame, job }: { frame: Frame; job: string }) {
  const loaded = useApi<{ series: Said; window: { from: string; to: string } }>(
    apiUrl(`jobs/${encodeURIComponent(job)}/application`, frame.window),
  );
  const { column, unit } = kSaid[frame.quantity];
  const of = { ...frame, unit };
  return (
    <Waiting loaded={loaded} height={kHeight}>
      {({ series, window }) => (
        <Plot
          frame={of}
          name={job}
          ts={series.ts}
          stepS={series.step_s}
          window={window}
          lines={[
            {
              name: `${column}, as the job says`,
              values: series[column],
              color: 'useful',
              text: (v) => inUnit(v, unit),
              width: 2,
            },
            ...(column === frame.quantity || frame.quantity === 'reported_mfu'
              ? thresholdLine(of, series.ts.length)
              : []),
          ]}
        />
      )}
    </Waiting>
  );
}

function BesideJob({ frame, gpu, job }: { frame: Frame; gpu: string; job: string }) {
  const of = kBeside[frame.quantity];
  const own = useApi<Detail>(apiUrl(`gpus/${encodeURIComponent(gpu)}`, frame.window));
  const all = useApi<Detail>(apiUrl(`jobs/${encodeURIComponent(job)}`, frame.window)).data;
  const { unit } = kSeries[of];
  const text = (v: number) => inUnit(v, unit);
  return (
    <Waiting loaded={own} height={kHeight}>
      {({ series, window }) => {
        const value = (s: Series | undefined): Column => {
          const at = new Map(s?.ts.map((t, k) => [t, k]));
          return series.ts.map((t) => {
            const k = at.get(t);
            return s && k !== undefined ? kSeries[of].of(s, k, null) : null;
          });
        };
        const mean = value(all?.series);
        const { threshold, value_of } = frame.alert;
        const lines: Line[] = [
          {
            name: `${of}, ${shortUuid(gpu)}`,
            values: value(series),
            color: 'useful',
            text,
            width: 2,
          },
          { name: 'mean of its job', values: mean, color: 'third', text },
        ];
        if (threshold !== null && value_of === frame.quantity)
          lines.push({
            name: `${percent(threshold)} of that mean`,
            values: mean.map((v) => (v === null ? null : v * threshold)),
            color: 'bad',
            text,
            dash: [6, 4],
          });
        return (
          <Plot
            frame={{ ...frame, unit }}
            name={shortUuid(gpu)}
            ts={series.ts}
            stepS={series.step_s}
            window={window}
            lines={lines}
          />
        );
      }}
    </Waiting>
  );
}

function OfSamples({ frame, where, name }: { frame: Frame; where: string; name: string }) {
  const { column, how } = kSamples[frame.quantity];
  const { from, to } = bounds({
    from: frame.window.from,
    to: frame.window.to || new Date().toISOString(),
  });
  const stepS = Math.ceil((to - from) / kMostPoints / 60) * 60;
  const at = (s: number) => `to_timestamp(${Math.floor(s)})::TIMESTAMP`;
  const end = frame.window.to ? ` AND ts < ${at(to)}` : '';
  const loaded = useApi<SqlResult>(
    apiUrl('sql', {
      q:
        `SELECT floor(epoch(ts) / ${stepS}) * ${stepS} AS t, max(${column}) AS v FROM samples ` +
        `WHERE ${where} AND ts >= ${at(from)}${end} GROUP BY t HAVING v IS NOT NULL ORDER BY t`,
    }),
    { fixed: true },
  );
  return (
    <Waiting loaded={loaded} height={kHeight}>
      {({ rows }) => {
        const { ts, values } = fromSamples(rows as [number, number][], how, from, to, stepS);
        return (
          <Plot
            frame={frame}
            name={name}
            ts={ts}
            stepS={stepS}
            window={{
              from: new Date(from * 1000).toISOString(),
              to: new Date(to * 1000).toISOString(),
            }}
            lines={[
              {
                name: `${frame.quantity}, ${name}`,
                values,
                color: 'useful',
                text: (v) => inUnit(v, frame.unit),
                width: 2,
              },
              ...thresholdLine(frame, ts.length),
            ]}
          />
        );
      }}
    </Waiting>
  );
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

// What is drawn: the rule's own value, else the first of its condition that has a series.
function quantityOf(alert: Alert, scope: Scope): string | null {
  const drawn = (name: string | null): name is string =>
    name !== null &&
    (scope === 'gpu'
      ? name in kSeries || name in kSamples || (name in kBeside && alert.subject.job !== null)
      : scope === 'node'
        ? name === 'silence_s'
        : (scope === 'job' && name in kSaid) || (name in kSeries && name !== 'clock_share'));
  return [alert.value_of, ...alert.evidence.map((e) => e.quantity)].find(drawn) ?? null;
}

// From an hour before the condition held to shortly after its end, or as the reader chose.
export function timesOfAlert(alert: Alert, query: URLSearchParams): { from: string; to: string } {
  const iso = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z/, 'Z');
  const end = alert.until && Date.parse(alert.until) + kAfterS * 1000;
  return {
    from: query.get('from') ?? iso(Date.parse(alert.since) - kBeforeS * 1000),
    to: query.get('to') ?? (end && end < Date.now() ? iso(end) : ''),
  };
}

export function AlertChart({
  alert,
  scope,
  window,
}: {
  alert: Alert;
  scope: Scope;
  window: { from: string; to: string };
}) {
  const { job, nodes, gpus } = alert.subject;
  const quantity = quantityOf(alert, scope);
  const unit = alert.evidence.find((e) => e.quantity === quantity)?.unit ?? alert.value_unit ?? '1';
  const nothing = (
    <Empty title="No quantity of this rule has a series over time">
      <p>The evidence below is what it was decided on.</p>
    </Empty>
  );
  if (quantity === null) return nothing;
  const frame: Frame = { alert, quantity, unit, window };
  if (scope === 'job' && job !== null && quantity in kSaid)
    return <OfSaid frame={frame} job={job} />;
  if (scope === 'job' && job !== null)
    return <OfSeries frame={frame} path={`jobs/${encodeURIComponent(job)}`} name={job} />;
  if (scope === 'fleet') return <OfSeries frame={frame} path="fleet" name="the fleet" />;
  const note = quantity !== alert.value_of && alert.value_of !== null && (
    <p class="note">
      {alert.value_of} has no series over time; this is {quantity}, which the condition names too.
    </p>
  );
  if (scope === 'node')
    return nodes.length === 0 ? (
      nothing
    ) : (
      <OfSamples frame={frame} where={`node = ${quoted(nodes[0])}`} name={nodes[0]} />
    );
  return (
    <>
      {note}
      {gpus.slice(0, kMostGpus).map((gpu) =>
        quantity in kBeside && job !== null ? (
          <BesideJob key={gpu} frame={frame} gpu={gpu} job={job} />
        ) : quantity in kSeries ? (
          <OfSeries
            key={gpu}
            frame={frame}
            path={`gpus/${encodeURIComponent(gpu)}`}
            name={shortUuid(gpu)}
          />
        ) : (
          <OfSamples
            key={gpu}
            frame={frame}
            where={`gpu = ${quoted(gpu)} AND gpu_instance IS NULL`}
            name={shortUuid(gpu)}
          />
        ),
      )}
      {gpus.length > kMostGpus && (
        <p class="note">
          The first {kMostGpus} of {gpus.length} GPUs.
        </p>
      )}
    </>
  );
}
