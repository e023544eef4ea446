#include "net/scraper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "net/http.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing_net::AsSent;
using testing_net::RawServer;
using testing_net::RawSocket;

constexpr char kBody[] = "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1980\n";

std::string Local(uint16_t port, const std::string& path = "/metrics") {
  return "http://127.0.0.1:" + std::to_string(port) + path;
}

std::string Answer(const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Collects what a scraper hands over; waits are bounded by the test's own time limit only.
class Collector {
 public:
  Scraper::OnBody OnBody() {
    return [this](const ScrapeResult& r) {
      const std::lock_guard lock(mutex_);
      bodies_[r.info->url].emplace_back(r.body);
      nodes_[r.info->url] = r.info->node;
      changed_.notify_all();
    };
  }
  Scraper::OnRemoved OnRemoved() {
    return [this](uint32_t index, int) {
      const std::lock_guard lock(mutex_);
      removed_.push_back(index);
      changed_.notify_all();
    };
  }
  void WaitForBodies(const std::string& url, size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return bodies_[url].size() >= n; });
  }
  void WaitForRemoved(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return removed_.size() >= n; });
  }
  size_t Count(const std::string& url) {
    const std::lock_guard lock(mutex_);
    return bodies_[url].size();
  }
  std::string Last(const std::string& url) {
    const std::lock_guard lock(mutex_);
    return bodies_[url].back();
  }
  std::string Node(const std::string& url) {
    const std::lock_guard lock(mutex_);
    return nodes_[url];
  }
  std::vector<uint32_t> removed() {
    const std::lock_guard lock(mutex_);
    return removed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::string>> bodies_;
  std::map<std::string, std::string> nodes_;
  std::vector<uint32_t> removed_;
};

ScraperOptions Fast() {
  ScraperOptions o;
  o.interval = 10 * kMicrosPerMilli;
  o.timeout = kMicrosPerMinute;  // so long that a busy machine fails no test
  o.max_backoff = 20 * kMicrosPerMilli;
  return o;
}

std::unique_ptr<Scraper> StartScraper(const ScraperOptions& options, Collector* c) {
  auto s = Scraper::Start(options, c->OnBody(), c->OnRemoved());
  EXPECT_TRUE(s.ok()) << s.status();
  return *std::move(s);
}

TargetHealth HealthOf(const Scraper& scraper, const std::string& url) {
  for (TargetHealth& h : scraper.Health()) {
    if (h.target.url == url) return h;
  }
  ADD_FAILURE() << "not listed: " << url;
  return {};
}

// The scraper's thread may be held up for longer than a timeout: by a busy machine, or by what
// takes the bodies. An answer that lies ready by then has come in time.
TEST(Scraper, AnAnswerThatLiesReadyIsNotATimeout) {
  std::latch asked(1), may_answer(1), answered(1);
  std::atomic<bool> first_ask = true, first_answer = true, held = false;
  RawServer late([&](RawSocket& s) {
    s.ReadHeader();
    if (first_ask.exchange(false)) asked.count_down();
    may_answer.wait();
    s.Send(Answer(kBody));
    if (first_answer.exchange(false)) answered.count_down();
  });
  RawServer early([&](RawSocket& s) {
    s.ReadHeader();
    asked.wait();
    s.Send(Answer(kBody));
  });
  ScraperOptions options = Fast();
  options.timeout = 2 * kMicrosPerSecond;
  Collector c;
  const auto collect = c.OnBody();
  auto scraper = Scraper::Start(
      options,
      [&](const ScrapeResult& r) {
        if (r.info->url == Local(early.port()) && !held.exchange(true)) {
          may_answer.count_down();
          answered.wait();
          std::this_thread::sleep_for(
              std::chrono::microseconds(options.timeout + 100 * kMicrosPerMilli));
        }
        collect(r);
      },
      c.OnRemoved());
  ASSERT_TRUE(scraper.ok());
  (*scraper)->SetTargets({{.url = Local(late.port())}, {.url = Local(early.port())}});
  c.WaitForBodies(Local(late.port()), 1);
  EXPECT_EQ(HealthOf(**scraper, Local(late.port())).timeouts, 0u);
}

