// Models that mix attention with recurrent layers: Mamba-2, Nemotron-H, Jamba, Qwen3-Next, Qwen3.5.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

// Convolution with bias, the decay, skip and step of every head, the gated norm.
int64_t Mamba2SmallParams(const Mamba& m, bool conv_bias) {
  const int64_t channels = m.inner + 2 * m.groups * m.state;
  return channels * (m.conv_kernel + (conv_bias ? 1 : 0)) + 3 * m.heads + m.inner;
}

// The list that newer releases write in place of a pattern, with the older names of its kinds.
std::string ReadBlockList(Fields& fields, std::string_view field) {
  std::string out;
  for (const std::string& kind : fields.Texts({field})) {
    if (kind == "linear_attention" || kind == "mamba") {
      out += 'M';
    } else if (kind == "full_attention" || kind == "attention") {
      out += '*';
    } else if (kind == "mlp") {
      out += '-';
    } else if (kind == "moe") {
      out += 'E';
    } else {
      fields.Fail(field, fmt::format("\"{}\" is not known: linear_attention, full_attention, mlp "
                                     "or moe",
                                     Printable(kind, 40)));
      break;
    }
  }
  return out;
}

void CheckInner(Fields& fields, int64_t inner) {
  if (inner > kMaxWidth)
    fields.Fail("expand", fmt::format("the inner width {} is above {}", inner, kMaxWidth));
}

}  // namespace

void ReadMamba2(Fields& fields, Model& model) {
  model.hidden = fields.Size({"d_model", "hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model);
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
  // state-spaces' config keeps the mixer's sizes in an object of their own.
  const Json none;
  const Json* nested = fields.Raw({"ssm_cfg"});
  Fields inner(nested == nullptr ? none : *nested, fields.where() + "ssm_cfg.");
  if (const std::string kind = inner.TextOr({"layer"}, "Mamba2"); kind != "Mamba2")
    inner.Fail("layer", fmt::format("\"{}\" is not Mamba2", Printable(kind, 40)));
  const auto size = [&](Fields::Names names, int64_t max) {
    return inner.Has(names) ? inner.Size(names, max) : fields.Size(names, max);
  };
  m.inner = size({"expand"}, 64) * model.hidden;
  CheckInner(fields, m.inner);
  m.state = size({"d_state", "state_size"}, kMaxCount);
  m.groups = size({"ngroups", "n_groups"}, kMaxCount);
  const int64_t head = size({"headdim", "head_dim"}, kMaxCount);
  m.heads = m.inner / head;
  if (m.inner % head != 0)
    fields.Fail("headdim", fmt::format("{} does not divide the inner width {}", head, m.inner));
  m.conv_kernel = size({"d_conv", "conv_kernel"}, 64);
  m.chunk = size({"chunk_size"}, kMaxCount);
  fields.Take(inner.status());
  layer.small_params = model.hidden + Mamba2SmallParams(m, true);
  model.small_params += model.hidden;
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

void ReadNemotronH(Fields& fields, Model& model) {
  model.hidden = fields.Size({"hidden_size"});
  SetEmbedding(fields, model);
  const std::string listed = ReadBlockList(fields, "layers_block_type");
  const std::string pattern =
      listed.empty() ? fields.TextOr({"hybrid_override_pattern"}, "") : listed;
  if (pattern.empty())
    fields.Fail("hybrid_override_pattern",
                "missing: one letter a layer, M Mamba-2, * attention, - MLP, E experts");
  const std::string listed_mtp = ReadBlockList(fields, "mtp_layers_block_type");
  const std::string mtp =
      listed_mtp.empty() ? fields.TextOr({"mtp_hybrid_override_pattern"}, "") : listed_mtp;
  const std::string kinds = pattern + mtp;
  const int64_t layers =
      fields.SizeOr({"num_hidden_layers"}, static_cast<int64_t>(pattern.size()), kMaxLayers);
  if (layers != static_cast<int64_t>(pattern.size())) {
    fields.Fail("hybrid_override_pattern",
                fmt::format("{} letters for num_hidden_layers = {}", pattern.size(), layers));
  }
  Mamba m;
  m.state = fields.Size({"ssm_state_size"}, kMaxCount);
  // The names that the class takes from configs of older releases come first.
  m.groups = fields.Size({"mamba_n_groups", "n_groups"}, kMaxCount);
  m.heads = fields.Size({"mamba_num_heads"}, kMaxCount);
  m.inner = m.heads * fields.Size({"mamba_head_dim"}, kMaxCount);
  CheckInner(fields, m.inner);
  m.conv_kernel = fields.Size({"mamba_d_conv", "conv_kernel"}, 64);
  m.chunk = fields.Size({"mamba_chunk_size", "chunk_size"}, kMaxCount);
  const bool conv_bias = fields.FlagOr({"mamba_conv_bias", "use_conv_bias"}, true);
  Attention attention;
  if (kinds.find('*') != std::string::npos) attention = ReadAttention(fields, model);
  const std::string act = fields.TextOr({"mlp_hidden_act"}, "");
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
  SetEmbedding(fields, model);
  const Attention attention = ReadAttention(fields, model);
  const int64_t period = fields.Size({"attn_layer_period"}, kMaxLayers);
  const int64_t offset = fields.CountOr({"attn_layer_offset"}, 0, kMaxLayers);
  Mamba m;
  m.inner = fields.Size({"mamba_expand"}, 64) * model.hidden;
  CheckInner(fields, m.inner);
  m.state = fields.Size({"mamba_d_state"}, kMaxCount);
  const Json* rank = fields.Raw({"mamba_dt_rank"});
  const bool automatic = rank == nullptr || rank->text() == "auto";
  m.dt_rank = automatic ? (model.hidden + 15) / 16 : fields.Size({"mamba_dt_rank"});
  m.conv_kernel = fields.Size({"mamba_d_conv"}, 64);
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
  SetEmbedding(fields, model);
  Attention attention;
  attention.heads = fields.Size({"num_attention_heads"}, kMaxCount);
  attention.kv_heads = fields.SizeOr({"num_key_value_heads"}, attention.heads, kMaxCount);
  attention.qk_dim = attention.v_dim =
      fields.Size({"head_dim"}, kMaxCount);  // the class's default, not D/H
  attention.output_gate = fields.FlagOr({"attn_output_gate"}, true);
  DeltaNet n;
  n.key_heads = fields.Size({"linear_num_key_heads"}, kMaxCount);
  n.value_heads = fields.Size({"linear_num_value_heads"}, kMaxCount);
  n.key_dim = fields.Size({"linear_key_head_dim"}, kMaxCount);
  n.value_dim = fields.Size({"linear_value_head_dim"}, kMaxCount);
  n.conv_kernel = fields.Size({"linear_conv_kernel_dim"}, 64);
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
