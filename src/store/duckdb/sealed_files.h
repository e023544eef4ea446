// The sealed tier: Parquet files under sealed/, which ones count, and how the set changes.
//
// meta.duckdb is the truth: a file counts once its row in meta.files is committed. Files are
// written to sealed/tmp, synced, recorded in one transaction (together with what they replace), and
// then renamed into place. So a crash leaves either a file in tmp that is not recorded (deleted at
// the next open) or a recorded one still in tmp (renamed at the next open). A file elsewhere under
// sealed/ that is not recorded is nobody's: it is left alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

struct SealedFile {
  int64_t id = 0;
  std::string table;    // "samples", "gpu_hour", ...
  std::string path;     // below the data directory
  bool merged = false;  // of a whole day; false = of one segment
  uint64_t rows = 0, bytes = 0;
  Micros min_ts = 0, max_ts = 0;           // of rows; of their minute or hour in rollups
  int32_t min_entity = 0, max_entity = 0;  // 0 where the table has no entity
  std::string columns;  // sorted names, comma between: files of one schema are read in one scan
  std::string hash;     // HashOfSealedFile(); "" = sealed before there were any
  // When it was last found to be as written; file_check.h. Shared by copies of this record.
  std::shared_ptr<std::atomic<Micros>> checked = std::make_shared<std::atomic<Micros>>(0);

  bool Overlaps(Micros from, Micros to) const { return min_ts < to && max_ts >= from; }
};
using SealedFiles = std::vector<std::shared_ptr<const SealedFile>>;

std::string TemporaryPath(const std::string& directory, const SealedFile& file);
// "read_parquet([...])" over files of one schema.
std::string ScanFiles(const std::string& directory, const SealedFiles& files,
                      std::string_view options = "");

// Change of the set in one transaction. `sealed_segment` = the hot segment whose rows `added`
// holds, or "".
Status RecordFiles(Connection* c, const std::vector<SealedFile>& added, const SealedFiles& removed,
                   const std::string& sealed_segment);
// Moves recorded files from tmp to their places and syncs the folders. May be repeated.
Status InstallFiles(Connection* c, const std::string& directory,
                    const std::vector<SealedFile>& files);
// Removes from tmp what was written and will not be recorded.
void DiscardFiles(const std::string& directory, const std::vector<SealedFile>& files);
// Deletes what `removed` or a sealed segment left, and their rows in meta.
Status DeleteFiles(Connection* c, const std::string& directory, const SealedFiles& removed);
Status DeleteSegment(Connection* c, const std::string& directory, const std::string& name);

struct LoadedFiles {
  SealedFiles files;
  std::vector<std::string> sealed_segments;  // their hot files are not to be read
  int64_t next_id = 1;
};
// Reads the catalogue and finishes or undoes what a crash interrupted. A recorded file that is
// missing is named in a warning and left out. With `read_only` only the renames are done.
StatusOr<LoadedFiles> LoadFiles(Connection* c, const std::string& directory, bool read_only);

}  // namespace flopwatch::store::duck
