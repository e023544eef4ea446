// Hand-worked fleets: what each level and loss must be, and that all of it adds up.
#include "fleet/sankey/sankey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <numeric>

#include "fleet/sankey/svg.h"

namespace flopwatch::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::map<std::string, double> LossesOf(const Sankey& s) {
  std::map<std::string, double> out;
  for (const SankeyLoss& l : s.losses) out[std::string(l.name)] += l.gpu_seconds;
  return out;
}
std::optional<double> At(const Sankey& s, SankeyLevel level) {
  return s.levels[static_cast<size_t>(level)].gpu_seconds;
}

efficiency::UsageSums Sums(double span, double util, double sm, double tensor, double ofu) {
  efficiency::UsageSums s;
  s.ofu.observed_s = s.ofu.computable_s = span;
  s.ofu.ofu_s = ofu;
  s.gpu_util_s = util, s.gpu_util_span_s = span;
  s.sm_active_s = sm, s.sm_active_span_s = span;
  s.tensor_s = tensor, s.tensor_span_s = span;
  return s;
}

// A fleet of 10,000 hosts as in the paper's example, the figures are ours: 95 % of GPU time can be
// used, 90 % of that is on busy hosts, 95 % of that is held, a kernel runs in 60 % of held time, on
// half of the SMs.
SankeyInput RoundFleet() {
  SankeyInput in;
  in.deployed_s = 80'000 * 3600.0;
  in.held = HeldLevels{.on_busy_hosts_s = in.deployed_s * .95 * .90,
                       .allocated_s = in.deployed_s * .95 * .90 * .95};
  const double held = in.held->allocated_s;
  in.measured = Sums(held, held * .6, held * .3, held * .1, held * .08);
  return in;
}

TEST(SankeyTest, LevelsAreSharesOfTheOneAboveAndOfAll) {
  const SankeyInput in = RoundFleet();
  const Sankey s = MakeSankey(in);
  const double all = in.deployed_s;
  EXPECT_NEAR(*s.compound, .95 * .90 * .95 * .08, 1e-12);
  EXPECT_NEAR(*At(s, SankeyLevel::kSmActive) / all, .95 * .90 * .95 * .3, 1e-12);
  EXPECT_NEAR(*s.levels[3].of_previous, .95, 1e-12);  // allocated of on_busy_hosts
  EXPECT_NEAR(*s.levels[4].of_previous, .6, 1e-12);   // busy of allocated
  EXPECT_NEAR(*s.levels[5].of_previous, .5, 1e-12);   // SM utilisation, over busy time
  const auto lost = LossesOf(s);
  EXPECT_THAT(lost, UnorderedElementsAre(
                        Pair("idle_hosts", testing::DoubleNear(all * .145, 1)),
                        Pair("free_on_busy_hosts", testing::DoubleNear(all * .855 * .05, 1)),
                        Pair("allocated_idle", testing::DoubleNear(all * .81225 * .4, 1)),
                        Pair("sm_idle", testing::DoubleNear(all * .81225 * .3, 1)),
                        Pair("tensor_idle", testing::DoubleNear(all * .81225 * .2, 1)),
                        Pair("below_full_clock", testing::DoubleNear(all * .81225 * .02, 1))));
  EXPECT_THAT(s.levels[4].coverage, testing::Optional(1.0));
}

// 100 GPU-seconds held; in 40 of them the duty cycle was missing, in 60 SM activity.
TEST(SankeyTest, WhatWasNotMeasuredIsALossOfItsOwn) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(100, 50, 20, 10, 8);
  in.measured.gpu_util_span_s = 60;
  in.measured.sm_active_span_s = 40;
  const Sankey s = MakeSankey(in);
  EXPECT_THAT(At(s, SankeyLevel::kBusy), testing::Optional(50.0));
  EXPECT_THAT(At(s, SankeyLevel::kSmActive), testing::Optional(20.0));
  // 40 on the way to busy, 20 more on the way to sm_active: the truth there is at most 20 + 60.
  EXPECT_THAT(LossesOf(s), UnorderedElementsAre(Pair("unmeasured", 60), Pair("allocated_idle", 10),
                                                Pair("sm_idle", 10), Pair("tensor_idle", 10),
                                                Pair("below_full_clock", 2)));
  EXPECT_THAT(s.levels[4].coverage, testing::Optional(0.6));
  EXPECT_THAT(s.levels[5].coverage, testing::Optional(0.4));
}

