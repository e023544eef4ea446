// Attention: the two products Q K^T and P V (backward: five, one of which repeats the scores).
//   forward   2 * B * H * P * (Dq + Dv)        backward  2 * B * H * P * (3 Dq + 2 Dv)
// H counts the query's heads: sharing keys among them (GQA) saves memory, not products. P is the
// number of score pairs of a head: all of them, or what a causal mask or a window leaves, exactly
// (Sq(Sq+1)/2 where Sq = Sk). PyTorch's causal mask starts at the first key, flash-attn's own ends
// at the last. A mask given as a tensor is counted as if it hid nothing. Packed sequences have
// their lengths in the values of a tensor, which no trace holds.
#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kNoAttention = "the recorded sizes do not fit an attention";

enum class Layout : uint8_t { kHeadsFirst, kTokensFirst };  // [B, H, S, D], [B, S, H, D]
enum class Align : uint8_t { kFirstKey, kLastKey };

// Where a variant keeps its arguments; -1 = it has none.
struct Variant {
  size_t q = 0;  // key and value follow
  Layout layout = Layout::kHeadsFirst;
  Align align = Align::kFirstKey;
  int window = -1;  // its left bound; the right one follows
  int causal = -1, mask = -1, packed_q = -1, custom_mask = -1;
  bool backward = false;
};

struct Heads {
  int64_t batch = 1, heads = 0, queries = 0, keys = 0, dim_q = 0, dim_v = 0;
};

std::optional<Heads> HeadsOf(const Shape& q, const Shape& k, const Shape& v, Layout layout) {
  if (q.size() != k.size() || q.size() != v.size() || q.size() < 3 || q.size() > 4)
    return std::nullopt;
  const size_t b = q.size() == 4 ? 1 : 0;
  const size_t head = b + (layout == Layout::kHeadsFirst ? 0 : 1),
               token = b + (layout == Layout::kHeadsFirst ? 1 : 0);
  const Heads h{b == 1 ? q[0] : 1, q[head], q[token], k[token], q.back(), v.back()};
  if (k.back() != q.back() || v[token] != k[token] || k[head] < 1 || h.heads % k[head] != 0)
    return std::nullopt;
  return h;
}

std::optional<int64_t> Flops(const Heads& h, std::optional<int64_t> pairs, bool backward) {
  if (!pairs || h.dim_q > kMaxSize || h.dim_v > kMaxSize) return std::nullopt;
  const int64_t work = backward ? 3 * h.dim_q + 2 * h.dim_v : h.dim_q + h.dim_v;
  return ProductOf({2, h.batch, h.heads, *pairs, work});
}

// A bound of a window; none where it is negative or not given.
std::optional<int64_t> Bound(const OpInputs& in, int argument) {
  if (argument < 0) return std::nullopt;
  const auto value = in.integer(static_cast<size_t>(argument));
  return value && *value >= 0 ? value : std::nullopt;
}

bool IsNamedBoolean(const OpInputs& in, size_t argument) {
  return in.text(argument) == "True" || in.text(argument) == "False";
}

StatusOr<FlopsCount> CountAttention(const OpInputs& in, const Variant& v) {
  const Shape *q = in.tensor(v.q), *k = in.tensor(v.q + 1), *value = in.tensor(v.q + 2);
  if (q == nullptr || k == nullptr || value == nullptr) return NotCounted(kSizesNotRecorded);
  if (v.packed_q >= 0) {
    if (const Shape* lengths = in.tensor(static_cast<size_t>(v.packed_q));
        lengths != nullptr && (*lengths)[0] != 2) {
      return NotCounted("packed sequences: their lengths are values, which a trace does not hold");
    }
  }
  const auto heads = HeadsOf(*q, *k, *value, v.layout);
  if (!heads) return NotCounted(kNoAttention);
  std::optional<bool> causal;
  Align align = v.align;
  if (v.custom_mask >= 0) {  // 0 none, 1 from the first key, 2 up to the last
    const auto kind = in.integer(static_cast<size_t>(v.custom_mask));
    if (kind) causal = *kind != 0;
    if (kind && *kind == 2) align = Align::kLastKey;
  } else if (v.causal >= 0) {
    causal = in.boolean(static_cast<size_t>(v.causal));
  }
  const int64_t offset = align == Align::kLastKey ? heads->keys - heads->queries : 0;
  const auto left = Bound(in, v.window), right = Bound(in, v.window < 0 ? -1 : v.window + 1);
  const auto dense =
      Flops(*heads, ScorePairs(heads->queries, heads->keys, offset, left, right), v.backward);
  const auto cut =
      Flops(*heads, ScorePairs(heads->queries, heads->keys, offset, left, 0), v.backward);
  const int a = static_cast<int>(v.q), b = static_cast<int>(v.q) + 1;
  if (!causal) return RangeCount(cut, dense, "causal or not was not recorded: half to full", a, b);
  if (*causal)
    return RangeCount(cut, cut, left ? "causal, windowed, exact" : "causal, exact", a, b);
  const bool masked = v.mask >= 0 && in.tensor(static_cast<size_t>(v.mask)) != nullptr;
  return RangeCount(dense, dense,
                    masked          ? "dense: what the mask hides is counted"
                    : left || right ? "windowed, exact"
                                    : "dense",
                    a, b);
}

