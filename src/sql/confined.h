// The server's way: each query in a process of its own, on a copy of what is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "sql/runner.h"

namespace flopwatch::sql {

struct ConfinedOptions {
  // The program that calls RunSqlWorker(). Empty: queries are asked of the server's own store, in
  // its process, and nothing here holds.
  std::vector<std::string> program = {};
  std::string directory = {};  // for copies, in the file system of the data; emptied
  uint64_t memory_mb = 384;    // of one process
  int threads = 2;             // of one
  Micros timeout = 30 * kMicrosPerSecond;
  // Copies that take long are used so long; those that do not are made anew for each query.
  Micros oldest = kMicrosPerMinute;
};

// How many run at once is for who asks (net::ServerOptions::apart_workers).
StatusOr<std::unique_ptr<Runner>> Confined(store::Store* store, ConfinedOptions options);

}  // namespace flopwatch::sql
