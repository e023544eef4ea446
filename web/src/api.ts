// What the server answers (docs/openapi.json) and how it is asked. null = not computable, never
// zero.

export interface Usage {
  ofu: number | null;
  ofu_reason: string | null;
  ofu_ci95: number | null;
  gpu_seconds: number;
  observed_gpu_seconds: number;
  computable_gpu_seconds: number;
  lost_gpu_seconds: number;
  coverage: number | null;
  source: 'ratio' | 'cycles' | 'mixed' | null;
  weight: string;
  tensor_active: number | null;
  sm_clock_mhz: number | null;
  sm_active: number | null;
  sm_occupancy: number | null;
  gpu_util: number | null;
  power_w: number | null;
  energy_j: number | null;
  gpus: number;
  samples: number;
  first: string | null;
  last: string | null;
  lost_s: Record<string, number>;
  stale_s: number;
  frozen_s: number;
  note: string | null; // what stands out, in a few words
}

export interface TimeWindow {
  from: string;
  to: string;
  source: 'live' | 'rollup' | 'raw';
}

export type Column = (number | null)[];
export interface Series {
  step_s: number;
  ts: number[];
  ofu: Column;
  coverage: Column;
  gpu_seconds: Column;
  tensor_active: Column;
  sm_clock_mhz: Column;
  gpu_util: Column;
  power_w: Column;
}

export interface Status {
  version: string;
  now: string;
  mode: 'live' | 'offline';
  gpus: number;
  gpus_reporting: number | null;
  nodes: number;
  jobs_running: number;
  ingest: { samples_per_s: number; dropped_rows: number; sources: number } | null;
  store: { oldest: string | null; newest: string | null; last_error: string | null } | null;
}

export interface ModelUsage {
  model: string | null;
  gpus: number;
  tensor_clock_max_mhz: number | null;
  usage: Usage;
}

export interface Fleet {
  window: TimeWindow;
  now: Usage | null;
  usage: Usage;
  series: Series;
  models: ModelUsage[];
  not_computable: { reason: string; title: string; advice: string | null; gpu_seconds: number }[];
}

export interface ReasonTime {
  reason: string;
  gpu_seconds: number;
}

export interface Sankey {
  window: TimeWindow;
  deployed_gpu_seconds: number;
  deployed_from: 'gpus_seen' | 'scheduler' | 'inventory' | 'several';
  levels: {
    name: string;
    title: string;
    gpu_seconds: number | null;
    of_deployed: number | null;
    of_previous: number | null;
    coverage: number | null;
    excess_gpu_seconds: number;
    reason: string | null;
  }[];
  losses: {
    name: string;
    title: string;
    before: string;
    gpu_seconds: number;
    of_deployed: number | null;
    money: number | null;
    reasons: ReasonTime[];
    drill: string;
  }[];
  compound: number | null;
  draining_work_gpu_seconds: number;
  deployed_money: number | null;
  currency: string | null;
  notes: string[];
}

// Hosts behind a loss above "allocated".
export interface SankeyNode {
  node: string;
  gpu_seconds: number;
  of_loss: number;
  deployed_gpu_seconds: number;
  allocated_gpu_seconds: number;
  money: number | null;
  reasons: ReasonTime[];
}

export interface SankeyNodes {
  window: TimeWindow;
  loss: string;
  gpu_seconds: number;
  currency: string | null;
  nodes_total: number;
  nodes: SankeyNode[];
}

// What of a row changes over time, or between two windows.
export type Figures = Record<
  'gpu_seconds' | 'ofu' | 'mfu' | 'duty' | 'sm_efficiency' | 'lost_gpu_seconds' | 'cost',
  number | null
>;

export interface UsageGroup {
  name: string | null;
  jobs: number;
  gpu_seconds: number;
  ofu: number | null;
  ofu_reason: string | null;
  coverage: number | null;
  mfu: number | null;
  mfu_coverage: number | null;
  sm_efficiency: number | null;
  occupancy_active: number | null;
  occupancy_elapsed: number | null;
  duty: number | null;
  energy_j: number | null;
  kwh_per_eflop_bf16: number | null;
  kwh_per_eflop_coverage: number | null;
  lost_gpu_seconds: number | null;
  cost: number | null;
  lost_money: number | null;
  cost_coverage: number | null;
  before?: (Figures & { jobs: number }) | null; // with compare_from; null = no such row then
  change?: Figures | null;
  points?: Record<keyof Figures, Column>; // with step
}

