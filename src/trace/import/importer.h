// The interface of a trace format. A new format is one file here and one line in registry.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trace/event_table.h"
#include "trace/work_guard.h"

namespace flopwatch::trace {

struct ImportOptions {
  // Refused above these, with what to do, each file alone. A gzip bomb stops at text_bytes.
  uint64_t max_text_bytes = uint64_t{64} << 30;
  uint64_t max_events = 200'000'000;
  int threads = 2;  // that one import may use
  size_t block_bytes =
      4
      << 20;  // of text read and parsed at a time, where the format allows it; tests make it small
  // Called now and then with bytes read so far of this input's bytes; any thread.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Limits of all files together, and whether anyone still waits; null: neither.
  WorkGuard* guard = nullptr;
};

// One input of one format, which may hold several ranks (an Ascend folder, a multi-process Nsight
// export).
struct ImportInput {
  std::string path;  // file or folder
};

// Fills ranks with names interned in each rank's own pool; not sorted, not linked (Load() does).
struct ImportedRank {
  StringPool names;
  RankTrace trace;
};

struct Importer {
  std::string_view name;   // "kineto"
  std::string_view title;  // "PyTorch Kineto / Chrome trace JSON, plain or gzip"
  // Whether this input looks like the format: `prefix` is the first up to 64 KiB of a file,
  // decompressed when gzip; empty for a folder.
  bool (*accepts)(const std::string& path, bool is_folder, std::string_view prefix);
  // An error means that nothing of the input is usable (what, why, what to do). What was lost
  // otherwise is in RankTrace::losses.
  StatusOr<std::vector<ImportedRank>> (*import)(const ImportInput& input,
                                                const ImportOptions& options);
};

std::span<const Importer> Importers();

}  // namespace flopwatch::trace
