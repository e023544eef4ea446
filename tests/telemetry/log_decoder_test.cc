// Training logs. The lines have the shape that the frameworks print (their formats are named in the
// decoders); the numbers are made up, and what they must become is written beside them by hand.
#include "telemetry/log_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <cmath>

#include <string>

#include "base/file.h"
#include "base/time.h"

namespace flopwatch::telemetry {
namespace {

using enum ApplicationField;

struct Decoded {
  std::vector<LogBatch> batches;
  LogStats stats;
  std::vector<ApplicationSample> samples;
  uint64_t refused(LogRefusal r) const { return stats.refused[static_cast<size_t>(r)]; }
};

LogOptions Options() {
  LogOptions o;
  o.claim.job = "42";
  return o;
}

Decoded Decode(std::string_view text, const LogOptions& options = Options()) {
  LogDecoder decoder(options);
  decoder.Feed(text);
  decoder.Finish();
  Decoded d{decoder.Take(), decoder.stats(), {}};
  for (const LogBatch& b : d.batches)
    d.samples.insert(d.samples.end(), b.samples.begin(), b.samples.end());
  return d;
}

Micros T(std::string_view text) { return ParseTime(text, 0).value(); }

constexpr std::string_view kMegatron =
    R"(using world size: 64, data-parallel size: 16
------------------------ arguments ------------------------
  bf16 ............................................ True
  fp16 ............................................ False
  fp8 ............................................. None
  global_batch_size ............................... 1024
  hidden_size ..................................... 4096
  num_layers ...................................... 32
  recompute_granularity ........................... selective
  save ............................................ /home/somebody/checkpoints
  seq_length ...................................... 4096
  wandb_project ................................... secret
  world_size ...................................... 64
-------------------- end of arguments ---------------------
[before the start of training step] datetime: 2025-01-02 03:00:00
 [2025-01-02 03:04:05] iteration      100/  500000 | consumed samples:       102400 | elapsed )"
    R"(time per iteration (ms): 5000.0 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning )"
    R"(rate: 1.500000E-04 | global batch size:  1024 | lm loss: 2.345678E+00 | loss scale: )"
    R"(1.0 | grad norm: 0.512 | num zeros: 0.0 | number of skipped iterations:   0 | number )"
    R"(of nan iterations:   0 |
 validation loss at iteration 100 | lm loss value: 2.5E+00 | lm loss PPL: 12.2 |
 [2025-01-02 03:04:55] iteration      110/  500000 | consumed samples:       112640 | elapsed )"
    R"(time per iteration (ms): 4900.0 | throughput per GPU (TFLOP/s/GPU): 420.7 | learning )"
    R"(rate: 1.500000E-04 | global batch size:  1024 | lm loss: 2.300000E+00 | loss scale: )"
    R"(1.0 | grad norm: nan | number of skipped iterations:   0 | number of nan iterations:   1 |
)";

