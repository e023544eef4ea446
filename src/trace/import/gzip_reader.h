// A file as a stream of decompressed bytes, plain or gzip (by its first bytes, never by its name).
// The only place of this room that sees zlib.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "trace/work_guard.h"

namespace flopwatch::trace {

// One thread.
class ByteReader {
 public:
  // `guard` (may be null, outlives the reader) is asked before each piece of the file.
  static StatusOr<std::unique_ptr<ByteReader>> Open(const std::string& path,
                                                    const WorkGuard* guard = nullptr);
  virtual ~ByteReader() = default;

  // Fills as much of `out` as there is; 0 = the end. DataLoss when the compressed stream is broken
  // or cut: what came before it was given.
  virtual StatusOr<size_t> Read(std::span<char> out) = 0;
  virtual uint64_t stored_bytes_read() const = 0;  // of the file on disk
  virtual uint64_t stored_bytes() const = 0;
};

// The first `max_bytes` of the decompressed text; less where the stream is shorter or broken.
StatusOr<std::string> ReadPrefix(const std::string& path, size_t max_bytes,
                                 const WorkGuard* guard = nullptr);

}  // namespace flopwatch::trace
