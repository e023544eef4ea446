// kWh of 10^18 executed FLOPs, by hand from the published dense peaks.
#include "query/work.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace flopwatch::query {
namespace {

// Dense BF16 of the data sheets, TFLOP/s: NVIDIA H100 SXM 989.4, A100 312; V100 SXM2 125 in FP16.
constexpr char kH100[] = "NVIDIA H100 80GB HBM3", kA100[] = "NVIDIA A100-SXM4-80GB",
               kV100[] = "Tesla V100-SXM2-32GB";

store::UsageSums Sums(double ofu, double seconds, double watts) {
  store::UsageSums s;
  s.ofu.ofu_s = ofu * seconds;
  s.ofu.computable_s = s.ofu.observed_s = s.power_span_s = seconds;
  s.power_j = watts * seconds;
  return s;
}

TEST(WorkTest, PeaksAreThoseOfTheDataSheets) {
  Peaks peaks(&hardware::Catalog::Builtin());
  EXPECT_NEAR(*peaks.Of({kH100}), 989.4, 0.1);
  EXPECT_NEAR(*peaks.Of({kA100}), 312, 0.2);
  EXPECT_NEAR(*peaks.Of({kV100}), 125, 0.5);
  EXPECT_NEAR(*peaks.Of({kA100, "NVIDIA A100-SXM4-40GB"}), 312, 0.2);  // two names, one peak
  EXPECT_EQ(peaks.Of({kA100, kH100}), std::nullopt);
  EXPECT_EQ(peaks.Of({kA100, "Graphics Device"}), std::nullopt);
  EXPECT_EQ(peaks.Of({}), std::nullopt);
}

TEST(WorkTest, KwhOfAnExaflopByHand) {
  // An hour of one H100 at OFU 0.4 does 0.4 x 989.4e12 x 3600 = 1.4247e18 FLOPs; 500 W are 0.5 kWh.
  WorkAndEnergy h100;
  h100.Add(Sums(0.4, 3600, 500), 989.4);
  EXPECT_NEAR(*h100.KwhPerEflop(), 0.5 / 1.424736, 1e-9);
  EXPECT_EQ(h100.gpu_seconds, 3600);
  // Two hours of an A100 at 0.25, 0.5616e18 FLOPs for 0.6 kWh, beside it: each with its own peak.
  WorkAndEnergy both;
  both.Add(Sums(0.25, 7200, 300), 312);
  EXPECT_NEAR(*both.KwhPerEflop(), 0.6 / 0.5616, 1e-9);
  both += h100;
  EXPECT_NEAR(*both.KwhPerEflop(), (0.5 + 0.6) / (1.424736 + 0.5616), 1e-9);
  EXPECT_EQ(both.gpu_seconds, 3 * 3600);
}

TEST(WorkTest, WhatCannotBeCountedAddsNeitherFlopsNorJoules) {
  WorkAndEnergy w;
  EXPECT_EQ(w.KwhPerEflop(), std::nullopt);
  w.Add(Sums(0.4, 3600, 500), std::nullopt);  // several models, or one that is not known
  store::UsageSums no_power = Sums(0.4, 3600, 500), no_ofu = no_power, half = no_power;
  no_power.power_j = no_power.power_span_s = 0;
  no_ofu.ofu.ofu_s = no_ofu.ofu.computable_s = 0;
  half.ofu.ofu_s /= 2, half.ofu.computable_s /= 2;  // the counter was dead for half an hour
  for (const auto& s : {no_power, no_ofu, half}) w.Add(s, 989.4);
  EXPECT_EQ(w.KwhPerEflop(), std::nullopt);
  EXPECT_EQ(w.gpu_seconds, 0);
  // Less than a hundredth of the time without OFU, or of the work without power.
  WorkAndEnergy nearly;
  store::UsageSums blank_ofu = Sums(0.4, 3600, 500), blank_power = blank_ofu;
  blank_ofu.ofu.ofu_s -= 30 * 0.4, blank_ofu.ofu.computable_s -= 30;
  blank_power.power_j -= 10 * 500, blank_power.power_span_s -= 10;
  nearly.Add(blank_ofu, 989.4);
  nearly.Add(blank_power, 989.4);
  EXPECT_NEAR(*nearly.KwhPerEflop(), 0.5 / 1.424736, 0.01 * 0.35);
  blank_power.power_span_s -= 10;  // 20 s could be a seventieth of the work
  w.Add(blank_power, 989.4);
  EXPECT_EQ(w.gpu_seconds, 0);
  // Idle GPUs did no arithmetic; what they drew is part of what the rest cost.
  w.Add(Sums(0, 3600, 100), 989.4);
  EXPECT_EQ(w.KwhPerEflop(), std::nullopt);
  EXPECT_EQ(w.gpu_seconds, 3600);
  w.Add(Sums(0.4, 3600, 500), 989.4);
  EXPECT_NEAR(*w.KwhPerEflop(), 0.6 / 1.424736, 1e-9);
}

RC_GTEST_PROP(WorkTest, AnySplitEqualsTheWhole, ()) {
  WorkAndEnergy some, rest;
  double eflop = 0, kwh = 0;
  const int parts = *rc::gen::inRange(1, 30);
  for (int k = 0; k < parts; ++k) {
    const int seconds = *rc::gen::inRange(1, 10000), per_mille = *rc::gen::inRange(1, 1000),
              watts = *rc::gen::inRange(50, 700);
    const double peak = *rc::gen::element(989.4, 312.0);
    (*rc::gen::arbitrary<bool>() ? some : rest).Add(Sums(per_mille / 1e3, seconds, watts), peak);
    eflop += per_mille / 1e3 * seconds * peak * 1e12 / 1e18;
    kwh += static_cast<double>(watts) * seconds / 3.6e6;
  }
  some += rest;
  RC_ASSERT(std::abs(*some.KwhPerEflop() - kwh / eflop) < 1e-9 * kwh / eflop);
}

}  // namespace
}  // namespace flopwatch::query
