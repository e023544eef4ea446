#include "models/readers/class_defaults.h"

#include <algorithm>
#include <iterator>

namespace flopwatch::models {
namespace {

// Fields of the classes themselves and of their __post_init__; what a class derives (head_dim as
// D/H, all heads as key/value heads) is the readers'.
constexpr std::string_view kTransformers =
    "Hugging Face transformers 5.24.0, models/*/configuration_*.py";
constexpr std::string_view kDiffusers = "diffusers 0.40.0, transformers/dit_transformer_2d.py";
constexpr std::string_view kStateSpaces =
    "state-spaces/mamba, models/config_mamba.py and modules/mamba2.py";
constexpr std::string_view kFoundry = "llm-foundry, models/mpt/configuration_mpt.py";

constexpr ClassDefaults kDefaults[] = {
    {"bert", "", "BertConfig", kTransformers,
     R"({"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
         "num_attention_heads": 12, "intermediate_size": 3072,
         "max_position_embeddings": 512, "type_vocab_size": 2, "tie_word_embeddings":
         true})"},
    // Without q_lora_rank, 1536: tools that rewrite configs drop DeepSeek-V2-Lite's null.
    {"deepseek_v2", "", "DeepseekV2Config", kTransformers,
     R"({"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "kv_lora_rank": 512,
         "n_routed_experts": 64, "n_shared_experts": 2,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "topk_method": "greedy",
         "v_head_dim": 128, "moe_intermediate_size": 1407})"},
    {"deepseek_v3", "", "DeepseekV3Config", kTransformers,
     R"({"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
         "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads":
         128, "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts":
         256, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts_per_tok": 8,
         "first_k_dense_replace": 3})"},
    {"deepseek_v32", "", "DeepseekV32Config", kTransformers,
     R"({"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
         "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads":
         128, "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts":
         256, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts_per_tok": 8,
         "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64, "head_dim": 64,
         "first_k_dense_replace": 3})"},
    {"dit", "", "DiTTransformer2DModel", kDiffusers,
     R"({"num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4, "num_layers":
         28, "sample_size": 32, "patch_size": 2, "num_embeds_ada_norm": 1000})"},
    {"gemma", "", "GemmaConfig", kTransformers,
     R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
         "head_dim": 256, "tie_word_embeddings": true})"},
    {"gemma2", "", "Gemma2Config", kTransformers,
     R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "tie_word_embeddings": true, "sliding_window": 4096})"},
    {"gemma3_text", "", "Gemma3TextConfig", kTransformers,
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "tie_word_embeddings": true, "sliding_window": 4096})"},
    {"gemma4_text", "", "Gemma4TextConfig", kTransformers,
     R"({"vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "tie_word_embeddings": true, "sliding_window": 512,
         "hidden_size_per_layer_input": 256, "global_head_dim": 512})"},
    {"glm", "", "GlmConfig", kTransformers,
     R"({"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696,
         "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
         "head_dim": 128, "attention_bias": true})"},
    {"glm4", "", "Glm4Config", kTransformers,
     R"({"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696,
         "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
         "head_dim": 128, "attention_bias": true})"},
    {"glm4_moe", "", "Glm4MoeConfig", kTransformers,
     R"({"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
         "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
         "moe_intermediate_size": 1408, "num_experts_per_tok": 8, "n_shared_experts": 1,
         "n_routed_experts": 128, "first_k_dense_replace": 1})"},
    {"glm4v_moe_text", "", "Glm4vMoeTextConfig", kTransformers,
     R"({"vocab_size": 151424, "hidden_size": 4096, "intermediate_size": 10944,
         "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
         "attention_bias": true, "moe_intermediate_size": 1408, "num_experts_per_tok":
         8, "n_shared_experts": 1, "n_routed_experts": 128, "first_k_dense_replace": 1})"},
    {"glm4v_text", "", "Glm4vTextConfig", kTransformers,
     R"({"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696,
         "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2})"},
    {"gpt2", "", "GPT2Config", kTransformers,
     R"({"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
         "tie_word_embeddings": true})"},
    {"gpt_neox", "", "GPTNeoXConfig", kTransformers,
     R"({"vocab_size": 50432, "hidden_size": 6144, "num_hidden_layers": 44,
         "num_attention_heads": 64, "intermediate_size": 24576, "use_parallel_residual":
         true, "attention_bias": true})"},
    {"gpt_oss", "", "GptOssConfig", kTransformers,
     R"({"num_hidden_layers": 36, "num_local_experts": 128, "vocab_size": 201088, "hidden_size":
         2880, "intermediate_size": 2880, "head_dim": 64, "num_attention_heads": 64,
         "num_key_value_heads": 8, "sliding_window": 128, "num_experts_per_tok": 4,
         "attention_bias": true})"},
    {"gptj", "", "GPTJConfig", kTransformers,
     R"({"vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16})"},
    {"granite", "", "GraniteConfig", kTransformers,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"jamba", "", "JambaConfig", kTransformers,
     R"({"vocab_size": 65536, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_experts_per_tok": 2, "num_experts": 16, "expert_layer_period": 2,
         "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
         "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank":
         "auto", "mamba_conv_bias": true})"},
    {"kimi_k2", "", "DeepseekV3Config", kTransformers,
     R"({"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
         "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads":
         128, "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts":
         256, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts_per_tok": 8,
         "first_k_dense_replace": 3})"},
    {"llama", "", "LlamaConfig", kTransformers,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"llama4_text", "", "Llama4TextConfig", kTransformers,
     R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
         "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads":
         40, "num_key_value_heads": 8, "head_dim": 128, "num_experts_per_tok": 1,
         "num_local_experts": 16, "interleave_moe_layer_step": 1,
         "no_rope_layer_interval": 4, "attention_chunk_size": 8192})"},
    {"mamba2", "d_model", "MambaConfig", kStateSpaces,
     R"({"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "pad_vocab_size_multiple": 8,
         "tie_embeddings": true, "d_state": 128, "d_conv": 4, "expand": 2, "headdim":
         64, "ngroups": 1, "chunk_size": 256})"},
    {"mamba2", "", "Mamba2Config", kTransformers,
     R"({"head_dim": 64, "vocab_size": 32768, "hidden_size": 4096, "state_size": 128,
         "num_hidden_layers": 64, "expand": 2, "conv_kernel": 4, "n_groups": 8,
         "use_conv_bias": true, "chunk_size": 256})"},
    {"ministral", "", "MinistralConfig", kTransformers,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "sliding_window": 4096})"},
    {"ministral3", "", "Ministral3Config", kTransformers,
     R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128})"},
    {"mistral", "", "MistralConfig", kTransformers,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "sliding_window": 4096})"},
    {"mixtral", "", "MixtralConfig", kTransformers,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_experts_per_tok": 2, "num_local_experts": 8})"},
    {"mpt", "auto_map", "MPTConfig", kFoundry,
     R"({"d_model": 2048, "n_heads": 16, "n_layers": 24, "expansion_ratio": 4, "max_seq_len":
         2048, "vocab_size": 50368, "learned_pos_emb": true, "tie_word_embeddings":
         true})"},
    {"mpt", "", "MptConfig", kTransformers,
     R"({"d_model": 2048, "n_heads": 16, "n_layers": 24, "expansion_ratio": 4, "max_seq_len":
         2048, "vocab_size": 50368, "no_bias": true, "tie_word_embeddings": true})"},
    {"nemotron", "", "NemotronConfig", kTransformers,
     R"({"vocab_size": 256000, "hidden_size": 6144, "intermediate_size": 24576,
         "num_hidden_layers": 32, "num_attention_heads": 48})"},
    {"nemotron_h", "", "NemotronHConfig", kTransformers,
     R"({"vocab_size": 131072, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 21504,
         "mlp_hidden_act": "relu2", "ssm_state_size": 128, "mamba_num_heads": 128,
         "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "use_conv_bias": true,
         "chunk_size": 128, "n_routed_experts": 8, "n_shared_experts": 1,
         "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
         "num_experts_per_tok": 2})"},
    {"olmo2", "", "Olmo2Config", kTransformers,
     R"({"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"olmo3", "", "Olmo3Config", kTransformers,
     R"({"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "sliding_window": 4096})"},
    {"olmoe", "", "OlmoeConfig", kTransformers,
     R"({"vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048,
         "num_hidden_layers": 16, "num_attention_heads": 16, "num_experts_per_tok": 8,
         "num_experts": 64})"},
    {"phi", "", "PhiConfig", kTransformers,
     R"({"vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 24, "num_attention_heads": 32})"},
    {"phi3", "", "Phi3Config", kTransformers,
     R"({"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
         "num_hidden_layers": 32, "num_attention_heads": 32})"},
    {"qwen2", "", "Qwen2Config", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "sliding_window": 4096, "max_window_layers": 28})"},
    {"qwen2_5_omni_text", "", "Qwen2_5OmniTextConfig", kTransformers,
     R"({"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
         "sliding_window": 32768, "max_window_layers": 28})"},
    {"qwen2_5_vl_text", "", "Qwen2_5_VLTextConfig", kTransformers,
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568,
         "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
         "sliding_window": 4096, "max_window_layers": 80})"},
    {"qwen2_moe", "", "Qwen2MoeConfig", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
         "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
         "sliding_window": 4096, "max_window_layers": 28, "decoder_sparse_step": 1,
         "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
         "num_experts_per_tok": 4, "num_experts": 60, "qkv_bias": true})"},
    {"qwen2_vl_text", "", "Qwen2VLTextConfig", kTransformers,
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568,
         "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
         "sliding_window": 4096, "max_window_layers": 80})"},
    {"qwen3", "", "Qwen3Config", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28})"},
    {"qwen3_5_moe_text", "", "Qwen3_5MoeTextConfig", kTransformers,
     R"({"vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40,
         "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_value_head_dim": 128, "linear_num_key_heads": 16,
         "linear_num_value_heads": 32, "moe_intermediate_size": 512,
         "shared_expert_intermediate_size": 512, "num_experts_per_tok": 8,
         "num_experts": 256})"},
    {"qwen3_5_text", "", "Qwen3_5TextConfig", kTransformers,
     R"({"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
         "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
         "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_value_head_dim": 128, "linear_num_key_heads": 16,
         "linear_num_value_heads": 32})"},
    {"qwen3_moe", "", "Qwen3MoeConfig", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
         "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
         "sliding_window": 4096, "decoder_sparse_step": 1, "moe_intermediate_size": 768,
         "num_experts_per_tok": 8, "num_experts": 128})"},
    {"qwen3_next", "", "Qwen3NextConfig", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
         "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
         "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_value_head_dim": 128, "linear_num_key_heads": 16,
         "linear_num_value_heads": 32, "decoder_sparse_step": 1,
         "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
         "num_experts_per_tok": 10, "num_experts": 512})"},
    {"qwen3_omni_moe_text", "", "Qwen3OmniMoeTextConfig", kTransformers,
     R"({"vocab_size": 3584, "hidden_size": 2048, "intermediate_size": 18944,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
         "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok":
         8, "num_experts": 128})"},
    {"qwen3_vl_moe_text", "", "Qwen3VLMoeTextConfig", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
         "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
         "decoder_sparse_step": 1, "moe_intermediate_size":
         1408, "num_experts_per_tok": 4, "num_experts": 60})"},
    {"qwen3_vl_text", "", "Qwen3VLTextConfig", kTransformers,
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "head_dim": 128})"},
    {"t5", "", "T5Config", kTransformers,
     R"({"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
         "num_heads": 8, "relative_attention_num_buckets": 32, "feed_forward_proj":
         "relu", "tie_word_embeddings": true})"},
    {"vit", "", "ViTConfig", kTransformers,
     R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
         "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_channels":
         3, "qkv_bias": true, "num_labels": 2})"},
};

