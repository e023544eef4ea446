// Bytes of files that others wrote, read piece by piece: never a whole one in memory, nothing
// beyond its end, and a disk that fails is an error (a mapped file would end the program). One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::history {

class ByteFile {
 public:
  virtual ~ByteFile() = default;
  virtual uint64_t size() const = 0;
  // The bytes [at, at + bytes) to `out`. DataLoss: it ends before, or the disk fails.
  virtual Status Read(uint64_t at, size_t bytes, char* out) const = 0;
};

// NotFound: there is none. Regular files only.
StatusOr<std::unique_ptr<ByteFile>> OpenByteFile(const std::string& path);

// What is in memory already, for tests and fuzzers.
class MemoryFile : public ByteFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t at, size_t bytes, char* out) const override;

 private:
  const std::string bytes_;
};

uint32_t BigEndian32(const char* bytes);
// Whether the four bytes at `stored` are this checksum. A fuzzer's build takes any: it is to reach
// what stands behind.
bool IsChecksum(uint32_t crc, const char* stored);
uint64_t BigEndian64(const char* bytes);

// Numbers as Go's encoding/binary has them, from bytes that are there. After a failure all reads
// give 0.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Uvarint();
  int64_t Varint();
  bool ok() const { return ok_; }
  size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// A part of a file from its first byte to its last, in pieces; the checksum (CRC-32C) of all of it
// stands behind it. After a failure all reads give nothing, and Finish() says what it was.
class SectionReader {
 public:
  // [at, at + length), which lies in the file.
  SectionReader(const ByteFile* file, uint64_t at, uint64_t length, size_t piece = 64 << 10);
  // What an index calls a section: its length (4 bytes), itself, its checksum.
  static StatusOr<SectionReader> Open(const ByteFile* file, uint64_t offset);

  uint8_t Byte();
  uint32_t Be32();
  uint64_t Uvarint();
  // Longer than `max_bytes`: a failure.
  std::string Text(uint64_t bytes, uint64_t max_bytes);
  void Skip(uint64_t bytes);
  void Fail(std::string_view why);

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  uint64_t length() const { return end_ - begin_; }
  // Of the next byte, in the file.
  uint64_t position() const { return next_ - (piece_.size() - at_); }
  uint64_t left() const { return end_ - position(); }
  // Reads what is left, and compares the checksum.
  Status Finish();

 private:
  bool Fill();

  const ByteFile* file_;
  uint64_t begin_, end_, next_;
  size_t piece_bytes_;
  std::string piece_;
  size_t at_ = 0;  // in piece_
  uint32_t crc_ = 0;
  Status status_;
};

}  // namespace flopwatch::history
