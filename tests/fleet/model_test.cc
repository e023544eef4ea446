// The paper's cases with a model behind them. Both models are made up here to have the inflation
// the paper prints (its own are not published): a latent MoE of hidden 2048 and latent 512 whose
// experts at full width are 2.94 of the whole (54.27 / 18.45), and a hybrid of Mamba, MLP,
// attention and MoE layers.
#include "fleet/divergence/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/divergence/diagnose.h"
#include "models/read.h"

namespace flopwatch::fleet {
namespace {

using hardware::Catalog;
using hardware::Precision;
using ::testing::ElementsAre;

constexpr std::string_view kLatent =
    "--num-layers 27 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 16 "
    "--kv-channels 128 "
    "--group-query-attention --num-query-groups 16 --num-experts 256 --moe-router-topk 26 "
    "--moe-ffn-hidden-size 1408 "
    "--moe-latent-size 512 --swiglu --vocab-size 32768 --untie-embeddings-and-output-weights";

constexpr std::string_view kHybrid =
    R"({"model_type": "nemotron_h", "hidden_size": 3072, "intermediate_size": 10240,
  "hybrid_override_pattern": "M*-EM*-EM*-EM*-EM*-EM*-EM*-EM*-EM*-EM*-EM*-EM*-E",
  "num_hidden_layers": 48,
  "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
  "attention_bias": false, "mlp_bias": false,
  "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
  "conv_kernel": 4, "chunk_size": 128,
  "expand": 2, "mamba_proj_bias": false, "use_bias": false, "use_conv_bias": true,
  "mlp_hidden_act": "relu2",
  "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
  "n_shared_experts": 1,
  "moe_shared_expert_intermediate_size": 3712, "vocab_size": 131072,
  "tie_word_embeddings": false})";

JobEvidence Job(double mfu, double ofu, std::string_view config, std::string convention) {
  JobEvidence job;
  job.claim.mfu = mfu;
  job.ofu.ofu = ofu;
  job.claim.convention = convention;
  job.gpu_models = {"H100 SXM"};
  job.claim.peak_tflops = 989;
  job.claim.mix = {{Precision::kBf16, 1}};
  const auto model = models::ReadModel(config, "model");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return job;
  const auto flops = FlopsOf(*model, 4096, convention);
  EXPECT_TRUE(flops.ok()) << flops.status();
  if (flops.ok()) job.model = *flops;
  return job;
}
std::vector<std::string> FirstOf(const JobEvidence& job) {
  const Diagnosis d = Diagnose(job, Catalog::Builtin());
  std::vector<std::string> out;
  if (d.explanations.empty() || !d.explanations[0].fits() || d.undecided > 1) return out;
  for (const Cause& c : d.explanations[0].causes) out.push_back(c.id);
  return out;
}

TEST(ModelCases, LatentMoeAtFullWidth) {
  for (const char* convention : {"megatron", ""}) {
    const JobEvidence job = Job(0.5427, 0.2558, kLatent, convention);
    EXPECT_THAT(FirstOf(job), ElementsAre("latent_moe_full_width", "recompute_not_counted"))
        << convention;
    const Diagnosis d = Diagnose(job, Catalog::Builtin());
    EXPECT_TRUE(d.from_model);
    EXPECT_TRUE(d.explanations[0].supported());
    EXPECT_NEAR(*d.explanations[0].corrected_mfu, 0.1845, 0.001);
  }
}

TEST(ModelCases, HybridAsDense) {
  const JobEvidence job = Job(0.2451, 0.1556, kHybrid, "megatron");
  EXPECT_THAT(FirstOf(job), ElementsAre("hybrid_as_dense"));
  // The same model counted right agrees, as the paper's later runs do.
  JobEvidence right = job;
  right.claim.convention = "exact_causal";
  right.model->counted = right.model->exact;
  right.claim.mfu = 0.179;
  right.ofu.ofu = 0.186;
  EXPECT_EQ(Diagnose(right, Catalog::Builtin()).verdict, Verdict::kAgrees);
}

// The public FLOPs oracle: KempnerForge / exact for Llama-3.1-8B is 1.125 at 8K and 1.364 at 32K,
// its Megatron count at 4K is 48,249,176,064 beside an exact 48.250e9.
TEST(ModelCases, LlamaUnderItsConventions) {
  constexpr std::string_view kLlama =
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
    "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
    "vocab_size":128256,"tie_word_embeddings":false})";
  const auto model = models::ReadModel(kLlama, "llama");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_DOUBLE_EQ(*FlopsOf(*model, 4096, "megatron")->counted, 48'249'176'064.0);
  for (const auto& [length, ratio] : {std::pair(8192, 1.125), std::pair(32768, 1.364)}) {
    const auto flops = FlopsOf(*model, length, "kempnerforge");
    ASSERT_TRUE(flops.ok());
    EXPECT_NEAR(*flops->counted / flops->exact, ratio, 0.0006);
  }
  EXPECT_FALSE(FlopsOf(*model, 0, "megatron").ok());
  EXPECT_FALSE(FlopsOf(*model, int64_t{1} << 40, "megatron").ok());
  EXPECT_EQ(FlopsOf(*model, 4096, "no such")->counted, std::nullopt);
}

}  // namespace
}  // namespace flopwatch::fleet
