// From the pipeline into the store: order, errors, limits, threads.
#include "ingest/writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

class WriterTest : public PipelineTest {};

TEST_F(WriterTest, WhatARowRefersToIsStoredFirst) {
  for (int round = 0; round < 3; ++round) {
    for (int node = 0; node < 5; ++node) {
      Body b;
      for (int g = 0; g < 8; ++g) {
        b.Gpu(g, fmt::format("GPU-{}-{}", node, g), node % 2 == 0 ? kA100 : kH100,
              fmt::format(R"(hpc_job="{}")", node + round))
            .Tensor(0.5)
            .Clock(1400 + round);
      }
      b.Raw(fmt::format("node_load1{{round=\"{}\"}} 1\n", round));
      Scrape(b, kMinute + round * 10 * kS, fmt::format("http://node{}/", node), node);
    }
    ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  }
  EXPECT_EQ(store_.unknown_references, 0);
  EXPECT_EQ(store_.rows.size(), 120u);
  EXPECT_EQ(store_.metrics.size(), 15u);
  EXPECT_EQ(store_.entities.size(), 40u);
}

TEST_F(WriterTest, IdsSurviveARestart) {
  Scrape(Body().Gpu(0, "GPU-1", kH100, R"(hpc_job="7")").Tensor(0.5).Clock(1400), kMinute);
  const int32_t id = ingest_->registry.FindEntity("GPU-1");
  Restart({});
  EXPECT_EQ(ingest_->registry.FindEntity("GPU-1"), id);
  Scrape(Body().Gpu(0, "GPU-0", kA100, R"(hpc_job="8")").Tensor(0.5).Clock(1400),
         kMinute + 10 * kS);
  EXPECT_NE(ingest_->registry.FindEntity("GPU-0"), id);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.unknown_references, 0);
  EXPECT_EQ(store_.entities.size(), 2u);
  EXPECT_EQ(store_.jobs.size(), 2u);
  EXPECT_EQ(store_.models.size(), 2u);
}

TEST_F(WriterTest, StoreErrorsLoseNothingThatFits) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  store_.fail_next = -1;
  EXPECT_FALSE(ingest_->pipeline.Flush().ok());
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1411), kMinute + 10 * kS);
  EXPECT_FALSE(ingest_->pipeline.Flush().ok());
  PipelineStats stats = ingest_->pipeline.stats();
  EXPECT_EQ(stats.last_store_error, "storing models: no space left on device");
  EXPECT_EQ(stats.queued_rows, 2u);
  EXPECT_EQ(stats.dropped_rows, 0u);
  EXPECT_GE(stats.flush_errors, 2u);
  store_.fail_next = 0;
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  stats = ingest_->pipeline.stats();
  EXPECT_EQ(stats.last_store_error, "");
  EXPECT_EQ(stats.queued_rows, 0u);
  EXPECT_EQ(stats.queued_bytes, 0u);
  EXPECT_EQ(store_.rows.size(), 2u);
  EXPECT_EQ(store_.unknown_references, 0);
}

TEST_F(WriterTest, AFailureAtAnyStepStoresEverythingOnceInTheEnd) {
  // Call number k of the store fails, for every k: nothing is lost and nothing is stored twice.
  int failures = 0;
  for (int k = 0; k < 12; ++k) {
    FakeStore store;
    store.fail_at = k;
    PipelineOptions options;
    options.clock = [this] { return now_.load(); };
    options.flush_interval = kMicrosPerHour;
    auto ingest = IngestSide::Start(options, &hardware::Catalog::Builtin(), &store);
    ASSERT_TRUE(ingest.ok());
    Body b;
    b.Gpu(0, "GPU-1", kA100, R"(hpc_job="1")").Tensor(0.5).Clock(1410);
    b.Gpu(1, "GPU-2", kA100, R"(GPU_I_PROFILE="1g.5gb",GPU_I_ID="7")").Tensor(0.5).Clock(1410);
    b.Raw("node_load1 1\n");
    (*ingest)->pipeline.Ingest({"http://a/", "n"}, b, kMinute, 0);
    if (!(*ingest)->pipeline.Flush().ok()) {
      ++failures;
      EXPECT_TRUE((*ingest)->pipeline.Flush().ok());
    }
    EXPECT_EQ(store.rows.size(), 3u) << "k=" << k;
    EXPECT_EQ(store.metrics.size(), 1u);
    EXPECT_EQ(store.sets.size(), 1u);
    EXPECT_EQ(store.unknown_references, 0);
  }
  EXPECT_EQ(failures, 7);  // models, GPUs, series, jobs, GPU rows, instance rows, other metrics
}

