// The idle-held ledger against what simulated fleets did, both ways: what was idle is found, with
// its edges, and nothing else is accused. Rows are read from the model's counters as an exporter
// would show them, without store or network; tests/e2e/idle.py goes the whole way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>

#include "fleet/idle/rules.h"
#include "fleet/idle/states.h"
#include "jobs/job_index.h"
#include "make_fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/incidents.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

using fleet::IdleState;

struct HeldLane {
  int32_t lane = 0, job = 0, from = 0, to = 0;
  double share = 1;
};

// Every lane in every job; where two jobs share a GPU each has half of it.
std::vector<HeldLane> HeldLanes(const Fleet& fleet) {
  const Fleet::Model& m = fleet.model();
  std::vector<HeldLane> out;
  for (int32_t lane = 0; lane < m.plan.lanes; ++lane) {
    std::map<int32_t, size_t> open;
    for (const Stint& s : m.activity->Stints(lane)) {
      for (const int32_t job : {s.job, s.job2}) {
        if (job < 0) continue;
        const auto [it, fresh] = open.try_emplace(job, out.size());
        if (fresh) out.push_back({lane, job, s.from, s.to, s.job2 < 0 ? 1. : .5});
        out[it->second].to = s.to;
      }
    }
  }
  return out;
}

// GPU-seconds of one state: as they were, as they were told, and where the two agree.
struct IdleStateScore {
  double truth = 0, found = 0, both = 0;
  double brief = 0;  // of the truth, for a shorter time than the state takes to be one
  double open = 0;   // told of a hang of a job that still runs, which may end as a wait does
  int stretches = 0, missed = 0, off = 0;  // of the truth; edges off by more than an interval
};
struct IdleScore {
  double held = 0;
  IdleStateScore states[fleet::kIdleStates];
  double accused = 0;   // told of time that the truth does not call idle at all
  double sessions = 0;  // of this, of sessions on shared GPUs, which the truth does not judge
  double services = 0;  // told of services, whose pauses the truth does not judge
  double emptied = 0;   // no_work in the truth while the counters show an empty board
  double idle_truth = 0, idle_found = 0;
  std::string examples;
  IdleScore& operator+=(const IdleScore& o) {
    held += o.held;
    accused += o.accused;
    sessions += o.sessions;
    services += o.services;
    emptied += o.emptied;
    idle_truth += o.idle_truth;
    idle_found += o.idle_found;
    for (size_t k = 0; k < fleet::kIdleStates; ++k) {
      states[k].truth += o.states[k].truth;
      states[k].found += o.states[k].found;
      states[k].both += o.states[k].both;
      states[k].brief += o.states[k].brief;
      states[k].open += o.states[k].open;
      states[k].stretches += o.states[k].stretches;
      states[k].missed += o.states[k].missed;
      states[k].off += o.states[k].off;
    }
    return *this;
  }
};

class JudgedFleet {
 public:
  JudgedFleet(const Fleet& fleet, int32_t interval) : fleet_(fleet), interval_(interval) {}

  IdleScore Run() {
    const Fleet::Model& m = fleet_.model();
    const Truth truth = fleet_.TruthOf();
    std::map<std::string, const JobTruth*> truths;
    for (const JobTruth& j : truth.jobs) truths[j.key] = &j;
    held_ = HeldLanes(fleet_);
    std::map<int32_t, std::vector<size_t>> by_job;
    for (size_t k = 0; k < held_.size(); ++k) by_job[held_[k].job].push_back(k);
    for (const auto& [job, list] : by_job) {
      std::deque<fleet::IdleTrack> tracks;
      fleet::IdleJob idle;
      const auto& planned = m.plan.jobs[job];
      idle.ended = planned.end <= m.plan.horizon;
      idle.from = At(std::min(planned.start, held_[list[0]].from));
      idle.known_from = At(std::max(planned.start, 0));
      if (planned.start < 0) idle.worked_before = std::nullopt;
      for (const size_t k : list) {
        const HeldLane& h = held_[k];
        score_.held += (h.to - h.from) * h.share;
        tracks.emplace_back(std::min(idle.from, At(h.from)), idle.ended ? At(h.to) : jobs::kOpenEnd,
                            At(0), At(m.plan.horizon));
        Read(h, &tracks.back());
        tracks.back().Finish();
        idle.gpus.push_back({&tracks.back(), 0, idle.worked_before});
        idle.to = std::max(idle.to, At(h.to));
      }
      const auto t = truths.find(m.JobKey(job));
      if (t != truths.end()) Compare(*t->second, list, fleet::JudgeIdle(idle));
    }
    return score_;
  }

