// Megatron-LM arguments to layers: one flat object of values under the names of the dump, read like
// a config. Facts: megatron/training/arguments.py and transformer_config.py of Megatron-LM d98e8a64
// (2026-08-22).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "models/read.h"
#include "models/readers/argument_text.h"
#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

// ---- values -> layers

// 1 where a layer has the property. An integer n or a list, as moe_layer_freq and
// linear_attention_freq are written.
std::vector<int64_t> Pattern(Fields& fields, std::string_view field, int64_t layers,
                             bool every_nth_lacks) {
  std::vector<int64_t> out(static_cast<size_t>(layers), 1);
  const Json* raw = fields.Raw({field});
  if (raw == nullptr) return out;
  if (const auto n = raw->integer()) {
    if (*n < 1 || *n > kMaxLayers)
      fields.Fail(field, fmt::format("{} is not a whole number from 1 to {}", *n, kMaxLayers));
    for (int64_t i = 0; i < layers && *n >= 1; ++i) {
      out[static_cast<size_t>(i)] = every_nth_lacks ? ((i + 1) % *n != 0) : (i % *n == 0);
    }
    return out;
  }
  std::string text = raw->text();
  std::erase_if(
      text, [](char c) { return c == '\'' || c == '"'; });  // quoted once more for a second shell
  const auto list = ParseListExpression(text);
  if (!list || static_cast<int64_t>(list->size()) != layers) {
    fields.Fail(
        field,
        fmt::format(
            "\"{}\" is neither a number nor a list of 0 and 1 for each of the {} layers, such as "
            "[0]*3+[1]*{}",
            Printable(raw->text(), 60), layers, std::max<int64_t>(layers - 3, 1)));
    return out;
  }
  return *list;
}

// Left keys of window_size "(127, 0)" or "127,0", itself added.
int64_t ReadWindow(Fields& fields) {
  const Json* raw = fields.Raw({"window_size"});
  if (raw == nullptr) return 0;
  std::string_view text;
  const std::string held = raw->text();
  text = held;
  while (!text.empty() && (text.front() == '(' || text.front() == '[' || text.front() == ' '))
    text.remove_prefix(1);
  int64_t left = raw->integer().value_or(-1);
  if (!raw->integer()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), left);
    if (error != std::errc()) left = -2;
  }
  if (left == -1) return 0;  // no bound
  if (left < 0 || left >= kMaxTokens) {
    fields.Fail("window_size", "expected (left, right), such as (127, 0)");
    return 0;
  }
  return left + 1;
}

class MegatronReader {
 public:
  MegatronReader(Fields& fields, Model& model) : f_(fields), m_(model) {}

  void Read() {
    m_.hidden = f_.Size({"hidden_size"});
    for (const std::string_view unread :
         {"heterogeneous_layers_config_path", "heterogeneous_layers_config_encoded_json",
          "attention_chunk_size", "decoder_num_layers"}) {
      if (f_.Has({unread})) f_.Fail(unread, "models of this kind are not read from arguments yet");
    }
    const std::string pattern = HybridPattern();
    const int64_t layers = pattern.empty() ? f_.Size({"num_layers"}, kMaxLayers)
                                           : static_cast<int64_t>(pattern.size());
    if (!pattern.empty() && f_.SizeOr({"num_layers"}, layers, kMaxLayers) != layers) {
      f_.Fail("hybrid_override_pattern",
              fmt::format("{} layers, but num_layers is {}", layers,
                          f_.SizeOr({"num_layers"}, layers, kMaxLayers)));
    }
    swiglu_ = f_.FlagOr({"swiglu"}, false) || f_.FlagOr({"gated_linear_unit"}, false);
    matrices_ = swiglu_ ? 3 : 2;
    bias_ = f_.FlagOr({"add_bias_linear"}, true) && !f_.FlagOr({"disable_bias_linear"}, false);
    norm_ = m_.hidden * (f_.TextOr({"normalization"}, "LayerNorm") == "RMSNorm" ? 1 : 2);
    Embedding();
    // 8/3 of the hidden size in steps of 64 where a gated MLP's width is not given, 4 times it
    // without a gate.
    const int64_t ffn =
        f_.SizeOr({"ffn_hidden_size"}, swiglu_ ? std::max<int64_t>(m_.hidden * 8 / 3 / 64 * 64, 1)
                                               : std::min(4 * m_.hidden, kMaxWidth));
    dense_ = {.kind = FeedForward::Kind::kDense, .matrices = matrices_, .width = ffn};
    if (f_.CountOr({"num_experts", "num_moe_experts"}, 0) > 0) Experts(ffn);
    if (f_.Has({"experimental_attention_variant"}) || f_.Has({"linear_attention_type"})) Variant();
    if (pattern.empty() || (pattern + mtp_pattern_).find('*') != std::string::npos) Attend();
    if (!f_.status().ok()) return;
    if (pattern.empty()) {
      Plain(layers);
    } else {
      Hybrid(pattern);
    }
    m_.small_params += norm_;
    m_.mtp_depth = f_.CountOr({"mtp_num_layers"}, std::min(mtp_modules_, kMaxLayers), kMaxLayers);
    m_.natural_length = f_.CountOr({"seq_length"}, 0, kMaxTokens);
  }