TEST_F(WriterTest, AFullQueueDropsTheOldestAndCounts) {
  PipelineOptions options;
  options.max_queued_rows = 10;
  Restart(options);
  store_.fail_next = -1;
  for (int k = 0; k < 25; ++k) {
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1000 + k), kMinute + k * 10 * kS);
    if (k % 5 == 4) {
      EXPECT_FALSE(ingest_->pipeline.Flush().ok());
    }
  }
  const PipelineStats stats = ingest_->pipeline.stats();
  EXPECT_GT(stats.dropped_rows, 0u);
  EXPECT_LE(stats.queued_rows, 11u);
  EXPECT_EQ(stats.dropped_rows + stats.queued_rows, 25u);
  store_.fail_next = 0;
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.rows.size() + ingest_->pipeline.stats().dropped_rows, 25u);
  // What is left is the batch being written when the queue filled, and the newest.
  EXPECT_EQ(store_.rows.back().values[telemetry::kSmClockMhz], 1024);
}

TEST_F(WriterTest, UpkeepHoldsUpNoFlush) {
  PipelineOptions options;
  options.clock = [this] { return now_.load(); };
  options.flush_interval = options.rollup_interval = kMicrosPerMilli;
  ingest_.reset();
  store_.HoldUpkeep(true);
  ingest_ = *IngestSide::Start(options, &hardware::Catalog::Builtin(), &store_);
  store_.WaitForUpkeep();
  // It is in the middle of a roll-up that does not end; rows are stored all the same.
  for (int k = 0; k < 3; ++k) {
    ingest_->pipeline.Ingest({"http://a/metrics", "node1"},
                             Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1000 + k),
                             kMinute + k * 10 * kS, 0);
    // Asked only now: of two flushes that end after it, the second began after the row was there.
    const uint64_t before = ingest_->pipeline.stats().flushes;
    while (ingest_->pipeline.stats().flushes < before + 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard lock(store_.mutex);
    EXPECT_EQ(store_.rows.size(), static_cast<size_t>(k + 1));
  }
  store_.HoldUpkeep(false);
  ingest_.reset();
}

TEST_F(WriterTest, BackfillWaitsInsteadOfDropping) {
  PipelineOptions options;
  options.clock = [this] { return now_.load(); };
  options.flush_interval = kMicrosPerMilli;
  options.max_queued_rows = 10;
  options.backfill = true;
  ingest_ = *IngestSide::Start(options, &hardware::Catalog::Builtin(), &store_);
  for (int k = 0; k < 200; ++k)
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1000 + k), kMinute + k * 10 * kS);
  EXPECT_EQ(Rows("GPU-1").size(), 200u);
  EXPECT_EQ(ingest_->pipeline.stats().dropped_rows, 0u);
  EXPECT_TRUE(store_.rows[7].header.flags & telemetry::kBackfilled);
}

TEST_F(WriterTest, ABatchTheStoreRefusesIsDroppedNotRetriedForEver) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1411), kMinute + 10 * kS);
  store_.failure = absl::InvalidArgumentError("stride");
  store_.fail_next = 1;
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(ingest_->pipeline.stats().refused_by_store, 1u);
  EXPECT_EQ(ingest_->pipeline.stats().queued_rows, 0u);
}

TEST_F(WriterTest, NewColumnsInTheMiddleOfABatchStartAnother) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Line("DCGM_FI_DEV_FAN_SPEED", 42),
         kMinute + 10 * kS);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1411), kMinute + 20 * kS);
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 3u);
  const auto field = ingest_->fields.FindColumn("dcgm_fi_dev_fan_speed");
  ASSERT_TRUE(field.has_value());
  EXPECT_TRUE(rows[1].has(*field));
  EXPECT_EQ(rows[1].values[*field], 42);
  EXPECT_FALSE(rows[2].has(*field));
  EXPECT_EQ(rows[2].values[telemetry::kSmClockMhz], 1411);
}

