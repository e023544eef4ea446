// Decoders of Llama's shape: RMS norms, rotary positions, attention with grouped keys, a gated MLP
// or experts. What differs between the types is one row of kTraits. Facts: the configuration and
// modelling files of Hugging Face transformers.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

enum class QkNorm : uint8_t { kNone, kPerHead, kWhole, kAsked };

struct Traits {
  std::string_view type;
  bool qkv_bias = false;  // always; "attention_bias" adds qkv and output (bias_no_out: qkv alone)
  bool bias_no_out = false;  // attention_bias means q, k, v only
  QkNorm qk_norm = QkNorm::kNone;
  int norms = 2;           // of D weights a layer
  bool norm_bias = false;  // LayerNorm
  int64_t matrices = 3;
  int64_t window_period = 0;
  bool sinks = false;
  bool expert_bias = false;  // experts and router have biases (gpt-oss)
  bool router_bias = false;  // a correction bias of E a layer
};

constexpr Traits kTraits[] = {
    {.type = "llama"},
    {.type = "mistral"},
    {.type = "ministral"},
    {.type = "ministral3"},
    {.type = "mixtral"},
    {.type = "granite"},
    {.type = "phi3"},
    {.type = "qwen2", .qkv_bias = true},
    {.type = "qwen2_5_omni_text", .qkv_bias = true},
    {.type = "qwen2_5_vl_text", .qkv_bias = true},
    {.type = "qwen2_moe", .qkv_bias = true},
    {.type = "qwen2_vl_text", .qkv_bias = true},
    {.type = "qwen3", .qk_norm = QkNorm::kPerHead},
    {.type = "qwen3_moe", .qk_norm = QkNorm::kPerHead},
    {.type = "qwen3_omni_moe_text", .qk_norm = QkNorm::kPerHead},
    {.type = "qwen3_vl_moe_text", .qk_norm = QkNorm::kPerHead},
    {.type = "qwen3_vl_text", .qk_norm = QkNorm::kPerHead},
    {.type = "olmo2", .qk_norm = QkNorm::kWhole},
    {.type = "olmo3", .qk_norm = QkNorm::kWhole, .window_period = 4},
    {.type = "olmoe", .qk_norm = QkNorm::kWhole},
    {.type = "gemma"},
    {.type = "gemma2", .norms = 4, .window_period = 2},
    {.type = "gemma3_text", .qk_norm = QkNorm::kPerHead, .norms = 4, .window_period = 6},
    {.type = "glm", .bias_no_out = true, .qk_norm = QkNorm::kAsked, .router_bias = true},
    {.type = "glm4", .bias_no_out = true, .norms = 4},
    {.type = "glm4v_text", .qkv_bias = true, .norms = 4},
    {.type = "glm4v_moe_text", .bias_no_out = true, .router_bias = true},
    {.type = "glm4_moe", .bias_no_out = true, .qk_norm = QkNorm::kAsked, .router_bias = true},
    {.type = "gpt_oss", .window_period = 2, .sinks = true, .expert_bias = true},
    {.type = "nemotron", .norm_bias = true, .matrices = 2},
};

const Traits& TraitsOf(std::string_view type) {
  return *std::find_if(std::begin(kTraits), std::end(kTraits),
                       [&](const Traits& t) { return t.type == type; });
}

// Newer releases write the global layers' heads once a layer; they have to be alike.
void ReadPerLayerConfig(Fields& fields, const std::vector<int64_t>& windows, Attention& global) {
  const Json* raw = fields.Raw({"per_layer_config"});
  if (raw == nullptr) return;
  const auto globals = std::count(windows.begin(), windows.end(), 0);
  if (!raw->is_object() || static_cast<int64_t>(raw->object().size()) != globals) {
    fields.Fail("per_layer_config", fmt::format("not one entry for each of the {} global layers",
                                                static_cast<int64_t>(globals)));
    return;
  }
  const Attention before = global;
  for (size_t i = 0; i < raw->object().size(); ++i) {
    const auto& [layer, values] = raw->object()[i];
    Fields entry(values,
                 fmt::format("{}per_layer_config.{}.", fields.where(), Printable(layer, 8)));
    Attention one = before;
    one.qk_dim = one.v_dim = entry.SizeOr({"head_dim"}, before.qk_dim);
    one.kv_heads = entry.SizeOr({"num_key_value_heads"}, before.kv_heads, kMaxCount);
    fields.Take(entry.status());
    if (i > 0 && (one.qk_dim != global.qk_dim || one.kv_heads != global.kv_heads))
      fields.Fail("per_layer_config", "global layers that differ are not read yet");
    global = one;
  }
}

}  // namespace

