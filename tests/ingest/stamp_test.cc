// Rows of one GPU, one after another, and what each is stamped with: the tables of ingest/stamp.h.
// Expected values are worked out by hand from its rules; the arithmetic stands beside them.
#include "ingest/stamp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/sample.h"

namespace flopwatch::ingest {
namespace {

using enum telemetry::CanonicalField;
using efficiency::CounterState;
using telemetry::EntityKind;

constexpr Micros kSec = kMicrosPerSecond;
constexpr Micros kStart = 1'790'000'040 * kSec;
constexpr double kNone = -1;  // no OFU

// An A100: 108 SMs, maximum tensor clock 1410 MHz, 400 W (docs/hardware.md).
constexpr ResolvedEntity kBoard = {
    .id = 7, .device = {.model = 3, .tensor_clock_max_mhz = 1410, .sm_count = 108, .tdp_w = 400}};

using Fields = std::vector<std::pair<telemetry::CanonicalField, double>>;

// A decoded row and the values it points to.
class Decoded {
 public:
  explicit Decoded(const Fields& fields) {
    for (const auto& [field, value] : fields) {
      values_[field] = value;
      row_.present.Set(field);
    }
    row_.values = values_.data();
  }
  Decoded(const Decoded&) = delete;
  const telemetry::DecodedRow& row() const { return row_; }

 private:
  std::array<double, telemetry::kMaxFields> values_{};
  telemetry::DecodedRow row_;
};

struct Expected {
  int32_t span_ms = 0;
  uint32_t flags = 0;
  double ofu = kNone;
};
struct Step {
  int at_s = 0;
  int previous_s = -1;  // -1: none
  Fields fields;
  Expected expected;
};
struct Case {
  const char* name;
  std::vector<Step> steps;
};

class StampTest : public testing::Test {
 protected:
  Stamp Next(int at_s, int previous_s, const Fields& fields,
             const ResolvedEntity& entity = kBoard) {
    const Decoded decoded(fields);
    return StampRow(rules_,
                    {.row = decoded.row(),
                     .kind = EntityKind::kGpu,
                     .entity = entity,
                     .ts = kStart + at_s * kSec,
                     .scrape_ts = kStart + at_s * kSec,
                     .previous = previous_s < 0 ? 0 : kStart + previous_s * kSec},
                    &gpu_);
  }
  static void Check(const Stamp& stamp, const Expected& expected) {
    EXPECT_EQ(stamp.header.span_ms, expected.span_ms);
    EXPECT_EQ(stamp.header.flags, expected.flags);
    EXPECT_DOUBLE_EQ(std::isnan(stamp.live.now.ofu) ? kNone : stamp.live.now.ofu, expected.ofu);
    EXPECT_EQ(stamp.live.now.flags, stamp.header.flags);
    EXPECT_DOUBLE_EQ(stamp.live.span_s, expected.span_ms / 1e3);
  }

