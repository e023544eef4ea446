// What all of the work on one trace may take together, and whether anyone still waits for it.
// Readers ask at every piece of a file, analyses before each table; who asked for the work ends it
// from any thread, for good.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"

namespace flopwatch::trace {

// The limits hold over all files that are read together. Threads: any.
class WorkGuard {
 public:
  struct Limits {
    uint64_t text_bytes = std::numeric_limits<uint64_t>::max();  // read, after decompression
    uint64_t rows = std::numeric_limits<uint64_t>::max();        // events, counters, arrows
    uint64_t names = std::numeric_limits<uint64_t>::max();       // distinct, of each file
    uint64_t name_bytes = std::numeric_limits<uint64_t>::max();
  };

  WorkGuard() : WorkGuard(Limits()) {}
  explicit WorkGuard(const Limits& limits) : limits_(limits) {}

  // So much more was taken. What is over a limit ends the work; the answer is status().
  Status TakeText(uint64_t bytes) { return Take(bytes, &text_bytes_, limits_.text_bytes, kText); }
  Status TakeRows(uint64_t rows) { return Take(rows, &rows_, limits_.rows, kRows); }
  Status TakeNames(uint64_t names, uint64_t bytes) {
    FW_RETURN_IF_ERROR(Take(names, &names_, limits_.names, kNames));
    return Take(bytes, &name_bytes_, limits_.name_bytes, kNameBytes);
  }

  // The first reason stays.
  void End(Status why) FW_EXCLUDES(mutex_);
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Why the work ended; ok while it goes on.
  Status status() const FW_EXCLUDES(mutex_);

 private:
  static constexpr std::string_view kText = "bytes of text", kRows = "events",
                                    kNames = "distinct names",
                                    kNameBytes = "bytes of distinct names";

  Status Take(uint64_t more, std::atomic<uint64_t>* taken, uint64_t limit, std::string_view what)
      FW_EXCLUDES(mutex_);

  const Limits limits_;
  std::atomic<uint64_t> text_bytes_{0}, rows_{0}, names_{0}, name_bytes_{0};
  std::atomic<bool> ended_{false};
  mutable Mutex mutex_;
  Status why_ FW_GUARDED_BY(mutex_);
};

}  // namespace flopwatch::trace
