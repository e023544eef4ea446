#include "net/scrape_loop.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>

#include "base/prefetch.h"
#include "base/text.h"
#include "net/gzip.h"
#include "net/http.h"

namespace flopwatch::net {
namespace {

constexpr size_t kScratchBytes = 512 << 10;  // an answer that fits is parsed where it was read
constexpr size_t kMaxFreeFlights = 64;
constexpr size_t kMaxKeptCapacity = 1 << 20;  // a larger body buffer is given back after use
constexpr uint32_t kFailuresBeforeBackoff = 3;
constexpr int kMaxReadsAtOnce = 16;  // of one target, before the others get their turn
constexpr int kMaxEvents = 256;
// How long the loop lets pieces of answers gather, at most.
constexpr Micros kGather = 4'000;
constexpr uint64_t kWakeEvent = UINT64_MAX;

std::string ErrorText(int error) { return std::generic_category().message(error); }

uint64_t SplitMix(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

std::shared_ptr<const ScrapeTarget> TargetRecord::info() const {
  const MutexLock lock(mutex_);
  return info_;
}

void TargetRecord::SetInfo(ScrapeTarget info) {
  auto fresh = std::make_shared<const ScrapeTarget>(std::move(info));
  const MutexLock lock(mutex_);
  info_ = std::move(fresh);
}

TargetHealth TargetRecord::health() const {
  const MutexLock lock(mutex_);
  TargetHealth h = health_;
  h.target = *info_;
  return h;
}

// What an attempt needs and a waiting target does not.
struct ScrapeLoop::Flight {
  uint64_t attempt = 0;
  Micros started = 0, started_wall = 0;
  bool reused = false;  // on a kept connection, which the target may have closed meanwhile
  int interim = 0;
  const char* waiting_for = "";
  std::string out;  // not yet taken by the socket
  std::string rest, body;
  std::optional<ResponseParser> parser;
  Addresses addresses;
  size_t address = 0;
};

struct ScrapeLoop::Target {
  explicit Target(std::shared_ptr<TargetRecord> r) : record(std::move(r)) {}
  const std::shared_ptr<TargetRecord> record;  // shared with the list of the scraper
  std::string request;
  int fd = -1;
  bool connecting = false;
  uint32_t watched = 0;     // epoll events asked for
  uint32_t connection = 0;  // id of the one `fd` has: events of an earlier one are told apart by it
  std::unique_ptr<TlsClient> tls;
  std::unique_ptr<Flight> flight;  // null while waiting
  Micros phase = 0, due = 0;
  size_t address_hint =
      0;  // the address to try first: the one after the last that did not answer in time
  uint32_t failures = 0;  // in a row
};

ScrapeLoop::ScrapeLoop(int id, ScrapeContext* context)
    : id_(id),
      context_(*context),
      tick_(std::clamp<Micros>(context->options.interval / 50, 1'000, 20'000)),
      random_(static_cast<uint64_t>(id)),
      scratch_(kScratchBytes) {}

ScrapeLoop::~ScrapeLoop() {
  Stop();
  for (auto& [index, target] : targets_) CloseConnection(target.get());
  if (wake_ >= 0) close(wake_);
  if (epoll_ >= 0) close(epoll_);
}

Status ScrapeLoop::Start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeEvent;
  if (epoll_ < 0 || wake_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0)
    return Unavailable("starting a scrape loop: {}", ErrorText(errno));
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  return absl::OkStatus();
}

void ScrapeLoop::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  Post([] {});
  thread_.join();
}

void ScrapeLoop::Post(std::function<void()> task) {
  {
    const MutexLock lock(posted_mutex_);
    posted_.push_back(std::move(task));
    if (posted_.size() > 1) return;  // woken already
  }
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);  // full only when a wake-up is pending anyway
}

