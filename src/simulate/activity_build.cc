// What happens to whom, and the phases of every job's program.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulate/activity_builder.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr double kGapShare = 0.05;  // of a batch job's time
constexpr int32_t kLongestPhase = 7200;
// Where levels are dealt out over the fleet's time, a phase of the largest job must be small.
constexpr int32_t kLongestDealtPhase = 1200;
constexpr int32_t kTrafficSpread = 1200;  // seconds that services sharing a pattern are apart
constexpr int kTrafficPrograms = 48;      // per cluster; services share them, shifted by minutes
constexpr double kChangedShare = 0.08;    // of the workflows with enough runs
constexpr double kHangShare = 0.015;      // of synchronous jobs longer than two hours
constexpr double kThrottleMeanGap = 300.0 * 7 * 86400;  // seconds of one GPU

}  // namespace

Activity::Activity(const PresetSpec* spec, const Plan* plan, const std::vector<Workflow>* workflows,
                   uint64_t seed, bool incidents, const Planting* planting)
    : spec_(spec), plan_(plan), seed_(seed) {
  ActivityBuilder(this, *spec, *plan, *workflows, seed, incidents,
                  planting != nullptr && planting->any() ? planting : nullptr,
                  planting != nullptr && planting->odd_jobs)
      .Build();
}

void ActivityBuilder::Build() {
  a_.host_of_gpu_.resize(plan_.gpus);
  a_.traits_.resize(plan_.gpus);
  for (size_t h = 0; h < plan_.hosts.size(); ++h)
    for (int g = 0; g < plan_.hosts[h].gpus; ++g) {
      int32_t gpu = plan_.hosts[h].first_gpu + g;
      a_.host_of_gpu_[gpu] = static_cast<int32_t>(h);
      a_.traits_[gpu] = TraitsOf(seed_, gpu, *spec_.clusters[plan_.hosts[h].cluster].model);
    }
  jobs_.resize(plan_.jobs.size());
  a_.fb_used_mib_.resize(plan_.jobs.size());
  a_.reported_.resize(plan_.jobs.size());
  SortPlacements();
  MarkUnused();
  if (incidents_) PlanThrottles();
  PlanWorkflowChanges();
  for (size_t j = 0; j < plan_.jobs.size(); ++j) Layout(static_cast<int32_t>(j));
  AssignLevels();
  if (planting_ != nullptr) PlantIncidents();
  for (Program& p : a_.programs_) Accumulate(p);
  MakeStints();
  if (planting_ != nullptr) FinishPlanted();
  PlanEvents();
}

void ActivityBuilder::SortPlacements() {
  by_job_.resize(plan_.placements.size());
  std::iota(by_job_.begin(), by_job_.end(), 0);
  std::ranges::stable_sort(by_job_, [&](int32_t x, int32_t y) {
    const Placement &p = plan_.placements[x], &q = plan_.placements[y];
    return std::tie(p.job, p.rank) < std::tie(q.job, q.rank);
  });
  for (size_t i = 0; i < by_job_.size(); ++i) {
    JobInfo& info = jobs_[plan_.placements[by_job_[i]].job];
    if (info.placements++ == 0) info.first_placement = static_cast<int32_t>(i);
  }
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    jobs_[j].from = std::max(0, job.start == kNever ? 0 : job.start);
    jobs_[j].to = job.start == kNever ? 0 : std::min(job.end, plan_.horizon);
    for (int i = 0; i < jobs_[j].placements; ++i) {
      int32_t gpu = a_.GpuOf(LaneOf(jobs_[j], i));
      float slow = a_.traits_[gpu].slow();
      if (slow > jobs_[j].slowest) jobs_[j].slowest = slow, jobs_[j].slowest_gpu = gpu;
    }
  }
}

// Some jobs never touch k of the n GPUs that they hold of a node.
void ActivityBuilder::MarkUnused() {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    JobInfo& info = jobs_[j];
    if (job.gpus < 2 || job.gpus > 8 || info.to <= info.from) continue;
    if (job.kind != JobKind::kSynchronous && job.kind != JobKind::kIndependent) continue;
    if (workflows_[job.workflow].planted >= 0) continue;
    uint64_t h = Key(seed_, Purpose::kJob, j, 7);
    if (Unit(h) >= .03) continue;
    info.unused = 1 + static_cast<int32_t>(Below(Mix(h), job.gpus - 1));
    a_.events_.push_back({TruthKind::kIdleGpus, info.from, info.to, static_cast<int32_t>(j),
                          job.workflow, -1, -1, static_cast<double>(info.unused)});
  }
}

