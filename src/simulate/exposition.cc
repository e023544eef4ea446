// The text of one exporter at one tick. Label blocks are put together once per GPU and tick from
// shared pieces (nothing is kept between ticks: 100k GPUs would cost gigabytes); per line only a
// name, a block and a few digits are copied.
#include <algorithm>
#include <cmath>

#include "simulate/digits.h"
#include "simulate/fields.h"
#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr size_t kMaxLabelBytes = 640;  // of one line; names are bounded by the generator
constexpr std::string_view kIntegerSentinel = "9223372036854775794";
constexpr std::string_view kDoubleSentinel = "140737488355328.000000";

// One line per field: a GPU or an instance, once per owner.
struct Line {
  uint32_t labels, size;  // in the label buffer
  uint16_t values;        // index
  bool instance;
  bool no_tensor;
  int8_t blank;  // field index without a value, -1 = none
  bool sentinel;
};

struct Scratch {
  std::string labels;
  std::vector<Line> lines;
  std::vector<Values> values;
};

// Noise within a GPU at sampling instants: sd 30 MHz, correlated for less than a second
// (fleet-data.md 5.5); less near the highest clock, so that cutting there does not shift the mean.
// Steps of 15 MHz, rounded up or down at random.
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
      holder != nullptr && !holder->unused ? &activity.PhaseAt(*holder, t) : nullptr;
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
  v[kGpuTemp] = 26 + v[kPowerMw] * 34 / (model.tdp_w * 1000) +
                static_cast<int64_t>((traits.clock_factor - 1) * 60) +
                static_cast<int64_t>(h2 >> 10 & 1);
  v[kMemTemp] = v[kGpuTemp] + 9;
  v[kEnergyMj] = 1'000'000'000 + static_cast<int64_t>(gpu) * 1'000'003 +
                 static_cast<int64_t>(traits.idle_mw) * t + now.energy_mj;
  // Only a GPU that stalls retries its transfers, while it holds up a job.
  v[kPcieReplay] =
      traits.stall_factor > traits.clock_factor
          ? HeldSeconds(activity, lane, t, [](const Stint& s) { return s.stalls; }) / 20
          : 0;
  v[kUtilPct] = std::min<int64_t>(
      100, (ratio(delta.util_us) + static_cast<int64_t>(h2 >> 20 & 8191)) / 10000);
  v[kZero] = 0;
  v[kXid] = 0;
  if (!m.plan.xids.empty()) {
    auto it = std::lower_bound(m.plan.xids.begin(), m.plan.xids.end(), gpu,
                               [](const XidEvent& x, int32_t g) { return x.gpu < g; });
    for (; it != m.plan.xids.end() && it->gpu == gpu && it->at <= t; ++it) v[kXid] = it->code;
  }
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
  if (m.options.fields <= 20) return;

  const bool many = holder != nullptr && m.plan.jobs[holder->job].gpus > 1;
  v[kOccupancyPpm] = v[kSmPpm] * 35 / 100;
  v[kFp64Ppm] = 0;
  v[kFp32Ppm] = (v[kSmPpm] - v[kTensorPpm]) / 6;
  v[kFp16Ppm] = v[kTensorPpm] / 20;
  v[kHmmaPpm] = v[kTensorPpm];
  v[kIntPpm] = v[kSmPpm] / 5;
  v[kNvlinkTx] = many ? v[kSmPpm] * static_cast<int64_t>(20'000 + (own >> 30 & 65535)) : 0;
  v[kNvlinkRx] = v[kNvlinkTx];
  int64_t base = static_cast<int64_t>(Key(m.options.seed, Purpose::kGpu, gpu, 3) >> 14);
  v[kCyclesElapsed] = base * 4 + now.clock_cycles;
  v[kCyclesActive] = base * 2 + now.sm_cycles;
  v[kMmaCycles] = base + now.tensor_cycles;
  v[kPowerLimitMw] = static_cast<int64_t>(model.tdp_w) * 1000;
  v[kClockReasons] = !busy ? 1 : holder->throttled ? 0x40 : v[kPowerMw] > model.tdp_w * 970 ? 4 : 0;
  v[kFbTotal] = total;
  v[kFbUsedPpm] = v[kFbUsed] * 1'000'000 / total;
  v[kMaxSmClock] = model.boost_mhz;
  v[kPstate] = 0;
  v[kPowerViolation] = now.energy_mj / 100;
  v[kThermalViolation] =
      HeldSeconds(activity, lane, t, [](const Stint& s) { return s.throttled; }) * 1'000'000'000;
  v[kEccSbe] = v[kPcieReplay] / 4;
  v[kRemappedRows] = 0;
  v[kNvlinkTotal] = now.sm_us / 50;
  v[kPcieTxKb] = v[kPcieTx] / 1000;
  v[kPcieRxKb] = v[kPcieRx] / 1000;
  v[kLinkTx] = v[kNvlinkTx] / 18;
  v[kLinkRx] = v[kNvlinkRx] / 18;
}