void ScrapeLoop::RunPosted() {
  uint64_t ignored;
  (void)!read(wake_, &ignored, sizeof ignored);
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(posted_mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void ScrapeLoop::Run(std::stop_token stop) {
  pthread_setname_np(pthread_self(), fmt::format("scrape-{}", id_).c_str());
  epoll_event events[kMaxEvents];
  while (!stop.stop_requested()) {
    const int n = epoll_wait(epoll_, events, kMaxEvents, WaitMillis());
    for (int i = 0; i < n; ++i) Prefetch(events[i].data.u64);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kWakeEvent) {
        RunPosted();
        continue;
      }
      Target* const t = Find(static_cast<uint32_t>(events[i].data.u64));
      if (t != nullptr && t->fd >= 0 && t->connection == events[i].data.u64 >> 32)
        OnEvent(t, events[i].events);
    }
    if (MonotonicNow() >= last_tick_ + tick_) OnTick();
    // A body of 200 KB comes in several pieces, and ticks send several requests: what arrives
    // within the next moment is taken in one go, which saves a tenth of a scrape's CPU in wake-ups.
    if (n < kMaxEvents && in_flight_ > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(kGather, tick_ / 5)));
  }
}

void ScrapeLoop::Add(std::shared_ptr<TargetRecord> record) {
  Post([this, record = std::move(record)] { Insert(record); });
}
void ScrapeLoop::Remove(uint32_t index) {
  Post([this, index] { Erase(index); });
}

void ScrapeLoop::Insert(std::shared_ptr<TargetRecord> record) {
  auto target = std::make_unique<Target>(std::move(record));
  Target& t = *target;
  if (t.record->url.ok()) {
    t.request = fmt::format(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: flopwatch/{}\r\n"
        "Accept: text/plain;version=0.0.4;q=1,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n"
        "X-Prometheus-Scrape-Timeout-Seconds: {:.3g}\r\n\r\n",
        t.record->url->target, t.record->url->authority, FLOPWATCH_VERSION,
        static_cast<double>(context_.options.timeout) / kMicrosPerSecond);
  }
  t.phase = static_cast<Micros>((t.record->hash >> 16) %
                                static_cast<uint64_t>(context_.options.interval));
  t.due = NextTick(t, MonotonicNow());
  due_.push({t.due, t.record->index});
  targets_[t.record->index] = std::move(target);
}

void ScrapeLoop::Erase(uint32_t index) {
  const auto it = targets_.find(index);
  if (it == targets_.end()) return;
  Target* const t = it->second.get();
  CloseConnection(t);
  if (t->flight) ReturnFlight(std::move(t->flight));
  targets_.erase(it);
  context_.on_removed(index, id_);
}

ScrapeLoop::Target* ScrapeLoop::Find(uint32_t index) {
  const auto it = targets_.find(index);
  return it == targets_.end() ? nullptr : it->second.get();
}

// Fetches the target that an event, or a time, names: any number will do, also one that is no
// target's.
ScrapeLoop::Target* ScrapeLoop::Prefetch(uint64_t event) {
  Target* const t = Find(static_cast<uint32_t>(event));
  if (t != nullptr) PrefetchToWrite(t, sizeof *t);
  return t;
}

ScrapeLoop::Target* ScrapeLoop::FindAttempt(uint32_t index, uint64_t attempt) {
  Target* const t = Find(index);
  return t != nullptr && t->flight && t->flight->attempt == attempt ? t : nullptr;
}

// ---- schedule

// The first tick of the target's own grid after `after`.
Micros ScrapeLoop::NextTick(const Target& t, Micros after) const {
  const Micros interval = context_.options.interval;
  return FloorTo(after - t.phase, interval) + t.phase + interval;
}

