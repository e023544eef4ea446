// The middle of few numbers, the upper one of two; of none it is not known (NaN). None of them is
// NaN.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "alerts/round.h"

namespace flopwatch::alerts {

template <typename T>
double Median(std::vector<T>* values) {  // may move them
  const size_t n = values->size(), middle = n / 2;
  if (n == 0) return kNotKnown;
  // Of so few each is counted against all, which is no branch that could be guessed wrong.
  constexpr size_t kFew = 48;
  if (n <= kFew) {
    const T* const v = values->data();
    for (size_t i = 0; i < n; ++i) {
      int below = 0, same = 0;
      for (size_t k = 0; k < n; ++k) {
        below += v[k] < v[i] ? 1 : 0;
        same += v[k] == v[i] ? 1 : 0;
      }
      if (static_cast<size_t>(below) <= middle && middle < static_cast<size_t>(below + same))
        return static_cast<double>(v[i]);
    }
  }
  const auto at = values->begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(values->begin(), at, values->end());
  return static_cast<double>(*at);
}

}  // namespace flopwatch::alerts
