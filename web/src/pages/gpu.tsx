// One GPU: what it did, and the jobs that ran on it.
import { apiUrl, GpuDetail } from '../api';
import { duration, fixed, unit } from '../format';
import { useApi } from '../live';
import { jobPath, link, route, windowOf } from '../route';
import {
  Absent,
  Dot,
  Empty,
  Flags,
  Section,
  Table,
  TableColumn,
  Value,
  Waiting,
  When,
} from '../ui';
import { Headline, UsageCharts, UsageTiles } from '../usage';

type Owner = GpuDetail['jobs'][number];

const columns: TableColumn<Owner>[] = [
  { id: 'job', name: 'Job', text: true, show: (o) => <a href={link(jobPath(o.job))}>{o.job}</a> },
  {
    id: 'user',
    name: 'User',
    text: true,
    show: (o) => <Value value={o.user} text={o.user ?? ''} why="no label names a user" />,
  },
  { id: 'from', name: 'From', text: true, show: (o) => <When time={o.from} /> },
  {
    id: 'to',
    name: 'To',
    text: true,
    show: (o) => (o.to ? <When time={o.to} /> : 'still running'),
  },
  {
    id: 'length',
    name: 'For',
    show: (o) => duration(((o.to ? Date.parse(o.to) : Date.now()) - Date.parse(o.from)) / 1000),
  },
];

const states = { reporting: 'ok', stale: 'warn', silent: 'bad' } as const;

function Fact({
  name,
  value,
  text,
  why,
}: {
  name: string;
  value: unknown;
  text: string;
  why: string;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value === null || value === undefined ? <Absent why={why} /> : text}</dd>
    </div>
  );
}

export function GpuPage({ gpu }: { gpu: string }) {
  const { query } = route.use();
  const instance = query.get('gpu_instance');
  const detail = useApi<GpuDetail>(
    apiUrl(`gpus/${encodeURIComponent(gpu)}`, { ...windowOf(query), gpu_instance: instance }),
    { main: true },
  );
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={link('/')}>Fleet</a> /{' '}
        <span>
          GPU {gpu}
          {instance ? `/${instance}` : ''}
        </span>
      </nav>
      <Waiting loaded={detail} height={640}>
        {(data) => {
          const g = data.gpu;
          return (
            <>
              <div class="card job">
                <header class="job-header">
                  <h1>
                    {g.node ?? 'unknown node'}:{g.index ?? '?'}
                    {g.gpu_instance !== null && `/${g.gpu_instance}`}
                    <Dot tone={states[g.state]}>
                      {g.state}
                      {g.state !== 'reporting' && g.age_s !== null && ` for ${duration(g.age_s)}`}
                    </Dot>
                  </h1>
                  <dl class="facts">
                    <Fact
                      name="Model"
                      value={g.model}
                      text={g.model ?? ''}
                      why="the exporter names no model"
                    />
                    <Fact
                      name="Max tensor clock"
                      value={g.tensor_clock_max_mhz}
                      text={unit(g.tensor_clock_max_mhz, 0, 'MHz')}
                      why="not in the hardware table: no OFU"
                    />
                    <Fact
                      name="MIG profile"
                      value={g.mig_profile}
                      text={g.mig_profile ?? ''}
                      why="not a MIG instance"
                    />
                    <Fact name="Driver" value={g.driver} text={g.driver ?? ''} why="not reported" />
                    <Fact
                      name="Temperature"
                      value={g.gpu_temp_c}
                      text={unit(g.gpu_temp_c, 0, '°C')}
                      why="not reported"
                    />
                    <Fact
                      name="Memory used"
                      value={g.fb_used_mib}
                      text={g.fb_used_mib === null ? '' : `${fixed(g.fb_used_mib / 1024, 1)} GiB`}
                      why="not reported"
                    />
                    <Fact
                      name="First seen"
                      value={g.first_seen}
                      text={g.first_seen ? new Date(g.first_seen).toISOString().slice(0, 10) : ''}
                      why="not known"
                    />
                  </dl>
                </header>
                <div class="job-usage">
                  <Headline usage={data.usage} title="OFU in the window" />
                  <UsageTiles usage={data.usage} />
                </div>
                {g.flags.length > 0 && (
                  <p>
                    <Flags flags={g.flags} />
                  </p>
                )}
              </div>
              <UsageCharts
                series={data.series}
                window={data.window}
                file={`gpu-${gpu.replace(/[^\w.-]/g, '_')}`}
              />
              <Section title="Jobs on this GPU">
                {data.jobs.length === 0 ? (
                  <Empty title="No job owned it in this window" />
                ) : (
                  <Table
                    label="Jobs on this GPU"
                    columns={columns}
                    rows={data.jobs}
                    rowKey={(o) => `${o.job}/${o.gpu_instance}/${o.from}`}
                  />
                )}
              </Section>
            </>
          );
        }}
      </Waiting>
    </>
  );
}
