// The regression scan on simulated fleets whose truth is known: what of the planted is found, with
// the run where it began, and how many of the unchanged workflows are accused
// (docs/regressions.md).
//
// FLOPWATCH_TEST_SEEDS=N: N seeds of a preset instead of two; FLOPWATCH_TEST_FIRST_SEED: the first.
// FLOPWATCH_TEST_VERBOSE=1 prints each.
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

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  const int64_t n = text == nullptr ? 0 : std::atoll(text);
  return n > 0 ? n : otherwise;
}

struct Planted {
  size_t workflow = 0;
  size_t at = 0;  // the first run, of those in the workflow
  double factor = 1;
};

// Runs that the scan could measure, by the same rule.
bool IsMeasurable(const fleet::WorkflowRun& run) {
  double busy = 0, ofu = 0;
  for (const fleet::RunStep& s : run.steps) {
    busy += s.sums.busy_s;
    ofu += s.sums.ofu_s;
  }
  return ofu > 0 && busy >= fleet::kLeastBusySeconds * static_cast<double>(run.setting.gpus);
}

struct Score {
  int planted = 0, clear = 0, found = 0, right = 0;  // clear: of three times the scatter, 5 before
  int large = 0, large_found = 0;
  int innocents = 0, accused = 0, accused_within = 0;
  std::map<int, std::pair<int, int>> curve;  // by size over scatter: planted, found
};

void JudgeFleet(const Fleet& f, uint64_t seed, Score* score) {
  const bool verbose = FromEnvironment("FLOPWATCH_TEST_VERBOSE", 0) > 0;
  const Fleet::Model& m = f.model();
  FleetRuns runs = RunsOf(f);
  std::map<int32_t, const TruthEvent*> planted;
  std::set<int32_t> disturbed;  // jobs
  for (const TruthEvent& e : m.activity->events()) {
    if (e.kind == TruthKind::kRegression || e.kind == TruthKind::kPrecisionChange)
      planted[e.workflow] = &e;
    if (e.kind == TruthKind::kThrottle || e.kind == TruthKind::kHang) disturbed.insert(e.job);
  }
  const fleet::RegressionJudgement all = fleet::JudgeWorkflows(runs.workflows, {});
  std::set<size_t> across, within;
  for (const fleet::Regression& x : all.findings) {
    const int32_t id = runs.ids[x.workflow];
    if (planted.contains(id) || !fleet::IsRegression(x.cause)) continue;
    if (x.within_run && disturbed.contains(runs.jobs[x.workflow][x.at])) continue;
    (x.within_run ? within : across).insert(x.workflow);
    if (verbose) {
      fmt::print(
          "seed {} accused {} {} run {} of {}{}: {} {:.4f} -> {:.4f} change {:.3f} scatter "
          "{:.4f} n {}/{} conf {:.5f} kind {}\n",
          seed, runs.workflows[x.workflow].name, x.within_run ? "WITHIN" : "across", x.at,
          runs.workflows[x.workflow].runs.size(), "", fleet::ChangeCauseName(x.cause), x.before,
          x.after, x.change, x.scatter, x.runs_before, x.runs_after, x.confidence,
          static_cast<int>(m.plan.jobs[runs.jobs[x.workflow][x.at]].kind));
    }
  }
  score->innocents += static_cast<int>(all.judged);
  score->accused += static_cast<int>(across.size());
  score->accused_within += static_cast<int>(within.size());

  // Three runs after: what came later is not known yet.
  std::vector<Planted> cut;
  for (size_t w = 0; w < runs.workflows.size(); ++w) {
    const auto e = planted.find(runs.ids[w]);
    if (e == planted.end() || e->second->size >= 1) continue;
    auto& list = runs.workflows[w].runs;
    size_t at = 0;
    while (at < list.size() && runs.jobs[w][at] != e->second->job) ++at;
    // Runs start in another order than they were submitted in: the change goes by number.
    bool mixed = false;
    const int32_t first = m.plan.jobs[e->second->job].run;
    size_t begin = list.size();
    for (size_t k = 0; k < list.size(); ++k)
      if (m.plan.jobs[runs.jobs[w][k]].run >= first) begin = std::min(begin, k);
    for (size_t k = begin; k < list.size(); ++k) mixed |= m.plan.jobs[runs.jobs[w][k]].run < first;
    size_t before = 0, after = 0, end = begin;
    for (size_t k = 0; k < begin; ++k) before += IsMeasurable(list[k]);
    while (end < list.size() && after < 3) after += IsMeasurable(list[end++]);
    if (before < fleet::kLeastRunsBefore || after < 3 || mixed) continue;
    while (begin < end && !IsMeasurable(list[begin])) ++begin;
    list.resize(end);
    cut.push_back({w, begin, e->second->size});
  }
  const fleet::RegressionJudgement early = fleet::JudgeWorkflows(runs.workflows, {});
  for (const Planted& p : cut) {
    const auto& list = runs.workflows[p.workflow].runs;
    std::vector<double> levels;
    for (size_t k = 0; k < p.at; ++k) {
      if (!IsMeasurable(list[k])) continue;
      fleet::WorkSums sums;
      for (const fleet::RunStep& s : list[k].steps) sums += s.sums;
      levels.push_back(std::log(*sums.BusyOfu()));
    }
    double mean = 0, square = 0;
    for (const double v : levels) mean += v / static_cast<double>(levels.size());
    for (const double v : levels) square += (v - mean) * (v - mean);
    const double scatter = std::sqrt(square / static_cast<double>(levels.size() - 1));
    const double over = -std::log(p.factor) / scatter;
    const fleet::Regression* found = nullptr;
    for (const fleet::Regression& x : early.findings)
      if (x.workflow == p.workflow && !x.within_run && (found == nullptr || x.at == p.at))
        found = &x;
    ++score->planted;
    score->found += found != nullptr && over >= 3;
    if (over >= 3) {
      ++score->clear;
      score->right += found != nullptr && found->at == p.at;
    }
    if (p.factor < .5) {
      ++score->large;
      score->large_found += found != nullptr;
    }
    auto& bin = score->curve[static_cast<int>(std::min(20.0, std::floor(over)))];
    ++bin.first;
    bin.second += found != nullptr;
    if (verbose && (found == nullptr || found->at != p.at)) {
      fmt::print("seed {} {} factor {:.2f} over {:.1f} scatter {:.4f} before {} at {}: {}\n", seed,
                 runs.workflows[p.workflow].name, p.factor, over, scatter, levels.size(), p.at,
                 found == nullptr ? std::string("missed")
                                  : fmt::format("at {} change {:.3f}", found->at, found->change));
    }
  }
}

