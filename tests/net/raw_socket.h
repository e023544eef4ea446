// Plain blocking sockets for tests that must send what no well-behaved client or server would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace flopwatch::testing_net {

// A body as it was sent: without the lines of '#' alone that the scraper leaves where chunks met.
inline std::string AsSent(std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const std::string_view line = body.substr(
        0, body.find('\n') == std::string_view::npos ? body.size() : body.find('\n') + 1);
    if (line.size() < 2 || line.back() != '\n' || line.find_first_not_of('#') != line.size() - 1)
      out += line;
    body.remove_prefix(line.size());
  }
  return out;
}

// A body in chunked transfer coding, in pieces of so many bytes.
inline std::string InChunks(std::string_view body, size_t piece_bytes) {
  std::string out;
  char head[32];
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    const std::string_view piece = body.substr(at, piece_bytes);
    std::snprintf(head, sizeof head, "%zx\r\n", piece.size());
    out.append(head).append(piece).append("\r\n");
  }
  return out + "0\r\n\r\n";
}

class RawSocket {
 public:
  explicit RawSocket(int fd) : fd_(fd) {}
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~RawSocket() { Close(); }

  static RawSocket Connect(uint16_t port) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      close(fd);
      return RawSocket(-1);
    }
    return RawSocket(fd);
  }

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads until `enough` says so, the peer closes, or nothing comes for `timeout_ms`.
  std::string ReadUntil(const std::function<bool(const std::string&)>& enough,
                        int timeout_ms = 10'000) {
    std::string out;
    char buffer[65536];
    while (!enough(out)) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, timeout_ms) <= 0) break;
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) {
        closed_ = true;
        break;
      }
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  }
  std::string ReadAll(int timeout_ms = 10'000) {
    return ReadUntil([](const std::string&) { return false; }, timeout_ms);
  }
  std::string ReadHeader() {
    return ReadUntil([](const std::string& s) { return s.find("\r\n\r\n") != std::string::npos; });
  }
  bool peer_closed() const { return closed_; }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
  bool closed_ = false;
};

// Listens on loopback and hands each accepted connection to `serve` on a thread of its own.
class RawServer {
 public:
  explicit RawServer(std::function<void(RawSocket&)> serve) : serve_(std::move(serve)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at);
    (void)listen(listener_, 1024);
    socklen_t size = sizeof at;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  // Cuts the connections that are still open, so that the threads that serve them end.
  ~RawServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& t : threads_) t.join();
  }
  uint16_t port() const { return port_; }

 private:
  void Accept() {
    for (;;) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] {
        RawSocket socket(dup(fd));
        serve_(socket);
        const std::lock_guard end(mutex_);
        std::erase(open_, fd);
        shutdown(fd, SHUT_RDWR);
        close(fd);
      });
    }
  }

  std::function<void(RawSocket&)> serve_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace flopwatch::testing_net
