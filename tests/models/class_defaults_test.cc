// What the configuration classes take for absent fields, and where composite classes keep their
// language model. The expected parameters are counts of the real classes: Hugging Face transformers
// 5.24.0 built each model on torch's meta device from the same fields, and its distinct parameters
// were added up (language model and head alone of a composite class), with the router's correction
// bias and Gemma-4's layer scalar, which are buffers there. DeepSeek-V3.2's indexer, which no total
// here has, is taken off: its four matrices and its norm a layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "helpers.h"

namespace flopwatch::models {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Built {
  std::string_view type, fields;
  int64_t parameters;
};

// The first row of a type is the class's example model: no size is written but those without which
// the class itself builds nothing. The second has another width and depth.
constexpr Built kBuilt[] = {
    {"bert", R"()", 110106428},
    {"bert", R"("hidden_size": 384, "num_hidden_layers": 3)", 21113276},
    {"deepseek_v2", R"("num_experts_per_tok": 6, "q_lora_rank": 1536)", 38612307968},
    {"deepseek_v2",
     R"("num_experts_per_tok": 6, "q_lora_rank": 1536, "hidden_size": 768, "num_hidden_layers": 3)",
     854505216},
    {"deepseek_v3", R"()", 671026419200},
    {"deepseek_v3", R"("hidden_size": 768, "num_hidden_layers": 3)", 532180224},
    {"deepseek_v32", R"()",
     671877944064 - 61 * (1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64)},
    {"deepseek_v32", R"("hidden_size": 768, "num_hidden_layers": 3)",
     570372096 - 3 * (1536 * 64 * 128 + 768 * 128 + 2 * 128 + 768 * 64)},
    {"gemma", R"()", 8537680896},
    {"gemma", R"("hidden_size": 768, "num_hidden_layers": 3)", 404231424},
    {"gemma2", R"()", 2614341888},
    {"gemma2", R"("hidden_size": 768, "num_hidden_layers": 3)", 274474752},
    {"gemma3_text", R"()", 2628658432},
    {"gemma3_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 279244032},
    {"gemma4_text", R"("hidden_size_per_layer_input": 0)", 3010758430},
    {"gemma4_text",
     R"("hidden_size_per_layer_input": 0, "hidden_size": 768, "num_hidden_layers": 3)", 283913987},
    {"glm", R"()", 9399951360},
    {"glm", R"("hidden_size": 768, "num_hidden_layers": 3)", 347523840},
    {"glm4", R"()", 9400279040},
    {"glm4", R"("hidden_size": 768, "num_hidden_layers": 3)", 347528448},
    {"glm4_moe", R"("head_dim": 128)", 106851591808},
    {"glm4_moe", R"("head_dim": 128, "hidden_size": 768, "num_hidden_layers": 3)", 1156503040},
    {"glm4v_moe_text", R"("head_dim": 128)", 106851202688},
    {"glm4v_moe_text", R"("head_dim": 128, "hidden_size": 768, "num_hidden_layers": 3)",
     1156349440},
    {"glm4v_text", R"()", 9400279040},
    {"glm4v_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 331223328},
    {"gpt2", R"()", 124439808},
    {"gpt2", R"("n_embd": 384, "n_layer": 3)", 25016064},
    {"gpt_neox", R"()", 20554567680},
    {"gpt_neox", R"("hidden_size": 768, "num_hidden_layers": 3)", 197883648},
    {"gpt_oss", R"()", 116829156672},
    {"gpt_oss", R"("hidden_size": 768, "num_hidden_layers": 3)", 2880969792},
    {"gptj", R"()", 6050882784},
    {"gptj", R"("n_embd": 512, "n_layer": 3)", 61108960},
    {"granite", R"()", 6738415616},
    {"granite", R"("hidden_size": 768, "num_hidden_layers": 3)", 132322560},
    {"jamba", R"()", 51570323328},
    {"jamba", R"("hidden_size": 768, "num_hidden_layers": 3)", 706536432},
    {"llama", R"()", 6738415616},
    {"llama", R"("hidden_size": 768, "num_hidden_layers": 3)", 132322560},
    {"llama4_text", R"()", 107769861120},
    {"llama4_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 1301292288},
    {"mamba2", R"()", 7285403648},
    {"mamba2", R"("hidden_size": 512, "num_hidden_layers": 3, "num_heads": 16)", 41494672},
    {"ministral", R"("head_dim": 128)", 7241732096},
    {"ministral", R"("head_dim": 128, "hidden_size": 768, "num_hidden_layers": 3)", 171840768},
    {"ministral3", R"()", 8489553920},
    {"ministral3", R"("hidden_size": 768, "num_hidden_layers": 3)", 324015360},
    {"mistral", R"()", 7241732096},
    {"mistral", R"("hidden_size": 768, "num_hidden_layers": 3)", 152671488},
    {"mixtral", R"()", 46702792704},
    {"mixtral", R"("hidden_size": 768, "num_hidden_layers": 3)", 846322944},
    {"mpt", R"()", 1311213568},
    {"mpt", R"("d_model": 512, "n_layers": 3)", 35229184},
    {"nemotron", R"("num_key_value_heads": 48)", 17642041344},
    {"nemotron", R"("num_key_value_heads": 48, "hidden_size": 768, "num_hidden_layers": 3)",
     513550848},
    {"nemotron_h", R"("hybrid_override_pattern": "ME*-")", 1968355720},
    {"nemotron_h", R"("hybrid_override_pattern": "MM*E-", "hidden_size": 512)", 259854088},
    {"olmo2", R"()", 6888624128},
    {"olmo2", R"("hidden_size": 768, "num_hidden_layers": 3)", 160442112},
    {"olmo3", R"()", 6888624128},
    {"olmo3", R"("hidden_size": 768, "num_hidden_layers": 3)", 160442112},
    {"olmoe", R"()", 13361612800},
    {"olmoe", R"("hidden_size": 768, "num_hidden_layers": 3)", 990471936},
    {"phi", R"()", 1418270720},
    {"phi", R"("hidden_size": 768, "num_hidden_layers": 3)", 123563264},
    {"phi3", R"()", 3821079552},
    {"phi3", R"("hidden_size": 768, "num_hidden_layers": 3)", 112956672},
    {"qwen2", R"()", 12049846272},
    {"qwen2", R"("hidden_size": 768, "num_hidden_layers": 3)", 392638464},
    {"qwen2_5_omni_text", R"()", 7615616512},
    {"qwen2_5_omni_text", R"("hidden_size": 896, "num_hidden_layers": 3)", 430777856},
    {"qwen2_5_vl_text", R"()", 72706203648},
    {"qwen2_5_vl_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 441933888},
    {"qwen2_moe", R"()", 14315784192},
    {"qwen2_moe", R"("hidden_size": 768, "num_hidden_layers": 3)", 863458560},
    {"qwen2_vl_text", R"()", 72706203648},
    {"qwen2_vl_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 441933888},
    {"qwen3", R"()", 12049461248},
    {"qwen3", R"("hidden_size": 768, "num_hidden_layers": 3)", 423303168},
    {"qwen3_5_moe_text", R"()", 34660610688},
    {"qwen3_5_moe_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 1329520704},
    {"qwen3_5_text", R"()", 8953803264},
    {"qwen3_5_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 504354624},
    {"qwen3_moe", R"()", 15350731776},
    {"qwen3_moe", R"("hidden_size": 768, "num_hidden_layers": 3)", 917132688},
    {"qwen3_next", R"()", 79674391296},
    {"qwen3_next", R"("hidden_size": 768, "num_hidden_layers": 3)", 2088034368},
    {"qwen3_omni_moe_text", R"("head_dim": 128)", 17403339776},
    {"qwen3_omni_moe_text", R"("head_dim": 128, "hidden_size": 768, "num_hidden_layers": 3)",
     704157696},
    {"qwen3_vl_moe_text", R"()", 13485121536},
    {"qwen3_vl_moe_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 824521248},
    {"qwen3_vl_text", R"()", 12049461248},
    {"qwen3_vl_text", R"("hidden_size": 768, "num_hidden_layers": 3)", 423303168},
    {"t5", R"()", 60506624},
    {"t5", R"("d_model": 256, "num_layers": 3)", 19239680},
    {"vit", R"()", 85800194},
    {"vit", R"("hidden_size": 384, "num_hidden_layers": 3)", 9239810},
};

// A nested part may leave out every size, so that each default of the class is used.
TEST(ClassDefaults, ParametersAreThoseThatTheClassBuilds) {
  for (const Built& row : kBuilt) {
    SCOPED_TRACE(fmt::format("{} {}", row.type, row.fields));
    const Model model = Read(fmt::format(R"({{"text_config":{{"model_type":"{}"{}{}}}}})", row.type,
                                         row.fields.empty() ? "" : ",", row.fields));
    const auto parameters = CountParameters(model);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_EQ(parameters->total, row.parameters);
    EXPECT_THAT(model.notes, Contains(HasSubstr("defaults (Hugging Face transformers 5.24.0")));
  }
}

TEST(ClassDefaults, TheNoteNamesWhatWasTaken) {
  // llava-1.5's language model as it is published: Vicuna's sizes are LlamaConfig's defaults.
  const Model model =
      Read(R"({"model_type":"llava","text_config":{"model_type":"llama","vocab_size":32064}})");
  // Llama-2-7B has 6,738,415,616; 64 more words are 2 * 64 * 4096 more.
  EXPECT_EQ(CountParameters(model)->total, 6738415616 + 2 * 64 * 4096);
  EXPECT_THAT(model.notes,
              Contains(AllOf(HasSubstr("taken from LlamaConfig's defaults"),
                             HasSubstr("hidden_size 4096"), HasSubstr("intermediate_size 11008"),
                             Not(HasSubstr("vocab_size")), Not(HasSubstr("mlp_bias")))));
}

TEST(ClassDefaults, NullIsNotAbsent) {
  const std::string config =
      R"({"model_type":"mistral","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
          "num_key_value_heads":4,"intermediate_size":8,"vocab_size":9)";
  EXPECT_EQ(Read(config + "}").layers[0].attention.window, 4096);  // MistralConfig's default
  EXPECT_EQ(Read(config + R"(,"sliding_window":null})").layers[0].attention.window, 0);
}

TEST(ClassDefaults, AConfigOfItsOwnNeedsItsSizes) {
  EXPECT_THAT(ReadError(R"({"model_type":"gemma3_text","num_hidden_layers":2})"),
              HasSubstr("hidden_size: missing"));
  EXPECT_THAT(ReadError(R"({"model_type":"gpt2","n_embd":64})"),
              HasSubstr("num_hidden_layers: missing"));
  // No default that anybody wrote down: the class's own is None.
  EXPECT_THAT(ReadError(R"({"model_type":"deepseek_v2","hidden_size":64,"num_hidden_layers":2})"),
              HasSubstr("num_experts_per_tok: missing"));
  EXPECT_THAT(ReadError(R"({"model_type":"phi-msft","n_embd":64,"n_layer":2,"n_head":4})"),
              HasSubstr("vocab_size: missing"));
}

// DeepSeek-V2-Lite's null is dropped by tools that rewrite configs; taking the class's 1536 for it
// would be wrong, and so is silence.
TEST(ClassDefaults, DeepSeekV2WithoutQueryRankSaysSo) {
  const Model model = Read(
      R"({"model_type":"deepseek_v2","hidden_size":64,"num_hidden_layers":2,
          "num_experts_per_tok":6})");
  EXPECT_EQ(model.layers[0].latent.q_rank, 0);
  EXPECT_THAT(model.notes, Contains(HasSubstr("q_lora_rank is absent")));
}

// Two classes share a name; a field that only one of them has tells them apart.
TEST(ClassDefaults, TwoClassesOfOneName) {
  // state-spaces/mamba: mamba2-2.7b as published, 2,702,599,680 parameters (the checkpoint's bytes
  // by two); everything of the mixer is a default.
  const Model spaces = Read(
      R"({"model_type":"mamba2","d_model":2560,"n_layer":64,"vocab_size":50277,"d_intermediate":0,
          "ssm_cfg":{"layer":"Mamba2"},"attn_layer_idx":[],"pad_vocab_size_multiple":16,
          "tie_embeddings":true})");
  EXPECT_EQ(CountParameters(spaces)->total, 2702599680);
  EXPECT_EQ(spaces.layers[0].mamba.groups, 1);
  EXPECT_THAT(ReadError(R"({"model_type":"mamba2","d_model":64,"n_layer":1,
                            "ssm_cfg":{"layer":"Mamba1"}})"),
              HasSubstr("ssm_cfg.layer: \"Mamba1\""));
  const Model own = Read(R"({"model_type":"mamba2","hidden_size":2560,"num_hidden_layers":64})");
  EXPECT_EQ(own.layers[0].mamba.groups, 8);
}

struct Nested {
  std::string_view config;
  std::string_view type;
  int64_t hidden;
};

TEST(Composites, TheTextPartIsFoundWhereTheClassKeepsIt) {
  const Nested kCases[] = {
      {R"({"model_type":"qwen2_5_omni","thinker_config":{"text_config":{"hidden_size":1792}},
           "talker_config":{"hidden_size":896}})",
       "qwen2_5_omni_text", 1792},
      {R"({"model_type":"qwen2_5_omni_thinker","text_config":{}})", "qwen2_5_omni_text", 3584},
      {R"({"model_type":"qwen3_omni_moe","thinker_config":{"model_type":"qwen3_omni_moe_thinker",
           "text_config":{"head_dim":128}}})",
       "qwen3_omni_moe_text", 2048},
      {R"({"model_type":"qwen2_vl","hidden_size":1536,"num_hidden_layers":2,
           "vision_config":{"hidden_size":1280}})",
       "qwen2_vl_text", 1536},
      {R"({"model_type":"qwen2_5_vl","text_config":{"hidden_size":2048}})", "qwen2_5_vl_text",
       2048},
      {R"({"model_type":"qwen2_5_vl",
           "text_config":{"model_type":"qwen2_5_vl","hidden_size":2048}})",
       "qwen2_5_vl_text", 2048},
      {R"({"model_type":"qwen3_vl","text_config":{}})", "qwen3_vl_text", 4096},
      {R"({"model_type":"qwen3_vl_moe","text_config":{}})", "qwen3_vl_moe_text", 2048},
      {R"({"model_type":"qwen3_5","text_config":{}})", "qwen3_5_text", 4096},
      {R"({"model_type":"qwen3_5_moe","text_config":{}})", "qwen3_5_moe_text", 2048},
      {R"({"model_type":"gemma3","text_config":{"hidden_size":2560}})", "gemma3_text", 2560},
      {R"({"model_type":"gemma4","text_config":{"hidden_size_per_layer_input":0}})", "gemma4_text",
       2304},
      {R"({"model_type":"llama4","text_config":{}})", "llama4_text", 5120},
      {R"({"model_type":"mistral3","text_config":{"model_type":"ministral3"}})", "ministral3",
       4096},
      {R"({"model_type":"kimi_k25","text_config":{"model_type":"kimi_k2"}})", "kimi_k2", 7168},
      {R"({"model_type":"glm4v","text_config":{}})", "glm4v_text", 4096},
      {R"({"model_type":"glm4v_moe","text_config":{"head_dim":128}})", "glm4v_moe_text", 4096},
      {R"({"model_type":"paligemma","text_config":{}})", "gemma", 3072},
      {R"({"model_type":"internvl_chat","llm_config":{"model_type":"qwen2"}})", "qwen2", 4096},
  };
  for (const Nested& nested : kCases) {
    SCOPED_TRACE(nested.config);
    const Model model = Read(nested.config);
    EXPECT_EQ(model.model_type, nested.type);
    EXPECT_EQ(model.hidden, nested.hidden);
    EXPECT_THAT(model.notes, Contains(HasSubstr("text part only")));
  }
}

