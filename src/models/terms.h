// What conventions are made of. Private to the room: a convention's file says what it counts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "models/flops.h"

namespace flopwatch::models {

inline constexpr std::string_view kCoreTerm = "attention core";
inline constexpr int kFusedCoreTraining =
    7;  // 3.5x: a fused backward multiplies 5 matrices to the forward's 2

// Which (query, key) pairs of a sequence of s tokens count.
enum class Pairs {
  kAll,           // s^2, whatever the mask
  kAllWindowed,   // s * min(s, W): torchtitan since #4300, verl
  kHalf,          // s^2 / 2, windows ignored: Megatron
  kHalfWindowed,  // s^2 / 2, W*s - W^2/2 in a window, len^2/2 in a chunk: MaxText
  kExact,  // s(s+1)/2, W(W+1)/2 + (s-W)W in a window, exact in a chunk; s^2 where nothing masks
};
// Twice the number of pairs of the workload, a whole number under every rule. FailedPrecondition
// where a window or chunk needs lengths and only sums are known.
StatusOr<Int> PairsTwice(const Attention& attention, const Workload& workload, Pairs rule);

// FLOPs of scores and weighted values: 2 * H * (dq + dv) a pair, however keys are grouped.
Int CoreForward(const Attention& attention, Int pairs_twice);
// Adds the core of every attention layer of `layers`.
Status AddCores(const std::vector<Layer>& layers, const Workload& workload, Pairs rule,
                Count* count, int training_halves = 6);

// Adds 2 * in * out FLOPs a token for the matrices of the layers that `counts` accepts (or all).
void AddLayerGemms(const Model& model, const std::vector<Layer>& layers, const Workload& workload,
                   Count* count, const std::function<bool(Part)>& counts = nullptr);
void AddHead(const Model& model, const Workload& workload, Count* count);
// The layers of one multi-token-prediction module.
std::vector<Layer> MtpLayers(const Model& model);
// The model's multi-token-prediction modules: each a copy of the last layer, the joint projection
// of 2D and the LM head again.
Status AddMtp(const Model& model, const Workload& workload, Pairs rule, Count* count,
              int training_halves = 6);

// Gated delta rule as the recurrence costs it (chunked kernels do more), and its convolutions.
void AddDeltaNetCores(const Model& model, const Workload& workload, Count* count);

bool HasMixer(const Model& model, Mixer mixer);
bool HasMoe(const Model& model);
// OK for a decoder whose layers mix tokens by attention only; else why `who` does not apply.
Status OnlyAttention(const Model& model, std::string_view who);
Status DecoderOnly(const Model& model, std::string_view who);
int64_t RoundUp(int64_t value, int64_t multiple);
Status DoesNotApply(std::string_view who, std::string_view why);

// 2 * N split for the reader into matmul weights, the input embedding and small weights; their sum
// is 2 * (active parameters
// [- positions] [- the input embedding, where it is not the head too]).
struct ParameterTerms {
  bool input_embedding = true;
  bool positions = true;
};
Status AddParameters(const Model& model, const Workload& workload, ParameterTerms which,
                     Count* count);

}  // namespace flopwatch::models
