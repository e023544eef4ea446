// The hosts behind a loss above "allocated", and the GPUs of one host.
import { apiUrl, getJson, GpuNow, Gpus, SankeyNode, SankeyNodes } from '../api';
import { count, duration, gpuHours, money, percent, shortModel, shortUuid, unit } from '../format';
import { kPage, ListSection, offsetOf } from '../list';
import { useApi } from '../live';
import { PartChips, partOf } from '../part';
import { useReasons } from '../reasons';
import { gpuPath, jobPath, link, navigate, route, windowOf, withQuery } from '../route';
import { hostLosses, reasonsText } from '../sankey';
import { Dot, Empty, Flags, Name, Ofu, Ratio, Select, TableColumn, Value } from '../ui';

const kCsvRows = 100_000;

const hostColumns = (currency: string | null): TableColumn<SankeyNode>[] => [
  {
    id: 'node',
    name: 'Host',
    text: true,
    show: (n) => <a href={link('/gpus', { node: n.node })}>{n.node}</a>,
  },
  { id: 'lost', name: 'GPU-h of this loss', show: (n) => gpuHours(n.gpu_seconds) },
  {
    id: 'share',
    name: 'Share of the loss %',
    show: (n) => <Ratio value={n.of_loss} tone="loss" />,
  },
  {
    id: 'money',
    name: 'Money',
    show: (n) => (
      <Value
        value={n.money}
        text={money(n.money, currency)}
        why="no price is known: [prices] (docs/usage.md)"
      />
    ),
  },
  {
    id: 'deployed',
    name: 'Deployed GPU-h',
    minor: true,
    show: (n) => gpuHours(n.deployed_gpu_seconds),
  },
  {
    id: 'held',
    name: 'Held GPU-h',
    minor: true,
    show: (n) => gpuHours(n.allocated_gpu_seconds),
  },
  {
    id: 'reasons',
    name: 'What the scheduler wrote',
    text: true,
    show: (n) => (
      <Value
        value={n.reasons.length || null}
        text={reasonsText(n.reasons)}
        why="it wrote no reason"
      />
    ),
  },
];

const hostsCsv = (answer: SankeyNodes) => ({
  header: [
    'node',
    'loss',
    'gpu_seconds',
    'of_loss',
    'deployed_gpu_seconds',
    'allocated_gpu_seconds',
    'money',
    'currency',
    'reasons',
  ],
  rows: answer.nodes.map((n) => [
    n.node,
    answer.loss,
    n.gpu_seconds,
    n.of_loss,
    n.deployed_gpu_seconds,
    n.allocated_gpu_seconds,
    n.money,
    answer.currency,
    n.reasons.map((r) => r.reason).join('; '),
  ]),
});

export function HostsPage() {
  const { query } = route.use();
  const loss = query.get('loss') ?? 'idle_hosts';
  const offset = offsetOf(query);
  const { cluster, partition, model } = partOf(query);
  const part = { cluster, partition, model };
  const asked = { ...windowOf(query), ...part, loss };
  const hosts = useApi<SankeyNodes>(
    apiUrl('sankey/nodes', { ...asked, limit: kPage, offset: offset || null }),
    { main: true },
  );
  return (
    <ListSection
      title={`Hosts behind: ${hostLosses[loss] ?? loss}`}
      label="Hosts behind the loss"
      what="hosts"
      loaded={hosts}
      height={600}
      csv={{
        file: 'hosts.csv',
        make: async () =>
          hostsCsv(
            await getJson<SankeyNodes>(apiUrl('sankey/nodes', { ...asked, limit: kCsvRows })),
          ),
      }}
      filters={
        <>
          <Select
            label="Loss"
            value={loss}
            choices={hostLosses}
            onChoose={(next) => navigate(withQuery({ loss: next, offset: null }))}
          />
          <PartChips part={{ ...part, account: '' }} />
        </>
      }
      note={(data) =>
        `${gpuHours(data.gpu_seconds)} GPU-h on ${count(data.nodes_total)} hosts`
      }
      empty={
        <Empty title="No host has this loss in the window">
          <p>
            <a href={link('/', part)}>Where GPU time went</a> shows the losses there are.
          </p>
        </Empty>
      }
      total={(data) => data.nodes_total}
      columns={(data) => hostColumns(data.currency)}
      rows={(data) => data.nodes}
      rowKey={(n) => n.node}
      offset={offset}
    />
  );
}

