// What Slurm's commands wrote, read into one model: readers of each kind of text or JSON, chosen by
// content, in every release from 21.08 to 25. A new kind is one file and one line in registry.cc.
// Pure (no files, no clock); any thread.
//
// Everything is hostile: sizes are bounded, a record that cannot be read is counted under a named
// reason with its place, and the rest goes on. Text can be forged from a job's name (a newline in
// it begins a new line); what is ambiguous is refused, and JSON has no such hole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/json_read.h"
#include "base/status.h"
#include "jobs/hostlist.h"
#include "jobs/slurm/job_record.h"
#include "jobs/slurm/node_record.h"
#include "jobs/slurm/time_text.h"

namespace flopwatch::slurm {

// Named limits. A file above max_bytes is refused; above the others records are counted as refused.
struct ReadLimits {
  size_t max_bytes = kMaxJsonBytes;
  // Values of a JSON document, at most: a tree takes some forty times the bytes of "[[],[],[]…".
  size_t max_json_values = 16'000'000;
  size_t max_records = 1'000'000;
  size_t max_hosts = jobs::kMaxHosts;  // of one record
  size_t max_hosts_total = 4'000'000;  // of all records of a file
  size_t max_record_bytes = 1u << 20;  // of one text record, its continuation lines included
};

struct ReadOptions {
  std::optional<TimeZone> time_zone;  // of local times without one
  std::string cluster;                // for sources that do not say; "" = not known
  std::string node;                   // for a map file that does not say
  std::string delimiter;              // of sacct -P and sacctmgr -P; "" = recognised
  std::vector<std::string> fields;    // of a sacct text without a header: its --format
  ReadLimits limits;
};

// Why records, or parts of them, are not there: a stable name, how often, and the first few places
// with the reason in words.
struct LossCount {
  uint64_t count = 0;
  std::vector<std::string> examples;  // "line 12: …", at most kMaxLossExamples
};
inline constexpr size_t kMaxLossExamples = 5;
using LossCounts = std::map<std::string, LossCount, std::less<>>;
void CountLoss(std::string_view reason, std::string_view place, std::string_view why,
               LossCounts* counts);

// A prolog's note that a job has GPUs of a node; indices are device minor numbers.
struct GpuMapLine {
  int64_t job = 0;  // raw id
  std::string cluster, node;
  std::vector<int32_t> gpus;
  std::optional<Micros> at;  // when the prolog ran, where it says so
  std::string place;
};

// A record of a job in a text that users' names can forge, in the text's order; also one that was
// refused.
struct ListedJob {
  int64_t raw_id = 0;        // 0 = not readable
  std::optional<size_t> at;  // in Books::jobs; absent: it was refused
  std::string place;
};

struct Books {
  std::string kind;  // the reader's name
  std::vector<JobRecord> jobs;
  std::vector<NodeRecord> nodes;
  std::vector<NodeEvent> events;
  std::vector<GpuMapLine> gpu_map;
  std::vector<ListedJob> listed;  // of scontrol show job alone
  LossCounts refused;             // records that are not above
  LossCounts noted;               // records that are above, with something to know about them
  uint64_t steps_left_out = 0;    // lines of job steps, whose job has a line of its own
};

// `file_name` (with its folders) matters for GPU map files alone, whose name is the GPU's index.
// An error means that nothing of the file is usable: what, why, what to do.
StatusOr<Books> ReadBooks(std::string_view text, std::string_view file_name,
                          const ReadOptions& options);

// --- for readers ---

struct ReadInput {
  std::string_view text;  // without a byte order mark
  std::string_view file_name;
  Json json;  // where is_json
  bool is_json = false;
};

struct Reader {
  std::string_view name;   // "sacct text"
  std::string_view title;  // "sacct -P, with its header"
  bool (*recognises)(const ReadInput& input, const ReadOptions& options);
  Status (*read)(const ReadInput& input, const ReadOptions& options, Books* books);
};
absl::Span<const Reader> Readers();

}  // namespace flopwatch::slurm
