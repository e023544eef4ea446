// Stretches of seconds, for the files of the truth. Private to the room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace flopwatch::simulate {

struct Span {
  int32_t from, to;
};

inline int64_t LengthWithin(const std::vector<Span>& spans, int32_t from, int32_t to) {
  int64_t sum = 0;
  for (const Span& s : spans) sum += std::max(0, std::min(to, s.to) - std::max(from, s.from));
  return sum;
}

// Seconds from `from` on that some span of `held` covers, and none of `unusable`, whose spans do
// not overlap.
inline int64_t BusySeconds(std::vector<Span> held, const std::vector<Span>& unusable,
                           int32_t from) {
  std::ranges::sort(held, {}, &Span::from);
  int64_t busy = 0;
  for (const Span& s : held) {
    const int32_t begin = std::max(from, s.from);
    if (begin >= s.to) continue;
    busy += s.to - begin - LengthWithin(unusable, begin, s.to);
    from = s.to;
  }
  return busy;
}

}  // namespace flopwatch::simulate
