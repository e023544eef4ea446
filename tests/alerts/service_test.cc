// Rounds, state and receivers of a running server, against an HTTP server that takes, refuses,
// fails.
#include "alerts/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "live_fleet.h"
#include "net/http.h"

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

template <typename F>
bool Until(F&& f) {
  for (int k = 0; k < 2000; ++k) {
    if (f()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// What was posted, and what is answered.
class Sink {
 public:
  Sink() {
    auto server = net::HttpServer::Start(
        net::ServerOptions(),
        [](const net::Request&) -> std::optional<net::Response> { return std::nullopt; },
        [this](const net::Request& r) {
          const MutexLock lock(mutex_);
          bodies_.push_back(r.body);
          keys_.emplace_back(r.Header("idempotency-key").value_or(""));
          net::Response answer;
          answer.status = status_;
          return answer;
        });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Answer(int status) {
    const MutexLock lock(mutex_);
    status_ = status;
  }
  std::vector<std::string> keys() const {
    const MutexLock lock(mutex_);
    return keys_;
  }
  std::vector<std::string> bodies() const {
    const MutexLock lock(mutex_);
    return bodies_;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

 private:
  mutable Mutex mutex_;
  int status_ FW_GUARDED_BY(mutex_) = 200;
  std::vector<std::string> bodies_ FW_GUARDED_BY(mutex_), keys_ FW_GUARDED_BY(mutex_);
  std::unique_ptr<net::HttpServer> server_;
};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() : fleet_(1, 4) {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("alerts-" + std::to_string(MonotonicNow()));
    std::filesystem::create_directories(folder_);
    fleet_.Go(60);
  }
  ~ServiceTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Service> Start(std::string kind, std::string url) {
    ServiceOptions options;
    options.rules = RulesOf(
        "[rules.hot]\nscope = \"gpu\"\ngroup = \"gpu\"\nwhen = \"gpu_temp_c > 90\"\n"
        "keep_firing = \"0s\"\nsummary = \"{gpus} is hot\"\n");
    options.engine.grace = 0;
    options.receivers = {{.kind = std::move(kind), .url = std::move(url)}};
    options.interval = kMicrosPerHour;  // rounds are the test's
    options.state_file = folder_ / "alerts.json";
    options.clock = [this] { return fleet_.now(); };
    auto service = Service::Start(options, &fleet_.memory());
    EXPECT_TRUE(service.ok()) << service.status();
    return service.ok() ? *std::move(service) : nullptr;
  }
  void Heat(int gpu, double degrees) {
    fleet_[gpu].temperature = degrees;
    fleet_.Go(15);
  }

  LiveFleet fleet_;
  std::filesystem::path folder_;
  Sink sink_;
};

TEST_F(ServiceTest, WebhookHasKeyEventAndAlert) {
  auto service = Start("webhook", sink_.url() + "/hook");
  Heat(1, 95);
  service->RunOnce();
  ASSERT_TRUE(Until([&] { return sink_.keys().size() == 1; }));
  Heat(1, 50);
  service->RunOnce();
  ASSERT_TRUE(Until([&] { return sink_.keys().size() == 2; }));
  const auto first = Json::Parse(sink_.bodies()[0]), second = Json::Parse(sink_.bodies()[1]);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)["event"].text(), "firing");
  EXPECT_EQ((*first)["alert"]["subject"]["gpus"].array()[0].text(), "GPU-00000001");
  EXPECT_EQ((*first)["key"].text(), sink_.keys()[0]);
  EXPECT_EQ((*first)["key"].text(), (*first)["alert"]["id"].text() + ":firing");
  EXPECT_EQ((*second)["event"].text(), "resolved");
  ASSERT_TRUE(Until([&] { return service->stats().outbox == 0; }));
  EXPECT_EQ(service->stats().receivers[0].sent, 2u);
}

TEST_F(ServiceTest, AReceiverThatIsAwayHasAllLaterInOrder) {
  sink_.Answer(500);
  auto service = Start("webhook", sink_.url());
  for (int gpu = 0; gpu < 3; ++gpu) {
    Heat(gpu, 95);
    service->RunOnce();
  }
  ASSERT_TRUE(Until([&] { return service->stats().receivers[0].failed >= 1; }));
  EXPECT_THAT(service->stats().receivers[0].last_error, HasSubstr("answered 500"));
  EXPECT_EQ(service->stats().receivers[0].queued, 3u);
  sink_.Answer(200);
  ASSERT_TRUE(Until([&] { return service->stats().outbox == 0; }));
  const std::vector<std::string> keys = sink_.keys();
  EXPECT_EQ(service->stats().receivers[0].sent, 3u);
  EXPECT_NE(keys[keys.size() - 1], keys[keys.size() - 2]);
  EXPECT_EQ(keys[0], keys[keys.size() - 3]) << "the first came first, under the same key";
}

TEST_F(ServiceTest, WhatIsRefusedDoesNotStandBeforeTheRest) {
  sink_.Answer(400);
  auto service = Start("webhook", sink_.url());
  Heat(0, 95);
  service->RunOnce();
  ASSERT_TRUE(Until([&] { return service->stats().outbox == 0; }));
  EXPECT_EQ(service->stats().receivers[0].refused, 1u);
  EXPECT_THAT(service->stats().receivers[0].last_error, HasSubstr("refused with 400"));
}

TEST_F(ServiceTest, NothingIsForgottenOverAStart) {
  sink_.Answer(503);
  auto service = Start("webhook", sink_.url());
  alerts::Silence silence{.matchers = {{"gpu", "GPU-00000002", false}}, .owner = "ann"};
  silence.from = fleet_.now();
  silence.until = fleet_.now() + kMicrosPerHour;
  ASSERT_TRUE(service->Silence(silence).ok());
  Heat(0, 95);
  Heat(2, 95);
  service->RunOnce();
  const std::vector<Alert> before = service->Alerts(false);
  ASSERT_THAT(before, SizeIs(2));
  service.reset();
  sink_.Answer(200);
  service = Start("webhook", sink_.url());
  ASSERT_THAT(service->Alerts(false), SizeIs(2));
  EXPECT_EQ(service->Alerts(false)[0].id, before[0].id);
  service->RunOnce();
  ASSERT_TRUE(Until([&] { return service->stats().outbox == 0; }));
  EXPECT_EQ(sink_.keys().back(), sink_.keys().front()) << "one key, however often it was tried";
  EXPECT_THAT(service->Silences(), SizeIs(1));
}

TEST_F(ServiceTest, ADamagedStateIsNamedAndLeftAlone) {
  const std::string file = folder_ / "alerts.json";
  ASSERT_TRUE(WriteFileAtomically(file, "{\"version\": 1,").ok());
  ServiceOptions options;
  options.state_file = file;
  const auto service = Service::Start(options, &fleet_.memory());
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(std::string(MessageOf(service.status())), HasSubstr(file));
  EXPECT_EQ(*ReadFile(file, 100), "{\"version\": 1,");
}

// What is acknowledged is on disk.
TEST_F(ServiceTest, ASilenceThatCannotBeKeptIsNotAcknowledged) {
  auto service = Start("webhook", sink_.url());
  std::filesystem::remove_all(folder_);
  alerts::Silence silence{.matchers = {{"gpu", "x", false}}, .owner = "ann"};
  silence.from = fleet_.now();
  silence.until = fleet_.now() + kMicrosPerHour;
  const auto id = service->Silence(silence);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kUnavailable) << id.status();
  EXPECT_GE(service->stats().state_errors, 1u);
  std::filesystem::create_directories(folder_);
}

TEST_F(ServiceTest, AlertmanagerIsAskedAsItReads) {
  auto service = Start("alertmanager", sink_.url() + "/prefix/");
  Heat(1, 95);
  service->RunOnce();
  ASSERT_TRUE(Until([&] { return sink_.bodies().size() == 1; }));
  const auto body = Json::Parse(sink_.bodies()[0]);
  ASSERT_TRUE(body.ok());
  const Json& one = body->array()[0];
  EXPECT_EQ(one["labels"]["alertname"].text(), "hot");
  EXPECT_EQ(one["labels"]["job"].text(), "7");
  EXPECT_EQ(one["annotations"]["summary"].text(), "GPU-00000001 is hot");
  EXPECT_THAT(one["startsAt"].text(), HasSubstr("2026-11-01T"));
}

TEST(Receivers, ErrorsSuggest) {
  const auto error = [](std::string kind, std::string url) {
    return std::string(MessageOf(MakeReceiver({.kind = kind, .url = url}).status()));
  };
  EXPECT_THAT(error("alertmanger", "http://x"), HasSubstr("did you mean alertmanager?"));
  EXPECT_THAT(error("webhook", "x:9"), HasSubstr("begins with http"));
}

}  // namespace
}  // namespace flopwatch::alerts