 private:
  std::string HybridPattern() {
    std::string pattern = f_.TextOr({"hybrid_override_pattern", "hybrid_layer_pattern"}, "");
    std::erase(pattern, '|');  // pipeline cuts
    // Behind each '/' stand the layers of one MTP module; all modules are alike.
    const size_t slash = pattern.find('/');
    if (slash != std::string::npos) {
      mtp_pattern_ = pattern.substr(slash + 1, pattern.find('/', slash + 1) - slash - 1);
      mtp_modules_ = std::count(pattern.begin(), pattern.end(), '/');
      pattern.resize(slash);
    }
    if (pattern.empty()) {
      // Without the pattern such a model would be read as attention in every layer.
      if (f_.FlagOr({"is_hybrid_model"}, false) ||
          f_.TextOr({"spec"}, "").find("mamba") != std::string::npos) {
        f_.Fail("hybrid_override_pattern", "missing, but the model is a hybrid one");
      }
      for (const std::string_view ratio : {"hybrid_attention_ratio", "hybrid_mlp_ratio"}) {
        const Json* raw = f_.Raw({ratio});
        if (raw != nullptr && raw->text() != "0.0" && raw->integer() != 0)
          f_.Fail(ratio, "give the layers as hybrid_override_pattern");
      }
    }
    return pattern;
  }

  void Embedding() {
    int64_t vocab = f_.CountOr({"padded_vocab_size"}, 0, kMaxVocab);
    if (vocab == 0) {
      if (!f_.Has({"vocab_size"})) {
        f_.Fail("vocab_size",
                "missing: Megatron-LM takes it from the tokenizer, so add --vocab-size N (or "
                "padded_vocab_size)");
        return;
      }
      const int64_t multiple = f_.SizeOr({"make_vocab_size_divisible_by"}, 128, kMaxCount) *
                               f_.SizeOr({"tensor_model_parallel_size"}, 1, 4096);
      vocab = f_.Size({"vocab_size"}, kMaxVocab);
      vocab = (vocab + multiple - 1) / multiple * multiple;
    }
    m_.vocab = vocab;
    m_.tied = !f_.FlagOr({"untie_embeddings_and_output_weights"}, false);
    m_.embedding_params = Int{vocab} * m_.hidden;
    m_.outer.push_back({.part = Part::kLmHead, .in = m_.hidden, .out = vocab, .stored = !m_.tied});
    const bool rotary = f_.FlagOr({"use_rotary_position_embeddings"}, false);
    if (f_.TextOr({"position_embedding_type"}, rotary ? "rope" : "learned_absolute") ==
            "learned_absolute" &&
        !rotary) {
      m_.position_params = Int{f_.CountOr({"max_position_embeddings"}, 0, kMaxTokens)} * m_.hidden;
    }
  }

