// Names of a training trace -> what they say. The task: one million kernel events' names, mixed as
// a transformer's step mixes them (library GEMMs, attention, elementwise templates of a few hundred
// bytes, collectives, Inductor kernels), decoded each time, without a cache. Beside it, in the same
// run: reading every byte once (memchr), looking each name for thirty marker words (how such
// classifiers are usually written; it gives a family and nothing else), and std::regex on the nvJet
// names alone (which has the fields).
//
//   build with -DFLOPWATCH_BENCH=ON, then: bin/bench_kernel_names
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "efficiency/gemm/kernel_name.h"
#include "fmt/format.h"

namespace flopwatch::efficiency::gemm {
namespace {

std::string Nvjet(std::mt19937& rng) {
  static const char* const kSignatures[] = {"tst", "hsh", "tss", "qqtst"};
  return fmt::format("nvjet_sm90_{}_{}x{}_64x{}_{}x1_v_bz_coopA_{}TNT", kSignatures[rng() % 4],
                     64 << (rng() % 3), 8 << (rng() % 6), 3 + rng() % 6, 1 + rng() % 2,
                     rng() % 4 == 0 ? "splitK_" : "");
}

std::vector<std::string> Names(bool nvjet_only) {
  std::mt19937 rng(11);
  std::vector<std::string> out;
  for (int i = 0; i < 4096; ++i) {
    const auto kind = nvjet_only ? 0 : rng() % 10;
    if (kind < 3) {
      out.push_back(Nvjet(rng));
    } else if (kind == 3) {
      const std::string inner =
          fmt::format("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{}x128_64x{}_tn_align8",
                      64 << (rng() % 3), 3 + rng() % 4);
      out.push_back(fmt::format("void cutlass::Kernel2<{0}>({0}::Params)", inner));
    } else if (kind == 4) {
      out.push_back(
          "void "
          "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
          "CollectiveMainloopFwdSm90<2, "
          "cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, "
          "cute::C<176>, cute::C<128> >, 128, "
          "cutlass::bfloat16_t, float, cutlass::arch::Sm90, false, true> > > >(Params)");
    } else if (kind < 8) {
      out.push_back(fmt::format(
          "void at::native::elementwise_kernel<128, {}, "
          "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, "
          "float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, "
          "at::native::BinaryFunctor<float, "
          "float, float, at::native::binary_internal::MulFunctor<float> > "
          "const&)::{{lambda(int)#1}}>(int, "
          "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float> >)",
          rng() % 8));
    } else if (kind == 8) {
      out.push_back(
          "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    } else {
      out.push_back(fmt::format("triton_poi_fused_add_mul_silu_{}", rng() % 40));
    }
  }
  return out;
}

void Report(benchmark::State& state, const std::vector<std::string>& names) {
  uint64_t bytes = 0;
  for (const std::string& n : names) bytes += n.size();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * names.size()));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
}

void Decode(benchmark::State& state) {
  const auto names = Names(state.range(0) != 0);
  for (auto _ : state) {
    for (const std::string& n : names) benchmark::DoNotOptimize(DecodeKernelName(n));
  }
  Report(state, names);
}
BENCHMARK(Decode)->ArgName("nvjet_only")->Arg(0)->Arg(1);

void EveryByte(benchmark::State& state) {
  const auto names = Names(false);
  for (auto _ : state) {
    for (const std::string& n : names)
      benchmark::DoNotOptimize(std::memchr(n.data(), '\x01', n.size()));
  }
  Report(state, names);
}
BENCHMARK(EveryByte);

void MarkerWords(benchmark::State& state) {
  const auto names = Names(false);
  static const std::string_view kMarkers[] = {
      "nvjet",      "xmma",       "cutlass3x",    "cutlass_",   "flash",     "fmha",
      "sdpa",       "triton_tem", "triton_poi",   "triton_red", "bmm_",      "deep_gemm",
      "Marlin",     "fused_moe",  "splitKreduce", "gemv",       "gemmk1",    "gemmSN",
      "dot_kernel", "sgemm",      "hgemm",        "s16816gemm", "s1688gemm", "s884gemm",
      "magma",      "cudnn",      "convolve",     "attn",       "Reduce",    "elementwise"};
  for (auto _ : state) {
    for (const std::string& n : names) {
      size_t found = std::size(kMarkers);
      for (size_t i = 0; i < std::size(kMarkers); ++i) {
        if (n.find(kMarkers[i]) != std::string::npos) {
          found = i;
          break;
        }
      }
      benchmark::DoNotOptimize(found);
    }
  }
  Report(state, names);
}
BENCHMARK(MarkerWords);

void RegexNvjet(benchmark::State& state) {
  const auto names = Names(true);
  const std::regex pattern(
      "nvjet_(?:sm([0-9]+)_)?([a-z]+)_([0-9]+)x([0-9]+)_([0-9]+)x([0-9]+)_([0-9]+)x([0-9]+)_.*_(["
      "TN]{3})",
      std::regex::optimize);
  for (auto _ : state) {
    for (const std::string& n : names) {
      std::smatch match;
      benchmark::DoNotOptimize(std::regex_match(n, match, pattern));
    }
  }
  Report(state, names);
}
BENCHMARK(RegexNvjet);

}  // namespace
}  // namespace flopwatch::efficiency::gemm

BENCHMARK_MAIN();
