// verl verl/utils/flops_counter.py: 6*(matmuls + the embedding table once more) * tokens +
// 6*H*dh*sum(s^2); #4959 (2026-01) halved the attention. Its own test's figures are the goldens.

#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

Status VerlApplies(const Model& model, std::string_view who) {
  FW_RETURN_IF_ERROR(OnlyAttention(model, who));
  for (const Layer& layer : model.layers) {
    if (layer.ffn.matrices != 3) return DoesNotApply(who, "verl's families all have a gated MLP");
    if (layer.attention.output_gate || layer.attention.chunk > 0) {
      return DoesNotApply(who, "verl has no formula for this family");
    }
  }
  return absl::OkStatus();
}

void AddLinear(const Model& model, const Workload& workload, Count* count) {
  AddLayerGemms(model, model.layers, workload, count);
  AddHead(model, workload, count);
  count->Add("input embedding", true, 2 * Int{model.hidden} * model.vocab * workload.tokens);
}

StatusOr<Count> Verl(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(VerlApplies(model, "verl"));
  Count count{.tokens = workload.tokens};
  AddLinear(model, workload, &count);
  for (const Layer& layer : model.layers) {
    // Half of s * min(s, W): a window is halved like a full mask.
    FW_ASSIGN_OR_RETURN(const Int twice,
                        PairsTwice(layer.attention, workload, Pairs::kAllWindowed));
    count.Add(kCoreTerm, false, CoreForward(layer.attention, twice / 2));
  }
  return count;
}

StatusOr<Count> VerlBefore4959(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(VerlApplies(model, "verl_before_4959"));
  Count count{.tokens = workload.tokens};
  AddLinear(model, workload, &count);
  for (const Layer& layer : model.layers) {
    FW_ASSIGN_OR_RETURN(const Int twice,
                        PairsTwice(layer.attention, workload, Pairs::kAllWindowed));
    // 12*H*dq*sum(s^2), also for MLA, whose values are narrower than its queries.
    Attention wide = layer.attention;
    wide.v_dim = wide.qk_dim;
    count.Add(kCoreTerm, false, CoreForward(wide, twice));
  }
  return count;
}

}  // namespace

const Convention kVerl = {
    "verl", "matrix products with the router, half of the attention over real lengths",
    "verl-project/verl#4959 (2026-01), verl/utils/flops_counter.py",
    "a window's true shape (half of s*min(s,W)), shared-expert gates; counts the input embedding "
    "as a product",
    Verl};
const Convention kVerlBefore4959 = {"verl_before_4959", "verl before the causal half",
                                    "volcengine/verl before #4959 (2026-01)",
                                    "the causal half; counts the input embedding as a product, and "
                                    "MLA's values at the width of its queries",
                                    VerlBefore4959};

}  // namespace flopwatch::models
