// Scrapes up to tens of thousands of HTTP targets on a fixed interval, each on its own phase, over
// kept connections.
//
// One slow, broken or hostile target costs only itself: connect and read timeouts, a body limit,
// exponential back-off with jitter, and health that can be read at any time. Bodies are handed over
// whole, decompressed, on the loop thread that owns the target; the callback must be quick.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "net/tls.h"

namespace flopwatch::net {

struct ScrapeTarget {
  std::string url;   // http(s)://host:port/path; the identity of the target
  std::string node;  // node name where the exporter does not say one; default: host of the URL
  std::vector<std::pair<std::string, std::string>> labels;  // from discovery, for the target list
};

enum class TargetState : uint8_t { kPending, kUp, kDown, kBackOff };
std::string_view TargetStateName(TargetState s);  // "pending", "up", "down", "back_off"

struct TargetHealth {
  ScrapeTarget target;
  TargetState state = TargetState::kPending;
  Micros last_scrape = 0;  // wall clock of the last attempt
  Micros last_success = 0;
  double last_duration_ms = 0;
  uint64_t last_bytes = 0;  // body after decompression
  // Attempts that ended, and of these the failed ones; timeouts and oversized answers are among the
  // failures. skipped = ticks of the interval on which nothing was attempted (back-off, or the
  // attempt before was still running).
  uint64_t scrapes = 0, failures = 0, timeouts = 0, oversized = 0, skipped = 0;
  uint32_t consecutive_failures = 0;
  std::string last_error;  // one printable line; "" when the last attempt worked
  // Error of the newest failed attempt; kept when later ones work, to be explained still.
  std::string last_failure;
  Micros last_failure_at = 0;
  // The newest failed attempt in which the host answered all the same: it refused the connection,
  // or said what is no exposition. 0 = none since the last attempt that worked.
  Micros answered_at = 0;
};

struct ScraperOptions {
  int threads = 1;
  // Down to 10 ms (accelerated simulations); attempts of one target never overlap.
  Micros interval = 10 * kMicrosPerSecond;
  Micros timeout =
      8 * kMicrosPerSecond;  // of one whole scrape; an attempt longer than the interval skips ticks
  uint64_t max_body_bytes = 16ull << 20;  // on the wire and after decompression
  uint64_t max_header_bytes = 16ull << 10;
  // From the third failure in a row on, the interval doubles up to this. Short, because a node that
  // is back should be seen soon: what back-off saves is small (a refused connection costs
  // microseconds).
  Micros max_backoff = kMicrosPerMinute;
  TlsFiles tls;  // for https targets
};

struct ScrapeResult {
  uint32_t target = 0;    // index of the target while it is listed; free ones are used again
  int thread = 0;         // loop thread: lets the callback use per-thread state
  Micros started = 0;     // wall clock when the request was sent: the time of the samples
  std::string_view body;  // its lines; perhaps with comments ("####") where chunks met
  const ScrapeTarget* info = nullptr;  // URL and node; valid during the callback
};

// Counts since the start, for /metrics.
struct ScraperStats {
  uint64_t targets = 0;
  uint64_t scrapes = 0, failures = 0, skipped = 0;
  uint64_t body_bytes = 0;  // after decompression
  uint64_t connects = 0;    // connections opened; far below scrapes when targets keep them
  uint64_t open_connections = 0, in_flight = 0;
  uint64_t connection_limit =
      0;  // file descriptors left for targets; above it connections are not kept
};

class Scraper {
 public:
  using OnBody = std::function<void(const ScrapeResult&)>;
  // A target left the list and no callback for it will follow: lets the caller drop per-target
  // state. Runs on the loop thread that owned it; Target() still knows it during this call.
  using OnRemoved = std::function<void(uint32_t target, int thread)>;

  // Raises the soft limit of open files to the hard one.
  static StatusOr<std::unique_ptr<Scraper>> Start(const ScraperOptions& options, OnBody on_body,
                                                  OnRemoved on_removed);
  virtual ~Scraper() = default;  // no callback runs after it returns
  // Replaces the list: known URLs keep their connection, index and health. Duplicate URLs are
  // scraped once. Warns when the limit of open files is below the number of targets.
  virtual void SetTargets(std::vector<ScrapeTarget> targets) = 0;
  virtual std::vector<TargetHealth> Health() const = 0;  // in the order of the list
  // Of targets whose attempts fail: TargetHealth::answered_at where that is known, by node.
  virtual std::vector<std::pair<std::string, Micros>> Answering() const = 0;
  virtual ScraperStats stats() const = 0;
  // Node name and URL of a target index; empty when gone.
  virtual ScrapeTarget Target(uint32_t target) const = 0;
};

}  // namespace flopwatch::net