export interface UsageBy {
  window: TimeWindow;
  by: string;
  compared_with?: { window: TimeWindow };
  step_s?: number;
  currency: string | null;
  total: UsageGroup;
  rows_total: number;
  rows: UsageGroup[];
  notes: string[];
}

// What to do first: no GPU-second stands in two actions.
export interface Action {
  action: string;
  cause:
    | 'idle_held'
    | 'regression'
    | 'straggler'
    | 'trace'
    | 'below_peers'
    | 'hosts_out'
    | 'stranded'
    | 'no_mfu';
  at_most: boolean;
  subject: string | null;
  gpu_seconds: number | null; // null: nothing is known to be lost
  of_allocated: number | null;
  money: number | null;
  money_coverage: number | null;
  basis: string;
  subjects: {
    jobs: string[];
    jobs_total: number;
    users: string[];
    users_total: number;
    nodes: string[];
    nodes_total: number;
    gpus: string[];
    gpus_total: number;
  };
  evidence: string[];
  link: string;
}

export interface Advice {
  window: TimeWindow;
  allocated_gpu_seconds: number;
  coverage: number | null; // of that, what samples speak for
  currency: string | null;
  actions: Action[];
  notes: string[];
}

// What changed across the runs of a workflow, or within one run (then `job` is set).
export interface Regression {
  kind: 'regression' | 'change'; // a change: something was set otherwise
  workflow: string | null;
  user: string | null;
  job: string | null;
  run: string; // where it began
  from: string | null;
  metric: 'ofu' | 'duty';
  before: number;
  after: number;
  change: number;
  scatter: number;
  confidence: number;
  cause: string;
  gpu_seconds: number;
  lost_gpu_seconds: number;
  evidence: string;
}

export interface Regressions {
  window: { from: string; to: string };
  workflows: number;
  workflows_judged: number;
  without_verdict: { too_few_runs: number; not_measured: number };
  runs: number;
  runs_judged: number;
  jobs_without_workflow: number;
  rows_total: number;
  rows: Regression[];
}

export interface ComparedSide {
  name: string;
  kind: 'job' | 'window';
  window: { from: string; to: string };
  workflow: string | null;
  user: string | null;
  runs: number;
}

export interface Comparison {
  a: ComparedSide;
  b: ComparedSide;
  figures: {
    figure: string;
    unit: 'ratio' | 'number' | 'mhz' | 'w' | 'gpu_seconds';
    a: number | null;
    b: number | null;
    change: number | null; // b / a - 1
    scatter: number | null; // of one run of the workflow
    scatter_runs: number;
    unusual: boolean | null;
  }[];
  differences: { what: string; a: string | null; b: string | null }[];
  notes: string[];
}

export interface IdleRow {
  job: string;
  user: string | null;
  state: string;
  gpus: number;
  gpu_seconds: number;
  money: number | null;
  since: string | null;
  until: string | null; // null: it goes on
  evidence: string;
}

export interface Idle {
  window: TimeWindow;
  currency: string | null;
  held_gpu_seconds: number;
  coverage: number | null;
  gpu_seconds: number;
  rows_total: number;
  rows: IdleRow[];
}

export interface Straggler {
  job: string;
  gpu: string | null; // null: every GPU of the node
  node: string | null;
  kind: string;
  deficit: number | null;
  deficit_reason: string | null;
  confidence: number;
  evidence: { measure: string; value: number; peers: number | null; text: string }[];
  seen_in_jobs: number;
}

export interface Stragglers {
  window: { from: string; to: string };
  jobs_judged: number;
  gpus_judged: number;
  rows_total: number;
  rows: Straggler[];
}

export interface GpuNow {
  gpu: string;
  gpu_instance: number | null;
  node: string | null;
  index: number | null;
  model: string | null;
  job: string | null;
  state: 'reporting' | 'stale' | 'silent';
  age_s: number | null;
  ofu: number | null;
  sm_active: number | null;
  gpu_util: number | null;
  power_w: number | null;
  flags: string[];
}

