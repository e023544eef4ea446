// A data folder: which blocks of it are read, in which time they stand for, and what is left out.
#include "history/tsdb_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "history/tsdb_writer.h"

namespace flopwatch::history {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::WriteBlock;
using testing::WrittenBlock;
using testing::WrittenSamples;

constexpr int64_t kMin = 60'000;  // milliseconds

class TsdbFolderTest : public ::testing::Test {
 protected:
  TsdbFolderTest() {
    path_ = fs::temp_directory_path() / fmt::format("flopwatch-tsdb-{}-{}", ::getpid(), ++count_);
    fs::create_directories(path_);
  }
  ~TsdbFolderTest() override { fs::remove_all(path_); }

  static std::string Ulid(char c) { return std::string(26, c); }
  static std::string Meta(char c, int64_t min, int64_t max, std::string_view more = "") {
    return fmt::format(R"({{"ulid":"{}","minTime":{},"maxTime":{},"version":1{}}})", Ulid(c), min,
                       max, more);
  }
  void Put(const std::string& name, const WrittenBlock& w) {
    const fs::path at = path_ / name;
    fs::create_directories(at / "chunks");
    Write(at / "index", w.index);
    Write(at / "chunks/000001", w.chunks);
    Write(at / "tombstones", w.tombstones);
    Write(at / "meta.json", w.meta);
  }
  static void Write(const fs::path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static WrittenBlock BlockOf(std::string meta, const WrittenSamples& samples,
                              std::string gpu = "0") {
    return WriteBlock({{{{"__name__", "a"}, {"gpu", std::move(gpu)}}, {{samples}}}},
                      std::move(meta));
  }
  static std::vector<std::string> ReadAll(TsdbFolder* folder, Status* status = nullptr) {
    std::vector<std::string> out;
    const Status read = folder->Read({"a", {}}, folder->window(), [&](const auto& series) {
      std::string text;
      telemetry::AppendSeries(series, &text);
      for (const telemetry::MetricPoint& p : series.points)
        text += fmt::format(" {}:{}", p.ts / kMicrosPerMinute, p.value);
      out.push_back(text);
    });
    if (status != nullptr) *status = read;
    return out;
  }

  fs::path path_;
  static inline int count_ = 0;
};

TEST_F(TsdbFolderTest, BlocksThatOverlapAreMergedByTime) {
  Put(Ulid('A'), BlockOf(Meta('A', kMin, 4 * kMin), {{kMin, 1}, {3 * kMin, 3}}));
  Put(Ulid('B'),
      BlockOf(Meta('B', 2 * kMin, 6 * kMin), {{2 * kMin, 2}, {3 * kMin, 3}, {5 * kMin, 5}}));
  Put(Ulid('C'), BlockOf(Meta('C', 2 * kMin, 6 * kMin), {{4 * kMin, 4}}, "1"));
  // None of these is one.
  Put(Ulid('D') + ".tmp-for-creation", BlockOf(Meta('D', 0, 9 * kMin), {{8 * kMin, 8}}));
  Put("chunks_head", BlockOf(Meta('E', 0, 9 * kMin), {{8 * kMin, 8}}));
  auto folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->window().from, 0);
  EXPECT_EQ((*folder)->window().to, 6 * kMicrosPerMinute);
  const auto names = (*folder)->MetricNames((*folder)->window());
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("a"));
  EXPECT_THAT(ReadAll(folder->get()),
              ElementsAre("a{gpu=\"0\"} 1:1 2:2 3:3 5:5", "a{gpu=\"1\"} 4:4"));
  EXPECT_EQ((*folder)->blocks(), 3u);
  EXPECT_THAT((*folder)->unread().notes, IsEmpty());
}

TEST_F(TsdbFolderTest, DownsampledBlocksAreSkippedParentsAreNotReadAndExternalLabelsAreAdded) {
  Put(Ulid('A'),
      BlockOf(Meta('A', kMin, 4 * kMin, R"(,"thanos":{"labels":{"replica":"r1"}})"), {{kMin, 1}}));
  Put(Ulid('B'), BlockOf(Meta('B', kMin, 4 * kMin,
                              R"(,"compaction":{"parents":[{"ulid":")" + Ulid('C') + "\"}]}"),
                         {{2 * kMin, 2}}));
  Put(Ulid('C'), BlockOf(Meta('C', kMin, 4 * kMin), {{3 * kMin, 9}}));
  Put(Ulid('D'),
      BlockOf(Meta('D', kMin, 4 * kMin, R"(,"thanos":{"downsample":{"resolution":3600000}})"),
              {{3 * kMin, 9}}));
  auto folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(ReadAll(folder->get()),
              ElementsAre("a{gpu=\"0\",replica=\"r1\"} 1:1", "a{gpu=\"0\"} 2:2"));
  EXPECT_THAT((*folder)->unread().skipped,
              ElementsAre(::testing::Pair(HasSubstr("downsampled by Thanos to 1h"), 1)));
  EXPECT_THAT((*folder)->unread().windows, IsEmpty());
}

