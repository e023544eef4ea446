// The files of operator MFU against the CSVs of the reference tool (data/ascend/README.md).
#include "trace/export/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>

#include "data.h"
#include "trace/reference_csv.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;
using testing_data::SharedData;

class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = fs::temp_directory_path() / ("flopwatch_ops_" + std::to_string(::getpid()));
  }
  void TearDown() override { fs::remove_all(out_); }
  fs::path out_;
};

std::vector<std::vector<std::string>> Query(const fs::path& db, const std::string& sql) {
  sqlite3* handle = nullptr;
  EXPECT_EQ(sqlite3_open_v2(db.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  std::vector<std::vector<std::string>> rows;
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      row.emplace_back(text == nullptr ? "" : text);
    }
  }
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return rows;
}

TEST_F(Export, DatabaseHasTheReferencesTables) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const TraceSet set = LoadSet("ascend/fixture/main");
  const auto report = AnalyseOperators(set, {});
  ASSERT_TRUE(report.ok());
  for (int twice = 0; twice < 2; ++twice) {  // each table is replaced
    const auto written = ExportOperators(*report, "db", out_.string());
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_THAT(*written, ::testing::ElementsAre(
                              (out_ / "cluster_analysis_output/cluster_analysis.db").string()));
  }
  const fs::path db = out_ / "cluster_analysis_output/cluster_analysis.db";
  for (const std::string table : {"OperatorMFU", "ModuleMFU"}) {
    Rows expected = ReadCsv(SharedData() / ("ascend/fixture/main.expected_" + table + ".csv"));
    std::vector<std::string> columns;
    for (const auto& row : Query(db, "SELECT name FROM pragma_table_info('" + table + "')"))
      columns.push_back(row[0]);
    EXPECT_EQ(columns, expected[0]);
    const auto rows = Query(db, "SELECT * FROM " + table);
    ASSERT_EQ(rows.size(), expected.size() - 1);
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t c = 0; c < rows[r].size(); ++c)
        EXPECT_TRUE(SameValue(rows[r][c], expected[r + 1][c]))
            << table << r << columns[c] << rows[r][c];
    }
  }
  EXPECT_EQ(Query(db, "SELECT type FROM pragma_table_info('OperatorMFU') WHERE name = 'mfu'")[0][0],
            "REAL");
}

TEST_F(Export, SpreadsheetsAndCsvByRank) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const TraceSet set = LoadSet("ascend/fixture/main");
  const auto report = AnalyseOperators(set, {});
  ASSERT_TRUE(report.ok());
  const auto sheets = ExportOperators(*report, "xlsx", out_.string());
  ASSERT_TRUE(sheets.ok()) << sheets.status();
  const fs::path folder = out_ / "cluster_analysis_output/OperatorMfu";
  EXPECT_THAT(*sheets,
              ::testing::UnorderedElementsAre((folder / "operator_mfu_kernel_0.xlsx").string(),
                                              (folder / "operator_mfu_kernel_1.xlsx").string(),
                                              (folder / "operator_mfu_module_0.xlsx").string(),
                                              (folder / "operator_mfu_module_3.xlsx").string()));
  EXPECT_TRUE(testing_data::ReadFile(folder / "operator_mfu_kernel_0.xlsx").starts_with("PK"));
  const auto csv = ExportOperators(*report, "csv", out_.string());
  ASSERT_TRUE(csv.ok()) << csv.status();
  const Rows rows = ReadCsv(folder / "operator_mfu_kernel.csv"),
             expected = ReadCsv(SharedData() / "ascend/fixture/main.expected_OperatorMFU.csv");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c)
      EXPECT_TRUE(SameValue(rows[r][c], expected[r][c])) << r << " " << c << " " << rows[r][c];
  }
}

TEST_F(Export, NothingToWriteWritesNothingAndBadFoldersSaySo) {
  const auto nothing = ExportOperators(OpsReport(), "db", out_.string());
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->empty());
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_EQ(ExportOperators(OpsReport(), "pdf", out_.string()).status().code(),
            absl::StatusCode::kInvalidArgument);
  OpsReport one;
  one.modules.push_back(
      {.parent_module = "", .module = "m", .op_name = "o", .kernel_list = "k", .avg_mfu = ""});
  EXPECT_FALSE(ExportOperators(one, "db", "/proc/none").ok());
}

}  // namespace
}  // namespace flopwatch::trace
