// Verdicts and causes. The numbers are the OFU paper's (V-C, VI-C), those of published threads
// (docs/divergence.md, Causes), or made by hand from a known truth, never from the code's own
// formula.
#include "fleet/divergence/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "fleet/divergence/words.h"

namespace flopwatch::fleet {
namespace {

using hardware::Catalog;
using hardware::Precision;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobEvidence DiagnosedJob(double mfu, double ofu) {
  JobEvidence job;
  job.job = "j";
  job.claim.mfu = mfu;
  job.ofu.ofu = ofu;
  return job;
}
Diagnosis Of(const JobEvidence& job) { return Diagnose(job, Catalog::Builtin()); }
std::vector<std::string> Ids(const Explanation& e) {
  std::vector<std::string> out;
  for (const Cause& c : e.causes) out.push_back(c.id);
  return out;
}
std::vector<std::string> First(const Diagnosis& d) {
  return d.explanations.empty() || !d.explanations[0].near() ? std::vector<std::string>{}
                                                             : Ids(d.explanations[0]);
}
std::string AllWords(const JobEvidence& job) {
  const DivergenceWords w = Describe(job, Of(job));
  std::string out = w.headline;
  for (const auto& f : w.findings) out += "\n" + f;
  for (const auto& a : w.actions) out += "\n" + a;
  return out;
}

// --- the paper's three cases, from their numbers alone ---

TEST(Diagnose, PaperLatentMoe) {
  const Diagnosis d = Of(DiagnosedJob(0.5427, 0.2558));
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  EXPECT_NEAR(*d.ratio, 2.1216, 0.0001);  // 54.27 / 25.58 - 1 = 112.16 %
  EXPECT_NEAR(*d.difference, 0.2869, 1e-9);
  // Corrected (18.45), the MFU is 27.9 % below the OFU, which full recompute and usual padding give
  // (18.45 x 4/3 x 1.04 = 25.6): a second finding, not "resolved".
  EXPECT_THAT(First(d), ElementsAre("latent_moe_full_width", "recompute_not_counted"));
  EXPECT_EQ(d.undecided, 0u);
  EXPECT_NEAR(*d.explanations[0].corrected_mfu, 0.1845, 1e-9);
  EXPECT_NEAR(*d.explanations[0].residual, 1.3864, 0.0001);  // 25.58 / 18.45
  const std::string words = AllWords(DiagnosedJob(0.5427, 0.2558));
  EXPECT_THAT(words, HasSubstr("MFU is probably 2.94 times too high, by the ratio alone: latent "
                               "MoE counted at full width"));
  EXPECT_THAT(words, HasSubstr("second finding: OFU / MFU of 1.39"));
  EXPECT_THAT(words, HasSubstr("a ratio that fits, not a diagnosis"));
}

TEST(Diagnose, PaperHybridCountedAsDense) {
  const Diagnosis d = Of(DiagnosedJob(0.2451, 0.1556));
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  EXPECT_NEAR(*d.ratio, 1.5752, 0.0001);  // 57.52 % relative
  EXPECT_THAT(First(d), ElementsAre("hybrid_as_dense"));
  EXPECT_EQ(d.undecided, 0u);
}

TEST(Diagnose, PaperRecompute) {
  JobEvidence job = DiagnosedJob(0.26, 0.34);
  job.gpu_models = {"GB200"};
  job.gpus = 256;
  const Diagnosis d = Of(job);
  EXPECT_THAT(First(d), ElementsAre("recompute_not_counted"));
  EXPECT_EQ(d.verdict, Verdict::kDiffers);  // the MFU is right by definition
  EXPECT_EQ(d.explanations[0].corrected_mfu, 0.26);
  EXPECT_NEAR(*d.explanations[0].corrected_hfu, 0.34, 0.01);  // the paper corrects it to 33 %
  // Without a GPU named it is still the first.
  EXPECT_THAT(First(Of(DiagnosedJob(0.26, 0.34))), ElementsAre("recompute_not_counted"));
  // Declared, it is what is expected.
  job.claim.recompute = Recompute::kFull;
  EXPECT_EQ(Of(job).verdict, Verdict::kAgrees);
  // Declared absent, it is no candidate.
  job.claim.recompute = Recompute::kNone;
  for (const Explanation& e : Of(job).explanations) {
    for (const std::string& id : Ids(e)) EXPECT_NE(id, "recompute_not_counted");
  }
}

TEST(Diagnose, PaperHybridCountedRightAgrees) {
  EXPECT_EQ(Of(DiagnosedJob(0.178, 0.187)).verdict, Verdict::kAgrees);
  EXPECT_EQ(Of(DiagnosedJob(0.180, 0.185)).verdict, Verdict::kAgrees);
}

// --- with the model's own FLOPs ---

// A latent MoE whose counter takes the experts at full width: 2.94 on the whole model.
JobEvidence LatentJob() {
  JobEvidence job = DiagnosedJob(0.5427, 0.2558);
  job.gpu_models = {"H100 SXM"};
  job.gpus = 288;
  job.claim.convention = "megatron";
  job.claim.peak_tflops = 989;
  job.claim.mix = {{Precision::kBf16, 1}};
  job.model = ModelFlops{
      .name = "latent", .exact = 10e9, .attention_core = 0.8e9, .seq_len = 4096, .counted = 10e9};
  job.model->others = {
      {.id = "latent_full_width",
       .title = "latent MoE at full width",
       .flops = 29.4e9,
       .error = true,
       .fits_claim = true,
       .source = "Megatron-LM #2296, #2977",
       .advice = "update Megatron-LM"},
      {.id = "all_experts", .title = "all experts counted", .flops = 60e9, .error = true},
      {.id = "palm", .title = "palm", .flops = 11e9}};
  return job;
}

TEST(Diagnose, ModelDecides) {
  const Diagnosis d = Of(LatentJob());
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  EXPECT_TRUE(d.from_model);
  EXPECT_THAT(First(d), ElementsAre("latent_full_width", "recompute_not_counted"));
  EXPECT_TRUE(d.explanations[0].supported());
  EXPECT_EQ(d.undecided, 0u);
  EXPECT_NEAR(*d.explanations[0].corrected_mfu, 0.1845, 0.0002);
  EXPECT_THAT(AllWords(LatentJob()), Not(HasSubstr("a ratio that fits")));
  // With recompute declared nothing is left to be named.
  JobEvidence declared = LatentJob();
  declared.claim.recompute = Recompute::kFull;
  EXPECT_THAT(First(Of(declared)), ElementsAre("latent_full_width"));
  // Declared absent, the residual fits nothing by itself: a second mistake or none is named.
  JobEvidence none = LatentJob();
  none.claim.recompute = Recompute::kNone;
  EXPECT_NE(First(Of(none)), std::vector<std::string>{"latent_full_width"});
}

TEST(Diagnose, ConventionIsADifferenceInMeaning) {
  JobEvidence job = DiagnosedJob(0.44, 0.42);
  job.model = ModelFlops{.name = "m", .exact = 10, .attention_core = 1, .seq_len = 8192};
  job.model->others = {{.id = "palm", .title = "palm", .flops = 11.9}};
  const Diagnosis d = Of(job);  // r = 1.048, a healthy one 0.94
  EXPECT_NE(d.verdict, Verdict::kAlarm);
  // Far enough to ask: 60 % against 53 % is the same ratio.
  job.claim.mfu = 0.66;
  job.ofu.ofu = 0.58;
  const Diagnosis far = Of(job);
  EXPECT_EQ(far.verdict, Verdict::kDiffers);
  EXPECT_THAT(First(far), ElementsAre("palm"));
  EXPECT_NEAR(*far.explanations[0].corrected_mfu, 0.66 / 1.19, 1e-9);
}

// --- peaks ---

TEST(Diagnose, SparsePeakIsSeenAndCorrected) {
  JobEvidence job = DiagnosedJob(0.20, 0.415);
  job.gpu_models = {"NVIDIA H100 80GB HBM3"};
  job.claim.peak_tflops = 1979;
  job.claim.mix = {{Precision::kBf16, 1}};
  const Diagnosis d = Of(job);
  EXPECT_NEAR(*d.mfu, 0.40, 0.001);  // against 989
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  EXPECT_THAT(First(d), ElementsAre("wrong_peak"));
  EXPECT_NEAR(*d.explanations[0].corrected_mfu, 0.40, 0.001);
  EXPECT_THAT(AllWords(job), HasSubstr("1979"));
}

TEST(Diagnose, HalfAndDoubleAreNotDecidedByTheRatio) {
  const Diagnosis half = Of(DiagnosedJob(0.20, 0.41));
  EXPECT_EQ(half.verdict, Verdict::kAlarm);
  EXPECT_GE(half.undecided, 2u);  // sparse peak, multiply-adds
  EXPECT_THAT(AllWords(DiagnosedJob(0.20, 0.41)), HasSubstr("not decided"));
  EXPECT_GE(Of(DiagnosedJob(0.60, 0.315)).undecided, 2u);  // FP8 against BF16, counted twice
  // The claim's peak is known to be right: what needs a wrong one is out.
  JobEvidence job = DiagnosedJob(0.20, 0.41);
  job.gpu_models = {"H100 SXM"};
  job.claim.peak_tflops = 989;
  job.claim.mix = {{Precision::kBf16, 1}};
  EXPECT_THAT(First(Of(job)), ElementsAre("mac_as_flop"));
}

TEST(Diagnose, LoraNeedsToBePossible) {
  // LoRA counted as full training, 1.5 (Megatron-Bridge #2409), padding 4 %.
  JobEvidence job = DiagnosedJob(0.45, 0.45 / 1.5 * 1.04);
  job.claim.frozen_base = true;
  EXPECT_THAT(First(Of(job)), ElementsAre("frozen_as_full"));
  EXPECT_TRUE(Of(job).explanations[0].supported());
  job.claim.frozen_base = false;
  for (const Explanation& e : Of(job).explanations) {
    for (const std::string& id : Ids(e)) EXPECT_NE(id, "frozen_as_full");
  }
}

TEST(Diagnose, DeclaredStagesAndSteps) {
  JobEvidence stages = DiagnosedJob(0.90, 0.90 / 3 * 1.04);
  stages.claim.virtual_pipeline = 3;
  EXPECT_THAT(First(Of(stages)), ElementsAre("virtual_pipeline"));
  JobEvidence steps = DiagnosedJob(0.05, 0.05 * 8 * 1.04);
  steps.claim.accumulation_steps = 8;
  EXPECT_THAT(First(Of(steps)), ElementsAre("accumulation_forgotten"));
}

TEST(Diagnose, GrowthWithUptimeIsSeen) {
  // A sum that is never reset grows in proportion (Megatron-LM #1755): twice the uptime, twice the
  // claim.
  JobEvidence job = DiagnosedJob(0.45, 0.35);
  job.trend = RatioTrend{.early = 0.97,
                         .late = 1.9,
                         .early_mfu = 0.31,
                         .late_mfu = 0.61,
                         .early_uptime_s = 3600,
                         .late_uptime_s = 7200};
  const Diagnosis d = Of(job);
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  ASSERT_EQ(d.seen.size(), 1u);
  EXPECT_EQ(d.seen[0].id, "accumulator_not_reset");
  EXPECT_EQ(d.named(), nullptr);  // what was seen is the reason, not a ratio that fits the mean
  EXPECT_THAT(AllWords(job), HasSubstr("rose from 0.97 to 1.90"));
}

TEST(Diagnose, RatioThatRisesForAnotherReasonIsNoGrowth) {
  // The claim stays, and the OFU falls: the job paused, or was scraped in part.
  JobEvidence job = DiagnosedJob(0.30, 0.29);
  job.trend = RatioTrend{.early = 0.8,
                         .late = 1.6,
                         .early_mfu = 0.30,
                         .late_mfu = 0.30,
                         .early_uptime_s = 3600,
                         .late_uptime_s = 7200};
  EXPECT_TRUE(Of(job).seen.empty());
  EXPECT_EQ(Of(job).verdict, Verdict::kAgrees);
  // Both rise, by far less than the uptime.
  job.trend->late_mfu = 0.40;
  job.trend->late = 1.06;
  job.trend->late_uptime_s = 18'000;
  EXPECT_TRUE(Of(job).seen.empty());
}

TEST(Diagnose, TensorPipesStandStill) {
  JobEvidence job = DiagnosedJob(0.35, 0.001);
  job.ofu.tensor_active = 0.0012;
  const Diagnosis d = Of(job);
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  ASSERT_FALSE(d.seen.empty());
  EXPECT_EQ(d.seen[0].id, "tensor_cores_bypassed");
  JobEvidence zero = DiagnosedJob(0.35, 0);
  zero.ofu.tensor_active = 0;
  EXPECT_EQ(Of(zero).verdict, Verdict::kAlarm);
  EXPECT_EQ(Of(zero).ratio, std::nullopt);
}

// --- verdicts ---

TEST(Diagnose, Thresholds) {
  // 6 points apart after the expectation and within 1.25: differs. 11 points: alarm.
  EXPECT_EQ(Of(DiagnosedJob(0.50, 0.465)).verdict, Verdict::kDiffers);
  EXPECT_EQ(Of(DiagnosedJob(0.50, 0.40)).verdict, Verdict::kAlarm);
  // Small numbers: 2 points apart, but a ratio of 1.5.
  EXPECT_EQ(Of(DiagnosedJob(0.06, 0.04)).verdict, Verdict::kAlarm);
  // ... unless the OFU is too uncertain to say so.
  JobEvidence vague = DiagnosedJob(0.06, 0.045);
  vague.ofu.ci95 = 0.02;
  EXPECT_NE(Of(vague).verdict, Verdict::kAlarm);
}

// 0.1 % of OFU with a half-width of 0.22 points: any ratio fits, so none is named; the difference
// is an alarm all the same.
TEST(Diagnose, NoCauseIsReadFromAnOfuNearZero) {
  const JobEvidence job = DiagnosedJob(0.19, 0.001);
  const Diagnosis d = Of(job);
  EXPECT_EQ(d.verdict, Verdict::kAlarm);
  EXPECT_TRUE(d.vague);
  EXPECT_TRUE(d.explanations.empty());
  EXPECT_THAT(AllWords(job), HasSubstr("too uncertain"));
  EXPECT_FALSE(Of(DiagnosedJob(0.19, 0.10)).vague);
}

TEST(Diagnose, ImpossibleNumbersAreNamed) {
  // An MFU above 100 % has been reported for a model whose windows were ignored.
  const Diagnosis mfu = Of(DiagnosedJob(1.08, 0.53));
  EXPECT_EQ(mfu.verdict, Verdict::kImpossible);
  EXPECT_THAT(mfu.reason, HasSubstr("108.0 %"));
  EXPECT_TRUE(mfu.flagged());
  EXPECT_EQ(Of(DiagnosedJob(0.98, 1.08)).verdict, Verdict::kImpossible);  // TPA 1 at 1980 MHz
  EXPECT_EQ(Of(DiagnosedJob(0.98, 1.01)).verdict, Verdict::kAgrees);
}

TEST(Diagnose, WhatCannotBeSaid) {
  const auto reason = [](const JobEvidence& j) {
    const Diagnosis d = Of(j);
    EXPECT_EQ(d.verdict, Verdict::kNotComputable);
    return d.reason;
  };
  JobEvidence no_claim = DiagnosedJob(0.4, 0.4);
  no_claim.claim.mfu.reset();
  EXPECT_THAT(reason(no_claim), HasSubstr("no MFU"));
  JobEvidence no_ofu = DiagnosedJob(0.4, 0.4);
  no_ofu.ofu.ofu.reset();
  no_ofu.ofu.reason = "tensor_missing";
  EXPECT_THAT(reason(no_ofu), HasSubstr("tensor_missing"));
  JobEvidence thin = DiagnosedJob(0.4, 0.4);
  thin.ofu.coverage = 0.3;
  EXPECT_THAT(reason(thin), HasSubstr("30 %"));
  JobEvidence brief = DiagnosedJob(0.4, 0.4);
  brief.ofu.window_s = 60;
  EXPECT_THAT(reason(brief), HasSubstr("60 s"));
  JobEvidence mixed = DiagnosedJob(0.4, 0.4);
  mixed.gpu_models = {"H100 SXM", "A100 SXM 80GB"};
  EXPECT_THAT(reason(mixed), HasSubstr("peaks differ"));
  EXPECT_THAT(reason(DiagnosedJob(0, 0.4)), HasSubstr("not above 0"));
  EXPECT_THAT(reason(DiagnosedJob(-1, 0.4)), HasSubstr("not above 0"));
  EXPECT_THAT(reason(DiagnosedJob(std::nan(""), 0.4)), HasSubstr("not above 0"));
  EXPECT_THAT(reason(DiagnosedJob(0.4, std::nan(""))), HasSubstr("OFU"));
}

TEST(Diagnose, SmallJobsMayScatterUnlessACauseIsSupported) {
  JobEvidence job = DiagnosedJob(0.36, 0.238);  // Table III, 16 GPUs: 12.2 points
  job.gpus = 16;
  EXPECT_EQ(Of(job).verdict, Verdict::kScatter);
  job.gpus = 1024;
  EXPECT_EQ(Of(job).verdict, Verdict::kAlarm);
  job.gpus = 16;
  job.claim.frozen_base = true;  // 0.36 / 0.238 = 1.51 is not LoRA's 1.44 + padding
  EXPECT_EQ(Of(job).verdict, Verdict::kScatter);
  job.claim.mfu = 0.345;
  EXPECT_EQ(Of(job).verdict, Verdict::kAlarm);
  Thresholds strict;
  strict.allow_scatter = false;
  JobEvidence plain = DiagnosedJob(0.36, 0.238);
  plain.gpus = 16;
  EXPECT_EQ(Diagnose(plain, Catalog::Builtin(), strict).verdict, Verdict::kAlarm);
}

// --- what is said below an alarm ---

// Words that claim a mistake.
void ExpectNoMistakeIsClaimed(const JobEvidence& job) {
  const Diagnosis d = Of(job);
  EXPECT_FALSE(d.flagged());
  EXPECT_EQ(d.named(), nullptr);
  for (const Explanation& e : d.explanations) EXPECT_FALSE(e.mistaken()) << TitleOf(e);
  const std::string words = AllWords(job);
  EXPECT_THAT(words, Not(HasSubstr("times too")));
  EXPECT_THAT(words, Not(HasSubstr("corrected")));
  EXPECT_THAT(words, Not(HasSubstr("causes")));
}

TEST(Diagnose, ScatterIsStatedWithoutACause) {
  // 1.89 would be FLOPs counted twice; at 16 GPUs the paper's jobs scatter by 12.2 + 2.5 x 2.0.
  JobEvidence job = DiagnosedJob(0.23, 0.122);
  job.gpus = 16;
  EXPECT_EQ(Of(job).verdict, Verdict::kScatter);
  EXPECT_NEAR(Of(job).scatter_points, 0.172, 1e-9);
  ExpectNoMistakeIsClaimed(job);
  EXPECT_THAT(AllWords(job), HasSubstr("jobs of about 16 GPUs scatter by up to 17.2 points"));
  // The same of a large job is an alarm, with a cause.
  job.gpus = 1536;
  EXPECT_EQ(Of(job).verdict, Verdict::kAlarm);
}

TEST(Diagnose, TheScatterIsThatOfTheDifferenceAsItStands) {
  // Table III has MFU - OFU: 16.0 points; 18.6 after what is expected.
  JobEvidence job = DiagnosedJob(0.2653, 0.1053);
  job.gpus = 16;
  job.model =
      ModelFlops{.name = "m", .exact = 11.1, .attention_core = 0.5, .seq_len = 8192, .counted = 10};
  const Diagnosis d = Of(job);
  EXPECT_GT(*d.difference_expected, d.scatter_points);
  EXPECT_LT(*d.difference, d.scatter_points);
  EXPECT_EQ(d.verdict, Verdict::kScatter);
  ExpectNoMistakeIsClaimed(job);
}

TEST(Diagnose, OneOfSeveralCausesDoesNotOutweighTheScatter) {
  // The framework is known to leave the head out; a possible mistake gives the same ratio.
  JobEvidence job = DiagnosedJob(0.0278, 0.0346);
  job.gpus = 8;
  job.ofu.ci95 = 0.0027;
  job.claim.recompute = Recompute::kNone;
  job.model =
      ModelFlops{.name = "m", .exact = 10, .attention_core = 1, .seq_len = 8192, .counted = 13.6};
  job.model->others = {
      {.id = "head_left_out", .title = "head", .flops = 9, .error = true, .fits_claim = true}};
  EXPECT_EQ(Of(job).verdict, Verdict::kAlarm);
  job.model->others.push_back({.id = "two_matrices", .title = "two", .flops = 8.8, .error = true});
  EXPECT_EQ(Of(job).verdict, Verdict::kScatter);
  ExpectNoMistakeIsClaimed(job);
}

TEST(Diagnose, DifferenceBeyondTheScatterAndBelowAnAlarmIsSaidSo) {
  JobEvidence job = DiagnosedJob(0.50, 0.465);
  job.gpus = 1536;  // 0.3 + 2.5 x 0.2 points
  EXPECT_EQ(Of(job).verdict, Verdict::kDiffers);
  ExpectNoMistakeIsClaimed(job);
  EXPECT_THAT(AllWords(job), HasSubstr("more than the 0.8 by which jobs of about 1536 GPUs"));
}

TEST(Diagnose, WhatTheClaimShowsIsSaidWhateverTheVerdict) {
  // 4 % off: no alarm, and still the wrong figure.
  JobEvidence job = DiagnosedJob(0.40, 0.41);
  job.gpu_models = {"NVIDIA H100 80GB HBM3"};
  job.claim.peak_tflops = 950;
  job.claim.mix = {{Precision::kBf16, 1}};
  EXPECT_EQ(Of(job).verdict, Verdict::kAgrees);
  EXPECT_THAT(AllWords(job), HasSubstr("divided by 950 TFLOP/s, no peak of H100 SXM"));
}

// --- properties ---

// Stating the claim against another peak changes the claim, never the re-expressed numbers.
TEST(Diagnose, RatioDoesNotDependOnTheStatedPeak) {
  rc::check([](uint16_t m, uint16_t o) {
    const double mfu = 0.01 + 0.8 * m / 65536.0, ofu = 0.01 + 0.8 * o / 65536.0;
    JobEvidence job = DiagnosedJob(mfu, ofu);
    job.gpu_models = {"A100 SXM 80GB"};
    job.claim.mix = {{Precision::kBf16, 1}};
    job.claim.peak_tflops = 311.9;
    JobEvidence other = job;
    other.claim.peak_tflops = 989.4;
    other.claim.mfu = mfu * 311.9 / 989.4;
    const Diagnosis a = Of(job), b = Of(other);
    RC_ASSERT(std::abs(*a.ratio - *b.ratio) < 1e-9);
    RC_ASSERT(std::abs(*a.difference_expected - *b.difference_expected) < 1e-9);
    RC_ASSERT(b.peak.wrong());
  });
}

// Whatever comes in: a verdict, finite numbers, an order.
TEST(Diagnose, HoldsForAnyNumbers) {
  rc::check([](double mfu, double ofu, int64_t gpus, double peak, double ci) {
    JobEvidence job = DiagnosedJob(mfu, ofu);
    job.gpus = gpus;
    job.claim.peak_tflops = peak;
    job.ofu.ci95 = ci;
    job.gpu_models = {"H100 SXM"};
    const Diagnosis d = Of(job);
    Describe(job, d);
    for (size_t i = 1; i < d.explanations.size(); ++i) {
      RC_ASSERT(d.explanations[i - 1].near() >= d.explanations[i].near());
    }
  });
}

}  // namespace
}  // namespace flopwatch::fleet
