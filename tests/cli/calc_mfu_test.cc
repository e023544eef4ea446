// `calc mfu` as a whole: formats, MFU and HFU of a throughput, refusals with exit code 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/json_read.h"
#include "command_line.h"
#include "data.h"
#include "golden.h"

namespace flopwatch::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CalcMfu : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("calc_mfu_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    // The model of tests/models/small_models.h: 86848 parameters, 506112 training FLOPs a token at
    // 32 tokens, exactly.
    Write("small.json",
          R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
        "num_key_value_heads":2,"intermediate_size":128,"vocab_size":100,
        "tie_word_embeddings":false})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Outcome Run(std::vector<std::string> args, Surroundings around = {}) {
    args.insert(args.begin(), {"calc", "mfu"});
    around.environment["HOME"] = "/nonexistent";
    return RunCommand(args, around);
  }
  std::string small() const { return (folder_ / "small.json").string(); }
  std::filesystem::path folder_;
};

TEST_F(CalcMfu, JsonHasOneObjectAConvention) {
  const Outcome o =
      Run({small(), "--seq-len", "32", "--convention", "exact_causal,megatron", "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok()) << json.status();
  ASSERT_EQ(json->array().size(), 2u);
  const Json& exact = json->array()[0];
  EXPECT_EQ(exact["model"].text(), "small");
  EXPECT_EQ(exact["convention"].text(), "exact_causal");
  EXPECT_EQ(exact["seq_len"].integer(), 32);
  EXPECT_EQ(exact["forward_flops_per_token"].integer(), 168704);
  EXPECT_EQ(exact["training_flops_per_token"].integer(), 506112);
  EXPECT_EQ(exact["active_params"].integer(), 86848);
  EXPECT_EQ(exact["total_params"].integer(), 86848);
  EXPECT_EQ(exact["matmul_active_params"].integer(), 80128);
  int64_t forward = 0, training = 0;
  for (const Json& term : exact["terms"].array()) {
    EXPECT_FALSE(term["name"].text().empty());
    forward += term["flops"].integer_or(0);
    training += term["training_flops"].integer_or(0);
  }
  EXPECT_EQ(forward, 168704);
  EXPECT_EQ(training, 506112);
  EXPECT_TRUE(exact["mfu"].is_null());  // nothing was said of throughput
  EXPECT_EQ(json->array()[1]["training_flops_per_token"].integer(), 516096);
}

TEST_F(CalcMfu, AllLeavesOutWhatDoesNotApply) {
  const Outcome o = Run({small(), "--seq-len", "32", "--convention", "all", "-o", "json"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(Json::Parse(o.out)->array().size(), 16u);
  EXPECT_THAT(o.err,
              AllOf(HasSubstr("megatron_mtp1 does not apply"),
                    HasSubstr("exact_full does not apply"), Not(HasSubstr("no --convention"))));
  const Outcome one = Run({small(), "--seq-len", "32", "--convention", "exact_full"});
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.err, HasSubstr("does not apply"));
}

// 506112 FLOPs x 2e9 tokens/s over 2 GPUs of 989.43 TFLOP/s are 51.15 %; full recomputation makes
// it 4/3.
TEST_F(CalcMfu, UtilisationPeakAndBand) {
  const Outcome o =
      Run({small(), "--seq-len", "32", "--tokens-per-sec", "2e9", "--gpus", "2", "--gpu",
           "H100 SXM", "--precision", "bf16", "--recompute", "full", "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok());
  const Json& row = json->array()[0];
  EXPECT_NEAR(*row["mfu"].number(), 506112.0 * 2e9 / (2 * 132.0 * 4096 * 1.83e9), 1e-6);
  EXPECT_NEAR(*row["hfu"].number() / *row["mfu"].number(), 4.0 / 3, 1e-6);
  EXPECT_EQ(row["band"].text(), "tuned");
  // The FP8 remark the right way round: a peak that is too small overstates.
  EXPECT_THAT(row["notes"].array()[0].text(), HasSubstr("overstates"));
  const Outcome mixed = Run({small(), "--seq-len", "32", "--tokens-per-sec", "2e9", "--gpus", "2",
                             "--gpu", "H100 SXM", "--mix", "bf16=0.5,fp8=0.5", "-o", "json"});
  const auto of_mix = Json::Parse(mixed.out);
  ASSERT_TRUE(of_mix.ok()) << mixed.err;
  // Harmonic: 2 / (1/989.4 + 1/1978.9) = 1319.2.
  EXPECT_NEAR(*of_mix->array()[0]["peak_tflops"].number(), 989.43 * 4 / 3, 0.1);
}

TEST_F(CalcMfu, ForPeopleAndAsTables) {
  const Outcome text = Run({small(), "--seq-len", "32"}, {.terminal = true, .width = 100});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("attention projections"), HasSubstr("168,704"),
                              HasSubstr("506,112"), HasSubstr("leaves out")));
  EXPECT_THAT(text.err, HasSubstr("no --convention: exact_causal is shown"));
  const Outcome all =
      Run({small(), "--seq-len", "32", "--convention", "all"}, {.terminal = true, .width = 80});
  EXPECT_THAT(all.out, AllOf(HasSubstr("VS EXACT"), HasSubstr("kempnerforge")));
  EXPECT_THAT(Run({small(), "--seq-len", "32", "-o", "csv"}).out,
              StartsWith("model,convention,seq_len,forward_flops_per_token"));
  EXPECT_THAT(Run({small(), "--seq-len", "32", "--terms", "-o", "csv"}).out,
              HasSubstr("small,exact_causal,LM head,12800,38400"));
  EXPECT_EQ(Run({small(), "--seq-len", "32", "--json", "convention"}).out,
            "[\n  {\"convention\":\"exact_causal\"}\n]\n");
  EXPECT_THAT(Run({small(), "--layers", "-o", "tsv"}).out,
              HasSubstr("layers\t0\t1\tGQA 4/2x16\tgated MLP 128"));
  EXPECT_THAT(Run({small(), "--seq-len", "32", "--miscounts", "-o", "jsonl"}).out,
              HasSubstr("\"miscount\":\"gate_left_out\",\"training_flops_per_token\":" +
                        std::to_string(506112 - 6 * 2 * 64 * 128)));
  EXPECT_THAT(Run({"--list-conventions", "-o", "jsonl"}).out,
              HasSubstr("\"convention\":\"kempnerforge\""));
  EXPECT_THAT(Run({"--list-models", "-o", "tsv"}).out, HasSubstr("\ndeepseek_v3\n"));
}

TEST_F(CalcMfu, GoldenText) {
  for (const int width : {80, 120}) {
    const Surroundings around = {
        .environment = {{"NO_COLOR", "1"}}, .terminal = true, .width = width};
    const std::string at = "_" + std::to_string(width) + ".txt";
    ExpectGolden("calc_mfu" + at, Run({small(), "--seq-len", "32", "--tokens-per-sec", "2e9",
                                       "--gpus", "2", "--gpu", "H100 SXM", "--precision", "bf16",
                                       "--recompute", "full", "--convention", "megatron"},
                                      around)
                                      .out);
    ExpectGolden("calc_mfu_all" + at,
                 Run({small(), "--seq-len", "32", "--convention", "all"}, around).out);
  }
}

TEST_F(CalcMfu, PackedLoraAndFrozen) {
  EXPECT_EQ(Run({small(), "--packed-sum", "64", "--packed-sum-sq", "2048", "-o", "json"}).code, 0);
  // Two sequences of 32 cost a token what one does.
  EXPECT_THAT(Run({small(), "--packed-sum", "64", "--packed-sum-sq", "2048", "-o", "json"}).out,
              HasSubstr("\"training_flops_per_token\":506112"));
  EXPECT_THAT(Run({small(), "--seq-lens", "32,32", "-o", "json"}).out,
              HasSubstr("\"training_flops_per_token\":506112"));
  EXPECT_THAT(Run({small(), "--seq-len", "32", "--frozen-layers", "1", "--json",
                   "training_flops_per_token"})
                  .out,
              HasSubstr(std::to_string(506112 - 2 * (2 * 36864 + 4224))));
  EXPECT_EQ(Run({small(), "--seq-len", "32", "--lora", "4", "-o", "json"}).code, 0);
}

TEST_F(CalcMfu, MistakesAreOneLineAndExitTwo) {
  const auto fails = [&](std::vector<std::string> args, const char* what) {
    const Outcome o = Run(std::move(args));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
    EXPECT_EQ(o.out, "");
  };
  fails({small()}, "--seq-len is missing");
  fails({small(), "--seq-len", "0"}, "--seq-len");
  fails({small(), "--seq-len", "-4"}, "--seq-len");
  fails({small(), "--seq-len", "32", "--convention", "megatrom"}, "did you mean megatron");
  fails({small(), "--seq-len", "32", "--tokens-per-sec", "1e6"}, "--gpus");
  fails({small(), "--seq-len", "32", "--tokens-per-sec", "1e6", "--gpus", "8"}, "which peak");
  fails({small(), "--seq-len", "32", "--tokens-per-sec", "nan", "--gpus", "8", "--gpu", "H100 SXM"},
        "--tokens-per-sec");
  fails({small(), "--seq-len", "32", "--tokens-per-sec", "1e6", "--gpus", "0", "--gpu", "H100 SXM"},
        "--gpus");
  fails({small(), "--seq-len", "32", "--gpu", "H100 SXM", "--mix", "bf16=0.5"}, "mix");
  fails({small(), "--seq-len", "32", "--recompute", "some"}, "recomputation");
  fails({small(), "--packed-sum", "10"}, "--packed-sum-sq");
  fails({small(), "--packed-sum", "10", "--packed-sum-sq", "5"}, "cannot be");
  fails({}, "which model");
  fails({Write("negative.json", R"({"model_type":"llama","hidden_size":-4})"), "--seq-len", "32"},
        "hidden_size\n  why:  -4 is not");
  fails({Write("unknown.json", R"({"model_type":"llamma"})"), "--seq-len", "32"},
        "did you mean llama?");
  fails({Write("broken.json", "{\"model_type\":"), "--seq-len", "32"}, "broken.json");
  fails({Write("deep.json", std::string(10 << 20, '[')), "--seq-len", "32"}, "nested deeper");
}

TEST_F(CalcMfu, EverySharedModel) {
  FLOPWATCH_REQUIRE_DATA("models/oracle.csv");
  for (const auto& entry :
       std::filesystem::directory_iterator(testing_data::SharedData() / "models")) {
    if (entry.path().extension() != ".json") continue;
    const Outcome o =
        Run({entry.path().string(), "--seq-len", "4096", "--convention", "all", "-o", "json"});
    EXPECT_EQ(o.code, 0) << entry.path() << o.err;
    EXPECT_TRUE(Json::Parse(o.out).ok());
  }
}

}  // namespace
}  // namespace flopwatch::cli
