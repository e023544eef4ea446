// A stand-in for the server while working on the page: node dev/mock.mjs [PORT] [DIST]. Same routes
// and shapes as docs/openapi.json (a part not named here is "not known", see contract.mjs), numbers
// made up from a seed. Tests start it with startMock();
// `scenario` picks a state of the world: "fleet", "first" (no exporter, nothing stored), "silent"
// (no exporter answers, nothing stored), "empty" (nothing in the window), "broken" (every API
// answer is a 503).
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { filled, schemaOf } from './contract.mjs';

const kModels = [
  { model: 'NVIDIA H100 80GB HBM3', clock: 1830, tdp: 700, share: 0.7 },
  { model: 'NVIDIA A100-SXM4-80GB', clock: 1410, tdp: 400, share: 0.25 },
  { model: 'ACME Prototype X1', clock: null, tdp: 500, share: 0.05 },
];
const kGpusPerNode = 8;
const kTypes = {
  js: 'text/javascript',
  css: 'text/css',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
};
const kCsp =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Repeatable noise in 0..1 from numbers.
function noise(...parts) {
  let h = 2166136261;
  for (const p of parts) h = Math.imul(h ^ (p | 0), 16777619) >>> 0;
  h = Math.imul(h ^ (h >>> 15), 2246822507) >>> 0;
  return ((h ^ (h >>> 13)) >>> 0) / 2 ** 32;
}
const iso = (s) => new Date(s * 1000).toISOString().replace('.000Z', 'Z');

