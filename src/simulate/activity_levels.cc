// Two ways to a level. By hash: a workflow's rank is a hash, so a fleet simulated longer has the
// same past. By sharing (where the distribution of a real cluster is to be met): systematic
// sampling over GPU time: jobs are put in order by a hash of their workflow, each owns the interval
// of ranks that its share of the GPU time spans, and its level is the quantile at that rank. The
// fleet's distribution then equals the wanted one whatever the sizes of the jobs, and runs of one
// workflow are alike.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "simulate/activity_builder.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

// A sample whose window (Seren's samples are 15 s apart) sees both sides of an edge between idle
// and busy shows any share of the level. The measured distribution has such samples in it, so
// phases get what is left of it without them, see WithoutPartial.
constexpr double kSampleWindow = 15;
constexpr double kRunSpread =
    .02;  // ranks by which runs and phases of a workflow differ, either way
constexpr double kLowestMfu = .01, kHighestMfu = .7;  // of a training job
constexpr double kHighestTensor = .8;  // seen over a cluster's half year (Seren: .796)

// Quantiles of a Beta distribution with given mean and standard deviation, by summing its density.
class BetaQuantile {
 public:
  BetaQuantile(double mean, double sd) {
    double nu = mean * (1 - mean) / (sd * sd) - 1;
    double a = mean * nu, b = (1 - mean) * nu, sum = 0;
    // The density is narrow for the paper's steadiest groups: sum around the mean only.
    lo_ = std::max(0.0, mean - 8 * sd);
    hi_ = std::min(1.0, mean + 8 * sd);
    double mode_log = -1e300;
    std::array<double, kSteps> log_density;
    for (int i = 0; i < kSteps; ++i) {
      double x = X(i);
      log_density[i] = (a - 1) * std::log(x) + (b - 1) * std::log1p(-x);
      mode_log = std::max(mode_log, log_density[i]);
    }
    for (int i = 0; i < kSteps; ++i) cumulative_[i] = sum += std::exp(log_density[i] - mode_log);
  }
  double At(double rank) const {
    double wanted = rank * cumulative_.back();
    int i = static_cast<int>(std::upper_bound(cumulative_.begin(), cumulative_.end(), wanted) -
                             cumulative_.begin());
    return X(std::min(i, kSteps - 1));
  }

 private:
  static constexpr int kSteps = 1024;
  double X(int i) const { return lo_ + (hi_ - lo_) * (i + .5) / kSteps; }
  double lo_ = 0, hi_ = 1;
  std::array<double, kSteps> cumulative_;
};

// The rank at which a rising curve reaches y.
double RankOf(std::span<const Point> curve, double y) {
  double lo = 0, hi = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (lo + hi) / 2;
    (Interpolate(curve, middle) < y ? lo : hi) = middle;
  }
  return (lo + hi) / 2;
}

// Ranks of whole samples in a measured distribution of which `partial` (a share of all samples) are
// partial ones: an evenly distributed share of some level. Whole(w) is the rank on the measured
// curve that rank w of the whole samples has, above the share of samples that show nothing.
class WithoutPartial {
 public:
  WithoutPartial(std::span<const Point> curve, double zero_rank, double partial) {
    const double busy = 1 - zero_rank;
    partial = std::clamp(partial, 0.0, busy / 2);
    std::array<double, kLevels> levels;
    for (int i = 0; i < kLevels; ++i)
      levels[i] = Interpolate(curve, zero_rank + busy * (i + .5) / kLevels);
    for (int i = 0; i <= kSteps; ++i) {
      const double rank = busy * i / kSteps, y = Interpolate(curve, zero_rank + rank);
      double below = 0;  // of the partial samples
      for (double level : levels) below += level > y ? y / level : 1;
      const double whole = (rank - partial * below / kLevels) / (busy - partial);
      whole_[i] = std::max(i == 0 ? 0 : whole_[i - 1], whole);
    }
    zero_ = zero_rank;
  }
  double At(double w) const {
    const auto it = std::lower_bound(whole_.begin(), whole_.end(), w);
    const auto i = std::clamp<std::ptrdiff_t>(it - whole_.begin(), 1, kSteps);
    const double a = whole_[i - 1], b = whole_[i];
    const double step = b > a ? std::clamp((w - a) / (b - a), 0.0, 1.0) : 0;
    return zero_ + (1 - zero_) * (static_cast<double>(i - 1) + step) / kSteps;
  }

 private:
  static constexpr int kSteps = 4096, kLevels = 64;
  std::array<double, kSteps + 1> whole_{};
  double zero_ = 0;
};

