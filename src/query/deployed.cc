#include "query/deployed.h"

#include <algorithm>

namespace flopwatch::query {

std::vector<GpuPeriod> GpuPeriods(const ingest::Registry& registry, const ingest::LiveState* live,
                                  Micros live_since) {
  std::vector<GpuPeriod> gpus;
  registry.ForEachEntity([&](const store::EntityRecord& e) {
    if (e.key.kind == telemetry::EntityKind::kGpu)
      gpus.push_back({e.id, e.model, e.first_seen, INT64_MAX});
  });
  if (live == nullptr) return gpus;
  for (GpuPeriod& gpu : gpus) {
    const Micros last = live->Gpu(gpu.entity).ts;
    // Seen before it was first seen: a clock was ahead then, and has been set back.
    if (last != 0 && last < gpu.from) gpu.from = std::min(last, live->oldest());
    gpu.to = std::max((last != 0 ? last : live_since) + kGoneAfter, gpu.from);
  }
  return gpus;
}

Deployed::Deployed(const std::vector<GpuPeriod>& gpus) {
  for (const GpuPeriod& gpu : gpus) {
    for (const int32_t model : {-1, gpu.model}) {
      Fleet& fleet = by_model_[model];
      fleet.starts.at.push_back(gpu.from);
      fleet.ends.at.push_back(gpu.to);
    }
  }
  for (auto& [model, fleet] : by_model_) {
    fleet.starts.Finish();
    fleet.ends.Finish();
  }
}

void Deployed::Times::Finish() {
  std::sort(at.begin(), at.end());
  sum.reserve(at.size() + 1);
  sum.push_back(0);
  for (const Micros t : at) sum.push_back(sum.back() + t);
}

__int128 Deployed::Times::After(store::Window w) const {
  const auto begin =
      static_cast<size_t>(std::upper_bound(at.begin(), at.end(), w.from) - at.begin());
  const auto end = static_cast<size_t>(std::lower_bound(at.begin(), at.end(), w.to) - at.begin());
  const __int128 whole = static_cast<__int128>(begin) * (w.to - w.from);
  if (end <= begin) return whole;
  return whole + static_cast<__int128>(end - begin) * w.to - (sum[end] - sum[begin]);
}

double Deployed::Seconds(store::Window window, int32_t model) const {
  const auto it = by_model_.find(model);
  if (it == by_model_.end() || window.to <= window.from) return 0;
  return static_cast<double>(it->second.starts.After(window) - it->second.ends.After(window)) /
         kMicrosPerSecond;
}

int64_t Deployed::Gpus(Micros at, int32_t model) const {
  const auto it = by_model_.find(model);
  if (it == by_model_.end()) return 0;
  const auto before = [&](const Times& t) {
    return std::lower_bound(t.at.begin(), t.at.end(), at) - t.at.begin();
  };
  return before(it->second.starts) - before(it->second.ends);
}

std::vector<double> Deployed::Steps(store::Window window, Micros step) const {
  std::vector<double> out;
  for (Micros at = FloorTo(window.from, step); at < window.to; at += step)
    out.push_back(Seconds({std::max(at, window.from), std::min(at + step, window.to)}));
  return out;
}

}  // namespace flopwatch::query
