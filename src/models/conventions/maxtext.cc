// MaxText maxtext_utils.calculate_tflops_training_per_device (2026); the causal half came with
// #1988 (2025-07).
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> CountMaxtext(const Model& model, const Workload& workload, Pairs pairs,
                             std::string_view who) {
  FW_RETURN_IF_ERROR(DecoderOnly(model, who));
  for (const Mixer mixer : {Mixer::kMamba1, Mixer::kMamba2, Mixer::kNone}) {
    if (HasMixer(model, mixer))
      return DoesNotApply(who, "MaxText has no Mamba layers and no hybrid patterns");
  }
  Count count{.tokens = workload.tokens};
  AddLayerGemms(model, model.layers, workload, &count);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, pairs, &count));
  AddDeltaNetCores(model, workload, &count);
  AddHead(model, workload, &count);
  FW_RETURN_IF_ERROR(AddMtp(model, workload, pairs, &count));
  return count;
}

StatusOr<Count> MaxText(const Model& model, const Workload& workload) {
  return CountMaxtext(model, workload, Pairs::kHalfWindowed, "maxtext");
}
StatusOr<Count> MaxTextBefore1988(const Model& model, const Workload& workload) {
  return CountMaxtext(model, workload, Pairs::kAll, "maxtext_before_1988");
}

}  // namespace

const Convention kMaxText = {
    "maxtext", "every matrix product with the router, half of the attention, windows",
    "AI-Hypercomputer/maxtext (2026), calculate_tflops_training_per_device; causal half since "
    "#1988",
    "the diagonal of the causal mask (S/2 for (S+1)/2), norms, MTP unless asked for", MaxText};
const Convention kMaxTextBefore1988 = {
    "maxtext_before_1988", "MaxText before the causal half",
    "AI-Hypercomputer/maxtext before #1988 (2025-07)",
    "the causal half and windows: 1.14 of the exact count for Llama-2-7B at 8K, 1.72 at 128K",
    MaxTextBefore1988};

}  // namespace flopwatch::models
