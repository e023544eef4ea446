#include "simulate/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "net/http.h"
#include "net/raw_socket.h"
#include "simulate/fleet.h"

namespace flopwatch::simulate {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Served {
  std::unique_ptr<Fleet> fleet;
  std::unique_ptr<FleetServer> server;
  std::string url;
  net::FetchResult Get(const std::string& path) const {
    auto r = net::Fetch(url + path);
    EXPECT_TRUE(r.ok()) << r.status();
    return r.ok() ? *r : net::FetchResult{};
  }
};

Served Start(FleetOptions o, Pace pace, double speed = 1) {
  Served s;
  auto f = Fleet::Create(o);
  EXPECT_TRUE(f.ok()) << f.status();
  s.fleet = std::move(*f);
  ServeOptions options;
  options.pace = pace;
  options.speed = speed;
  auto server = FleetServer::Start(s.fleet.get(), options);
  EXPECT_TRUE(server.ok()) << server.status();
  s.server = std::move(*server);
  s.url = fmt::format("http://127.0.0.1:{}", s.server->port());
  return s;
}

FleetOptions SmallServed() {
  FleetOptions o;
  o.gpus = 24;
  o.duration = 10 * kMicrosPerMinute;
  o.faults = Faults::kNone;
  return o;
}

TEST(Serve, StepGivesEveryTickOnceAndThenGone) {
  Served s = Start(SmallServed(), Pace::kStep);
  for (int h = 0; h < s.fleet->hosts(); ++h) {
    const std::string path = "/node/" + s.fleet->HostName(h) + "/metrics";
    for (int64_t k = 0; k < s.fleet->Ticks(h); ++k) {
      net::FetchResult r = s.Get(path);
      ASSERT_EQ(r.status, 200);
      std::string expected;
      s.fleet->RenderHost(h, k, Stamps::kExplicit, &expected);
      ASSERT_EQ(r.body, expected);
    }
    EXPECT_FALSE(h + 1 < s.fleet->hosts() && s.server->done());
    EXPECT_EQ(s.Get(path).status, 410);
    EXPECT_EQ(s.Get(path).status, 410);
  }
  EXPECT_TRUE(s.server->done());
}

// dcgm-exporter is a Go program: chunks of 2 KiB, no length.
TEST(Serve, AHostIsSentInChunksAsGoDoes) {
  const Served s = Start(SmallServed(), Pace::kStep);
  std::string text;
  s.fleet->RenderHost(0, 0, Stamps::kExplicit, &text);
  ASSERT_GT(text.size(), 4096u);
  const std::string path = "/node/" + s.fleet->HostName(0) + "/metrics";
  const auto exchange = [&](const std::string& request) {
    testing_net::RawSocket socket = testing_net::RawSocket::Connect(s.server->port());
    EXPECT_TRUE(socket.Send(request));
    return socket.ReadAll();
  };
  const std::string raw = exchange("GET " + path + " HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(raw, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(raw, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(raw, EndsWith("\r\n\r\n" + testing_net::InChunks(text, 2048)));
  // A 1.0 client knows no chunks.
  text.clear();
  s.fleet->RenderHost(0, 1, Stamps::kExplicit, &text);
  EXPECT_THAT(exchange("GET " + path + " HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\n" + text));
}

TEST(Serve, StepPassesOverTicksWithoutAnswer) {
  FleetOptions o = SmallServed();
  o.gpus = 64;
  o.duration = 4 * kMicrosPerHour;
  o.faults = Faults::kTelemetry;
  Served s = Start(o, Pace::kStep);
  int64_t answered = 0, expected = 0;
  for (int h = 0; h < s.fleet->hosts(); ++h) {
    std::string text;
    for (int64_t k = 0; k < s.fleet->Ticks(h); ++k)
      expected += s.fleet->RenderHost(h, k, Stamps::kExplicit, &text) == Answer::kOk;
    while (true) {
      net::FetchResult r = s.Get("/node/" + s.fleet->HostName(h) + "/metrics");
      if (r.status == 410) break;
      ASSERT_EQ(r.status, 200);
      ++answered;
    }
  }
  EXPECT_EQ(answered, expected);
}

TEST(Serve, RealTimeGivesTheLastTickWithoutTimestamps) {
  FleetOptions o = SmallServed();
  o.duration = kMicrosPerHour;
  o.start = FloorTo(Now(), kMicrosPerSecond) - 5 * kMicrosPerMinute;
  o.gpus = 400;
  o.interval = 4 * kMicrosPerMinute;  // one tick has passed, the next is minutes away
  Served s = Start(o, Pace::kRealTime);
  int host = 0;
  auto settled = [&](int h) {
    return s.fleet->TickAt(h, Now()) == 0 && s.fleet->TickAt(h, Now() + kMicrosPerMinute / 2) == 0;
  };
  while (!settled(host)) ASSERT_LT(++host, s.fleet->hosts());
  net::FetchResult r = s.Get("/node/" + s.fleet->HostName(host) + "/metrics");
  ASSERT_EQ(r.status, 200);
  std::string expected;
  s.fleet->RenderHost(host, 0, Stamps::kNone, &expected);
  EXPECT_EQ(r.body, expected);
  EXPECT_EQ(r.Header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
}

TEST(Serve, AcceleratedTimeEndsWith410) {
  FleetOptions o = SmallServed();
  Served s = Start(o, Pace::kAccelerated, 1e9);  // over at once
  EXPECT_EQ(s.Get("/node/" + s.fleet->HostName(0) + "/metrics").status, 410);
  EXPECT_FALSE(FleetServer::Start(s.fleet.get(), {.pace = Pace::kAccelerated, .speed = 0}).ok());
}

// One target for all applications, as a gateway they push to would be.
TEST(Serve, ApplicationsAreATargetOfTheirOwn) {
  FleetOptions o = SmallServed();
  o.preset = Preset::kLlm;
  o.gpus = 512;
  o.duration = 6 * kMicrosPerHour;
  o.start = FloorTo(Now(), kMicrosPerSecond) - 3 * kMicrosPerHour;
  Served s = Start(o, Pace::kRealTime);
  const boost::json::value targets = boost::json::parse(s.Get("/targets").body);
  ASSERT_EQ(targets.as_array().size(), static_cast<size_t>(s.fleet->hosts()) + 1);
  EXPECT_EQ(targets.as_array().back().at("labels").at("__metrics_path__").as_string(),
            "/applications/metrics");
  EXPECT_NE(s.Get("/targets.txt").body.find(s.url + "/applications/metrics\n"), std::string::npos);
  const auto answer = s.Get("/applications/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\nflopwatch_app_mfu{job_id=\""), std::string::npos);
}

TEST(Serve, ListsTargetsJobsAndTruth) {
  Served s = Start(SmallServed(), Pace::kStep);
  boost::json::value targets = boost::json::parse(s.Get("/targets").body);
  ASSERT_EQ(targets.as_array().size(), static_cast<size_t>(s.fleet->hosts()));
  const auto& first = targets.as_array()[0];
  EXPECT_EQ(first.at("targets").at(0).as_string(), s.url.substr(7));
  EXPECT_EQ(first.at("labels").at("__metrics_path__").as_string(),
            "/node/" + s.fleet->HostName(0) + "/metrics");
  EXPECT_EQ(s.Get("/targets.txt").body.substr(0, s.url.size() + 6), s.url + "/node/");
  EXPECT_EQ(s.Get("/jobs.csv").body, s.fleet->AssignmentsCsv());
  boost::json::value truth = boost::json::parse(s.Get("/truth").body);
  EXPECT_EQ(truth.at("window").at("from").as_string(), FormatTime(s.fleet->options().start));
  EXPECT_EQ(truth.at("window").at("to").as_string(),
            FormatTime(s.fleet->options().start + s.fleet->options().duration));
  EXPECT_EQ(s.Get("/applications/metrics").status, 404);  // not step by step
  EXPECT_EQ(s.Get("/truth?from=nonsense").status, 400);
  EXPECT_EQ(s.Get("/").status, 200);
  EXPECT_EQ(s.Get("/nothing").status, 404);
  EXPECT_EQ(s.Get("/node/nobody/metrics").status, 404);
  EXPECT_EQ(s.Get("/node/alder-r00-n000").status, 404);
}

}  // namespace
}  // namespace flopwatch::simulate
