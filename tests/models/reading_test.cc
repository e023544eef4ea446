// Readers: the traps of real configurations, Megatron-LM arguments in every form they come in, and
// refusals that name the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "helpers.h"
#include "small_models.h"

namespace flopwatch::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<int64_t> Windows(const Model& model) {
  std::vector<int64_t> out;
  for (const Layer& layer : model.layers) out.push_back(layer.attention.window);
  return out;
}

std::string Moe(const Model& model) {
  std::string out;
  for (const Layer& layer : model.layers)
    out += layer.ffn.kind == FeedForward::Kind::kMoe ? 'E' : '-';
  return out;
}

// A config of `type` with the usual fields and `more`.
std::string ReadingConfig(std::string_view type, std::string_view more) {
  return fmt::format(
      R"({{"model_type":"{}","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
      "num_key_value_heads":4,"intermediate_size":128,
      "vocab_size":100{}{}}})",
      type, more.empty() ? "" : ",", more);
}

TEST(Reading, SlidingWindows) {
  // Qwen2 ships a window it does not use.
  EXPECT_EQ(
      Windows(Read(ReadingConfig("qwen2", R"("sliding_window":32,"use_sliding_window":false)"))),
      std::vector<int64_t>(4, 0));
  EXPECT_EQ(Windows(Read(ReadingConfig("qwen2", R"("sliding_window":32)"))),
            std::vector<int64_t>(4, 0));
  EXPECT_EQ(
      Windows(Read(ReadingConfig(
          "qwen2", R"("sliding_window":32,"use_sliding_window":true,"max_window_layers":3)"))),
      (std::vector<int64_t>{0, 0, 0, 32}));
  EXPECT_EQ(Windows(Read(ReadingConfig("mistral", R"("sliding_window":32)"))),
            std::vector<int64_t>(4, 32));
  EXPECT_EQ(Windows(Read(ReadingConfig("mistral", R"("sliding_window":null)"))),
            std::vector<int64_t>(4, 0));
  EXPECT_EQ(Windows(Read(ReadingConfig("gemma2", R"("sliding_window":32)"))),
            (std::vector<int64_t>{32, 0, 32, 0}));
  EXPECT_EQ(Windows(Read(
                ReadingConfig("gemma3_text", R"("sliding_window":32,"sliding_window_pattern":3)"))),
            (std::vector<int64_t>{32, 32, 0, 32}));
  EXPECT_EQ(Windows(Read(
                ReadingConfig("gpt_oss",
                              R"("num_local_experts":4,"num_experts_per_tok":2,"sliding_window":8,
      "layer_types":["full_attention","sliding_attention","sliding_attention",
      "full_attention"])"))),
            (std::vector<int64_t>{0, 8, 8, 0}));
  EXPECT_THAT(
      ReadError(ReadingConfig("gpt_oss", R"("sliding_window":8,"layer_types":["full_attention"])")),
      HasSubstr("layer_types: 1 entries for 4 layers"));
  EXPECT_THAT(
      ReadError(ReadingConfig("llama", R"("sliding_window":8,"layer_types":["a","a","a","a"])")),
      HasSubstr("layer_types: \"a\" is not known"));
}

TEST(Reading, WhichLayersAreExperts) {
  const std::string experts =
      R"("num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  EXPECT_EQ(Moe(Read(ReadingConfig("qwen3_moe", experts))), "EEEE");
  EXPECT_EQ(Moe(Read(ReadingConfig("qwen3_moe", experts + R"(,"decoder_sparse_step":2)"))), "-E-E");
  EXPECT_EQ(Moe(Read(ReadingConfig("qwen3_moe", experts + R"(,"mlp_only_layers":[0,3])"))), "-EE-");
  EXPECT_EQ(Moe(Read(ReadingConfig("glm4_moe", experts + R"(,"first_k_dense_replace":1)"))),
            "-EEE");
  EXPECT_EQ(Moe(Read(ReadingConfig("llama", ""))), "----");
  const std::string mla =
      experts + R"(,"kv_lora_rank":16,"qk_nope_head_dim":8,"qk_rope_head_dim":4,"v_head_dim":8,
      "first_k_dense_replace":0)";
  EXPECT_EQ(Moe(Read(ReadingConfig("deepseek_v3", mla + R"(,"moe_layer_freq":2)"))), "E-E-");
  EXPECT_EQ(Moe(Read(ReadingConfig("deepseek_v3", mla + R"(,"moe_layer_freq":[0,0,1,1])"))),
            "--EE");
  EXPECT_THAT(ReadError(ReadingConfig("deepseek_v3", mla + R"(,"moe_layer_freq":[0,1])")),
              HasSubstr("moe_layer_freq: 2 entries for 4 layers"));
  EXPECT_THAT(
      ReadError(ReadingConfig("qwen3_moe", R"("num_experts":8,"num_experts_per_tok":null)")),
      HasSubstr("num_experts_per_tok: missing"));
  EXPECT_THAT(
      ReadError(ReadingConfig(
          "qwen3_moe", R"("num_experts":8,"num_experts_per_tok":9,"moe_intermediate_size":8)")),
      HasSubstr("num_experts_per_tok: 9 of 8"));
}

TEST(Reading, NestedTextConfigAndPythonConstants) {
  const Model model =
      Read(R"({"model_type":"gemma3","tie_word_embeddings":true,"text_config":)" +
           ReadingConfig("gemma3_text", R"("sliding_window":8)") +
           R"(,"vision_config":{"hidden_size":1152},"limit":[0.0,Infinity],"x":NaN})");
  EXPECT_EQ(model.model_type, "gemma3_text");
  EXPECT_EQ(model.hidden, 64);
  EXPECT_FALSE(model.notes.empty());
  EXPECT_THAT(
      ReadError(
          R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":-1}})"),
      HasSubstr("c.json: text_config.hidden_size: -1 is not"));
}

TEST(Reading, MptAttentionKinds) {
  const auto config = [](std::string_view attention) {
    return fmt::format(R"({{"model_type":"mpt","d_model":64,"n_heads":4,"n_layers":1,"vocab_size":9,
        "attn_config":{{{}}}}})",
                       attention);
  };
  const auto heads = [&](std::string_view attention) {
    return Read(config(attention)).layers[0].attention.kv_heads;
  };
  EXPECT_EQ(heads(""), 4);
  EXPECT_EQ(heads(R"("attn_type":"multiquery_attention")"), 1);
  EXPECT_EQ(heads(R"("attn_type":"grouped_query_attention","kv_n_heads":2)"), 2);
  EXPECT_THAT(ReadError(config(R"("attn_type":"x")")), HasSubstr("attn_config.attn_type"));
}