void ActivityBuilder::PlanThrottles() {
  for (int32_t gpu = 0; gpu < plan_.gpus; ++gpu) {
    Draws draws(Key(seed_, Purpose::kThrottle, gpu));
    for (double t = draws.Exponential(kThrottleMeanGap); t < plan_.horizon;
         t += draws.Exponential(kThrottleMeanGap))
      throttle_at_.push_back(
          {gpu, static_cast<int32_t>(t), static_cast<int32_t>(t + 600 + draws.Unit() * 3000)});
  }
  // This finds the job each one meets; those that meet none have no effect.
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    if (job.kind != JobKind::kSynchronous && job.kind != JobKind::kSingle) continue;
    if (job.suspend_from != kNever) continue;
    for (int i = 0; i < jobs_[j].placements - jobs_[j].unused; ++i) {
      int32_t lane = LaneOf(jobs_[j], i);
      auto it = std::ranges::lower_bound(throttle_at_, lane, {}, &Throttle::lane);
      for (; it != throttle_at_.end() && it->lane == lane; ++it) {
        int32_t from = std::max(it->from, jobs_[j].from), to = std::min(it->to, jobs_[j].to);
        if (from + 60 > to) continue;
        throttles_.emplace(static_cast<int32_t>(j), Throttle{lane, from, to});
        a_.events_.push_back({TruthKind::kThrottle, from, to, static_cast<int32_t>(j), job.workflow,
                              lane, a_.host_of_gpu_[lane], kThrottlePercent / 100.0});
      }
    }
  }
}

std::optional<double> WorkflowChange(uint64_t seed, uint64_t workflow) {
  constexpr double kFactors[] = {1 / 2.5, .9, .95, kPrecisionChange};
  const uint64_t h = Key(seed, Purpose::kRegression, workflow);
  if (Unit(h) >= kChangedShare) return std::nullopt;
  return kFactors[Below(Mix(h + 1), 4)];
}

// From some run on, a workflow's tensor work drops (2.5 times as in the OFU paper, VI-A, 10 %, 5 %)
// or, after a change of precision, rises at equal throughput.
void ActivityBuilder::PlanWorkflowChanges() {
  std::map<int32_t, int32_t> first;  // workflow -> its first changed job
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    const Workflow& workflow = workflows_[job.workflow];
    const uint64_t h = Key(seed_, Purpose::kRegression, workflow.key);
    const std::optional<double> change = WorkflowChange(seed_, workflow.key);
    if (workflow.size_class < 0 || !change || workflow.planted >= 0) continue;
    if (job.run < 3 + static_cast<int32_t>(Below(Mix(h), 8))) continue;
    if (jobs_[j].to <= jobs_[j].from) continue;
    jobs_[j].tensor_factor = *change;
    first.try_emplace(job.workflow, static_cast<int32_t>(j));
  }
  for (auto [workflow, j] : first) {
    const double factor = jobs_[j].tensor_factor;
    a_.events_.push_back({factor < 1 ? TruthKind::kRegression : TruthKind::kPrecisionChange,
                          jobs_[j].from, plan_.horizon, j, workflow, -1, -1, factor});
  }
}

void ActivityBuilder::AddPhase(int32_t start, PhaseKind kind) {
  if (a_.phases_.size() > static_cast<size_t>(layout_first_) && a_.phases_.back().start == start) {
    a_.phases_.back().kind = kind;
    return;
  }
  Phase p;
  p.start = start;
  p.kind = kind;
  a_.phases_.push_back(p);
}

int32_t ActivityBuilder::CloseProgram(int32_t length) {
  Program p;
  p.first_phase = layout_first_;
  p.phases = static_cast<int32_t>(a_.phases_.size()) - layout_first_;
  p.length = length;
  a_.programs_.push_back(p);
  return static_cast<int32_t>(a_.programs_.size()) - 1;
}