 private:
  Micros At(int32_t t) const { return fleet_.options().start + Micros{t} * kMicrosPerSecond; }
  int32_t Second(Micros t) const {
    return static_cast<int32_t>((t - fleet_.options().start) / kMicrosPerSecond);
  }

  void Read(const HeldLane& h, fleet::IdleTrack* track) const {
    const Fleet::Model& m = fleet_.model();
    const int32_t phase = m.activity->HostOf(h.lane) % interval_;
    const GpuModel& model = m.activity->ModelOf(h.lane);
    const bool mig = m.activity->MigOf(h.lane) != nullptr;
    Values v;
    for (int32_t t = h.from / interval_ * interval_ + phase; t < h.to + interval_; t += interval_) {
      if (t <= h.from || t - interval_ < 0 || t > m.plan.horizon) continue;
      ReadLane(m, h.lane, t, interval_, &v);
      fleet::IdleReading r{.from = At(t - interval_), .to = At(t)};
      r.gr_active = v[kGrPpm] * 1e-6;
      r.sm_active = v[kSmPpm] * 1e-6;
      r.tensor_active = v[kTensorPpm] * 1e-6;
      r.memory_mib = static_cast<double>(v[kFbUsed]);
      if (!mig) r.gpu_util = v[kUtilPct] * .01, r.power_w = v[kPowerMw] * 1e-3;
      track->Add(r, h.share, model.tdp_w);
    }
  }

  static size_t StateOf(std::string_view name) {
    return static_cast<size_t>(std::ranges::find(fleet::kIdleStateNames, name) -
                               std::begin(fleet::kIdleStateNames));
  }
  std::string UuidOf(const HeldLane& h) const {
    const Fleet::Model& m = fleet_.model();
    const int32_t gpu = m.activity->GpuOf(h.lane);
    return m.Uuid(gpu, m.Generation(gpu, h.from));
  }
  // Whether what the truth tells of the job is of this GPU.
  static bool IsOf(const IdleTruth& t, const JobTruth& job, const std::string& uuid) {
    const auto names = [&](const IdleTruth& x) {
      return std::ranges::find(x.which, uuid) != x.which.end();
    };
    if (!t.which.empty()) return names(t);
    // What is told of the others is not told of a GPU that is never used.
    return std::ranges::none_of(
        job.idle, [&](const IdleTruth& x) { return x.state == "unused_gpu" && names(x); });
  }

  // The state by its own definition (docs/idle.md). Jobs that never work are no_work in the truth
  // also where they hold no memory, as one in five of the seren preset: they have no process.
  size_t StateOf(const IdleTruth& t, const HeldLane& h) const {
    const size_t state = StateOf(t.state);
    if (IdleState(state) != IdleState::kNoWork) return state;
    Values v;
    ReadLane(fleet_.model(), h.lane, (Second(t.from) + Second(t.to)) / 2, interval_, &v);
    return v[kFbUsed] > fleet::kEmptyMargin_mib ? state : size_t(IdleState::kNoProcess);
  }

  // How long it takes to be told, as docs/idle.md has it.
  Micros Least(const IdleTruth& t, const JobTruth& job, const HeldLane& h) const {
    const bool ended = job.end != 0;
    if (t.state == "hung") return (ended ? 10 : 30) * kMicrosPerMinute;
    if (t.state == "barrier") return 10 * kMicrosPerMinute;
    if (t.state == "unused_gpu") return (ended ? 2 : 10) * kMicrosPerMinute;
    // Of a job that began before the first sample nobody knows what it did before.
    const bool never = ended && fleet_.model().plan.jobs[h.job].start >= 0 &&
                       t.to - t.from >= At(h.to) - At(h.from);
    if (t.state == "no_work" && never) return 2 * kMicrosPerMinute;
    if (t.state == "no_process" || t.state == "startup") return 15 * kMicrosPerMinute;
    return 62 * kMicrosPerMinute;
  }

