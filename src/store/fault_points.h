// Named places of the store where a test stops the process or makes a step fail, to prove that a
// crash between any two steps is harmless. A store has them where its Options name an object;
// others pay for a null pointer, on rare paths only (rolling up, sealing, retention), never per
// row.
#pragma once

#include <string_view>

#include "base/status.h"

namespace flopwatch::store {

class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  // Called by whichever thread comes to the place; an error becomes that of the step.
  virtual Status At(std::string_view point) = 0;
};

}  // namespace flopwatch::store
