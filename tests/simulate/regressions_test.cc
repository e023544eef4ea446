// The regression scan on simulated fleets whose truth is known: what of the planted is found within
// three runs, with its family and the run where it began, and how many of the unchanged workflows
// are accused (docs/regressions.md). Seeds from 1 on; thresholds were chosen on those from 101 on.
//
// FLOPWATCH_TEST_SEEDS=N: N seeds of a preset instead of two; FLOPWATCH_TEST_FIRST_SEED: the first;
// FLOPWATCH_TEST_GPUS. FLOPWATCH_TEST_VERBOSE=1 prints what is missed or wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "make_fleet.h"
#include "regression_runs.h"

namespace flopwatch::simulate {
namespace {

int64_t RegressionSetting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  const int64_t n = text == nullptr ? 0 : std::atoll(text);
  return n > 0 ? n : otherwise;
}

bool VerboseRun() { return RegressionSetting("FLOPWATCH_TEST_VERBOSE", 0) > 0; }

// A workflow that changed, by the truth.
struct ChangedWorkflow {
  int32_t run = 0;     // the first changed one, as the workflow counts
  double size = 1;     // OFU after / before
  double scatter = 0;  // of the runs before; 0 = the truth does not say
  std::string kind;    // "regression_clock"; of the fleet's own "regression"
  std::string family;  // "clock"; "" = the truth does not say
  bool regression = false;
};

// How many of so few are accused at most, but for one time in a hundred, where one in a hundred is,
// which is the goal; that of many is in docs/regressions.md.
double OneInHundred(int innocents) {
  const double mean = .01 * innocents;
  return mean + 2.33 * std::sqrt(mean);
}

std::string FamilyNameOf(std::string_view name) {
  const size_t at = name.find('_');
  return at == std::string_view::npos ? "" : std::string(name.substr(at + 1));
}

struct KnownTruth {
  std::map<int32_t, ChangedWorkflow> workflows;
  std::map<int32_t, const PlantedIncident*> drops;  // by job
  std::set<int32_t> disturbed;                      // jobs with anything else
};

KnownTruth KnownOf(const Fleet::Model& m) {
  KnownTruth known;
  for (const TruthEvent& e : m.activity->events()) {
    if (e.kind == TruthKind::kRegression || e.kind == TruthKind::kPrecisionChange) {
      known.workflows[e.workflow] = {.run = m.plan.jobs[e.job].run,
                                     .size = e.size,
                                     .scatter = 0,
                                     .kind = std::string(TruthKindName(e.kind)),
                                     .family = "",
                                     .regression = e.kind == TruthKind::kRegression};
    } else if (e.job >= 0) {
      known.disturbed.insert(e.job);
    }
  }
  for (const PlantedIncident& p : m.activity->planted()) {
    const IncidentGroup group = GroupOf(p.kind);
    if (group == IncidentGroup::kRegression || group == IncidentGroup::kChange) {
      known.workflows[p.workflow] = {.run = p.run,
                                     .size = p.size,
                                     .scatter = p.scatter,
                                     .kind = std::string(IncidentName(p.kind)),
                                     .family = FamilyNameOf(IncidentName(p.kind)),
                                     .regression = group == IncidentGroup::kRegression};
    } else if (group == IncidentGroup::kDrop) {
      known.drops[p.job] = &p;
    } else {
      known.disturbed.insert(p.job);
    }
  }
  return known;
}

bool IsMeasurable(const fleet::WorkflowRun& run) {
  double busy = 0, ofu = 0;
  for (const fleet::RunStep& s : run.steps) {
    busy += s.sums.busy_s;
    ofu += s.sums.ofu_s;
  }
  return ofu > 0 && busy >= fleet::kLeastBusySeconds * static_cast<double>(run.setting.gpus);
}

// Relative standard deviation of the OFU over time of these runs.
double TruthScatter(const std::vector<fleet::WorkflowRun>& runs, size_t end) {
  std::vector<double> levels;
  for (size_t k = 0; k < end; ++k) {
    if (!IsMeasurable(runs[k])) continue;
    double ofu = 0;
    for (const fleet::RunStep& s : runs[k].steps) ofu += s.sums.ofu_s;
    levels.push_back(ofu / runs[k].gpu_seconds);
  }
  double mean = 0, square = 0;
  for (const double v : levels) mean += v / static_cast<double>(levels.size());
  for (const double v : levels) square += (v - mean) * (v - mean);
  return std::sqrt(square / static_cast<double>(levels.size() - 1)) / mean;
}

struct FindTally {
  int planted = 0, found = 0, right_run = 0, right_cause = 0;
};

// Of a drop within a run, over what the runs of its workflow before it scatter by; nothing where
// fewer than five can be measured.
std::optional<double> DropOverScatter(const Fleet::Model& m, const FleetRuns& runs,
                                      const PlantedIncident& drop) {
  for (size_t w = 0; w < runs.workflows.size(); ++w) {
    if (runs.ids[w] != m.plan.jobs[drop.job].workflow) continue;
    const auto& list = runs.workflows[w].runs;
    const auto own = std::ranges::find(runs.jobs[w], drop.job);
    if (own == runs.jobs[w].end()) continue;
    const auto end = static_cast<size_t>(own - runs.jobs[w].begin());
    if (std::count_if(list.begin(), list.begin() + static_cast<ptrdiff_t>(end), IsMeasurable) <
        static_cast<ptrdiff_t>(fleet::kLeastRunsBefore))
      continue;
    return (1 - drop.size) / TruthScatter(list, end);
  }
  return std::nullopt;
}

struct RegressionScore {
  std::map<std::string, FindTally> clear, all;  // by kind; clear: of three times the scatter
  std::map<int, FindTally> curve;               // by size over scatter
  FindTally large;                              // of 2.5 times
  int innocents = 0, accused = 0, accused_within = 0;
  // clear_drops: of 12 % and more; told_drops: also of three times the scatter of five runs before.
  std::map<std::string, FindTally> changes, drops, clear_drops, told_drops;
  int changes_accused = 0;
};

void Accuse(const Fleet::Model& m, const FleetRuns& runs, const KnownTruth& known, uint64_t seed,
            RegressionScore* score) {
  const fleet::RegressionJudgement all = fleet::JudgeWorkflows(runs.workflows, {});
  std::set<size_t> across, within, changed;
  for (const fleet::Regression& x : all.findings) {
    const int32_t id = runs.ids[x.workflow], job = runs.jobs[x.workflow][x.at];
    if (!fleet::IsRegression(x.cause)) continue;
    if (x.within_run && (known.disturbed.contains(job) || known.drops.contains(job))) continue;
    const auto of = known.workflows.find(id);
    if (of != known.workflows.end() && (of->second.regression || x.within_run)) continue;
    if (of != known.workflows.end()) {
      changed.insert(x.workflow);
    } else {
      (x.within_run ? within : across).insert(x.workflow);
    }
    if (!VerboseRun()) continue;
    fmt::print(
        "seed {} accused {} {} {} run {} of {}: {} {} {:.4f} -> {:.4f} change {:.3f} "
        "scatter {:.4f} n {}/{}, kind {}\n",
        seed, runs.workflows[x.workflow].name, of == known.workflows.end() ? "" : of->second.kind,
        x.within_run ? "within" : "across", x.at, runs.workflows[x.workflow].runs.size(),
        fleet::ChangeCauseName(x.cause), fleet::kChangeMetricNames[static_cast<size_t>(x.metric)],
        x.before, x.after, x.change, x.scatter, x.runs_before, x.runs_after,
        static_cast<int>(m.plan.jobs[job].kind));
  }
  score->innocents += static_cast<int>(all.judged - known.workflows.size());
  score->accused += static_cast<int>(across.size());
  score->accused_within += static_cast<int>(within.size());
  score->changes_accused += static_cast<int>(changed.size());
  for (const auto& [job, drop] : known.drops) {
    const std::string kind(IncidentName(drop->kind));
    FindTally one{.planted = 1};
    for (const fleet::Regression& x : all.findings) {
      if (!x.within_run || runs.jobs[x.workflow][x.at] != job) continue;
      fleet::Regression named = x;
      AddLinks(m, runs, &named);
      one.found = 1;
      one.right_run =
          std::abs(x.from - m.options.start - drop->from * kMicrosPerSecond) <= kMicrosPerHour;
      one.right_cause = fleet::ChangeCauseName(named.cause) == FamilyNameOf(kind);
      if (VerboseRun() && one.right_cause == 0) {
        fmt::print("seed {} {} of {:.3f} named {}: {}\n", seed, kind, drop->size,
                   fleet::ChangeCauseName(named.cause),
                   fmt::join(fleet::ChangeEvidence(named), "; "));
      }
    }
    const bool clear = drop->size <= .88;
    const std::optional<double> over = DropOverScatter(m, runs, *drop);
    if (VerboseRun() && one.found == 0 && clear) {
      fmt::print(
          "seed {} {} of {:.3f}, {:.1f} times the scatter, missed: job {} of {} s from {}, drop "
          "after {} s for {} s\n",
          seed, kind, drop->size, over.value_or(0), m.JobKey(job),
          m.plan.jobs[job].end - m.plan.jobs[job].start, m.plan.jobs[job].start,
          drop->from - m.plan.jobs[job].start, drop->to - drop->from);
    }
    for (auto* tallies : {&score->drops, clear ? &score->clear_drops : nullptr,
                          clear && over.value_or(0) >= 3 ? &score->told_drops : nullptr}) {
      if (tallies == nullptr) continue;
      FindTally& t = (*tallies)[kind];
      ++t.planted;
      t.found += one.found;
      t.right_run += one.right_run;
      t.right_cause += one.right_cause;
    }
  }
}

struct EarlyCut {
  size_t workflow = 0, at = 0;
  const ChangedWorkflow* of = nullptr;
  double over = 0;
};

// What is known three runs after each change.
std::vector<EarlyCut> CutAfterThree(const Fleet::Model& m, const KnownTruth& known,
                                    FleetRuns* runs) {
  std::vector<EarlyCut> cut;
  for (size_t w = 0; w < runs->workflows.size(); ++w) {
    const auto of = known.workflows.find(runs->ids[w]);
    if (of == known.workflows.end()) continue;
    auto& list = runs->workflows[w].runs;
    size_t begin = 0;
    const auto number = [&](size_t k) { return m.plan.jobs[runs->jobs[w][k]].run; };
    while (begin < list.size() && number(begin) < of->second.run) ++begin;
    // Runs start in another order than they were submitted in.
    bool mixed = false;
    for (size_t k = begin; k < list.size(); ++k) mixed |= number(k) < of->second.run;
    size_t before = 0, after = 0, end = begin;
    for (size_t k = 0; k < begin; ++k) before += IsMeasurable(list[k]);
    while (begin < list.size() && !IsMeasurable(list[begin])) ++begin;
    end = begin;
    while (end < list.size() && after < 3) after += IsMeasurable(list[end++]);
    if (before < fleet::kLeastRunsBefore || after < 3 || mixed) continue;
    list.resize(end);
    const double scatter = of->second.scatter > 0 ? of->second.scatter : TruthScatter(list, begin);
    cut.push_back({w, begin, &of->second, (1 - of->second.size) / scatter});
  }
  return cut;
}

void FindEarly(const Fleet::Model& m, FleetRuns runs, const KnownTruth& known, uint64_t seed,
               RegressionScore* score) {
  const std::vector<EarlyCut> cut = CutAfterThree(m, known, &runs);
  const fleet::RegressionJudgement early = fleet::JudgeWorkflows(runs.workflows, {});
  for (const EarlyCut& p : cut) {
    FindTally one{.planted = 1};
    std::string cause = "nothing", evidence;
    for (fleet::Regression x : early.findings) {
      if (x.workflow != p.workflow || x.within_run) continue;
      AddLinks(m, runs, &x);
      if (one.found != 0 && x.at != p.at) continue;
      one.found = 1;
      one.right_run = x.at == p.at;
      cause = std::string(fleet::ChangeCauseName(x.cause));
      evidence = fmt::format("{}", fmt::join(fleet::ChangeEvidence(x), "; "));
      one.right_cause = p.of->family.empty() || cause == p.of->family ||
                        (p.of->family == "gpus" && cause == "gpu_count") ||
                        (p.of->family == "model" && cause == "gpu_model");
    }
    const auto add = [&](FindTally* t) {
      ++t->planted;
      t->found += one.found;
      t->right_run += one.right_run;
      t->right_cause += one.right_cause;
    };
    if (!p.of->regression) {
      add(&score->changes[p.of->kind]);
      continue;
    }
    add(&score->all[p.of->kind]);
    if (p.over >= 3) add(&score->clear[p.of->kind]);
    if (p.of->size < .45) add(&score->large);
    add(&score->curve[static_cast<int>(std::min(20.0, std::floor(p.over)))]);
    if (VerboseRun() && p.over >= 3 && (one.right_run == 0 || one.right_cause == 0)) {
      fmt::print(
          "seed {} {} {} of {:.3f}, {:.1f} times the scatter {:.4f}, at {}: found {} there "
          "{} named {}: {}\n",
          seed, runs.workflows[p.workflow].name, p.of->kind, p.of->size, p.over,
          (1 - p.of->size) / p.over, p.at, one.found, one.right_run, cause, evidence);
      if (one.found == 0) {
        for (const auto& run : runs.workflows[p.workflow].runs) {
          fleet::WorkSums sums;
          for (const fleet::RunStep& s : run.steps) sums += s.sums;
          fmt::print(
              "   ofu/duty {:.4f} ofu {:.4f} all {:.4f} duty {:.4f} minutes {:.0f} gpus {}\n",
              sums.BusyOfu().value_or(0), sums.Ofu().value_or(0), sums.ofu_s / run.gpu_seconds,
              sums.Duty().value_or(0), sums.busy_s / 60 / static_cast<double>(run.setting.gpus),
              run.setting.gpus);
        }
      }
    }
  }
}

void PrintScore(const RegressionScore& s) {
  const auto row = [](const std::string& name, const FindTally& t) {
    fmt::print("  {:24} planted {:4} found {:4} first run {:4} cause {:4}\n", name, t.planted,
               t.found, t.right_run, t.right_cause);
  };
  FindTally sum;
  for (const auto& [kind, t] : s.clear) {
    row(kind, t);
    sum.planted += t.planted;
    sum.found += t.found;
    sum.right_run += t.right_run;
    sum.right_cause += t.right_cause;
  }
  row("three times the scatter", sum);
  row("2.5 times", s.large);
  for (const auto& [over, t] : s.curve) row(fmt::format("{} to {} times", over, over + 1), t);
  for (const auto& [kind, t] : s.drops) row(kind, t);
  for (const auto& [kind, t] : s.clear_drops) row(kind + " of 12 %", t);
  for (const auto& [kind, t] : s.told_drops) row(kind + " of 3 times", t);
  for (const auto& [kind, t] : s.changes) row(kind, t);
  fmt::print("  accused {} across, {} within of {} unchanged; {} of what was set otherwise\n",
             s.accused, s.accused_within, s.innocents, s.changes_accused);
}

class Regressions : public ::testing::TestWithParam<Preset> {
 protected:
  RegressionScore Run(const IncidentCounts& incidents) const {
    const auto first = static_cast<uint64_t>(RegressionSetting("FLOPWATCH_TEST_FIRST_SEED", 1));
    const auto seeds = static_cast<uint64_t>(RegressionSetting("FLOPWATCH_TEST_SEEDS", 2));
    const auto gpus = static_cast<int>(RegressionSetting("FLOPWATCH_TEST_GPUS", 1000));
    RegressionScore score;
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
      FleetOptions options = Options(GetParam(), gpus, 7 * 24, Faults::kAll, seed);
      options.incidents = incidents;
      const auto f = Make(options);
      if (f == nullptr) break;
      const FleetRuns runs = RunsOf(*f);
      const KnownTruth known = KnownOf(f->model());
      Accuse(f->model(), runs, known, seed, &score);
      FindEarly(f->model(), runs, known, seed, &score);
    }
    PrintScore(score);
    return score;
  }
};