class Regressions : public ::testing::TestWithParam<Preset> {};

TEST_P(Regressions, PlantedAreFoundAndOthersAreNotAccused) {
  const auto first = static_cast<uint64_t>(FromEnvironment("FLOPWATCH_TEST_FIRST_SEED", 1));
  const auto seeds = static_cast<uint64_t>(FromEnvironment("FLOPWATCH_TEST_SEEDS", 1));
  const auto gpus = static_cast<int>(FromEnvironment("FLOPWATCH_TEST_GPUS", 1000));
  Score score;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto f = Make(GetParam(), gpus, 7 * 24, Faults::kAll, seed);
    ASSERT_NE(f, nullptr);
    JudgeFleet(*f, seed, &score);
  }
  fmt::print(
      "planted {}, of three times the scatter {}: found {}, with the first run {}; 2.5 times "
      "{} of {}; accused {} across and {} within of {}\n",
      score.planted, score.clear, score.found, score.right, score.large_found, score.large,
      score.accused, score.accused_within, score.innocents);
  for (const auto& [over, bin] : score.curve)
    fmt::print("  {:2} to {:2} times the scatter: {} of {}\n", over, over + 1, bin.second,
               bin.first);
}

INSTANTIATE_TEST_SUITE_P(Presets, Regressions,
                         ::testing::Values(Preset::kLlm, Preset::kResearch, Preset::kSeren),
                         [](const auto& info) {
                           return info.param == Preset::kLlm        ? "llm"
                                  : info.param == Preset::kResearch ? "research"
                                                                    : "seren";
                         });

}  // namespace
}  // namespace flopwatch::simulate
