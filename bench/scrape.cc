// CPU time of one scrape on the client side: flopwatch's scraper beside the floor, a raw epoll
// client that looks for the end of the answer and copies nothing. The server is another process and
// does the same work for both.
//
//   bench_scrape [--targets 2000] [--rate 1250] [--seconds 8] [--rounds 3] [--body 42000|206000]
//   bench_scrape --port PORT --paths FILE --rate 1438
//       the floor alone, on another server's chunked answers, until it is killed; prints how many
//       came (compare.py's engine "receive")
//
// Bodies: 42 KB and 206 KB (dcgm-exporter on 8 GPUs with its default and with its full field list),
// with Content-Length and in the 2 KiB chunks that Go sends. Rounds alternate, the least CPU of
// each is shown: other work on the machine only ever adds.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/time.h"
#include "net/scraper.h"

namespace {

using flopwatch::Micros;

struct Options {
  int targets = 2000;
  int rate = 1250;  // scrapes a second: 12,500 targets every 10 s
  int seconds = 8;
  int rounds = 3;
  int body = 0;       // only this size; 0 = both
  int port = 0;       // of the server to receive from; 0 = an own one
  std::string paths;  // file with a path a line, one for each connection
};

std::string Body(size_t bytes) {
  std::string s;
  for (uint64_t i = 0; s.size() < bytes; ++i) {
    s += fmt::format(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu=\"{}\",UUID=\"GPU-6f1bcb3e-ed63-4af9-a1d2-{:012x}\","
        "device=\"nvidia{}\","
        "modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"gpu-node-0042\",hpc_job=\"184467\"}} "
        "0.{:06}\n",
        i % 8, i * 7919, i % 8, i * 104729 % 1000000);
  }
  s.resize(bytes);
  s.back() = '\n';
  return s;
}

std::string Answer(const std::string& body, bool chunked) {
  std::string s =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nDate: Sat, 21 Nov 2026 "
      "03:42:26 GMT\r\n";
  if (!chunked) return s + fmt::format("Content-Length: {}\r\n\r\n", body.size()) + body;
  s += "Transfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < body.size(); at += 2048) {
    const std::string piece = body.substr(at, 2048);
    s += fmt::format("{:x}\r\n", piece.size()) + piece + "\r\n";
  }
  return s + "0\r\n\r\n";
}

[[noreturn]] void Die(const char* what) {
  perror(what);
  exit(1);
}

// ---- the server process: answers every request on every connection with the same bytes

struct Peer {
  int fd = -1;
  size_t left = 0;  // of the answer being sent
};

[[noreturn]] void ServeForEver(int listener, const std::string& answer) {
  const int ep = epoll_create1(0);
  epoll_event ev{};
  ev.events = EPOLLIN;
  ev.data.ptr = nullptr;
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
  const auto send_more = [&](Peer* p) {
    while (p->left > 0) {
      const ssize_t n = send(p->fd, answer.data() + answer.size() - p->left, p->left, MSG_NOSIGNAL);
      if (n <= 0) return;
      p->left -= static_cast<size_t>(n);
    }
  };
  std::vector<epoll_event> events(1024);
  char request[4096];
  for (;;) {
    const int n = epoll_wait(ep, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) {
      Peer* p = static_cast<Peer*>(events[i].data.ptr);
      if (p == nullptr) {
        for (;;) {
          const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
          if (fd < 0) break;
          const int one = 1;
          setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
          Peer* fresh = new Peer{fd, 0};
          epoll_event e{};
          e.events = EPOLLIN | EPOLLOUT | EPOLLET;
          e.data.ptr = fresh;
          epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        }
        continue;
      }
      if (events[i].events & EPOLLIN) {
        const ssize_t got = recv(p->fd, request, sizeof request, 0);
        if (got <= 0) {
          close(p->fd);
          delete p;
          continue;
        }
        p->left = answer.size();
      }
      send_more(p);
    }
  }
}

