// Database files attached to the in-memory instance: attaching with errors that name the file, and
// checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

// Free disk a checkpoint needs beside twice the log. With less the log just grows, until appends
// are refused.
inline constexpr uint64_t kCheckpointReserveBytes = 64ull << 20;

// Creates the file if it is not there (not with read_only), under another name until it is whole.
// Replays its log. Errors name the file and say what to try.
Status AttachFile(Connection* connection, std::string_view alias, const std::string& path,
                  bool read_only);

uint64_t FileBytes(const std::string& path);  // 0 where it does not exist
inline uint64_t WalBytes(const std::string& path) { return FileBytes(path + ".wal"); }

// Checkpoints when the log is over `limit` bytes and the disk has room. A write transaction of
// another connection on the same file puts it off. An error is fatal for the instance
// (Connection::fault()); nothing is lost by it.
Status CheckpointIfLarge(Connection* connection, std::string_view alias, const std::string& path,
                         uint64_t limit);

// Does fsync on a file or folder.
Status SyncPath(const std::string& path);

}  // namespace flopwatch::store::duck