namespace {

// Appends the block of one line: gpu to driver, then who owns it (job < 0: nobody).
void AppendLabels(const Fleet::Model& m, int32_t host_index, std::string_view host_name,
                  int32_t gpu, int index, int generation, int instance, const MigProfile* mig,
                  int32_t job, int32_t rank, Scratch* s, Line* line) {
  const Host& host = m.plan.hosts[host_index];
  const ClusterSpec& cluster = m.spec.clusters[host.cluster];
  const size_t at = s->labels.size();
  s->labels.resize(at + kMaxLabelBytes);
  char* p = s->labels.data() + at;
  p = WriteText(p, "{gpu=\"");
  p = WriteUnsigned(p, index);
  p = WriteText(p, "\",UUID=\"");
  m.WriteUuid(gpu, generation, p);
  p += kUuidBytes;
  p = WriteText(p, "\",pci_bus_id=\"00000000:");
  uint8_t bus = static_cast<uint8_t>(0x1b + index * 0x11 +
                                     (Key(m.options.seed, Purpose::kHost, host_index, 1) & 7));
  *p++ = "0123456789ABCDEF"[bus >> 4];
  *p++ = "0123456789ABCDEF"[bus & 15];
  p = WriteText(p, ":00.0\",device=\"nvidia");
  p = WriteUnsigned(p, index);
  p = WriteText(p, "\",modelName=\"");
  p = WriteText(p, cluster.model->name);
  if (mig != nullptr) {
    p = WriteText(p, "\",GPU_I_PROFILE=\"");
    p = WriteText(p, mig->name);
    p = WriteText(p, "\",GPU_I_ID=\"");
    p = WriteUnsigned(p, instance);
  }
  p = WriteText(p, "\",Hostname=\"");
  p = WriteText(p, host_name);
  p = WriteText(p, "\",DCGM_FI_DRIVER_VERSION=\"");
  p = WriteText(p, cluster.model->driver);
  if (job >= 0 && cluster.scheduler == Scheduler::kSlurm) {
    p = WriteText(p, "\",hpc_job=\"");
    p = WriteUnsigned(p, m.plan.jobs[job].number);
  } else if (job >= 0) {
    p = WriteText(p, "\",container=\"main\",namespace=\"");
    p = WriteText(p, m.Namespace(job));
    p = WriteText(p, "\",pod=\"");
    p = WriteText(p, m.PodName(job, rank));
    p = WriteText(p, "\",pod_uid=\"");
  }
  p = WriteText(p, "\"} ");
  line->labels = static_cast<uint32_t>(at);
  line->size = static_cast<uint32_t>(p - s->labels.data() - at);
  s->labels.resize(at + line->size);
}

}  // namespace

