// One place that names targets, of one kind. Discovery looks at its sources one after the other,
// never at two at once, and merges what they name. A new kind is a file with a function that makes
// it (below), and a line in Discovery's constructor.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "discovery/discovery.h"
#include "discovery/target.h"

namespace flopwatch::discovery {

class TargetSource {
 public:
  explicit TargetSource(std::string name) { health_.source = std::move(name); }
  virtual ~TargetSource() = default;
  // Looks whether the list has changed; a list that cannot be had leaves the last good one. `again`
  // looks also where nothing seems to have changed. Returns after how long to look next.
  virtual Micros Look(bool again) = 0;
  // Adds the last good list.
  virtual void Collect(std::vector<ScrapeTarget>* out) const = 0;
  // Whether the start waits for the first look: a server that does not answer must not hold it.
  virtual bool quick() const { return true; }
  // Whether an error of the first look is the caller's to correct, and stops the start.
  virtual bool must_start() const { return false; }
  const DiscoveryHealth& health() const { return health_; }

 protected:
  void Failed(const std::string& why) {
    ++health_.failures;
    if (must_start() && health_.last_refresh == 0) return;  // the start fails, which says so
    LogWarn("{}: {}; {}", health_.source, why,
            health_.targets > 0
                ? fmt::format("its last good list of {} targets is kept", health_.targets)
                : "it gives no targets");
  }
  DiscoveryHealth health_;
};

StatusOr<std::unique_ptr<TargetSource>> StaticSource(const DiscoveryOptions& options);
std::unique_ptr<TargetSource> TargetFileSource(const DiscoveryOptions& options, std::string path);
std::unique_ptr<TargetSource> FileSdSource(const DiscoveryOptions& options, std::string pattern);
// `stop` ends a request that runs.
std::unique_ptr<TargetSource> HttpSdSource(const DiscoveryOptions& options, std::string url,
                                           std::stop_token stop);
std::unique_ptr<TargetSource> LocalSource(const ProbeOptions& options);

}  // namespace flopwatch::discovery
