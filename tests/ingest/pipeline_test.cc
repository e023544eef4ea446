#include "ingest/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

TEST_F(PipelineTest, FirstSampleHasNoWeightTheNextStandsForTheGap) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(705), kMinute + 10 * kS);
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].header.span_ms, 0);
  EXPECT_TRUE(rows[0].header.flags & telemetry::kSpanUnknown);
  EXPECT_EQ(rows[1].header.span_ms, 10'000);
  EXPECT_EQ(rows[1].header.flags, 0u);
  EXPECT_EQ(rows[1].values[telemetry::kSmClockMhz], 705);
  // A100: maximum tensor clock 1410 MHz (docs/hardware.md), so 0.5 x 705 / 1410 = 0.25
  // over 10 s.
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(*fleet.ofu.Ofu(), 0.25);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 10);
  EXPECT_EQ(fleet.gpus, 1);
}

TEST_F(PipelineTest, AGapLongerThanMaxSpanIsNotObserved) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410),
         kMinute + 90 * kS);  // exactly max_span: still bridged
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + 181 * kS);  // 91 s: a gap
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].header.span_ms, 90'000);
  EXPECT_EQ(rows[2].header.span_ms, 0);
  EXPECT_TRUE(rows[2].header.flags & telemetry::kSpanUnknown);
}

TEST_F(PipelineTest, SpansTelescopeToTheMillisecond) {
  // Odd microseconds: 100 gaps of 10.000333 s are 1000.0333 s, whatever each one rounds to.
  for (int k = 0; k <= 100; ++k) {
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.1).Clock(1000 + k), kMinute + k * 10'000'333);
  }
  int64_t total = 0;
  for (const auto& r : Rows("GPU-1")) total += r.header.span_ms;
  EXPECT_EQ(total, 1'000'033);
}

TEST_F(PipelineTest, ASourceIsKnownByTheTextOfItsOrigin) {
  for (const SourceKind kind :
       {SourceKind::kExporter, SourceKind::kPush, SourceKind::kRemoteWrite, SourceKind::kOtlp}) {
    ingest_->pipeline.Ingest({"gpu1:9400", "gpu1", kind}, "", kMinute, 0);
    ingest_->pipeline.Ingest({"gpu1:9400", "gpu1", kind}, "", kMinute + kS, 0);
  }
  std::vector<std::string> texts;
  for (const SourceInfo& s : ingest_->pipeline.Sources()) {
    EXPECT_EQ(s.node, "gpu1");
    EXPECT_EQ(s.stats.scrapes, 2u);
    EXPECT_EQ(s.kind == SourceKind::kExporter, !s.source.starts_with("push:"));
    texts.push_back(s.source);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"gpu1:9400", "push:gpu1:9400", "push:gpu1:9400/otlp",
                                             "push:gpu1:9400/remote_write"}));
}

TEST_F(PipelineTest, ADomainIsTheTargetsWhereTheExporterNamesNone) {
  const Origin rack = {.name = "gpu1:9400", .node = "gpu1", .nvlink_domain = "rack7"};
  const std::string body =
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"A\"} 1980\n"
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"1\",UUID=\"B\",nvlink_domain=\"its own\"} 1980\n";
  ingest_->pipeline.Ingest(rack, body, kMinute, 0);
  const auto domain = [&](std::string_view uuid) {
    return ingest_->registry.entity(ingest_->registry.FindEntity(uuid))->labels.nvlink_domain;
  };
  EXPECT_EQ(domain("A"), "rack7");
  EXPECT_EQ(domain("B"), "its own");
}

TEST_F(PipelineTest, TwoJobsOnOneGpuAreOneRowAndHalfEach) {
  const auto body = [](double t) {
    Body b;
    b.Gpu(0, "GPU-1").Tensor(t, R"(hpc_job="11")").Tensor(t, R"(hpc_job="22")");
    b.Clock(1410, R"(hpc_job="11")").Clock(1410, R"(hpc_job="22")");
    return b;
  };
  Scrape(body(0.4), kMinute);
  Scrape(body(0.6), kMinute + 10 * kS);
  EXPECT_EQ(Rows("GPU-1").size(), 2u);
  const auto jobs = ingest_->live.JobsSince(kMinute);
  ASSERT_EQ(jobs.size(), 2u);
  for (const auto& j : jobs) {
    EXPECT_DOUBLE_EQ(*j.sums.ofu.Ofu(), 0.6);
    EXPECT_DOUBLE_EQ(j.sums.ofu.computable_s, 5);  // 10 s shared by two
    EXPECT_EQ(j.sums.gpus, 1);
  }
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).ofu.computable_s, 10);
  double allocated = 0;
  for (const auto& g : ingest_->jobs.GpuSecondsByJob(kMinute, kMinute + 10 * kS))
    allocated += g.gpu_seconds;
  EXPECT_DOUBLE_EQ(allocated, 10);
}

