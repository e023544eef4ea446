// What applications report: by POST, by metrics scraped and pushed, by remote write and OTLP; told
// apart, counted, answered.
#include "ingest/application.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <snappy.h>

#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <string>

#include "base/file.h"
#include "fixtures/api_fixture.h"
#include "telemetry/wire.h"

namespace flopwatch::api {
namespace {

using namespace test;

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using telemetry::ApplicationSource;
using ::testing::HasSubstr;

ApplicationClaim ClaimOf(std::string job) {
  ApplicationClaim c;
  c.job = std::move(job);
  c.source = ApplicationSource::kApi;
  return c;
}

ApplicationSample SampleAt(Micros ts, std::optional<int64_t> step = std::nullopt,
                           double mfu = 0.4) {
  ApplicationSample s;
  s.ts = ts;
  s.step = step;
  s[ApplicationField::kMfu] = mfu;
  return s;
}

class IntakeTest : public testing::Test {
 protected:
  ApplicationOutcome Add(const ApplicationClaim& claim,
                         const std::vector<ApplicationSample>& samples) {
    const auto outcome = intake_->Add(claim, samples);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : ApplicationOutcome{};
  }
  uint64_t Refused(ApplicationSource source, ApplicationRefusal reason) {
    return intake_->stats()
        .by_source[static_cast<size_t>(source)]
        .refused[static_cast<size_t>(reason)];
  }
  void Restart(ApplicationLimits limits = {}) {
    intake_ = std::make_unique<ApplicationIntake>(
        &store_, [this] { return now_; }, limits);
    intake_->Load(store_.LoadDimensions()->claims);
  }

