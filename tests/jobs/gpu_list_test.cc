// The text of an attempt's GPUs: short, and the same names come out again.
#include "jobs/gpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "jobs/books.h"
#include "jobs/job_index.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> NamesOf(std::string_view list, size_t max = 1000) {
  std::vector<std::string> out;
  if (!ForEachGpuOf(list, max, [&](const std::string& gpu) { out.push_back(gpu); }))
    out.push_back("refused");
  return out;
}

TEST(GpuList, NodesWithTheSameDevicesAreOneEntry) {
  std::vector<std::string> names;
  for (const int node : {3, 1, 2, 5})
    for (int k = 0; k < (node == 5 ? 4 : 8); ++k)
      names.push_back(fmt::format("gpu{:03}:nvidia{}", node, node == 5 ? 2 * k : k));
  EXPECT_EQ(CompressGpuList(names), "gpu005:nvidia0,2,4,6;gpu[001-003]:nvidia0-7");
  EXPECT_EQ(CompressGpuList({"n:3", "n:0", "GPU-ab/2", "n:nvidia1"}), "n:0,3;n:nvidia1;GPU-ab/2");
  EXPECT_EQ(CompressGpuList({}), "");
}

TEST(GpuList, ANameThatTheTextCannotTellMakesNoList) {
  for (const char* name : {"", "a;b", "n:07", "n[1-2]:3", "a,b:3", ":3", "n:0-7", "n:99999999999"})
    EXPECT_EQ(CompressGpuList({"n:nvidia0", name}), "") << name;
  std::vector<std::string> scattered;
  for (int k = 0; k < 9000; ++k) scattered.push_back(fmt::format("GPU-{:08}", k * 2));
  EXPECT_EQ(CompressGpuList(scattered), "") << "longer than kMaxGpuListBytes";
}

TEST(GpuList, WhatIsNoListIsSaid) {
  EXPECT_THAT(NamesOf("n[1-2]:nvidia0-1"),
              ElementsAre("n1:nvidia0", "n1:nvidia1", "n2:nvidia0", "n2:nvidia1"));
  EXPECT_THAT(NamesOf(";;"), IsEmpty());
  for (const char* list : {"n[1-:3", "n:3-", "n:5-4", "n:1,,2", "n:70000", "n:99999999999"})
    EXPECT_EQ(NamesOf(list).back(), "refused") << list;
  EXPECT_EQ(NamesOf("n[0-9999]:0-999").back(), "refused") << "more than are asked for";
  EXPECT_LE(NamesOf("n:0-65535,0-65535,0-65535", 1u << 20).size(), 65'537u);
}

TEST(GpuList, ComesBackAsItWas) {
  for (int seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::string> names;
    for (int n = static_cast<int>(random() % 40); n-- > 0;) {
      const auto node = random() % 12, device = random() % 16;
      names.push_back(random() % 9 == 0 ? fmt::format("GPU-{:04x}", random() % 999)
                      : random() % 4 == 0
                          ? fmt::format("rack{}-n{:03}:{}", node % 3, node, device)
                          : fmt::format("rack{}-n{:03}:nvidia{}", node % 3, node, device));
    }
    std::vector<std::string> back = NamesOf(CompressGpuList(names));
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::ranges::sort(back);
    EXPECT_EQ(back, names) << seed;
  }
}

// A GPU that is seen for the first time after a restart knows whose it was; one that was known
// keeps what is stored, once.
TEST(GpuList, AGpuSeenAfterARestartKnowsWhoseItWas) {
  Books books;
  AttemptRecord attempt;
  attempt.cluster = "c";
  attempt.job = "7";
  attempt.user = "ada";
  attempt.start = 1'760'000'000 * kMicrosPerSecond;
  attempt.end = attempt.start + kMicrosPerHour;
  attempt.gpus = 16;
  attempt.placed = true;
  attempt.gpu_list = "n[1-2]:nvidia0-7";
  books.Tell({{attempt}});

  JobIndex index;
  const auto bind = [&](int32_t entity, std::string node, int device) {
    telemetry::EntityKey key;
    key.uuid = fmt::format("GPU-{}", entity);
    telemetry::EntityLabels labels;
    labels.node = std::move(node);
    labels.device = fmt::format("nvidia{}", device);
    index.BindEntity(entity, key, labels);
  };
  bind(1, "n1", 0);
  AwaitUnseenGpus(books, &index);
  EXPECT_THAT(index.Intervals(0, kOpenEnd), IsEmpty()) << "of one that is known it is stored";
  bind(2, "n2", 7);
  const auto held = index.Intervals(0, kOpenEnd);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].entity, 2);
  EXPECT_EQ(held[0].from, attempt.start);
  EXPECT_EQ(held[0].to, attempt.end);
  EXPECT_EQ(index.job(held[0].job)->user, "ada");
}

TEST(GpuList, AWholeListIsNotTakenAwayByAPart) {
  Books books;
  AttemptRecord a;
  a.job = "7";
  a.start = 1'760'000'000 * kMicrosPerSecond;
  a.placed = true;
  a.gpu_list = "n[1-2]:nvidia0-7";
  books.Tell({{a}});
  AttemptRecord part = a;
  part.placed = false;
  part.gpu_list = "n1:nvidia0-7";
  books.Tell({{part}});
  part.gpu_list = "";
  part.end = a.start + kMicrosPerHour;
  books.Tell({{part}});
  const BookChanges changes = books.TakeChanges();
  ASSERT_EQ(changes.attempts.size(), 1u);
  EXPECT_EQ(changes.attempts[0].gpu_list, a.gpu_list);
  EXPECT_EQ(changes.attempts[0].end, part.end);
}

}  // namespace
}  // namespace flopwatch::jobs
