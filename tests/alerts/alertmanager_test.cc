// A real Alertmanager (tools/alertmanager) takes, groups, silences and resolves what it is sent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "alerts/notify.h"
#include "base/json_read.h"
#include "base/subprocess.h"
#include "net/http.h"

namespace flopwatch::alerts {
namespace {

class RealAlertmanager : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = (std::filesystem::temp_directory_path() /
            ("flopwatch_alertmanager_" + std::to_string(MonotonicNow())))
               .string();
    const auto started = RunProgram({kTool, "start", dir_}, {}, {60 * kMicrosPerSecond});
    if (std::string(started.status().message()).find("no Alertmanager here") != std::string::npos)
      GTEST_SKIP() << started.status();
    ASSERT_TRUE(started.ok()) << started.status();
    url_ = started->out.substr(0, started->out.find('\n'));
    ReceiverOptions options;
    options.kind = "alertmanager";
    options.url = url_;
    receiver_ = *MakeReceiver(options);
  }
  void TearDown() override {
    if (receiver_ != nullptr) (void)RunProgram({kTool, "stop", dir_}, {}, {});
  }

  Json Get(const std::string& path) {
    const auto answer = net::Fetch(url_ + path);
    return answer.ok() ? *Json::Parse(answer->body) : Json();
  }
  static Transition Firing(const std::string& id, const std::string& job) {
    Transition t;
    t.alert.id = id;
    t.alert.rule = "gpu_xid";
    t.alert.severity = Severity::kPage;
    t.alert.state = AlertState::kFiring;
    t.alert.since = t.alert.fired = Now() - kMicrosPerMinute;
    t.alert.summary = "XID 94";
    t.alert.subject.job = job;
    t.alert.subject.nodes = {"n1"};
    t.key = id + ":firing";
    return t;
  }

  static constexpr const char* kTool = FLOPWATCH_SOURCE_DIR "/tools/alertmanager";
  std::string dir_, url_;
  std::unique_ptr<Receiver> receiver_;
};

TEST_F(RealAlertmanager, ShowsGroupsSilencesAndResolves) {
  std::vector<Transition> fired = {Firing("a", "1"), Firing("b", "1"), Firing("c", "2")};
  ASSERT_TRUE(receiver_->Send(fired, {}).ok());
  EXPECT_EQ(Get("/api/v2/alerts").array().size(), 3u);
  EXPECT_EQ(Get("/api/v2/alerts/groups").array().size(), 2u) << "one for each job";

  // A new process of ours, and the alert has gained a node: it is still the same alert.
  ReceiverOptions options;
  options.kind = "alertmanager";
  options.url = url_;
  receiver_ = *MakeReceiver(options);
  fired[0].alert.subject.nodes = {"n1", "n2"};
  ASSERT_TRUE(receiver_->Refresh({&fired[0].alert, 1}, {}).ok());
  EXPECT_EQ(Get("/api/v2/alerts").array().size(), 3u);

  net::FetchOptions post;
  post.method = "POST";
  post.headers = {{"Content-Type", "application/json"}};
  post.body = R"({"matchers":[{"name":"job","value":"2","isRegex":false,"isEqual":true}],)"
              R"("startsAt":")" +
              FormatTime(Now()) + R"(","endsAt":")" + FormatTime(Now() + kMicrosPerHour) +
              R"(","createdBy":"ada","comment":"x"})";
  EXPECT_EQ(net::Fetch(url_ + "/api/v2/silences", post)->status, 200);
  EXPECT_EQ(Get("/api/v2/silences").array().size(), 1u);
  EXPECT_EQ(Get("/api/v2/alerts?silenced=false").array().size(), 2u);

  fired[0].alert.state = AlertState::kResolved;
  fired[0].alert.until = Now();
  ASSERT_TRUE(receiver_->Send({fired.data(), 1}, {}).ok());
  const Json left = Get("/api/v2/alerts");
  ASSERT_EQ(left.array().size(), 2u);
  for (const Json& alert : left.array()) EXPECT_NE(alert["labels"]["flopwatch_id"].text(), "a");
}

}  // namespace
}  // namespace flopwatch::alerts
