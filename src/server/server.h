// A whole running server: options in, an address out. Composition alone: it makes the parts in the
// order in which they need each other, joins them, and takes them apart in the opposite order.
// Whoever starts it (the command `serve`, a test) decides about signals, words and colours.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "discovery/discovery.h"
#include "hardware/accelerator.h"
#include "ingest/pipeline.h"
#include "net/http.h"
#include "net/scraper.h"
#include "store/store.h"
#include "uploads/traces.h"

namespace flopwatch::server {

struct ServerOptions {
  net::ServerOptions http;
  bool loopback_only = true;  // requests that name another host than this machine are refused
  bool page = true;           // the page besides the API and /metrics
  std::string version = "";
  store::Options store;
  net::ScraperOptions scraper;
  discovery::DiscoveryOptions targets;  // none named: exporters on this machine
  std::string jobs_file;                // "" = none
  Micros jobs_file_poll = 5 * kMicrosPerSecond;
  std::optional<uploads::TraceLibraryOptions>
      traces;  // absent: no uploads; its catalog is the one below
  hardware::Catalog catalog = hardware::Catalog::Builtin();
};

// How it is going, in a few numbers.
struct Progress {
  size_t targets = 0, targets_up = 0;
  ingest::PipelineStats ingest;
  store::UsageSums fleet;  // of the last five minutes
};

// Threads: Start() and Stop() from one thread, the rest from any.
class Server {
 public:
  // Errors that the user can correct: the directory, the address, a target or jobs file that cannot
  // be used.
  static StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();  // as Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // Reads the lists of targets and jobs again now. The error is that of the jobs file.
  Status Reload();
  // No request, no new target, no scrape; then what is queued is stored. The error is the store's:
  // what could not be stored is lost. A second call does nothing.
  Status Stop();

  std::vector<discovery::DiscoveryHealth> TargetLists() const;
  // Until every list of targets has been asked for once, or `longest`.
  void WaitForFirstLists(Micros longest) const;
  size_t job_assignments() const;
  store::StoreStats StoreNow() const;
  Progress ProgressNow() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;  // null once stopped
  uint16_t port_ = 0;
};

}  // namespace flopwatch::server