export interface Gpus {
  total: number;
  gpus: GpuNow[];
}

export interface OfuCause {
  loss: string | null; // null: none is decided
  gpu_seconds: number | null;
  share: number | null; // of what was observed
  text: string;
}

export interface Job {
  job: string;
  name: string | null;
  user: string | null;
  workflow: string | null;
  running: boolean;
  usage: Usage;
  flags: string[];
  cause: OfuCause;
  sort_value?: number | null; // in lists: what it is ranked by, where that is a number
}

export interface Jobs {
  window: TimeWindow;
  total: number;
  jobs: Job[];
}

export interface JobGpu {
  gpu: string;
  gpu_instance: number | null;
  node: string | null;
  index: number | null;
  model: string | null;
  rank: number | null;
  usage: Usage;
}

export interface JobNote {
  finding: string;
  action: string | null;
  serious: boolean;
  gpu_seconds: number;
}

// Of the list of jobs with a claimed MFU, what marks a job of another list.
export interface Alarms {
  jobs: { job: string; verdict: 'alarm' | 'impossible'; headline: string }[];
}

export interface Reasons {
  reasons: { reason: string; title: string; advice: string | null }[];
}

export interface JobDetail {
  window: TimeWindow;
  job: Job & { started: string | null; ended: string | null };
  // MFU and OFU of the window cannot both be right.
  mfu_alarm: {
    verdict: 'alarm' | 'impossible';
    headline: string;
    corrected_mfu: number | null;
    gpu_seconds: number;
  } | null;
  notes: JobNote[]; // that which explains the most first
  series: Series;
  gpus: JobGpu[];
}

export interface GpuDetail {
  gpu: {
    gpu: string;
    gpu_instance: number | null;
    node: string | null;
    index: number | null;
    model: string | null;
    device: string | null;
    pci_bus_id: string | null;
    driver: string | null;
    mig_profile: string | null;
    sm_count: number | null;
    tensor_clock_max_mhz: number | null;
    first_seen: string | null;
    job: string | null;
    state: 'reporting' | 'stale' | 'silent';
    age_s: number | null;
    fb_used_mib: number | null;
    gpu_temp_c: number | null;
    flags: string[];
    instances: { gpu_instance: number; mig_profile: string | null; sm_count: number | null }[];
  };
  window: TimeWindow;
  usage: Usage;
  series: Series;
  jobs: {
    job: string;
    user: string | null;
    gpu_instance: number | null;
    from: string;
    to: string | null;
  }[];
}

export interface Target {
  url: string;
  node: string;
  state: 'pending' | 'up' | 'down' | 'back_off';
  pushed: boolean;
  last_scrape: string | null;
  last_success: string | null;
  age_s: number | null;
  last_duration_ms: number | null;
  last_bytes: number;
  scrapes: number;
  failures: number;
  timeouts: number;
  oversized: number;
  samples: number;
  rows: number;
  entities: number;
  refused: Record<string, number>;
  error: string | null;
  last_failure: string | null;
  last_failure_at: string | null;
  examples: string[];
  frozen_gpus: number;
  conflicts: Conflict[];
  counters: Counters;
}

// A GPU that another target claims as well.
// Whether the counters of a target's GPUs can be believed (docs/counters.md).
export interface Counters {
  ok: number;
  not_judged: number;
  undecided: number;
  faulty: number;
  findings: {
    rule: string;
    fault: string;
    counter: string;
    says: string;
    remedy: string;
    gpus: number;
    for_s: number;
    examples: string[];
  }[];
  gpus: {
    gpu: string;
    gpu_instance: number | null;
    index: number | null;
    verdict: 'ok' | 'not_judged' | 'undecided' | 'faulty';
    rules: string[];
    why: string | null;
    readings: number;
  }[];
}

export interface Conflict {
  kind: 'uuid_conflict' | 'duplicate_exporter';
  gpu: string;
  gpu_instance: number | null;
  other: string;
  holds: boolean;
  refused_rows: number;
}

