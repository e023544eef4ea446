#include "store/duckdb/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "store/duckdb/attach.h"

namespace flopwatch::store::duck {
namespace {

constexpr uint32_t kMagic = 0x324a5746;  // "FWJ2"
constexpr uint32_t kMagicOfOne =
    0x314a5746;  // "FWJ1", of schema version 6 and before: the next frame follows without a gap
constexpr uint32_t kFlush = 0, kCarried = 1;
constexpr std::string_view kPrefix = "journal-", kSuffix = ".log";
// Far above what a journal grows to (store.h): a file beyond it is not one of ours.
constexpr uint64_t kMaxFileBytes = 4ull << 30;

struct Header {
  uint32_t magic = kMagic;
  uint32_t kind = kFlush;
  uint64_t length = 0;
  uint64_t checksum = 0;
  int64_t arrival = 0;
};
static_assert(sizeof(Header) == 32);

// What a disk writes without the page cache: every one there is takes blocks of this size, from
// memory and to places that begin one.
constexpr size_t kBlock = 4096;
size_t Padded(size_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

uint64_t Checksum(int64_t arrival, std::string_view payload) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(), static_cast<uint64_t>(arrival));
}

Status Failed(std::string_view doing, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return StatusOf(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                  {fmt::format("{} {}", doing, path), std::strerror(error), ""});
}

}  // namespace

std::string JournalPath(const std::string& directory, uint64_t generation) {
  return fmt::format("{}/hot/{}{:010}{}", directory, kPrefix, generation, kSuffix);
}

std::string DamagedJournalPath(const std::string& directory, uint64_t generation) {
  return JournalPath(directory, generation) + ".damaged";
}

std::vector<uint64_t> FindJournals(const std::string& directory) {
  std::vector<uint64_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/hot", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    uint64_t generation = 0;
    const std::string digits =
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (absl::SimpleAtoi(digits, &generation)) found.push_back(generation);
  }
  std::sort(found.begin(), found.end());
  return found;
}

StatusOr<std::unique_ptr<Journal>> Journal::Create(const std::string& directory,
                                                   uint64_t generation) {
  auto journal = std::unique_ptr<Journal>(new Journal);
  journal->path_ = JournalPath(directory, generation);
  journal->generation_ = generation;
  constexpr int kHow = O_WRONLY | O_CREAT | O_CLOEXEC;
  journal->fd_ = ::open(journal->path_.c_str(), kHow | O_EXCL | O_DIRECT, 0644);
  // A file system that knows no O_DIRECT may have made the file before it said so.
  if (journal->fd_ < 0 && errno == EINVAL)
    journal->fd_ = ::open(journal->path_.c_str(), kHow | O_TRUNC, 0644);
  if (journal->fd_ < 0) return Failed("creating", journal->path_, errno);
  FW_RETURN_IF_ERROR(SyncPath(directory + "/hot"));
  return journal;
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Status Journal::Append(Micros arrival, std::string_view payload) {
  return Write(arrival, {}, payload, kFlush);
}

Status Journal::AppendCarried(Micros arrival, std::string_view payload, uint64_t from) {
  return Write(arrival, {reinterpret_cast<const char*>(&from), sizeof from}, payload, kCarried);
}

std::string_view Journal::Frame(Micros arrival, std::string_view first, std::string_view rest,
                                uint32_t kind) {
  Header header;
  header.kind = kind;
  header.length = first.size() + rest.size();
  header.arrival = arrival;
  const size_t size = Padded(sizeof header + header.length);
  if (size > capacity_) {
    capacity_ = Padded(size + size / 4);  // flushes are of about the same size
    buffer_.reset(static_cast<char*>(std::aligned_alloc(kBlock, capacity_)));
    if (buffer_ == nullptr) throw std::bad_alloc();
  }
  char* const payload = buffer_.get() + sizeof header;
  std::copy(first.begin(), first.end(), payload);
  std::copy(rest.begin(), rest.end(), payload + first.size());
  std::memset(payload + header.length, 0, size - sizeof header - header.length);
  header.checksum = Checksum(arrival, {payload, header.length});
  std::memcpy(buffer_.get(), &header, sizeof header);
  return {buffer_.get(), size};
}

Status Journal::Write(Micros arrival, std::string_view first, std::string_view rest,
                      uint32_t kind) {
  if (fd_ < 0) return Internal("{} cannot be written since an earlier error", path_);
  const std::string_view frame = Frame(arrival, first, rest, kind);
  int error = 0;
  for (std::string_view left = frame; !left.empty() && error == 0;) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n >= 0) {
      left.remove_prefix(static_cast<size_t>(n));
      // What is left after half a write need not begin where the disk wants it.
      if (!left.empty()) UseCache();
    } else if (errno == EINVAL && UseCache()) {  // this disk wants larger blocks
      continue;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fdatasync(fd_) != 0) error = errno;
  if (error == 0) {
    bytes_ += frame.size();
    return absl::OkStatus();
  }
  // Half a frame must not stand before the next one. After a failed fsync the pages may be gone
  // whatever is done: stop.
  if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0 ||
      ::lseek(fd_, static_cast<off_t>(bytes_), SEEK_SET) < 0 ||
      (error != ENOSPC && error != EDQUOT && error != EFBIG)) {
    ::close(fd_);
    fd_ = -1;
  }
  return Failed("writing", path_, error);
}

bool Journal::UseCache() {
  const int flags = ::fcntl(fd_, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 && ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) == 0;
}

namespace {

struct FoundFrame {
  Micros arrival = 0;
  std::string_view payload;
  uint64_t from = 0;
  size_t size = 0;  // with what fills its last block
};

// The whole frame that `rest` begins with.
std::optional<FoundFrame> FrameAt(std::string_view rest) {
  Header header;
  if (rest.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, rest.data(), sizeof header);
  if ((header.magic != kMagic && header.magic != kMagicOfOne) || header.kind > kCarried ||
      header.length > rest.size() - sizeof header)
    return std::nullopt;
  FoundFrame found{.arrival = header.arrival, .payload = rest.substr(sizeof header, header.length)};
  if (Checksum(header.arrival, found.payload) != header.checksum) return std::nullopt;
  if (header.kind == kCarried) {
    if (found.payload.size() < sizeof found.from) return std::nullopt;
    std::memcpy(&found.from, found.payload.data(), sizeof found.from);
    found.payload.remove_prefix(sizeof found.from);
  }
  const size_t size = sizeof header + header.length;
  found.size = header.magic == kMagic ? std::min(Padded(size), rest.size()) : size;
  return found;
}

}  // namespace

StatusOr<JournalGaps> ReadJournal(
    const std::string& path,
    absl::FunctionRef<Status(Micros arrival, std::string_view payload, uint64_t from)> frame) {
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  const std::string_view all = text;
  JournalGaps gaps;
  Micros before = 0;
  size_t end = 0;  // of the last whole frame
  for (size_t at = 0; at < all.size();) {
    const std::optional<FoundFrame> found = FrameAt(all.substr(at));
    if (!found.has_value()) {
      at = (at / kBlock + 1) * kBlock;  // where the next one may begin
      continue;
    }
    if (at > end) {
      if (gaps.damaged_bytes == 0) gaps.damaged_after = before;
      gaps.damaged_bytes += at - end;
      gaps.damaged_before = found->arrival;
    }
    FW_RETURN_IF_ERROR(frame(found->arrival, found->payload, found->from));
    before = found->arrival;
    end = at += found->size;
  }
  gaps.tail_bytes = all.size() - end;
  return gaps;
}

}  // namespace flopwatch::store::duck
