#include "discovery/discovery.h"

#include <algorithm>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "discovery/target_source.h"
#include "net/url.h"

namespace flopwatch::discovery {
namespace {

constexpr Micros kShortestWait = 10 * kMicrosPerMilli;

class DiscoveryImpl final : public Discovery {
 public:
  explicit DiscoveryImpl(OnTargets on_targets) : on_targets_(std::move(on_targets)) {}

  // Adds the sources and looks at those that answer at once.
  Status Add(const DiscoveryOptions& options) {
    {
      MutexLock lock(look_mutex_);
      FW_RETURN_IF_ERROR(AddSources(options));
    }
    Look(/*again=*/false, /*only_quick=*/true);
    {
      MutexLock lock(look_mutex_);
      for (const Entry& e : sources_) {
        const DiscoveryHealth& health = e.source->health();
        if (e.source->must_start() && !health.error.empty())
          return InvalidArgument("{}: {}", health.source, health.error);
      }
    }
    return absl::OkStatus();
  }

  void StartThread() {
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }

  ~DiscoveryImpl() override {
    stop_.request_stop();
    thread_.request_stop();
  }

  void Refresh() override { Look(/*again=*/true, /*only_quick=*/false); }

  void RefreshSoon() override {
    {
      MutexLock lock(wake_mutex_);
      again_ = true;
    }
    wake_.NotifyAll();
  }

  std::vector<DiscoveryHealth> Health() const override {
    MutexLock lock(health_mutex_);
    return health_;
  }

 private:
  struct Entry {
    std::unique_ptr<TargetSource> source;
    Micros next = 0;  // monotonic
  };

  Status AddSources(const DiscoveryOptions& options) FW_REQUIRES(look_mutex_) {
    const auto add = [this](std::unique_ptr<TargetSource> source)
                         FW_REQUIRES(look_mutex_) { sources_.push_back({std::move(source)}); };
    if (!options.any()) add(LocalSource(options.probe));
    if (!options.static_targets.empty()) {
      FW_ASSIGN_OR_RETURN(std::unique_ptr<TargetSource> source, StaticSource(options));
      add(std::move(source));
    }
    for (const std::string& path : options.target_files) add(TargetFileSource(options, path));
    for (const std::string& pattern : options.file_sd) add(FileSdSource(options, pattern));
    for (const std::string& url : options.http_sd) {
      // What no try later could mend.
      FW_RETURN_IF_ERROR(Annotate(net::ParseUrl(url).status(), "http_sd"));
      add(HttpSdSource(options, url, stop_.get_token()));
    }
    return absl::OkStatus();
  }

  void Run(std::stop_token stop) {
    bool again = false;
    while (!stop.stop_requested()) {
      const Micros wait = Look(again, /*only_quick=*/false) - MonotonicNow();
      MutexLock lock(wake_mutex_);
      wake_.WaitFor(wake_mutex_, stop, std::max(wait, kShortestWait),
                    [this]() FW_REQUIRES(wake_mutex_) { return again_; });
      again = std::exchange(again_, false);
    }
  }

  // Looks at the sources that are due (or at all, `again`), then hands over the list when it
  // changed. Returns when the next is due.
  Micros Look(bool again, bool only_quick) {
    MutexLock lock(look_mutex_);
    Micros next = MonotonicNow() + kMicrosPerMinute;
    for (Entry& e : sources_) {
      if (only_quick && !e.source->quick()) continue;
      if (again || MonotonicNow() >= e.next) {
        const Micros wait = e.source->Look(again);
        e.next = MonotonicNow() + wait;
      }
      next = std::min(next, e.next);
    }
    Publish();
    return next;
  }

  void Publish() FW_REQUIRES(look_mutex_) {
    std::vector<ScrapeTarget> all;
    std::vector<DiscoveryHealth> health;
    for (const Entry& e : sources_) {
      e.source->Collect(&all);
      health.push_back(e.source->health());
    }
    absl::flat_hash_set<std::string> urls;
    std::erase_if(all, [&](const ScrapeTarget& t) { return !urls.insert(t.url).second; });
    {
      MutexLock lock(health_mutex_);
      health_ = std::move(health);
    }
    const auto same = [](const ScrapeTarget& a, const ScrapeTarget& b) {
      return a.url == b.url && a.node == b.node && a.labels == b.labels;
    };
    if (published_ && std::equal(all.begin(), all.end(), last_.begin(), last_.end(), same)) return;
    published_ = true;
    last_ = all;
    on_targets_(std::move(all));
  }

  const OnTargets on_targets_;
  std::stop_source stop_;  // of requests that run
  Mutex wake_mutex_;
  CondVar wake_;
  bool again_ FW_GUARDED_BY(wake_mutex_) = false;
  Mutex look_mutex_ FW_ACQUIRED_BEFORE(health_mutex_);
  std::vector<Entry> sources_ FW_GUARDED_BY(look_mutex_);
  std::vector<ScrapeTarget> last_ FW_GUARDED_BY(look_mutex_);  // what was handed over
  bool published_ FW_GUARDED_BY(look_mutex_) = false;
  mutable Mutex health_mutex_;  // who only asks never waits for a look
  std::vector<DiscoveryHealth> health_ FW_GUARDED_BY(health_mutex_);
  std::jthread thread_;  // last: stops before what it uses goes
};

}  // namespace

StatusOr<std::unique_ptr<Discovery>> Discovery::Start(DiscoveryOptions options,
                                                      OnTargets on_targets) {
  auto discovery = std::make_unique<DiscoveryImpl>(std::move(on_targets));
  FW_RETURN_IF_ERROR(discovery->Add(options));
  discovery->StartThread();
  return discovery;
}

Status Discovery::Check(const DiscoveryOptions& options) {
  return DiscoveryImpl([](const std::vector<ScrapeTarget>&) {}).Add(options);
}

}  // namespace flopwatch::discovery
