// Advice: a job's time is handed out once, and what is out of reach is never promised.
#include "fleet/advice/advice.h"
#include "fleet/advice/held_back.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace flopwatch::fleet {
namespace {

using Of = LossClaim::Of;

LossClaim OfJob(ActionCause cause, std::string subject, size_t job, Of of, double amount) {
  LossClaim claim;
  claim.cause = cause;
  claim.subject = std::move(subject);
  claim.job = job;
  claim.of = of;
  claim.amount = amount;
  claim.evidence = claim.subject + " took it";
  return claim;
}

AdviceJob Job(std::string key, double seconds, std::optional<double> price = std::nullopt) {
  AdviceJob job;
  job.key = std::move(key);
  job.user = "user of " + job.key;
  job.gpu_seconds = seconds;
  job.per_second = price;
  return job;
}

TEST(Advice, ATimeIsClaimedOnceStrongestEvidenceFirst) {
  const std::vector<AdviceJob> jobs = {Job("a", 1000, 2.0)};
  // 400 idle; half of the 600 that are left to the regression; a tenth of the 300 after it to the
  // straggler; and of 800 that are missing to its peers the 70 that nobody has explained.
  const auto actions = Advise(jobs,
                              {OfJob(ActionCause::kBelowPeers, "peers", 0, Of::kShortfall, 800),
                               OfJob(ActionCause::kStraggler, "gpu", 0, Of::kShareOfRest, 0.1),
                               OfJob(ActionCause::kIdleHeld, "user", 0, Of::kSeconds, 400),
                               OfJob(ActionCause::kRegression, "wf", 0, Of::kShareOfRest, 0.5)},
                              0);
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(actions[0].cause, ActionCause::kIdleHeld);
  EXPECT_DOUBLE_EQ(*actions[0].gpu_seconds, 400);
  EXPECT_DOUBLE_EQ(*actions[0].money, 800);
  EXPECT_EQ(actions[1].cause, ActionCause::kRegression);
  EXPECT_DOUBLE_EQ(*actions[1].gpu_seconds, 300);
  EXPECT_EQ(actions[2].cause, ActionCause::kBelowPeers);
  EXPECT_DOUBLE_EQ(*actions[2].gpu_seconds, 70);
  EXPECT_EQ(actions[3].cause, ActionCause::kStraggler);
  EXPECT_DOUBLE_EQ(*actions[3].gpu_seconds, 30);
}

TEST(Advice, ClaimsOfASubjectAreOneAction) {
  const std::vector<AdviceJob> jobs = {Job("a", 100, 1.0), Job("b", 100)};
  const auto actions = Advise(jobs,
                              {OfJob(ActionCause::kIdleHeld, "ann", 0, Of::kSeconds, 40),
                               OfJob(ActionCause::kIdleHeld, "ann", 1, Of::kSeconds, 60),
                               OfJob(ActionCause::kIdleHeld, "bob", 1, Of::kSeconds, 1)},
                              2);
  ASSERT_EQ(actions.size(), 1u);  // bob's one second is below what is worth an action
  EXPECT_DOUBLE_EQ(*actions[0].gpu_seconds, 100);
  EXPECT_EQ(actions[0].jobs, 2);
  EXPECT_EQ(actions[0].job_keys, (std::vector<std::string>{"b", "a"}));
  // Of 40 of the 100 a price is known.
  EXPECT_DOUBLE_EQ(*actions[0].money, 40);
  EXPECT_DOUBLE_EQ(actions[0].priced_s, 40);
}

TEST(Advice, WhatIsNotLostHasNoSecondsAndComesLast) {
  const std::vector<AdviceJob> jobs = {Job("a", 100, 1.0)};
  LossClaim out;
  out.cause = ActionCause::kHostsOut;
  out.subject = "Not responding";
  out.amount = 5;
  out.node = "n1";
  const auto actions = Advise(jobs, {OfJob(ActionCause::kNoMfu, "", 0, Of::kSeconds, 100), out}, 0);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions[0].cause, ActionCause::kHostsOut);
  EXPECT_FALSE(actions[0].money.has_value());
  EXPECT_EQ(actions[0].nodes, 1);
  EXPECT_EQ(actions[1].cause, ActionCause::kNoMfu);
  EXPECT_FALSE(actions[1].gpu_seconds.has_value());
  EXPECT_FALSE(actions[1].money.has_value());
  EXPECT_EQ(actions[1].jobs, 1);
}

TEST(Advice, NumbersThatAreNoneClaimNothing) {
  const std::vector<AdviceJob> jobs = {Job("a", std::numeric_limits<double>::quiet_NaN()),
                                       Job("b", 10)};
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Advise(jobs,
                     {OfJob(ActionCause::kIdleHeld, "u", 0, Of::kSeconds, 5),
                      OfJob(ActionCause::kIdleHeld, "u", 1, Of::kSeconds, -5),
                      OfJob(ActionCause::kStraggler, "g", 1, Of::kShareOfRest, inf),
                      OfJob(ActionCause::kStraggler, "g", 99, Of::kSeconds, 5)},
                     0)
                  .empty());
}

