#include "trace/analysis/tree.h"

#include <algorithm>
#include <numeric>

namespace flopwatch::trace {

std::vector<Row> ParentsFirst(const EventTable& events) {
  std::vector<Row> order(events.size());
  std::iota(order.begin(), order.end(), Row{0});
  // A parent starts before its child, or together with it and is not shorter (finish.cc nests them
  // so).
  for (size_t i = 0; i < order.size();) {
    size_t j = i + 1;
    while (j < order.size() && events.ts[order[j]] == events.ts[order[i]]) ++j;
    if (j - i > 1)
      std::stable_sort(order.begin() + static_cast<ptrdiff_t>(i),
                       order.begin() + static_cast<ptrdiff_t>(j),
                       [&](Row a, Row b) { return events.dur[a] > events.dur[b]; });
    i = j;
  }
  return order;
}

}  // namespace flopwatch::trace