TEST_F(PipelineTest, ASecondExporterOfTheSameGpuIsDroppedAndSaysSo) {
  for (int k = 0; k < 4; ++k) {
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + k * 10 * kS);
    // The other exporter is half an interval out of phase.
    const auto stats = Scrape(Body().Gpu(0, "GPU-1").Tensor(0.9).Clock(1410),
                              kMinute + (k * 10 + 5) * kS, "http://b/metrics", 1);
    EXPECT_EQ(stats.rows, 0u);
    EXPECT_EQ(Count(stats.refused, "duplicate_exporter"), 1u);
  }
  EXPECT_EQ(Rows("GPU-1").size(), 4u);
  EXPECT_DOUBLE_EQ(*ingest_->live.FleetSince(kMinute).ofu.Ofu(), 0.5);
  EXPECT_EQ(Count(ingest_->pipeline.StatsOf("http://b/metrics").refused, "duplicate_exporter"), 4u);
  EXPECT_EQ(Count(ingest_->pipeline.stats().refused, "duplicate_exporter"), 4u);
  EXPECT_TRUE(ingest_->pipeline.StatsOf("http://a/metrics").refused.empty());
}

TEST_F(PipelineTest, AnotherExporterTakesOverWhenTheFirstFallsSilent) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + 10 * kS);
  // 2.5 intervals of 10 s after the last row the second one counts, and stands for the gap.
  EXPECT_EQ(
      Scrape(Body().Gpu(0, "GPU-1").Tensor(0.7).Clock(1410), kMinute + 35 * kS, "http://b/").rows,
      0u);
  EXPECT_EQ(
      Scrape(Body().Gpu(0, "GPU-1").Tensor(0.7).Clock(1410), kMinute + 36 * kS, "http://b/").rows,
      1u);
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].header.span_ms, 26'000);
}

TEST_F(PipelineTest, MigInstancesUseTheBoardsClockAndTheirShareOfTheSms) {
  // docs/ofu.md: an A100 at tensor activity 0.92926 and 1215 MHz has OFU 0.8007; here its 1g.5gb.
  // The instance has 14 of 108 SMs, so the GPU stands for 10 s x 14/108 = 1.2963 s. Board power is
  // counted once.
  const auto body = [](int k) {
    Body b;
    b.Gpu(0, "GPU-1").Clock(1215).Power(200 + k).Tensor(0.929290 + k * 1e-6);
    b.Gpu(0, "GPU-1", kA100, R"(GPU_I_PROFILE="1g.5gb",GPU_I_ID="7")")
        .Tensor(0.929260)
        .Clock(1215)
        .Power(200 + k);
    return b;
  };
  Scrape(body(0), kMinute);
  Scrape(body(1), kMinute + 10 * kS);
  const auto instance = Rows("GPU-1", 7);
  ASSERT_EQ(instance.size(), 2u);
  EXPECT_EQ(instance[1].kind, telemetry::EntityKind::kGpuInstance);
  EXPECT_TRUE(instance[1].has(telemetry::kSmClockMhz));
  EXPECT_EQ(instance[1].values[telemetry::kSmClockMhz], 1215);
  EXPECT_FALSE(instance[1].has(telemetry::kPowerW));
  const auto gpu = Rows("GPU-1");
  ASSERT_EQ(gpu.size(), 2u);
  EXPECT_TRUE(gpu[1].header.flags & telemetry::kMigParent);
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_NEAR(*fleet.ofu.Ofu(), 0.8007, 5e-5);
  EXPECT_NEAR(fleet.ofu.computable_s, 10.0 * 14 / 108, 1e-9);
  EXPECT_DOUBLE_EQ(fleet.power_j, 2010);
  EXPECT_EQ(fleet.gpus, 1);
  const auto record = store_.entities.at(instance[1].header.entity);
  EXPECT_EQ(record.parent, gpu[1].header.entity);
  EXPECT_EQ(record.sm_count, 14);
}

