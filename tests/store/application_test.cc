// What applications report: stored, sealed, forgotten and answered like everything else.
#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using telemetry::kApplicationFields;

ApplicationClaim Claim(int32_t id, std::string job) {
  ApplicationClaim c;
  c.id = id;
  c.first_seen = kT0;
  c.job = std::move(job);
  c.source = telemetry::ApplicationSource::kMegatron;
  c.convention = "megatron";
  c.formula_version = "a4008d0f";
  c.gpu = "NVIDIA H100 80GB HBM3";
  c.precision = "bf16";
  c.recompute = "selective";
  c.model_config = R"({"hidden_size": 4096})";
  c.commit = "9fceb02";
  c.container_image = "images.example/train@sha256:0123";
  c.peak_tflops = 989.4;
  c.gpus = 64;
  c.seq_len = 8192;
  c.global_batch = 512;
  c.training_flops_per_token = 4.8249e10;
  return c;
}

ApplicationSample Said(int32_t claim, Micros ts, double mfu, int32_t span_ms = 10'000) {
  ApplicationSample s;
  s.ts = ts;
  s.claim = claim;
  s.span_ms = span_ms;
  s[ApplicationField::kMfu] = mfu;
  return s;
}

class ApplicationTest : public StoreTest {
 protected:
  void Put(const std::vector<ApplicationClaim>& claims) { ASSERT_FW_OK(store_->PutClaims(claims)); }
  void Append(const std::vector<ApplicationSample>& samples, Micros arrival = kT0) {
    ASSERT_FW_OK(store_->AppendApplication(samples, arrival));
  }
  ApplicationSums Of(int32_t claim, Window w = {kT0 - kMicrosPerDay, kT0 + 10 * kMicrosPerDay}) {
    const auto usage = store_->ApplicationByClaim(w, {&claim, 1});
    EXPECT_TRUE(usage.ok()) << usage.status();
    return usage.ok() && usage->size() == 1 ? (*usage)[0].sums : ApplicationSums{};
  }
};

TEST_F(ApplicationTest, AClaimComesBackAsItWasPut) {
  ApplicationClaim bare;
  bare.id = 2;
  bare.job = "8";
  const std::vector<ApplicationClaim> put = {Claim(1, "7"), bare};
  Put(put);
  for (int round = 0; round < 2; ++round) {
    const auto d = store_->LoadDimensions();
    ASSERT_FW_OK(d);
    ASSERT_EQ(d->claims.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(d->claims[i].Content(), put[i].Content());
      EXPECT_EQ(d->claims[i].id, put[i].id);
      EXPECT_EQ(d->claims[i].first_seen, put[i].first_seen);
    }
    Open();
  }
  EXPECT_EQ(Sql("SELECT job, source, convention, peak_tflops, gpus, recompute FROM "
                "application_claims ORDER BY job"),
            "7|megatron|megatron|989.4|64|selective;8|unknown|NULL|NULL|NULL|NULL");
}

TEST_F(ApplicationTest, ContentTellsClaimsApart) {
  const ApplicationClaim base = Claim(1, "7");
  std::vector<ApplicationClaim> others(8, base);
  others[0].convention = "palm";
  others[1].peak_tflops = 1979;
  others[2].peak_tflops.reset();
  others[3].gpus = 6;
  others[4].job = "";
  others[5].precision = "fp8";
  others[6].model_config = "";
  others[7].seq_len.reset();
  for (const auto& o : others) EXPECT_NE(o.Content(), base.Content());
  ApplicationClaim same = base;
  same.id = 99;
  same.first_seen = 1;
  EXPECT_EQ(same.Content(), base.Content());
  // Bytes may not wander from one text into the next.
  ApplicationClaim a, b;
  a.job = "1", a.convention = "23";
  b.job = "12", b.convention = "3";
  EXPECT_NE(a.Content(), b.Content());
}

