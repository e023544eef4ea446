// The scan on series whose truth is known by construction, and on cases by hand. How it does on
// simulated fleets is tests/simulate/regressions_test.cc.
#include "fleet/regressions/regressions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace flopwatch::fleet {
namespace {

// Quantiles of Student's t as tables have them: P(t > 2.015) = .05 of 5 degrees, and so on.
TEST(StudentTail, IsThatOfTheTables) {
  EXPECT_NEAR(StudentTail(2.015, 5), .05, 1e-5);
  EXPECT_NEAR(StudentTail(4.032, 5), .005, 1e-5);
  EXPECT_NEAR(StudentTail(1.8125, 10), .05, 1e-5);
  EXPECT_NEAR(StudentTail(4.144, 10), .001, 2e-6);
  EXPECT_NEAR(StudentTail(0, 7), .5, 1e-12);
  EXPECT_NEAR(StudentTail(-2.015, 5), .95, 1e-5);
  EXPECT_NEAR(StudentTail(1.645, 1e6), .05, 1e-4);  // normal
}

// Of series of the same variance the prior says it, with nearly all the weight there may be.
TEST(ScatterPrior, IsThatOfAlikeSeries) {
  std::mt19937_64 random(7);
  std::vector<SeriesVariance> alike, few;
  for (int s = 0; s < 400; ++s) {
    std::gamma_distribution<double> chi(3, 2);  // chi square of 6 degrees
    alike.push_back({.0004 * chi(random) / 6, 6});
  }
  const ScatterPrior prior = PriorOf(alike);
  EXPECT_NEAR(std::sqrt(prior.variance), .02, .001);
  EXPECT_GT(prior.degrees, 20);
  few.assign(alike.begin(), alike.begin() + 9);
  EXPECT_EQ(PriorOf(few).degrees, 0);
}

struct Level {
  double ofu = .4, duty = .95, clock = .75, sm = .8, power = 500;  // ofu: while a kernel runs
};

WorkflowRun MakeRun(int index, const Level& level,
                    RunSetting setting = {
                        .gpus = 8, .gpu_model = "H100", .model = "", .precision = ""}) {
  WorkflowRun run;
  run.job = std::to_string(1000 + index);
  run.from = Micros{index} * kMicrosPerDay;
  run.to = run.from + 2 * kMicrosPerHour;
  run.gpu_seconds = 2 * 3600 * 8;
  run.setting = setting;
  run.step = 300 * kMicrosPerSecond;
  for (int k = 0; k < 24; ++k) {
    RunStep s;
    s.at = run.from + Micros{k} * 300 * kMicrosPerSecond;
    const double t = 300 * 8;
    s.sums = {.busy_s = t,
              .ofu_s = level.ofu * level.duty * t,
              .ofu_span_s = t,
              .duty_s = level.duty * t,
              .duty_span_s = t,
              .sm_s = level.sm * level.duty * t,
              .sm_span_s = t,
              .tensor_s = level.ofu * level.duty / level.clock * t,
              .tensor_span_s = t,
              .clock_mhz_s = 1400 * t,
              .clock_span_s = t,
              .power_j = level.power * t,
              .power_span_s = t};
    run.steps.push_back(s);
  }
  return run;
}

// Deviations of a quiet workflow, of sd 1 %: a fixed list, no luck.
double Wobble(int k) {
  static constexpr double kList[] = {.004,  -.012, .009,  -.003, .013,
                                     -.008, .001,  -.014, .011,  -.002};
  return 1 + kList[k % 10];
}

WorkflowRuns Quiet(int runs, Level level = {}, int first = 0) {
  WorkflowRuns w;
  w.name = "llama-sft";
  for (int k = 0; k < runs; ++k) {
    Level l = level;
    l.ofu *= Wobble(first + k);
    w.runs.push_back(MakeRun(first + k, l));
  }
  return w;
}

void Append(WorkflowRuns* w, const WorkflowRuns& more) {
  w->runs.insert(w->runs.end(), more.runs.begin(), more.runs.end());
}

RegressionJudgement JudgeOne(const WorkflowRuns& w, RegressionOptions options = {}) {
  return JudgeWorkflows(absl::MakeConstSpan(&w, 1), options);
}

// The case of the OFU paper, VI-A: 2.5 times, found with the run where it began.
TEST(Regressions, TwoAndAHalfTimesIsFoundWithinThreeRuns) {
  WorkflowRuns w = Quiet(5);
  Append(&w, Quiet(3, {.ofu = .16}, 5));
  const RegressionJudgement j = JudgeOne(w);
  ASSERT_EQ(j.findings.size(), 1u);
  const Regression& f = j.findings[0];
  EXPECT_EQ(f.at, 5u);
  EXPECT_EQ(f.from, w.runs[5].from);
  EXPECT_NEAR(f.change, -.6, .01);
  EXPECT_NEAR(f.before, .4, .005);
  EXPECT_NEAR(f.after, .16, .005);
  EXPECT_EQ(f.cause, ChangeCause::kTensor);
  EXPECT_GT(f.confidence, .99);
  EXPECT_FALSE(f.within_run);
}

TEST(Regressions, FewerThanFiveRunsBeforeGiveNoVerdict) {
  WorkflowRuns w = Quiet(4);
  Append(&w, Quiet(3, {.ofu = .16}, 4));
  const RegressionJudgement j = JudgeOne(w);
  EXPECT_TRUE(j.findings.empty());
  const WorkflowRuns few = Quiet(5);
  EXPECT_EQ(JudgeOne(few).too_few_runs, 1u);
  EXPECT_EQ(JudgeOne(few).judged, 0u);
}

TEST(Regressions, TheFactorThatFellNamesTheFamily) {
  const auto cause = [](const Level& after) -> ChangeCause {
    WorkflowRuns w = Quiet(8);
    Append(&w, Quiet(4, after, 8));
    const RegressionJudgement j = JudgeOne(w);
    EXPECT_EQ(j.findings.size(), 1u);
    return j.findings.empty() ? ChangeCause::kUnknown : j.findings[0].cause;
  };
  EXPECT_EQ(cause({.ofu = .3}), ChangeCause::kTensor);
  EXPECT_EQ(cause({.ofu = .3, .clock = .75 * .75}), ChangeCause::kClock);
  EXPECT_EQ(cause({.ofu = .4, .duty = .7}), ChangeCause::kDuty);
  EXPECT_EQ(cause({.ofu = .3, .sm = .6}), ChangeCause::kSm);
  OfuFactors before = FactorsOf(MakeRun(0, {}).steps[0].sums),
             after = FactorsOf(MakeRun(0, {.ofu = .3}).steps[0].sums);
  before.dram_active = .3;
  after.dram_active = .45;
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kMemory);
  after.dram_active = .23;
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kTensor);
  // As much to send for three quarters of the work.
  before.nvlink_bytes_per_s = after.nvlink_bytes_per_s = 60e9;
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kNetwork);
  after.nvlink_bytes_per_s = 45e9;
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kTensor);
  // A slow fabric: as much less to send as work, and SMs that spin.
  after.sm_per_duty = *before.sm_per_duty * 1.03;
  after.tensor_per_sm = *after.tensor_per_sm / 1.03;
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kNetwork);
  after.clock.reset();
  EXPECT_EQ(FamilyOf(ChangeMetric::kOfu, before, after), ChangeCause::kUnknown);
}

