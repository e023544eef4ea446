// What a board tells of itself: its last XID and how many came, uncorrectable errors, remapped
// rows.
#pragma once

#include <cstdint>

#include "simulate/fields.h"
#include "simulate/fleet_model.h"

namespace flopwatch::simulate {

// Of this driver's life. No board has both kinds, the plan's and planted ones, and none two codes
// of its own. last 0: none so far.
struct Xids {
  int64_t last = 0, count = 0;
};
Xids XidsOf(const Fleet::Model& m, int32_t gpu, int32_t t);

// Adds its errors up to a second to what a lane shows; a new board in the slot has none of the old
// one's.
void AddBoardErrors(const Fleet::Model& m, int32_t gpu, int32_t t, Values* out);

}  // namespace flopwatch::simulate