TEST(Reading, TyingIsOftenSaidOutside) {
  const std::string text = ReadingConfig("qwen2", "");
  EXPECT_FALSE(Read(R"({"model_type":"vl","text_config":)" + text + "}").tied);
  EXPECT_TRUE(
      Read(R"({"model_type":"vl","tie_word_embeddings":true,"text_config":)" + text + "}").tied);
  EXPECT_TRUE(
      Read(R"({"model_type":"vl","tie_word_embeddings":true,"language_config":)" + text + "}")
          .tied);
}

TEST(Reading, LlamaFourChunksAndGlobalLayers) {
  const Model model = Read(
      R"({"model_type":"llama4_text","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
      "num_key_value_heads":4,"head_dim":16,"intermediate_size":32,"intermediate_size_mlp":64,
      "vocab_size":100,
      "attention_chunk_size":16,"num_local_experts":4,
      "num_experts_per_tok":1,"interleave_moe_layer_step":2})");
  EXPECT_EQ(model.layers[0].attention.chunk, 16);
  EXPECT_EQ(model.layers[3].attention.chunk, 0);
  EXPECT_EQ(Moe(model), "-E-E");
  EXPECT_EQ(model.layers[0].ffn.width, 64);
  EXPECT_EQ(model.layers[1].ffn.shared_width, 32);
  // 40 tokens in chunks of 16, 16 and 8: 136 + 136 + 36 pairs; global 820. Core 2 * 4 * 32 FLOPs a
  // pair.
  const auto count = (*FindConvention("exact_causal"))->evaluate(model, Workload::Sequence(40));
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(ToString(count->Find("attention core")->forward),
            fmt::format("{}", 256 * (3 * 308 + 820)));
}

TEST(Reading, UnknownIsRefusedNotDense) {
  EXPECT_THAT(ReadError(ReadingConfig("lama", "")),
              AllOf(HasSubstr("model_type: \"lama\""), HasSubstr("did you mean llama?")));
  EXPECT_THAT(ReadError(ReadingConfig("quantum_transformer", "")), HasSubstr("nothing is assumed"));
  EXPECT_THAT(ReadError(R"({"hidden_size":64})"), HasSubstr("model_type: missing"));
  EXPECT_THAT(ReadError(ReadingConfig("llama", R"("block_configs":[{"a":1}])")),
              HasSubstr("block_configs"));
}

