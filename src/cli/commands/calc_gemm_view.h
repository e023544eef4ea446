// How `flopwatch calc gemm` shows its answer: a row, a card with a line an axis, the curve as JSON.
// Pure functions of the answer; calc_gemm.cc makes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/table.h"
#include "cli/views/style.h"
#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/tiles.h"
#include "hardware/accelerator.h"

namespace flopwatch::cli {

namespace gemm = efficiency::gemm;

// The product in the order of the command line, and its tiling in the axes of the tile.
struct GemmQuestion {
  gemm::Problem given;   // M, N, K as typed
  gemm::Tiling tiling;   // along the tile's axes
  bool swapped = false;  // the tile's m runs along the typed N
  std::optional<gemm::KernelInfo> kernel;
  std::string tile_source;

  gemm::Problem problem() const {
    gemm::Problem p = given;
    if (swapped) std::swap(p.m, p.n);
    return p;
  }
  // Tile and cluster are of the axis as typed.
  int64_t tile(char axis) const { return (axis == 'M') != swapped ? tiling.tile_m : tiling.tile_n; }
  int64_t cluster(char axis) const {
    return (axis == 'M') != swapped ? tiling.cluster_m : tiling.cluster_n;
  }
};

struct GemmCurvePoint {
  int64_t size = 0;
  std::optional<double> extra;  // padding of this axis alone
  gemm::Execution result;
};
struct GemmCurve {
  char axis = 'M';
  std::vector<GemmCurvePoint> points;
  std::optional<int64_t> below, above;  // nearest sizes without padding on this axis
};
// Overhead over sizes of one axis ('M', 'N' or 'K'), two padding steps each way. Empty where the
// step is not known.
GemmCurve CurveOfGemm(const GemmQuestion& q, char axis);

struct GemmAnswer {
  GemmQuestion q;
  std::string order = "torch";
  std::optional<double> ofu;
  gemm::Execution e;
  const hardware::Accelerator* gpu = nullptr;
  std::optional<gemm::Waves> waves;
  std::string precision;
  std::optional<double> peak_tflops, least_us, adjusted_ofu;
  std::vector<GemmCurve> curves;
  int64_t m_eff() const { return q.swapped ? e.n_eff : e.m_eff; }
  int64_t n_eff() const { return q.swapped ? e.m_eff : e.n_eff; }
};

// One row with every number, and what a person should know about them as notes.
Table GemmTable(const GemmAnswer& a);
std::string GemmCard(const GemmAnswer& a, const ViewOptions& view);
// [{"axis":"m","size":...,"executed_flops":...,"useful_flops":...,"overhead":...}, ...]
std::string GemmCurveJson(const std::vector<GemmCurve>& curves);

}  // namespace flopwatch::cli
