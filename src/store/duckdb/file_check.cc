#include "store/duckdb/file_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "store/duckdb/cat.h"

namespace flopwatch::store {

StatusOr<std::string> HashOfSealedFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NotFound("cannot open {}: {}", path, std::strerror(errno));
  std::vector<char> piece(1 << 20);
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  ssize_t n = 0;
  do {
    n = ::read(fd, piece.data(), piece.size());
    if (n > 0) XXH3_128bits_update(state, piece.data(), static_cast<size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR));
  const int error = errno;
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  ::close(fd);
  if (n < 0) return DataLoss("cannot read {}: {}", path, std::strerror(error));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace flopwatch::store

namespace flopwatch::store::duck {
namespace {

constexpr Micros kNever = 0, kDamaged = -1;  // of SealedFile::checked; else when, monotonic

// Said once.
void SetDamaged(const std::string& path, const SealedFile& file, std::string_view why) {
  if (file.checked->exchange(kDamaged, std::memory_order_relaxed) == kDamaged) return;
  LogError(
      "{}: {} ({} rows of {}, {} to {}); it is left out of every answer, and kept: copy it back "
      "from a backup, or see \"flopwatch doctor --verify\"",
      path, why, file.rows, file.table, FormatTime(file.min_ts), FormatTime(file.max_ts));
}

Micros CheckedAt(const SealedFile& file) { return file.checked->load(std::memory_order_relaxed); }

}  // namespace

bool IsKnownDamaged(const SealedFile& file) { return CheckedAt(file) == kDamaged; }

bool IsUnchecked(const SealedFile& file) {
  const Micros at = CheckedAt(file);
  return !file.hash.empty() && at != kDamaged &&
         (at == kNever || MonotonicNow() - at > kCheckAgain);
}

bool IsSound(const std::string& directory, const SealedFile& file) {
  if (IsKnownDamaged(file)) return false;
  if (!IsUnchecked(file)) return true;
  const std::string path = fmt::format("{}/{}", directory, file.path);
  const StatusOr<std::string> hash = HashOfSealedFile(path);
  if (hash.ok() && *hash == file.hash) {
    file.checked->store(MonotonicNow(), std::memory_order_relaxed);
    return true;
  }
  SetDamaged(path, file,
             hash.ok() ? "it is not what was written" : std::string(MessageOf(hash.status())));
  return false;
}

SealedFiles Unreadable(Connection* c, const std::string& directory, const SealedFiles& files) {
  SealedFiles unreadable;
  for (const auto& f : files) {
    const std::string path = fmt::format("{}/{}", directory, f->path);
    const Status opened =
        c->Execute(fmt::format("SELECT * FROM read_parquet({}) LIMIT 0", QuoteText(path)));
    if (opened.ok()) continue;
    SetDamaged(path, *f, fmt::format("it cannot be opened: {}", MessageOf(opened)));
    unreadable.push_back(f);
  }
  return unreadable;
}

}  // namespace flopwatch::store::duck