TEST(Reading, ErrorsNameTheField) {
  EXPECT_THAT(ReadError(R"({"model_type":"llama"})"), HasSubstr("c.json: hidden_size: missing"));
  EXPECT_THAT(ReadError(R"({"model_type":"llama","hidden_size":-64})"),
              HasSubstr("hidden_size: -64 is not a whole number from 1 to"));
  EXPECT_THAT(ReadError(R"({"model_type":"llama","hidden_size":1e300})"),
              HasSubstr("hidden_size: 1e+300"));
  EXPECT_THAT(ReadError(R"({"model_type":"llama","hidden_size":64.5})"),
              HasSubstr("hidden_size: 64.5"));
  EXPECT_THAT(ReadError(R"({"model_type":"llama","hidden_size":true})"),
              HasSubstr("hidden_size: true"));
  EXPECT_THAT(ReadError(R"({"model_type":"llama","hidden_size":[64]})"),
              HasSubstr("hidden_size: a list"));
  EXPECT_THAT(ReadError(R"({"model_type":5})"), HasSubstr("model_type: 5 is not text"));
  EXPECT_THAT(ReadError(ReadingConfig("llama", R"("num_key_value_heads":3)")),
              HasSubstr("num_key_value_heads: 3 does not divide"));
  EXPECT_THAT(ReadError(ReadingConfig("llama", R"("tie_word_embeddings":"yes")")),
              HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(ReadError(
                  R"({"model_type":"llama","hidden_size":65,"num_hidden_layers":1,
          "num_attention_heads":4,"vocab_size":9,
      "intermediate_size":8})"),
              HasSubstr("head_dim: missing"));
  EXPECT_THAT(ReadError(
                  R"({"model_type":"nemotron_h","hidden_size":64,"vocab_size":9,"ssm_state_size":8,
          "mamba_num_heads":2,
      "mamba_head_dim":8,"hybrid_override_pattern":"MX"})"),
              HasSubstr("the letter 'X'"));
  EXPECT_THAT(ReadError(std::string(10 << 20, '[')), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(ReadError(std::string(kMaxConfigBytes + 1, ' ')), HasSubstr("too many"));
  EXPECT_THAT(ReadError("{\"model_type\":\"llama\",\n"), HasSubstr("at line 2"));
  EXPECT_THAT(ReadError(""), HasSubstr("empty"));
}

// Everything at its limit: the count stays inside 128 bits and is refused, not wrapped.
TEST(Reading, AbsurdSizesAreRefusedNotWrapped) {
  const Model model =
      Read(fmt::format(R"({{"model_type":"qwen3_moe","hidden_size":{0},"num_hidden_layers":{1},
      "num_attention_heads":{2},"head_dim":{2},"moe_intermediate_size":{0},"vocab_size":{3},
      "num_experts":{2},
      "num_experts_per_tok":{2}}})",
                       kMaxWidth, kMaxLayers, kMaxCount, kMaxVocab));
  EXPECT_EQ(CountParameters(model).status().code(), absl::StatusCode::kOutOfRange);
  for (const Convention* c : Conventions()) {
    const auto count = c->evaluate(model, Workload::Sequence(kMaxTokens));
    if (!count.ok()) continue;
    EXPECT_GT(count->Training(), count->Forward()) << c->id;  // no sign was lost
    EXPECT_FALSE(count->TrainingPerToken().ok()) << c->id;
  }
}

TEST(Megatron, CommandLineIsTheSameModelAsTheConfig) {
  const Model llama = Read(kSmallLlama), megatron = Read(kSmallMegatron);
  EXPECT_EQ(megatron.natural_length, 32);
  EXPECT_EQ(megatron.vocab, 128);
  EXPECT_EQ(PerToken("megatron", megatron, 32), PerToken("megatron", llama, 32));
  EXPECT_EQ(CountParameters(megatron)->total, 86848 + 2 * 28 * 64);
}

