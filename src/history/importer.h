// A fleet's past out of another system and into a store, window by window, through the same
// pipeline as scrapes take: afterwards every answer for that time is as if flopwatch had scraped
// it. Rows carry kBackfilled.
//
// Once: a row is of (GPU, time). What the store has already, raw or in rollups alone, is not added
// again (ingest/stored_time.h), so that an import may be killed and begun again, may overlap
// another, and may cover time that was scraped. Each window's rows are durable before the next is
// read. Nothing is deleted for its age meanwhile. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "hardware/accelerator.h"
#include "history/history.h"
#include "history/taker.h"
#include "store/store.h"

namespace flopwatch::history {

struct ImportProgress {
  store::Window all;
  Micros done = 0;   // until when
  double share = 0;  // of all; of a window that is read in parts, those that were
  uint64_t samples = 0, rows = 0;
};

struct ImportOptions {
  Access access;
  std::string way = "auto";
  store::Window window;
  // Each a part of what is asked. None: everything.
  std::vector<std::vector<telemetry::ReadMatcher>> matchers;
  // Requests at a time; a folder is read by one.
  int parallel = 1;
  // The fleet's exporters are read in at least so many parts (parts.h); a folder's are not. 1: in
  // parts only where there are too many series for windows of a useful length.
  int parts = 1;
  TakerOptions taking;
  std::function<void(const ImportProgress&)> progress;
};

// What there is, from the end of the window.
struct FirstLook {
  std::string way;
  std::vector<std::string> metrics;        // of GPUs, that are read
  std::vector<std::string> owner_metrics;  // that are read besides (owner_series.h)
  uint64_t other_metrics = 0;              // of neither kind
  store::Window looked_at;
  uint64_t samples = 0, rows = 0;  // of that time
  uint64_t gpus = 0, jobs = 0;
  std::map<std::string, uint64_t> models;          // GPUs of each
  std::map<std::string, uint64_t> not_computable;  // GPUs without OFU, by reason
  std::map<std::string, uint64_t> refused;         // lines, by reason
  double seconds = 0;                              // that the look took
  Unread unread;                                   // so far as it is known
};

struct ImportResult : Taken {
  std::string way;
  uint64_t metrics = 0;
  uint64_t requests = 0, bytes = 0;
  // Nothing was taken of this time. Reading it anew, from a whole copy, adds it.
  Unread unread;
};

StatusOr<FirstLook> LookAt(const ImportOptions& options, const hardware::Catalog& catalog);
// `open` gives the taker, which outlives the call, once it is known that there is something: a
// wrong URL leaves nothing behind.
using OpenTaker = absl::FunctionRef<StatusOr<Taker*>()>;
StatusOr<ImportResult> Import(const ImportOptions& options, OpenTaker open);
// Into a directory that no server has, made where there is none.
StatusOr<ImportResult> ImportInto(const store::Options& to, const ImportOptions& options,
                                  const hardware::Catalog& catalog);

}  // namespace flopwatch::history
