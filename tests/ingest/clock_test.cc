// Clocks that jump: the server's, under scrapes, and a sender's own.
#include <gtest/gtest.h>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

constexpr Micros kWindow = 5 * kMicrosPerMinute;

class ClockTest : public PipelineTest {
 protected:
  // A sample of GPU-1, of a job, as scraped at a time of the server's clock.
  TargetStats At(Micros clock, double tensor, std::string_view from = "http://a/metrics") {
    return Scrape(Body().Gpu(0, "GPU-1", kA100, R"(hpc_job="11")").Tensor(tensor).Clock(1410),
                  clock, from);
  }
  // Two samples ten seconds apart: the second has a weight.
  void Pair(Micros clock, double tensor) {
    EXPECT_EQ(At(clock, tensor).rows, 1u);
    EXPECT_EQ(At(clock + 10 * kS, tensor).rows, 1u);
  }
  void ExpectNow(Micros clock, double tensor) {
    EXPECT_EQ(ingest_->live.newest(), clock);
    EXPECT_EQ(ingest_->live.Gpu(1).ts, clock);
    const auto fleet = ingest_->live.Fleet(kWindow);
    ASSERT_TRUE(fleet.ofu.Ofu().has_value());
    EXPECT_NEAR(*fleet.ofu.Ofu(), tensor, 1e-9);
    EXPECT_NEAR(fleet.ofu.computable_s, 10, 1e-9);
    EXPECT_EQ(fleet.gpus, 1);
    const auto jobs = ingest_->live.JobsSince(clock - kWindow);
    ASSERT_EQ(jobs.size(), 1u);
    EXPECT_NEAR(*jobs[0].sums.ofu.Ofu(), tensor, 1e-9);
    EXPECT_EQ(jobs[0].sums.gpus, 1);
    EXPECT_EQ(ingest_->live.GpusReporting(clock - kMicrosPerMinute), 1);
    const auto gpu =
        ingest_->live.GpuSince(1, ingest_->live.Gpu(1).job_set, clock - kMicrosPerHour);
    ASSERT_TRUE(gpu.has_value());
    EXPECT_NEAR(*gpu->sums.ofu.Ofu(), tensor, 1e-6);
    EXPECT_LE(gpu->since, clock);
  }
};

TEST_F(ClockTest, AfterAJumpBackWhatIsNowIsShownAsNow) {
  for (const Micros jump : {2 * kMicrosPerHour, 30 * kMicrosPerDay, 3 * kMicrosPerMinute}) {
    Restart({});
    Pair(kMinute, 0.5);
    Pair(kMinute - jump, 0.25);
    ingest_->live.Expire();
    ExpectNow(kMinute - jump + 10 * kS, 0.25);
  }
}

TEST_F(ClockTest, AfterAMonthAheadAndBackLikewise) {
  Pair(kMinute, 0.5);
  Pair(kMinute + 30 * kMicrosPerDay, 0.75);
  ExpectNow(kMinute + 30 * kMicrosPerDay + 10 * kS, 0.75);
  ingest_->live.Expire();
  Pair(kMinute + 5 * kMicrosPerMinute, 0.25);
  ingest_->live.Expire();
  ExpectNow(kMinute + 5 * kMicrosPerMinute + 10 * kS, 0.25);
}

TEST_F(ClockTest, AGpuThatWentSilentInTheWrongTimeIsNotReportingForEver) {
  Scrape(Body().Gpu(0, "GPU-2").Tensor(0.5).Clock(1410), kMinute + 30 * kMicrosPerDay, "http://b/");
  Pair(kMinute, 0.5);
  EXPECT_EQ(ingest_->live.GpusReporting(kMinute + kMicrosPerHour), 0);
  EXPECT_LE(ingest_->live.Gpu(ingest_->registry.FindEntity("GPU-2", -1)).ts, kMinute);
}

