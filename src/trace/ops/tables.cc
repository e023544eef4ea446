// The report as tables. The first two have the column names, order and rounding of msprof-analyze's
// OperatorMFU and ModuleMFU.
#include <cstdlib>

#include <fmt/format.h>
#include "trace/columns.h"
#include "trace/ops/ops.h"

namespace flopwatch::trace {
namespace {

// A decimal rounding that is right for the double there is, as Python's round().
double Rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
}

Cell Of(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }
Cell Of(std::string_view text) { return std::string(text); }
Cell OrAbsent(std::string_view text) { return text.empty() ? Cell() : Cell(std::string(text)); }

size_t Shown(size_t rows, size_t max_rows, Table* table) {
  if (max_rows == 0 || rows <= max_rows) return rows;
  table->notes.push_back(fmt::format("the first {} of {} rows", max_rows, rows));
  return max_rows;
}

}  // namespace

Table KernelMfuTable(const OpsReport& report, size_t max_rows) {
  Table t = TableWith({"rank_id", "op_name", "kernel_name", "kernel_start(ns)", "kernel_end(ns)",
                       "kernel_duration(ns)", "mfu", "actual_tflops", "chip_peak_tflops", "flops",
                       "flops_op_name", "input_shapes", "output_shapes"});
  const size_t rows = Shown(report.kernels.size(), max_rows, &t);
  t.rows.reserve(rows);
  for (size_t i = 0; i < rows; ++i) {
    const KernelMfu& k = report.kernels[i];
    t.rows.push_back({int64_t{k.rank}, Of(k.op_name), Of(k.kernel_name), k.begin, k.end,
                      k.end - k.begin, Rounded(k.mfu, 4), Rounded(k.tflops, 2),
                      Rounded(k.peak_tflops, 2), k.flops, Of(k.flops_op_name), Of(k.input_shapes),
                      Of(k.output_shapes)});
  }
  return t;
}

Table ModuleMfuTable(const OpsReport& report, size_t max_rows) {
  Table t;
  bool any = false;
  for (const ModuleMfu& m : report.modules) any |= !m.avg_mfu.empty();
  t.columns = ColumnsOf({"rank_id", "parent_module", "module", "op_name", "kernel_list",
                         "total_kernel_duration(ns)", "avg_kernel_duration(ns)", "op_count"});
  if (any) t.columns.push_back({"avg_mfu", "", ColumnFormat::kPlain});
  const size_t rows = Shown(report.modules.size(), max_rows, &t);
  for (size_t i = 0; i < rows; ++i) {
    const ModuleMfu& m = report.modules[i];
    std::vector<Cell> row = {int64_t{m.rank},   Of(m.parent_module),
                             Of(m.module),      Of(m.op_name),
                             Of(m.kernel_list), static_cast<double>(m.total_kernel_ns),
                             m.avg_kernel_ns,   m.op_count};
    if (any) row.push_back(Of(m.avg_mfu));
    t.rows.push_back(std::move(row));
  }
  return t;
}

Table OperatorTable(const OpsReport& report, size_t max_rows) {
  Table t = TableWith({"op_name",        "shapes",
                       "precision",      "#calls",
                       "#time_ns",       "%time_share",
                       "flops",          "flops_high",
                       "tflops",         "peak_tflops",
                       "%op_mfu",        "%op_mfu_low",
                       "%op_mfu_high",   "%main_kernel_mfu",
                       "%tile_overhead", "tile_overhead_exact",
                       "%executed_mfu",  "%ofu",
                       "#ofu_samples",   "%adjusted_ofu",
                       "formula",        "source",
                       "convention",     "peak_source",
                       "main_kernel",    "types",
                       "impossible",     "not_computable"});
  const size_t rows = Shown(report.operators.size(), max_rows, &t);
  for (size_t i = 0; i < rows; ++i) {
    const OperatorMfu& o = report.operators[i];
    const Cell exact =
        o.mfu_low && o.mfu_high && *o.mfu_low == *o.mfu_high ? Cell(*o.mfu_low) : Cell();
    t.rows.push_back({Of(o.op_name),
                      OrAbsent(o.shapes),
                      OrAbsent(o.precision),
                      o.calls,
                      o.time_ns,
                      o.time_share,
                      Of(o.flops_low),
                      Of(o.flops_high),
                      Of(o.tflops),
                      Of(o.peak_tflops),
                      exact,
                      Of(o.mfu_low),
                      Of(o.mfu_high),
                      Of(o.main_kernel_mfu),
                      Of(o.tile_overhead),
                      o.tile_overhead ? Cell(o.tile_overhead_exact) : Cell(),
                      Of(o.executed_mfu),
                      Of(o.ofu),
                      o.ofu ? Cell(o.ofu_samples) : Cell(),
                      Of(o.adjusted_ofu),
                      Of(o.formula),
                      Of(o.source),
                      OrAbsent(o.convention),
                      OrAbsent(o.peak_source),
                      Of(o.main_kernel),
                      OrAbsent(o.types),
                      o.impossible,
                      OrAbsent(o.not_computable)});
  }
  t.notes.insert(t.notes.end(), report.notes.begin(), report.notes.end());
  return t;
}

Table UncountedTable(const OpsReport& report, size_t max_rows) {
  Table t = TableWith({"kernel_name", "op_name", "#count", "#time_ns", "%time_share", "reason",
                       "%ofu", "#ofu_samples"});
  const size_t rows = Shown(report.uncounted.size(), max_rows, &t);
  for (size_t i = 0; i < rows; ++i) {
    const UncountedKernel& u = report.uncounted[i];
    t.rows.push_back({Of(u.kernel_name), OrAbsent(u.op_name), u.count, u.time_ns, u.time_share,
                      Of(u.reason), Of(u.ofu), u.ofu ? Cell(u.ofu_samples) : Cell()});
  }
  return t;
}

Table CoverageTable(const OpsReport& report) {
  Table t = TableWith({"rank_id", "device", "gpu", "precision", "peak_tflops", "#compute_ns",
                       "#counted_ns", "%coverage", "flops", "flops_high", "%mfu_compute",
                       "%mfu_span", "%ofu", "#ofu_samples", "peak_source", "modules_from"});
  for (const RankOps& r : report.ranks) {
    t.rows.push_back({int64_t{r.rank}, r.device < 0 ? Cell() : Cell(int64_t{r.device}),
                      OrAbsent(r.gpu), OrAbsent(r.precision), Of(r.peak_tflops), r.compute_ns,
                      r.counted_ns, Of(r.coverage), r.flops_low, r.flops_high, Of(r.mfu_compute),
                      Of(r.mfu_span), Of(r.ofu), r.ofu ? Cell(r.ofu_samples) : Cell(),
                      OrAbsent(r.peak_source), OrAbsent(r.modules_from)});
  }
  return t;
}

}  // namespace flopwatch::trace
