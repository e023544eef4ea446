// Rules on traces written by hand: the thresholds, and what must not be taken for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "trace/analysis/kernel_names.h"
#include "trace/analysis/sm_load.h"
#include "trace/builder.h"
#include "trace/call_kind.h"
#include "trace/findings/finding.h"
#include "trace/findings/op_bytes.h"

namespace flopwatch::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanos kUs = 1000, kMs = 1'000'000;

const Finding* Find(const Findings& f, std::string_view id) {
  const auto it = std::find_if(f.findings.begin(), f.findings.end(),
                               [&](const Finding& x) { return x.id == id; });
  return it == f.findings.end() ? nullptr : &*it;
}

const Fact* GetOfRule(const Finding& f, std::string_view name) {
  const auto it = std::find_if(f.evidence.begin(), f.evidence.end(),
                               [&](const Fact& x) { return x.name == name; });
  return it == f.evidence.end() ? nullptr : &*it;
}

std::string ReasonOf(const Findings& f, std::string_view id) {
  for (const NotChecked& n : f.not_checked) {
    if (n.id == id) return n.reason;
  }
  return "";
}

// Four steps of 10 ms: 40 kernels of 240 µs, launched well ahead, one after another: a GPU that is
// nearly always busy.
class Job {
 public:
  static constexpr int kSteps = 4, kKernels = 40;
  static constexpr Nanos kStep = 10 * kMs, kKernel = 240 * kUs;

  explicit Job(int32_t rank = 0) : b(rank) {}

  // A kernel with its operator and launch call; returns the kernel's row.
  Row Launch(Nanos cpu, Nanos ts, Nanos dur, std::string_view kernel = "gemm",
             std::string_view op = "aten::mm", std::string_view call = "cudaLaunchKernel") {
    const int64_t id = ++next_;
    b.Cpu(Category::kCpuOp, op, cpu, 20 * kUs);
    b.Cpu(Category::kRuntime, call, cpu + 5 * kUs, 6 * kUs, id);
    return b.Gpu(Category::kKernel, kernel, ts, dur, id);
  }
  void Steps(const std::function<void(int step, Nanos begin)>& body) {
    for (int s = 0; s < kSteps; ++s) {
      const Nanos begin = kMs + s * kStep;
      b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(s + 10), begin, kStep);
      body(s, begin);
    }
  }
  // The healthy body, its kernels between two moments of the step.
  void Busy(Nanos begin, Nanos from = 0, Nanos to = kStep) {
    Nanos cpu = begin + 10 * kUs;
    for (Nanos t = begin + from; t + kKernel <= begin + to; t += kKernel + 5 * kUs) {
      Launch(std::min(cpu, t - 30 * kUs > begin ? t - 30 * kUs : begin + 1),
             std::max(t, begin + 30 * kUs), kKernel);
      cpu += 30 * kUs;
    }
  }
  Findings Check() && {
    const TraceSet set = std::move(b).Build();
    return FindAll(AnalysisInput(set, {}));
  }

  TraceBuilder b;

 private:
  int64_t next_ = 0;
};

std::vector<std::string> AboveInfo(const Findings& f) {
  std::vector<std::string> out;
  for (const Finding& x : f.findings) {
    if (x.severity > Severity::kInfo) out.push_back(x.id);
  }
  return out;
}

TEST(Rules, ABusyJobHasNoFindings) {
  Job job;
  job.Steps([&](int, Nanos begin) { job.Busy(begin); });
  EXPECT_THAT(AboveInfo(std::move(job).Check()), ElementsAre());
}