TEST(Regressions, WhatWasSetOtherwiseIsNamedAndIsNone) {
  const auto with = [](const RunSetting& before, const RunSetting& after) {
    WorkflowRuns w;
    for (int k = 0; k < 12; ++k) {
      Level l{.ofu = (k < 7 ? .4 : .3) * Wobble(k)};
      w.runs.push_back(MakeRun(k, l, k < 7 ? before : after));
    }
    return JudgeOne(w);
  };
  const RunSetting h100{.gpus = 8, .gpu_model = "H100", .model = "a", .precision = "bf16"};
  const auto expect = [&](RunSetting after, ChangeCause cause) {
    const RegressionJudgement j = with(h100, after);
    ASSERT_EQ(j.findings.size(), 1u) << ChangeCauseName(cause);
    EXPECT_EQ(j.findings[0].cause, cause);
    EXPECT_FALSE(IsRegression(j.findings[0].cause));
    EXPECT_EQ(j.findings[0].at, 7u);
  };
  RunSetting after = h100;
  after.gpus = 16;
  expect(after, ChangeCause::kGpuCount);
  after = h100;
  after.gpu_model = "A100";
  expect(after, ChangeCause::kGpuModel);
  after = h100;
  after.model = "b";
  expect(after, ChangeCause::kModel);
  after = h100;
  after.precision = "fp8";
  expect(after, ChangeCause::kPrecision);
  // What is not said is no difference: this is a regression.
  after = h100;
  after.model = after.precision = "";
  const RegressionJudgement j = with(h100, after);
  ASSERT_EQ(j.findings.size(), 1u);
  EXPECT_TRUE(IsRegression(j.findings[0].cause));
}

// One odd run, and a workflow that goes to and fro between two sizes, are nobody's fault.
TEST(Regressions, OddRunsAndTwoSizesAreNone) {
  WorkflowRuns odd = Quiet(20);
  odd.runs[12] = MakeRun(12, {.ofu = .1});
  EXPECT_TRUE(JudgeOne(odd).findings.empty());
  WorkflowRuns sizes;
  for (int k = 0; k < 40; ++k) {
    const bool large = k / 2 % 2 == 1;
    sizes.runs.push_back(
        MakeRun(k, {.ofu = (large ? .25 : .4) * Wobble(k)},
                {.gpus = large ? 64 : 8, .gpu_model = "H100", .model = "", .precision = ""}));
  }
  EXPECT_TRUE(JudgeOne(sizes).findings.empty());
}

