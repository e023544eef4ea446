// The text of one exporter at one tick. Label blocks are put together once per GPU and tick from
// shared pieces (nothing is kept between ticks: 100k GPUs would cost gigabytes); per line only a
// name, a block and a few digits are copied.
#include <algorithm>
#include <cmath>

#include "simulate/board_errors.h"
#include "simulate/digits.h"
#include "simulate/fields.h"
#include "simulate/fleet_model.h"
#include "simulate/local_time.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr size_t kClockLabelBytes = 64;  // that a clock of AMD's exporter has more
constexpr size_t kMaxLabelBytes = 640;   // of one line; names are bounded by the generator
constexpr std::string_view kIntegerSentinel = "9223372036854775794";
constexpr std::string_view kDoubleSentinel = "140737488355328.000000";

// What a line stands for decides which fields it has.
enum class LineKind : uint8_t {
  kWhole,
  // Exporters list a partitioned GPU in one of two ways (docs/simulate.md): only its instances, the
  // board's values repeated on each (A800 sample) ...
  kInstance,
  // ... or the GPU with its board values, and instances with profiling fields alone (A100 sample).
  kPartitioned,
  kInstanceProfile,
};

// One line per field: a GPU or an instance, once per owner.
struct Line {
  uint32_t labels, size;  // in the label buffer
  uint16_t values;        // index
  LineKind kind;
  bool no_tensor;
  int8_t blank;  // field index without a value, -1 = none
  bool sentinel;
  CounterLie lie;
};

struct Scratch {
  std::string labels;
  std::vector<Line> lines;
  std::vector<Values> values;
};

// Noise within a GPU at sampling instants: sd 30 MHz, correlated for less than a second (the OFU
// paper, IV-C: sd 32 MHz at 1 kHz); less near the highest clock, so that cutting there does not
// shift the mean. Steps of 15 MHz, rounded up or down at random.
int64_t SampleClock(const GpuModel& model, int mean_mhz, uint64_t h) {
  double sd = std::min(30.0, (model.boost_mhz - mean_mhz) / 3.0);
  if (sd <= 0) return mean_mhz;
  double z =
      std::clamp(InverseNormal((h & 0xffffff) * 0x1p-24 * (1 - 0x1p-20) + 0x1p-21), -3.0, 3.0);
  double v = (mean_mhz + sd * z) / kClockStepMhz + (h >> 40) * 0x1p-24;
  return std::min<int64_t>(model.boost_mhz, static_cast<int64_t>(v) * kClockStepMhz);
}

// Seconds up to t that stints of a kind have held a lane: the base of counters that must not fall.
template <typename Kind>
int64_t HeldSeconds(const Activity& activity, int32_t lane, int32_t t, Kind&& kind) {
  int64_t sum = 0;
  for (const Stint& s : activity.Stints(lane)) {
    if (s.from >= t) break;
    if (kind(s)) sum += std::min(t, s.to) - s.from;
  }
  return sum;
}

// The temperature follows the power; a GPU whose clock is low is a little warmer.
void SetTemperatures(const GpuModel& model, const GpuTraits& traits, Values* v) {
  (*v)[kGpuTemp] = 26 + (*v)[kPowerMw] * 34 / (model.tdp_w * 1000) +
                   static_cast<int64_t>((traits.clock_factor - 1) * 60) + ((*v)[kPowerMw] & 1);
  (*v)[kMemTemp] = (*v)[kGpuTemp] + 9;
}

// Energy counts from a start of each board's own, at its idle power.
int64_t IdleEnergyMj(const GpuTraits& traits, int32_t gpu, int32_t t) {
  return 1'000'000'000 + static_cast<int64_t>(gpu) * 1'000'003 +
         static_cast<int64_t>(traits.idle_mw) * t;
}

// A lane at a second, as ReadLane() has found it.
struct LaneState {
  int32_t lane, t, gpu;
  bool busy;
  const Stint* holder;
  const Totals& now;
  uint64_t own;  // the job's own draw
};

OddJob OddJobOfHolder(const Fleet::Model& m, const LaneState& at) {
  if (!m.planting.odd_jobs || at.holder == nullptr) return OddJob::kNone;
  const Job& job = m.plan.jobs[at.holder->job];
  if (job.kind == JobKind::kService || job.kind == JobKind::kSession) return OddJob::kNone;
  const Workflow& workflow = m.demand->workflows()[job.workflow];
  return workflow.planted >= 0 ? OddJob::kNone : OddJobOf(m.options.seed, workflow.key);
}

// The pipe that a job without tensor work keeps busy.
void SetOddPipes(const Fleet::Model& m, const LaneState& at, Values* out) {
  Values& v = *out;
  const OddJob odd = OddJobOfHolder(m, at);
  if (odd == OddJob::kNone) return;
  const int64_t most = v[kSmPpm] * (55 + static_cast<int64_t>(at.own & 31)) / 100;
  v[kFp64Ppm] = odd == OddJob::kFp64 ? most : 0;
  v[kFp32Ppm] = odd == OddJob::kFp32 ? most : v[kSmPpm] / 12;
  v[kFp16Ppm] = 0;
  if (odd == OddJob::kInteger) v[kIntPpm] = v[kSmPpm] * 85 / 100;
}