// ---- measuring

double CpuMicros() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// One connection of the floor.
struct Client {
  int fd = -1;
  size_t got = 0;
  char tail[5] = {};  // the last bytes that came
  std::string request;

  // Whether the answer that `bytes` belongs to ends with them; `size` = its length, 0 = ends with
  // the last chunk.
  bool Take(const char* bytes, size_t n, size_t size) {
    got += n;
    if (size > 0) return got == size;
    const size_t fresh = std::min(n, sizeof tail);
    std::memmove(tail, tail + fresh, sizeof tail - fresh);
    std::memcpy(tail + sizeof tail - fresh, bytes + n - fresh, fresh);
    return std::memcmp(tail, "0\r\n\r\n", sizeof tail) == 0;
  }
};

// The floor: one thread, level-triggered epoll, a shared read buffer, nothing parsed but the end of
// the answer. One connection a path. seconds = 0: until it is killed, with the count of answers
// printed ten times a second.
double RawEpoll(uint16_t port, const std::vector<std::string>& paths, double rate, int seconds,
                size_t answer_bytes) {
  const int ep = epoll_create1(0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<Client> clients(paths.size());
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].fd = socket(AF_INET, SOCK_STREAM, 0);
    clients[i].request = fmt::format(
        "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: floor\r\nAccept: "
        "text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n"
        "X-Prometheus-Scrape-Timeout-Seconds: 8\r\n\r\n",
        paths[i]);
    if (connect(clients[i].fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) Die("connect");
    const int one = 1;
    setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(clients[i].fd, F_SETFL, O_NONBLOCK);
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = i;
    epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &e);
  }
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  itimerspec spec{};
  spec.it_interval.tv_nsec = spec.it_value.tv_nsec = 10'000'000;
  timerfd_settime(timer, 0, &spec, nullptr);
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = UINT64_MAX;
  epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e);

  std::vector<char> buffer(256 << 10);
  std::vector<epoll_event> events(256);
  size_t next = 0, done = 0, measured_from = 0;
  uint64_t ticked = 0;
  double credit = 0, cpu = 0;
  Micros stop = 0;
  while (stop == 0 || flopwatch::MonotonicNow() < stop) {
    const int n = epoll_wait(ep, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == UINT64_MAX) {
        uint64_t ticks = 0;
        if (read(timer, &ticks, sizeof ticks) != sizeof ticks) continue;
        for (credit += static_cast<double>(ticks) * rate / 100; credit >= 1; credit -= 1) {
          Client& c = clients[next++ % clients.size()];
          c.got = 0;
          if (send(c.fd, c.request.data(), c.request.size(), MSG_NOSIGNAL) < 0) Die("send");
        }
        if (seconds == 0 && (ticked += ticks) >= 10) {
          ticked = 0;
          fmt::print("{}\n", done);
          fflush(stdout);
        }
        continue;
      }
      Client& c = clients[events[i].data.u64];
      const ssize_t got = recv(c.fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) Die("recv");
      if (!c.Take(buffer.data(), static_cast<size_t>(got), answer_bytes)) continue;
      ++done;
      if (seconds > 0 && stop == 0 &&
          done >= clients.size()) {  // warm: every connection was used once
        measured_from = done;
        cpu = CpuMicros();
        stop = flopwatch::MonotonicNow() + seconds * flopwatch::kMicrosPerSecond;
      }
    }
  }
  cpu = CpuMicros() - cpu;
  for (const Client& c : clients) close(c.fd);
  close(timer);
  close(ep);
  return cpu / static_cast<double>(done - measured_from);
}