TEST(Megatron, LogDumpAndShellScript) {
  std::string dump = "[rank0]: ------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"num_layers", "2"},
           {"hidden_size", "64"},
           {"num_attention_heads", "4"},
           {"group_query_attention", "True"},
           {"num_query_groups", "2"},
           {"ffn_hidden_size", "128"},
           {"swiglu", "True"},
           {"padded_vocab_size", "128"},
           {"normalization", "RMSNorm"},
           {"add_bias_linear", "False"},
           {"untie_embeddings_and_output_weights", "True"},
           {"position_embedding_type", "rope"},
           {"seq_length", "32"},
           {"num_experts", "None"},
           {"moe_layer_freq", "1"},
           {"hybrid_attention_ratio", "0.0"},
           {"q_lora_rank", "None"}}) {
    dump += fmt::format("[rank0]:   {} {} {}\n", name, std::string(46 - name.size(), '.'), value);
  }
  const Model model = Read(dump);
  EXPECT_EQ(PerToken("megatron", model, 32), PerToken("megatron", Read(kSmallLlama), 32));
  EXPECT_EQ(CountParameters(model)->total, 86848 + 2 * 28 * 64);

  const Model script = Read(R"(MODEL_ARGS=(
   --disable-bias-linear
   --qk-layernorm
   --group-query-attention
   --num-attention-heads 32
   --num-query-groups 4
   --kv-channels 128
   --num-layers 48
   --hidden-size 2048
   --ffn-hidden-size 6144
   --normalization RMSNorm
   --position-embedding-type rope
   --swiglu
   --untie-embeddings-and-output-weights
   --vocab-size 151936

   # moe
   --moe-ffn-hidden-size 768
   --moe-router-topk 8
   --moe-layer-freq "'([1]*48)'"
   --num-experts 128
   --moe-aux-loss-coeff 0
))");
  // Qwen3-30B-A3B: 30,532,122,624 parameters, and the vocabulary is a multiple of 128 already.
  EXPECT_EQ(CountParameters(script)->total, 30532122624);
  EXPECT_EQ(PerToken("megatron", script, 4096), 23006281728);
}

TEST(Megatron, LatentAttentionExpertsAndMtp) {
  const Model model = Read(
      "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --multi-latent-attention "
      "--q-lora-rank 1536 --kv-lora-rank 512 "
      "--qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm "
      "--ffn-hidden-size 18432 --swiglu --num-experts 256 "
      "--moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
      "--moe-layer-freq ([0]*3+[1]*58) "
      "--vocab-size 129280 --normalization RMSNorm --disable-bias-linear "
      "--untie-embeddings-and-output-weights "
      "--position-embedding-type rope --mtp-num-layers 1");
  // DeepSeek-V3 of the oracle at 4096.
  EXPECT_EQ(PerToken("megatron", model, 4096), 249812054016);
  EXPECT_EQ(PerToken("megatron_mtp1", model, 4096), 259992950784);
}

TEST(Megatron, HybridPattern) {
  const Model model = Read(
      "--hybrid-override-pattern MEM|*E/*E --hidden-size 64 --num-attention-heads 4 "
      "--ffn-hidden-size 128 --num-experts 4 "
      "--moe-router-topk 2 --moe-latent-size 16 --mamba-num-heads 8 --mamba-head-dim 16 "
      "--mamba-state-dim 8 --mamba-num-groups 2 "
      "--vocab-size 100 --disable-bias-linear --position-embedding-type none");
  ASSERT_EQ(model.layers.size(), 5u);
  EXPECT_EQ(model.layers[0].mamba.inner, 128);
  EXPECT_EQ(model.layers[1].ffn.latent, 16);
  EXPECT_EQ(model.layers[3].mixer, Mixer::kAttention);
  EXPECT_EQ(model.mtp_depth, 1);
  ASSERT_EQ(model.mtp_layers.size(), 2u);
  EXPECT_EQ(model.mtp_layers[0].mixer, Mixer::kAttention);
}

TEST(Megatron, RefusalsNameTheArgument) {
  const std::string base = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 ";
  EXPECT_THAT(ReadError(base), HasSubstr("vocab_size: missing"));
  EXPECT_THAT(ReadError(base + "--vocab-size -3"), HasSubstr("vocab_size: -3"));
  EXPECT_THAT(ReadError("--num-layers 4 --hidden-size x --vocab-size 5"),
              HasSubstr("hidden_size: \"x\""));
  EXPECT_THAT(ReadError(base + "--vocab-size 5 --num-experts 4 --moe-layer-freq [0]*9999999"),
              HasSubstr("moe_layer_freq"));
  EXPECT_THAT(
      ReadError(base +
                "--vocab-size 5 --num-experts 4 --moe-layer-freq ((((((((((([1]*4)))))))))))"),
      HasSubstr("moe_layer_freq"));
  EXPECT_THAT(ReadError(base + "--vocab-size 5 --hybrid-attention-ratio 0.5"),
              HasSubstr("hybrid_attention_ratio"));
  EXPECT_THAT(ReadError(base + "--vocab-size 5 --experimental-attention-variant dsa"),
              HasSubstr("experimental_attention_variant: \"dsa\""));
  EXPECT_THAT(ReadError(base + "--vocab-size 5 --is-hybrid-model"),
              HasSubstr("hybrid_override_pattern: missing"));
  EXPECT_THAT(ReadError(base + "--vocab-size 5 --attention-chunk-size 8192"),
              HasSubstr("attention_chunk_size"));
  EXPECT_THAT(ReadError("just a text without anything"), HasSubstr("neither a config.json"));
}

}  // namespace
}  // namespace flopwatch::models
