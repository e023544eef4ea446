// Megatron-LM arguments: the command line, or the dump at the head of a training log. Both become one flat object of values
// under the names of the dump (underscores), which the rest reads like a config. Facts: megatron/training/arguments.py and
// transformer_config.py of Megatron-LM d98e8a64 (2026-08-22).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "models/read.h"
#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

constexpr size_t kMaxArguments = 8192;
constexpr int kMaxExpressionDepth = 8;

// ---- a list written as Python writes it: [0]*3+[1]*58, ([0,1])*2. Only 0 and 1, at most kMaxLayers of them.

class ListExpression {
 public:
  explicit ListExpression(std::string_view text) : text_(text) {}
  std::optional<std::vector<int64_t>> Parse() {
    auto out = Sum(0);
    if (!out || !Rest().empty()) return std::nullopt;
    return out;
  }

 private:
  using List = std::vector<int64_t>;
  std::string_view Rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  bool Take(char c) {
    if (Rest().empty() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<int64_t> Number() {
    const std::string_view rest = Rest();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || value < 0 || value > kMaxLayers) return std::nullopt;
    at_ += static_cast<size_t>(end - rest.data());
    return value;
  }
  std::optional<List> Atom(int depth) {
    if (depth > kMaxExpressionDepth) return std::nullopt;
    if (Take('(')) {
      auto inner = Sum(depth + 1);
      if (!inner || !Take(')')) return std::nullopt;
      return inner;
    }
    if (!Take('[')) return std::nullopt;
    List out;
    while (!Take(']')) {
      if (!out.empty() && !Take(',')) return std::nullopt;
      if (Take(']')) break;
      const auto value = Number();
      if (!value || *value > 1 || out.size() >= kMaxLayers) return std::nullopt;
      out.push_back(*value);
    }
    return out;
  }
  std::optional<List> Product(int depth) {
    auto list = Atom(depth);
    while (list && Take('*')) {
      const auto times = Number();
      if (!times || list->size() * static_cast<size_t>(*times) > kMaxLayers) return std::nullopt;
      List repeated;
      for (int64_t i = 0; i < *times; ++i) repeated.insert(repeated.end(), list->begin(), list->end());
      list = std::move(repeated);
    }
    return list;
  }
  std::optional<List> Sum(int depth) {
    auto list = Product(depth);
    while (list && Take('+')) {
      const auto more = Product(depth);
      if (!more || list->size() + more->size() > kMaxLayers) return std::nullopt;
      list->insert(list->end(), more->begin(), more->end());
    }
    return list;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// ---- text -> values

Json ValueOf(std::string_view text) {
  Json out;
  if (text == "True" || text == "true") {
    out.value_ = true;
  } else if (text == "False" || text == "false") {
    out.value_ = false;
  } else if (text == "None" || text == "null" || text.empty()) {
    return out;
  } else {
    int64_t integer = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (error == std::errc() && end == text.data() + text.size()) {
      out.value_ = integer;
    } else {
      out.value_ = std::string(text);
    }
  }
  return out;
}

std::string WithUnderscores(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// "  num_layers ........... 32" anywhere in a line; launchers put ranks and times before it.
bool DumpLine(std::string_view line, std::string* name, std::string* value) {
  const size_t dots = line.find(" ...");
  if (dots == std::string_view::npos) return false;
  size_t after = line.find_first_not_of('.', dots + 1);
  if (after == std::string_view::npos || line[after] != ' ') return false;
  const std::string_view before = line.substr(0, dots);
  const size_t start = before.find_last_of(" \t:]");
  *name = std::string(before.substr(start == std::string_view::npos ? 0 : start + 1));
  std::string_view rest = line.substr(after);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\r')) rest.remove_suffix(1);
  *value = std::string(rest);
  return !name->empty() && name->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == '#' && !in_word) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;  // a comment of the shell
    } else if (c == '\\' && i + 1 < text.size() && (text[i + 1] == '\n' || text[i + 1] == '\r')) {
      continue;  // a shell line goes on
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (in_word) out.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) out.push_back(std::move(word));
  return out;
}

bool IsOption(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

StatusOr<Json> Arguments(std::string_view text, std::string_view name) {
  Json::Object object;
  const auto set = [&](std::string key, Json value) {
    for (auto& [known, old] : object) {
      if (known == key) {
        old = std::move(value);  // the last one counts, as in argparse
        return;
      }
    }
    object.emplace_back(std::move(key), std::move(value));
  };
  const Status too_many = absl::InvalidArgumentError(fmt::format("{}: more than {} arguments", name, kMaxArguments));
  bool dump = false;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string key, value;
    if (DumpLine(text.substr(start, end - start), &key, &value)) {
      dump = true;
      set(key, ValueOf(value));
      if (object.size() > kMaxArguments) return too_many;
    }
    start = end + 1;
  }
  if (!dump) {
    const std::vector<std::string> words = Words(text);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!IsOption(words[i])) continue;
      std::string_view word = std::string_view(words[i]).substr(2);
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos) {
        set(WithUnderscores(word.substr(0, equals)), ValueOf(word.substr(equals + 1)));
      } else if (i + 1 < words.size() && !IsOption(words[i + 1]) && words[i + 1] != ")") {
        set(WithUnderscores(word), ValueOf(words[i + 1]));
      } else {
        Json yes;
        yes.value_ = true;
        set(WithUnderscores(word), std::move(yes));
      }
      if (object.size() > kMaxArguments) return too_many;
    }
  }
  if (object.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: neither a config.json (an object) nor Megatron-LM arguments (--num-layers 32 ..., or a log's \"num_layers ..... 32\")",
        name));
  }
  Json out;
  out.value_ = std::move(object);
  return out;
}

