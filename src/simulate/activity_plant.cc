// Who is befallen by which incident, and when (--incidents).
#include <algorithm>
#include <cmath>

#include "simulate/activity_builder.h"

namespace flopwatch::simulate {
namespace {

constexpr double kGoldenStep = 0.6180339887498949;
constexpr int32_t kLongestGap = 3600;  // of a healthy job (activity_build.cc)
constexpr int32_t kLeastBusy = 900;    // seconds of tensor work that an incident must meet
constexpr double kLeastOfu = .04;      // of a job that is at work
constexpr double kLeastFactor = 1.02;  // of a straggler
constexpr double kSlowestOwn = 1.05;   // a job with a slower GPU of its own has its straggler
constexpr int32_t kLeastRun = 600;     // seconds of a run that counts
constexpr int32_t kShortestRestart = 120, kLongestRestart = 600;
constexpr int kNaturalRunsBefore = 6, kNaturalRunsAfter = 4;

}  // namespace

void ActivityBuilder::LayoutRecurring(const Job& job, JobInfo* info) {
  layout_first_ = static_cast<int32_t>(a_.phases_.size());
  Draws draws(Key(seed_, Purpose::kPhase, job.number, 1 << 20));
  const int32_t planned = job.start + job.duration - info->from;
  // Checkpoints and evaluations of a few seconds.
  int32_t t = 60 + static_cast<int32_t>(draws.Below(30));
  AddPhase(0, PhaseKind::kGap);
  AddPhase(std::min(t, planned - 1), PhaseKind::kBusy);
  for (t += 300 + draws.Below(600); t + 60 < planned; t += 600 + draws.Below(300)) {
    AddPhase(t, PhaseKind::kGap);
    AddPhase(t + 8 + static_cast<int32_t>(draws.Below(25)), PhaseKind::kBusy);
  }
  info->program = CloseProgram(planned);
  info->busy_weight = .95 * (info->to - info->from) * job.gpus;
}

const Phase& ActivityBuilder::PhaseOf(int32_t job, int32_t t) const {
  const JobInfo& info = jobs_[job];
  const Program& program = a_.programs_[info.program];
  const std::span<const Phase> phases(a_.phases_.data() + program.first_phase, program.phases);
  return *(std::ranges::upper_bound(phases, t - info.from, {}, &Phase::start) - 1);
}

// Whether a job and the runs of its workflow beside it are as they would be.
bool ActivityBuilder::IsFree(int32_t job) const {
  const Job& j = plan_.jobs[job];
  if (changed_workflows_.contains(j.workflow)) return false;
  const int apart = workflows_[j.workflow].planted >= 0 ? 1 : 2;
  for (int d = -apart; d <= apart; ++d)
    if (taken_.contains({j.workflow, j.run + d})) return false;
  return true;
}

std::vector<ActivityBuilder::Candidate> ActivityBuilder::Candidates() const {
  std::vector<Candidate> out;
  for (size_t k = 0; k < jobs_.size(); ++k) {
    const auto j = static_cast<int32_t>(k);
    const Job& job = plan_.jobs[k];
    const JobInfo& info = jobs_[k];
    if (job.kind != JobKind::kSynchronous && job.kind != JobKind::kSingle) continue;
    if (info.program < 0 || info.to - info.from < 2 * kLeastBusy) continue;
    if (info.placements != job.gpus || info.unused > 0 || job.suspend_from != kNever) continue;
    if (throttles_.contains(j) || IsRecurring(job)) continue;
    const Workflow& workflow = workflows_[job.workflow];
    if (workflow.planted < 0 && WorkflowChange(seed_, workflow.key)) continue;
    const Program& program = a_.programs_[info.program];
    bool hangs = false;
    for (int32_t i = 0; i < program.phases; ++i)
      hangs |= a_.phases_[program.first_phase + i].kind == PhaseKind::kHang;
    if (hangs) continue;
    const Usual u = UsualOf(j, info.from, info.to);
    const double ofu = u.tensor_hz / (Model(job).tensor_max_mhz * 1e6);
    if (u.busy_s < kLeastBusy || ofu < kLeastOfu) continue;
    out.push_back({j, u.busy_s, ofu, workflow.planted >= 0});
  }
  return out;
}

// OFU after / before; no clock falls to a third.
double ActivityBuilder::SizeOfLoss(IncidentKind kind, int32_t i) const {
  const double scale = FamilyOf(kind) == Family::kClock ? .6 : 1;
  return 1 - scale * SizeOf(i, kind, planting_->asked.least[static_cast<size_t>(kind)] / scale);
}

// `least` (0.02 where it is below) to 0.6, spread evenly over its logarithm by the number of the
// incident.
double ActivityBuilder::SizeOf(int32_t i, IncidentKind kind, double least) const {
  const double x = Unit(Key(seed_, Purpose::kIncident, static_cast<uint64_t>(kind), 7ull << 40)) +
                   i * kGoldenStep;
  least = std::max(.02, least);
  return least * std::pow(.6 / least, x - std::floor(x));
}

void ActivityBuilder::PlantIncidents() {
  a_.planted_in_.assign(jobs_.size(), -1);
  AddEvaluations();
  RaisePower();
  LimitPower();
  // Workflows first: nothing else may happen to their runs.
  PlantChanges();
  PlantRegressions();
  PlantFleetDrops();
  std::vector<Candidate> all = Candidates();
  std::vector<Candidate> own;  // of the fleet's own demand
  std::vector<std::vector<Candidate>> made(kIncidentKinds);
  std::ranges::sort(all, {}, [&](const Candidate& c) {
    return Key(seed_, Purpose::kIncident, plan_.jobs[c.job].number, 3ull << 40);
  });
  for (const Candidate& c : all) {
    if (!c.made)
      own.push_back(c);
    else
      made[static_cast<size_t>(*PlantedOf(plan_.jobs[c.job])->hosts)].push_back(c);
  }
  std::vector<size_t> own_at(kIncidentKinds, 0), made_at(kIncidentKinds, 0);
  const auto next = [&](IncidentKind kind, int32_t i, const std::vector<Candidate>& from,
                        size_t* at) {
    while (*at < from.size())
      if (Plant(kind, from[(*at)++], i)) return true;
    return false;
  };
  int32_t most = 0;
  for (int32_t n : planting_->asked.n) most = std::max(most, n);
  for (int32_t i = 0; i < most; ++i) {
    for (size_t k = 0; k < kIncidentKinds; ++k) {
      const auto kind = static_cast<IncidentKind>(k);
      const IncidentGroup group = GroupOf(kind);
      if (group == IncidentGroup::kRegression || group == IncidentGroup::kChange ||
          group == IncidentGroup::kFleet)
        continue;
      if (i >= planting_->asked[kind]) continue;
      if (i % 2 == 0 ? next(kind, i, own, &own_at[k]) : next(kind, i, made[k], &made_at[k]))
        continue;
      if (i % 2 == 0 ? !next(kind, i, made[k], &made_at[k]) : !next(kind, i, own, &own_at[k]))
        continue;
    }
  }
}

void ActivityBuilder::Take(int32_t job, int32_t index) {
  const Job& j = plan_.jobs[job];
  taken_[{j.workflow, j.run}] = true;
  a_.planted_in_[job] = index;
}

bool ActivityBuilder::Plant(IncidentKind kind, const Candidate& c, int32_t i) {
  // A board's errors leave the job as it is, whatever else befalls it.
  const bool board = GroupOf(kind) == IncidentGroup::kBoard;
  if (!board && !IsFree(c.job)) return false;
  Draws draws(Key(seed_, Purpose::kIncident, plan_.jobs[c.job].number,
                  (4ull << 40) + static_cast<uint64_t>(kind)));
  bool planted = false;
  switch (GroupOf(kind)) {
    case IncidentGroup::kStraggler:
      planted = PlantStraggler(kind, c, i, &draws);
      break;
    case IncidentGroup::kDrop:
      planted = PlantDrop(kind, c, i, &draws);
      break;
    case IncidentGroup::kBoard:
      planted = PlantBoard(kind, c, i, &draws);
      break;
    case IncidentGroup::kReported:
      planted = PlantReported(kind, c, &draws);
      break;
    case IncidentGroup::kClock:
      planted = PlantClock(kind, c, &draws);
      break;
    case IncidentGroup::kPause:
      planted = PlantRestart(c, &draws);
      break;
    default:
      planted = PlantIdle(kind, c, &draws);
      break;
  }
  if (planted && !board) Take(c.job, static_cast<int32_t>(a_.planted_.size()) - 1);
  return planted;
}

std::vector<int32_t> ActivityBuilder::SlowLanes(IncidentKind kind, int32_t job, double factor,
                                                Draws* draws, double* total) const {
  const JobInfo& info = jobs_[job];
  const auto slow_of = [&](int32_t lane) {
    return static_cast<double>(a_.traits_[a_.GpuOf(lane)].slow());
  };
  std::map<int32_t, std::vector<int32_t>> by_host;
  for (int i = 0; i < info.placements; ++i) {
    const int32_t lane = LaneOf(info, i);
    by_host[a_.HostOf(lane)].push_back(lane);
  }
  if (kind == IncidentKind::kStragglerHost) {
    if (by_host.size() < 2) return {};
    // Some host, or the one whose slowest GPU makes the others wait in any case.
    for (int tries = 0; tries < 8; ++tries) {
      auto it = std::next(by_host.begin(), draws->Below(static_cast<uint32_t>(by_host.size())));
      double slowest = 0;
      for (int32_t lane : it->second) slowest = std::max(slowest, slow_of(lane));
      *total = slowest * factor;
      if (it->second.size() >= 2 && *total >= std::max(info.slowest + .005, kLeastFactor))
        return it->second;
    }
    return {};
  }
  for (int tries = 0; tries < 8; ++tries) {
    const int32_t lane = LaneOf(info, static_cast<int>(draws->Below(info.placements)));
    if (kind == IncidentKind::kStragglerLink && by_host[a_.HostOf(lane)].size() < 2) continue;
    *total = slow_of(lane) * factor;
    if (*total >= std::max(info.slowest + .005, kLeastFactor)) return {lane};
  }
  return {};
}

bool ActivityBuilder::PlantStraggler(IncidentKind kind, const Candidate& c, int32_t i,
                                     Draws* draws) {
  const Job& job = plan_.jobs[c.job];
  const JobInfo& info = jobs_[c.job];
  if (job.kind != JobKind::kSynchronous || info.slowest >= kSlowestOwn) return false;
  // 1.02 to 1.5
  const double least = planting_->asked.least[static_cast<size_t>(kind)];
  const double factor =
      1 + std::min(.5, SizeOf(i, kind, (least - .0033) * .6 / .5) * .5 / .6 + .0033);
  Cut cut;
  double total = 1;
  cut.lanes = SlowLanes(kind, c.job, factor, draws, &total);
  if (cut.lanes.empty()) return false;
  std::ranges::sort(cut.lanes);
  cut.from = info.from;
  cut.to = info.to;
  const int32_t window = info.to - info.from;
  if (draws->Unit() > .4 && window >= 3600) {
    const auto length =
        std::max<int32_t>(1800, static_cast<int32_t>(window * (.25 + .5 * draws->Unit())));
    cut.from += static_cast<int32_t>((window - length) * draws->Unit());
    cut.to = cut.from + length;
  }
  if (UsualOf(c.job, cut.from, cut.to).busy_s < kLeastBusy) return false;
  const double ratio = total / info.slowest;
  PlantedIncident p{kind, c.job, job.workflow, cut.from, cut.to, total, cut.lanes};
  SlowEffects(kind, c.job, factor, ratio, draws, &cut, &p.sign);
  SlowDown(c.job, cut, ratio);
  cuts_.emplace(c.job, std::move(cut));
  a_.planted_.push_back(std::move(p));
  return true;
}

bool ActivityBuilder::PlantDrop(IncidentKind kind, const Candidate& c, int32_t i, Draws* draws) {
  const Job& job = plan_.jobs[c.job];
  const JobInfo& info = jobs_[c.job];
  const Family family = FamilyOf(kind);
  if (family == Family::kNetwork && job.gpus < 2) return false;
  const auto from =
      info.from + static_cast<int32_t>((info.to - info.from) * (.3 + .4 * draws->Unit()));
  if (UsualOf(c.job, info.from, from).busy_s < kLeastBusy ||
      UsualOf(c.job, from, info.to).busy_s < kLeastBusy)
    return false;
  const double size = SizeOfLoss(kind, i);
  Effect effect;
  effect.kind = kind;
  Lose(family, c.job, from, info.to, size, draws->Next(), &effect);
  cuts_.emplace(c.job, Cut{from, info.to, -1, AddEffect(effect), {}});
  a_.planted_.push_back({kind, c.job, job.workflow, from, info.to, size});
  return true;
}

bool ActivityBuilder::IdleTime(IncidentKind kind, const Candidate& c, Draws* draws, int32_t* from,
                               int32_t* to) const {
  using enum IncidentKind;
  const Job& job = plan_.jobs[c.job];
  const JobInfo& info = jobs_[c.job];
  const int32_t window = info.to - info.from;
  const bool ends = job.end <= plan_.horizon, begins = job.start >= 0;
  const double u = draws->Unit(), share = draws->Unit(), place = draws->Unit();
  const auto length = [&](int32_t least, int32_t most) {
    most = std::min(most, static_cast<int32_t>(.6 * window));
    return most < least ? 0 : least + static_cast<int32_t>((most - least) * share);
  };
  *from = info.from;
  *to = info.to;
  if (kind == kIdleUnusedGpu) return job.gpus >= 2;
  if (kind == kIdleNoProcess && u < .6) return begins;
  if (kind == kIdleNoWork && u < .35) return true;
  int32_t n = 0;
  bool at_end = false;
  if (kind == kIdleStartup) {
    n = begins ? length(900, 3 * 3600) : 0;
    *to = *from + n;
  } else if (kind == kIdleBarrier) {
    n = job.gpus >= 2 ? length(600, 5400) : 0;
  } else if (kind == kHung) {
    n = job.gpus >= 2 ? length(1200, 8 * 3600) : 0;
    at_end = true;
  } else if (kind == kRestart) {
    n = length(kShortestRestart, kLongestRestart);
  } else if (kind == kIdleNoProcess) {
    n = length(1800, 6 * 3600);
    at_end = true;
  } else if (kind == kIdleAfterLastOutput) {
    n = ends ? length(kLongestGap + 600, 6 * 3600) : 0;
    at_end = true;
  } else {
    n = length(kLongestGap + 600, 5 * 3600);
  }
  if (n == 0) return false;
  if (at_end) *from = *to - n;
  const auto busy = [&](int32_t t) { return PhaseOf(c.job, t).kind == PhaseKind::kBusy; };
  if (kind == kIdleBarrier || kind == kIdleNoWork || kind == kRestart) {
    *from = info.from + static_cast<int32_t>((window - n) * place);
    *to = *from + n;
  }
  // Work before and after it, at once.
  if (*from > info.from && (!busy(*from - 1) || !busy(*from - 120) ||
                            UsualOf(c.job, info.from, *from).busy_s < kLeastBusy))
    return false;
  return *to >= info.to ||
         (busy(*to) && busy(*to + 120) && UsualOf(c.job, *to, info.to).busy_s >= kLeastBusy);
}

bool ActivityBuilder::PlantIdle(IncidentKind kind, const Candidate& c, Draws* draws) {
  const Job& job = plan_.jobs[c.job];
  JobInfo& info = jobs_[c.job];
  int32_t from = 0, to = 0;
  bool fits = false;
  for (int tries = 0; tries < 6 && !fits; ++tries) fits = IdleTime(kind, c, draws, &from, &to);
  if (!fits) return false;
  PlantedIncident p{kind, c.job, job.workflow, from, to, static_cast<double>(job.gpus)};
  if (kind == IncidentKind::kIdleUnusedGpu) {
    info.unused = 1 + static_cast<int32_t>(draws->Below(std::min(job.gpus - 1, 7)));
    for (int i = info.placements - info.unused; i < info.placements; ++i)
      p.lanes.push_back(LaneOf(info, i));
    p.size = info.unused;
  } else {
    HoldIdle(kind, c.job, from, to, draws->Next());
  }
  a_.planted_.push_back(std::move(p));
  return true;
}

bool ActivityBuilder::PlantBoard(IncidentKind kind, const Candidate& c, int32_t i, Draws* draws) {
  using enum IncidentKind;
  constexpr int32_t kApplication[] = {31, 13, 43, 45}, kMemory[] = {48, 63, 94, 64, 95},
                    kGsp[] = {119, 120}, kOld[] = {79, 48, 31, 74},
                    kFatal[] = {31, 79, 13, 94, 43, 74}, kAgain[] = {31, 94, 43, 74, 119};
  constexpr int32_t kMargin = 600;  // of the job's time, at either end
  constexpr int32_t kApart = 2700;  // of the same code again
  constexpr int kTimes = 3;
  const JobInfo& info = jobs_[c.job];
  const auto pick = [i](std::span<const int32_t> codes) {
    return codes[static_cast<size_t>(i) % codes.size()];
  };
  BoardError error;
  const int32_t lane = LaneOf(info, static_cast<int>(draws->Below(info.placements)));
  error.gpu = a_.GpuOf(lane);
  error.at = info.from + kMargin +
             static_cast<int32_t>((info.to - info.from - 2 * kMargin) * draws->Unit());
  error.xid = kind == kXidApplication ? pick(kApplication)
              : kind == kXidMemory    ? pick(kMemory)
              : kind == kXidLink      ? 74
              : kind == kXidBus       ? 79
              : kind == kXidGsp       ? pick(kGsp)
              : kind == kXidOld       ? pick(kOld)
              : kind == kXidFatal     ? pick(kFatal)
              : kind == kXidAgain     ? pick(kAgain)
                                      : 0;
  if (kind == kXidFatal) {  // some seconds before its end, which is in reach
    const Job& job = plan_.jobs[c.job];
    if (job.end != info.to || job.end > plan_.horizon - 3 * kMargin) return false;
    error.at = info.to - 1 - static_cast<int32_t>(draws->Below(20));
  }
  int times = 1;
  if (kind == kXidAgain) {
    times = kTimes;
    const int32_t room = info.to - info.from - 2 * kMargin - (kTimes - 1) * kApart;
    if (room <= 0 || !Activity::CountsXids(a_.HostOf(lane))) return false;
    error.at = info.from + kMargin + static_cast<int32_t>(room * draws->Unit());
  }
  error.uncorrectable = kind == kEccDouble || error.xid == 48 || error.xid == 95;
  if (kind == kRowRemap || kind == kRowRemapOld)
    error.remapped_rows = 1 + static_cast<int32_t>(draws->Below(4));
  error.remap_failed = kind == kRowRemapFailed;
  if (kind == kRowRemap) error.reset_at = info.to;  // as the job ends
  // The code of a natural event would be taken for it, and a second one of its own.
  for (const XidEvent& x : plan_.xids)
    if (x.gpu == error.gpu) return false;
  for (const BoardError& other : a_.board_errors_)
    if (other.gpu == error.gpu) return false;
  int32_t told = error.at;
  if (kind == kXidOld || kind == kRowRemapOld) {
    error.at = -3600;
    error.uncorrectable = false;
    told = 0;
  }
  for (int k = 0; k < times; ++k, error.at += kApart, told += kApart) {
    a_.board_errors_.push_back(error);
    a_.planted_.push_back({kind,
                           c.job,
                           plan_.jobs[c.job].workflow,
                           told,
                           told,
                           static_cast<double>(error.xid),
                           {lane}});
  }
  if (kind == kRowRemap && Activity::SaysRemapPending(a_.HostOf(lane))) {
    a_.planted_.back().to = error.reset_at;
    a_.planted_.back().sign = "pending";
  }
  return true;
}

bool ActivityBuilder::PlantReported(IncidentKind kind, const Candidate& c, Draws* draws) {
  using enum IncidentKind;
  constexpr int32_t kLeastBefore = 4500;  // reports enough to know what is usual
  const JobInfo& info = jobs_[c.job];
  const int32_t window = info.to - info.from;
  const int32_t lasts = kind == kLossOnce        ? 1
                        : kind == kLossNotFinite ? 1800 + static_cast<int32_t>(draws->Below(3600))
                                                 : 900 + static_cast<int32_t>(draws->Below(1800));
  if (a_.reported_[c.job].mfu <= 0 || window < kLeastBefore + lasts + 900) return false;
  const int32_t from = info.from + kLeastBefore +
                       static_cast<int32_t>((window - kLeastBefore - lasts - 600) * draws->Unit());
  // While it steps all the time: who reports nothing reports nothing wrong.
  if (UsualOf(c.job, from, from + std::max(lasts, 600)).busy_s < .9 * std::max(lasts, 600) ||
      UsualOf(c.job, info.from, from).busy_s < kLeastBefore / 2)
    return false;
  const double times = kind == kLossSpike ? 1.5 + 2 * draws->Unit() : 15 + 40 * draws->Unit();
  a_.planted_.push_back({kind, c.job, plan_.jobs[c.job].workflow, from, from + lasts, times});
  a_.planted_.back().sign = kind != kLossNotFinite && kind != kLossOnce ? ""
                            : draws->Below(3) == 0                      ? "infinite"
                                                                        : "nan";
  return true;
}

void ActivityBuilder::ChangeRuns(IncidentKind kind, int32_t workflow, int32_t first_run,
                                 double size, uint64_t key) {
  for (const int32_t j : runs_of_[workflow]) {
    JobInfo& info = jobs_[j];
    const Job& job = plan_.jobs[j];
    if (job.run < first_run || info.program < 0 || info.to <= info.from) continue;
    Effect effect;
    effect.kind = kind;
    const int32_t length = a_.programs_[info.program].length;
    Lose(FamilyOf(kind), j, info.from, info.from + length, size, key, &effect);
    // A job that is throttled or suspended has its stints cut for that.
    if (!throttles_.contains(j) && job.suspend_from == kNever)
      cuts_.emplace(j, Cut{info.from, info.to, -1, AddEffect(effect), {}});
    Reported& said = a_.reported_[j];
    if (said.usual_mfu <= 0) said.usual_mfu = said.mfu;
    said.mfu = static_cast<float>(said.mfu * size);
  }
}

// The first run that is changed, and whether enough runs lie around it.
bool ActivityBuilder::RunsAround(int32_t workflow, int32_t first_run, int before, int after,
                                 PlantedIncident* p) const {
  for (const int32_t j : runs_of_.at(workflow)) {
    const JobInfo& info = jobs_[j];
    if (info.to - info.from < kLeastRun || info.program < 0) continue;
    const bool changed = plan_.jobs[j].run >= first_run;
    ++(changed ? p->runs_after : p->runs_before);
    if (!changed || p->job >= 0) continue;
    p->job = j;
    p->run = plan_.jobs[j].run;
    p->from = info.from;
  }
  p->workflow = workflow;
  p->to = plan_.horizon;
  return p->runs_before >= before && p->runs_after >= after;
}

// The number of the first run submitted after a planted workflow's change; 0: none.
int32_t ActivityBuilder::FirstChanged(const PlantedWorkflow& w) const {
  const auto it = runs_of_.find(w.workflow);
  if (it == runs_of_.end()) return 0;
  for (const int32_t j : it->second)
    if (IsChanged(w, plan_.jobs[j].submit)) return plan_.jobs[j].run;
  return 0;
}

void ActivityBuilder::PlantChanges() {
  for (size_t j = 0; j < jobs_.size(); ++j)
    if (plan_.jobs[j].kind != JobKind::kService && plan_.jobs[j].kind != JobKind::kSession)
      runs_of_[plan_.jobs[j].workflow].push_back(static_cast<int32_t>(j));
  for (auto& [workflow, list] : runs_of_)
    std::ranges::stable_sort(list, {}, [&](int32_t j) { return plan_.jobs[j].run; });
  for (const PlantedWorkflow& w : planting_->workflows) {
    if (!w.kind || GroupOf(*w.kind) != IncidentGroup::kChange) continue;
    const int32_t first = FirstChanged(w);
    PlantedIncident p{*w.kind};
    p.size = w.size;
    if (*w.kind == IncidentKind::kChangeModel)
      p.sign = w.model_after != 0 ? "model_config" : "gpu_model";
    else if (*w.kind == IncidentKind::kChangePrecision)
      p.sign = w.mixed_after ? "to_mixed" : w.mixed_first ? "to_bf16" : "not_reported";
    // Also where too few runs lie around it to count: it has changed all the same.
    if (first <= 0) continue;
    RunsAround(w.workflow, first, kRunsBefore, kRunsAfter, &p);
    if (p.runs_before > 0 && p.runs_after > 0) a_.planted_.push_back(std::move(p));
  }
}

// Workflows of the fleet's own demand with runs enough, in an order of no meaning, each with the
// first run that may be changed.
std::vector<std::pair<int32_t, int32_t>> ActivityBuilder::NaturalWorkflows() const {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (const auto& [workflow, list] : runs_of_) {
    const Workflow& w = workflows_[workflow];
    if (w.planted >= 0 || w.size_class < 0 || WorkflowChange(seed_, w.key)) continue;
    std::vector<int32_t> runs;
    bool fits = true;
    for (const int32_t j : list) {
      const JobInfo& info = jobs_[j];
      if (info.program < 0 || info.to - info.from < kLeastRun) continue;
      const Usual u = UsualOf(j, info.from, info.to);
      fits &= u.busy_s >= kLeastRun / 2 &&
              u.tensor_hz >= kLeastOfu * Model(plan_.jobs[j]).tensor_max_mhz * 1e6 &&
              !throttles_.contains(j) && plan_.jobs[j].suspend_from == kNever;
      runs.push_back(plan_.jobs[j].run);
    }
    const int n = static_cast<int>(runs.size());
    const int choices = n - kNaturalRunsBefore - kNaturalRunsAfter + 1;
    if (!fits || choices < 1) continue;
    const uint64_t h = Key(seed_, Purpose::kIncident, w.key, 5ull << 40);
    const size_t first = kNaturalRunsBefore + Below(h, static_cast<uint32_t>(choices));
    out.emplace_back(workflow, runs[first]);
  }
  std::ranges::sort(out, {}, [&](const auto& x) {
    return Key(seed_, Purpose::kIncident, workflows_[x.first].key, 6ull << 40);
  });
  return out;
}

bool ActivityBuilder::PlantRegression(IncidentKind kind, int32_t i, int32_t workflow,
                                      int32_t first_run, int before, int after) {
  if (first_run <= 0 || changed_workflows_.contains(workflow)) return false;
  if (FamilyOf(kind) == Family::kNetwork && workflows_[workflow].gpus < 2) return false;
  PlantedIncident p{kind};
  if (!RunsAround(workflow, first_run, before, after, &p)) return false;
  p.size = SizeOfLoss(kind, i);
  changed_workflows_.insert(workflow);
  ChangeRuns(kind, workflow, first_run, p.size,
             Key(seed_, Purpose::kIncident, workflows_[workflow].key, 8ull << 40));
  a_.planted_.push_back(std::move(p));
  return true;
}

void ActivityBuilder::PlantRegressions() {
  const IncidentCounts& asked = planting_->asked;
  const auto natural = NaturalWorkflows();
  IncidentCounts done;
  std::array<size_t, kIncidentKinds> at{};
  // By turns, until no kind finds another one or each has so large a part of what was asked for.
  const auto from_natural = [&](int part) {
    for (bool more = true; more;) {
      more = false;
      for (size_t k = 0; k < kIncidentKinds; ++k) {
        const auto kind = static_cast<IncidentKind>(k);
        if (GroupOf(kind) != IncidentGroup::kRegression || done[kind] >= asked[kind] / part)
          continue;
        while (at[k] < natural.size()) {
          const auto& [workflow, first] = natural[at[k]++];
          if (!PlantRegression(kind, done[kind], workflow, first, kNaturalRunsBefore,
                               kNaturalRunsAfter))
            continue;
          ++done[kind];
          more = true;
          break;
        }
      }
    }
  };
  from_natural(3);
  for (const PlantedWorkflow& w : planting_->workflows) {
    if (!w.kind || GroupOf(*w.kind) != IncidentGroup::kRegression) continue;
    if (done[*w.kind] >= asked[*w.kind]) continue;
    done[*w.kind] += PlantRegression(*w.kind, done[*w.kind], w.workflow, FirstChanged(w),
                                     kRunsBefore, kRunsAfter);
  }
  from_natural(1);
}

// Some presets have the power of their data, whatever the work: beside planted workflows, which do
// more tensor work than those data have, it would be a counter that lies (tensor_without_power).
// Measured boards take 2.3 times the share that this does (shared study: 0.28 of the cycles at 572
// W of 700).
void ActivityBuilder::RaisePower() {
  constexpr double kPerOfu = 1.2, kMost = .8;
  for (size_t k = 0; k < jobs_.size(); ++k) {
    if (jobs_[k].program < 0) continue;
    const GpuModel& model = Model(plan_.jobs[k]);
    const Program& program = a_.programs_[jobs_[k].program];
    for (int32_t i = 0; i < program.phases; ++i) {
      Rates& rates = a_.phases_[program.first_phase + i].rates;
      const double ofu = rates.tensor_hz / (model.tensor_max_mhz * 1e6);
      const double least = (model.tdp_w - model.idle_w) * 1000 * std::min(kMost, kPerOfu * ofu);
      rates.power_mw = std::max(rates.power_mw, static_cast<uint32_t>(least));
    }
  }
}

// Some hosts have a lower power limit that nothing on them reaches: a limit alone slows nobody.
void ActivityBuilder::LimitPower() {
  a_.host_limit_mw_.assign(plan_.hosts.size(), 0);
  std::vector<double> most(plan_.hosts.size(), 0);  // above idle, of what runs there
  for (size_t k = 0; k < jobs_.size(); ++k) {
    const JobInfo& info = jobs_[k];
    if (info.program < 0) continue;
    const Program& program = a_.programs_[info.program];
    double power = 0;
    for (int32_t i = 0; i < program.phases; ++i)
      power = std::max<double>(power, a_.phases_[program.first_phase + i].rates.power_mw);
    for (int i = 0; i < info.placements; ++i) {
      double& host = most[a_.HostOf(LaneOf(info, i))];
      host = std::max(host, power);
    }
  }
  for (size_t h = 0; h < most.size(); ++h) {
    if (Below(Key(seed_, Purpose::kIncident, h, 16ull << 40), 100) >= 12) continue;
    const GpuModel& model = *spec_.clusters[plan_.hosts[h].cluster].model;
    // Noise of samples and GPUs is below a tenth.
    const double needed = model.idle_w * 1.15 + most[h] * 1.1 / 1000;
    const auto limit = static_cast<int32_t>(std::ceil(needed / 25) * 25);
    if (limit < .97 * model.tdp_w) a_.host_limit_mw_[h] = std::max(limit, model.tdp_w / 2) * 1000;
  }
}

// Once the stints are there: what the runs before a change differed by, and the events.
void ActivityBuilder::FinishPlanted() {
  std::ranges::sort(a_.board_errors_, {},
                    [](const BoardError& e) { return std::pair(e.gpu, e.at); });
  std::map<int32_t, const Stint*> first;
  for (const Stint& s : a_.stints_)
    if (s.rank == 0 && (!first.contains(s.job) || s.from < first[s.job]->from)) first[s.job] = &s;
  for (size_t i = 0; i < a_.planted_.size(); ++i) {
    PlantedIncident& p = a_.planted_[i];
    const IncidentGroup group = GroupOf(p.kind);
    if (group == IncidentGroup::kRegression || group == IncidentGroup::kChange) {
      double sum = 0, squares = 0;
      int n = 0;
      for (const int32_t j : runs_of_[p.workflow]) {
        const JobInfo& info = jobs_[j];
        if (plan_.jobs[j].run >= p.run || info.to - info.from < kLeastRun) continue;
        const auto stint = first.find(j);
        if (stint == first.end()) continue;
        double cycles = 0;
        for (const Stint& s : a_.Stints(stint->second->lane))
          if (s.job == j) cycles += static_cast<double>(a_.AtStint(s, s.to).tensor_cycles);
        const double rate = cycles / (info.to - info.from);
        sum += rate;
        squares += rate * rate;
        ++n;
      }
      const double mean = n > 0 ? sum / n : 0;
      if (n > 1 && mean > 0)
        p.scatter = std::sqrt(std::max(0.0, (squares - n * mean * mean) / (n - 1))) / mean;
    }
    TruthEvent e{TruthKind::kPlanted, p.from, p.to, p.job, p.workflow};
    if (p.lanes.size() == 1) e.gpu = a_.GpuOf(p.lanes.front());
    if (group == IncidentGroup::kStraggler || group == IncidentGroup::kBoard ||
        p.kind == IncidentKind::kPowerBrake)
      e.host = a_.HostOf(p.lanes.front());
    e.size = p.size;
    e.planted = static_cast<int32_t>(i);
    a_.events_.push_back(e);
  }
}

}  // namespace flopwatch::simulate