TEST_F(PipelineTest, TensorOfTheWholeGpuOnlyCountsTheGpu) {
  const auto body = [](int k) {
    Body b;
    b.Gpu(0, "GPU-1").Clock(1410).Power(200 + k).Tensor(0.5);
    b.Gpu(0, "GPU-1", kA100, R"(GPU_I_PROFILE="3g.20gb",GPU_I_ID="1")")
        .Line("DCGM_FI_DEV_FB_USED", 1000 + k);
    return b;
  };
  Scrape(body(0), kMinute);
  Scrape(body(1), kMinute + 10 * kS);
  EXPECT_FALSE(Rows("GPU-1")[1].header.flags & telemetry::kMigParent);
  EXPECT_EQ(Rows("GPU-1", 1)[1].header.span_ms, 0);
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).ofu.computable_s, 10);
}

TEST_F(PipelineTest, ADeadCounterIsNotAnOfuOfZero) {
  // docs/ofu.md: tensor 0 for minutes at GPU_UTIL > 90 and power > 60 % of the limit. A100
  // SXM4: TDP 400 W.
  for (int k = 0; k <= 30; ++k) {
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(100).Power(300 + k),
           kMinute + k * 10 * kS);
  }
  // From the first zero on, not only from the verdict: in memory and in the store.
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 31u);
  for (const auto& r : rows) {
    EXPECT_TRUE(r.header.flags & telemetry::kDeadCounter);
    EXPECT_FALSE(r.header.flags & telemetry::kSuspectCounter);  // it is decided
  }
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.dead_counter_s, 300);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 0);
  EXPECT_DOUBLE_EQ(fleet.ofu.observed_s, 300);
}

TEST_F(PipelineTest, ACounterThatMovesAgainGaveTrueZeros) {
  const auto body = [](int k, double tensor) {
    return Body()
        .Gpu(0, "GPU-1", kA100, R"(hpc_job="7")")
        .Tensor(tensor)
        .Clock(1410)
        .Util(100)
        .Power(300 + k);
  };
  Scrape(body(0, 0.5), kMinute);
  Scrape(body(1, 0.5), kMinute + 10 * kS);
  for (int k = 2; k <= 10; ++k) Scrape(body(k, 0), kMinute + k * 10 * kS);
  // Not decided yet: no OFU for the zeros, and they wait.
  auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 10);
  EXPECT_DOUBLE_EQ(fleet.dead_counter_s, 90);
  EXPECT_EQ(ingest_->pipeline.stats().held_rows, 9u);
  EXPECT_EQ(Rows("GPU-1").size(), 2u);
  EXPECT_TRUE(ingest_->live.Gpu(1).flags & telemetry::kSuspectCounter);
  EXPECT_TRUE(std::isnan(ingest_->live.Gpu(1).ofu));
  // It moves: they were zeros. (0.5 x 20 s + 0 x 90 s) / 110 s.
  Scrape(body(11, 0.5), kMinute + 110 * kS);
  for (const auto& sums : {ingest_->live.FleetSince(kMinute), ingest_->live.JobSince(1, kMinute)}) {
    EXPECT_DOUBLE_EQ(sums.ofu.computable_s, 110);
    EXPECT_NEAR(*sums.ofu.Ofu(), 10.0 / 110, 1e-12);
    EXPECT_DOUBLE_EQ(sums.dead_counter_s, 0);
    EXPECT_EQ(sums.ofu.samples, 12u);
  }
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 12u);
  for (size_t k = 1; k < rows.size(); ++k) {
    EXPECT_EQ(rows[k].header.flags, 0u) << k;
    EXPECT_EQ(rows[k].header.ts, kMinute + static_cast<Micros>(k) * 10 * kS) << k;
    EXPECT_EQ(rows[k].values[telemetry::kPowerW], 300 + static_cast<double>(k));
  }
  EXPECT_EQ(ingest_->pipeline.stats().held_rows, 0u);
}

