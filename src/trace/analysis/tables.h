// What every analysis writes its tables with: columns, absent cells, and the notes that say window,
// source and coverage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"
#include "trace/analysis/statistics.h"
#include "trace/columns.h"

namespace flopwatch::trace {

inline Column Plain(std::string_view name) { return {std::string(name), "", ColumnFormat::kPlain}; }
inline Cell TextCell(std::string_view text) { return std::string(text); }
inline Cell RankCell(const RankView& view) { return int64_t{view.rank().rank}; }

inline Cell DeviceCell(const GpuStream& stream) {
  return stream.device == kUnknown ? Cell{} : Cell{stream.device};
}
inline Cell StreamCell(int32_t stream) {
  return stream == kNoStream ? Cell{} : Cell{int64_t{stream}};
}

AnalysisTables OneTable(Table table);

// FailedPrecondition("not computable: <why>").
Status NotComputable(std::string_view why);
inline constexpr std::string_view kNoGpuWork =
    "no rank of this trace has GPU work (kernels, copies or fills)";
// Whether any rank has GPU work: HTA's in its mode.
bool AnyGpuWork(const AnalysisInput& input);
inline constexpr std::string_view kFewRanks = "it compares ranks, and fewer than two are loaded";
inline constexpr std::string_view kNoSteps =
    "the trace marks no steps (profiler.step() was not called, so there is no ProfilerStep#N)";
bool AnySteps(const AnalysisInput& input);
// The rank that options.rank asks for, else the first; nullptr where it is not loaded.
const RankView* AskedRank(const AnalysisInput& input);

// Rows that a table has at most: more comes only from a trace made to have it. What is beyond is
// left out, with a note.
inline constexpr size_t kMaxTableRows = 100'000;

// Appends the window, where the definition is written down, and how much of the trace the numbers
// stand on; cuts the table to kMaxTableRows.
void AddNotes(const AnalysisInput& input, std::string_view definition, Table* table);
// An analysis of one table, with AddNotes().
AnalysisTables OneTable(const AnalysisInput& input, std::string_view definition, Table table);
// Its last line: the ranks that have GPU work.
void AddCoverage(const AnalysisInput& input, size_t ranks, Table* table);

}  // namespace flopwatch::trace
