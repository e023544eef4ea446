// flopwatch calc gemm: what a tiled matrix product executes, its overhead and waves, and how the
// overhead changes around the shape.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/commands/calc.h"
#include "cli/commands/calc_gemm_view.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/style.h"
#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/tiles.h"
#include "hardware/accelerator.h"

namespace flopwatch::cli {
namespace {

struct GemmOptions {
  std::string m, n, k, kernel, tile, cluster, split_k, batch, gpu, precision, order = "torch";
  std::optional<double> ofu;
};

// Errors of this command name it first, the value next.
Status Bad(std::string_view why, std::string_view next) {
  return InvalidArgument("calc gemm: {}; {}", why, next);
}

StatusOr<int64_t> Whole(std::string_view text, std::string_view name) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error == std::errc::result_out_of_range)
    return Bad(fmt::format("{} {} is too large", name, Printable(text, 40)), "give a whole number");
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Bad(fmt::format("{} \"{}\" is not a whole number", name, Printable(text, 40)),
               "give one such as 4096");
  }
  return v;
}

// "256x128x64" into `parts` numbers.
StatusOr<std::vector<int64_t>> Numbers(std::string_view text, std::string_view name, size_t least,
                                       size_t most, std::string_view example) {
  std::vector<int64_t> out;
  for (size_t at = 0; at <= text.size();) {
    size_t end = text.find('x', at);
    if (end == std::string_view::npos) end = text.size();
    const auto number = Whole(text.substr(at, end - at), name);
    if (!number.ok() || out.size() == most) {
      return Bad(fmt::format("{} \"{}\" is not understood", name, Printable(text, 40)),
                 fmt::format("write {}", example));
    }
    out.push_back(*number);
    at = end + 1;
  }
  if (out.size() < least) {
    return Bad(fmt::format("{} \"{}\" has too few numbers", name, Printable(text, 40)),
               fmt::format("write {}", example));
  }
  return out;
}

// A size of 0 or 2^50 is told as such, with the name it has on the command line.
Status CheckShape(const GemmQuestion& q) {
  for (const auto& [name, value] : {std::pair<std::string_view, int64_t>{"M", q.given.m},
                                    {"N", q.given.n},
                                    {"K", q.given.k},
                                    {"--batch", q.given.batch}}) {
    if (value <= 0) return Bad(fmt::format("{} is {}", name, value), "a size is at least 1");
    if (value > gemm::kMaxDimension)
      return Bad(fmt::format("{} is {}", name, value),
                 fmt::format("a size is at most {}", gemm::kMaxDimension));
  }
  return absl::OkStatus();
}

StatusOr<GemmQuestion> Understand(const GemmOptions& o) {
  GemmQuestion q;
  FW_ASSIGN_OR_RETURN(q.given.m, Whole(o.m, "M"));
  FW_ASSIGN_OR_RETURN(q.given.n, Whole(o.n, "N"));
  FW_ASSIGN_OR_RETURN(q.given.k, Whole(o.k, "K"));
  if (!o.batch.empty()) {
    FW_ASSIGN_OR_RETURN(q.given.batch, Whole(o.batch, "--batch"));
  }
  FW_RETURN_IF_ERROR(CheckShape(q));
  if (o.order != "torch" && o.order != "blas")
    return Bad(fmt::format("--order \"{}\" is not known", Printable(o.order, 40)),
               "use torch or blas");
  if (o.kernel.empty() == o.tile.empty())
    return Bad("the tile is not known", "give either --kernel NAME or --tile 256x128x64");

  if (!o.kernel.empty()) {
    q.kernel = gemm::DecodeKernelName(o.kernel);
    auto tiling = gemm::TilingOf(*q.kernel);
    if (!tiling.ok()) {
      return Bad(std::string(tiling.status().message()),
                 "give --tile MxNxK instead, and --cluster AxB if it is known");
    }
    q.tiling = *std::move(tiling);
    const auto order = o.order == "blas" ? gemm::AxisOrder::kBlas : gemm::AxisOrder::kTorch;
    q.swapped = gemm::TileProblem({1, 2, 3}, order, q.kernel->axes).m != 1;
    q.tile_source = fmt::format("{} kernel", gemm::FamilyName(q.kernel->family));
  } else {
    FW_ASSIGN_OR_RETURN(const auto tile,
                        Numbers(o.tile, "--tile", 2, 3, "--tile 256x128x64 (M x N x K)"));
    q.tiling.tile_m = tile[0];
    q.tiling.tile_n = tile[1];
    if (tile.size() > 2) q.tiling.tile_k = tile[2];
    q.tile_source = "--tile, along M, N and K as given";
  }
  if (!o.cluster.empty()) {
    FW_ASSIGN_OR_RETURN(const auto cluster, Numbers(o.cluster, "--cluster", 2, 2, "--cluster 2x1"));
    if (q.kernel && q.kernel->cluster_m && q.kernel->cluster_n &&
        (cluster[0] != *q.kernel->cluster_m || cluster[1] != *q.kernel->cluster_n)) {
      return Bad(fmt::format("--cluster {} contradicts the name, which says {}x{}", o.cluster,
                             *q.kernel->cluster_m, *q.kernel->cluster_n),
                 "leave it out");
    }
    q.tiling.cluster_m = cluster[0];
    q.tiling.cluster_n = cluster[1];
    q.tiling.cluster_known = true;
  }
  if (!o.split_k.empty()) {
    FW_ASSIGN_OR_RETURN(const int64_t split, Whole(o.split_k, "--split-k"));
    if (split <= 0) return Bad(fmt::format("--split-k is {}", split), "it is at least 1");
    if (split > 1 && q.kernel && q.kernel->split_k == false)
      return Bad(
          fmt::format("--split-k {} contradicts the name, which is of a kernel without it", split),
          "leave it out");
    q.tiling.split_k = split;
    q.tiling.split_known = true;
  }
  return q;
}

