#include "efficiency/usage_sums.h"

#include <algorithm>

namespace flopwatch::efficiency {
namespace {

// The declaration is in the order of the enum, values have their seconds, and every sum a place.
constexpr bool IsWellFormed() {
  size_t at = 0, counts = 0;
  for (const UsageSumSpec& spec : kUsageSums) {
    if (static_cast<size_t>(spec.sum) != at++) return false;
    if (spec.own == nullptr && spec.of_ofu == nullptr) ++counts;
    if (spec.mean.empty() != (spec.weight == UsageSum::kCount)) return false;
  }
  return counts == 1;
}
static_assert(IsWellFormed());

// `factor` times the sums whose rule is one of `rules`.
template <ShareRule... kRules, typename Sums>
Sums Scaled(Sums sums, double factor) {
  if (factor == 1) return sums;
  ForEachUsageSum([&](auto sum) {
    if constexpr (((SpecOf(sum()).share == kRules) || ...)) Member<sum()>(sums) *= factor;
  });
  return sums;
}

}  // namespace

UsageSums& UsageSums::operator+=(const UsageSums& o) {
  ForEachUsageSum([&](auto sum) { Member<sum()>(*this) += Member<sum()>(o); });
  gpus = std::max(gpus, o.gpus);
  // Zero means that there is no sample yet.
  if (o.first_ts != 0 && (first_ts == 0 || o.first_ts < first_ts)) first_ts = o.first_ts;
  last_ts = std::max(last_ts, o.last_ts);
  return *this;
}

UsageSums OfJob(UsageSums sums, double share) {
  return Scaled<ShareRule::kOfGpu, ShareRule::kOfBoard>(sums, share);
}
PerSum<double> OfJob(PerSum<double> sums, double share) {
  return Scaled<ShareRule::kOfGpu, ShareRule::kOfBoard>(sums, share);
}

UsageSums OfGpu(UsageSums sums, double fraction) {
  return Scaled<ShareRule::kOfGpu>(sums, fraction);
}
PerSum<double> OfGpu(PerSum<double> sums, double fraction) {
  return Scaled<ShareRule::kOfGpu>(sums, fraction);
}

UsageSums OfBoard(const UsageSums& sums) {
  UsageSums board;
  ForEachUsageSum([&](auto sum) {
    if constexpr (SpecOf(sum()).share == ShareRule::kOfBoard)
      Member<sum()>(board) = Member<sum()>(sums);
  });
  return board;
}

void ApplyTensorClock(double tensor_clock_max_mhz, PerSum<double>* sums) {
  PerSum<double>& s = *sums;
  if (tensor_clock_max_mhz > 0) {
    s[UsageSum::kWork] /= tensor_clock_max_mhz;
    return;
  }
  s[UsageSum::kModelUnknown] += s[UsageSum::kComputable];
  s[UsageSum::kComputable] = s[UsageSum::kWork] = s[UsageSum::kCycles] = 0;
}

}  // namespace flopwatch::efficiency