uint32_t Ppm(double v) { return static_cast<uint32_t>(std::lround(std::clamp(v, 0.0, 1.0) * 1e6)); }

}  // namespace

void ActivityBuilder::SetRates(Phase* p, const GpuModel& model, double tensor, double util,
                               double sm, double clock_mhz, double power_of_tdp) {
  sm = std::max(sm, tensor);
  p->rates.tensor_hz = static_cast<uint32_t>(
      std::lround(tensor * std::min<double>(model.boost_mhz, clock_mhz) * 1e6));
  p->rates.util_ppm = Ppm(util);
  p->rates.sm_ppm = Ppm(sm);
  double power = power_of_tdp >= 0
                     ? power_of_tdp * model.tdp_w - model.idle_w
                     : (model.tdp_w - model.idle_w) *
                           std::min(1.06, .25 * sm + .75 * tensor / (model.loaded_at * .6));
  p->rates.power_mw = static_cast<uint32_t>(std::max(0.0, power) * 1000);
}

void ActivityBuilder::SetHang(Phase* p, const Job& job) {
  const GpuModel& model = Model(job);
  p->rates = {0, 1'000'000, 900'000, 0};
  double watts =
      (90 + 30 * Unit(Key(seed_, Purpose::kHang, p->start, workflows_[job.workflow].key))) *
      model.tdp_w / 400.0;
  p->rates.power_mw = static_cast<uint32_t>(std::max(10.0, watts - model.idle_w) * 1000);
}

void ActivityBuilder::Rank(std::vector<Ranked>* list) {
  std::stable_sort(list->begin(), list->end(),
                   [](const Ranked& x, const Ranked& y) { return x.key < y.key; });
  double total = 0, sum = 0;
  for (const Ranked& r : *list) total += r.weight;
  for (Ranked& r : *list) {
    r.lo = sum / total;
    r.hi = (sum += r.weight) / total;
  }
}

// Where phase i lies within its job's ranks lo..hi: scattered evenly.
double ActivityBuilder::PhaseRank(int32_t job, int32_t i, double lo, double hi) const {
  double shift = Unit(Key(seed_, Purpose::kLevel, job, 3));
  double x = (i + shift) * 0.6180339887498949;
  return lo + (hi - lo) * (x - std::floor(x));
}

double ActivityBuilder::ReportingSeconds() const {
  double seconds = static_cast<double>(plan_.gpus) * plan_.horizon;
  for (const HostPeriod& p : plan_.periods)
    if (!Answers(p.condition))
      seconds -= static_cast<double>(p.to - p.from) * plan_.hosts[p.host].gpus;
  return seconds;
}

double ActivityBuilder::RankBySharing(std::vector<Ranked>* list, std::vector<Ranked>* tensor) {
  for (Ranked& r : *list) {
    const Job& job = plan_.jobs[r.job];
    // Runs of a workflow side by side; small jobs a little lower: development idles more.
    r.key = Unit(Key(seed_, Purpose::kLevel, workflows_[job.workflow].key)) *
                (job.gpus <= 8 ? .75 : 1) +
            Unit(Key(seed_, Purpose::kLevel, r.job, 1)) * 1e-9;
  }
  Rank(list);
  double busy_weight = 0;
  for (const Ranked& r : *list) busy_weight += r.weight;
  // Half of the partial samples lie in time that is idle.
  const double wanted = spec_.levels.busy_share_of_reporting * ReportingSeconds() - hang_weight_ -
                        edges_ * kSampleWindow / 2;
  const double idle = std::max(0.0, 1 - wanted / busy_weight);
  // Tensor activity has an order of its own, near the first one: a job that keeps the SMs busy need
  // not use the tensor cores as much.
  for (const Ranked& r : *list) {
    const double busy =
        std::clamp((r.hi - std::max(r.lo, idle)) / std::max(1e-12, r.hi - r.lo), 0.0, 1.0);
    if (busy <= 0) continue;
    const double middle = (r.lo + r.hi) / 2;
    const double noise =
        Normal(Key(seed_, Purpose::kLevel, workflows_[plan_.jobs[r.job].workflow].key, 2));
    // Little freedom near the bottom, where the SMs do almost nothing.
    const double freedom = std::min(1.0, std::max(0.0, (middle - idle) / (1 - idle)) / .3);
    tensor->push_back({r.job, middle + .1 * freedom * freedom * noise, r.weight * busy});
  }
  Rank(tensor);
  // Runs after a change stand where their new level is; dealt out again, the fleet's distribution
  // stays the wanted one.
  const auto level_at = [&](double rank) {
    return spec_.levels.zero_rank + (1 - spec_.levels.zero_rank) * rank;
  };
  for (Ranked& r : *tensor) {
    const double middle = (r.lo + r.hi) / 2, factor = jobs_[r.job].tensor_factor;
    const double level = factor * Interpolate(spec_.levels.tensor_active, level_at(middle));
    r.key = factor == 1 ? middle
                        : (RankOf(spec_.levels.tensor_active, level) - spec_.levels.zero_rank) /
                              (1 - spec_.levels.zero_rank);
  }
  Rank(tensor);
  return idle;
}

double ActivityBuilder::RankByHash(std::vector<Ranked>* list, std::vector<Ranked>* tensor) {
  const double idle = spec_.levels.idle_share_of_allocated;
  for (Ranked& r : *list) {
    const uint64_t key = workflows_[plan_.jobs[r.job].workflow].key;
    const double u = Unit(Key(seed_, Purpose::kLevel, key));
    r.lo = std::max(0.0, u - kRunSpread);
    r.hi = std::min(1.0, u + kRunSpread);
    double t = (u - idle) / (1 - idle) + .1 * Normal(Key(seed_, Purpose::kLevel, key, 2));
    t = std::abs(t);  // reflected at both ends
    if (t > 1) t = std::max(0.0, 2 - t);
    tensor->push_back(
        {r.job, 0, r.weight, std::max(0.0, t - kRunSpread), std::min(1.0, t + kRunSpread)});
  }
  return idle;
}

void ActivityBuilder::AssignMemory() {
  const LevelCurves& curves = spec_.levels;
  std::vector<Ranked> list;
  double allocated = 0;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    const double held = static_cast<double>(jobs_[j].to - jobs_[j].from) * job.gpus;
    if (held <= 0) continue;
    allocated += held;
    const double u = Unit(Key(seed_, Purpose::kMemory, workflows_[job.workflow].key));
    list.push_back({static_cast<int32_t>(j), u, held, u, u});
  }
  double empty = 0;
  if (curves.busy_share_of_reporting > 0) {
    Rank(&list);
    empty = std::max(0.0, 1 - allocated / ReportingSeconds());
  }
  for (const Ranked& r : list) {
    const Job& job = plan_.jobs[r.job];
    const double u = empty + (1 - empty) * (r.lo + r.hi) / 2;
    const double share = job.kind == JobKind::kService ? .9 : Interpolate(curves.fb_used, u);
    const MigProfile* mig = a_.MigOf(LaneOf(jobs_[r.job], 0));
    a_.fb_used_mib_[r.job] =
        static_cast<int32_t>(share * (mig != nullptr ? mig->fb_mib : Model(job).fb_total_mib));
  }
}

