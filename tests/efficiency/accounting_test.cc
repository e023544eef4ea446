// The table of cases of accounting.h, written out: each row with the sums it adds to and no others.
// And what is derived from the declaration of the sums.
#include "efficiency/accounting.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

namespace flopwatch::efficiency {
namespace {

using S = UsageSum;  // kTensorMissing and others are flags too
using Added = std::map<UsageSum, double>;

Added Of(const StampedRow& row, Work work = Work::kOfu, CountedFor whom = CountedFor::kFleet) {
  Added sums;
  Account(row, work, whom, [&](UsageSum sum, double v) { sums[sum] += v; });
  return sums;
}

// Ten seconds of half a GPU with every value: OFU 0.4, activity 0.5, 1500 MHz, 0.75, occupancy
// 0.25, 0.875, 600 W.
StampedRow Whole(uint32_t flags = 0) {
  StampedRow row;
  row.flags = flags;
  row.span = 10;
  row.fraction = 0.5;
  row.work = 0.4;
  row.tensor_active = 0.5;
  row.sm_clock_mhz = 1500;
  row.sm_active = 0.75;
  row.sm_occupancy = 0.25;
  row.gpu_util = 0.875;
  row.power_w = 600;
  return row;
}

// What every row of those adds, whatever becomes of its OFU.
const Added kAlways = {{S::kSamples, 1},        {S::kObserved, 5},        {S::kClock, 7500},
                       {S::kClockSpan, 5},      {S::kSmActive, 3.75},     {S::kSmActiveSpan, 5},
                       {S::kSmOccupancy, 1.25}, {S::kSmOccupancySpan, 5}, {S::kGpuUtil, 4.375},
                       {S::kGpuUtilSpan, 5},    {S::kEnergy, 6000},       {S::kPowerSpan, 10}};
const Added kActivity = {{S::kTensor, 2.5}, {S::kTensorSpan, 5}};

Added And(Added a, const Added& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(AccountingTest, ARowWithAllItsValuesIsComputable) {
  const Added computable = {{S::kWork, 2}, {S::kComputable, 5}};
  EXPECT_EQ(Of(Whole()), And(And(kAlways, kActivity), computable));
  // Flags that say nothing about sums change none.
  EXPECT_EQ(Of(Whole(kHalfRateBoard | kCounterReset | kBackfilled)), Of(Whole()));
  EXPECT_EQ(Of(Whole(kCyclePath)), And(Of(Whole()), {{S::kCycles, 5}}));
  EXPECT_EQ(Of(Whole(kStaleRepeat)), And(Of(Whole()), {{S::kStale, 5}}));
}

TEST(AccountingTest, SecondsWithoutOfuHaveTheFirstReasonThatApplies) {
  EXPECT_EQ(Of(Whole(kTensorMissing | kClockMissing | kDeadCounter | kOutOfRange | kModelUnknown)),
            And(kAlways, {{S::kTensorMissing, 5}}));
  EXPECT_EQ(Of(Whole(kDeadCounter | kClockMissing)), And(kAlways, {{S::kClockMissing, 5}}));
  EXPECT_EQ(Of(Whole(kClockMissing)), And(And(kAlways, kActivity), {{S::kClockMissing, 5}}));
  EXPECT_EQ(Of(Whole(kDeadCounter | kSuspectCounter)), And(kAlways, {{S::kDeadCounter, 5}}));
  EXPECT_EQ(Of(Whole(kOutOfRange | kModelUnknown)), And(kAlways, {{S::kOutOfRange, 5}}));
  EXPECT_EQ(Of(Whole(kModelUnknown)), And(And(kAlways, kActivity), {{S::kModelUnknown, 5}}));
  // The model of a stored row is asked when it is read: until then it has work.
  EXPECT_EQ(Of(Whole(kModelUnknown), Work::kMhz), Of(Whole()));
}

TEST(AccountingTest, ARowThatLacksValuesSaysWhichWithoutAFlag) {
  StampedRow no_clock = Whole(), nothing = {};
  no_clock.work = no_clock.sm_clock_mhz = StampedRow::kAbsent;
  Added without_clock = And(And(kAlways, kActivity), {{S::kClockMissing, 5}});
  without_clock.erase(S::kClock);
  without_clock.erase(S::kClockSpan);
  EXPECT_EQ(Of(no_clock), without_clock);
  StampedRow no_warps = Whole();
  no_warps.sm_occupancy = StampedRow::kAbsent;
  Added without_warps = Of(Whole());
  without_warps.erase(S::kSmOccupancy);
  without_warps.erase(S::kSmOccupancySpan);
  EXPECT_EQ(Of(no_warps), without_warps);
  nothing.span = 3;
  EXPECT_EQ(Of(nothing), (Added{{S::kSamples, 1}, {S::kObserved, 3}, {S::kTensorMissing, 3}}));
}

TEST(AccountingTest, AFrozenRowHasItsTimeAndNothingElse) {
  EXPECT_EQ(Of(Whole(kFrozen | kStaleRepeat)), (Added{{S::kSamples, 1}, {S::kFrozen, 5}}));
  EXPECT_EQ(Of(Whole(kFrozen | kStaleRepeat | kMigParent)), Added());
}

TEST(AccountingTest, AGpuWithInstancesCountsForItsPowerUnlessItIsAskedFor) {
  EXPECT_EQ(Of(Whole(kMigParent)), (Added{{S::kEnergy, 6000}, {S::kPowerSpan, 10}}));
  EXPECT_EQ(Of(Whole(kMigParent), Work::kMhz, CountedFor::kItself), Of(Whole()));
}

RC_GTEST_PROP(AccountingTest, ComputableAndTheReasonsAreTheObservedTime, ()) {
  StampedRow row = Whole(*rc::gen::arbitrary<uint32_t>());
  row.span = *rc::gen::inRange(0, 100);
  for (double* value : {&row.work, &row.tensor_active, &row.power_w}) {
    if (*rc::gen::inRange(0, 3) == 0) *value = StampedRow::kAbsent;
  }
  for (const Work work : {Work::kOfu, Work::kMhz}) {
    Added sums = Of(row, work, CountedFor::kItself);
    double reasons = 0;
    for (const UsageSum s :
         {S::kTensorMissing, S::kClockMissing, S::kModelUnknown, S::kDeadCounter, S::kOutOfRange})
      reasons += sums[s];
    RC_ASSERT(sums[S::kComputable] + reasons == sums[S::kObserved]);
    RC_ASSERT(sums[S::kObserved] + sums[S::kFrozen] == row.span * row.fraction);
  }
}

// --- the declaration ---

// Every sum with a number of its own: 1, 2, 3, ...
UsageSums Numbered() {
  PerSum<double> sums;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<double>(i + 1);
  return ToUsage(sums);
}

TEST(UsageSumsTest, EverySumHasAMemberOfItsOwn) {
  const UsageSums s = Numbered();
  EXPECT_EQ(s.ofu.samples, 1u);
  EXPECT_EQ(s.ofu.observed_s, 2);
  EXPECT_EQ(s.ofu.computable_s, 3);
  EXPECT_EQ(s.ofu.ofu_s, 4);
  EXPECT_EQ(s.tensor_s, 5);
  EXPECT_EQ(s.sm_occupancy_s, 11);
  EXPECT_EQ(s.sm_occupancy_span_s, 12);
  EXPECT_EQ(s.frozen_s, 24);
  // As many members as sums, each with another number.
  std::map<double, int> seen;
  ForEachUsageSum([&](auto sum) { ++seen[static_cast<double>(Member<sum()>(s))]; });
  EXPECT_EQ(seen.size(), kUsageSumCount);
  // Beside them there are three numbers that are no sums: a member that is not declared changes
  // this size.
  EXPECT_EQ(sizeof(UsageSums), (kUsageSumCount + 3) * sizeof(double));
}

TEST(UsageSumsTest, SharesDivideWhatCanBeDivided) {
  const UsageSums whole = Numbered(), of_job = OfJob(whole, 0.5), of_gpu = OfGpu(whole, 0.25);
  EXPECT_EQ(of_job.ofu.samples, 1u);
  EXPECT_EQ(of_job.power_j, whole.power_j / 2);
  EXPECT_EQ(of_job.power_span_s, whole.power_span_s / 2);
  EXPECT_EQ(of_job.frozen_s, whole.frozen_s / 2);
  EXPECT_EQ(of_gpu.ofu.samples, 1u);
  EXPECT_EQ(of_gpu.power_j, whole.power_j) << "the board's, whatever part of it this is";
  EXPECT_EQ(of_gpu.power_span_s, whole.power_span_s);
  EXPECT_EQ(of_gpu.clock_mhz_s, whole.clock_mhz_s / 4);
  EXPECT_EQ(of_gpu.frozen_s, whole.frozen_s / 4);
  EXPECT_EQ(of_job.sm_occupancy_s, whole.sm_occupancy_s / 2);
  EXPECT_EQ(of_gpu.sm_occupancy_span_s, whole.sm_occupancy_span_s / 4);
}

TEST(UsageSumsTest, SumsAddUpAndKeepTheOuterTimes) {
  UsageSums a = Numbered(), b = Numbered();
  a.gpus = 3, a.first_ts = 100, a.last_ts = 200;
  b.gpus = 2, b.first_ts = 50, b.last_ts = 150;
  a += b;
  ForEachUsageSum([&](auto sum) { EXPECT_EQ(Member<sum()>(a), 2 * Member<sum()>(b)); });
  EXPECT_EQ(a.gpus, 3);
  EXPECT_EQ(a.first_ts, 50);
  EXPECT_EQ(a.last_ts, 200);
  UsageSums none;
  none += b;
  EXPECT_EQ(none.first_ts, 50);
  b += UsageSums();
  EXPECT_EQ(b.first_ts, 50);
}

TEST(UsageSumsTest, WithoutATensorClockTheWorkIsLostToTheModel) {
  PerSum<double> known{}, unknown{};
  for (PerSum<double>* s : {&known, &unknown}) {
    (*s)[S::kObserved] = 30;
    (*s)[S::kComputable] = (*s)[S::kCycles] = 20;
    (*s)[S::kWork] = 20 * 915.0;
  }
  ApplyTensorClock(1830, &known);
  EXPECT_EQ(ToUsage(known).ofu.ofu_s, 10);
  EXPECT_EQ(ToUsage(known).ofu.computable_s, 20);
  ApplyTensorClock(0, &unknown);
  const UsageSums s = ToUsage(unknown);
  EXPECT_EQ(s.ofu.ofu_s, 0);
  EXPECT_EQ(s.ofu.computable_s, 0);
  EXPECT_EQ(s.cycle_path_s, 0);
  EXPECT_EQ(s.model_unknown_s, 20);
  EXPECT_EQ(s.ofu.observed_s, 30);
}

}  // namespace
}  // namespace flopwatch::efficiency
