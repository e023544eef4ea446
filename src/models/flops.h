// FLOPs of a model under a convention. A FLOP is one floating-point operation; a multiply-add is
// two. A convention is a pure function over the layer list (model.h) and a workload; each lies in
// its own file of conventions/ with its source.
//
//   const Convention* c = FindConvention("megatron").value();
//   const Count count = c->evaluate(model, Workload::Sequence(4096)).value();
//   count.TrainingPerToken().value();  // 48249176064 for Llama-3.1-8B
//
// Numbers are exact integers over the whole workload (128 bits); the one division, by the tokens,
// comes last and rounds to the nearest. FailedPrecondition: the convention does not apply to this
// model, or to what is known of the workload; the message says why. OutOfRange: a result does not
// fit 64 bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/model.h"

namespace flopwatch::models {

// What was trained on: whole sequences, or only their sums. Attention needs the sum of squares;
// windows and chunks need the lengths themselves.
struct Workload {
  int64_t tokens = 0;                 // sum of the lengths, real tokens without padding
  Int squares = 0;                    // sum of the squared lengths
  std::vector<int64_t> lengths = {};  // empty where only the sums are known
  int64_t mtp_depth = 0;  // multi-token-prediction modules to count, but by some conventions

  // InvalidArgument for a length outside 1..kMaxTokens.
  static StatusOr<Workload> Of(std::vector<int64_t> lengths);
  static Workload Sequence(int64_t length);
  // Packed sequences of which only sums were logged. InvalidArgument for sums no lengths can have:
  // squares must lie between tokens^2 / tokens and tokens^2.
  static StatusOr<Workload> Packed(int64_t sum, int64_t sum_of_squares);
};

struct Term {
  std::string name;
  // Weights can be frozen, which saves their gradient's matrix product; an attention core has none.
  bool weights = true;
  Int forward = 0;   // FLOPs over the workload
  Int training = 0;  // forward and backward, nothing recomputed
};

struct Count {
  std::vector<Term> terms = {};  // in the order of the model, each name once
  int64_t tokens = 0;

  // Adds to the term of that name. `training_halves` / 2 is the multiplier of training on forward:
  // 6 is the usual 3x (forward, gradient of the input, gradient of the weights).
  void Add(std::string_view name, bool weights, Int forward, int training_halves = 6);
  Int Forward() const;
  Int Training() const;
  const Term* Find(std::string_view name) const;
  StatusOr<int64_t> ForwardPerToken() const;
  StatusOr<int64_t> TrainingPerToken() const;
};

struct Convention {
  std::string_view id;          // "megatron": stable, stored with every MFU sample
  std::string_view title;       // one line
  std::string_view source;      // framework or paper, version or commit
  std::string_view leaves_out;  // what a reader of the number must know
  StatusOr<Count> (*evaluate)(const Model&, const Workload&);
};

// All conventions in the order they are shown: exact ones first.
std::span<const Convention* const> Conventions();
// InvalidArgument names the nearest.
StatusOr<const Convention*> FindConvention(std::string_view id);
// What matrix multiplications and attention really cost for this kind of model: exact_causal,
// exact_full or the encoder-decoder form. Every other number is compared with it.
const Convention& ExactFor(const Model& model);

}  // namespace flopwatch::models