// ---- values -> layers

// 1 where a layer has the property. An integer n or a list, as moe_layer_freq and linear_attention_freq are written.
std::vector<int64_t> Pattern(Fields& fields, std::string_view field, int64_t layers, bool every_nth_lacks) {
  std::vector<int64_t> out(static_cast<size_t>(layers), 1);
  const Json* raw = fields.Raw({field});
  if (raw == nullptr) return out;
  if (const auto n = raw->integer()) {
    if (*n < 1 || *n > kMaxLayers) fields.Fail(field, fmt::format("{} is not a whole number from 1 to {}", *n, kMaxLayers));
    for (int64_t i = 0; i < layers && *n >= 1; ++i) {
      out[static_cast<size_t>(i)] = every_nth_lacks ? ((i + 1) % *n != 0) : (i % *n == 0);
    }
    return out;
  }
  std::string text = raw->text();
  std::erase_if(text, [](char c) { return c == '\'' || c == '"'; });  // quoted once more for a second shell
  const auto list = ListExpression(text).Parse();
  if (!list || static_cast<int64_t>(list->size()) != layers) {
    fields.Fail(field, fmt::format("\"{}\" is neither a number nor a list of 0 and 1 for each of the {} layers, such as "
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
  while (!text.empty() && (text.front() == '(' || text.front() == '[' || text.front() == ' ')) text.remove_prefix(1);
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
    const std::string pattern = HybridPattern();
    const int64_t layers =
        pattern.empty() ? f_.Size({"num_layers"}, kMaxLayers) : static_cast<int64_t>(pattern.size());
    if (!pattern.empty() && f_.SizeOr({"num_layers"}, layers, kMaxLayers) != layers) {
      f_.Fail("hybrid_override_pattern", fmt::format("{} layers, but num_layers is {}", layers, f_.SizeOr({"num_layers"}, layers, kMaxLayers)));
    }
    swiglu_ = f_.FlagOr({"swiglu"}, false) || f_.FlagOr({"gated_linear_unit"}, false);
    matrices_ = swiglu_ ? 3 : 2;
    bias_ = f_.FlagOr({"add_bias_linear"}, true) && !f_.FlagOr({"disable_bias_linear"}, false);
    norm_ = m_.hidden * (f_.TextOr({"normalization"}, "LayerNorm") == "RMSNorm" ? 1 : 2);
    Embedding();
    // 8/3 of the hidden size in steps of 64 where a gated MLP's width is not given, 4 times it without a gate.
    const int64_t ffn = f_.SizeOr({"ffn_hidden_size"}, swiglu_ ? std::max<int64_t>(m_.hidden * 8 / 3 / 64 * 64, 1) : std::min(4 * m_.hidden, kMaxWidth));
    dense_ = {.kind = FeedForward::Kind::kDense, .matrices = matrices_, .width = ffn};
    if (f_.CountOr({"num_experts", "num_moe_experts"}, 0) > 0) Experts(ffn);
    if (f_.Has({"experimental_attention_variant"}) || f_.Has({"linear_attention_type"})) Variant();
    if (pattern.empty() || pattern.find('*') != std::string::npos) Attend();
    if (!f_.status().ok()) return;
    if (pattern.empty()) {
      Plain(layers);
    } else {
      Hybrid(pattern);
    }
    m_.small_params += norm_;
    m_.mtp_depth = f_.CountOr({"mtp_num_layers"}, 0, kMaxLayers);
    m_.natural_length = f_.CountOr({"seq_length"}, 0, kMaxTokens);
  }

 private:
  std::string HybridPattern() {
    std::string pattern = f_.TextOr({"hybrid_override_pattern", "hybrid_layer_pattern"}, "");
    pattern = pattern.substr(0, pattern.find('/'));  // behind it: the MTP modules' layers
    pattern.erase(std::remove(pattern.begin(), pattern.end(), '|'), pattern.end());  // pipeline cuts
    if (pattern.size() > kMaxLayers) {
      f_.Fail("hybrid_override_pattern", fmt::format("longer than {} layers", kMaxLayers));
      return "";
    }
    if (pattern.empty()) {
      for (const std::string_view ratio : {"hybrid_attention_ratio", "hybrid_mlp_ratio"}) {
        const Json* raw = f_.Raw({ratio});
        if (raw != nullptr && raw->text() != "0.0" && raw->integer() != 0) f_.Fail(ratio, "give the layers as hybrid_override_pattern");
      }
    }
    return pattern;
  }

  void Embedding() {
    int64_t vocab = f_.CountOr({"padded_vocab_size"}, 0, kMaxVocab);
    if (vocab == 0) {
      if (!f_.Has({"vocab_size"})) {
        f_.Fail("vocab_size", "missing: Megatron-LM takes it from the tokenizer, so add --vocab-size N (or padded_vocab_size)");
        return;
      }
      const int64_t multiple = f_.SizeOr({"make_vocab_size_divisible_by"}, 128, kMaxCount) * f_.SizeOr({"tensor_model_parallel_size"}, 1, 4096);
      vocab = f_.Size({"vocab_size"}, kMaxVocab);
      vocab = (vocab + multiple - 1) / multiple * multiple;
    }
    m_.vocab = vocab;
    m_.tied = !f_.FlagOr({"untie_embeddings_and_output_weights"}, false);
    m_.embedding_params = Int{vocab} * m_.hidden;
    m_.outer.push_back({.part = Part::kLmHead, .in = m_.hidden, .out = vocab, .stored = !m_.tied});
    const bool rotary = f_.FlagOr({"use_rotary_position_embeddings"}, false);
    if (f_.TextOr({"position_embedding_type"}, rotary ? "rope" : "learned_absolute") == "learned_absolute" && !rotary) {
      m_.position_params = Int{f_.CountOr({"max_position_embeddings"}, 0, kMaxTokens)} * m_.hidden;
    }
  }

  void Experts(int64_t ffn) {
    experts_ = {.kind = FeedForward::Kind::kMoe,
                .matrices = matrices_,
                .experts = f_.Size({"num_experts", "num_moe_experts"}, kMaxCount),
                .top_k = f_.SizeOr({"moe_router_topk"}, 2, kMaxCount),
                .expert_width = f_.SizeOr({"moe_ffn_hidden_size"}, ffn),
                .shared_width = f_.CountOr({"moe_shared_expert_intermediate_size"}, 0, kMaxWidth),
                .latent = f_.CountOr({"moe_latent_size"}, 0, kMaxWidth),
                .shared_gate = f_.FlagOr({"moe_use_shared_expert_gate", "moe_shared_expert_gate"}, false)};
    if (experts_.shared_width == 0) experts_.shared_gate = false;
    if (experts_.top_k > experts_.experts) {
      f_.Fail("moe_router_topk", fmt::format("{} of {} experts cannot be chosen", experts_.top_k, experts_.experts));
    }
  }

  void Variant() {
    const std::string variant = f_.TextOr({"experimental_attention_variant", "linear_attention_type"}, "");
    if (variant == "gated_delta_net") {
      delta_ = true;
      net_.key_heads = f_.SizeOr({"linear_num_key_heads"}, 16, kMaxCount);
      net_.value_heads = f_.SizeOr({"linear_num_value_heads"}, 32, kMaxCount);
      net_.key_dim = f_.SizeOr({"linear_key_head_dim"}, 128, kMaxCount);
      net_.value_dim = f_.SizeOr({"linear_value_head_dim"}, 128, kMaxCount);
      net_.conv_kernel = f_.SizeOr({"linear_conv_kernel_dim"}, 4, 64);
    } else if (!variant.empty()) {
      f_.Fail("experimental_attention_variant", fmt::format("\"{}\" is not counted yet; only gated_delta_net is", Printable(variant, 40)));
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
      a.kv_heads = f_.FlagOr({"group_query_attention"}, false) ? f_.SizeOr({"num_query_groups"}, 1, kMaxCount) : a.heads;
      if (a.heads % a.kv_heads != 0) f_.Fail("num_query_groups", fmt::format("{} does not divide num_attention_heads = {}", a.kv_heads, a.heads));
      if (!f_.Has({"kv_channels"}) && m_.hidden % a.heads != 0) {
        f_.Fail("num_attention_heads", fmt::format("{} does not divide hidden_size = {}; give kv_channels", a.heads, m_.hidden));
      }
      a.qk_dim = a.v_dim = f_.SizeOr({"kv_channels"}, std::max<int64_t>(m_.hidden / a.heads, 1), kMaxCount);
      if (f_.FlagOr({"qk_layernorm"}, false)) attention_.small_params += 2 * a.qk_dim;
      a.output_gate = f_.FlagOr({"attention_output_gate"}, false);
    }
    attention_.small_params += AttentionBiases(m_, a, {.qkv = bias_ || f_.FlagOr({"add_qkv_bias"}, false), .out = bias_});
    window_ = ReadWindow(f_);
    skip_ = f_.CountOr({"window_attn_skip_freq"}, 0, kMaxLayers);
  }

  void AddFeedForward(const FeedForward& ffn, Layer* layer) const {
    layer->ffn = ffn;
    if (!bias_) return;
    if (ffn.kind == FeedForward::Kind::kDense) layer->small_params += (ffn.matrices - 1) * ffn.width + m_.hidden;
    if (ffn.kind == FeedForward::Kind::kMoe) layer->small_params_per_expert = (ffn.matrices - 1) * ffn.expert_width + m_.hidden;
  }

  void Plain(int64_t layers) {
    const std::vector<int64_t> moe = Pattern(f_, "moe_layer_freq", layers, false);
    const std::vector<int64_t> linear = delta_ ? Pattern(f_, "linear_attention_freq", layers, true) : std::vector<int64_t>();
    if (!f_.status().ok()) return;
    for (int64_t i = 0; i < layers; ++i) {
      const size_t at = static_cast<size_t>(i);
      Layer layer = attention_;
      if (delta_ && linear[at] != 0) {
        layer = Layer();
        layer.mixer = Mixer::kDeltaNet;
        layer.delta = net_;
        layer.small_params = net_.conv_kernel * (2 * net_.key_width() + net_.value_width()) + 2 * net_.value_heads + net_.value_dim;
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
    mamba.heads = f_.SizeOr({"mamba_num_heads"}, std::max<int64_t>(2 * m_.hidden / head, 1), kMaxCount);
    mamba.inner = mamba.heads * head;
    mamba.conv_kernel = 4;
    mamba.chunk = f_.SizeOr({"mamba_chunk_size"}, 128, kMaxCount);
    if (mamba.inner > kMaxWidth) f_.Fail("mamba_num_heads", "heads times head size is above 2^24");
    for (const char kind : pattern) {
      if (!f_.status().ok()) return;
      Layer layer;
      switch (kind) {
        case 'M':
          layer.mixer = Mixer::kMamba2;
          layer.mamba = mamba;
          layer.small_params = (mamba.inner + 2 * mamba.groups * mamba.state) * (mamba.conv_kernel + 1) + 3 * mamba.heads + mamba.inner;
          break;
        case '*':
          layer = attention_;
          layer.attention.window = window_;
          break;
        case '-':
          AddFeedForward(dense_, &layer);
          break;
        case 'E':
          if (experts_.experts == 0) f_.Fail("num_experts", "missing, but the hybrid pattern has E layers");
          AddFeedForward(experts_, &layer);
          break;
        default:
          f_.Fail("hybrid_override_pattern",
                  fmt::format("the letter '{}' is not known: M, *, - or E", kind > ' ' && kind <= '~' ? kind : '?'));
      }
      layer.small_params += norm_;
      m_.layers.push_back(layer);
    }
  }

  Fields& f_;
  Model& m_;
  bool swiglu_ = false, bias_ = true, delta_ = false;
  int64_t matrices_ = 2, norm_ = 0, window_ = 0, skip_ = 0;
  FeedForward dense_, experts_;
  Layer attention_;
  DeltaNet net_;
};

}  // namespace

StatusOr<Model> ReadMegatronArguments(std::string_view text, std::string_view name, Json* arguments) {
  if (text.size() > kMaxConfigBytes) {
    return absl::OutOfRangeError(fmt::format("{}: {} bytes are too many for arguments (at most {})", name, text.size(), kMaxConfigBytes));
  }
  FW_ASSIGN_OR_RETURN(const Json object, Arguments(text, name));
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
