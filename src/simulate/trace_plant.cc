// What is planted inside a step beside the job's own work: each block is one way of wasting a GPU.
#include <algorithm>

#include "simulate/trace_kernels.h"
#include "simulate/trace_rank.h"

namespace flopwatch::simulate {

void TraceRank::PlantForward(int layer) {
  const auto small = [&](std::string_view op, const TraceKernel& k, int times, int64_t each) {
    for (int i = 0; i < times; ++i) {
      OpenOp(op);
      Work(k, each);
      CloseOp(R"("Input Dims": [[4096, 512]], "Input type": ["float"])");
    }
  };
  if (plan_.Planted("low-parallelism")) small("my::scan", kScan, 24, 90 * kUs);
  if (plan_.Planted("coarse-grain")) small("my::transform", kCoarse, 1, 800 * kUs);
  if (plan_.Planted("low-occupancy")) small("aten::norm", kReduce, 1, 900 * kUs);
  if (plan_.Planted("memory-access")) {
    OpenOp("aten::contiguous");
    OpenOp("aten::clone");
    OpenOp("aten::copy_");
    Work(kCopyKernel, 1100 * kUs);
    CloseOp(R"("Input Dims": [[2, 1024, 4096], [2, 1024, 4096], []], "Input type": )"
            R"(["c10::BFloat16", "c10::BFloat16", "Scalar"], "Input Strides": [[4194304, 4096, )"
            R"(1], [4194304, 1, 4096], []])");
    CloseOp();
    CloseOp();
  }
  if (plan_.Planted("single-stream")) {
    OpenOp("aten::copy_");
    CopyWork("Memcpy HtoD (Pinned -> Device)", 290'000'000, 5800 * kUs, kCompute, false);
    CloseOp();
  }
  if (plan_.Planted("sync-storm")) {
    const int times = std::max(1, (24 + plan_.layers - 1) / plan_.layers);
    for (int i = 0; i < times; ++i) {
      OpenOp("aten::nonzero");
      Work(kElementwise, 30 * kUs);
      Wait("cudaStreamSynchronize");
      cpu_ += Jitter(150 * kUs);
      CloseOp();
    }
  }
  if (layer == 0 && plan_.Planted("queue-full")) {
    for (int i = 0; i < 1800; ++i) {
      OpenOp("aten::mul_");
      Work(kElementwise, 60 * kUs);
      CloseOp();
    }
  }
}

void TraceRank::PlantStepStart(int step) {
  if (plan_.Planted("gc-pause")) {
    Wait("cudaDeviceSynchronize");
    cpu_ += 9 * kMs;  // and no event says why
  }
  if (plan_.Planted("alloc-storm")) {
    for (int i = 0; i < 12; ++i)
      CallRow(i % 2 == 0 ? "cudaMalloc" : "cudaFree", Jitter(150 * kUs), 20);
  }
  scale_ = plan_.Planted("step-variance") && step == plan_.options.steps / 2 ? 2.2 : 1;
}

void TraceRank::PlantStepEnd() {
  if (!plan_.Planted("tiny-copies")) return;
  OpenOp("my::gather_features");
  for (int i = 0; i < 80; ++i) {
    CopyWork("Memcpy DtoD (Device -> Device)", 1024, 1600, kCompute, false);
    cpu_ += 6 * kUs;
  }
  CloseOp();
}

}  // namespace flopwatch::simulate
