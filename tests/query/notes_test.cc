// What numbers say in words, against sums done by hand.
#include "query/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flopwatch::query {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Findings(const JobFacts& facts) {
  std::vector<std::string> out;
  for (const Note& n : JobNotes(facts)) out.push_back(n.finding);
  return out;
}

// An hour of one GPU, all of it observed and computable.
NoteFigures Hour(double ofu, double gpu_util) {
  NoteFigures u;
  u.ofu = ofu, u.gpu_util = gpu_util, u.coverage = 1;
  u.gpu_seconds = u.observed_s = u.computable_s = 3600;
  return u;
}

JobFacts With(const NoteFigures& usage) {
  JobFacts facts;
  facts.usage = usage;
  return facts;
}

TEST(JobNotesTest, NamesTheIdleGpuTheSlowOneAndTheStandstill) {
  // Eight GPUs for an hour: one with duty 0 (1.0 GPU-h), one at 12 % where the median is 40 %; OFU
  // is 0 from 02:00 to 02:10 (10 minutes x 8 GPUs = 80 GPU-minutes = 1.3 GPU-h); OFU 0.315 over
  // tensor activity 0.38 = 83 %.
  JobFacts facts;
  facts.usage = Hour(0.315, 0.838);
  facts.usage.tensor_active = 0.38, facts.usage.sm_clock_mhz = 1617;
  facts.usage.gpu_seconds = facts.usage.observed_s = facts.usage.computable_s = 8 * 3600;
  for (int k = 0; k < 6; ++k)
    facts.gpus.push_back({"node-a gpu " + std::to_string(k), Hour(0.4, 0.95)});
  facts.gpus.push_back({"node-b gpu 2", Hour(0, 0)});
  facts.gpus.push_back({"node-b gpu 3", Hour(0.12, 0.97)});
  facts.from = 1'795'226'400 * kMicrosPerSecond;  // date -ud @1795226400: 2026-11-21 02:00
  facts.step = kMicrosPerMinute;
  for (int k = 0; k < 60; ++k) {
    facts.ofu.push_back(k < 10 ? 0.0 : 0.4);
    facts.gpu_seconds.push_back(8 * 60);
  }
  EXPECT_THAT(
      Findings(facts),
      UnorderedElementsAre(
          "1 of 8 GPUs did nothing in this window (1.0 GPU-h): node-b gpu 2.",
          "1 of 8 GPUs is far below the median OFU of 40.0 %: node-b gpu 3 (12.0 %).",
          "From 2026-11-21 02:00 to 02:10 UTC the job did next to nothing (10m, 1.3 GPU-h).",
          "While the tensor cores work the SM clock is 83 % of their maximum (1617 MHz on "
          "average)."));
}

TEST(JobNotesTest, DutyCycleThatMisleads) {
  EXPECT_THAT(Findings(With(Hour(0.08, 1.0))),
              ElementsAre("The duty cycle is 100 % but OFU only 8.0 %: "
                          "the GPUs look busy and do little arithmetic."));
  EXPECT_THAT(Findings(With(Hour(0.2, 0.4))),
              ElementsAre("The GPUs run no kernel 60 % of the time (duty cycle 40 %)."));
  NoteFigures fine = Hour(0.45, 0.98);
  fine.tensor_active = 0.5;
  EXPECT_THAT(Findings(With(fine)), IsEmpty());
  EXPECT_EQ(ShortNote(fine), "");
}

TEST(JobNotesTest, ClockCoverageAndCounters) {
  // OFU 0.35 with tensor activity 0.5: the clock stood at 70 % of its maximum while tensor cores
  // worked.
  NoteFigures slow = Hour(0.35, 0.98);
  slow.tensor_active = 0.5, slow.sm_clock_mhz = 1281;
  EXPECT_THAT(Findings(With(slow)), ElementsAre("While the tensor cores work the SM clock is 70 "
                                                "% of their maximum (1281 MHz on average)."));
  // 7200 GPU-seconds allocated, 3600 observed, of which 1800 had a dead counter: 0.5 GPU-h, half of
  // what was observed.
  NoteFigures dead = Hour(0.3, 0.98);
  dead.gpu_seconds = 7200, dead.computable_s = 1800, dead.coverage = 0.25;
  dead.lost_reasons = {{"dead_counter", 1800}};
  EXPECT_THAT(Findings(With(dead)),
              ElementsAre("1.0 GPU-h (50 %) were not observed at all.",
                          "OFU is not computable for 0.5 GPU-h (50 %): dead tensor counter."));
}

TEST(JobNotesTest, WhatExplainsTheMostComesFirst) {
  // 72 of 3,600 s without a tensor counter; of the 3,528 others 92 % busy and not computing.
  NoteFigures u = Hour(0.08, 1.0);
  u.computable_s = 3528, u.coverage = 0.98;
  u.lost_reasons = {{"tensor_missing", 72}};
  EXPECT_THAT(Findings(With(u)),
              ElementsAre(HasSubstr("The duty cycle is 100 % but OFU only 8.0 %"),
                          HasSubstr("tensor activity missing")));
  EXPECT_EQ(ShortNote(u), "busy, not computing; tensor activity missing 2 %");
}

TEST(JobNotesTest, AnMfuAlarmIsANoteInItsPlace) {
  JobFacts facts = With(Hour(0.25, 0.4));
  facts.job = "7";
  facts.alarm = MfuAlarm{"alarm", "MFU is 2.94 times too high", 0.18, 1000};
  // 2,160 GPU-seconds without a kernel are more than 1,000 claimed too many.
  EXPECT_THAT(Findings(facts), ElementsAre(HasSubstr("run no kernel"),
                                           "MFU against OFU, alarm: MFU is 2.94 times too high."));
}