  Micros now_ = kStart;
  FakeStore store_;
  std::unique_ptr<ApplicationIntake> intake_ =
      std::make_unique<ApplicationIntake>(&store_, [this] { return now_; });
};

TEST_F(IntakeTest, TheSameSampleOnceAlsoAfterARestart) {
  std::vector<ApplicationSample> log;
  for (int i = 1; i <= 5; ++i)
    log.push_back(SampleAt(kStart - kMicrosPerHour + i * 10 * kSecond, i));
  EXPECT_EQ(Add(ClaimOf("7"), log).accepted, 5u);
  EXPECT_EQ(Add(ClaimOf("7"), log).duplicates, 5u);
  log.push_back(SampleAt(kStart - kMicrosPerHour + 60 * kSecond, 6));  // the log has grown
  Restart();
  const ApplicationOutcome again = Add(ClaimOf("7"), log);
  EXPECT_EQ(again.duplicates, 5u);
  EXPECT_EQ(again.accepted, 1u);
  EXPECT_EQ(store_.said.size(), 6u);
  EXPECT_EQ(store_.said.back().span_ms, 10'000) << "since the sample before the restart";
  EXPECT_EQ(Add(ClaimOf("8"), log).accepted, 6u) << "another job";
  // Steps that ran twice, at other times, are two samples.
  EXPECT_EQ(Add(ClaimOf("7"), {SampleAt(kStart - kMicrosPerMinute, 3)}).accepted, 1u);
  EXPECT_EQ(store_.unknown_references, 0);
}

TEST_F(IntakeTest, TwiceInOneCallIsOnce) {
  const ApplicationOutcome outcome =
      Add(ClaimOf("7"), {SampleAt(kStart, 1), SampleAt(kStart, 1), SampleAt(kStart, 2)});
  EXPECT_EQ(outcome.accepted, 2u);
  EXPECT_EQ(outcome.duplicates, 1u);
}

TEST_F(IntakeTest, AClaimIsOneContent) {
  ApplicationClaim claim = ClaimOf("7");
  claim.convention = "megatron";
  Add(claim, {SampleAt(kStart, 1)});
  Add(claim, {SampleAt(kStart + kSecond, 2)});
  EXPECT_EQ(store_.claims.size(), 1u);
  claim.convention = "palm";
  Add(claim, {SampleAt(kStart + 2 * kSecond, 3)});
  EXPECT_EQ(store_.claims.size(), 2u);
  EXPECT_EQ(intake_->ClaimsOf("7").size(), 2u);
  EXPECT_TRUE(intake_->ClaimsOf("70").empty());
}

TEST_F(IntakeTest, ASecondReportMayCompleteTheClaimAndNeverContradictIt) {
  const std::vector<ApplicationSample> log = {SampleAt(kStart, 1), SampleAt(kStart + kSecond, 2)};
  ApplicationClaim claim = ClaimOf("7");
  claim.convention = "megatron";
  Add(claim, log);
  claim.gpu = "H100";
  claim.precision = "bf16";
  const ApplicationOutcome more = Add(claim, log);
  EXPECT_EQ(more.duplicates, 2u);
  EXPECT_TRUE(more.claim_completed);
  ASSERT_EQ(store_.claims.size(), 1u);
  EXPECT_EQ(store_.claims.begin()->second.gpu, "H100");
  claim.precision = "fp8";  // says another thing
  EXPECT_FALSE(Add(claim, log).claim_completed);
  EXPECT_EQ(store_.claims.begin()->second.precision, "bf16");
  EXPECT_EQ(store_.claims.size(), 1u) << "nothing was stored under it";
}

TEST_F(IntakeTest, SpansFollowFromStepsOrFromTheSampleBefore) {
  ApplicationSample timed = SampleAt(kStart + 100 * kSecond, 20);
  timed[ApplicationField::kStepTimeS] = 4.5;
  ApplicationSample own = SampleAt(kStart + 110 * kSecond, 21);
  own.span_ms = 3000;
  Add(ClaimOf("7"), {SampleAt(kStart, 1), SampleAt(kStart + 50 * kSecond, 10), timed, own,
                     SampleAt(kStart + kMicrosPerHour, 22)});
  ASSERT_EQ(store_.said.size(), 5u);
  EXPECT_EQ(store_.said[0].span_ms, 0) << "the first";
  EXPECT_EQ(store_.said[1].span_ms, 50'000) << "since the one before";
  EXPECT_EQ(store_.said[2].span_ms, 45'000) << "ten steps of 4.5 s";
  EXPECT_EQ(store_.said[3].span_ms, 3'000) << "as it says";
  EXPECT_EQ(store_.said[4].span_ms, 0) << "after a gap";
}

TEST_F(IntakeTest, RefusalsHaveReasons) {
  store_.store_stats.application_kept = 10 * kMicrosPerDay;
  ApplicationSample wild = SampleAt(kStart, 1, 38.2);
  const ApplicationOutcome outcome =
      Add(ClaimOf("7"), {wild, SampleAt(kStart - 11 * kMicrosPerDay, 2),
                         SampleAt(kStart + 2 * kMicrosPerHour, 3), SampleAt(kStart, 4)});
  EXPECT_EQ(outcome.accepted, 1u);
  EXPECT_EQ(outcome.refused[static_cast<size_t>(ApplicationRefusal::kInvalid)], 1u);
  EXPECT_EQ(outcome.refused[static_cast<size_t>(ApplicationRefusal::kTooOld)], 1u);
  EXPECT_EQ(outcome.refused[static_cast<size_t>(ApplicationRefusal::kFutureTimestamp)], 1u);
  EXPECT_EQ(outcome.examples.size(), 3u);
  EXPECT_EQ(Refused(ApplicationSource::kApi, ApplicationRefusal::kTooOld), 1u);
  EXPECT_FALSE(intake_->Add(ClaimOf(""), {}).ok());
}

TEST_F(IntakeTest, FloodsOfClaimsAndJobsStopAtTheirLimits) {
  Restart({.jobs = 3, .claims_per_job = 4});
  for (int i = 0; i < 10; ++i) {
    ApplicationClaim c = ClaimOf("7");
    c.convention = "c" + std::to_string(i);
    Add(c, {SampleAt(kStart + i * kSecond, i)});
  }
  EXPECT_EQ(intake_->ClaimsOf("7").size(), 4u);
  EXPECT_EQ(Refused(ApplicationSource::kApi, ApplicationRefusal::kClaimLimit), 6u);
  for (int j = 0; j < 10; ++j) Add(ClaimOf("job" + std::to_string(j)), {SampleAt(kStart, 1)});
  EXPECT_EQ(intake_->Jobs().size(), 3u);
  EXPECT_EQ(Refused(ApplicationSource::kApi, ApplicationRefusal::kJobLimit), 8u);
}

// Tables of claims and jobs that are full of what the store has dropped take new ones.
TEST_F(IntakeTest, ClaimsWithoutSamplesAreForgotten) {
  constexpr size_t kLimit = 4;
  Restart({.jobs = kLimit, .claims = kLimit});
  const Micros start = now_;
  for (int round = 0; round < 3; ++round) {
    for (size_t k = 0; k < kLimit; ++k)
      EXPECT_EQ(Add(ClaimOf(fmt::format("{}-{}", round, k)), {SampleAt(now_)}).accepted, 1u);
    EXPECT_EQ(Add(ClaimOf("more"), {SampleAt(now_)}).accepted, 0u);
    const Micros newest = now_;
    now_ += 3 * kMicrosPerDay;
    // They are old enough, and the store has their samples.
    EXPECT_TRUE(intake_->Forget(now_ - kMicrosPerDay)->empty());
    store_.said.clear();
    EXPECT_TRUE(intake_->Forget(now_ - kMicrosPerDay)->empty()) << "once a day is enough";
    EXPECT_TRUE(intake_->Forget(newest - 3 * kMicrosPerDay)->empty()) << "not as old as that";
    const auto gone = intake_->Forget(now_);
    ASSERT_TRUE(gone.ok()) << gone.status();
    EXPECT_EQ(gone->size(), kLimit);
    EXPECT_EQ(intake_->stats().jobs + intake_->stats().claims, 0u);
    EXPECT_TRUE(intake_->Jobs().empty());
    EXPECT_TRUE(store_.ForgetClaims(*gone).ok());
    if (round == 1) Restart({.jobs = kLimit, .claims = kLimit});
    now_ += 3 * kMicrosPerDay;
  }
  EXPECT_TRUE(intake_->Forget(0)->empty());
  EXPECT_GT(now_, start);
}

TEST_F(IntakeTest, OneClaimAmongOthersIsForgottenAndTheOthersGoOn) {
  for (const char* job : {"a", "b", "c"}) Add(ClaimOf(job), {SampleAt(now_, 1)});
  ApplicationClaim second = ClaimOf("b");
  second.precision = "fp8";
  Add(second, {SampleAt(now_ + kMicrosPerSecond, 2)});
  const int32_t gone = intake_->ClaimsOf("b")[0].id;
  std::erase_if(store_.said, [&](const ApplicationSample& s) { return s.claim == gone; });
  const Micros first = now_;
  now_ += 2 * kMicrosPerDay;
  EXPECT_THAT(*intake_->Forget(now_), ::testing::ElementsAre(gone));
  ASSERT_EQ(intake_->ClaimsOf("b").size(), 1u);
  EXPECT_EQ(intake_->ClaimsOf("b")[0].precision, "fp8");
  EXPECT_EQ(intake_->ClaimsOf("c")[0].job, "c");
  // What is known is known still, and what comes back is new.
  EXPECT_EQ(Add(ClaimOf("c"), {SampleAt(first, 1)}).duplicates, 1u);
  EXPECT_EQ(Add(ClaimOf("c"), {SampleAt(now_, 3)}).accepted, 1u);
  EXPECT_EQ(intake_->ClaimsOf("c").size(), 1u);
  EXPECT_EQ(Add(ClaimOf("b"), {SampleAt(now_, 4)}).accepted, 1u);
  EXPECT_EQ(intake_->ClaimsOf("b")[1].id, 5);
  EXPECT_EQ(store_.unknown_references, 0);
}

TEST_F(IntakeTest, AFailingStoreStoresNothingAndTheSameReportWorksLater) {
  store_.fail_next = 1;
  EXPECT_FALSE(intake_->Add(ClaimOf("7"), {{SampleAt(kStart, 1)}}).ok());
  EXPECT_EQ(Add(ClaimOf("7"), {SampleAt(kStart, 1)}).accepted, 1u);
  store_.fail_next = 1;  // now the samples themselves
  EXPECT_FALSE(intake_->Add(ClaimOf("7"), {{SampleAt(kStart + kSecond, 2)}}).ok());
  EXPECT_EQ(Add(ClaimOf("7"), {SampleAt(kStart + kSecond, 2)}).accepted, 1u);
  EXPECT_EQ(store_.said.size(), 2u);
}

TEST_F(IntakeTest, OfSeveralRanksTheLowestIsHeard) {
  telemetry::ApplicationSeries zero, one;
  zero.claim = one.claim = ClaimOf("7");
  zero.rank = 0;
  one.rank = 1;
  intake_->Offer(one, ApplicationSource::kPrometheus, SampleAt(kStart));
  intake_->Offer(zero, ApplicationSource::kPrometheus, SampleAt(kStart + kSecond));
  intake_->Offer(one, ApplicationSource::kPrometheus, SampleAt(kStart + 2 * kSecond));
  intake_->Offer(zero, ApplicationSource::kPrometheus, SampleAt(kStart + 3 * kSecond));
  ASSERT_TRUE(intake_->Flush().ok());
  EXPECT_EQ(store_.said.size(), 3u);
  EXPECT_EQ(Refused(ApplicationSource::kPrometheus, ApplicationRefusal::kOtherRank), 1u);
}

class ApplicationApiTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    MakeApiThatWaits(0);
    now_ = Now();  // reports without a time mean this
  }
  void MakeApiThatWaits(Micros settle) {
    ApiSources parts;
    parts.join_settle = settle;
    MakeApi(std::move(parts));
  }
  net::Response Post(std::string_view path, std::string body,
                     std::string_view type = "application/json") {
    net::Request r = MakeRequest("POST", path);
    r.headers = {{"content-type", std::string(type)}};
    r.body = std::move(body);
    return api_->Handle(r);
  }
  boost::json::value PostJson(std::string_view path, std::string body, int status = 200) {
    const net::Response r = Post(path, std::move(body));
    EXPECT_EQ(r.status, status) << r.Body();
    return boost::json::parse(boost::json::string_view(r.Body().data(), r.Body().size()));
  }
  std::string Ago(int seconds) { return FormatTime(FloorTo(now_, kSecond) - seconds * kSecond); }
};

TEST_F(ApplicationApiTest, AReportComesBackInTheAnswers) {
  const auto outcome =
      PostJson("/api/v1/jobs/100/mfu",
               fmt::format(
                   R"({{"convention":"megatron","formula_version":"a4008d0f","commit":"9fceb02",
          "container_image":"train:1.2","precision":"bf16",
          "gpus":2,"recompute":"none","model_config":{{"hidden_size":4096}},
          "samples":[{{"ts":"{}","step":10,"tflops_per_gpu":100,"loss":2.5,"span_s":60}},
          {{"ts":"{}","step":20,"tflops_per_gpu":130,"loss":2.25,"span_s":30,
          "tokens_per_s_per_gpu":500}}]}})",
                   Ago(120), Ago(60)));
  EXPECT_EQ(Number(outcome, "/accepted"), 2);
  const auto answer = Json("/api/v1/jobs/100/application");
  EXPECT_EQ(Text(answer, "/reason"), "null");
  EXPECT_EQ(Text(answer, "/application/convention"), "megatron");
  EXPECT_EQ(Text(answer, "/application/mfu_source"), "throughput");
  EXPECT_EQ(Text(answer, "/application/peak_source"), "hardware_table")
      << "no peak was claimed; telemetry saw A100s";
  // An A100's BF16 peak: 108 SMs x 2048 FLOPs x 1.41 GHz = 311.9 TFLOP/s; mean of
  // 100 and 130 by 60 and 30 s.
  EXPECT_NEAR(Number(answer, "/application/peak_tflops"), 311.9, 0.05);
  EXPECT_NEAR(Number(answer, "/application/mfu"), 110 / 311.87, 1e-4);
  EXPECT_EQ(Number(answer, "/application/loss"), 2.25);
  EXPECT_EQ(Number(answer, "/application/tokens_per_s"), 1000);
  EXPECT_EQ(Number(answer, "/application/last_step"), 20);
  EXPECT_EQ(Number(answer, "/application/covered_s"), 90);
  EXPECT_EQ(Text(answer, "/claims/0/model_config"), R"({"hidden_size":4096})");
  EXPECT_EQ(Text(answer, "/claims/0/formula_version"), "a4008d0f");
  EXPECT_EQ(Text(answer, "/claims/0/commit"), "9fceb02");
  EXPECT_EQ(Text(answer, "/claims/0/container_image"), "train:1.2");
  EXPECT_EQ(answer.at_pointer("/series/ts").as_array().size(), 2u);
  EXPECT_EQ(Text(Json("/api/v1/jobs/100/application?from=now-45s"), "/reason"),
            "nothing_in_window");
  // Beside the OFU, over the same window.
  const auto job = Json("/api/v1/jobs/100?from=now-10m");
  EXPECT_EQ(Text(job, "/application_reason"), "null");
  EXPECT_NEAR(Number(job, "/application/mfu"), 110 / 311.87, 1e-4);
  EXPECT_EQ(Text(Json("/api/v1/jobs/200?from=now-10m"), "/application"), "null");
  EXPECT_EQ(Text(Json("/api/v1/jobs/200?from=now-10m"), "/application_reason"), "nothing_reported");
  EXPECT_THAT(
      std::string(Get("/metrics").Body()),
      HasSubstr("flopwatch_application_samples_total{source=\"api\",result=\"accepted\"} 2\n"));
}

TEST_F(ApplicationApiTest, WhatIsNotKnownIsNotMadeUp) {
  PostJson("/api/v1/jobs/100/mfu", R"({"tflops_per_gpu":100,"span_s":10})");
  auto answer = Json("/api/v1/jobs/100/application");
  EXPECT_EQ(Text(answer, "/application/mfu"), "null");
  EXPECT_EQ(Text(answer, "/application/mfu_reason"), "precision_unknown");
  EXPECT_EQ(Text(answer, "/application/convention"), "null");
  PostJson("/api/v1/jobs/ml/train-0/mfu", R"({"mfu":0.41})");
  answer = Json("/api/v1/jobs/ml/train-0/application");
  EXPECT_EQ(Text(answer, "/application/mfu"), "null");
  EXPECT_EQ(Text(answer, "/application/mfu_reason"), "span_unknown");
  EXPECT_EQ(Number(answer, "/application/last_mfu"), 0.41);
  EXPECT_EQ(Text(answer, "/application/peak_tflops"), "null")
      << "an MFU's peak is its maker's secret unless he says it";
}

TEST_F(ApplicationApiTest, AJobThatNoGpuKnows) {
  PostJson("/api/v1/jobs/far-away/mfu", R"([{"mfu":0.5,"span_s":5}])");
  EXPECT_EQ(Number(Json("/api/v1/jobs/far-away/application"), "/application/mfu"), 0.5);
  EXPECT_THAT(Error("/api/v1/jobs/far-away", 404), HasSubstr("/api/v1/jobs/far-away/application"));
  EXPECT_THAT(Error("/api/v1/jobs/far-awa/application", 404), HasSubstr("did you mean 'far-away'"));
}

TEST_F(ApplicationApiTest, WrongReportsNameTheField) {
  const auto error = [&](std::string body) {
    const auto v = PostJson("/api/v1/jobs/100/mfu", std::move(body), 400);
    return std::string(v.at_pointer("/error/message").as_string().c_str());
  };
  EXPECT_THAT(error("{"), HasSubstr("JSON"));
  EXPECT_THAT(error("7"), HasSubstr("neither an object nor a list"));
  EXPECT_THAT(error(R"({"mfuu":0.4})"), HasSubstr("did you mean 'mfu'"));
  EXPECT_THAT(error(R"([{"mfu":0.4},{"mfu":"x"}])"), HasSubstr("[1].mfu: is not a number"));
  EXPECT_THAT(error(R"({"mfu":42})"), HasSubstr("mfu: 42"));
  EXPECT_THAT(error(R"({"mfu":0.4,"gpus":-1})"), HasSubstr("gpus: -1"));
  EXPECT_THAT(error(R"({"mfu":0.4,"gpus":1.5})"), HasSubstr("gpus: is no whole number"));
  EXPECT_THAT(error(R"({"mfu":0.4,"ts":"yesterday"})"), HasSubstr("ts"));
  EXPECT_THAT(error(R"({"mfu":0.4,"ts":5})"), HasSubstr("Unix seconds"));
  EXPECT_THAT(error(R"({"tokens_per_s_per_gpu":5})"), HasSubstr("gpus"));
  EXPECT_THAT(error(R"({"samples":[{"mfu":0.4,"span_s":-1}]})"), HasSubstr("samples[0].span_s"));
  EXPECT_THAT(error(R"({"convention":")" + std::string(1000, 'x') + R"(","mfu":0.4})"),
              HasSubstr("convention"));
  EXPECT_THAT(error(std::string(200'000, '[')), HasSubstr("JSON"));
  EXPECT_THAT(error("{}"), HasSubstr("no value"));
  EXPECT_TRUE(fake_.said.empty());
}

TEST_F(ApplicationApiTest, ScrapedMetrics) {
  now_ = kStart + 2 * kMicrosPerHour;
  const std::string labels =
      R"({job="100",rank="0",convention="torchtitan",world_size="16",gpu_model="NVIDIA H100 )"
      R"(80GB HBM3"})";
  for (int k = 0; k < 3; ++k) {
    const std::string body = fmt::format(
        "flopwatch_app_mfu{0} 0.4{1}\nflopwatch_app_loss{0} 2.5\nflopwatch_app_tgs{0} "
        "100\nflopwatch_app_step{0} {2}\n"
        "flopwatch_app_mfu{{convention=\"x\"}} 0.4\nnode_load1 3\n",
        labels, k, 10 + k);
    ingest_->pipeline.Ingest({"http://train:8000/metrics", "train"}, body, now_ + k * 15 * kSecond,
                             0);
  }
  ASSERT_TRUE(ingest_->application.Flush().ok());
  ASSERT_EQ(fake_.said.size(), 3u);
  const ApplicationSample& s = fake_.said[2];
  EXPECT_EQ(s.step, 12);
  EXPECT_EQ(s[ApplicationField::kMfu], 0.42);
  EXPECT_EQ(s[ApplicationField::kLoss], 2.5);
  EXPECT_EQ(s[ApplicationField::kTokensPerS], 1600);
  EXPECT_EQ(s.span_ms, 15'000);
  const ApplicationClaim& claim = fake_.claims.at(s.claim);
  EXPECT_EQ(claim.job, "100");
  EXPECT_EQ(claim.convention, "torchtitan");
  EXPECT_EQ(claim.gpus, 16);
  EXPECT_EQ(claim.source, ApplicationSource::kPrometheus);
  const auto stats =
      ingest_->application.stats().by_source[static_cast<size_t>(ApplicationSource::kPrometheus)];
  EXPECT_EQ(stats.refused[static_cast<size_t>(ApplicationRefusal::kNoJob)], 1u);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  EXPECT_EQ(fake_.metrics.size(), 6u)
      << "node_load1, and the MFU of nobody: kept as any other metric";
}

// Kept of a job, as by the other ways; where nobody's job is named it is a metric like others, and
// among those there is no NaN.
TEST_F(ApplicationApiTest, LossesThatAreNoNumbersByMetrics) {
  now_ = kStart + 2 * kMicrosPerHour;
  const std::string body =
      "flopwatch_app_loss{job=\"100\"} NaN\nflopwatch_app_grad_norm{job=\"100\"} +Inf\n"
      "train_loss{instance=\"x\"} NaN\nnode_load1 3\n";
  const auto result =
      ingest_->pipeline.Ingest({"http://train:8000/metrics", "train"}, body, now_, 0);
  EXPECT_THAT(result.refused, ::testing::ElementsAre(::testing::Pair("not_finite", 1)));
  const int64_t ms = now_ / 1000;
  std::string packed;
  const std::string plain =
      telemetry::Message()
          .Inner(1, telemetry::SeriesV1(
                        {{"__name__", "train_loss"}, {"instance", "w1:8000"}, {"job_id", "900"}},
                        {{ms - 20'000, INFINITY},
                         {ms - 10'000, std::bit_cast<double>(uint64_t{0x7ff0000000000002})}}))
          .bytes;
  snappy::Compress(plain.data(), plain.size(), &packed);
  EXPECT_EQ(Post("/api/v1/write", packed, "application/x-protobuf").status, 204);
  EXPECT_EQ(Post("/v1/metrics",
                 telemetry::OtlpGauge("train.loss", {{"job_id", "901"}},
                                      static_cast<uint64_t>(now_ - kSecond) * 1000, std::nan(""))
                     .bytes,
                 "application/x-protobuf")
                .status,
            200);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  std::map<std::string, std::string> said;
  for (const ApplicationSample& s : fake_.said) {
    said[fake_.claims.at(s.claim).job] +=
        fmt::format("{} {};", s[ApplicationField::kLoss].value_or(-1),
                    s[ApplicationField::kGradNorm].value_or(-1));
  }
  EXPECT_THAT(said, ::testing::ElementsAre(::testing::Pair("100", "nan inf;"),
                                           ::testing::Pair("900", "inf -1;"),
                                           ::testing::Pair("901", "nan -1;")));
  EXPECT_EQ(fake_.metrics.size(), 1u) << "node_load1";
}

TEST_F(ApplicationApiTest, RemoteWrite) {
  using telemetry::Message;
  const int64_t ms = now_ / 1000 - 60'000;
  const auto gpu = [&](std::string name, double value) {
    return telemetry::SeriesV1({{"__name__", std::move(name)},
                                {"Hostname", "w1"},
                                {"UUID", "GPU-W"},
                                {"gpu", "0"},
                                {"modelName", "NVIDIA A100-SXM4-80GB"},
                                {"instance", "w1:9400"},
                                {"job", "dcgm"},
                                {"hpc_job", "900"}},
                               {{ms, value}, {ms + 10'000, value}});
  };
  const auto said = [&](std::string name, double value) {
    return telemetry::SeriesV1({{"__name__", std::move(name)},
                                {"instance", "w1:8000"},
                                {"job", "train"},
                                {"job_id", "900"}},
                               {{ms, value}});
  };
  const auto post = [&](const Message& m, std::string_view type = "application/x-protobuf") {
    std::string packed;
    snappy::Compress(m.bytes.data(), m.bytes.size(), &packed);
    return Post("/api/v1/write", packed, type);
  };
  // One scrape in two requests, as a Prometheus with two shards sends it.
  MakeApiThatWaits(kMicrosPerHour);
  EXPECT_EQ(post(Message()
                     .Inner(1, gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.5))
                     .Inner(1, said("flopwatch_app_mfu", 0.4)))
                .status,
            204);
  EXPECT_EQ(
      post(Message()
               .Inner(1, gpu("DCGM_FI_DEV_SM_CLOCK", 1410))
               .Inner(1, said("train_loss", 2.5))
               .Inner(1, telemetry::SeriesV1({{"__name__", "node_load1"}, {"instance", "w1:9100"}},
                                             {{ms, 3}})))
          .status,
      204);
  api_.reset();  // hands on what waits
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  MakeApiThatWaits(0);
  int rows = 0;
  for (const StoredRow& row : fake_.rows) {
    if (row.header.ts < ms * 1000) continue;
    ++rows;
    EXPECT_TRUE(row.has(telemetry::kTensorActive) && row.has(telemetry::kSmClockMhz))
        << "in one row, whichever request brought them";
  }
  EXPECT_EQ(rows, 2);
  EXPECT_TRUE(ingest_->jobs.FindJob("900").has_value());
  ASSERT_EQ(fake_.said.size(), 1u);
  EXPECT_EQ(fake_.said[0].ts, ms * 1000);
  EXPECT_EQ(fake_.said[0][ApplicationField::kMfu], 0.4);
  EXPECT_EQ(fake_.said[0][ApplicationField::kLoss], 2.5);
  EXPECT_EQ(fake_.claims.at(fake_.said[0].claim).job, "900")
      << "not \"train\", which is Prometheus' word";
  EXPECT_EQ(fake_.claims.at(fake_.said[0].claim).source, ApplicationSource::kRemoteWrite);
  EXPECT_EQ(fake_.metrics.size(), 1u);
  // Version 2, and what is refused.
  Message v2;
  for (const char* s : {"", "__name__", "node_load1", "instance", "w1:9100"}) v2.Bytes(4, s);
  v2.Inner(5, Message()
                  .Inner(1, Message().Varint(1).Varint(2).Varint(3).Varint(4))
                  .Inner(2, Message().Double(1, 1).Number(2, static_cast<uint64_t>(ms + 20'000))));
  const net::Response r = post(v2, "application/x-protobuf;proto=io.prometheus.write.v2.Request");
  EXPECT_EQ(r.status, 204);
  EXPECT_THAT(r.headers, ::testing::Contains(std::pair<std::string, std::string>(
                             "X-Prometheus-Remote-Write-Samples-Written", "1")));
  EXPECT_EQ(Post("/api/v1/write", "no snappy", "application/x-protobuf").status, 400);
  EXPECT_EQ(Post("/api/v1/write", "{}", "application/json").status, 415);
}

TEST_F(ApplicationApiTest, OpenTelemetryMetrics) {
  const uint64_t nanos = static_cast<uint64_t>(now_ - kMicrosPerMinute) * 1000;
  const auto request = telemetry::OtlpGauge(
      "training.mfu", {{"rank", "0"}}, nanos, 0.37,
      {{"k8s.namespace.name", "ml"}, {"k8s.pod.name", "train-0"}, {"host.name", "n7"}});
  EXPECT_EQ(Post("/v1/metrics", request.bytes, "application/x-protobuf").status, 200);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  ASSERT_EQ(fake_.said.size(), 1u);
  EXPECT_EQ(fake_.said[0][ApplicationField::kMfu], 0.37);
  EXPECT_EQ(fake_.claims.at(fake_.said[0].claim).job, "ml/train-0");
  EXPECT_EQ(fake_.claims.at(fake_.said[0].claim).source, ApplicationSource::kOtlp);
  // JSON; points that are not taken are named in a partial success.
  const net::Response partial =
      Post("/v1/metrics", R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"h",)"
                          R"("histogram":{"dataPoints":[{}]}}]}]}]})");
  EXPECT_EQ(partial.status, 200);
  EXPECT_THAT(std::string(partial.Body()), HasSubstr(R"("rejectedDataPoints":"1")"));
  EXPECT_EQ(Post("/v1/metrics", "[", "application/json").status, 400);
  EXPECT_EQ(Post("/v1/metrics", "\x0a\xff", "application/x-protobuf").status, 400);
  EXPECT_EQ(Post("/v1/metrics", "x", "text/plain").status, 415);
}

}  // namespace
}  // namespace flopwatch::api
