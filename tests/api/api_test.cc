#include "api/api.h"

#include <gtest/gtest.h>

#include "fixtures/api_fixture.h"

namespace flopwatch::api {
namespace {

using namespace test;

// In the last five minutes (thirty slots of ten seconds): job 100 has two A100 at OFU 0.6 and 0.2,
// half the time each -> 0.4.
TEST_F(ApiTest, JobsAreRankedByGpuSecondsFromMemory) {
  const auto v = Json("/api/v1/jobs?from=now-5m");
  EXPECT_EQ(Text(v, "/window/source"), "live");
  EXPECT_EQ(Number(v, "/total"), 4);
  EXPECT_EQ(Text(v, "/jobs/0/job"), "100");
  EXPECT_EQ(Text(v, "/jobs/0/user"), "alice");
  EXPECT_TRUE(v.at_pointer("/jobs/0/running").as_bool());
  EXPECT_NEAR(Number(v, "/jobs/0/usage/ofu"), 0.4, 1e-12);
  EXPECT_EQ(Number(v, "/jobs/0/usage/computable_gpu_seconds"), 600);
  EXPECT_EQ(Number(v, "/jobs/0/usage/gpus"), 2);
  EXPECT_EQ(Text(v, "/jobs/0/usage/source"), "ratio");
  EXPECT_EQ(Text(v, "/jobs/0/usage/weight"), "gpu_seconds");
  EXPECT_EQ(Number(v, "/jobs/0/usage/power_w"), 250);
  EXPECT_EQ(Number(v, "/jobs/0/usage/gpu_util"), 0.95);
  // 600 GPU-seconds at 40 %: 360 were lost.
  EXPECT_NEAR(Number(v, "/jobs/0/usage/lost_gpu_seconds"), 360, 1e-9);
  EXPECT_EQ(Number(v, "/jobs/0/usage/coverage"), 1);
}

TEST_F(ApiTest, SharedAndSlicedGpusAreExpectedByTheirShare) {
  // Label intervals end at the last sample: [14:15:00, 14:44:00) is 1740 s.
  const auto v = Json("/api/v1/jobs/200?from=2026-09-21T14:15:00Z");
  EXPECT_NEAR(Number(v, "/job/usage/gpu_seconds"), 1740.0 / 2, 1e-6);
  EXPECT_NEAR(Number(v, "/job/usage/ofu"), 0.25, 1e-12);
  const auto mig = Json("/api/v1/jobs/ml/train-0?from=2026-09-21T14:15:00Z");
  EXPECT_NEAR(Number(mig, "/job/usage/gpu_seconds"), 1740.0 * 14 / 108, 1e-6);
  EXPECT_NEAR(Number(mig, "/job/usage/ofu"), 0.9, 1e-12);
  EXPECT_EQ(Number(mig, "/job/usage/coverage"), 1);
  EXPECT_EQ(Text(mig, "/job/started"), "2026-09-21T14:14:00Z");
  EXPECT_EQ(Text(mig, "/job/ended"), "null");
}

TEST_F(ApiTest, FleetIsWeightedByGpuSecondsAndSaysWhatIsMissing) {
  const auto v = Json("/api/v1/fleet?from=now-5m");
  // GPU-seconds with OFU in 300 s: A, B and C 300 each, D's instance 300 x 14/108 = 38.889.
  const double slice = 300.0 * 14 / 108;
  const double computable = 900 + slice;
  EXPECT_NEAR(Number(v, "/usage/computable_gpu_seconds"), computable, 1e-6);
  EXPECT_NEAR(Number(v, "/usage/ofu"), (300 * (0.6 + 0.2 + 0.25) + slice * 0.9) / computable, 1e-9);
  // Five GPUs are deployed; the window is whole slots, [14:39:10, 14:44:05).
  EXPECT_EQ(Text(v, "/window/from"), "2026-09-21T14:39:10Z");
  EXPECT_EQ(Number(v, "/usage/gpu_seconds"), 5 * 295);
  EXPECT_NEAR(Number(v, "/usage/coverage"), computable / (5 * 295), 1e-9);
  EXPECT_EQ(Number(v, "/usage/gpus"), 5);
  EXPECT_EQ(Text(v, "/not_computable/0/reason"), "model_unknown");
  EXPECT_EQ(Number(v, "/not_computable/0/gpu_seconds"), 300);
  EXPECT_EQ(Text(v, "/models/0/model"), kA100);
  EXPECT_EQ(Number(v, "/models/0/gpus"), 4);
  EXPECT_EQ(Number(v, "/models/0/tensor_clock_max_mhz"), 1410);
  EXPECT_EQ(Text(v, "/models/1/model"), "NVIDIA H999");
  EXPECT_EQ(Text(v, "/models/1/usage/ofu"), "null");
  EXPECT_EQ(Text(v, "/models/1/usage/ofu_reason"), "the GPU model is not in the hardware table");
  EXPECT_EQ(Text(v, "/models/1/tensor_clock_max_mhz"), "null");
  // Board power: 300 + 200 + 100 + 250 + 50 over five GPUs.
  EXPECT_NEAR(Number(v, "/usage/power_w"), 180, 1e-9);
}

TEST_F(ApiTest, TheDefaultWindowIsTheLastHourWithItsSeriesFromMemory) {
  const auto v = Json("/api/v1/fleet");
  EXPECT_EQ(Text(v, "/window/source"), "live");
  EXPECT_EQ(Number(v, "/series/step_s"), 60);
  const auto& ts = v.at_pointer("/series/ts").as_array();
  for (const char* column :
       {"ofu", "coverage", "gpu_seconds", "tensor_active", "sm_clock_mhz", "gpu_util", "power_w"}) {
    EXPECT_EQ(v.at_pointer(std::string("/series/") + column).as_array().size(), ts.size())
        << column;
  }
  // 13:45 to 14:44, of which the first half hour is before the first sample: absent, not zero.
  EXPECT_EQ(ts.size(), 60u);
  EXPECT_TRUE(v.at_pointer("/series/ofu/0").is_null());
  EXPECT_TRUE(v.at_pointer("/series/coverage/0").is_null());
  EXPECT_NEAR(Number(v, "/series/ofu/40"), Number(v, "/usage/ofu"), 1e-9);
  EXPECT_EQ(Number(v, "/series/gpu_seconds/40"), 300);
  // A constant series has no uncertainty.
  EXPECT_EQ(Number(v, "/usage/ofu_ci95"), 0);
  EXPECT_FALSE(v.at_pointer("/now").is_null());
}

TEST_F(ApiTest, JobsFilterSortAndPage) {
  const auto by_ofu = Json("/api/v1/jobs?sort=ofu&order=asc");
  EXPECT_EQ(Text(by_ofu, "/jobs/0/job"), "200");
  EXPECT_EQ(Text(by_ofu, "/jobs/3/job"), "ml/train-0");
  EXPECT_EQ(Number(Json("/api/v1/jobs?user=bob"), "/total"), 1);
  EXPECT_EQ(Number(Json("/api/v1/jobs?q=TRAIN"), "/total"), 1);
  EXPECT_EQ(Number(Json("/api/v1/jobs?q=nothing"), "/total"), 0);
  const auto page = Json("/api/v1/jobs?sort=job&limit=2&offset=1");
  EXPECT_EQ(Number(page, "/total"), 4);
  EXPECT_EQ(page.at_pointer("/jobs").as_array().size(), 2u);
  EXPECT_EQ(Text(page, "/jobs/0/job"), "200");
  EXPECT_EQ(Json("/api/v1/jobs?offset=100").at_pointer("/jobs").as_array().size(), 0u);
  EXPECT_EQ(Number(Json("/api/v1/jobs?ci=1"), "/jobs/0/usage/ofu_ci95"), 0);
}

TEST_F(ApiTest, GpusSayWhatTheySayNow) {
  const auto v = Json("/api/v1/gpus?sort=ofu");
  EXPECT_EQ(Number(v, "/total"), 6);  // five GPUs and one instance
  EXPECT_EQ(Text(v, "/gpus/0/gpu"), "GPU-D");
  EXPECT_EQ(Number(v, "/gpus/0/gpu_instance"), 7);
  EXPECT_EQ(Text(v, "/gpus/0/job"), "ml/train-0");
  EXPECT_EQ(Number(v, "/gpus/0/sm_clock_mhz"), 1410);
  EXPECT_EQ(Text(v, "/gpus/1/gpu"), "GPU-A");
  EXPECT_EQ(Text(v, "/gpus/1/state"), "reporting");
  EXPECT_EQ(Number(v, "/gpus/1/age_s"), 5);
  // Absent values last, in either order.
  EXPECT_TRUE(v.at_pointer("/gpus/5/ofu").is_null());
  EXPECT_TRUE(Json("/api/v1/gpus?sort=ofu&order=asc").at_pointer("/gpus/5/ofu").is_null());
  const auto node2 = Json("/api/v1/gpus?node=node2&sort=gpu");
  EXPECT_EQ(Number(node2, "/total"), 3);
  EXPECT_EQ(boost::json::serialize(node2.at_pointer("/gpus/0/flags")), R"(["mig_parent"])");
  EXPECT_EQ(Number(Json("/api/v1/gpus?job=300"), "/total"), 1);
  EXPECT_EQ(Text(Json("/api/v1/gpus?job=300"), "/gpus/0/job"), "200,300");
  now_ += 10 * kMicrosPerMinute;
  EXPECT_EQ(Text(Json("/api/v1/gpus"), "/gpus/0/state"), "stale");
  now_ += kMicrosPerDay;
  EXPECT_EQ(Text(Json("/api/v1/gpus"), "/gpus/0/state"), "silent");
}

TEST_F(ApiTest, OneGpuHasItsIdentityAndItsJobs) {
  const auto v = Json("/api/v1/gpus/GPU-C");
  EXPECT_EQ(Text(v, "/gpu/node"), "node1");
  EXPECT_EQ(Number(v, "/gpu/index"), 2);
  EXPECT_EQ(Number(v, "/gpu/sm_count"), 108);
  EXPECT_EQ(v.at_pointer("/jobs").as_array().size(), 2u);
  EXPECT_EQ(Text(v, "/jobs/0/user"), "bob");
  const auto mig = Json("/api/v1/gpus/gpu-d");  // UUIDs in any case
  EXPECT_EQ(Number(mig, "/gpu/instances/0/gpu_instance"), 7);
  EXPECT_EQ(Number(mig, "/gpu/instances/0/sm_count"), 14);
  EXPECT_EQ(Text(Json("/api/v1/gpus/GPU-D?gpu_instance=7"), "/gpu/mig_profile"), "1g.5gb");
}

TEST_F(ApiTest, ErrorsNameTheParameterAndSuggest) {
  EXPECT_EQ(Error("/api/v1/jobs?form=now-1h", 400),
            "parameter 'form' is not known to /api/v1/jobs: did you mean 'from'?");
  EXPECT_EQ(Error("/api/v1/jobs?limit=0", 400),
            "parameter 'limit' is '0': a whole number from 1 to 100000");
  EXPECT_EQ(Error("/api/v1/jobs?limit=ten", 400),
            "parameter 'limit' is 'ten': a whole number from 1 to 100000");
  EXPECT_EQ(Error("/api/v1/jobs?order=up", 400), "parameter 'order' is 'up': use one of desc, asc");
  EXPECT_EQ(Error("/api/v1/jobs?exact=maybe", 400),
            "parameter 'exact' is 'maybe': use true or false");
  EXPECT_EQ(Error("/api/v1/fleet?step=90s", 400),
            "parameter 'step' is '90s': whole minutes, at least one: rollups are kept per minute");
  EXPECT_EQ(Error("/api/v1/fleet?from=now&to=now-1h", 400),
            "parameters 'from' and 'to': from (2026-09-21T14:44:05Z) is not before to "
            "(2026-09-21T13:44:05Z)");
  EXPECT_NE(Error("/api/v1/fleet?from=yesterday", 400).find("parameter 'from' is 'yesterday'"),
            std::string::npos);
  EXPECT_NE(Error("/api/v1/fleet?from=now-700d&step=1m", 400).find("use a longer step"),
            std::string::npos);
  EXPECT_EQ(Error("/api/v1/jobs/10", 404), "no job '10'; did you mean '100'?");
  EXPECT_EQ(Error("/api/v1/gpus/GPU-Z", 404).substr(0, 13), "no GPU 'GPU-Z");
  EXPECT_EQ(Error("/api/v1/job", 404), "no such path: /api/v1/job; did you mean /api/v1/jobs?");
  EXPECT_EQ(Error("/api/v1/jobs/\x1b[31m", 404).find('\x1b'), std::string::npos);
  EXPECT_EQ(api_->Handle(MakeRequest("DELETE", "/api/v1/jobs")).status, 405);
  EXPECT_EQ(api_->Handle(MakeRequest("GET", "/api/v1/jobs/" + std::string(1000, 'x'))).status, 400);
}

TEST_F(ApiTest, PagesOfOtherSitesCanChangeNothing) {
  net::Request push = MakeRequest("POST", "/api/v1/push/node9");
  push.body = std::string(std::string_view(Body().Gpu(0, "GPU-X").Tensor(0.5).Clock(1410)));
  push.headers = {{"host", "127.0.0.1:9530"}};
  EXPECT_EQ(api_->Handle(push).status, 200);  // a program
  push.headers.emplace_back("origin", "http://127.0.0.1:9530");
  EXPECT_EQ(api_->Handle(push).status, 200);  // our own page
  push.headers.back().second = "http://evil.example";
  EXPECT_EQ(api_->Handle(push).status, 403);
  push.headers.back().second = "null";
  EXPECT_EQ(api_->Handle(push).status, 403);
  push.headers.back() = {"sec-fetch-site", "cross-site"};
  EXPECT_EQ(api_->Handle(push).status, 403);

  // DNS rebinding: the name points here, the browser believes it is the same site.
  ApiSources parts;
  parts.hosts.emplace(/*remote=*/false, std::vector<std::string>());
  MakeApi(std::move(parts));
  net::Request get = MakeRequest("GET", "/api/v1/status");
  for (const char* host :
       {"127.0.0.1:9530", "localhost:9530", "[::1]:9530", "127.0.0.2", "LOCALHOST"}) {
    get.headers = {{"host", host}};
    EXPECT_EQ(api_->Handle(get).status, 200) << host;
  }
  for (const char* host : {"evil.example:9530", "127.0.0.1.evil.example", "127.evil.example",
                           "10.0.0.7:9530", "[::2]"}) {
    get.headers = {{"host", host}};
    EXPECT_EQ(api_->Handle(get).status, 403) << host;
  }
}

TEST_F(ApiTest, PushedTextIsIngestedAndItsNodeIsATarget) {
  net::Request push = MakeRequest("POST", "/api/v1/push/node9");
  push.body =
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-X\"} "
      "1410\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-X\"} 4294967295\n";
  const net::Response r = api_->Handle(push);
  EXPECT_EQ(r.status, 200);
  const auto v = boost::json::parse(r.body);
  EXPECT_EQ(Number(v, "/rows"), 1);
  EXPECT_EQ(Number(v, "/samples"), 1);
  EXPECT_EQ(Number(v, "/refused/out_of_bounds"), 1);
  const auto targets = Json("/api/v1/targets");
  EXPECT_EQ(Number(targets, "/total"), 1);
  EXPECT_EQ(Text(targets, "/targets/0/url"), "push:node9");
  EXPECT_EQ(Text(targets, "/targets/0/state"), "up");
  EXPECT_EQ(Number(targets, "/targets/0/refused/out_of_bounds"), 1);
  EXPECT_EQ(api_->Handle(MakeRequest("POST", "/api/v1/push/a b")).status, 400);
  EXPECT_EQ(api_->Handle(MakeRequest("POST", "/api/v1/push/" + std::string(300, 'n'))).status, 400);
}

TEST_F(ApiTest, WhatCannotBeStoredIsNotTaken) {
  const auto send = [&](std::string_view path, std::string body, std::string_view type) {
    net::Request r = MakeRequest("POST", path);
    r.body = std::move(body);
    r.headers = {{"content-type", std::string(type)}};
    return api_->Handle(r);
  };
  const std::string body(std::string_view(Body().Gpu(0, "GPU-X").Tensor(0.5).Clock(1410)));
  const auto push = [&] { return send("/api/v1/push/node9", body, "text/plain"); };
  const auto stored = [&] {
    const int32_t id = ingest_->registry.FindEntity("GPU-X");
    return std::count_if(fake_.rows.begin(), fake_.rows.end(),
                         [&](const StoredRow& r) { return r.header.entity == id; });
  };
  fake_.fail_next = -1;
  EXPECT_EQ(push().status, 200) << "nobody knows yet";
  EXPECT_FALSE(ingest_->pipeline.Flush().ok());
  const std::pair<std::string_view, std::string_view> senders[] = {
      {"/api/v1/push/node9", "text/plain"},
      {"/api/v1/write", "application/x-protobuf"},
      {"/v1/metrics", "application/json"}};
  for (const auto& [path, type] : senders) {
    const net::Response r = send(path, type == "application/json" ? "{}" : body, type);
    EXPECT_EQ(r.status, 503) << path << r.body;
    EXPECT_NE(r.body.find("no space left on device"), std::string::npos) << r.body;
    EXPECT_TRUE(std::any_of(r.headers.begin(), r.headers.end(),
                            [](const auto& h) { return h.first == "Retry-After"; }));
  }
  EXPECT_EQ(send("/api/v1/jobs/100/mfu", R"({"mfu": 0.4})", "application/json").status, 503);
  fake_.fail_next = 0;
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(stored(), 1) << "what was answered with 200, and nothing else";
  now_ += 10 * kSecond;
  EXPECT_EQ(push().status, 200);
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(stored(), 2);
}

TEST_F(ApiTest, LateStaticJobsAreFoundByJoiningWithTheIntervals) {
  // A file names job 77 on GPU-E for the whole time, after the samples were stamped with nobody.
  ingest_->jobs.SetStatic({{.gpu = "GPU-E",
                            .job = "77",
                            .name = "",
                            .user = "carol",
                            .workflow = "",
                            .from = kStart,
                            .to = now_}});
  const int32_t id = ingest_->jobs.FindJob("77")->id;
  store::JobUsage exact{.job = id, .sums = {}};
  exact.sums.ofu.observed_s = 1790;
  exact.sums.ofu.samples = 179;
  exact.sums.model_unknown_s = 1790;
  fake_.by_job_exact = {exact};
  const auto v = Json("/api/v1/jobs/77");
  EXPECT_EQ(fake_.exact_scans, 1);
  EXPECT_EQ(Number(v, "/job/usage/observed_gpu_seconds"), 1790);
  EXPECT_EQ(Text(v, "/job/usage/ofu_reason"), "the GPU model is not in the hardware table");
  EXPECT_EQ(boost::json::serialize(v.at_pointer("/job/flags")),
            R"(["model_unknown","low_coverage","exact"])");
  // Asked for, everything comes from the join.
  EXPECT_EQ(Text(Json("/api/v1/jobs?exact=1"), "/window/source"), "raw");
}

// Only a join of the raw rows finds the samples of such a job: no work for the event loop,
// whichever route asks for it. That no answer at once asked the store is checked by CheckedApi,
// too.
TEST_F(ApiTest, LateStaticJobsAreJoinedOnAWorkerAlone) {
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs")));
  ingest_->jobs.SetStatic({{.gpu = "GPU-E",
                            .job = "77",
                            .name = "",
                            .user = "carol",
                            .workflow = "",
                            .from = kStart,
                            .to = now_}});
  store::JobUsage exact{.job = ingest_->jobs.FindJob("77")->id, .sums = {}};
  exact.sums.ofu.observed_s = 1790;
  fake_.by_job_exact = {exact};
  const int before = fake_.questions;
  for (const char* path : {"/api/v1/jobs", "/api/v1/jobs?user=carol", "/api/v1/jobs/77",
                           "/api/v1/jobs/100", "/metrics"}) {
    EXPECT_FALSE(api_->AtOnce(MakeRequest("GET", path)).has_value()) << path;
  }
  EXPECT_EQ(fake_.questions, before);
  EXPECT_EQ(Number(Json("/api/v1/jobs?user=carol"), "/jobs/0/usage/observed_gpu_seconds"), 1790);
  EXPECT_EQ(fake_.exact_scans, 1);
}

TEST_F(ApiTest, SqlIsPassedOnWithItsLimits) {
  const auto v = Json("/api/v1/sql?q=SELECT 1");
  EXPECT_EQ(Text(v, "/rows/0/0"), "SELECT 1");
  EXPECT_TRUE(v.at_pointer("/rows/0/1").is_null());
  EXPECT_EQ(Text(v, "/columns/1/type"), "INTEGER");
  EXPECT_EQ(Error("/api/v1/sql", 400), "parameter 'q' is missing: the SELECT to run");
  const auto post = [&](std::string body) {
    net::Request r = MakeRequest("POST", "/api/v1/sql");
    r.body = std::move(body);
    return api_->Handle(r);
  };
  EXPECT_EQ(post(R"({"query":"SELECT 2","limit":5})").status, 200);
  for (const char* bad : {"", "{", "[]", R"({"query":1})", R"({"query":"x","limit":0})",
                          R"({"query":"x","limit":1e9})", R"({"query":"x","limits":1})"}) {
    EXPECT_EQ(post(bad).status, 400) << bad;
  }
}

TEST_F(ApiTest, StoreTroubleShowsInReadiness) {
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/readyz").status, 200);
  fake_.fail_next = -1;
  Scrape(kScrapes);
  EXPECT_FALSE(ingest_->pipeline.Flush().ok());
  const auto v = Json("/readyz", 503);
  EXPECT_EQ(Text(v, "/reasons/0"), "store: no space left on device");
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/api/v1/jobs").status, 200);  // live answers go on
  fake_.fail_next = 0;
  EXPECT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(Get("/readyz").status, 200);
}

TEST_F(ApiTest, OfflineAnswersComeFromTheStore) {
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  const int32_t job = ingest_->jobs.FindJob("100")->id;
  ingest_.reset();  // stores the ends of open intervals
  store::JobUsage usage{.job = job, .sums = {}};
  usage.sums.ofu = {.ofu_s = 360, .computable_s = 1200, .observed_s = 1200, .samples = 120};
  fake_.by_job = {usage};
  ApiSources parts;
  parts.store = &fake_;
  parts.catalog = &hardware::Catalog::Builtin();
  CheckedApi offline(std::move(parts));
  const auto get = [&](std::string_view path) {
    const net::Response r = offline.Handle(MakeRequest("GET", path));
    EXPECT_EQ(r.status, 200) << r.body;
    return boost::json::parse(r.body);
  };
  // The clock is the newest sample: 14:44:00.
  const auto v = get("/api/v1/jobs?from=now-10m");
  EXPECT_EQ(Text(v, "/window/source"), "rollup");
  EXPECT_EQ(Text(v, "/window/from"), "2026-09-21T14:34:00Z");
  EXPECT_EQ(Text(v, "/window/to"), "2026-09-21T14:44:00Z");
  EXPECT_EQ(Text(v, "/jobs/0/job"), "100");
  EXPECT_NEAR(Number(v, "/jobs/0/usage/ofu"), 0.3, 1e-12);
  EXPECT_NEAR(Number(v, "/jobs/0/usage/gpu_seconds"), 1200, 1e-6);
  EXPECT_TRUE(v.at_pointer("/jobs/0/running").as_bool());
  EXPECT_EQ(Text(get("/api/v1/status"), "/mode"), "offline");
  EXPECT_EQ(Number(get("/api/v1/status"), "/gpus"), 5);
  EXPECT_TRUE(get("/api/v1/fleet").at_pointer("/now").is_null());
  EXPECT_EQ(offline.Handle(MakeRequest("POST", "/api/v1/push/n")).status, 503);
}

TEST_F(ApiTest, ThePageComesFromTheHookOrIsPlain) {
  EXPECT_EQ(Get("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(Get("/jobs").status, 404);
  ApiSources parts;
  parts.ui = [](std::string_view path) -> std::optional<net::Response> {
    if (path != "/" && path != "/app.js" && path != "/jobs") return std::nullopt;
    net::Response r;
    r.content_type = "text/html";
    r.body = fmt::format("page {}", path);
    return r;
  };
  MakeApi(std::move(parts));
  EXPECT_EQ(Get("/").body, "page /");
  EXPECT_EQ(Get("/jobs").body, "page /jobs");
  EXPECT_EQ(Get("/nothing").status, 404);
  EXPECT_EQ(Get("/api/v1/nothing").status, 404);
}

TEST_F(ApiTest, WhatReadsTheStoreIsSlow) {
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/api/v1/fleet")));
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs?limit=5")));
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/api/v1/gpus")));
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/gpus?sort=node")));
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/fleet?from=now-14d")));
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs/1")));
  EXPECT_TRUE(api_->IsSlow(MakeRequest("POST", "/api/v1/sql")));
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/nothing")));
}

TEST_F(ApiTest, SqlRunsApartAndRawJoinsLeaveAWorkerToOthers) {
  EXPECT_TRUE(api_->RunsApart(MakeRequest("GET", "/api/v1/sql?q=SELECT%201")));
  EXPECT_TRUE(api_->RunsApart(MakeRequest("POST", "/api/v1/sql")));
  EXPECT_FALSE(api_->RunsApart(MakeRequest("GET", "/api/v1/jobs?exact=true")));
  EXPECT_TRUE(api_->MayTakeLong(MakeRequest("GET", "/api/v1/jobs?exact=true&from=now-14d")));
  EXPECT_FALSE(api_->MayTakeLong(MakeRequest("GET", "/api/v1/jobs?exact=false&from=now-14d")));
  EXPECT_FALSE(api_->MayTakeLong(MakeRequest("GET", "/api/v1/targets")));
  EXPECT_FALSE(api_->MayTakeLong(MakeRequest("GET", "/nothing")));
}

// The GPUs of a running job come from memory: its numbers are those of the fixture's comment,
// whatever a store would say.
TEST_F(ApiTest, AJobsGpusComeFromMemory) {
  const auto job = Json("/api/v1/jobs/100");
  ASSERT_EQ(job.at("gpus").as_array().size(), 2u);
  EXPECT_EQ(Text(job, "/gpus/0/gpu"), "GPU-A");
  EXPECT_NEAR(Number(job, "/gpus/0/usage/ofu"), 0.6, 1e-6);
  EXPECT_NEAR(Number(job, "/gpus/0/usage/computable_gpu_seconds"), 1800, 1e-2);
  EXPECT_NEAR(Number(job, "/gpus/0/usage/coverage"), 1, 1e-3);
  EXPECT_NEAR(Number(job, "/gpus/1/usage/ofu"), 0.2, 1e-6);
  EXPECT_EQ(Text(job, "/gpus_window/from"),
            "2026-09-21T14:10:00Z");  // the whole slot of five minutes in which it began
  EXPECT_EQ(Text(job, "/gpus_window/to"), "2026-09-21T14:44:05Z");
  // A shared GPU is divided; an instance is itself, in its own seconds.
  const auto shared = Json("/api/v1/jobs/300");
  ASSERT_EQ(shared.at("gpus").as_array().size(), 1u);
  EXPECT_NEAR(Number(shared, "/gpus/0/usage/ofu"), 0.25, 1e-6);
  EXPECT_NEAR(Number(shared, "/gpus/0/usage/computable_gpu_seconds"), 900, 1e-2);
  const auto pod = Json("/api/v1/jobs/ml/train-0");
  ASSERT_EQ(pod.at("gpus").as_array().size(), 1u);
  EXPECT_EQ(Number(pod, "/gpus/0/gpu_instance"), 7);
  EXPECT_NEAR(Number(pod, "/gpus/0/usage/ofu"), 0.9, 1e-6);
  EXPECT_NEAR(Number(pod, "/gpus/0/usage/computable_gpu_seconds"), 1800, 1e-2);
}

TEST_F(ApiTest, AJobThatLeftAGpuIsAnsweredFromTheStore) {
  EXPECT_FALSE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs/100")));
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs/100?from=now-2h")));
  EXPECT_TRUE(api_->IsSlow(
      MakeRequest("GET", "/api/v1/jobs/999")));  // the name nearest to it is looked for
  Body one;
  now_ = kStart + kScrapes * 10 * kSecond;
  one.Gpu(0, "GPU-A", kA100, R"(hpc_job="101")")
      .Tensor(0.6)
      .Clock(1410)
      .Power(300)
      .Util(100)
      .Energy(3e9);
  ingest_->pipeline.Ingest({"http://node1:9400/metrics", "node1"}, one, now_, 0);
  EXPECT_TRUE(api_->IsSlow(MakeRequest("GET", "/api/v1/jobs/100")));
}

}  // namespace
}  // namespace flopwatch::api
