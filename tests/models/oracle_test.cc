// Every row of the public oracle, exactly: forward and training FLOPs a token, active, total and
// matmul parameters. The oracle was written by another program from the same sources; a convention
// that drifts fails here first.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "helpers.h"

namespace flopwatch::models {
namespace {

TEST(Oracle, EveryRowExactly) {
  FLOPWATCH_REQUIRE_DATA("models/oracle.csv");
  const auto rows = Csv(testing_data::ReadFile(testing_data::SharedData() / "models/oracle.csv"));
  std::map<std::string, Model> models;
  size_t compared = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    ASSERT_EQ(row.size(), 8u) << "row " << i;
    SCOPED_TRACE(row[0] + " " + row[1] + " at " + row[2]);
    if (!models.contains(row[0])) models[row[0]] = SharedModel(row[0]);
    const Model& model = models[row[0]];
    const auto convention = FindConvention(row[1]);
    ASSERT_TRUE(convention.ok()) << convention.status();
    const auto count = (*convention)->evaluate(model, Workload::Sequence(std::stoll(row[2])));
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count->ForwardPerToken(), std::stoll(row[3]));
    EXPECT_EQ(*count->TrainingPerToken(), std::stoll(row[4]));
    const auto params = CountParameters(model);
    ASSERT_TRUE(params.ok()) << params.status();
    EXPECT_EQ(params->active, std::stoll(row[5]));
    EXPECT_EQ(params->total, std::stoll(row[6]));
    if (!row[7].empty()) {
      EXPECT_EQ(params->matmul_active, std::stoll(row[7]));
    }
    ++compared;
  }
  EXPECT_EQ(compared, 921u);
}

// The two configurations without oracle rows against the published sizes: Llama-4-Scout 109 B total
// and 17 B active (model card; the file holds the text part, the vision tower is under 1 B),
// Gemma-4-26B-A4B 25.2 B and 3.8 B (model card).
TEST(Oracle, SizesOfTheModelsWithoutRows) {
  FLOPWATCH_REQUIRE_DATA("models/llama-4-scout.json");
  const auto scout = CountParameters(SharedModel("llama-4-scout"));
  EXPECT_NEAR(static_cast<double>(scout->total), 107.8e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(scout->active), 17.2e9, 0.1e9);
  const auto gemma = CountParameters(SharedModel("gemma-4-26b-a4b"));
  EXPECT_NEAR(static_cast<double>(gemma->total), 25.2e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(gemma->active), 3.8e9, 0.05e9);
}

// Nemotron-3-Super-120B-A12B, a hybrid with latent experts: 120.67 B parameters (its technical
// report; the multi-token-prediction module not included), 40 Mamba-2, 40 expert and 8 attention
// layers. Sizes as its configuration has them; the order of the layers does not matter here.
TEST(Oracle, LatentHybridOfPublishedSize) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += i % 5 == 4 ? "ME*" : "ME";
  const Model model = Read(R"({"model_type":"nemotron_h","hidden_size":4096,"vocab_size":131072,
      "num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,"ssm_state_size":128,
      "n_groups":8,
      "mamba_num_heads":128,"mamba_head_dim":64,"conv_kernel":4,"chunk_size":128,
      "mlp_hidden_act":"relu2",
      "n_routed_experts":512,"num_experts_per_tok":22,"moe_intermediate_size":2688,
      "moe_latent_size":1024,
      "moe_shared_expert_intermediate_size":5376,"n_shared_experts":1,"num_nextn_predict_layers":1,
      "mtp_hybrid_override_pattern":"*E","hybrid_override_pattern":")" +
                           pattern + R"("})");
  EXPECT_NEAR(static_cast<double>(CountParameters(model)->total), 120.67e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(CountParameters(model)->active), 12.7e9, 0.1e9);
  EXPECT_EQ(model.mtp_layers.size(), 2u);
  // Routed experts work at the latent width: two matrices of 1024 x 2688, 22 of them a token.
  const auto exact = (*FindConvention("exact_causal"))->evaluate(model, Workload::Sequence(8192));
  ASSERT_TRUE(exact.ok());
  EXPECT_EQ(ToString(exact->Find("routed experts")->forward),
            ToString(Int{8192} * 2 * 2 * 22 * 1024 * 2688 * 40));
}

}  // namespace
}  // namespace flopwatch::models
