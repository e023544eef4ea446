// Writes Parquet: a closed segment into the sealed tier, and the files of a closed day into fewer.
// Only writes under sealed/tmp; recording and installing is sealed_files.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/duckdb/connection.h"
#include "store/duckdb/rollup.h"
#include "store/duckdb/sealed_files.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {

class Sealer {
 public:
  // `max_values` = rows x columns sorted at once, which bounds memory: a larger table becomes
  // several files, each of a range of GPUs.
  Sealer(Connection* c, std::string directory, uint64_t max_values, std::atomic<int64_t>* next_id)
      : c_(c), directory_(std::move(directory)), max_values_(max_values), next_id_(next_id) {}

  // Everything a segment holds; it is fully rolled up.
  StatusOr<std::vector<SealedFile>> WriteSegment(const Segment& segment, const InputScales& scales);
  // The rollup rows of one day, from `inputs` of one table, merged by key.
  StatusOr<std::vector<SealedFile>> WriteDay(Rollup rollup, Micros day, const SealedFiles& inputs);
  // The raw rows of one day from `inputs` of one table, those of hours or of parts of them, sorted
  // by GPU and then time.
  StatusOr<std::vector<SealedFile>> WriteRawDay(Micros day, const SealedFiles& inputs);

 private:
  // Rows with from <= ts < to and, if min < max, min <= key < max: one file.
  struct Part {
    Micros from = 0, to = 0;
    int64_t min = 0, max = 0;
  };
  // What to write: rows of `source` (a FROM clause with ts and `key`), cut into one part for every
  // `step` of time, and more by aligned ranges of `key` where a step has over max_values_. `select`
  // goes before FROM and `order` after ORDER BY.
  struct Job {
    std::string_view table;
    std::string source, select, group, order;
    std::string_view key;  // "" = never cut
    Micros step;           // hour: folder day=/hour=; day: folder day=
    size_t columns;
    std::string tag;  // of file names
    bool merged;
    // A SELECT of step, key, rows of `source`, where something is cheaper than counting them.
    std::string sizes = "";
  };
  Status Run(const Job& job, std::vector<SealedFile>* files);
  StatusOr<std::vector<Part>> Cut(const Job& job);
  Status Write(const Job& job, const Part& part, std::vector<SealedFile>* files);
  StatusOr<std::vector<SealedFile>> WriteMerged(const Job& job, Micros day);
  Status WriteRaw(const Segment& segment, std::vector<SealedFile>* files);
  Status WriteRollups(const Segment& segment, const InputScales& scales,
                      std::vector<SealedFile>* files);
  static Job RawJob(std::string_view table, std::string source, size_t columns, std::string tag,
                    bool merged);
  Job RollupJob(Rollup rollup, std::string source, std::string tag, bool merged) const;
  Job GpuJob(Rollup rollup, const Segment& segment, const InputScales& scales) const;

  Connection* c_;
  const std::string directory_;
  const uint64_t max_values_;
  std::atomic<int64_t>* next_id_;
};

}  // namespace flopwatch::store::duck
