// Sums of a window as what people read: OFU with its reason, coverage, losses, and a series of
// steps. Every answer, whoever writes it down, takes its numbers from here.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "store/store.h"

namespace flopwatch::query {

struct Usage {
  store::UsageSums sums;
  double expected_s = 0;       // GPU-seconds deployed or allocated; 0 = none
  std::optional<double> ci95;  // half-width of OFU
  std::optional<double> Ofu() const { return sums.ofu.Ofu(); }
  std::optional<double> CoverageRatio() const;
  // GPU-seconds the tensor pipe could have used and did not, of those that could be computed.
  double LostGpuSeconds() const { return sums.ofu.computable_s - sums.ofu.ofu_s; }
};

// Why there is no OFU; "" when there is one.
std::string_view OfuReason(const store::UsageSums& sums);
// "ratio", "cycles" or "mixed"; "" when nothing was computable.
std::string_view OfuSource(const store::UsageSums& sums);
std::optional<double> MeanOf(double sum, double seconds);

// Resident warps of all that fit on all SMs (DCGM 1003), over the time in which that was measured.
std::optional<double> OccupancyElapsed(const store::UsageSums& sums);
// The same of the SMs while they were active: the sum of DCGM 1003 over that of 1002. Null where
// one of the two has so many seconds more that they could change it by more than kOccupancyError of
// itself: each sum would be of other GPUs or another time. Where both have the same time, SM
// efficiency times this is the occupancy over elapsed time.
std::optional<double> OccupancyActive(const store::UsageSums& sums);
inline constexpr double kOccupancyError = 1e-3;

// A grid of steps: points[k] covers [from + k step, from + (k + 1) step), expected_s GPU-seconds.
struct Series {
  Micros from = 0, step = 0;
  std::vector<store::UsageSums> points;
  std::vector<double> expected_s;
};
Series MakeSeries(store::Window window, Micros step, const std::vector<store::UsagePoint>& points,
                  std::vector<double> expected_s);
// 95 % half-width of the series' mean OFU; nullopt where the series is too short for one.
std::optional<double> HalfWidth95(const Series& series);

// Reasons and GPU-seconds of what has no OFU, largest first; last is time without any sample.
struct NotComputable {
  std::string_view reason;
  double gpu_seconds = 0;
};
std::vector<NotComputable> Losses(const Usage& usage);

}  // namespace flopwatch::query
