// What is added up over launch calls and their work, in our definition and in HTA's: the two differ
// in which pairs they take. Internal to the two.
#pragma once

#include <algorithm>
#include <vector>

#include "trace/analysis/statistics.h"

namespace flopwatch::trace {

// HTA's cut-offs, kept because people know them.
inline constexpr Nanos kSlowCall = 50'000;
inline constexpr Nanos kSlowLaunch = 100'000;
inline constexpr double kLaunchQuantiles[] = {0.5, 0.9, 0.99};

struct Launches {
  int64_t pairs = 0, short_kernels = 0, slow_calls = 0, slow_launches = 0;
  double call_us = 0, gpu_us = 0, delay_us = 0;
  std::vector<double> delays;

  // The delay is from the end of the call to the start of the work; 0 where the work starts while
  // the call still runs.
  void Add(Nanos call, Nanos call_dur, Nanos start, Nanos gpu_dur) {
    const Nanos delay = std::max<Nanos>(0, start - call - call_dur);
    ++pairs;
    call_us += MicrosOf(call_dur);
    gpu_us += MicrosOf(gpu_dur);
    delay_us += MicrosOf(delay);
    delays.push_back(MicrosOf(delay));
    short_kernels += call_dur <= kSlowCall && gpu_dur < call_dur;
    slow_calls += call_dur > kSlowCall;
    slow_launches += delay > kSlowLaunch;
  }
};

}  // namespace flopwatch::trace
