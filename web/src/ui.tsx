// Small pieces every page uses.
import { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { ApiError, Usage } from './api';
import { Cell, download, toCsv } from './csv';
import { duration, kAbsent, moment, percentNumber } from './format';
import { Loaded, refreshNow } from './live';
import { Metric, MetricId, metrics } from './metrics';
import { useReasons } from './reasons';
import { navigate, withQuery } from './route';
import { Store } from './store';

// --- help on metrics ---

const help = new Store<{ id: MetricId; x: number; y: number } | null>(null);

// The name of a metric; a click explains it.
export function Name({ id, label }: { id: MetricId; label?: string }) {
  return (
    <button
      type="button"
      class="metric"
      aria-haspopup="dialog"
      onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        event.stopPropagation();
        help.set({ id, x: box.left, y: box.bottom + 6 });
      }}
    >
      {label ?? metrics[id].label}
    </button>
  );
}

export function HelpPopover() {
  const open = help.use();
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = ref.current;
    if (!open || !box) return;
    box.showPopover();
    const width = box.offsetWidth;
    const height = box.offsetHeight;
    const left = Math.max(8, Math.min(open.x, innerWidth - width - 8));
    const top = open.y + height + 8 > innerHeight ? Math.max(8, open.y - height - 32) : open.y;
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  }, [open]);
  const metric: Metric | null = open ? metrics[open.id] : null;
  return (
    <div
      ref={ref}
      class="help"
      popover="auto"
      role="dialog"
      aria-label={metric?.title ?? 'Help'}
      onToggle={(event) => {
        if ((event as ToggleEvent).newState === 'closed') help.set(null);
      }}
    >
      {metric && (
        <>
          <h3>{metric.title}</h3>
          <p>{metric.what}</p>
          <dl>
            {metric.formula && (
              <>
                <dt>Formula</dt>
                <dd>{metric.formula}</dd>
              </>
            )}
            {metric.caveat && (
              <>
                <dt>Caveat</dt>
                <dd>{metric.caveat}</dd>
              </>
            )}
            {metric.source && (
              <>
                <dt>Source</dt>
                <dd>{metric.source}</dd>
              </>
            )}
          </dl>
        </>
      )}
    </div>
  );
}

// --- values ---

// "–" that says why.
export function Absent({ why }: { why: string | null | undefined }) {
  return (
    <span
      class="absent"
      role="img"
      aria-label={`not known: ${why ?? 'not reported'}`}
      title={why ?? 'not reported'}
    >
      {kAbsent}
    </span>
  );
}

// A text, or "–" with the reason when there is no value behind it.
export function Value({ value, text, why }: { value: unknown; text: string; why?: string | null }) {
  return value === null || value === undefined ? <Absent why={why} /> : <>{text}</>;
}

// A ratio with a small bar; `scale` is the full length.
export function Ratio({
  value,
  why,
  scale = 1,
  tone = 'useful',
}: {
  value: number | null;
  why?: string | null;
  scale?: number;
  tone?: string;
}) {
  const share = value === null ? 0 : Math.max(0, Math.min(1, value / scale));
  return (
    <span class="ratio">
      <span class={`bar ${value === null ? 'none' : tone}`} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span class="num">
        <Value value={value} text={percentNumber(value)} why={why} />
      </span>
    </span>
  );
}

// OFU, or "–" with the reason in view beside it: what is before the colon, the rest as its title.
export function Ofu({ value, why }: { value: number | null; why: string }) {
  if (value !== null) return <Ratio value={value} />;
  return (
    <span class="no-ofu">
      <span class="reason" title={why}>
        {why.split(':')[0]}
      </span>{' '}
      <Absent why={why} />
    </span>
  );
}

// What stands out, in the terminal's words; before it that MFU and OFU cannot both be right.
export function Note({ usage, alarm }: { usage: Usage; alarm?: string }) {
  return (
    <>
      {alarm !== undefined && (
        <span class="flag warn" title={alarm}>
          MFU against OFU
        </span>
      )}{' '}
      {usage.note !== null && <span class="words">{usage.note}</span>}
    </>
  );
}

// `compact`: one chip that counts them, where the page behind the row has the words.
export function Flags({ flags, compact }: { flags: string[]; compact?: boolean }) {
  const wordsOf = useReasons();
  if (compact && flags.length > 0) {
    const words = flags.map((f) => wordsOf(f).title).join(', ');
    return (
      <span
        class={`flag ${flags.every((f) => kNeutralFlags.has(f)) ? '' : 'warn'}`}
        role="img"
        aria-label={words}
        title={words}
      >
        {flags.length}
      </span>
    );
  }
  return (
    <span class="flags">
      {flags.map((flag) => (
        <span
          key={flag}
          class={`flag ${kNeutralFlags.has(flag) ? '' : 'warn'}`}
          title={wordsOf(flag).advice ?? ''}
        >
          {wordsOf(flag).title}
        </span>
      ))}
    </span>
  );
}
const kNeutralFlags = new Set([
  'exact',
  'low_coverage',
  'stale_repeat',
  'cycle_path',
  'span_unknown',
  'backfilled',
  'mig_parent',
]);

export const whyNot = (usage: Usage): string => usage.ofu_reason ?? 'not computable';

export function Dot({
  tone,
  children,
}: {
  tone: 'ok' | 'warn' | 'bad' | 'idle';
  children: ComponentChildren;
}) {
  return (
    <span class={`dot ${tone}`}>
      <i aria-hidden="true" />
      {children}
    </span>
  );
}

