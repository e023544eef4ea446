// The answers about one uploaded trace: made once, kept as files beside it, collected from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/accelerator.h"
#include "trace/work_guard.h"

namespace flopwatch::uploads {

inline constexpr uint64_t kMaxTraceAnswerBytes = 256ull << 20;

struct TraceWork {
  std::vector<std::string> paths;
  std::string results;                          // folder that is made anew
  uint64_t max_events = 0, max_text_bytes = 0;  // of one file
  trace::WorkGuard* guard = nullptr;            // of all files together; ends the work from outside
  int threads = 1;
  std::string written;
  const hardware::Catalog* catalog = nullptr;  // nullptr = the built-in one
};
struct TraceSummary {
  std::string headline, verdict;
};

// Reads the files, runs everything, writes report.{json,html,md}, findings.json, info.json,
// analyses/ and analyses-hta/ (one file an analysis) and summary.json beside the final folder, then
// renames. A trace that cannot be read leaves a summary with the error; work that was cancelled
// (its guard says so) leaves nothing.
StatusOr<TraceSummary> AnalyseTrace(const TraceWork& work);
// A summary that says why there is nothing else.
Status WriteTraceFailure(const TraceWork& work, const Status& why);

// {"analyses": {NAME: ...}} from the files of AnalyseTrace().
StatusOr<std::string> CollectAnalyses(const std::string& results, std::string_view names, bool hta);

}  // namespace flopwatch::uploads