TEST(Composites, WhatTheClassDoesNotReadIsRefused) {
  // Gemma3Config reads no size beside text_config.
  EXPECT_THAT(ReadError(R"({"model_type":"gemma3","hidden_size":2560,"num_hidden_layers":34})"),
              HasSubstr("c.json: text_config: missing"));
  EXPECT_THAT(ReadError(R"({"model_type":"qwen3_omni_moe","thinker_config":{"hidden_size":64}})"),
              HasSubstr("thinker_config.text_config: missing"));
  // An unknown outer class: its nested part has to say what it is.
  EXPECT_THAT(ReadError(R"({"model_type":"vl","text_config":{"hidden_size":64}})"),
              HasSubstr("text_config.model_type: missing"));
  EXPECT_THAT(
      ReadError(R"({"model_type":"mllama","text_config":{"model_type":"mllama_text_model"}})"),
      HasSubstr("text_config.model_type: \"mllama_text_model\""));
}

// What transformers 5.24 writes of a Gemma-4 with global heads of 512: the same model.
TEST(Composites, GemmaFoursLayersOneByOne) {
  const std::string base =
      R"({"model_type":"gemma4_text","hidden_size":768,"num_hidden_layers":7,
          "hidden_size_per_layer_input":0,"num_attention_heads":8,"num_key_value_heads":4)";
  const Model listed =
      Read(base + R"(,"per_layer_config":{"05":{"head_dim":512},"06":{"head_dim":512}}})");
  EXPECT_EQ(CountParameters(listed)->total, CountParameters(Read(base + "}"))->total);
  EXPECT_EQ(listed.layers[5].attention.qk_dim, 512);
  EXPECT_EQ(listed.layers[6].attention.window, 0);
  EXPECT_THAT(
      ReadError(base + R"(,"per_layer_config":{"05":{"head_dim":512},"06":{"head_dim":64}}})"),
      HasSubstr("per_layer_config: global layers that differ"));
  EXPECT_THAT(ReadError(base + R"(,"per_layer_config":{"05":{"head_dim":512}}})"),
              HasSubstr("per_layer_config: not one entry for each of the 2 global layers"));
}