  void Compare(const JobTruth& job, const std::vector<size_t>& list,
               const std::vector<fleet::IdleStretch>& found) {
    std::vector<std::string> uuids;
    for (const size_t k : list) uuids.push_back(UuidOf(held_[k]));
    for (const fleet::IdleStretch& s : found) {
      const HeldLane& h = held_[list[s.gpu]];
      const auto state = static_cast<size_t>(s.state);
      const JobKind kind = fleet_.model().plan.jobs[h.job].kind;
      if (kind == JobKind::kService) {
        score_.services += s.gpu_s;
        continue;
      }
      double told = 0;
      for (const IdleTruth& t : job.idle) {
        if (!IsOf(t, job, uuids[s.gpu])) continue;
        const double both =
            ToSeconds(std::max<Micros>(0, std::min(s.to, t.to) - std::max(s.from, t.from))) *
            h.share;
        told += both;
        if (StateOf(t, h) == state) score_.states[state].both += both;
        if (t.state == "hung" && s.goes_on && s.state == IdleState::kBarrier)
          score_.states[state].open += both;
      }
      score_.accused += std::max(0.0, s.gpu_s - told);
      if (s.gpu_s - told > interval_ + 2) Example("accused", job, h, &s, nullptr);
      if (kind == JobKind::kSession) {
        score_.sessions += std::max(0.0, s.gpu_s - told);
        continue;
      }
      score_.states[state].found += s.gpu_s;
      score_.idle_found += s.gpu_s;
    }
    for (const IdleTruth& t : job.idle)
      for (size_t g = 0; g < list.size(); ++g)
        if (IsOf(t, job, uuids[g])) Find(job, t, g, held_[list[g]], found);
  }

  // What was told of one GPU's time in a state.
  void Find(const JobTruth& job, const IdleTruth& t, size_t g, const HeldLane& h,
            const std::vector<fleet::IdleStretch>& found) {
    const size_t state = StateOf(t, h);
    IdleStateScore& score = score_.states[state];
    const double gpu_s = ToSeconds(t.to - t.from) * h.share;
    score.truth += gpu_s;
    score_.idle_truth += gpu_s;
    if (state != StateOf(t.state)) score_.emptied += gpu_s;
    if (t.to - t.from < Least(t, job, h) + interval_ * kMicrosPerSecond) {
      score.brief += gpu_s;
      return;
    }
    ++score.stretches;
    const auto overlaps = [&](const fleet::IdleStretch& f) {
      return f.gpu == g && f.from < t.to && f.to > t.from;
    };
    const auto s = std::ranges::find_if(found, [&](const fleet::IdleStretch& f) {
      return overlaps(f) && state == size_t(f.state);
    });
    if (s == found.end()) {
      ++score.missed;
      const auto other = std::ranges::find_if(found, overlaps);
      return Example("missed", job, h, other == found.end() ? nullptr : &*other, &t);
    }
    // Two minutes at a job's start are nobody's idle time (docs/simulate.md, Incidents).
    const Micros edge = Micros{interval_} * kMicrosPerSecond;
    const Micros begin = t.from <= job.start ? std::max(edge, 2 * kMicrosPerMinute) : edge;
    if (std::abs(s->from - t.from) <= begin && std::abs(s->to - t.to) <= edge) return;
    ++score.off;
    Example("edge", job, h, &*s, &t);
  }

  void Example(std::string_view what, const JobTruth& job, const HeldLane& h,
               const fleet::IdleStretch* s, const IdleTruth* t) {
    if (std::ranges::count(score_.examples, '\n') >= 4000) return;
    const auto& j = fleet_.model().plan.jobs[h.job];
    score_.examples += fmt::format("  {}: {} kind {} gpus {} lane {} held {}..{}", what, job.key,
                                   static_cast<int>(j.kind), j.gpus, h.lane, h.from, h.to);
    if (t != nullptr)
      score_.examples += fmt::format("; was {}{} {}..{}", t->state, t->planted ? " (planted)" : "",
                                     Second(t->from), Second(t->to));
    if (s != nullptr)
      score_.examples += fmt::format("; said {} {}..{}", fleet::IdleStateName(s->state),
                                     Second(s->from), Second(s->to));
    score_.examples += "\n";
  }

  const Fleet& fleet_;
  const int32_t interval_;
  std::vector<HeldLane> held_;
  IdleScore score_;
};

