// The middle of few numbers, the upper one of two; of none it is not known (NaN).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "alerts/round.h"

namespace flopwatch::alerts {

template <typename T>
double Median(std::vector<T>* values) {  // moves them
  if (values->empty()) return kNotKnown;
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return static_cast<double>(*middle);
}

}  // namespace flopwatch::alerts
