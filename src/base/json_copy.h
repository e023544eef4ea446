// A tree that was read (json_read.h) as text again: members in their order, numbers as they were
// read.
#pragma once

#include "base/json_read.h"
#include "base/json_writer.h"

namespace flopwatch {

// Writes `in` as one value.
void WriteJson(JsonWriter& out, const Json& in);

}  // namespace flopwatch