constexpr Layout kBshd = Layout::kTokensFirst;
constexpr Align kLastKey = Align::kLastKey;

template <Variant variant>
StatusOr<FlopsCount> Attention(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, variant);
}

// PyTorch 2.5 put a mask before the flags.
StatusOr<FlopsCount> SdpaCudnn(const OpInputs& in, const OpInputs*) {
  return IsNamedBoolean(in, 6) ? CountAttention(in, {.causal = 6, .mask = 3})
                               : CountAttention(in, {.causal = in.text(3).empty() ? 6 : 4});
}
StatusOr<FlopsCount> SdpaCudnnBackward(const OpInputs& in, const OpInputs*) {
  const bool old = !IsNamedBoolean(in, 14) && IsNamedBoolean(in, 9);
  return CountAttention(in, {.q = 1,
                             .causal = old ? 9 : 14,
                             .mask = old ? -1 : 8,
                             .packed_q = old ? -1 : 9,
                             .backward = true});
}

constexpr FlopsRule kAttentionRules[] = {
    {"aten::scaled_dot_product_attention", "sdpa", Attention<Variant{.causal = 5, .mask = 3}>},
    {"aten::_scaled_dot_product_flash_attention", "sdpa", Attention<Variant{.causal = 4}>},
    {"aten::_scaled_dot_product_flash_attention_backward", "sdpa_backward",
     Attention<Variant{.q = 1, .causal = 11, .packed_q = 6, .backward = true}>},
    {"aten::_scaled_dot_product_efficient_attention", "sdpa",
     Attention<Variant{.causal = 6, .mask = 3}>},
    {"aten::_scaled_dot_product_efficient_attention_backward", "sdpa_backward",
     Attention<Variant{.q = 1, .causal = 11, .mask = 4, .backward = true}>},
    {"aten::_scaled_dot_product_cudnn_attention", "sdpa", SdpaCudnn},
    {"aten::_scaled_dot_product_cudnn_attention_backward", "sdpa_backward", SdpaCudnnBackward},
    {"aten::_scaled_dot_product_fused_attention_overrideable", "sdpa",
     Attention<Variant{.causal = 5, .mask = 3}>},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", "sdpa_backward",
     Attention<Variant{.q = 1, .causal = 13, .mask = 4, .packed_q = 8, .backward = true}>},
    {"aten::_flash_attention_forward", "sdpa",
     Attention<Variant{
         .layout = kBshd, .align = kLastKey, .window = 11, .causal = 8, .packed_q = 3}>},
    {"aten::_flash_attention_backward", "sdpa_backward",
     Attention<Variant{.q = 1,
                       .layout = kBshd,
                       .align = kLastKey,
                       .window = 15,
                       .causal = 11,
                       .packed_q = 6,
                       .backward = true}>},
    {"aten::_efficient_attention_forward", "sdpa",
     Attention<Variant{.layout = kBshd, .mask = 3, .packed_q = 4, .custom_mask = 9}>},
    {"aten::_efficient_attention_backward", "sdpa_backward",
     Attention<Variant{
         .q = 1, .layout = kBshd, .mask = 4, .packed_q = 6, .custom_mask = 14, .backward = true}>},
    // The package flash_attn.
    {"flash_attn::_flash_attn_forward", "sdpa",
     Attention<Variant{.layout = kBshd, .align = kLastKey, .window = 6, .causal = 5}>},
    {"flash_attn::_flash_attn_backward", "sdpa_backward",
     Attention<Variant{.q = 1,
                       .layout = kBshd,
                       .align = kLastKey,
                       .window = 12,
                       .causal = 11,
                       .backward = true}>},
    {"flash_attn::_flash_attn_varlen_forward", "sdpa",
     Attention<Variant{
         .layout = kBshd, .align = kLastKey, .window = 10, .causal = 9, .packed_q = 3}>},
    {"flash_attn::_flash_attn_varlen_backward", "sdpa_backward",
     Attention<Variant{.q = 1,
                       .layout = kBshd,
                       .align = kLastKey,
                       .window = 16,
                       .causal = 15,
                       .packed_q = 9,
                       .backward = true}>}};

}  // namespace

std::span<const FlopsRule> AttentionRules() { return kAttentionRules; }

}  // namespace flopwatch::trace
