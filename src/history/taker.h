// What takes the series of a window in, durably, and once whatever was there before: a store of
// this process (store_taker.h), or a running server (server_taker.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/store.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {

// What became of a window.
struct Taken {
  uint64_t samples = 0, scrapes = 0, rows = 0;
  uint64_t known = 0;                       // rows that were there already
  uint64_t unnamed = 0;                     // series that no label says the exporter of
  std::map<std::string, uint64_t> refused;  // lines, by reason (telemetry::Refusal, IngestRefusal)
  std::vector<std::string> examples;        // a few of them

  void Add(const Taken& more);
};

// One thread.
class Taker {
 public:
  virtual ~Taker() = default;
  // Before the first window: besides those of its options.
  virtual void AddReplicaLabels(const std::vector<std::string>& labels) = 0;
  // Of the window that comes next, and of max_span before the first one.
  virtual void Add(const telemetry::MetricSeries& series) = 0;
  // How much was added, as a part of what is to be held at once. Above 1: Clear(), and a smaller
  // window.
  virtual double Fill() const = 0;
  // Forgets what was added since the last Take().
  virtual void Clear() = 0;
  // Takes what was added with window.from < time <= window.to; the rest tells what came before.
  // Windows come in order of time. `more`: the same window follows again with what other exporters
  // of other GPUs say; what was added of owners counts for these, too. On return of the last it is
  // durable.
  virtual StatusOr<Taken> Take(store::Window window, bool more) = 0;
  // No window follows. On return everything is as if it had been scraped.
  virtual Status End() = 0;
  // Whether there may be something already: windows are then within an hour, of which there are all
  // raw rows or none.
  virtual bool WithinHours() const = 0;
};

struct TakerOptions {
  // Who sends what is taken beside what is live (ingest::SenderOf()): what it makes known is on its
  // budget.
  std::string sender;
  std::vector<std::string> replica_labels;  // besides those that are usual (scrapes.h)
  // A longer gap of a GPU is unobserved time. Raised for servers that scrape more seldom.
  Micros max_span = 90 * kMicrosPerSecond;
};

}  // namespace flopwatch::history