TEST_F(PipelineTest, WorkOfOtherPipesMakesAZeroTrue) {
  // An FP32 code at full power: DCGM field 1007 says what keeps the GPU busy.
  for (int k = 0; k <= 30; ++k) {
    Scrape(Body()
               .Gpu(0, "GPU-1")
               .Tensor(0)
               .Clock(1410)
               .Util(100)
               .Power(300 + k)
               .Line("DCGM_FI_PROF_PIPE_FP32_ACTIVE", 0.6),
           kMinute + k * 10 * kS);
  }
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 300);
  EXPECT_DOUBLE_EQ(*fleet.ofu.Ofu(), 0);
  EXPECT_EQ(Rows("GPU-1").size(), 31u);
}

TEST_F(PipelineTest, BusyMemoryMakesAZeroTrue) {
  for (int k = 0; k <= 30; ++k) {
    Scrape(Body()
               .Gpu(0, "GPU-1")
               .Tensor(0)
               .Clock(1410)
               .Util(100)
               .Power(300 + k)
               .Line("DCGM_FI_PROF_DRAM_ACTIVE", 0.89),
           kMinute + k * 10 * kS);
  }
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 300);
  EXPECT_DOUBLE_EQ(*fleet.ofu.Ofu(), 0);
}

TEST_F(PipelineTest, WhatWasNeverDecidedIsStoredAsSuspected) {
  for (int k = 0; k <= 3; ++k)
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(100).Power(300 + k),
           kMinute + k * 10 * kS);
  EXPECT_TRUE(Rows("GPU-1").empty());
  ingest_->pipeline.Settle();  // the server stops
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 4u);
  constexpr uint32_t kBoth = telemetry::kDeadCounter | telemetry::kSuspectCounter;
  for (const auto& r : rows) EXPECT_EQ(r.header.flags & kBoth, kBoth);
  // A pipeline that just ends keeps nothing back either; nor does a source that leaves the list.
  for (int k = 4; k <= 6; ++k)
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(100).Power(300 + k),
           kMinute + k * 10 * kS);
  ingest_->pipeline.Forget("http://a/metrics");
  EXPECT_EQ(Rows("GPU-1").size(), 7u);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(100).Power(310), kMinute + 100 * kS);
  const size_t before = store_.rows.size();
  ingest_.reset();
  EXPECT_EQ(store_.rows.size(), before + 1);
}

TEST_F(PipelineTest, ALoadThatEndsWithoutAnyCountDecidesNothing) {
  for (int k = 0; k <= 3; ++k)
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(100).Power(300 + k),
           kMinute + k * 10 * kS);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0).Clock(1410).Util(5).Power(60), kMinute + 40 * kS);
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.dead_counter_s, 30);    // the counter was never seen to count
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 10);  // idle is a true zero
  EXPECT_EQ(Rows("GPU-1").size(), 5u);
}

TEST_F(PipelineTest, UnknownModelAndMissingFieldsAreReasonsNotNumbers) {
  for (int k = 0; k < 2; ++k) {
    Body b;
    b.Gpu(0, "GPU-1", "NVIDIA H999").Tensor(0.5).Clock(1410 + k);
    b.Gpu(1, "GPU-2").Clock(1410 + k);
    b.Gpu(2, "GPU-3").Tensor(0.5 + 0.01 * k);
    b.Gpu(3, "GPU-4").Tensor(0.9).Clock(2000 + k);  // 0.9 x 2000 / 1410 = 1.277: impossible
    Scrape(b, kMinute + k * 10 * kS);
  }
  EXPECT_EQ(Rows("GPU-1")[1].header.flags, static_cast<uint32_t>(telemetry::kModelUnknown));
  EXPECT_EQ(Rows("GPU-2")[1].header.flags, static_cast<uint32_t>(telemetry::kTensorMissing));
  EXPECT_EQ(Rows("GPU-3")[1].header.flags, static_cast<uint32_t>(telemetry::kClockMissing));
  EXPECT_EQ(Rows("GPU-4")[1].header.flags, static_cast<uint32_t>(telemetry::kOutOfRange));
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_FALSE(fleet.ofu.Ofu().has_value());
  EXPECT_DOUBLE_EQ(fleet.ofu.observed_s, 40);
  EXPECT_DOUBLE_EQ(fleet.model_unknown_s, 10);
  EXPECT_DOUBLE_EQ(fleet.tensor_missing_s, 10);
  EXPECT_DOUBLE_EQ(fleet.clock_missing_s, 10);
  EXPECT_DOUBLE_EQ(fleet.out_of_range_s, 10);
}

