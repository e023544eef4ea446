// Shipped rules over rounds written by hand, both ways: what each is for fires after its time and
// not before, and what stands close to it never does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "alerts/engine.h"
#include "helpers.h"

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Shows = std::map<Quantity, double>;
using Q = Quantity;

struct Case {
  std::string rule;
  int64_t for_s;  // as docs/alerts.md and the rule's file have it: written here again
  Shows fault;
  std::vector<Shows> others;  // what differs from it and is none
  std::string said;           // a part of what people read
};

const double kNone = std::nan("");

std::vector<Case> Cases() {
  return {
      {"fleet_ofu_drop",
       3600,
       {{Q::kFleetOfu, .15},
        {Q::kFleetBaselineOfu, .31},
        {Q::kFleetBaselineWindows, 100},
        {Q::kFleetGpus, 600}},
       {{{Q::kFleetOfu, .16}},
        {{Q::kFleetBaselineWindows, 60}},  // five hours: a day is not known
        {{Q::kFleetGpus, 500}},            // a few jobs are most of so small a fleet
        {{Q::kFleetOfu, kNone}}},
       "has fallen to 15 %, from 31 %"},
      {"gpu_counter_fault",
       1800,
       {{Q::kGpuCounterFault, 1}},
       {{{Q::kGpuCounterFault, 0}}, {{Q::kGpuCounterFault, kNone}}},
       "GPU-1 of node n1 cannot be believed"},
      {"gpu_power_brake",
       300,
       {{Q::kGpuThrottle, 0x80}, {Q::kGpuDuty, .9}, {Q::kGpuPower, 310}},
       {{{Q::kGpuThrottle, 0x40}}, {{Q::kGpuThrottle, 0x4}}, {{Q::kGpuDuty, .02}}},
       "held back by the power brake for 5m, now at 310 W"},
      {"gpu_thermal_throttle",
       300,
       {{Q::kGpuThrottle, 0x8}, {Q::kGpuDuty, .9}, {Q::kGpuTemperature, 91}},
       {{{Q::kGpuThrottle, 0x88}}, {{Q::kGpuThrottle, 0x4}}, {{Q::kGpuDuty, .02}}},
       "held back by heat for 5m, now at 91 degrees"},
      {"gpu_clock_low",
       600,
       {{Q::kGpuClockShare, .5}, {Q::kGpuDuty, .97}, {Q::kGpuTensor, .3}, {Q::kGpuThrottle, 0x2}},
       {{{Q::kGpuClockShare, .7}},
        {{Q::kGpuThrottle, 0x20}},  // for heat: that has a rule of its own
        {{Q::kGpuThrottle, 0x80}},  // likewise the brake
        {{Q::kGpuDuty, .5}},
        {{Q::kGpuTensor, 0}}},
       "work at 50 % of their clock"},
      {"gpu_pcie_replays", 0, {{Q::kGpuPcieReplays, 200}}, {{{Q::kGpuPcieReplays, 100}}}, "200"},
      {"job_duty_drop",
       1200,
       {{Q::kJobGpus, 8},
        {Q::kJobShared, 0},
        {Q::kJobBaselineSpread, .05},
        {Q::kJobDuty, .6},  // what is shown; the same while it does not pause
        {Q::kJobBusyDuty, .6},
        {Q::kJobBaselineDuty, .95},
        {Q::kJobBaselineWindows, 12}},
       {{{Q::kJobBusyDuty, .8}},
        {{Q::kJobBusyDuty, kNone}},  // it pauses
        {{Q::kJobGpus, 2}},
        {{Q::kJobShared, 1}},
        {{Q::kJobBaselineSpread, .3}},  // it was never even
        {{Q::kJobBaselineWindows, 4}}},
       "60 %"},
      {"job_grad_norm",
       0,
       {{Q::kJobGradNorm, 6}, {Q::kJobBaselineGradNorm, .5}, {Q::kJobReportAge, 60}},
       {{{Q::kJobGradNorm, 4}}, {{Q::kJobBaselineGradNorm, 0}}, {{Q::kJobReportAge, 7200}}},
       "6"},
      {"job_mfu_drop",
       1200,
       {{Q::kJobMfu, .2},
        {Q::kJobBaselineMfu, .35},
        {Q::kJobReportWindows, 12},
        {Q::kJobReportAge, 60}},
       {{{Q::kJobMfu, .3}},
        {{Q::kJobMfu, .01}},  // it pauses
        {{Q::kJobReportWindows, 4}},
        {{Q::kJobReportAge, 900}}},
       "20 %"},
  };
}

class Shipped : public ::testing::TestWithParam<Case> {
 protected:
  Shipped() : engine_(ShippedRules(), {.grace = 0}) {}

  const Rule& TheRule() const {
    return *std::ranges::find(engine_.rules(), GetParam().rule, &Rule::name);
  }
  // What one subject shows, every 15 s from `from` to `to`.
  void Show(const Shows& shows, int64_t from, int64_t to) {
    const Scope scope = TheRule().scope;
    for (int64_t s = from; s <= to; s += 15) {
      Round round;
      round.ts = At(s);
      for (const Scope each : {Scope::kGpu, Scope::kJob, Scope::kNode, Scope::kFleet})
        round.of(each).Resize(each, each == scope ? 1 : 0, round.wanted);
      round.of(scope).keys[0] = 1;
      if (scope == Scope::kGpu) round.of(scope).holders = {5};
      for (const auto& [quantity, value] : shows) round.of(scope).Set(quantity, 0, value);
      round.who = [](Scope, size_t, Whose) {
        Who who;
        who.job = "7", who.node = "n1", who.gpu = "GPU-1";
        return who;
      };
      engine_.Run(round);
    }
  }
  // Of the rule alone: what a subject shows may be of another one too.
  std::vector<const Alert*> Told() const {
    std::vector<const Alert*> out = engine_.Alerts(true);
    std::erase_if(out, [](const Alert* a) { return a->rule != GetParam().rule; });
    return out;
  }

  Engine engine_;
};

TEST_P(Shipped, FiresAfterItsTime) {
  const Case& c = GetParam();
  if (c.for_s > 0) Show(c.fault, 0, c.for_s - 15);
  EXPECT_THAT(Told(), IsEmpty());
  Show(c.fault, c.for_s, c.for_s);
  ASSERT_THAT(Told(), SizeIs(1));
  EXPECT_THAT(Told()[0]->summary, HasSubstr(c.said));
  EXPECT_THAT(Told()[0]->summary + Told()[0]->action, Not(HasSubstr("{")));
}

TEST_P(Shipped, WhatIsCloseToItDoesNot) {
  const Case& c = GetParam();
  int64_t at = 0;
  for (const Shows& other : c.others) {
    Shows shows = c.fault;
    for (const auto& [quantity, value] : other) shows[quantity] = value;
    Show(shows, at, at + 2 * c.for_s + 900);
    EXPECT_THAT(Told(), IsEmpty()) << SpecOf(other.begin()->first).name;
    at += 2 * c.for_s + 915;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Shipped, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.rule; });

}  // namespace
}  // namespace flopwatch::alerts