Status RunGemm(Context& context, const GemmOptions& o) {
  GemmAnswer a;
  a.order = o.order;
  a.ofu = o.ofu;
  FW_ASSIGN_OR_RETURN(a.q, Understand(o));
  auto executed = gemm::Execute(a.q.problem(), a.q.tiling);
  if (!executed.ok())
    return Bad(std::string(executed.status().message()),
               "\"flopwatch calc gemm --help\" shows how");
  a.e = *std::move(executed);

  std::optional<hardware::Precision> precision;
  if (!o.precision.empty()) {
    FW_ASSIGN_OR_RETURN(precision, hardware::ParsePrecision(o.precision));
  } else if (a.q.kernel && a.q.kernel->tensor_core.value_or(false)) {
    precision = gemm::TensorPrecisionOf(*a.q.kernel);
  }
  if (precision) a.precision = hardware::PrecisionName(*precision);
  std::optional<hardware::Catalog> catalog;
  if (!o.gpu.empty()) {
    FW_ASSIGN_OR_RETURN(catalog, SiteCatalog(context));
    FW_ASSIGN_OR_RETURN(a.gpu, catalog->Find(o.gpu));
    if (a.gpu->sm_count && a.e.ctas) {
      FW_ASSIGN_OR_RETURN(a.waves, gemm::WavesOf(*a.e.ctas, *a.gpu->sm_count));
    }
    if (precision) {
      const auto peak = hardware::PeakOf(*a.gpu, *precision);
      if (!peak.ok() && !o.precision.empty()) return peak.status();
      if (peak.ok()) {
        a.peak_tflops = peak->tflops;
        a.least_us = static_cast<double>(a.e.executed_flops) / (peak->tflops * 1e6);
      }
    }
  }
  if (o.ofu) {
    auto adjusted = gemm::AdjustedOfu(*o.ofu, a.e.overhead);
    if (!adjusted.ok())
      return Bad(std::string(adjusted.status().message()), "give --ofu as a ratio, 0.45");
    a.adjusted_ofu = *adjusted;
  }
  for (const char axis : {'M', 'N', 'K'}) a.curves.push_back(CurveOfGemm(a.q, axis));

  const Table table = GemmTable(a);
  if (context.for_people()) {
    ViewOptions view;
    view.color = context.color();
    view.ascii = context.ascii();
    context.Out(GemmCard(a, view));
    for (const std::string& note : table.notes) context.Say(note);
    return absl::OkStatus();
  }
  const bool json =
      context.format() == OutputFormat::kJson || context.format() == OutputFormat::kJsonl;
  if (!json || context.picks_columns()) return context.Write(table);
  // The curve is no column of a table: it goes into the one object.
  WriteOptions write;
  write.format = context.format();
  std::string text = Render(table, write);
  text.insert(text.rfind('}'), ",\"curve\":" + GemmCurveJson(a.curves));
  context.Out(text);
  for (const std::string& note : table.notes) context.Say(note);
  return absl::OkStatus();
}

}  // namespace

Args AddCalcGemm(Args calc, Run* run) {
  auto o = std::make_shared<GemmOptions>();
  Args sub = calc.Command("gemm",
                          "FLOPs a tiled matrix product executes, its overhead and "
                          "waves, and what sizes would waste less");
  sub.Option("M", o->m, "Rows of the output (tokens), as PyTorch has them").Required();
  sub.Option("N", o->n, "Columns of the output (features)").Required();
  sub.Option("K", o->k, "Length of the products summed up").Required();
  sub.Option("--kernel NAME", o->kernel,
             "Kernel whose name shows the tile, as a profiler prints it");
  sub.Option("--tile MxNxK", o->tile,
             "Tile of a CTA along M, N and K as given, instead of a kernel's: 256x128x64");
  sub.Option("--cluster AxB", o->cluster,
             "Cluster in tiles, in the tile's axes (default 1x1, or the kernel's)");
  sub.Option("--split-k N", o->split_k, "CTAs that share one K (default 1)");
  sub.Option("--batch B", o->batch, "Products in one launch (default 1)");
  sub.Option("--gpu NAME", o->gpu,
             "Accelerator: waves over its SMs and the least time at its peak");
  sub.Option("--precision P", o->precision,
             "fp64, tf32, fp16, bf16, fp8, int8, fp4 (default: the kernel's)");
  sub.Option("--order ORDER", o->order,
             "torch: M rows, N columns; blas: column-major m, n of cuBLAS")
      .ShowDefault();
  sub.Option("--ofu X", o->ofu,
             "OFU measured over this product alone: also what it is without padding");
  sub.Footer(
      "Examples:\n"
      "  flopwatch calc gemm 4100 4100 4100 --kernel nvjet_sm90_hsh_256x160_64x4_2x1 --gpu \"H100 "
      "SXM\"\n"
      "  flopwatch calc gemm 1 25136 2880 --kernel nvjet_tst_192x8_64x8_4x1_v_bz_TNT\n"
      "  flopwatch calc gemm 1793 1792 2048 --tile 256x128x64 --gpu \"A100 SXM 80GB\" -o json");
  *run = [o](Context& context) { return RunGemm(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
