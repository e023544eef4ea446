// What is bounded, just below, at and just above its limit; and what one sender may take of it.
#include <limits>

#include "fixtures/pipeline_fixture.h"
#include "ingest/chunked_table.h"
#include "ingest/joiner.h"

namespace flopwatch::test {
namespace {

constexpr Allowance kNoBudget = {std::numeric_limits<double>::infinity(), 0};
constexpr Allowances kEverything = {{kNoBudget, kNoBudget, kNoBudget, kNoBudget, kNoBudget}};

class LimitsTest : public PipelineTest {
 protected:
  void RestartWith(PipelineOptions options) {
    options.monotonic = [this] { return monotonic_.load(); };
    Restart(options);
  }
  static std::string Uuid(int k) { return fmt::format("GPU-{}", k); }
  TargetStats Push(std::string_view node, std::string_view body, std::string_view sender,
                   int64_t at_s = 0) {
    now_ = kMinute + at_s * kS;
    return ingest_->pipeline.Ingest({node, node, SourceKind::kPush, sender}, body,
                                    kMinute + at_s * kS, 0);
  }
  static Body Gpu(std::string_view uuid, std::string_view more = "") {
    return Body().Gpu(0, uuid, kA100, more).Tensor(0.5).Clock(1410);
  }

  std::atomic<Micros> monotonic_{kMicrosPerHour};
};

// The table is made for the ids that are given out: the last one too.
TEST(ChunkedTable, HasItsLastIdAndNoMore) {
  for (const int32_t last : {1, 2, 1023, 1024, 1025, 2048}) {
    ChunkedTable<int> table(last);
    table.With(last, [](int& entry) { entry = 7; });
    EXPECT_EQ(table.At(last), 7);
    EXPECT_EQ(table.At(last + 1), 0);
    EXPECT_FALSE(table.Has(last + 1));
    EXPECT_FALSE(table.Has(-1));
    table.Prefetch(last, 4);
    table.Prefetch(last + 1, 4);
  }
}

TEST(ChunkedTable, ForgetsChunksThatAreIdle) {
  ChunkedTable<int> table(3000);
  table.With(1, [](int& entry) { entry = 1; });
  table.With(2000, [](int& entry) { entry = 2; });
  table.Forget([](const int& entry) { return entry != 2; });
  EXPECT_EQ(table.At(1), 0);
  EXPECT_EQ(table.At(2000), 2);
  table.With(1, [](int& entry) { entry = 3; });
  EXPECT_EQ(table.At(1), 3);
}

TEST_F(LimitsTest, GpusUpToTheLastId) {
  for (const int32_t limit : {1, 5, 1023, 1024, 1025}) {
    PipelineOptions options;
    options.known.entities = limit;
    options.allowances = kEverything;
    options.limits.max_entities = 2000;
    store_.entities.clear();
    RestartWith(options);
    Body body;
    for (int k = 0; k <= limit; ++k) body.Gpu(k, Uuid(k)).Tensor(0.5).Clock(1410);
    const TargetStats stats = Scrape(body, kMinute);
    EXPECT_EQ(stats.rows, static_cast<uint64_t>(limit));
    EXPECT_EQ(Count(stats.refused, "entity_limit"), 1u);
    // The last one is live and stored like any other.
    EXPECT_NE(ingest_->live.Gpu(limit).ts, 0);
    EXPECT_EQ(ingest_->live.Gpus().size(), static_cast<size_t>(limit));
    EXPECT_EQ(Rows(Uuid(limit - 1)).size(), 1u);
    EXPECT_EQ(ingest_->live.GpusReporting(0), limit);
    store_.rows.clear();
  }
}

TEST_F(LimitsTest, ModelsUpToTheirLimit) {
  PipelineOptions options;
  options.known.models = 3;
  options.allowances = kEverything;
  RestartWith(options);
  for (int k = 0; k < 5; ++k)
    Scrape(Body().Gpu(k, Uuid(k), fmt::format("model {}", k)).Tensor(0.5).Clock(1410), kMinute,
           Uuid(k));
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.models.size(), 3u);
  EXPECT_EQ(store_.rows.size(), 5u);  // the others' model is not known, their rows are
}

TEST_F(LimitsTest, SeriesUpToTheirLimitAndThoseNobodyUsesMakeRoom) {
  PipelineOptions options;
  options.known.series = 3;
  options.allowances = kEverything;
  RestartWith(options);
  const auto series = [](int k) { return fmt::format("steps{{id=\"{}\"}} 1\n", k); };
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(Count(Scrape(series(k), kMinute, Uuid(k)).refused, "narrow_limit"), k < 3 ? 0u : 1u)
        << k;
  }
  // Whose source is gone makes room; ids are never given twice.
  ingest_->pipeline.Forget(Uuid(1));
  EXPECT_EQ(Count(Scrape(series(3), kMinute + 10 * kS, Uuid(3)).refused, "narrow_limit"), 0u);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.series.size(), 4u);
  // Also within one source, when it has been silent for an hour.
  monotonic_ += 2 * kMicrosPerHour;
  Scrape(series(5), kMinute + 20 * kS, Uuid(0));
  monotonic_ += 2 * kMicrosPerHour;
  EXPECT_EQ(Count(Scrape(series(6), kMinute + 30 * kS, Uuid(0)).refused, "narrow_limit"), 0u);
}

