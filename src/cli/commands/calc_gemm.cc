// flopwatch calc gemm: what a tiled matrix product executes, its overhead and waves, and how the
// overhead changes around the shape.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/commands/calc.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/style.h"
#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/tiles.h"
#include "hardware/accelerator.h"

namespace flopwatch::cli {
namespace {

namespace gemm = efficiency::gemm;

struct GemmOptions {
  std::string m, n, k, kernel, tile, cluster, split_k, batch, gpu, precision, order = "torch";
  std::optional<double> ofu;
};

// Errors of this command name it first, the value next.
Status Bad(std::string_view why, std::string_view next) {
  return absl::InvalidArgumentError(fmt::format("calc gemm: {}; {}", why, next));
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

// The product in the order of the command line, and its tiling in the axes of the tile.
struct Question {
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
  // Of the axis as typed: tile and cluster.
  int64_t tile(char axis) const { return (axis == 'M') != swapped ? tiling.tile_m : tiling.tile_n; }
  int64_t cluster(char axis) const {
    return (axis == 'M') != swapped ? tiling.cluster_m : tiling.cluster_n;
  }
};

// A size of 0 or 2^50 is told as such, with the name it has on the command line.
Status CheckShape(const Question& q) {
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

StatusOr<Question> Understand(const GemmOptions& o) {
  Question q;
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
  }
  return q;
}

// ---- the curve: overhead over sizes around the one asked for
// -----------------------------------------

constexpr int kCurveSteps = 16;  // each way, eight to a padding step

struct CurvePoint {
  int64_t size = 0;
  std::optional<double> extra;  // padding of this axis alone
  gemm::Execution result;
};
struct Curve {
  char axis = 'M';
  std::vector<CurvePoint> points;
  std::optional<int64_t> below, above;  // nearest sizes without padding on this axis
};

// Sizes of one axis between which nothing jumps: a cluster of tiles, or the K step times its
// slices.
std::optional<int64_t> PaddingStep(const Question& q, char axis) {
  if (axis == 'K') {
    if (!q.tiling.tile_k) return std::nullopt;
    return *q.tiling.tile_k * q.tiling.split_k.value_or(1);
  }
  const bool tile_m = (axis == 'M') != q.swapped;
  const int64_t cluster = tile_m && q.tiling.tile_spans_pair
                              ? std::max<int64_t>(1, q.cluster(axis) / 2)
                              : q.cluster(axis);
  return q.tile(axis) * cluster;
}

Curve CurveOf(const Question& q, char axis) {
  Curve curve;
  curve.axis = axis;
  const auto step = PaddingStep(q, axis);
  const int64_t at = axis == 'M' ? q.given.m : axis == 'N' ? q.given.n : q.given.k;
  if (!step) return curve;
  curve.above = (at + *step - 1) / *step * *step;
  if (at >= *step) curve.below = at / *step * *step;
  int64_t last = 0;
  for (int i = -kCurveSteps; i <= kCurveSteps; ++i) {
    const int64_t size = at + i * std::max<int64_t>(1, *step / 8);
    if (size <= last || size > gemm::kMaxDimension) continue;
    Question shifted = q;
    (axis == 'M' ? shifted.given.m : axis == 'N' ? shifted.given.n : shifted.given.k) = size;
    const auto result = gemm::Execute(shifted.problem(), q.tiling);
    if (!result.ok()) continue;
    const int64_t padded = axis == 'K'                  ? *result->k_eff
                           : (axis == 'M') != q.swapped ? result->m_eff
                                                        : result->n_eff;
    curve.points.push_back(
        {size, static_cast<double>(padded) / static_cast<double>(size) - 1, *result});
    last = size;
  }
  return curve;
}

// ---- output
// --------------------------------------------------------------------------------------------

struct Answer {
  Question q;
  gemm::Execution e;
  const hardware::Accelerator* gpu = nullptr;
  std::optional<gemm::Waves> waves;
  std::string precision;
  std::optional<double> peak_tflops, least_us, adjusted_ofu;
  std::vector<Curve> curves;
  int64_t m_eff() const { return q.swapped ? e.n_eff : e.m_eff; }
  int64_t n_eff() const { return q.swapped ? e.m_eff : e.n_eff; }
};

std::vector<std::string> Notes(const Answer& a, const GemmOptions& o) {
  std::vector<std::string> notes;
  if (a.q.kernel) {
    const gemm::TileAxes axes = a.q.kernel->axes;
    notes.push_back(
        fmt::format("tile {}x{} of the name: {} runs along {}, {} along {}{}", a.q.tiling.tile_m,
                    a.q.tiling.tile_n, a.q.tiling.tile_m, a.q.swapped ? "N" : "M",
                    a.q.tiling.tile_n, a.q.swapped ? "M" : "N",
                    axes == gemm::TileAxes::kBlas ? " (cuBLAS is column-major)"
                    : axes == gemm::TileAxes::kUnknown
                        ? " (assumed: the name does not say; --order blas turns it round)"
                        : ""));
  }
  if (!a.e.k_eff)
    notes.push_back(
        "the K step is not visible: K is not padded, the executed FLOPs are at least these");
  if (!a.q.tiling.cluster_known)
    notes.push_back(
        "the cluster is not visible: no rounding to it is counted; --cluster AxB adds it");
  if (!a.q.tiling.split_k) {
    notes.push_back(
        "K is split over CTAs, but not visibly into how many: --split-k N (the launch's grid z / "
        "batch) completes this");
  }
  if (a.q.kernel && (a.q.kernel->family == gemm::Family::kCutlass3 ||
                     (a.q.kernel->family == gemm::Family::kXmma && a.q.kernel->arch == 90))) {
    notes.push_back(
        "kernels of this family may be persistent: the launched grid can be smaller than the CTAs "
        "counted here");
  }
  if (a.q.kernel && a.q.kernel->tensor_core == false)
    notes.push_back("this kernel runs on CUDA cores: it adds nothing to tensor activity or OFU");
  if (a.q.kernel && a.q.kernel->confidence <= gemm::NameConfidence::kMedium)
    notes.push_back(
        "the name is not fully understood or was cut: flopwatch calc kernel shows what was read");
  if (a.waves) {
    notes.push_back(
        fmt::format("waves of one CTA an SM on {}: idle SMs of the last wave lower OFU and MFU "
                    "alike and are no overhead",
                    a.gpu->model));
  }
  notes.push_back(
      "executed = 2 x M_eff x N_eff x K_eff x batch (OFU paper, eq. 3 and 4); overhead = executed "
      "/ useful - 1 (eq. 2)");
  return notes;
}

Table TableOf(const Answer& a, const GemmOptions& o) {
  Table table;
  std::vector<Cell> row;
  const auto add = [&](Column column, Cell cell) {
    table.columns.push_back(std::move(column));
    row.push_back(std::move(cell));
  };
  const Question& q = a.q;
  add({"m", "M"}, q.given.m);
  add({"n", "N"}, q.given.n);
  add({"k", "K"}, q.given.k);
  add({"batch", "BATCH"}, q.given.batch);
  add({"order", "ORDER"}, o.order);
  add({"useful_flops", "USEFUL FLOPS"}, a.e.useful_flops);
  add({"executed_flops", "EXECUTED FLOPS"}, a.e.executed_flops);
  add({"overhead", "OVERHEAD", ColumnFormat::kPercent}, a.e.overhead);
  add({"m_eff", "M EFF"}, a.m_eff());
  add({"n_eff", "N EFF"}, a.n_eff());
  add({"k_eff", "K EFF"}, CellOf(a.e.k_eff));
  add({"ctas", "CTAS"}, CellOf(a.e.ctas));
  add({"waves", "WAVES"}, a.waves ? Cell(a.waves->waves) : Cell(std::monostate{}));
  add({"wave_efficiency", "WAVE EFFICIENCY", ColumnFormat::kPercent},
      a.waves ? Cell(a.waves->efficiency) : Cell(std::monostate{}));
  add({"exact", "EXACT"}, a.e.exact);
  add({"tile_m", "TILE M"}, q.tile('M'));
  add({"tile_n", "TILE N"}, q.tile('N'));
  add({"tile_k", "TILE K"}, CellOf(q.tiling.tile_k));
  add({"cluster_m", "CLUSTER M"},
      q.tiling.cluster_known ? Cell(q.cluster('M')) : Cell(std::monostate{}));
  add({"cluster_n", "CLUSTER N"},
      q.tiling.cluster_known ? Cell(q.cluster('N')) : Cell(std::monostate{}));
  add({"split_k", "SPLIT K"}, CellOf(q.tiling.split_k));
  add({"family", "FAMILY"},
      q.kernel ? Cell(std::string(gemm::FamilyName(q.kernel->family))) : Cell(std::monostate{}));
  add({"precision", "PRECISION"}, TextCell(a.precision));
  add({"gpu", "GPU"}, TextCell(a.gpu != nullptr ? a.gpu->model : ""));
  add({"peak_tflops", "PEAK TFLOP/S"}, CellOf(a.peak_tflops));
  add({"least_us", "LEAST US"}, CellOf(a.least_us));
  add({"adjusted_ofu", "ADJUSTED OFU", ColumnFormat::kPercent}, CellOf(a.adjusted_ofu));
  table.rows = {std::move(row)};
  table.notes = Notes(a, o);
  return table;
}

std::string CurveJson(const std::vector<Curve>& curves) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const Curve& curve : curves) {
    for (const CurvePoint& p : curve.points) {
      json.BeginObject();
      json.Field("axis", std::string(1, static_cast<char>(curve.axis - 'A' + 'a')));
      json.Field("size", p.size);
      json.Field("executed_flops", p.result.executed_flops);
      json.Field("useful_flops", p.result.useful_flops);
      json.Field("overhead", p.result.overhead);
      json.EndObject();
    }
  }
  json.EndArray();
  return out;
}

// Where a person reads: one line an axis, with the overhead over sizes around the one asked for.
std::string Card(const Answer& a, const GemmOptions& o, const ViewOptions& view) {
  const Question& q = a.q;
  std::string out = fmt::format(
      "{} x {} x {}{} ({} order), tile from {}\n\n", q.given.m, q.given.n, q.given.k,
      q.given.batch > 1 ? fmt::format(" x {} batched", q.given.batch) : "", o.order, q.tile_source);
  Table axes;
  axes.columns = {{"axis", "AXIS"},
                  {"size", "SIZE"},
                  {"tile", "TILE"},
                  {"cluster", "CLUSTER"},
                  {"padded", "PADDED"},
                  {"extra", "EXTRA", ColumnFormat::kPercent},
                  {"below", "WHOLE BELOW"},
                  {"above", "WHOLE ABOVE"},
                  {"curve", "EXTRA AROUND IT"}};
  for (const Curve& curve : a.curves) {
    const char axis = curve.axis;
    const int64_t size = axis == 'M' ? q.given.m : axis == 'N' ? q.given.n : q.given.k;
    const std::optional<int64_t> padded = axis == 'M'   ? std::optional(a.m_eff())
                                          : axis == 'N' ? std::optional(a.n_eff())
                                                        : a.e.k_eff;
    std::vector<std::optional<double>> line;
    for (const CurvePoint& p : curve.points) line.push_back(p.extra);
    std::string spark;
    if (!line.empty()) {
      spark = fmt::format("{} {} to {}", Sparkline(view, line, static_cast<int>(line.size())),
                          curve.points.front().size, curve.points.back().size);
    }
    Cell cluster = std::monostate{};
    if (axis != 'K' && q.tiling.cluster_known) cluster = q.cluster(axis);
    axes.rows.push_back({std::string(1, axis), size,
                         axis == 'K' ? CellOf(q.tiling.tile_k) : Cell(q.tile(axis)), cluster,
                         CellOf(padded),
                         padded ? Cell(static_cast<double>(*padded) / static_cast<double>(size) - 1)
                                : Cell(std::monostate{}),
                         CellOf(curve.below), CellOf(curve.above), TextCell(spark)});
  }
  WriteOptions write;
  write.format = OutputFormat::kWide;
  write.color = view.color;
  out += Render(axes, write);
  out += fmt::format("\n{}executed {:.6g} FLOPs for {:.6g} useful: overhead {:.2f} %\n",
                     a.e.exact ? "" : "at least: ", static_cast<double>(a.e.executed_flops),
                     static_cast<double>(a.e.useful_flops), a.e.overhead * 100);
  if (a.e.ctas) {
    out += fmt::format("{} CTAs", *a.e.ctas);
    if (a.waves) {
      out +=
          fmt::format(": {} wave{} of {} SMs, {:.1f} % of them busy", a.waves->waves,
                      a.waves->waves == 1 ? "" : "s", *a.gpu->sm_count, a.waves->efficiency * 100);
    }
    out += "\n";
  }
  if (a.least_us)
    out += fmt::format("at the dense {} peak of {} ({:g} TFLOP/s) no less than {:.4g} us\n",
                       a.precision, a.gpu->model, RoundedTflops(*a.peak_tflops), *a.least_us);
  if (a.adjusted_ofu)
    out += fmt::format("OFU {:.2f} % is {:.2f} % without the padding (OFU paper, eq. 8)\n",
                       *o.ofu * 100, *a.adjusted_ofu * 100);
  return out;
}

Status RunGemm(Context& context, const GemmOptions& o) {
  Answer a;
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
  for (const char axis : {'M', 'N', 'K'}) a.curves.push_back(CurveOf(a.q, axis));

  const Table table = TableOf(a, o);
  if (context.for_people()) {
    ViewOptions view;
    view.color = context.color();
    view.ascii = context.ascii();
    context.Out(Card(a, o, view));
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
  text.insert(text.rfind('}'), ",\"curve\":" + CurveJson(a.curves));
  context.Out(text);
  for (const std::string& note : table.notes) context.Say(note);
  return absl::OkStatus();
}

}  // namespace

CLI::App* AddCalcGemm(CLI::App& calc, Run* run) {
  auto o = std::make_shared<GemmOptions>();
  CLI::App* sub = calc.add_subcommand("gemm",
                                      "FLOPs a tiled matrix product executes, its overhead and "
                                      "waves, and what sizes would waste less");
  sub->add_option("M", o->m, "Rows of the output (tokens), as PyTorch has them")->required();
  sub->add_option("N", o->n, "Columns of the output (features)")->required();
  sub->add_option("K", o->k, "Length of the products summed up")->required();
  sub->add_option("--kernel", o->kernel,
                  "Kernel whose name shows the tile, as a profiler prints it")
      ->type_name("NAME");
  sub->add_option("--tile", o->tile,
                  "Tile of a CTA along M, N and K as given, instead of a kernel's: 256x128x64")
      ->type_name("MxNxK");
  sub->add_option("--cluster", o->cluster,
                  "Cluster in tiles, in the tile's axes (default 1x1, or the kernel's)")
      ->type_name("AxB");
  sub->add_option("--split-k", o->split_k, "CTAs that share one K (default 1)")->type_name("N");
  sub->add_option("--batch", o->batch, "Products in one launch (default 1)")->type_name("B");
  sub->add_option("--gpu", o->gpu, "Accelerator: waves over its SMs and the least time at its peak")
      ->type_name("NAME");
  sub->add_option("--precision", o->precision,
                  "fp64, tf32, fp16, bf16, fp8, int8, fp4 (default: the kernel's)")
      ->type_name("P");
  sub->add_option("--order", o->order,
                  "torch: M rows, N columns; blas: column-major m, n of cuBLAS")
      ->type_name("ORDER")
      ->capture_default_str();
  sub->add_option("--ofu", o->ofu,
                  "OFU measured over this product alone: also what it is without padding")
      ->type_name("X");
  sub->footer(
      "Examples:\n"
      "  flopwatch calc gemm 4100 4100 4100 --kernel nvjet_sm90_hsh_256x160_64x4_2x1 --gpu \"H100 "
      "SXM\"\n"
      "  flopwatch calc gemm 1 25136 2880 --kernel nvjet_tst_192x8_64x8_4x1_v_bz_TNT\n"
      "  flopwatch calc gemm 1793 1792 2048 --tile 256x128x64 --gpu \"A100 SXM 80GB\" -o json");
  *run = [o](Context& context) { return RunGemm(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
