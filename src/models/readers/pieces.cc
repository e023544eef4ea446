#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "models/readers/families.h"

namespace flopwatch::models {

int64_t ReadLayerCount(Fields& fields) {
  return fields.Size({"num_hidden_layers", "n_layer", "num_layers", "n_layers"}, kMaxLayers);
}

std::vector<Layer> ReadPattern(Fields& fields, std::string_view field, std::string_view pattern,
                               const std::function<Layer(char)>& make) {
  std::vector<Layer> layers;
  if (pattern.size() > kMaxLayers) {
    fields.Fail(field, fmt::format("longer than {} layers", kMaxLayers));
    return layers;
  }
  for (const char kind : pattern) {
    if (std::string_view("M*-E").find(kind) == std::string_view::npos) {
      fields.Fail(field, fmt::format("the letter '{}' is not known: M, *, - or E",
                                     kind > ' ' && kind <= '~' ? kind : '?'));
      return layers;
    }
    layers.push_back(make(kind));
  }
  return layers;
}

Attention ReadAttention(Fields& fields, const Model& model) {
  Attention a;
  a.heads = fields.Size({"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMaxCount);
  a.kv_heads = fields.SizeOr({"num_key_value_heads", "n_head_kv"}, a.heads, kMaxCount);
  if (a.heads % a.kv_heads != 0) {
    fields.Fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads = {}", a.kv_heads, a.heads));
  }
  if (!fields.Has({"head_dim", "attention_head_dim"}) && model.hidden % a.heads != 0) {
    fields.Fail(
        "head_dim",
        fmt::format("missing, and num_attention_heads = {} does not divide hidden_size = {}",
                    a.heads, model.hidden));
  }
  a.qk_dim = a.v_dim = fields.SizeOr({"head_dim", "attention_head_dim"},
                                     std::max<int64_t>(1, model.hidden / a.heads));
  return a;
}

int64_t AttentionBiases(const Model& model, const Attention& a, Biases biases) {
  return (biases.qkv ? a.heads * a.qk_dim + a.kv_heads * (a.qk_dim + a.v_dim) : 0) +
         (biases.out ? model.hidden : 0);
}

std::vector<int64_t> ReadWindows(Fields& fields, const Model& model, int64_t layers,
                                 int64_t default_period, bool first_is_sliding) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  // Serving presets write sliding_window_size, and leave sliding_window out where it is null.
  const bool preset = fields.Has({"sliding_window_size"}) && !fields.Written("sliding_window");
  const int64_t window = preset ? 0 : fields.CountOr({"sliding_window"}, 0, kMaxTokens);
  const std::vector<std::string> types = fields.Texts({"layer_types"});
  // Qwen2 ships sliding_window with use_sliding_window = false: the flag decides, and its class's
  // default is false.
  if (!fields.FlagOr({"use_sliding_window"}, !model.model_type.starts_with("qwen"))) return windows;
  if (!types.empty()) {
    if (static_cast<int64_t>(types.size()) != layers) {
      fields.Fail("layer_types", fmt::format("{} entries for {} layers", types.size(), layers));
      return windows;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "sliding_attention") {
        if (window == 0) {
          fields.Fail("sliding_window", "missing, but layer_types has sliding_attention");
          return windows;
        }
        windows[i] = window;
      } else if (types[i] != "full_attention" && types[i] != "linear_attention" &&
                 types[i] != "chunked_attention") {
        fields.Fail(
            "layer_types",
            fmt::format(
                "\"{}\" is not known: full_attention, sliding_attention, chunked_attention or "
                "linear_attention",
                Printable(types[i], 40)));
        return windows;
      }
    }
    return windows;
  }
  if (window == 0) return windows;
  const int64_t period = fields.CountOr({"sliding_window_pattern", "_sliding_window_pattern"},
                                        default_period, kMaxLayers);
  // Qwen2 and Qwen3: the first max_window_layers layers are full.
  const bool windows_late = model.model_type.starts_with("qwen");
  const int64_t full_first =
      windows_late ? fields.CountOr({"max_window_layers"}, 0, kMaxLayers) : 0;
  for (int64_t i = 0; i < layers; ++i) {
    const bool full =
        period > 1 ? (first_is_sliding ? (i + 1) % period == 0 : i % period == 0) : i < full_first;
    if (!full) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

bool HasExperts(Fields& fields) {
  return fields.CountOr({"num_experts", "num_local_experts", "n_routed_experts"}, 0) > 0;
}

std::vector<bool> ReadMoeLayers(Fields& fields, int64_t layers) {
  std::vector<bool> moe(static_cast<size_t>(layers), false);
  if (!HasExperts(fields)) return moe;
  const int64_t first_dense = fields.CountOr({"first_k_dense_replace"}, 0, kMaxLayers);
  const int64_t sparse_step =
      fields.SizeOr({"decoder_sparse_step", "interleave_moe_layer_step"}, 1, kMaxLayers);
  const std::vector<int64_t> dense_layers = fields.Integers({"mlp_only_layers"}, kMaxLayers);
  const int64_t period = fields.SizeOr({"expert_layer_period"}, 1, kMaxLayers);
  const int64_t offset = fields.CountOr({"expert_layer_offset"}, 0, kMaxLayers);
  const Json* raw = fields.Raw({"moe_layer_freq"});
  std::vector<int64_t> pattern;
  int64_t frequency = 1;
  if (raw != nullptr && raw->is_array()) {
    pattern = fields.Integers({"moe_layer_freq"}, 1);
    if (static_cast<int64_t>(pattern.size()) != layers) {
      fields.Fail("moe_layer_freq",
                  fmt::format("{} entries for {} layers", pattern.size(), layers));
      return moe;
    }
  } else {
    frequency = fields.SizeOr({"moe_layer_freq"}, 1, kMaxLayers);
  }
  if (const std::vector<std::string> kinds = fields.Texts({"mlp_layer_types"}); !kinds.empty()) {
    if (static_cast<int64_t>(kinds.size()) != layers) {
      fields.Fail("mlp_layer_types", fmt::format("{} entries for {} layers", kinds.size(), layers));
      return moe;
    }
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] != "sparse" && kinds[i] != "dense") {
        fields.Fail("mlp_layer_types",
                    fmt::format("\"{}\" is not known: dense or sparse", Printable(kinds[i], 40)));
      }
      moe[i] = kinds[i] == "sparse";
    }
    return moe;
  }
  const Json* listed = fields.Raw({"moe_layers"});
  const std::vector<int64_t> moe_layers =
      listed != nullptr ? fields.Integers({"moe_layers"}, layers - 1) : std::vector<int64_t>();
  for (int64_t i = 0; i < layers; ++i) {
    bool is = i >= first_dense && (i + 1) % sparse_step == 0 && i % period == offset % period &&
              i % frequency == 0;
    if (!pattern.empty()) is = pattern[static_cast<size_t>(i)] != 0;
    if (listed != nullptr)
      is = std::find(moe_layers.begin(), moe_layers.end(), i) != moe_layers.end();
    if (std::find(dense_layers.begin(), dense_layers.end(), i) != dense_layers.end()) is = false;
    moe[static_cast<size_t>(i)] = is;
  }
  return moe;
}

