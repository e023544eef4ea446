// One query in a process of its own, on a copy of what is stored.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "sql/runner.h"

namespace flopwatch::sql {

struct WorkerLimits {
  uint64_t memory_mb = 0;  // of the whole process; the engine takes two thirds of it
  int threads = 2;
  Micros timeout = 0;           // of the query
  uint64_t max_bytes = 0;       // of text in the answer, about
  uint64_t max_json_bytes = 0;  // of the answer
};

// The question asked by `program`, which calls RunSqlWorker() with its standard input. Internal: it
// ended without an answer.
StatusOr<std::string> AskWorker(const std::vector<std::string>& program,
                                const std::string& directory, Micros as_of,
                                const Question& question, const WorkerLimits& limits,
                                std::stop_token stop);

// The other side: the answer on standard output and 0, or the code of a status and its message.
int RunSqlWorker(std::string_view job);

}  // namespace flopwatch::sql
