// Megatron-LM d98e8a64 (2026-08-22), num_floating_point_operations in
// megatron/training/training.py, plain and hybrid path.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

// Megatron pads the vocabulary to make_vocab_size_divisible_by (128) times the tensor-parallel
// size; this is TP 1.
constexpr int64_t kVocabMultiple = 128;

void AddPaddedHead(const Model& model, const Workload& workload, Int times, std::string_view name,
                   Count* count) {
  count->Add(
      name, true,
      2 * Int{model.hidden} * RoundUp(model.vocab, kVocabMultiple) * workload.tokens * times);
}

void AddMamba(const Model& model, const Layer& layer, const Workload& workload, Count* count) {
  // mamba_layer_flops: inner width fixed at 2*D, whatever heads * head_dim is; scan 7 * d_in * N;
  // no convolution.
  const Mamba& m = layer.mamba;
  const Int inner = 2 * Int{model.hidden};
  const Int t = workload.tokens;
  count->Add(PartName(Part::kMamba), true,
             (2 * Int{model.hidden} * (2 * inner + 2 * Int{m.groups} * m.state + m.heads) +
              2 * inner * model.hidden) *
                 t);
  count->Add("Mamba scan", false, 7 * inner * m.state * t);
}

Status AddLayers(const Model& model, const std::vector<Layer>& layers, const Workload& workload,
                 Count* count) {
  for (const Layer& layer : layers) {
    const std::vector<Layer> one = {layer};
    const bool mamba = layer.mixer == Mixer::kMamba2;
    if (mamba) AddMamba(model, layer, workload, count);
    AddLayerGemms(model, one, workload, count, [&](Part part) {
      return part != Part::kRouter && !(mamba && part == Part::kMamba);
    });
    if (layer.mixer == Mixer::kLatentAttention) {
      // The MLA terms carry "+ 1" for the norms of both ranks.
      count->Add("norms of the latent ranks", true,
                 2 * Int{layer.latent.q_rank + layer.latent.kv_rank} * workload.tokens);
    }
    FW_RETURN_IF_ERROR(AddCores(one, workload, Pairs::kHalf, count));
  }
  return absl::OkStatus();
}

Status Applies(const Model& model, std::string_view who) {
  FW_RETURN_IF_ERROR(DecoderOnly(model, who));
  if (HasMixer(model, Mixer::kMamba1))
    return DoesNotApply(who, "Megatron-LM has no Mamba-1 layers");
  return absl::OkStatus();
}

StatusOr<Count> Plain(const Model& model, const Workload& workload) {
  Count count{.tokens = workload.tokens};
  FW_RETURN_IF_ERROR(AddLayers(model, model.layers, workload, &count));
  AddDeltaNetCores(model, workload, &count);
  AddPaddedHead(model, workload, 1, PartName(Part::kLmHead), &count);
  return count;
}

StatusOr<Count> Megatron(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(Applies(model, "megatron"));
  return Plain(model, workload);
}

StatusOr<Count> MegatronMtp1(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(Applies(model, "megatron_mtp1"));
  if (model.mtp_depth == 0)
    return DoesNotApply("megatron_mtp1", "the model has no multi-token-prediction module");
  FW_ASSIGN_OR_RETURN(Count count, Plain(model, workload));
  Count one{.tokens = workload.tokens};
  FW_RETURN_IF_ERROR(AddLayers(model, MtpLayers(model), workload, &one));
  for (const Term& term : one.terms)
    count.Add("MTP: " + term.name, term.weights, term.forward * model.mtp_depth);
  // eh_norm and final norm have 3D, the joint projection 2D x D.
  const Int d = model.hidden;
  count.Add("MTP: joint projection and norms", true,
            2 * (3 * d + 2 * d * d) * workload.tokens * model.mtp_depth);
  AddPaddedHead(model, workload, model.mtp_depth, "MTP: LM head", &count);
  return count;
}

}  // namespace

const Convention kMegatron = {
    "megatron", "Megatron-LM: matmul weights, half of the attention, padded vocabulary",
    "NVIDIA/Megatron-LM d98e8a64 (2026-08-22), num_floating_point_operations; TP 1, vocabulary "
    "padded to 128",
    "the router, sliding windows and chunks (#1725, #3280), Mamba convolutions, MTP; Mamba's inner "
    "width is taken as 2*D",
    Megatron};
const Convention kMegatronMtp1 = {
    "megatron_mtp1", "Megatron-LM with the model's multi-token-prediction modules",
    "NVIDIA/Megatron-LM d98e8a64 (2026-08-22) with --mtp-num-layers as the config names them",
    "the router, sliding windows and chunks (#1725, #3280), Mamba convolutions", MegatronMtp1};

}  // namespace flopwatch::models
