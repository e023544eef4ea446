// Megatron-LM 2748e7c7 (2023-11-28): 60 L D^2 (1 + G/(5H) + S/(5D) + V'/(10 L D)) a token,
// training.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> Megatron2023(const Model& model, const Workload& workload) {
  constexpr std::string_view kWho = "megatron_2023_11";
  FW_RETURN_IF_ERROR(OnlyAttention(model, kWho));
  if (HasMixer(model, Mixer::kLatentAttention))
    return DoesNotApply(kWho, "the formula knows query groups, not latent attention");
  Count count{.tokens = workload.tokens};
  const Int d = model.hidden, t = workload.tokens;
  for (const Layer& layer : model.layers) {
    // 20 D^2 of 60: QKV of full width 12 with G/H of it for keys and values, and MLP of 4D without
    // a gate 16 (forward: 1/3).
    const Attention& a = layer.attention;
    if (d * d * 4 * a.kv_heads % a.heads != 0)
      return DoesNotApply(kWho, "the formula's G/H is no whole number of FLOPs");
    count.Add("attention projections (D wide)", true,
              (4 * d * d + 4 * d * d * a.kv_heads / a.heads) * t);
    count.Add("MLP of 4D, no gate", true, 16 * d * d * t);
    count.Add(kCoreTerm, false, 4 * d * workload.squares);
  }
  count.Add(PartName(Part::kLmHead), true, 2 * d * RoundUp(model.vocab, 128) * t);
  return count;
}

}  // namespace

const Convention kMegatron2023 = {"megatron_2023_11",
                                  "the first Megatron-LM closed form: 4D MLP, full attention",
                                  "NVIDIA/Megatron-LM 2748e7c7 (2023-11-28)",
                                  "the real MLP width, gates, experts, head sizes other than D/H, "
                                  "the causal half: 0.57 of the exact count for Mixtral",
                                  Megatron2023};

}  // namespace flopwatch::models
