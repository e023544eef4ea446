// Sequences of kernels below operators, for our choice of the operators and for HTA's. Internal to
// the two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

inline constexpr size_t kMostPatternText = 64 << 20;  // of all patterns

struct Pattern {
  std::vector<NameId> names;  // the operator, then its kernels by start time
  int64_t count = 0;
  double gpu_us = 0, cpu_us = 0;
};

// `root`: of every row, the operator that its kernels count for, or kNoRow. `gpu`: the work to look
// at, by start time. `skip`: launch calls whose work is passed over, one a row; empty = none.
std::vector<Pattern> FindPatterns(const RankView& view, std::span<const Row> root,
                                  std::span<const Row> gpu, const std::vector<bool>& skip);
// FailedPrecondition where there are none.
Status NoPatterns(const RankView& view);
// Names joined, at most so many kernels.
std::string JoinPattern(const StringPool& names, const Pattern& pattern, std::string_view between,
                        size_t most);
// The note that both tables end with.
std::string PatternNote(const RankView& view);

}  // namespace flopwatch::trace