TEST_P(Regressions, OfAFleetItselfAreFoundAndOthersAreNotAccused) {
  const RegressionScore s = Run({});
  EXPECT_LE(s.accused + s.accused_within, OneInHundred(s.innocents));
  EXPECT_GE(s.large.found, s.large.planted - 1);
}

TEST_P(Regressions, PlantedAreFoundWithTheirCause) {
  IncidentCounts incidents;
  ASSERT_TRUE(ParseIncidents("regression_tensor=45,regression_clock=45,regression_duty=45,"
                             "regression_memory=45,regression_network=45,drop_tensor=20,"
                             "drop_clock=20,drop_duty=20,drop_memory=20,drop_network=20,"
                             "change_gpus=15,change_model=15,change_precision=15",
                             &incidents)
                  .ok());
  const RegressionScore s = Run(incidents);
  EXPECT_LE(s.accused + s.accused_within, OneInHundred(s.innocents));
  // All but workflows that scatter by as much themselves.
  EXPECT_GE(s.large.found, s.large.planted - 2);
  FindTally clear;
  for (const auto& [kind, t] : s.clear) {
    clear.planted += t.planted;
    clear.found += t.found;
    clear.right_cause += t.right_cause;
  }
  EXPECT_GE(clear.planted, 200);
  EXPECT_GE(clear.found, .94 * clear.planted);
  EXPECT_GE(clear.right_cause, .92 * clear.planted);
}

INSTANTIATE_TEST_SUITE_P(Presets, Regressions,
                         ::testing::Values(Preset::kLlm, Preset::kResearch, Preset::kSeren),
                         [](const auto& info) { return std::string(PresetName(info.param)); });

}  // namespace
}  // namespace flopwatch::simulate
