// The same fleet through a real store: what memory says and what the store says agree, online,
// offline and after a restart.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "fixtures/api_fixture.h"
#include "fixtures/own_directory.h"
#include "uploads/traces.h"

namespace flopwatch::api {
namespace {

using namespace test;

class StoredTest : public ApiTest {
 protected:
  void SetUp() override {
    directory_ = test::OwnDirectory();
    Open(false);
    ApiTest::SetUp();
  }
  void TearDown() override {
    api_.reset();
    ingest_.reset();
    duck_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Open(bool read_only) {
    duck_.reset();
    auto opened =
        store::OpenDuckDbStore({.directory = directory_.string(), .read_only = read_only});
    ASSERT_TRUE(opened.ok()) << opened.status();
    duck_ = *std::move(opened);
  }
  store::Store* Store() override { return duck_.get(); }

  // Compares every number of two usage objects, but for what the window's edge or the source
  // explains.
  static void ExpectSameUsage(const boost::json::value& a, const boost::json::value& b,
                              const std::string& what) {
    for (const char* key : {"ofu", "observed_gpu_seconds", "computable_gpu_seconds",
                            "tensor_active", "sm_clock_mhz", "sm_active", "sm_occupancy",
                            "gpu_util", "power_w", "energy_j", "samples", "stale_s", "frozen_s"}) {
      const auto &x = a.at(key), &y = b.at(key);
      ASSERT_EQ(x.is_null(), y.is_null()) << what << " " << key;
      if (x.is_null()) continue;
      // Rollups keep milliseconds and millijoules.
      EXPECT_NEAR(x.to_number<double>(), y.to_number<double>(),
                  1e-6 * (1 + std::abs(x.to_number<double>())))
          << what << " " << key;
    }
    for (const auto& [reason, seconds] : a.at("lost_s").as_object()) {
      EXPECT_NEAR(seconds.to_number<double>(), b.at("lost_s").at(reason).to_number<double>(), 1e-3)
          << what << " " << std::string(reason);
    }
  }

  std::filesystem::path directory_;
  std::unique_ptr<store::Store> duck_;
  fleet::Prices prices_;
};

TEST_F(StoredTest, MemoryAndRollupsAgree) {
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  // Live: ends now. Stored: the same minutes, ending a moment ago is not live any more.
  const auto live = Json("/api/v1/fleet?from=2026-09-21T14:20:00Z");
  now_ += kMicrosPerMinute;
  const auto stored = Json("/api/v1/fleet?from=2026-09-21T14:20:00Z&to=2026-09-21T14:44:05Z");
  ASSERT_EQ(Text(live, "/window/source"), "live");
  ASSERT_EQ(Text(stored, "/window/source"), "rollup");
  ExpectSameUsage(live.at("usage"), stored.at("usage"), "fleet");
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(live.at("models").as_array()[k].at("model"),
              stored.at("models").as_array()[k].at("model"));
    ExpectSameUsage(live.at("models").as_array()[k].at("usage"),
                    stored.at("models").as_array()[k].at("usage"), "model");
  }
  const auto& x = live.at_pointer("/series/ofu").as_array();
  const auto& y = stored.at_pointer("/series/ofu").as_array();
  ASSERT_EQ(x.size(), y.size());
  for (size_t k = 0; k < x.size(); ++k)
    EXPECT_NEAR(x[k].to_number<double>(), y[k].to_number<double>(), 1e-6) << k;

