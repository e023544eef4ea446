// Operators of serving engines. Mixture of experts by vLLM and SGLang: each token goes through the
// experts that were chosen for it, two products each. Their attention, and FlashInfer's, works on
// pages of many requests whose lengths are values, which no trace holds: it has rules that say so.
// Sources: vllm/model_executor/layers/fused_moe/fused_moe.py and vllm/attention/layer.py (names and
// arguments that direct_register_custom_op registers), sglang/srt/layers/moe/fused_moe_triton.
#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kExpertsApart =
    "all chosen experts: an upper bound where other ranks hold some of them";

// hidden [T, H], w1 [E, N, H] (N is twice the width of the second where it is gated), w2 [E, H, I],
// weights [T, k].
StatusOr<FlopsCount> FusedExperts(const OpInputs& in, const OpInputs*) {
  const Shape *x = in.tensor(0, 2), *w1 = in.tensor(1, 3), *w2 = in.tensor(2, 3),
              *chosen = in.tensor(3, 2);
  if (x == nullptr || w1 == nullptr || w2 == nullptr || chosen == nullptr)
    return NotCounted(kNoSizes);
  const int64_t tokens = (*x)[0], hidden = (*x)[1], up = (*w1)[1], down = (*w2)[2];
  const bool fits = (*w1)[0] == (*w2)[0] && (*w1)[2] == hidden && (*w2)[1] == hidden &&
                    (*chosen)[0] == tokens && (up == down || up == 2 * down);
  if (!fits) return NotCounted("the recorded sizes do not fit fused experts (packed weights?)");
  const auto flops = ProductOf({2, tokens, (*chosen)[1], hidden, up + down});
  return RangeCount(flops, flops, kExpertsApart, 0, 1);
}

StatusOr<FlopsCount> PagedAttention(const OpInputs&, const OpInputs*) {
  return NotCounted(
      "attention over pages of many requests: their lengths are values, which a trace does not "
      "hold");
}

constexpr FlopsRule kServingRules[] = {
    {"vllm::inplace_fused_experts", "fused_experts", FusedExperts},
    {"vllm::outplace_fused_experts", "fused_experts", FusedExperts},
    {"sglang::inplace_fused_experts", "fused_experts", FusedExperts},
    {"sglang::outplace_fused_experts", "fused_experts", FusedExperts},
    {"vllm::unified_attention", "paged_attention", PagedAttention},
    {"vllm::unified_attention_with_output", "paged_attention", PagedAttention},
    {"_vllm_fa2_C::varlen_fwd", "paged_attention", PagedAttention},
    {"_vllm_fa3_C::fwd", "paged_attention", PagedAttention},
    {"sglang::unified_attention_with_output", "paged_attention", PagedAttention},
    {"sgl_kernel::fwd", "paged_attention", PagedAttention}};

}  // namespace

std::span<const FlopsRule> ServingRules() { return kServingRules; }

}  // namespace flopwatch::trace
