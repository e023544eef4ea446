// Ranks whose columns lie in a file are answered about as those in memory are.
#include <gtest/gtest.h>

#include "data.h"
#include "trace/analysis/run.h"
#include "trace/import/load.h"
#include "trace/report/report.h"

namespace flopwatch::trace {
namespace {

using testing_data::SharedData;

std::string EverythingOf(const std::string& path, uint64_t resident, bool* in_file) {
  LoadOptions options;
  options.resident = resident;
  const StatusOr<Loaded> loaded = Load({path}, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded.ok()) return "";
  *in_file = loaded->set.file != nullptr && loaded->set.file->bytes() > 0;
  const AnalysisInput input(loaded->set, {});
  std::string out = ReportJson(MakeTraceReport(input, loaded->failures));
  const auto all = ParseAnalyses("all", input.options());
  EXPECT_TRUE(all.ok());
  out += AnalysesJson(RunAnalyses(input, *all, 2));
  return out;
}

TEST(ManyRanks, InAFileTheyHaveTheSameAnswers) {
  for (const char* name : {"dlrm_v100_8ranks", "ddp_a100_rank0of2_2024.json.gz"}) {
    SCOPED_TRACE(name);
    FLOPWATCH_REQUIRE_DATA(std::string("traces/") + name);
    const std::string path = (SharedData() / "traces" / name).string();
    bool in_file = false;
    const std::string in_memory = EverythingOf(path, 1ull << 40, &in_file);
    EXPECT_FALSE(in_file);
    const std::string from_file = EverythingOf(path, 1, &in_file);
    if (!in_file) GTEST_SKIP() << "no folder for temporary files is on a disk";
    EXPECT_GT(in_memory.size(), 10'000u);
    EXPECT_EQ(in_memory, from_file);
  }
}

}  // namespace
}  // namespace flopwatch::trace
