// A whole running server: options in, an address out. Composition alone: it makes the parts in the
// order in which they need each other, joins them, and takes them apart in the opposite order.
// Whoever starts it (the command `serve`, a test) decides about signals, words and colours.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alerts/service.h"
#include "base/status.h"
#include "base/time.h"
#include "discovery/discovery.h"
#include "discovery/slurm_books.h"
#include "fleet/prices/prices.h"
#include "hardware/accelerator.h"
#include "ingest/pipeline.h"
#include "net/http.h"
#include "net/scraper.h"
#include "sql/confined.h"
#include "store/store.h"
#include "uploads/traces.h"

namespace flopwatch::server {

struct ServerOptions {
  net::ServerOptions http;
  bool loopback_only = true;  // requests that name another address than loopback are refused
  std::vector<std::string> host_names;  // answered to besides addresses and this machine's names
  bool page = true;                     // the page besides the API and /metrics
  std::string version = "";
  store::Options store;
  net::ScraperOptions scraper;
  discovery::DiscoveryOptions targets;  // none named: exporters on this machine
  std::string jobs_file;                // "" = none
  Micros jobs_file_poll = 5 * kMicrosPerSecond;
  std::optional<discovery::SlurmOptions> slurm;        // absent: nobody asks it
  std::optional<uploads::TraceLibraryOptions> traces;  // absent: no uploads; catalog: below
  sql::ConfinedOptions sql;                            // directory: below
  std::optional<alerts::ServiceOptions> alerting;  // absent: no rules; state file and clock: below
  hardware::Catalog catalog = hardware::Catalog::Builtin();
  fleet::Prices prices;
  std::vector<jobs::NodeRecord> inventory;  // of the site's own list; empty = none
  std::function<Micros()> clock;            // of what is pushed, stored and answered; empty: Now()
};

// How it is going, in a few numbers.
struct Progress {
  size_t targets = 0, targets_up = 0;
  ingest::PipelineStats ingest;
  store::UsageSums fleet;  // of the last five minutes
};

struct Stopped {
  Status stored;
  bool all_ended = true;  // false: threads run on, and use what they were given
};

// Threads: Start() and Stop() from one thread, the rest from any.
class Server {
 public:
  // Errors that the user can correct: the directory, the address, a bad target or jobs file.
  static StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();  // as Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // Reads the lists of targets (on their own thread) and jobs again. The error is that of the jobs
  // file.
  Status Reload();
  // No request, no new target, no scrape; then what is queued is stored. The error is the store's:
  // what could not be stored is lost. A second call does nothing.
  Status Stop();
  // The same within `longest`, whatever still runs: answers get a part of it, then queries and the
  // analysis of a trace are interrupted. What does not end then is left behind, once everything
  // that was received is stored: the process must end without taking this apart (_exit).
  Stopped StopWithin(Micros longest);

  std::vector<discovery::DiscoveryHealth> TargetLists() const;
  // Waits until every list of targets has been asked for once, or `longest`.
  void WaitForFirstLists(Micros longest) const;
  size_t job_assignments() const;
  store::StoreStats StoreNow() const;
  Progress ProgressNow() const;

 private:
  struct Parts;
  struct Ending;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;  // null once stopped
  uint16_t port_ = 0;
};

}  // namespace flopwatch::server