RC_GTEST_PROP(Advice, NoGpuSecondStandsInTwoActions, ()) {
  const auto n = *rc::gen::inRange<size_t>(1, 5);
  std::vector<AdviceJob> jobs;
  for (size_t i = 0; i < n; ++i) jobs.push_back(Job(std::to_string(i), 100.0 * (i + 1)));
  std::vector<LossClaim> claims;
  const auto count = *rc::gen::inRange(0, 30);
  for (int i = 0; i < count; ++i) {
    const auto of = static_cast<Of>(*rc::gen::inRange(0, 3));
    const double amount = *rc::gen::inRange(0, 1000);
    claims.push_back(OfJob(static_cast<ActionCause>(*rc::gen::inRange(0, 4)),
                           std::to_string(*rc::gen::inRange(0, 3)), *rc::gen::inRange<size_t>(0, n),
                           of, of == Of::kShareOfRest ? amount / 1000 : amount));
  }
  const auto actions = Advise(jobs, claims, 0, 100);
  double sum = 0;
  for (const Action& a : actions) sum += *a.gpu_seconds;
  RC_ASSERT(sum <= 100.0 * static_cast<double>(n * (n + 1)) / 2 + 1e-6);
  // Nor does the order of the claims matter to what is lost in all.
  std::vector<LossClaim> reversed(claims.rbegin(), claims.rend());
  double other = 0;
  for (const Action& a : Advise(jobs, reversed, 0, 100)) other += *a.gpu_seconds;
  RC_ASSERT(std::abs(sum - other) < 1e-6);
}

std::vector<PeerRun> Runs(std::vector<double> ofu) {
  std::vector<PeerRun> runs;
  for (size_t i = 0; i < ofu.size(); ++i) runs.push_back({i, ofu[i], 3600, 3600});
  return runs;
}

TEST(Peers, TheGoalIsTheUpperQuartileOfWhatWasReached) {
  EXPECT_FALSE(GoalOf(Runs({.4, .4, .4, .4})).has_value());
  // By hand: sorted .10 .38 .40 .42 .44; the 75th percentile is the fourth of five.
  const auto goal = GoalOf(Runs({.40, .10, .44, .38, .42}));
  ASSERT_TRUE(goal.has_value());
  EXPECT_DOUBLE_EQ(goal->ofu, .42);
  EXPECT_DOUBLE_EQ(goal->median, .40);
  EXPECT_NEAR(goal->scatter, 1.4826 * .02, 1e-12);  // deviations 0 .02 .02 .04 .30
  const PeerRun low{0, .10, 3000, 3600};
  EXPECT_TRUE(BelowPeers(low, *goal));
  EXPECT_NEAR(Shortfall(low, *goal), 3000 * (1 - .10 / .42), 1e-9);
  // 5 % below the goal is what they scatter; above it nothing is missing.
  EXPECT_FALSE(BelowPeers({0, .38, 3600, 3600}, *goal));
  EXPECT_EQ(Shortfall({0, .44, 3600, 3600}, *goal), 0);
}

TEST(HeldBack, IsWhatRunsWithTheGpuReachLess) {
  // Runs that scatter by 2 %, and two that reach a fifth less.
  HeldBackRuns runs;
  for (const double by : {-.02, -.01, 0., .01, .02}) runs.without.push_back(std::log(.4) + by);
  runs.with = {std::log(.32), std::log(.32)};
  const auto held = HeldBackBy({&runs, 1});
  ASSERT_TRUE(held.has_value());
  EXPECT_NEAR(held->share, .2, 1e-9);
  EXPECT_EQ(held->with, 2u);
  EXPECT_EQ(held->without, 5u);
}

// OFU while kernels ran of the eight runs of one workflow in a simulated fleet (llm, 512 GPUs, seed
// 52): by the truth a GPU makes the steps of one run take 1.43 times as long.
TEST(HeldBack, IsWhatTheTruthHasOfAStall) {
  HeldBackRuns runs;
  for (const double ofu : {.390, .373, .405, .417, .408, .404, .400})
    runs.without.push_back(std::log(ofu));
  runs.with = {std::log(.283)};
  const auto held = HeldBackBy({&runs, 1});
  ASSERT_TRUE(held.has_value());
  EXPECT_NEAR(held->share, 1 - 1 / 1.43, .01);
}

TEST(HeldBack, IsNotKnownFromFewRunsOrFromScatter) {
  HeldBackRuns few;
  few.without = {std::log(.4), std::log(.4), std::log(.4), std::log(.4)};
  few.with = {std::log(.2)};
  EXPECT_FALSE(HeldBackBy({&few, 1}).has_value());
  HeldBackRuns restless;
  for (const double by : {-.4, -.2, 0., .2, .4}) restless.without.push_back(std::log(.4) + by);
  restless.with = {std::log(.3)};
  EXPECT_FALSE(HeldBackBy({&restless, 1}).has_value());
  EXPECT_FALSE(HeldBackBy({}).has_value());
}

}  // namespace
}  // namespace flopwatch::fleet