  void Experts(int64_t ffn) {
    experts_ = {
        .kind = FeedForward::Kind::kMoe,
        .matrices = matrices_,
        .experts = f_.Size({"num_experts", "num_moe_experts"}, kMaxCount),
        .top_k = f_.SizeOr({"moe_router_topk"}, 2, kMaxCount),
        .expert_width = f_.SizeOr({"moe_ffn_hidden_size"}, ffn),
        .shared_width = f_.CountOr({"moe_shared_expert_intermediate_size"}, 0, kMaxWidth),
        .latent = f_.CountOr({"moe_latent_size"}, 0, kMaxWidth),
        .shared_gate = f_.FlagOr({"moe_use_shared_expert_gate", "moe_shared_expert_gate"}, false)};
    if (experts_.shared_width == 0) experts_.shared_gate = false;
    if (experts_.top_k > experts_.experts) {
      f_.Fail("moe_router_topk",
              fmt::format("{} of {} experts cannot be chosen", experts_.top_k, experts_.experts));
    }
  }

  void Variant() {
    const std::string variant =
        f_.TextOr({"experimental_attention_variant", "linear_attention_type"}, "");
    if (variant == "gated_delta_net") {
      delta_ = true;
      net_.key_heads = f_.SizeOr({"linear_num_key_heads"}, 16, kMaxCount);
      net_.value_heads = f_.SizeOr({"linear_num_value_heads"}, 32, kMaxCount);
      net_.key_dim = f_.SizeOr({"linear_key_head_dim"}, 128, kMaxCount);
      net_.value_dim = f_.SizeOr({"linear_value_head_dim"}, 128, kMaxCount);
      net_.conv_kernel = f_.SizeOr({"linear_conv_kernel_dim"}, 4, 64);
    } else if (!variant.empty()) {
      f_.Fail("experimental_attention_variant",
              fmt::format("\"{}\" is not counted yet; only gated_delta_net is",
                          Printable(variant, 40)));
    }
  }

  void Attend() {
    Attention& a = attention_.attention;
    a.heads = f_.Size({"num_attention_heads"}, kMaxCount);
    attention_.small_params = 0;
    if (f_.FlagOr({"multi_latent_attention"}, false)) {
      attention_.mixer = Mixer::kLatentAttention;
      LatentAttention& l = attention_.latent;
      l.q_rank = f_.CountOr({"q_lora_rank"}, 0, kMaxWidth);
      l.kv_rank = f_.SizeOr({"kv_lora_rank"}, 32);
      l.nope_dim = f_.SizeOr({"qk_head_dim"}, 128, kMaxCount);
      l.rope_dim = f_.SizeOr({"qk_pos_emb_head_dim"}, 64, kMaxCount);
      a.kv_heads = a.heads;
      a.qk_dim = l.nope_dim + l.rope_dim;
      a.v_dim = f_.SizeOr({"v_head_dim"}, 128, kMaxCount);
      if (f_.FlagOr({"qk_layernorm"}, false)) attention_.small_params += l.q_rank + l.kv_rank;
    } else {
      attention_.mixer = Mixer::kAttention;
      // num_query_groups counts only with group_query_attention.
      a.kv_heads = f_.FlagOr({"group_query_attention"}, false)
                       ? f_.SizeOr({"num_query_groups"}, 1, kMaxCount)
                       : a.heads;
      if (a.heads % a.kv_heads != 0)
        f_.Fail("num_query_groups",
                fmt::format("{} does not divide num_attention_heads = {}", a.kv_heads, a.heads));
      if (!f_.Has({"kv_channels"}) && m_.hidden % a.heads != 0) {
        f_.Fail("num_attention_heads",
                fmt::format("{} does not divide hidden_size = {}; give kv_channels", a.heads,
                            m_.hidden));
      }
      a.qk_dim = a.v_dim =
          f_.SizeOr({"kv_channels"}, std::max<int64_t>(m_.hidden / a.heads, 1), kMaxCount);
      if (f_.FlagOr({"qk_layernorm"}, false)) attention_.small_params += 2 * a.qk_dim;
      a.output_gate = f_.FlagOr({"attention_output_gate"}, false);
    }
    attention_.small_params +=
        AttentionBiases(m_, a, {.qkv = bias_ || f_.FlagOr({"add_qkv_bias"}, false), .out = bias_});
    window_ = ReadWindow(f_);
    skip_ = f_.CountOr({"window_attn_skip_freq"}, 0, kMaxLayers);
  }

  void AddFeedForward(const FeedForward& ffn, Layer* layer) const {
    layer->ffn = ffn;
    if (!bias_) return;
    if (ffn.kind == FeedForward::Kind::kDense)
      layer->small_params += (ffn.matrices - 1) * ffn.width + m_.hidden;
    if (ffn.kind == FeedForward::Kind::kMoe)
      layer->small_params_per_expert = (ffn.matrices - 1) * ffn.expert_width + m_.hidden;
  }

