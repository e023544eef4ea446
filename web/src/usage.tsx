// One usage object as a headline, as tiles, as charts, as CSV.
import { Series, TimeWindow, Usage } from './api';
import { Chart, ChartMark } from './chart';
import { Cell } from './csv';
import {
  energy,
  fixed,
  gpuHours,
  isoSeconds,
  moment,
  percent,
  percentNumber,
  unit,
} from './format';
import { sources } from './metrics';
import { Absent, CsvButton, Name, Section, Tile, Value, whyNot } from './ui';

// Where the expected GPU-time went: useful, lost, not known.
export function SplitBar({ usage }: { usage: Usage }) {
  const expected = Math.max(usage.gpu_seconds, usage.computable_gpu_seconds);
  if (expected <= 0) return null;
  const useful = usage.computable_gpu_seconds - usage.lost_gpu_seconds;
  const unknown = expected - usage.computable_gpu_seconds;
  const parts = [
    { id: 'useful', label: 'useful', s: useful },
    { id: 'lost', label: 'lost', s: usage.lost_gpu_seconds },
    { id: 'unknown', label: 'not known', s: unknown },
  ].filter((p) => p.s / expected >= 0.0005);
  return (
    <div class="split">
      <div
        class="split-bar"
        role="img"
        aria-label={parts.map((p) => `${p.label} ${percent(p.s / expected)}`).join(', ')}
      >
        {parts.map((p) => (
          <span key={p.id} class={p.id} style={{ width: `${(100 * p.s) / expected}%` }} />
        ))}
      </div>
      <div class="split-key">
        {parts.map((p) => (
          <span key={p.id}>
            <i class={p.id} aria-hidden="true" />
            {p.label} <b>{gpuHours(p.s)}</b> GPU-h
          </span>
        ))}
      </div>
    </div>
  );
}

// The number with its meaning: interval, coverage, weight, source.
export function Headline({ usage, title }: { usage: Usage; title: string }) {
  return (
    <div class="headline">
      <div class="headline-name">
        <Name id="ofu" label={title} />
      </div>
      <div class="headline-value">
        {usage.ofu === null ? (
          <Absent why={whyNot(usage)} />
        ) : (
          <>
            <span data-testid="ofu">{percentNumber(usage.ofu)}</span>
            <small>%</small>
          </>
        )}
        {usage.ofu_ci95 !== null && (
          <span class="ci" title="half-width of the 95 % confidence interval, percentage points">
            ± {fixed(usage.ofu_ci95 * 100, usage.ofu_ci95 < 0.00095 ? 2 : 1)}
          </span>
        )}
      </div>
      {usage.ofu === null ? (
        <p class="why">Not computable: {whyNot(usage)}.</p>
      ) : (
        <p class="basis">
          <Name id="coverage" /> {percent(usage.coverage)} of {gpuHours(usage.gpu_seconds)} GPU-h ·
          weighted by GPU-time · {usage.source ? sources[usage.source] : 'no source'}
        </p>
      )}
      <SplitBar usage={usage} />
    </div>
  );
}

// OFU is tensor activity times how fast the clock ran meanwhile.
export function clockShare(usage: Usage): number | null {
  return usage.ofu === null || !usage.tensor_active || usage.source !== 'ratio'
    ? null
    : usage.ofu / usage.tensor_active;
}

