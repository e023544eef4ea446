// Operator MFU against outside answers: the CSVs that msprof-analyze gave for the real databases
// and those worked by hand for the fixtures (data/ascend/README.md), the hand answers of the Nsight
// fixture, and small traces worked out here.
#include "trace/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "data.h"
#include "trace/builder.h"
#include "trace/import/load.h"
#include "trace/reference_csv.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_data::SharedData;

// Every row and column, numbers as numbers; the reference orders ranks by the directory walk, so by
// rank on both sides.
void ExpectTable(const Table& got, Rows expected) {
  ASSERT_FALSE(expected.empty());
  std::vector<std::string> columns;
  for (const Column& c : got.columns) columns.push_back(c.name);
  if (expected.size() > 1) EXPECT_EQ(columns, expected[0]);
  expected.erase(expected.begin());
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return std::stoi(a[0]) < std::stoi(b[0]); });
  ASSERT_EQ(got.rows.size(), expected.size());
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(got.rows[r].size(), expected[r].size());
    for (size_t c = 0; c < expected[r].size(); ++c) {
      EXPECT_TRUE(SameValue(TextOf(got.rows[r][c]), expected[r][c]))
          << "row " << r << ", " << columns[c] << ": " << TextOf(got.rows[r][c]) << " instead of "
          << expected[r][c];
    }
  }
}

class AscendScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(AscendScenario, EveryRowAndColumnOfTheReference) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const std::string base = "ascend/" + GetParam();
  const TraceSet set = LoadSet(base);
  const auto report = AnalyseOperators(set, {});
  ASSERT_TRUE(report.ok()) << report.status();
  const fs::path operators = SharedData() / (base + ".expected_OperatorMFU.csv");
  if (fs::exists(operators)) {
    ExpectTable(KernelMfuTable(*report), ReadCsv(operators));
  } else {
    EXPECT_TRUE(report->kernels.empty());
  }
  ExpectTable(ModuleMfuTable(*report), ReadCsv(SharedData() / (base + ".expected_ModuleMFU.csv")));
}

INSTANTIATE_TEST_SUITE_P(All, AscendScenario,
                         ::testing::Values("fixture/main", "fixture/unknown_dtype",
                                           "fixture/nested_ranges", "fixture/two_ops_one_kernel",
                                           "fixture/no_device_info", "real_alexnet_level1_flops",
                                           "real_alexnet_level0_flops"),
                         [](const auto& info) {
                           std::string name = info.param.substr(info.param.rfind('/') + 1);
                           return name;
                         });

// fixture/main, rank 1: 603,979,776 FLOPs in 4096 ns at 294.912 TFLOP/s is one half. Rank 0: an
// operator's figure has the union of its kernels, so linear is 2^? of (1024 + 4096) and (2048 +
// 8192) ns, not 200 %.
TEST(OperatorMfu, RecordedFlopsCountOnceAnOperator) {
  FLOPWATCH_REQUIRE_DATA("ascend/fixture/main");
  const TraceSet set = LoadSet("ascend/fixture/main");
  const auto report = AnalyseOperators(set, {.only_ranks = {0}});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto linear = std::find_if(report->operators.begin(), report->operators.end(),
                                   [](const auto& o) { return o.op_name == "linear"; });
  ASSERT_NE(linear, report->operators.end());
  EXPECT_EQ(linear->calls, 2);
  EXPECT_EQ(linear->source, "recorded");
  EXPECT_EQ(linear->time_ns, 1024 + 4096 + 2048 + 8192);
  EXPECT_DOUBLE_EQ(*linear->flops_low, 2.0 * 671'088'640);
  EXPECT_NEAR(*linear->mfu_low, 2.0 * 671'088'640 / (15360e-9 * 327.68e12), 1e-12);
}

