#include "net/scraper.h"

#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "net/open_files.h"
#include "net/scrape_loop.h"

namespace flopwatch::net {
namespace {

// Descriptors that the rest of the process needs: the store's files, the server's clients.
constexpr uint64_t kReservedDescriptors = 512;

// Stable over restarts, so that a target keeps its phase: FNV-1a, mixed as its high bits are weak.
uint64_t HashUrl(std::string_view url) {
  uint64_t h = 0xcbf29ce484222325;
  for (const unsigned char c : url) h = (h ^ c) * 0x100000001b3;
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93;
  return h ^ (h >> 32);
}

class ScraperImpl final : public Scraper {
 public:
  Status Init(const ScraperOptions& options, OnBody on_body, OnRemoved on_removed) {
    if (options.interval < 10 * kMicrosPerMilli || options.interval > kMicrosPerDay) {
      return InvalidArgument("scrape interval {} is not between 10ms and 1d",
                             FormatDuration(options.interval));
    }
    if (options.timeout <= 0) return InvalidArgument("the scrape timeout must be above zero");
    context_.options = options;
    context_.options.threads = std::clamp(options.threads, 1, 64);
    context_.on_body = std::move(on_body);
    context_.on_removed = [this, on_removed = std::move(on_removed)](uint32_t index, int thread) {
      if (on_removed) on_removed(index, thread);
      Release(index);
    };
    // Without files of its own the context waits for the first https target: reading the system's
    // roots takes a while.
    if (!options.tls.empty()) {
      FW_ASSIGN_OR_RETURN(context_.tls, TlsClientContext::Create(options.tls));
    }
    context_.resolver = std::make_unique<Resolver>();
    open_files_ = RaiseOpenFiles();
    context_.connection_limit = open_files_ > 2 * kReservedDescriptors
                                    ? open_files_ - kReservedDescriptors
                                    : open_files_ / 2;
    for (int i = 0; i < context_.options.threads; ++i)
      loops_.push_back(std::make_unique<ScrapeLoop>(i, &context_));
    for (auto& loop : loops_) FW_RETURN_IF_ERROR(loop->Start());
    return absl::OkStatus();
  }

  ~ScraperImpl() override {
    for (auto& loop : loops_) loop->Stop();
    context_.resolver.reset();  // its callbacks post to the loops, which are still there
  }

  void SetTargets(std::vector<ScrapeTarget> targets) override {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<TargetRecord>> list;
    absl::flat_hash_map<std::string, std::shared_ptr<TargetRecord>> by_key;
    for (ScrapeTarget& target : targets) {
      StatusOr<Url> url = ParseUrl(target.url);
      // The same place written in two ways is one target.
      const std::string key = url.ok() ? absl::StrCat(url->tls ? "https://" : "http://",
                                                      LowerCase(url->HostPort()), url->target)
                                       : target.url;
      if (by_key.contains(key)) continue;
      if (url.ok() && url->tls && !context_.tls) {
        auto tls = TlsClientContext::Create({});
        if (tls.ok()) {
          // The loops see it without a lock: they learn of the target later, by a post.
          context_.tls = *std::move(tls);
        } else {
          url = tls.status();
        }
      }
      if (target.node.empty() && url.ok()) target.node = url->host;
      std::shared_ptr<TargetRecord> record;
      if (const auto known = by_key_.find(key); known != by_key_.end()) {
        record = known->second;
        record->SetInfo(std::move(target));
      } else {
        record = std::make_shared<TargetRecord>(TakeIndex(), std::move(target), std::move(url),
                                                HashUrl(key));
        by_index_[record->index] = record;
        LoopOf(*record).Add(record);
      }
      by_key[key] = record;
      list.push_back(std::move(record));
    }
    for (const auto& [key, record] : by_key_)
      if (!by_key.contains(key)) LoopOf(*record).Remove(record->index);
    by_key_ = std::move(by_key);
    list_ = std::move(list);
    if (list_.size() > context_.connection_limit) {
      LogWarn(
          "{} targets, but only {} files may be open: connections above {} are opened anew for "
          "each scrape, which costs more; raise the limit (ulimit -n, LimitNOFILE=) to {} or more",
          list_.size(), open_files_, context_.connection_limit,
          list_.size() + 2 * kReservedDescriptors);
    }
  }

  std::vector<TargetHealth> Health() const override {
    std::vector<std::shared_ptr<TargetRecord>> list;
    {
      const MutexLock lock(mutex_);
      list = list_;
    }
    std::vector<TargetHealth> out;
    out.reserve(list.size());
    for (const auto& record : list) out.push_back(record->health());
    return out;
  }

  std::vector<std::pair<std::string, Micros>> Answering() const override {
    std::vector<std::shared_ptr<TargetRecord>> list;
    {
      const MutexLock lock(mutex_);
      list = list_;
    }
    std::vector<std::pair<std::string, Micros>> out;
    for (const auto& record : list)
      if (const Micros at = record->answered_at(); at != 0)
        out.emplace_back(record->info()->node, at);
    return out;
  }

  ScraperStats stats() const override {
    ScraperStats s;
    {
      const MutexLock lock(mutex_);
      s.targets = list_.size();
    }
    s.scrapes = context_.scrapes.load();
    s.failures = context_.failures.load();
    s.skipped = context_.skipped.load();
    s.body_bytes = context_.body_bytes.load();
    s.connects = context_.connects.load();
    s.open_connections = context_.open.load();
    s.in_flight = context_.in_flight.load();
    s.connection_limit = context_.connection_limit;
    return s;
  }

  ScrapeTarget Target(uint32_t index) const override {
    const MutexLock lock(mutex_);
    const auto it = by_index_.find(index);
    return it == by_index_.end() ? ScrapeTarget() : *it->second->info();
  }

 private:
  ScrapeLoop& LoopOf(const TargetRecord& record) { return *loops_[record.hash % loops_.size()]; }

  // The lowest free index: callers may keep tables by index.
  uint32_t TakeIndex() FW_REQUIRES(mutex_) {
    if (free_.empty()) return next_index_++;
    const uint32_t index = *free_.begin();
    free_.erase(free_.begin());
    return index;
  }
  void Release(uint32_t index) {
    const MutexLock lock(mutex_);
    by_index_.erase(index);
    free_.insert(index);
  }

  ScrapeContext context_;
  uint64_t open_files_ = 0;
  mutable Mutex mutex_;
  // Shared with the loops: a record is read by Health() while its loop removes the target.
  using Record = std::shared_ptr<TargetRecord>;
  std::vector<Record> list_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Record> by_key_ FW_GUARDED_BY(mutex_);
  // `by_index_` also has those being removed.
  absl::flat_hash_map<uint32_t, Record> by_index_ FW_GUARDED_BY(mutex_);
  std::set<uint32_t> free_ FW_GUARDED_BY(mutex_);
  uint32_t next_index_ FW_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<ScrapeLoop>> loops_;  // last: stops before what it uses goes
};

}  // namespace

std::string_view TargetStateName(TargetState s) {
  static constexpr std::string_view kNames[] = {"pending", "up", "down", "back_off"};
  return kNames[static_cast<size_t>(s)];
}

StatusOr<std::unique_ptr<Scraper>> Scraper::Start(const ScraperOptions& options, OnBody on_body,
                                                  OnRemoved on_removed) {
  auto scraper = std::make_unique<ScraperImpl>();
  FW_RETURN_IF_ERROR(scraper->Init(options, std::move(on_body), std::move(on_removed)));
  return scraper;
}

}  // namespace flopwatch::net