void ActivityBuilder::AssignLevels() {
  const LevelCurves& curves = spec_.levels;
  job_clock_.assign(jobs_.size(), 0);
  AssignMemory();
  AssignSessions();
  std::vector<Ranked> list, tensor;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    if (job.kind == JobKind::kService || job.kind == JobKind::kSession) continue;
    if (jobs_[j].program >= 0) list.push_back({static_cast<int32_t>(j), 0, jobs_[j].busy_weight});
  }
  if (list.empty()) return;
  const bool dealt = curves.busy_share_of_reporting > 0;
  const double idle = dealt ? RankBySharing(&list, &tensor) : RankByHash(&list, &tensor);
  const double partial = dealt ? edges_ * kSampleWindow / ReportingSeconds() : 0;
  const auto sm_ranks = std::make_unique<WithoutPartial>(curves.util, curves.zero_rank, partial);
  const auto tensor_ranks =
      std::make_unique<WithoutPartial>(curves.tensor_active, curves.zero_rank, partial);
  std::vector<std::pair<double, double>> tensor_rank(jobs_.size(), {0, 0});
  for (const Ranked& r : tensor) tensor_rank[r.job] = {r.lo, r.hi};
  const std::vector<Claim> claims = Claims(list);

  for (const Ranked& r : list) {
    const Job& job = plan_.jobs[r.job];
    const JobInfo& info = jobs_[r.job];
    const GpuModel& model = Model(job);
    const Program& program = a_.programs_[info.program];
    auto [tlo, thi] = tensor_rank[r.job];
    const PlantedWorkflow* planted = PlantedOf(job);
    const double given =
        planted != nullptr ? LevelOfRun(*planted, seed_, job.run, job.submit) : claims[r.job].ofu;
    double nominal =
        given > 0 ? given : Interpolate(curves.tensor_active, tensor_ranks->At((tlo + thi) / 2));
    const double changed = dealt ? 1 : info.tensor_factor;  // dealt levels have the change in them
    double clock = JobClockMhz(model, nominal * changed);
    for (int32_t i = 0; i < program.phases; ++i) {
      Phase& p = a_.phases_[program.first_phase + i];
      if (p.kind == PhaseKind::kHang) SetHang(&p, job);
      if (p.kind != PhaseKind::kBusy) continue;
      double v = PhaseRank(r.job, i, r.lo, r.hi);
      if (planted != nullptr) {
        v = idle + (1 - idle) * (.4 + .55 * v);  // its jobs are at work
      } else if (v < idle) {
        p.kind = PhaseKind::kGap;
        continue;
      }
      double u = sm_ranks->At((v - idle) / (1 - idle));
      double tv = tensor_ranks->At(PhaseRank(r.job, i, tlo, thi));
      double level = given;
      if (level > 0) {
        // What is given is OFU, not tensor activity; it varies a few per cent from phase to phase.
        double wobble = 1 + .04 * (Unit(Key(seed_, Purpose::kLevel, r.job, 100 + i)) - .5);
        level = level * wobble * model.tensor_max_mhz / std::min<double>(model.boost_mhz, clock);
      } else {
        level = Interpolate(curves.tensor_active, tv);
      }
      double power = curves.power_of_tdp.empty() ? -1 : Interpolate(curves.power_of_tdp, tv);
      double tensor_factor = changed * ThrottleFactor(r.job, info.from + p.start);
      // The rank with the lowest clock shows the highest activity: leave it room.
      level = std::min(level * tensor_factor,
                       kHighestTensor / (job.kind == JobKind::kSynchronous ? info.slowest : 1));
      SetRates(&p, model, level, Interpolate(curves.util, u), Interpolate(curves.sm_active, u),
               clock, power);
      if (odd_jobs_ && planted == nullptr)
        SetOddRates(&p, model, workflows_[job.workflow].key, clock);
    }
    job_clock_[r.job] = clock;
  }
  ReportMfu(claims);
}

