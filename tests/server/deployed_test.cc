#include "server/deployed.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "body.h"
#include "hardware/accelerator.h"

namespace flopwatch::server {
namespace {

constexpr Micros kS = kMicrosPerSecond;
constexpr Micros kMinute = 1'790'000'040 * kS;

void Meet(Registry& registry, std::string uuid, Micros first_seen, std::string_view model = kA100) {
  telemetry::EntityLabels labels;
  labels.model = model;
  ASSERT_TRUE(registry.Resolve({.kind = telemetry::EntityKind::kGpu, .uuid = std::move(uuid)}, labels, first_seen).ok());
}

TEST(DeployedTest, GpusCountFromWhenTheyWereFirstSeen) {
  Registry registry(&hardware::Catalog::Builtin());
  Meet(registry, "GPU-1", kMinute);
  Meet(registry, "GPU-2", kMinute + 30 * kS);
  Meet(registry, "GPU-3", kMinute + 600 * kS, kH100);
  const Deployed deployed(registry, nullptr, 0);
  // [0 s, 60 s): 60 + 30 + 0.
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute, kMinute + 60 * kS}), 90);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute - 100 * kS, kMinute + 60 * kS}), 90);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute + 600 * kS, kMinute + 610 * kS}), 30);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute - 10 * kS, kMinute}), 0);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute, kMinute + 610 * kS}, 2), 10);  // the H100, the second model met
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute, kMinute + 610 * kS}, 9), 0);
  EXPECT_EQ(deployed.Gpus(kMinute + 31 * kS), 2);
  EXPECT_EQ(deployed.Gpus(kMinute + 700 * kS, 1), 2);
  EXPECT_EQ(deployed.Steps({kMinute, kMinute + 100 * kS}, 60 * kS), (std::vector<double>{90, 80}));
}

TEST(DeployedTest, ADayOfSilenceIsLeavingTheFleet) {
  Registry registry(&hardware::Catalog::Builtin());
  Meet(registry, "GPU-1", kMinute);
  Meet(registry, "GPU-2", kMinute);
  LiveState live;
  LiveRow row;
  row.now.entity = 1;
  row.now.ts = kMinute + 3 * kMicrosPerDay;
  live.Update(row);
  // The server has run since day 1: GPU-2, known from the store, was never seen by it and is gone since day 2.
  const Deployed deployed(registry, &live, kMinute + kMicrosPerDay);
  EXPECT_EQ(deployed.Gpus(kMinute + 2 * kMicrosPerDay), 2);
  EXPECT_EQ(deployed.Gpus(kMinute + 3 * kMicrosPerDay), 1);
  EXPECT_EQ(deployed.Gpus(kMinute + 5 * kMicrosPerDay), 0);
  EXPECT_DOUBLE_EQ(deployed.Seconds({kMinute, kMinute + 10 * kMicrosPerDay}), (4 + 2) * 86400.0);
}

RC_GTEST_PROP(DeployedTest, StepsAddUpToTheWindow, ()) {
  Registry registry(&hardware::Catalog::Builtin());
  const int n = *rc::gen::inRange(0, 40);
  double plain = 0;
  const Micros from = kMinute + *rc::gen::inRange<int64_t>(0, 5000) * kS;
  const Micros to = from + *rc::gen::inRange<int64_t>(1, 5000) * kS;
  for (int k = 0; k < n; ++k) {
    const Micros seen = kMinute + *rc::gen::inRange<int64_t>(0, 10000) * kS;
    Meet(registry, "GPU-" + std::to_string(k), seen);
    plain += static_cast<double>(std::max<Micros>(0, to - std::max(from, seen))) / kS;
  }
  const Deployed deployed(registry, nullptr, 0);
  RC_ASSERT(std::abs(deployed.Seconds({from, to}) - plain) < 1e-6);
  double steps = 0;
  for (const double s : deployed.Steps({from, to}, kMicrosPerMinute)) steps += s;
  RC_ASSERT(std::abs(steps - plain) < 1e-6);
}

}  // namespace
}  // namespace flopwatch::server
