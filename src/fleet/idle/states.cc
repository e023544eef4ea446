#include "fleet/idle/states.h"

#include <algorithm>
#include <cmath>

#include "fleet/idle/rules.h"

namespace flopwatch::fleet {
namespace {

// GPUs of one job are sampled at different moments: edges this near are one.
constexpr Micros kSameEdge = 2 * kMicrosPerMinute;
// Different waits of one job that GPUs without a tensor counter are compared with.
constexpr size_t kMaxWaits = 64;

// What the job as a whole did.
struct JobWork {
  bool tensor = false;
  Micros first = 0, last = 0;  // 0 = nothing is known to have run
  IdleMean power, sm;          // at tensor work
};

JobWork WorkOf(const IdleJob& job) {
  JobWork work;
  work.tensor = UsesTensor(job);
  for (const IdleGpu& gpu : job.gpus) {
    const IdleTrack& t = *gpu.track;
    work.power += t.work_power();
    work.sm += t.work_sm();
    const Micros first = work.tensor ? t.first_tensor() : t.first_active();
    const Micros last = work.tensor ? t.last_tensor() : t.last_active();
    if (first != 0 && (work.first == 0 || first < work.first)) work.first = first;
    work.last = std::max(work.last, last);
  }
  if (work.power.seconds <= 0) work.power = job.power_before;
  if (work.sm.seconds <= 0) work.sm = job.sm_before;
  return work;
}

// Whether the run is a wait in a kernel that spins: full duty, no tensor work, and a power or SM
// activity that is not that of the job's work.
bool Spins(const IdleRun& run, const IdleTrack& track, const JobWork& work) {
  if (!work.tensor || run.sign != IdleSign::kNoTensor) return false;
  if (run.duty.Mean() < kSpinDuty || run.to - run.from < kMinBarrier) return false;
  const bool own = track.work_tensor().seconds > 0;
  const double power = (own ? track.work_power() : work.power).Mean();
  const double sm = (own ? track.work_sm() : work.sm).Mean();
  if (run.power_w.Mean() <= kSpinPower * power) return true;
  return std::abs(run.sm_active.Mean() - sm) > kSpinSmMoved;
}

bool BoardIsEmpty(const IdleRun& run, const IdleGpu& gpu) {
  const double empty =
      std::isnan(gpu.empty_memory_mib) ? 0 : std::min(gpu.empty_memory_mib, kEmptyAtMost_mib);
  if (!(run.memory_max_mib <= empty + kEmptyMargin_mib)) return false;
  // An exporter that shows as little while something runs does not show it.
  return !(gpu.track->least_memory_at_work_mib() <= empty + kEmptyMargin_mib);
}

class JobJudge {
 public:
  explicit JobJudge(const IdleJob& job) : job_(job), work_(WorkOf(job)) {}

  std::vector<IdleStretch> Judge() {
    for (size_t g = 0; g < job_.gpus.size(); ++g) {
      const IdleGpu& gpu = job_.gpus[g];
      const bool unused = IsUnused(gpu);
      for (const IdleRun& run : gpu.track->runs()) {
        const auto state = unused && run.sign == IdleSign::kQuiet
                               ? std::optional(IdleState::kUnusedGpu)
                               : StateOf(run, gpu);
        if (state) Add(g, *state, run);
      }
    }
    FollowPeers();
    std::ranges::stable_sort(out_, [](const IdleStretch& a, const IdleStretch& b) {
      return std::pair(a.gpu, a.from) < std::pair(b.gpu, b.from);
    });
    return std::move(out_);
  }

 private:
  bool IsUnused(const IdleGpu& gpu) const {
    if (gpu.track->last_active() != 0 || gpu.worked_before.value_or(true)) return false;
    if (job_.to - job_.from < kMinUnused) return false;
    return work_.last != 0 || job_.worked_before.value_or(false);
  }

