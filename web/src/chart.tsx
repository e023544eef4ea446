// Lines over time with uPlot. Gaps stay gaps: a step without data has no line. Dragging chooses a
// new time window.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { Column } from './api';
import { kAbsent, moment } from './format';
import { navigate, withQuery } from './route';
import { theme } from './theme';

export interface Line {
  name: string;
  values: Column;
  color: string; // name of a custom property: "useful"
  text: (value: number) => string;
  width?: number;
  fill?: boolean;
  dash?: number[];
}

// Something that happened, drawn as a line over the height of the picture.
export interface ChartMark {
  at: number; // Unix seconds
  text: string;
}

interface Props {
  ts: number[];
  stepS: number;
  from: number; // Unix seconds, the whole window even where there is no data
  to: number;
  lines: Line[];
  height: number;
  label: string;
  // Smallest top of the scale (from zero) or smallest height (else), so that noise does not fill
  // the picture; `ratio` also cuts it at 1.
  minTop: number;
  ratio?: boolean;
  fromZero?: boolean;
  axisText: (value: number) => string;
  marks?: ChartMark[];
}

const kShortestWindowS = 120;

function property(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// `color` with an alpha, for fills.
function faint(color: string, alpha: number): string {
  return `color-mix(in srgb, ${color} ${alpha * 100}%, transparent)`;
}

const kMonths = [
  'Jan',
  'Feb',
  'Mar',
  'Apr',
  'May',
  'Jun',
  'Jul',
  'Aug',
  'Sep',
  'Oct',
  'Nov',
  'Dec',
];

// 14:05 within a day, "Nov 21" at midnight and where ticks are days apart. Local time.
function timeTicks(splits: number[]): string[] {
  const days = splits.length > 1 && splits[1] - splits[0] >= 86_400;
  return splits.map((t) => {
    const d = new Date(t * 1000);
    if (days || (d.getHours() === 0 && d.getMinutes() === 0))
      return `${kMonths[d.getMonth()]} ${d.getDate()}`;
    return `${String(d.getHours()).padStart(2, '0')}:${String(d.getMinutes()).padStart(2, '0')}`;
  });
}

function chooseWindow(from: number, to: number): void {
  const start = Math.floor(from / 60) * 60;
  const end = Math.max(Math.ceil(to / 60) * 60, start + kShortestWindowS);
  const iso = (t: number) => new Date(t * 1000).toISOString().replace('.000Z', 'Z');
  navigate(withQuery({ from: iso(start), to: iso(end), offset: null }));
}

const inWindow = ({ marks = [], from, to }: Props): ChartMark[] =>
  marks.filter((m) => m.at >= from && m.at <= to);

function drawMarks(u: uPlot, props: Props, color: string): void {
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = Math.max(1, Math.round(devicePixelRatio));
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of inWindow(props)) {
    // On whole dots: between two it would be a smear.
    const at = Math.min(Math.max(u.valToPos(mark.at, 'x', true), left), left + width);
    const x = Math.round(at) + (ctx.lineWidth % 2) / 2;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const mode = theme.use();

  const showValues = (u: uPlot) => {
    const { lines, ts } = latest.current;
    const values = legend.current?.querySelectorAll('.chart-value');
    const time = legend.current?.querySelector('.chart-time');
    const at = u.cursor.idx ?? null;
    lines.forEach((line, k) => {
      const value = at === null ? null : line.values[at];
      if (values?.[k])
        values[k].textContent =
          at === null ? '' : value === null || value === undefined ? kAbsent : line.text(value);
    });
    if (time) time.textContent = at === null || ts[at] === undefined ? '' : moment(ts[at] * 1000);
  };

  // A new plot when its shape changes; new data goes into the one that is there.
  const names = props.lines.map((l) => l.name + l.color).join();
  const shape = `${mode}|${names}|${props.height}|${props.label}`;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const muted = property('muted');
    const grid = property('grid');
    const warn = property('warn');
    const font = `11px ${property('font')}`;
    const points = { show: (_: uPlot, k: number) => isolated(latest.current.lines[k - 1]?.values) };
    const u = new uPlot(
      {
        width: element.clientWidth || 600,
        height: props.height,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: {
          sync: {
            key: 'flopwatch',
            filters: { pub: (type) => type !== 'mousedown' && type !== 'mouseup' },
          },
          drag: { x: true, y: false, setScale: false },
          points: { size: 6 },
          bind: {
            dblclick: () => () => {
              navigate(withQuery({ from: null, to: null }));
              return null;
            },
          },
        },
        scales: {
          x: { time: true, range: () => [latest.current.from, latest.current.to] },
          y: {
            range: (_, min, max) => {
              const { minTop, ratio, fromZero } = latest.current;
              if (fromZero === false) {
                const room = Math.max(minTop, (max ?? 0) - (min ?? 0)) * 0.15;
                return [Math.max(0, (min ?? 0) - room), (max ?? 0) + room];
              }
              const top = Math.max(minTop, (max ?? 0) * 1.08);
              return [0, ratio ? Math.min(1.02, top) : top];
            },
          },
        },
        axes: [
          {
            stroke: muted,
            font,
            grid: { show: false },
            ticks: { stroke: grid, size: 4 },
            size: 28,
            space: 64,
            values: (_, splits) => timeTicks(splits),
          },
          {
            stroke: muted,
            font,
            grid: { stroke: grid, width: 1 },
            ticks: { show: false },
            size: 52,
            space: 32,
            values: (_, splits) => splits.map((s) => latest.current.axisText(s)),
          },
        ],
        series: [
          {},
          ...props.lines.map((line) => {
            const color = property(line.color);
            return {
              label: line.name,
              stroke: color,
              width: line.width ?? 1.75,
              spanGaps: false,
              points,
              ...(line.fill ? { fill: faint(color, 0.12) } : {}),
              ...(line.dash ? { dash: line.dash } : {}),
            };
          }),
        ],
        hooks: {
          setCursor: [showValues],
          draw: [(self) => drawMarks(self, latest.current, warn)],
          setSelect: [
            (self) => {
              if (self.select.width < 4) return;
              const from = self.posToVal(self.select.left, 'x');
              const to = self.posToVal(self.select.left + self.select.width, 'x');
              self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              chooseWindow(from, to);
            },
          ],
        },
      },
      [latest.current.ts, ...latest.current.lines.map((l) => l.values)] as uPlot.AlignedData,
      element,
    );
    plot.current = u;
    const resize = new ResizeObserver(() => {
      if (element.clientWidth > 0) u.setSize({ width: element.clientWidth, height: props.height });
    });
    resize.observe(element);
    return () => {
      resize.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData([props.ts, ...props.lines.map((l) => l.values)] as uPlot.AlignedData);
  }, [props.ts, props.from, props.to, ...props.lines.map((l) => l.values)]);

  const marked = inWindow(props)
    .map((m) => `${m.at} ${m.text}`)
    .join();
  useEffect(() => plot.current?.redraw(false), [marked]);

  return (
    <figure class="chart">
      <figcaption ref={legend}>
        <span class="chart-time" />
        {props.lines.map((line) => (
          <span key={line.name} class="chart-key">
            <i
              class={line.dash ? 'dashed' : ''}
              style={{ borderColor: `var(--${line.color})` }}
              aria-hidden="true"
            />
            {line.name} <b class="chart-value" />
          </span>
        ))}
      </figcaption>
      <div
        ref={box}
        class="plot"
        style={{ height: `${props.height}px` }}
        role="img"
        aria-label={`${props.label}: ${summary(props)}`}
      />
    </figure>
  );
}

// Steps with no neighbour would draw no line: they get a point.
function isolated(values: Column | undefined): boolean {
  if (!values) return false;
  return (
    values.length < 2 ||
    values.every(
      (v, k) =>
        v === null || ((values[k - 1] ?? null) === null && (values[k + 1] ?? null) === null),
    )
  );
}

function summary(props: Props): string {
  const marks = inWindow(props).map((m) => `; ${m.text} at ${moment(m.at * 1000)}`);
  return props.lines
    .map((line) => {
      const known = line.values.filter((v): v is number => v !== null);
      if (known.length === 0) return `${line.name}: no data`;
      const [low, high] = [Math.min(...known), Math.max(...known)];
      return `${line.name} between ${line.text(low)} and ${line.text(high)}`;
    })
    .join('; ')
    .concat(...marks);
}