TEST(OperatorMfu, NsightFixture) {
  FLOPWATCH_REQUIRE_DATA("nsys/fixture/nsys_fixture.sqlite");
  const TraceSet set = LoadSet("nsys/fixture/nsys_fixture.sqlite");
  const auto report =
      AnalyseOperators(set, {.peak_tflops = {{"", 524.288}}, .tensor_clock_mhz = 2000});
  ASSERT_TRUE(report.ok()) << report.status();
  std::map<std::string, const KernelMfu*> kernels;
  for (const KernelMfu& k : report->kernels) kernels[std::string(k.kernel_name)] = &k;
  std::map<std::string, const OperatorMfu*> operators;
  for (const OperatorMfu& o : report->operators) operators[o.op_name] = &o;
  std::map<std::string, const UncountedKernel*> uncounted;
  for (const UncountedKernel& u : report->uncounted) uncounted[u.kernel_name] = &u;
  const Rows expected = ReadCsv(SharedData() / "nsys/fixture/nsys_fixture.expected.csv");
  ASSERT_EQ(expected.size(), 6u);
  for (size_t i = 1; i < expected.size(); ++i) {
    const auto& [pid, device, module, op, kernel, duration, flops, kernel_mfu, op_mfu, ofu] =
        std::tie(expected[i][0], expected[i][1], expected[i][2], expected[i][3], expected[i][4],
                 expected[i][5], expected[i][6], expected[i][7], expected[i][8], expected[i][9]);
    if (flops.empty()) {
      const UncountedKernel* u = uncounted["void " + kernel + "<bf16>()"];
      ASSERT_NE(u, nullptr) << kernel;
      EXPECT_EQ(u->op_name, op);
      EXPECT_EQ(u->time_ns, std::stoll(duration));
      if (!ofu.empty()) EXPECT_DOUBLE_EQ(u->ofu.value_or(-1), std::stod(ofu));
      continue;
    }
    const KernelMfu* k = kernels[kernel];
    ASSERT_NE(k, nullptr) << kernel;
    EXPECT_EQ(k->op_name, op);
    EXPECT_EQ(k->end - k->begin, std::stoll(duration));
    EXPECT_EQ(k->flops, std::stoll(flops));
    EXPECT_DOUBLE_EQ(k->mfu, std::stod(kernel_mfu));
    const OperatorMfu* o = operators[op];
    ASSERT_NE(o, nullptr) << op;
    EXPECT_DOUBLE_EQ(o->mfu_low.value_or(-1), std::stod(op_mfu));
    EXPECT_NEAR(o->ofu.value_or(-1), std::stod(ofu), 1e-12);
  }
  ASSERT_EQ(report->ranks.size(), 2u);
  EXPECT_NEAR(*report->ranks[1].coverage, 0.7239, 5e-5);
  ASSERT_EQ(report->modules.size(), 1u);
  EXPECT_EQ(report->modules[0].module, "Block");
  EXPECT_EQ(report->modules[0].op_name, "aten::addmm");
  EXPECT_EQ(report->modules[0].avg_mfu, "50.0%");
}

// Tasks that HCCL enqueued with a collective are communication, though nothing but the connection
// says so.
TEST(OperatorMfu, TasksOfCollectivesAreNoComputeTime) {
  FLOPWATCH_REQUIRE_DATA("ascend/real_alexnet_level1");
  const TraceSet set = LoadSet("ascend/real_alexnet_level1/rank0_ascend_pt");
  const auto report = AnalyseOperators(set, {});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const UncountedKernel& u : report->uncounted)
    EXPECT_NE(u.op_name, "HcclAllreduce") << u.kernel_name;
  EXPECT_GT(*report->coverage, 0.2);
}

