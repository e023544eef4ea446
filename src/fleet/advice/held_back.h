// What a GPU costs the jobs that it holds back where its own counters do not say it: one that
// stalls at a normal clock, or whose links are bad. Its jobs are held against runs of the same
// workflows without it. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace flopwatch::fleet {

// Runs of one workflow that were set alike: logarithms of their OFU while kernels ran.
struct HeldBackRuns {
  std::vector<double> with;     // in which the GPU was named
  std::vector<double> without;  // without it
};

struct HeldBack {
  double share = 0;  // of their time that the runs with it would have saved without it
  size_t with = 0, without = 0;
};

// Of all groups that have kFewestPeers runs without it and one with it, each run by how little its
// group scatters. nullopt where there are none, or where what is missing is less than three
// standard errors or than three per cent: nobody can say then that the GPU did it.
std::optional<HeldBack> HeldBackBy(absl::Span<const HeldBackRuns> groups);

}  // namespace flopwatch::fleet
