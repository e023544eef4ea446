// Arguments as text: a command line, a shell script, or the dump at the head of a training log.
// Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "base/status.h"

namespace flopwatch::models {

// One flat object, names with underscores; of an argument given twice the last counts.
// InvalidArgument where there is none.
StatusOr<Json> ReadArguments(std::string_view text, std::string_view name);

// A list of 0 and 1 as Python writes it, "[0]*3+[1]*58" or "([0,1])*2"; nullopt for anything else,
// and for more than kMaxLayers.
std::optional<std::vector<int64_t>> ParseListExpression(std::string_view text);

}  // namespace flopwatch::models