  now_ -= kMicrosPerMinute;
  const auto live_jobs = Json("/api/v1/jobs?sort=job&from=2026-09-21T14:20:00Z");
  now_ += kMicrosPerMinute;
  const auto stored_jobs =
      Json("/api/v1/jobs?sort=job&from=2026-09-21T14:20:00Z&to=2026-09-21T14:44:05Z");
  const auto exact_jobs =
      Json("/api/v1/jobs?sort=job&exact=1&from=2026-09-21T14:20:00Z&to=2026-09-21T14:44:05Z");
  ASSERT_EQ(Number(live_jobs, "/total"), 4);
  ASSERT_EQ(Number(stored_jobs, "/total"), 4);
  ASSERT_EQ(Number(exact_jobs, "/total"), 4);
  for (int k = 0; k < 4; ++k) {
    const auto& a = live_jobs.at("jobs").as_array()[k];
    const auto& b = stored_jobs.at("jobs").as_array()[k];
    const auto& c = exact_jobs.at("jobs").as_array()[k];
    EXPECT_EQ(a.at("job"), b.at("job"));
    ExpectSameUsage(a.at("usage"), b.at("usage"), Text(a, "/job"));
    EXPECT_EQ(Number(a, "/usage/gpus"), Number(b, "/usage/gpus"));
    EXPECT_NEAR(Number(a, "/usage/ofu"), Number(c, "/usage/ofu"), 1e-6);
  }
}

// A trace of job 100 whose one rank computes for 30 us and communicates for 70.
TEST_F(StoredTest, WhatATraceShowsIsAnAction) {
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  uploads::TraceLibraryOptions options;
  options.directory = (directory_ / "traces").string();
  options.min_free_disk_bytes = 0;
  options.clock = [this] { return now_; };
  auto opened = uploads::TraceLibrary::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const char* job : {"100", "999"}) {  // of the second nobody has heard
    const auto upload = (*opened)->Begin({.name = "rank0.json", .job = job});
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_TRUE((*upload)
                    ->Write(
                        R"json({"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[
        {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":0,"dur":30,
        "args":{"device":0,"stream":7,"correlation":1}},
        {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)",
        "pid":0,"tid":9,"ts":30,"dur":70,"args":{"device":0,"stream":9,"correlation":2}}]})json")
                    .ok());
    const auto filed = (*opened)->Finish(upload->get());
    ASSERT_TRUE(filed.ok()) << filed.status();
    const auto done = (*opened)->WaitFor(filed->id, 60 * kSecond);
    ASSERT_TRUE(done.ok() && done->state == uploads::TraceState::kReady);
  }
  ApiSources parts;
  parts.traces = opened->get();
  MakeApi(std::move(parts));
  const auto advice = Json("/api/v1/advise?from=2026-09-21T14:20:00Z");
  int seen = 0;
  for (const auto& a : advice.at("actions").as_array()) {
    if (a.at("cause").as_string() != "trace") continue;
    ++seen;
    EXPECT_EQ(Text(a, "/subject"), "job 100");
    EXPECT_EQ(Text(a, "/link"), "/api/v1/traces?job=100");
    EXPECT_TRUE(a.at("at_most").as_bool());
    // It has two GPUs for 24 minutes and five seconds.
    EXPECT_NEAR(Number(a, "/gpu_seconds"), .7 * 2 * 1445, 10) << boost::json::serialize(a);
  }
  EXPECT_EQ(seen, 1) << boost::json::serialize(advice);
  api_.reset();
}

// The time in which an exporter answers and says nothing new is told, and is not time without
// samples, whether memory, raw rows, rollups or sealed files answer.
TEST_F(StoredTest, AFrozenExporterIsToldByEverySource) {
  // node1 repeats its last body for five minutes, node2 goes on. Ninety seconds of it count.
  for (int k = 0; k < 30; ++k) {
    Scrape(kScrapes + k);
    Body same;
    same.Gpu(0, "GPU-F", kA100, R"(hpc_job="400")").Tensor(0.5).Clock(1410).Power(300).Energy(1e9);
    ingest_->pipeline.Ingest({"http://node3:9400/metrics", "node3"}, same, now_, 0);
  }
  now_ += 5 * kSecond;
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  const std::string begin = "?from=2026-09-21T14:20:00Z", end = "&to=2026-09-21T14:49:05Z";
  const auto live = Json("/api/v1/fleet" + begin);
  const auto live_job = Json("/api/v1/jobs/400" + begin);
  ASSERT_EQ(Text(live, "/window/source"), "live");
  EXPECT_EQ(Number(live_job, "/job/usage/observed_gpu_seconds"), 90);
  EXPECT_EQ(Number(live_job, "/job/usage/frozen_s"), 200);
  now_ += kMicrosPerMinute;
  const auto check = [&](const char* source) {
    SCOPED_TRACE(source);
    const auto fleet = Json("/api/v1/fleet" + begin + end);
    ASSERT_EQ(Text(fleet, "/window/source"), "rollup");
    ExpectSameUsage(live.at("usage"), fleet.at("usage"), "fleet");
    const auto lost = [](const boost::json::value& v, std::string_view reason) {
      for (const auto& entry : v.at("not_computable").as_array()) {
        if (entry.at("reason") == boost::json::string_view(reason.data(), reason.size()))
          return entry.at("gpu_seconds").to_number<double>();
      }
      return 0.0;
    };
    EXPECT_NEAR(lost(fleet, "frozen"), 200, 1e-6);
    EXPECT_NEAR(lost(live, "frozen"), 200, 1e-6);
    for (const char* exact : {"", "&exact=1"}) {
      const auto job = Json("/api/v1/jobs/400" + begin + end + exact);
      EXPECT_NEAR(Number(job, "/job/usage/observed_gpu_seconds"), 90, 1e-6);
      EXPECT_NEAR(Number(job, "/job/usage/frozen_s"), 200, 1e-6);
      EXPECT_NE(Text(job, "/job/flags").find("frozen"), std::string::npos) << exact;
    }
  };
  check("raw rows");
  ASSERT_TRUE(duck_->RollUp().ok());
  check("rollups");
  ASSERT_TRUE(duck_->Seal(now_ + 2 * kMicrosPerHour).ok());
  check("sealed files");
}

