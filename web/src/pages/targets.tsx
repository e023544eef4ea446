// The exporters: which answer, how fast, what of their answers was refused and why.
import { useState } from 'preact/hooks';
import { apiUrl, Counters, getJson, Target, Targets } from '../api';
import { Cell } from '../csv';
import { bytes, count, duration, unit } from '../format';
import { useApi } from '../live';
import { navigate, route, withQuery } from '../route';
import { CsvButton, Dot, Empty, Pager, Section, Table, TableColumn, Value, Waiting } from '../ui';
import { SearchField } from './jobs';

const kPage = 100;
const kCsvRows = 20_000;
const tones = { up: 'ok', pending: 'idle', down: 'bad', back_off: 'warn' } as const;
const names = { up: 'up', pending: 'pending', down: 'down', back_off: 'backing off' } as const;

const refusedTotal = (t: Target): number => Object.values(t.refused).reduce((sum, n) => sum + n, 0);

function Details({ target }: { target: Target }) {
  const [open, setOpen] = useState(false);
  const reasons = Object.entries(target.refused);
  const { conflicts, counters, frozen_gpus: frozen } = target;
  const wrong = counters.findings.map((f) => f.rule).join(', ');
  const says = [
    target.error,
    counters.faulty > 0 && `wrong counters: ${wrong}`, // the column beside it has the number
    counters.undecided > 0 && `counters of ${count(counters.undecided)} GPUs are undecided`,
    frozen > 0 && `${count(frozen)} frozen GPUs`,
    conflicts.length > 0 && `${count(conflicts.length)} contested GPUs`,
    !target.error && reasons.map(([reason, n]) => `${reason} ${count(n)}`).join(', '),
  ].filter(Boolean);
  if (says.length === 0 && target.examples.length === 0) return null;
  return (
    <details class="target" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{says.join('; ') || 'examples'}</summary>
      {frozen > 0 && (
        <p>
          {count(frozen)} GPUs answer with readings that have not changed for 90 s; they count as
          not observed.
        </p>
      )}
      {counters.findings.map((f) => (
        <p key={f.rule}>
          <code>{f.rule}</code> on {count(f.gpus)} GPUs ({f.examples.join(', ')}
          {f.gpus > f.examples.length && ', …'}), for {duration(f.for_s)}: {f.says}. Try:{' '}
          <code>{f.remedy}</code>
        </p>
      ))}
      {conflicts.map((c) => (
        <p key={`${c.gpu}/${c.gpu_instance}`}>
          <code>{c.kind}</code> {c.gpu}
          {c.gpu_instance !== null && `/${c.gpu_instance}`} is reported by {c.other} as well;{' '}
          {c.holds ? 'this target counts' : 'the other one counts'}, {count(c.refused_rows)} rows
          refused.
        </p>
      ))}
      {reasons.length > 0 && (
        <ul>
          {reasons.map(([reason, n]) => (
            <li key={reason}>
              <code>{reason}</code> {count(n)}
            </li>
          ))}
        </ul>
      )}
      {target.examples.map((example) => (
        <pre key={example}>{example}</pre>
      ))}
    </details>
  );
}

// What is thought of the counters of the target's GPUs; each GPU's own verdict is in the title.
function CounterVerdicts({ counters }: { counters: Counters }) {
  const parts = [
    counters.faulty > 0 && `${count(counters.faulty)} faulty`,
    counters.undecided > 0 && `${count(counters.undecided)} undecided`,
    counters.not_judged > 0 && `${count(counters.not_judged)} not judged`,
  ].filter(Boolean);
  const each = counters.gpus.map((g) => {
    const gpu = g.gpu_instance === null ? g.gpu : `${g.gpu}/${g.gpu_instance}`;
    return `${gpu}: ${g.rules.length > 0 ? g.rules.join(', ') : (g.why ?? g.verdict)}`;
  });
  if (counters.gpus.length === 0) return null;
  const tone = counters.faulty > 0 ? 'bad' : counters.undecided > 0 ? 'warn' : 'ok';
  return (
    <span title={each.join('\n')}>
      {counters.faulty + counters.undecided > 0 || parts.length === 0 ? (
        <Dot tone={tone}>{parts.join(', ') || 'ok'}</Dot>
      ) : (
        <Dot tone="idle">{parts.join(', ')}</Dot>
      )}
    </span>
  );
}