TEST_F(ApplicationTest, WeightsAreTheTimesSamplesStandFor) {
  Put({Claim(1, "7")});
  ApplicationSample first = Said(1, kT0 + 10 * kSecond, 0.9, 0);  // nobody knows for how long
  first.step = 100;
  ApplicationSample second = Said(1, kT0 + 20 * kSecond, 0.3, 10'000);
  second.step = 101;
  second[ApplicationField::kLoss] = 2.5;
  ApplicationSample third = Said(1, kT0 + 50 * kSecond, 0.5, 30'000);
  third[ApplicationField::kTokensPerS] = 1e6;
  Append({first, second, third});
  const ApplicationSums sums = Of(1);
  EXPECT_EQ(sums.samples, 3);
  EXPECT_DOUBLE_EQ(sums.span_s, 40);
  EXPECT_EQ(sums.first_ts, kT0 + 10 * kSecond);
  EXPECT_EQ(sums.last_ts, kT0 + 50 * kSecond);
  EXPECT_EQ(sums.first_step, 100);
  EXPECT_EQ(sums.last_step, 101);
  EXPECT_NEAR(*sums.Mean(ApplicationField::kMfu), (0.3 * 10 + 0.5 * 30) / 40, 1e-12);
  EXPECT_EQ(sums.Last(ApplicationField::kMfu), 0.5);
  EXPECT_EQ(sums.Last(ApplicationField::kLoss), 2.5);
  EXPECT_EQ(sums.Mean(ApplicationField::kTokensPerS), 1e6);
  EXPECT_EQ(sums.Mean(ApplicationField::kHfu), std::nullopt);
  EXPECT_EQ(sums.Last(ApplicationField::kHfu), std::nullopt);
  EXPECT_EQ(Of(1, {kT0, kT0 + 15 * kSecond}).Mean(ApplicationField::kMfu), std::nullopt)
      << "no weight, no mean";
  EXPECT_EQ(Sql("SELECT step, span_s, mfu, loss FROM application_samples ORDER BY ts"),
            "100|NULL|0.9|NULL;101|10|0.3|2.5;NULL|30|0.5|NULL");
}

// That a run has diverged is kept; no mean is of it.
TEST_F(ApplicationTest, ALossThatIsNoNumberIsKept) {
  std::vector<ApplicationSample> samples;
  for (const double loss : {2.5, std::nan(""), 3.5, static_cast<double>(INFINITY)}) {
    ApplicationSample& s = samples.emplace_back(
        Said(1, kT0 + static_cast<Micros>(samples.size()) * kSecond, 0.3, 1'000));
    s[ApplicationField::kLoss] = loss;
  }
  Append(samples);
  const ApplicationSums sums = Of(1);
  EXPECT_EQ(sums[ApplicationField::kLoss].count, 2);
  EXPECT_DOUBLE_EQ(*sums.Mean(ApplicationField::kLoss), 3);
  EXPECT_EQ(sums.Last(ApplicationField::kLoss), 3.5);
  EXPECT_EQ(Sql("SELECT count(*) FROM application_samples WHERE NOT isfinite(loss)"), "2");
  ApplicationSums added;
  for (const ApplicationSample& s : samples) added.Add(s);
  EXPECT_DOUBLE_EQ(*added.Mean(ApplicationField::kLoss), 3);
}

TEST_F(ApplicationTest, WhatCannotBeIsRefusedByName) {
  const auto refused = [&](const ApplicationSample& s) {
    const Status status = store_->AppendApplication({&s, 1}, kT0);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_NE(refused(Said(1, kT0, std::nan(""))).find("mfu"), std::string::npos);
  EXPECT_NE(refused(Said(1, kT0, INFINITY)).find("mfu"), std::string::npos);
  EXPECT_NE(refused(Said(1, kT0, -0.1)).find("mfu"), std::string::npos);
  EXPECT_NE(refused(Said(1, kT0, 38.2)).find("mfu"), std::string::npos);
  EXPECT_NE(refused(Said(1, 0, 0.3)).find("ts"), std::string::npos);
  EXPECT_NE(refused(Said(1, kT0, 0.3, -1)).find("span_ms"), std::string::npos);
  ApplicationSample empty;
  empty.ts = kT0;
  EXPECT_NE(refused(empty).find("no value"), std::string::npos);
  ApplicationClaim c = Claim(1, "");
  EXPECT_NE(std::string(store_->PutClaims({&c, 1}).message()).find("job"), std::string::npos);
  c = Claim(1, "7");
  c.peak_tflops = -1;
  EXPECT_NE(std::string(store_->PutClaims({&c, 1}).message()).find("peak_tflops"),
            std::string::npos);
  c = Claim(1, "7");
  c.convention = std::string(1000, 'x');
  EXPECT_NE(std::string(store_->PutClaims({&c, 1}).message()).find("convention"),
            std::string::npos);
}

// The engine's sums against those added one by one, in every state rows can be in; and the samples
// as they were given.
TEST_F(ApplicationTest, AnswersAreTheSameInEveryTier) {
  std::mt19937_64 random(20260102);
  const auto uniform = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  Put({Claim(1, "7"), Claim(2, "7"), Claim(3, "9")});
  std::vector<ApplicationSample> all;
  for (int i = 0; i < 3000; ++i) {
    ApplicationSample s;
    s.ts = kT0 + static_cast<Micros>(uniform() * 3 * kMicrosPerDay);
    s.claim = 1 + static_cast<int32_t>(random() % 3);
    s.span_ms = random() % 5 == 0 ? 0 : static_cast<int32_t>(random() % 60'000);
    if (random() % 4 != 0) s.step = static_cast<int64_t>(random() % 100'000);
    for (size_t f = 0; f < kApplicationFields; ++f) {
      if (random() % 3 == 0) s.values[f] = uniform();
    }
    if (s.empty()) s[ApplicationField::kMfu] = 0.5;
    all.push_back(s);
  }
  for (size_t at = 0; at < all.size(); at += 500) {
    Append(
        {all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(at + 500)},
        kT0 + static_cast<Micros>(at / 500) * kMicrosPerHour);
  }
  const Window w = {kT0 + kMicrosPerHour, kT0 + 2 * kMicrosPerDay};
  ApplicationSums want[4];
  std::vector<ApplicationSample> inside;
  for (const auto& s : all) {
    if (s.ts < w.from || s.ts >= w.to) continue;
    want[s.claim].Add(s);
    inside.push_back(s);
  }
  std::stable_sort(inside.begin(), inside.end(), [](const auto& a, const auto& b) {
    return std::tie(a.ts, a.claim) < std::tie(b.ts, b.claim);
  });
  const auto same = [&](const ApplicationSums& got, const ApplicationSums& expected,
                        const std::string& where) {
    EXPECT_EQ(got.samples, expected.samples) << where;
    EXPECT_NEAR(got.span_s, expected.span_s, 1e-6) << where;
    EXPECT_EQ(got.first_ts, expected.first_ts) << where;
    EXPECT_EQ(got.last_ts, expected.last_ts) << where;
    EXPECT_EQ(got.first_step, expected.first_step) << where;
    EXPECT_EQ(got.last_step, expected.last_step) << where;
    for (size_t f = 0; f < kApplicationFields; ++f) {
      EXPECT_EQ(got.fields[f].count, expected.fields[f].count) << where;
      EXPECT_NEAR(got.fields[f].weighted_s, expected.fields[f].weighted_s, 1e-6) << where;
      EXPECT_NEAR(got.fields[f].span_s, expected.fields[f].span_s, 1e-6) << where;
      EXPECT_EQ(got.fields[f].last, expected.fields[f].last) << where;
      EXPECT_EQ(got.fields[f].last_ts, expected.fields[f].last_ts) << where;
    }
  };
  const std::string stages[] = {"staged", "rolled up", "opened again",
                                "sealed", "merged",    "opened after merging"};
  for (const std::string& stage : stages) {
    if (stage == "rolled up") ASSERT_FW_OK(store_->RollUp());
    if (stage.starts_with("opened")) Open();
    if (stage == "sealed") ASSERT_FW_OK(store_->Seal(kT0 + 8 * kMicrosPerHour));
    if (stage == "merged") ASSERT_FW_OK(store_->Seal(kT0 + 10 * kMicrosPerDay));
    const auto usage = store_->ApplicationByClaim(w, {});
    ASSERT_FW_OK(usage);
    ASSERT_EQ(usage->size(), 3u) << stage;
    for (const auto& u : *usage) same(u.sums, want[u.claim], stage);
    const int32_t two[] = {1, 3};
    const auto points = store_->ApplicationSeries(w, two, 10 * kMicrosPerMinute);
    ASSERT_FW_OK(points);
    ApplicationSums total[4];
    for (const auto& p : *points) {
      EXPECT_EQ(p.ts % (10 * kMicrosPerMinute), 0);
      EXPECT_GE(p.sums.last_ts, p.ts);
      EXPECT_LT(p.sums.last_ts, p.ts + 10 * kMicrosPerMinute);
      total[p.claim] += p.sums;
    }
    same(total[1], want[1], stage + ", series");
    same(total[3], want[3], stage + ", series");
    EXPECT_EQ(total[2].samples, 0);
    const auto samples = store_->ApplicationSamples(w, {}, 100'000);
    ASSERT_FW_OK(samples);
    EXPECT_TRUE(*samples == inside) << stage;
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM application_samples"), "3000");
}

TEST_F(ApplicationTest, ClaimsOfNobodyElse) {
  Put({Claim(1, "7")});
  Append({Said(1, kT0, 0.3)});
  const int32_t unknown = 5;
  const auto usage = store_->ApplicationByClaim({kT0 - kSecond, kT0 + kSecond}, {&unknown, 1});
  ASSERT_FW_OK(usage);
  EXPECT_TRUE(usage->empty());
  EXPECT_FALSE(store_->ApplicationByClaim({kT0, kT0}, {}).ok()) << "an empty window";
  EXPECT_FALSE(store_->ApplicationSeries({kT0, kT0 + 1}, {}, 0).ok());
}

TEST_F(ApplicationTest, KeptAsLongAsTheJobHoursItIsComparedWith) {
  Put({Claim(1, "7")});
  Append({Said(1, kT0, 0.3)});
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  PassUntil(kT0 + 100 * kMicrosPerDay);  // rows and minutes of GPUs are gone by then
  EXPECT_EQ(Of(1).samples, 1);
  PassUntil(kT0 + 731 * kMicrosPerDay);
  EXPECT_EQ(Of(1).samples, 0);
}

TEST_F(ApplicationTest, AReaderSeesWhatAKilledWriterLeft) {
  Put({Claim(1, "7")});
  Append({Said(1, kT0, 0.3)});
  // The journal as a kill would leave it: copied while the writer is still there.
  TempDir copy;
  std::filesystem::copy(
      dir_.path(), copy.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  Options options = OptionsFor(copy.path());
  options.read_only = true;
  const auto reader = OpenDuckDbStore(options);
  ASSERT_FW_OK(reader);
  const auto usage = (*reader)->ApplicationByClaim({kT0 - kSecond, kT0 + kSecond}, {});
  ASSERT_FW_OK(usage);
  ASSERT_EQ(usage->size(), 1u);
  EXPECT_EQ((*usage)[0].sums.samples, 1);
}

}  // namespace
}  // namespace flopwatch::store::testing
