// A model's FLOPs as the candidate set needs them: what the hardware executes, what the claim's
// convention counts, and what every other known way of counting would have given.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "fleet/divergence/evidence.h"
#include "models/model.h"

namespace flopwatch::fleet {

// `seq_len` 0: the model's own length, where it has one. `convention` "" or one that does not apply
// to this model: `counted` stays absent. Errors: no sequence length; a model that cannot be
// counted.
StatusOr<ModelFlops> FlopsOf(const models::Model& model, int64_t seq_len,
                             std::string_view convention);

}  // namespace flopwatch::fleet
