#include "trace/analysis/diff.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_read.h"
#include "data.h"
#include "trace/builder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

constexpr Nanos kDiffUs = 1000;

// `steps` steps of 1 ms each: a data loader that takes `loading`, then an operator of 100 µs that
// launches a gemm of `gemm`.
TraceSet Traced(int steps, Nanos loading, Nanos gemm, bool fused) {
  TraceBuilder b;
  int64_t correlation = 1;
  for (int i = 0; i < steps; ++i) {
    const Nanos t = i * 1000 * kDiffUs;
    b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(i + 5), t,
          400 * kDiffUs + loading);
    b.Cpu(Category::kUserAnnotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
          t, loading);
    const Nanos op = t + loading;
    b.Cpu(Category::kCpuOp, "aten::linear", op, 100 * kDiffUs);
    b.Cpu(Category::kCpuOp, "aten::addmm", op + 10 * kDiffUs, 60 * kDiffUs);
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", op + 20 * kDiffUs, 5 * kDiffUs, correlation);
    b.Gpu(Category::kKernel, "gemm", op + 30 * kDiffUs, gemm, correlation++);
    if (!fused) {
      b.Cpu(Category::kRuntime, "cudaLaunchKernel", op + 26 * kDiffUs, 5 * kDiffUs, correlation);
      b.Gpu(Category::kKernel, "relu", op + 30 * kDiffUs + gemm, 20 * kDiffUs, correlation++);
    }
  }
  return std::move(b).Build();
}

const DiffLine& LineOf(const std::vector<DiffLine>& lines, std::string_view name) {
  for (const DiffLine& line : lines) {
    if (line.name == name) return line;
  }
  static const DiffLine kNone;
  ADD_FAILURE() << "no line " << name;
  return kNone;
}

TEST(TraceDiff, PartsAddUpAndTheCauseIsNamed) {
  const TraceSet a = Traced(4, 300 * kDiffUs, 200 * kDiffUs, false),
                 b = Traced(2, 0, 200 * kDiffUs, false);
  const StatusOr<TraceDiff> diff = DiffTraces(a, b, {});
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->a.steps, 4);
  EXPECT_EQ(diff->b.steps, 2);
  EXPECT_DOUBLE_EQ(diff->a.step_us, 700);
  EXPECT_DOUBLE_EQ(diff->b.step_us, 400);
  double sum = 0;
  for (const DiffPart& part : diff->parts) sum += part.delta_us();
  EXPECT_NEAR(sum, -300, 1e-9);
  EXPECT_EQ(diff->parts[3].name, "idle");
  EXPECT_DOUBLE_EQ(diff->parts[3].delta_us(), -300);
  EXPECT_THAT(diff->sentence, HasSubstr("(-42.9 %); 100 % of the change is idle GPU time (-0.300 "
                                        "ms); most changed on the CPU: enumerate"));
  // Own time: 100 µs less the 60 inside; 60 less two launches of 5.
  EXPECT_DOUBLE_EQ(LineOf(diff->operators, "aten::linear").us_a, 40);
  EXPECT_DOUBLE_EQ(LineOf(diff->operators, "aten::addmm").us_b, 50);
  EXPECT_DOUBLE_EQ(LineOf(diff->operators, "aten::linear").total_us_a, 100);
  EXPECT_EQ(LineOf(diff->operators, "ProfilerStep").change, DiffChange::kSame);
  EXPECT_DOUBLE_EQ(LineOf(diff->kernels, "gemm").delta_us(), 0);
}

TEST(TraceDiff, AKernelThatWentAwayAndOneThatGrew) {
  const StatusOr<TraceDiff> diff =
      DiffTraces(Traced(3, 0, 200 * kDiffUs, false), Traced(3, 0, 210 * kDiffUs, true), {});
  ASSERT_TRUE(diff.ok());
  EXPECT_EQ(LineOf(diff->kernels, "relu").change, DiffChange::kRemoved);
  EXPECT_EQ(LineOf(diff->kernels, "gemm").change, DiffChange::kSame);
  EXPECT_EQ(LineOf(diff->operators, "cudaLaunchKernel").change, DiffChange::kFewer);
  EXPECT_EQ(diff->kernels.front().name, "relu");  // by the time that changed
  const AnalysisTables tables = DiffTables(*diff, 1);
  ASSERT_EQ(tables.parts.size(), 3u);
  EXPECT_EQ(tables.parts[0].table.rows.size(), 5u);
  EXPECT_EQ(tables.parts[1].table.rows.size(), 1u);
  EXPECT_THAT(tables.parts[1].table.notes.front(), HasSubstr("1 of 2 names"));
}

