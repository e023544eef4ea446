// Where a reading command gets its JSON: a running server over HTTP, or the same router on a store
// directory opened read-only in this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "store/store.h"

namespace flopwatch::cli {

class ApiClient {
 public:
  virtual ~ApiClient() = default;
  // `body` empty: GET, else POST of JSON. The path starts with "/api/".
  virtual StatusOr<std::string> Request(const std::string& path_and_query,
                                        const std::string& body) = 0;
  virtual std::string Source() const = 0;  // "http://127.0.0.1:9530", "the store in DIR"
  // The newest GPU sample of an offline store.
  virtual std::optional<Micros> newest() const { return std::nullopt; }
  virtual bool offline() const = 0;
};

// "head:9530", "http://head:9530/" -> "http://head:9530".
std::string ServerUrl(std::string_view server);
// The address a client on this machine uses for a listen address: 0.0.0.0 and [::] become loopback.
std::string ClientAddress(std::string_view listen);
// Whether a flopwatch server answers at `url` (one short request).
bool ServerAnswers(const std::string& url, Micros timeout);

std::unique_ptr<ApiClient> HttpClient(std::string url);

struct OfflineOptions {
  std::string directory;
  uint64_t memory_limit_mb = store::kDefaultMemoryMb;
  int threads = 2;
  std::string config_toml;  // for [[accelerator]] overrides; "" = none
  std::string inventory;    // the file of the site's own list of hosts; "" = none
};
StatusOr<std::unique_ptr<ApiClient>> OfflineClient(const OfflineOptions& options);

// An HTTP status with an API error body as a Status whose code gives the right exit code.
Status FromHttp(int http_status, std::string_view body, std::string_view what);

// The same error with the command in place of the API's own path that lists the jobs.
Status ForCommandLine(const Status& status);

// An error of the SQL engine has the query behind it, with a caret below: the first line says it,
// what follows is a hint.
std::string OneLine(std::string_view text);

}  // namespace flopwatch::cli
