// What jobs say of themselves: loss, gradients, tokens, steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "live_fleet.h"

namespace flopwatch::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(LookAtReports, WhatAJobSaysAndIsUsual) {
  LiveFleet fleet(2, 4);
  fleet.says = Says{};
  fleet.Go(3 * kHour);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  EXPECT_NEAR(fleet.Value(Quantity::kJobBaselineLoss), 2, .02);
  EXPECT_NEAR(fleet.Value(Quantity::kJobTokens), 1e6, 1e4);
  EXPECT_EQ(fleet.Value(Quantity::kJobReportInterval), 60);
  EXPECT_EQ(fleet.Value(Quantity::kJobNotFinite), 0);
  EXPECT_TRUE(std::isnan(fleet.Value(Quantity::kJobMfu))) << "it says none";
}

TEST(LookAtReports, ALossThatIsNoNumber) {
  LiveFleet fleet(1, 4);
  fleet.says = Says{};
  fleet.Go(kHour);
  fleet.says->loss = std::nan("");
  fleet.Go(2 * kMinute);
  fleet.says->loss = 2;  // a step that was left out
  fleet.Go(30 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  fleet.says->grad_norm = INFINITY;
  fleet.Go(3 * kMinute);
  EXPECT_THAT(fleet.Firing(),
              ElementsAre("job_loss_not_finite: job 7: its loss or gradient norm is no number, 3 "
                          "reports in a row"));
  fleet.says->grad_norm = .5;
  fleet.Go(30 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

// A metric says the same until the next step: one bad step of a slow job is one report.
TEST(LookAtReports, ALossThatIsNoNumberAtOneStepThatIsReportedAgain) {
  LiveFleet fleet(1, 4);
  fleet.says = Says{};
  fleet.Go(kHour);
  fleet.says->loss = std::nan("");
  fleet.Go(kMinute);
  fleet.says->steps = 0;
  fleet.Go(5 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  EXPECT_EQ(fleet.Value(Quantity::kJobNotFinite), 1);
  fleet.says->steps = 10;
  fleet.Go(2 * kMinute);
  EXPECT_THAT(fleet.Firing(), SizeIs(1));
}

TEST(LookAtReports, ALossThatJumpsAndOneThatFalls) {
  LiveFleet fleet(1, 4);
  fleet.says = Says{.loss = 9};
  for (int k = 0; k < 180; ++k) {  // as it falls at the start of a training
    fleet.says->loss = 2 + 7 * std::exp(-k / 30.0);
    fleet.Go(kMinute);
  }
  fleet.says->loss = 8;  // one bad value after a checkpoint was read
  fleet.Go(2 * kMinute);
  fleet.says->loss = 2;
  fleet.Go(20 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  fleet.says->loss = 5;
  fleet.Go(4 * kMinute);
  EXPECT_THAT(fleet.Firing(),
              ElementsAre(HasSubstr("job 7: its loss has risen to 4.97, from 2.02")));
  fleet.says->grad_norm = 20;
  fleet.Go(5 * kMinute);
  ASSERT_THAT(fleet.engine().Alerts(false), SizeIs(2));
  for (const Alert* a : fleet.engine().Alerts(false))
    EXPECT_EQ(a->inhibited_by.empty(), a->rule == "job_loss_spike") << a->rule;
}

TEST(LookAtReports, FewerTokensAtTheSameLoad) {
  LiveFleet fleet(2, 4);
  fleet.says = Says{};
  fleet.Go(kHour);
  fleet.says->tokens_per_s = 6e5;
  fleet.Go(20 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet.Go(15 * kMinute);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("job_throughput_drop: job 7: it reports")));
}

TEST(LookAtReports, AJobThatReportsNoFurtherStep) {
  LiveFleet fleet(1, 4);
  fleet.says = Says{};
  fleet.Go(kHour);
  // Its GPUs do next to nothing, and what it reports stands still.
  fleet.says->steps = 0;
  fleet.says->tokens_per_s = 0;
  fleet.All({.tensor = 0, .sm = .01, .duty = 2, .power = 90});
  fleet.Go(69 * kMinute);
  EXPECT_EQ(fleet.Ever().count("job_no_progress"), 0u);
  fleet.Go(5 * kMinute);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("job_no_progress: job 7: no step reported")));
}

}  // namespace
}  // namespace flopwatch::alerts
