// Two ways to a level. By hash: a workflow's rank is a hash, so a fleet simulated longer has the
// same past. By sharing (where the distribution of a real cluster is to be met): systematic
// sampling over GPU time: jobs are put in order by a hash of their workflow, each owns the interval
// of ranks that its share of the GPU time spans, and its level is the quantile at that rank. The
// fleet's distribution then equals the wanted one whatever the sizes of the jobs, and runs of one
// workflow are alike.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "simulate/activity_builder.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

// Samples whose window sees both sides of an edge are neither idle nor busy, so the idle time must
// be a little larger than the share of zero samples: found to fit with a third of a window an edge
// (Seren's samples are 15 s apart).
constexpr double kSampleWindow = 15;
constexpr double kRunSpread =
    .02;  // ranks by which runs and phases of a workflow differ, either way
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
    if (p.condition != HostCondition::kDraining)
      seconds -= static_cast<double>(p.to - p.from) * plan_.hosts[p.host].gpus;
  return seconds;
}

double ActivityBuilder::RankBySharing(std::vector<Ranked>* list, std::vector<Ranked>* tensor) {
  for (Ranked& r : *list) {
    const Job& job = plan_.jobs[r.job];
    // Runs of a workflow side by side; small jobs a little lower: development idles more than
    // production.
    r.key = Unit(Key(seed_, Purpose::kLevel, workflows_[job.workflow].key)) *
                (job.gpus <= 8 ? .75 : 1) +
            Unit(Key(seed_, Purpose::kLevel, r.job, 1)) * 1e-9;
  }
  Rank(list);
  double busy_weight = 0;
  for (const Ranked& r : *list) busy_weight += r.weight;
  const double wanted = spec_.levels.busy_share_of_reporting * ReportingSeconds() - hang_weight_ -
                        edges_ * kSampleWindow / 3;
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
  const double idle = curves.busy_share_of_reporting > 0 ? RankBySharing(&list, &tensor)
                                                         : RankByHash(&list, &tensor);
  std::vector<std::pair<double, double>> tensor_rank(jobs_.size(), {0, 0});
  for (const Ranked& r : tensor) tensor_rank[r.job] = {r.lo, r.hi};
  const std::vector<double> direct = DirectLevels(list);

  for (const Ranked& r : list) {
    const Job& job = plan_.jobs[r.job];
    const JobInfo& info = jobs_[r.job];
    const GpuModel& model = Model(job);
    const Program& program = a_.programs_[info.program];
    auto [tlo, thi] = tensor_rank[r.job];
    double nominal = direct[r.job] > 0
                         ? direct[r.job]
                         : Interpolate(curves.tensor_active,
                                       curves.zero_rank + (1 - curves.zero_rank) * (tlo + thi) / 2);
    double clock = JobClockMhz(model, nominal * info.tensor_factor);
    for (int32_t i = 0; i < program.phases; ++i) {
      Phase& p = a_.phases_[program.first_phase + i];
      if (p.kind == PhaseKind::kHang) SetHang(&p, job);
      if (p.kind != PhaseKind::kBusy) continue;
      double v = PhaseRank(r.job, i, r.lo, r.hi);
      if (v < idle) {
        p.kind = PhaseKind::kGap;
        continue;
      }
      double u = curves.zero_rank + (1 - curves.zero_rank) * (v - idle) / (1 - idle);
      double tv = curves.zero_rank + (1 - curves.zero_rank) * PhaseRank(r.job, i, tlo, thi);
      double level = direct[r.job];
      if (level > 0) {
        // OFU given, not tensor activity; a few per cent from phase to phase.
        double wobble = 1 + .04 * (Unit(Key(seed_, Purpose::kLevel, r.job, 100 + i)) - .5);
        level = level * wobble * model.tensor_max_mhz / std::min<double>(model.boost_mhz, clock);
      } else {
        level = Interpolate(curves.tensor_active, tv);
      }
      double power = curves.power_of_tdp.empty() ? -1 : Interpolate(curves.power_of_tdp, tv);
      double tensor_factor = info.tensor_factor * ThrottleFactor(r.job, info.from + p.start);
      // The rank with the lowest clock shows the highest activity: leave it room.
      level = std::min(level * tensor_factor,
                       kHighestTensor / (job.kind == JobKind::kSynchronous ? info.slowest : 1));
      SetRates(&p, model, level, Interpolate(curves.util, u), Interpolate(curves.sm_active, u),
               clock, power);
    }
    job_clock_[r.job] = clock;
  }
  ReportMfu(direct);
}

double ActivityBuilder::ThrottleFactor(int32_t job, int32_t t) const {
  for (auto [it, end] = throttles_.equal_range(job); it != end; ++it)
    if (t >= it->second.from && t < it->second.to) return kThrottlePercent / 100.0;
  return 1;
}

// The LLM preset gives the OFU of a job by its size, alike for runs of one workflow. 0 = not given.
std::vector<double> ActivityBuilder::DirectLevels(const std::vector<Ranked>& list) {
  std::vector<double> level(jobs_.size(), 0);
  std::vector<std::optional<BetaQuantile>> beta(spec_.sizes.size());
  for (const Ranked& r : list) {
    const Workflow& workflow = workflows_[plan_.jobs[r.job].workflow];
    const SizeClass& size = spec_.sizes[workflow.size_class];
    if (size.ofu_mean <= 0) continue;
    auto& quantile = beta[workflow.size_class];
    if (!quantile) quantile.emplace(size.ofu_mean, size.ofu_sd);
    double rank = Unit(Key(seed_, Purpose::kLevel, workflow.key, 4)) +
                  kRunSpread * 2 * (Unit(Key(seed_, Purpose::kLevel, r.job, 5)) - .5);
    level[r.job] = std::clamp(quantile->At(std::clamp(rank, 0.0, 1.0)), .004, .9);
  }
  return level;
}

void ActivityBuilder::ReportMfu(const std::vector<double>& direct) {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    if (direct[j] <= 0 || job.gpus < 8) continue;
    const SizeClass& size = spec_.sizes[workflows_[job.workflow].size_class];
    Draws draws(Key(seed_, Purpose::kJob, j, 11));
    double ofu = direct[j] * jobs_[j].tensor_factor;
    double error =
        size.reported_error_pp / 100 * (.5 + draws.Unit()) * (draws.Unit() < .5 ? -1 : 1);
    double inflation = size.reported_inflation;
    // Hybrid models over-report as well: 24.51 against 15.56 (ofu-paper VI-B).
    if (inflation == 1 && job.gpus >= 64 && draws.Unit() < .03) inflation = 24.51 / 15.56;
    if (inflation > 1)
      a_.events_.push_back({TruthKind::kInflatedMfu, jobs_[j].from, jobs_[j].to,
                            static_cast<int32_t>(j), job.workflow, -1, -1, inflation});
    a_.reported_mfu_[j] = static_cast<float>(std::max(.01, ofu * inflation + error));
  }
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
