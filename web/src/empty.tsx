// What a page says where there is nothing to show: each cause has its own words and what to do.
import { apiUrl, Status, Targets } from './api';
import { count } from './format';
import { useApi } from './live';
import { link } from './route';
import { Empty, When } from './ui';

const kShownTargets = 1;

function FirstStart() {
  return (
    <Empty title="Nothing is measured yet">
      <p>
        This server has no exporter to ask and nothing in its store. Start it with the exporters of
        your GPU hosts: <code>flopwatch serve --target 'gpu[001-128]:9400'</code>. What they must
        report, and what to switch on, is in docs/site-guide.md; without GPUs at hand,{' '}
        <code>flopwatch simulate fleet --into DIR</code> makes a fleet to look at.
      </p>
    </Empty>
  );
}

function NoneAnswers({ targets }: { targets: Targets }) {
  const example = targets.targets[0];
  return (
    <Empty title={`No exporter answers: 0 of ${count(targets.total)}`}>
      <p>
        {example && (
          <>
            {example.url || example.node}: {example.error ?? 'not asked yet'}.{' '}
          </>
        )}
        <a href={link('/targets')}>Targets</a> has what each one says;{' '}
        <code>flopwatch doctor --target HOST:PORT</code> tries one from a terminal.
      </p>
    </Empty>
  );
}

function Waits({ targets }: { targets: Targets }) {
  return (
    <Empty title={`${count(targets.up)} exporters answer, no sample of a GPU yet`}>
      <p>
        The first numbers come after two scrapes. If it stays so, the exporters report no GPU
        fields: <code>flopwatch doctor --target HOST:PORT</code> says which are missing.
      </p>
    </Empty>
  );
}

// The fleet without a sample in the window.
export function NoSamples({ status }: { status: Status | null }) {
  const targets = useApi<Targets>(apiUrl('targets', { limit: kShownTargets })).data;
  const newest = status?.store?.newest ?? null;
  if (newest !== null)
    return (
      <Empty title="No samples in this window">
        <p>
          The newest stored sample is of <When time={newest} />.{' '}
          <a href={link('/', { from: newest.replace(/T.*/, ''), to: newest })}>Show that day</a>
          {targets !== null && targets.total > 0 && targets.up === 0 && (
            <>
              {' '}
              No exporter answers now: <a href={link('/targets')}>Targets</a>
            </>
          )}
          .
        </p>
      </Empty>
    );
  if (status === null || targets === null) return <Empty title="No samples in this window" />;
  if (targets.total === 0) return <FirstStart />;
  return targets.up === 0 ? <NoneAnswers targets={targets} /> : <Waits targets={targets} />;
}

export function NoJobs() {
  return (
    <Empty title="No job owned a GPU in this window">
      <p>
        The GPUs are measured without their jobs until someone says who has which: labels of the
        exporter (hpc_job, pod), <code>flopwatch serve --slurm</code>, or a file with{' '}
        <code>--jobs-file</code> (docs/jobs.md). If jobs ran earlier, choose a longer window.
      </p>
    </Empty>
  );
}