const states = { reporting: 'ok', stale: 'warn', silent: 'bad' } as const;
const notReported = 'not reported, or too long ago';

// Of a GPU that reports, its flags say why there is no OFU.
function GpuOfu({ gpu }: { gpu: GpuNow }) {
  const wordsOf = useReasons();
  const why =
    gpu.state !== 'reporting'
      ? `no samples for ${gpu.age_s === null ? 'long' : duration(gpu.age_s)}`
      : gpu.flags.length > 0
        ? wordsOf(gpu.flags[0]).title
        : notReported;
  return <Ofu value={gpu.ofu} why={why} />;
}

const gpuColumns: TableColumn<GpuNow>[] = [
  {
    id: 'gpu',
    name: 'GPU',
    text: true,
    show: (g) => (
      <a href={link(gpuPath(g.gpu))} title={g.gpu}>
        {g.index === null ? shortUuid(g.gpu) : `GPU ${g.index}`}
        {g.gpu_instance !== null && ` / ${g.gpu_instance}`}
      </a>
    ),
  },
  {
    id: 'node',
    name: 'Host',
    text: true,
    minor: true,
    show: (g) => <Value value={g.node} text={g.node ?? ''} why="no label names a host" />,
  },
  {
    id: 'model',
    name: 'Model',
    text: true,
    minor: true,
    show: (g) => <Value value={g.model} text={shortModel(g.model ?? '')} why="not reported" />,
  },
  {
    id: 'state',
    name: 'State',
    text: true,
    show: (g) => (
      <Dot tone={states[g.state]}>
        {g.state}
        {g.state !== 'reporting' && g.age_s !== null && ` for ${duration(g.age_s)}`}
      </Dot>
    ),
  },
  {
    id: 'job',
    name: 'Job',
    text: true,
    show: (g) =>
      g.job === null ? (
        <Value value={null} text="" why="no job holds it" />
      ) : g.job.includes(',') ? (
        g.job
      ) : (
        <a href={link(jobPath(g.job))}>{g.job}</a>
      ),
  },
  {
    id: 'ofu',
    name: (
      <>
        <Name id="ofu" /> %
      </>
    ),
    show: (g) => <GpuOfu gpu={g} />,
  },
  {
    id: 'duty_cycle',
    name: <Name id="gpu_util" />,
    minor: true,
    show: (g) => <Value value={g.gpu_util} text={percent(g.gpu_util)} why={notReported} />,
  },
  {
    id: 'power',
    name: <Name id="power" />,
    minor: true,
    show: (g) => <Value value={g.power_w} text={unit(g.power_w, 0, 'W')} why={notReported} />,
  },
  { id: 'flags', name: 'Notes', text: true, show: (g) => <Flags compact flags={g.flags} /> },
];

export function GpusPage() {
  const { query } = route.use();
  const node = query.get('node') ?? '';
  const offset = offsetOf(query);
  const gpus = useApi<Gpus>(
    apiUrl('gpus', { node, sort: 'node', limit: kPage, offset: offset || null }),
    { main: true },
  );
  return (
    <ListSection
      title={node ? `GPUs of ${node}, now` : 'GPUs, now'}
      label="GPUs"
      what="GPUs"
      loaded={gpus}
      height={400}
      empty={
        <Empty title={node ? `No GPU of ${node} ever reported` : 'No GPU reported'}>
          <p>
            Only the scheduler or the inventory names it, or its exporter calls it something
            else: <a href={link('/targets')}>Targets</a>.
          </p>
        </Empty>
      }
      total={(data) => data.total}
      columns={() => gpuColumns}
      rows={(data) => data.gpus}
      rowKey={(g) => `${g.gpu}/${g.gpu_instance}`}
      offset={offset}
    />
  );
}