TEST_F(WriterTest, NarrowSeriesOfATargetAreCapped) {
  PipelineOptions options;
  options.limits.max_narrow_series = 10;
  Restart(options);
  uint64_t refused = 0;
  for (int k = 0; k < 8; ++k) {  // two new label values a scrape, for ever
    refused += Count(Scrape(Body().Raw(fmt::format("steps{{id=\"{}\"}} 1\nsteps{{id=\"{}\"}} 1\n",
                                                   2 * k, 2 * k + 1)),
                            kMinute + k * 10 * kS)
                         .refused,
                     "narrow_limit");
  }
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.series.size(), 10u);
  EXPECT_EQ(refused, 6u);
}

TEST_F(WriterTest, SourcesAreBounded) {
  PipelineOptions options;
  options.max_sources = 3;
  std::atomic<Micros> monotonic{kMicrosPerHour};
  options.monotonic = [&] { return monotonic.load(); };
  Restart(options);
  for (int k = 0; k < 5; ++k) {
    const auto stats = Scrape(Body().Gpu(0, fmt::format("GPU-{}", k)).Tensor(0.5).Clock(1410),
                              kMinute, fmt::format("push:{}", k));
    EXPECT_EQ(Count(stats.refused, "source_limit"), k < 3 ? 0u : 1u);
  }
  // After an hour of silence they make room, whatever the times of samples say.
  monotonic += 2 * kMicrosPerHour;
  Scrape(Body().Gpu(0, "GPU-0").Tensor(0.5).Clock(1410), kMinute + 2 * kMicrosPerHour, "push:0");
  EXPECT_EQ(
      Scrape(Body().Gpu(0, "GPU-9").Tensor(0.5).Clock(1410), kMinute + 2 * kMicrosPerHour, "push:9")
          .rows,
      1u);
  ingest_.reset();  // before the clock
}

TEST_F(WriterTest, ThreadsMeetOnlyInTheStore) {
  PipelineOptions options;
  options.clock = [] { return kMinute + kMicrosPerHour; };
  options.flush_interval = kMicrosPerMilli;
  ingest_ = *IngestSide::Start(options, &hardware::Catalog::Builtin(), &store_);
  constexpr int kThreads = 4, kRounds = 60, kGpus = 8;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int k = 0; k < kRounds; ++k) {
        Body b;
        for (int g = 0; g < kGpus; ++g) {
          b.Gpu(g, fmt::format("GPU-{}-{}", t, g), kA100, fmt::format(R"(hpc_job="{}")", k / 20))
              .Tensor(0.5)
              .Clock(1400 + k);
        }
        b.Raw(fmt::format("steps{{thread=\"{}\"}} {}\n", t, k));
        const std::string source = fmt::format("http://{}/", t);
        ingest_->pipeline.Ingest({source, "n"}, b, kMinute + k * 10 * kS, t);
        if (k % 30 == 29) ingest_->pipeline.Forget(fmt::format("http://gone{}/", t));
      }
    });
  }
  for (int k = 0; k < 20; ++k) {
    ingest_->pipeline.stats();
    ingest_->pipeline.Sources();
    ingest_->live.JobsSince(kMinute);
    ingest_->jobs.GpuSecondsByJob(kMinute, kMinute + kMicrosPerHour);
    ingest_->registry.Entities();
  }
  threads.clear();
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.unknown_references, 0);
  EXPECT_EQ(store_.rows.size(), static_cast<size_t>(kThreads * kRounds * kGpus));
  EXPECT_EQ(store_.metrics.size(), static_cast<size_t>(kThreads * kRounds));
  EXPECT_EQ(ingest_->pipeline.stats().queued_rows, 0u);
  EXPECT_EQ(ingest_->pipeline.stats().queued_bytes, 0u);
  // Each GPU: 59 spans of ten seconds.
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).ofu.computable_s, kThreads * kGpus * 590.0);
}

TEST_F(WriterTest, RowsAfterForgetContinue) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  ingest_->pipeline.Forget("http://a/metrics");
  EXPECT_EQ(ingest_->pipeline.stats().sources, 0u);
  // The same target listed again is a new source: it waits for 2.5 intervals like any other, then
  // takes over.
  EXPECT_EQ(Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + 10 * kS).rows, 0u);
  EXPECT_EQ(Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + 30 * kS).rows, 1u);
}

}  // namespace
}  // namespace flopwatch::ingest
