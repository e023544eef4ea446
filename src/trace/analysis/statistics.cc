#include "trace/analysis/statistics.h"

#include <algorithm>

namespace flopwatch::trace {

Summary Describe(std::vector<double> values, std::span<const double> quantiles) {
  Summary out;
  Accumulator all;
  for (const double v : values) all.Add(v);
  out.count = all.count();
  out.sum = all.sum();
  out.mean = all.mean();
  out.std = all.std();
  out.min = all.min();
  out.max = all.max();
  out.percentiles.assign(quantiles.size(), kNaN);
  // What lies before `sorted_to` is not larger than what lies from there.
  auto sorted_to = values.begin();
  for (size_t q = 0; q < quantiles.size() && !values.empty(); ++q) {
    const double at = quantiles[q] * static_cast<double>(values.size() - 1);
    const auto below = static_cast<ptrdiff_t>(at);
    const auto low = values.begin() + below;
    if (low >= sorted_to) std::nth_element(sorted_to, low, values.end());
    sorted_to = std::max(sorted_to, low);
    double value = *low;
    if (const double part = at - static_cast<double>(below); part > 0) {
      const double next = *std::min_element(low + 1, values.end());
      value += (next - value) * part;
    }
    out.percentiles[q] = value;
  }
  return out;
}

std::vector<NameTotals::Line> NameTotals::BySum() const {
  std::vector<Line> out = lines_;
  std::ranges::sort(out, [](const Line& a, const Line& b) {
    return a.total.sum() != b.total.sum() ? a.total.sum() > b.total.sum() : a.name < b.name;
  });
  return out;
}

HeldSummary DescribeHeld(std::vector<Held> values) {
  HeldSummary out;
  std::erase_if(values, [](const Held& h) { return h.time <= 0; });
  if (values.empty()) return out;
  std::ranges::sort(values, {}, &Held::value);
  double time = 0, sum = 0;
  for (const Held& h : values) {
    out.time += h.time;
    sum += h.value * static_cast<double>(h.time);
  }
  time = static_cast<double>(out.time);
  out.mean = sum / time;
  double squares = 0;
  for (const Held& h : values)
    squares += (h.value - out.mean) * (h.value - out.mean) * static_cast<double>(h.time);
  out.std = std::sqrt(squares / time);
  out.min = values.front().value;
  out.max = values.back().value;
  double seen = 0;
  for (const Held& h : values) {
    seen += static_cast<double>(h.time);
    if (std::isnan(out.p50) && seen >= 0.5 * time) out.p50 = h.value;
    if (std::isnan(out.p90) && seen >= 0.9 * time) out.p90 = h.value;
  }
  return out;
}

}  // namespace flopwatch::trace