// The fields above the first 20, from those.
void ReadMore(const Fleet::Model& m, const LaneState& at, Values* out) {
  Values& v = *out;
  const GpuModel& model = m.activity->ModelOf(at.lane);
  const bool many = at.holder != nullptr && m.plan.jobs[at.holder->job].gpus > 1;
  // Warps resident of those that fit while an SM has any: a level of the job's own, all attempts
  // alike.
  const int64_t warps =
      at.holder == nullptr
          ? 0
          : 12 + static_cast<int64_t>(Below(
                     Key(m.options.seed, Purpose::kJob, m.plan.jobs[at.holder->job].number, 18),
                     51));
  v[kOccupancyPpm] = v[kSmPpm] * warps / 100;
  v[kFp64Ppm] = 0;
  v[kFp32Ppm] = (v[kSmPpm] - v[kTensorPpm]) / 6;
  v[kFp16Ppm] = v[kTensorPpm] / 20;
  v[kHmmaPpm] = v[kTensorPpm];
  v[kIntPpm] = v[kSmPpm] / 5;
  if (at.busy) SetOddPipes(m, at, &v);
  v[kNvlinkTx] = many ? v[kSmPpm] * static_cast<int64_t>(20'000 + (at.own >> 30 & 65535)) : 0;
  v[kNvlinkRx] = v[kNvlinkTx];
  int64_t base = static_cast<int64_t>(Key(m.options.seed, Purpose::kGpu, at.gpu, 3) >> 14);
  v[kCyclesElapsed] = base * 4 + at.now.clock_cycles;
  v[kCyclesActive] = base * 2 + at.now.sm_cycles;
  v[kMmaCycles] = base + at.now.tensor_cycles;
  v[kPowerLimitMw] = static_cast<int64_t>(model.tdp_w) * 1000;
  v[kClockReasons] = !at.busy                          ? 1
                     : at.holder->throttled            ? 0x40
                     : v[kPowerMw] > model.tdp_w * 970 ? 4
                                                       : 0;
  const int64_t total = v[kFbReserved] + v[kFbUsed] + v[kFbFree];
  v[kFbTotal] = total;
  v[kFbUsedPpm] = v[kFbUsed] * 1'000'000 / total;
  v[kMaxSmClock] = model.boost_mhz;
  v[kPstate] = 0;
  v[kPowerViolation] = at.now.energy_mj / 100;
  v[kThermalViolation] =
      HeldSeconds(*m.activity, at.lane, at.t, [](const Stint& s) { return s.throttled; }) *
      1'000'000'000;
  v[kEccSbe] = v[kPcieReplay] / 4;
  v[kRemappedRows] = 0;
  v[kNvlinkTotal] = at.now.sm_us / 50;
  v[kPcieTxKb] = v[kPcieTx] / 1000;
  v[kPcieRxKb] = v[kPcieRx] / 1000;
  v[kLinkTx] = v[kNvlinkTx] / 18;
  v[kLinkRx] = v[kNvlinkRx] / 18;
}

// How much of its memory a job holds at a moment. Also a healthy one has a process only some
// seconds after its start, which loads nothing at first.
HeldMemory HeldIn(const Fleet::Model& m, const LaneState& at, const Phase* phase) {
  if (phase == nullptr) return HeldMemory::kAll;
  const Job& job = m.plan.jobs[at.holder->job];
  if (phase->memory != HeldMemory::kAll || phase->kind != PhaseKind::kGap || phase->start > 0 ||
      job.start < 0 || job.kind == JobKind::kService || job.kind == JobKind::kSession)
    return phase->memory;
  const int32_t age = at.t - job.start;
  return age < 40 ? HeldMemory::kNone : age < 90 ? HeldMemory::kContext : HeldMemory::kAll;
}

// What varies by itself once incidents are looked for, so that no single sign tells one: links and
// temperatures differ between GPUs and moments, retries and corrected errors happen to GPUs that
// hold nobody up, clocks are set by administrators who set them to the highest.
void Vary(const Fleet::Model& m, const LaneState& at, Values* out) {
  Values& v = *out;
  const uint64_t seed = m.options.seed;
  const GpuModel& model = m.activity->ModelOf(at.lane);
  const Effect* effect = at.holder != nullptr ? m.activity->EffectOf(*at.holder) : nullptr;
  const Phase* phase =
      at.holder != nullptr && !at.holder->idle() ? &m.activity->PhaseAt(*at.holder, at.t) : nullptr;
  // By the workflow, whose runs are alike, and a little by the run.
  uint64_t own = 0, run = 0;
  if (at.holder != nullptr) {
    const Job& job = m.plan.jobs[at.holder->job];
    own = Key(seed, Purpose::kIncident, m.demand->workflows()[job.workflow].key, 10ull << 40);
    run = Key(seed, Purpose::kIncident, job.number, 11ull << 40);
  }
  const uint64_t gpu = Key(seed, Purpose::kIncident, at.gpu, 12ull << 40),
                 now = Key(seed, Purpose::kIncident, at.lane, (13ull << 40) + at.t);
  // In 1/1024: `spread` either way, by 10 bits of a hash.
  const auto about = [](uint64_t h, int spread) {
    return 1024 + (static_cast<int64_t>(h & 1023) - 512) * spread / 512;
  };
  const bool hangs = phase != nullptr && phase->kind == PhaseKind::kHang;
  const auto scaled = [&](int64_t value, uint16_t factor, uint64_t of_run, uint64_t of_gpu,
                          uint64_t of_now, int spread) {
    value = value * factor / Effect::kOne * about(of_run, spread / 2) / 1024;
    value = value * about(of_gpu, spread) / 1024 * about(of_now, spread) / 1024;
    return hangs ? value / 64 : value;  // who waits in a collective moves nothing
  };
  const uint16_t one = Effect::kOne;
  const int64_t dram = v[kSmPpm] * static_cast<int64_t>(180 + (own & 511)) / 1024;
  v[kDramPpm] = std::min<int64_t>(
      960'000, scaled(dram, effect ? effect->dram : one, run, gpu >> 50, now, 12));
  v[kMemCopyPct] = v[kDramPpm] / 12500;
  const uint16_t pcie = effect ? effect->pcie : one;
  v[kPcieTx] = scaled(v[kSmPpm] * static_cast<int64_t>(200 + (own >> 9 & 1023)), pcie, run >> 10,
                      gpu, now >> 10, 80);
  v[kPcieRx] = scaled(v[kSmPpm] * static_cast<int64_t>(300 + (own >> 19 & 2047)), pcie, run >> 20,
                      gpu >> 10, now >> 20, 80);
  const bool many = at.holder != nullptr && m.plan.jobs[at.holder->job].gpus > 1;
  const int64_t link =
      many ? v[kSmPpm] * static_cast<int64_t>(20'000 + (own >> 30 & 65535)) : int64_t{0};
  uint16_t nvlink = effect ? effect->nvlink : one;
  // Some GPUs' place in the fabric gives them less traffic, and nobody waits for them.
  if (Below(Mix(gpu + 1), 1000) < 15) nvlink = static_cast<uint16_t>(nvlink * 4 / 5);
  v[kNvlinkTx] = scaled(link, nvlink, run >> 30, gpu >> 20, now >> 30, 45);
  v[kNvlinkRx] = scaled(link, nvlink, run >> 30, gpu >> 30, now >> 40, 45);
  v[kLinkTx] = v[kNvlinkTx] / 18;
  v[kLinkRx] = v[kNvlinkRx] / 18;
  v[kPcieTxKb] = v[kPcieTx] / 1000;
  v[kPcieRxKb] = v[kPcieRx] / 1000;
  if (const HeldMemory held = HeldIn(m, at, phase); held != HeldMemory::kAll) {
    const int64_t total = v[kFbFree] + v[kFbUsed];
    v[kFbUsed] = held == HeldMemory::kNone ? 0 : 420 + static_cast<int64_t>(own & 255);
    v[kFbFree] = total - v[kFbUsed];
    v[kFbUsedPpm] = v[kFbUsed] * 1'000'000 / v[kFbTotal];
  }
  const bool hot = Below(Mix(gpu + 2), 1000) < 20;  // a bad place in the rack
  const int64_t warmer = static_cast<int64_t>(gpu >> 40 & 7) - 3 + (hot ? 15 : 0) +
                         (at.busy && effect ? effect->degrees : 0) +
                         (at.busy && at.holder->throttled ? 24 : 0);
  v[kGpuTemp] += warmer;
  v[kMemTemp] += warmer;
  // Bits that say nothing of a slow GPU: clocks that are set, to the highest; the board's own
  // limit.
  const int host = m.activity->HostOf(at.lane);
  if (at.busy && Below(Key(seed, Purpose::kIncident, host, 14ull << 40), 100) < 4)
    v[kClockReasons] |= 0x2;
  if (at.busy && v[kPowerMw] > model.tdp_w * 900 && (now >> 50) % 8 == 0) v[kClockReasons] |= 4;
  if (at.busy && hot && (now >> 57) % 16 == 0) v[kClockReasons] |= 0x20;
  if (const int32_t limit = m.activity->HostLimitMw(host); limit > 0) v[kPowerLimitMw] = limit;
  if (effect != nullptr && at.busy) v[kClockReasons] |= effect->reasons;
  if (effect != nullptr && effect->limit_mw > 0) {
    v[kPowerLimitMw] = effect->limit_mw;
    v[kPowerMw] =
        std::min(v[kPowerMw], effect->limit_mw - static_cast<int64_t>((now >> 54 & 7) * 300));
  }
}

// Counters of errors: what incidents add, and what happens by itself.
void CountErrors(const Fleet::Model& m, int32_t lane, int32_t gpu, int32_t t, Values* out) {
  Values& v = *out;
  int64_t replays = 0, ecc = 0, errors = 0, recoveries = 0;  // in 1/3600
  for (const Stint& s : m.activity->Stints(lane)) {
    if (s.from >= t) break;
    const Effect* effect = m.activity->EffectOf(s);
    if (effect == nullptr) continue;
    const int64_t held = std::min(t, s.to) - s.from;
    replays += held * effect->replays;
    ecc += held * effect->ecc;
    errors += held * effect->link_errors;
    recoveries += held * effect->link_recoveries;
  }
  // A few GPUs have some of each all the time, a few of those nearly as many an hour as one that
  // stalls for it; others have a burst a day.
  const auto background = [&](uint64_t which, uint32_t per_mille, uint32_t most) -> int64_t {
    const uint64_t h = Key(m.options.seed, Purpose::kIncident, gpu, which);
    if (Below(h, 1000) >= per_mille) return 0;
    const int64_t an_hour = 2 + Below(Mix(h + 1), Mix(h + 5) % 6 == 0 ? most : most / 4);
    if (Mix(h + 2) % 3 != 0) return (an_hour * t + static_cast<int64_t>(Mix(h + 3) % 3600)) / 3600;
    constexpr int32_t kDay = 86400, kBurst = 1800;
    const auto begin = static_cast<int32_t>(Below(Mix(h + 4), kDay - kBurst));
    return an_hour * (t / kDay) + an_hour * std::clamp(t % kDay - begin, 0, kBurst) / kBurst;
  };
  v[kPcieReplay] += replays / 3600 + background(20ull << 40, 30, 240);
  v[kEccSbe] = ecc / 3600 + background(21ull << 40, 30, 100);
  v[kLinkErrors] = errors / 3600 + background(22ull << 40, 25, 140);
  v[kLinkRecoveries] = recoveries / 3600 + background(23ull << 40, 6, 4);
  AddBoardErrors(m, gpu, t, out);
}

}  // namespace

void ReadLane(const Fleet::Model& m, int32_t lane, int32_t t, int32_t window, Values* out) {
  const Activity& activity = *m.activity;
  Values& v = *out;
  const int32_t gpu = activity.GpuOf(lane);
  const GpuModel& model = activity.ModelOf(lane);
  const MigProfile* mig = activity.MigOf(lane);
  const GpuTraits& traits = activity.Traits(gpu);
  const Stint* holder = activity.Holder(lane, t);
  const Phase* phase =
      holder != nullptr && !holder->idle() ? &activity.PhaseAt(*holder, t) : nullptr;
  const bool busy = phase != nullptr && phase->kind != PhaseKind::kGap;
  const Totals now = activity.At(lane, t), delta = now - activity.At(lane, t - window);
  const uint64_t h = Key(m.options.seed, Purpose::kClockNoise, lane, t), h2 = Mix(h),
                 job = holder ? holder->job + 1 : 0;
  auto ratio = [&](int64_t us) {
    return std::clamp<int64_t>((us + window / 2) / window, 0, 1'000'000);
  };

  v[kSmClock] = busy                ? SampleClock(model, holder->clock_mhz, h)
                : holder != nullptr ? model.resting_mhz
                                    : model.idle_mhz;
  v[kMemClock] = model.mem_clock_mhz;
  int64_t dynamic = 0;
  if (busy) {
    dynamic = static_cast<int64_t>(phase->rates.power_mw) * holder->power_scale >> 10;
    dynamic += dynamic * (static_cast<int64_t>(h2 & 1023) - 512) / 25600;  // 2 % either way
  }
  v[kPowerMw] = traits.idle_mw + dynamic + static_cast<int64_t>(h2 >> 54);
  SetTemperatures(model, traits, &v);
  v[kEnergyMj] = IdleEnergyMj(traits, gpu, t) + now.energy_mj;
  // Only a GPU that stalls retries its transfers, while it holds up a job.
  v[kPcieReplay] =
      traits.stall_factor > traits.clock_factor
          ? HeldSeconds(activity, lane, t, [](const Stint& s) { return s.stalls; }) / 20
          : 0;
  // Whole percents, up or down such that their mean is the truth.
  const auto dither = static_cast<int64_t>(h2 >> 20 & 8191) * 10000 >> 13;
  v[kUtilPct] = std::min<int64_t>(100, (ratio(delta.util_us) + dither) / 10000);
  v[kZero] = 0;
  const Xids xids = XidsOf(m, gpu, t);
  v[kXid] = xids.last;
  v[kXidCount] = activity.CountsXids(activity.HostOf(lane)) ? xids.count : 0;
  int64_t total = mig != nullptr ? mig->fb_mib : model.fb_total_mib;
  v[kFbReserved] = total / 120;
  v[kFbUsed] = holder != nullptr && !holder->unused
                   ? std::min<int64_t>(activity.fb_used_mib(holder->job), total - v[kFbReserved])
                   : 0;
  v[kFbFree] = total - v[kFbReserved] - v[kFbUsed];
  v[kTensorPpm] = ratio(delta.tensor_us);
  v[kSmPpm] = ratio(delta.sm_us);
  v[kGrPpm] = std::max(v[kSmPpm], ratio(delta.util_us));
  // Memory traffic, pipes and links follow the SMs at shares that are the job's own.
  const uint64_t own = Key(m.options.seed, Purpose::kJob, job, 17);
  v[kDramPpm] = v[kSmPpm] * static_cast<int64_t>(150 + (own & 511)) / 1024;
  v[kMemCopyPct] = v[kDramPpm] / 12500;
  v[kPcieTx] = v[kSmPpm] * static_cast<int64_t>(200 + (own >> 9 & 1023));
  v[kPcieRx] = v[kSmPpm] * static_cast<int64_t>(300 + (own >> 19 & 2047));
  const LaneState at{lane, t, gpu, busy, holder, now, own};
  if (busy && OddJobOfHolder(m, at) == OddJob::kMemory)
    v[kDramPpm] = v[kSmPpm] * static_cast<int64_t>(850 + (own & 63)) / 1000;
  if (m.options.fields > 20 || m.planting.any()) ReadMore(m, at, &v);
  v[kLinkErrors] = v[kLinkRecoveries] = v[kEccDbe] = 0;
  v[kUncorrectableRows] = v[kRowRemapFailure] = 0;
  v[kRowRemapPending] = Activity::SaysRemapPending(activity.HostOf(lane)) ? 0 : -1;
  if (!m.planting.any()) return;
  Vary(m, at, &v);
  CountErrors(m, lane, gpu, t, &v);
}

namespace {

// What is the instance's own; all else is the board's and the same on every line of a GPU.
constexpr Value kOwnOfInstance[] = {kFbFree,  kFbUsed,    kFbTotal,   kFbReserved, kFbUsedPpm,
                                    kGrPpm,   kSmPpm,     kTensorPpm, kDramPpm,    kOccupancyPpm,
                                    kFp64Ppm, kFp32Ppm,   kFp16Ppm,   kHmmaPpm,    kIntPpm,
                                    kUtilPct, kMemCopyPct};

// The instances of a partitioned GPU, first to last, and behind them the GPU itself: one board with
// one clock, the fastest that any instance asks for; power and energy by share of the SMs. Ratios
// of the GPU are means over the SMs that some instance covers, as the A100 sample has it (its one
// busy instance shows .9304, the GPU .9293).
void ReadPartitioned(const Fleet::Model& m, const Plan::MigGpu& mig, int32_t t, int32_t window,
                     std::vector<Values>* out) {
  const Activity& activity = *m.activity;
  const GpuModel& model = activity.ModelOf(mig.first_lane);
  const size_t first = out->size(), n = mig.layout.size();
  out->resize(first + n + 1);
  Values* const lanes = out->data() + first;
  Values& board = lanes[n];
  const GpuTraits& traits = activity.Traits(mig.gpu);
  int64_t sms = 0, above_idle_mw = 0, energy_mj = 0, nvlink = 0;
  size_t asks = 0;  // the instance that the clock follows
  int most = -1;
  for (size_t i = 0; i < n; ++i) {
    const int32_t lane = mig.first_lane + static_cast<int32_t>(i);
    ReadLane(m, lane, t, window, &lanes[i]);
    const Stint* holder = activity.Holder(lane, t);
    const bool busy = holder != nullptr && !holder->idle() &&
                      activity.PhaseAt(*holder, t).kind != PhaseKind::kGap;
    const int wants = busy ? 2 : holder != nullptr ? 1 : 0;
    if (wants > most) most = wants, asks = i;
    sms += mig.layout[i].sms;
    above_idle_mw += (lanes[i][kPowerMw] - traits.idle_mw) * mig.layout[i].sms;
    energy_mj += activity.At(lane, t).energy_mj * mig.layout[i].sms;
    nvlink += lanes[i][kNvlinkTotal];
  }
  board = lanes[asks];
  board[kPowerMw] = traits.idle_mw + above_idle_mw / model.sms;
  board[kEnergyMj] = IdleEnergyMj(traits, mig.gpu, t) + energy_mj / model.sms;
  board[kPowerViolation] = energy_mj / model.sms / 100;
  board[kNvlinkTotal] = nvlink;
  SetTemperatures(model, traits, &board);
  for (Value v : kOwnOfInstance) {
    const bool sum = v == kFbFree || v == kFbUsed || v == kFbTotal || v == kFbReserved;
    int64_t total = 0;
    for (size_t i = 0; i < n; ++i) total += lanes[i][v] * (sum ? 1 : mig.layout[i].sms);
    board[v] = sum ? total : total / sms;
  }
  for (size_t i = 0; i < n; ++i) {
    Values own = board;
    for (Value v : kOwnOfInstance) own[v] = lanes[i][v];
    lanes[i] = own;
  }
}

// Whether a line of this kind has the field.
bool Has(LineKind kind, const FieldDef& f) {
  switch (kind) {
    case LineKind::kWhole:
      return true;
    case LineKind::kInstance:
      return f.scope != Scope::kWholeGpu;
    case LineKind::kPartitioned:  // no duty cycles in MIG mode; cycle totals are not modelled there
      return !f.name.ends_with("_UTIL") && f.value != kCyclesElapsed && f.value != kCyclesActive &&
             f.value != kMmaCycles;
    case LineKind::kInstanceProfile:
      return f.scope != Scope::kWholeGpu &&
             (f.name.starts_with("DCGM_FI_PROF_") || f.value == kXid);
  }
  return false;
}

// A host at one tick.
struct HostTick {
  const Fleet::Model& m;
  const Host& host;
  int host_index;
  std::string host_name;
  std::span<const FieldDef> fields;
  int64_t tick;       // that is shown
  int32_t t, window;  // seconds
};

// What a line is about. `lane` < 0: a partitioned GPU as a whole, which nobody holds.
struct Subject {
  int32_t lane, gpu;
  int index;
  const MigProfile* mig;
};

// Appends the block of one line: gpu to driver, then who owns it (job < 0: nobody).
void AppendLabels(const HostTick& at, const Subject& of, int generation, int32_t job, int32_t rank,
                  Scratch* s, Line* line) {
  const Fleet::Model& m = at.m;
  const ClusterSpec& cluster = m.Cluster(at.host);
  const size_t begin = s->labels.size();
  s->labels.resize(begin + kMaxLabelBytes);
  char* p = s->labels.data() + begin;
  if (m.options.amd) {
    p = WriteParts(p, "{gpu_id=\"", of.index, "\",serial_number=\"");
    m.WriteUuid(of.gpu, generation, p);
    p = WriteParts(p + kUuidBytes, "\",card_model=\"", cluster.model->name, "\",hostname=\"",
                   at.host_name, "\",driver_version=\"", cluster.model->driver);
    if (job >= 0 && cluster.scheduler == Scheduler::kSlurm)
      p = WriteParts(p, "\",job_id=\"", m.plan.jobs[job].number);
    p = WriteText(p, "\"} ");
    line->labels = static_cast<uint32_t>(begin);
    line->size = static_cast<uint32_t>(p - s->labels.data() - begin);
    s->labels.resize(begin + line->size);
    return;
  }
  p = WriteParts(p, "{gpu=\"", of.index, "\",UUID=\"");
  m.WriteUuid(of.gpu, generation, p);
  const uint8_t bus = static_cast<uint8_t>(
      0x1b + of.index * 0x11 + (Key(m.options.seed, Purpose::kHost, at.host_index, 1) & 7));
  constexpr char kHex[] = "0123456789ABCDEF";
  p = WriteParts(p + kUuidBytes, "\",pci_bus_id=\"00000000:", kHex[bus >> 4], kHex[bus & 15],
                 ":00.0\",device=\"nvidia", of.index, "\",modelName=\"", cluster.model->name);
  if (of.mig != nullptr) {
    p = WriteParts(p, "\",GPU_I_PROFILE=\"", of.mig->name, "\",GPU_I_ID=\"", of.mig->instance);
  }
  p = WriteParts(p, "\",Hostname=\"", at.host_name, "\",DCGM_FI_DRIVER_VERSION=\"",
                 cluster.model->driver);
  if (job >= 0 && cluster.scheduler == Scheduler::kSlurm) {
    p = WriteParts(p, "\",hpc_job=\"", m.plan.jobs[job].number);
  } else if (job >= 0) {
    p = WriteParts(p, "\",container=\"main\",namespace=\"", m.Namespace(job), "\",pod=\"",
                   m.PodName(job, rank), "\",pod_uid=\"");
  }
  p = WriteText(p, "\"} ");
  line->labels = static_cast<uint32_t>(begin);
  line->size = static_cast<uint32_t>(p - s->labels.data() - begin);
  s->labels.resize(begin + line->size);
}

// The job that a crashed epilog left in the map of a lane that nobody holds; -1 = none.
int32_t StaleJob(const HostTick& at, int32_t lane) {
  if (lane < 0 || !at.m.faults.enabled() || at.m.Cluster(at.host).scheduler != Scheduler::kSlurm)
    return -1;
  const auto stints = at.m.activity->Stints(lane);
  const auto next = std::ranges::upper_bound(stints, at.t, {}, &Stint::from);
  if (next == stints.begin()) return -1;
  const Stint& last = *(next - 1);
  return at.t - last.to < at.m.faults.StaleMapSeconds(at.host_index, last.job) ? last.job : -1;
}

// Adds the line of a subject, whose values are s->values[values], once per owner.
void AddLines(const HostTick& at, const Subject& of, LineKind kind, size_t values, Scratch* s) {
  const TelemetryFaults& faults = at.m.faults;
  if (faults.TensorDead(of.gpu, at.t))
    s->values[values][kTensorPpm] = s->values[values][kHmmaPpm] = 0;
  const PlantedLie* const lie = LieOf(at.m, of.gpu, at.t);
  if (lie != nullptr) ApplyLie(at.m, *lie, at.t, &s->values[values]);
  Line line{};
  line.values = static_cast<uint16_t>(values);
  line.kind = kind;
  line.lie = lie != nullptr ? lie->lie : CounterLie::kNone;
  line.no_tensor = faults.TensorMissing(of.gpu);
  line.blank = static_cast<int8_t>(
      faults.BlankField(of.gpu, static_cast<int>(at.fields.size()), at.tick, &line.sentinel));
  const Stint* holder = of.lane < 0 ? nullptr : at.m.activity->Holder(of.lane, at.t);
  const int32_t job = holder != nullptr ? holder->job : StaleJob(at, of.lane);
  const int generation = at.m.Generation(of.gpu, at.t);
  AppendLabels(at, of, generation, job, holder != nullptr ? holder->rank : 0, s, &line);
  s->lines.push_back(line);
  if (holder == nullptr || holder->job2 < 0) return;
  AppendLabels(at, of, generation, holder->job2, 0, s, &line);
  s->lines.push_back(line);
}

// Reads the counters and puts the labels together of all GPUs and instances of a host.
void ReadHost(const HostTick& at, Scratch* s) {
  s->labels.clear();
  s->lines.clear();
  s->values.clear();
  for (int g = 0; g < at.host.gpus; ++g) {
    const int32_t gpu = at.host.first_gpu + g;
    const size_t values = s->values.size();
    if (g >= at.host.mig_gpus) {
      s->values.emplace_back();
      ReadLane(at.m, gpu, at.t, at.window, &s->values.back());
      AddLines(at, {gpu, gpu, g, nullptr}, LineKind::kWhole, values, s);
      continue;
    }
    const Plan::MigGpu& mig = at.m.plan.MigOfGpu(gpu);
    ReadPartitioned(at.m, mig, at.t, at.window, &s->values);
    const bool lists_gpu = at.m.ListsPartitionedGpus(at.host_index);
    if (lists_gpu)
      AddLines(at, {-1, gpu, g, nullptr}, LineKind::kPartitioned, values + mig.layout.size(), s);
    for (size_t i = 0; i < mig.layout.size(); ++i)
      AddLines(at, {mig.first_lane + static_cast<int32_t>(i), gpu, g, &mig.layout[i]},
               lists_gpu ? LineKind::kInstanceProfile : LineKind::kInstance, values + i, s);
  }
}

// A value that is too large by `scale`, or too small by -scale.
char* WriteScaled(const FieldDef& f, uint64_t v, int64_t scale, char* p) {
  const auto by = static_cast<uint64_t>(std::abs(scale));
  if (f.value == kUtilPct) return WritePpm(p, v * (1'000'000 / by));
  const uint64_t scaled = scale > 0 ? v * by : v / by;
  if (f.format == Format::kInteger) return WriteUnsigned(p, scaled);
  if (f.format == Format::kPpm) return WritePpm(p, scaled);
  if (f.format == Format::kPercentOfPpm) return WritePpm(p, scaled * 100);
  if (f.format == Format::kMicroOfMilli) return WriteUnsigned(p, scaled * 1000);
  if (f.format == Format::kWattsOfMilli)
    return scale > 0 ? WriteUnsigned(p, scaled / 1000) : WritePpm(p, v);  // mW as kW
  return scale > 0 ? WriteMilli(p, scaled) : WritePpm(p, v);              // mW as kW
}

// One field of all lines, under its heading.
char* WriteField(const FieldDef& f, int8_t index, const Scratch& s, int host,
                 std::string_view stamp, char* p) {
  p = WriteParts(p, "# HELP ", f.name, ' ', f.help, "\n# TYPE ", f.name, ' ', f.type, '\n');
  for (const Line& l : s.lines) {
    if (!Has(l.kind, f)) continue;
    if (l.no_tensor && (f.value == kTensorPpm || f.value == kHmmaPpm || f.value == kMmaCycles))
      continue;
    const bool blank = l.blank == index;
    if (blank && !l.sentinel) continue;
    if (l.lie != CounterLie::kNone && !HasUnder(l.lie, f)) continue;
    const std::string_view labels(s.labels.data() + l.labels, l.size);
    if (f.value == kRowRemapPending && s.values[l.values][kRowRemapPending] < 0) continue;
    if (f.value == kXidCount) {
      if (s.values[l.values][kXidCount] == 0) continue;
      p = WriteParts(p, f.name, "{xid=\"", s.values[l.values][kXid], "\",", labels.substr(1),
                     s.values[l.values][kXidCount], stamp, '\n');
      continue;
    }
    p = f.name == "gpu_clock"
            ? WriteParts(p, f.name, "{clock_index=\"0\",clock_type=\"GPU_CLOCK_TYPE_SYSTEM\",",
                         labels.substr(1))
            : WriteParts(p, NameUnder(l.lie, f), labels);
    const uint64_t v = static_cast<uint64_t>(s.values[l.values][f.value]);
    if (const int64_t scale = ScaleUnder(l.lie, f, host); scale != 1 && !blank) {
      p = WriteScaled(f, v, scale, p);
    } else if (blank) {
      p = WriteText(p, f.format == Format::kInteger ? kIntegerSentinel : kDoubleSentinel);
    } else if (f.format == Format::kInteger) {
      p = WriteUnsigned(p, v);
    } else if (f.format == Format::kPpm) {
      p = WritePpm(p, v);
    } else if (f.format == Format::kPercentOfPpm) {
      p = WritePpm(p, v * 100);
    } else if (f.format == Format::kWattsOfMilli) {
      p = WriteUnsigned(p, v / 1000);
    } else if (f.format == Format::kMicroOfMilli) {
      p = WriteUnsigned(p, v * 1000);
    } else {
      p = WriteMilli(p, v);
    }
    p = WriteParts(p, stamp, '\n');
  }
  return p;
}

// Whether the host's exporter is there at a second and is heard.
bool IsHeard(const Fleet::Model& m, int host_index, int64_t tick, int32_t t) {
  if (m.faults.Lost(host_index, tick) || m.faults.Silent(host_index, t)) return false;
  auto it = std::ranges::lower_bound(m.plan.periods, host_index, {}, &HostPeriod::host);
  for (; it != m.plan.periods.end() && it->host == host_index && it->from <= t; ++it)
    if (t < it->to && !Answers(it->condition)) return false;
  return true;
}

}  // namespace

Answer Fleet::RenderHost(int host_index, int64_t tick, Stamps stamps, std::string* out) const {
  out->clear();
  const Model& m = *model_;
  if (tick < 0 || tick >= Ticks(host_index)) return Answer::kNone;
  const Host& host = m.plan.hosts[host_index];
  auto second_of = [&](int64_t k) {
    return static_cast<int32_t>((TickTime(host_index, k) - m.options.start) / kMicrosPerSecond);
  };
  if (!IsHeard(m, host_index, tick, second_of(tick))) return Answer::kNone;
  tick = std::min(m.faults.Shown(host_index, tick), Ticks(host_index) - 1);
  const Micros stamp_at = TickTime(host_index, tick);
  if (const PlantedLie* lie = LieOf(m, host.first_gpu, second_of(tick));
      lie != nullptr && lie->lie == CounterLie::kExporterFrozen) {
    while (tick > 0 && second_of(tick - 1) >= lie->from) --tick;  // the first reading of that time
  }
  const int32_t t = std::max(1, second_of(tick));
  // DCGM averages over its own watch interval, which is the exporter's; at least a second.
  const int32_t window = std::clamp(
      t - (tick > 0 ? second_of(tick - 1)
                    : t - static_cast<int32_t>(m.cluster_interval_ms[host.cluster] / 1000)),
      1, t);
  const std::span<const FieldDef> fields =
      m.options.amd ? AmdFields() : Fields(m.options.fields, m.planting.any());
  thread_local Scratch s;
  ReadHost({m, host, host_index, HostName(host_index), fields, tick, t, window}, &s);

  char stamp[kMaxNumberBytes];
  size_t stamp_size = 0;
  if (stamps == Stamps::kExplicit) {
    stamp[0] = ' ';
    const Micros at = stamp_at;
    int64_t ms = at / kMicrosPerMilli + m.faults.SkewMs(host_index);
    if (m.Cluster(host).local_time) ms += int64_t{1000} * LocalOffsetSeconds(at);
    stamp_size = WriteUnsigned(stamp + 1, ms) - stamp;
  }
  size_t bound = 0, label_bytes = 0;
  for (const Line& l : s.lines)
    label_bytes += l.size + kMaxNumberBytes + stamp_size + 1 + kClockLabelBytes;
  for (const FieldDef& f : fields)
    bound += 2 * f.name.size() + f.help.size() + 32 + f.name.size() * s.lines.size() + label_bytes;
  out->resize(bound);
  char* p = out->data();
  for (size_t i = 0; i < fields.size(); ++i)
    p = WriteField(fields[i], static_cast<int8_t>(i), s, host_index, {stamp, stamp_size}, p);
  out->resize(p - out->data());
  return Answer::kOk;
}

}  // namespace flopwatch::simulate
