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

// How long of it is known: what a time must last to be a state.
Micros Known(absl::Span<const IdleRun> runs) {
  double covered = 0;
  for (const IdleRun& run : runs) covered += run.covered_s;
  return static_cast<Micros>(covered * kMicrosPerSecond + .5);
}
Micros Known(const IdleRun& run) { return Known(absl::MakeConstSpan(&run, 1)); }

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

// A wait in a kernel that spins: full duty and no tensor work for long.
bool MaySpin(const IdleRun& run, const JobWork& work) {
  return work.tensor && run.sign == IdleSign::kNoTensor && run.duty.Mean() >= kSpinDuty &&
         !(run.sm_active.Mean() <= kSpinNoSm) && Known(run) >= kMinBarrier;
}

// Power or SM activity are not those of the job's work: it is no work whose tensor counter died.
bool IsNoWork(const IdleRun& run, const IdleTrack& track, const JobWork& work) {
  const bool own = track.work_tensor().seconds > 0;
  const double power = (own ? track.work_power() : work.power).Mean();
  const double sm = (own ? track.work_sm() : work.sm).Mean();
  return run.power_w.Mean() <= kSpinPower * power ||
         (std::abs(run.sm_active.Mean() - sm) > kSpinSmMoved &&
          !(run.power_w.Mean() > kWorkPowerOff * power));
}

bool BoardIsEmpty(const IdleRun& run, const IdleGpu& gpu) {
  const double empty =
      std::isnan(gpu.empty_memory_mib) ? 0 : std::min(gpu.empty_memory_mib, kEmptyAtMost_mib);
  if (!(run.memory_max_mib <= empty + kEmptyMargin_mib)) return false;
  // An exporter that shows as little while something runs does not show it.
  return !(gpu.track->least_memory_at_work_mib() <= empty + kEmptyMargin_mib);
}

// Whether the job has a part of the GPU.
bool IsShared(const IdleRun& run) { return run.gpu_s < .99 * run.covered_s; }

// Whether a process held memory on it for most of the time that is known.
bool HasProcess(const IdleGpu& gpu) {
  double held = 0;
  for (const IdleRun& run : gpu.track->runs())
    if (!std::isnan(run.memory_max_mib) && !BoardIsEmpty(run, gpu)) held += run.covered_s;
  return 2 * held > gpu.track->all_s();
}

// How long of a start nothing was loaded: less memory in use than the work takes. A process that
// pauses keeps what it has; one that has not begun has next to nothing. nullopt: memory tells
// nothing, because it is not known, or because the work takes none.
std::optional<Micros> Unloaded(const IdleGpu& gpu, absl::Span<const IdleRun> start) {
  const double loaded = kLoaded * gpu.track->least_memory_at_work_mib();
  const double empty =
      std::isnan(gpu.empty_memory_mib) ? 0 : std::min(gpu.empty_memory_mib, kEmptyAtMost_mib);
  if (!(loaded > empty + kEmptyMargin_mib)) return std::nullopt;
  Micros out = 0;
  for (const IdleRun& run : start) {
    if (std::isnan(run.memory_max_mib)) continue;
    if (run.memory_max_mib < loaded) out += Known(run);
  }
  return out;
}

// Quiet runs without anything between them, as one or the other.
struct QuietPart {
  bool empty = false;  // the board
  absl::Span<const IdleRun> runs;
};

// An empty board is a state where it lasts; until then it is how processes begin, end and restart,
// and belongs to the quiet time around it.
std::vector<QuietPart> PartsOf(const IdleGpu& gpu, absl::Span<const IdleRun> runs) {
  const bool held =
      std::ranges::any_of(runs, [&](const IdleRun& run) { return !BoardIsEmpty(run, gpu); });
  std::vector<QuietPart> out;
  size_t from = 0;  // of the part that is last in `out`
  for (size_t k = 0; k < runs.size(); ++k) {
    const bool empty = BoardIsEmpty(runs[k], gpu) && (!held || Known(runs[k]) >= kMinNoProcess);
    if (out.empty() || out.back().empty != empty) {
      from = k;
      out.push_back({empty, {}});
    }
    out.back().runs = runs.subspan(from, k + 1 - from);
  }
  return out;
}