TEST(SankeyTest, AMissingCounterIsAtLeastWhatTheLevelBelowShows) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(100, 80, 5, 30, 25);
  in.measured.sm_active_span_s = 10;  // one GPU of ten says what its SMs do
  const Sankey s = MakeSankey(in);
  EXPECT_THAT(At(s, SankeyLevel::kSmActive), testing::Optional(30.0));
  EXPECT_THAT(At(s, SankeyLevel::kTensorActive), testing::Optional(30.0));
  EXPECT_EQ(s.levels[5].excess_s, 0);
}

// SMs that clock above the maximum tensor clock make OFU more than tensor activity. Both are
// missing in the same 20 s: that says nothing of tensor activity there.
TEST(SankeyTest, AClockAboveTheMaximumIsNoTensorActivity) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(80, 70, 50, 30, 32);
  Sankey s = MakeSankey(in);
  EXPECT_THAT(At(s, SankeyLevel::kTensorActive), testing::Optional(30.0));
  EXPECT_THAT(At(s, SankeyLevel::kFullClock), testing::Optional(30.0));
  EXPECT_NEAR(s.levels[7].excess_s, 2, 1e-12);
  EXPECT_THAT(LossesOf(s), UnorderedElementsAre(Pair("unmeasured", 20), Pair("allocated_idle", 10),
                                                Pair("sm_idle", 20), Pair("tensor_idle", 20)));
  // OFU of the totals of cycles, where the ratio was missing for 1 s more: at most so much.
  in.measured.tensor_span_s = 79;
  s = MakeSankey(in);
  EXPECT_THAT(At(s, SankeyLevel::kTensorActive), testing::Optional(31.0));
  EXPECT_NEAR(s.levels[7].excess_s, 1, 1e-12);
}

// Two jobs of 50 s. The samples of one stand for 55 s, with 5 s of whoever was there before; of the
// other 10 s are missing: these were not measured, whatever the first has too much.
TEST(SankeyTest, WhatOneJobHasTooMuchIsNotAnothers) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(55 + 40, 90, 45, 20, 15);
  EXPECT_EQ(LossesOf(MakeSankey(in))["unmeasured"], 5);
  in.covered_s.emplace();
  AddCovered(50, Sums(55, 55, 30, 10, 8), &*in.covered_s);
  AddCovered(50, Sums(40, 35, 15, 10, 7), &*in.covered_s);
  const Sankey s = MakeSankey(in);
  EXPECT_EQ(LossesOf(s)["unmeasured"], 10);
  EXPECT_EQ(LossesOf(s)["allocated_idle"], 0);
  EXPECT_THAT(At(s, SankeyLevel::kBusy), testing::Optional(90.0));
  EXPECT_THAT(s.levels[4].coverage, testing::Optional(0.9));
}

TEST(SankeyTest, ALevelNobodyMeasuresIsNotKnownAndNotZero) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(100, 80, 0, 30, 25);
  in.measured.sm_active_span_s = 0;
  Sankey s = MakeSankey(in);
  EXPECT_EQ(At(s, SankeyLevel::kSmActive), std::nullopt);
  EXPECT_THAT(std::string(s.levels[5].why_unknown), HasSubstr("DCGM_FI_PROF_SM_ACTIVE"));
  EXPECT_THAT(s.levels[6].of_previous, testing::Optional(30.0 / 80));
  EXPECT_THAT(s.compound, testing::Optional(0.25));
  // Without tensor activity and clock there is no OFU: all below what is known was not measured.
  in.measured.tensor_span_s = in.measured.ofu.computable_s = 0;
  s = MakeSankey(in);
  EXPECT_EQ(s.compound, std::nullopt);
  EXPECT_THAT(LossesOf(s),
              UnorderedElementsAre(Pair("allocated_idle", 20), Pair("unmeasured", 80)));
}

TEST(SankeyTest, HostsThatTakeNoWorkAreALossWhereSomebodySaysSo) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{.on_busy_hosts_s = 60, .allocated_s = 40};
  EXPECT_EQ(At(MakeSankey(in), SankeyLevel::kSchedulable), std::nullopt);
  EXPECT_EQ(LossesOf(MakeSankey(in))["idle_hosts"], 40);
  EXPECT_THAT(MakeSankey(in).levels[2].of_previous, testing::Optional(0.6));
  in.schedulable_s = 90;
  EXPECT_EQ(LossesOf(MakeSankey(in))["not_schedulable"], 10);
  EXPECT_EQ(LossesOf(MakeSankey(in))["idle_hosts"], 30);
  EXPECT_THAT(MakeSankey(in).levels[2].of_previous, testing::Optional(60.0 / 90));
}

