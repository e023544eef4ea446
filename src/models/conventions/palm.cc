// PaLM appendix B (arXiv 2204.02311): 6N + 12 L H Q T, attention full. nanoGPT's reading of N:
// positions out, tied table once.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> Palm(const Model& model, const Workload& workload) {
  if (model.kind == Model::Kind::kEncoderDecoder || model.kind == Model::Kind::kDiffusion) {
    return DoesNotApply("palm", "6N assumes that every parameter meets every token");
  }
  if (model.kind == Model::Kind::kDecoder) FW_RETURN_IF_ERROR(OnlyAttention(model, "palm"));
  Count count{.tokens = workload.tokens};
  FW_RETURN_IF_ERROR(
      AddParameters(model, workload, {.input_embedding = true, .positions = false}, &count));
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kAll, &count));
  return count;
}

}  // namespace

const Convention kPalm = {"palm", "6N + 12*L*H*Q*T: active parameters and full attention",
                          "PaLM, arXiv 2204.02311, appendix B; N as nanoGPT counts it",
                          "causal half and windows (attention is full); counts the input embedding "
                          "as if it were multiplied, and "
                          "norms and biases",
                          Palm};

}  // namespace flopwatch::models
