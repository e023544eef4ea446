// Where the level of a series changes: runs of a workflow in order, or steps of one run.
//
// The series scatters about a level that may jump. Each place with enough values on either side is
// tested with Student's t over several lengths of what follows, because a level may change again;
// values that lie far from both levels are pulled in first (winsorised at three robust standard
// deviations), so that one odd run neither makes a change nor hides one. Probabilities are
// multiplied by the number of places and lengths looked at (Bonferroni): what is given is the
// chance that a series of that length without any change shows one as clear as this.
//
// The scatter of few values is poorly known. Where many series are judged together, what scatter
// is usual among them (ScatterPrior) is added as so many values' worth of evidence (the moderated t
// of Smyth, Stat. Appl. Genet. Mol. Biol. 3(1), 2004), beside the plain t: a quiet series among
// restless ones is judged by itself. The clearer of the two counts.
//
// Pure; bounded: a series of n values takes n x kLongestSide x kLengths steps a change.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace flopwatch::fleet {

// The values on one side of a place that are looked at, nearest first.
inline constexpr size_t kLongestSide = 48;
// Changes that are looked for in one series; the clearest come first.
inline constexpr size_t kMostChanges = 32;

// What variance is usual among the series judged together, and how many values' worth of evidence
// that is. degrees 0 = nothing is known beforehand.
struct ScatterPrior {
  double variance = 0, degrees = 0;
};
// One series' variance and the degrees of freedom behind it.
struct SeriesVariance {
  double variance = 0, degrees = 0;
};
// By the moments of the logarithms; where the series differ much among themselves it says little
// (few degrees). Nothing from fewer than ten series.
ScatterPrior PriorOf(absl::Span<const SeriesVariance> series);

struct ChangeOptions {
  size_t min_before = 5, min_after = 3;
  // The largest chance with which a series without a change may show one.
  double alpha = 0.001;
  // Below this no scatter is believed, whatever few values say.
  double least_scatter = 0;
  ScatterPrior prior;
};

struct LevelChange {
  size_t at = 0;                     // the first value after
  size_t before_n = 0, after_n = 0;  // values of either side that were looked at
  double before = 0, after = 0;      // levels: means after winsorising
  double scatter = 0;                // standard deviation of one value about its level
  double p = 1;                      // corrected for what was looked at
};

// Changes in order of place, falls and rises.
std::vector<LevelChange> FindChanges(absl::Span<const double> values, const ChangeOptions& options);

// How values scatter about their level, with changes between taken out: what the prior is made of.
// degrees 0 where there are fewer than four values.
SeriesVariance VarianceOf(absl::Span<const double> values);

// The chance that Student's t with `degrees` is above `t`.
double StudentTail(double t, double degrees);

// The middle value; 0 of none.
double MedianValue(std::vector<double> values);

}  // namespace flopwatch::fleet
