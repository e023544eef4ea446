// What the books of Slurm's clusters should come to. Private to the room.
#pragma once

#include <cstdint>

#include "base/json_writer.h"
#include "simulate/fleet.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {

// Over [from, to) seconds of the fleet, seen at `to`.
SchedulerTruth SchedulerTruthOf(const Fleet& fleet, int32_t from, int32_t to);
// As the member "scheduler" of an object.
void WriteSchedulerTruth(const SchedulerTruth& truth, JsonWriter* json);

}  // namespace flopwatch::simulate
