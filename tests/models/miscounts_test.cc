// The candidate set of docs/flops.md: published sizes of published errors.
#include "models/miscounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace flopwatch::models {
namespace {

// The size of an error on training FLOPs, as error / exact.
double Ratio(const std::string& id, const Model& model, int64_t length,
             const TrainingSetup& setup = {}) {
  const Workload workload = Workload::Sequence(length);
  const auto exact = ExactReference(model, workload, setup);
  const auto candidates = Candidates(model, workload, setup);
  EXPECT_TRUE(exact.ok() && candidates.ok());
  for (const Candidate& c : *candidates) {
    if (c.id == id)
      return static_cast<double>(c.training_flops_per_token) /
             static_cast<double>(exact->training_flops_per_token);
  }
  return 1;  // changes nothing
}

TEST(Miscounts, SizesOfThePublishedThreads) {
  FLOPWATCH_REQUIRE_DATA("models/llama-2-7b.json");
  const Model mixtral = SharedModel("mixtral-8x7b"), llama = SharedModel("llama-2-7b"),
              oss = SharedModel("gpt-oss-120b");
  // MaxText #678: 6946.5 reported where 1944.. was right: 3.6 times.
  EXPECT_NEAR(Ratio("all_experts", mixtral, 2048), 3.6, 0.05);
  // Megatron-LM 2748e7c7 for Mixtral at 8K: 0.57.
  EXPECT_NEAR(Ratio("megatron_2023_11", mixtral, 8192), 0.57, 0.005);
  // MaxText #1988: Llama-2-7B 1.14 at 8K, 1.72 at 128K.
  EXPECT_NEAR(Ratio("causal_half_missing", llama, 8192), 1.14, 0.005);
  EXPECT_NEAR(Ratio("causal_half_missing", llama, 129024), 1.72, 0.005);
  // Megatron-LM #1725: gpt-oss-120b 10 % too high at 8K.
  EXPECT_NEAR(Ratio("window_ignored", oss, 8192), 1.10, 0.005);
  // Megatron-LM's Mamba width: 1.07 for Nemotron-3-Nano.
  EXPECT_NEAR(Ratio("megatron", SharedModel("nemotron-3-nano-30b-a3b"), 8192), 1.071, 0.001);
  // NeMo-RL #2736: 1 / 1.84 for Qwen3-235B at 192K.
  EXPECT_NEAR(1 / Ratio("hidden_for_heads", SharedModel("qwen3-235b-a22b"), 196608), 1.84, 0.01);
  // torchtitan #4300: 5.13 for Qwen3-30B-A3B at 8K, against its own corrected figure.
  const Model qwen = SharedModel("qwen3-30b-a3b");
  EXPECT_NEAR(Ratio("torchtitan_hf", qwen, 8192) / Ratio("torchtitan", qwen, 8192), 5.13, 0.005);
  // MLP 1.5 times too high and no expert layers (NeMo nemotronh): more for a hybrid with MLPs, less
  // for one with experts.
  EXPECT_GT(Ratio("nemo_nemotronh", SharedModel("nemotron-h-56b"), 8192), 1.1);
  EXPECT_LT(Ratio("nemo_nemotronh", SharedModel("nemotron-3-nano-30b-a3b"), 8192), 0.8);
}

// OFU paper V-C, case 1: a 16 B DeepSeek-style model, hidden size 2048, latent width 512,
// reported 54.27 where 18.45 was right: 2.94 times. The paper does not give experts and k.
// DeepSeek-V2-Lite (15.7 B, D = 2048) with its experts cut to a quarter of their input and four
// times as many of them, chosen four times as often, keeps its size; the published ratio lies
// between that and the bound D/l = 4 that only the routed experts have.
TEST(Miscounts, LatentMoeOfThePaper) {
  Model model = Read(
      R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,
      "first_k_dense_replace":1,
      "intermediate_size":10944,"kv_lora_rank":512,"qk_nope_head_dim":128,
      "qk_rope_head_dim":64,"v_head_dim":128,
      "num_attention_heads":16,"n_routed_experts":256,"num_experts_per_tok":24,
      "moe_intermediate_size":1408,"n_shared_experts":2,
      "moe_latent_size":512,"vocab_size":102400})");
  EXPECT_NEAR(static_cast<double>(CountParameters(model)->total), 16e9, 1e9);
  const double ratio = Ratio("latent_moe_full_width", model, 4096);
  EXPECT_GT(ratio, 2.0);
  EXPECT_LT(ratio, 4.0);
}

TEST(Miscounts, HybridErrors) {
  const Model model = Read(
      R"({"model_type":"nemotron_h","hidden_size":4096,"hybrid_override_pattern":"M-M*ME",
      "vocab_size":131072,
      "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
      "intermediate_size":16384,"ssm_state_size":128,"n_groups":8,
      "mamba_num_heads":128,"mamba_head_dim":64,"n_routed_experts":64,"num_experts_per_tok":4,
      "moe_intermediate_size":1024,"moe_shared_expert_intermediate_size":0,
      "n_shared_experts":0})");
  // Six layers of attention (8 D^2 + 4 D G dh = 10.. ) and an MLP cost more than three of Mamba,
  // one of each of the others.
  EXPECT_GT(Ratio("hybrid_as_dense", model, 4096), 1.5);
  EXPECT_LT(Ratio("hybrid_experts_zero", model, 4096), 1);
  EXPECT_EQ(Ratio("window_ignored", model, 4096), 1);
  EXPECT_EQ(Ratio("mtp_left_out", model, 4096), 1);
}

TEST(Miscounts, PackedAndFrozen) {
  const Model model =
      Read(R"({"model_type":"llama","hidden_size":512,"num_hidden_layers":2,"num_attention_heads":8,
      "intermediate_size":2048,"vocab_size":1000})");
  const Workload packed = *Workload::Of({1024, 1024, 2048});
  const auto exact = ExactReference(model, packed);
  const auto candidates = Candidates(model, packed);
  ASSERT_TRUE(exact.ok() && candidates.ok());
  const auto as_one = std::find_if(candidates->begin(), candidates->end(),
                                   [](const Candidate& c) { return c.id == "packed_as_one"; });
  ASSERT_NE(as_one, candidates->end());
  // Core: 2 layers * 12 * 512 * mean context; (4096+1)/2 in place of sum s(s+1)/2 / 4096 = 768.5.
  EXPECT_EQ(as_one->training_flops_per_token - exact->training_flops_per_token,
            2 * 12 * 512 * 2048.5 - 2 * 12 * 512 * 768.5);
  // Full training of frozen weights: about 3/2 of LoRA's cost.
  TrainingSetup lora;
  lora.lora_rank = 8;
  EXPECT_NEAR(Ratio("frozen_as_full", model, 128, lora), 1.47, 0.05);
}

}  // namespace
}  // namespace flopwatch::models
