// KempnerForge 5666d0d1 (2026-06-30), kempnerforge/metrics/mfu.py: 6*P + 12*L*D*S.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> KempnerForge(const Model& model, const Workload& workload) {
  constexpr std::string_view kWho = "kempnerforge";
  FW_RETURN_IF_ERROR(OnlyAttention(model, kWho));
  if (HasMixer(model, Mixer::kLatentAttention))
    return DoesNotApply(kWho, "the formula has one head size; the model uses latent attention");
  int64_t width =
      0;  // the one MLP width the formula has, for dense layers, experts and shared experts alike
  for (const Layer& layer : model.layers) {
    const FeedForward& f = layer.ffn;
    if (f.matrices != 3)
      return DoesNotApply(kWho,
                          "the formula always counts three MLP matrices; this MLP has no gate");
    if (layer.attention.output_gate || layer.attention.value_is_key || f.latent > 0) {
      return DoesNotApply(kWho, "the formula has no attention gate, shared K/V or latent experts");
    }
    const int64_t own = f.kind == FeedForward::Kind::kMoe ? f.expert_width : f.width;
    if (width == 0) width = own;
    if (own != width || f.shared_width % width != 0) {
      return DoesNotApply(
          kWho, "the formula has one MLP width for dense layers, experts and shared experts");
    }
  }
  Count count{.tokens = workload.tokens};
  AddLayerGemms(model, model.layers, workload, &count,
                [](Part part) { return part != Part::kRouter; });
  // The term is 12*L*D*S: the hidden size in place of H*dh, full attention.
  count.Add(kCoreTerm, false,
            4 * Int{static_cast<int64_t>(model.layers.size())} * model.hidden * workload.squares);
  AddHead(model, workload, &count);
  return count;
}

}  // namespace

const Convention kKempnerForge = {"kempnerforge",
                                  "6*P + 12*L*D*S with the LM head, without the input embedding",
                                  "KempnerForge 5666d0d1 (2026-06-30), kempnerforge/metrics/mfu.py",
                                  "the causal half and windows (attention is full), heads wider "
                                  "than D/H (uses D where the product has H*dh), the router, norms "
                                  "and biases",
                                  KempnerForge};

}  // namespace flopwatch::models
