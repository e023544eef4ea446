// Points of remote write and OTLP, put back together into the scrapes they came from.
//
// A Prometheus that writes to us cuts one scrape of one exporter over several requests (its shards
// take series by hash). A GPU's tensor activity and clock of one moment must be in one row, so
// points wait here, by source and time, until nothing has come for that time for Options::settle;
// then they go through the pipeline as one body of text with timestamps. What decides about names,
// units, identities and jobs is therefore the same code as for scrapes.
//
// The request is answered when its points are in memory: a process that is killed loses what waits
// (Options::settle, and the flush after it). When more waits than max_bytes, the oldest is handed
// on before it has settled. Threads: Add() and Flush() from any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/time.h"
#include "ingest/origin.h"
#include "ingest/pipeline.h"
#include "telemetry/metric_series.h"

namespace flopwatch::ingest {

class ScrapeJoiner {
  struct Body {
    std::string text;
    Micros touched = 0;  // monotonic
  };
  struct Sender {
    std::string name, node;
    SourceKind kind = SourceKind::kRemoteWrite;
    std::string sender;  // Origin::sender of the first that sent for it
    std::map<Micros, Body> bodies;
    uint64_t points = 0;             // of a batch
    telemetry::PercentOrRatio unit;  // of a batch
    Origin origin() const { return {name, node, kind, sender}; }
  };
  using Senders = std::map<std::string, Sender>;  // by Origin::Text()

 public:
  struct Options {
    // A Prometheus sends what it has after at most five seconds (queue_config.batch_send_deadline).
    Micros settle = 6 * kMicrosPerSecond;
    size_t max_bytes = 256 << 20;
  };
  ScrapeJoiner(Pipeline* pipeline, Options options);
  ~ScrapeJoiner();  // hands on what waits

  // Points of one request, collected outside the lock.
  class Batch {
   public:
    // Exporters that one request may speak for; points of more are refused.
    static constexpr size_t kMaxOrigins = 16'384;
    void Add(const Origin& origin, const telemetry::MetricSeries& series);
    // A series whose exporter cannot be named: its points are refused, counted under the unnamed
    // one.
    void Refuse(SourceKind kind, NameFault fault, const telemetry::MetricSeries& series);
    uint64_t points = 0, refused = 0;

   private:
    friend class ScrapeJoiner;
    Senders senders_;
    std::string series_;
    std::map<std::pair<SourceKind, telemetry::Refusal>, uint64_t> unnamed_;
  };
  // Returns how many of the batch's points were refused, because whom they are of is not known and
  // may not be made known (Pipeline::Welcome()).
  uint64_t Add(Batch batch);
  void Flush();  // all of it, settled or not

 private:
  // Hands on the bodies not touched since, and the oldest of each sender while more than
  // `keep_bytes` wait.
  void HandOn(Micros touched_before, size_t keep_bytes) FW_REQUIRES(ingest_mutex_);
  void Run(std::stop_token stop);

  Pipeline* const pipeline_;
  const Options options_;
  Mutex mutex_;
  // Bodies of a source go on in order of time.
  Mutex ingest_mutex_ FW_ACQUIRED_BEFORE(mutex_);
  CondVar wake_;
  Senders senders_ FW_GUARDED_BY(mutex_);
  size_t bytes_ FW_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

}  // namespace flopwatch::ingest
