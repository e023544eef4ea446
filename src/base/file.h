// Files, with bounds: nothing from outside is read without a size limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch {

// Reads a whole file; a larger one than `max_bytes` is an OutOfRange error. "-" reads standard
// input.
StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

// Writes beside the target, fsyncs, renames over it: a reader sees the old text or the new, never
// half.
Status WriteFileAtomically(const std::string& path, std::string_view text);

// Until it returns, a file that was made in or renamed into a folder may be gone after a crash of
// the machine.
Status SyncFolder(const std::string& path);

// Takes the exclusive (or shared) advisory lock on `path` (created if missing) for the life of the
// object. Fails at once when another process holds it; the message names that process.
class FileLock {
 public:
  enum class Mode { kShared, kExclusive };
  static StatusOr<FileLock> Acquire(const std::string& path, Mode mode);
  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Copies what the file has when this begins into a new one, with its time of change; where the file
// system can, the two share their blocks.
Status CopyFile(const std::string& from, const std::string& to);

// Bytes a non-root process may still write on the file system of `path`.
StatusOr<uint64_t> FreeDiskBytes(const std::string& path);

}  // namespace flopwatch