const columns: TableColumn<Target>[] = [
  {
    id: 'target',
    name: 'Target',
    text: true,
    show: (t) => (
      <>
        {t.node || t.url}
        <span class="sub">{t.pushed ? 'pushed' : t.url}</span>
      </>
    ),
  },
  {
    id: 'state',
    name: 'State',
    text: true,
    show: (t) => <Dot tone={tones[t.state]}>{names[t.state]}</Dot>,
  },
  {
    id: 'age',
    name: 'Last success',
    show: (t) => <Value value={t.age_s} text={`${duration(t.age_s)} ago`} why="never" />,
  },
  {
    id: 'duration',
    name: 'Took',
    show: (t) => (
      <Value
        value={t.last_duration_ms}
        text={unit(t.last_duration_ms, 0, 'ms')}
        why="not scraped yet"
      />
    ),
  },
  {
    id: 'size',
    name: 'Size',
    show: (t) => <Value value={t.last_scrape} text={bytes(t.last_bytes)} why="not scraped yet" />,
  },
  { id: 'gpus', name: 'GPUs', show: (t) => count(t.entities) },
  { id: 'samples', name: 'Samples', show: (t) => count(t.samples) },
  {
    id: 'failures',
    name: 'Failed',
    show: (t) => (
      <span title={`${t.timeouts} timeouts, ${t.oversized} oversized`}>
        {count(t.failures)} <span class="sub">of {count(t.scrapes)}</span>
      </span>
    ),
  },
  { id: 'refused', name: 'Refused', show: (t) => count(refusedTotal(t)) },
  {
    id: 'counters',
    name: 'Counters',
    text: true,
    show: (t) => <CounterVerdicts counters={t.counters} />,
  },
  { id: 'why', name: 'Why', text: true, show: (t) => <Details target={t} /> },
];

function targetsCsv(targets: Target[]): { header: string[]; rows: Cell[][] } {
  return {
    header: [
      'url',
      'node',
      'state',
      'last_scrape',
      'last_success',
      'age_s',
      'last_duration_ms',
      'last_bytes',
      'scrapes',
      'failures',
      'timeouts',
      'oversized',
      'samples',
      'entities',
      'refused',
      'error',
      'faulty_counters',
      'counter_faults',
    ],
    rows: targets.map((t) => [
      t.url,
      t.node,
      t.state,
      t.last_scrape,
      t.last_success,
      t.age_s,
      t.last_duration_ms,
      t.last_bytes,
      t.scrapes,
      t.failures,
      t.timeouts,
      t.oversized,
      t.samples,
      t.entities,
      refusedTotal(t),
      t.error,
      t.counters.faulty,
      t.counters.findings.map((f) => f.rule).join(' '),
    ]),
  };
}

export function TargetsPage() {
  const { query } = route.use();
  const q = query.get('q') ?? '';
  const state = query.get('state') ?? '';
  const offset = Math.max(0, Number.parseInt(query.get('offset') ?? '', 10) || 0);
  const targets = useApi<Targets>(
    apiUrl('targets', { q, state, limit: kPage, offset: offset || null }),
    { main: true },
  );
  return (
    <Section
      title="Targets"
      actions={
        <CsvButton
          file="targets.csv"
          make={async () =>
            targetsCsv(
              (await getJson<Targets>(apiUrl('targets', { q, state, limit: kCsvRows }))).targets,
            )
          }
        />
      }
    >
      <div class="filters">
        <SearchField
          name="q"
          value={q}
          label="Search targets"
          placeholder="Search node or address  ( / )"
        />
        <span class="segments" role="group" aria-label="State">
          {['', ...Object.keys(names)].map((s) => (
            <button
              key={s}
              type="button"
              aria-pressed={state === s}
              onClick={() => navigate(withQuery({ state: s, offset: null }))}
            >
              {s === '' ? 'all' : names[s as keyof typeof names]}
            </button>
          ))}
        </span>
        {targets.data && (
          <span class="note">
            {count(targets.data.up)} of {count(targets.data.total)} up
          </span>
        )}
      </div>
      <Waiting loaded={targets} height={400}>
        {(data) =>
          data.total === 0 ? (
            <Empty title="No targets">
              <p>
                Nothing is scraped or pushed. Start with{' '}
                <code>flopwatch serve --target 'gpu[001-128]:9400'</code>, give a target file,
                or push exposition text to <code>/api/v1/push/NODE</code>.
              </p>
            </Empty>
          ) : data.targets.length === 0 ? (
            <Empty title="No target matches">
              <p>
                <a href={withQuery({ q: null, state: null, offset: null })}>
                  Take the filters away
                </a>
                .
              </p>
            </Empty>
          ) : (
            <>
              <Table
                label="Targets"
                columns={columns}
                rows={data.targets}
                rowKey={(t) => t.url || t.node}
              />
              <Pager total={data.matching} limit={kPage} offset={offset} what="targets" />
            </>
          )
        }
      </Waiting>
    </Section>
  );
}