TEST_F(LimitsTest, AKnownSeriesIsTheSameAfterARestart) {
  Scrape("steps{id=\"1\"} 1\n", kMinute);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  const int32_t id = store_.series.begin()->first;
  RestartWith({});
  Scrape("steps{id=\"1\"} 2\n", kMinute + 10 * kS);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.metrics.back().series, id);
  EXPECT_EQ(store_.series.size(), 1u);
}

TEST_F(LimitsTest, SourcesUpToTheirLimitAndTheIdleOnesMakeRoom) {
  for (const size_t limit : {1, 4}) {
    PipelineOptions options;
    options.max_sources = limit;
    options.allowances = kEverything;
    RestartWith(options);
    for (size_t k = 0; k <= limit; ++k) {
      monotonic_ += kMicrosPerMinute;
      EXPECT_EQ(Scrape(Gpu(Uuid(static_cast<int>(k))), kMinute, Uuid(static_cast<int>(k))).rows,
                k < limit ? 1u : 0u);
    }
    monotonic_ += kMicrosPerHour - kMicrosPerMinute / 2;
    EXPECT_EQ(Scrape(Gpu("GPU-X"), kMinute + 10 * kS, "another").rows, 1u);
  }
}

TEST_F(LimitsTest, OneSenderCannotTakeWhatOthersNeed) {
  PipelineOptions options;
  options.known = {.entities = 64, .models = 16, .series = 64};
  options.max_sources = 64;
  options.jobs.max_jobs = 64;
  RestartWith(options);
  const auto honest = [](std::string_view job) {
    return Body()
        .Gpu(0, "GPU-honest", kA100, fmt::format("hpc_job=\"{}\"", job))
        .Tensor(0.5)
        .Clock(1410)
        .Raw("steps{who=\"honest\"} 1\n");
  };
  EXPECT_EQ(Push("honest", honest("j1"), "10.0.0.1").rows, 1u);
  Counts refused;
  for (int k = 0; k < 100; ++k) {
    const std::string more = fmt::format("hpc_job=\"job{}\"", k);
    refused = Push(fmt::format("node{}", k),
                   Body()
                       .Gpu(0, Uuid(k), fmt::format("model {}", k), more)
                       .Tensor(0.5)
                       .Clock(1410)
                       .Raw(fmt::format("steps{{id=\"{}\"}} 1\n", k)),
                   "10.6.6.6")
                  .refused;
  }
  EXPECT_EQ(Count(refused, "source_budget"), 1u);
  for (int k = 0; k < 100; ++k) {
    const std::string more = fmt::format("hpc_job=\"job{}\"", 1000 + k);
    Push("node1",
         Body()
             .Gpu(0, Uuid(1000 + k), fmt::format("model {}", 1000 + k), more)
             .Tensor(0.5)
             .Clock(1410)
             .Raw(fmt::format("steps{{id=\"{}\"}} 1\n", 1000 + k)),
         "10.6.6.6", 1 + k);
  }
  EXPECT_LE(ingest_->registry.entity_count(), 1u + 16u);
  EXPECT_LE(ingest_->jobs.stats().jobs, 1u + 16u);
  EXPECT_LE(ingest_->pipeline.stats().sources, 1u + 16u);
  EXPECT_EQ(ingest_->pipeline.stats().dropped_rows, 0u);
  for (const std::string_view reason : {"entity_budget", "series_budget", "source_budget"})
    EXPECT_GT(Count(ingest_->pipeline.stats().refused, reason), 0u) << reason;

  // What is known goes on, with its series and its job; and whoever is new gets in.
  const TargetStats known = Push("honest", honest("j1"), "10.0.0.1", 10);
  EXPECT_EQ(known.rows, 1u);
  EXPECT_TRUE(known.refused.empty());
  const TargetStats fresh = Push("fresh", Gpu("GPU-fresh", R"(hpc_job="j2")"), "10.0.0.2", 10);
  EXPECT_EQ(fresh.rows, 1u);
  EXPECT_TRUE(fresh.refused.empty());
  EXPECT_TRUE(ingest_->jobs.FindJob("j2").has_value());
  EXPECT_EQ(Rows("GPU-honest").size(), 2u);
  EXPECT_EQ(Rows("GPU-fresh").size(), 1u);
  EXPECT_EQ(store_.unknown_references, 0);
}

