// One file a convention: it defines its row, registry.cc lists it.
#pragma once

#include "models/flops.h"

namespace flopwatch::models {

extern const Convention kExactCausal, kExactFull, kExactEncoderDecoder;
extern const Convention kMegatron, kMegatronMtp1, kMegatron2023;
extern const Convention kTorchtitan, kTorchtitan4300, kTorchtitanHf;
extern const Convention kKempnerForge, kPalm, kLlmFoundry, kTorchFlopCounter;
extern const Convention kMaxText, kMaxTextBefore1988;
extern const Convention kNemo, kNemoTransformer;
extern const Convention kVerl, kVerlBefore4959;

}  // namespace flopwatch::models
