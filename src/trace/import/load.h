// Paths in, one TraceSet out: the only way traces are read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "trace/event_table.h"
#include "trace/import/importer.h"
#include "trace/losses.h"

namespace flopwatch::trace {

struct LoadProgress {
  size_t files = 0, files_done = 0;
  uint64_t bytes = 0, bytes_done = 0;  // as stored on disk
};

struct LoadOptions {
  ImportOptions import;
  int threads = 0;                  // 0 = the machine's cores
  std::vector<int32_t> only_ranks;  // empty = all
  bool rank_of_name =
      true;  // false: a file's name says nothing of its rank (HolisticTraceAnalysis then takes 0)
  // Bytes that the process may hold before the columns of ranks are put into a file without a name
  // (table_file.h); what a rank needs while it is read is beyond it.
  uint64_t resident = 1ull << 30;
  std::function<void(const LoadProgress&)> progress;  // at most ten times a second, from any thread
};

struct Loaded {
  TraceSet set;
  std::vector<LoadFailure> failures;
};

// Files, or folders searched for traces (*.json, *.json.gz, *.pt.trace.json(.gz), *.sqlite, Ascend
// *_ascend_pt folders; at most kMaxTraceFiles, sorted by name). Ranks load in parallel. The rank is
// the one the file names; where files do not say, or two say the same, the number in the file name
// ("rank3", "rank_3", "-3.json") or the order decides, and a loss says so. NotFound where nothing
// is there, InvalidArgument where nothing could be read (with the first reason).
StatusOr<Loaded> Load(const std::vector<std::string>& paths, const LoadOptions& options = {});

inline constexpr size_t kMaxTraceFiles = 20'000;

}  // namespace flopwatch::trace
