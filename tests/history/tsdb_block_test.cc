// One block: what was written comes back, and what is damaged is said and costs no more than
// itself.
#include "history/tsdb_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "history/tsdb_writer.h"

namespace flopwatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Tombstones;
using testing::WriteBlock;
using testing::WrittenBlock;
using testing::WrittenSeries;

constexpr std::string_view kMeta =
    R"({"ulid":"01AAAAAAAAAAAAAAAAAAAAAAAA","minTime":1000,"maxTime":100000,"version":1})";
constexpr double kStale = std::bit_cast<double>(uint64_t{0x7ff0000000000002});

std::vector<WrittenSeries> TwoOfA() {
  return {{{{"Hostname", "n0"}, {"__name__", "a"}, {"gpu", "0"}},
           {{{{1000, 1.5}, {2000, -2}, {3500, 1e300}}}, {{{4000, 4}}}, {{{5000, 5}, {6000, 6}}}}},
          {{{"Hostname", "n1"}, {"__name__", "a"}, {"gpu", "1"}}, {{{{1000, 7}, {99000, 8}}}}},
          {{{"Hostname", "n1"}, {"__name__", "b"}}, {{{{2000, 9}}}}}};
}

StatusOr<std::unique_ptr<Block>> Opened(const WrittenBlock& w) {
  FW_ASSIGN_OR_RETURN(BlockMeta meta, ParseBlockMeta(w.meta));
  BlockFiles files;
  files.index = std::make_unique<MemoryFile>(w.index);
  files.tombstones = w.tombstones;
  files.chunks = [chunks = w.chunks](uint32_t n) -> StatusOr<std::unique_ptr<ByteFile>> {
    if (n != 1) return absl::NotFoundError("it is not there");
    return std::make_unique<MemoryFile>(chunks);
  };
  return Block::Open(std::move(meta), std::move(files));
}

struct Read {
  std::vector<std::string> series;  // "a{…} 1000:1.5 …"
  std::vector<std::string> damage;  // "1000-3500: why"
  Status status;
};
Read ReadOf(Block* block, const Selector& selector, int64_t from, int64_t to) {
  Read out;
  out.status = block->Read(
      selector, from, to,
      [&](const telemetry::MetricSeries& series) {
        std::string text;
        telemetry::AppendSeries(series, &text);
        for (const telemetry::MetricPoint& p : series.points)
          text += fmt::format(" {}:{}", p.ts / 1000, p.value);
        out.series.push_back(text);
      },
      [&](int64_t min, int64_t max, std::string_view why) {
        out.damage.push_back(fmt::format("{}-{}: {}", min, max, why));
      });
  return out;
}

TEST(TsdbBlock, DeletedTimeThatEndsBeforeItBeginsIsDamage) {
  for (const auto& span : {std::pair<int64_t, int64_t>(4500, 1500), {INT64_MAX, INT64_MIN}}) {
    const auto stones = ParseTombstones(testing::Tombstones({{1, span}}));
    EXPECT_TRUE(absl::IsDataLoss(stones.status())) << stones.status();
  }
  EXPECT_EQ(ParseTombstones(testing::Tombstones({{1, {7, 7}}}))->at(1).size(), 1u);
}

