// Every metric the page shows: what it is, how it is computed, what it does not say, where it comes
// from.

export interface Metric {
  label: string;
  title: string;
  what: string;
  formula?: string;
  caveat?: string;
  source?: string;
}

export const metrics = {
  ofu: {
    label: 'OFU',
    title: 'Overall FLOP utilisation',
    what:
      'Share of the tensor arithmetic the GPUs could have done that they did. 100 % is every ' +
      'tensor pipe busy in every cycle at the highest clock.',
    formula: 'mean over GPU-seconds of tensor activity × SM clock ÷ maximum tensor clock',
    caveat:
      'Counts issued tensor work, useful or not (recomputation and padding count). Work outside ' +
      'the tensor pipes does not count. The maximum clock is of the GPU model, not what the ' +
      'driver reports.',
    source:
      'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE × DCGM_FI_DEV_SM_CLOCK, or DCGM cycle totals where the ' +
      'exporter has them',
  },
  ci: {
    label: '95 % interval',
    title: 'Confidence interval of OFU',
    what:
      'The clock is sampled, not integrated, so OFU of a short or small sample is uncertain. ' +
      'The true mean lies within ± this half-width in 95 of 100 cases.',
    formula: 'from the spread of the steps in the window, corrected for their autocorrelation',
    caveat: 'Absent where the window has too few steps to tell.',
  },
  coverage: {
    label: 'Coverage',
    title: 'Coverage',
    what: 'Share of the expected GPU-time for which OFU is known. OFU says nothing about the rest.',
    formula:
      'computable GPU-seconds ÷ expected GPU-seconds (allocated to the job, or deployed in the ' +
      'fleet)',
    caveat:
      'Low coverage means missing scrapes, missing fields or unknown GPU models: see the reasons.',
  },
  gpu_hours: {
    label: 'GPU-hours',
    title: 'GPU-hours',
    what:
      'Time GPUs were allocated (job) or deployed (fleet), summed over GPUs. The weight of ' +
      'every mean on this page.',
    formula: 'from the job intervals of each GPU; while k jobs share a GPU each is charged 1/k',
    source: 'job labels, pod labels or the static job file',
  },
  lost: {
    label: 'Lost GPU-hours',
    title: 'Lost GPU-hours',
    what:
      'GPU-hours in which the tensor pipes could have worked at full clock and did not. Ranks ' +
      'where an improvement frees the most.',
    formula: 'computable GPU-hours × (1 − OFU)',
    caveat: '100 % is not reachable in practice: compare jobs with each other, not with it.',
  },
  tensor_active: {
    label: 'Tensor activity',
    title: 'Tensor-pipe activity',
    what: 'Share of cycles in which the tensor pipes were busy, whatever the clock was.',
    caveat: 'Falls on launch gaps, memory-bound kernels and communication.',
    source: 'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE (1004)',
  },
  sm_clock: {
    label: 'SM clock',
    title: 'SM clock',
    what: 'Mean clock of the streaming multiprocessors. Power and heat lower it.',
    caveat: 'An instant reading per scrape.',
    source: 'DCGM_FI_DEV_SM_CLOCK (100)',
  },
  clock_share: {
    label: 'Clock share',
    title: 'Clock share',
    what:
      'How fast the clock ran while the tensor pipes were busy, against the maximum tensor ' +
      'clock.',
    formula: 'OFU ÷ tensor activity',
    caveat:
      'The other factor of OFU: what is missing to 100 % is lost to power, heat or clock limits.',
  },
  gpu_util: {
    label: 'Duty cycle',
    title: 'Duty cycle (GPU utilisation)',
    what: 'Share of time in which any kernel ran, however little of the GPU it used.',
    caveat:
      'Not efficiency: one idle-waiting kernel gives 100 %. Shown because schedulers and ' +
      'dashboards use it.',
    source: 'DCGM_FI_DEV_GPU_UTIL (203), else DCGM_FI_PROF_GR_ENGINE_ACTIVE',
  },
  power: {
    label: 'Power',
    title: 'Board power',
    what: 'Mean power of one GPU board. High power with low OFU is worth a look.',
    source: 'DCGM_FI_DEV_POWER_USAGE (155)',
  },
  energy: {
    label: 'Energy',
    title: 'Energy',
    what: 'Board power integrated over the observed GPU-time.',
    caveat: 'GPUs only: no hosts, network or cooling.',
  },
  not_computable: {
    label: 'Not computable',
    title: 'Not computable',
    what:
      'Expected GPU-time for which there is no OFU, by reason. It is left out of the mean, ' +
      'never counted as zero.',
  },
} satisfies Record<string, Metric>;

export type MetricId = keyof typeof metrics;

export const sources: Record<string, string> = {
  ratio: 'tensor activity × clock',
  cycles: 'cycle totals',
  mixed: 'cycle totals and tensor activity × clock',
};