export interface Targets {
  total: number;
  up: number;
  matching: number;
  targets: Target[];
}

export type Severity = 'page' | 'ticket' | 'note';

export interface Alert {
  id: string;
  rule: string;
  severity: Severity;
  state: 'pending' | 'firing' | 'resolved';
  owner: string | null;
  since: string;
  fired: string | null;
  until: string | null;
  ended: string | null;
  reopened: number;
  subject: Record<
    'cluster' | 'partition' | 'account' | 'user' | 'workflow' | 'job',
    string | null
  > & { ranks: number[]; nodes: string[]; racks: string[]; gpus: string[]; jobs: string[] };
  value: number | null;
  threshold: number | null;
  value_of: string | null; // an expression over the rule's quantities
  value_unit: string | null;
  summary: string;
  action: string | null;
  source: string | null;
  condition: string;
  for_s: number;
  evidence: { quantity: string; unit: string; value: number | null }[];
  silenced_by: string | null;
  inhibited_by: string | null;
  notes: { ts: string; text: string }[];
  history: { ts: string; text: string }[];
  marks: { ts: string; did: 'restart' | 'drain'; by: string; text: string }[];
}

// What was done to a job, and with which alert that was said.
export interface JobMark {
  ts: string;
  did: 'restart' | 'drain';
  by: string;
  text: string;
  alert: string;
}

// What a recovery service asks; the page reads its marks.
export interface JobHealth {
  marks: JobMark[];
}

export interface Alerts {
  total: number;
  alerts: Alert[];
  engine: {
    rounds: number;
    last_round: string | null;
    grace_until: string | null;
    receivers: { name: string; queued: number; last_error: string | null }[];
  };
}

export interface AlertRules {
  rules: {
    rule: string;
    scope: 'gpu' | 'job' | 'node' | 'fleet';
    keep_firing_s: number;
    keep_unknown_s: number;
  }[];
  quantities: { scope: string; name: string; unit: string; help: string }[];
}

export interface Silence {
  id: string;
  matchers: string[];
  owner: string;
  comment: string | null;
  from: string;
  until: string;
  weekly: string | null;
  in_force: boolean;
  holds: number;
}

export interface Silences {
  silences: Silence[];
}

export interface SqlResult {
  rows: (number | string | null)[][];
}

// status 0: no answer at all.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    // What to do about it, where the server knows; `message` is without it then.
    readonly advice: string = '',
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function apiUrl(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '' && value !== false)
      search.set(key, String(value));
  }
  const text = search.toString();
  return `/api/v1/${path}${text ? `?${text}` : ''}`;
}

const kTimeoutMs = 30_000;

export const getJson = <T>(url: string, signal?: AbortSignal): Promise<T> => ask(url, {}, signal);
export const postJson = <T>(url: string, body: unknown): Promise<T> =>
  ask(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'Content-Type': 'application/json' },
  });

async function ask<T>(url: string, how: RequestInit, signal?: AbortSignal): Promise<T> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), kTimeoutMs);
  const forward = () => timeout.abort();
  signal?.addEventListener('abort', forward);
  try {
    const response = await fetch(url, {
      ...how,
      signal: timeout.signal,
      headers: { Accept: 'application/json', ...how.headers },
    });
    if (!response.ok) {
      const text = await response.text();
      let message = `${response.status} ${response.statusText}`;
      let advice = '';
      try {
        const said = JSON.parse(text).error;
        message = said.why ? `${said.what}: ${said.why}` : (said.what ?? said.message ?? message);
        advice = said.try ?? '';
      } catch {
        // Not our error object (a proxy's page): the status line has to do.
      }
      throw new ApiError(response.status, message, advice);
    }
    // Drawings come as text.
    const isJson = response.headers.get('content-type')?.includes('json') ?? true;
    return (await (isJson ? response.json() : response.text())) as T;
  } catch (e) {
    if (e instanceof ApiError || signal?.aborted) throw e;
    throw new ApiError(
      0,
      timeout.signal.aborted
        ? `no answer within ${kTimeoutMs / 1000} s`
        : 'the server cannot be reached',
    );
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', forward);
  }
}