TEST(LogDecoderTest, Megatron) {
  const Decoded d = Decode(kMegatron);
  EXPECT_EQ(d.stats.format, LogFormat::kMegatron);
  ASSERT_EQ(d.batches.size(), 1u);
  const ApplicationClaim& c = d.batches[0].claim;
  EXPECT_EQ(c.job, "42");
  EXPECT_EQ(c.source, ApplicationSource::kMegatron);
  EXPECT_EQ(c.convention, "megatron");
  EXPECT_EQ(c.gpus, 64);
  EXPECT_EQ(c.seq_len, 4096);
  EXPECT_EQ(c.global_batch, 1024);
  EXPECT_EQ(c.precision, "bf16");
  EXPECT_EQ(c.recompute, "selective");
  EXPECT_EQ(c.peak_tflops, std::nullopt) << "the log names none";
  EXPECT_NE(c.model_config.find("  num_layers ..... 32\n"), std::string::npos);
  EXPECT_EQ(c.model_config.find("somebody"), std::string::npos);
  EXPECT_EQ(c.model_config.find("secret"), std::string::npos);
  ASSERT_EQ(d.samples.size(), 2u);
  const ApplicationSample& a = d.samples[0];
  EXPECT_EQ(a.ts, T("2025-01-02T03:04:05Z"));
  EXPECT_EQ(a.step, 100);
  EXPECT_EQ(a[kTflopsPerGpu], 412.3);
  EXPECT_EQ(a[kMfu], std::nullopt) << "Megatron reports no MFU";
  EXPECT_DOUBLE_EQ(*a[kStepTimeS], 5);
  EXPECT_EQ(a[kLearningRate], 1.5e-4);
  EXPECT_EQ(a[kLoss], 2.345678);
  EXPECT_EQ(a[kGradNorm], 0.512);
  EXPECT_DOUBLE_EQ(*a[kTokensPerS], 1024.0 * 4096 / 5);
  EXPECT_DOUBLE_EQ(*a[kTokens], 102400.0 * 4096);
  EXPECT_EQ(a.span_ms, 5000) << "one step: how often it logs is not known yet";
  const ApplicationSample& b = d.samples[1];
  EXPECT_EQ(b.span_ms, 49'000) << "ten steps of 4.9 s";
  ASSERT_TRUE(b[kGradNorm].has_value()) << "that it is no number is news";
  EXPECT_TRUE(std::isnan(*b[kGradNorm]));
  EXPECT_EQ(d.refused(LogRefusal::kNotFinite), 0u);
  EXPECT_EQ(d.stats.zoneless_times, 2u);
}

TEST(LogDecoderTest, WhatTheCallerKnowsWins) {
  LogOptions o = Options();
  o.claim.gpus = 8;
  o.claim.convention = "palm";
  o.claim.peak_tflops = 989.4;
  o.claim.gpu = "H100";
  o.utc_offset = 2 * kMicrosPerHour;
  o.log_interval = 10;
  const Decoded d = Decode(kMegatron, o);
  ASSERT_EQ(d.batches.size(), 1u);
  EXPECT_EQ(d.batches[0].claim.gpus, 8);
  EXPECT_EQ(d.batches[0].claim.convention, "palm");
  EXPECT_EQ(d.batches[0].claim.peak_tflops, 989.4);
  EXPECT_EQ(d.batches[0].claim.seq_len, 4096);
  EXPECT_EQ(d.samples[0].ts, T("2025-01-02T01:04:05Z"));
  EXPECT_EQ(d.samples[0].span_ms, 50'000);
}

TEST(LogDecoderTest, MegatronOfOtherYears) {
  // 2021: neither time nor throughput. Then only --start says when.
  const std::string old =
      " iteration       10/     100 | consumed samples:          160 | elapsed time per iteration "
      "(ms): 2000.0 | learning rate: 1.000E-04 | global batch size:    16 | lm loss: 9.5E+00 | "
      "loss scale: 1.0 | grad norm: 3.0 |\n"
      " iteration       20/     100 | consumed samples:          320 | elapsed time per iteration "
      "(ms): 1000.0 | learning rate: 1.000E-04 | global batch size:    16 | lm loss: 9.0E+00 | "
      "loss scale: 1.0 | grad norm: 3.0 |\n";
  Decoded d = Decode(old);
  EXPECT_EQ(d.samples.size(), 0u);
  EXPECT_EQ(d.refused(LogRefusal::kNoTime), 2u);
  LogOptions o = Options();
  o.start = T("2025-01-02T00:00:00Z");
  o.log_interval = 10;
  d = Decode(old, o);
  ASSERT_EQ(d.samples.size(), 2u);
  EXPECT_EQ(d.samples[0].ts, *o.start + 20 * kMicrosPerSecond);
  EXPECT_EQ(d.samples[1].ts, *o.start + 30 * kMicrosPerSecond);
  EXPECT_EQ(d.stats.times_by_steps, 2u);

  // Megatron-DeepSpeed: the time stands on the line before.
  const std::string deepspeed =
      "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] "
      "epoch=0/micro_step=199/global_step=199, MemAllocated=6.01GB\n"
      "  7:  iteration      199/  317892 | consumed samples:       152832 | consumed tokens:    "
      "625999872 | elapsed time per iteration (ms): 14287.5 | learning rate: 2.407E-04 | global "
      "batch size:   768 | lm loss: 5.905366E+00 | loss scale: 8192.0 | actual seqlen:  4096 | "
      "number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: "
      "53.753 | tokens per gpu per second (tgs): 1146.733 | TFLOPs: 69.85 |\n";
  o = Options();
  o.claim.gpus = 192;
  d = Decode(deepspeed, o);
  ASSERT_EQ(d.samples.size(), 1u);
  EXPECT_EQ(d.batches[0].claim.convention, "megatron_deepspeed")
      << "its TFLOPs count recomputation";
  EXPECT_EQ(d.samples[0].ts, T("2024-03-07T15:27:02.646Z"));
  EXPECT_EQ(d.samples[0][kTflopsPerGpu], 69.85);
  EXPECT_EQ(d.samples[0][kTokens], 625999872);
  EXPECT_DOUBLE_EQ(*d.samples[0][kTokensPerS], 1146.733 * 192);
  EXPECT_EQ(d.stats.times_of_other_lines, 1u);

  // Primus: coloured, compact date, now/average.
  const std::string primus =
      "[\x1b[32m20251202 06:56:28\x1b[0m][\x1b[36mrank-7/8\x1b[0m][INFO ] : iteration 4408/ 5000 | "
      "consumed samples: 564224 | elapsed time per iteration (ms): 13100.0/13240.9 | hip mem "
      "usage/free/total/usage_ratio: 153.81GB/102.17GB/255.98GB/60.09% | throughput per GPU "
      "(TFLOP/s/GPU): 579.4/573.6 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 | learning rate: "
      "3.421949E-07 | global batch size: 128 | lm loss: 4.142716E-03 | grad norm: 0.003 |\x1b[0m\n";
  d = Decode(primus);
  ASSERT_EQ(d.samples.size(), 1u);
  EXPECT_EQ(d.samples[0].ts, T("2025-12-02T06:56:28Z"));
  EXPECT_EQ(d.samples[0][kTflopsPerGpu], 579.4);
  EXPECT_DOUBLE_EQ(*d.samples[0][kStepTimeS], 13.1);
  EXPECT_EQ(d.samples[0][kTokensPerS], std::nullopt);
  EXPECT_EQ(d.refused(LogRefusal::kNoGpuCount), 1u);
}

constexpr std::string_view kTitan =
    "[rank0]:[titan] 2026-01-11 20:13:00,100 - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3 "
    "with 79.10GiB memory\n"
    "[rank0]:[titan] 2026-01-11 20:13:00,200 - root - INFO - Building device mesh with "
    "parallelism: pp=1, dp_replicate=2, dp_shard=4, cp=1, tp=2, ep=1, etp=1\n"
    "[rank0]:[titan] 2026-01-11 20:13:01,000 - root - INFO - Applied selective activation "
    "checkpointing to the model\n"
    "[rank0]:[titan] 2026-01-11 20:13:01,100 - root - INFO - Peak FLOPS used for computing MFU: "
    "9.890e+14\n"
    "[rank0]:[titan] 2026-01-11 20:13:02,000 - root - INFO - Training starts at step 1, with local "
    "batch size 1, global batch size 8, sequence length 8192, total steps 1000 (warmup 200)\n"
    "[rank0]:[titan] 2026-01-11 20:13:10,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: "
    "12.2521  \x1b[33mgrad_norm:  0.6113  \x1b[34mmemory: 43.52GiB(31.13%)  \x1b[35mtps: 692  "
    "\x1b[36mtflops: 13.35  \x1b[37mmfu: 1.35%\x1b[0m\n"
    "[rank3]:[titan] 2026-01-11 20:13:10,010 - root - INFO - step:  1  loss: 12.2521  grad_norm:  "
    "0.6113  memory: 43.52GiB(31.13%)  tps: 692  tflops: 13.35  mfu: 1.35%\n"
    "[rank0]:[titan] 2026-01-11 20:13:30,500 - root - INFO - step: 10  loss:  8.5000  grad_norm:  "
    "1.2000  memory: 43.52GiB(31.13%)  tps: 7,382  tflops: 424.91  mfu: 42.96%\n";

TEST(LogDecoderTest, Torchtitan) {
  const Decoded d = Decode(kTitan);
  EXPECT_EQ(d.stats.format, LogFormat::kTorchtitan);
  ASSERT_EQ(d.samples.size(), 2u);
  const ApplicationClaim& c = d.batches[0].claim;
  EXPECT_EQ(c.convention, "torchtitan");
  EXPECT_EQ(c.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(c.gpus, 16);
  EXPECT_DOUBLE_EQ(*c.peak_tflops, 989);
  EXPECT_EQ(c.global_batch, 8);
  EXPECT_EQ(c.seq_len, 8192);
  EXPECT_EQ(c.recompute, "selective");
  EXPECT_EQ(c.precision, "") << "not said";
  EXPECT_EQ(d.refused(LogRefusal::kRepeatedStep), 1u) << "rank 3 says the same";
  EXPECT_EQ(d.samples[0].span_ms, 0) << "nobody knows how long the first step took";
  const ApplicationSample& s = d.samples[1];
  EXPECT_EQ(s.ts, T("2026-01-11T20:13:30.5Z"));
  EXPECT_EQ(s.step, 10);
  EXPECT_DOUBLE_EQ(*s[kMfu], 0.4296);
  EXPECT_EQ(s[kTflopsPerGpu], 424.91);
  EXPECT_EQ(s[kTokensPerS], 7382.0 * 16);
  EXPECT_EQ(s[kLoss], 8.5);
  EXPECT_EQ(s[kGradNorm], 1.2);
  EXPECT_EQ(s.span_ms, 20'500);
}

TEST(LogDecoderTest, TorchtitanOfOtherYears) {
  const std::string text =
      "[rank0]:2024-06-01 10:00:00,000 - root - INFO - Building 2-D device mesh with ['dp', 'tp'], "
      "[8, 4]\n"
      "[rank0]:2024-06-01 10:00:10,000 - root - INFO - step: 10  loss:  8.1234  memory: "
      "36.64GiB(38.55%)  wps: 2,345  mfu: 38.20%\n"
      "2024-06-01T08:00:20.123456789Z [rank0]:2024-06-01 10:00:20,123 - root - INFO - step: 20  "
      "loss: nan  memory: 36.64GiB(38.55%)  wps: 2,345  mfu: 38.30%\n";
  const Decoded d = Decode(text);
  ASSERT_EQ(d.samples.size(), 2u);
  EXPECT_DOUBLE_EQ(*d.samples[0][kMfu], 0.382);
  EXPECT_EQ(d.samples[0][kTokensPerS], 2345.0 * 32);
  EXPECT_EQ(d.samples[1].ts, T("2024-06-01T08:00:20.123456Z"))
      << "the time with a zone (kubectl logs --timestamps)";
  ASSERT_TRUE(d.samples[1][kLoss].has_value());
  EXPECT_TRUE(std::isnan(*d.samples[1][kLoss]));
  EXPECT_EQ(d.refused(LogRefusal::kNotFinite), 0u);
  EXPECT_EQ(d.stats.zoneless_times, 1u);

  const Decoded pairs = Decode(
      "[2025-02-03 09:20:14][I][mmm/train:458] step=1 global_avg_loss=12.269001 "
      "global_max_loss=12.310555 throughput(tps)=86.5 mfu(%)=1.330297 end_to_end=23.8\n");
  ASSERT_EQ(pairs.samples.size(), 1u);
  EXPECT_DOUBLE_EQ(*pairs.samples[0][kMfu], 0.01330297);
  EXPECT_EQ(pairs.samples[0][kLoss], 12.269001);
}

TEST(LogDecoderTest, JsonLines) {
  const std::string text =
      R"x({"_timestamp": 1735787045.5, "_step": 10, "train/loss": 2.5, "perf/mfu(%)": 41.5, )x"
      R"x("train/grad_norm": 0.7, "eval/loss": 9, "lr": 3e-4, "tokens_per_sec": 1e6})x"
      "\n"
      R"({"_timestamp": 1735787055500, "_step": 20, "train": {"loss": 2.4}, "mfu": 0.42, )"
      R"("seq_len": 8192, "world_size": 128})"
      "\n"
      R"({"ts": "2025-01-02T03:05:00Z", "step": 30, "loss": NaN, "mfu": 43})"
      "\n"
      "{broken\n"
      R"({"epoch": 1})"
      "\n";
  const Decoded d = Decode(text);
  EXPECT_EQ(d.stats.format, LogFormat::kJsonLines);
  ASSERT_EQ(d.samples.size(), 3u);
  ASSERT_TRUE(d.samples[2][kLoss].has_value()) << "Python's NaN";
  EXPECT_TRUE(std::isnan(*d.samples[2][kLoss]));
  EXPECT_EQ(d.samples[0].ts, 1735787045'500'000);
  EXPECT_EQ(d.samples[0].step, 10);
  EXPECT_DOUBLE_EQ(*d.samples[0][kMfu], 0.415);
  EXPECT_EQ(d.samples[0][kLoss], 2.5) << "not the evaluation's";
  EXPECT_EQ(d.samples[0][kLearningRate], 3e-4);
  EXPECT_EQ(d.samples[1].ts, 1735787055'500'000);
  EXPECT_EQ(d.samples[1][kLoss], 2.4);
  EXPECT_EQ(d.samples[1][kMfu], 0.42);
  ASSERT_EQ(d.batches.size(), 2u) << "the second line says more of what the numbers mean";
  EXPECT_EQ(d.batches[1].claim.gpus, 128);
  EXPECT_EQ(d.refused(LogRefusal::kUnitUnclear), 1u) << "43 without a unit is not 0.43 by guess";
  EXPECT_EQ(d.refused(LogRefusal::kMalformed), 1u);
  LogOptions o = Options();
  o.ratio_unit = RatioUnit::kPercent;
  EXPECT_DOUBLE_EQ(*Decode(R"({"ts": "2025-01-02T03:05:00Z", "mfu": 43})"
                           "\n",
                           o)
                        .samples.at(0)[kMfu],
                   0.43);
}

TEST(LogDecoderTest, RestartsGoBackAndRepeatsDoNot) {
  const auto line = [](std::string_view time, int step, std::string_view prefix = "") {
    return fmt::format(
        "{} [{}] iteration {}/ 500 | consumed samples: 1 | elapsed time per iteration (ms): 1000.0 "
        "| lm loss: 2.0E+00 |\n",
        prefix, time, step);
  };
  // Steps 1-3, a crash, again from step 2 on: those really ran twice.
  const Decoded restart = Decode(line("2025-01-02 00:00:01", 1) + line("2025-01-02 00:00:02", 2) +
                                 line("2025-01-02 00:00:03", 3) + line("2025-01-02 00:05:00", 2) +
                                 line("2025-01-02 00:05:01", 3));
  EXPECT_EQ(restart.samples.size(), 5u);
  // Two ranks into one file.
  const Decoded ranks =
      Decode(line("2025-01-02 00:00:01", 1, "0:") + line("2025-01-02 00:00:01", 1, "1:") +
             line("2025-01-02 00:00:02", 2, "1:") + line("2025-01-02 00:00:02", 2, "0:"));
  EXPECT_EQ(ranks.samples.size(), 2u);
  EXPECT_EQ(ranks.refused(LogRefusal::kRepeatedStep), 2u);
}

TEST(LogDecoderTest, TruncatedLongAndForeignLines) {
  std::string text(kMegatron);
  text.resize(text.rfind("grad norm: nan") + 11);  // cut within the last line
  Decoded d = Decode(text);
  EXPECT_EQ(d.samples.size(), 1u);
  EXPECT_EQ(d.refused(LogRefusal::kTruncated), 1u);
  d = Decode(std::string(3 * kMaxLogLineBytes, 'x') + "\n" + std::string(kMegatron));
  EXPECT_EQ(d.samples.size(), 2u);
  EXPECT_EQ(d.refused(LogRefusal::kLineTooLong), 1u);
  d = Decode("nothing here\nthat anyone knows\n");
  EXPECT_EQ(d.stats.format, LogFormat::kAuto);
  EXPECT_EQ(d.stats.step_lines, 0u);
  EXPECT_TRUE(Decode("").batches.empty());
}

TEST(LogDecoderTest, AbsurdNumbersAreRefusedByName) {
  const auto one = [](std::string_view fields) {
    return Decode(fmt::format(
        "[2025-01-02 00:00:01] iteration 1/ 500 | elapsed time per iteration (ms): 1000.0 | {} |\n",
        fields));
  };
  EXPECT_EQ(
      one("throughput per GPU (TFLOP/s/GPU): 1e30 | lm loss: 2").refused(LogRefusal::kOutOfBounds),
      1u);
  EXPECT_EQ(
      one("throughput per GPU (TFLOP/s/GPU): -3 | lm loss: 2").refused(LogRefusal::kOutOfBounds),
      1u);
  EXPECT_EQ(one("grad norm: inf | lm loss: 2").samples.at(0)[kGradNorm], INFINITY);
  EXPECT_EQ(one("learning rate: nan | lm loss: 2").refused(LogRefusal::kNotFinite), 1u);
  EXPECT_EQ(one("lm loss: 1e999").samples.at(0)[kLoss], std::nullopt);
}

TEST(LogDecoderTest, Times) {
  const auto at = [](std::string_view line) {
    return FindLogTime(line).value_or(std::pair<Micros, bool>(0, false));
  };
  EXPECT_EQ(at("[2025-01-02 03:04:05,123] x"), std::pair(T("2025-01-02T03:04:05.123Z"), false));
  EXPECT_EQ(at("2025-01-02T03:04:05+02:00 x"), std::pair(T("2025-01-02T01:04:05Z"), true));
  EXPECT_EQ(at("2025-01-02T03:04:05.5-0130"), std::pair(T("2025-01-02T04:34:05.5Z"), true));
  EXPECT_EQ(at("[2025-09-11-14:08:38]").first, T("2025-09-11T14:08:38Z"));
  EXPECT_EQ(at("2024-02-29 00:00:00").first, T("2024-02-29T00:00:00Z"));
  for (std::string_view bad : {"2025-13-01 00:00:00", "2025-01-02 25:00:00", "12025-01-02 00:00:00",
                               "20:14:00", "2025-01-02"}) {
    EXPECT_FALSE(FindLogTime(bad).has_value()) << bad;
  }
}

TEST(LogDecoderTest, NumbersAndPrefixes) {
  EXPECT_EQ(LeadingNumber(" 1,234,567.5 x"), 1234567.5);
  EXPECT_EQ(LeadingNumber("1,23"), 1) << "no thousands";
  EXPECT_EQ(LeadingNumber("-2.5E-03|"), -2.5e-3);
  EXPECT_EQ(LeadingNumber("13100.0/13240.9"), 13100.0);
  EXPECT_EQ(LeadingNumber("N/A"), std::nullopt);
  EXPECT_EQ(LeadingNumber(""), std::nullopt);
  const auto rank = [](std::string_view line) {
    const auto r = TakeRankPrefix(&line);
    return std::pair(r.value_or(-1), std::string(line));
  };
  EXPECT_EQ(rank("[rank12]:[titan] x"), std::pair(12, std::string("[titan] x")));
  EXPECT_EQ(rank("  7: hello"), std::pair(7, std::string("hello")));
  EXPECT_EQ(rank("[default3]: y"), std::pair(3, std::string(" y")));
  EXPECT_EQ(rank("12:30:05 x").first, -1);
  EXPECT_EQ(rank("2025-01-02").first, -1);
}

TEST(ApplicationKeysTest, UnitsAreReadFromNamesOnly) {
  const auto key = [](std::string_view name) { return FindApplicationKey(name); };
  EXPECT_EQ(key("mfu(%)")->factor, 0.01);
  EXPECT_EQ(key("Train/MFU %")->factor, 0.01);
  EXPECT_FALSE(key("mfu")->unit_stated);
  EXPECT_TRUE(key("throughput/device/mfu")->unit_stated);
  EXPECT_EQ(key("throughput/device/tokens_per_sec")->per_gpu, true);
  EXPECT_EQ(key("throughput/tokens_per_sec")->per_gpu, false);
  EXPECT_EQ(key("lm loss")->field, kLoss);
  EXPECT_EQ(key("loss_metrics/global_avg_loss")->field, kLoss);
  EXPECT_FALSE(key("eval/loss").has_value());
  EXPECT_FALSE(key("validation/mfu").has_value());
  EXPECT_FALSE(key("data/throughput").has_value());
  EXPECT_FALSE(key("weight_decay").has_value());
  EXPECT_EQ(InUnit(*key("mfu"), 0.4, RatioUnit::kByName), 0.4);
  EXPECT_EQ(InUnit(*key("mfu"), 1.6, RatioUnit::kByName), 1.6) << "a miscount";
  EXPECT_EQ(InUnit(*key("mfu"), 38.2, RatioUnit::kByName), std::nullopt);
  for (const auto& [name, column] : AllApplicationKeys()) {
    EXPECT_EQ(NormalKey(name), name);
    ASSERT_TRUE(FindApplicationKey(name).has_value()) << name;
    EXPECT_EQ(SpecOf(FindApplicationKey(name)->field).column, column);
  }
}

TEST(ApplicationKeysTest, TheDocumentListsThemAll) {
  const auto text = ReadFile(FLOPWATCH_SOURCE_DIR "/docs/application.md", 1 << 20);
  ASSERT_TRUE(text.ok());
  for (const auto& [name, column] : AllApplicationKeys()) {
    const size_t row = text->find(fmt::format("| `{}` | ", column), text->find("## Names"));
    ASSERT_NE(row, std::string::npos) << column;
    EXPECT_NE(text->substr(row, text->find('\n', row) - row).find(fmt::format("`{}`", name)),
              std::string::npos)
        << name;
  }
  for (std::string_view name : AllClaimKeys())
    EXPECT_NE(text->find(fmt::format("`{}`", name)), std::string::npos) << name;
  for (size_t f = 0; f < kApplicationFields; ++f) {
    EXPECT_NE(text->find(fmt::format("`{}`", SpecOf(static_cast<ApplicationField>(f)).column)),
              std::string::npos);
  }
}

// However the bytes are cut into pieces, the same comes out.
TEST(LogDecoderTest, PiecesDoNotMatter) {
  const std::string text = std::string(kMegatron) + std::string(kTitan);
  const Decoded whole = Decode(text);
  rc::check([&](uint8_t size) {
    LogDecoder decoder(Options());
    const size_t piece = std::max<size_t>(size, 1);
    for (size_t at = 0; at < text.size(); at += piece)
      decoder.Feed(std::string_view(text).substr(at, piece));
    decoder.Finish();
    std::vector<ApplicationSample> samples;
    for (const LogBatch& b : decoder.Take())
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
    RC_ASSERT(samples == whole.samples);
    RC_ASSERT(decoder.stats().refused == whole.stats.refused);
  });
}

}  // namespace
}  // namespace flopwatch::telemetry
