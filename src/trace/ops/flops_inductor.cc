// Products that torch.compile writes as Triton templates: "triton_tem_fused_addmm_relu_3" names the
// operators that one kernel fuses, and the profiler records the kernel's arguments. Where A and B
// stand among them differs with what is fused (a bias comes first, an epilogue's inputs and the
// result last), so they are found by their sizes: two arguments whose sizes make a product, and a
// later one of the product's size.
// Source: torch/_inductor/kernel/mm.py and select_algorithm.py (def_kernel), PyTorch 2.11.
#include <algorithm>
#include <string>
#include <vector>

#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kTemplate = "triton_tem_fused_";
constexpr size_t kMostTensors = 32;  // every pair of them is looked at

// The tensors of a rank, by argument.
std::vector<size_t> TensorsOf(const OpInputs& in, size_t rank) {
  std::vector<size_t> out;
  for (size_t i = 0; i < in.arguments.size(); ++i)
    if (in.tensor(i, rank) != nullptr) out.push_back(i);
  return out;
}

// [.., M, K] by [.., K, N] with a later [.., M, N].
template <size_t kRank>
StatusOr<FlopsCount> TemplateProduct(const OpInputs& in, const OpInputs*) {
  const std::vector<size_t> tensors = TensorsOf(in, kRank);
  if (tensors.size() < 3) return NotCounted(kNoSizes);
  if (tensors.size() > kMostTensors) return NotCounted("the template has too many arguments");
  std::optional<FlopsCount> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t j = i + 1; j < tensors.size(); ++j) {
      const Shape &a = *in.tensor(tensors[i], kRank), &b = *in.tensor(tensors[j], kRank);
      if (a[kRank - 1] != b[kRank - 2] || (kRank == 3 && a[0] != b[0])) continue;
      Shape product = a;
      product[kRank - 1] = b[kRank - 1];
      const bool written =
          std::any_of(tensors.begin() + static_cast<ptrdiff_t>(j) + 1, tensors.end(),
                      [&](size_t t) { return *in.tensor(t, kRank) == product; });
      if (!written) continue;
      StatusOr<FlopsCount> count =
          GemmCount(kRank == 3 ? a[0] : 1, a[kRank - 2], a[kRank - 1], b[kRank - 1],
                    static_cast<int>(tensors[i]), static_cast<int>(tensors[j]));
      if (!count.ok()) return count;
      if (found && found->low != count->low)
        return NotCounted("the recorded sizes of the template fit several products");
      if (!found) found = *count;
    }
  }
  if (!found) return NotCounted("the recorded sizes of the template fit no product");
  return *found;
}

StatusOr<FlopsCount> TwoProducts(const OpInputs&, const OpInputs*) {
  return NotCounted("the template may hold two products (mm + mm), whose order is not recorded");
}
StatusOr<FlopsCount> FlexAttention(const OpInputs&, const OpInputs*) {
  return NotCounted(
      "flex attention: which blocks its mask leaves are values, which a trace does not hold");
}
StatusOr<FlopsCount> OtherTemplate(const OpInputs&, const OpInputs*) {
  return NotCounted("no rule: a template of torch.compile that is no plain product");
}

constexpr FlopsRule kInductorRules[] = {
    {"triton_tem_fused_mm", "inductor_mm", TemplateProduct<2>},
    {"triton_tem_fused_bmm", "inductor_bmm", TemplateProduct<3>},
    {"triton_tem_fused_add_mm", "inductor_mm_plus_mm", TwoProducts},
    {"triton_tem_fused_flex_attention", "flex_attention", FlexAttention},
    {"triton_tem_fused", "inductor_template", OtherTemplate}};

}  // namespace

std::span<const FlopsRule> InductorRules() { return kInductorRules; }

const FlopsRule* FindInductorRule(std::string_view op) {
  if (!op.starts_with(kTemplate)) return nullptr;
  const std::string words = "_" + std::string(op.substr(kTemplate.size())) + "_";
  const auto has = [&](std::string_view word) {
    return words.find("_" + std::string(word) + "_") != std::string::npos;
  };
  if (has("flex")) return &kInductorRules[3];
  if (has("grouped") || has("convolution")) return &kInductorRules[4];
  if (has("bmm") || has("baddbmm")) return &kInductorRules[1];
  if (has("mm") && has("add") && !has("addmm")) return &kInductorRules[2];
  if (has("mm") || has("addmm")) return &kInductorRules[0];
  return &kInductorRules[4];
}

}  // namespace flopwatch::trace
