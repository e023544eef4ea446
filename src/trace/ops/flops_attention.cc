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
  int causal = -1, window_left = -1, window_right = -1, mask = -1, packed_q = -1, custom_mask = -1;
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
  const auto left = Bound(in, v.window_left), right = Bound(in, v.window_right);
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

constexpr Layout kBhsd = Layout::kHeadsFirst, kBshd = Layout::kTokensFirst;

StatusOr<FlopsCount> Sdpa(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.causal = 5, .mask = 3});
}
StatusOr<FlopsCount> SdpaFlash(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.causal = 4});
}
StatusOr<FlopsCount> SdpaFlashBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1, .causal = 11, .packed_q = 6, .backward = true});
}
StatusOr<FlopsCount> SdpaEfficient(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.causal = 6, .mask = 3});
}
StatusOr<FlopsCount> SdpaEfficientBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1, .causal = 11, .mask = 4, .backward = true});
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
StatusOr<FlopsCount> SdpaOverrideable(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.causal = 5, .mask = 3});
}
StatusOr<FlopsCount> SdpaOverrideableBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1, .causal = 13, .mask = 4, .packed_q = 8, .backward = true});
}
StatusOr<FlopsCount> Flash(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 8,
                             .window_left = 11,
                             .window_right = 12,
                             .packed_q = 3});
}
StatusOr<FlopsCount> FlashBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1,
                             .layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 11,
                             .window_left = 15,
                             .window_right = 16,
                             .packed_q = 6,
                             .backward = true});
}
StatusOr<FlopsCount> Efficient(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.layout = kBshd, .mask = 3, .packed_q = 4, .custom_mask = 9});
}
StatusOr<FlopsCount> EfficientBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(
      in, {.q = 1, .layout = kBshd, .mask = 4, .packed_q = 6, .custom_mask = 14, .backward = true});
}
// The package flash_attn.
StatusOr<FlopsCount> FlashAttn(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 5,
                             .window_left = 6,
                             .window_right = 7});
}
StatusOr<FlopsCount> FlashAttnBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1,
                             .layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 11,
                             .window_left = 12,
                             .window_right = 13,
                             .backward = true});
}
StatusOr<FlopsCount> FlashAttnPacked(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 9,
                             .window_left = 10,
                             .window_right = 11,
                             .packed_q = 3});
}
StatusOr<FlopsCount> FlashAttnPackedBackward(const OpInputs& in, const OpInputs*) {
  return CountAttention(in, {.q = 1,
                             .layout = kBshd,
                             .align = Align::kLastKey,
                             .causal = 15,
                             .window_left = 16,
                             .window_right = 17,
                             .packed_q = 9,
                             .backward = true});
}

constexpr FlopsRule kAttentionRules[] = {
    {"aten::scaled_dot_product_attention", "sdpa", Sdpa},
    {"aten::_scaled_dot_product_flash_attention", "sdpa", SdpaFlash},
    {"aten::_scaled_dot_product_flash_attention_backward", "sdpa_backward", SdpaFlashBackward},
    {"aten::_scaled_dot_product_efficient_attention", "sdpa", SdpaEfficient},
    {"aten::_scaled_dot_product_efficient_attention_backward", "sdpa_backward",
     SdpaEfficientBackward},
    {"aten::_scaled_dot_product_cudnn_attention", "sdpa", SdpaCudnn},
    {"aten::_scaled_dot_product_cudnn_attention_backward", "sdpa_backward", SdpaCudnnBackward},
    {"aten::_scaled_dot_product_fused_attention_overrideable", "sdpa", SdpaOverrideable},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", "sdpa_backward",
     SdpaOverrideableBackward},
    {"aten::_flash_attention_forward", "sdpa", Flash},
    {"aten::_flash_attention_backward", "sdpa_backward", FlashBackward},
    {"aten::_efficient_attention_forward", "sdpa", Efficient},
    {"aten::_efficient_attention_backward", "sdpa_backward", EfficientBackward},
    {"flash_attn::_flash_attn_forward", "sdpa", FlashAttn},
    {"flash_attn::_flash_attn_backward", "sdpa_backward", FlashAttnBackward},
    {"flash_attn::_flash_attn_varlen_forward", "sdpa", FlashAttnPacked},
    {"flash_attn::_flash_attn_varlen_backward", "sdpa_backward", FlashAttnPackedBackward}};

}  // namespace

std::span<const FlopsRule> AttentionRules() { return kAttentionRules; }

}  // namespace flopwatch::trace
