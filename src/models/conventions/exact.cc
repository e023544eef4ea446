// The exact counts (docs/flops.md, What is counted): every matrix product once, attention over
// exactly the pairs the mask leaves.
#include <algorithm>

#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

// Depthwise convolution and state-space core. Mamba-2: the chunked SSD algorithm (arXiv 2405.21060
// section 6) with chunk Q: C B^T inside chunks 2QNg, the intra-chunk product 2Q di, states in and
// out 4N di. Mamba-1's selective scan runs on CUDA cores; no tensor pipe sees it, so it is no part
// of a count that OFU is compared with.
void AddMambaCores(const Model& model, const Workload& workload, Count* count) {
  for (const Layer& layer : model.layers) {
    const Mamba& m = layer.mamba;
    const Int t = workload.tokens;
    if (layer.mixer == Mixer::kMamba1) {
      count->Add("Mamba convolution", true, 2 * Int{m.conv_kernel} * m.inner * t);
    } else if (layer.mixer == Mixer::kMamba2) {
      count->Add("Mamba convolution", true,
                 2 * Int{m.conv_kernel} * (m.inner + 2 * m.groups * m.state) * t);
      count->Add("SSD core", false,
                 (2 * Int{m.chunk} * m.state * m.groups + 2 * Int{m.chunk} * m.inner +
                  4 * Int{m.state} * m.inner) *
                     t);
    }
  }
}

StatusOr<Count> ExactCausal(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(DecoderOnly(model, "exact_causal"));
  Count count{.tokens = workload.tokens};
  AddLayerGemms(model, model.layers, workload, &count);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kExact, &count));
  AddMambaCores(model, workload, &count);
  AddDeltaNetCores(model, workload, &count);
  AddHead(model, workload, &count);
  FW_RETURN_IF_ERROR(AddMtp(model, workload, Pairs::kExact, &count));
  return count;
}

StatusOr<Count> ExactFull(const Model& model, const Workload& workload) {
  if (model.kind == Model::Kind::kDecoder || model.kind == Model::Kind::kEncoderDecoder) {
    return DoesNotApply(
        "exact_full",
        "it counts bidirectional models (BERT, ViT, DiT); use exact_causal for a decoder");
  }
  const bool per_sample = std::any_of(model.outer.begin(), model.outer.end(),
                                      [](const Gemm& g) { return g.per != Gemm::Per::kToken; });
  if (workload.lengths.empty() && per_sample) {
    return FailedPrecondition(
        "exact_full: the number of samples is not known from sums of lengths; give --seq-lens");
  }
  Count count{.tokens = workload.tokens};
  AddLayerGemms(model, model.layers, workload, &count);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kExact, &count));
  const Int samples = static_cast<int64_t>(workload.lengths.size());
  const Int patches = Int{workload.tokens} - model.class_tokens * samples;
  if (patches < 0)
    return InvalidArgument("exact_full: the sequence is shorter than its class token");
  for (const Gemm& g : model.outer) {
    const Int times = g.per == Gemm::Per::kToken   ? Int{workload.tokens}
                      : g.per == Gemm::Per::kPatch ? patches
                                                   : samples;
    count.Add(PartName(g.part), true, 2 * g.ActiveParams() * times);
  }
  return count;
}

// One encoder token and one decoder token together; both sequences have the given length.
StatusOr<Count> ExactEncoderDecoder(const Model& model, const Workload& workload) {
  if (model.kind != Model::Kind::kEncoderDecoder) {
    return DoesNotApply("exact_encdec_sum_of_enc_and_dec_token", "the model is no encoder-decoder");
  }
  Count count{.tokens = workload.tokens};
  Count encoder{.tokens = workload.tokens};
  AddLayerGemms(model, model.encoder, workload, &encoder);
  FW_RETURN_IF_ERROR(AddCores(model.encoder, workload, Pairs::kExact, &encoder));
  for (const Term& term : encoder.terms)
    count.Add("encoder: " + term.name, term.weights, term.forward);
  AddLayerGemms(model, model.layers, workload, &count);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kExact, &count));
  for (const Layer& layer : model.layers) {
    if (!layer.cross_attention) continue;
    FW_ASSIGN_OR_RETURN(const Int pairs, PairsTwice(layer.attention, workload, Pairs::kAll));
    count.Add("cross-attention core", false, CoreForward(layer.attention, pairs));
  }
  AddHead(model, workload, &count);
  return count;
}

}  // namespace

const Convention kExactCausal = {"exact_causal",
                                 "every matrix product and exactly the attention the mask leaves",
                                 "matrix products counted one by one (docs/flops.md); mean context "
                                 "(S+1)/2, exact windows and chunks, chunked SSD core, "
                                 "delta rule as its recurrence",
                                 "softmax, norms, activations, the input embedding's gather, "
                                 "Mamba-1's scan (CUDA cores), a sparse-attention indexer, and the "
                                 "model's MTP modules unless asked for",
                                 ExactCausal};
const Convention kExactFull = {"exact_full",
                               "the exact count of bidirectional models: BERT, ViT, DiT",
                               "matrix products counted one by one (docs/flops.md); full "
                               "attention; work done once a sample is spread over its tokens",
                               "softmax, norms, activations; BERT's pooler and next-sentence head; "
                               "VAE and text encoder of a diffusion model",
                               ExactFull};
const Convention kExactEncoderDecoder = {
    "exact_encdec_sum_of_enc_and_dec_token",
    "the exact count of an encoder-decoder, one encoder and one decoder token together",
    "matrix products counted one by one (docs/flops.md); encoder full, decoder causal, "
    "cross-attention over the whole encoder; "
    "both sequences of the given length",
    "softmax, norms, activations, the embedding's gather; per PAIR of tokens: divide tokens per "
    "second accordingly",
    ExactEncoderDecoder};

}  // namespace flopwatch::models
