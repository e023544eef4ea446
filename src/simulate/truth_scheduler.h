// What the books of Slurm's clusters should come to. Private to the room.
#pragma once

#include <cstdint>

#include "base/json_writer.h"
#include "simulate/fleet.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {

// What the books come to over [from, to), in seconds of the fleet, as seen at `to`.
SchedulerTruth SchedulerTruthOf(const Fleet& fleet, int32_t from, int32_t to);
// Writes the truth as the member "scheduler" of the object that is open.
void WriteSchedulerTruth(const SchedulerTruth& truth, JsonWriter* json);

}  // namespace flopwatch::simulate