// Waits until the health of a target satisfies `done`.
template <typename Done>
TargetHealth WaitForHealth(const Scraper& scraper, const std::string& url, Done done) {
  for (;;) {
    TargetHealth h = HealthOf(scraper, url);
    if (done(h)) return h;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(Scraper, ScrapesOverOneKeptConnection) {
  const auto server = HttpServer::Start({}, [](const Request& r) {
    EXPECT_EQ(r.Header("accept-encoding"), "gzip");
    EXPECT_EQ(r.Header("x-prometheus-scrape-timeout-seconds"), "60");
    EXPECT_THAT(std::string(*r.Header("user-agent")), HasSubstr("flopwatch/"));
    EXPECT_THAT(std::string(*r.Header("accept")), HasSubstr("text/plain"));
    Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    out.body = kBody;
    return out;
  });
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  const std::string url = Local((*server)->port());
  scraper->SetTargets({{url, "", {}}});
  c.WaitForBodies(url, 5);
  EXPECT_EQ(c.Last(url), kBody);
  EXPECT_EQ(c.Node(url), "127.0.0.1");
  EXPECT_EQ(scraper->stats().connects, 1u);
  const TargetHealth h =
      WaitForHealth(*scraper, url, [](const TargetHealth& t) { return t.scrapes >= 5; });
  EXPECT_EQ(h.state, TargetState::kUp);
  EXPECT_EQ(h.failures, 0u);
  EXPECT_EQ(h.last_bytes, sizeof(kBody) - 1);
  EXPECT_EQ(h.last_error, "");
  EXPECT_GE(Now() - h.last_success, 0);
}

TEST(Scraper, ReadsChunkedGzipAndBodiesThatEndWithTheConnection) {
  const std::string big = [] {
    std::string s;
    for (int i = 0; i < 5000; ++i)
      s += "DCGM_FI_DEV_POWER_USAGE{gpu=\"" + std::to_string(i) + "\"} 412.5\n";
    return s;
  }();
  const auto server = HttpServer::Start({}, [&](const Request& r) {
    Response out;
    out.content_type = "text/plain";
    out.body = big;
    out.no_gzip = r.path != "/gzip";
    if (r.path == "/both") {
      out.body = Gzip(out.body);
      out.headers.emplace_back("Content-Encoding", "gzip");
    }
    if (r.path == "/chunked" || r.path == "/both") {
      out.body = testing_net::InChunks(out.body, 2048);
      out.headers.emplace_back("Transfer-Encoding", "chunked");
    }
    return out;
  });
  RawServer until_end([&](RawSocket& s) {
    s.ReadHeader();
    s.Send("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + big);
  });
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  std::vector<ScrapeTarget> targets;
  for (const char* path : {"/chunked", "/both", "/plain", "/gzip"})
    targets.push_back({Local((*server)->port(), path), "", {}});
  targets.push_back({Local(until_end.port()), "", {}});
  scraper->SetTargets(targets);
  for (const ScrapeTarget& t : targets) {
    c.WaitForBodies(t.url, 3);
    EXPECT_EQ(AsSent(c.Last(t.url)), big) << t.url;
    EXPECT_EQ(HealthOf(*scraper, t.url).last_bytes, big.size()) << t.url;
  }
}

TEST(Scraper, ReconnectsWhenTheTargetClosedBetweenScrapes) {
  std::atomic<int> connections{0};
  RawServer server([&](RawSocket& s) {
    ++connections;
    s.ReadHeader();
    s.Send(Answer(kBody));  // promises to keep the connection, then closes it
  });
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  const std::string url = Local(server.port());
  scraper->SetTargets({{url, "", {}}});
  c.WaitForBodies(url, 5);
  const TargetHealth h = HealthOf(*scraper, url);
  EXPECT_EQ(h.failures, 0u) << h.last_error;
  EXPECT_GE(connections.load(), 5);
}

struct Hostile {
  std::string name;
  std::function<void(RawSocket&)> serve;
  std::string error;
  bool timeout = false, oversized = false;
};

// Sends `bytes` until the scraper hangs up.
std::function<void(RawSocket&)> Endless(std::string head, std::string bytes) {
  return [=](RawSocket& s) {
    s.ReadHeader();
    s.Send(head);
    while (s.Send(bytes)) {
    }
  };
}
std::function<void(RawSocket&)> Once(std::string bytes) {
  return [=](RawSocket& s) {
    s.ReadHeader();
    s.Send(bytes);
  };
}

const std::vector<Hostile>& Hostiles() {
  static const std::vector<Hostile> hostiles = {
      {"Silent", [](RawSocket& s) { s.ReadAll(60'000); },
       "no answer within 200ms (waiting for the answer)", true},
      {"Drips",
       [](RawSocket& s) {
         s.ReadHeader();
         const std::string answer = Answer(std::string(1000, 'm'));
         for (const char ch : answer) {
           if (!s.Send({&ch, 1})) return;
           std::this_thread::sleep_for(std::chrono::milliseconds(2));
         }
       },
       "no answer within 200ms (reading the answer", true},
      {"EndlessHeader", Endless("HTTP/1.1 200 OK\r\n", "X-A: " + std::string(500, 'a') + "\r\n"),
       "header of the answer is larger", false, true},
      {"EndlessHeaderLine", Endless("HTTP/1.1 200 OK\r\nX: ", std::string(5000, 'a')),
       "header of the answer is larger", false, true},
      {"EndlessBody", Endless("HTTP/1.1 200 OK\r\n\r\n", std::string(65536, 'b')),
       "larger than 1000000 bytes", false, true},
      {"EndlessChunks",
       Endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
               "400\r\n" + std::string(1024, 'c') + "\r\n"),
       "larger than 1000000 bytes", false, true},
      {"EndlessChunkExtension",
       Endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", std::string(4096, 'e')),
       "header of the answer is larger", false, true},
      {"EndlessInterim", Endless("", "HTTP/1.1 100 Continue\r\n\r\n"), "HTTP status 100"},
      {"HugeLength", Once("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"),
       "larger than 1000000 bytes", false, true},
      {"GzipBomb", Once(Answer(Gzip(std::string(20 << 20, 'z'), 9), "Content-Encoding: gzip\r\n")),
       "more than 1000000 bytes come out", false, true},
      {"NotReallyGzip", Once(Answer("plain", "Content-Encoding: gzip\r\n")), "damaged"},
      {"OddEncoding", Once(Answer("plain", "Content-Encoding: br\r\n")),
       "Content-Encoding 'br' was not asked for"},
      {"WrongChunkSize",
       Once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdefgh\r\n0\r\n\r\n"),
       "not valid HTTP"},
      {"ChunkSizeOverflow",
       Once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc"),
       "not valid HTTP"},
      {"ClosesMidway", Once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
       "within the answer, after 4 bytes"},
      {"ClosesInHeader", Once("HTTP/1.1 200 OK\r\nContent-Le"), "within the answer, after 0 bytes"},
      {"ClosesAtOnce", [](RawSocket&) {}, "closed the connection without an answer"},
      {"Garbage", Once("\x01\x02\xff\xfe not http at all\r\n\r\n"), "not valid HTTP"},
      {"Ssh", Once("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "not valid HTTP"},
      {"TwoLengths", Once("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
       "not valid HTTP"},
      {"NotFound", Once("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
       "HTTP status 404 Not Found; is the path right?"},
      {"ServerError", Once("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), "HTTP status 500"},
      {"Redirects",
       Once("HTTP/1.1 302 Found\r\nLocation: http://other/\x1b[31m\r\nContent-Length: 0\r\n\r\n"),
       ""},
      {"WebPage",
       Once("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: "
            "6\r\n\r\n<html>"),
       "web page"},
  };
  return hostiles;
}

class HostileTarget : public ::testing::TestWithParam<size_t> {};

// Each hostile target fails for its own reason, and a good one beside it is scraped as if it were
// alone.
TEST_P(HostileTarget, HarmsOnlyItself) {
  const Hostile& hostile = Hostiles()[GetParam()];
  RawServer bad(hostile.serve);
  const auto good = HttpServer::Start({}, [](const Request&) {
    Response r;
    r.content_type = "text/plain";
    r.body = kBody;
    return r;
  });
  Collector c;
  ScraperOptions o = Fast();
  o.max_body_bytes = 1'000'000;
  if (hostile.timeout) o.timeout = 200 * kMicrosPerMilli;
  const auto scraper = StartScraper(o, &c);
  const std::string good_url = Local((*good)->port()), bad_url = Local(bad.port());
  scraper->SetTargets({{good_url, "", {}}, {bad_url, "", {}}});
  const TargetHealth h =
      WaitForHealth(*scraper, bad_url, [](const TargetHealth& t) { return t.failures >= 2; });
  EXPECT_EQ(h.failures, h.scrapes);
  EXPECT_EQ(h.last_success, 0);
  EXPECT_THAT(h.last_error, HasSubstr(hostile.error));
  EXPECT_EQ(h.last_error.find('\x1b'), std::string::npos);
  EXPECT_EQ(h.timeouts, hostile.timeout ? h.failures : 0u);
  EXPECT_EQ(h.oversized, hostile.oversized ? h.failures : 0u);
  EXPECT_EQ(c.Count(bad_url), 0u);
  const size_t before = c.Count(good_url);
  c.WaitForBodies(good_url, before + 3);
  if (!hostile.timeout) {
    EXPECT_EQ(HealthOf(*scraper, good_url).failures, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileTarget, ::testing::Range<size_t>(0, Hostiles().size()),
                         [](const auto& info) { return Hostiles()[info.param].name; });

TEST(Scraper, TakesALongLineAndManyChunks) {
  const std::string line(10 << 20, 'x');
  RawServer server([&](RawSocket& s) {
    for (;;) {
      if (s.ReadHeader().empty()) return;
      std::string out = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
      for (size_t at = 0; at < line.size(); at += 4096)
        out += "1000\r\n" + line.substr(at, 4096) + "\r\n";
      if (!s.Send(out + "0\r\n\r\n")) return;
    }
  });
  Collector c;
  ScraperOptions o = Fast();
  o.interval = kMicrosPerSecond;
  const auto scraper = StartScraper(o, &c);
  scraper->SetTargets({{Local(server.port()), "", {}}});
  c.WaitForBodies(Local(server.port()), 1);
  EXPECT_EQ(c.Last(Local(server.port())), line);
}

TEST(Scraper, SaysThatNothingListensAndBacksOff) {
  uint16_t port = 0;
  {
    port = RawServer([](RawSocket&) {}).port();
  }
  Collector c;
  ScraperOptions o = Fast();
  o.max_backoff = 80 * kMicrosPerMilli;
  const auto scraper = StartScraper(o, &c);
  const std::string url = Local(port);
  scraper->SetTargets({{url, "", {}}});
  const TargetHealth h =
      WaitForHealth(*scraper, url, [](const TargetHealth& t) { return t.failures >= 8; });
  EXPECT_EQ(h.state, TargetState::kBackOff);
  EXPECT_EQ(h.consecutive_failures, h.failures);
  EXPECT_EQ(h.last_error, "nothing is listening on 127.0.0.1:" + std::to_string(port));
  // Intervals of 10 ms: failures 3 to 8 wait 20, 40, 80, 80, 80 ms, a quarter more or less. The 2nd
  // tick after the 3rd failure is the first attempted: at least one tick is skipped there, two at
  // the next, and five at each after that.
  EXPECT_GE(h.skipped, 1u + 2u + 3 * 5u);
  EXPECT_EQ(scraper->stats().failures, h.failures);
  // The host is up, or nobody would have refused.
  EXPECT_GE(h.answered_at, h.last_failure_at - kMicrosPerSecond);
  EXPECT_THAT(scraper->Answering(), ElementsAre(Pair("127.0.0.1", Ge(h.answered_at))));
}

TEST(Scraper, RecoversAfterFailures) {
  std::atomic<bool> healthy{false};
  const auto server = HttpServer::Start({}, [&](const Request&) {
    Response r;
    r.content_type = "text/plain";
    r.status = healthy ? 200 : 503;
    r.body = kBody;
    return r;
  });
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  const std::string url = Local((*server)->port());
  scraper->SetTargets({{url, "", {}}});
  WaitForHealth(*scraper, url,
                [](const TargetHealth& t) { return t.state == TargetState::kBackOff; });
  EXPECT_THAT(scraper->Answering(), IsEmpty()) << "503 may be a proxy's word";
  healthy = true;
  const TargetHealth h = WaitForHealth(
      *scraper, url, [](const TargetHealth& t) { return t.state == TargetState::kUp; });
  EXPECT_EQ(h.consecutive_failures, 0u);
  EXPECT_EQ(h.last_error, "");
  EXPECT_GE(h.failures, 3u);
}

TEST(Scraper, AnAttemptLongerThanTheIntervalSkipsTicksAndNeverOverlaps) {
  std::atomic<int> running{0}, most{0};
  ServerOptions options;
  options.workers = 4;
  const auto server = HttpServer::Start(
      options, [](const Request&) { return std::optional<Response>(); },
      [&](const Request&) {
        most = std::max(most.load(), ++running);
        std::this_thread::sleep_for(std::chrono::milliseconds(35));
        --running;
        Response r;
        r.content_type = "text/plain";
        return r;
      });
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  const std::string url = Local((*server)->port());
  scraper->SetTargets({{url, "", {}}});
  const TargetHealth h =
      WaitForHealth(*scraper, url, [](const TargetHealth& t) { return t.scrapes >= 4; });
  EXPECT_EQ(most.load(), 1);
  EXPECT_EQ(h.failures, 0u) << h.last_error;
  EXPECT_GE(h.skipped, 3 * h.scrapes - 3);  // 35 ms cover three further ticks of 10 ms
}

TEST(Scraper, ReplacesTheListInFlight) {
  const auto server = HttpServer::Start({}, [](const Request& r) {
    Response out;
    out.content_type = "text/plain";
    out.body = r.path;
    return out;
  });
  Collector c;
  ScraperOptions o = Fast();
  o.threads = 2;
  const auto scraper = StartScraper(o, &c);
  const auto url = [&](const std::string& path) { return Local((*server)->port(), path); };
  scraper->SetTargets({{url("/a"), "node-a", {}}, {url("/b"), "", {}}, {url("/a"), "again", {}}});
  EXPECT_EQ(scraper->Health().size(), 2u);  // duplicates once, the first wins
  c.WaitForBodies(url("/a"), 2);
  c.WaitForBodies(url("/b"), 2);
  EXPECT_EQ(c.Node(url("/a")), "node-a");
  EXPECT_EQ(scraper->Target(0).url, url("/a"));
  EXPECT_EQ(scraper->Target(1).url, url("/b"));

  scraper->SetTargets({{url("/c"), "", {}}, {url("/a"), "renamed", {{"rack", "7"}}}});
  c.WaitForRemoved(1);
  EXPECT_THAT(c.removed(), ElementsAre(1));
  c.WaitForBodies(url("/c"), 2);
  // Known during the callback, forgotten once it has returned: the test may be woken in between.
  const Micros give_up = MonotonicNow() + 10 * kMicrosPerSecond;
  while (!scraper->Target(1).url.empty() && MonotonicNow() < give_up) std::this_thread::yield();
  EXPECT_EQ(scraper->Target(1).url, "");
  const size_t b = c.Count(url("/b"));
  c.WaitForBodies(url("/a"), c.Count(url("/a")) + 3);
  EXPECT_EQ(c.Count(url("/b")), b);  // no callback after OnRemoved
  EXPECT_EQ(c.Node(url("/a")), "renamed");
  const TargetHealth kept = HealthOf(*scraper, url("/a"));
  EXPECT_GE(kept.scrapes, 5u);  // health is kept
  EXPECT_THAT(kept.target.labels, ElementsAre(std::pair<std::string, std::string>("rack", "7")));

  scraper->SetTargets({});
  c.WaitForRemoved(3);
  EXPECT_EQ(scraper->stats().targets, 0u);
  EXPECT_EQ(scraper->stats().open_connections, 0u);
  EXPECT_EQ(scraper->stats().in_flight, 0u);
  scraper->SetTargets({{url("/d"), "", {}}});
  c.WaitForBodies(url("/d"), 1);
  // Indexes of removed targets are used again (index 2 is free as soon as its OnRemoved has
  // returned; the others were).
  EXPECT_LE(scraper->stats().targets, 1u);
  EXPECT_TRUE(scraper->Target(0).url == url("/d") || scraper->Target(1).url == url("/d") ||
              scraper->Target(2).url == url("/d"));
}

TEST(Scraper, TheSamePlaceWrittenTwiceIsOneTarget) {
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  scraper->SetTargets(
      {{"http://127.0.0.1:80/metrics", "", {}}, {"HTTP://127.0.0.1/metrics", "", {}}});
  EXPECT_EQ(scraper->Health().size(), 1u);
}

TEST(Scraper, ReportsBadUrlsAndUnknownNamesAsTheirOwnFailure) {
  Collector c;
  const auto scraper = StartScraper(Fast(), &c);
  scraper->SetTargets({{"gpu-node:9400", "", {}}, {"http://no-such-host.invalid/metrics", "", {}}});
  const auto failed = [](const TargetHealth& t) { return t.failures >= 1; };
  EXPECT_THAT(WaitForHealth(*scraper, "gpu-node:9400", failed).last_error,
              HasSubstr("expected http://host:port/path"));
  EXPECT_THAT(WaitForHealth(*scraper, "http://no-such-host.invalid/metrics", failed).last_error,
              HasSubstr("cannot resolve 'no-such-host.invalid'"));
}

TEST(Scraper, SpreadsTargetsOverTheInterval) {
  std::mutex mutex;
  std::vector<Micros> starts;
  const auto server = HttpServer::Start({}, [](const Request&) {
    Response r;
    r.content_type = "text/plain";
    return r;
  });
  ScraperOptions o;
  o.interval = kMicrosPerSecond;
  const auto scraper = Scraper::Start(
      o,
      [&](const ScrapeResult& r) {
        const std::lock_guard lock(mutex);
        starts.push_back(r.started);
      },
      nullptr);
  std::vector<ScrapeTarget> targets;
  for (int i = 0; i < 400; ++i)
    targets.push_back(
        {Local((*server)->port(), "/node/n" + std::to_string(i) + "/metrics"), "", {}});
  (*scraper)->SetTargets(targets);
  while ((*scraper)->stats().scrapes < 400)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::lock_guard lock(mutex);
  // By phase within the interval: each tenth of it gets about 40 of the 400 (binomial, sigma 6: 15
  // is beyond 4 sigma).
  std::map<Micros, int> per_tenth;
  for (size_t i = 0; i < 400 && i < starts.size(); ++i)
    per_tenth[(starts[i] % kMicrosPerSecond) / 100'000]++;
  EXPECT_EQ(per_tenth.size(), 10u);
  for (const auto& [tenth, n] : per_tenth) EXPECT_GE(n, 15) << tenth;
}

// 200 targets in another process, 180 files here; exits with 0 when all were scraped.
void ScrapeWithFewFiles() {
  int from_server[2];
  ASSERT_EQ(pipe(from_server), 0);
  const pid_t serving = fork();
  if (serving == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto server = HttpServer::Start({}, [](const Request&) {
      Response r;
      r.content_type = "text/plain";
      return r;
    });
    const uint16_t port = (*server)->port();
    if (write(from_server[1], &port, sizeof port) != sizeof port) _exit(1);
    for (;;) pause();
  }
  uint16_t port = 0;
  if (read(from_server[0], &port, sizeof port) != sizeof port) _exit(1);
  const rlimit limit{180, 180};
  setrlimit(RLIMIT_NOFILE, &limit);
  ScraperOptions o;
  o.interval = 500 * kMicrosPerMilli;
  std::set<std::string> seen;
  std::atomic<size_t> scraped{0};
  const auto scraper = Scraper::Start(
      o,
      [&](const ScrapeResult& r) {
        seen.insert(r.info->url);
        scraped = seen.size();
      },
      nullptr);
  std::vector<ScrapeTarget> targets;
  for (int i = 0; i < 200; ++i) targets.push_back({Local(port, "/" + std::to_string(i)), "", {}});
  (*scraper)->SetTargets(targets);
  while (scraped < 200) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // 180 are fewer than twice the reserve for the rest of the process: half of them are for targets.
  _exit((*scraper)->stats().connection_limit == 90 ? 0 : 1);
}

// In a process of its own: a hard limit cannot be raised again.
TEST(ScraperDeathTest, ScrapesMoreTargetsThanFilesMayBeOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ScrapeWithFewFiles(), ::testing::ExitedWithCode(0),
              "200 targets, but only 180 files may be open");
}

TEST(Scraper, RefusesNonsenseOptions) {
  ScraperOptions o;
  o.interval = 0;
  EXPECT_EQ(Scraper::Start(o, nullptr, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  o = {};
  o.tls.ca = "/nonexistent/ca.pem";
  EXPECT_EQ(Scraper::Start(o, nullptr, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Scraper, StopsWithManyAttemptsInFlight) {
  RawServer silent([](RawSocket& s) { s.ReadAll(60'000); });
  Collector c;
  auto scraper = StartScraper(Fast(), &c);
  std::vector<ScrapeTarget> targets;
  for (int i = 0; i < 200; ++i)
    targets.push_back({Local(silent.port(), "/" + std::to_string(i)), "", {}});
  scraper->SetTargets(targets);
  while (scraper->stats().in_flight < 50) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  scraper->SetTargets({});
  scraper->SetTargets(targets);
  scraper.reset();
}

}  // namespace
}  // namespace flopwatch::net
