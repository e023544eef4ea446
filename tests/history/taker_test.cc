// History into what is live: once, beside it, and without replacing what it says of now.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "history/intake.h"
#include "store/store.h"

namespace flopwatch::history {
namespace {

using store::Window;
using telemetry::MetricSeries;

constexpr Micros kNow = 1'795'000'000 * kMicrosPerSecond;
constexpr Micros kThen = 1'794'909'600 * kMicrosPerSecond;  // the day before, 10:00 UTC
constexpr char kUuid[] = "GPU-1";

class TakerTest : public testing::Test {
 protected:
  TakerTest()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   fmt::format("taker-{}", ::getpid())) {
    std::filesystem::remove_all(directory_);
    store::Options options;
    options.directory = directory_.string();
    store_ = store::OpenDuckDbStore(options).value();
    ingest::PipelineOptions pipeline;
    pipeline.clock = [this] { return now_; };
    side_ = ingest::IngestSide::Start(pipeline, &catalog_, store_.get()).value();
  }
  ~TakerTest() override {
    side_.reset();
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  // One GPU, its tensor activity and clock every 30 s of the hour.
  static void Fill(Taker* taker, Micros hour, std::string_view node) {
    MetricSeries series;
    for (const auto& [name, value] :
         {std::pair("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.5), {"DCGM_FI_DEV_SM_CLOCK", 1410.0}}) {
      series.Clear();
      series.points.clear();
      series.name = name;
      for (const auto& label : {std::pair<std::string_view, std::string_view>("UUID", kUuid),
                                {"gpu", "0"},
                                {"Hostname", node},
                                {"modelName", "NVIDIA A100-SXM4-80GB"},
                                {"hpc_job", "17"},
                                {"instance", "exporter:9400"}})
        series.labels.push_back(label);
      for (Micros t = hour + kMicrosPerSecond; t <= hour + kMicrosPerHour;
           t += 30 * kMicrosPerSecond)
        series.points.push_back({t, value});
      taker->Add(series);
    }
  }
  StatusOr<Taken> Take(Intake* intake, std::string session, bool first, Micros hour) {
    return intake->Take(
        {.session = std::move(session), .first = first, .window = {hour, hour + kMicrosPerHour}},
        [&](Taker* taker) {
          Fill(taker, hour, "then");
          return absl::OkStatus();
        });
  }
  void ScrapeNow(std::string_view node) {
    const std::string body = fmt::format(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{UUID=\"{0}\",gpu=\"0\",Hostname=\"{1}\",modelName="
        "\"NVIDIA A100-SXM4-80GB\"}} 0.25\n"
        "DCGM_FI_DEV_SM_CLOCK{{UUID=\"{0}\",gpu=\"0\",Hostname=\"{1}\",modelName=\"NVIDIA "
        "A100-SXM4-80GB\"}} 1410\n",
        kUuid, node);
    side_->pipeline.Ingest({"http://now:9400/metrics", node}, body, now_, 0);
  }

  const hardware::Catalog& catalog_ = hardware::Catalog::Builtin();
  const std::filesystem::path directory_;
  Micros now_ = kNow;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<ingest::IngestSide> side_;
};

TEST_F(TakerTest, WhatIsLiveStaysWhatItIs) {
  ScrapeNow("now");
  now_ += 10 * kMicrosPerSecond;
  ScrapeNow("now");
  const int32_t gpu = side_->registry.FindEntity(kUuid);
  const auto intake = std::make_unique<Intake>(side_.get(), store_.get(), [this] { return now_; });
  const auto taken = Take(intake.get(), "one", true, kThen);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->rows, 120u);
  EXPECT_EQ(taken->known, 0u);
  ASSERT_TRUE(intake->End("one").ok());
  // The GPU has moved since: where it is now is what counts, for whoever assigns jobs to slots too.
  EXPECT_EQ(side_->registry.FindEntity(kUuid), gpu);
  EXPECT_EQ(side_->registry.entity(gpu)->labels.node, "now");
  EXPECT_EQ(side_->registry.entity(gpu)->first_seen, kThen + kMicrosPerSecond);
  now_ += 10 * kMicrosPerSecond;
  ScrapeNow("now");
  ASSERT_TRUE(side_->pipeline.Flush().ok());
  // Job 17 held it then, by the history's labels, and nobody does now.
  const auto held = side_->jobs.Intervals(kThen, kNow + kMicrosPerMinute);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_LE(held[0].to, kThen + kMicrosPerHour);
  EXPECT_NEAR(static_cast<double>(held[0].to - held[0].from), 3570e6, 31e6);
}

TEST_F(TakerTest, TheSameAgainAddsNothing) {
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  ASSERT_EQ(Take(&intake, "one", true, kThen)->rows, 120u);
  ASSERT_EQ(Take(&intake, "one", false, kThen + kMicrosPerHour)->rows, 120u);
  ASSERT_TRUE(intake.End("one").ok());
  for (const Micros hour : {kThen, kThen + kMicrosPerHour}) {
    const auto again = Take(&intake, "two", hour == kThen, hour);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->rows, 0u);
    EXPECT_EQ(again->known, 120u);
  }
}

// A pod with two of its node's four GPUs, which no label names: the books count them, once, however
// often and in whatever pieces it is imported.
TEST_F(TakerTest, APodWithAPartOfItsNodeIsInTheBooks) {
  const auto fill = [](Taker* taker, Micros hour) {
    Fill(taker, hour, "then");
    const auto add = [&](std::string_view name, double value,
                         std::vector<std::pair<std::string_view, std::string_view>> labels) {
      MetricSeries series;
      series.name = name;
      series.labels = std::move(labels);
      for (Micros t = hour; t <= hour + kMicrosPerHour; t += 60 * kMicrosPerSecond)
        series.points.push_back({t, value});
      taker->Add(series);
    };
    add("kube_pod_container_resource_requests", 2,
        {{"namespace", "ml"},
         {"pod", "part"},
         {"container", "main"},
         {"node", "then"},
         {"resource", "nvidia_com_gpu"}});
    add("kube_pod_status_phase", 1, {{"namespace", "ml"}, {"pod", "part"}, {"phase", "Running"}});
    add("kube_node_status_capacity", 4, {{"node", "then"}, {"resource", "nvidia_com_gpu"}});
    return absl::OkStatus();
  };
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  const auto take = [&](std::string session, bool first, Micros hour) {
    const auto taken = intake.Take(
        {.session = std::move(session), .first = first, .window = {hour, hour + kMicrosPerHour}},
        [&](Taker* taker) { return fill(taker, hour); });
    ASSERT_TRUE(taken.ok()) << taken.status();
  };
  const auto attempts = [&] { return store_->LoadDimensions().value().attempts; };
  take("one", true, kThen);
  ASSERT_EQ(attempts().size(), 1u);
  const jobs::AttemptRecord a = attempts()[0];
  EXPECT_EQ(a.job, "ml/part");
  EXPECT_EQ(a.gpus, 2);
  EXPECT_EQ(a.nodes, "then");
  EXPECT_EQ(a.start, kThen - 30 * kMicrosPerSecond);
  EXPECT_EQ(a.end, kThen + kMicrosPerHour + 30 * kMicrosPerSecond);
  EXPECT_FALSE(a.placed);
  take("one", false, kThen + kMicrosPerHour);
  for (const char* session : {"again", "only the second hour"}) {
    ASSERT_TRUE(intake.End("one").ok());
    const bool whole = session == std::string("again");
    if (whole) take(session, true, kThen);
    take(session, !whole, kThen + kMicrosPerHour);
    ASSERT_TRUE(intake.End(session).ok());
    ASSERT_EQ(attempts().size(), 1u) << session;
    EXPECT_EQ(attempts()[0].start, a.start) << session;
    EXPECT_EQ(attempts()[0].end, a.end + kMicrosPerHour) << session;
  }
}

// A window in parts: owners first, then exporter by exporter. What is said of owners counts for all
// of them, pods are told of once, and the same in other parts adds nothing.
TEST_F(TakerTest, AWindowInParts) {
  const auto add = [](Taker* taker, const char* name, double value,
                      std::vector<std::pair<std::string_view, std::string_view>> labels) {
    MetricSeries series;
    series.name = name;
    series.labels.assign(labels.begin(), labels.end());
    for (Micros t = kThen; t <= kThen + kMicrosPerHour; t += kMicrosPerMinute)
      series.points.push_back({t, value});
    taker->Add(series);
  };
  const auto owners = [&](Taker* taker) {
    for (const auto& [pod, node] : {std::pair("whole", "a"), {"part", "b"}}) {
      add(taker, "kube_pod_container_resource_requests", 1,
          {{"namespace", "ml"},
           {"pod", pod},
           {"container", "main"},
           {"node", node},
           {"resource", "nvidia_com_gpu"}});
      add(taker, "kube_pod_status_phase", 1,
          {{"namespace", "ml"}, {"pod", pod}, {"phase", "Running"}});
    }
    return absl::OkStatus();
  };
  const auto gpus = [&](Taker* taker, std::string_view node, int n) {
    for (int k = 0; k < n; ++k) {
      const std::string uuid = fmt::format("GPU-{}{}", node, k), gpu = fmt::format("{}", k),
                        instance = fmt::format("{}:9400", node);
      for (const auto& [name, value] :
           {std::pair("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.5), {"DCGM_FI_DEV_SM_CLOCK", 1410.0}}) {
        add(taker, name, value,
            {{"UUID", uuid},
             {"gpu", gpu},
             {"Hostname", node},
             {"modelName", "NVIDIA A100-SXM4-80GB"},
             {"instance", instance}});
      }
    }
    return absl::OkStatus();
  };
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  const Window window = {kThen, kThen + kMicrosPerHour};
  const auto take = [&](std::string session, bool first, bool more, auto fill) {
    const auto taken = intake.Take(
        {.session = std::move(session), .first = first, .more = more, .window = window}, fill);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? taken->rows : 0;
  };
  EXPECT_EQ(take("one", true, true, owners), 0u);
  EXPECT_EQ(take("one", false, true, [&](Taker* t) { return gpus(t, "a", 1); }), 60u);
  EXPECT_TRUE(store_->LoadDimensions().value().attempts.empty());  // not yet
  // Another window before this one is over would be looked up nowhere.
  EXPECT_TRUE(absl::IsInvalidArgument(
      intake
          .Take({.session = "one", .window = {window.to, window.to + kMicrosPerHour}},
                [](Taker*) { return absl::OkStatus(); })
          .status()));
  EXPECT_EQ(take("one", false, false, [&](Taker* t) { return gpus(t, "b", 2); }), 120u);
  ASSERT_TRUE(intake.End("one").ok());
  const auto attempts = store_->LoadDimensions().value().attempts;
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].job, "ml/part");
  const auto held = side_->jobs.Intervals(kThen, kThen + kMicrosPerHour);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].entity, side_->registry.FindEntity("GPU-a0"));
  EXPECT_EQ(side_->jobs.job(held[0].job)->key, "ml/whole");

