// Each rule on readings written by hand: the fault is named, and what looks like it and is honest
// is not. Values are those of real boards where the comment says so.
#include "efficiency/counters/honesty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace flopwatch::efficiency {
namespace {

constexpr double kAbsent = CountersRow::kAbsent;

// An H100 at a training step, a little different at each reading (slurm-job-exporter #30: tensor
// 0.2794, SM 0.9126, DRAM 0.2137, 572 W).
CountersRow Training(int k) {
  CountersRow r;
  r.span_s = 30;
  const double wobble = 0.001 * (k * 7 % 11);
  r.tensor = 0.2794 + wobble;
  r.sm_active = 0.9126 + wobble;
  r.gr_active = 0.99 - wobble;
  r.dram = 0.2137 + wobble;
  r.clock_mhz = 1755 + 15 * (k % 3);
  r.duty = k % 4 == 0 ? 0.99 : 1;
  r.power_w = 572.113 + k * 13 % 17;
  r.energy_j = 1e6 + 575.0 * 30 * k;
  r.vendor = CounterVendor::kNvidia;
  r.tdp_w = 700;
  r.tensor_clock_max_mhz = 1830;
  return r;
}

// The same GPU while nothing runs.
CountersRow Idle(int k) {
  CountersRow r = Training(k);
  r.tensor = r.sm_active = r.gr_active = r.dram = r.duty = 0;
  r.clock_mhz = 345;
  r.power_w = 71.5 + 0.1 * (k % 3);
  r.energy_j = 1e6 + 71.6 * 30 * k;
  return r;
}

CounterVerdict After(int readings, const std::function<CountersRow(int)>& row) {
  CounterJudge judge;
  for (int k = 0; k < readings; ++k) judge.Add(row(k));
  return judge.Verdict();
}

std::string RuleAfter(int readings, const std::function<CountersRow(int)>& row) {
  const CounterVerdict v = After(readings, row);
  return v.rule == CounterRuleId::kNone ? std::string(CounterOpinionName(v.opinion))
                                        : std::string(RuleOf(v.rule).name);
}

// With one value changed.
std::function<CountersRow(int)> With(const std::function<void(int, CountersRow&)>& change,
                                     CountersRow (*base)(int) = Training) {
  return [=](int k) {
    CountersRow r = base(k);
    change(k, r);
    return r;
  };
}

TEST(CounterHonesty, SaysNothingBeforeThereIsEvidence) {
  EXPECT_EQ(WhyNotJudged(After(2, Training)), "too few readings since the start");
  EXPECT_THAT(std::string(WhyNotJudged(After(100, Idle))), testing::HasSubstr("has not worked"));
  EXPECT_EQ(RuleAfter(100, Training), "ok");
}

TEST(CounterHonesty, NamesEveryFaultOfAWorkingGpu) {
  struct Case {
    std::string_view rule;
    std::function<void(int, CountersRow&)> change;
  };
  const Case cases[] = {
      {"exporter_frozen",
       [](int k, CountersRow& r) {
         if (k < 3) return;
         r = Training(2);
         r.frozen = k > 6;
       }},
      {"tensor_percent",
       [](int, CountersRow& r) {
         r.tensor = kAbsent;
         r.beyond = CountersRow::kTensor;
       }},
      {"tensor_renamed",
       [](int, CountersRow& r) {
         r.tensor = kAbsent;
         r.like_tensor = true;
       }},
      {"tensor_gone",
       [](int k, CountersRow& r) {
         if (k > 5) r.tensor = kAbsent;
       }},
      {"tensor_gone",
       [](int, CountersRow& r) {
         r.tensor = kAbsent;
         r.others_have_tensor = true;
       }},
      {"tensor_unlisted", [](int, CountersRow& r) { r.tensor = kAbsent; }},
      {"profiling_dead",
       [](int, CountersRow& r) { r.tensor = r.sm_active = r.gr_active = r.dram = 0; }},
      {"power_scaled", [](int, CountersRow& r) { r.power_w *= 1000; }},
      {"power_scaled", [](int, CountersRow& r) { r.power_w /= 1000; }},
      {"power_dead", [](int, CountersRow& r) { r.power_w = 0; }},
      {"power_frozen", [](int, CountersRow& r) { r.power_w = 571.25; }},
      {"power_gone",
       [](int, CountersRow& r) {
         r.power_w = kAbsent;
         r.most_have = CountersRow::kPower;
       }},
      {"clock_gone",
       [](int, CountersRow& r) {
         r.clock_mhz = kAbsent;
         r.most_have = CountersRow::kClock | CountersRow::kDuty;
       }},
      {"duty_gone",
       [](int, CountersRow& r) {
         r.duty = kAbsent;
         r.most_have = CountersRow::kDuty;
       }},
      {"power_missing", [](int, CountersRow& r) { r.power_w = kAbsent; }},
      {"clock_scaled",
       [](int, CountersRow& r) {
         r.clock_mhz = kAbsent;
         r.beyond = CountersRow::kClock;
       }},
      {"clock_scaled", [](int, CountersRow& r) { r.clock_mhz /= 1000; }},
      {"clock_missing", [](int, CountersRow& r) { r.clock_mhz = kAbsent; }},
      {"duty_scaled", [](int, CountersRow& r) { r.duty /= 100; }},
      {"duty_dead", [](int, CountersRow& r) { r.duty = 0; }},
      {"duty_missing", [](int, CountersRow& r) { r.duty = kAbsent; }},
      {"tensor_dead",
       [](int, CountersRow& r) {
         r.tensor = 0;
         r.other_pipes = 0.12;
       }},
      {"tensor_dead",
       [](int, CountersRow& r) {
         r.tensor = 0;
         r.tensor_parts = 0.28;
       }},
      {"tensor_dead",
       [](int, CountersRow& r) {
         r.tensor = 0;
         r.job_uses_tensor = true;
       }},
      {"tensor_frozen", [](int, CountersRow& r) { r.tensor = 0.431877; }},
      {"tensor_without_power",
       [](int k, CountersRow& r) {
         r.power_w = 80.5 + k % 3;
         r.energy_j = 1e6 + 81.0 * 30 * k;
       }},
      {"sm_below_tensor", [](int, CountersRow& r) { r.sm_active = 0; }},
      {"tensor_against_cycles", [](int, CountersRow& r) { r.cycles_mhz = 0.6 * 1755; }},
      {"energy_frozen", [](int, CountersRow& r) { r.energy_j = 1e6; }},
      {"energy_scaled", [](int k, CountersRow& r) { r.energy_j = 1e6 + 0.575 * 30 * k; }},
      {"tensor_undecided", [](int, CountersRow& r) { r.tensor = 0; }},
  };
  for (const Case& c : cases) {
    const CounterVerdict v = After(40, With(c.change));
    ASSERT_NE(v.rule, CounterRuleId::kNone) << c.rule;
    EXPECT_EQ(RuleOf(v.rule).name, c.rule);
    EXPECT_FALSE(RuleOf(v.rule).remedy.empty());
    EXPECT_FALSE(RuleOf(v.rule).amd_remedy.empty());
  }
}

TEST(CounterHonesty, NamesADutyCycleThatIsStuckOnAnIdleGpu) {
  EXPECT_EQ(RuleAfter(40, With([](int k, CountersRow& r) { r.duty = k < 10 ? 0 : 1; }, Idle)),
            "duty_stuck");
  // Nobody has seen it idle: its clock is down.
  EXPECT_EQ(RuleAfter(40, With([](int, CountersRow& r) { r.duty = 1; }, Idle)), "duty_stuck");
}

TEST(CounterHonesty, DoesNotAccuseWhatIsHonest) {
  // NCCL's kernels spin: the duty cycle is full, an eighth of the SMs is active without a change,
  // nothing is computed, the board draws little more than idle (70 W idle, 110 to 150 W then).
  const auto hang = With([](int k, CountersRow& r) {
    r.tensor = 0;
    r.sm_active = 0.181818;
    r.gr_active = 1;
    r.dram = 0.0001;
    r.duty = 1;
    r.clock_mhz = 1980;
    r.power_w = 118.2 + 0.3 * (k % 4);
    r.energy_j = 1e6 + 118.5 * 30 * k;
  });
  EXPECT_EQ(RuleAfter(500, hang), "ok");
  // FP64 on the CUDA cores; FP32; a code bound by memory; integer work (genomics).
  EXPECT_EQ(RuleAfter(500, With([](int, CountersRow& r) {
                        r.tensor = 0;
                        r.other_pipes = 0.55;
                      })),
            "ok");
  EXPECT_EQ(RuleAfter(500, With([](int, CountersRow& r) {
                        r.tensor = 0;
                        r.other_pipes = 0.12;
                        r.dram = 0.81;
                      })),
            "ok");
  EXPECT_EQ(RuleAfter(500, With([](int, CountersRow& r) {
                        r.tensor = 0;
                        r.other_pipes = 0.05;
                        r.integer_pipe = 0.7;
                      })),
            "ok");
  // Without the pipes it is not accused either: what would tell is asked for.
  EXPECT_EQ(After(500, With([](int, CountersRow& r) { r.tensor = 0; })).opinion,
            CounterOpinion::kUndecided);
  // A clock that is locked, whole watts under a cap, an exporter that is scraped twice as often.
  EXPECT_EQ(RuleAfter(500, With([](int, CountersRow& r) {
                        r.clock_mhz = 1755;
                        r.power_w = 700;
                      })),
            "ok");
  EXPECT_EQ(RuleAfter(500, [](int k) { return Training(k / 2); }), "ok");
  // Tensor work at a clock that is down takes little power.
  EXPECT_EQ(RuleAfter(500, With([](int k, CountersRow& r) {
                        r.clock_mhz = 600;
                        r.power_w = 140.5 + k % 5;
                        r.energy_j = 1e6 + 142.0 * 30 * k;
                      })),
            "ok");
  // AMD's matrix cores beside its vector units.
  EXPECT_EQ(RuleAfter(500, With([](int, CountersRow& r) {
                        r.vendor = CounterVendor::kAmd;
                        r.sm_active = 0.05;
                        r.tensor = 0.5 + r.tensor / 10;
                      })),
            "ok");
}

TEST(CounterHonesty, LeavesTheBoardOfAnInstanceAlone) {
  // An instance has no power and no duty cycle of its own; its GPU has no tensor activity.
  EXPECT_EQ(RuleAfter(100, With([](int, CountersRow& r) {
                        r.whole = r.board = false;
                        r.power_w = r.duty = r.energy_j = kAbsent;
                      })),
            "ok");
  EXPECT_EQ(RuleAfter(100, With([](int, CountersRow& r) {
                        r.whole = r.counts = false;
                        r.tensor = r.sm_active = r.gr_active = r.duty = kAbsent;
                      })),
            "ok");
}

TEST(CounterHonesty, SaysWhatABoardDoesNotHave) {
  const CounterVerdict v = After(100, With([](int, CountersRow& r) {
                                   r.has_profiling = false;
                                   r.tensor = r.sm_active = r.gr_active = kAbsent;
                                 }));
  EXPECT_EQ(v.opinion, CounterOpinion::kNotJudged);
  EXPECT_THAT(std::string(WhyNotJudged(v)), testing::HasSubstr("no profiling counters"));
}

TEST(CounterHonesty, ForgetsAFaultThatIsCured) {
  CounterJudge judge;
  for (int k = 0; k < 40; ++k) {
    CountersRow r = Training(k);
    r.tensor = r.sm_active = r.gr_active = r.dram = 0;
    judge.Add(r);
  }
  EXPECT_EQ(judge.Verdict().rule, CounterRuleId::kProfilingDead);
  EXPECT_NEAR(judge.Verdict().for_s, 40 * 30, 30);
  judge.Add(Training(40));
  EXPECT_EQ(judge.Verdict().opinion, CounterOpinion::kHonest);
}

TEST(CounterHonesty, IsSatisfiedWithLessWhereItIsAskedTo) {
  CounterJudge judge;
  for (int k = 0; k < 3; ++k) {
    CountersRow r = Training(k);
    r.tensor = r.sm_active = r.gr_active = r.dram = 0;
    judge.Add(r);
  }
  EXPECT_EQ(judge.Verdict().opinion, CounterOpinion::kNotJudged);
  EXPECT_EQ(judge.Verdict({.seconds = 0, .readings = 3}).rule, CounterRuleId::kProfilingDead);
}

TEST(CounterHonesty, IsSmall) { EXPECT_LE(sizeof(CounterJudge), 320U); }

// --- docs/counters.md: the tables of rules, as they are declared ---

std::string InCell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string RulesAsDocumented() {
  std::string out;
  for (const CounterRule& rule : CounterRules()) {
    out += fmt::format("| `{}` | {} | {} | {:.0f} s, {} | {} | {} |\n", rule.name,
                       CounterFaultName(rule.fault),
                       rule.counter.empty() ? "all" : fmt::format("`{}`", rule.counter),
                       rule.seconds, rule.readings, InCell(rule.says), InCell(rule.source));
  }
  return out;
}

std::string RemediesAsDocumented() {
  const auto line = [](std::string_view remedy) {
    return remedy.empty() ? "" : fmt::format("`{}`", InCell(remedy));
  };
  std::string out;
  for (const CounterRule& rule : CounterRules())
    out += fmt::format("| `{}` | {} | {} |\n", rule.name, line(rule.remedy), line(rule.amd_remedy));
  return out;
}

TEST(CounterRulesTest, AreDocumented) {
  std::ifstream in(FLOPWATCH_SOURCE_DIR "/docs/counters.md");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const std::string& table : {RulesAsDocumented(), RemediesAsDocumented()})
    EXPECT_NE(text.find(table), std::string::npos) << "docs/counters.md wants\n" << table;
}

}  // namespace
}  // namespace flopwatch::efficiency
