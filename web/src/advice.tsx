// What to do first: each action with what it brings, its evidence, and the way to who is behind it.
import { Action, Advice } from './api';
import { gpuHours, money, percent } from './format';
import { gpuPath, jobPath, link } from './route';
import { Empty } from './ui';

const kNamesShown = 6;

// Where more of it is.
function behind(a: Action): string | null {
  switch (a.cause) {
    case 'idle_held':
      return link('/jobs', { sort: 'allocated_idle', user: a.subject });
    case 'trace':
      return a.subjects.jobs.length === 1
        ? link(jobPath(a.subjects.jobs[0]))
        : link('/jobs', { workflow: a.subject, sort: 'lost_gpu_seconds' });
    case 'regression':
    case 'below_peers':
      return link('/jobs', { workflow: a.subject, sort: 'lost_gpu_seconds' });
    case 'straggler':
      return a.subjects.gpus.length > 0
        ? link(gpuPath(a.subjects.gpus[0]))
        : link('/gpus', { node: a.subjects.nodes[0] ?? null });
    case 'hosts_out':
      return link('/hosts', { loss: a.subject });
    case 'stranded':
      return link('/hosts', { loss: 'free_queued' });
    case 'no_mfu':
      return link('/usage', { by: 'workflow' });
  }
}

function Names({
  names,
  total,
  one,
  to,
}: {
  names: string[];
  total: number;
  one: string;
  to?: (name: string) => string;
}) {
  if (total === 0) return null;
  const shown = names.slice(0, kNamesShown);
  return (
    <span class="names">
      {total === 1 ? one : `${one}s`}{' '}
      {shown.map((name, i) => (
        <span key={name}>
          {i > 0 && ', '}
          {to ? <a href={link(to(name))}>{name}</a> : name}
        </span>
      ))}
      {total > shown.length && ` and ${total - shown.length} more`}
    </span>
  );
}

function Brings({ action, currency }: { action: Action; currency: string | null }) {
  if (action.gpu_seconds === null) return <div class="brings none">nothing by itself</div>;
  return (
    <div class="brings">
      {action.at_most && <span class="sub">up to</span>}
      <b>{gpuHours(action.gpu_seconds)}</b> GPU-h
      {action.money !== null && <span class="sub">{money(action.money, currency)}</span>}
      {action.of_allocated !== null && action.of_allocated <= 1 && (
        <span class="sub">{percent(action.of_allocated)} of held</span>
      )}
    </div>
  );
}

// `most`: actions that are shown; `brief`: without names and with one line of evidence.
export function Actions({
  advice,
  most,
  brief,
}: {
  advice: Advice;
  most?: number;
  brief?: boolean;
}) {
  const held = advice.allocated_gpu_seconds;
  if (advice.actions.length === 0) {
    return held > 0 ? (
      <Empty title="Nothing to do">
        <p>
          Of {gpuHours(held)} GPU-hours that jobs held, none is seen lost; samples speak for{' '}
          {percent(advice.coverage)}.
        </p>
      </Empty>
    ) : (
      <Empty title="No job held a GPU">
        <p>The Sankey shows what the GPUs did.</p>
      </Empty>
    );
  }
  return (
    <ol class="actions-list">
      {advice.actions.slice(0, most).map((a) => {
        const more = behind(a);
        return (
          <li key={`${a.cause} ${a.subject}`}>
            <Brings action={a} currency={advice.currency} />
            <div>
              <h3>{more ? <a href={more}>{a.action}</a> : a.action}</h3>
              <ul>
                {a.evidence.slice(0, brief ? 1 : undefined).map((line) => (
                  <li key={line}>{line}</li>
                ))}
              </ul>
              {!brief && (
                <p class="sub">
                  <Names
                    names={a.subjects.jobs}
                    total={a.subjects.jobs_total}
                    one="job"
                    to={jobPath}
                  />{' '}
                  <Names names={a.subjects.users} total={a.subjects.users_total} one="user" />{' '}
                  <Names names={a.subjects.nodes} total={a.subjects.nodes_total} one="node" />
                </p>
              )}
              {!brief && <p class="sub">Reckoned from: {a.basis}.</p>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