TEST(TsdbBlock, WhatWasWrittenComesBackMetricByMetric) {
  for (const int version : {2, 3}) {
    auto block = Opened(WriteBlock(TwoOfA(), kMeta, version));
    ASSERT_TRUE(block.ok()) << block.status();
    std::vector<std::string> names;
    for (const auto& [name, at] : (*block)->index().metrics()) names.push_back(name);
    EXPECT_THAT(names, ElementsAre("a", "b"));
    EXPECT_THAT(ReadOf(block->get(), {"a", {}}, 0, 100'000).series,
                ElementsAre("a{Hostname=\"n0\",gpu=\"0\"} 1000:1.5 2000:-2 3500:1e+300 4000:4 "
                            "5000:5 6000:6",
                            "a{Hostname=\"n1\",gpu=\"1\"} 1000:7 99000:8"));
    EXPECT_THAT(ReadOf(block->get(), {"b", {}}, 0, 100'000).series,
                ElementsAre("b{Hostname=\"n1\"} 2000:9"));
    EXPECT_THAT(ReadOf(block->get(), {"c", {}}, 0, 100'000).series, IsEmpty());
  }
}

TEST(TsdbBlock, WindowsAreOpenAtTheLeftAndMayGoBackwards) {
  auto block = Opened(WriteBlock(TwoOfA(), kMeta));
  ASSERT_TRUE(block.ok()) << block.status();
  const Selector zero{"a", {{.name = "gpu", .value = "0"}}};
  const std::string who = "a{Hostname=\"n0\",gpu=\"0\"}";
  const std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> windows = {
      {{0, 1000}, " 1000:1.5"},
      {{1000, 3500}, " 2000:-2 3500:1e+300"},
      {{3500, 5000}, " 4000:4 5000:5"},
      {{5000, 5999}, ""},
      {{5999, 9000}, " 6000:6"},
      {{0, 2000}, " 1000:1.5 2000:-2"},
      {{9000, 90'000}, ""},
      {{3999, 4000}, " 4000:4"}};
  for (const auto& [window, samples] : windows) {
    const Read read = ReadOf(block->get(), zero, window.first, window.second);
    ASSERT_TRUE(read.status.ok());
    if (samples.empty()) {
      EXPECT_THAT(read.series, IsEmpty());
    } else {
      EXPECT_THAT(read.series, ElementsAre(who + samples)) << window.first;
    }
  }
}

TEST(TsdbBlock, MatchersOfEveryKindHold) {
  auto block = Opened(WriteBlock(TwoOfA(), kMeta));
  ASSERT_TRUE(block.ok()) << block.status();
  using Type = telemetry::ReadMatcher::Type;
  const std::vector<std::pair<telemetry::ReadMatcher, size_t>> all = {
      {{Type::kEqual, "gpu", "1"}, 1},
      {{Type::kNotEqual, "gpu", "1"}, 1},
      {{Type::kRegex, "Hostname", "n."}, 2},
      {{Type::kRegex, "Hostname", "n"}, 0},
      {{Type::kNotRegex, "gpu", "[1-9]"}, 1},
      {{Type::kEqual, "absent", ""}, 2},
      {{Type::kRegex, "Hostname", "(?i)N0|N7"}, 1}};
  for (const auto& [matcher, n] : all)
    EXPECT_EQ(ReadOf(block->get(), {"a", {matcher}}, 0, 100'000).series.size(), n) << matcher.value;
  EXPECT_EQ(ReadOf(block->get(), {"a", {{Type::kRegex, "gpu", "("}}}, 0, 1).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TsdbBlock, WhatWasDeletedOrIsNoValueIsNotThere) {
  std::vector<WrittenSeries> all = TwoOfA();
  all[0].chunks[2].samples = {{5000, kStale}, {6000, NAN}, {7000, 7}};
  std::vector<uint32_t> numbers;
  WrittenBlock w = WriteBlock(all, kMeta, 2, &numbers);
  w.tombstones = Tombstones({{numbers[0], {3000, 4000}},
                             {numbers[0], {900, 1000}},
                             {numbers[0], {950, 960}},
                             {numbers[1], {99000, 99000}}});
  auto block = Opened(w);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_THAT(ReadOf(block->get(), {"a", {}}, 0, 100'000).series,
              ElementsAre("a{Hostname=\"n0\",gpu=\"0\"} 2000:-2 7000:7",
                          "a{Hostname=\"n1\",gpu=\"1\"} 1000:7"));
}

TEST(TsdbBlock, AChunkThatIsDamagedCostsItself) {
  WrittenBlock w = WriteBlock(TwoOfA(), kMeta);
  w.chunks[20] ^= 1;  // in the first
  auto block = Opened(w);
  ASSERT_TRUE(block.ok()) << block.status();
  const Read read = ReadOf(block->get(), {"a", {}}, 0, 100'000);
  EXPECT_TRUE(read.status.ok());
  EXPECT_THAT(read.series, ElementsAre("a{Hostname=\"n0\",gpu=\"0\"} 4000:4 5000:5 6000:6",
                                       "a{Hostname=\"n1\",gpu=\"1\"} 1000:7 99000:8"));
  EXPECT_THAT(read.damage, ElementsAre("1000-3500: a chunk's checksum is wrong"));
}

TEST(TsdbBlock, ChunksThatCannotBeReadAreNamed) {
  std::vector<WrittenSeries> all = TwoOfA();
  all[0].chunks[1].encoding = 2;
  all[1].chunks[0].encoding = 77;
  WrittenBlock w = WriteBlock(all, kMeta);
  w.chunks.resize(w.chunks.size() - 10);  // of "b"
  auto block = Opened(w);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_THAT(ReadOf(block->get(), {"a", {}}, 0, 100'000).damage,
              ElementsAre("4000-4000: chunks of encoding 2 (histogram) are not decoded",
                          "1000-99000: chunks of encoding 77 (unknown) are not decoded"));
  EXPECT_THAT(ReadOf(block->get(), {"b", {}}, 0, 100'000).damage,
              ElementsAre(HasSubstr("beyond the end of its file")));
}

TEST(TsdbBlock, AChunkOfAnotherTimeThanTheIndexSaysIsDamaged) {
  const WrittenBlock right = WriteBlock(TwoOfA(), kMeta);
  std::vector<WrittenSeries> later = TwoOfA();
  for (auto& [ms, value] : later[0].chunks[0].samples) ms += 1;
  WrittenBlock w = WriteBlock(later, kMeta);
  w.index = right.index;
  auto block = Opened(w);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_THAT(ReadOf(block->get(), {"a", {}}, 0, 100'000).damage,
              ElementsAre(HasSubstr("not of the time that the index says")));
}

// Every byte of an index, changed: it is an error, or what is read is what was written.
TEST(TsdbBlock, NoDamageOfAnIndexIsTakenForSamples) {
  const WrittenBlock w = WriteBlock(TwoOfA(), kMeta);
  auto whole = Opened(w);
  ASSERT_TRUE(whole.ok());
  const std::vector<std::string> right = ReadOf(whole->get(), {"a", {}}, 0, 100'000).series;
  size_t noticed = 0;
  for (size_t at = 0; at < w.index.size(); ++at) {
    WrittenBlock broken = w;
    broken.index[at] ^= 0x41;
    auto block = Opened(broken);
    if (!block.ok()) {
      ++noticed;
      continue;
    }
    const Read read = ReadOf(block->get(), {"a", {}}, 0, 100'000);
    if (!read.status.ok()) {
      ++noticed;
    } else {
      EXPECT_EQ(read.series, right) << at;
    }
  }
  // Padding, series and postings that were not asked for.
  EXPECT_GT(noticed, w.index.size() / 2);
  for (size_t size = 0; size < w.index.size(); ++size) {
    WrittenBlock cut = w;
    cut.index.resize(size);
    EXPECT_FALSE(Opened(cut).ok()) << size;
  }
}

TEST(TsdbBlock, OtherVersionsAndBrokenTombstonesAreRefusedByName) {
  WrittenBlock w = WriteBlock(TwoOfA(), kMeta, 1);
  EXPECT_THAT(Opened(w).status().ToString(), HasSubstr("index: it is of version 1; 2 and 3"));
  w = WriteBlock(TwoOfA(), kMeta);
  w.tombstones = Tombstones({{1, {2, 3}}});
  w.tombstones[6] ^= 1;
  EXPECT_THAT(Opened(w).status().ToString(), HasSubstr("tombstones: their checksum is wrong"));
}

TEST(TsdbBlock, MetaOfEveryKind) {
  EXPECT_FALSE(ParseBlockMeta("").ok());
  EXPECT_FALSE(ParseBlockMeta("[]").ok());
  EXPECT_FALSE(ParseBlockMeta(R"({"minTime":5,"maxTime":4,"version":1})").ok());
  EXPECT_FALSE(ParseBlockMeta(R"({"minTime":5,"maxTime":9e18,"version":1})").ok());
  EXPECT_THAT(ParseBlockMeta(R"({"minTime":5,"maxTime":6,"version":2})").status().ToString(),
              HasSubstr("version 2"));
  const auto thanos = ParseBlockMeta(
      R"({"ulid":"X","minTime":5,"maxTime":6,"version":1,"compaction":{"parents":[{"ulid":"P"}]},
          "thanos":{"labels":{"cluster":"c","__org_id__":"7"},
                    "downsample":{"resolution":300000}}})");
  ASSERT_TRUE(thanos.ok()) << thanos.status();
  EXPECT_EQ(thanos->downsampled_ms, 300'000);
  EXPECT_THAT(thanos->parents, ElementsAre("P"));
  EXPECT_THAT(thanos->external, ElementsAre(::testing::Pair("cluster", "c")));
}

}  // namespace
}  // namespace flopwatch::history