  void Plain(int64_t layers) {
    const std::vector<int64_t> moe = Pattern(f_, "moe_layer_freq", layers, false);
    const std::vector<int64_t> linear =
        delta_ ? Pattern(f_, "linear_attention_freq", layers, true) : std::vector<int64_t>();
    if (!f_.status().ok()) return;
    for (int64_t i = 0; i < layers; ++i) {
      const size_t at = static_cast<size_t>(i);
      Layer layer = attention_;
      if (delta_ && linear[at] != 0) {
        layer = Layer();
        layer.mixer = Mixer::kDeltaNet;
        layer.delta = net_;
        layer.small_params = net_.conv_kernel * (2 * net_.key_width() + net_.value_width()) +
                             2 * net_.value_heads + net_.value_dim;
      } else if (window_ > 0 && (skip_ == 0 || (i + 1) % skip_ != 0)) {
        layer.attention.window = window_;  // every skip-th layer attends fully
      }
      layer.small_params += 2 * norm_;
      AddFeedForward(experts_.experts > 0 && moe[at] != 0 ? experts_ : dense_, &layer);
      m_.layers.push_back(layer);
    }
  }

  void Hybrid(const std::string& pattern) {
    Mamba mamba;
    mamba.state = f_.SizeOr({"mamba_state_dim"}, 128, kMaxCount);
    mamba.groups = f_.SizeOr({"mamba_num_groups"}, 8, kMaxCount);
    const int64_t head = f_.SizeOr({"mamba_head_dim"}, 64, kMaxCount);
    mamba.heads =
        f_.SizeOr({"mamba_num_heads"}, std::max<int64_t>(2 * m_.hidden / head, 1), kMaxCount);
    mamba.inner = mamba.heads * head;
    mamba.conv_kernel = 4;
    mamba.chunk = f_.SizeOr({"mamba_chunk_size"}, 128, kMaxCount);
    if (mamba.inner > kMaxWidth) f_.Fail("mamba_num_heads", "heads times head size is above 2^24");
    const auto make = [&](char kind) {
      Layer layer;
      if (kind == 'M') {
        layer.mixer = Mixer::kMamba2;
        layer.mamba = mamba;
        layer.small_params =
            (mamba.inner + 2 * mamba.groups * mamba.state) * (mamba.conv_kernel + 1) +
            3 * mamba.heads + mamba.inner;
      } else if (kind == '*') {
        layer = attention_;
        layer.attention.window = window_;
      } else if (kind == '-') {
        AddFeedForward(dense_, &layer);
      } else {
        if (experts_.experts == 0)
          f_.Fail("num_experts", "missing, but the hybrid pattern has E layers");
        AddFeedForward(experts_, &layer);
      }
      layer.small_params += norm_;
      return layer;
    };
    m_.layers = ReadPattern(f_, "hybrid_override_pattern", pattern, make);
    m_.mtp_layers = ReadPattern(f_, "hybrid_override_pattern", mtp_pattern_, make);
  }

  Fields& f_;
  Model& m_;
  bool swiglu_ = false, bias_ = true, delta_ = false;
  int64_t matrices_ = 2, norm_ = 0, window_ = 0, skip_ = 0, mtp_modules_ = 0;
  std::string mtp_pattern_;
  FeedForward dense_, experts_;
  Layer attention_;
  DeltaNet net_;
};

}  // namespace

StatusOr<Model> ReadMegatronArguments(std::string_view text, std::string_view name,
                                      Json* arguments) {
  if (text.size() > kMaxConfigBytes) {
    return OutOfRange("{}: {} bytes are too many for arguments (at most {})", name, text.size(),
                      kMaxConfigBytes);
  }
  FW_ASSIGN_OR_RETURN(const Json object, ReadArguments(text, name));
  Fields fields(object, fmt::format("{}: ", name));
  Model model;
  model.name = std::string(name);
  model.model_type = "megatron";
  MegatronReader(fields, model).Read();
  FW_RETURN_IF_ERROR(fields.status());
  if (arguments != nullptr) *arguments = object;
  return model;
}

}  // namespace flopwatch::models