function parseTime(text, now) {
  if (!text) return now;
  const back = /^(?:now)?-(\d+)([smhd])$/.exec(text);
  if (back) return now - Number(back[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[back[2]];
  return Date.parse(text) / 1000;
}

function usage({
  ofu,
  tensor,
  clock,
  util,
  power,
  gpus,
  seconds,
  coverage,
  reason = null,
  lost = {},
}) {
  const computable = ofu === null ? 0 : seconds * coverage;
  return {
    ofu,
    ofu_reason: ofu === null ? (reason ?? 'the GPU model is not in the hardware table') : null,
    ofu_ci95: ofu === null ? null : 0.004 + 0.02 / Math.sqrt(1 + seconds / 3600),
    gpu_seconds: seconds,
    observed_gpu_seconds: seconds * Math.max(coverage, ofu === null ? 0.99 : 0),
    computable_gpu_seconds: computable,
    lost_gpu_seconds: ofu === null ? 0 : computable * (1 - ofu),
    coverage: seconds > 0 ? computable / seconds : null,
    source: ofu === null ? null : 'ratio',
    weight: 'gpu_seconds',
    tensor_active: tensor,
    sm_clock_mhz: clock,
    sm_active: util === null ? null : util * 0.8,
    sm_occupancy: util === null ? null : util * 0.3,
    gpu_util: util,
    power_w: power,
    energy_j: power === null ? null : power * seconds,
    gpus,
    samples: Math.round(seconds / 10),
    first: null,
    last: null,
    lost_s: {
      tensor_missing: 0,
      clock_missing: 0,
      model_unknown: 0,
      dead_counter: 0,
      out_of_range: 0,
      ...lost,
    },
    stale_s: 0,
    frozen_s: 0,
    note: lost.dead_counter ? 'dead tensor counter 35 %' : null,
  };
}

const kReasons = [
  {
    reason: 'model_unknown',
    title: 'GPU model unknown',
    advice: 'add an [[accelerator]] entry for the model to the configuration file',
  },
  { reason: 'no_samples', title: 'no samples', advice: '"flopwatch targets" shows which' },
  { reason: 'dead_counter', title: 'dead tensor counter', advice: 'restart dcgm' },
];

const kUsers = ['alice', 'bob', 'chen', 'dana', 'emre'];
const kWorkflows = ['pretrain', 'finetune', 'eval', null];
const kJobs = Array.from({ length: 137 }, (_, k) => {
  const pod = k % 9 === 4;
  const gpus = [8, 16, 64, 8, 1, 32, 128, 256, 8][k % 9];
  return {
    k,
    job: pod ? `team-${'abc'[k % 3]}/llm-serve-${k}` : String(2115000 + k),
    name: pod ? `llm-serve-${k}` : k % 4 === 1 ? `7B run ${k}` : null,
    user: k % 11 === 7 ? null : kUsers[k % 5],
    workflow: kWorkflows[k % 4],
    gpus,
    model: k % 7 === 3 ? 1 : k === 12 ? 2 : 0,
    running: k < 24,
    base: k % 13 === 5 ? 0.06 : 0.2 + 0.3 * noise(k, 1),
    dead: k === 6,
  };
});

function jobUsage(j, hours) {
  const m = kModels[j.model];
  const ofu = j.model === 2 || j.dead ? null : j.base;
  return usage({
    ofu,
    tensor: j.dead ? 0 : j.base / 0.9,
    clock: (m.clock ?? 1600) * (0.86 + 0.1 * noise(j.k, 2)),
    util: 0.85 + 0.14 * noise(j.k, 3),
    power: m.tdp * (0.5 + 0.4 * j.base),
    gpus: j.gpus,
    seconds: j.gpus * hours * 3600 * (0.4 + 0.6 * noise(j.k, 4)),
    coverage: j.k % 10 === 9 ? 0.81 : 0.98 + 0.02 * noise(j.k, 5),
    reason: j.dead ? 'the tensor counter is dead: 0 for minutes on a busy GPU' : null,
    lost: j.dead ? { dead_counter: 3600 } : {},
  });
}
function jobCause(j, hours) {
  const u = jobUsage(j, hours);
  if (u.ofu === null) {
    const text = `not computable: ${u.ofu_reason}`;
    return { loss: null, gpu_seconds: null, share: null, text };
  }
  const share = u.gpu_util - u.tensor_active;
  const seconds = share * u.observed_gpu_seconds;
  const hoursOf = (s) => (s / 3600).toFixed(1);
  return {
    loss: 'tensor_idle',
    gpu_seconds: seconds,
    share,
    text:
      `tensor cores idle: ${hoursOf(seconds)} of ${hoursOf(u.observed_gpu_seconds)} ` +
      `measured GPU-h (${Math.round(share * 100)} %)`,
  };
}
const jobRow = (j, hours) => ({
  job: j.job,
  name: j.name,
  user: j.user,
  workflow: j.workflow,
  running: j.running,
  usage: jobUsage(j, hours),
  flags: [
    ...(j.dead ? ['dead_counter'] : []),
    ...(j.model === 2 ? ['model_unknown'] : []),
    ...(j.k % 10 === 9 ? ['low_coverage'] : []),
  ],
  cause: jobCause(j, hours),
});

function series(from, to, level, gpus, hole) {
  const length = to - from;
  const step =
    [60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400].find((s) => length / s <= 360) ??
    86400;
  const out = {
    step_s: step,
    ts: [],
    ofu: [],
    coverage: [],
    gpu_seconds: [],
    tensor_active: [],
    sm_clock_mhz: [],
    gpu_util: [],
    power_w: [],
  };
  for (let t = Math.floor(from / step) * step; t < to; t += step) {
    const day = Math.sin(((t % 86400) / 86400) * 2 * Math.PI - 1.2);
    const wobble = (noise(t / step, 11) + noise(t / step / 5, 12)) / 2 - 0.5;
    const ofu = Math.max(0.01, level * (1 + 0.18 * day + 0.14 * wobble));
    const missing = hole && (t - from) / length > 0.62 && (t - from) / length < 0.66;
    out.ts.push(t);
    out.ofu.push(missing ? null : ofu);
    out.coverage.push(missing ? 0 : 0.97 + 0.03 * noise(t / step, 13));
    out.gpu_seconds.push(gpus * step);
    out.tensor_active.push(missing ? null : ofu / 0.91);
    out.sm_clock_mhz.push(missing ? null : 1660 + 60 * wobble);
    out.gpu_util.push(missing ? null : Math.min(1, 0.86 + 0.08 * day + 0.05 * wobble));
    out.power_w.push(missing ? null : 430 + 90 * day + 40 * wobble);
  }
  return out;
}

const kEmptyUsage = usage({
  ofu: null,
  tensor: null,
  clock: null,
  util: null,
  power: null,
  gpus: 0,
  seconds: 0,
  coverage: 0,
  reason: 'no samples in the window',
});

// Levels of the Sankey, their share of what is deployed, and the loss before each.
const kSankeyShares = [
  ['deployed', 1, ''],
  ['allocated', 0.9, 'idle_hosts'],
  ['busy', 0.8, 'allocated_idle'],
  ['sm_active', 0.6, 'sm_idle'],
  ['tensor_active', 0.34, 'tensor_idle'],
  ['full_clock', 0.31, 'below_full_clock'],
];

// Far simpler than the server's: a bar a loss, with the same classes and links.
const drawing = (shares, window, part) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 80" fill="currentColor">${shares
    .slice(1)
    .map(
      ([, share, loss], k) =>
        `<a href="/${loss === 'idle_hosts' ? 'hosts' : 'jobs'}?from=${window.from}` +
        `&amp;to=${window.to}` +
        `&amp;${loss === 'idle_hosts' ? 'loss' : 'sort'}=${loss}${part}">` +
        `<title>${loss}: 1 GPU-h; 4800.00 EUR</title>` +
        `<rect class="sankey-loss" x="${k * 110}" y="20" width="${100 * (shares[k][1] - share)}" ` +
        `height="20"/><text x="${k * 110}" y="60">${loss}</text></a>`,
    )
    .join('')}</svg>`;

// Four rows; alice, with the most time, has half as much again as in the window before.
function usageBy(q, window, hours, empty) {
  const by = q.get('by') ?? 'user';
  const step = Number.parseInt(q.get('step') ?? '0', 10);
  const points = step > 0 ? Math.ceil(hours / step) : 0;
  const places = { cluster: ['alpha', 'beta'], partition: ['batch', 'spot'] }[by];
  const rows = (places ?? ['alice', 'bob', 'chen', null]).map((name, k) => {
    const seconds = [600, 300, 90, 10][k] * hours * 3600;
    const figures = {
      gpu_seconds: seconds,
      ofu: k === 2 ? null : 0.4 - 0.1 * k,
      mfu: k === 0 ? 0.35 : null,
      duty: 0.9,
      sm_efficiency: 0.7,
      lost_gpu_seconds: k === 2 ? null : seconds * (0.6 + 0.1 * k),
      cost: (seconds / 3600) * 2,
    };
    const row = {
      name: by === 'account' ? null : name,
      jobs: 10 - k,
      ...figures,
      ofu_reason: k === 2 ? 'the tensor counter is dead' : null,
      coverage: k === 2 ? 0 : 0.99,
      mfu_coverage: k === 0 ? 0.5 : 0,
      occupancy_active: 0.4,
      occupancy_elapsed: 0.28,
      energy_j: 1e9,
      kwh_per_eflop_bf16: 0.9,
      kwh_per_eflop_coverage: 0.8,
      lost_money: k === 2 ? null : (seconds / 3600) * 2 * (0.6 + 0.1 * k),
      cost_coverage: 1,
    };
    if (q.get('compare_from')) {
      const before = { ...figures, gpu_seconds: seconds / (k === 0 ? 1.5 : 1) };
      row.before = k === 3 ? null : { jobs: 1, ...before };
      row.change =
        k === 3
          ? null
          : Object.fromEntries(
              Object.entries(figures).map(([f, v]) => [f, v === null ? null : v - before[f]]),
            );
    }
    if (points > 0)
      row.points = Object.fromEntries(
        Object.entries(figures).map(([f, v]) => [
          f,
          Array.from({ length: points }, (_, n) => (v === null ? null : v * (1 + noise(n, k)))),
        ]),
      );
    return row;
  });
  const shown = empty ? [] : by === 'account' ? rows.slice(0, 1) : rows;
  return {
    window,
    weight: 'gpu_seconds',
    by,
    currency: 'EUR',
    ...(q.get('compare_from') ? { compared_with: { window } } : {}),
    ...(step > 0 ? { step_s: step * 3600 } : {}),
    total: { ...rows[0], name: null },
    rows_total: shown.length,
    rows: shown.slice(0, Number(q.get('limit') ?? 100000)),
    notes: [],
  };
}

// --- what was found ---

const evidence = 'job 2115002: no_work: 8 GPUs: nothing runs while 26.0 GiB are held <at> 61 W';

function advice(window, hours, empty) {
  const action = (cause, text, subject, seconds) => ({
    action: text,
    cause,
    subject,
    gpu_seconds: seconds,
    of_allocated: seconds === null ? null : 0.04,
    money: cause === 'idle_held' ? 120.5 : null,
    money_coverage: seconds === null ? null : 1,
    basis: 'GPU-seconds that were held while nothing ran',
    subjects: {
      jobs: ['2115002', '2115003'],
      jobs_total: 9,
      users: ['bob'],
      users_total: 1,
      nodes: ['gpu001'],
      nodes_total: 1,
      gpus: cause === 'straggler' ? ['GPU-6f1c2b00-0000-4000-8000-000000001000'] : [],
      gpus_total: cause === 'straggler' ? 1 : 0,
    },
    evidence: [evidence],
    link: '/api/v1/idle?user=bob',
  });
  const all = [
    action('idle_held', 'Ask bob to release what 9 jobs hold', 'bob', 40 * hours * 3600),
    action('straggler', 'Take GPU-6f1c2b00 out: it holds 9 jobs back', 'GPU-6f1c2b00', 3600),
    action('regression', 'Find out what changed in pretrain', 'pretrain', 1800),
    action('no_mfu', 'Let 9 jobs report an MFU', null, null),
  ];
  return {
    window,
    weight: 'gpu_seconds',
    allocated_gpu_seconds: 1000 * hours * 3600,
    coverage: 0.99,
    currency: 'EUR',
    actions: empty ? [] : all,
    notes: [],
  };
}

function idle(window, hours, empty) {
  const row = {
    job: '2115002',
    user: 'bob',
    state: 'no_work',
    gpus: 8,
    gpu_seconds: 8 * hours * 3600,
    money: 16 * hours,
    since: window.from,
    until: null,
    evidence,
  };
  return {
    window,
    currency: 'EUR',
    held_gpu_seconds: 1000 * hours * 3600,
    coverage: 0.99,
    gpu_seconds: empty ? 0 : row.gpu_seconds,
    rows_total: empty ? 0 : 1,
    rows: empty ? [] : [row],
  };
}

function stragglers(window, empty) {
  const row = {
    job: '2115002',
    gpu: 'GPU-6f1c2b00-0000-4000-8000-000000001000',
    node: 'gpu001',
    kind: 'clock',
    deficit: 0.12,
    deficit_reason: null,
    confidence: 0.99,
    evidence: [
      {
        measure: 'sm_clock_mhz',
        value: 1210,
        peers: 1355,
        text: 'clock 1,210 MHz (others 1,355 MHz)',
      },
    ],
    seen_in_jobs: 3,
  };
  return {
    window,
    jobs_judged: 40,
    gpus_judged: 900,
    rows_total: empty ? 0 : 1,
    rows: empty ? [] : [row],
  };
}

function regressions(window, empty) {
  const row = {
    kind: 'regression',
    workflow: 'pretrain',
    user: 'alice',
    job: null,
    run: '2115002',
    from: window.from,
    metric: 'ofu',
    before: 0.4,
    after: 0.3,
    change: -0.25,
    scatter: 0.02,
    confidence: 0.999,
    cause: 'tensor',
    gpu_seconds: 36000,
    lost_gpu_seconds: 9000,
    evidence: 'tensor activity per SM activity 52.1 -> 39.2 % (-24.8 %)',
  };
  return {
    window,
    workflows: 20,
    workflows_judged: 12,
    without_verdict: { too_few_runs: 7, not_measured: 1 },
    runs: 200,
    runs_judged: 180,
    jobs_without_workflow: 3,
    rows_total: empty ? 0 : 1,
    rows: empty ? [] : [row],
  };
}

function compared(q, window) {
  const side = (name) => ({
    name,
    kind: 'job',
    window,
    workflow: 'pretrain',
    user: 'alice',
    runs: 1,
  });
  const figure = (name, unit, a, b) => ({
    figure: name,
    unit,
    a,
    b,
    change: a === null ? null : b / a - 1,
    scatter: a === null ? null : 0.02,
    scatter_runs: 12,
    unusual: a === null ? null : Math.abs(b / a - 1) > 0.05,
  });
  return {
    weight: 'gpu_seconds',
    a: side(q.get('a')),
    b: side(q.get('b')),
    figures: [
      figure('ofu', 'ratio', 0.4, 0.3),
      figure('sm_clock_mhz', 'mhz', 1350, 1345),
      figure('mfu', 'ratio', null, null),
    ],
    differences: [{ what: 'nodes', a: 'gpu001', b: 'gpu002' }],
    notes: [],
  };
}

// --- alerts: two that fire, one that waits, and many that were resolved ---

const kQuantities = [
  { scope: 'gpu', name: 'gpu_temp_c', unit: 'degC', help: 'temperature of the GPU' },
  { scope: 'gpu', name: 'gpu_util', unit: 'ratio', help: 'the duty cycle' },
  { scope: 'job', name: 'busy_ofu', unit: 'ratio', help: 'OFU over the duty cycle' },
  { scope: 'job', name: 'baseline_ofu', unit: 'ratio', help: 'median of busy_ofu' },
];
const kAlertRules = [
  { rule: 'gpu_hot', scope: 'gpu', keep_firing_s: 600, keep_unknown_s: 900 },
  { rule: 'job_ofu_drop', scope: 'job', keep_firing_s: 600, keep_unknown_s: 900 },
];
const kGpuOfAlert = 'GPU-6f1c2b00-0002-4000-8000-000000001000';

function alert(id, state, more, subject) {
  const now = Math.floor(Date.now() / 1000);
  return {
    id,
    state,
    owner: 'operator',
    since: iso(now - 3000),
    fired: state === 'pending' ? null : iso(now - 2700),
    until: null,
    ended: null,
    reopened: 0,
    source: 'docs/alerts.md',
    for_s: 300,
    link: null,
    silenced_by: null,
    inhibited_by: null,
    notes: [],
    marks: [],
    history: state === 'pending' ? [] : [{ ts: iso(now - 2700), text: 'fires' }],
    ...more,
    subject: {
      cluster: null,
      partition: null,
      account: null,
      user: null,
      workflow: null,
      job: null,
      ranks: [],
      nodes: [],
      racks: [],
      gpus: [],
      jobs: subject.job ? [subject.job] : [],
      ...subject,
    },
  };
}

const hot = (id, state, more = {}, subject = {}) =>
  alert(
    id,
    state,
    {
      rule: 'gpu_hot',
      severity: 'page',
      value: 93,
      threshold: 90,
      value_of: 'gpu_temp_c',
      value_unit: 'degC',
      summary: 'GPU 2 of node gpu001 at 93 <degrees>',
      action: 'Look at the fans.',
      condition: 'gpu_temp_c > 90 and gpu_util > 50 %',
      evidence: [
        { quantity: 'gpu_temp_c', unit: 'degC', value: 93 },
        { quantity: 'gpu_util', unit: 'ratio', value: null },
      ],
      ...more,
    },
    { nodes: ['gpu001'], gpus: [kGpuOfAlert], ...subject },
  );

const slow = (id, state, more = {}) =>
  alert(
    id,
    state,
    {
      rule: 'job_ofu_drop',
      severity: 'ticket',
      owner: 'user',
      value: 0.21,
      threshold: 0.3,
      value_of: 'busy_ofu',
      value_unit: 'ratio',
      summary: 'job 2115002: OFU while it works has fallen to 21 %, from 40 %',
      action: 'A trace says why.',
      condition: 'busy_ofu < 0.75 * baseline_ofu',
      evidence: [
        { quantity: 'busy_ofu', unit: 'ratio', value: 0.21 },
        { quantity: 'baseline_ofu', unit: 'ratio', value: 0.4 },
      ],
      ...more,
    },
    { job: '2115002', user: 'alice', nodes: ['gpu001', 'gpu002', 'gpu003'] },
  );

function allAlerts(scenario, silences) {
  if (scenario === 'quiet' || scenario === 'grace') return [];
  const now = Math.floor(Date.now() / 1000);
  const holds = silences.find((s) => s.matchers.includes('rule=job_ofu_drop'));
  return [
    hot('a1', 'firing', {
      notes: [{ ts: iso(now - 600), text: 'healer: <b>fans</b> set to 100 %' }],
    }),
    slow('a2', 'firing', { silenced_by: holds?.id ?? null }),
    slow('a3', 'pending', { since: iso(now - 60) }),
    ...Array.from({ length: 60 }, (_, k) =>
      hot(
        `r${k}`,
        'resolved',
        { severity: 'note', until: iso(now - 7200 - k * 600), ended: 'cleared' },
        { nodes: [`gpu0${String(k + 10)}`] },
      ),
    ),
  ];
}

function alertAnswer(path, q, scenario, silences) {
  if (scenario === 'off')
    return error(503, 'unavailable', 'there are no alerts here: alerts.enabled is false');
  if (path === 'silences') return { silences };
  if (path === 'alerts/rules') return { rules: kAlertRules, quantities: kQuantities };
  const all = allAlerts(scenario, silences);
  if (path !== 'alerts') {
    const id = path.slice('alerts/'.length);
    return all.find((a) => a.id === id) ?? error(404, 'not_found', `there is no alert "${id}"`);
  }
  const state = { open: 'firing', pending: 'pending', resolved: 'resolved' }[
    q.get('state') ?? 'open'
  ];
  const like = (pattern, text) =>
    !pattern || (text ?? '').includes(pattern.replaceAll('*', ''));
  const rows = all.filter(
    (a) =>
      a.state === state &&
      (!q.get('severity') || a.severity === q.get('severity')) &&
      like(q.get('job'), a.subject.job) &&
      (!q.get('node') || a.subject.nodes.some((n) => like(q.get('node'), n))),
  );
  const offset = Number(q.get('offset') ?? 0);
  const now = Math.floor(Date.now() / 1000);
  return {
    total: rows.length,
    alerts: rows.slice(offset, offset + Number(q.get('limit') ?? 100_000)),
    engine: {
      rounds: 5760,
      last_round: iso(now - 4),
      grace_until: scenario === 'grace' ? iso(now + 240) : null,
      receivers: [
        { name: 'webhook', queued: 3, last_error: 'answered 500: <try later>' },
        { name: 'slack', queued: 0, last_error: null },
      ],
    },
  };
}

// The last hour of one GPU's temperature, a minute each.
function sql() {
  const minute = Math.floor(Date.now() / 60_000) * 60;
  return { rows: Array.from({ length: 60 }, (_, k) => [minute - (60 - k) * 60, 60 + k * 0.55]) };
}

// What is written: silences alone.
function written(path, body, silences) {
  const end = /^silences\/(.*)\/end$/.exec(path);
  if (end) {
    silences.splice(0, silences.length, ...silences.filter((s) => s.id !== end[1]));
    return { silences };
  }
  if (path !== 'silences') return error(404, 'not_found', 'no such path');
  const asked = JSON.parse(body);
  if (asked.weekly && !/^\w{3} \d\d:\d\d-\w{3} \d\d:\d\d$/.test(asked.weekly))
    return error(400, 'invalid_argument', `"${asked.weekly}" is no weekly time`);
  const silence = {
    id: `s${silences.length + 1}`,
    from: new Date().toISOString(),
    in_force: !asked.weekly,
    holds: 1,
    ...asked,
    comment: asked.comment || null,
    weekly: asked.weekly || null,
  };
  silences.push(silence);
  return silence;
}

function answer(url, scenario, silences) {
  const q = url.searchParams;
  const now = Math.floor(Date.now() / 1000);
  const to = parseTime(q.get('to'), now);
  // A job's own time is its last five hours.
  const ofJob = url.pathname.startsWith('/api/v1/jobs/');
  const from = q.get('from') ? parseTime(q.get('from'), now) : to - (ofJob ? 5 * 3600 : 3600);
  if (!Number.isFinite(from) || !Number.isFinite(to) || from >= to)
    return error(400, 'invalid_argument', "parameters 'from' and 'to': from is not before to");
  const hours = (to - from) / 3600;
  const window = { from: iso(from), to: iso(to), source: hours <= 1 ? 'live' : 'rollup' };
  const path = url.pathname.replace('/api/v1/', '');
  const first = scenario === 'first';
  const silent = scenario === 'silent';
  const empty = first || silent || scenario === 'empty';
  if (scenario === 'broken')
    return error(
      503,
      'unavailable',
      'store: another process holds the data directory; stop it or give another --data',
    );

  if (/^(alerts|silences)/.test(path)) return alertAnswer(path, q, scenario, silences);
  if (/^jobs\/.*\/health$/.test(path)) {
    const restarted = path === 'jobs/2115002/health';
    const text = 'without <gpu003>';
    return {
      marks: restarted
        ? [{ ts: iso(now - 900), did: 'restart', by: 'healer', text, alert: 'a2' }]
        : [],
    };
  }
  if (path === 'sql') return sql();
  if (path === 'reasons') return { reasons: kReasons };
  if (path === 'divergence')
    return {
      jobs: kJobs
        .filter((j) => j.k % 6 === 0 && !empty)
        .map((j) => ({ job: j.job, verdict: 'alarm', headline: 'MFU is 1.62 times too high' })),
    };
  if (path === 'status') {
    return {
      version: '0.1.0',
      started: iso(now - 86400),
      uptime_s: 86400,
      now: iso(now),
      mode: 'live',
      gpus: empty ? 0 : 1000,
      gpus_reporting: empty ? 0 : 997,
      nodes: empty ? 0 : 125,
      jobs_running: empty ? 0 : 24,
      ingest: { samples_per_s: 2000, dropped_rows: 0, sources: 125 },
      store: {
        oldest: first || silent ? null : iso(now - 86400),
        newest: first || silent ? null : iso(now - (empty ? 40_000 : 4)),
        last_error: null,
      },
    };
  }
  if (path === 'sankey') {
    const deployed = empty ? 0 : 1000 * hours * 3600;
    const shares = empty ? [] : kSankeyShares;
    const part = ['cluster', 'partition', 'model', 'account']
      .filter((kind) => q.get(kind))
      .map((kind) => `&amp;${kind}=${encodeURIComponent(q.get(kind))}`)
      .join('');
    if (q.get('format') === 'svg') return { svg: drawing(shares, window, part) };
    return {
      window,
      weight: 'gpu_seconds',
      deployed_gpu_seconds: deployed,
      deployed_from: 'gpus_seen',
      levels: kSankeyShares.map(([name, share]) => ({
        name,
        title: name.replaceAll('_', ' '),
        gpu_seconds: share * deployed,
        of_deployed: empty ? null : share,
        of_previous: null,
        coverage: null,
        excess_gpu_seconds: 0,
        reason: null,
      })),
      losses: shares.slice(1).map(([name, share, loss], k) => ({
        name: loss,
        title: loss.replaceAll('_', ' '),
        before: name,
        gpu_seconds: (shares[k][1] - share) * deployed,
        of_deployed: shares[k][1] - share,
        money: (shares[k][1] - share) * 1000 * hours * 2,
        reasons: k === 0 ? [{ reason: '<b>bad cable</b>', gpu_seconds: 7200 }] : [],
        drill: `/api/v1/jobs?sort=${loss}`,
      })),
      compound: empty ? null : 0.31,
      draining_work_gpu_seconds: 0,
      deployed_money: empty ? null : 2000 * hours,
      currency: 'EUR',
      notes: ['Deployed are the GPUs that were ever seen.'],
    };
  }
  if (path === 'sankey/nodes') {
    const nodes = empty ? [] : Array.from({ length: 60 }, (_, k) => 60 - k);
    const all = nodes.reduce((sum, n) => sum + n * 3600, 0);
    const offset = Number(q.get('offset') ?? 0);
    return {
      window,
      weight: 'gpu_seconds',
      loss: q.get('loss'),
      gpu_seconds: all,
      currency: 'EUR',
      nodes_total: nodes.length,
      nodes: nodes
        .map((n) => ({
          node: `gpu${String(61 - n).padStart(3, '0')}`,
          gpu_seconds: n * 3600,
          of_loss: (n * 3600) / all,
          deployed_gpu_seconds: 8 * hours * 3600,
          allocated_gpu_seconds: 3600,
          money: n * 2,
          reasons: n === 60 ? [{ reason: '<b>bad cable</b>', gpu_seconds: 7200 }] : [],
        }))
        .slice(offset, offset + Number(q.get('limit') ?? 50)),
    };
  }
  if (path === 'usage') return usageBy(q, window, hours, empty);
  if (path === 'advise') return advice(window, hours, empty);
  if (path === 'idle') return idle(window, hours, empty);
  if (path === 'stragglers') return stragglers(window, empty);
  if (path === 'regressions') return regressions(window, empty);
  if (path === 'compare') return compared(q, window);
  if (path === 'gpus') {
    const node = q.get('node') || 'gpu001';
    const gpus = Array.from({ length: empty ? 0 : 8 }, (_, k) => ({
      gpu: `GPU-6f1c2b0${k}-0000-4000-8000-000000001000`,
      gpu_instance: null,
      node,
      index: k,
      model: kModels[0].model,
      job: k < 4 ? '2115002' : null,
      state: k === 7 ? 'silent' : 'reporting',
      age_s: k === 7 ? 9000 : 4,
      ofu: k < 4 ? 0.3 : 0,
      sm_active: 0.5,
      gpu_util: 0.8,
      power_w: 430,
      flags: [],
    }));
    return { total: gpus.length, gpus };
  }
  if (path === 'fleet') {
    if (empty) {
      return {
        window,
        now: kEmptyUsage,
        usage: kEmptyUsage,
        series: {
          ...series(from, to, 0, 0),
          ts: [],
          ofu: [],
          coverage: [],
          gpu_seconds: [],
          tensor_active: [],
          sm_clock_mhz: [],
          gpu_util: [],
          power_w: [],
        },
        models: [],
        not_computable: [],
      };
    }
    const level = { ofu: 0.312, tensor: 0.345, clock: 1663, util: 0.884, power: 431 };
    return {
      window,
      now: usage({ ...level, ofu: 0.3174, gpus: 1000, seconds: 300000, coverage: 0.946 }),
      usage: usage({ ...level, gpus: 1000, seconds: 1000 * hours * 3600, coverage: 0.941 }),
      series: series(from, to, 0.31, 1000, true),
      models: kModels.map((m, k) => ({
        model: m.model,
        gpus: Math.round(1000 * m.share),
        tensor_clock_max_mhz: m.clock,
        usage: usage({
          ofu: m.clock === null ? null : 0.34 - 0.08 * k,
          tensor: 0.36,
          clock: 1600,
          util: 0.9,
          power: m.tdp * 0.7,
          gpus: Math.round(1000 * m.share),
          seconds: 1000 * m.share * hours * 3600,
          coverage: 0.99,
        }),
      })),
      not_computable: [
        { ...kReasons[0], gpu_seconds: 1000 * hours * 3600 * 0.05 },
        { ...kReasons[1], gpu_seconds: 1000 * hours * 3600 * 0.007 },
        { ...kReasons[2], gpu_seconds: 1000 * hours * 3600 * 0.002 },
      ],
    };
  }
  if (path === 'jobs') {
    const needle = (q.get('q') ?? '').toLowerCase();
    let rows = empty ? [] : kJobs.map((j) => jobRow(j, hours));
    rows = rows.filter(
      (r) =>
        (!needle ||
          [r.job, r.name, r.user, r.workflow].some((t) => t?.toLowerCase().includes(needle))) &&
        (!q.get('user') || r.user === q.get('user')) &&
        (!q.get('workflow') || r.workflow === q.get('workflow')) &&
        (q.get('running') !== 'true' || r.running),
    );
    const sort = q.get('sort') || 'gpu_seconds';
    const text = sort === 'job' || sort === 'user';
    const key = (r) => (text ? r[sort] : r.usage[sort]);
    const sign = (q.get('order') || (text ? 'asc' : 'desc')) === 'asc' ? 1 : -1;
    rows.sort((a, b) =>
      key(a) === null
        ? 1
        : key(b) === null
          ? -1
          : key(a) === key(b)
            ? 0
            : key(a) < key(b)
              ? -sign
              : sign,
    );
    const offset = Number(q.get('offset') ?? 0);
    return {
      window,
      total: rows.length,
      jobs: rows.slice(offset, offset + Number(q.get('limit') ?? 50)),
    };
  }
  if (path.startsWith('jobs/')) {
    const name = decodeURIComponent(path.slice(5));
    const j = kJobs.find((x) => x.job === name);
    if (!j) return error(404, 'not_found', `no job '${name}'; did you mean '2115002'?`);
    const m = kModels[j.model];
    const row = jobRow(j, hours);
    return {
      window,
      job: { ...row, started: iso(to - 5 * 3600), ended: j.running ? null : iso(to - 600) },
      application:
        j.k % 3 === 1
          ? null
          : {
              convention: 'megatron',
              precision: 'bf16',
              source: 'megatron',
              claims: 1,
              training_from: iso(from),
              training_to: iso(to),
              mfu: j.base * 0.97,
              mfu_source: 'throughput',
              mfu_reason: null,
              peak_tflops: 989.4,
              peak_source: 'hardware_table',
              hfu: null,
              tflops_per_gpu: j.base * 0.97 * 989.4,
              tokens_per_s: 21000 * j.gpus * j.base,
              step_time_s: 4.2,
              last_mfu: null,
              loss: 2.31,
              grad_norm: 0.4,
              learning_rate: 0.0002,
              tokens: 3.1e11,
              samples: 360,
              covered_s: to - from,
              first: iso(from),
              last: iso(to),
              first_step: 1000,
              last_step: 1857,
            },
      application_reason: j.k % 3 === 1 ? 'nothing_reported' : null,
      mfu_alarm:
        j.k % 6 === 0
          ? {
              verdict: 'alarm',
              headline: 'MFU is 1.62 times too high: a hybrid counted as attention and a dense MLP',
              corrected_mfu: j.base * 0.6,
              gpu_seconds: 36000,
            }
          : null,
      notes:
        j.k % 6 === 0
          ? [
              {
                finding: 'MFU against OFU, alarm: MFU is 1.62 times too high.',
                action: '"flopwatch divergence --job 2115078" has the numbers.',
                serious: true,
                gpu_seconds: 36000,
              },
              {
                finding: 'The GPUs run no kernel <60 %> of the time (duty cycle 40 %).',
                action: null,
                serious: false,
                gpu_seconds: 3600,
              },
            ]
          : [],
      series: series(from, to, j.base, j.gpus, false),
      gpus: Array.from({ length: j.gpus }, (_, g) => {
        const slow = g === 13 ? 0.55 : 1;
        const ofu =
          row.usage.ofu === null ? null : j.base * slow * (0.97 + 0.06 * noise(j.k, g, 6));
        const [head, job, tail] = [0x6f1c2b00 + g, j.k, 4096 + g].map((v) => v.toString(16));
        return {
          gpu: `GPU-${head}-${job.padStart(4, '0')}-4000-8000-00000000${tail}`,
          gpu_instance: null,
          node: `gpu${String(1 + j.k + Math.floor(g / kGpusPerNode)).padStart(3, '0')}`,
          index: g % kGpusPerNode,
          model: m.model,
          rank: j.model === 1 ? null : g,
          usage: usage({
            ofu,
            tensor: ofu === null ? (j.dead ? 0 : 0.3) : ofu / 0.9,
            clock: 1640 * (slow < 1 ? 0.8 : 1) + 30 * noise(g, 7),
            util: 0.9,
            power: m.tdp * (0.6 + 0.2 * noise(g, 8)),
            gpus: 1,
            seconds: hours * 3600,
            coverage: 0.99,
            reason: row.usage.ofu_reason,
          }),
        };
      }),
    };
  }
  if (path.startsWith('gpus/')) {
    return {
      gpu: {
        gpu: decodeURIComponent(path.slice(5)),
        gpu_instance: null,
        node: 'gpu003',
        index: 5,
        model: kModels[0].model,
        device: 'nvidia5',
        pci_bus_id: null,
        driver: '580.95.05',
        mig_profile: null,
        sm_count: 132,
        tensor_clock_max_mhz: 1830,
        first_seen: iso(now - 40 * 86400),
        job: '2115002',
        state: 'reporting',
        age_s: 4,
        fb_used_mib: 71234,
        gpu_temp_c: 58,
        flags: [],
        instances: [],
      },
      window,
      usage: usage({
        ofu: 0.18,
        tensor: 0.24,
        clock: 1320,
        util: 0.99,
        power: 590,
        gpus: 1,
        seconds: hours * 3600,
        coverage: 0.99,
      }),
      series: series(from, to, 0.18, 1, false),
      jobs: [
        { job: '2115002', user: 'chen', gpu_instance: null, from: iso(to - 5 * 3600), to: null },
        {
          job: '2115044',
          user: 'emre',
          gpu_instance: null,
          from: iso(from - 3600),
          to: iso(to - 5 * 3600 - 120),
        },
      ],
    };
  }
  if (path === 'targets') {
    const all = first
      ? []
      : Array.from({ length: 125 }, (_, k) => {
          const odd = { 3: 'down', 17: 'back_off', 124: 'pending' };
          const state = silent ? 'down' : (odd[k] ?? 'up');
          const node = `gpu${String(k + 1).padStart(3, '0')}`;
          return {
            url: `http://${node}:9400/metrics`,
            node,
            state,
            pushed: false,
            last_scrape: state === 'pending' ? null : iso(now - 3),
            last_success:
              state === 'up' ? iso(now - 3) : state === 'pending' ? null : iso(now - 4000),
            age_s: state === 'up' ? 3 + (k % 7) : state === 'pending' ? null : 4000,
            last_duration_ms: state === 'pending' ? null : 3 + 4 * noise(k, 21),
            last_bytes: state === 'up' ? 21000 + k * 37 : 0,
            scrapes: 8640,
            failures: state === 'up' ? 0 : 402,
            timeouts: state === 'back_off' ? 402 : 0,
            oversized: 0,
            samples: 1382400,
            rows: 69120,
            entities: 8,
            refused: k === 8 ? { blank_sentinel: 17280, malformed_line: 3 } : {},
            error:
              state === 'down'
                ? 'connect: connection refused'
                : state === 'back_off'
                  ? 'no answer within 5 s; next try in 4 min'
                  : null,
            last_failure: null,
            last_failure_at: null,
            frozen_gpus: k === 5 ? 2 : 0,
            counters: {
              ok: k === 7 ? 7 : 8,
              not_judged: 0,
              undecided: 0,
              faulty: k === 7 ? 1 : 0,
              findings:
                k === 7
                  ? [
                      {
                        rule: 'profiling_dead',
                        fault: 'dead',
                        counter: 'tensor_active',
                        says: 'every profiling counter is 0 while duty cycle and power show work',
                        remedy: 'dcgmi dmon -e 1001 -c 1',
                        gpus: 1,
                        for_s: 86_400,
                        examples: ['GPU-00000007-0000-0000-0000-000000000000'],
                      },
                    ]
                  : [],
              gpus: [
                {
                  gpu: 'GPU-00000007-0000-0000-0000-000000000000',
                  gpu_instance: null,
                  index: 0,
                  verdict: k === 7 ? 'faulty' : 'ok',
                  rules: k === 7 ? ['profiling_dead'] : [],
                  why: null,
                  readings: 900,
                },
              ],
            },
            conflicts:
              k === 6
                ? [
                    {
                      kind: 'uuid_conflict',
                      gpu: 'GPU-00000006-0000-0000-0000-000000000000',
                      gpu_instance: null,
                      other: 'http://node-007:9400/metrics',
                      holds: true,
                      refused_rows: 360,
                      since: iso(now - 600),
                      last: iso(now),
                    },
                  ]
                : [],
            examples:
              k === 8
                ? ['blank_sentinel: DCGM_FI_DEV_MEMORY_TEMP{gpu="3",…} 9223372036854775794']
                : [],
          };
        });
    const needle = (q.get('q') ?? '').toLowerCase();
    const rows = all.filter(
      (t) => (!needle || t.url.includes(needle)) && (!q.get('state') || t.state === q.get('state')),
    );
    const offset = Number(q.get('offset') ?? 0);
    return {
      total: all.length,
      up: all.filter((t) => t.state === 'up').length,
      matching: rows.length,
      targets: rows.slice(offset, offset + Number(q.get('limit') ?? 50)),
    };
  }
  return error(404, 'not_found', `no such path: ${url.pathname}; /openapi.json lists them all`);
}