TEST(Composites, NewerListsOfLayers) {
  const Model hybrid = Read(
      R"({"model_type":"nemotron_h","hidden_size":512,
          "layers_block_type":["mamba","linear_attention","full_attention","moe","mlp"]})");
  const Model pattern =
      Read(R"({"model_type":"nemotron_h","hidden_size":512,"hybrid_override_pattern":"MM*E-"})");
  EXPECT_EQ(CountParameters(hybrid)->total, CountParameters(pattern)->total);
  EXPECT_THAT(ReadError(R"({"model_type":"nemotron_h","hidden_size":64,
                            "layers_block_type":["conv"]})"),
              HasSubstr("layers_block_type: \"conv\" is not known"));
  const std::string moe =
      R"({"model_type":"glm4_moe","hidden_size":64,"num_hidden_layers":3,"head_dim":16)";
  const Model listed = Read(moe + R"(,"mlp_layer_types":["sparse","dense","sparse"]})");
  EXPECT_EQ(listed.layers[0].ffn.kind, FeedForward::Kind::kMoe);
  EXPECT_EQ(listed.layers[1].ffn.kind, FeedForward::Kind::kDense);
  EXPECT_THAT(ReadError(moe + R"(,"mlp_layer_types":["sparse"]})"),
              HasSubstr("mlp_layer_types: 1 entries for 3 layers"));
}

}  // namespace
}  // namespace flopwatch::models
