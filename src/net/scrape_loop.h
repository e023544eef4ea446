// One thread of the scraper: an epoll loop that owns a share of the targets, their connections and
// their schedule.
//
// epoll itself and not Asio, because a kept connection stays registered for reading here, while
// Asio's async_wait rearms it for every scrape: 10 us of 32 at 1,250 scrapes a second
// (bench/scrape.cc). The parser is Beast's.
//
// Memory: a target that waits holds a socket and its request text. Parser, body and read buffers
// belong to the loop and are lent to the targets in flight. Time: at most a wake-up per tick for
// what is due; due targets lie in a heap, deadlines (the same timeout for all) in a queue that is
// sorted by itself.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "net/message_parser.h"
#include "net/resolver.h"
#include "net/scraper.h"
#include "net/tls.h"
#include "net/url.h"

namespace flopwatch::net {

// What is known of a target outside its loop.
class TargetRecord {
 public:
  TargetRecord(uint32_t index, ScrapeTarget info, StatusOr<Url> url, uint64_t hash)
      : index(index),
        hash(hash),
        url(std::move(url)),
        info_(std::make_shared<const ScrapeTarget>(std::move(info))) {}

  const uint32_t index;
  const uint64_t hash;      // of the URL: thread and phase
  const StatusOr<Url> url;  // an error makes every attempt fail with it

  // Shared: discovery replaces node and labels while a scrape uses the old ones.
  std::shared_ptr<const ScrapeTarget> info() const;
  void SetInfo(ScrapeTarget info);
  TargetHealth health() const;
  Micros answered_at() const {
    const MutexLock lock(mutex_);
    return health_.answered_at;
  }
  template <typename F>
  void UpdateHealth(F update) {
    const MutexLock lock(mutex_);
    update(&health_);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const ScrapeTarget> info_ FW_GUARDED_BY(mutex_);
  TargetHealth health_ FW_GUARDED_BY(mutex_);  // without `target`
};

// What the loops share.
struct ScrapeContext {
  ScraperOptions options;
  Scraper::OnBody on_body;
  std::function<void(uint32_t target, int thread)> on_removed;
  uint64_t connection_limit = 0;
  std::unique_ptr<TlsClientContext> tls;
  std::unique_ptr<Resolver> resolver;
  std::atomic<uint64_t> scrapes{0}, failures{0}, skipped{0}, body_bytes{0}, connects{0}, open{0},
      in_flight{0};
};

class ScrapeLoop {
 public:
  ScrapeLoop(int id, ScrapeContext* context);
  ~ScrapeLoop();
  Status Start();
  void Stop();  // joins; no callback runs after it

  // Add() and Remove() may be called from any thread.
  void Add(std::shared_ptr<TargetRecord> record);
  void Remove(uint32_t index);

 private:
  struct Target;
  struct Flight;
  struct Due {
    Micros at;
    uint32_t index;
    bool operator>(const Due& other) const { return at > other.at; }
  };
  struct Deadline {
    Micros at;
    uint32_t index;
    uint64_t attempt;
  };
  enum class Failure { kOther, kTimeout, kOversized, kAnswered };  // the last: the host, something

  void Post(std::function<void()> task);
  void Run(std::stop_token stop);
  void RunPosted();
  int WaitMillis() const;
  void OnTick();

  void Insert(std::shared_ptr<TargetRecord> record);
  void Erase(uint32_t index);
  Target* Find(uint32_t index);
  Target* Prefetch(uint64_t event);
  // The target while this attempt of it runs, else null.
  Target* FindAttempt(uint32_t index, uint64_t attempt);
  Micros NextTick(const Target& t, Micros after) const;

  void Begin(Target* t);
  void NewParser(Flight* f) const;
  void Connect(Target* t);
  void OnResolved(Target* t, const StatusOr<Addresses>& addresses);
  void TryAddress(Target* t);
  void OnConnectEnd(Target* t, int error);
  void SendRequest(Target* t);
  void OnEvent(Target* t, uint32_t events);
  void OnReadable(Target* t);
  // These are false when the connection is no longer in use (the attempt ended or began anew).
  bool Flush(Target* t);
  bool OnCipherText(Target* t, std::string_view bytes);
  bool OnBytes(Target* t, std::string_view bytes);
  void OnEnd(Target* t);
  void OnAnswer(Target* t);
  void Succeed(Target* t, std::string_view body, size_t bytes);  // as sent, or unpacked
  void Fail(Target* t, Failure kind, std::string_view why);
  void FailParse(Target* t, ErrorCode ec);
  void End(Target* t, bool keep_connection);
  void Watch(Target* t, uint32_t events);
  void CloseConnection(Target* t);

  std::unique_ptr<Flight> TakeFlight();
  void ReturnFlight(std::unique_ptr<Flight> flight);

  const int id_;
  ScrapeContext& context_;
  const Micros tick_;
  int epoll_ = -1, wake_ = -1;
  Micros last_tick_ = 0;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Target>> targets_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<std::pair<Target*, Micros>> starting_;  // what fell due in this tick, and when
  std::deque<Deadline> deadlines_;
  uint64_t next_attempt_ = 1;
  size_t in_flight_ = 0;  // attempts of this loop
  uint32_t next_connection_ = 1;
  uint64_t random_;
  std::vector<std::unique_ptr<Flight>> free_flights_;
  std::vector<char> scratch_;
  std::string unpacked_, plain_;  // of the answer being handed over; TLS records being read

  Mutex posted_mutex_;
  // Other threads post these for this one; the callers' lists bound them.
  std::vector<std::function<void()>> posted_ FW_GUARDED_BY(posted_mutex_);
  std::jthread thread_;  // last: stops before what it uses goes
};

}  // namespace flopwatch::net
