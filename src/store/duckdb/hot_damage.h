// Hot files that bits were lost of. How many rows such a file should have is kept beside it, so
// that what is gone is known; what cannot be read is kept aside, and the store goes on without it.
//
//   hot/seg-NAME.duckdb.rows      what the last commit left in it: rows, and their first and last
//   time hot/seg-NAME.duckdb.lost      what is lost of it; deleted by whoever has seen to it
//   hot/seg-NAME.duckdb.damaged   the file, and its .wal.damaged, as found
//
// Threads: any, one a file at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/staged.h"

namespace flopwatch::store::duck {

struct LostRows {
  std::string path;  // of the hot file
  Extent rows;       // none where nobody knows how many there were
};

// Whether an error of the engine says that a file is not what was written, by its checksums.
bool SaysDamage(const Status& status);

// After each commit. Not synced: after a loss of power it may say less than there is.
void RecordRows(const std::string& path, const Extent& rows);
std::optional<Extent> RecordedRows(const std::string& path);

// Keeps the log as it is aside and cuts it where `damage`, an error of opening the file, says that
// it is damaged: what was committed before that is whole. False: the error does not say where.
bool CutLog(const std::string& path, const Status& damage);
// Moves the file and its log aside.
Status SetFileAside(const std::string& path);
// Notes what was lost, and says so in the log. What is noted of the file already is added to.
void RecordLoss(const LostRows& lost, std::string_view why);
// All that is noted in a directory.
std::vector<LostRows> RecordedLosses(const std::string& directory);
// Files that are gone, of which it is known that they had rows.
std::vector<LostRows> Vanished(const std::string& directory);

// Reads every value, so that the engine compares every checksum.
Status ReadAllOf(Connection* c, std::string_view alias);

// What is kept beside a hot file, gone with it.
void ForgetRows(const std::string& path);

}  // namespace flopwatch::store::duck