// A sender of remote write says the time of its body and of each sample.
TEST_F(ClockTest, ASenderWhoseClockIsAheadMovesNoWindowButItsOwn) {
  Pair(kMinute, 0.5);
  const Micros ahead = kMinute + 10 * kS + 50 * kMicrosPerMinute;
  const std::string body = fmt::format(
      "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu=\"0\",UUID=\"GPU-2\",modelName=\"{0}\"}} 1 {1}\n"
      "DCGM_FI_DEV_SM_CLOCK{{gpu=\"0\",UUID=\"GPU-2\",modelName=\"{0}\"}} 1410 {1}\n",
      kA100, ahead / 1000);
  const auto sent = ingest_->pipeline.Ingest({"p", "n2", SourceKind::kRemoteWrite}, body, ahead, 0);
  EXPECT_EQ(sent.rows, 1u);
  EXPECT_EQ(ingest_->live.newest(), kMinute + 10 * kS);
  EXPECT_NEAR(ingest_->live.Fleet(kWindow).ofu.computable_s, 10, 1e-9);
  // Set right, it is believed at once: its samples are newer than any that was true.
  now_ = kMinute + 20 * kS;
  const std::string right = fmt::format(
      "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu=\"0\",UUID=\"GPU-2\",modelName=\"{}\"}} 1 {}\n", kA100,
      (kMinute + 20 * kS) / 1000);
  EXPECT_EQ(
      ingest_->pipeline.Ingest({"p", "n2", SourceKind::kRemoteWrite}, right, kMinute + 20 * kS, 0)
          .rows,
      1u);
}

TEST_F(ClockTest, WhoHeldAGpuInATimeToComeDoesNotHoldItUntilThen) {
  At(kMinute, 0.5);
  At(kMinute + 10 * kS, 0.5);
  // The exporter has gone, and its successor is met by a clock set back two hours.
  const Micros back = kMinute - 2 * kMicrosPerHour;
  for (int k = 0; k < 3; ++k)
    EXPECT_EQ(At(back + k * 10 * kS, 0.25, "http://b/metrics").rows, 0u) << "it may still be there";
  EXPECT_EQ(At(back + 30 * kS, 0.25, "http://b/metrics").rows, 1u);
}

TEST_F(ClockTest, AFrozenExporterIsFrozenAfterAJumpBackToo) {
  const auto frozen = [&](Micros at) {
    Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410).Energy(1e9), at);
    return (Rows("GPU-1").back().header.flags & telemetry::kFrozen) != 0;
  };
  for (int k = 0; k < 12; ++k) frozen(kMinute + k * 10 * kS);
  EXPECT_TRUE(frozen(kMinute + 120 * kS));
  const Micros back = kMinute - 2 * kMicrosPerHour;
  for (int k = 0; k < 12; ++k) frozen(back + k * 10 * kS);
  EXPECT_TRUE(frozen(back + 120 * kS));
}

// One record of its interval, not one a sample, and it goes on to the present.
TEST_F(ClockTest, AJobGoesOnThroughAJumpBack) {
  Pair(kMinute, 0.5);
  (void)ingest_->jobs.TakeChanges();
  const Micros back = kMinute - 2 * kMicrosPerHour;
  size_t records = 0;
  for (int k = 0; k < 60; ++k) {
    At(back + k * 10 * kS, 0.25);
    records += ingest_->jobs.TakeChanges().intervals.size();
  }
  EXPECT_LE(records, 8u);
  EXPECT_NE(ingest_->jobs.Lookup(1, back + 590 * kS), 0);
}

// Of any other metric as of a GPU: a row of the year 2100 would keep its file for ever, and one of
// 1970 all names of jobs and GPUs for as long as it is there.
TEST_F(ClockTest, ASampleOfNoCredibleTimeIsNotStored) {
  const auto at = [](Micros ts) { return ts / kMicrosPerMilli; };
  const TargetStats stats =
      Scrape(fmt::format("steps{{k=\"1\"}} 1 4102444800000\n"
                         "steps{{k=\"2\"}} 2 1000\n"
                         "steps{{k=\"3\"}} 3 {}\n"
                         "steps{{k=\"4\"}} 4 {}\n"
                         "steps{{k=\"5\"}} 5 {}\n"
                         "steps{{k=\"6\"}} 6\n",
                         at(kMinute + kMicrosPerHour + kS), at(kMinute + kMicrosPerHour),
                         at(kMinute - 14 * kMicrosPerDay)),
             kMinute);
  EXPECT_EQ(Count(stats.refused, "future_timestamp"), 2u);
  EXPECT_EQ(Count(stats.refused, "stale_timestamp"), 1u);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  std::vector<double> values;
  for (const auto& row : store_.metrics) values.push_back(row.value);
  EXPECT_EQ(values, (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(store_.series.size(), 3u);
}

}  // namespace
}  // namespace flopwatch::ingest
