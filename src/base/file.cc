#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace flopwatch {
namespace {

Status FromErrno(std::string_view what, const std::string& path, int error) {
  const auto code = [error] {
    switch (error) {
      case ENOENT:
      case ENOTDIR:
        return absl::StatusCode::kNotFound;
      case EACCES:
      case EPERM:
      case EROFS:
        return absl::StatusCode::kPermissionDenied;
      case ENOSPC:
      case EDQUOT:
        return absl::StatusCode::kResourceExhausted;
      default:
        return absl::StatusCode::kInternal;
    }
  }();
  return StatusOf(code, {fmt::format("{} {}", what, path), std::strerror(error), ""});
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return FromErrno("writing", path, errno);
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  const int fd = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FromErrno("cannot open", path, errno);
  std::string text;
  Status status;
  for (;;) {
    const size_t old = text.size();
    text.resize(old + (1 << 18));
    const ssize_t n = ::read(fd, text.data() + old, 1 << 18);
    if (n < 0 && errno == EINTR) {
      text.resize(old);
      continue;
    }
    text.resize(old + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n < 0) status = FromErrno("reading", path, errno);
    if (n <= 0) break;
    if (text.size() > max_bytes) {
      status = OutOfRange("{} is larger than {} bytes, the limit for this kind of file", path,
                          max_bytes);
      break;
    }
  }
  ::close(fd);
  if (!status.ok()) return status;
  return text;
}

Status WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FromErrno("cannot create", temporary, errno);
  Status status = WriteAll(fd, text, temporary);
  if (status.ok() && ::fsync(fd) != 0) status = FromErrno("fsync of", temporary, errno);
  ::close(fd);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = FromErrno("renaming to", path, errno);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FromErrno("cannot open", path, errno);
  const Status status = ::fsync(fd) == 0 ? absl::OkStatus() : FromErrno("fsync of", path, errno);
  ::close(fd);
  return status;
}

StatusOr<FileLock> FileLock::Acquire(const std::string& path, Mode mode) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 && mode == Mode::kShared) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FromErrno("cannot open lock file", path, errno);
  if (::flock(fd, (mode == Mode::kExclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    const int error = errno;
    char holder[64] = {};
    const ssize_t n = ::pread(fd, holder, sizeof holder - 1, 0);
    ::close(fd);
    if (error != EWOULDBLOCK) return FromErrno("locking", path, error);
    return FailedPrecondition("{} is held by another process{}", path,
                              n > 0 ? fmt::format(" (pid {})", std::atoi(holder)) : "");
  }
  if (mode == Mode::kExclusive) {
    const std::string pid = fmt::format("{}\n", ::getpid());
    // The pid is only for the other process's message; a failed write loses nothing.
    if (::ftruncate(fd, 0) == 0 && ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    }
  }
  return FileLock(fd);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Status CopyFile(const std::string& from, const std::string& to) {
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) return FromErrno("cannot open", from, errno);
  struct stat info = {};
  const int out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  Status status;
  if (out < 0 || ::fstat(in, &info) != 0) {
    status = FromErrno("cannot copy to", to, errno);
  } else if (::ioctl(out, FICLONE, in) != 0) {
    constexpr size_t kPiece = 8 << 20;
    for (auto left = static_cast<size_t>(info.st_size); left > 0 && status.ok();) {
      const ssize_t n = ::copy_file_range(in, nullptr, out, nullptr, std::min(left, kPiece), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) status = FromErrno("cannot copy to", to, errno);
      if (n <= 0) break;  // it has become shorter
      left -= static_cast<size_t>(n);
    }
  }
  if (out >= 0) {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    (void)::futimens(out, times);
    ::close(out);
  }
  ::close(in);
  return status;
}

StatusOr<uint64_t> FreeDiskBytes(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0)
    return FromErrno("asking the free space of", path, errno);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace flopwatch
