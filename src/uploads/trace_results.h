// The answers about one uploaded trace: made once, kept as files beside it, collected from them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/accelerator.h"
#include "trace/work_guard.h"

namespace flopwatch::uploads {

inline constexpr uint64_t kMaxTraceAnswerBytes = 256ull << 20;

// Of one analysis, over all of its files.
struct TraceLimits {
  // Of each the columns, the links and what analyses keep take about 200 bytes of memory.
  uint64_t max_events = 8'000'000;
  uint64_t max_text_bytes = uint64_t{16} << 30;  // unpacked
  uint64_t max_names = 2'000'000;                // distinct
  uint64_t max_name_bytes = uint64_t{128} << 20;
  uint64_t max_memory_bytes = uint64_t{768} << 20;  // that the process may grow by meanwhile
};
trace::WorkGuard::Limits GuardLimits(const TraceLimits& limits);

struct TraceWork {
  std::vector<std::string> paths;
  std::string results;  // folder that is made anew
  TraceLimits limits;
  trace::WorkGuard* guard = nullptr;  // with GuardLimits(); ends the work from outside
  int threads = 1;
  std::string written;
  const hardware::Catalog* catalog = nullptr;  // nullptr = the built-in one
  // What it does now ("reading: 3 of 8 files"), at most ten times a second, from any thread.
  std::function<void(std::string_view)> progress;
};
struct TraceSummary {
  std::string headline = {}, verdict = {};
  std::string error = {};  // of a trace that could not be analysed; then there is nothing else
};

// Reads the files, runs everything, writes report.{json,html,md}, findings.json, info.json,
// analyses/ and analyses-hta/ (one file an analysis) and summary.json beside the final folder, then
// renames. A trace that cannot be read, or needs too much, leaves a summary with the error; work
// that was cancelled (its guard says so) leaves nothing.
StatusOr<TraceSummary> AnalyseTrace(const TraceWork& work);
// A summary that says why there is nothing else.
Status WriteTraceFailure(const TraceWork& work, const Status& why);
// What AnalyseTrace() left; NotFound where that is nothing, or what was written of other files.
StatusOr<TraceSummary> ReadTraceSummary(const std::string& results, size_t files);

// {"analyses": {NAME: ...}} from the files of AnalyseTrace().
StatusOr<std::string> CollectAnalyses(const std::string& results, std::string_view names, bool hta);

}  // namespace flopwatch::uploads