  EXPECT_EQ(take("two", true, true, [&](Taker* t) { return gpus(t, "b", 2); }), 0u);
  EXPECT_EQ(take("two", false, false, [&](Taker* t) { return gpus(t, "a", 1); }), 0u);
  ASSERT_TRUE(intake.End("two").ok());
}

TEST_F(TakerTest, OneAtATime) {
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  ASSERT_TRUE(Take(&intake, "one", true, kThen).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(&intake, "two", true, kThen).status()));
  EXPECT_TRUE(intake.End("two").ok());  // not its own
  ASSERT_TRUE(Take(&intake, "one", false, kThen + kMicrosPerHour).ok());
  ASSERT_TRUE(intake.End("one").ok());
  // Whom the server has forgotten is told so, and begins again.
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(&intake, "one", false, kThen).status()));
  EXPECT_TRUE(Take(&intake, "two", true, kThen).ok());
}

TEST_F(TakerTest, NothingThatMayStillComeInLive) {
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  now_ = kThen + kMicrosPerHour + kLiveReach - 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Take(&intake, "one", true, kThen).status()));
  now_ += 1;
  EXPECT_EQ(Take(&intake, "one", false, kThen)->rows, 120u);
}

// Who sends history may make known as much as who sends samples; what is refused is not stored, so
// that it can come later.
TEST_F(TakerTest, WhatIsNewIsOnABudget) {
  ingest::PipelineOptions pipeline;
  pipeline.clock = [this] { return now_; };
  pipeline.allowances[static_cast<size_t>(ingest::NewThing::kEntity)] = {2, 0};
  side_.reset();
  side_ = ingest::IngestSide::Start(pipeline, &catalog_, store_.get()).value();
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  Intake::Part part{.session = "one", .first = true, .window = {kThen, kThen + kMicrosPerHour}};
  part.options.sender = "10.0.0.7";
  const auto taken = intake.Take(part, [&](Taker* taker) {
    MetricSeries series;
    for (const char* uuid : {"GPU-a", "GPU-b", "GPU-c", "GPU-d"}) {
      series.Clear();
      series.name = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
      series.labels = {{"UUID", uuid}, {"instance", "exporter:9400"}};
      series.points = {{kThen + kMicrosPerSecond, 0.5}};
      taker->Add(series);
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->rows, 2u);
  EXPECT_EQ(taken->refused.at("entity_budget"), 2u);
}

// A body that does not read takes nothing, and what it gave before does not stay for the next.
TEST_F(TakerTest, HalfAWindowIsNone) {
  Intake intake(side_.get(), store_.get(), [this] { return now_; });
  const Intake::Part part{
      .session = "one", .first = true, .window = {kThen, kThen + kMicrosPerHour}};
  const auto cut = intake.Take(part, [&](Taker* taker) {
    Fill(taker, kThen, "then");
    return InvalidArgument("cut");
  });
  EXPECT_TRUE(absl::IsInvalidArgument(cut.status()));
  const auto empty = intake.Take(part, [](Taker*) { return absl::OkStatus(); });
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->samples, 0u);
}

}  // namespace
}  // namespace flopwatch::history
