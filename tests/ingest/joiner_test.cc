// Points of one scrape that come in several requests.
#include "ingest/joiner.h"

#include <gtest/gtest.h>

#include <string>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

class JoinerTest : public PipelineTest {
 protected:
  static void AddTo(ScrapeJoiner::Batch* batch, std::string_view name, double value, Micros ts,
                    std::string_view node = "node1") {
    telemetry::MetricSeries series;
    series.name = name;
    series.labels = {{"gpu", "0"}, {"UUID", "GPU-1"}, {"modelName", kA100}};
    series.points = {{.ts = ts, .value = value}};
    batch->Add({"node1:9400", node, SourceKind::kRemoteWrite}, series);
  }
};

TEST_F(JoinerTest, RequestsOfOneScrapeAreOneRow) {
  ScrapeJoiner joiner(&ingest_->pipeline, {.settle = kMicrosPerHour});
  now_ = kMinute + 20 * kS;
  for (int k = 0; k < 2; ++k) {
    ScrapeJoiner::Batch tensor, clock;
    AddTo(&tensor, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.5, kMinute + k * 10 * kS, "");
    AddTo(&clock, "DCGM_FI_DEV_SM_CLOCK", 1400 + k, kMinute + k * 10 * kS);
    EXPECT_EQ(tensor.points, 1u);
    joiner.Add(std::move(tensor));
    joiner.Add(std::move(clock));
  }
  EXPECT_TRUE(ingest_->pipeline.Sources().empty());  // not settled
  joiner.Flush();
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 2u);  // in order of time, or the second would be stale
  for (size_t k = 0; k < rows.size(); ++k) {
    EXPECT_EQ(rows[k].values[telemetry::kTensorActive], 0.5);
    EXPECT_EQ(rows[k].values[telemetry::kSmClockMhz], 1400 + static_cast<double>(k));
  }
  EXPECT_EQ(rows[1].header.span_ms, 10'000);
  const auto sources = ingest_->pipeline.Sources();
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].source, "push:node1:9400/remote_write");
  EXPECT_EQ(sources[0].node, "node1");  // the first request did not say it
}

TEST_F(JoinerTest, WithoutSettlingABodyGoesOnAtOnceAndSoWhenTooMuchWaits) {
  for (const ScrapeJoiner::Options options :
       {ScrapeJoiner::Options{.settle = 0},
        ScrapeJoiner::Options{.settle = kMicrosPerHour, .max_bytes = 1}}) {
    Restart({});
    ScrapeJoiner joiner(&ingest_->pipeline, options);
    now_ = kMinute;
    ScrapeJoiner::Batch batch;
    AddTo(&batch, "DCGM_FI_DEV_SM_CLOCK", 1400, kMinute);
    joiner.Add(std::move(batch));
    EXPECT_EQ(ingest_->pipeline.stats().rows, 1u);
  }
}

}  // namespace
}  // namespace flopwatch::ingest
