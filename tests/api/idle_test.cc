// The idle-held ledger through a real pipeline and store, by hand: who held what, what it cost, and
// the mail that comes of it.
#include <gtest/gtest.h>

#include <filesystem>

#include "fixtures/api_fixture.h"
#include "fixtures/own_directory.h"

namespace flopwatch::api {
namespace {

using namespace test;

// Minutes from 14:14 of node1, an A100 each, scraped every 30 s:
//   GPU-X, GPU-Y  job 500 of carol: X works 0-20, holds memory and does nothing 20-140, works to
//                 150; Y never runs anything
//   GPU-Z         nobody's: 4 MiB in use; from minute 30 on job 600 of dave, whose process never
//                 comes
class IdleApiTest : public ApiTest {
 protected:
  void SetUp() override {
    directory_ = test::OwnDirectory();
    auto opened = store::OpenDuckDbStore({.directory = directory_.string()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    duck_ = *std::move(opened);
    PipelineOptions options;
    options.clock = [this] { return now_; };
    options.flush_interval = kMicrosPerHour;
    auto started = IngestSide::Start(options, &hardware::Catalog::Builtin(), Store());
    ASSERT_TRUE(started.ok()) << started.status();
    ingest_ = *std::move(started);
    for (int k = 0; k <= 300; ++k) ScrapeAt(k);
    ASSERT_TRUE(ingest_->pipeline.Flush().ok());
    now_ += 5 * kSecond;
    const auto prices =
        fleet::Prices::Parse("[prices]\ncurrency = \"EUR\"\n[[prices.gpu_hour]]\nprice = 3.6\n",
                             hardware::Catalog::Builtin());
    ASSERT_TRUE(prices.ok());
    prices_ = *prices;
    ApiSources parts;
    parts.prices = &prices_;
    MakeApi(std::move(parts));
  }
  void TearDown() override {
    api_.reset();
    ingest_.reset();
    duck_.reset();
    std::filesystem::remove_all(directory_);
  }
  store::Store* Store() override { return duck_.get(); }

  void ScrapeAt(int k) {
    now_ = kStart + k * 30 * kSecond;
    const bool works = k <= 40 || k > 280;
    const std::string carol = R"(hpc_job="500",user="carol")";
    Body body;
    const auto show = [&](double util, double tensor, double power, double memory) {
      body.Util(util).Tensor(tensor).Clock(1410).Power(power).Energy(1e9 + k * 1e6);
      body.Line("DCGM_FI_DEV_FB_USED", memory);
    };
    body.Gpu(0, "GPU-X", kA100, carol);
    works ? show(100, .4, 300, 30000) : show(0, 0, 80, 30000);
    body.Gpu(1, "GPU-Y", kA100, carol);
    show(0, 0, 60, 4);
    body.Gpu(2, "GPU-Z", kA100, k > 60 ? R"(hpc_job="600",user="dave")" : "");
    show(0, 0, 60, 4);
    ingest_->pipeline.Ingest({"http://node1:9400/metrics", "node1"}, body, now_, 0);
  }

  std::filesystem::path directory_;
  std::unique_ptr<store::Store> duck_;
  fleet::Prices prices_;
};

TEST_F(IdleApiTest, SaysWhoHeldWhatSinceWhenAndWhatItCost) {
  const auto v = Json("/api/v1/idle?from=2026-09-21T14:14:00Z&to=2026-09-21T16:44:00Z");
  EXPECT_EQ(Text(v, "/currency"), "EUR");
  EXPECT_NEAR(Number(v, "/held_gpu_seconds"), 2 * 9000 + 7200, 1);
  EXPECT_NEAR(Number(v, "/coverage"), 1, 1e-6);
  ASSERT_EQ(Number(v, "/rows_total"), 3);
  struct Row {
    const char *job, *user, *state, *since, *until;
    double gpu_seconds;
  };
  const Row expected[] = {
      {"500", "carol", "unused_gpu", "2026-09-21T14:14:00Z", "null", 9000},
      {"500", "carol", "no_work", "2026-09-21T14:34:00Z", "2026-09-21T16:34:00Z", 7200},
      {"600", "dave", "no_process", "2026-09-21T14:44:00Z", "null", 7200}};
  for (size_t k = 0; k < 3; ++k) {
    const auto& row = v.at("rows").as_array()[k];
    EXPECT_EQ(Text(row, "/job"), expected[k].job);
    EXPECT_EQ(Text(row, "/user"), expected[k].user);
    EXPECT_EQ(Text(row, "/state"), expected[k].state);
    EXPECT_EQ(Text(row, "/since"), expected[k].since);
    EXPECT_EQ(Text(row, "/until"), expected[k].until);
    EXPECT_NEAR(Number(row, "/gpu_seconds"), expected[k].gpu_seconds, 1) << k;
    EXPECT_NEAR(Number(row, "/money"), expected[k].gpu_seconds / 1000, .001) << k;
    EXPECT_EQ(Text(row, "/nodes/0"), "node1");
  }
  EXPECT_EQ(Text(v, "/rows/1/evidence"),
            "1 GPU: nothing runs while 29.3 GiB of memory are held at 80 W (its work takes 300 W)");
  // Of GPU-Z, half an hour before anybody held it, on a host whose other GPUs were held.
  EXPECT_NEAR(Number(v, "/stranded/gpu_seconds"), 1800, 1);
  EXPECT_EQ(Number(v, "/totals/0/jobs"), 1);
  EXPECT_NEAR(Number(v, "/gpu_seconds"), 9000 + 7200 + 7200, 2);
}

TEST_F(IdleApiTest, AWindowThatSeesAPartKnowsHowLongItIs) {
  // A quarter of an hour out of a pause of two hours.
  const auto v =
      Json("/api/v1/idle?job=500&state=no_work&from=2026-09-21T15:00:00Z&to=2026-09-21T15:15:00Z");
  ASSERT_EQ(Number(v, "/rows_total"), 1);
  EXPECT_NEAR(Number(v, "/rows/0/gpu_seconds"), 900, 1e-3);
  EXPECT_EQ(Text(v, "/rows/0/since"), "2026-09-21T14:34:00Z");
  EXPECT_EQ(Text(v, "/rows/0/until"), "2026-09-21T16:34:00Z");
  EXPECT_NEAR(Number(v, "/held_gpu_seconds"), 3 * 900, 1e-3);
}

TEST_F(IdleApiTest, ANoticeIsOfOneJob) {
  const std::string window = "from=2026-09-21T14:14:00Z&to=2026-09-21T16:44:00Z";
  EXPECT_EQ(Text(Json("/api/v1/idle?" + window), "/notice"), "null");
  const std::string mail = Text(Json("/api/v1/idle?job=500&" + window), "/notice");
  EXPECT_TRUE(
      mail.starts_with("Subject: job 500 held GPUs for 4.5 GPU-hours without using them\n\n"
                       "Hello carol,\n"))
      << mail;
  EXPECT_NE(mail.find("on node1 for 4.5 GPU-hours (16.20 EUR)"), std::string::npos) << mail;
  EXPECT_NE(mail.find("- unused_gpu: 2.5 GPU-hours (9.00 EUR), since 2026-09-21T14:14:00Z"),
            std::string::npos)
      << mail;
  EXPECT_EQ(Text(Json("/api/v1/idle?job=700&" + window), "/notice"), "null");
}

TEST_F(IdleApiTest, FiltersLeaveOut) {
  const std::string window = "from=2026-09-21T14:14:00Z&to=2026-09-21T16:44:00Z&";
  EXPECT_EQ(Number(Json("/api/v1/idle?" + window + "user=dave"), "/rows_total"), 1);
  EXPECT_EQ(Number(Json("/api/v1/idle?" + window + "state=hung"), "/rows_total"), 0);
  EXPECT_EQ(Number(Json("/api/v1/idle?" + window + "min_gpu_seconds=8000"), "/rows_total"), 1);
  EXPECT_NE(Error("/api/v1/idle?state=lazy", 400).find("no_process"), std::string::npos);
}

}  // namespace
}  // namespace flopwatch::api
