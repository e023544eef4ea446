// torch.utils.flop_counter.FlopCounterMode: 2mnk of every product the dispatcher sees; fused
// attention in full, backward 2.5x.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

StatusOr<Count> TorchFlopCounter(const Model& model, const Workload& workload) {
  FW_RETURN_IF_ERROR(OnlyAttention(model, "torch_flop_counter"));
  Count count{.tokens = workload.tokens};
  AddLayerGemms(model, model.layers, workload, &count);
  FW_RETURN_IF_ERROR(AddCores(model.layers, workload, Pairs::kAll, &count, kFusedCoreTraining));
  AddHead(model, workload, &count);
  FW_RETURN_IF_ERROR(AddMtp(model, workload, Pairs::kAll, &count, kFusedCoreTraining));
  return count;
}

}  // namespace

const Convention kTorchFlopCounter = {
    "torch_flop_counter",
    "what FlopCounterMode reports: products as executed, full attention, fused backward 2.5x",
    "PyTorch torch.utils.flop_counter (2026): mm, addmm, bmm, baddbmm, convolution, SDPA",
    "causal half and windows; custom Triton and FlashAttention-3 kernels unless registered; counts "
    "recomputation when it runs",
    TorchFlopCounter};

}  // namespace flopwatch::models
