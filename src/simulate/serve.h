// The fleet's exporters on one port, as HTTP.
//
//   /node/NAME/metrics     exposition text of that host, chunked like Go's server
//   /applications/metrics  what the training jobs that are running say of themselves, as a gateway
//                          between them would have it; not with Pace::kStep
//   /targets               Prometheus http_sd JSON; /targets.txt one URL a line
//   /jobs.csv              who owned which GPU when (the static file of jobs/)
//   /truth                 what really happened, as JSON; ?from= and ?to= as flopwatch reads times
//   /                      this list
//
// A host that is down or whose exporter does not answer gives 503; after the last tick 410 Gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "simulate/fleet.h"

namespace flopwatch::simulate {

enum class Pace : uint8_t {
  kRealTime,     // the last collect tick at or before the wall clock; no timestamps in the text
  kAccelerated,  // simulated time runs `speed` times as fast from the start; explicit timestamps
  // Each GET of a host gives its next tick, whatever the time; explicit timestamps. Ticks at which
  // the host would not answer are passed over (the gap shows in the timestamps), so that a whole
  // day can be read as fast as the reader is.
  kStep,
};

struct ServeOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;
  int threads = 1;
  Pace pace = Pace::kRealTime;
  double speed = 1;
};

class FleetServer {
 public:
  // `fleet` outlives the server.
  static StatusOr<std::unique_ptr<FleetServer>> Start(const Fleet* fleet,
                                                      const ServeOptions& options);
  virtual ~FleetServer() = default;
  virtual uint16_t port() const = 0;
  virtual uint64_t scrapes() const = 0;
  // kStep: every host has given its last tick.
  virtual bool done() const = 0;
};

}  // namespace flopwatch::simulate