TEST_F(LimitsTest, ABudgetComesBack) {
  PipelineOptions options;
  options.allowances[static_cast<size_t>(NewThing::kEntity)] = {2, 4};
  RestartWith(options);
  const auto push = [&](int k) { return Push("node1", Gpu(Uuid(k)), "10.6.6.6", k); };
  EXPECT_EQ(push(0).rows, 1u);
  EXPECT_EQ(push(1).rows, 1u);
  const TargetStats refused = push(2);
  EXPECT_EQ(refused.rows, 0u);
  EXPECT_TRUE(refused.come_again);
  EXPECT_EQ(Count(refused.refused, "entity_budget"), 1u);
  monotonic_ += kMicrosPerHour / 4;
  EXPECT_EQ(push(3).rows, 1u);
  EXPECT_EQ(push(4).rows, 0u);
}

TEST_F(LimitsTest, OfABodyWhatIsKnownIsTaken) {
  PipelineOptions options;
  options.allowances[static_cast<size_t>(NewThing::kEntity)] = {1, 0};
  RestartWith(options);
  Push("node1", Gpu("GPU-1"), "10.6.6.6");
  const TargetStats stats =
      Push("node1",
           Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Gpu(1, "GPU-2").Tensor(0.5).Clock(1410),
           "10.6.6.6", 10);
  EXPECT_EQ(stats.rows, 1u);
  EXPECT_FALSE(stats.come_again);
  EXPECT_EQ(Count(stats.refused, "entity_budget"), 1u);
}

// Sources remember what their bodies looked like: not without end for one sender.
TEST_F(LimitsTest, WhatTheSourcesOfOneSenderHoldIsBounded) {
  PipelineOptions options;
  options.max_sender_bytes = 256 << 10;
  RestartWith(options);
  Body body;
  for (int k = 0; k < 64; ++k) body.Gpu(k, Uuid(k)).Tensor(0.5).Clock(1410);
  Push("honest", Gpu("GPU-honest"), "10.0.0.1");
  for (int k = 0; k < 20; ++k) Push(fmt::format("node{}", k), body, "10.6.6.6", k);
  EXPECT_LT(ingest_->pipeline.stats().sources, 10u);
  EXPECT_GT(Count(ingest_->pipeline.stats().refused, "source_memory"), 10u);
  EXPECT_EQ(Push("honest", Gpu("GPU-honest"), "10.0.0.1", 30).rows, 1u);
  EXPECT_EQ(Count(ingest_->pipeline.StatsOf("push:honest").refused, "source_memory"), 0u);
  EXPECT_EQ(ingest_->pipeline.StatsOf("push:honest").rows, 2u);
}

TEST_F(LimitsTest, OneRemoteWriteCannotTakeAllSources) {
  PipelineOptions options;
  options.max_sources = 40;
  RestartWith(options);
  ScrapeJoiner joiner(&ingest_->pipeline, {.settle = 0});
  const auto write = [&](int from, int to, std::string_view sender) {
    ScrapeJoiner::Batch batch;
    for (int k = from; k < to; ++k) {
      telemetry::MetricSeries series;
      series.name = "up";
      series.points.push_back({kMinute, 1});
      const std::string instance = fmt::format("host{:03}:9400", k);
      batch.Add({instance, instance, SourceKind::kRemoteWrite, sender}, series);
    }
    return joiner.Add(std::move(batch));
  };
  EXPECT_EQ(write(0, 100, "10.6.6.6"), 90u);
  EXPECT_EQ(write(0, 10, "10.6.6.6"), 0u);  // known by now
  EXPECT_EQ(write(200, 201, "10.0.0.1"), 0u);
  EXPECT_EQ(ingest_->pipeline.stats().sources, 11u);
}

TEST(Sender, IsTheHost) {
  EXPECT_EQ(SenderOf("10.0.0.7:51234"), "10.0.0.7");
  EXPECT_EQ(SenderOf("[::ffff:10.0.0.7]:51234"), "10.0.0.7");
  EXPECT_EQ(SenderOf("[2001:db8:1:2:3:4:5:6]:1"), "2001:db8:1:2::");
  EXPECT_EQ(SenderOf("[2001:db8:1:2:ffff::1]:1"), SenderOf("[2001:db8:1:2::9]:2"));
  EXPECT_EQ(SenderOf(""), "");
}

// However many senders there are, the table of budgets is bounded, and who comes late gets some.
TEST(BudgetsTest, AreBounded) {
  Micros now = kMicrosPerHour;
  Allowances allowances = {};
  allowances[0] = {10, 1};
  Budgets budgets(allowances, 100, [&now] { return now; });
  EXPECT_TRUE(budgets.Hold("a", 100));
  EXPECT_TRUE(budgets.Hold("b", 100));
  EXPECT_FALSE(budgets.Hold("a", 1));
  EXPECT_TRUE(budgets.Hold("a", -1));
  for (size_t k = 0; k < Budgets::kMaxSenders + 20; ++k)
    EXPECT_EQ(budgets.Take(fmt::format("sender {}", k), NewThing::kEntity, 1, 1 << 20),
              k < Budgets::kMaxSenders + 10);
  now += 2 * kMicrosPerHour;
  EXPECT_TRUE(budgets.Take("late", NewThing::kEntity, 10, 1 << 20));
}

}  // namespace
}  // namespace flopwatch::test
