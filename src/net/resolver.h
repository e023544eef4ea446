// Host names to addresses, off the event loops: getaddrinfo blocks for seconds when a name server
// is gone, so a few threads of its own ask it, and answers (also failures) are cached. Numeric
// hosts are answered at once.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace flopwatch::net {

using Addresses = std::vector<boost::asio::ip::address>;

struct ResolverOptions {
  int threads = 4;
  size_t max_queued = 65'536;          // names waiting for an answer
  size_t max_cached = 65'536;          // the cache is emptied when it grows above this
  Micros ttl = 60 * kMicrosPerSecond;  // getaddrinfo tells no TTL
  Micros failure_ttl = 5 * kMicrosPerSecond;
  // Tests set `lookup`; empty = getaddrinfo.
  std::function<StatusOr<Addresses>(const std::string& host)> lookup;
};

class Resolver {
 public:
  using Callback = std::function<void(const StatusOr<Addresses>&)>;

  explicit Resolver(ResolverOptions options = {});
  // Waits for running callbacks and joins its threads, but not one whose lookup goes on for another
  // kPatience: that one's callbacks are dropped, and it ends by itself.
  ~Resolver();
  static constexpr Micros kPatience = 200 * kMicrosPerMilli;
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once: in this call for numeric hosts and fresh cache entries, else later on a
  // resolver thread. A stale answer is handed out at once while it is refreshed behind.
  void Resolve(const std::string& host, Callback done);
  // The same, waiting at most until `deadline` (MonotonicNow()).
  StatusOr<Addresses> ResolveUntil(const std::string& host, Micros deadline);

 private:
  struct State;
  // Shared with the lookup threads: one may hang in getaddrinfo after the resolver is gone.
  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

// Of all blocking clients: its threads outlive a call that gave up.
Resolver& SharedResolver();

}  // namespace flopwatch::net
