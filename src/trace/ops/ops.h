// Operator MFU: what every operator and module makes of the chip, on one model for Ascend, Nsight
// and Kineto traces.
//
// Three figures that are never mixed (docs/traces.md, "Operator MFU"):
//  - kernel MFU: FLOPs of the whole operator / (one kernel's time x peak), row for row as
//    msprof-analyze's operator_mfu prints it (tables OperatorMFU and ModuleMFU). A helper kernel of
//    a product can show 200 %.
//  - operator MFU: FLOPs / (union of the times of the operator's compute kernels x peak). Above 1 a
//    formula, a peak or a link is wrong, and it is flagged.
//  - OFU: what the chip itself counted over the same intervals, where the trace has GPU metrics
//    (Nsight).
//
// FLOPs are counted once, at the lowest operator that has a rule (formulas.h), or come from the
// framework's own record (Ascend `mfu_flops`, which then goes before any formula). A multiply-add
// is two. What cannot be known (a size that was not recorded, a list that was cut, the lengths of
// packed sequences) is not counted and listed with its share of time; where only the range is known
// (causal or not, TF32 or not) both ends are given.
//
// Pure: no file, no clock. Near linear in the events. Texts are those of the set, which must
// outlive the report.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/table.h"
#include "hardware/accelerator.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

struct OpsOptions {
  // The accelerator, by any name the hardware table knows; "" = as the trace says. An unknown name
  // is NotFound.
  std::string gpu;
  // TFLOP/s by precision ("bf16", "fp16", "fp8", "tf32", "fp32", "int8", ...), "" for every other:
  // before any table.
  std::map<std::string, double> peak_tflops;
  std::optional<double> tensor_clock_mhz;        // OFU's denominator, before the table's
  const hardware::Catalog* catalog = nullptr;    // nullptr = the built-in one
  std::vector<std::string> communication_names;  // IsCommunicationKernel's `more`
  std::vector<int32_t> only_ranks;               // empty = all
  // Rows of the kernel table. Reports that show only the summary do without: they are one a kernel
  // with FLOPs.
  bool kernel_rows = true;
  // Recorded FLOPs ranges match only operators of their own thread. msprof-analyze looks at the
  // time alone, so that the operators of a data loader or of autograd that start meanwhile are
  // matched too.
  bool same_thread = false;
};

inline constexpr size_t kMaxKernelRows = 2'000'000;

// One row of OperatorMFU. Times as in EventTable::ts.
struct KernelMfu {
  int32_t rank = 0;
  Row kernel = kNoRow;  // of its rank
  std::string_view op_name, kernel_name;
  Nanos begin = 0, end = 0;
  double mfu = 0;  // ratio; the table prints four decimals
  double tflops = 0, peak_tflops = 0;
  int64_t flops = 0;
  std::string_view flops_op_name;  // of the record, or the formula's
  std::string_view input_shapes, output_shapes;
};

// One row of ModuleMFU.
struct ModuleMfu {
  int32_t rank = 0;
  std::string parent_module, module;
  std::string_view op_name;
  std::string kernel_list;
  Nanos total_kernel_ns = 0;
  double avg_kernel_ns = 0;
  int64_t op_count = 0;
  std::string avg_mfu;  // "150.0%,37.5%": by kernel position; "" = none
};