// A message is "what: why; what to try".
const error = (status, code, message) => {
  const [, what, why, tip] = /^(.*?)(?:: (.*?))?(?:; (.*))?$/.exec(message);
  const parts = { what, why: why ?? null, try: tip ?? null };
  return { status, body: { error: { code, message, ...parts } } };
};

// `seen` is told every answer: method, path, status, body.
export function startMock({ port = 0, dist, scenario = 'fleet', seen = () => {} }) {
  const state = { scenario, silences: [] };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://mock');
    const send = (status, type, body, headers = {}) => {
      response.writeHead(status, { 'Content-Type': type, ...headers });
      response.end(body);
    };
    if (url.pathname.startsWith('/api/')) {
      let result;
      if (request.method === 'POST') {
        let body = '';
        for await (const piece of request) body += piece;
        result = written(url.pathname.replace('/api/v1/', ''), body, state.silences);
      } else {
        result = answer(url, state.scenario, state.silences);
      }
      if (result.svg !== undefined) return send(200, 'image/svg+xml', result.svg);
      const status = typeof result.status === 'number' && result.body ? result.status : 200;
      const method = request.method.toLowerCase();
      const said = schemaOf(method, url.pathname, status);
      const answered = status === 200 ? result : result.body;
      const body = said ? filled(answered, said.schema) : answered;
      seen(method, url.pathname, status, body);
      return send(status, 'application/json', JSON.stringify(body), {
        'Cache-Control': 'no-store',
      });
    }
    const file = url.pathname.startsWith('/assets/')
      ? join(dist, 'assets', url.pathname.slice(8).replace(/[^\w.-]/g, ''))
      : join(dist, 'index.html');
    if (!existsSync(file)) return send(404, 'text/plain', 'not found');
    return send(200, kTypes[file.split('.').pop()], readFileSync(file), {
      'Content-Security-Policy': kCsp,
    });
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => {
      resolve({
        url: `http://127.0.0.1:${server.address().port}`,
        set: (next) => (state.scenario = next),
        stop: () =>
          new Promise((done) => {
            server.closeAllConnections?.();
            server.close(done);
          }),
      });
    });
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const dist = process.argv[3] ?? join(dirname(fileURLToPath(import.meta.url)), '../dist');
  const mock = await startMock({ port: Number(process.argv[2] ?? 9531), dist });
  console.log(`mock server: ${mock.url}`);
}