// Work without tensor cores at full duty and high power; its workflows differ in both.
void ActivityBuilder::SetOddRates(Phase* p, const GpuModel& model, uint64_t workflow_key,
                                  double clock_mhz) {
  const OddJob odd = OddJobOf(seed_, workflow_key);
  if (odd == OddJob::kNone) return;
  const double power = .55 + .45 * Unit(Key(seed_, Purpose::kOddJob, workflow_key, 1));
  const double sm = .6 + .38 * Unit(Key(seed_, Purpose::kOddJob, workflow_key, 2));
  SetRates(p, model, odd == OddJob::kMemory ? .004 : 0, .998, sm, clock_mhz, power);
}

double ActivityBuilder::ThrottleFactor(int32_t job, int32_t t) const {
  for (auto [it, end] = throttles_.equal_range(job); it != end; ++it)
    if (t >= it->second.from && t < it->second.to) return kThrottlePercent / 100.0;
  return 1;
}

// The LLM preset gives what a job's application reports by its size, alike for runs of one
// workflow, and how much of it the counters see.
std::vector<ActivityBuilder::Claim> ActivityBuilder::Claims(const std::vector<Ranked>& list) const {
  std::vector<Claim> claims(jobs_.size());
  std::vector<std::array<std::optional<BetaQuantile>, 2>> beta(spec_.sizes.size());
  for (const Ranked& r : list) {
    const Workflow& workflow = workflows_[plan_.jobs[r.job].workflow];
    const SizeClass& size = spec_.sizes[workflow.size_class];
    if (size.mfu_mean <= 0) continue;
    Claim& claim = claims[r.job];
    // Spread evenly over the workflows of a class, users who submit most first (Roberts' R2
    // sequence): a few of them make up most of a class.
    const uint64_t h =
        Key(seed_, Purpose::kLevel, workflow.size_class, (1 << 20) + workflow.cluster);
    const auto spread = [&](uint64_t start, double step) {
      const double x = Unit(start) + (2 * workflow.user + workflow.variant) * step;
      return x - std::floor(x);
    };
    const bool miscounted = spread(Mix(h), 0.5698402909980532) < size.miscounted_share;
    auto& quantile = beta[workflow.size_class][miscounted ? 1 : 0];
    if (!quantile) {
      if (miscounted && size.miscounted_mean > 0)
        quantile.emplace(size.miscounted_mean, size.miscounted_sd);
      else
        quantile.emplace(size.mfu_mean, size.mfu_sd);
    }
    const double rank = spread(h, 0.7548776662466927) +
                        kRunSpread * 2 * (Unit(Key(seed_, Purpose::kLevel, r.job, 5)) - .5);
    // The ends of a Beta distribution are no training jobs.
    claim.mfu = std::clamp(quantile->At(std::clamp(rank, 0.0, 1.0)), kLowestMfu, kHighestMfu);
    if (miscounted) {
      claim.inflation = size.miscounted_factor;
      claim.ofu = claim.mfu / claim.inflation;
    } else if (Unit(Mix(h + 17 + 2 * workflow.user + workflow.variant)) < size.recompute_share) {
      // The forward runs twice, and no MFU counts that (docs/divergence.md): 1.27 to 1.33, padded.
      claim.full_recompute = true;
      claim.mfu = std::min(claim.mfu, kHighestMfu / 1.4);
      claim.ofu = claim.mfu * 1.3 * 1.04 * (1 + .02 * Normal(Key(seed_, Purpose::kJob, r.job, 12)));
    } else {
      const double more = 1 + size.overstated_cv * Normal(Key(seed_, Purpose::kJob, r.job, 11));
      claim.ofu = claim.mfu * (1 - std::clamp(size.overstated * std::max(0.0, more), -.9, .9));
    }
    claim.ofu = std::clamp(claim.ofu, .004, .9);
    if (const PlantedWorkflow* planted = PlantedOf(plan_.jobs[r.job])) {
      const Job& job = plan_.jobs[r.job];
      claim = {};
      claim.ofu = LevelOfRun(*planted, seed_, job.run, job.submit);
      claim.mfu = std::min(kHighestMfu, claim.ofu / (1 - std::clamp(size.overstated, -.3, .3)));
    }
  }
  return claims;
}

