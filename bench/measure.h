// What the benchmarks have in common: CPU of this process, and an end where something fails.
#pragma once

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/status.h"

namespace flopwatch {

inline double CpuSeconds() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline void Check(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", std::string(status.message()));
  std::exit(1);
}
template <typename T>
T Check(StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// The least of so many runs, in seconds of `clock`.
template <typename F>
double Least(int repeat, double (*clock)(), F&& f) {
  double least = 1e9;
  for (int k = 0; k < repeat; ++k) {
    const double begun = clock();
    f();
    least = std::min(least, clock() - begun);
  }
  return least;
}

}  // namespace flopwatch
