// The HTTP server: one Asio loop a thread, connections dealt out round robin (http_connection.h).
#include <fmt/format.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "base/scheduling.h"
#include "base/text.h"
#include "net/http.h"
#include "net/http_connection.h"
#include "net/port_owner.h"

namespace flopwatch::net {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{20};
constexpr int kEvictedAtOnce = 256;
constexpr Micros kDrain = 3 * kMicrosPerSecond;

class ServerImpl final : public HttpServer {
 public:
  ServerImpl(ServerOptions options, AtOnce at_once, Handler on_worker, Uploads uploads)
      : shared_(std::move(options), std::move(at_once), std::move(on_worker), std::move(uploads)) {
    for (int i = 0; i < std::max(shared_.options.threads, 1); ++i)
      loops_.push_back(std::make_unique<ServerLoop>());
    acceptor_.emplace(loops_[0]->io);
    accept_pause_.emplace(loops_[0]->io);
  }

  Status Listen() {
    const ServerOptions& o = shared_.options;
    std::string host = o.address == "localhost" ? "127.0.0.1" : o.address;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    ErrorCode ec;
    const auto address = asio::ip::make_address(host, ec);
    if (ec) {
      return InvalidArgument(
          "listen address '{}' is not an IP address; use 127.0.0.1, 0.0.0.0, ::1 or ::",
          Printable(o.address));
    }
    const tcp::endpoint endpoint(address, o.port);
    const auto failed = [&](std::string_view what) -> Status {
      const std::string where = fmt::format("listening on {}:{}: ", o.address, o.port);
      if (ec == asio::error::address_in_use) {
        const std::string owner = PortOwner(o.port);
        return AlreadyExists(
            "{}the port is in use{}{}; stop that, or choose another port (0 = any free one)", where,
            owner.empty() ? "" : " by ", owner);
      }
      if (ec == asio::error::access_denied) {
        return PermissionDenied("{}not permitted; ports below 1024 need root, choose a higher one",
                                where);
      }
      if (ec == boost::system::errc::address_not_available) {
        return InvalidArgument("{}this machine has no such address; see `ip address`", where);
      }
      return Unavailable("{}{}: {}", where, what, ec.message());
    };
    if (acceptor_->open(endpoint.protocol(), ec)) return failed("opening a socket");
    acceptor_->set_option(tcp::acceptor::reuse_address(true), ec);
    if (address.is_v6()) acceptor_->set_option(asio::ip::v6_only(!address.is_unspecified()), ec);
    if (acceptor_->bind(endpoint, ec)) return failed("binding");
    if (acceptor_->listen(SOMAXCONN, ec)) return failed("listening");
    port_ = acceptor_->local_endpoint(ec).port();
    return absl::OkStatus();
  }

  void Run() {
    for (auto& loop : loops_) {
      Sweep(loop.get());
      loop->thread = std::jthread([io = &loop->io] {
        pthread_setname_np(pthread_self(), "http");
        PreferLatency();
        io->run();
      });
    }
    asio::post(loops_[0]->io, [this] { Accept(); });
  }

  ~ServerImpl() override {
    for (size_t i = 0; i < loops_.size(); ++i) {
      asio::post(loops_[i]->io, [this, i] {
        if (i == 0) CloseAcceptor();
        loops_[i]->stopping = true;
        const std::vector<ServerConnection*> now(loops_[i]->connections.begin(),
                                                 loops_[i]->connections.end());
        for (ServerConnection* c : now) c->Stop();
      });
    }
    const Micros until = MonotonicNow() + kDrain;
    while (shared_.open.load() > 0 && MonotonicNow() < until && loops_[0]->thread.joinable())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (auto& loop : loops_) loop->io.stop();
    for (auto& loop : loops_) {
      if (loop->thread.joinable()) loop->thread.join();
    }
    // Workers post to the loops, connections use `shared_`: end them in this order.
    shared_.pool.Stop();
    shared_.apart.Stop();
    accept_pause_.reset();
    acceptor_.reset();
    loops_.clear();
  }

