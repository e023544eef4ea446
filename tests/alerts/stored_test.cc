// What is stored says the same: a replay of the rows of a live run gives its alerts, and what only
// a store knows is asked of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "alerts/judge.h"
#include "alerts/replay.h"
#include "fixtures/own_directory.h"
#include "live_fleet.h"
#include "store/store.h"

namespace flopwatch::alerts {
namespace {

using telemetry::ApplicationField;

class StoredAlerts : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = test::OwnDirectory();
    auto opened = store::OpenDuckDbStore({.directory = directory_.string()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    fleet_ = std::make_unique<LiveFleet>(2, 4, ShippedRules(), store_.get());
  }
  void TearDown() override {
    fleet_.reset();
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  // Who fired, rule by rule, and when to the minute.
  static std::set<std::string> Told(const std::vector<Alert>& alerts) {
    std::set<std::string> out;
    for (const Alert& a : alerts)
      for (const std::string& gpu : a.subject.gpus)
        out.insert(fmt::format("{} {} {}", a.rule, gpu, (a.since - kT0) / kMicrosPerMinute));
    return out;
  }
  // Job 7 reports this MFU once a minute, from `first` seconds on until now.
  void Report(double mfu, int64_t first) {
    telemetry::ApplicationClaim claim;
    claim.id = ++claims_;
    claim.job = "7";
    claim.convention = "megatron";
    claim.precision = "bf16";
    claim.peak_tflops = 989;
    claim.first_seen = At(first);
    ASSERT_TRUE(store_->PutClaims(absl::MakeConstSpan(&claim, 1)).ok());
    std::vector<telemetry::ApplicationSample> samples;
    for (Micros ts = At(first) + kMicrosPerMinute; ts <= fleet_->now(); ts += kMicrosPerMinute) {
      telemetry::ApplicationSample& s = samples.emplace_back();
      s.ts = ts;
      s.claim = claim.id;
      s.span_ms = 60'000;
      s[ApplicationField::kMfu] = mfu;
    }
    ASSERT_TRUE(store_->AppendApplication(samples, fleet_->now()).ok());
  }
  std::vector<Alert> Live() {
    std::vector<Alert> out;
    for (const Alert* a : fleet_->engine().Alerts(true)) out.push_back(*a);
    return out;
  }
  // Of all that was flushed.
  Replayed ReplayAll() {
    const query::Query query(&fleet_->memory(), store_.get());
    ReplayOptions options;
    options.engine.grace = 0;
    options.window = {kT0, fleet_->now() + 1};
    auto replayed = Replay(query, options);
    EXPECT_TRUE(replayed.ok()) << replayed.status();
    return replayed.ok() ? *std::move(replayed) : Replayed();
  }
  // What is known of job 7 now.
  Verdict Judged() {
    fleet_->Flush();
    EXPECT_TRUE(store_->RollUp().ok());
    const query::Query query(&fleet_->memory(), store_.get());
    Judge judge(&query, fleet_->engine().rules());
    Verdicts verdicts;
    const Status status = judge.At(fleet_->now() + kJudgedLag, &verdicts);
    EXPECT_TRUE(status.ok()) << status;
    return verdicts.contains("7") ? verdicts.at("7") : Verdict();
  }

  std::filesystem::path directory_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<LiveFleet> fleet_;
  int claims_ = 0;
};

TEST_F(StoredAlerts, AReplaySaysWhatTheLiveRunSaid) {
  LiveFleet& fleet = *fleet_;
  fleet.Go(30 * kMinute);
  fleet[2].duty = 0;  // dead, beside SMs that work
  fleet[5] = {.tensor = 0, .sm = 0, .duty = 0, .clock = 345, .power = 70};
  fleet.Go(kHour);
  fleet[1].xid = 94;
  fleet[3].throttle = 0x88;
  fleet.Go(kHour);
  fleet.Flush();
  const Replayed replayed = ReplayAll();
  EXPECT_EQ(replayed.rows, 2u * 4 * (150 * 60) / LiveFleet::kInterval);
  EXPECT_EQ(Told(replayed.alerts), Told(Live()));
  // Not of nothing, and by counters that are judged.
  std::map<std::string, int> rules;
  for (const Alert& a : replayed.alerts) ++rules[a.rule];
  for (const char* rule :
       {"gpu_counter_fault", "gpu_idle_held", "gpu_xid_hardware", "gpu_power_brake"})
    EXPECT_EQ(rules[rule], 1) << rule;
}

// That a host answered is kept with what it was asked for: a replay knows it too.
TEST_F(StoredAlerts, AReplayKnowsWhoAnswered) {
  LiveFleet& fleet = *fleet_;
  HostAnswers hosts = {{"n1.of.some.domain", 0}, {"n1.of.some.domain", 1}};
  fleet.look().SetAnswers([&] {
    for (auto& [host, at] : hosts) at = fleet.now() - 5 * kMicrosPerSecond;
    fleet.Keep(hosts);
    return AnswersByNode(hosts);
  });
  fleet.Go(30 * kMinute);
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.Go(10 * kMinute);
  fleet.All({});
  fleet.Go(10 * kMinute);
  hosts.clear();  // nor does its host answer now
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.Go(10 * kMinute);
  fleet.Flush();
  std::map<std::string, int> rules;
  for (const Alert& a : Live()) ++rules[a.rule];
  EXPECT_EQ(rules["exporter_lost"], 1);
  EXPECT_EQ(rules["node_silent"], 1);
  EXPECT_EQ(Told(ReplayAll().alerts), Told(Live()));
}

TEST_F(StoredAlerts, AnMfuThatTheGpusDoNotShowIsFlagged) {
  fleet_->Go(2 * kHour);
  // Tensor activity .4005 at 1,700 of 1,755 MHz (H100 SXM: the highest clock of its tensor cores).
  const double ofu = .4005 * 1700 / 1755;
  Report(1.75 * ofu, 30 * kMinute);
  const Verdict v = Judged();
  EXPECT_EQ(v.divergence_flagged, 1);
  EXPECT_NEAR(v.divergence, .75 * ofu, .05);  // less what a healthy job shows
  EXPECT_GT(v.divergence_excess, .1);
}

TEST_F(StoredAlerts, AnMfuThatTheyShowIsNot) {
  fleet_->Go(2 * kHour);
  Report(.96 * .4005 * 1700 / 1755, 30 * kMinute);  // padding of tiles is no model FLOPs
  const Verdict v = Judged();
  EXPECT_EQ(v.divergence_flagged, 0);
  EXPECT_LT(std::abs(v.divergence), .05);
}

TEST_F(StoredAlerts, LessThanHalfAnHourOfReportsIsNotJudged) {
  fleet_->Go(2 * kHour);
  Report(.7, 2 * kHour - 20 * kMinute);
  const Verdict v = Judged();
  EXPECT_NE(v.divergence_flagged, 1);
}

}  // namespace
}  // namespace flopwatch::alerts
