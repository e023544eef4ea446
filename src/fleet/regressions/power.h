// How much power so much work draws: what tells a GPU that waits busily from one that works less.
#pragma once

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fleet/regressions/run.h"

namespace flopwatch::fleet {

// How power goes with work over the runs of one GPU model: a plane by least squares over OFU and SM
// activity.
class PowerPlane {
 public:
  void Add(const WorkSums& s) {
    const auto x = Point(s);
    if (!x) return;
    const std::array<double, 3> row = {1, (*x)[0], (*x)[1]};
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 3; ++k) left_[i][k] += row[i] * row[k];
      right_[i] += row[i] * *s.PowerW();
    }
    ++runs_;
  }

  // The power after, from that before; nothing from too few runs, or from runs that are all alike.
  std::optional<double> Expected(const WorkSums& before, const WorkSums& after) const {
    const auto a = Point(before), b = Point(after);
    if (runs_ < kLeastRunsForPower || !a || !b) return std::nullopt;
    const auto slopes = Solve();
    if (!slopes) return std::nullopt;
    return *before.PowerW() + (*slopes)[1] * ((*b)[0] - (*a)[0]) +
           (*slopes)[2] * ((*b)[1] - (*a)[1]);
  }

 private:
  static constexpr int kLeastRunsForPower = 30;

  static std::optional<std::array<double, 2>> Point(const WorkSums& s) {
    const auto ofu = s.Ofu(), sm = s.SmActive(), power = s.PowerW();
    if (!ofu || !sm || !power) return std::nullopt;
    return std::array<double, 2>{*ofu, *sm};
  }

  // Gauss, with pivots.
  std::optional<std::array<double, 3>> Solve() const {
    auto a = left_;
    auto x = right_;
    for (size_t i = 0; i < 3; ++i) {
      size_t pivot = i;
      for (size_t k = i + 1; k < 3; ++k)
        if (std::abs(a[k][i]) > std::abs(a[pivot][i])) pivot = k;
      if (std::abs(a[pivot][i]) < 1e-9 * left_[0][0]) return std::nullopt;
      std::swap(a[i], a[pivot]);
      std::swap(x[i], x[pivot]);
      for (size_t k = 0; k < 3; ++k) {
        if (k == i) continue;
        const double times = a[k][i] / a[i][i];
        for (size_t c = i; c < 3; ++c) a[k][c] -= times * a[i][c];
        x[k] -= times * x[i];
      }
    }
    for (size_t i = 0; i < 3; ++i) x[i] /= a[i][i];
    return x;
  }

  std::array<std::array<double, 3>, 3> left_{};
  std::array<double, 3> right_{};
  int runs_ = 0;
};
using PowerPlanes = std::map<std::string, PowerPlane>;  // by GPU model

}  // namespace flopwatch::fleet
