// Expected counts: SQL over the databases themselves (the sqlite3 program), and the captures'
// README.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "data.h"
#include "trace/import/ascend_folder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;
using testing_data::SharedData;

TEST(AscendFolder, RankFromTheFileNameAndTimeFromTheFolder) {
  EXPECT_EQ(RankOfAscendDatabase("ascend_pytorch_profiler_12.db"), 12);
  EXPECT_EQ(RankOfAscendDatabase("ascend_pytorch_profiler.db"), kSingleCardRank);
  EXPECT_EQ(RankOfAscendDatabase("ascend_pytorch_profiler_x.db"), std::nullopt);
  EXPECT_EQ(RankOfAscendDatabase("analysis.db"), std::nullopt);
  EXPECT_EQ(AscendFolderTime("/data/host_4242_20251009080000000_ascend_pt"), "20251009080000000");
  EXPECT_EQ(AscendFolderTime("rank0_ascend_pt"), "");
}

TEST(AscendImport, RealDatabaseOfTwoRanks) {
  FLOPWATCH_REQUIRE_DATA("ascend/real_alexnet_level1");
  const auto loaded = Load({(SharedData() / "ascend/real_alexnet_level1").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  const RankTrace& rank = loaded->set.ranks[0];
  EXPECT_EQ(rank.rank, 0);
  EXPECT_EQ(rank.format, "ascend");
  EXPECT_TRUE(rank.record_shapes);
  std::map<std::string, int> rows;
  for (Row r = 0; r < rank.events.size(); ++r)
    ++rows[std::string(loaded->set.names.Text(rank.events.file_category[r]))];
  EXPECT_EQ(rows["COMPUTE_TASK_INFO"], 187);
  EXPECT_EQ(rows["COMMUNICATION_OP"], 4);
  EXPECT_EQ(rows["PYTORCH_API"], 2460);
  EXPECT_EQ(rows["CANN_API"], 710);  // select count(*) from CANN_API
  // In the real capture each of 187 kernels links to exactly one op (SQL over the database).
  std::map<Row, int> links;
  for (const OpLink& link : rank.op_links) ++links[link.work];
  int linked = 0;
  for (Row r = 0; r < rank.events.size(); ++r) {
    if (loaded->set.names.Text(rank.events.file_category[r]) != "COMPUTE_TASK_INFO") continue;
    EXPECT_EQ(links[r], 1);
    linked += rank.events.op[r] != kNoRow;
  }
  EXPECT_EQ(linked, 187);
  ASSERT_EQ(rank.steps.size(), 1u);
  EXPECT_EQ(rank.steps[0].number, 50);
}

TEST(AscendImport, SizesFiledUnderTypesAreFound) {
  FLOPWATCH_REQUIRE_DATA("ascend/real_alexnet_level1");
  const auto loaded =
      Load({(SharedData() / "ascend/real_alexnet_level1/rank0_ascend_pt").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const RankTrace& rank = loaded->set.ranks[0];
  std::vector<std::string> addmm;
  for (Row r = 0; r < rank.events.size(); ++r) {
    const OpDetail* op = rank.OpOf(r);
    if (op == nullptr || loaded->set.Name(rank, r) != "aten::addmm") continue;
    addmm.emplace_back(loaded->set.names.Text(op->input_dims));
    EXPECT_EQ(loaded->set.names.Text(op->input_types),
              R"(["float","float","float","Scalar","Scalar"])");
  }
  EXPECT_THAT(addmm, ::testing::ElementsAre("[[4096],[32,9216],[9216,4096],[],[]]",
                                            "[[4096],[32,4096],[4096,4096],[],[]]",
                                            "[[1000],[32,4096],[4096,1000],[],[]]"));
}

TEST(AscendImport, ChipFlopsRecordsAndModules) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const auto loaded = Load({(SharedData() / "ascend/fixture/main").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 4u);
  const RankTrace& rank = loaded->set.ranks[0];
  ASSERT_FALSE(rank.devices.empty());
  EXPECT_DOUBLE_EQ(rank.devices[0].tensor_peak_flops, 327.68e12);  // 25 cores x 1600 MHz x 8192
  EXPECT_EQ(rank.module_ranges.size(), 9u);  // Net, 2 x (Block, Linear, Attention), 2 Head
  // Six messages are unusable and one range is empty; one range is of another domain.
  EXPECT_EQ(rank.flops_records.size(), 13u);
  EXPECT_TRUE(loaded->set.ranks[2].flops_records.empty());
}

TEST(AscendImport, OfTwoProfilesOfOneRankTheLaterCounts) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/nested_ranges");
  const fs::path root =
      fs::temp_directory_path() / ("flopwatch_ascend_" + std::to_string(::getpid()));
  fs::remove_all(root);
  const fs::path from =
      SharedData() / "ascend/fixture/nested_ranges/fixturehost_4242_20251009080000000_ascend_pt";
  for (const char* name :
       {"host_1_20251009080000001_ascend_pt", "host_9_20251009080000000_ascend_pt"}) {
    fs::create_directories(root);
    fs::copy(from, root / name, fs::copy_options::recursive);
  }
  const auto loaded = Load({root.string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 1u);
  EXPECT_THAT(loaded->set.ranks[0].path, ::testing::HasSubstr("20251009080000001"));
  fs::remove_all(root);
}

TEST(AscendImport, DamagedDatabasesEndInErrorsOrCountedLosses) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const fs::path root =
      fs::temp_directory_path() / ("flopwatch_ascend_bad_" + std::to_string(::getpid()));
  fs::create_directories(root / "ASCEND_PROFILER_OUTPUT");
  const std::string whole =
      testing_data::ReadFile(SharedData() /
                             "ascend/fixture/main/fixturehost_4242_20251009080000000_ascend_pt/"
                             "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db");
  const auto load = [&](const std::string& bytes) {
    std::ofstream(root / "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db",
                  std::ios::binary | std::ios::trunc)
        << bytes;
    return Load({root.string()});
  };
  EXPECT_FALSE(load("").ok());
  EXPECT_FALSE(load("SQLite format 3\0 and nothing else").ok());
  for (size_t cut = 512; cut < whole.size(); cut += 4096) (void)load(whole.substr(0, cut));
  // Bytes turned over, one at a time, all over the file: whatever comes, no crash and no hang.
  for (size_t at = 100; at < whole.size(); at += 997) {
    std::string bad = whole;
    bad[at] = static_cast<char>(~bad[at]);
    (void)load(bad);
  }
  fs::remove_all(root);
}

}  // namespace
}  // namespace flopwatch::trace
