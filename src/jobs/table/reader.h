// A site's own tables, read by a mapping (mapping.h) into what the books take (jobs/books.h). Pure
// (no files, no clock); one thread.
//
//   TableReader reader(mapping);
//   reader.Add(text, file_name);    // as many files as the table has
//   TableBooks books = reader.Finish();
//
// Attempts come out as they are told; one whose GPUs the table names in a way the job index knows
// is placed. A series of pools (or hosts) comes out as a node record for each time in which a
// pool's capacity did not change and an attempt for each time in which as much of it was lent, or
// asked for: neighbours that are equal are one record. What a row does not say is not invented: a
// gap between rows is in no record.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "jobs/slurm/read.h"
#include "jobs/table/mapping.h"
#include "jobs/table/rows.h"

namespace flopwatch::table {

struct TableCounts {
  uint64_t rows = 0;          // of all files
  uint64_t left_out = 0;      // by [where]
  uint64_t without_gpus = 0;  // attempts that held none
  uint64_t used = 0;          // rows that are in the records
  uint64_t refused = 0;
};

struct TableBooks {
  std::vector<jobs::AttemptRecord> attempts;
  std::vector<jobs::NodeRecord> pools;
  std::vector<jobs::StaticAssignment> assignments;  // of attempts that are placed
  TableCounts counts;
  slurm::LossCounts refused;  // rows that are in no record
  slurm::LossCounts noted;    // rows that are, with something to know about them
  Micros step = 0;            // of a series: what a row stands for (of several pools, the longest)
};

class TableReader {
 public:
  explicit TableReader(const Mapping& mapping, const RowLimits& limits = {});
  ~TableReader();

  // An error means that nothing of the file can be used: a column is missing, times have no zone.
  Status Add(std::string_view text, std::string_view file_name);
  StatusOr<TableBooks> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flopwatch::table