Answer Fleet::RenderHost(int host_index, int64_t tick, Stamps stamps, std::string* out) const {
  out->clear();
  const Model& m = *model_;
  if (tick < 0 || tick >= Ticks(host_index)) return Answer::kNone;
  const Host& host = m.plan.hosts[host_index];
  const Micros start = m.options.start;
  auto second_of = [&](int64_t k) {
    return static_cast<int32_t>((TickTime(host_index, k) - start) / kMicrosPerSecond);
  };
  {
    const int32_t asked = second_of(tick);
    if (m.faults.Lost(host_index, tick) || m.faults.Silent(host_index, asked)) return Answer::kNone;
    auto it = std::lower_bound(m.plan.periods.begin(), m.plan.periods.end(), host_index,
                               [](const HostPeriod& p, int h) { return p.host < h; });
    for (; it != m.plan.periods.end() && it->host == host_index && it->from <= asked; ++it)
      if (asked < it->to && it->condition != HostCondition::kDraining) return Answer::kNone;
  }
  tick = std::min(m.faults.Shown(host_index, tick), Ticks(host_index) - 1);
  const int32_t t = std::max(1, second_of(tick));
  // The averaging window is the exporter's own interval (counters.md 1.3); at least a second.
  const int32_t window = std::clamp(
      t - (tick > 0 ? second_of(tick - 1)
                    : t - static_cast<int32_t>(m.cluster_interval_ms[host.cluster] / 1000)),
      1, t);

  thread_local Scratch scratch;
  Scratch& s = scratch;
  s.labels.clear();
  s.lines.clear();
  s.values.clear();
  const std::string host_name = HostName(host_index);
  const std::span<const FieldDef> fields = Fields(m.options.fields);
  auto add_lane = [&](int32_t lane, int32_t gpu, int index, int instance, const MigProfile* mig) {
    s.values.emplace_back();
    ReadLane(m, lane, t, window, &s.values.back());
    if (m.faults.TensorDead(gpu, t)) s.values.back()[kTensorPpm] = s.values.back()[kHmmaPpm] = 0;
    Line line{};
    line.values = static_cast<uint16_t>(s.values.size() - 1);
    line.instance = mig != nullptr;
    line.no_tensor = m.faults.TensorMissing(gpu);
    line.blank = static_cast<int8_t>(
        m.faults.BlankField(gpu, static_cast<int>(fields.size()), tick, &line.sentinel));
    const Stint* holder = m.activity->Holder(lane, t);
    int32_t job = -1, job2 = -1, rank = 0;
    if (holder != nullptr) {
      job = holder->job;
      job2 = holder->job2;
      rank = holder->rank;
    } else if (m.faults.enabled() && m.Cluster(host).scheduler == Scheduler::kSlurm) {
      // A crashed epilog leaves the last job's id in the map.
      auto stints = m.activity->Stints(lane);
      auto last = std::upper_bound(stints.begin(), stints.end(), t,
                                   [](int32_t v, const Stint& x) { return v < x.from; });
      if (last != stints.begin() &&
          t - (last - 1)->to < m.faults.StaleMapSeconds(host_index, (last - 1)->job))
        job = (last - 1)->job;
    }
    int generation = m.Generation(gpu, t);
    AppendLabels(m, host_index, host_name, gpu, index, generation, instance, mig, job, rank, &s,
                 &line);
    s.lines.push_back(line);
    if (job2 >= 0) {
      AppendLabels(m, host_index, host_name, gpu, index, generation, instance, mig, job2, 0, &s,
                   &line);
      s.lines.push_back(line);
    }
  };
  for (int g = 0; g < host.gpus; ++g) {
    int32_t gpu = host.first_gpu + g;
    if (!(host.mig && g == 0)) {
      add_lane(gpu, gpu, g, 0, nullptr);
      continue;
    }
    auto it = std::lower_bound(m.plan.mig.begin(), m.plan.mig.end(), gpu,
                               [](const Plan::MigGpu& x, int32_t v) { return x.gpu < v; });
    auto profiles = m.Cluster(host).model->mig;
    for (size_t i = 0; i < profiles.size(); ++i)
      add_lane(it->first_lane + static_cast<int32_t>(i), gpu, 0,
               Model::InstanceId(static_cast<int>(i)), &profiles[i]);
  }

  char stamp[kMaxNumberBytes];
  size_t stamp_size = 0;
  if (stamps == Stamps::kExplicit) {
    stamp[0] = ' ';
    char* end = WriteUnsigned(
        stamp + 1, (TickTime(host_index, tick)) / kMicrosPerMilli + m.faults.SkewMs(host_index));
    stamp_size = end - stamp;
  }
  size_t bound = 0, label_bytes = 0;
  for (const Line& l : s.lines) label_bytes += l.size + kMaxNumberBytes + stamp_size + 1;
  for (const FieldDef& f : fields)
    bound += 2 * f.name.size() + f.help.size() + 32 + f.name.size() * s.lines.size() + label_bytes;
  out->resize(bound);
  char* p = out->data();
  for (size_t i = 0; i < fields.size(); ++i) {
    const FieldDef& f = fields[i];
    p = WriteText(p, "# HELP ");
    p = WriteText(p, f.name);
    *p++ = ' ';
    p = WriteText(p, f.help);
    p = WriteText(p, "\n# TYPE ");
    p = WriteText(p, f.name);
    *p++ = ' ';
    p = WriteText(p, f.type);
    *p++ = '\n';
    for (const Line& l : s.lines) {
      if (l.instance && f.scope == Scope::kWholeGpu) continue;
      if (l.no_tensor && (f.value == kTensorPpm || f.value == kHmmaPpm || f.value == kMmaCycles))
        continue;
      const bool blank = l.blank == static_cast<int8_t>(i);
      if (blank && !l.sentinel) continue;
      p = WriteText(p, f.name);
      p = WriteText(p, std::string_view(s.labels.data() + l.labels, l.size));
      const uint64_t v = static_cast<uint64_t>(s.values[l.values][f.value]);
      if (blank) {
        p = WriteText(p, f.format == Format::kInteger ? kIntegerSentinel : kDoubleSentinel);
      } else if (f.format == Format::kInteger) {
        p = WriteUnsigned(p, v);
      } else if (f.format == Format::kPpm) {
        p = WritePpm(p, v);
      } else {
        p = WriteMilli(p, v);
      }
      p = WriteText(p, std::string_view(stamp, stamp_size));
      *p++ = '\n';
    }
  }
  out->resize(p - out->data());
  return Answer::kOk;
}

}  // namespace flopwatch::simulate