// Sizes that nobody recorded give no FLOPs and no MFU, but names and shares of time.
TEST(OperatorMfu, RealNsightWithoutSizesHasNoFigureButSaysWhy) {
  FLOPWATCH_REQUIRE_DATA("nsys/h100_2gpu_fsdp_before.sqlite");
  const TraceSet set = LoadSet("nsys/h100_2gpu_fsdp_before.sqlite");
  const auto report = AnalyseOperators(set, {.gpu = "H100 SXM"});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->kernels.empty());
  EXPECT_EQ(report->coverage, 0.0);
  EXPECT_TRUE(std::any_of(report->uncounted.begin(), report->uncounted.end(), [](const auto& u) {
    return u.op_name == "aten::addmm" &&
           u.reason == "sizes were not recorded (profile with record_shapes=True)";
  }));
}

class KinetoTrace : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(KinetoTrace, RealTracesGivePlausibleFigures) {
  FLOPWATCH_REQUIRE_DATA(GetParam().first);
  const TraceSet set = LoadSet(GetParam().first);
  const auto report = AnalyseOperators(set, {.gpu = GetParam().second});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->operators.empty());
  EXPECT_GT(*report->coverage, 0);
  EXPECT_LE(*report->coverage, 1);
  double share = *report->coverage;
  for (const UncountedKernel& u : report->uncounted) share += u.time_share;
  EXPECT_NEAR(share, 1, 1e-9);
  for (const OperatorMfu& o : report->operators) {
    EXPECT_FALSE(o.impossible) << o.op_name << " " << o.shapes << " " << o.mfu_low.value_or(-1);
    EXPECT_LE(o.mfu_low.value_or(0), o.mfu_high.value_or(0));
    if (!o.formula.starts_with("conv"))
      EXPECT_LE(o.mfu_low.value_or(0), 1) << o.op_name << " " << o.shapes;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, KinetoTrace,
    ::testing::Values(std::pair("traces/timesformer_h100_infer_2025.json.gz", ""),
                      std::pair("traces/qwen05b_h100_infer_2025.json.gz", ""),
                      std::pair("traces/bertsmall_h100_infer_2025.json.gz", ""),
                      std::pair("traces/eager_b200_rank0of8_2026.json.gz", ""),
                      std::pair("traces/recsys_a100_rank3of8_2022.json.gz", "A100 SXM 40GB"),
                      std::pair("traces/recsys_v100_rank1of2_2022.json.gz", ""),
                      std::pair("traces/resnet50_v100_workers4_2021.json.gz", "V100 SXM2"),
                      std::pair("nsys/kineto/sampled_rank0_record_shapes.json.gz", "A100 SXM 40GB"),
                      std::pair("nsys/kineto/mi250_minitoy_record_shapes.json.gz", "MI250")));

// ---- small traces, worked by hand

Row Op(TraceBuilder& b, std::string_view name, Nanos ts, Nanos dur, std::string_view dims,
       std::string_view types = "", std::string_view values = "") {
  const Row row = b.Cpu(Category::kCpuOp, name, ts, dur);
  OpDetail detail;
  detail.input_dims = b.names().Intern(dims);
  detail.input_types = b.names().Intern(types);
  detail.concrete_inputs = b.names().Intern(values);
  b.rank().events.detail[row] = static_cast<uint32_t>(b.rank().ops.size());
  b.rank().ops.push_back(detail);
  return row;
}

void Launch(TraceBuilder& b, Nanos at, int64_t correlation, std::string_view kernel, Nanos begin,
            Nanos dur) {
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", at, 1, correlation);
  b.Gpu(Category::kKernel, kernel, begin, dur, correlation);
}

constexpr std::string_view kBf16 =
    R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"])";
constexpr double kPeak = 100;  // TFLOP/s: 1e14 FLOP/s, 1e5 FLOPs a nanosecond