// The loop waits until the next thing to do, and at least until the tick is over: what falls due
// within a tick starts together.
int ScrapeLoop::WaitMillis() const {
  Micros next = INT64_MAX;
  if (!due_.empty()) next = due_.top().at;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.front().at);
  if (next == INT64_MAX) return -1;
  const Micros wait = std::max(next, last_tick_ + tick_) - MonotonicNow();
  return static_cast<int>(
      std::clamp<Micros>((wait + kMicrosPerMilli - 1) / kMicrosPerMilli, 0, 60'000));
}

void ScrapeLoop::OnTick() {
  const Micros now = MonotonicNow();
  last_tick_ = now;
  while (!deadlines_.empty() && deadlines_.front().at <= now) {
    const Deadline d = deadlines_.front();
    deadlines_.pop_front();
    Target* const t = FindAttempt(d.index, d.attempt);
    if (t == nullptr) continue;
    // When this thread was held up itself, the answer may have been lying there for long.
    if (t->fd >= 0 && !t->connecting) OnReadable(t);
    if (FindAttempt(d.index, d.attempt) == nullptr) continue;
    if (t->flight->addresses.size() > 1) t->address_hint = t->flight->address + 1;
    Fail(
        t, Failure::kTimeout,
        fmt::format(
            "no answer within {} ({}{})", FormatDuration(context_.options.timeout),
            t->flight->waiting_for,
            t->flight->body.empty() ? "" : fmt::format(", {} bytes came", t->flight->body.size())));
  }
  starting_.clear();
  while (!due_.empty() && due_.top().at <= now) {
    const Due d = due_.top();
    due_.pop();
    if (Target* const t = Prefetch(d.index)) starting_.emplace_back(t, d.at);
  }
  for (const auto& [t, at] : starting_) {
    // Entries of targets that left, or whose index went to another, are recognised by their time.
    if (t->flight == nullptr && t->due == at) Begin(t);
  }
}

// ---- one attempt

void ScrapeLoop::Begin(Target* t) {
  t->flight = TakeFlight();
  Flight& f = *t->flight;
  f.attempt = next_attempt_++;
  f.started = MonotonicNow();
  f.started_wall = Now();
  NewParser(&f);
  deadlines_.push_back({f.started + context_.options.timeout, t->record->index, f.attempt});
  f.reused = t->fd >= 0;
  if (f.reused) {
    SendRequest(t);
  } else {
    Connect(t);
  }
}

void ScrapeLoop::NewParser(Flight* f) const {
  f->parser.emplace(context_.options.max_header_bytes, context_.options.max_body_bytes, &f->body);
  f->parser->body.set_lines(true);
}

void ScrapeLoop::Connect(Target* t) {
  if (!t->record->url.ok())
    return Fail(t, Failure::kOther, std::string(t->record->url.status().message()));
  t->flight->waiting_for = "resolving the name";
  const uint32_t index = t->record->index;
  const uint64_t attempt = t->flight->attempt;
  context_.resolver->Resolve(t->record->url->host,
                             [this, index, attempt](const StatusOr<Addresses>& addresses) {
                               // The resolver may answer on a thread of its own.
                               Post([this, index, attempt, addresses] {
                                 if (Target* const target = FindAttempt(index, attempt))
                                   OnResolved(target, addresses);
                               });
                             });
}

void ScrapeLoop::OnResolved(Target* t, const StatusOr<Addresses>& addresses) {
  if (!addresses.ok()) return Fail(t, Failure::kOther, std::string(addresses.status().message()));
  t->flight->addresses = *addresses;
  std::rotate(t->flight->addresses.begin(),
              t->flight->addresses.begin() + t->address_hint % addresses->size(),
              t->flight->addresses.end());
  t->address_hint %= addresses->size();
  TryAddress(t);
}

void ScrapeLoop::TryAddress(Target* t) {
  Flight& f = *t->flight;
  const boost::asio::ip::tcp::endpoint endpoint(f.addresses[f.address], t->record->url->port);
  t->fd = socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (t->fd < 0) {
    return Fail(t, Failure::kOther,
                errno == EMFILE || errno == ENFILE
                    ? "no file descriptor is free; raise the limit of open files (ulimit -n)"
                    : ErrorText(errno));
  }
  context_.open.fetch_add(1, std::memory_order_relaxed);
  context_.connects.fetch_add(1, std::memory_order_relaxed);
  const int on = 1;
  setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  t->connection = next_connection_++;
  t->connecting = true;
  t->watched = 0;
  f.waiting_for = "connecting";
  const int rc = connect(t->fd, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
  if (rc == 0 || errno != EINPROGRESS) return OnConnectEnd(t, rc == 0 ? 0 : errno);
  Watch(t, EPOLLOUT);
}

void ScrapeLoop::OnConnectEnd(Target* t, int error) {
  t->connecting = false;
  if (error == 0) {
    Watch(t, EPOLLIN);
    if (t->record->url->tls)
      t->tls = std::make_unique<TlsClient>(*context_.tls, t->record->url->host);
    return SendRequest(t);
  }
  CloseConnection(t);
  if (++t->flight->address < t->flight->addresses.size()) return TryAddress(t);
  const std::string where = t->record->url->HostPort();
  if (error == ECONNREFUSED)
    return Fail(t, Failure::kAnswered, fmt::format("nothing is listening on {}", where));
  Fail(t, Failure::kOther, fmt::format("connecting to {}: {}", where, ErrorText(error)));
}

void ScrapeLoop::SendRequest(Target* t) {
  Flight& f = *t->flight;
  f.waiting_for = "waiting for the answer";
  if (t->tls) {
    t->tls->Write(t->request);
    f.out = t->tls->TakeOutput();
  } else {
    f.out = t->request;
  }
  Flush(t);
}

bool ScrapeLoop::Flush(Target* t) {
  Flight& f = *t->flight;
  while (!f.out.empty()) {
    const ssize_t n = send(t->fd, f.out.data(), f.out.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      f.out.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      Watch(t, EPOLLIN | EPOLLOUT);
      return true;
    } else if (errno != EINTR) {
      OnEnd(t);  // the target closed the kept connection, or resets it
      return false;
    }
  }
  if (t->watched != EPOLLIN) Watch(t, EPOLLIN);
  return true;
}

void ScrapeLoop::OnEvent(Target* t, uint32_t events) {
  // Between scrapes nothing is to be read but the end of the connection (or what must not be taken
  // for the next answer).
  if (!t->flight) return CloseConnection(t);
  if (t->connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return OnConnectEnd(t, error);
  }
  if ((events & EPOLLOUT) != 0 && !Flush(t)) return;
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) OnReadable(t);
}

void ScrapeLoop::OnReadable(Target* t) {
  for (int i = 0; i < kMaxReadsAtOnce; ++i) {
    const ssize_t n = recv(t->fd, scratch_.data(), scratch_.size(), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OnEnd(t);
    const std::string_view bytes(scratch_.data(), static_cast<size_t>(n));
    if (!(t->tls ? OnCipherText(t, bytes) : OnBytes(t, bytes))) return;
    if (bytes.size() < scratch_.size()) return;
  }
}

bool ScrapeLoop::OnCipherText(Target* t, std::string_view bytes) {
  plain_.clear();
  const Status read = t->tls->Read(bytes, &plain_);
  if (!read.ok()) {
    Fail(t, Failure::kOther, std::string(read.message()));
    return false;
  }
  t->flight->out += t->tls->TakeOutput();
  if (!Flush(t)) return false;
  if (!plain_.empty() && !OnBytes(t, plain_)) return false;
  if (t->tls->closed()) {
    OnEnd(t);
    return false;
  }
  return true;
}

bool ScrapeLoop::OnBytes(Target* t, std::string_view bytes) {
  Flight& f = *t->flight;
  for (;;) {
    f.waiting_for = "reading the answer";
    f.parser->body.set_in_place(
        f.rest.empty());  // else the bytes are joined with the rest, in a string that shrinks
    if (const ErrorCode ec = Feed(&*f.parser, bytes, context_.options.max_header_bytes, &f.rest)) {
      FailParse(t, ec);
      return false;
    }
    if (!f.parser->is_done()) {
      f.parser->body.Keep();  // the next read, of any target, takes the same memory
      return true;
    }
    if (f.parser->status_code / 100 != 1 || ++f.interim > kMaxInterim) break;
    NewParser(&f);
    bytes = {};
  }
  OnAnswer(t);
  return false;
}

// The connection ended, by the peer's will or by an error.
void ScrapeLoop::OnEnd(Target* t) {
  Flight& f = *t->flight;
  if (!f.parser->got_some()) {
    CloseConnection(t);
    if (std::exchange(f.reused, false)) {
      // The target closed the kept connection between two scrapes, as it may: one new attempt.
      f.out.clear();
      f.rest.clear();
      return Connect(t);
    }
    return Fail(t, Failure::kAnswered, "the target closed the connection without an answer");
  }
  ErrorCode ec;
  f.parser->put_eof(ec);
  if (ec || !f.parser->is_done()) {
    return Fail(
        t, Failure::kOther,
        fmt::format(
            "the target closed the connection within the answer, after {} bytes of the body",
            f.body.size()));
  }
  OnAnswer(t);
}

void ScrapeLoop::FailParse(Target* t, ErrorCode ec) {
  if (ec == http::error::body_limit) {
    return Fail(t, Failure::kOversized,
                fmt::format("the answer is larger than {} bytes", context_.options.max_body_bytes));
  }
  if (ec == http::error::header_limit) {
    return Fail(t, Failure::kOversized,
                fmt::format("the header of the answer is larger than {} bytes",
                            context_.options.max_header_bytes));
  }
  Fail(t, Failure::kAnswered, fmt::format("the answer is not valid HTTP/1.1: {}", ec.message()));
}

void ScrapeLoop::OnAnswer(Target* t) {
  const ResponseParser& p = *t->flight->parser;
  const auto header = [&p](std::string_view name) -> std::string_view {
    for (const auto& [key, value] : p.fields)
      if (key == name) return value;
    return {};
  };
  const int status = p.status_code;
  if (status / 100 == 3) {
    return Fail(t, Failure::kOther,
                fmt::format("the target redirects ({}) to '{}'; list that address instead", status,
                            Printable(header("location"))));
  }
  if (status != 200) {
    // These three are what proxies say of a host that does not answer them.
    const bool own = status != 502 && status != 503 && status != 504;
    return Fail(t, own ? Failure::kAnswered : Failure::kOther,
                fmt::format("HTTP status {} {}{}", status, ReasonPhrase(status),
                            status == 404 ? "; is the path right?" : ""));
  }
  const std::string_view type = header("content-type");
  if (const std::string kind = LowerCase(type.substr(0, type.find(';'))); kind == "text/html") {
    return Fail(t, Failure::kAnswered,
                "the answer is a web page (text/html), not metrics; is the path right?");
  } else if (kind == "application/vnd.google.protobuf") {
    return Fail(t, Failure::kAnswered, "the answer is protobuf, although text was asked for");
  }
  const std::string encoding = LowerCase(header("content-encoding"));
  if (encoding.empty() || encoding == "identity") return Succeed(t, p.body.View(), p.body.bytes());
  if (encoding != "gzip" && encoding != "deflate") {
    return Fail(t, Failure::kOther,
                fmt::format("Content-Encoding '{}' was not asked for", Printable(encoding, 40)));
  }
  const Status unpacked = GunzipInto(p.body.View(), context_.options.max_body_bytes, &unpacked_);
  if (!unpacked.ok()) {
    return Fail(t, absl::IsResourceExhausted(unpacked) ? Failure::kOversized : Failure::kOther,
                std::string(unpacked.message()));
  }
  Succeed(t, unpacked_, unpacked_.size());
  if (unpacked_.capacity() > kMaxKeptCapacity) std::string().swap(unpacked_);
}

void ScrapeLoop::Succeed(Target* t, std::string_view body, size_t bytes) {
  Flight& f = *t->flight;
  t->failures = 0;
  context_.scrapes.fetch_add(1, std::memory_order_relaxed);
  context_.body_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const Micros took = MonotonicNow() - f.started;
  t->record->UpdateHealth([&](TargetHealth* h) {
    h->state = TargetState::kUp;
    h->last_scrape = h->last_success = f.started_wall;
    h->answered_at = 0;
    h->last_duration_ms = static_cast<double>(took) / kMicrosPerMilli;
    h->last_bytes = bytes;
    h->scrapes++;
    h->consecutive_failures = 0;
    h->last_error.clear();
  });
  const std::shared_ptr<const ScrapeTarget> info = t->record->info();
  context_.on_body({.target = t->record->index,
                    .thread = id_,
                    .started = f.started_wall,
                    .body = body,
                    .info = info.get()});
  const bool room = context_.open.load(std::memory_order_relaxed) <= context_.connection_limit;
  End(t, room && f.parser->keep_alive() && !f.parser->need_eof() && f.rest.empty());
}

void ScrapeLoop::Fail(Target* t, Failure kind, std::string_view why) {
  const Flight& f = *t->flight;
  ++t->failures;
  context_.scrapes.fetch_add(1, std::memory_order_relaxed);
  context_.failures.fetch_add(1, std::memory_order_relaxed);
  const Micros took = MonotonicNow() - f.started;
  t->record->UpdateHealth([&](TargetHealth* h) {
    h->state = t->failures >= kFailuresBeforeBackoff ? TargetState::kBackOff : TargetState::kDown;
    h->last_scrape = f.started_wall;
    h->last_duration_ms = static_cast<double>(took) / kMicrosPerMilli;
    h->scrapes++;
    h->failures++;
    h->timeouts += kind == Failure::kTimeout;
    h->oversized += kind == Failure::kOversized;
    if (kind == Failure::kAnswered) h->answered_at = f.started_wall;
    h->consecutive_failures = t->failures;
    h->last_error = h->last_failure = Printable(why);
    h->last_failure_at = f.started_wall;
  });
  End(t, false);
}

// Plans the next attempt and gives back what this one held.
void ScrapeLoop::End(Target* t, bool keep_connection) {
  if (!keep_connection) CloseConnection(t);
  ReturnFlight(std::move(t->flight));

  const Micros interval = context_.options.interval;
  Micros delay = 0;
  if (t->failures >= kFailuresBeforeBackoff) {
    const uint32_t doublings = std::min(t->failures - kFailuresBeforeBackoff + 1, 20u);
    delay = std::min(interval << doublings, context_.options.max_backoff);
    delay = delay * 3 / 4 +
            static_cast<Micros>(SplitMix(&random_) % static_cast<uint64_t>(delay / 2 + 1));
    delay = std::max<Micros>(delay - interval, 0);  // the next tick is one interval away as it is
  }
  const Micros next = NextTick(*t, MonotonicNow() + delay);
  const Micros skipped = (next - t->due) / interval - 1;
  if (skipped > 0) {
    context_.skipped.fetch_add(static_cast<uint64_t>(skipped), std::memory_order_relaxed);
    t->record->UpdateHealth([&](TargetHealth* h) { h->skipped += static_cast<uint64_t>(skipped); });
  }
  t->due = next;
  due_.push({next, t->record->index});
}

void ScrapeLoop::Watch(Target* t, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(t->connection) << 32 | t->record->index;
  // Fails only for want of kernel memory; the attempt then ends by its deadline.
  epoll_ctl(epoll_, t->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, t->fd, &event);
  t->watched = events;
}

void ScrapeLoop::CloseConnection(Target* t) {
  t->tls.reset();
  if (t->fd < 0) return;
  close(t->fd);  // which also takes it out of epoll
  t->fd = -1;
  t->connecting = false;
  context_.open.fetch_sub(1, std::memory_order_relaxed);
}

std::unique_ptr<ScrapeLoop::Flight> ScrapeLoop::TakeFlight() {
  ++in_flight_;
  context_.in_flight.fetch_add(1, std::memory_order_relaxed);
  if (free_flights_.empty()) return std::make_unique<Flight>();
  auto f = std::move(free_flights_.back());
  free_flights_.pop_back();
  return f;
}

void ScrapeLoop::ReturnFlight(std::unique_ptr<Flight> f) {
  --in_flight_;
  context_.in_flight.fetch_sub(1, std::memory_order_relaxed);
  if (free_flights_.size() >= kMaxFreeFlights || f->body.capacity() > kMaxKeptCapacity) return;
  f->reused = false;
  f->interim = 0;
  f->out.clear();
  f->rest.clear();
  f->body.clear();
  f->parser.reset();
  f->addresses.clear();
  f->address = 0;
  free_flights_.push_back(std::move(f));
}

}  // namespace flopwatch::net