void ActivityBuilder::Layout(int32_t j) {
  const Job& job = plan_.jobs[j];
  JobInfo& info = jobs_[j];
  const int32_t window = info.to - info.from;
  if (window <= 0) return;
  if (job.kind == JobKind::kService) return LayoutService(job, &info);
  if (IsRecurring(job)) return LayoutRecurring(job, &info);
  layout_first_ = static_cast<int32_t>(a_.phases_.size());
  Draws draws(Key(seed_, Purpose::kPhase, j));
  // What a job does must not depend on where the simulation or a failing host cuts it off: phases
  // follow from the run time it was submitted with, and are written down as far as they are needed.
  const int32_t planned = job.start + job.duration - info.from;
  if (job.kind == JobKind::kSession) {
    // A person at a notebook works in bursts of minutes between longer pauses.
    int32_t t = 0;
    for (bool busy = false; t < window; busy = !busy) {
      AddPhase(t, busy ? PhaseKind::kBusy : PhaseKind::kGap);
      t += 60 + static_cast<int32_t>(draws.Exponential(busy ? 400 : 700));
    }
    info.program = CloseProgram(planned);
    return;
  }
  const int32_t spread = job.kind == JobKind::kIndependent ? std::min(kRankSpread, planned) : 0;
  const int32_t until = std::min(planned, window + spread);
  std::vector<std::pair<int32_t, PhaseKind>> cuts;
  const int32_t started = job.start >= 0 ? std::min(120, planned / 20) : 0;
  if (started > 0) cuts.emplace_back(0, PhaseKind::kGap);
  cuts.emplace_back(started, PhaseKind::kBusy);
  // Gaps of 5 to 60 minutes come at a steady rhythm with a random phase.
  const double gap = std::clamp(draws.LogNormal(600, .6), 300.0, 3600.0), period = gap / kGapShare;
  double next = started + draws.Unit() * period;
  const int32_t longest =
      spec_.levels.busy_share_of_reporting > 0 ? kLongestDealtPhase : kLongestPhase;
  for (int32_t busy = started; busy < until; next += period) {
    const int32_t at = static_cast<int32_t>(std::min<double>(next, planned));
    const int pieces = (at - busy + longest - 1) / longest;
    for (int i = 1; i < pieces; ++i) {
      int32_t piece = busy + static_cast<int32_t>(static_cast<int64_t>(at - busy) * i / pieces);
      if (piece < until) cuts.emplace_back(piece, PhaseKind::kBusy);
    }
    if (at >= until) break;
    cuts.emplace_back(at, PhaseKind::kGap);
    busy = at + static_cast<int32_t>(gap);
    if (busy < until) cuts.emplace_back(busy, PhaseKind::kBusy);
  }
  for (auto [it, end] = throttles_.equal_range(j); it != end; ++it) {
    for (int32_t t : {it->second.from - info.from, it->second.to - info.from}) {
      if (t <= 0 || t >= window) continue;
      auto at = std::ranges::upper_bound(cuts, t, {}, [](const auto& c) { return c.first; });
      PhaseKind kind = (at - 1)->second;
      cuts.insert(at, {t, kind});
    }
  }
  if (incidents_ && job.kind == JobKind::kSynchronous && planned > 7200 &&
      job.suspend_from == kNever && Unit(Key(seed_, Purpose::kHang, j)) < kHangShare) {
    const int32_t at = static_cast<int32_t>(planned * (.5 + .45 * draws.Unit()));
    if (at < window) {
      std::erase_if(cuts, [&](const auto& c) { return c.first >= at; });
      cuts.emplace_back(at, PhaseKind::kHang);
      a_.events_.push_back({TruthKind::kHang, info.from + at, info.to, j, job.workflow, -1, -1,
                            static_cast<double>(job.gpus)});
    }
  }
  for (auto [t, kind] : cuts) AddPhase(t, kind);
  info.program = CloseProgram(planned);
  const int32_t active = job.gpus - info.unused;
  const Program& p = a_.programs_.back();
  for (int32_t i = 0; i < p.phases; ++i) {
    const Phase& phase = a_.phases_[p.first_phase + i];
    const int32_t seconds = std::min(window - phase.start, PhaseLength(p, i));
    if (seconds <= 0) break;
    const PhaseKind before = i == 0 ? PhaseKind::kGap : a_.phases_[p.first_phase + i - 1].kind;
    if (phase.kind != before) edges_ += active;
    if (phase.kind == PhaseKind::kGap) continue;
    (phase.kind == PhaseKind::kBusy ? info.busy_weight : hang_weight_) +=
        static_cast<double>(seconds) * active;
  }
}