// The sub_configs of the composite classes of transformers 5.24.0, and the model_type each gives a
// text part without one. Qwen2-VL and Qwen2.5-VL take text fields beside the nested part too;
// Qwen3.5's class does not, but its text fields are written under its name by other frameworks.
constexpr Composite kComposites[] = {
    {"audioflamingo3", "text_config", "qwen2"},
    {"deepseek_vl", "text_config", "llama"},
    {"deepseek_vl_hybrid", "text_config", "llama"},
    {"fast_vlm", "text_config", "qwen2"},
    {"gemma3", "text_config", "gemma3_text"},
    {"gemma4", "text_config", "gemma4_text"},
    {"glm46v", "text_config", "glm4v_text"},
    {"glm4v", "text_config", "glm4v_text"},
    {"glm4v_moe", "text_config", "glm4v_moe_text"},
    {"got_ocr2", "text_config", "qwen2"},
    {"granite_speech", "text_config", "granite"},
    {"idefics2", "text_config", "mistral"},
    {"idefics3", "text_config", "llama"},
    {"internvl", "text_config", "qwen2"},
    {"janus", "text_config", "llama"},
    {"kimi_k25", "text_config", "deepseek_v3"},
    {"lighton_ocr", "text_config", "qwen3"},
    {"llama4", "text_config", "llama4_text"},
    {"llava", "text_config", "llama"},
    {"llava_next", "text_config", "llama"},
    {"llava_next_video", "text_config", "llama"},
    {"llava_onevision", "text_config", "qwen2"},
    {"mistral3", "text_config", "mistral"},
    {"nemotron_h_omni", "text_config", "nemotron_h"},
    {"ovis2", "text_config", "qwen2"},
    {"paligemma", "text_config", "gemma"},
    {"perception_lm", "text_config", "llama"},
    {"qwen2_5_omni", "thinker_config", "qwen2_5_omni_thinker"},
    {"qwen2_5_omni_thinker", "text_config", "qwen2_5_omni_text"},
    {"qwen2_5_vl", "text_config", "qwen2_5_vl_text", true},
    {"qwen2_audio", "text_config", "qwen2"},
    {"qwen2_vl", "text_config", "qwen2_vl_text", true},
    {"qwen3_5", "text_config", "qwen3_5_text", true},
    {"qwen3_5_moe", "text_config", "qwen3_5_moe_text", true},
    {"qwen3_omni_moe", "thinker_config", "qwen3_omni_moe_thinker"},
    {"qwen3_omni_moe_thinker", "text_config", "qwen3_omni_moe_text"},
    {"qwen3_vl", "text_config", "qwen3_vl_text"},
    {"qwen3_vl_moe", "text_config", "qwen3_vl_moe_text"},
    {"shieldgemma2", "text_config", "gemma3_text"},
    {"smolvlm", "text_config", "llama"},
    {"video_llava", "text_config", "llama"},
    {"vipllava", "text_config", "llama"},
    {"voxtral", "text_config", "llama"},
};

}  // namespace

const ClassDefaults* FindClassDefaults(std::string_view type, const Json& config) {
  const auto found =
      std::find_if(std::begin(kDefaults), std::end(kDefaults), [&](const ClassDefaults& d) {
        return d.type == type && (d.when.empty() || !config[d.when].is_null());
      });
  return found == std::end(kDefaults) ? nullptr : found;
}

const Composite* FindComposite(std::string_view type) {
  const auto found = std::find_if(std::begin(kComposites), std::end(kComposites),
                                  [&](const Composite& c) { return c.type == type; });
  return found == std::end(kComposites) ? nullptr : found;
}

std::span<const Composite> Composites() { return kComposites; }

}  // namespace flopwatch::models
