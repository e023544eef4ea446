// An action as sentences, so that the terminal, the page and a report say the same. Pure.
#pragma once

#include <string>
#include <string_view>

#include "fleet/advice/advice.h"

namespace flopwatch::fleet {

// What to do, in the imperative: "Ask ann to release what 3 jobs hold and do not use".
std::string ActionText(const Action& action);
// What `gpu_seconds` is reckoned from.
// Whether what it brings is an upper bound.
bool IsAtMost(ActionCause cause);
std::string_view BasisOf(ActionCause cause);

}  // namespace flopwatch::fleet