  std::optional<IdleState> StateOf(const IdleRun& run, const IdleGpu& gpu) const {
    if (run.sign == IdleSign::kNoTensor) {
      if (!Spins(run, *gpu.track, work_)) return std::nullopt;
      const bool never_back = work_.last <= run.from + kSameEdge;
      const Micros least = job_.ended ? kMinHung : kMinHungRunning;
      return never_back && run.to - run.from >= least ? IdleState::kHung : IdleState::kBarrier;
    }
    if (run.sign != IdleSign::kQuiet) return std::nullopt;
    const Micros length = run.to - run.from;
    if (BoardIsEmpty(run, gpu))
      return length >= kMinNoProcess ? std::optional(IdleState::kNoProcess) : std::nullopt;
    const bool worked_before = job_.worked_before.value_or(true);
    if (!worked_before && work_.first != 0 && run.to <= work_.first + kSameEdge) {
      const Micros least = job_.gpus.size() > 1 ? kMinStartup : kMinStartupAlone;
      return length >= least ? std::optional(IdleState::kStartup) : std::nullopt;
    }
    if (job_.ended && run.from >= work_.last - kSameEdge && (work_.last != 0 || worked_before) &&
        run.to >= job_.to - kSameEdge) {
      return length >= kMinAfterLastOutput ? std::optional(IdleState::kAfterLastOutput)
                                           : std::nullopt;
    }
    return length >= kMinNoWork ? std::optional(IdleState::kNoWork) : std::nullopt;
  }

  void Add(size_t gpu, IdleState state, const IdleRun& run) {
    out_.push_back(
        {.gpu = gpu,
         .state = state,
         .from = run.from,
         .to = run.to,
         .gpu_s = run.gpu_s,
         .covered_s = run.covered_s,
         .began_before = job_.known_from > job_.from && run.from <= job_.known_from + kSameEdge,
         .goes_on = !job_.ended && run.to >= job_.to - kSameEdge,
         .duty = run.duty.Mean(),
         .sm_active = run.sm_active.Mean(),
         .power_w = run.power_w.Mean(),
         .work_power_w = work_.power.Mean(),
         .memory_mib = run.memory_max_mib});
  }

  // Times in which the same GPUs spin.
  struct Wait {
    IdleState state;
    Micros from, to;
    size_t gpus = 1;
  };

  std::vector<Wait> Waits() const {
    std::vector<Wait> waits;
    for (const IdleStretch& s : out_) {
      if (s.state != IdleState::kHung && s.state != IdleState::kBarrier) continue;
      const auto same = std::ranges::find_if(waits, [&](const Wait& w) {
        return w.state == s.state && std::abs(w.from - s.from) <= kSameEdge &&
               std::abs(w.to - s.to) <= kSameEdge;
      });
      if (same != waits.end()) {
        ++same->gpus;
      } else if (waits.size() < kMaxWaits) {
        waits.push_back({s.state, s.from, s.to});
      }
    }
    return waits;
  }

  // A GPU whose tensor activity nobody knows spins while most of those that are known do.
  void FollowPeers() {
    size_t known = 0;
    for (const IdleGpu& gpu : job_.gpus) known += gpu.track->work_tensor().seconds > 0;
    std::vector<Wait> waits = Waits();
    std::erase_if(waits, [&](const Wait& w) { return 2 * w.gpus <= known; });
    if (waits.empty()) return;
    for (size_t g = 0; g < job_.gpus.size(); ++g) {
      for (const IdleRun& run : job_.gpus[g].track->runs()) {
        if (run.sign != IdleSign::kBlind || run.duty.Mean() < kSpinDuty) continue;
        for (const Wait& w : waits) {
          IdleRun own = run;
          own.from = std::max(run.from, w.from);
          own.to = std::min(run.to, w.to);
          if (own.to - own.from < kMinBarrier) continue;
          const double part = ToSeconds(own.to - own.from) / ToSeconds(run.to - run.from);
          own.gpu_s *= part;
          own.covered_s *= part;
          Add(g, w.state, own);
        }
      }
    }
  }

  const IdleJob& job_;
  const JobWork work_;
  std::vector<IdleStretch> out_;
};

}  // namespace

bool UsesTensor(const IdleJob& job) {
  IdleMean tensor;
  for (const IdleGpu& gpu : job.gpus) tensor += gpu.track->work_tensor();
  if (tensor.seconds <= 0) tensor = job.tensor_before;
  return tensor.seconds > 0 && tensor.Mean() >= kTensorJob;
}

std::vector<IdleStretch> JudgeIdle(const IdleJob& job) { return JobJudge(job).Judge(); }

}  // namespace flopwatch::fleet
