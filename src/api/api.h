// The JSON API: every question the page, the terminal and scripts ask, answered by one router. A
// running server mounts it; a command without a server calls the same router on a store opened
// read-only (then there is no live state). Contract: docs/openapi.json, checked by a test.
//
// Read-only but for pushes of samples and uploads of traces. Browsers: a request that changes
// something is refused when it comes from another origin; with loopback_only every request must
// name a loopback host, so that no web page can reach the API by DNS rebinding. Threads: Handle()
// from any thread.
#ifndef FLOPWATCH_API_API_H_
#define FLOPWATCH_API_API_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/accelerator.h"
#include "ingest/application.h"
#include "ingest/joiner.h"
#include "ingest/pipeline.h"
#include "net/http.h"
#include "net/scraper.h"
#include "store/store.h"

namespace flopwatch::uploads {
class TraceLibrary;
}

namespace flopwatch::api {

struct ApiParts {
  store::Store* store = nullptr;         // may be null only in tests
  ingest::IngestSide* ingest = nullptr;  // null when offline
  // How long points of remote write and OTLP wait for the rest of their scrape; 0 = not at all
  // (tests).
  Micros join_settle = ingest::ScrapeJoiner::Options().settle;
  net::Scraper* scraper = nullptr;  // null when offline or push-only
  const hardware::Catalog* catalog = nullptr;
  std::function<Micros()> clock;  // empty: Now(), or the newest stored sample when offline
  uploads::TraceLibrary* traces =
      nullptr;  // uploaded traces; null where there is no place for them
  std::string version;
  bool loopback_only =
      false;  // the server listens on loopback: refuse requests for any other host name
  // Embedded page: the file at a path, or nullopt. Empty = a plain page with links.
  std::function<std::optional<net::Response>(std::string_view path)> ui;
};

class Api {
 public:
  explicit Api(ApiParts parts);
  ~Api();
  net::Response Handle(const net::Request& request);
  // Whether a request may take longer than a few milliseconds (goes to the worker pool).
  bool IsSlow(const net::Request& request) const;
  // Bodies of uploaded traces go to disk as they arrive. Valid as long as this object.
  net::Uploads Uploads();
  // Route templates, for the OpenAPI test: "GET /api/v1/jobs/{job}".
  static std::vector<std::string> Routes();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// docs/openapi.json as it was when this was built.
std::string_view OpenApiDocument();

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_API_H_
