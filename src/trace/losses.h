// What was left out or repaired while reading, added up over files: no answer about a trace goes
// without it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "base/table.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

// A file that gave nothing; the others still load.
struct LoadFailure {
  std::string path;
  Status status;
};

struct LossLine {
  int32_t rank = 0;
  Loss loss;
};
struct FailedFile {
  std::string path, error;
};

struct LossReport {
  std::vector<LossLine> lines;  // by rank, as the importer counted them
  std::vector<FailedFile> failed;
  int64_t dropped = 0, repaired = 0;  // sums of lines
  // The answer is only a part: a file gave nothing, or events were left out.
  bool partial() const { return !failed.empty() || dropped > 0; }
};

LossReport LossesOf(const TraceSet& set, std::span<const LoadFailure> failures);

// Key "losses": {"dropped", "repaired", "by_reason": {reason: count}, "details": [...],
// "failed_files": [...]}.
void WriteLosses(JsonWriter& json, const LossReport& losses);
// One row a reason, over ranks; one a file that gave nothing.
Table LossTable(const LossReport& losses);
// One sentence for people, "" where nothing was lost.
std::string LossSentence(const LossReport& losses);

}  // namespace flopwatch::trace