std::string IdleScoreText(const IdleScore& s) {
  std::string out = fmt::format(
      "held {:.0f} GPU-h; idle {:.1f}, told {:.1f} ({:+.2f} %); accused {:.2f} GPU-h ({:.4f} % of "
      "held; sessions on shared GPUs {:.2f}); services {:.1f}; jobs without memory {:.1f}\n",
      s.held / 3600, s.idle_truth / 3600, s.idle_found / 3600,
      100 * (s.idle_found / s.idle_truth - 1), s.accused / 3600, 100 * s.accused / s.held,
      s.sessions / 3600, s.services / 3600, s.emptied / 3600);
  for (size_t k = 0; k < fleet::kIdleStates; ++k) {
    const IdleStateScore& x = s.states[k];
    if (x.truth <= 0 && x.found <= 0) continue;
    out += fmt::format(
        "    {:18} true {:8.1f} (brief {:.1f}) told {:8.1f} ({:+.2f} %, open {:.1f}) right {:8.1f} "
        "GPU-h; of {} stretches {} missed, {} with an edge off\n",
        fleet::kIdleStateNames[k], x.truth / 3600, x.brief / 3600, x.found / 3600,
        100 * (x.found / x.truth - 1), x.open / 3600, x.both / 3600, x.stretches, x.missed, x.off);
  }
  return out;
}

// FLOPWATCH_IDLE_SEEDS=N: N fleets of 512 GPUs and two days of each preset, with what was wrong,
// from FLOPWATCH_IDLE_FIRST_SEED on.
class IdleHeldTest : public testing::TestWithParam<Preset> {
 protected:
  static IdleScore Measure(const FleetOptions& options) {
    FleetOptions o = options;
    EXPECT_TRUE(ParseIncidents("idle_no_process=6,idle_no_work=6,idle_startup=6,idle_barrier=6,"
                               "hung=6,idle_after_last_output=6,idle_unused_gpu=6",
                               &o.incidents)
                    .ok());
    const auto fleet = Make(o);
    return fleet == nullptr ? IdleScore() : JudgedFleet(*fleet, 30).Run();
  }
};

TEST_P(IdleHeldTest, WhatIsIdleIsFoundAndNothingElseIsAccused) {
  const char* seeds = std::getenv("FLOPWATCH_IDLE_SEEDS");
  const uint64_t more = seeds == nullptr ? 0 : std::strtoull(seeds, nullptr, 10);
  IdleScore all = more > 0 ? IdleScore() : Measure(Options(GetParam(), 256, 36, Faults::kAll, 300));
  const char* from = std::getenv("FLOPWATCH_IDLE_FIRST_SEED");
  const uint64_t first = from == nullptr ? 301 : std::strtoull(from, nullptr, 10);
  for (uint64_t seed = first; seed < first + more; ++seed) {
    const IdleScore s = Measure(Options(GetParam(), 512, 48, Faults::kAll, seed));
    fmt::print("{} seed {}: {}{}", PresetName(GetParam()), seed, IdleScoreText(s), s.examples);
    all += s;
  }
  fmt::print("{}: {}", PresetName(GetParam()), IdleScoreText(all));
  EXPECT_GT(all.idle_truth, 0);
  EXPECT_LT(all.accused, .0003 * all.held);
  EXPECT_LT(all.accused - all.sessions, .0001 * all.held);
  double told = 0;  // that could be
  for (const IdleStateScore& s : all.states) told += s.truth - s.brief;
  EXPECT_GE(all.idle_found, .99 * told);
  EXPECT_LE(all.idle_found, 1.01 * all.idle_truth);
  for (size_t k = 0; k < fleet::kIdleStates; ++k) {
    const IdleStateScore& s = all.states[k];
    SCOPED_TRACE(fleet::kIdleStateNames[k]);
    // All GPUs of a job that evaluated just before it hung.
    EXPECT_LE(s.off, more > 0 ? 4 : 0);
    // A hang before a job's first tensor work is not told from a code without any, nor a board that
    // got empty where the job's work takes no memory either.
    const double least = IdleState(k) == IdleState::kHung        ? (more > 0 ? .94 : .99)
                         : IdleState(k) == IdleState::kNoProcess ? .98
                                                                 : .99;
    EXPECT_GE(s.both, least * (s.truth - s.brief));
    EXPECT_LE(s.found - s.both - s.open, .01 * s.truth + 2 * 3600);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, IdleHeldTest,
                         testing::Values(Preset::kLlm, Preset::kResearch, Preset::kSeren,
                                         Preset::kServing),
                         [](const auto& param) { return std::string(PresetName(param.param)); });

}  // namespace
}  // namespace flopwatch::simulate
