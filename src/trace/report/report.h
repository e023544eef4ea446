// The report on a trace: one structure, made by one function, that the terminal, Markdown, HTML,
// JSON and the API only write down. No number of a report is computed anywhere else.
//
// Where time went, of one rank or one step, adds up to the whole: every nanosecond of the window is
// given to the first of compute, exposed communication, exposed memory, idle that was true
// (definitions: docs/traces.md; busy intervals of RankView). Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/table.h"
#include "hardware/accelerator.h"
#include "trace/analysis/analysis.h"
#include "trace/event_table.h"
#include "trace/findings/finding.h"
#include "trace/losses.h"

namespace flopwatch::trace {

// Shares of a window, in nanoseconds. All four add up to `window`.
struct TimeSplit {
  Nanos window = 0;
  Nanos compute = 0;
  Nanos exposed_communication = 0;  // communication that no compute hides
  Nanos exposed_memory = 0;         // copies and sets that neither hides
  Nanos idle = 0;                   // nothing ran on the GPU
  // Beside the sum, not part of it: communication in all, hidden or not, and the part of compute
  // during which a kernel ran that computes and communicates in one (KernelClass::kFused).
  Nanos communication = 0, fused = 0;

  std::optional<double> Share(Nanos part) const {
    return window > 0 ? std::optional<double>(static_cast<double>(part) / window) : std::nullopt;
  }
};

struct ReportRank {
  int32_t rank = 0;
  bool rank_known = false;
  std::string path, format, backend, device;
  int64_t events = 0, gpu_events = 0, kernels = 0;
  uint64_t file_bytes = 0, text_bytes = 0;
  int64_t steps = 0, complete_steps = 0;
  Nanos begin = 0, end = 0;       // of all events, from the origin of the report
  std::optional<TimeSplit> time;  // over the span of GPU work; absent without any
  Nanos gpu_begin = 0;            // of that span, from the origin
  // RankOps: MFU over the span and over compute kernels alone, share of compute time whose FLOPs
  // are counted, OFU by GPU metrics.
  std::optional<double> mfu_span, mfu_compute, flops_coverage, ofu;
  // The span of GPU work in kTimelineCells equal cells: shares of compute, exposed communication
  // and exposed memory in each.
  std::vector<std::array<float, 3>> timeline;
};
inline constexpr size_t kTimelineCells = 240;

struct ReportStep {
  int32_t rank = 0;
  int64_t number = 0;
  bool complete = true;
  Nanos begin = 0;  // from the origin of the report
  TimeSplit time;   // over the step's window
};

// Operators that multiply and whose FLOPs could not be counted, over all ranks: they count as
// nothing in MFU.
struct UncountedProducts {
  double share = 0;                // of the time of compute kernels
  std::vector<std::string> names;  // the longest three, with the reason
};

// Kernels whose class is a guess from words in their names (KernelKind::guessed), over all ranks.
struct GuessedKernels {
  double share = 0;                // of the time of all GPU work, durations added up
  std::vector<std::string> names;  // the longest three, with the class that was guessed
};

// A part that needs more than every trace has.
struct ReportTable {
  Table table;  // no rows where `missing` says why
  std::string missing;
};

struct TraceReport {
  std::string written;     // RFC 3339, given by the caller
  int64_t world_size = 0;  // 0 = not given
  std::vector<ReportRank> ranks;
  std::vector<ReportStep> steps;  // by rank and number, at most kMaxReportSteps
  int64_t steps_left_out = 0;
  TimeSplit total;  // sums over ranks
  GuessedKernels guessed;
  UncountedProducts uncounted_products;
  std::vector<std::string> parts_missing;  // sentences: a file that is cut, ranks that are not here
  // One clock: spans of the ranks lie over each other and the ends of their collectives agree, so
  // the picture may show them on one axis.
  bool aligned = false;
  std::vector<std::string> verdict;  // sentences, the most important first
  Findings findings;
  std::optional<int32_t> straggler;  // the rank that is waited for, where one is
  std::string straggler_sentence;    // "" where it is not computable
  ReportTable stragglers, operators, uncounted;
  std::string operator_note;  // what the operators' MFU rests on
  LossReport losses;
  Nanos origin = 0;  // absolute, what times above count from
};
inline constexpr size_t kMaxReportSteps = 2'000;

struct ReportOptions {
  int operators = 15;  // lines of the table
  std::string written;
  std::optional<double> peak_tflops;           // OpsOptions::peak_tflops, of every precision
  const hardware::Catalog* catalog = nullptr;  // OpsOptions::catalog
};

// `failures` of Load(). Runs what it needs of the analyses, the findings and the operator model.
TraceReport MakeTraceReport(const AnalysisInput& input, std::span<const LoadFailure> failures,
                            const ReportOptions& options = {});

// The shares of [begin, end) of a rank.
TimeSplit SplitOf(const RankView& view, Nanos begin, Nanos end);

std::string ReportJson(const TraceReport& report);
// One document: styles and pictures inside, no script, no outside request; light, dark and on
// paper.
std::string ReportHtml(const TraceReport& report);
std::string ReportMarkdown(const TraceReport& report);

// Tables of the report, as all writers show them.
Table RankTable(const TraceReport& report);
Table StepTable(const TraceReport& report);
// What each rank lost, and how much of it findings claim; no rows where nothing was looked at.
Table LedgerTable(const TraceReport& report);

// Columns whose names end in _us or _ns get their unit for people (numbers of the latter become
// microseconds); the name without it is the title.
Table ForPeople(Table table);
// The name of a kernel or a function as short as it can be told by: without the arguments in <> and
// (), and of what is left at most kBriefColumns.
inline constexpr int kBriefColumns = 48;
std::string BriefName(std::string_view name);
// A line of Finding::top, "ampere_sgemm_128x64_nn (312 times, 4.1 ms)", in its two parts; the
// figures begin with a blank, and may be absent.
struct TopLine {
  std::string_view name, figures;
};
TopLine ReadTop(std::string_view text);

// "12.3 ms", "840 µs", "1.20 s": three digits.
std::string HumanNanos(Nanos n);
// "resnet50 · 8 ranks of V100, 1 step"
std::string Headline(const TraceReport& report);
// "rank 7, step 10, 12.30 to 12.90 ms" of a finding, relative to the report's origin; "" where it
// names no place.
std::string WhereOf(const Finding& finding, Nanos origin);

// Key "findings" and "not_checked"; `origin` as TraceSet::origin().
void WriteFindings(JsonWriter& json, const Findings& findings, Nanos origin);

}  // namespace flopwatch::trace