TEST(TraceDiff, SaysWhatIsMissing) {
  const TraceSet a = Traced(2, 0, 100 * kDiffUs, false);
  DiffOptions options;
  options.rank_b = 7;
  EXPECT_THAT(DiffTraces(a, a, options).status().message(),
              HasSubstr("rank 7 is not in the second trace; it has 0"));
  options = {};
  options.step_a = 99;
  EXPECT_EQ(DiffTraces(a, a, options).status().code(), absl::StatusCode::kNotFound);
  TraceBuilder empty;
  EXPECT_THAT(DiffTraces(a, std::move(empty).Build(), {}).status().message(),
              HasSubstr("not computable: the second trace"));
  TraceBuilder no_steps;
  no_steps.Cpu(Category::kCpuOp, "aten::mm", 0, 100);
  EXPECT_THAT(HtaTraceDiff(std::move(no_steps).Build(), a, {}, DiffDevice::kAll).status().message(),
              HasSubstr("marks no steps"));
}

double DiffNumber(const Cell& cell) {
  if (const int64_t* i = std::get_if<int64_t>(&cell)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&cell)) return *d;
  return std::nan("");
}

void Compare(const TraceSet& a, const TraceSet& b, const DiffOptions& options, const Json& truth) {
  for (const auto& [device, key] :
       {std::pair{DiffDevice::kCpu, "CPU"}, {DiffDevice::kGpu, "GPU"}, {DiffDevice::kAll, "ALL"}}) {
    SCOPED_TRACE(key);
    const StatusOr<Table> table = HtaTraceDiff(a, b, options, device);
    ASSERT_TRUE(table.ok()) << table.status();
    const Json& expected = truth[key]["rows"];
    ASSERT_EQ(table->columns.size(), expected["columns"].array().size());
    for (size_t c = 0; c < table->columns.size(); ++c)
      EXPECT_EQ(table->columns[c].name, expected["columns"].array()[c].text());
    ASSERT_EQ(table->rows.size(), expected["rows"].array().size());
    for (size_t r = 0; r < table->rows.size(); ++r) {
      const Json::Array& row = expected["rows"].array()[r].array();
      const std::vector<Cell>& ours = table->rows[r];
      EXPECT_EQ(std::get<std::string>(ours[0]), row[0].text());
      for (size_t c = 1; c < 7; ++c)
        EXPECT_EQ(DiffNumber(ours[c]), row[c].number_or(-1)) << row[0].text() << " column " << c;
      EXPECT_EQ(std::get<std::string>(ours[7]), row[7].text());
    }
  }
}

TEST(TraceDiffOracle, Toy) {
  FLOPWATCH_REQUIRE_DATA("traces/diff_toy");
  const std::filesystem::path data = testing_data::SharedData() / "traces";
  const StatusOr<Loaded> a = Load({(data / "diff_toy/base.json.gz").string()}),
                         b = Load({(data / "diff_toy/test.json.gz").string()});
  ASSERT_TRUE(a.ok() && b.ok());
  const StatusOr<Json> truth =
      Json::Parse(testing_data::ReadFile(data / "oracle/trace_diff_toy.hta.json"));
  ASSERT_TRUE(truth.ok());
  DiffOptions options;
  options.step_a = (*truth)["control_iteration"].integer();
  options.step_b = (*truth)["test_iteration"].integer();
  Compare(a->set, b->set, options, *truth);
}

TEST(TraceDiffOracle, ResNetWithAndWithoutWorkers) {
  FLOPWATCH_REQUIRE_DATA("traces/resnet50_v100_workers0_2021.json.gz");
  const std::filesystem::path data = testing_data::SharedData() / "traces";
  const StatusOr<Loaded> a = Load({(data / "resnet50_v100_workers0_2021.json.gz").string()});
  const StatusOr<Loaded> b = Load({(data / "resnet50_v100_workers4_2021.json.gz").string()});
  ASSERT_TRUE(a.ok() && b.ok());
  const StatusOr<Json> truth = Json::Parse(
      testing_data::ReadFile(data / "oracle/trace_diff_resnet50_workers0_vs_4.hta.json"));
  ASSERT_TRUE(truth.ok());
  DiffOptions options;
  options.step_a = (*truth)["control_iteration"].integer();
  options.step_b = (*truth)["test_iteration"].integer();
  Compare(a->set, b->set, options, *truth);
  // Without workers the GPU waits for data (33 % of the step, says the traces' README): the default
  // says so.
  const StatusOr<TraceDiff> diff = DiffTraces(a->set, b->set, {});
  ASSERT_TRUE(diff.ok());
  EXPECT_THAT(diff->sentence, HasSubstr("idle GPU time"));
  if (std::getenv("FLOPWATCH_SHOW") != nullptr) {
    const AnalysisTables tables = DiffTables(*diff, 8);
    for (const auto& part : tables.parts) puts(Render(part.table, {}).c_str());
    puts(diff->sentence.c_str());
  }
}

}  // namespace
}  // namespace flopwatch::trace
