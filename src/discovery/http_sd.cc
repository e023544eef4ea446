// Prometheus' http_sd: the list of groups in JSON, from a server that is asked again and again.
#include <fmt/format.h>

#include <stop_token>
#include <utility>

#include "base/text.h"
#include "discovery/target_source.h"
#include "net/http.h"

namespace flopwatch::discovery {
namespace {

class HttpSd final : public TargetSource {
 public:
  HttpSd(const DiscoveryOptions& options, std::string url, std::stop_token stop)
      : TargetSource(fmt::format("http_sd {}", url)),
        options_(options),
        url_(std::move(url)),
        stop_(std::move(stop)) {}
  bool quick() const override { return false; }

  Micros Look(bool) override {
    auto targets = Ask();
    if (targets.ok()) {
      targets_ = *std::move(targets);
      health_.targets = targets_.size();
      health_.error.clear();
      health_.last_refresh = Now();
    } else {
      health_.error = Printable(std::string(targets.status().message()), 400);
      Failed(health_.error);
    }
    return options_.http_refresh;
  }

  void Collect(std::vector<ScrapeTarget>* out) const override {
    out->insert(out->end(), targets_.begin(), targets_.end());
  }

 private:
  StatusOr<std::vector<ScrapeTarget>> Ask() const {
    net::FetchOptions fetch;
    fetch.timeout = options_.http_timeout;
    fetch.max_body_bytes = options_.max_bytes;
    fetch.stop = stop_;
    fetch.tls = options_.tls;
    fetch.headers = {
        {"Accept", "application/json"},
        {"X-Prometheus-Refresh-Interval-Seconds",
         fmt::format("{:g}", static_cast<double>(options_.http_refresh) / kMicrosPerSecond)}};
    FW_ASSIGN_OR_RETURN(const net::FetchResult answer, net::Fetch(url_, fetch));
    if (answer.status != 200)
      return Unavailable("HTTP status {} {}", answer.status, net::ReasonPhrase(answer.status));
    return ParseSdJson(answer.body, options_.max_targets);
  }

  const DiscoveryOptions options_;
  const std::string url_;
  const std::stop_token stop_;
  std::vector<ScrapeTarget> targets_;
};

}  // namespace

std::unique_ptr<TargetSource> HttpSdSource(const DiscoveryOptions& options, std::string url,
                                           std::stop_token stop) {
  return std::make_unique<HttpSd>(options, std::move(url), std::move(stop));
}

}  // namespace flopwatch::discovery
