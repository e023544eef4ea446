// Waiting is not copying, launching or pausing: each case was seen on a trace, planted here in its
// smallest form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "trace/builder.h"
#include "trace/findings/checks.h"
#include "trace/findings/finding.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Nanos kMicro = 1000, kMilli = 1'000'000;

// Four steps of 10 ms.
class Waits {
 public:
  static constexpr int kSteps = 4;
  static constexpr Nanos kStep = 10 * kMilli;

  void Steps(const std::function<void(Nanos begin)>& body) {
    for (int s = 0; s < kSteps; ++s) {
      const Nanos begin = kMilli + s * kStep;
      b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(s), begin, kStep);
      body(begin);
    }
  }
  void Launch(Nanos cpu, Nanos ts, Nanos dur, std::string_view kernel = "gemm",
              int32_t stream = 7) {
    const int64_t id = ++next_;
    b.Cpu(Category::kCpuOp, "aten::mm", cpu, 20 * kMicro);
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", cpu + 5 * kMicro, 6 * kMicro, id);
    b.Gpu(Category::kKernel, kernel, ts, dur, id, stream);
  }
  void Copy(std::string_view call, Nanos cpu, Nanos call_time, std::string_view name, Nanos ts,
            Nanos dur, int64_t bytes, int32_t stream = 7) {
    const int64_t id = ++next_;
    b.Cpu(Category::kCpuOp, "aten::copy_", cpu - 2 * kMicro, call_time + 4 * kMicro);
    b.Cpu(Category::kRuntime, call, cpu, call_time, id);
    const Row r = b.Gpu(Category::kGpuMemcpy, name, ts, dur, id, stream);
    b.rank().copies.push_back({.device = 0, .bytes = bytes});
    b.rank().events.detail[r] = static_cast<uint32_t>(b.rank().copies.size() - 1);
  }
  Findings Check() && {
    const TraceSet set = std::move(b).Build();
    const AnalysisInput input(set, {});
    Findings out = FindAll(input);
    ExpectTimeIsClaimedOnce(input, out);
    ExpectNoContradiction(input, out);
    return out;
  }

  TraceBuilder b;

 private:
  int64_t next_ = 0;
};

// A large copy runs for half of the step; one of seven small ones behind it blocks until then.
TEST(Waits, ASmallCopyIsNotPricedAtWhatItWaitedFor) {
  Waits job;
  job.Steps([&](Nanos begin) {
    job.Copy("cudaMemcpyAsync", begin + 10 * kMicro, 5 * kMicro, "Memcpy HtoD (Pinned -> Device)",
             begin + 30 * kMicro, 5 * kMilli, 200 << 20);
    job.Copy("cudaMemcpyAsync", begin + 40 * kMicro, 5 * kMilli, "Memcpy DtoH (Device -> Pinned)",
             begin + 5035 * kMicro, 2 * kMicro, 8);
    for (int i = 0; i < 6; ++i)
      job.Copy("cudaMemcpyAsync", begin + (5060 + i * 20) * kMicro, 8 * kMicro,
               "Memcpy DtoH (Device -> Pinned)", begin + (5065 + i * 20) * kMicro, 2 * kMicro, 8);
    job.Launch(begin + 5200 * kMicro, begin + 5300 * kMicro, 4600 * kMicro);
  });
  const Findings found = std::move(job).Check();
  EXPECT_EQ(FindingWithId(found, "tiny-copies"), nullptr);
  const Finding* f = FindingWithId(found, "exposed-copies");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(f->claimed, 0.5, 0.01);
}

// The device is synchronised and nothing runs in the middle: the host says what it does.
TEST(Waits, APauseInsideASynchronisingCallIsNone) {
  const auto make = [](bool synchronise) {
    Waits job;
    job.Steps([&](Nanos begin) {
      job.Launch(begin + 10 * kMicro, begin + 40 * kMicro, 500 * kMicro);
      if (synchronise)
        job.b.Cpu(Category::kRuntime, "cudaEventSynchronize", begin + 50 * kMicro, 9500 * kMicro);
      job.Launch(begin + 9700 * kMicro, begin + 9750 * kMicro, 200 * kMicro);
    });
    return std::move(job).Check();
  };
  const Findings silent = make(false);
  const Finding* f = FindingWithId(silent, "gc-pause");
  ASSERT_NE(f, nullptr);
  // Nothing says that it was garbage collection, so nothing is advised about it.
  EXPECT_THAT(f->advice, Not(HasSubstr("gc.")));
  EXPECT_EQ(FindingWithId(make(true), "gc-pause"), nullptr);
}

