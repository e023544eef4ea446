// The Sankey as a drawing: levels from left to right, what reaches the next one along the top, each
// loss as a branch that ends below it, areas in proportion to GPU-seconds. Pure.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "fleet/sankey/sankey.h"

namespace flopwatch::fleet {

// One <svg> element without scripts and styles: a page colours it by its classes (sankey-level,
// sankey-loss, sankey-unmeasured, sankey-flow), a file shows the colours it has. `link` gives the
// address that a loss leads to; "" = none. Titles say what a loss cost where that is known, in
// `currency` ("" = none was named).
std::string SankeySvg(const Sankey& sankey, std::string_view currency,
                      absl::FunctionRef<std::string(const SankeyLoss& loss)> link);

}  // namespace flopwatch::fleet
