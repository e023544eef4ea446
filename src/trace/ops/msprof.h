// The rows of OperatorMFU and what ModuleMFU is built from, as msprof-analyze's operator_mfu gives
// them (Ascend/msprof-analyze, commit 8399c1cd of August 2026): its join of ranges, operators and
// kernels, and its order. Our own figures, which count every operator once, are in attribution.h
// and ops.cc. Internal to ops/. Pure.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "trace/event_table.h"
#include "trace/ops/attribution.h"
#include "trace/ops/ops.h"
#include "trace/ops/peaks.h"

namespace flopwatch::trace {

// A kernel under an operator; more than once where several operators or several records have it.
struct KernelEntry {
  Row op = kNoRow, kernel = kNoRow;
  double mfu = std::numeric_limits<double>::quiet_NaN();
  double peak = 0;  // FLOP/s
  int64_t flops = 0;
  std::string_view flops_name{};
  Row shapes = kNoRow;  // the kernel whose shapes are shown
};

// What a kernel is called in these tables: its function's name where the trace has it apart
// (Nsight), unless that says nothing (CUTLASS calls its kernels "Kernel2").
std::string_view KernelTitle(const StringPool& names, const RankTrace& rank, Row kernel);

// Ascend: the join of msprof-analyze, with its habits. Notes what was limited or guessed.
std::vector<KernelEntry> AscendEntries(const StringPool& names, const RankTrace& rank,
                                       const Peaks& peaks, const OpsOptions& options,
                                       std::vector<std::string>* notes);

// Other traces: every kernel under its innermost operator, by the operator's start and the
// kernel's; those of counted calls with the whole FLOPs of the call, at the larger peak where there
// are two. `peak_of` has the peak of each call, NaN without one.
std::vector<KernelEntry> DerivedEntries(const StringPool& names, const RankTrace& rank,
                                        const Attribution& attribution,
                                        const std::vector<double>& peak_of);

// What modules were taken from goes to `from`.
std::vector<ModuleMfu> Modules(const StringPool& names, const RankTrace& rank,
                               const std::vector<KernelEntry>& entries, std::string* from);

}  // namespace flopwatch::trace