  const StampRules rules_ = {.max_span = 90 * kSec};
  GpuState gpu_;
};

TEST_F(StampTest, TheTableOfCases) {
  using telemetry::kClockMissing;
  using telemetry::kFrozen;
  using telemetry::kModelUnknown;
  using telemetry::kOutOfRange;
  using telemetry::kSpanUnknown;
  using telemetry::kStaleRepeat;
  using telemetry::kTensorMissing;
  // OFU by the ratio: 0.5 x 1410 / 1410 = 0.5, 0.5 x 705 / 1410 = 0.25.
  const Fields busy = {{kTensorActive, 0.5}, {kSmClockMhz, 1410}};
  const Fields slower = {{kTensorActive, 0.5}, {kSmClockMhz, 705}};
  const auto energy = [](double joule) {
    return Fields{{kTensorActive, 0.5}, {kSmClockMhz, 1410}, {kEnergyJ, joule}};
  };
  const Case cases[] = {
      {"the first row stands for nothing, the next for the time between",
       {{0, -1, busy, {0, kSpanUnknown, 0.5}}, {10, 0, slower, {10'000, 0, 0.25}}}},
      {"after a gap there is no previous row",
       {{0, -1, busy, {0, kSpanUnknown, 0.5}}, {91, -1, slower, {0, kSpanUnknown, 0.25}}}},
      {"a busy GPU that says the same to the last digit repeats itself, and counts",
       {{0, -1, busy, {0, kSpanUnknown, 0.5}}, {10, 0, busy, {10'000, kStaleRepeat, 0.5}}}},
      {"an idle GPU may say the same for hours",
       {{0, -1, {{kTensorActive, 0}, {kSmClockMhz, 1410}}, {0, kSpanUnknown, 0}},
        {10, 0, {{kTensorActive, 0}, {kSmClockMhz, 1410}}, {10'000, 0, 0}}}},
      {"energy decides where there is one: it moved, so the same activity is a new reading",
       {{0, -1, energy(100), {0, kSpanUnknown, 0.5}}, {10, 0, energy(101), {10'000, 0, 0.5}}}},
      {"energy stood still: a repeat",
       {{0, -1, energy(100), {0, kSpanUnknown, 0.5}},
        {10, 0, energy(100), {10'000, kStaleRepeat, 0.5}}}},
      // News at 0 s. At 90 s it is 90 s old, which is not longer than max_span; at 95 s it is.
      {"a run of repeats longer than max_span is frozen: no OFU of now, then news ends it",
       {{0, -1, energy(100), {0, kSpanUnknown, 0.5}},
        {45, 0, energy(100), {45'000, kStaleRepeat, 0.5}},
        {90, 45, energy(100), {45'000, kStaleRepeat, 0.5}},
        {95, 90, energy(100), {5'000, kStaleRepeat | kFrozen, kNone}},
        {100, 95, energy(200), {5'000, 0, 0.5}}}},
      {"after a gap a repeat is not frozen time, but time nobody knows of",
       {{0, -1, energy(100), {0, kSpanUnknown, 0.5}},
        {300, -1, energy(100), {0, kSpanUnknown | kStaleRepeat, 0.5}}}},
      {"no tensor activity", {{0, -1, {{kSmClockMhz, 1410}}, {0, kSpanUnknown | kTensorMissing}}}},
      {"no clock", {{0, -1, {{kTensorActive, 0.5}}, {0, kSpanUnknown | kClockMissing}}}},
      {"neither", {{0, -1, {{kPowerW, 100}}, {0, kSpanUnknown | kTensorMissing | kClockMissing}}}},
      // 0.9 x 2000 / 1410 = 1.277 > 1.02.
      {"an OFU that cannot be",
       {{0, -1, {{kTensorActive, 0.9}, {kSmClockMhz, 2000}}, {0, kSpanUnknown | kOutOfRange}}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    gpu_ = {};
    for (const Step& step : c.steps) {
      SCOPED_TRACE(step.at_s);
      Check(Next(step.at_s, step.previous_s, step.fields), step.expected);
    }
  }
  SCOPED_TRACE("a model that is not in the hardware table");
  gpu_ = {};
  Check(Next(0, -1, busy, {.id = 7, .device = {}}), {0, kSpanUnknown | kModelUnknown, kNone});
}

TEST_F(StampTest, SpansRoundDownOnBothSides) {
  // 0.9996 s and 10.0014 s are 999 ms and 10,001 ms: 9,002 ms.
  EXPECT_EQ(SpanMs(kStart + 999'600, kStart + 10'001'400), 9'002);
}

// Totals of an H100 (132 SMs, maximum tensor clock 1830 MHz), summed over the SMs: at 1500 MHz ten
// seconds are 132 x 1.5e10 elapsed cycles.
class CycleTest : public StampTest {
 protected:
  static constexpr double kTenSeconds = 132 * 1.5e10;
  static constexpr ResolvedEntity kCycleBoard = {
      .id = 8, .device = {.model = 4, .tensor_clock_max_mhz = 1830, .sm_count = 132}};
  // Time passed and tensor activity since then, both in tens of seconds.
  Stamp At(int at_s, int previous_s, double elapsed, double active) {
    return Next(at_s, previous_s,
                {{kTensorActive, 0.9},
                 {kSmClockMhz, 1500},
                 {kSmCyclesElapsed, 1e12 + elapsed * kTenSeconds},
                 {kMmaCyclesActive, 1e12 + active * kTenSeconds}},
                kCycleBoard);
  }
};

TEST_F(CycleTest, TheRateReplacesTheRatioAndBridgesWhatWasMissed) {
  // The ratio is wrong on purpose: 0.9 x 1500 / 1830 = 0.7377.
  Check(At(0, -1, 0, 0), {0, telemetry::kSpanUnknown, 0.9 * 1500 / 1830});
  // 40 % of ten seconds: 0.4 x 1500 = 600 MHz, OFU 600 / 1830.
  const Stamp first = At(10, 0, 1, 0.4);
  Check(first, {10'000, telemetry::kCyclePath, 600.0 / 1830});
  EXPECT_FLOAT_EQ(first.header.tensor_mhz, 600);
  // Repeats keep the rate and weigh nothing.
  for (const int at : {20, 30}) {
    Check(At(at, at - 10, 1, 0.4),
          {0, telemetry::kCyclePath | telemetry::kStaleRepeat | telemetry::kSpanUnknown,
           600.0 / 1830});
  }
  // Thirty seconds since the totals moved, twenty of ten at 60 %: (1.2 / 3) x 1500 = 600 again.
  Check(At(40, 30, 4, 0.4 + 1.2), {30'000, telemetry::kCyclePath, 600.0 / 1830});
}

TEST_F(CycleTest, WhatLongerThanMaxSpanSaidNothingIsNotBridged) {
  At(0, -1, 0, 0);
  At(10, 0, 1, 0.4);
  for (int at = 20; at <= 100; at += 10) At(at, at - 10, 1, 0.4);
  // 100 s since the totals moved: more than 90, so only the ten seconds since the last row.
  Check(At(110, 100, 11, 0.4 + 4), {10'000, telemetry::kCyclePath, 600.0 / 1830});
}

TEST_F(CycleTest, ATotalThatWentBackGivesTheRatioOnce) {
  At(0, -1, 500, 200);
  At(10, 0, 501, 200.4);
  Check(At(20, 10, 0, 0), {10'000, telemetry::kCounterReset, 0.9 * 1500 / 1830});
  Check(At(30, 20, 1, 0.4), {10'000, telemetry::kCyclePath, 600.0 / 1830});
}

struct MigCase {
  const char* name;
  bool of_instance, gpu_has_tensor, instances_have_tensor;
  uint32_t flags;
  int32_t span_ms;
};

TEST_F(StampTest, WhoCountsOfAGpuAndItsInstances) {
  using telemetry::kMigParent;
  using telemetry::kSpanUnknown;
  const MigCase cases[] = {
      {"GPU, tensor of an instance", false, false, true, kMigParent, 10'000},
      {"GPU, tensor of both", false, true, true, kMigParent, 10'000},
      {"GPU, tensor of nobody: no reasons of its own", false, false, false, kMigParent, 10'000},
      {"GPU, tensor of the GPU alone", false, true, false, 0, 10'000},
      {"instance, tensor of the instance", true, false, true, 0, 10'000},
      {"instance, tensor of both", true, true, true, 0, 10'000},
      {"instance, tensor of the GPU alone: no weight", true, true, false,
       kSpanUnknown | telemetry::kTensorMissing, 0},
  };
  for (const MigCase& c : cases) {
    SCOPED_TRACE(c.name);
    gpu_ = {};
    Fields gpu_fields = {{kSmClockMhz, 1410}, {kPowerW, 300}};
    if (c.gpu_has_tensor) gpu_fields.emplace_back(kTensorActive, 0.5);
    const Decoded gpu(gpu_fields);
    Fields instance_fields = {{kSmClockMhz, 1410}};
    if (c.instances_have_tensor) instance_fields.emplace_back(kTensorActive, 0.9);
    const Decoded instance(instance_fields);
    ResolvedEntity entity = kBoard;
    if (c.of_instance) entity.fraction = 14.0 / 108;  // 1g.5gb
    const Stamp stamp =
        StampRow(rules_,
                 {.row = (c.of_instance ? instance : gpu).row(),
                  .kind = c.of_instance ? EntityKind::kGpuInstance : EntityKind::kGpu,
                  .entity = entity,
                  .ts = kStart + 10 * kSec,
                  .scrape_ts = kStart + 10 * kSec,
                  .previous = kStart,
                  .board = c.of_instance ? &gpu.row() : nullptr,
                  .instances_listed = !c.of_instance,
                  .instances_have_tensor = c.instances_have_tensor},
                 &gpu_);
    EXPECT_EQ(stamp.header.flags, c.flags);
    EXPECT_EQ(stamp.header.span_ms, c.span_ms);
    EXPECT_EQ(stamp.live.now.instance, c.of_instance);
    EXPECT_DOUBLE_EQ(stamp.live.fraction, entity.fraction);
    EXPECT_EQ(std::isnan(stamp.live.now.ofu), c.flags != 0);
  }
}

TEST_F(StampTest, AnInstanceRepeatsItselfWhenItsBoardsEnergyStandsStill) {
  const Decoded instance({{kSmClockMhz, 1410}, {kTensorActive, 0.9}});
  for (const auto& [joule, repeat] :
       std::vector<std::pair<double, bool>>{{100, false}, {110, false}, {110, true}}) {
    const Decoded board({{kSmClockMhz, 1410}, {kEnergyJ, joule}});
    const Stamp stamp = StampRow(rules_,
                                 {.row = instance.row(),
                                  .kind = EntityKind::kGpuInstance,
                                  .entity = kBoard,
                                  .ts = kStart + 10 * kSec,
                                  .scrape_ts = kStart + 10 * kSec,
                                  .previous = kStart,
                                  .board = &board.row(),
                                  .instances_have_tensor = true},
                                 &gpu_);
    EXPECT_EQ((stamp.header.flags & telemetry::kStaleRepeat) != 0, repeat) << joule;
  }
}

// 0.95 of the time busy at 300 of 400 W and no tensor cycle: suspect from the first row on, dead
// after 180 s of it (docs/ofu.md).
TEST_F(StampTest, AZeroThatMayBeWrong) {
  constexpr uint32_t kBoth = telemetry::kDeadCounter | telemetry::kSuspectCounter;
  const auto zero = [&](int k) {
    return Next(k * 60, k == 0 ? -1 : (k - 1) * 60,
                {{kTensorActive, 0}, {kSmClockMhz, 1410}, {kGpuUtil, 0.95}, {kPowerW, 300.0 + k}});
  };
  // The first row stands for no time: 0, 60 and 120 s of suspicion, then 180.
  for (int k = 0; k <= 2; ++k) {
    const Stamp stamp = zero(k);
    EXPECT_EQ(stamp.counter, CounterState::kSuspect) << k;
    EXPECT_EQ(stamp.header.flags & kBoth, kBoth) << k;
    EXPECT_TRUE(std::isnan(stamp.live.now.ofu)) << k;
  }
  const Stamp dead = zero(3);
  EXPECT_EQ(dead.counter, CounterState::kDead);
  EXPECT_EQ(dead.header.flags & kBoth, static_cast<uint32_t>(telemetry::kDeadCounter));
  const Stamp moved =
      Next(240, 180, {{kTensorActive, 0.5}, {kSmClockMhz, 1410}, {kGpuUtil, 0.95}, {kPowerW, 300}});
  EXPECT_EQ(moved.counter, CounterState::kAlive);
  EXPECT_TRUE(moved.zeros_were_true);
  EXPECT_DOUBLE_EQ(moved.live.now.ofu, 0.5);
}

TEST_F(StampTest, WhatIsSaidBesides) {
  ResolvedEntity half_rate = kBoard;
  half_rate.device.half_rate = true;
  const Decoded row({{kTensorActive, 0.5}, {kSmClockMhz, 1410}, {kGrActive, 0.7}, {kPowerW, 300}});
  const Stamp stamp = StampRow({.max_span = 90 * kSec, .backfill = true},
                               {.row = row.row(),
                                .kind = EntityKind::kGpu,
                                .entity = half_rate,
                                .ts = kStart + 60 * kSec,
                                .scrape_ts = kStart},
                               &gpu_);
  EXPECT_EQ(stamp.header.flags, static_cast<uint32_t>(telemetry::kSpanUnknown) |
                                    telemetry::kBackfilled | telemetry::kHalfRateBoard);
  EXPECT_EQ(stamp.header.entity, 7);
  EXPECT_EQ(stamp.header.model, 3);
  EXPECT_EQ(stamp.header.ts, kStart + 60 * kSec);
  EXPECT_EQ(stamp.live.now.ts, kStart);  // an exporter's clock that is ahead moves no window
  EXPECT_DOUBLE_EQ(stamp.live.now.gpu_util, 0.7);  // where there is no utilisation, graphics active
  EXPECT_DOUBLE_EQ(stamp.live.now.power_w, 300);
  EXPECT_TRUE(std::isnan(stamp.live.now.fb_used_mib));
}

}  // namespace
}  // namespace flopwatch::ingest