FeedForward ReadExperts(Fields& fields, int64_t matrices) {
  FeedForward f;
  f.kind = FeedForward::Kind::kMoe;
  f.matrices = matrices;
  f.experts = fields.Size({"num_experts", "num_local_experts", "n_routed_experts"}, kMaxCount);
  f.top_k = fields.Size({"num_experts_per_tok", "experts_per_token", "top_k_experts"}, kMaxCount);
  if (f.top_k > f.experts) {
    fields.Fail("num_experts_per_tok",
                fmt::format("{} of {} experts cannot be chosen", f.top_k, f.experts));
  }
  f.expert_width = fields.Has({"moe_intermediate_size"}) ? fields.Size({"moe_intermediate_size"})
                                                         : fields.Size({"intermediate_size"});
  f.latent = fields.CountOr({"moe_latent_size"}, 0, kMaxWidth);
  // Shared experts: a count of the experts' width, or a width of their own.
  const int64_t shared = fields.CountOr({"n_shared_experts", "num_shared_experts"}, 0);
  const int64_t width = fields.CountOr(
      {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"}, 0, kMaxWidth);
  f.shared_width = width > 0 ? width : shared * f.expert_width;
  if (f.shared_width > kMaxWidth)
    fields.Fail("n_shared_experts",
                fmt::format("{} shared experts of width {} are too wide", shared, f.expert_width));
  return f;
}

void SetEmbedding(Fields& fields, Model& model) {
  model.vocab = fields.Size({"vocab_size"}, kMaxVocab);
  model.tied = fields.FlagOr({"tie_word_embeddings", "tie_embeddings"}, false);
  model.embedding_params = Int{model.vocab} * model.hidden;
  model.outer.push_back(
      {.part = Part::kLmHead, .in = model.hidden, .out = model.vocab, .stored = !model.tied});
}

}  // namespace flopwatch::models
