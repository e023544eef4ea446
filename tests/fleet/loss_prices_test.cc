// What measured losses cost where GPUs have different prices: by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/sankey/sankey.h"

namespace flopwatch::fleet {
namespace {

using efficiency::UsageSums;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Optional;

UsageSums Measure(double span, double util, double sm, double tensor, double ofu) {
  UsageSums s;
  s.ofu.observed_s = s.ofu.computable_s = span;
  s.ofu.ofu_s = ofu;
  s.gpu_util_s = util, s.gpu_util_span_s = span;
  s.sm_active_s = sm, s.sm_active_span_s = span;
  s.tensor_s = tensor, s.tensor_span_s = span;
  return s;
}
std::optional<double> CostOf(const Sankey& s, std::string_view loss) {
  for (const SankeyLoss& l : s.losses)
    if (l.name == loss) return l.money;
  ADD_FAILURE() << "no loss " << loss;
  return std::nullopt;
}
SankeyInput HeldInput(double held_s, const UsageSums& measured) {
  SankeyInput in;
  in.deployed_s = held_s;
  in.held = HeldLevels{.on_busy_hosts_s = held_s, .allocated_s = held_s};
  in.measured = measured;
  return in;
}

// A dear host (2 a second) computes well; a cheap one (0.5) is held for nothing half of the time.
TEST(LossPrices, EachLossCostsWhatItsOwnHostsDo) {
  const UsageSums dear = Measure(100, 100, 80, 60, 50), cheap = Measure(100, 50, 20, 10, 10);
  UsageSums all = dear;
  all += cheap;
  SankeyInput in = HeldInput(200, all);
  in.money.emplace(all);
  in.money->Add(100, dear, {.amount = 200, .priced_s = 100});
  in.money->Add(100, cheap, {.amount = 50, .priced_s = 100});
  const Sankey s = MakeSankey(in);
  EXPECT_THAT(CostOf(s, "allocated_idle"), Optional(50 * 0.5));
  EXPECT_THAT(CostOf(s, "sm_idle"), Optional(20 * 2 + 30 * 0.5));
  EXPECT_THAT(CostOf(s, "tensor_idle"), Optional(20 * 2 + 10 * 0.5));
  EXPECT_THAT(CostOf(s, "below_full_clock"), Optional(10 * 2.0));
  EXPECT_THAT(s.deployed_money, Optional(250.0));
}

// Of one price a loss costs its GPU-seconds at that price, whatever was measured where.
TEST(LossPrices, OnePriceIsThatPrice) {
  UsageSums all = Measure(150, 120, 90, 60, 50);
  all.sm_active_span_s = 100;
  SankeyInput in = HeldInput(200, all);
  in.money.emplace(all);
  in.money->Add(200, all, {.amount = 600, .priced_s = 200});
  const Sankey s = MakeSankey(in);
  double sum = 0;
  for (const SankeyLoss& l : s.losses) {
    ASSERT_TRUE(l.money.has_value()) << l.name;
    EXPECT_NEAR(*l.money, 3 * l.gpu_seconds, 1e-9) << l.name;
    sum += *l.money;
  }
  EXPECT_NEAR(sum, 600 - 3 * 50, 1e-9) << "all but the time at full clock";
}

// A host that was held and never measured: what is not known of it costs its own price.
TEST(LossPrices, WhatWasNotMeasuredIsPricedWhereItWas) {
  const UsageSums measured = Measure(100, 100, 80, 60, 50);
  SankeyInput in = HeldInput(200, measured);
  in.money.emplace(measured);
  in.money->Add(100, measured, {.amount = 100, .priced_s = 100});
  in.money->Add(100, {}, {.amount = 700, .priced_s = 100});
  const Sankey s = MakeSankey(in);
  EXPECT_THAT(CostOf(s, "unmeasured"), Optional(700.0));
  EXPECT_THAT(CostOf(s, "sm_idle"), Optional(20.0));
}

TEST(LossPrices, TimeWithoutAPriceAddsNoMoneyAndIsSaid) {
  const UsageSums priced = Measure(100, 100, 80, 60, 60),
                  without = Measure(300, 150, 150, 150, 150);
  UsageSums all = priced;
  all += without;
  SankeyInput in = HeldInput(400, all);
  in.money.emplace(all);
  in.money->Add(100, priced, {.amount = 100, .priced_s = 100});
  in.money->Add(300, without, {});
  const Sankey s = MakeSankey(in);
  EXPECT_EQ(CostOf(s, "allocated_idle"), std::nullopt) << "all of it is on GPUs of no price";
  EXPECT_THAT(CostOf(s, "sm_idle"), Optional(20.0));
  EXPECT_THAT(s.notes, Contains(HasSubstr("known of 25.0 % of the deployed")));
  EXPECT_THAT(s.notes, Contains(HasSubstr("and of 25.0 % of the allocated")));
}

}  // namespace
}  // namespace flopwatch::fleet
