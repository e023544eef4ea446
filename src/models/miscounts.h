// How a model's FLOPs are counted wrongly: the errors of published threads (docs/flops.md, Known
// miscounts), applied to this model, and the conventions that apply to it. A reported MFU that is
// off by candidate / exact was probably counted that way. Errors in the peak, the clock or the
// number of steps are not of the model and not here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/flops.h"
#include "models/training.h"

namespace flopwatch::models {

struct Candidate {
  std::string id;           // stable: "latent_moe_full_width"; of a convention its id
  std::string description;  // one line for people
  std::string source;       // thread or document
  bool error = true;        // false: a convention people mean
  int64_t training_flops_per_token = 0;
  int64_t forward_flops_per_token = 0;
};

// What every candidate is compared with.
struct Reference {
  int64_t training_flops_per_token = 0;  // the exact convention with the setup
  int64_t forward_flops_per_token = 0;
  int64_t attention_core_training = 0;  // of a token, included in the above
  std::string convention;               // its id
};
StatusOr<Reference> ExactReference(const Model& model, const Workload& workload,
                                   const TrainingSetup& setup = {});

// Candidates in a fixed order, errors first. One that changes nothing for this model (no windows to
// ignore) is left out, as is a convention that does not apply. An error is applied to the exact
// count; `setup` holds for all but the candidate that forgets it. Errors of the exact count itself
// are returned.
StatusOr<std::vector<Candidate>> Candidates(const Model& model, const Workload& workload,
                                            const TrainingSetup& setup = {});

}  // namespace flopwatch::models