TEST(Rules, CallsAndBlocksByName) {
  EXPECT_EQ(CallKindOf("cudaLaunchKernelExC"), CallKind::kLaunch);
  EXPECT_EQ(CallKindOf("cuLaunchKernel"), CallKind::kLaunch);
  EXPECT_EQ(CallKindOf("hipExtModuleLaunchKernel"), CallKind::kLaunch);
  EXPECT_EQ(CallKindOf("cudaGraphLaunch"), CallKind::kGraphLaunch);
  EXPECT_EQ(CallKindOf("cudaMemcpyAsync"), CallKind::kCopy);
  EXPECT_EQ(CallKindOf("cudaMemcpy"), CallKind::kBlockingCopy);
  EXPECT_EQ(CallKindOf("cudaStreamSynchronize"), CallKind::kSync);
  EXPECT_EQ(CallKindOf("cudaStreamWaitEvent"), CallKind::kOther);
  EXPECT_EQ(CallKindOf("cudaMalloc"), CallKind::kAllocate);
  EXPECT_EQ(CallKindOf("cudaMallocAsync"), CallKind::kOther);  // ordered by the stream: cheap
  EXPECT_EQ(CallKindOf("cudaHostAlloc"), CallKind::kAllocate);
  EXPECT_TRUE(IsDataLoading("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                            Category::kUserAnnotation));
  EXPECT_TRUE(
      IsDataLoading("torch/utils/data/dataloader.py(630): __next__", Category::kPythonFunction));
  EXPECT_FALSE(IsDataLoading("DistributedDataParallel.forward", Category::kUserAnnotation));
  EXPECT_FALSE(IsDataLoading("train.py(10): get_batch", Category::kPythonFunction));
}

TEST(Rules, BytesOfInputs) {
  EXPECT_THAT(*InputBytes("[[32, 10], [10], []]", R"(["float", "c10::Half", "Scalar"])"),
              ElementsAre(1280, 20, 0));
  EXPECT_THAT(*InputBytes("[[[2, 3], [4]], [5]]", R"(["float", "double"])"),
              ElementsAre(40, 40));  // a list of tensors
  EXPECT_FALSE(InputBytes("[[32], [32]]", R"(["float"])").has_value());
  EXPECT_FALSE(InputBytes("[[32]", R"(["float"])").has_value());
  EXPECT_FALSE(InputBytes("[[32]]", R"(["c10::Quaternion"])").has_value());
}

TEST(Rules, SmTimeAddsWhatRunsTogetherUpToAll) {
  // Half the SMs for 10, then two halves together for 10, then three quarters twice (cut at all)
  // for 10.
  EXPECT_DOUBLE_EQ(
      BusySmTime({{{0, 20}, 0.5}, {{10, 20}, 0.5}, {{20, 30}, 0.75}, {{20, 30}, 0.75}}, {{0, 30}}),
      5 + 10 + 10);
  EXPECT_DOUBLE_EQ(BusySmTime({{{0, 20}, 4.0}}, {{5, 10}, {15, 40}}), 10);
}

TEST(Rules, ProductKernelsByName) {
  EXPECT_TRUE(IsFp32ProductKernel("volta_sgemm_128x64_nn"));
  EXPECT_FALSE(IsTensorCoreKernel("volta_sgemm_128x64_nn"));
  EXPECT_TRUE(IsTensorCoreKernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"));
  EXPECT_TRUE(IsTensorCoreKernel("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT"));
  EXPECT_TRUE(IsDataMovingKernel(
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"));
  EXPECT_FALSE(IsDataMovingKernel("ampere_sgemm_128x64_tn"));
}

TEST(Rules, TinyKernelsCountNoGraphs) {
  const auto make = [](std::string_view call, bool graph) {
    Job job;
    job.Steps([&](int, Nanos begin) {
      for (Nanos t = 50 * kUs; t < 9900 * kUs; t += 20 * kUs) {
        const Row r =
            job.Launch(begin + t - 15 * kUs, begin + t, 3 * kUs, "elementwise", "aten::add", call);
        if (!graph) continue;
        job.b.rank().kernels.push_back({.graph_id = 5, .graph_node_id = 7});
        job.b.rank().events.detail[r] = static_cast<uint32_t>(job.b.rank().kernels.size() - 1);
      }
    });
    return std::move(job).Check();
  };
  const Findings eager = make("cudaLaunchKernel", false);
  const Finding* f = Find(eager, "tiny-kernels");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->severity, Severity::kCritical);
  EXPECT_NEAR(f->gain, 17.0 / 20 * 0.985, 0.02);  // 3 of 20 µs are work
  EXPECT_THAT(f->top[0], HasSubstr("aten::add"));
  EXPECT_EQ(Find(make("cudaGraphLaunch", false), "tiny-kernels"), nullptr);
  EXPECT_EQ(Find(make("cudaLaunchKernel", true), "tiny-kernels"), nullptr);
}

TEST(Rules, AWaitForABusyGpuIsNoSyncStorm) {
  // Twenty blocking calls a step, all of which return while kernels still run.
  Job busy;
  busy.Steps([&](int, Nanos begin) {
    busy.Busy(begin);
    for (int i = 0; i < 20; ++i)
      busy.b.Cpu(Category::kRuntime, "cudaStreamSynchronize", begin + 2 * kMs + i * 300 * kUs,
                 100 * kUs);
  });
  EXPECT_EQ(Find(std::move(busy).Check(), "sync-storm"), nullptr);
  // The same calls, each after one kernel and before the next launch.
  Job dry;
  dry.Steps([&](int, Nanos begin) {
    for (int i = 0; i < 20; ++i) {
      const Nanos t = begin + i * 480 * kUs;
      dry.Launch(t + 10 * kUs, t + 40 * kUs, 300 * kUs);
      dry.b.Cpu(Category::kRuntime, "cudaStreamSynchronize", t + 45 * kUs, 300 * kUs);
    }
  });
  const Findings found = std::move(dry).Check();
  const Finding* f = Find(found, "sync-storm");
  ASSERT_NE(f, nullptr);
  // A step is idle for 180 µs after 19 of its calls, and for 580 µs to the next step's first
  // kernel.
  EXPECT_NEAR(f->gain, (4 * 19 * 180 + 3 * 580) / 40'000.0, 1e-9);
}

TEST(Rules, DataStarvationNeedsALoader) {
  const auto make = [](std::string_view name, Nanos time) {
    Job job;
    job.Steps([&](int, Nanos begin) {
      job.b.Cpu(Category::kUserAnnotation, name, begin + kUs, time);
      job.Busy(begin, time + 50 * kUs);
    });
    return std::move(job).Check();
  };
  const std::string loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  const Findings found = make(loader, 2 * kMs);
  const Finding* f = Find(found, "data-starvation");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(f->gain, 0.2, 0.01);
  EXPECT_EQ(Find(make(loader, 100 * kUs), "data-starvation"), nullptr);
  const Findings other = make("validate", 2 * kMs);
  EXPECT_EQ(Find(other, "data-starvation"), nullptr);
  EXPECT_THAT(ReasonOf(other, "data-starvation"), HasSubstr("data loader"));
}

TEST(Rules, GlooValidationCountsTheWholeTrace) {
  // The storm of the OFU paper VI-A: 15,360 send, 7,560 recv, 240 all_gather beside 240 collectives
  // of NCCL.
  const auto make = [](bool storm) {
    Job job;
    job.b.rank().backend = "nccl";
    int send = 0, receive = 0;
    job.Steps([&](int s, Nanos begin) {
      job.Busy(begin, 6 * kMs);
      for (int c = 0; c < 60; ++c) {
        const Nanos t = begin + c * 100 * kUs;
        job.Launch(t + 70 * kUs, t + 90 * kUs, 8 * kUs, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                   "c10d::allreduce_");
        if (!storm) continue;
        job.b.Cpu(Category::kUserAnnotation, "gloo:all_gather", t, 60 * kUs);
        for (int i = 0; i < 64; ++i, ++send)
          job.b.Cpu(Category::kUserAnnotation, "gloo:send", t + i * 500, 400, kNoId, 2);
        for (int i = 0; i < 63 / 2 && receive < 7560; ++i, ++receive)
          job.b.Cpu(Category::kUserAnnotation, "gloo:recv", t + i * 900, 800, kNoId, 3);
      }
      if (storm && s == Job::kSteps - 1) {
        for (; receive < 7560; ++receive)
          job.b.Cpu(Category::kUserAnnotation, "gloo:recv", begin + receive * 10, 8, kNoId, 3);
      }
    });
    return std::move(job).Check();
  };
  const Findings found = make(true);
  const Finding* f = Find(found, "gloo-validation");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(GetOfRule(*f, "gloo_send")->value, Cell(int64_t{15360}));
  EXPECT_EQ(GetOfRule(*f, "gloo_recv")->value, Cell(int64_t{7560}));
  EXPECT_EQ(GetOfRule(*f, "gloo_all_gather")->value, Cell(int64_t{240}));
  EXPECT_THAT(f->title + f->advice, HasSubstr("TORCH_DISTRIBUTED_DEBUG"));
  EXPECT_THAT(f->title, HasSubstr("DETAIL"));
  EXPECT_EQ(Find(found, "gloo-backend"), nullptr);
  EXPECT_EQ(Find(make(false), "gloo-validation"), nullptr);
}

TEST(Rules, AllocationsOfTheFirstStepAreExpected) {
  const auto make = [](int first_step) {
    Job job;
    job.Steps([&](int s, Nanos begin) {
      job.Busy(begin);
      for (int i = 0; s >= first_step && i < 8; ++i)
        job.b.Cpu(Category::kRuntime, "cudaMalloc", begin + kMs + i * 100 * kUs, 50 * kUs);
      for (int i = 0; s == 0 && i < 30; ++i)
        job.b.Cpu(Category::kRuntime, "cudaMalloc", begin + 4 * kMs + i * 100 * kUs, 50 * kUs);
    });
    return std::move(job).Check();
  };
  EXPECT_EQ(Find(make(100), "alloc-storm"), nullptr);
  const Findings found = make(1);
  ASSERT_NE(Find(found, "alloc-storm"), nullptr);
  EXPECT_EQ(GetOfRule(*Find(found, "alloc-storm"), "allocation_calls_per_step")->value,
            Cell(int64_t{8}));
}

TEST(Rules, WithoutGpuWorkNothingIsClaimed) {
  TraceBuilder b;
  for (int i = 0; i < 100; ++i) b.Cpu(Category::kCpuOp, "aten::add", i * 100 * kUs, 90 * kUs);
  const TraceSet set = std::move(b).Build();
  const Findings f = FindAll(AnalysisInput(set, {}));
  EXPECT_TRUE(f.findings.empty());
  EXPECT_GE(f.not_checked.size(), 15u);
}

TEST(Rules, AnEmptyTraceIsAnswered) {
  const TraceSet set = std::move(TraceBuilder()).Build();
  const Findings f = FindAll(AnalysisInput(set, {}));
  EXPECT_TRUE(f.findings.empty());
}

}  // namespace
}  // namespace flopwatch::trace