export function UsageTiles({ usage }: { usage: Usage }) {
  const share = clockShare(usage);
  return (
    <div class="tiles">
      <Tile name={<Name id="tensor_active" />}>
        <Value
          value={usage.tensor_active}
          text={percent(usage.tensor_active)}
          why="the exporter does not report it"
        />
      </Tile>
      <Tile
        name={<Name id="sm_clock" />}
        note={
          share !== null && (
            <>
              <Name id="clock_share" /> {percent(share)}
            </>
          )
        }
      >
        <Value
          value={usage.sm_clock_mhz}
          text={unit(usage.sm_clock_mhz, 0, 'MHz')}
          why="the exporter does not report it"
        />
      </Tile>
      <Tile name={<Name id="gpu_util" />} note="not efficiency">
        <Value
          value={usage.gpu_util}
          text={percent(usage.gpu_util)}
          why="the exporter does not report it"
        />
      </Tile>
      <Tile name={<Name id="power" />} note="per GPU">
        <Value
          value={usage.power_w}
          text={unit(usage.power_w, 0, 'W')}
          why="the exporter does not report it"
        />
      </Tile>
      <Tile name={<Name id="energy" />}>
        <Value value={usage.energy_j} text={energy(usage.energy_j)} why="needs power readings" />
      </Tile>
      <Tile name={<Name id="lost" />} note={`of ${gpuHours(usage.gpu_seconds)} GPU-h`}>
        <Value value={usage.ofu} text={gpuHours(usage.lost_gpu_seconds)} why={whyNot(usage)} />
      </Tile>
    </div>
  );
}

const whole = (v: number) => `${Math.round(v * 100)} %`;
// Short ticks: 250, 1.5, 12k
const axisCount = (v: number) =>
  v >= 10_000
    ? `${fixed(v / 1000, v % 1000 ? 1 : 0)}k`
    : fixed(v, Number.isInteger(v) ? 0 : v < 1 ? 2 : 1);

export function seriesCsv(series: Series): { header: string[]; rows: Cell[][] } {
  const columns = [
    'ofu',
    'coverage',
    'gpu_seconds',
    'tensor_active',
    'sm_clock_mhz',
    'gpu_util',
    'power_w',
  ] as const;
  return {
    header: ['time', ...columns],
    rows: series.ts.map((t, k) => [isoSeconds(t), ...columns.map((c) => series[c][k])]),
  };
}

export const bounds = (window: { from: string; to: string }) => ({
  from: Date.parse(window.from) / 1000,
  to: Date.parse(window.to) / 1000,
});

export function WindowNote({ window, stepS }: { window: TimeWindow; stepS?: number }) {
  const how = { live: 'from memory', rollup: 'from rollups', raw: 'from raw samples' }[
    window.source
  ];
  return (
    <span class="note">
      {moment(window.from)} – {moment(window.to)},{' '}
      {stepS !== undefined &&
        `${stepS >= 3600 ? `${stepS / 3600} h` : `${stepS / 60} min`} steps, `}
      {how}
    </span>
  );
}