class JobJudge {
 public:
  explicit JobJudge(const IdleJob& job) : job_(job), work_(WorkOf(job)) {
    never_ = job_.ended && work_.last == 0 && job_.worked_before == false;
    has_process_ = work_.last == 0 && std::ranges::any_of(job_.gpus, HasProcess);
  }

  std::vector<IdleStretch> Judge() {
    FindWaits();
    for (size_t g = 0; g < job_.gpus.size(); ++g) {
      const std::vector<IdleRun>& runs = job_.gpus[g].track->runs();
      for (size_t k = 0; k < runs.size();) {
        size_t end = k + 1;
        while (end < runs.size() && runs[end].follows) ++end;
        if (runs[k].sign == IdleSign::kQuiet)
          JudgeQuiet(g, absl::MakeConstSpan(runs).subspan(k, end - k));
        else
          JudgeSpin(g, runs[k]);
        k = end;
      }
    }
    FollowPeers();
    std::ranges::stable_sort(out_, [](const IdleStretch& a, const IdleStretch& b) {
      return std::pair(a.gpu, a.from) < std::pair(b.gpu, b.from);
    });
    return std::move(out_);
  }

 private:
  bool IsUnused(const IdleGpu& gpu, absl::Span<const IdleRun> runs) const {
    // Where nobody knows what was before, what is known counts.
    if (gpu.track->last_active() != 0 || gpu.worked_before.value_or(false)) return false;
    if (job_.to - job_.from < (job_.ended ? kMinNeverWorked : kMinUnused)) return false;
    if (work_.last != 0 || (gpu.worked_before && job_.worked_before.value_or(false))) return true;
    // Nothing ran anywhere: it was not used where others of the job had a process at least.
    return has_process_ &&
           std::ranges::all_of(runs, [&](const IdleRun& run) { return BoardIsEmpty(run, gpu); });
  }

  void JudgeSpin(size_t g, const IdleRun& run) {
    if (!MaySpin(run, work_)) return;
    if (!IsOfAll(run) && !IsNoWork(run, *job_.gpus[g].track, work_)) return;
    const bool never_back = work_.last <= run.from + kSameEdge;
    const Micros least = job_.ended ? kMinHung : kMinHungRunning;
    const bool hung = never_back && Known(run) >= least;
    Add(g, hung ? IdleState::kHung : IdleState::kBarrier, run);
  }

  // Runs without anything between them: nothing ran, and processes came and went.
  void JudgeQuiet(size_t g, absl::Span<const IdleRun> runs) {
    const IdleGpu& gpu = job_.gpus[g];
    const Micros from = runs.front().from, to = runs.back().to, length = Known(runs);
    const bool tensor = work_.tensor && gpu.track->last_tensor() != 0;
    const Micros last = tensor ? gpu.track->last_tensor() : gpu.track->last_active();
    if (IsUnused(gpu, runs)) return AddAll(g, IdleState::kUnusedGpu, runs);
    if (last > to - kSameEdge && IsStart(gpu, from)) {
      if (length >= LeastStart(gpu, runs)) AddAll(g, IdleState::kStartup, runs);
      return;
    }
    // Of this GPU: others of the job may still work.
    const bool tail = job_.ended && to >= job_.to - kSameEdge && from >= last - kSameEdge &&
                      (last != 0 || gpu.worked_before.value_or(false));
    const Micros never = IsShared(runs.front()) ? kMinNeverWorkedShared : kMinNeverWorked;
    for (const QuietPart& part : PartsOf(gpu, runs)) {
      const Micros known = Known(part.runs);
      if (part.empty) {
        if (known >= (never_ ? never : kMinNoProcess)) AddAll(g, IdleState::kNoProcess, part.runs);
      } else if (tail) {
        if (length >= kMinAfterLastOutput) AddAll(g, IdleState::kAfterLastOutput, part.runs);
      } else if (known >= (never_ ? never : kMinNoWork)) {
        AddAll(g, IdleState::kNoWork, part.runs);
      }
    }
  }

  // Whether nothing ran on the GPU before then in this job.
  bool IsStart(const IdleGpu& gpu, Micros at) const {
    const Micros first = gpu.track->first_active();
    return at <= gpu.track->from() + kSameEdge && (first == 0 || first >= at) &&
           gpu.worked_before == false && job_.worked_before == false;
  }

