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
#ifndef FLOPWATCH_INGEST_JOINER_H_
#define FLOPWATCH_INGEST_JOINER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/time.h"
#include "ingest/pipeline.h"
#include "telemetry/metric_series.h"

namespace flopwatch::ingest {

// Names of the pipeline's sources that came by these protocols end so.
inline constexpr std::string_view kRemoteWriteSuffix = "/remote_write";
inline constexpr std::string_view kOtlpSuffix = "/otlp";

class ScrapeJoiner {
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
    // `source` names the exporter, `node` its host.
    void Add(std::string_view source, std::string_view node, const telemetry::MetricSeries& series);
    uint64_t points = 0;

   private:
    friend class ScrapeJoiner;
    std::map<std::pair<std::string, Micros>, std::string> texts_;
    std::map<std::string, std::string> nodes_;
    std::string series_;
  };
  void Add(Batch batch);
  void Flush();  // all of it, settled or not

 private:
  struct Body {
    std::string text;
    Micros touched = 0;  // monotonic
  };
  struct Source {
    std::string node;
    std::map<Micros, Body> bodies;
  };
  struct Ready {
    std::string source, node, text;
    Micros ts;
  };
  std::vector<Ready> Take(Micros touched_before, size_t keep_bytes);
  void Ingest(std::vector<Ready> ready);
  void Run(std::stop_token stop);

  Pipeline* const pipeline_;
  const Options options_;
  std::mutex ingest_mutex_;  // bodies of a source go on in order of time
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, Source> sources_;
  size_t bytes_ = 0;
  std::jthread thread_;
};

}  // namespace flopwatch::ingest

#endif  // FLOPWATCH_INGEST_JOINER_H_
