// What HolisticTraceAnalysis 0.6 selects and how it names kinds of kernels, for the `hta` mode
// only. Times stay nanosecond integers: its rounding to whole microseconds, which makes durations
// negative, is not repeated (docs/traces.md, "Compatibility with HolisticTraceAnalysis", lists what
// is and what is not). Read in facebookresearch/HolisticTraceAnalysis, commit f4d0062, and checked
// against its outputs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"
#include "trace/analysis/statistics.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

enum class HtaKernelType : uint8_t { kComputation, kCommunication, kMemory, kOther };
inline constexpr HtaKernelType kHtaKernelTypes[] = {
    HtaKernelType::kComputation, HtaKernelType::kCommunication, HtaKernelType::kMemory};
std::string_view HtaKernelTypeName(HtaKernelType type);  // "COMPUTATION", ...
// The type goes by the name alone, as in HTA: a kernel with "Sync" or "dma" in its name is OTHER.
HtaKernelType HtaKernelTypeOf(std::string_view name);

// The calls that HTA counts as launches, in queues and on the critical path: CUDA's, HIP's, and
// that of MTIA.
inline constexpr std::string_view kHtaMtiaLaunch =
    "runFunction - job_prep_and_submit_for_execution";
inline constexpr std::string_view kHtaLaunches[] = {
    "cudaLaunchKernel", "cudaLaunchKernelExC",      "cuLaunchKernel",      "cuLaunchKernelEx",
    "cudaMemcpyAsync",  "cudaMemsetAsync",          "hipMemcpyAsync",      "hipMemsetAsync",
    "hipLaunchKernel",  "hipExtModuleLaunchKernel", "hipMemcpyWithStream", kHtaMtiaLaunch};

// Rows in the order of the table. With two or more ProfilerSteps in the set: CPU rows that start
// before the last step of the rank and GPU rows whose correlation one of those has; else all rows.
struct HtaRows {
  std::vector<Row> rows;
  std::vector<Row> gpu;                 // of these, those with a stream, whatever their category
  std::vector<HtaKernelType> gpu_type;  // of `gpu`, one each
};
HtaRows SelectHtaRows(const TraceSet& set, const RankTrace& rank);

// First start and last end of HTA's GPU rows; {0, 0} without any.
Interval HtaSpan(const EventTable& events, const HtaRows& rows);
// Merged intervals of HTA's GPU rows of one type.
IntervalSet HtaBusy(const EventTable& events, const HtaRows& rows, HtaKernelType type);
IntervalSet HtaBusy(const EventTable& events, const HtaRows& rows);  // of all of them

// HTA's table of names: one line a name, and above `most` names a line "others" that stands for the
// names of little time. Its maximum, minimum, mean and deviation then describe sums by name, not
// kernels: a defect, repeated here because the numbers are to be comparable.
struct HtaNameLine {
  std::string_view name;
  double sum = 0, max = 0, min = 0, std = 0, mean = 0;  // µs
};
std::vector<HtaNameLine> HtaNameLines(const StringPool& names, const NameTotals& totals,
                                      size_t most);

// Does pandas' round(): to `digits` decimals, halves to even.
double HtaRound(double value, int digits);
// Gives part / whole in per cent, rounded so; absent where the whole is nothing.
Cell HtaPercent(int64_t part, int64_t whole, int digits);

// AddNotes() (tables.h) for its mode: its window in place of ours.
void AddHtaNotes(const AnalysisInput& input, Table* table);

}  // namespace flopwatch::trace
