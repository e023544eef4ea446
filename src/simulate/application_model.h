// What simulated applications train and how they count its FLOPs. The models are the simulator's
// own: sizes between those of published families, so that no configuration is anybody's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simulate/model.h"

namespace flopwatch::simulate {

// A model at a sequence length, counted by one convention.
struct Counted {
  std::string_view name;    // "dense-7b"
  std::string_view config;  // as config.json
  int64_t seq_len = 0;
  std::string_view convention{}, version{};  // of models/; the version where one is meant
  double counted = 0;    // training FLOPs a token as the application counts them
  double exact = 0;      // as they are
  double attention = 0;  // of these, scores and values
  // MFU over OFU when nothing is wrong: what is counted over what the tensor cores execute without
  // recomputation (docs/divergence.md, What a healthy job shows).
  double healthy_ratio = 1;
};

// Padding of GEMM tiles, the middle of the usual 2 to 5 % (docs/divergence.md).
inline constexpr double kTilePadding = 1.035;

// The model of a job of so many GPUs whose application counts right by some convention: out of
// `draws` that `key` gives, the one whose healthy ratio is nearest to `ratio`. An application whose
// MFU lies above its OFU mostly counts attention in full.
const Counted& CountedRight(uint64_t key, int gpus, double ratio, int draws = 3);
// The claim gets one of the errors; kNone is not one.
const Counted& CountedWrong(Miscount miscount);
// "latent_moe_full_width", "hybrid_as_dense", as models/miscounts.h calls them; "" = none.
std::string_view MiscountName(Miscount miscount);

}  // namespace flopwatch::simulate
