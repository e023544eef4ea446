// Where GPU time went: the server's drawing, coloured by the page, each loss a link to who is
// behind it.
import { useEffect, useRef } from 'preact/hooks';
import { apiUrl, ReasonTime, Sankey } from './api';
import { gpuHours, money, percent } from './format';
import { useApi } from './live';
import { isPart, Part, PartFilters, partOf } from './part';
import { link, route } from './route';
import { CsvButton, Empty, Section, Table, TableColumn, Value, Waiting } from './ui';
import { WindowNote } from './usage';

// Losses that jobs can be ranked by, and what a ranking by them is called.
export const jobLosses: Record<string, string> = {
  unmeasured: 'GPU-h not measured',
  allocated_idle: 'GPU-h held idle',
  sm_idle: 'GPU-h, SMs idle',
  tensor_idle: 'GPU-h, tensor idle',
  below_full_clock: 'GPU-h below clock',
};

// Losses that hosts are behind: the time no job held.
export const hostLosses: Record<string, string> = {
  idle_hosts: 'idle hosts',
  idle_hosts_queued: 'idle hosts, jobs wait',
  free_on_busy_hosts: 'free on busy hosts',
  free_queued: 'free on busy hosts, jobs wait',
  mig_uncovered: 'SMs of no instance',
  down: 'down',
  drained: 'drained',
  maintenance: 'maintenance',
  powered_down: 'powered down',
};

type Loss = Sankey['losses'][number];

const kReasonsShown = 3;
const kLeastDrawn = 0.0005; // smaller shares are not in the drawing (fleet/sankey/svg.cc)

export const reasonsText = (reasons: ReasonTime[]): string =>
  reasons
    .slice(0, kReasonsShown)
    .map((r) => `${r.reason} (${gpuHours(r.gpu_seconds)} GPU-h)`)
    .join('; ') + (reasons.length > kReasonsShown ? '; …' : '');

const behind = (loss: Loss, part: Part): string =>
  loss.name in hostLosses
    ? link('/hosts', { ...part, loss: loss.name })
    : link('/jobs', { ...part, sort: loss.name });

function figures(sankey: Sankey) {
  return {
    header: ['kind', 'name', 'gpu_seconds', 'of_deployed', 'coverage', 'money', 'reasons'],
    rows: [
      ...sankey.levels.map((l) => [
        'level',
        l.name,
        l.gpu_seconds,
        l.of_deployed,
        l.coverage,
        l.name === 'deployed' ? sankey.deployed_money : null,
        null,
      ]),
      ...sankey.losses.map((l) => [
        'loss',
        l.name,
        l.gpu_seconds,
        l.of_deployed,
        null,
        l.money,
        l.reasons.map((r) => r.reason).join('; '),
      ]),
    ],
  };
}

// What the drawing's own tooltips do not have: what the scheduler wrote. As text: the reasons come
// from elsewhere.
function addToTooltips(drawing: Element, sankey: Sankey): void {
  const seen: Record<string, number> = {};
  for (const anchor of drawing.querySelectorAll('a')) {
    const query = new URL(anchor.getAttribute('href') ?? '', location.href).searchParams;
    const name = query.get('loss') ?? query.get('sort') ?? '';
    // A loss of one name may be drawn before several levels, in the order of the answer.
    const title = anchor.querySelector('title')?.textContent?.split('\n')[0] ?? '';
    const same = sankey.losses.filter(
      (l) => l.name === name && (l.of_deployed ?? 0) >= kLeastDrawn,
    );
    const loss = same.length > 1 ? same[(seen[name] = (seen[name] ?? -1) + 1)] : same[0];
    if (!loss || loss.reasons.length === 0) continue;
    for (const t of anchor.querySelectorAll('title'))
      t.textContent = `${title}\n${reasonsText(loss.reasons)}`;
  }
}

const lossColumns = (currency: string | null, part: Part): TableColumn<Loss>[] => [
  {
    id: 'loss',
    name: 'Loss',
    text: true,
    show: (l) => (
      <>
        <a href={behind(l, part)}>{l.title}</a>
        <span class="sub">before {l.before.replace(/_/g, ' ')}</span>
      </>
    ),
  },
  { id: 'gpu_hours', name: 'GPU-h', show: (l) => gpuHours(l.gpu_seconds) },
  { id: 'share', name: 'Of deployed', show: (l) => percent(l.of_deployed) },
  {
    id: 'money',
    name: 'Money',
    show: (l) => (
      <Value
        value={l.money}
        text={money(l.money, currency)}
        why="no price is known: [prices] (docs/usage.md)"
      />
    ),
  },
  {
    id: 'reasons',
    name: 'What the scheduler wrote',
    text: true,
    show: (l) => reasonsText(l.reasons),
  },
];

function Drawing({ svg, sankey }: { svg: string; sankey: Sankey | null }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current && sankey) addToTooltips(box.current, sankey);
  }, [svg, sankey]);
  // The drawing is the server's own, of names it declares: nothing in it comes from elsewhere.
  return <div ref={box} class="sankey" dangerouslySetInnerHTML={{ __html: svg }} />;
}

export function SankeySection({ from, to }: { from: string; to: string }) {
  const part = partOf(route.use().query);
  const sankey = useApi<Sankey>(apiUrl('sankey', { from, to, ...part }));
  const drawing = useApi<string>(apiUrl('sankey', { from, to, ...part, format: 'svg' }));
  const data = sankey.data;
  const notes = data
    ? [
        ...(data.draining_work_gpu_seconds > 0
          ? [
              `${gpuHours(data.draining_work_gpu_seconds)} GPU-h of the schedulable time were ` +
                'held on hosts that take no new work.',
            ]
          : []),
        ...data.notes,
      ]
    : [];
  return (
    <Section
      title="Where GPU time went"
      actions={
        data && (
          <>
            <WindowNote window={data.window} />
            <CsvButton file="sankey.csv" make={() => figures(data)} />
          </>
        )
      }
    >
      <PartFilters part={part} window={{ from, to }} />
      <Waiting loaded={drawing} height={360}>
        {(svg) =>
          data?.deployed_gpu_seconds === 0 ? (
            <Empty
              title={
                isPart(part)
                  ? 'Nothing of this part of the fleet was there in this window'
                  : 'No GPU was there in this window'
              }
            />
          ) : (
            <Drawing svg={svg} sankey={data} />
          )
        }
      </Waiting>
      {notes.length > 0 && (
        <ul class="sankey-notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {data && data.losses.length > 0 && (
        <details class="series-table">
          <summary>
            As a table
            {data.deployed_money !== null &&
              `; the deployed time cost ${money(data.deployed_money, data.currency)}`}
          </summary>
          <Table
            label="Losses"
            columns={lossColumns(data.currency, part)}
            rows={data.losses}
            rowKey={(l) => l.before + l.name}
          />
        </details>
      )}
    </Section>
  );
}