// Requests come and go: by day half of the minutes see none, by night most (Alibaba GenTD26: p95 of
// utilisation 37 %).
void ActivityBuilder::LayoutService(const Job& job, JobInfo* info) {
  uint64_t h = Key(seed_, Purpose::kService, workflows_[job.workflow].key, 1 << 20);
  int index = static_cast<int>(Below(h, kTrafficPrograms));
  auto [it, fresh] = traffic_.try_emplace({job.cluster, index}, -1);
  if (fresh) {
    layout_first_ = static_cast<int32_t>(a_.phases_.size());
    Draws draws(Key(seed_, Purpose::kPhase, 1'000'000'007ull + index, job.cluster));
    const GpuModel& model = Model(job);
    int32_t t = 0;
    while (t < plan_.horizon + kTrafficSpread) {
      double share = std::clamp(kHourShape[(t / 3600) % 24] * .4, .05, .7);
      double on = 40 + draws.Exponential(80), off = on * (1 - share) / share * (.5 + draws.Unit());
      AddPhase(t, PhaseKind::kBusy);
      double util = std::min(.97, draws.LogNormal(.16, .78));
      double tensor = util * (.04 + .14 * draws.Unit());
      SetRates(&a_.phases_.back(), model, tensor, util, util * .6, JobClockMhz(model, tensor), -1);
      t += static_cast<int32_t>(on);
      AddPhase(t, PhaseKind::kGap);
      t += static_cast<int32_t>(off) + 1;
    }
    it->second = CloseProgram(plan_.horizon + kTrafficSpread);
  }
  info->program = it->second;
  info->program_offset = static_cast<int32_t>(Below(Mix(h), kTrafficSpread));
}

void ActivityBuilder::PlanSchedulerEvents() {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    const auto add = [&](TruthKind kind, int32_t from, int32_t to) {
      a_.events_.push_back({kind, from, to, static_cast<int32_t>(j), job.workflow, -1, -1,
                            static_cast<double>(job.gpus)});
    };
    if (job.previous >= 0) add(TruthKind::kRequeue, job.submit, job.submit);
    if (job.state == JobState::kPreempted) add(TruthKind::kPreemption, job.end, job.end);
    if (job.suspend_from < plan_.horizon)
      add(TruthKind::kSuspension, job.suspend_from, std::min(job.suspend_to, plan_.horizon));
  }
  for (size_t r = 0; r < plan_.reservations.size(); ++r) {
    const Reservation& reservation = plan_.reservations[r];
    double gpus = 0;
    for (int32_t host : reservation.hosts) gpus += plan_.hosts[host].gpus;
    a_.events_.push_back(
        {reservation.maintenance ? TruthKind::kMaintenance : TruthKind::kReservation,
         reservation.from, std::min(reservation.to, plan_.horizon), -1, -1, -1, -1, gpus,
         static_cast<int32_t>(r)});
  }
}

void ActivityBuilder::PlanEvents() {
  for (const HostPeriod& p : plan_.periods)
    if (p.condition == HostCondition::kDown)
      a_.events_.push_back({TruthKind::kNodeDown, p.from, p.to, -1, -1, -1, p.host,
                            double{1} * plan_.hosts[p.host].gpus});
  for (const GpuSwap& s : plan_.swaps)
    a_.events_.push_back(
        {TruthKind::kGpuSwap, s.at, s.at, -1, -1, s.gpu, a_.host_of_gpu_[s.gpu], 1});
  for (const XidEvent& x : plan_.xids)
    a_.events_.push_back({TruthKind::kXidDrain, x.at, x.at, -1, -1, x.gpu, a_.host_of_gpu_[x.gpu],
                          double{1} * x.code});
  PlanSchedulerEvents();
  std::ranges::stable_sort(a_.events_, {}, &TruthEvent::from);
}

}  // namespace flopwatch::simulate
