// Statistics that a few slow GPUs do not move.
#pragma once

#include <span>
#include <vector>

namespace flopwatch::fleet {

// NaN of nothing. The middle of an even number is the mean of two.
double MedianOf(std::vector<double> x);
// Standard deviation of a normal distribution with this median absolute deviation; 0 below two.
double RobustSd(std::span<const double> x);
// Tukey's biweight location of points whose spread is known to be `sd`, from the median on; the
// points beyond 4 sd have no weight. `skip`: leaves that one out; -1 = none.
struct Location {
  double at = 0;
  double weight = 0;  // the number of points that it is as good as
};
Location BiweightLocation(std::span<const double> x, double sd, int skip = -1);

double NormalDensity(double x, double sd);
double NormalBelow(double z);  // the distribution function

}  // namespace flopwatch::fleet