  // How long a start must take on this GPU.
  Micros LeastStart(const IdleGpu& gpu, absl::Span<const IdleRun> start) const {
    // The job itself has begun long ago: it is a pause of this GPU.
    if (start.back().to > work_.first + kSameEdge) return kMinNoWork;
    if (const std::optional<Micros> unloaded = Unloaded(gpu, start)) {
      if (*unloaded >= kMinUnloadedStart) return kMinUnloadedStart;
      if (*unloaded < kMinLoading) return kMinNoWork;
    }
    Micros longest = 0;
    double all = gpu.track->all_s(), quiet = gpu.track->all_quiet_s();
    for (const IdleRun& run : start) all -= run.covered_s, quiet -= run.covered_s;
    for (const IdleRun& run : gpu.track->runs()) {
      const Micros length = Known(run);
      if (run.sign != IdleSign::kQuiet || run.from < start.back().to) continue;
      if (length < kMinNoWork)
        longest = std::max(longest, length);
      else
        all -= run.covered_s, quiet -= run.covered_s;
    }
    if (quiet > kPausesAnyway * all) return kMinNoWork;
    if (job_.gpus.size() == 1 && all < ToSeconds(kMinKnownOfStart)) return kMinNoWork;
    return std::max(kMinStartup,
                    static_cast<Micros>(kStartupOverPauses * static_cast<double>(longest)));
  }

  // The runs as one time in one state.
  void AddAll(size_t gpu, IdleState state, absl::Span<const IdleRun> runs) {
    IdleRun all = runs.front();
    for (const IdleRun& run : runs.subspan(1)) {
      all.to = run.to;
      all.covered_s += run.covered_s;
      all.gpu_s += run.gpu_s;
      if (!(all.memory_max_mib >= run.memory_max_mib)) all.memory_max_mib = run.memory_max_mib;
      all.duty += run.duty;
      all.sm_active += run.sm_active;
      all.power_w += run.power_w;
    }
    Add(gpu, state, all);
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

  // A time in which GPUs of the job may spin together.
  struct Wait {
    Micros from, to;
    size_t gpus = 1;
  };

  static bool IsOf(const Wait& w, Micros from, Micros to) {
    return std::abs(w.from - from) <= kSameEdge && std::abs(w.to - to) <= kSameEdge;
  }

  void FindWaits() {
    for (const IdleGpu& gpu : job_.gpus) {
      known_ += gpu.track->work_tensor().seconds > 0;
      for (const IdleRun& run : gpu.track->runs()) {
        if (!MaySpin(run, work_)) continue;
        const auto same =
            std::ranges::find_if(waits_, [&](const Wait& w) { return IsOf(w, run.from, run.to); });
        if (same != waits_.end())
          ++same->gpus;
        else if (waits_.size() < kMaxWaits)
          waits_.push_back({run.from, run.to});
      }
    }
  }

  // Whether nearly all GPUs whose tensor activity is known do it together.
  bool IsOfAll(const IdleRun& run) const {
    return std::ranges::any_of(waits_, [&](const Wait& w) {
      return w.gpus >= 2 && static_cast<double>(w.gpus) >= kSpinTogether * known_ &&
             IsOf(w, run.from, run.to);
    });
  }

  // A GPU whose tensor activity nobody knows spins while most of those that are known do.
  void FollowPeers() {
    std::vector<IdleStretch> told;  // one for each wait
    for (const Wait& w : waits_) {
      if (2 * w.gpus <= static_cast<size_t>(known_)) continue;
      const auto s = std::ranges::find_if(out_, [&](const IdleStretch& s) {
        return (s.state == IdleState::kHung || s.state == IdleState::kBarrier) &&
               IsOf(w, s.from, s.to);
      });
      if (s != out_.end()) told.push_back(*s);
    }
    if (told.empty()) return;
    for (size_t g = 0; g < job_.gpus.size(); ++g) {
      for (const IdleRun& run : job_.gpus[g].track->runs()) {
        if (run.sign != IdleSign::kBlind || run.duty.Mean() < kSpinDuty) continue;
        for (const IdleStretch& w : told) {
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
  bool never_ = false;        // the job is over, and nothing ever ran
  bool has_process_ = false;  // nothing is known to have run, and some process held memory
  double known_ = 0;          // GPUs whose tensor activity is
  std::vector<Wait> waits_;
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
