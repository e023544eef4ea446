#include "history/tsdb_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/text.h"

namespace flopwatch::history {
namespace {

Status Damaged(std::string_view why) {
  return absl::DataLossError(absl::string_view(why.data(), why.size()));
}

class DiskFile : public ByteFile {
 public:
  DiskFile(int fd, uint64_t size) : fd_(fd), size_(size) {}
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile() override { ::close(fd_); }

  uint64_t size() const override { return size_; }
  Status Read(uint64_t at, size_t bytes, char* out) const override {
    while (bytes > 0) {
      const ssize_t n = ::pread(fd_, out, bytes, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Damaged(fmt::format("cannot be read: {}", std::strerror(errno)));
      if (n == 0) return Damaged("it ends early");
      at += static_cast<uint64_t>(n);
      out += n;
      bytes -= static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const uint64_t size_;
};

}  // namespace

StatusOr<std::unique_ptr<ByteFile>> OpenByteFile(const std::string& path) {
  // Whatever stands there under this name: a pipe is not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return NotFound("it is not there");
  if (fd < 0) return Damaged(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Damaged("it is no file");
  }
  return std::make_unique<DiskFile>(fd, static_cast<uint64_t>(info.st_size));
}

Status MemoryFile::Read(uint64_t at, size_t bytes, char* out) const {
  if (at > bytes_.size() || bytes > bytes_.size() - at) return Damaged("it ends early");
  std::memcpy(out, bytes_.data() + at, bytes);
  return absl::OkStatus();
}

bool IsChecksum(uint32_t crc, const char* stored) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // libFuzzer's own name for such builds
  return true;
#else
  return BigEndian32(stored) == crc;
#endif
}

uint32_t BigEndian32(const char* bytes) {
  uint32_t value = 0;
  for (int k = 0; k < 4; ++k) value = value << 8 | static_cast<uint8_t>(bytes[k]);
  return value;
}

uint64_t BigEndian64(const char* bytes) {
  return uint64_t{BigEndian32(bytes)} << 32 | BigEndian32(bytes + 4);
}

uint64_t ByteReader::Uvarint() {
  uint64_t value = 0;
  for (unsigned shift = 0; ok_ && shift < 64; shift += 7) {
    if (at_ == bytes_.size()) break;
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

int64_t ByteReader::Varint() {
  const uint64_t raw = Uvarint();
  return static_cast<int64_t>(raw >> 1 ^ (~(raw & 1) + 1));
}

SectionReader::SectionReader(const ByteFile* file, uint64_t at, uint64_t length, size_t piece)
    : file_(file), begin_(at), end_(at + length), next_(at), piece_bytes_(piece) {}

StatusOr<SectionReader> SectionReader::Open(const ByteFile* file, uint64_t offset) {
  const uint64_t size = file->size();
  char head[4];
  if (size < 8 || offset > size - 8) return Damaged("a section begins beyond the end of the file");
  FW_RETURN_IF_ERROR(file->Read(offset, sizeof head, head));
  const uint64_t length = BigEndian32(head);
  if (length > size - 8 - offset) return Damaged("a section goes on beyond the end of the file");
  return SectionReader(file, offset + 4, length);
}

bool SectionReader::Fill() {
  if (!status_.ok()) return false;
  if (next_ == end_) {
    Fail("a section ends before what it holds");
    return false;
  }
  piece_.resize(std::min<uint64_t>(piece_bytes_, end_ - next_));
  at_ = 0;
  status_ = file_->Read(next_, piece_.size(), piece_.data());
  if (!status_.ok()) {
    piece_.clear();
    return false;
  }
  crc_ = Crc32c(piece_, crc_);
  next_ += piece_.size();
  return true;
}

void SectionReader::Fail(std::string_view why) {
  if (status_.ok()) status_ = Damaged(why);
  piece_.clear();
  at_ = 0;
}

uint8_t SectionReader::Byte() {
  if (at_ == piece_.size() && !Fill()) return 0;
  return static_cast<uint8_t>(piece_[at_++]);
}

uint32_t SectionReader::Be32() {
  uint32_t value = 0;
  for (int k = 0; k < 4; ++k) value = value << 8 | Byte();
  return value;
}

uint64_t SectionReader::Uvarint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    if (!ok() || (shift == 63 && byte > 1)) break;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  Fail("a number has more than 64 bits");
  return 0;
}

std::string SectionReader::Text(uint64_t bytes, uint64_t max_bytes) {
  if (bytes > left()) Fail("a text goes on beyond the end of its section");
  if (bytes > max_bytes) Fail(fmt::format("a name or value has {} bytes", bytes));
  std::string text;
  while (ok() && text.size() < bytes) {
    if (at_ == piece_.size() && !Fill()) break;
    const size_t n = std::min<uint64_t>(bytes - text.size(), piece_.size() - at_);
    text.append(piece_, at_, n);
    at_ += n;
  }
  return ok() ? text : std::string();
}

void SectionReader::Skip(uint64_t bytes) {
  if (bytes > left()) Fail("a text goes on beyond the end of its section");
  while (ok() && bytes > 0) {
    if (at_ == piece_.size() && !Fill()) break;
    const size_t n = std::min<uint64_t>(bytes, piece_.size() - at_);
    at_ += n;
    bytes -= n;
  }
}

Status SectionReader::Finish() {
  while (ok() && next_ < end_) Fill();
  FW_RETURN_IF_ERROR(status_);
  char crc[4];
  FW_RETURN_IF_ERROR(file_->Read(end_, sizeof crc, crc));
  if (!IsChecksum(crc_, crc)) Fail("a section's checksum is wrong");
  return status_;
}

}  // namespace flopwatch::history