export function Tile({
  name,
  children,
  note,
}: {
  name: ComponentChildren;
  children: ComponentChildren;
  note?: ComponentChildren;
}) {
  return (
    <div class="tile">
      <div class="tile-name">{name}</div>
      <div class="tile-value">{children}</div>
      {note && <div class="tile-note">{note}</div>}
    </div>
  );
}

// --- tables ---

export interface TableColumn<Row> {
  id: string;
  name: ComponentChildren;
  text?: boolean; // left-aligned
  minor?: boolean; // left out on a narrow screen
  wrap?: boolean; // sentences: several lines instead of cut
  sort?: string; // key of the order this column gives; absent = not sortable
  first?: 'asc' | 'desc'; // order at the first click
  show: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  columns: TableColumn<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  label: string;
  order?: { sort: string; direction: 'asc' | 'desc' };
  onOrder?: (sort: string, direction: 'asc' | 'desc') => void;
  dim?: boolean;
}

const cellClass = (c: { text?: boolean; minor?: boolean; wrap?: boolean }): string =>
  `${c.text ? 'text' : ''}${c.minor ? ' minor' : ''}${c.wrap ? ' wrap' : ''}`;

export function Table<Row>({ columns, rows, rowKey, label, order, onOrder, dim }: TableProps<Row>) {
  return (
    <div class={`table-box ${dim ? 'dim' : ''}`} role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((c) => {
              const active = order !== undefined && c.sort === order.sort;
              const next = active
                ? order.direction === 'asc'
                  ? 'desc'
                  : 'asc'
                : (c.first ?? 'desc');
              return (
                <th
                  key={c.id}
                  scope="col"
                  class={cellClass(c)}
                  aria-sort={
                    active ? (order.direction === 'asc' ? 'ascending' : 'descending') : undefined
                  }
                >
                  {c.name}
                  {c.sort !== undefined && onOrder && (
                    <button
                      type="button"
                      class={`sort ${active ? 'active' : ''}`}
                      aria-label={`Sort by ${c.id}, ${next === 'asc' ? 'ascending' : 'descending'}`}
                      onClick={() => onOrder(c.sort as string, next)}
                    >
                      {active ? (order.direction === 'asc' ? '▲' : '▼') : '▾'}
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((c) => (
                <td key={c.id} class={cellClass(c)}>
                  {c.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function CsvButton({
  file,
  make,
}: {
  file: string;
  make: () => Promise<{ header: string[]; rows: Cell[][] }> | { header: string[]; rows: Cell[][] };
}) {
  return (
    <button
      type="button"
      class="quiet"
      title={`Download ${file}`}
      onClick={async () => {
        const { header, rows } = await make();
        download(file, toCsv(header, rows));
      }}
    >
      CSV
    </button>
  );
}

// One of several; `choices`: what a value is called.
export function Select({
  label,
  value,
  choices,
  onChoose,
}: {
  label: string;
  value: string;
  choices: Record<string, string>;
  onChoose: (value: string) => void;
}) {
  return (
    <label class="check">
      {label}
      <select value={value} onChange={(e) => onChoose(e.currentTarget.value)}>
        {Object.entries(choices).map(([id, name]) => (
          <option key={id} value={id} selected={id === value}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Pager({
  total,
  limit,
  offset,
  what,
}: {
  total: number;
  limit: number;
  offset: number;
  what: string;
}) {
  if (total === 0) return null;
  const last = Math.min(total, offset + limit);
  const go = (to: number) => navigate(withQuery({ offset: to > 0 ? to : null }));
  return (
    <div class="pager">
      <span>
        {offset + 1}–{last} of {total.toLocaleString('en-US')} {what}
      </span>
      <button type="button" disabled={offset === 0} onClick={() => go(Math.max(0, offset - limit))}>
        Previous
      </button>
      <button type="button" disabled={last >= total} onClick={() => go(offset + limit)}>
        Next
      </button>
    </div>
  );
}

export function Section({
  title,
  actions,
  children,
  id,
}: {
  title: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}) {
  return (
    <section class="card" id={id}>
      <header>
        <h2>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

// --- states: loading, error, empty ---

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Problem({ error }: { error: ApiError }) {
  const title =
    error.status === 0
      ? 'No answer from the server'
      : error.status === 404
        ? 'Not found'
        : error.status === 400
          ? 'The question was not understood'
          : `The server reports a problem (${error.status})`;
  return (
    <div class="state bad" role="alert">
      <strong>{title}</strong>
      <p>{error.message}</p>
      {error.advice && <p>To try: {error.advice}</p>}
      {error.status === 0 && (
        <p>
          Is <code>flopwatch serve</code> still running? The page asks again every 10 s.
        </p>
      )}
      <button type="button" onClick={refreshNow}>
        Try now
      </button>
    </div>
  );
}

// What to show before there is data: a frame of the final size, or the error.
export function Waiting<T>({
  loaded,
  height,
  children,
}: {
  loaded: Loaded<T>;
  height: number;
  children: (data: T) => ComponentChildren;
}) {
  if (loaded.data !== null)
    return <div class={loaded.changing ? 'dim' : ''}>{children(loaded.data)}</div>;
  if (loaded.error) return <Problem error={loaded.error} />;
  return (
    <div class="skeleton" style={{ height: `${height}px` }} role="status" aria-label="Loading" />
  );
}

export const since = (time: string | null): string =>
  time === null ? kAbsent : `${duration((Date.now() - new Date(time).getTime()) / 1000)} ago`;
export const When = ({ time, none }: { time: string | null; none?: string }) =>
  time === null ? (
    <Absent why={none} />
  ) : (
    <time dateTime={time} title={`${time} (${since(time)})`}>
      {moment(time)}
    </time>
  );