// One gap of two seconds before a short kernel is not the cost of launching it.
TEST(Waits, ALongGapIsNoLaunch) {
  Waits job;
  for (int s = 0; s < 3; ++s) {
    const Nanos begin = kMilli + s * 3000 * kMilli;
    job.b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(s), begin, 2990 * kMilli);
    for (int i = 0; i < 400; ++i)
      job.Launch(begin + i * 25 * kMicro, begin + (i * 25 + 20) * kMicro, 3 * kMicro);
    job.Launch(begin + 2010 * kMilli, begin + 2010 * kMilli + 20 * kMicro, 3 * kMicro);
  }
  const Findings found = std::move(job).Check();
  const Finding* f = FindingWithId(found, "tiny-kernels");
  // 400 gaps of 22 µs in a step of 3 s are a third of a per cent.
  if (f != nullptr) EXPECT_LT(f->gain, 0.01);
}

// cudaFree waits for the kernel that runs; what it costs begins when that one has ended, and goes
// on to the next work, because the host has no lead any more when the call returns.
TEST(Waits, AllocationsAreNotPricedAtTheKernelsBeforeThem) {
  Waits job;
  job.Steps([&](Nanos begin) {
    for (int i = 0; i < 8; ++i) {
      const Nanos t = begin + i * 1200 * kMicro;
      job.Launch(t + 10 * kMicro, t + 40 * kMicro, kMilli);
      job.b.Cpu(Category::kRuntime, "cudaFree", t + 50 * kMicro, 1090 * kMicro);
    }
  });
  const Findings found = std::move(job).Check();
  const Finding* f = FindingWithId(found, "alloc-storm");
  ASSERT_NE(f, nullptr);
  // In each step the GPU is idle for 200 µs after seven kernels and for 600 after the eighth; the
  // first step allocates like the others and counts. After the last kernel of the trace nothing is
  // idle any more.
  EXPECT_NEAR(f->gain, (4 * 7 * 200 + 3 * 600) / 40'000.0, 1e-6);
}

// Half of the SMs are left by one kernel and filled by another beside it.
TEST(Waits, AKernelBesideASmallOneFillsTheGpu) {
  const auto make = [](bool beside) {
    Waits job;
    job.b.rank().devices.push_back({.id = 0, .sm_count = 100});
    const auto grid = [&](int32_t blocks) {
      job.b.rank().kernels.push_back({.device = 0, .grid = {blocks, 1, 1}, .block = {256, 1, 1}});
      job.b.rank().events.detail.back() = static_cast<uint32_t>(job.b.rank().kernels.size() - 1);
    };
    job.Steps([&](Nanos begin) {
      for (int i = 0; i < 9; ++i) {
        const Nanos t = begin + i * kMilli;
        job.Launch(t + 10 * kMicro, t + 40 * kMicro, 900 * kMicro, "scan");
        grid(50);
        if (!beside) continue;
        job.Launch(t + 30 * kMicro, t + 60 * kMicro, 880 * kMicro, "other", 9);
        grid(200);
      }
    });
    return std::move(job).Check();
  };
  const Findings alone = make(false);
  const Finding* f = FindingWithId(alone, "coarse-grain");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(f->gain, 0.5 * 0.81, 0.01);
  const Findings filled = make(true);
  EXPECT_EQ(FindingWithId(filled, "coarse-grain"), nullptr);
  EXPECT_EQ(FindingWithId(filled, "low-parallelism"), nullptr);
}

// Frames of Python are the program's own.
TEST(Waits, TheProfilerIsNotBlamedForPython) {
  const auto make = [](bool own) {
    Waits job;
    job.Steps([&](Nanos begin) {
      job.Launch(begin + 10 * kMicro, begin + 40 * kMicro, kMilli);
      job.b.Cpu(Category::kPythonFunction, "train.py(10): step", begin + 50 * kMicro, 8 * kMilli);
      if (own) job.b.Cpu(Category::kOverhead, "CUPTI buffer flush", begin + 2 * kMilli, 3 * kMilli);
    });
    return std::move(job).Check();
  };
  EXPECT_EQ(FindingWithId(make(false), "profiler-overhead"), nullptr);
  const Findings found = make(true);
  const Finding* f = FindingWithId(found, "profiler-overhead");
  ASSERT_NE(f, nullptr);
  EXPECT_THAT(f->title, HasSubstr("30 %"));
}

}  // namespace
}  // namespace flopwatch::trace
