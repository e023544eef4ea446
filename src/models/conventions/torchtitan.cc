// torchtitan b5bcd76c (2026-08-21), get_dense_model_nparams_and_flops and its MoE sibling; #4300
// brought windows.

#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> CountTorchtitan(const Model& model, const Workload& workload, Pairs pairs,
                                std::string_view who) {
  FW_RETURN_IF_ERROR(DecoderOnly(model, who));
  Count count{.tokens = workload.tokens};
  FW_RETURN_IF_ERROR(
      AddParameters(model, workload, {.input_embedding = false, .positions = true}, &count));
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, pairs, &count));
  return count;
}

StatusOr<Count> Torchtitan(const Model& model, const Workload& workload) {
  return CountTorchtitan(model, workload, Pairs::kAll, "torchtitan");
}

StatusOr<Count> Torchtitan4300(const Model& model, const Workload& workload) {
  return CountTorchtitan(model, workload, Pairs::kAllWindowed, "torchtitan_4300");
}

// The Transformers backend before #4300: every parameter of every expert and the input embedding,
// and 6*H*dh*S where the formula wants 12 (both products of the attention core).
StatusOr<Count> TorchtitanHf(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(OnlyAttention(model, "torchtitan_hf"));
  if (HasMixer(model, Mixer::kLatentAttention))
    return DoesNotApply("torchtitan_hf", "no head_dim to read for MLA");
  FW_ASSIGN_OR_RETURN(const Parameters params, CountParameters(model));
  Count count{.tokens = workload.tokens};
  count.Add("all parameters", true, 2 * Int{params.total} * workload.tokens);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kHalf, &count));
  return count;
}

}  // namespace

const Convention kTorchtitan = {"torchtitan",
                                "6*(N - input embedding) + 6*L*H*(dq+dv)*S: full attention",
                                "pytorch/torchtitan b5bcd76c (2026-08-21), before #4300",
                                "causal half and windows (attention is full in every layer); "
                                "counts norms and biases; leaves out Mamba and delta-net cores, "
                                "the vision tower and MTP",
                                Torchtitan};
const Convention kTorchtitan4300 = {
    "torchtitan_4300", "torchtitan with windows: min(S, W) keys in a windowed layer",
    "pytorch/torchtitan#4300 (2026-08)",
    "causal half (attention is full inside the window); counts norms and biases; leaves out Mamba "
    "and delta-net cores, the vision "
    "tower and MTP",
    Torchtitan4300};
const Convention kTorchtitanHf = {
    "torchtitan_hf",
    "torchtitan's Transformers backend before #4300 (a bug, kept to recognise its numbers)",
    "pytorch/torchtitan#4300, description of what it fixes",
    "nothing but half of the attention; counts ALL experts and the input embedding: 5.13 times the "
    "exact count for Qwen3-30B-A3B",
    TorchtitanHf};

}  // namespace flopwatch::models
