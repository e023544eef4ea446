// Records that describe what rows refer to, and a store that refuses some of them.
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::test {
namespace {

class DescribingTest : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    store_.refused_text = "bad";
  }
  static Body Gpu(std::string_view uuid, std::string_view more = "") {
    return Body().Gpu(0, uuid, kA100, more).Tensor(0.5).Clock(1410);
  }
};

TEST_F(DescribingTest, AGpuTheStoreRefusesHoldsUpNoOther) {
  for (int k = 0; k < 9; ++k)
    Scrape(Gpu(k == 4 ? "GPU-bad" : fmt::format("GPU-{}", k)), kMinute,
           fmt::format("http://{}", k));
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.entities.size(), 8u);
  EXPECT_EQ(store_.rows.size(), 8u);
  EXPECT_EQ(store_.unknown_references, 0);
  const PipelineStats stats = ingest_->pipeline.stats();
  EXPECT_EQ(stats.refused_by_store, 1u);
  EXPECT_EQ(stats.refused_describing, 1u);
  EXPECT_EQ(stats.queued_rows, 0u);
  // Its later rows are counted too, and nobody else's.
  Scrape(Gpu("GPU-bad"), kMinute + 10 * kS, "http://4");
  Scrape(Gpu("GPU-5"), kMinute + 10 * kS, "http://5");
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.rows.size(), 9u);
  EXPECT_EQ(ingest_->pipeline.stats().refused_by_store, 2u);
}

TEST_F(DescribingTest, ALabelTheStoreRefusesCostsNoRow) {
  const std::string body =
      R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="x",Hostname="bad"} 1410)";
  Scrape(body + "\n", kMinute);
  EXPECT_EQ(Rows("GPU-1").size(), 1u);
  EXPECT_EQ(store_.entities.size(), 1u);
  EXPECT_EQ(ingest_->pipeline.stats().refused_by_store, 0u);
  EXPECT_EQ(ingest_->pipeline.stats().refused_describing, 1u);
}

TEST_F(DescribingTest, AJobTheStoreRefusesKeepsItsIdAndItsRows) {
  Scrape(Gpu("GPU-1", R"(hpc_job="bad")"), kMinute, "http://1");
  Scrape(Gpu("GPU-2", R"(hpc_job="42")"), kMinute, "http://2");
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.rows.size(), 2u);
  EXPECT_EQ(store_.unknown_references, 0);
  const auto job = ingest_->jobs.FindJob("bad");
  ASSERT_TRUE(job.has_value());
  ASSERT_TRUE(store_.jobs.contains(job->id));
  EXPECT_EQ(store_.jobs[job->id].key, fmt::format("refused-by-store-{}", job->id));
  EXPECT_EQ(store_.jobs[ingest_->jobs.FindJob("42")->id].key, "42");
  EXPECT_EQ(store_.intervals.size(), 2u);
}

TEST_F(DescribingTest, AModelAndASeriesTheStoreRefuses) {
  Scrape(Body().Gpu(0, "GPU-1", "bad model").Tensor(0.5).Clock(1410), kMinute);
  Scrape("steps{x=\"bad\"} 1\nsteps{x=\"good\"} 2\n", kMinute, "http://2");
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(store_.rows.size(), 1u);
  EXPECT_EQ(store_.metrics.size(), 1u);
  EXPECT_EQ(store_.unknown_references, 0);
  EXPECT_EQ(ingest_->pipeline.stats().refused_describing, 2u);
}

// What waits while the store fails is each thing once, however often it changes.
TEST_F(DescribingTest, AStoreThatFailsLosesNothingAndNothingGrows) {
  store_.failure = absl::UnavailableError("gone");
  store_.fail_next = -1;
  for (int k = 0; k < 50; ++k) {
    const std::string node = fmt::format("node{}", k);
    Scrape(fmt::format("DCGM_FI_DEV_SM_CLOCK{{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"{}\"}} 1410\n",
                       node),
           kMinute + k * 10 * kS, "http://a/metrics", 0, node);
    EXPECT_FALSE(ingest_->pipeline.Flush().ok());
  }
  store_.fail_next = 0;
  EXPECT_EQ(Rows("GPU-1").size(), 50u);
  EXPECT_EQ(store_.unknown_references, 0);
  EXPECT_EQ(store_.entities.begin()->second.labels.node, "node49");
}

// The store that is used: bytes that are no text, in each place where a record has one.
TEST(DescribingInTheStore, BytesThatAreNoTextAreRefusedAndNothingElse) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / fmt::format("describing-{}", getpid());
  std::filesystem::remove_all(directory);
  auto opened = store::OpenDuckDbStore({.directory = directory});
  ASSERT_TRUE(opened.ok()) << opened.status();
  store::Store& db = **opened;
  const auto entity = [](int32_t id, std::string uuid, std::string node) {
    store::EntityRecord e;
    e.id = id;
    e.key.uuid = std::move(uuid);
    e.labels.node = std::move(node);
    return e;
  };
  const auto refused = [](const Status& s) { return absl::IsInvalidArgument(s); };
  const std::string bad = "a\xff\xfe";
  EXPECT_TRUE(refused(db.PutEntities({entity(1, "GPU-1", "n"), entity(2, bad, "n")})));
  EXPECT_TRUE(refused(db.PutEntities({entity(2, "GPU-2", bad)})));
  EXPECT_TRUE(db.PutEntities({entity(1, "GPU-1", "n")}).ok());
  store::ModelRecord model;
  model.id = 1;
  model.name = bad;
  EXPECT_TRUE(refused(db.PutModels({model})));
  EXPECT_TRUE(refused(db.PutSeries({{.id = 1, .target = "t", .name = "n", .labels = bad}})));
  jobs::Changes changes;
  changes.jobs.emplace_back();
  changes.jobs[0].id = 1;
  changes.jobs[0].key = bad;
  EXPECT_TRUE(refused(db.PutJobs(changes)));
  changes.jobs[0].key = "1";
  EXPECT_TRUE(db.PutJobs(changes).ok());
  const auto known = db.LoadDimensions();
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->entities.size(), 1u);
  EXPECT_EQ(known->jobs.size(), 1u);
  EXPECT_TRUE(known->models.empty());
  opened->reset();
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace flopwatch::test
