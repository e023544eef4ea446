#include "query/deployed.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fixtures/body.h"
#include "hardware/accelerator.h"

namespace flopwatch::query {
namespace {

using namespace ingest;
using namespace test;

constexpr Micros kFirstMinute = 1'790'000'040 * kMicrosPerSecond;

void Meet(Registry& registry, std::string uuid, Micros first_seen, std::string_view model = kA100) {
  telemetry::EntityLabels labels;
  labels.model = model;
  ASSERT_TRUE(registry
                  .Resolve({.kind = telemetry::EntityKind::kGpu, .uuid = std::move(uuid)}, labels,
                           first_seen)
                  .ok());
}

TEST(DeployedTest, GpusCountFromWhenTheyWereFirstSeen) {
  Registry registry(&hardware::Catalog::Builtin());
  Meet(registry, "GPU-1", kFirstMinute);
  Meet(registry, "GPU-2", kFirstMinute + 30 * kMicrosPerSecond);
  Meet(registry, "GPU-3", kFirstMinute + 600 * kMicrosPerSecond, kH100);
  const Deployed deployed(registry, nullptr, 0);
  // [0 s, 60 s): 60 + 30 + 0.
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute, kFirstMinute + 60 * kMicrosPerSecond}), 90);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute - 100 * kMicrosPerSecond,
                                     kFirstMinute + 60 * kMicrosPerSecond}),
                   90);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute + 600 * kMicrosPerSecond,
                                     kFirstMinute + 610 * kMicrosPerSecond}),
                   30);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute - 10 * kMicrosPerSecond, kFirstMinute}), 0);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute, kFirstMinute + 610 * kMicrosPerSecond}, 2),
                   10);  // the H100, the second model met
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute, kFirstMinute + 610 * kMicrosPerSecond}, 9), 0);
  EXPECT_EQ(deployed.Gpus(kFirstMinute + 31 * kMicrosPerSecond), 2);
  EXPECT_EQ(deployed.Gpus(kFirstMinute + 700 * kMicrosPerSecond, 1), 2);
  EXPECT_EQ(
      deployed.Steps({kFirstMinute, kFirstMinute + 100 * kMicrosPerSecond}, 60 * kMicrosPerSecond),
      (std::vector<double>{90, 80}));
}

TEST(DeployedTest, ADayOfSilenceIsLeavingTheFleet) {
  Registry registry(&hardware::Catalog::Builtin());
  Meet(registry, "GPU-1", kFirstMinute);
  Meet(registry, "GPU-2", kFirstMinute);
  LiveState live;
  LiveRow row;
  row.now.entity = 1;
  row.now.ts = kFirstMinute + 3 * kMicrosPerDay;
  live.Update(row);
  // The server has run since day 1: GPU-2, known from the store, was never seen by it and is gone
  // since day 2.
  const Deployed deployed(registry, &live, kFirstMinute + kMicrosPerDay);
  EXPECT_EQ(deployed.Gpus(kFirstMinute + 2 * kMicrosPerDay), 2);
  EXPECT_EQ(deployed.Gpus(kFirstMinute + 3 * kMicrosPerDay), 1);
  EXPECT_EQ(deployed.Gpus(kFirstMinute + 5 * kMicrosPerDay), 0);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kFirstMinute, kFirstMinute + 10 * kMicrosPerDay}),
                   (4 + 2) * 86400.0);
}

RC_GTEST_PROP(DeployedTest, StepsAddUpToTheWindow, ()) {
  Registry registry(&hardware::Catalog::Builtin());
  const int n = *rc::gen::inRange(0, 40);
  double plain = 0;
  const Micros from = kFirstMinute + *rc::gen::inRange<int64_t>(0, 5000) * kMicrosPerSecond;
  const Micros to = from + *rc::gen::inRange<int64_t>(1, 5000) * kMicrosPerSecond;
  for (int k = 0; k < n; ++k) {
    const Micros seen = kFirstMinute + *rc::gen::inRange<int64_t>(0, 10000) * kMicrosPerSecond;
    Meet(registry, "GPU-" + std::to_string(k), seen);
    plain += static_cast<double>(std::max<Micros>(0, to - std::max(from, seen))) / kMicrosPerSecond;
  }
  const Deployed deployed(registry, nullptr, 0);
  RC_ASSERT(std::abs(deployed.Seconds({from, to}) - plain) < 1e-6);
  double steps = 0;
  for (const double s : deployed.Steps({from, to}, kMicrosPerMinute)) steps += s;
  RC_ASSERT(std::abs(steps - plain) < 1e-6);
}

}  // namespace
}  // namespace flopwatch::query