void ReadLlamaLike(Fields& fields, Model& model) {
  const Traits& traits = TraitsOf(model.model_type);
  model.hidden = fields.Size({"hidden_size", "n_embd", "d_model"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model);
  const Attention attention = ReadAttention(fields, model);
  const std::vector<int64_t> windows = ReadWindows(fields, model, layers, traits.window_period);
  const std::vector<bool> moe = ReadMoeLayers(fields, layers);
  const bool attention_bias = fields.FlagOr({"attention_bias"}, false);
  const bool mlp_bias = fields.FlagOr({"mlp_bias"}, false);
  if (fields.Has({"sliding_window_size"}) && !fields.Written("sliding_window")) {
    model.notes.push_back(
        "sliding_window_size is a serving option and no model field: attention is taken as full");
  }

  Layer base;
  base.mixer = Mixer::kAttention;
  base.small_params = int64_t{traits.norms} * model.hidden * (traits.norm_bias ? 2 : 1);
  base.small_params += AttentionBiases(
      model, attention,
      {.qkv = traits.qkv_bias || attention_bias, .out = attention_bias && !traits.bias_no_out});
  const bool per_head = traits.qk_norm == QkNorm::kPerHead ||
                        (traits.qk_norm == QkNorm::kAsked && fields.FlagOr({"use_qk_norm"}, false));
  if (per_head) base.small_params += 2 * attention.qk_dim;
  if (traits.qk_norm == QkNorm::kWhole)
    base.small_params += (attention.heads + attention.kv_heads) * attention.qk_dim;
  if (traits.sinks) base.small_params += attention.heads;

  const bool any_moe = std::find(moe.begin(), moe.end(), true) != moe.end();
  const bool any_dense = std::find(moe.begin(), moe.end(), false) != moe.end();
  FeedForward experts, dense;
  if (any_moe) experts = ReadExperts(fields, traits.matrices);
  experts.shared_gate = model.model_type == "qwen2_moe" && experts.shared_width > 0;
  if (any_dense)
    dense = {.kind = FeedForward::Kind::kDense,
             .matrices = traits.matrices,
             .width = fields.Size({"intermediate_size"})};
  if (!fields.status().ok()) return;  // a list of absurd length is not built

  for (int64_t i = 0; i < layers; ++i) {
    Layer layer = base;
    layer.attention = attention;
    layer.attention.window = windows[static_cast<size_t>(i)];
    if (moe[static_cast<size_t>(i)]) {
      layer.ffn = experts;
      if (traits.router_bias) layer.small_params += experts.experts;
      if (traits.expert_bias) {
        layer.small_params += experts.experts;  // router
        layer.small_params_per_expert =
            (experts.matrices - 1) * experts.expert_width + model.hidden;
      }
    } else {
      layer.ffn = dense;
      if (mlp_bias) layer.small_params += (dense.matrices - 1) * dense.width + model.hidden;
    }
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden * (traits.norm_bias ? 2 : 1);
  model.mtp_depth = fields.CountOr({"num_nextn_predict_layers"}, 0, kMaxLayers);
}

// Llama-4: every fourth layer attends globally without positions, the others inside chunks; a
// shared expert beside the routed.
void ReadLlama4(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model);
  const Attention attention = ReadAttention(fields, model);
  const int64_t chunk = fields.CountOr({"attention_chunk_size"}, 0, kMaxTokens);
  const std::vector<bool> moe = ReadMoeLayers(fields, layers);
  std::vector<std::string> types = fields.Texts({"layer_types"});
  // no_rope_layers: 1 = with rotary positions (chunked), 0 = without (global); an absent or empty
  // list is every no_rope_layer_interval-th without.
  const std::vector<int64_t> rope = fields.Integers({"no_rope_layers"}, 1);
  const int64_t interval = fields.SizeOr({"no_rope_layer_interval"}, 4, kMaxLayers);
  if ((!rope.empty() && static_cast<int64_t>(rope.size()) != layers) ||
      (!types.empty() && static_cast<int64_t>(types.size()) != layers)) {
    fields.Fail(types.empty() ? "no_rope_layers" : "layer_types",
                fmt::format("its length is not the {} layers", layers));
  }
  FeedForward experts = ReadExperts(fields, 3);
  experts.shared_width = experts.expert_width;
  const FeedForward dense = {
      .kind = FeedForward::Kind::kDense,
      .matrices = 3,
      .width = fields.SizeOr({"intermediate_size_mlp"}, experts.expert_width)};
  if (!fields.status().ok()) return;
  for (int64_t i = 0; i < layers; ++i) {
    const size_t n = static_cast<size_t>(i);
    const bool chunked = !types.empty() ? types[n] == "chunked_attention"
                         : rope.empty() ? (i + 1) % interval != 0
                                        : rope[n] != 0;
    Layer layer;
    layer.mixer = Mixer::kAttention;
    layer.attention = attention;
    layer.attention.chunk = chunked ? chunk : 0;
    layer.ffn = moe[n] ? experts : dense;
    layer.small_params = 2 * model.hidden;
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden;
  model.notes.push_back("text part only: the vision tower is not counted");
}

// Gemma-4: windowed layers and global ones with larger, fewer heads whose keys serve as values;
// with enable_moe_block experts run beside a dense MLP, which stands here as a shared expert.
void ReadGemma4(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model);
  const Attention local = ReadAttention(fields, model);
  Attention global = local;
  global.qk_dim = global.v_dim = fields.SizeOr({"global_head_dim"}, local.qk_dim);
  global.value_is_key = fields.FlagOr({"attention_k_eq_v"}, false);
  if (global.value_is_key)
    global.kv_heads = fields.SizeOr({"num_global_key_value_heads"}, local.kv_heads, kMaxCount);
  std::vector<int64_t> windows = ReadWindows(fields, model, layers, 6);
  windows.back() = 0;  // the class makes the last layer a global one whatever the list says
  ReadPerLayerConfig(fields, windows, global);
  const bool moe = fields.FlagOr({"enable_moe_block"}, false);
  const int64_t width = fields.Size({"intermediate_size"});
  for (const std::string_view unread : {"num_kv_shared_layers", "hidden_size_per_layer_input"}) {
    if (fields.CountOr({unread}, 0, kMaxWidth) > 0)
      fields.Fail(unread, "layers of this kind are not read yet; only 0 is");
  }
  if (fields.FlagOr({"use_double_wide_mlp"}, false))
    fields.Fail("use_double_wide_mlp", "not read yet; only false is");
  FeedForward ffn = {.kind = FeedForward::Kind::kDense, .matrices = 3, .width = width};
  if (moe) {
    ffn = ReadExperts(fields, 3);
    ffn.shared_width = width;
    model.notes.push_back("the dense MLP beside the experts is listed as shared expert");
  }
  if (!fields.status().ok()) return;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t window = windows[static_cast<size_t>(i)];
    Layer layer;
    layer.mixer = Mixer::kAttention;
    layer.attention = window > 0 ? local : global;
    layer.attention.window = window;
    layer.ffn = ffn;
    layer.small_params = (moe ? 7 : 4) * model.hidden + 2 * layer.attention.qk_dim + 1;
    if (moe) layer.small_params += model.hidden + ffn.experts;  // the router's scales
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden;
  model.notes.push_back("text part only: the vision tower is not counted");
}

void ReadDeepSeek(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model);
  Layer base;
  base.mixer = Mixer::kLatentAttention;
  LatentAttention& m = base.latent;
  m.q_rank = fields.CountOr({"q_lora_rank"}, 0, kMaxWidth);
  if (m.q_rank == 0 && fields.Raw({"q_lora_rank"}) == nullptr) {
    model.notes.push_back(
        "q_lora_rank is absent or null: queries are projected without a latent, as in "
        "DeepSeek-V2-Lite");
  }
  m.kv_rank = fields.Size({"kv_lora_rank"});
  m.nope_dim = fields.Size({"qk_nope_head_dim"}, kMaxCount);
  m.rope_dim = fields.Size({"qk_rope_head_dim"}, kMaxCount);
  m.indexer_heads = fields.CountOr({"index_n_heads"}, 0);
  m.indexer_dim = fields.CountOr({"index_head_dim"}, 0);
  m.indexer_top_k = fields.CountOr({"index_topk"}, 0, kMaxTokens);
  Attention& a = base.attention;
  a.heads = a.kv_heads = fields.Size({"num_attention_heads"}, kMaxCount);
  a.qk_dim = m.nope_dim + m.rope_dim;
  a.v_dim = fields.Size({"v_head_dim"}, kMaxCount);
  base.small_params = 2 * model.hidden + m.q_rank + m.kv_rank;
  // These are the biases of the projections into the ranks and out of the heads.
  if (fields.FlagOr({"attention_bias"}, false))
    base.small_params += m.q_rank + m.kv_rank + m.rope_dim + model.hidden;
  const std::vector<bool> moe = ReadMoeLayers(fields, layers);
  const bool any_moe = std::find(moe.begin(), moe.end(), true) != moe.end();
  const bool any_dense = std::find(moe.begin(), moe.end(), false) != moe.end();
  FeedForward experts, dense;
  if (any_moe) experts = ReadExperts(fields, 3);
  if (any_dense)
    dense = {.kind = FeedForward::Kind::kDense,
             .matrices = 3,
             .width = fields.Size({"intermediate_size"})};
  const bool correction =
      fields.TextOr({"topk_method"}, model.model_type == "deepseek_v2" ? "greedy" : "noaux_tc") ==
      "noaux_tc";
  if (!fields.status().ok()) return;
  for (const bool is_moe : moe) {
    Layer layer = base;
    layer.ffn = is_moe ? experts : dense;
    if (is_moe && correction) layer.small_params += experts.experts;
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden;
  model.mtp_depth = fields.CountOr({"num_nextn_predict_layers"}, 0, kMaxLayers);
  if (m.indexer_heads > 0) {
    model.notes.push_back(
        fmt::format("the sparse-attention indexer ({} heads of {}, top {}) is not counted, and "
                    "attention is counted dense",
                    m.indexer_heads, m.indexer_dim, m.indexer_top_k));
  }
}

}  // namespace flopwatch::models
