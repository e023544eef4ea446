// A reading as the rules of honesty.h see it: the row, what it is beside the one before, and what
// the judge remembers. Internal to this folder.
#pragma once

#include <cmath>

#include "efficiency/counters/honesty.h"

namespace flopwatch::efficiency {

enum class Says : uint8_t { kNothing, kFault, kFine };

// Everything a rule may look at, worked out once a row.
class CounterLook {
 public:
  CounterLook(const CountersRow& row, const CounterJudge& judge);

  const CountersRow& row;
  double tdp_w;          // the limit in force, else the model's; 0 = not known
  double activity;       // the larger of SM and graphics engine activity; NaN = neither is exported
  double activity_step;  // how far activity, tensor activity or duty cycle are from the last ones
  bool fresh;            // some reading is not what it was
  bool had_tensor;
  bool tensor_same, power_same, energy_same;  // as the reading before
  bool profiling_zero;                        // every profiling counter that is exported is 0
  bool at_idle_power, above_idle_power;       // both false: not known
  bool busy_and_hot;                          // the load of the dead-counter rule (ofu.h)
  double mean_excess, mean_ratio, mean_energy_ratio;

 private:
  void SetIdle(const CounterJudge& judge);
};

using CounterTest = Says (*)(const CounterLook&);
struct CounterRuleTest {
  CounterTest test;
  bool any;  // repeated readings count as well: what it looks at needs no change to be wrong
};

// What all rules say, a bit each.
struct AllSay {
  uint32_t fault = 0, fine = 0;
  uint32_t any = 0;  // of those that say kFault: CounterRuleTest::any
};
AllSay AskAll(const CounterLook& look);

}  // namespace flopwatch::efficiency