TEST_F(PipelineTest, AnExporterSlowerThanTheScrapeRepeatsItself) {
  // Collected every 30 s, scraped every 10: two of three samples repeat energy and tensor activity.
  for (int k = 0; k < 7; ++k) {
    const int collected = k / 3;
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Energy(1e9 + collected * 1e7),
           kMinute + k * 10 * kS);
  }
  const auto rows = Rows("GPU-1");
  int stale = 0;
  for (const auto& r : rows) stale += (r.header.flags & telemetry::kStaleRepeat) != 0;
  EXPECT_EQ(stale, 4);
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 60);
  EXPECT_DOUBLE_EQ(fleet.stale_s, 40);
}

TEST_F(PipelineTest, AFrozenExporterLosesItsWeight) {
  for (int k = 0; k < 31; ++k) {  // the same body for five minutes
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Energy(1e9), kMinute + k * 10 * kS);
  }
  // Observed for max_span (90 s) after the last news, then no more.
  const auto fleet = ingest_->live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(fleet.ofu.observed_s, 90);
  EXPECT_DOUBLE_EQ(fleet.frozen_s, 210);
  // And it says so, in words of its own: not "first sample", and no old OFU shown as now.
  const auto rows = Rows("GPU-1");
  EXPECT_EQ(rows[30].header.flags,
            static_cast<uint32_t>(telemetry::kFrozen | telemetry::kStaleRepeat));
  EXPECT_EQ(rows[0].header.flags, static_cast<uint32_t>(telemetry::kSpanUnknown));
  EXPECT_TRUE(std::isnan(ingest_->live.Gpu(1).ofu));
  EXPECT_EQ(ingest_->pipeline.StatsOf("http://a/metrics").frozen, 1u);
  EXPECT_EQ(ingest_->pipeline.stats().frozen_rows, 21u);
  // News ends it.
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Energy(2e9), kMinute + 310 * kS);
  EXPECT_EQ(ingest_->pipeline.StatsOf("http://a/metrics").frozen, 0u);
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).ofu.observed_s, 100);
}

TEST_F(PipelineTest, OldAndFutureTimestampsAreRefused) {
  const auto at = [](Micros ts) {
    return Body()
        .Gpu(0, "GPU-1")
        .Raw(fmt::format(
            "DCGM_FI_DEV_SM_CLOCK{{gpu=\"0\",UUID=\"GPU-1\",modelName=\"{}\"}} 1410 {}\n", kA100,
            ts / 1000));
  };
  EXPECT_EQ(Scrape(at(kMinute), kMinute + 1).rows, 1u);
  EXPECT_EQ(Count(Scrape(at(kMinute), kMinute + 10 * kS).refused, "stale_timestamp"),
            1u);  // the same again
  EXPECT_EQ(Count(Scrape(at(kMinute - kS), kMinute + 20 * kS).refused, "stale_timestamp"),
            1u);  // out of order
  EXPECT_EQ(Count(Scrape(at(kMinute + 2 * kMicrosPerHour), kMinute + 30 * kS).refused,
                  "future_timestamp"),
            1u);
  EXPECT_EQ(Scrape(at(kMinute + 40 * kS), kMinute + 40 * kS).rows, 1u);
  EXPECT_EQ(Rows("GPU-1").size(), 2u);
}

TEST_F(PipelineTest, AClockAheadMovesNoWindowButItsOwn) {
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute);
  Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), kMinute + 10 * kS);
  Scrape(Body().Raw(fmt::format(
             "DCGM_FI_DEV_SM_CLOCK{{gpu=\"0\",UUID=\"GPU-9\",modelName=\"{}\"}} 1410 {}\n", kA100,
             (kMinute + 50 * kMicrosPerMinute) / 1000)),
         kMinute + 11 * kS, "http://ahead/");
  EXPECT_EQ(ingest_->live.newest(), kMinute + 11 * kS);
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).ofu.computable_s, 10);
}

