#include "store/duckdb/attach.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/meta_copy.h"

namespace flopwatch::store::duck {

namespace {

// A new file gets its name when it is whole: a process that is killed while the engine writes its
// headers would leave one that nobody can open.
Status MakeFile(Connection* connection, std::string_view alias, const std::string& path,
                std::string_view options) {
  const std::string unfinished = path + ".new";  // one that is left is of a process that was killed
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  std::filesystem::remove(unfinished + ".wal", ignored);
  // The log of a file that is gone fits no other; the engine drops it too where it makes a file.
  std::filesystem::remove(path + ".wal", ignored);
  FW_RETURN_IF_ERROR(connection->Execute(
      fmt::format("ATTACH {} AS {} ({})", QuoteText(unfinished), alias, options)));
  FW_RETURN_IF_ERROR(connection->Execute(fmt::format("DETACH {}", alias)));
  FW_RETURN_IF_ERROR(SyncPath(unfinished));
  if (std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return Unavailable("cannot name {}: {}", path, std::strerror(errno));
}

}  // namespace

Status AttachFile(Connection* connection, std::string_view alias, const std::string& path,
                  bool read_only) {
  // Storage version pinned: an older 1.4 of the library, and later ones, open the file. Row groups
  // keep the engine's size: with larger ones a reader, who is not told, would replay a large
  // transaction of the log into smaller ones and want to write them. Blocks of 128 KiB, half the
  // engine's: a column of a row group fills its last block better (1 % less on disk, 5 to 8 % less
  // CPU to append); at 32 KiB files grow by half (bench/store.cc). A file that exists keeps the
  // size it was made with, and is refused when another one is named.
  constexpr std::string_view kWritten = "STORAGE_VERSION 'v1.4.0'";
  Status status;
  if (!read_only && FileBytes(path) == 0)
    status = MakeFile(connection, alias, path, fmt::format("{}, BLOCK_SIZE 131072", kWritten));
  if (status.ok()) {
    status = connection->Execute(fmt::format("ATTACH {} AS {} ({})", QuoteText(path), alias,
                                             read_only ? "READ_ONLY" : kWritten));
  }
  if (status.ok() || absl::IsResourceExhausted(status))
    return Annotate(status, fmt::format("opening {}", path));
  const std::string message(status.message());
  if (Contains(message, "Could not set lock") || Contains(message, "Conflicting lock"))
    return FailedPrecondition("opening {}: another process has it open: {}", path, message);
  if (Contains(message, "newer version") || Contains(message, "version number")) {
    return FailedPrecondition(
        "opening {}: written by a database library this build cannot read ({}): upgrade flopwatch",
        path, message);
  }
  // Without its names a directory's rows would be taken for those of whoever comes next.
  if (alias == "meta") {
    return DataLoss(
        "opening {}: the file cannot be read ({}), which has the names of all that is "
        "stored: {}",
        path, message, WayBack(std::filesystem::path(path).parent_path().string()));
  }
  return DataLoss(
      "opening {}: the file cannot be read ({}): move it and its .wal out of the data "
      "directory to start without it, or restore it from a copy",
      path, message);
}

uint64_t FileBytes(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

Status CheckpointIfLarge(Connection* connection, std::string_view alias, const std::string& path,
                         uint64_t limit) {
  const uint64_t wal = WalBytes(path);
  if (wal <= limit) return absl::OkStatus();
  const StatusOr<uint64_t> free = FreeDiskBytes(path);
  if (free.ok() && *free < 2 * wal + kCheckpointReserveBytes) return absl::OkStatus();
  const Status status = connection->Execute(fmt::format("CHECKPOINT {}", alias));
  if (!status.ok() && connection->fault() != Fault::kFatal &&
      Contains(std::string(status.message()), "transaction")) {
    return absl::OkStatus();  // busy: the next append tries again
  }
  return Annotate(status, fmt::format("checkpoint of {}", path));
}

Status SyncPath(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  Status status;
  if (fd < 0 || ::fsync(fd) != 0) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    status = StatusOf(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      {"fsync of " + path, std::strerror(errno), ""});
  }
  if (fd >= 0) ::close(fd);
  return status;
}

}  // namespace flopwatch::store::duck
