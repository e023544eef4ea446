// The JSON API: every question the page, the terminal and scripts ask, answered by one router. A
// running server mounts it; a command without a server calls the same router on a store opened
// read-only (then there is no live state). Contract: docs/openapi.json, checked by a test. Each
// route is declared once, in the file of its subject (routes.h).
//
// Read-only but for pushes of samples and uploads of traces. Browsers: a request that changes
// something is refused when it comes from another origin; with `hosts` every request must
// name a loopback host, so that no web page can reach the API by DNS rebinding. Threads: all
// methods from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/host_names.h"
#include "api/route.h"
#include "fleet/prices/prices.h"
#include "hardware/accelerator.h"
#include "ingest/joiner.h"
#include "ingest/pipeline.h"
#include "net/http.h"
#include "net/scraper.h"
#include "store/store.h"

namespace flopwatch::uploads {
class TraceLibrary;
}
namespace flopwatch::discovery {
class SlurmBooks;
}
namespace flopwatch::alerts {
class Service;
}
namespace flopwatch::sql {
class Runner;
}

namespace flopwatch::api {

inline const fleet::Prices kNoPrices;

// What an Api is made of; read once, by its constructor, which gives each handler what it uses. All
// of it outlives the Api.
struct ApiSources {
  store::Store* store = nullptr;         // always there
  ingest::IngestSide* ingest = nullptr;  // null when offline
  // How long points of remote write and OTLP wait for the rest of their scrape; 0 = not at all.
  Micros join_settle = ingest::ScrapeJoiner::Options().settle;
  const net::Scraper* scraper = nullptr;  // null when offline or push-only
  const hardware::Catalog* catalog = &hardware::Catalog::Builtin();
  const fleet::Prices* prices = &kNoPrices;
  std::vector<jobs::NodeRecord> inventory;  // hosts by the site's own list
  std::function<Micros()> clock;  // empty: Now(), or the newest stored sample when offline
  uploads::TraceLibrary* traces = nullptr;  // null where there is no place for uploaded traces
  const discovery::SlurmBooks* scheduler = nullptr;  // null where nobody asks one
  alerts::Service* alert_service = nullptr;          // null offline, and where there are no rules
  sql::Runner* sql = nullptr;                        // null: `store` is asked, in this process
  std::string version;
  // The names that requests may give this server; absent: any.
  std::optional<HostNames> hosts;
  std::function<net::ServerStats()> http_stats;  // empty where no server listens
  // Embedded page: the file at a path, or nullopt. Empty = a plain page with links.
  std::function<std::optional<net::Response>(std::string_view path)> ui;
};

class Api {
 public:
  explicit Api(ApiSources sources);
  ~Api();

  // Answers at once, from memory, on an event loop; nullopt: the request is for OnWorker().
  std::optional<net::Response> AtOnce(const net::Request& request) const;
  // May read the store and take long.
  net::Response OnWorker(const net::Request& request) const;
  // Whether OnWorker() may run for half a minute: raw samples joined on demand.
  bool MayTakeLong(const net::Request& request) const;
  // Whether it is work of a size that whoever asks decides, apart from all else: SQL.
  bool RunsApart(const net::Request& request) const;
  // Does either, for callers that may wait.
  net::Response Handle(const net::Request& request) const;
  // Bodies of uploaded traces go to disk as they arrive. Valid as long as this object.
  net::Uploads Uploads() const;

  // The routes as declared, in the order of docs/openapi.json.
  const std::vector<Endpoint>& endpoints() const;
  // The declaration that a request falls under; null where none does.
  const Route* RouteOf(const net::Request& request) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The text is docs/openapi.json as it was when this was built.
std::string_view OpenApiDocument();

}  // namespace flopwatch::api
