// Compare: two runs, or two windows, side by side: each figure, its change against what runs of the
// workflow scatter, and what else changed.
import { useState } from 'preact/hooks';
import { apiUrl, ComparedSide, Comparison } from '../api';
import { fixed, gpuHours, moment, percent, signed } from '../format';
import { useApi } from '../live';
import { jobPath, link, navigate, route, withQuery } from '../route';
import { CsvButton, Dot, Empty, Section, Table, TableColumn, Value, Waiting } from '../ui';

type Figure = Comparison['figures'][number];
type Difference = Comparison['differences'][number];

const words: Record<string, string> = {
  ofu: 'OFU',
  ofu_busy: 'OFU while a kernel ran',
  mfu: 'MFU',
  duty: 'Duty cycle',
  sm_efficiency: 'SM efficiency',
  tensor_active: 'Tensor activity',
  occupancy_elapsed: 'Occupancy, elapsed',
  gpu_seconds: 'GPU-hours',
  sm_clock_mhz: 'SM clock',
  power_w: 'Power per GPU',
  tokens_per_s: 'Tokens/s',
  tflops_per_gpu: 'TFLOP/s per GPU',
  step_time_s: 'Step time, s',
};
const nameOf = (figure: string): string => words[figure] ?? figure.replaceAll('_', ' ');

const shown = (unit: Figure['unit'], v: number | null): string =>
  unit === 'ratio'
    ? percent(v)
    : unit === 'gpu_seconds'
      ? gpuHours(v)
      : unit === 'mhz'
        ? `${fixed(v, 0)} MHz`
        : unit === 'w'
          ? `${fixed(v, 0)} W`
          : fixed(v, 2);

const figureColumns: TableColumn<Figure>[] = [
  { id: 'figure', name: 'Figure', text: true, show: (f) => nameOf(f.figure) },
  {
    id: 'a',
    name: 'A',
    show: (f) => <Value value={f.a} text={shown(f.unit, f.a)} why="not measured" />,
  },
  {
    id: 'b',
    name: 'B',
    show: (f) => <Value value={f.b} text={shown(f.unit, f.b)} why="not measured" />,
  },
  {
    id: 'change',
    name: 'Change',
    show: (f) => (
      <Value
        value={f.change}
        text={signed(f.change ?? 0, percent)}
        why="not measured on both sides"
      />
    ),
  },
  {
    id: 'scatter',
    name: 'Runs scatter by',
    show: (f) => (
      <Value
        value={f.scatter}
        text={`${percent(f.scatter)} (${f.scatter_runs} runs)`}
        why="fewer than five runs of the workflow"
      />
    ),
  },
  {
    id: 'unusual',
    name: 'Beyond that',
    text: true,
    show: (f) =>
      f.unusual === null ? (
        <Value value={null} text="" why="without a scatter nobody knows" />
      ) : f.unusual ? (
        <Dot tone="warn">yes</Dot>
      ) : (
        'no'
      ),
  },
];

const differenceColumns: TableColumn<Difference>[] = [
  { id: 'what', name: 'What', text: true, show: (d) => d.what.replaceAll('_', ' ') },
  {
    id: 'a',
    name: 'A',
    text: true,
    wrap: true,
    show: (d) => <Value value={d.a} text={d.a ?? ''} why="not known" />,
  },
  {
    id: 'b',
    name: 'B',
    text: true,
    wrap: true,
    show: (d) => <Value value={d.b} text={d.b ?? ''} why="not known" />,
  },
];

const csv = (c: Comparison) => ({
  header: ['figure', 'unit', 'a', 'b', 'change', 'scatter', 'scatter_runs', 'unusual'],
  rows: c.figures.map((f) => [
    f.figure,
    f.unit,
    f.a,
    f.b,
    f.change,
    f.scatter,
    f.scatter_runs,
    f.unusual === null ? null : String(f.unusual),
  ]),
});

function Side({ name, side }: { name: string; side: ComparedSide }) {
  return (
    <p class="note">
      <b>{name}</b>{' '}
      {side.kind === 'job' ? <a href={link(jobPath(side.name))}>{side.name}</a> : side.name}
      {side.workflow && `, of ${side.workflow}`}
      {side.user && `, by ${side.user}`}: {moment(side.window.from)} – {moment(side.window.to)}
      {side.kind === 'window' && `, ${side.runs} runs`}
    </p>
  );
}

function Ask({ a, b }: { a: string; b: string }) {
  const [left, setLeft] = useState(a);
  const [right, setRight] = useState(b);
  return (
    <form
      class="filters"
      onSubmit={(e) => {
        e.preventDefault();
        navigate(withQuery({ a: left.trim(), b: right.trim() }));
      }}
    >
      <label class="check">
        A{' '}
        <input
          type="text"
          value={left}
          onInput={(e) => setLeft(e.currentTarget.value)}
          required
        />
      </label>
      <label class="check">
        B{' '}
        <input
          type="text"
          value={right}
          onInput={(e) => setRight(e.currentTarget.value)}
          required
        />
      </label>
      <button type="submit">Compare</button>
      <span class="note">a job each, or a window FROM/TO: 2026-11-17/2026-11-18</span>
    </form>
  );
}

function Answer({ data }: { data: Comparison }) {
  return (
    <>
      <Section
        title="Figures"
        actions={<CsvButton file="compare.csv" make={() => csv(data)} />}
      >
        <Side name="A" side={data.a} />
        <Side name="B" side={data.b} />
        <Table
          label="Figures of both"
          columns={figureColumns}
          rows={data.figures}
          rowKey={(f) => f.figure}
        />
      </Section>
      <Section title="What else changed">
        {data.notes.map((note) => (
          <p class="note" key={note}>
            {note}
          </p>
        ))}
        {data.differences.length === 0 ? (
          <Empty title="Nothing that is known" />
        ) : (
          <Table
            label="What else changed"
            columns={differenceColumns}
            rows={data.differences}
            rowKey={(d) => d.what}
          />
        )}
      </Section>
    </>
  );
}

function Compared({ a, b }: { a: string; b: string }) {
  const compared = useApi<Comparison>(apiUrl('compare', { a, b }), { main: true, fixed: true });
  return (
    <Waiting loaded={compared} height={400}>
      {(data) => <Answer data={data} />}
    </Waiting>
  );
}

export function ComparePage() {
  const { query } = route.use();
  const a = query.get('a') ?? '';
  const b = query.get('b') ?? '';
  return (
    <>
      <Section title="Compare">
        <Ask key={`${a} ${b}`} a={a} b={b} />
        {(!a || !b) && (
          <Empty title="Two runs or two windows, side by side">
            <p>
              Name a job on each side: each figure is set against what runs of its workflow scatter.
            </p>
          </Empty>
        )}
      </Section>
      {a && b && <Compared a={a} b={b} />}
    </>
  );
}
