// The input is one kernel name. No crash, and what must hold of every answer: numbers are positive
// and of few digits, the pieces of text lie within the name, decoding twice gives the same, and
// what is done with the tile does not overflow.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/tiles.h"

namespace gemm = flopwatch::efficiency::gemm;

namespace {

void Check(bool ok, const char* what, std::string_view name) {
  if (ok) return;
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(name.size()), name.data());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own, so that the sanitizer sees every byte read beyond the name.
  const std::string name(reinterpret_cast<const char*>(data), size);
  const gemm::KernelInfo info = gemm::DecodeKernelName(name);
  for (const auto& v : {info.tile_m, info.tile_n, info.tile_k, info.stages, info.cluster_m,
                        info.cluster_n, info.head_dim, info.sliced_k}) {
    Check(!v || (*v > 0 && *v <= 99999), "a number that is none", name);
  }
  for (const std::string_view text : {info.signature, info.layout, info.scaling}) {
    Check(text.empty() || (text.data() >= name.data() &&
                           text.data() + text.size() <= name.data() + name.size()),
          "text that is not in the name", name);
  }
  const gemm::KernelInfo again = gemm::DecodeKernelName(name);
  Check(again.family == info.family && again.tile_m == info.tile_m &&
            again.confidence == info.confidence,
        "not the same twice", name);
  (void)gemm::PrecisionOf(info);
  (void)gemm::FamilyName(info.family);
  for (const int64_t extent : {int64_t{1}, int64_t{4097}, gemm::kMaxDimension}) {
    const auto executed = gemm::ExecuteKernel(info, {extent, extent, extent});
    if (executed.ok())
      Check(executed->executed_flops >= executed->useful_flops && executed->overhead >= 0,
            "less executed than useful", name);
  }
  return 0;
}
