// Kineto's JSON, event by event, as PyTorch 2.6 writes it. Text goes out in pieces, counts stay.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::simulate {

struct TraceKernel {
  std::string_view name;
  int grid = 1056, block = 256, registers = 64,
      shared = 0;      // blocks (one axis), threads, a thread, bytes a block
  int occupancy = 60;  // per cent, estimated
};

class TraceEmitter {
 public:
  // Times are nanoseconds since the Unix epoch, written as decimal µs after `base`.
  TraceEmitter(int64_t base, const std::function<Status(std::string_view)>& write)
      : base_(base), write_(write) {}

  void Raw(std::string_view text) { buffer_ += text; }
  // `args` are the members of the args object, already JSON.
  void Complete(std::string_view category, std::string_view name, int64_t pid, int64_t tid,
                int64_t begin, int64_t end, std::string_view args);
  void Kernel(const TraceKernel& k, int device, int stream, int64_t begin, int64_t end,
              int64_t correlation, int64_t external_id, std::string_view more = {});
  void Copy(std::string_view kind, int device, int stream, int64_t begin, int64_t end,
            int64_t correlation, int64_t external_id, int64_t bytes);
  void Call(std::string_view name, int64_t pid, int64_t tid, int64_t begin, int64_t end,
            int64_t correlation, int64_t external_id, int cbid);
  // The arrow from a call to its work.
  void Arrow(int64_t correlation, int64_t pid, int64_t tid, int64_t at, int device, int stream,
             int64_t work);
  void Memory(int64_t pid, int64_t tid, int64_t at, int device, int64_t address, int64_t bytes,
              int64_t allocated, int64_t reserved);
  void Metadata(std::string_view what, int64_t pid, int64_t tid, std::string_view name);

  // Hands the text on; the first error stays.
  void Flush();
  void FlushIfLong() {
    if (buffer_.size() >= kPiece) Flush();
  }
  int64_t events() const { return events_; }  // complete ones
  const Status& status() const { return status_; }

 private:
  static constexpr size_t kPiece = 256 << 10;
  void Time(int64_t at);
  void Micros(int64_t nanos);
  void Separate();

  int64_t base_;
  const std::function<Status(std::string_view)>& write_;
  std::string buffer_;
  bool first_ = true;
  int64_t events_ = 0;
  Status status_;
};

}  // namespace flopwatch::simulate
