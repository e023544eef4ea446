// Expected counts: the captures' README and SQL over the databases, and the
// fixture's own arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "data.h"
#include "trace/import/load.h"
#include "trace/import/nsight_text.h"

namespace flopwatch::trace {
namespace {

using testing_data::SharedData;

TEST(NvtxText, OperatorsOfPyTorch) {
  const NvtxOp op = ParseNvtxOp(
      "aten::addmm, seq = 45339, op_id = 990761, sizes = [[8192], [8192, 4096], []], input_op_ids "
      "= [(1,0)]");
  EXPECT_TRUE(op.is_op);
  EXPECT_EQ(op.name, "aten::addmm");
  EXPECT_EQ(op.sequence, 45339);
  EXPECT_EQ(op.sizes, "[[8192], [8192, 4096], []]");
  EXPECT_EQ(ParseNvtxOp("aten::mm, op_id = 3").sequence, kUnknown);
  EXPECT_EQ(ParseNvtxOp("aten::mm, op_id = 3, sizes = [[1, 2").sizes, "");  // cut
  EXPECT_FALSE(ParseNvtxOp("forward pass").is_op);
  EXPECT_FALSE(ParseNvtxOp("").is_op);
  EXPECT_EQ(ApiName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cudaStreamGetCaptureInfo_v2_v11030"), "cudaStreamGetCaptureInfo_v2");
  EXPECT_EQ(ApiName("cuMemcpyDtoH_v2"), "cuMemcpyDtoH_v2");
}

TEST(NsightImport, KernelsAreLinkedWithinTheirProcess) {
  FLOPWATCH_REQUIRE_DATA("nsys/h100_2gpu_fsdp_before.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/h100_2gpu_fsdp_before.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  int kernels = 0, linked = 0, copies = 0, on_op = 0, products = 0;
  for (const RankTrace& rank : loaded->set.ranks) {
    for (Row r = 0; r < rank.events.size(); ++r) {
      copies += rank.events.category[r] == Category::kGpuMemcpy;
      if (rank.events.category[r] != Category::kKernel) continue;
      ++kernels;
      if (rank.events.launch[r] == kNoRow) continue;
      ++linked;
      const std::string_view name = loaded->set.Name(rank, r);
      if (name.find("nvjet") == std::string_view::npos &&
          name.find("flash_fwd") == std::string_view::npos)
        continue;
      ++products;
      const std::string_view op =
          rank.events.op[r] == kNoRow ? "" : loaded->set.Name(rank, rank.events.op[r]);
      on_op +=
          op == "aten::linear" || op == "aten::addmm" || op == "flash_attn::_flash_attn_forward";
    }
  }
  EXPECT_EQ(kernels, 4010);
  EXPECT_EQ(linked, 3986);
  EXPECT_EQ(copies, 1020);
  EXPECT_EQ(products, 401);  // "401 of 401 GEMM and attention kernels"
  EXPECT_EQ(on_op, 401);
}

TEST(NsightImport, FixtureOfTwoProcessesWithSwappedGpus) {
  FLOPWATCH_REQUIRE_DATA("nsys/fixture/nsys_fixture.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/fixture/nsys_fixture.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  const RankTrace& first = loaded->set.ranks[0];
  EXPECT_TRUE(first.wall_clock);
  EXPECT_EQ(first.begin, 1'760'000'000'000'000'000 + 1'000'000'000);
  EXPECT_FALSE(first.losses.empty());  // the range without an end
  // The counters of CUDA device 0 stand under PerfWorks id 1: 60 % at 1600 MHz while its kernel
  // runs.
  double tensor = 0, clock = 0;
  for (const CounterSample& c : first.counters) {
    EXPECT_EQ(c.device, 0);
    if (loaded->set.names.Text(c.counter).starts_with("Tensor")) tensor = std::max(tensor, c.value);
    if (loaded->set.names.Text(c.counter).starts_with("GPC"))
      clock = clock == 0 ? c.value : std::min(clock, c.value);
  }
  EXPECT_EQ(tensor, 60);
  EXPECT_EQ(clock, 1600);
  std::map<std::string, std::string> op_of;
  for (const RankTrace& rank : loaded->set.ranks) {
    for (Row r = 0; r < rank.events.size(); ++r) {
      if (rank.events.category[r] != Category::kKernel) continue;
      op_of[std::string(loaded->set.Name(rank, r))] =
          rank.events.op[r] == kNoRow ? "" : loaded->set.Name(rank, rank.events.op[r]);
    }
  }
  EXPECT_EQ(op_of["void nvjet_gemm<bf16>()"], "aten::addmm");
  EXPECT_EQ(op_of["void nvjet_splitk<bf16>()"], "aten::mm");
  EXPECT_EQ(op_of["void batched_gemm<bf16>()"], "aten::bmm");
  EXPECT_EQ(op_of["void orphan_kernel<bf16>()"], "");
}

TEST(NsightImport, OneGpuWithItsName) {
  FLOPWATCH_REQUIRE_DATA("nsys/rtx3080_two_kernels.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/rtx3080_two_kernels.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 1u);
  ASSERT_EQ(loaded->set.ranks[0].devices.size(), 1u);
  EXPECT_EQ(loaded->set.ranks[0].devices[0].name, "NVIDIA GeForce RTX 3080");
  EXPECT_EQ(loaded->set.ranks[0].devices[0].sm_count, 68);
}

// ---- databases written here: what an export may look like, and what an attacker may send

class WrittenExport : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("flopwatch_nsys_" + std::to_string(::getpid()) + ".sqlite"))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& sql) {
    std::filesystem::remove(path_);
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(db);
  }
  static int Count(const TraceSet& set, Category category) {
    int rows = 0;
    for (const RankTrace& rank : set.ranks)
      rows += static_cast<int>(
          std::count(rank.events.category.begin(), rank.events.category.end(), category));
    return rows;
  }
  std::string path_;
};

constexpr char kStrings[] =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, "
    "'kernel_a');";

// The fewest columns an old export could have; ids of processes above 32 bits, as under WSL and in
// virtual machines.
TEST_F(WrittenExport, FewColumnsAndLargeIds) {
  Write(std::string(kStrings) +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, "
        "correlationId INT, globalPid INT, shortName INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 300, 0, 7, 5, 281477392629760, 1);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, "
        "correlationId INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, 281477392629904, 5);");
  const auto loaded = Load({path_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 1u);
  const RankTrace& rank = loaded->set.ranks[0];
  ASSERT_EQ(rank.events.size(), 2u);
  EXPECT_EQ(loaded->set.Name(rank, 1), "kernel_a");
  EXPECT_EQ(rank.events.launch[1], 0u);
  EXPECT_EQ(rank.threads[rank.events.thread[0]].pid, 144);  // (281477392629904 >> 24) & 0xFFFFFF
}

TEST_F(WrittenExport, OneProcessThatIsTwoRanksOfNccl) {
  Write(std::string(kStrings) +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, "
        "correlationId INT, globalPid INT, shortName INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 300, 0, 7, 5, 16777216, 1), (100, "
        "500, 1, 7, 6, 16777216, 1);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, "
        "domainId INT, jsonText TEXT);"
        "INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'NCCL', 16777217, 1, NULL),"
        "(1, 2, 59, 'ncclCommInitRank', 16777217, 1, '{\"Rank\": 4, \"No. of ranks\": 8, \"CUDA "
        "device\": 0}'),"
        "(3, 4, 59, 'ncclCommInitRank', 16777217, 1, '{\"Rank\": 5, \"No. of ranks\": 8, \"CUDA "
        "device\": 1}');");
  const auto loaded = Load({path_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  EXPECT_EQ(loaded->set.ranks[0].rank, 4);
  EXPECT_EQ(loaded->set.ranks[1].rank, 5);
  EXPECT_EQ(loaded->set.ranks[1].world_size, 8);
  EXPECT_EQ(Count(loaded->set, Category::kKernel), 2);
}

// A view in a table's place would run the attacker's query; it is no table here.
TEST_F(WrittenExport, ViewsAndVirtualTablesAreNotTouched) {
  Write(std::string(kStrings) +
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL "
        "SELECT n + 1 FROM t) SELECT n AS start, n AS end FROM t;"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, "
        "domainId INT);"
        "INSERT INTO NVTX_EVENTS VALUES (1, 5, 59, 'forward', 16777217, 0);");
  const auto loaded = Load({path_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Count(loaded->set, Category::kKernel), 0);
  EXPECT_EQ(Count(loaded->set, Category::kUserAnnotation), 1);
}

TEST_F(WrittenExport, NamesThatAreNoUtf8AreRepairedAndCounted) {
  Write(std::string(kStrings) +
        "INSERT INTO StringIds VALUES (2, CAST(x'6bff28' AS TEXT));"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, "
        "correlationId INT, globalPid INT, shortName INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 300, 0, 7, 5, 16777216, 2);");
  const auto loaded = Load({path_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const RankTrace& rank = loaded->set.ranks[0];
  EXPECT_EQ(loaded->set.Name(rank, 0), "k\ufffd(");
  const auto lost = std::find_if(rank.losses.begin(), rank.losses.end(),
                                 [](const Loss& loss) { return loss.reason == "bad_utf8"; });
  ASSERT_NE(lost, rank.losses.end());
  EXPECT_TRUE(lost->repaired);
}

TEST_F(WrittenExport, WrongTypesImpossibleTimesAndLongTexts) {
  Write(std::string(kStrings) + "INSERT INTO StringIds VALUES (2, hex(zeroblob(200000)));" +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, "
        "globalPid, shortName);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('100', 300.0, 0, 7, 5, 16777216, 2), "
        "('soon', x'00', NULL, 'a', 1e300, 16777216, 1),"
        "(500, 400, 0, 7, 6, 16777216, 1), (1, 9223372036854775807, 0, 7, 7, 16777216, 1), (-5, 3, "
        "0, 7, 8, 16777216, 1);"
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT); INSERT INTO "
        "TARGET_INFO_SESSION_START_TIME VALUES (1760000000000000000);");
  const auto loaded = Load({path_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(Count(loaded->set, Category::kKernel),
            2);  // text and float times are whole numbers; -5 ns is just before the session
  EXPECT_LE(loaded->set.Name(loaded->set.ranks[0], 1).size(), size_t{64} << 10);
  int64_t lost = 0;
  for (const Loss& loss : loaded->set.ranks[0].losses) lost += loss.repaired ? 0 : loss.count;
  EXPECT_GE(lost, 3);
}

TEST_F(WrittenExport, DamagedFilesEndInErrorsOrCountedLosses) {
  FLOPWATCH_REQUIRE_DATA("nsys/fixture/nsys_fixture.sqlite");
  const std::string whole =
      testing_data::ReadFile(SharedData() / "nsys/fixture/nsys_fixture.sqlite");
  const auto load = [&](const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return Load({path_});
  };
  EXPECT_FALSE(load("").ok());
  for (size_t cut = 512; cut < whole.size(); cut += 2048) (void)load(whole.substr(0, cut));
  for (size_t at = 16; at < whole.size(); at += 509) {
    std::string bad = whole;
    bad[at] = static_cast<char>(~bad[at]);
    (void)load(bad);
  }
}

}  // namespace
}  // namespace flopwatch::trace
