// MFU against OFU through a real store: a fleet whose OFU is known by construction (api_fixture.h),
// and applications that claim something about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "fixtures/api_fixture.h"
#include "fixtures/own_directory.h"

namespace flopwatch::api {
namespace {

using namespace test;

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using ::testing::HasSubstr;

class DivergenceApiTest : public ApiTest {
 protected:
  void SetUp() override {
    directory_ = test::OwnDirectory();
    auto opened = store::OpenDuckDbStore({.directory = directory_.string()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    duck_ = *std::move(opened);
    ApiTest::SetUp();
    ASSERT_TRUE(ingest_->pipeline.Flush().ok());
    now_ += kMicrosPerMinute;
  }
  void TearDown() override {
    api_.reset();
    ingest_.reset();
    duck_.reset();
    std::filesystem::remove_all(directory_);
  }
  store::Store* Store() override { return duck_.get(); }

  // Samples of a minute each, from minute `first` of the fleet to minute `last`.
  void Say(ApplicationClaim claim, ApplicationField field, double value, int first = 4,
           int last = 26) {
    claim.id = ++claims_;
    claim.first_seen = kStart;
    ASSERT_TRUE(duck_->PutClaims(absl::MakeConstSpan(&claim, 1)).ok());
    std::vector<ApplicationSample> samples;
    for (int m = first + 1; m <= last; ++m) {
      ApplicationSample& s = samples.emplace_back();
      s.ts = kStart + m * kMicrosPerMinute;
      s.claim = claim.id;
      s.span_ms = 60'000;
      s[field] = value;
    }
    ASSERT_TRUE(duck_->AppendApplication(samples, now_).ok());
  }
  static ApplicationClaim Claim(std::string job) {
    ApplicationClaim c;
    c.job = std::move(job);
    c.convention = "megatron";
    c.precision = "bf16";
    c.peak_tflops = 312;
    return c;
  }
  boost::json::value Of(std::string_view job, std::string_view more = "") {
    return Json(fmt::format("/api/v1/jobs/{}/divergence?from={}{}", job, kWindow, more))
        .at("divergence");
  }

  static constexpr std::string_view kWindow = "2026-09-21T14:00:00Z";
  std::filesystem::path directory_;
  std::unique_ptr<store::Store> duck_;
  int claims_ = 0;
};

// GPU-A and GPU-B run at OFU 0.6 and 0.2: the job's is 0.4, and 0.385 claimed is what padding
// leaves of it.
TEST_F(DivergenceApiTest, JobThatAgrees) {
  Say(Claim("100"), ApplicationField::kMfu, 0.385);
  const auto d = Of("100");
  EXPECT_EQ(Text(d, "/verdict"), "agrees");
  EXPECT_NEAR(Number(d, "/ofu"), 0.4, 1e-6);
  EXPECT_NEAR(Number(d, "/mfu"), 0.385, 1e-3);
  EXPECT_EQ(Number(d, "/gpus"), 2);
  EXPECT_EQ(Text(d, "/user"), "alice");
  EXPECT_EQ(Text(d, "/gpu_models/0"), kA100);
  // Exactly the training window: 22 minutes from the begin of what the first sample stands for.
  EXPECT_EQ(Text(d, "/window/from"), "2026-09-21T14:18:00Z");
  EXPECT_EQ(Text(d, "/window/to"), "2026-09-21T14:40:00Z");
  EXPECT_EQ(Text(d, "/window/source"), "raw");
  EXPECT_NEAR(Number(d, "/gpu_seconds"), 2 * 22 * 60, 1);
  EXPECT_NEAR(Number(d, "/coverage"), 1, 1e-3);
  EXPECT_EQ(Number(d, "/claim/samples"), 22);
  EXPECT_EQ(Text(d, "/claim/convention"), "megatron");
}

TEST_F(DivergenceApiTest, OfuIsOfTheTrainingWindowAlone) {
  // The claim covers minutes 4 to 26; GPU-C's OFU there is 0.25 and its time is shared by two jobs.
  Say(Claim("200"), ApplicationField::kMfu, 0.53);
  const auto d = Of("200");
  EXPECT_NEAR(Number(d, "/ofu"), 0.25, 1e-6);
  EXPECT_NEAR(Number(d, "/gpu_seconds"), 22 * 60 / 2.0, 1);
  EXPECT_EQ(Text(d, "/verdict"), "alarm");
  EXPECT_NEAR(Number(d, "/ratio"), 2.12 * 312 / 311.87, 0.0005);  // against the peak of equation 5
}

TEST_F(DivergenceApiTest, WrongPeakIsReExpressed) {
  ApplicationClaim c = Claim("100");
  c.peak_tflops = 624;  // the sparse figure of an A100
  Say(c, ApplicationField::kMfu, 0.1925);
  const auto d = Of("100");
  EXPECT_NEAR(Number(d, "/mfu_claimed"), 0.1925, 1e-9);
  EXPECT_NEAR(Number(d, "/mfu"), 0.385, 1e-3);
  EXPECT_EQ(Text(d, "/verdict"), "alarm");
  EXPECT_EQ(Text(d, "/explanations/0/parts/0/id"), "wrong_peak");
  EXPECT_THAT(Text(d, "/peak/used_looks_like"), HasSubstr("sparse"));
}

TEST_F(DivergenceApiTest, MfuFromThroughput) {
  ApplicationClaim c = Claim("100");
  c.peak_tflops.reset();
  Say(c, ApplicationField::kTflopsPerGpu, 120);  // of 311.9
  const auto d = Of("100");
  EXPECT_NEAR(Number(d, "/mfu"), 120 / 311.9, 1e-3);
  EXPECT_EQ(Text(d, "/claim/mfu_basis"), "tflops_per_gpu");
  EXPECT_EQ(Text(d, "/verdict"), "agrees");
}

TEST_F(DivergenceApiTest, MfuFromTokens) {
  ApplicationClaim c = Claim("100");
  c.training_flops_per_token = 48'249'176'064.0;  // Llama-3.1-8B at 4K, Megatron (published golden)
  c.gpus = 2;
  Say(c, ApplicationField::kTokensPerS, 5000);
  // 5000 x 48.249e9 / (2 x 312e12)
  EXPECT_NEAR(Number(Of("100"), "/mfu_claimed"), 0.38661, 1e-4);
  EXPECT_EQ(Text(Of("100"), "/claim/mfu_basis"), "tokens_per_s");
}

TEST_F(DivergenceApiTest, ModelOfTheClaimDecides) {
  ApplicationClaim c = Claim("100");
  c.convention = "palm";
  c.seq_len = 32768;
  c.model_config =
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
    "num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
    "tie_word_embeddings":false})";
  // Full attention counted at 32K; a healthy claim is some 1.3 times the OFU.
  Say(c, ApplicationField::kMfu, 0.52);
  EXPECT_EQ(Text(Of("100"), "/verdict"), "agrees");
  EXPECT_NEAR(Number(Of("100"), "/model/attention_share"), 0.364, 0.005);
  ApplicationClaim broken = Claim("200");
  broken.model_config = R"({"model_type":"nonesuch"})";
  broken.seq_len = 4096;
  Say(broken, ApplicationField::kMfu, 0.24);
  EXPECT_THAT(Text(Of("200"), "/model_note"), HasSubstr("nonesuch"));
  EXPECT_EQ(Text(Of("200"), "/verdict"), "agrees");
}

TEST_F(DivergenceApiTest, WhatCannotBeCompared) {
  EXPECT_EQ(Text(Of("100"), "/verdict"), "not_computable");
  EXPECT_THAT(Text(Of("100"), "/reason"), HasSubstr("reported no MFU"));
  Say(Claim("ghost"), ApplicationField::kMfu, 0.4);
  EXPECT_EQ(Text(Of("ghost"), "/verdict"), "not_computable");
  EXPECT_THAT(Text(Of("ghost"), "/reason"), HasSubstr("no GPU is known"));
  EXPECT_THAT(Error("/api/v1/jobs/10/divergence", 404), HasSubstr("no job '10'"));
  Say(Claim("200"), ApplicationField::kLoss, 2.5);
  EXPECT_THAT(Text(Of("200"), "/reason"), HasSubstr("reported no MFU"));
  Say(Claim("300"), ApplicationField::kMfu, 0.4, 10, 13);  // three minutes
  EXPECT_THAT(Text(Of("300"), "/reason"), HasSubstr("180 s"));
}

TEST_F(DivergenceApiTest, LongestClaimStandsForTheJob) {
  Say(Claim("100"), ApplicationField::kMfu, 0.385, 4, 20);
  ApplicationClaim other = Claim("100");
  other.convention = "palm";
  Say(other, ApplicationField::kMfu, 0.9, 20, 26);
  const auto d = Of("100");
  EXPECT_EQ(Text(d, "/claim/convention"), "megatron");
  EXPECT_EQ(Number(d, "/claim/other_claims"), 1);
  EXPECT_EQ(Text(d, "/window/to"), "2026-09-21T14:34:00Z");
}

TEST_F(DivergenceApiTest, AnAlarmIsANoteOfTheJob) {
  Say(Claim("100"), ApplicationField::kMfu, 0.385);  // agrees
  Say(Claim("200"), ApplicationField::kMfu, 0.53);   // OFU 25 %
  ingest_->application.Load(duck_->LoadDimensions()->claims);
  const auto healthy = Json(fmt::format("/api/v1/jobs/100?from={}", kWindow));
  EXPECT_TRUE(healthy.at("mfu_alarm").is_null());
  const auto wrong = Json(fmt::format("/api/v1/jobs/200?from={}", kWindow));
  ASSERT_TRUE(wrong.at("mfu_alarm").is_object());
  EXPECT_EQ(Text(wrong, "/mfu_alarm/verdict"), "alarm");
  EXPECT_EQ(Text(wrong, "/mfu_alarm/headline"), Text(Of("200"), "/headline"));
  EXPECT_NEAR(Number(wrong, "/mfu_alarm/gpu_seconds"),
              Number(Of("200"), "/difference_expected") * Number(Of("200"), "/gpu_seconds"), 1e-6);
  // Nothing is claimed.
  EXPECT_TRUE(Json(fmt::format("/api/v1/jobs/300?from={}", kWindow)).at("mfu_alarm").is_null());
}

TEST_F(DivergenceApiTest, SetOfJobs) {
  Say(Claim("100"), ApplicationField::kMfu, 0.385);
  Say(Claim("200"), ApplicationField::kMfu, 0.53);
  Say(Claim("300"), ApplicationField::kMfu, 0.24);
  Say(Claim("ghost"), ApplicationField::kMfu, 0.4);
  const auto set = Json(fmt::format("/api/v1/divergence?from={}&group_by=gpus", kWindow));
  EXPECT_EQ(Number(set, "/jobs_with_claim"), 4);
  EXPECT_EQ(Number(set, "/jobs_compared"), 3);
  EXPECT_EQ(Number(set, "/verdicts/alarm"), 1);
  EXPECT_EQ(Number(set, "/verdicts/not_computable"), 1);
  EXPECT_EQ(Number(set, "/all/by_jobs/jobs"), 3);
  // |e| of 1.5, 28 and 1 points, by hand; a point is a 312/311.9 of the peak off.
  EXPECT_NEAR(Number(set, "/all/by_jobs/mae"), (0.015 + 0.28 + 0.01) / 3, 5e-4);
  EXPECT_NEAR(Number(set, "/without_flagged/by_jobs/mae"), (0.015 + 0.01) / 2, 5e-4);
  EXPECT_NEAR(Number(set, "/all/by_jobs/over_20_points"), 1 / 3.0, 1e-9);
  // Job 100 has two GPUs for 22 minutes, 200 and 300 half of one each.
  EXPECT_NEAR(Number(set, "/all/by_gpu_seconds/mae"), (4 * 0.015 + 0.28 + 0.01) / 6, 5e-4);
  ASSERT_EQ(set.at("groups").as_array().size(), 2u);
  EXPECT_EQ(Text(set, "/groups/0/group"), "1");
  EXPECT_EQ(Number(set, "/groups/0/by_jobs/jobs"), 2);
  EXPECT_EQ(Number(set, "/groups/0/flagged"), 1);
  EXPECT_EQ(Text(set, "/groups/1/group"), "2");
  // The flagged one first, and what differs in a short window is looked at in its raw rows.
  EXPECT_EQ(Text(set, "/jobs/0/job"), "200");
  EXPECT_EQ(Text(set, "/jobs/0/window/source"), "raw");
  EXPECT_NEAR(Number(set, "/jobs/0/ofu"), 0.25, 1e-6);
  EXPECT_EQ(Json(fmt::format("/api/v1/divergence?from={}&flagged=1", kWindow))
                .at("jobs")
                .as_array()
                .size(),
            1u);
  EXPECT_EQ(Text(Json(fmt::format("/api/v1/divergence?from={}&sort=job&limit=1&offset=1", kWindow)),
                 "/jobs/0/job"),
            "200");
  // Raw rows give the same.
  const auto exact = Json(fmt::format("/api/v1/divergence?from={}&exact=1", kWindow));
  EXPECT_EQ(Text(exact, "/jobs/0/window/source"), "raw");
  EXPECT_NEAR(Number(exact, "/jobs/0/ofu"), 0.25, 1e-6);
  // The books have the same MFU by job, of the 22 minutes it was claimed for.
  const auto books = Json(fmt::format("/api/v1/usage?by=job&from={}", kWindow));
  for (const auto& row : books.at("rows").as_array()) {
    if (Text(row, "/name") == "ml/train-0") {
      EXPECT_EQ(Text(row, "/mfu"), "null");
      EXPECT_EQ(Number(row, "/mfu_coverage"), 0);
    } else {
      const std::string job = Text(row, "/name");
      EXPECT_NEAR(Number(row, "/mfu"), job == "100" ? 0.385 : job == "200" ? 0.53 : 0.24, 1e-3);
      EXPECT_NEAR(Number(row, "/mfu_coverage") * Number(row, "/gpu_seconds"),
                  (job == "100" ? 2 : 0.5) * 22 * 60, 1e-6);
    }
  }
  // Nothing in the window: nothing, and no made-up numbers.
  const auto none = Json("/api/v1/divergence?from=2026-09-20T00:00:00Z&to=2026-09-20T01:00:00Z");
  EXPECT_EQ(Number(none, "/jobs_with_claim"), 0);
  EXPECT_TRUE(none.at_pointer("/all/by_jobs/mae").is_null());
}

TEST_F(DivergenceApiTest, ParametersAreChecked) {
  EXPECT_THAT(Error("/api/v1/divergence?group_by=colour", 400), HasSubstr("group_by"));
  EXPECT_THAT(Error("/api/v1/divergence?sort=loss", 400), HasSubstr("sort"));
  EXPECT_THAT(Error("/api/v1/jobs/100/divergence?step=1m", 400), HasSubstr("step"));
}

}  // namespace
}  // namespace flopwatch::api
