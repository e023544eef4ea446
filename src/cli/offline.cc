// The API without a server: its router on a store directory opened read-only.
#include <fmt/format.h>
#include <unistd.h>

#include "api/api.h"
#include "cli/api_client.h"
#include "cli/commands/site_catalog.h"
#include "hardware/accelerator.h"
#include "net/http.h"
#include "store/store.h"
#include "uploads/traces.h"

namespace flopwatch::cli {
namespace {

class Offline final : public ApiClient {
 public:
  Offline(std::unique_ptr<store::Store> store, hardware::Catalog catalog, fleet::Prices prices,
          std::vector<jobs::NodeRecord> inventory, std::string directory)
      : store_(std::move(store)),
        catalog_(std::move(catalog)),
        prices_(std::move(prices)),
        directory_(std::move(directory)) {
    if (const Micros newest = store_->stats().newest_ts; newest > 0) newest_ = newest;
    api::ApiSources parts;
    parts.store = store_.get();
    parts.catalog = &catalog_;
    parts.prices = &prices_;
    parts.inventory = std::move(inventory);
    // Windows such as "the last hour" end at the newest sample: a stored fleet has no other now.
    parts.clock = [now = Now()] { return now; };
    parts.version = FLOPWATCH_VERSION;
    // Lists what a server was given; a damaged folder of traces is no reason to refuse the fleet.
    if (auto traces =
            uploads::TraceLibrary::Open({.directory = directory_ + "/traces", .read_only = true});
        traces.ok())
      traces_ = *std::move(traces);
    parts.traces = traces_.get();
    api_ = std::make_unique<api::Api>(std::move(parts));
  }

  StatusOr<std::string> Request(const std::string& path_and_query,
                                const std::string& body) override {
    net::Request request;
    request.method = body.empty() ? "GET" : "POST";
    const size_t question = path_and_query.find('?');
    request.path = net::PercentDecode(path_and_query.substr(0, question));
    if (question != std::string::npos) {
      std::string_view rest = std::string_view(path_and_query).substr(question + 1);
      while (!rest.empty()) {
        const size_t end = std::min(rest.find('&'), rest.size());
        const std::string_view pair = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const size_t equals = std::min(pair.find('='), pair.size());
        request.query.emplace_back(
            net::PercentDecode(pair.substr(0, equals)),
            net::PercentDecode(pair.substr(std::min(equals + 1, pair.size()))));
      }
    }
    request.headers = {{"host", "localhost"}, {"content-type", "application/json"}};
    request.body = body;
    request.remote = "in-process";
    net::Response response = api_->Handle(request);
    if (response.status / 100 != 2) return FromHttp(response.status, response.body, Source());
    return response.static_body.empty() ? std::move(response.body)
                                        : std::string(response.static_body);
  }
  std::string Source() const override { return "the store in " + directory_; }
  Micros Now() const { return newest_.value_or(opened_); }
  std::optional<Micros> newest() const override { return newest_; }
  bool offline() const override { return true; }

 private:
  std::unique_ptr<store::Store> store_;
  hardware::Catalog catalog_;
  fleet::Prices prices_;
  std::string directory_;
  const Micros opened_ = flopwatch::Now();
  std::optional<Micros> newest_;
  std::unique_ptr<uploads::TraceLibrary> traces_;
  std::unique_ptr<api::Api> api_;  // last: it uses the others
};

}  // namespace

StatusOr<std::unique_ptr<ApiClient>> OfflineClient(const OfflineOptions& options) {
  if (access(options.directory.c_str(), F_OK) != 0) {
    return Unavailable(
        "there is no fleet to read: no server answers and the data directory {} does "
        "not exist; start one with \"flopwatch "
        "serve\", name a server with --server, or a data directory with --data-dir",
        options.directory);
  }
  store::Options store_options;
  store_options.directory = options.directory;
  store_options.read_only = true;
  store_options.memory_limit_mb = options.memory_limit_mb;
  store_options.threads = options.threads;
  hardware::Catalog catalog = hardware::Catalog::Builtin();
  fleet::Prices prices;
  if (!options.config_toml.empty()) {
    FW_ASSIGN_OR_RETURN(catalog, hardware::Catalog::WithOverrides(options.config_toml));
    auto parsed = fleet::Prices::Parse(options.config_toml, catalog);
    if (!parsed.ok()) return Annotate(parsed.status(), "cannot use the configuration file");
    prices = *std::move(parsed);
  }
  FW_ASSIGN_OR_RETURN(std::vector<jobs::NodeRecord> inventory, SiteInventory(options.inventory));
  auto store = store::OpenDuckDbStore(store_options);
  if (!store.ok()) {
    ErrorParts parts = PartsOf(store.status());
    parts.why = fmt::format("no server answers, and {}{}{}", parts.what,
                            parts.why.empty() ? "" : ": ", parts.why);
    parts.what = "cannot read the fleet";
    return StatusOf(absl::StatusCode::kUnavailable, parts);
  }
  return std::make_unique<Offline>(*std::move(store), std::move(catalog), std::move(prices),
                                   std::move(inventory), options.directory);
}

}  // namespace flopwatch::cli