TEST(SankeyTest, WithoutOwnersAllocationIsNotKnown) {
  SankeyInput in;
  in.deployed_s = 100;
  in.measured = Sums(100, 80, 40, 30, 25);
  const Sankey s = MakeSankey(in);
  EXPECT_EQ(At(s, SankeyLevel::kOnBusyHosts), std::nullopt);
  EXPECT_EQ(At(s, SankeyLevel::kAllocated), std::nullopt);
  EXPECT_THAT(s.levels[4].of_previous, testing::Optional(0.8));
  EXPECT_THAT(s.compound, testing::Optional(0.25));
  EXPECT_THAT(s.notes, testing::Contains(HasSubstr("Allocation is not known")));
}

TEST(SankeyTest, ContradictionsAreCutAndSaid) {
  SankeyInput in;
  in.deployed_s = 100;
  in.held = HeldLevels{100, 100};
  in.measured = Sums(100, 50, 60, 30, 31);
  const Sankey s = MakeSankey(in);
  EXPECT_THAT(At(s, SankeyLevel::kSmActive), testing::Optional(50.0));
  EXPECT_EQ(s.levels[5].excess_s, 10);
  EXPECT_EQ(s.levels[7].excess_s, 1);
  EXPECT_THAT(s.notes, testing::Contains(HasSubstr("'sm_active' exceeded")));
}

TEST(SankeyTest, MigAndNothingAtAll) {
  SankeyInput in;
  EXPECT_EQ(MakeSankey(in).compound, std::nullopt);
  EXPECT_THAT(MakeSankey(in).losses, IsEmpty());
  in.deployed_s = 100;
  in.held = HeldLevels{};
  EXPECT_THAT(MakeSankey(in).compound, testing::Optional(0.0));
  EXPECT_THAT(LossesOf(MakeSankey(in)), ElementsAre(Pair("idle_hosts", 100)));
  in.held = HeldLevels{.on_busy_hosts_s = 100, .allocated_s = 60, .mig_uncovered_s = 15};
  EXPECT_EQ(LossesOf(MakeSankey(in))["mig_uncovered"], 15);
  EXPECT_EQ(LossesOf(MakeSankey(in))["free_on_busy_hosts"], 25);
  EXPECT_EQ(LossesOf(MakeSankey(in))["unmeasured"], 60);
}

// Whatever is put in: losses and the last known level are the deployed time, levels only shrink.
RC_GTEST_PROP(SankeyProperty, ItAllAddsUp, ()) {
  const auto seconds = [] { return *rc::gen::inRange(0, 1000) / 7.0; };
  SankeyInput in;
  in.deployed_s = seconds();
  if (*rc::gen::arbitrary<bool>()) in.held = HeldLevels{seconds(), seconds(), seconds()};
  in.measured = Sums(seconds(), seconds(), seconds(), seconds(), seconds());
  if (*rc::gen::arbitrary<bool>()) in.measured.gpu_util_span_s = seconds();
  if (*rc::gen::arbitrary<bool>()) in.measured.sm_active_span_s = 0;
  if (*rc::gen::arbitrary<bool>()) in.measured.ofu.computable_s = 0;
  if (*rc::gen::arbitrary<bool>()) {
    in.covered_s.emplace();
    AddCovered(seconds(), in.measured, &*in.covered_s);
  }
  const Sankey s = MakeSankey(in);
  double sum = 0, above = in.deployed_s;
  for (const SankeyLoss& l : s.losses) {
    RC_ASSERT(l.gpu_seconds > 0);
    sum += l.gpu_seconds;
  }
  for (const SankeyRow& row : s.levels) {
    if (!row.gpu_seconds) continue;
    RC_ASSERT(*row.gpu_seconds >= 0 && *row.gpu_seconds <= above + 1e-9);
    above = *row.gpu_seconds;
  }
  const double useful = s.compound.value_or(0) * in.deployed_s;
  RC_ASSERT(std::abs(sum + useful - in.deployed_s) < 1e-6 * (1 + in.deployed_s) + 1e-5);
}

TEST(SankeySvgTest, ShowsEachLossAndLinksIt) {
  const Sankey s = MakeSankey(RoundFleet());
  const std::string svg = SankeySvg(s, "EUR", [](const SankeyLoss& loss) {
    return loss.name == "sm_idle" ? std::string("/jobs?a=1&b=2") : std::string();
  });
  EXPECT_THAT(svg, HasSubstr("<a href=\"/jobs?a=1&amp;b=2\">"));
  EXPECT_THAT(svg, HasSubstr("tensor cores idle"));
  EXPECT_THAT(svg, Not(HasSubstr("<style")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace flopwatch::fleet