// The store keeps milliseconds. A fleet younger than the window is answered from memory only if
// nothing older is stored: a first row that is a fraction of a millisecond later in memory would
// send every question to the store.
class OddClockTest : public StoredTest {
 protected:
  OddClockTest() { fraction_ = 123'456; }
};

TEST_F(OddClockTest, AYoungFleetIsAnsweredFromMemory) {
  EXPECT_EQ(duck_->stats().oldest_ts % kMicrosPerSecond, 123'000);
  const auto fleet = Json("/api/v1/fleet?from=2026-09-21T14:00:00Z");
  EXPECT_EQ(Text(fleet, "/window/source"), "live");
  EXPECT_NEAR(Number(fleet, "/usage/observed_gpu_seconds"), 1800.0 * 4 + 1800.0 * 14 / 108, 0.5);
  EXPECT_EQ(Text(Json("/api/v1/jobs?from=2026-09-21T14:00:00Z"), "/window/source"), "live");
}

// A job that ended long ago is found without a search for the time it ran in.
TEST_F(StoredTest, AJobWithoutAWindowIsShownOverItsLife) {
  now_ += 6 * kMicrosPerHour;
  const auto job = Json("/api/v1/jobs/100");
  EXPECT_EQ(Text(job, "/window/from"), "2026-09-21T14:14:00Z");
  EXPECT_EQ(Text(job, "/window/to"), "2026-09-21T14:44:00Z");
  EXPECT_NEAR(Number(job, "/job/usage/ofu"), 0.4, 1e-6);
  EXPECT_NEAR(Number(job, "/job/usage/computable_gpu_seconds"), 2 * 1800, 20);
  EXPECT_EQ(job.at("gpus").as_array().size(), 2u);
  // With one end it is a window of an hour or up to now, as of every other route.
  EXPECT_EQ(Text(Json("/api/v1/jobs/100?to=2026-09-21T15:00:00Z"), "/window/from"),
            "2026-09-21T14:00:00Z");
}

TEST_F(StoredTest, OneJobAndOneGpu) {
  // [14:15, 14:44): 174 samples of ten seconds on each of two GPUs, OFU 0.6 and 0.2.
  const auto job = Json("/api/v1/jobs/100?from=2026-09-21T14:15:00Z&to=2026-09-21T14:44:00Z");
  EXPECT_NEAR(Number(job, "/job/usage/ofu"), 0.4, 1e-6);
  EXPECT_NEAR(Number(job, "/job/usage/gpu_seconds"), 2 * 1740, 1e-6);
  EXPECT_NEAR(Number(job, "/job/usage/computable_gpu_seconds"), 2 * 1740, 1e-6);
  EXPECT_EQ(Number(job, "/job/usage/coverage"), 1);
  ASSERT_EQ(job.at("gpus").as_array().size(), 2u);
  EXPECT_NEAR(Number(job, "/gpus/0/usage/ofu"), 0.6, 1e-6);
  EXPECT_NEAR(Number(job, "/gpus/1/usage/ofu"), 0.2, 1e-6);
  EXPECT_EQ(Number(job, "/gpus/1/usage/coverage"), 1);
  EXPECT_EQ(Text(job, "/gpus/1/node"), "node1");

  // The MIG GPU: its instance by its share, the board's power once.
  const auto gpu = Json("/api/v1/gpus/GPU-D?from=2026-09-21T14:15:00Z&to=2026-09-21T14:44:00Z");
  EXPECT_NEAR(Number(gpu, "/usage/ofu"), 0.9, 1e-6);
  EXPECT_NEAR(Number(gpu, "/usage/computable_gpu_seconds"), 1740.0 * 14 / 108, 1e-3);
  EXPECT_NEAR(Number(gpu, "/usage/coverage"), 14.0 / 108, 1e-6);
  EXPECT_NEAR(Number(gpu, "/usage/power_w"), 250, 1e-6);
  EXPECT_EQ(Text(gpu, "/jobs/0/job"), "ml/train-0");
  // The instance by itself: all of its own seconds.
  const auto instance =
      Json("/api/v1/gpus/GPU-D?gpu_instance=7&from=2026-09-21T14:15:00Z&to=2026-09-21T14:44:00Z");
  EXPECT_NEAR(Number(instance, "/usage/ofu"), 0.9, 1e-6);
  EXPECT_EQ(Number(instance, "/usage/coverage"), 1);
}

// By hand: 1,200 s; alice has two GPUs, bob half of one, and nobody says whose the other half and
// the MIG instance (14 of 108 SMs) are. The price doubles in the middle.
TEST_F(StoredTest, UsageAddsUpAndHasItsPrice) {
  const auto prices = fleet::Prices::Parse(
      "[prices]\ncurrency = \"EUR\"\n[[prices.gpu_hour]]\nprice = 3.6\n"
      "[[prices.gpu_hour]]\nprice = 7.2\nfrom = 2026-09-21T14:30:00Z\n",
      hardware::Catalog::Builtin());
  ASSERT_TRUE(prices.ok()) << prices.status();
  api_.reset();
  ApiSources parts;
  parts.prices = &*prices;
  MakeApi(std::move(parts));
  const std::string window = "from=2026-09-21T14:20:00Z&to=2026-09-21T14:40:00Z";
  const auto v = Json("/api/v1/usage?" + window);
  EXPECT_EQ(Text(v, "/currency"), "EUR");
  ASSERT_EQ(Number(v, "/rows_total"), 3);
  const double instance = 1200 * 14. / 108;
  struct Row {
    const char* name;
    double jobs, gpu_seconds, ofu, cost;
  };
  const Row expected[] = {
      {"alice", 1, 2400, 0.4, 2 * (0.6 + 1.2)},
      {"null", 2, 600 + instance, (600 * 0.25 + instance * 0.9) / (600 + instance),
       (0.5 + 14. / 108) * (0.6 + 1.2)},
      {"bob", 1, 600, 0.25, 0.5 * (0.6 + 1.2)}};
  double gpu_seconds = 0, cost = 0;
  for (size_t k = 0; k < 3; ++k) {
    const auto& row = v.at("rows").as_array()[k];
    EXPECT_EQ(Text(row, "/name"), expected[k].name);
    EXPECT_EQ(Number(row, "/jobs"), expected[k].jobs);
    EXPECT_NEAR(Number(row, "/gpu_seconds"), expected[k].gpu_seconds, 1e-6) << k;
    EXPECT_NEAR(Number(row, "/ofu"), expected[k].ofu, 1e-6) << k;
    EXPECT_NEAR(Number(row, "/cost"), expected[k].cost, 1e-9) << k;
    EXPECT_NEAR(Number(row, "/lost_money"), expected[k].cost * (1 - expected[k].ofu), 1e-6) << k;
    EXPECT_EQ(Number(row, "/cost_coverage"), 1);
    EXPECT_EQ(Number(row, "/mfu_coverage"), 0);
    EXPECT_EQ(Text(row, "/mfu"), "null");
    gpu_seconds += Number(row, "/gpu_seconds");
    cost += Number(row, "/cost");
  }
  EXPECT_NEAR(Number(v, "/rows/0/duty"), 0.95, 1e-6);
  EXPECT_NEAR(Number(v, "/total/gpu_seconds"), gpu_seconds, 1e-6);
  EXPECT_NEAR(Number(v, "/total/cost"), cost, 1e-9);
  EXPECT_EQ(Number(v, "/total/jobs"), 4);
  const auto names = [&](const std::string& by) {
    std::string out;
    const auto answer = Json("/api/v1/usage?by=" + by + "&" + window);
    EXPECT_NEAR(Number(answer, "/total/gpu_seconds"), gpu_seconds, 1e-6);
    for (const auto& row : answer.at("rows").as_array()) out += Text(row, "/name") + ";";
    return out;
  };
  EXPECT_EQ(names("job"), "100;200;300;ml/train-0;");
  EXPECT_EQ(names("size"), "2;1;");
  EXPECT_EQ(names("model"), std::string(kA100) + ";");
  EXPECT_EQ(names("workflow"), "null;");
  EXPECT_NE(Error("/api/v1/usage?by=colour", 400).find("user"), std::string::npos);
}

// By hand, 1,200 s: node1 is alpha's and has three GPUs that are held, of which the clock takes 300
// GPU-seconds (C at half of it); node2 is beta's, an instance is held at full clock.
TEST_F(StoredTest, LossesArePricedWhereTheyWere) {
  const auto node = [&](std::string cluster, std::string name, int64_t gpus) {
    jobs::NodeRecord n;
    n.node = std::move(name);
    n.gpus = gpus;
    n.service = jobs::Service::kInService;
    n.partitions = cluster + "-all";
    ingest_->books.TellNodes(cluster, kStart - kSecond, {{n}});
  };
  node("alpha", "node1", 3);
  node("beta", "node2", 2);
  const std::string window = "from=2026-09-21T14:20:00Z&to=2026-09-21T14:40:00Z";
  const auto with_prices = [&](const std::string& toml) {
    auto prices = fleet::Prices::Parse(toml, hardware::Catalog::Builtin());
    ASSERT_TRUE(prices.ok()) << prices.status();
    api_.reset();
    prices_ = *std::move(prices);
    ApiSources parts;
    parts.prices = &prices_;
    MakeApi(std::move(parts));
  };
  const auto money = [&](const std::string& cut, const std::string& name) {
    const auto v = Json("/api/v1/sankey?" + window + cut);
    std::optional<double> sum;
    for (const auto& loss : v.at("losses").as_array()) {
      if (Text(loss, "/name") != name || loss.at("money").is_null()) continue;
      sum = sum.value_or(0) + Number(loss, "/money");
    }
    return sum;
  };
  with_prices(
      "[[prices.gpu_hour]]\ncluster = \"alpha\"\nprice = 3.6\n"
      "[[prices.gpu_hour]]\ncluster = \"beta\"\nprice = 36\n");
  for (const char* cut : {"", "&cluster=alpha", "&partition=alpha-all"}) {
    ASSERT_TRUE(money(cut, "below_full_clock").has_value()) << cut;
    EXPECT_NEAR(*money(cut, "below_full_clock"), 300 * 0.001, 1e-6) << "all of it on node1" << cut;
  }
  EXPECT_EQ(money("&cluster=beta", "below_full_clock"), std::nullopt) << "nothing is lost there";
  for (const char* name : {"allocated_idle", "free_on_busy_hosts", "mig_uncovered"}) {
    const double parts =
        money("&cluster=alpha", name).value_or(0) + money("&cluster=beta", name).value_or(0);
    EXPECT_NEAR(money("", name).value_or(0), parts, 1e-6) << name;
  }
  // Nobody reports the duty cycle of the instance: time that is not measured, at beta's price.
  EXPECT_NEAR(*money("", "unmeasured"), 1200 * 14. / 108 * 0.01, 1e-6);
  EXPECT_NEAR(Number(Json("/api/v1/sankey?" + window), "/deployed_money"),
              3 * 1200 * 0.001 + 2 * 1200 * 0.01, 1e-6);
  // Who is behind a loss is asked for of the same part of the fleet, and is there.
  const auto cut = Json("/api/v1/sankey?" + window + "&cluster=alpha");
  std::string drill;
  for (const auto& loss : cut.at("losses").as_array())
    if (Text(loss, "/name") == "below_full_clock") drill = Text(loss, "/drill");
  EXPECT_NE(drill.find("/api/v1/jobs?"), std::string::npos) << drill;
  EXPECT_NE(drill.find("&cluster=alpha"), std::string::npos) << drill;
  const auto jobs_of = [&](const std::string& path) {
    std::string out;
    const auto answer = Json(path);
    for (const auto& job : answer.at("jobs").as_array()) out += Text(job, "/job") + ";";
    return out;
  };
  EXPECT_EQ(jobs_of("/api/v1/jobs?sort=job&" + window + "&cluster=alpha"), "100;200;300;");
  EXPECT_EQ(jobs_of("/api/v1/jobs?sort=job&" + window + "&partition=beta-all"), "ml/train-0;");
  EXPECT_EQ(jobs_of("/api/v1/jobs?sort=job&" + window + "&account=nobody"), "");
  EXPECT_EQ(Number(Json(drill), "/total"), 3);
  const std::string svg(Get("/api/v1/sankey?format=svg&" + window + "&cluster=alpha").Body());
  EXPECT_NE(svg.find("&amp;cluster=alpha\""), std::string::npos);
  EXPECT_NE(svg.find("of deployed; 0.30</title>"), std::string::npos) << svg;
  // Where only beta has a price, node1's losses have none, and it is said.
  with_prices("[[prices.gpu_hour]]\ncluster = \"beta\"\nprice = 36\n");
  EXPECT_EQ(money("", "below_full_clock"), std::nullopt);
  EXPECT_EQ(money("&cluster=alpha", "below_full_clock"), std::nullopt);
  const auto v = Json("/api/v1/sankey?" + window);
  std::string notes;
  for (const auto& note : v.at("notes").as_array()) notes += std::string(note.as_string()) + "\n";
  EXPECT_NE(notes.find("known of 40.0 % of the deployed"), std::string::npos) << notes;
}

class ProfilingTest : public StoredTest {
 protected:
  void SetUp() override {
    profiling_ = true;
    StoredTest::SetUp();
  }
};

TEST_F(ProfilingTest, UsageHasOccupancyWhereBothCountersSayIt) {
  const std::string window = "from=2026-09-21T14:20:00Z&to=2026-09-21T14:40:00Z";
  const auto v = Json("/api/v1/usage?" + window);
  ASSERT_EQ(Text(v, "/window/source"), "rollup");
  ASSERT_EQ(Text(v, "/rows/0/name"), "alice");  // GPU-A and GPU-B alike
  EXPECT_NEAR(Number(v, "/rows/0/sm_efficiency"), (0.9126 + 0.9322) / 2, 1e-6);
  EXPECT_NEAR(Number(v, "/rows/0/occupancy_elapsed"), (0.2445 + 0.2477) / 2, 1e-6);
  EXPECT_NEAR(Number(v, "/rows/0/occupancy_active"), 0.4922 / 1.8448, 1e-6);
  // GPU-C's exporter lists 1002 alone, GPU-D's neither: what is said of elapsed time is said of A
  // and B, and over active time nothing is.
  ASSERT_EQ(Text(v, "/rows/2/name"), "bob");
  EXPECT_NEAR(Number(v, "/rows/2/sm_efficiency"), 0.4, 1e-6);
  for (const char* what : {"/rows/2/occupancy_elapsed", "/rows/2/occupancy_active",
                           "/rows/1/occupancy_elapsed", "/total/occupancy_active"})
    EXPECT_EQ(Text(v, what), "null") << what;
  EXPECT_NEAR(Number(v, "/total/occupancy_elapsed"), 0.2461, 1e-6);
  EXPECT_NEAR(Number(v, "/total/sm_efficiency"), (2 * 1200 * 0.9224 + 1200 * 0.4) / 3600, 1e-6);
  // The same from raw rows, and of the minutes that memory has.
  const auto exact = Json("/api/v1/usage?exact=1&" + window);
  EXPECT_NEAR(Number(exact, "/rows/0/occupancy_active"), 0.4922 / 1.8448, 1e-6);
  EXPECT_EQ(Text(exact, "/total/occupancy_active"), "null");
  const auto live = Json("/api/v1/jobs?from=2026-09-21T14:20:00Z");
  ASSERT_EQ(Text(live, "/window/source"), "live");
  EXPECT_NEAR(Number(live, "/jobs/0/usage/sm_occupancy"), 0.2461, 1e-6);
}

TEST_F(StoredTest, KwhOfAnExaflopByHand) {
  const auto v = Json("/api/v1/usage?from=2026-09-21T14:20:00Z&to=2026-09-21T14:40:00Z");
  // The data sheet's dense BF16 peak of an A100 is 312 TFLOP/s. alice: 2400 s at 0.4 and 250 W;
  // bob and another have half of 1200 s at 0.25 and 100 W each.
  const double alice = 0.4 * 2400 * 312e12 / 1e18, half = 0.25 * 600 * 312e12 / 1e18;
  const double alice_kwh = 250. * 2400 / 3.6e6, half_kwh = 100. * 600 / 3.6e6;
  EXPECT_NEAR(Number(v, "/rows/0/kwh_per_eflop_bf16"), alice_kwh / alice, 5e-4);
  EXPECT_EQ(Number(v, "/rows/0/kwh_per_eflop_coverage"), 1);
  EXPECT_NEAR(Number(v, "/rows/2/kwh_per_eflop_bf16"), half_kwh / half, 5e-4);
  // The job on a MIG instance has no power of its own: neither its FLOPs nor its time are in it.
  const double instance = 1200 * 14. / 108;
  EXPECT_NEAR(Number(v, "/rows/1/kwh_per_eflop_bf16"), half_kwh / half, 5e-4);
  EXPECT_NEAR(Number(v, "/rows/1/kwh_per_eflop_coverage"), 600 / (600 + instance), 1e-6);
  EXPECT_NEAR(Number(v, "/total/kwh_per_eflop_bf16"),
              (alice_kwh + 2 * half_kwh) / (alice + 2 * half), 5e-4);
  EXPECT_NEAR(Number(v, "/total/kwh_per_eflop_coverage"), 3600 / (3600 + instance), 1e-6);
}

TEST_F(StoredTest, WithoutPricesNothingHasACost) {
  const auto v = Json("/api/v1/usage?from=2026-09-21T14:20:00Z&to=2026-09-21T14:40:00Z");
  EXPECT_EQ(Text(v, "/currency"), "null");
  EXPECT_EQ(Text(v, "/total/cost"), "null");
  EXPECT_EQ(Text(v, "/rows/0/lost_money"), "null");
  EXPECT_EQ(Number(v, "/total/cost_coverage"), 0);
}

TEST_F(StoredTest, OfflineSaysTheSameAsTheServer) {
  const std::string jobs_url =
      "/api/v1/jobs?sort=job&from=2026-09-21T14:15:00Z&to=2026-09-21T14:43:00Z";
  const auto online = Json(jobs_url);
  api_.reset();
  ingest_.reset();
  Open(/*read_only=*/true);
  ApiSources parts;
  parts.store = duck_.get();
  parts.catalog = &hardware::Catalog::Builtin();
  api_ = std::make_unique<CheckedApi>(std::move(parts));
  const auto offline = Json(jobs_url);
  ASSERT_EQ(Number(offline, "/total"), 4);
  for (int k = 0; k < 4; ++k) {
    const auto &a = online.at("jobs").as_array()[k], &b = offline.at("jobs").as_array()[k];
    EXPECT_EQ(a.at("job"), b.at("job"));
    EXPECT_EQ(a.at("user"), b.at("user"));
    ExpectSameUsage(a.at("usage"), b.at("usage"), Text(a, "/job"));
    EXPECT_NEAR(Number(a, "/usage/gpu_seconds"), Number(b, "/usage/gpu_seconds"), 1e-6);
  }
  EXPECT_EQ(Text(Json("/api/v1/status"), "/now"), "2026-09-21T14:44:00Z");
  EXPECT_EQ(Number(Json("/api/v1/status"), "/jobs_running"), 4);
  // Means of the last hour stand in for the latest rows.
  const auto gpus = Json("/api/v1/gpus?sort=gpu&node=node1");
  EXPECT_EQ(Number(gpus, "/total"), 3);
  EXPECT_NEAR(Number(gpus, "/gpus/0/ofu"), 0.6, 1e-6);
  EXPECT_EQ(Text(gpus, "/gpus/0/job"), "100");
  EXPECT_EQ(Number(Json("/api/v1/sql?q=SELECT 6 * 7 AS answer"), "/rows/0/0"), 42);
}

TEST_F(StoredTest, AfterARestartTheWindowThatNeedsHistoryReadsTheStore) {
  const double gpus = Number(Json("/api/v1/gpus"), "/total");
  api_.reset();
  ingest_.reset();
  Open(false);
  PipelineOptions options;
  options.clock = [this] { return now_; };
  options.flush_interval = kMicrosPerHour;
  ingest_ = *IngestSide::Start(options, &hardware::Catalog::Builtin(), duck_.get());
  MakeApi({});
  // Before the first scrape every GPU is known, silent, and without values.
  const auto silent = Json("/api/v1/gpus?sort=gpu&order=asc");
  EXPECT_EQ(Number(silent, "/total"), gpus);
  EXPECT_EQ(Text(silent, "/gpus/0/gpu"), "GPU-A");
  EXPECT_EQ(Text(silent, "/gpus/0/state"), "silent");
  EXPECT_EQ(Text(silent, "/gpus/0/ofu"), "null");
  EXPECT_EQ(Text(silent, "/gpus/0/power_w"), "null");
  api_.reset();
  Scrape(kScrapes);
  Scrape(kScrapes + 1);
  now_ += kSecond;
  MakeApi({});
  // Memory knows ten seconds; the hour is in the store, the rows just flushed too.
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs")));
  const auto jobs = Json("/api/v1/jobs?from=2026-09-21T14:15:00Z");
  EXPECT_EQ(Text(jobs, "/window/source"), "rollup");
  EXPECT_EQ(Text(jobs, "/jobs/0/job"), "100");
  EXPECT_NEAR(Number(jobs, "/jobs/0/usage/ofu"), 0.4, 1e-6);
  // The same job goes on: its interval is one, not two.
  const auto gpu = Json("/api/v1/gpus/GPU-A");
  EXPECT_EQ(gpu.at("jobs").as_array().size(), 1u);
  EXPECT_EQ(Text(gpu, "/jobs/0/from"), "2026-09-21T14:14:00Z");
}

TEST_F(StoredTest, PartsOfANodeHaveTablesOfTheirOwnAndAreNoGpus) {
  const double gpus = Number(Json("/api/v1/gpus"), "/total");
  for (int k = 1; k <= 3; ++k) {
    ingest_->pipeline.Ingest(
        {"http://node1:9400/metrics", "node1"},
        fmt::format(
            "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{{nvswitch=\"0\",Hostname=\"node1\"}} {}\n"
            "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{{nvlink=\"3\",nvswitch=\"nvswitch0\",Hostname="
            "\"node1\"}} {}\n"
            "DCGM_FI_DEV_CPU_UTIL_TOTAL{{cpu=\"1\",Hostname=\"node1\"}} 0.{}\n",
            40 + k, 1000 * k, k),
        now_ + k * 10 * kSecond, 0);
  }
  now_ += 40 * kSecond;
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  const auto sql = [&](const std::string& text) {
    const auto r = duck_->UserSql(text, {});
    EXPECT_TRUE(r.ok()) << r.status();
    std::string out;
    if (!r.ok()) return out;
    for (const auto& row : r->table.rows) out += std::get<std::string>(row[0]) + ";";
    return out;
  };
  EXPECT_EQ(sql("SELECT concat_ws(' ', name, node, span_s, "
                "dcgm_fi_dev_nvswitch_temperature_current) FROM switch_samples ORDER BY ts"),
            "node1/nvswitch0 node1 0.0 41.0;node1/nvswitch0 node1 10.0 42.0;node1/nvswitch0 node1 "
            "10.0 43.0;");
  EXPECT_EQ(sql("SELECT concat_ws(' ', name, max(dcgm_fi_dev_nvswitch_link_throughput_tx)) FROM "
                "link_samples GROUP BY name"),
            "node1/nvswitch0/nvlink3 3000.0;");
  EXPECT_EQ(sql("SELECT concat_ws(' ', name, round(avg(dcgm_fi_dev_cpu_util_total), 6)) FROM "
                "cpu_samples GROUP BY name"),
            "node1/cpu1 0.2;");
  EXPECT_EQ(
      sql("SELECT count(*)::VARCHAR FROM samples WHERE gpu LIKE '%nvswitch%' OR gpu LIKE '%cpu%'"),
      "0;");
  EXPECT_EQ(sql("SELECT count(*)::VARCHAR FROM gpus WHERE gpu LIKE '%/%'"), "0;");
  EXPECT_EQ(Number(Json("/api/v1/gpus"), "/total"), gpus);
  // Sealed like the others, and known again after a restart.
  ASSERT_TRUE(duck_->Seal(now_ + 2 * kMicrosPerHour).ok());
  EXPECT_EQ(sql("SELECT count(*)::VARCHAR FROM switch_samples"), "3;");
  EXPECT_EQ(sql("SELECT count(*)::VARCHAR FROM link_samples"), "3;");
}

TEST_F(StoredTest, LateMetadataIsJoinedForReal) {
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  // A static file now says that GPU-A was job 78's from 14:20 to 14:30, not 100's.
  ingest_->jobs.SetStatic({{.gpu = "GPU-A",
                            .job = "78",
                            .name = "",
                            .user = "carol",
                            .workflow = "",
                            .rank = 0,
                            .from = kStart + 6 * kMicrosPerMinute,
                            .to = kStart + 16 * kMicrosPerMinute}});
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  now_ += kMicrosPerMinute;
  const auto v = Json("/api/v1/jobs/78?from=2026-09-21T14:20:00Z&to=2026-09-21T14:30:00Z");
  EXPECT_NEAR(Number(v, "/job/usage/ofu"), 0.6, 1e-6);
  EXPECT_NEAR(Number(v, "/job/usage/computable_gpu_seconds"), 600, 1e-6);
  EXPECT_NEAR(Number(v, "/job/usage/gpu_seconds"), 600, 1e-6);
  EXPECT_EQ(boost::json::serialize(v.at_pointer("/job/flags")), R"(["exact"])");
}

}  // namespace
}  // namespace flopwatch::api