  uint16_t port() const override { return port_; }
  ServerStats stats() const override {
    return {.requests = shared_.requests.load(),
            .connections = static_cast<uint64_t>(std::max(shared_.open.load(), 0)),
            .refused_connections = shared_.refused_connections.load(),
            .evicted_connections = shared_.evicted_connections.load(),
            .refused_requests = shared_.refused_requests.load(),
            .timed_out_connections = shared_.timed_out.load()};
  }

 private:
  void CloseAcceptor() {
    ErrorCode ignored;
    acceptor_->close(ignored);
  }

  void Accept() {
    ServerLoop* loop = loops_[next_loop_++ % loops_.size()].get();
    acceptor_->async_accept(loop->io, [this, loop](ErrorCode ec, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (ec == boost::system::errc::too_many_files_open ||
          ec == boost::system::errc::too_many_files_open_in_system) {
        // No descriptor is free: waiting connections stay in the kernel's queue until one is. A
        // connection of ours may go; the files may also be another's.
        shared_.refused_connections.fetch_add(1, std::memory_order_relaxed);
        for (auto& each : loops_) asio::post(each->io, [l = each.get()] { l->Evict(); });
        accept_pause_->expires_after(kAcceptPause);
        return accept_pause_->async_wait([this](ErrorCode error) {
          if (!error) Accept();
        });
      }
      if (!ec) Admit(loop, std::move(socket));
      Accept();
    });
  }

  // A connection above the limit is turned away where nobody could go for it.
  void TurnAway(tcp::socket* socket) {
    shared_.refused_connections.fetch_add(1, std::memory_order_relaxed);
    ErrorCode ignored;
    socket->non_blocking(true, ignored);
    socket->write_some(
        asio::buffer(std::string_view("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                      "Content-Length: 0\r\nConnection: close\r\n\r\n")),
        ignored);
    socket->close(ignored);
  }

  void Admit(ServerLoop* loop, tcp::socket socket) {
    const int open = shared_.open.fetch_add(1, std::memory_order_relaxed);
    // An evicted connection counts until its loop has let go of it, a moment later.
    if (open >= shared_.max_connections + kEvictedAtOnce) {
      shared_.open.fetch_sub(1, std::memory_order_relaxed);
      return TurnAway(&socket);
    }
    const bool full = open >= shared_.max_connections;
    // Shared: std::function-like handlers of other loops own it until the connection is made there.
    const auto held = std::make_shared<tcp::socket>(std::move(socket));
    asio::post(loop->io, [this, loop, held, full] {
      if (full && !loop->Evict()) {
        shared_.open.fetch_sub(1, std::memory_order_relaxed);
        return TurnAway(held.get());
      }
      const auto connection = std::make_shared<ServerConnection>(&shared_, loop, std::move(*held));
      if (!loop->stopping) connection->Start();
    });
  }

  void Sweep(ServerLoop* loop) {
    const Micros period =
        std::clamp<Micros>(shared_.options.idle_timeout / 4, 10'000, kMicrosPerSecond);
    loop->sweep.expires_after(std::chrono::microseconds(period));
    loop->sweep.async_wait([this, loop](ErrorCode ec) {
      if (ec) return;
      const Micros now = MonotonicNow();
      for (ServerConnection* c : loop->connections) c->CheckDeadline(now);
      Sweep(loop);
    });
  }

  ServerState shared_;
  std::vector<std::unique_ptr<ServerLoop>> loops_;
  std::optional<tcp::acceptor> acceptor_;
  std::optional<asio::steady_timer> accept_pause_;
  uint16_t port_ = 0;
  size_t next_loop_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ServerOptions& options,
                                                        AtOnce at_once, Handler on_worker,
                                                        Uploads uploads) {
  auto server = std::make_unique<ServerImpl>(options, std::move(at_once), std::move(on_worker),
                                             std::move(uploads));
  FW_RETURN_IF_ERROR(server->Listen());
  server->Run();
  return server;
}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ServerOptions& options,
                                                        Handler handler) {
  return Start(options, AtOnce(std::move(handler)), Handler());
}

}  // namespace flopwatch::net
