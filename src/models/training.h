// What a training step costs when not everything is trained, or when activations are computed
// again (docs/flops.md, What is counted). Applied on top of any convention, term by term.
//
//   frozen weights        forward + gradient of the input: 2x forward instead of 3x
//   frozen first layers   forward only: nothing before them needs a gradient
//   LoRA of rank r        frozen weights, and r*(in+out) trained ones beside each adapted matrix
//   recomputation         adds forward FLOPs to HFU, never to MFU
#pragma once

#include <string_view>
#include <vector>

#include "models/flops.h"

namespace flopwatch::models {

enum class Recompute : uint8_t {
  kNone,
  kSelective,  // the attention core again (Korthikanti et al., arXiv 2205.05198)
  kLayers,     // every layer again, the LM head not: the usual form, a little below 4/3
  kFull,       // the whole forward again: 4/3 of a training step
};
// InvalidArgument lists the names: none, selective, layers, full.
StatusOr<Recompute> ParseRecompute(std::string_view name);
std::string_view RecomputeName(Recompute r);

// Groups of weights that can be frozen: attention, mlp (shared experts too), experts (router and
// latent projections too), mixer (Mamba, delta-net), head.
enum class WeightGroup : uint8_t { kAttention, kMlp, kExperts, kMixer, kHead };
StatusOr<WeightGroup> ParseWeightGroup(std::string_view name);

struct TrainingSetup {
  int64_t lora_rank = 0;  // 0 = none; adapters on the projections of attention and on dense MLPs
  bool lora_mlp = true;   // false: on attention alone
  std::vector<WeightGroup> frozen = {};
  int64_t frozen_layers = 0;  // the first so many
  bool any() const { return lora_rank > 0 || !frozen.empty() || frozen_layers > 0; }
};

// The convention's count with the setup applied. FailedPrecondition where the convention has no
// term for what is frozen (6N formulas), InvalidArgument for more frozen layers than there are, or
// where nothing is left to train.
StatusOr<Count> CountTraining(const Convention& convention, const Model& model,
                              const Workload& workload, const TrainingSetup& setup);

// FLOPs the hardware runs for the workload: training and what is computed again, without padding.
Int HardwareFlops(const Count& count, Recompute recompute);
// Scores and values of attention in training, forward and backward: causal, windowed, fused.
Int AttentionCoreTraining(const Count& count);

}  // namespace flopwatch::models