// All calls of one operator with the same sizes and types, over all ranks of one accelerator.
struct OperatorMfu {
  std::string op_name;
  std::string shapes, types;  // as recorded
  // What the product is paid in: "bf16"; "fp32|tf32" where the trace does not tell; "" = unknown.
  std::string precision;
  std::string formula;  // "mm"
  std::string source;   // "derived" from sizes, "recorded" by the framework
  // What a reader must know of the count: "causal, exact", "rows: an upper bound if padded".
  std::string convention;
  int64_t calls = 0;
  Nanos time_ns = 0;      // sum over calls of the union of their compute kernels' times
  double time_share = 0;  // of all compute kernel time
  std::optional<double> flops_low, flops_high;  // sums over calls; equal where exact
  std::optional<double> tflops;                 // by flops_low
  std::optional<double> peak_tflops;            // the larger one where there are two
  std::string peak_source;
  std::optional<double> mfu_low, mfu_high;  // equal where exact
  std::optional<double> main_kernel_mfu;    // by the longest kernel of each call alone
  std::string main_kernel;
  // What the tiles of the main kernel's name execute beyond the useful product
  // (efficiency/gemm/tiles.h): executed/useful - 1.
  std::optional<double> tile_overhead;
  bool tile_overhead_exact = false;
  std::optional<double> executed_mfu;  // mfu_low x (1 + tile_overhead): what OFU should come to
  std::optional<double> ofu;           // over the same intervals, pooled over calls
  int64_t ofu_samples = 0;             // fewer than kFewSamples: a rough figure
  std::optional<double> adjusted_ofu;  // OFU / (1 + tile_overhead) (OFU paper, equation 8)
  // With mfu_low > 1 formula, peak or link is wrong. (Convolutions, which are counted as direct
  // ones, can reach 4, what Winograd saves.)
  bool impossible = false;
  std::string not_computable;  // why there is no MFU; "" where there is one
};
inline constexpr int64_t kFewSamples = 10;

// Kernels whose FLOPs are not counted, by kernel, operator and reason.
struct UncountedKernel {
  std::string kernel_name, op_name;
  int64_t count = 0;
  Nanos time_ns = 0;
  double time_share = 0;  // of all compute kernel time
  std::string reason;     // "no rule: not a matrix product", "sizes were not recorded", ...
  bool product = false;   // of an operator that multiplies and whose FLOPs could not be counted
  std::optional<double> ofu;
  int64_t ofu_samples = 0;
};

// One rank's totals.
struct RankOps {
  int32_t rank = 0;
  int32_t device = -1;
  std::string gpu, peak_source;
  std::optional<double> peak_tflops;  // of the precision that most FLOPs are in
  std::string precision;
  Nanos compute_ns = 0, counted_ns = 0;  // sums of compute kernels' times, of those with FLOPs
  std::optional<double> coverage;        // counted / compute; nullopt without compute
  double flops_low = 0, flops_high = 0;
  // Peak seconds that the FLOPs need / seconds: each operator at the peak of its own precision.
  std::optional<double> mfu_compute;  // over the union of compute kernels
  std::optional<double> mfu_span;     // from the first GPU work to the last
  std::optional<double> ofu;          // of the compute kernels, where the trace has GPU metrics
  int64_t ofu_samples = 0;
  std::string modules_from;  // what modules were taken from; "" = the trace has none
};

struct OpsReport {
  std::vector<KernelMfu> kernels;  // by rank, then as msprof-analyze orders them
  std::vector<ModuleMfu> modules;
  std::vector<OperatorMfu> operators;      // by time, longest first
  std::vector<UncountedKernel> uncounted;  // by time, longest first
  std::vector<RankOps> ranks;
  std::vector<std::string> notes;  // what was missing, guessed or limited, in sentences
  std::deque<std::string> texts;   // shapes without blanks, which the rows point into
  Nanos compute_ns = 0, counted_ns = 0;
  std::optional<double> coverage;
};

// InvalidArgument for options that cannot be; NotFound for a GPU or ranks that are not there;
// FailedPrecondition where no rank has GPU work.
StatusOr<OpsReport> AnalyseOperators(const TraceSet& set, const OpsOptions& options);

// The tables; the first two with the column names of msprof-analyze. max_rows 0 = all.
Table KernelMfuTable(const OpsReport& report, size_t max_rows = 0);
// The table has no column avg_mfu where no row has one, as in msprof-analyze.
Table ModuleMfuTable(const OpsReport& report, size_t max_rows = 0);
Table OperatorTable(const OpsReport& report, size_t max_rows = 0);
Table UncountedTable(const OpsReport& report, size_t max_rows = 0);
Table CoverageTable(const OpsReport& report);

}  // namespace flopwatch::trace
