// Grouped products (mixture of experts). Which rows go to which group stands in the values of the
// offsets, which no trace holds; the total does not depend on it, but rows that only pad count as
// if they were used.
#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

StatusOr<FlopsCount> GroupedMm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0), *b = in.tensor(1);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  const int64_t packed = in.type(0).find("Float4") != std::string_view::npos ? 2 : 1;
  std::optional<int64_t> flops;
  if (a->size() == 2 && b->size() == 3 && (*a)[1] == (*b)[1]) {  // [T,K] x [G,K,N]: rows in groups
    flops = ProductOf({2, (*a)[0], (*a)[1], packed, (*b)[2]});
  } else if (a->size() == 3 && b->size() == 2 &&
             (*a)[2] == (*b)[0]) {  // [G,M,K] x [K,N]: columns in groups
    flops = ProductOf({2, (*a)[1], (*a)[2], packed, (*b)[1]});
  } else if (a->size() == 2 && b->size() == 2 &&
             (*a)[1] == (*b)[0]) {  // [M,T] x [T,N]: K in groups (gradient of the weights)
    flops = ProductOf({2, (*a)[0], (*a)[1], packed, (*b)[1]});
  } else if (a->size() == 3 && b->size() == 3 && (*a)[0] == (*b)[0] && (*a)[2] == (*b)[1]) {
    return GemmCount((*a)[0], (*a)[1], packed * (*a)[2], (*b)[2], 0, 1);
  } else {
    return NotCounted("the recorded sizes do not fit a grouped product");
  }
  return RangeCount(flops, flops, kUpperBound, 0, 1);
}

constexpr FlopsRule kGroupedRules[] = {{"aten::_grouped_mm", "grouped_mm", GroupedMm},
                                       {"aten::_scaled_grouped_mm", "grouped_mm", GroupedMm},
                                       {"aten::_scaled_grouped_mm_v2", "grouped_mm", GroupedMm}};

}  // namespace

std::span<const FlopsRule> GroupedRules() { return kGroupedRules; }

}  // namespace flopwatch::trace