double Flopwatch(const Options& o, uint16_t port, size_t body_bytes) {
  flopwatch::net::ScraperOptions options;
  options.interval = flopwatch::kMicrosPerSecond * o.targets / o.rate;
  uint64_t wrong = 0;
  auto scraper = flopwatch::net::Scraper::Start(
      options,
      [&](const flopwatch::net::ScrapeResult& r) {
        wrong += r.body.size() < body_bytes || r.body.back() != '\n';
      },
      nullptr);
  if (!scraper.ok()) {
    fmt::print(stderr, "{}\n", std::string(scraper.status().message()));
    exit(1);
  }
  std::vector<flopwatch::net::ScrapeTarget> targets;
  for (int i = 0; i < o.targets; ++i) {
    targets.push_back({fmt::format("http://127.0.0.1:{}/node/{}/metrics", port, i), "", {}});
  }
  (*scraper)->SetTargets(std::move(targets));
  while ((*scraper)->stats().scrapes < static_cast<uint64_t>(o.targets)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const uint64_t from = (*scraper)->stats().scrapes;
  double cpu = CpuMicros();
  std::this_thread::sleep_for(std::chrono::seconds(o.seconds));
  cpu = CpuMicros() - cpu;
  const auto stats = (*scraper)->stats();
  wrong += stats.body_bytes + body_bytes <
           stats.scrapes * body_bytes;  // one may be counted at this moment
  if (wrong != 0 || stats.failures != 0 || stats.skipped != 0) {
    fmt::print(stderr, "invalid run: {} wrong bodies, {} failures, {} skipped\n", wrong,
               stats.failures, stats.skipped);
  }
  return cpu / static_cast<double>(stats.scrapes - from);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--paths") {
      o.paths = argv[i + 1];
      continue;
    }
    int* const value = flag == "--targets"   ? &o.targets
                       : flag == "--rate"    ? &o.rate
                       : flag == "--seconds" ? &o.seconds
                       : flag == "--rounds"  ? &o.rounds
                       : flag == "--body"    ? &o.body
                       : flag == "--port"    ? &o.port
                                             : nullptr;
    if (value == nullptr) {
      fmt::print(stderr, "unknown flag {}\n", flag);
      return 2;
    }
    *value = atoi(argv[i + 1]);
  }
  signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  if (o.port != 0) {
    std::vector<std::string> paths;
    std::ifstream file(o.paths);
    for (std::string line; std::getline(file, line);) paths.push_back(line);
    if (paths.empty()) Die("--paths");
    RawEpoll(static_cast<uint16_t>(o.port), paths, o.rate, 0, 0);
  }
  fmt::print("{} targets, {} scrapes/s, least of {} rounds of {} s; us of CPU a scrape\n",
             o.targets, o.rate, o.rounds, o.seconds);
  fmt::print("{:>8} {:>8} {:>10} {:>10} {:>7} {:>28}\n", "body", "framing", "raw epoll",
             "flopwatch", "ratio", "12,500 targets/10 s, % core");
  for (const size_t bytes : {42'000u, 206'000u}) {
    if (o.body != 0 && static_cast<size_t>(o.body) != bytes) continue;
    for (const bool chunked : {false, true}) {
      const std::string answer = Answer(Body(bytes), chunked);
      const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
          listen(listener, 4096) != 0)
        Die("listen");
      socklen_t size = sizeof at;
      getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
      const pid_t server = fork();
      if (server == 0) ServeForEver(listener, answer);
      close(listener);
      double raw = 1e9, ours = 1e9;
      const std::vector<std::string> same(static_cast<size_t>(o.targets), "/metrics");
      for (int round = 0; round < o.rounds; ++round) {
        raw = std::min(raw, RawEpoll(ntohs(at.sin_port), same, o.rate, o.seconds, answer.size()));
        ours = std::min(ours, Flopwatch(o, ntohs(at.sin_port), bytes));
      }
      fmt::print("{:>8} {:>8} {:>10.1f} {:>10.1f} {:>7.2f} {:>28.1f}\n", bytes,
                 chunked ? "chunked" : "length", raw, ours, ours / raw, ours * 1250 / 1e6 * 100);
      fflush(stdout);
      kill(server, SIGKILL);
      waitpid(server, nullptr, 0);
    }
  }
  return 0;
}