TEST_F(PipelineTest, CycleTotalsGiveOfuWithoutTheClockAndAcrossMissedScrapes) {
  // H100 SXM: 132 SMs, maximum tensor clock 1830 MHz (docs/hardware.md). Totals summed over SMs. At
  // 1500 MHz ten seconds are 132 x 1.5e10 elapsed cycles; the tensor pipe is active in 40 % of
  // them: OFU = 0.4 x 1500 / 1830 = 0.327869.
  const auto body = [](double elapsed_s) {
    Body b;
    const double elapsed = 132 * 1.5e9 * elapsed_s;
    b.Gpu(0, "GPU-1", kH100)
        .Clock(1500)
        .Tensor(0.9)
        .Energy(1e9 + elapsed_s * 1e5);  // the ratio is wrong on purpose
    b.Line("DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", elapsed + 1e12)
        .Line("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", 0.4 * elapsed + 1e12);
    return b;
  };
  Scrape(body(0), kMinute);
  Scrape(body(10), kMinute + 10 * kS);
  Scrape(body(20), kMinute + 20 * kS);
  Scrape(body(70), kMinute + 70 * kS);  // four scrapes missed
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(rows[1].header.flags & telemetry::kCyclePath);
  EXPECT_NEAR(rows[3].header.tensor_mhz, 600, 0.01);
  EXPECT_EQ(rows[3].header.span_ms, 50'000);
  EXPECT_NEAR(*ingest_->live.FleetSince(kMinute).ofu.Ofu(), 0.4 * 1500 / 1830, 1e-5);
  EXPECT_DOUBLE_EQ(ingest_->live.FleetSince(kMinute).cycle_path_s, 70);
}

TEST_F(PipelineTest, CycleTotalsOfASlowExporterStandForTheTimeSinceTheyMoved) {
  // Collected every 30 s, scraped every 10 s. Alternating load: 60 % of cycles, then 20 %.
  double elapsed = 0, mma = 0;
  std::string last;
  for (int k = 0; k <= 12; ++k) {
    if (k % 3 == 0 && k > 0) {
      elapsed += 132 * 1.5e9 * 30;
      mma += 132 * 1.5e9 * 30 * (k % 2 == 1 ? 0.6 : 0.2);
    }
    Body b;
    b.Gpu(0, "GPU-1", kH100).Clock(1500).Tensor(0.4).Energy(1e9 + elapsed / 1e6);
    b.Line("DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", elapsed + 1e12)
        .Line("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", mma + 1e12);
    Scrape(b, kMinute + k * 10 * kS);
  }
  const auto fleet = ingest_->live.FleetSince(kMinute);
  // 120 s: the first 20 s by the ratio (0.4) while the scale is unknown, then the row that
  // calibrates stands for 10 s at 60 %; then windows of 30 s at 20, 60 and 20 %. (0.4*20 + 0.6*10 +
  // 30*(0.2+0.6+0.2)) / 120 * 1500/1830.
  EXPECT_NEAR(*fleet.ofu.Ofu(), (0.4 * 20 + 0.6 * 10 + 30 * 1.0) / 120 * 1500 / 1830, 1e-5);
  EXPECT_DOUBLE_EQ(fleet.ofu.computable_s, 120);
}

TEST_F(PipelineTest, ACounterResetFallsBackToTheRatioForOneRow) {
  const auto body = [](double elapsed, double mma, double energy) {
    Body b;
    b.Gpu(0, "GPU-1", kH100).Clock(1500).Tensor(0.4).Energy(energy);
    b.Line("DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", elapsed)
        .Line("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", mma);
    return b;
  };
  const double per_10s = 132 * 1.5e10;
  Scrape(body(9e15, 3e15, 1e9), kMinute);
  Scrape(body(9e15 + per_10s, 3e15 + 0.4 * per_10s, 2e9), kMinute + 10 * kS);
  Scrape(body(1e12, 1e11, 1e6), kMinute + 20 * kS);  // rebooted
  Scrape(body(1e12 + per_10s, 1e11 + 0.4 * per_10s, 2e6), kMinute + 30 * kS);
  const auto rows = Rows("GPU-1");
  EXPECT_TRUE(rows[2].header.flags & telemetry::kCounterReset);
  EXPECT_FALSE(rows[2].header.flags & telemetry::kCyclePath);
  EXPECT_EQ(rows[2].header.span_ms, 10'000);
  EXPECT_TRUE(rows[3].header.flags & telemetry::kCyclePath);
  EXPECT_NEAR(*ingest_->live.FleetSince(kMinute).ofu.Ofu(), 0.4 * 1500 / 1830, 1e-5);
}

}  // namespace
}  // namespace flopwatch::ingest
