#include "net/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "base/mutex.h"
#include "base/text.h"

namespace flopwatch::net {
namespace {

StatusOr<Addresses> GetAddrInfo(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  // RFC 6761, 6.3: this name is the loopback address also where no hosts file says so.
  if (rc != 0 && absl::EqualsIgnoreCase(host, "localhost")) {
    return Addresses(
        {boost::asio::ip::address_v4::loopback(), boost::asio::ip::address_v6::loopback()});
  }
  if (rc != 0) {
    return Unavailable("cannot resolve '{}': {}; check the name and the name server",
                       Printable(host), gai_strerror(rc));
  }
  Addresses out;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    if (a->ai_family == AF_INET) {
      boost::asio::ip::address_v4::bytes_type bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr,
                  bytes.size());
      out.push_back(boost::asio::ip::address_v4(bytes));
    } else if (a->ai_family == AF_INET6) {
      const auto* in6 = reinterpret_cast<const sockaddr_in6*>(a->ai_addr);
      boost::asio::ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &in6->sin6_addr, bytes.size());
      out.push_back(boost::asio::ip::address_v6(bytes, in6->sin6_scope_id));
    }
  }
  freeaddrinfo(list);
  if (out.empty()) return Unavailable("'{}' has no IPv4 or IPv6 address", Printable(host));
  return out;
}

}  // namespace

struct Resolver::State {
  struct Entry {
    StatusOr<Addresses> answer = Unknown("");
    Micros expires = 0;  // 0 = never answered
    bool asked = false;  // queued or being looked up
    std::vector<Callback> waiting;
  };

  ResolverOptions options;  // constant once the threads run
  Mutex mutex;
  CondVar work, idle;
  bool stopping FW_GUARDED_BY(mutex) = false;
  int calling FW_GUARDED_BY(mutex) = 0;            // threads that run callbacks now
  std::vector<bool> looking FW_GUARDED_BY(mutex);  // by thread: within a lookup
  std::deque<std::string> queue FW_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string, Entry> cache FW_GUARDED_BY(mutex);

  void Run(size_t thread) {
    MutexLock lock(mutex);
    for (;;) {
      work.Wait(mutex, [this]() FW_REQUIRES(mutex) { return stopping || !queue.empty(); });
      if (stopping) return;
      const std::string host = std::move(queue.front());
      queue.pop_front();
      looking[thread] = true;
      lock.Unlock();
      StatusOr<Addresses> answer = options.lookup(host);
      lock.Lock();
      looking[thread] = false;
      if (stopping) return idle.NotifyAll();
      Entry& entry = cache[host];
      // A name that worked keeps its last address when the name server fails: the node is most
      // likely still there.
      if (answer.ok() || entry.expires == 0 || !entry.answer.ok()) entry.answer = answer;
      entry.expires = MonotonicNow() + (answer.ok() ? options.ttl : options.failure_ttl);
      entry.asked = false;
      const std::vector<Callback> waiting = std::exchange(entry.waiting, {});
      ++calling;
      lock.Unlock();
      for (const Callback& done : waiting) done(answer);
      lock.Lock();
      if (--calling == 0) idle.NotifyAll();
    }
  }
};

Resolver::Resolver(ResolverOptions options) : state_(std::make_shared<State>()) {
  state_->options = std::move(options);
  if (!state_->options.lookup) state_->options.lookup = GetAddrInfo;
  const auto threads = static_cast<size_t>(state_->options.threads);
  {
    const MutexLock lock(state_->mutex);
    state_->looking.resize(threads);
  }
  for (size_t i = 0; i < threads; ++i)
    threads_.emplace_back([state = state_, i] { state->Run(i); });
}

Resolver::~Resolver() {
  State& s = *state_;
  MutexLock lock(s.mutex);
  s.stopping = true;
  for (auto& [host, entry] : s.cache) entry.waiting.clear();
  s.work.NotifyAll();
  s.idle.Wait(s.mutex, [&s]() FW_REQUIRES(s.mutex) { return s.calling == 0; });
  s.idle.WaitFor(s.mutex, kPatience, [&s]() FW_REQUIRES(s.mutex) {
    return std::find(s.looking.begin(), s.looking.end(), true) == s.looking.end();
  });
  const std::vector<bool> hanging = s.looking;
  lock.Unlock();
  for (size_t i = 0; i < threads_.size(); ++i)
    hanging[i] ? threads_[i].detach() : threads_[i].join();
}

void Resolver::Resolve(const std::string& host, Callback done) {
  boost::system::error_code ec;
  if (const auto address = boost::asio::ip::make_address(host, ec); !ec)
    return done(Addresses{address});
  MutexLock lock(state_->mutex);
  if (state_->cache.size() > state_->options.max_cached)
    absl::erase_if(state_->cache, [](const auto& item) { return !item.second.asked; });
  State::Entry& entry = state_->cache[host];
  const bool known = entry.expires != 0;
  const bool fresh = known && MonotonicNow() < entry.expires;
  if (!fresh && !entry.asked) {
    if (state_->queue.size() >= state_->options.max_queued) {
      lock.Unlock();
      return done(ResourceExhausted("too many names wait for the name server"));
    }
    entry.asked = true;
    state_->queue.push_back(host);
    state_->work.NotifyOne();
  }
  if (fresh || (known && entry.answer.ok())) {
    const StatusOr<Addresses> answer = entry.answer;
    lock.Unlock();
    return done(answer);
  }
  entry.waiting.push_back(std::move(done));
}

StatusOr<Addresses> Resolver::ResolveUntil(const std::string& host, Micros deadline) {
  // Shared with the callback, which may come after the wait was given up.
  struct Wait {
    Mutex mutex;
    CondVar ready;
    std::optional<StatusOr<Addresses>> answer FW_GUARDED_BY(mutex);
  };
  const auto wait = std::make_shared<Wait>();
  Resolve(host, [wait](const StatusOr<Addresses>& answer) {
    const MutexLock lock(wait->mutex);
    wait->answer = answer;
    wait->ready.NotifyOne();
  });
  Wait& w = *wait;
  const MutexLock lock(w.mutex);
  if (!w.ready.WaitFor(w.mutex, deadline - MonotonicNow(),
                       [&w]() FW_REQUIRES(w.mutex) { return w.answer.has_value(); })) {
    return DeadlineExceeded("resolving '{}': no answer from the name server in time",
                            Printable(host));
  }
  return *w.answer;
}

Resolver& SharedResolver() {
  static Resolver* const resolver = new Resolver;  // never destroyed: its threads are detached
  return *resolver;
}

}  // namespace flopwatch::net