// A run hangs for half of its time: its work is as it was.
TEST(Regressions, HangsAndPausesAreNone) {
  WorkflowRuns w = Quiet(8);
  for (int k = 8; k < 12; ++k) {
    WorkflowRun run = MakeRun(k, {.ofu = .4 * Wobble(k)});
    for (size_t s = 12; s < run.steps.size(); ++s) {
      run.steps[s].sums.ofu_s = 0;
      run.steps[s].sums.tensor_s = 0;
      run.steps[s].sums.duty_s = run.steps[s].sums.duty_span_s;
    }
    w.runs.push_back(run);
  }
  EXPECT_TRUE(JudgeOne(w).findings.empty());
}

TEST(Regressions, ADropWithinALongRunIsFoundWithItsMoment) {
  WorkflowRuns w = Quiet(6);
  for (WorkflowRun& run : w.runs) {
    run.steps.clear();
    const WorkflowRun like = MakeRun(0, {});
    for (int k = 0; k < 12 * 12; ++k) {
      RunStep s = like.steps[0];
      s.at = run.from + Micros{k} * 300 * kMicrosPerSecond;
      s.sums.ofu_s *= Wobble(k);
      run.steps.push_back(s);
    }
  }
  for (int k = 75; k < 144; ++k) w.runs[3].steps[static_cast<size_t>(k)].sums.ofu_s *= .7;
  const RegressionJudgement j = JudgeOne(w);
  ASSERT_EQ(j.findings.size(), 1u);
  EXPECT_TRUE(j.findings[0].within_run);
  EXPECT_EQ(j.findings[0].at, 3u);
  EXPECT_EQ(j.findings[0].from, w.runs[3].steps[75].at);
  EXPECT_NEAR(j.findings[0].change, -.3, .02);
}

// Found against size over scatter, and accused of the unchanged, for noise with three kinds of
// tails; seeds that nothing was tuned on. The curve stands in docs/regressions.md.
TEST(Regressions, PowerAndFalseAlarmsOnNoise) {
  std::mt19937_64 random(20'261'125);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-std::sqrt(3.0), std::sqrt(3.0));
  std::student_t_distribution<double> heavy(4);
  const auto noise = [&](int kind) {
    return kind == 0   ? normal(random)
           : kind == 1 ? uniform(random)
                       : heavy(random) / std::sqrt(2.0);
  };
  constexpr int kWorkflows = 300;
  for (int kind = 0; kind < 3; ++kind) {
    size_t accused = 0, innocents = 0;
    for (const double over : {0., 2., 3., 4., 5., 6., 8., 12.}) {
      std::vector<WorkflowRuns> all;
      for (int w = 0; w < 2 * kWorkflows; ++w) {
        const double sd = .01 * std::exp(.5 * normal(random));
        WorkflowRuns& of = all.emplace_back();
        const int before = 5 + w % 16;
        for (int k = 0; k < before + 3; ++k) {
          const double change = w < kWorkflows && k >= before ? -over * sd : 0;
          of.runs.push_back(MakeRun(k, {.ofu = .4 * std::exp(sd * noise(kind) + change)}));
        }
      }
      const RegressionJudgement j = JudgeWorkflows(all, {.min_change = .001});
      std::set<size_t> found, right, wrong;
      for (const Regression& f : j.findings) {
        if (f.workflow >= kWorkflows || over == 0) {
          wrong.insert(f.workflow);
        } else {
          found.insert(f.workflow);
          if (f.at == 5 + f.workflow % 16) right.insert(f.workflow);
        }
      }
      accused += wrong.size();
      innocents += over == 0 ? 2 * kWorkflows : kWorkflows;
      const double share = static_cast<double>(found.size()) / kWorkflows;
      printf("noise %d, %4.1f times the scatter: found %.3f, with the first run %.3f\n", kind, over,
             share, static_cast<double>(right.size()) / kWorkflows);
      if (over >= 6) {
        EXPECT_GE(share, .95) << kind << " " << over;
      }
      if (over >= 8) {
        EXPECT_GE(static_cast<double>(right.size()), .95 * kWorkflows) << kind << " " << over;
      }
    }
    printf("noise %d: accused %zu of %zu\n", kind, accused, innocents);
    EXPECT_LE(static_cast<double>(accused), .01 * static_cast<double>(innocents)) << kind;
  }
}

}  // namespace
}  // namespace flopwatch::fleet