// linear around addmm: 2*1000*1000*100 = 2e8 FLOPs, once. The copy that linear makes for itself is
// not counted. Two kernels that overlap, [10000, 13000) and [12000, 14000), are 4000 ns: 2e8 /
// (4000 * 1e5) = 0.5.
TEST(OperatorMfu, CountedOnceAtTheLowestOperatorOverTheUnionOfItsKernels) {
  TraceBuilder b;
  Op(b, "aten::linear", 100, 900, "[[1000, 1000], [100, 1000], [100]]", kBf16);
  Launch(b, 150, 1, "copy_kernel", 9000, 500);
  Op(b, "aten::addmm", 200, 500, "[[100], [1000, 1000], [1000, 100], [], []]", kBf16);
  Launch(b, 300, 2, "some_gemm", 10'000, 3000);
  Launch(b, 310, 3, "splitk_reduce", 12'000, 2000);
  Launch(b, 2000, 4, "nobody", 20'000, 500);
  const TraceSet set = std::move(b).Build();
  const auto report = AnalyseOperators(set, {.peak_tflops = {{"", kPeak}}});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->operators.size(), 1u);
  const OperatorMfu& o = report->operators[0];
  EXPECT_EQ(o.op_name, "aten::addmm");
  EXPECT_EQ(o.formula, "addmm");
  EXPECT_EQ(o.shapes, "[[100],[1000,1000],[1000,100],[],[]]");
  EXPECT_EQ(o.precision, "bf16");
  EXPECT_EQ(o.calls, 1);
  EXPECT_EQ(o.time_ns, 4000);
  EXPECT_DOUBLE_EQ(*o.flops_low, 2e8);
  EXPECT_DOUBLE_EQ(*o.mfu_low, 0.5);
  EXPECT_DOUBLE_EQ(*o.mfu_high, 0.5);
  EXPECT_NEAR(*o.main_kernel_mfu, 2e8 / (3000 * 1e5), 1e-12);
  // 5000 of 6000 ns of kernel time are counted.
  EXPECT_NEAR(*report->coverage, 5000.0 / 6000, 1e-12);
  ASSERT_EQ(report->kernels.size(), 2u);
  EXPECT_NEAR(report->kernels[0].mfu, 2.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(report->kernels[1].mfu,
                   1.0);  // the whole FLOPs to each kernel, as the reference
  std::map<std::string, std::string> why;
  for (const UncountedKernel& u : report->uncounted) why[u.kernel_name] = u.reason;
  EXPECT_EQ(why["copy_kernel"], "moves data around a product that is counted");
  EXPECT_EQ(why["nobody"], "no operator of the trace launched it");
}

// FP32 on an A100: 19.5 TFLOP/s by its FP32 lanes (108 SMs x 64 x 2 x 1410 MHz), 156 by TF32. The
// kernel's name settles it where it shows which.
TEST(OperatorMfu, Fp32HasBothBoundsUnlessTheKernelShows) {
  const auto run = [](std::string_view kernel) {
    TraceBuilder b;
    Op(b, "aten::mm", 100, 900, "[[1000, 1000], [1000, 100]]", R"(["float", "float"])");
    Launch(b, 150, 1, kernel, 9000, 20'000);
    const TraceSet set = std::move(b).Build();
    return *AnalyseOperators(set, {.gpu = "A100 SXM 40GB"});
  };
  const OperatorMfu open = run("some_gemm").operators[0];
  EXPECT_EQ(open.precision, "fp32|tf32");
  EXPECT_DOUBLE_EQ(*open.mfu_high / *open.mfu_low,
                   8);  // 108 x 1024 x 1410e6 over 108 x 64 x 2 x 1410e6
  const OperatorMfu simt = run("ampere_sgemm_128x64_nn").operators[0];
  EXPECT_EQ(simt.precision, "fp32");
  EXPECT_EQ(*simt.mfu_low, *simt.mfu_high);
  EXPECT_NEAR(*simt.mfu_low, 2e8 / (20'000e-9 * 19.4918e12), 1e-4);
  EXPECT_EQ(run("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_"
                "tensor16x8x8_kernel")
                .operators[0]
                .precision,
            "tf32");
}

// A trace that was thinned out: the product is gone, what reduced its parts is left. No FLOPs over
// those 7 microseconds.
TEST(OperatorMfu, OnlyHelpersOfAProductAreNotCounted) {
  TraceBuilder b;
  Op(b, "aten::mm", 100, 900, "[[200, 2048], [2048, 512]]", R"(["float", "float"])");
  Launch(b, 150, 1,
         "void splitKreduce_kernel<float, float, float, float, true, false, "
         "false>(cublasSplitKParams<float>)",
         9000, 7000);
  const TraceSet set = std::move(b).Build();
  const auto report = AnalyseOperators(set, {.gpu = "A100 SXM 40GB"});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->operators.empty());
  ASSERT_EQ(report->uncounted.size(), 1u);
  EXPECT_THAT(report->uncounted[0].reason, HasSubstr("only helpers"));
}

// A peak below what the kernels did: the figure is shown, above one, and flagged.
TEST(OperatorMfu, ImpossibleFiguresAreFlagged) {
  TraceBuilder b;
  Op(b, "aten::mm", 100, 900, "[[1000, 1000], [1000, 100]]", R"(["c10::Half", "c10::Half"])");
  Launch(b, 150, 1, "gemm", 9000, 1000);
  const TraceSet set = std::move(b).Build();
  const auto report = AnalyseOperators(set, {.peak_tflops = {{"fp16", kPeak}}});
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(*report->operators[0].mfu_low, 2);
  EXPECT_TRUE(report->operators[0].impossible);
  EXPECT_THAT(report->notes, ::testing::Contains(HasSubstr("above 100 %")));
}

TEST(OperatorMfu, WithoutAPeakThereAreFlopsButNoMfu) {
  TraceBuilder b;
  Op(b, "aten::mm", 100, 900, "[[1000, 1000], [1000, 100]]", R"(["c10::Half", "c10::Half"])");
  Launch(b, 150, 1, "gemm", 9000, 1000);
  const TraceSet set = std::move(b).Build();
  const auto report = AnalyseOperators(set, {});
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(*report->operators[0].flops_low, 2e8);
  EXPECT_FALSE(report->operators[0].mfu_low.has_value());
  EXPECT_THAT(report->operators[0].not_computable, HasSubstr("does not name its GPU"));
  EXPECT_TRUE(report->kernels.empty());
  EXPECT_EQ(*report->coverage, 1);
}

TEST(OperatorMfu, BadOptionsAreErrors) {
  TraceBuilder b;
  Launch(b, 150, 1, "gemm", 9000, 1000);
  const TraceSet set = std::move(b).Build();
  EXPECT_EQ(AnalyseOperators(set, {.gpu = "H900"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AnalyseOperators(set, {.peak_tflops = {{"bf16", -1}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AnalyseOperators(set, {.peak_tflops = {{"bf17", 1}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AnalyseOperators(set, {.only_ranks = {4}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(AnalyseOperators(TraceSet(), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// 8192 x 300 x 8192 by a 128x256 tile along BLAS m = N and n = M: N 300 -> 384 of 128, M 8192 ->
// 8192: 28 % more.
TEST(OperatorMfu, TileAdjustedValueFromTheKernelsName) {
  TraceBuilder b;
  Op(b, "aten::mm", 100, 900, "[[8192, 4096], [4096, 300]]",
     R"(["c10::BFloat16", "c10::BFloat16"])");
  Launch(b, 150, 1, "nvjet_tst_128x256_64x4_1x1_v_bz_coopA_NNT", 9000, 100'000);
  const TraceSet set = std::move(b).Build();
  const auto report = AnalyseOperators(set, {.gpu = "H100 SXM"});
  ASSERT_TRUE(report.ok()) << report.status();
  const OperatorMfu& o = report->operators[0];
  ASSERT_TRUE(o.tile_overhead.has_value());
  EXPECT_DOUBLE_EQ(*o.tile_overhead, 384.0 / 300 - 1);
  EXPECT_DOUBLE_EQ(*o.executed_mfu, *o.mfu_low * 1.28);
}

}  // namespace
}  // namespace flopwatch::trace