TEST_F(TsdbFolderTest, DamageCostsItsOwnTimeAndIsSaid) {
  WrittenBlock broken = BlockOf(Meta('B', 5 * kMin, 9 * kMin), {{5 * kMin, 2}, {6 * kMin, 3}});
  broken.chunks[15] ^= 1;
  Put(Ulid('A'), BlockOf(Meta('A', kMin, 4 * kMin), {{kMin, 1}}));
  Put(Ulid('B'), broken);
  auto folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  Status status;
  ReadAll(folder->get(), &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  const Unread& unread = (*folder)->unread();
  ASSERT_EQ(unread.windows.size(), 1u);  // (4, 6] in whole minutes: samples of 5 and 6
  EXPECT_EQ(unread.windows[0].from, 4 * kMicrosPerMinute);
  EXPECT_EQ(unread.windows[0].to, 6 * kMicrosPerMinute);
  EXPECT_THAT(unread.reasons, ElementsAre(::testing::Pair("a chunk's checksum is wrong", 1)));
  EXPECT_THAT(unread.notes, ElementsAre(HasSubstr(Ulid('B'))));
}

TEST_F(TsdbFolderTest, ABlockWithoutAnIndexCostsTheTimeOfTheBlock) {
  Put(Ulid('A'), BlockOf(Meta('A', kMin, 4 * kMin), {{kMin, 1}}));
  Put(Ulid('B'), BlockOf(Meta('B', 4 * kMin, 9 * kMin), {{5 * kMin, 2}}));
  fs::remove(path_ / Ulid('B') / "index");
  auto folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE((*folder)->MetricNames((*folder)->window()).ok());
  ASSERT_EQ((*folder)->unread().windows.size(), 1u);
  EXPECT_EQ((*folder)->unread().windows[0].from, 3 * kMicrosPerMinute);
  EXPECT_EQ((*folder)->unread().windows[0].to, 9 * kMicrosPerMinute);
  Status status;
  EXPECT_THAT(ReadAll(folder->get(), &status), ElementsAre("a{gpu=\"0\"} 1:1"));
  EXPECT_TRUE(status.ok()) << status;  // it is known: nobody asks for that time
  fs::remove(path_ / Ulid('A') / "index");
  folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->MetricNames((*folder)->window()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(TsdbFolderTest, ABlockThatSaysNoTimeMayBeOfAnyThatNoOtherIsOf) {
  Put(Ulid('A'), BlockOf(Meta('A', 10 * kMin, 20 * kMin), {{11 * kMin, 1}}));
  Put(Ulid('B'), BlockOf("{}", {{5 * kMin, 2}}));
  Put(Ulid('C'), BlockOf(Meta('C', 30 * kMin, 40 * kMin), {{31 * kMin, 1}}));
  const auto folder = TsdbFolder::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const Unread& unread = (*folder)->unread();
  EXPECT_EQ(unread.timeless, 1u);
  ASSERT_EQ(unread.windows.size(), 3u);
  EXPECT_EQ(unread.windows[1].from, 20 * kMicrosPerMinute);
  EXPECT_EQ(unread.windows[1].to, 29 * kMicrosPerMinute);
}

TEST_F(TsdbFolderTest, AFolderWithoutBlocksSaysWhatToDo) {
  EXPECT_EQ(TsdbFolder::Open(path_ / "none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(TsdbFolder::Open(path_).status().ToString(), HasSubstr("no block"));
  fs::create_directories(path_ / "wal");
  Write(path_ / "wal/00000000", "x");
  EXPECT_THAT(TsdbFolder::Open(path_).status().ToString(),
              HasSubstr("curl -XPOST http://localhost:9090/api/v1/admin/tsdb/snapshot"));
  // A level above, as where a receiver of Thanos keeps each tenant's, or Mimir's bucket does.
  Put("default-tenant/" + Ulid('A'), BlockOf(Meta('A', 0, 4 * kMin), {{kMin, 1}}));
  EXPECT_THAT(TsdbFolder::Open(path_).status().ToString(), HasSubstr("default-tenant"));
  EXPECT_TRUE(TsdbFolder::Open(path_ / "default-tenant").ok());
  fs::remove_all(path_ / "default-tenant");
  // A pipe, a folder, nothing: no file of a block.
  fs::create_directories(path_ / Ulid('A') / "meta.json");
  EXPECT_EQ(TsdbFolder::Open(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST(Unread, TimesThatTouchAreOne) {
  Unread unread;
  for (const auto& [from, to] : {std::pair(10, 20), {40, 50}, {20, 30}, {45, 60}, {1, 2}, {1, 2}})
    unread.Add({from, to});
  std::vector<std::pair<Micros, Micros>> all;
  for (const store::Window& w : unread.windows) all.emplace_back(w.from, w.to);
  EXPECT_THAT(all, ElementsAre(std::pair(1, 2), std::pair(10, 30), std::pair(40, 60)));
  EXPECT_EQ(unread.NextAfter(0).from, 1);
  EXPECT_EQ(unread.NextAfter(2).from, 10);
  EXPECT_EQ(unread.NextAfter(29).from, 10);
  EXPECT_GT(unread.NextAfter(60).from, 1'000'000);
}

}  // namespace
}  // namespace flopwatch::history
