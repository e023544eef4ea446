// How many GPU-seconds of hardware there were in a window: every GPU from when it was first seen,
// until a day after it fell silent. Built once from the registry and the live state, then any
// window is two binary searches, whatever the fleet's size. Immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "ingest/live.h"
#include "ingest/registry.h"
#include "store/store.h"

namespace flopwatch::query {

inline constexpr Micros kGoneAfter = kMicrosPerDay;

// A GPU, and when it was there.
struct GpuPeriod {
  int32_t entity = 0, model = 0;
  Micros from = 0, to = 0;
};
// `live` may be null (offline: every GPU ever seen is there). A GPU the live state has not seen
// at all counts until `live_since` + kGoneAfter.
std::vector<GpuPeriod> GpuPeriods(const ingest::Registry& registry, const ingest::LiveState* live,
                                  Micros live_since);

class Deployed {
 public:
  explicit Deployed(const std::vector<GpuPeriod>& gpus);
  Deployed(const ingest::Registry& registry, const ingest::LiveState* live, Micros live_since)
      : Deployed(GpuPeriods(registry, live, live_since)) {}

  // The sums are over GPUs of one model, or of all (-1).
  double Seconds(store::Window window, int32_t model = -1) const;
  int64_t Gpus(Micros at, int32_t model = -1) const;
  // Seconds of each step from window.from rounded down to a step; the first and the last only as
  // far as the window goes.
  std::vector<double> Steps(store::Window window, Micros step) const;

 private:
  // Sorted times, each of one GPU, with their running sums.
  struct Times {
    std::vector<Micros> at;
    std::vector<__int128> sum;
    void Finish();
    // Sum over GPUs of the part of [from, to) after their time.
    __int128 After(store::Window window) const;
  };
  struct Fleet {
    Times starts, ends;
  };
  absl::flat_hash_map<int32_t, Fleet> by_model_;  // -1 = all
};

}  // namespace flopwatch::query
