#include "cli/commands/calc_gemm_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "cli/commands/calc.h"
#include "cli/views/columns.h"

namespace flopwatch::cli {
namespace {

constexpr int kCurveSteps = 16;  // each way, eight to a padding step

// Sizes of an axis between which nothing jumps: a cluster of tiles, or the K step by its slices.
std::optional<int64_t> PaddingStep(const GemmQuestion& q, char axis) {
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

std::vector<std::string> Notes(const GemmAnswer& a) {
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
  if (!a.q.tiling.split_known) {
    notes.push_back(
        "the name does not tell whether K is split over CTAs: none is counted; --split-k N (grid z "
        "/ batch) says it");
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

}  // namespace

GemmCurve CurveOfGemm(const GemmQuestion& q, char axis) {
  GemmCurve curve;
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
    GemmQuestion shifted = q;
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

Table GemmTable(const GemmAnswer& a) {
  Table table;
  std::vector<Cell> row;
  const auto add = [&](Column column, Cell cell) {
    table.columns.push_back(std::move(column));
    row.push_back(std::move(cell));
  };
  const GemmQuestion& q = a.q;
  add({"m", "M"}, q.given.m);
  add({"n", "N"}, q.given.n);
  add({"k", "K"}, q.given.k);
  add({"batch", "BATCH"}, q.given.batch);
  add({"order", "ORDER"}, a.order);
  add({"useful_flops", "USEFUL FLOPS"}, a.e.useful_flops);
  add({"executed_flops", "EXECUTED FLOPS"}, a.e.executed_flops);
  add({"overhead", "OVERHEAD", ColumnFormat::kPercent}, a.e.overhead);
  add({"m_eff", "M EFF"}, a.m_eff());
  add({"n_eff", "N EFF"}, a.n_eff());
  add({"k_eff", "K EFF"}, CellOf(a.e.k_eff));
  add({"ctas", "CTAS"}, CellOf(a.e.ctas));
  add({"waves", "WAVES"}, a.waves ? Cell(a.waves->waves) : Cell());
  add({"wave_efficiency", "WAVE EFFICIENCY", ColumnFormat::kPercent},
      a.waves ? Cell(a.waves->efficiency) : Cell());
  add({"exact", "EXACT"}, a.e.exact);
  add({"tile_m", "TILE M"}, q.tile('M'));
  add({"tile_n", "TILE N"}, q.tile('N'));
  add({"tile_k", "TILE K"}, CellOf(q.tiling.tile_k));
  add({"cluster_m", "CLUSTER M"}, q.tiling.cluster_known ? Cell(q.cluster('M')) : Cell());
  add({"cluster_n", "CLUSTER N"}, q.tiling.cluster_known ? Cell(q.cluster('N')) : Cell());
  add({"split_k", "SPLIT K"}, q.tiling.split_known ? CellOf(q.tiling.split_k) : Cell());
  add({"family", "FAMILY"},
      q.kernel ? Cell(std::string(gemm::FamilyName(q.kernel->family))) : Cell());
  add({"precision", "PRECISION"}, TextCell(a.precision));
  add({"gpu", "GPU"}, TextCell(a.gpu != nullptr ? a.gpu->model : ""));
  add({"peak_tflops", "PEAK TFLOP/S"}, CellOf(a.peak_tflops));
  add({"least_us", "LEAST US"}, CellOf(a.least_us));
  add({"adjusted_ofu", "ADJUSTED OFU", ColumnFormat::kPercent}, CellOf(a.adjusted_ofu));
  table.rows = {std::move(row)};
  table.notes = Notes(a);
  return table;
}

std::string GemmCurveJson(const std::vector<GemmCurve>& curves) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const GemmCurve& curve : curves) {
    for (const GemmCurvePoint& p : curve.points) {
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

// The card for a person: one line an axis, with the overhead over sizes around the one asked for.
std::string GemmCard(const GemmAnswer& a, const ViewOptions& view) {
  const GemmQuestion& q = a.q;
  std::string out = fmt::format(
      "{} x {} x {}{} ({} order), tile from {}\n\n", q.given.m, q.given.n, q.given.k,
      q.given.batch > 1 ? fmt::format(" x {} batched", q.given.batch) : "", a.order, q.tile_source);
  Table axes;
  axes.columns =
      ColumnsOf(Column{"axis", "AXIS"}, Column{"size", "SIZE"}, Column{"tile", "TILE"},
                Column{"cluster", "CLUSTER"}, Column{"padded", "PADDED"},
                Column{"extra", "EXTRA", ColumnFormat::kPercent}, Column{"below", "WHOLE BELOW"},
                Column{"above", "WHOLE ABOVE"}, Column{"curve", "EXTRA AROUND IT"});
  for (const GemmCurve& curve : a.curves) {
    const char axis = curve.axis;
    const int64_t size = axis == 'M' ? q.given.m : axis == 'N' ? q.given.n : q.given.k;
    const std::optional<int64_t> padded = axis == 'M'   ? std::optional(a.m_eff())
                                          : axis == 'N' ? std::optional(a.n_eff())
                                                        : a.e.k_eff;
    std::vector<std::optional<double>> line;
    for (const GemmCurvePoint& p : curve.points) line.push_back(p.extra);
    std::string spark;
    if (!line.empty()) {
      spark = fmt::format("{} {} to {}", Sparkline(view, line, static_cast<int>(line.size())),
                          curve.points.front().size, curve.points.back().size);
    }
    Cell cluster = std::monostate{};
    if (axis != 'K' && q.tiling.cluster_known) cluster = q.cluster(axis);
    axes.rows.push_back(
        {std::string(1, axis), size, axis == 'K' ? CellOf(q.tiling.tile_k) : Cell(q.tile(axis)),
         cluster, CellOf(padded),
         padded ? Cell(static_cast<double>(*padded) / static_cast<double>(size) - 1) : Cell(),
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
                       *a.ofu * 100, *a.adjusted_ofu * 100);
  return out;
}

}  // namespace flopwatch::cli