void ActivityBuilder::ReportMfu(const std::vector<Claim>& claims) {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    const Claim& claim = claims[j];
    if (claim.mfu <= 0 || job.gpus < 8) continue;
    // A job that never computes reports nothing.
    const Program& program = a_.programs_[jobs_[j].program];
    const auto first = a_.phases_.begin() + program.first_phase;
    if (std::none_of(first, first + program.phases,
                     [](const Phase& p) { return p.kind == PhaseKind::kBusy; }))
      continue;
    if (claim.inflation > 1)
      a_.events_.push_back({TruthKind::kInflatedMfu, jobs_[j].from, jobs_[j].to,
                            static_cast<int32_t>(j), job.workflow, -1, -1, claim.inflation});
    // A slower program reports less. One that went from mixed precision to BF16 does the same work
    // as before, divided by a lower peak.
    Reported& out = a_.reported_[j];
    out.mfu = static_cast<float>(std::min(.95, claim.mfu * jobs_[j].tensor_factor));
    out.per_ofu = static_cast<float>(claim.mfu / claim.ofu);
    out.inflation = static_cast<float>(claim.inflation);
    out.full_recompute = claim.full_recompute;
    out.mixed_precision = jobs_[j].tensor_factor == 1 && MixedAtFirst(job);
    if (const PlantedWorkflow* planted = PlantedOf(job)) {
      const bool changed = IsChanged(*planted, job.submit);
      out.mixed_precision = changed ? planted->mixed_after : planted->mixed_first;
      out.usual_mfu = static_cast<float>(planted->level * out.per_ofu);
      if (changed) out.model = planted->model_after;
    }
  }
}

bool ActivityBuilder::MixedAtFirst(const Job& job) const {
  if (workflows_[job.workflow].planted >= 0) return false;
  const auto change = WorkflowChange(seed_, workflows_[job.workflow].key);
  return change && *change > 1 && Model(job).fp8;
}

void ActivityBuilder::AssignSessions() {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    if (job.kind != JobKind::kSession || jobs_[j].program < 0) continue;
    const Program& program = a_.programs_[jobs_[j].program];
    for (int32_t i = 0; i < program.phases; ++i) {
      Phase& p = a_.phases_[program.first_phase + i];
      if (p.kind != PhaseKind::kBusy) continue;
      Draws draws(Key(seed_, Purpose::kLevel, j, 50 + i));
      double util = .2 + .75 * draws.Unit(), sm = util * (.4 + .5 * draws.Unit());
      double tensor = sm * .5 * draws.Unit();
      SetRates(&p, Model(job), tensor, util, sm, Model(job).boost_mhz, -1);
    }
  }
}

}  // namespace flopwatch::simulate
