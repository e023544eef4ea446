#include <array>

#include "models/conventions/conventions.h"
#include "models/flops.h"

namespace flopwatch::models {

std::span<const Convention* const> Conventions() {
  static constexpr auto kAll = std::to_array<const Convention*>(
      {&kExactCausal, &kExactFull, &kExactEncoderDecoder, &kMegatron, &kMegatronMtp1,
       &kMegatron2023, &kTorchtitan, &kTorchtitan4300, &kTorchtitanHf, &kKempnerForge, &kPalm,
       &kLlmFoundry, &kTorchFlopCounter, &kMaxText, &kMaxTextBefore1988, &kNemo, &kNemoTransformer,
       &kVerl, &kVerlBefore4959});
  return kAll;
}

const Convention& ExactFor(const Model& model) {
  switch (model.kind) {
    case Model::Kind::kDecoder:
      return kExactCausal;
    case Model::Kind::kEncoderDecoder:
      return kExactEncoderDecoder;
    default:
      return kExactFull;
  }
}

}  // namespace flopwatch::models