TEST(NoteFiguresTest, AreThoseOfTheSums) {
  // 100 s expected, 90 observed, 60 computable at 50 %, 30 without a clock.
  Usage usage;
  usage.expected_s = 100;
  store::UsageSums& s = usage.sums;
  s.ofu.observed_s = 90, s.ofu.computable_s = 60, s.ofu.ofu_s = 30, s.ofu.samples = 9;
  s.gpu_util_s = 81, s.gpu_util_span_s = 90;
  s.clock_missing_s = 30;
  const NoteFigures u = FiguresOf(usage);
  EXPECT_DOUBLE_EQ(*u.ofu, 0.5);
  EXPECT_DOUBLE_EQ(*u.gpu_util, 0.9);
  EXPECT_FALSE(u.tensor_active.has_value());
  EXPECT_THAT(u.lost_reasons, ElementsAre(testing::Pair("clock_missing", 30.0)));
  EXPECT_EQ(ShortNote(u), "SM clock missing 33 %");
}

// One GPU for an hour: a kernel in 90 % of it, SMs active 80 %, tensor cores 30 %, OFU 27 %.
Usage OneHour() {
  Usage usage;
  usage.expected_s = 3600;
  store::UsageSums& s = usage.sums;
  s.ofu.observed_s = s.ofu.computable_s = 3600, s.ofu.ofu_s = 972, s.ofu.samples = 360;
  s.gpu_util_s = 3240, s.gpu_util_span_s = 3600;
  s.sm_active_s = 2880, s.sm_active_span_s = 3600;
  s.tensor_s = 1080, s.tensor_span_s = 3600;
  return usage;
}

TEST(OfuCauseTest, IsTheLargestLossOfWhatWasMeasured) {
  // Lost: 360 s without a kernel, 360 with SMs idle, 1,800 without tensor work, 108 below the
  // clock.
  OfuCause cause = CauseOfOfu(OneHour());
  EXPECT_EQ(cause.loss, "tensor_idle");
  EXPECT_DOUBLE_EQ(cause.gpu_seconds, 1800);
  EXPECT_DOUBLE_EQ(cause.share, 0.5);
  EXPECT_EQ(cause.text, "tensor cores idle: 0.5 of 1.0 measured GPU-h (50 %)");
  // What was held and not observed is in no OFU, and changes no cause.
  Usage longer = OneHour();
  longer.expected_s = 36'000;
  EXPECT_EQ(CauseOfOfu(longer).text, cause.text);
  // With a kernel in a third of the time alone, and SMs active in all of that.
  Usage idle = OneHour();
  idle.sums.gpu_util_s = idle.sums.sm_active_s = 1200;
  EXPECT_EQ(CauseOfOfu(idle).text, "held, no kernel runs: 0.7 of 1.0 measured GPU-h (67 %)");
}

TEST(OfuCauseTest, IsNamedOnlyWhereNoOtherCanBeLarger) {
  // SM activity is missing in half of the time: 1,800 s that may be SMs idle or tensor cores idle,
  // beside 360 s of each loss that is known.
  Usage half = OneHour();
  half.sums.sm_active_s = 1440, half.sums.sm_active_span_s = 1800;
  const OfuCause undecided = CauseOfOfu(half);
  EXPECT_EQ(undecided.loss, "");
  EXPECT_EQ(undecided.text,
            "not decided: held, no kernel runs 10 %, tensor cores idle 10 %, not measured 50 %");
  // Where nobody reports it, what lies between busy and tensor activity is one loss: 2,160 s.
  Usage none = OneHour();
  none.sums.sm_active_s = none.sums.sm_active_span_s = 0;
  EXPECT_EQ(CauseOfOfu(none).text, "tensor cores idle: 0.6 of 1.0 measured GPU-h (60 %)");
}

TEST(OfuCauseTest, WithoutAnOfuSaysWhy) {
  EXPECT_EQ(CauseOfOfu({}).text, "not computable: no samples in the window");
  Usage clock = OneHour();
  clock.sums.ofu.computable_s = clock.sums.ofu.ofu_s = 0, clock.sums.clock_missing_s = 3600;
  EXPECT_EQ(CauseOfOfu(clock).text,
            "not computable: the SM clock is missing: the exporter does not list "
            "DCGM_FI_DEV_SM_CLOCK");
  Usage brief = OneHour();
  brief.sums.ofu.computable_s = 60;
  EXPECT_EQ(CauseOfOfu(brief).text, "not decided: an OFU is known of 60 GPU-seconds alone");
  // All of the peak: nothing is lost.
  Usage full = OneHour();
  full.sums.gpu_util_s = full.sums.sm_active_s = full.sums.tensor_s = full.sums.ofu.ofu_s = 3600;
  EXPECT_EQ(CauseOfOfu(full).text, "no loss reaches 1 % of 1.0 measured GPU-h");
}

TEST(ReasonsTest, ACodeWithoutWordsIsItsOwn) {
  EXPECT_EQ(ReasonTitle("dead_counter"), "dead tensor counter");
  EXPECT_EQ(ReasonTitle("not_in_the_table"), "not in the table");
  EXPECT_EQ(ReasonAdvice("not_in_the_table"), "");
}

}  // namespace
}  // namespace flopwatch::query
