// Models that mix attention with recurrent layers: Mamba-2, Nemotron-H, Jamba, Qwen3-Next, Qwen3.5.
#include <fmt/format.h>

#include <algorithm>

#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

// Convolution with bias, the decay, skip and step of every head, the gated norm.
int64_t Mamba2SmallParams(const Mamba& m, bool conv_bias) {
  const int64_t channels = m.inner + 2 * m.groups * m.state;
  return channels * (m.conv_kernel + (conv_bias ? 1 : 0)) + 3 * m.heads + m.inner;
}

void CheckInner(Fields& fields, int64_t inner) {
  if (inner > kMaxWidth)
    fields.Fail("expand", fmt::format("the inner width {} is above {}", inner, kMaxWidth));
}

}  // namespace

void ReadMamba2(Fields& fields, Model& model) {
  model.hidden = fields.Size({"d_model", "hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model, true);
  const int64_t multiple = fields.SizeOr({"pad_vocab_size_multiple"}, 1, kMaxVocab);
  // The embedding is built padded.
  model.vocab = (model.vocab + multiple - 1) / multiple * multiple;
  model.embedding_params = Int{model.vocab} * model.hidden;
  model.outer.back().out = model.vocab;
  if (const Json* at = fields.Raw({"attn_layer_idx"}); at != nullptr && !at->array().empty()) {
    fields.Fail("attn_layer_idx",
                "Mamba-2 with attention layers is not read yet; only an empty list is");
  }
  if (fields.CountOr({"d_intermediate"}, 0, kMaxWidth) > 0)
    fields.Fail("d_intermediate", "an MLP in Mamba-2 is not read yet; only 0 is");
  Layer layer;
  layer.mixer = Mixer::kMamba2;
  Mamba& m = layer.mamba;
  m.inner = fields.SizeOr({"expand"}, 2, 64) * model.hidden;
  CheckInner(fields, m.inner);
  m.state = fields.SizeOr({"d_state", "state_size"}, 128, kMaxCount);
  m.groups = fields.SizeOr({"ngroups", "n_groups"}, 1, kMaxCount);
  const int64_t head = fields.SizeOr({"headdim", "head_dim"}, 64, kMaxCount);
  m.heads = m.inner / head;
  if (m.inner % head != 0)
    fields.Fail("headdim", fmt::format("{} does not divide the inner width {}", head, m.inner));
  m.conv_kernel = fields.SizeOr({"d_conv", "conv_kernel"}, 4, 64);
  m.chunk = fields.SizeOr({"chunk_size"}, 256, kMaxCount);
  layer.small_params = model.hidden + Mamba2SmallParams(m, true);
  model.small_params += model.hidden;
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

void ReadNemotronH(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  SetEmbedding(fields, model, false);
  const std::string pattern = fields.TextOr({"hybrid_override_pattern"}, "");
  if (pattern.empty())
    fields.Fail("hybrid_override_pattern",
                "missing: one letter a layer, M Mamba-2, * attention, - MLP, E experts");
  const std::string mtp = fields.TextOr({"mtp_hybrid_override_pattern"}, "");
  const std::string kinds = pattern + mtp;
  const int64_t layers =
      fields.SizeOr({"num_hidden_layers"}, static_cast<int64_t>(pattern.size()), kMaxLayers);
  if (layers != static_cast<int64_t>(pattern.size())) {
    fields.Fail("hybrid_override_pattern",
                fmt::format("{} letters for num_hidden_layers = {}", pattern.size(), layers));
  }
  Mamba m;
  m.state = fields.Size({"ssm_state_size"}, kMaxCount);
  m.groups = fields.SizeOr({"n_groups"}, 1, kMaxCount);
  m.heads = fields.Size({"mamba_num_heads"}, kMaxCount);
  m.inner = m.heads * fields.Size({"mamba_head_dim"}, kMaxCount);
  CheckInner(fields, m.inner);
  m.conv_kernel = fields.SizeOr({"conv_kernel"}, 4, 64);
  m.chunk = fields.SizeOr({"chunk_size"}, 128, kMaxCount);
  const bool conv_bias = fields.FlagOr({"use_conv_bias"}, true);
  Attention attention;
  if (kinds.find('*') != std::string::npos) attention = ReadAttention(fields, model);
  const std::string act = fields.TextOr({"mlp_hidden_act"}, "relu2");
  const int64_t matrices = act == "silu" || act == "swiglu" ? 3 : 2;
  FeedForward dense, experts;
  if (kinds.find('-') != std::string::npos) {
    dense = {.kind = FeedForward::Kind::kDense,
             .matrices = matrices,
             .width = fields.Size({"intermediate_size"})};
  }
  if (kinds.find('E') != std::string::npos) experts = ReadExperts(fields, matrices);
  if (!fields.status().ok()) return;
  const auto make = [&](char kind) {
    Layer layer;
    layer.small_params = model.hidden;
    if (kind == 'M') {
      layer.mixer = Mixer::kMamba2;
      layer.mamba = m;
      layer.small_params += Mamba2SmallParams(m, conv_bias);
    } else if (kind == '*') {
      layer.mixer = Mixer::kAttention;
      layer.attention = attention;
    } else if (kind == '-') {
      layer.ffn = dense;
    } else {
      layer.ffn = experts;
      layer.small_params += experts.experts;  // correction bias of the router
    }
    return layer;
  };
  model.layers = ReadPattern(fields, "hybrid_override_pattern", pattern, make);
  model.mtp_layers = ReadPattern(fields, "mtp_hybrid_override_pattern", mtp, make);
  model.small_params += model.hidden;
  model.mtp_depth = fields.CountOr({"num_nextn_predict_layers"}, 0, kMaxLayers);
}

void ReadJamba(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model, false);
  const Attention attention = ReadAttention(fields, model);
  const int64_t period = fields.SizeOr({"attn_layer_period"}, 8, kMaxLayers);
  const int64_t offset = fields.CountOr({"attn_layer_offset"}, 4, kMaxLayers);
  Mamba m;
  m.inner = fields.SizeOr({"mamba_expand"}, 2, 64) * model.hidden;
  CheckInner(fields, m.inner);
  m.state = fields.SizeOr({"mamba_d_state"}, 16, kMaxCount);
  const Json* rank = fields.Raw({"mamba_dt_rank"});
  const bool automatic = rank == nullptr || rank->text() == "auto";
  m.dt_rank = automatic ? (model.hidden + 15) / 16 : fields.Size({"mamba_dt_rank"});
  m.conv_kernel = fields.SizeOr({"mamba_d_conv"}, 4, 64);
  const bool conv_bias = fields.FlagOr({"mamba_conv_bias"}, true);
  const bool proj_bias = fields.FlagOr({"mamba_proj_bias"}, false);
  const std::vector<bool> moe = ReadMoeLayers(fields, layers);
  const FeedForward dense = {.kind = FeedForward::Kind::kDense,
                             .matrices = 3,
                             .width = fields.Size({"intermediate_size"})};
  FeedForward experts;
  if (std::find(moe.begin(), moe.end(), true) != moe.end()) experts = ReadExperts(fields, 3);
  if (!fields.status().ok()) return;
  for (int64_t i = 0; i < layers; ++i) {
    Layer layer;
    layer.small_params = 2 * model.hidden;
    if (i % period == offset % period) {
      layer.mixer = Mixer::kAttention;
      layer.attention = attention;
    } else {
      layer.mixer = Mixer::kMamba1;
      layer.mamba = m;
      // The terms are convolution, bias of the step, A, D, and Jamba's norms of step, B and C.
      layer.small_params += m.inner * (m.conv_kernel + (conv_bias ? 1 : 0)) + m.inner +
                            m.inner * m.state + m.inner + m.dt_rank + 2 * m.state;
      if (proj_bias) layer.small_params += 2 * m.inner + model.hidden;
    }
    layer.ffn = moe[static_cast<size_t>(i)] ? experts : dense;
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden;
}

// Gated delta-net layers with gated attention between them.
void ReadQwenHybrid(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model, false);
  Attention attention;
  attention.heads = fields.Size({"num_attention_heads"}, kMaxCount);
  attention.kv_heads = fields.SizeOr({"num_key_value_heads"}, attention.heads, kMaxCount);
  attention.qk_dim = attention.v_dim =
      fields.SizeOr({"head_dim"}, 256, kMaxCount);  // the class's default, not D/H
  attention.output_gate = fields.FlagOr({"attn_output_gate"}, true);
  DeltaNet n;
  n.key_heads = fields.Size({"linear_num_key_heads"}, kMaxCount);
  n.value_heads = fields.Size({"linear_num_value_heads"}, kMaxCount);
  n.key_dim = fields.SizeOr({"linear_key_head_dim"}, 128, kMaxCount);
  n.value_dim = fields.SizeOr({"linear_value_head_dim"}, 128, kMaxCount);
  n.conv_kernel = fields.SizeOr({"linear_conv_kernel_dim"}, 4, 64);
  if (n.key_width() > kMaxWidth)
    fields.Fail("linear_num_key_heads", "the keys are wider than 2^24");
  if (n.value_width() > kMaxWidth)
    fields.Fail("linear_num_value_heads", "the values are wider than 2^24");
  const std::vector<std::string> types = fields.Texts({"layer_types"});
  const int64_t interval = fields.SizeOr({"full_attention_interval"}, 4, kMaxLayers);
  if (!types.empty() && static_cast<int64_t>(types.size()) != layers) {
    fields.Fail("layer_types", fmt::format("{} entries for {} layers", types.size(), layers));
  }
  const std::vector<bool> moe = ReadMoeLayers(fields, layers);
  FeedForward experts, dense;
  if (std::find(moe.begin(), moe.end(), true) != moe.end()) experts = ReadExperts(fields, 3);
  experts.shared_gate = experts.shared_width > 0;
  if (std::find(moe.begin(), moe.end(), false) != moe.end()) {
    dense = {.kind = FeedForward::Kind::kDense,
             .matrices = 3,
             .width = fields.Size({"intermediate_size"})};
  }
  if (!fields.status().ok()) return;
  for (int64_t i = 0; i < layers; ++i) {
    const size_t at = static_cast<size_t>(i);
    const bool full = types.empty() ? (i + 1) % interval == 0 : types[at] == "full_attention";
    if (!full && !types.empty() && types[at] != "linear_attention") {
      fields.Fail("layer_types", "only full_attention and linear_attention are known here");
      return;
    }
    Layer layer;
    layer.small_params = 2 * model.hidden;
    if (full) {
      layer.mixer = Mixer::kAttention;
      layer.attention = attention;
      layer.small_params += 2 * attention.qk_dim;
    } else {
      layer.mixer = Mixer::kDeltaNet;
      layer.delta = n;
      layer.small_params +=
          n.conv_kernel * (2 * n.key_width() + n.value_width()) + 2 * n.value_heads + n.value_dim;
    }
    layer.ffn = moe[at] ? experts : dense;
    model.layers.push_back(layer);
  }
  model.small_params += model.hidden;
  model.mtp_depth =
      fields.CountOr({"mtp_num_hidden_layers", "num_nextn_predict_layers"}, 0, kMaxLayers);
}

}  // namespace flopwatch::models
