#include "fleet/stragglers/traits.h"

#include <cmath>
#include <map>
#include <utility>

#include "fleet/stragglers/robust.h"

namespace flopwatch::fleet {
namespace {

double LogMean(const GpuWork& w, WorkField f) {
  const auto v = w.Mean(f);
  return v && *v > 0 ? std::log(*v) : NAN;
}

double LogOfBoth(const GpuWork& w, WorkField out, WorkField in) {
  const auto tx = w.Mean(out), rx = w.Mean(in);
  return tx && rx && *tx + *rx > 0 ? std::log(*tx + *rx) : NAN;
}

Traits RawTraits(const GpuWork& w) {
  Traits none;
  none.fill(NAN);
  if (!w.has_tensor()) return none;
  return {LogMean(w, kWorkPower), LogMean(w, kWorkSmActive), LogMean(w, kWorkDuty),
          LogOfBoth(w, kWorkNvlinkTx, kWorkNvlinkRx), LogOfBoth(w, kWorkPcieTx, kWorkPcieRx)};
}

// Beside the middle of others, of which there are few: the difference has their scatter in it too.
double BesideFew(std::vector<double> others, double own) {
  if (others.empty()) return NAN;
  const double n = static_cast<double>(others.size());
  return (own - MedianOf(std::move(others))) / std::sqrt(1 + 1 / n);
}

}  // namespace

std::vector<Traits> TraitsBesidePeers(std::span<const StragglerRank* const> ranks) {
  std::vector<Traits> out;
  for (const StragglerRank* r : ranks) out.push_back(RawTraits(*r->work));
  for (int t = 0; t < kTraits; ++t) {
    std::vector<double> raw, all;
    std::map<int32_t, std::vector<double>> by_domain;
    for (size_t i = 0; i < ranks.size(); ++i) {
      raw.push_back(out[i][t]);
      if (std::isnan(raw[i])) continue;
      all.push_back(raw[i]);
      if (t == kNvlink) by_domain[ranks[i]->domain].push_back(raw[i]);
    }
    std::map<int32_t, double> middles;
    for (auto& [domain, of] : by_domain)
      if (of.size() >= kFewRanks) middles[domain] = MedianOf(std::move(of));
    const double middle = MedianOf(all);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (std::isnan(raw[i])) continue;
      const auto own = middles.find(ranks[i]->domain);
      if (t == kNvlink && own != middles.end()) {
        out[i][t] -= own->second;
      } else if (all.size() >= kFewRanks) {
        out[i][t] -= middle;
      } else {
        std::vector<double> others;
        for (size_t k = 0; k < raw.size(); ++k)
          if (k != i && !std::isnan(raw[k])) others.push_back(raw[k]);
        out[i][t] = BesideFew(std::move(others), raw[i]);
      }
    }
  }
  return out;
}

}  // namespace flopwatch::fleet
