// llm-foundry scripts/train/benchmarking: 6N + 12*L*D*S, N = every parameter; HFU is 4/3 of it with
// checkpointing.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> LlmFoundry(const Model& model, const Workload& workload) {
  constexpr std::string_view kWho = "llm_foundry";
  FW_RETURN_IF_ERROR(OnlyAttention(model, kWho));
  FW_ASSIGN_OR_RETURN(const Parameters params, CountParameters(model));
  Count count{.tokens = workload.tokens};
  count.Add("all parameters", true, 2 * Int{params.total} * workload.tokens);
  count.Add(kCoreTerm, false,
            4 * Int{static_cast<int64_t>(model.layers.size())} * model.hidden * workload.squares);
  return count;
}

}  // namespace

const Convention kLlmFoundry = {
    "llm_foundry", "6N + 12*L*D*S with every stored parameter",
    "mosaicml/llm-foundry scripts/train/benchmarking/README.md (litgpt counts alike); all 216 rows "
    "of its table reproduce",
    "the causal half; counts every parameter: embedding, positions, and ALL experts of an MoE",
    LlmFoundry};

}  // namespace flopwatch::models
