// One read-only query, and its answer as GET /api/v1/sql gives it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "store/store.h"

namespace flopwatch::sql {

struct Question {
  std::string_view text;
  uint64_t max_rows = 1000;
};

// How queries ended. kRefused: the query itself is wrong, or not allowed. kNoCopy: there was no
// copy to ask. kDied: its process did, without an answer.
enum class Outcome : uint8_t { kAnswered, kRefused, kMemory, kTime, kLeft, kNoCopy, kDied };
inline constexpr size_t kOutcomes = 7;
std::string_view OutcomeName(Outcome outcome);  // "answered", ...

struct RunnerStats {
  std::array<uint64_t, kOutcomes> queries{};
  uint64_t copies = 0;     // made
  double last_copy_s = 0;  // what the last one took
  int processes = 0;       // now
};

// Threads: any.
class Runner {
 public:
  virtual ~Runner() = default;
  // JSON (SqlResult of docs/openapi.json). InvalidArgument, PermissionDenied: the query.
  // ResourceExhausted: its memory. DeadlineExceeded: its time. Unavailable: not now. Cancelled:
  // `stop` was requested.
  virtual StatusOr<std::string> Run(const Question& question, std::stop_token stop) = 0;
  virtual RunnerStats stats() const { return {}; }
};

// Asks the store of this process, which is nobody else's; `stop` ends nothing.
std::unique_ptr<Runner> InProcess(store::Store* store);

}  // namespace flopwatch::sql
