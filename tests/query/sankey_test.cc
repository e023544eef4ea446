// Who held what on which host, by hand: two hosts, a shared GPU, a partitioned one.
#include "query/sankey.h"

#include <gtest/gtest.h>

namespace flopwatch::query {
namespace {

constexpr Micros kT0 = 1'790'000'040 * kMicrosPerSecond;
Micros At(int64_t seconds) { return kT0 + seconds * kMicrosPerSecond; }

class HeldTimeTest : public ::testing::Test {
 protected:
  void Gpu(int32_t id, std::string node, Micros first_seen = kT0) {
    store::EntityRecord e;
    e.id = id;
    e.key = {.kind = telemetry::EntityKind::kGpu, .uuid = "GPU-" + std::to_string(id)};
    e.labels.node = std::move(node);
    e.first_seen = first_seen;
    stored_.entities.push_back(e);
  }
  void Instance(int32_t id, int32_t gpu, std::string profile) {
    store::EntityRecord e = stored_.entities[static_cast<size_t>(gpu - 1)];
    e.id = id;
    e.parent = gpu;
    e.key.kind = telemetry::EntityKind::kGpuInstance;
    e.key.gpu_instance = id;
    e.labels.mig_profile = std::move(profile);
    stored_.entities.push_back(e);
  }
  void Holds(int32_t job, int32_t entity, int64_t from, int64_t to) {
    if (stored_.jobs.empty() || stored_.jobs.back().id < job)
      stored_.jobs.push_back({.id = job, .key = std::to_string(job)});
    stored_.intervals.push_back({.id = next_++,
                                 .entity = entity,
                                 .job = job,
                                 .from = At(from),
                                 .to = At(to),
                                 .source = jobs::Source::kStaticFile});
  }
  std::optional<fleet::HeldLevels> Held(int64_t from, int64_t to) {
    MemorySources sources;
    sources.clock = [] { return At(1000); };
    const Memory memory(std::move(sources), stored_);
    EXPECT_TRUE(memory.ready().ok());
    return HeldTime(memory, {At(from), At(to)});
  }
  store::Dimensions stored_;
  int64_t next_ = 1;
};

TEST_F(HeldTimeTest, AHostIsBusyWhileAnyOfItsGpusIsHeld) {
  for (int32_t id = 1; id <= 4; ++id) Gpu(id, "a");
  for (int32_t id = 5; id <= 6; ++id) Gpu(id, "b");
  Holds(1, 1, 0, 60);
  Holds(1, 2, 30, 90);
  Holds(2, 2, 60, 80);   // beside job 1: the time is held once
  Holds(3, 5, -50, 10);  // began before the window
  const auto held = Held(0, 100);
  ASSERT_TRUE(held.has_value());
  EXPECT_DOUBLE_EQ(held->on_busy_hosts_s, 4 * 90 + 2 * 10);
  EXPECT_DOUBLE_EQ(held->allocated_s, 60 + 60 + 10);
  EXPECT_DOUBLE_EQ(held->mig_uncovered_s, 0);
}

TEST_F(HeldTimeTest, AGpuCountsFromWhenItIsThere) {
  Gpu(1, "a");
  Gpu(2, "a", At(50));
  Holds(1, 1, 0, 100);
  Holds(1, 2, 0, 100);
  const auto held = Held(0, 100);
  EXPECT_DOUBLE_EQ(held->on_busy_hosts_s, 150);
  EXPECT_DOUBLE_EQ(held->allocated_s, 150);
}

// Of an unknown model, slices count in sevenths: 3g + 2g are 5/7, and 2/7 belong to nobody.
TEST_F(HeldTimeTest, InstancesArePartsOfTheirGpu) {
  Gpu(1, "a");
  Instance(2, 1, "3g.40gb");
  Instance(3, 1, "2g.20gb");
  Holds(1, 2, 0, 50);
  Holds(2, 3, 50, 70);
  const auto held = Held(0, 100);
  EXPECT_DOUBLE_EQ(held->on_busy_hosts_s, 70);
  EXPECT_NEAR(held->allocated_s, 50 * 3 / 7. + 20 * 2 / 7., 1e-9);
  EXPECT_NEAR(held->mig_uncovered_s, 70 * 2 / 7., 1e-9);
}

// Its GPUs were known and are not any more (no exporter had named them before a restart): what it
// held counts all the same, and once where they are known.
TEST_F(HeldTimeTest, AJobWhoseGpusAreForgottenHeldThem) {
  Gpu(1, "a");
  Gpu(2, "a");
  jobs::AttemptRecord attempt;
  attempt.id = 1;
  attempt.job = "9";
  attempt.start = At(0);
  attempt.end = At(60);
  attempt.gpus = 2;
  attempt.nodes = "a";
  attempt.placed = true;
  stored_.attempts.push_back(attempt);
  EXPECT_DOUBLE_EQ(Held(0, 100)->allocated_s, 120);
  Holds(9, 1, 0, 60);
  Holds(9, 2, 0, 60);
  EXPECT_DOUBLE_EQ(Held(0, 100)->allocated_s, 120);
}

TEST_F(HeldTimeTest, GpusOfUnknownHostsAreHostsOfTheirOwn) {
  Gpu(1, "");
  Gpu(2, "");
  Holds(1, 1, 0, 100);
  EXPECT_DOUBLE_EQ(Held(0, 100)->on_busy_hosts_s, 100);
}

TEST_F(HeldTimeTest, WithoutAnyJobNobodyKnows) {
  Gpu(1, "a");
  EXPECT_FALSE(Held(0, 100).has_value());
  // There are jobs, and none of them held anything then: that is known.
  Holds(1, 1, 0, 10);
  EXPECT_DOUBLE_EQ(Held(20, 100)->allocated_s, 0);
}

}  // namespace
}  // namespace flopwatch::query
