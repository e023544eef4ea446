#include "alerts/quantity.h"

#include <iterator>

namespace flopwatch::alerts {
namespace {

using Q = Quantity;
constexpr Scope kGpu = Scope::kGpu, kJob = Scope::kJob, kNode = Scope::kNode,
                kFleet = Scope::kFleet;

constexpr QuantitySpec kQuantities[] = {
    {Q::kGpuOfu, kGpu, "ofu", "ratio", "OFU of the newest sample"},
    {Q::kGpuTensor, kGpu, "tensor_active", "ratio", "tensor activity"},
    {Q::kGpuSmActive, kGpu, "sm_active", "ratio", "SM activity"},
    {Q::kGpuDuty, kGpu, "gpu_util", "ratio", "the duty cycle: GPU_UTIL, else GR_ACTIVE"},
    {Q::kGpuActivity, kGpu, "activity", "ratio",
     "whether anything runs: the highest of duty cycle, SM and tensor activity, of those that are "
     "known"},
    {Q::kGpuPower, kGpu, "power_w", "W", "power of the board"},
    {Q::kGpuTemperature, kGpu, "gpu_temp_c", "degC", "temperature of the GPU"},
    {Q::kGpuClock, kGpu, "sm_clock_mhz", "MHz", "SM clock"},
    {Q::kGpuClockShare, kGpu, "clock_share", "ratio",
     "SM clock over the highest tensor clock of the model"},
    {Q::kGpuClockToJob, kGpu, "clock_to_job", "ratio",
     "SM clock over the median of the job's GPUs, of three and more that are of one model; a mean "
     "over about three minutes of work"},
    {Q::kGpuPowerToJob, kGpu, "power_to_job", "ratio", "power over that median, likewise"},
    {Q::kGpuDutyToJob, kGpu, "util_to_job", "ratio",
     "the duty cycle over the median of the job's GPUs, likewise"},
    {Q::kGpuOfuToJob, kGpu, "ofu_to_job", "ratio",
     "OFU over that median, likewise: near 1 on each GPU of a synchronous job"},
    {Q::kGpuMemory, kGpu, "fb_used_mib", "MiB", "memory in use"},
    {Q::kGpuAge, kGpu, "age_s", "s", "since its newest sample"},
    {Q::kGpuAllocated, kGpu, "allocated", "1", "1 where a job holds it, else 0"},
    {Q::kGpuJobs, kGpu, "jobs", "1", "jobs that hold it: more than 1 where it is shared"},
    {Q::kGpuJobGpus, kGpu, "job_gpus", "GPUs", "GPUs of its job that report; 0 without a job"},
    {Q::kGpuJobDuty, kGpu, "job_duty", "ratio", "the duty cycle of its job's GPUs, their mean"},
    {Q::kGpuThrottle, kGpu, "throttle", "bits",
     "why the clock is held back (clock event reasons): 0x8 hardware slowdown, 0x20 software "
     "thermal, 0x40 hardware thermal, 0x80 power brake"},
    {Q::kGpuXid, kGpu, "xid", "code", "the last XID error, however old; 0 = none"},
    {Q::kGpuXidNew, kGpu, "xid_new", "code",
     "an XID error that came within the last ten minutes; 0 = none"},
    {Q::kGpuEccNew, kGpu, "ecc_dbe_new", "1", "uncorrectable ECC errors of the last ten minutes"},
    {Q::kGpuRowRemaps, kGpu, "row_remaps_new", "1",
     "memory rows remapped for uncorrectable errors in the last ten minutes"},
    {Q::kGpuRowRemapPending, kGpu, "row_remap_pending", "1",
     "1 where a row waits for the reset that remaps it, else 0"},
    {Q::kGpuRowRemapFailed, kGpu, "row_remap_failed", "1",
     "1 where a row could not be remapped, else 0"},
    {Q::kGpuNvlinkErrors, kGpu, "nvlink_errors_new", "1",
     "NVLink CRC errors of the last ten minutes, all links"},
    {Q::kGpuPcieReplays, kGpu, "pcie_replays_new", "1", "PCIe replays of the last ten minutes"},
    {Q::kGpuCounterFault, kGpu, "counter_fault", "1",
     "1 where a counter cannot be believed (docs/counters.md), else 0"},

    {Q::kJobOfu, kJob, "ofu", "ratio", "OFU of the last five minutes, by GPU-seconds"},
    {Q::kJobTensor, kJob, "tensor_active", "ratio", "tensor activity, likewise"},
    {Q::kJobSmActive, kJob, "sm_active", "ratio", "SM activity, likewise"},
    {Q::kJobDuty, kJob, "gpu_util", "ratio", "the duty cycle, likewise"},
    {Q::kJobPower, kJob, "power_w", "W", "power of a GPU, likewise"},
    {Q::kJobClock, kJob, "sm_clock_mhz", "MHz", "SM clock, likewise"},
    {Q::kJobGpus, kJob, "gpus", "GPUs", "GPUs that report"},
    {Q::kJobCoverage, kJob, "coverage", "ratio",
     "of the GPU-seconds that were observed, those with an OFU"},
    {Q::kJobBusyOfu, kJob, "busy_ofu", "ratio",
     "OFU over the duty cycle: OFU while kernels run, where they run for a twentieth and more"},
    {Q::kJobBaselineOfu, kJob, "baseline_ofu", "ratio",
     "median of busy_ofu over the last two hours, without the last fifteen minutes"},
    {Q::kJobBaselineWindows, kJob, "baseline_windows", "1",
     "windows of five minutes that baseline_ofu is made of"},
    {Q::kJobLowOfu, kJob, "low_ofu", "ratio",
     "the least of busy_ofu over fifteen minutes within the day before the last two hours, or "
     "baseline_ofu where that is less"},
    {Q::kJobBaselineTensor, kJob, "baseline_tensor", "ratio",
     "median of tensor activity over the same windows"},
    {Q::kJobBaselinePower, kJob, "baseline_power_w", "W",
     "median of the power of a GPU over the same windows"},
    {Q::kJobBaselineDuty, kJob, "baseline_gpu_util", "ratio",
     "median of the duty cycle over the same windows"},
    {Q::kJobBaselineSpread, kJob, "baseline_spread", "ratio",
     "how much busy_ofu scatters there: the range of the middle half over the median"},
    {Q::kJobShared, kJob, "shared", "1", "1 where another job holds one of its GPUs too, else 0"},
    {Q::kJobQuietest, kJob, "lowest_gpu_util", "ratio",
     "the lowest duty cycle of one of its GPUs, newest samples; a GPU without one that is believed "
     "is "
     "left out where its SMs are active"},
    {Q::kJobBusyDuty, kJob, "busy_gpu_util", "ratio",
     "gpu_util, where it is a quarter and more and no GPU rests: not known in a pause of the job"},
    {Q::kJobLostShare, kJob, "silent_share", "ratio",
     "of the GPUs that the job holds, those whose newest sample is too old"},
    {Q::kJobReportAge, kJob, "report_age_s", "s", "since the job's newest report of itself"},
    {Q::kJobReportInterval, kJob, "report_interval_s", "s",
     "between its reports: the median of the last fifty"},
    {Q::kJobProgressAge, kJob, "progress_age_s", "s",
     "since a report of a further step; where it names no steps, of any tokens"},
    {Q::kJobTokens, kJob, "tokens_per_s", "1/s",
     "tokens a second that it reports, over the last full window of five minutes and since"},
    {Q::kJobBaselineTokens, kJob, "baseline_tokens_per_s", "1/s",
     "median of that over the last two hours, without the last fifteen minutes"},
    {Q::kJobMfu, kJob, "reported_mfu", "ratio", "the MFU that it reports, likewise"},
    {Q::kJobBaselineMfu, kJob, "baseline_reported_mfu", "ratio", "its median, likewise"},
    {Q::kJobReportWindows, kJob, "report_windows", "1",
     "windows of five minutes that these medians are made of"},
    {Q::kJobLoss, kJob, "loss", "1", "the loss that it reports: the median of the newest five"},
    {Q::kJobBaselineLoss, kJob, "baseline_loss", "1",
     "the median of the up to fifty before these, of twenty and more"},
    {Q::kJobLossSpread, kJob, "loss_spread", "1",
     "how much those scatter: the range of the middle half"},
    {Q::kJobGradNorm, kJob, "grad_norm", "1",
     "the norm of the gradients that it reports: the median of the newest five"},
    {Q::kJobBaselineGradNorm, kJob, "baseline_grad_norm", "1", "of those before, as of the loss"},
    {Q::kJobNotFinite, kJob, "not_finite", "1",
     "reports in a row, up to the newest, whose loss or gradient norm is no number"},
    {Q::kJobDivergence, kJob, "divergence", "ratio",
     "reported MFU less OFU over the last hour, after what a healthy job shows; every ten minutes"},
    {Q::kJobDivergenceFlagged, kJob, "divergence_flagged", "1",
     "1 where that is an alarm of `flopwatch divergence`, or impossible, else 0"},
    {Q::kJobDivergenceExcess, kJob, "divergence_excess", "ratio",
     "MFU less OFU, as it stands or as divergence has it, the smaller, without its sign, less what "
     "jobs of that size scatter by"},
    {Q::kJobDivergenceCaused, kJob, "divergence_caused", "1",
     "1 where a cause that the claim or the job supports explains it, else 0"},
    {Q::kJobHistoryRuns, kJob, "history_runs", "1",
     "earlier runs of its workflow in two weeks that were set alike, at most 48; every hour"},
    {Q::kJobHistoryOfu, kJob, "history_ofu", "ratio",
     "the median of what these reached: OFU while kernels ran, of five runs and more"},
    {Q::kJobHistoryScatter, kJob, "history_scatter", "1",
     "how much that scatters: standard deviation of its logarithm, by the middle half"},
    {Q::kJobHistoryLow, kJob, "history_low", "ratio", "what nine in ten of them reached"},

    {Q::kNodeSilence, kNode, "silence_s", "s", "since the newest sample of any of its GPUs"},
    {Q::kNodeGpus, kNode, "gpus", "GPUs", "GPUs that it was last heard to have"},
    {Q::kNodeAllocated, kNode, "allocated", "GPUs", "those of them that a job held then"},
    {Q::kNodeAlive, kNode, "alive", "1",
     "1: while it is silent a job that holds its GPUs makes progress, or its exporter's port "
     "answers without samples; otherwise not known"},

    {Q::kFleetOfu, kFleet, "ofu", "ratio", "OFU of the last five minutes, by GPU-seconds"},
    {Q::kFleetBaselineOfu, kFleet, "baseline_ofu", "ratio",
     "median of ofu over the last day, without the last half an hour"},
    {Q::kFleetBaselineWindows, kFleet, "baseline_windows", "1",
     "windows of five minutes that baseline_ofu is made of"},
    {Q::kFleetGpus, kFleet, "gpus", "GPUs", "GPUs that report"},
    {Q::kFleetCoverage, kFleet, "coverage", "ratio",
     "of the GPU-seconds that were observed, those with an OFU"},
};
static_assert(std::size(kQuantities) == kQuantityCount);

consteval bool InOrder() {
  for (size_t k = 0; k < kQuantityCount; ++k)
    if (static_cast<size_t>(kQuantities[k].quantity) != k) return false;
  return true;
}
static_assert(InOrder());

}  // namespace

absl::Span<const QuantitySpec> Quantities() { return kQuantities; }
const QuantitySpec& SpecOf(Quantity q) { return kQuantities[static_cast<size_t>(q)]; }

std::optional<Quantity> FindQuantity(Scope scope, std::string_view name) {
  for (const QuantitySpec& spec : kQuantities)
    if (spec.scope == scope && spec.name == name) return spec.quantity;
  return std::nullopt;
}

}  // namespace flopwatch::alerts