// The numbers behind the charts, for readers of tables.
export function SeriesTable({ series }: { series: Series }) {
  return (
    <details class="series-table">
      <summary>As a table</summary>
      <div class="table-box" tabIndex={0} role="region" aria-label="Values over time">
        <table>
          <thead>
            <tr>
              <th class="text">Time</th>
              <th>OFU %</th>
              <th>Coverage %</th>
              <th>GPU-h</th>
              <th>Tensor %</th>
              <th>Clock MHz</th>
              <th>Duty cycle %</th>
              <th>Power W</th>
            </tr>
          </thead>
          <tbody>
            {series.ts.map((t, k) => (
              <tr key={t}>
                <td class="text">{moment(t * 1000)}</td>
                <td>{percentNumber(series.ofu[k])}</td>
                <td>{percentNumber(series.coverage[k])}</td>
                <td>{gpuHours(series.gpu_seconds[k])}</td>
                <td>{percentNumber(series.tensor_active[k])}</td>
                <td>{fixed(series.sm_clock_mhz[k], 0)}</td>
                <td>{percentNumber(series.gpu_util[k])}</td>
                <td>{fixed(series.power_w[k], 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

// What the other charts stand on: how much of the GPU-time is known, and how much there was.
function BasisCharts({
  series,
  window,
  marks,
}: {
  series: Series;
  window: TimeWindow;
  marks?: ChartMark[];
}) {
  const frame = { ts: series.ts, stepS: series.step_s, ...bounds(window), marks };
  return (
    <div class="charts two">
      <Chart
        {...frame}
        height={110}
        label="Coverage over time"
        minTop={1.02}
        ratio
        axisText={whole}
        lines={[
          {
            name: 'Coverage',
            values: series.coverage,
            color: 'neutral',
            text: percent,
            fill: true,
          },
        ]}
      />
      <Chart
        {...frame}
        height={110}
        label="GPU-hours over time"
        minTop={0.01}
        axisText={axisCount}
        lines={[
          {
            name:
              'GPU-hours per ' +
              (series.step_s >= 3600 ? `${series.step_s / 3600} h` : `${series.step_s / 60} min`),
            values: series.gpu_seconds.map((s) => (s === null ? null : s / 3600)),
            color: 'neutral',
            text: (hours) => gpuHours(hours * 3600),
            fill: true,
          },
        ]}
      />
    </div>
  );
}

// OFU with the duty cycle beside it, and what is behind it: coverage and GPU-time.
export function FleetCharts({ series, window }: { series: Series; window: TimeWindow }) {
  const frame = { ts: series.ts, stepS: series.step_s, ...bounds(window) };
  return (
    <>
      <Chart
        {...frame}
        height={240}
        label="OFU over time"
        minTop={0.1}
        ratio
        axisText={whole}
        lines={[
          { name: 'OFU', values: series.ofu, color: 'useful', text: percent, width: 2, fill: true },
          {
            name: 'Tensor activity',
            values: series.tensor_active,
            color: 'second',
            text: percent,
            width: 1.25,
          },
          {
            name: 'Duty cycle',
            values: series.gpu_util,
            color: 'third',
            text: percent,
            width: 1.25,
            dash: [4, 3],
          },
        ]}
      />
      <BasisCharts series={series} window={window} />
      <SeriesTable series={series} />
    </>
  );
}

export function UsageCharts({
  series,
  window,
  file,
  marks,
}: {
  series: Series;
  window: TimeWindow;
  file: string;
  marks?: ChartMark[];
}) {
  const frame = { ts: series.ts, stepS: series.step_s, ...bounds(window), height: 150, marks };
  return (
    <Section
      title="Over time"
      actions={
        <>
          <WindowNote window={window} stepS={series.step_s} />
          <CsvButton file={`${file}.csv`} make={() => seriesCsv(series)} />
        </>
      }
    >
      <div class="charts two">
        <Chart
          {...frame}
          label="OFU over time"
          minTop={0.1}
          ratio
          axisText={whole}
          lines={[
            {
              name: 'OFU',
              values: series.ofu,
              color: 'useful',
              text: percent,
              width: 2,
              fill: true,
            },
          ]}
        />
        <Chart
          {...frame}
          label="Tensor activity and duty cycle over time"
          minTop={0.1}
          ratio
          axisText={whole}
          lines={[
            {
              name: 'Tensor activity',
              values: series.tensor_active,
              color: 'second',
              text: percent,
            },
            {
              name: 'Duty cycle',
              values: series.gpu_util,
              color: 'third',
              text: percent,
              width: 1.25,
              dash: [4, 3],
            },
          ]}
        />
        <Chart
          {...frame}
          label="SM clock over time"
          minTop={100}
          fromZero={false}
          axisText={(v) => fixed(v, 0)}
          lines={[
            {
              name: 'SM clock, MHz',
              values: series.sm_clock_mhz,
              color: 'second',
              text: (v) => unit(v, 0, 'MHz'),
            },
          ]}
        />
        <Chart
          {...frame}
          label="Power per GPU over time"
          minTop={50}
          axisText={(v) => fixed(v, 0)}
          lines={[
            {
              name: 'Power per GPU, W',
              values: series.power_w,
              color: 'third',
              text: (v) => unit(v, 0, 'W'),
              fill: true,
            },
          ]}
        />
      </div>
      <BasisCharts series={series} window={window} marks={marks} />
      <SeriesTable series={series} />
    </Section>
  );
}
