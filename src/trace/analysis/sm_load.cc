#include "trace/analysis/sm_load.h"

#include <algorithm>
#include <cmath>

namespace flopwatch::trace {

double BusySmTime(const std::vector<SmLoad>& loads, const IntervalSet& windows) {
  struct Change {
    Nanos at;
    double by;
    int count;
  };
  std::vector<Change> changes;
  changes.reserve(2 * loads.size());
  for (const SmLoad& l : loads) {
    if (!std::isfinite(l.blocks_per_sm) || l.blocks_per_sm <= 0 || l.at.end <= l.at.begin) continue;
    const double blocks =
        std::min(l.blocks_per_sm, 1.0);  // more changes nothing, and keeps the sums exact enough
    changes.push_back({l.at.begin, blocks, 1});
    changes.push_back({l.at.end, -blocks, -1});
  }
  std::ranges::sort(changes, {}, &Change::at);
  double busy = 0, level = 0;
  int running = 0;
  size_t window = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    level += changes[i].by;
    running += changes[i].count;
    if (running == 0) level = 0;  // no drift of the sum
    if (i + 1 == changes.size() || running == 0) continue;
    const Nanos from = changes[i].at, to = changes[i + 1].at;
    while (window < windows.size() && windows[window].end <= from) ++window;
    Nanos inside = 0;
    for (size_t w = window; w < windows.size() && windows[w].begin < to; ++w)
      inside += std::max<Nanos>(0, std::min(to, windows[w].end) - std::max(from, windows[w].begin));
    busy += static_cast<double>(inside) * std::min(level, 1.0);
  }
  return busy;
}

}  // namespace flopwatch::trace
