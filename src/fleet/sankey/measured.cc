#include "fleet/sankey/measured.h"

namespace flopwatch::fleet {
namespace {

using efficiency::UsageSums;

struct Counter {
  double (*sum)(const UsageSums&);
  double (*span)(const UsageSums&);
};
constexpr Counter kCounters[] = {
    {[](const UsageSums& s) { return s.gpu_util_s; },
     [](const UsageSums& s) { return s.gpu_util_span_s; }},
    {[](const UsageSums& s) { return s.sm_active_s; },
     [](const UsageSums& s) { return s.sm_active_span_s; }},
    {[](const UsageSums& s) { return s.tensor_s; },
     [](const UsageSums& s) { return s.tensor_span_s; }},
    {[](const UsageSums& s) { return s.ofu.ofu_s; },
     [](const UsageSums& s) { return s.ofu.computable_s; }},
};
static_assert(std::size(kCounters) == kSankeyLevels - kFirstMeasured);

}  // namespace

double SpanOf(const UsageSums& sums, SankeyLevel level) {
  return kCounters[static_cast<size_t>(level) - kFirstMeasured].span(sums);
}

std::array<bool, kSankeyLevels> KnownOf(const UsageSums& sums) {
  std::array<bool, kSankeyLevels> known{};
  for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k)
    known[k] = kCounters[k - kFirstMeasured].span(sums) > 0;
  return known;
}

Measured MeasuredOf(const UsageSums& sums, double top, const std::array<bool, kSankeyLevels>& known,
                    const std::optional<SankeyInput::Covered>& covered) {
  Measured m;
  m.known = known;
  double below = 0, below_span = 0;
  for (size_t k = kSankeyLevels; k-- > kFirstMeasured;) {
    const Counter& counter = kCounters[k - kFirstMeasured];
    const double all = counter.span(sums), own = counter.sum(sums);
    const double span = covered.has_value() ? std::min(all, (*covered)[k]) : all;
    m.covered[k] = span;
    const double missing = std::max(0.0, top - span);
    // What the level below shows, this one has at least: in the time that its counter was missing
    // and the other was there. Where both were there and the level below shows more, that is a
    // contradiction (or clocks above the maximum tensor clock), and none of this one's time.
    const double lift =
        std::clamp(below - own, 0.0, std::min(missing, std::max(0.0, below_span - span)));
    m.least[k] = own + lift;
    m.missing[k] = missing - lift;
    if (!known[k]) continue;
    below = m.least[k];
    below_span = std::max(span, below_span);
  }
  return m;
}

void AddCovered(double held_s, const UsageSums& measured, SankeyInput::Covered* covered) {
  for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k)
    (*covered)[k] += std::min(held_s, kCounters[k - kFirstMeasured].span(measured));
}

LossPrices::LossPrices(const UsageSums& measured) : known_(KnownOf(measured)) {}

void LossPrices::Add(double held_s, const UsageSums& measured, const Money& cost) {
  if (held_s <= 0) return;
  const PricedTime all = {.gpu_seconds = held_s, .money = cost};
  all_ += all;
  const auto add = [&](double seconds, PricedTime* to) {
    if (seconds > 0) *to += {.gpu_seconds = seconds, .money = cost * (seconds / held_s)};
  };
  double above = held_s;
  WalkDown(
      MeasuredOf(measured, held_s, known_), held_s,
      [&](SankeyLevel level, double seconds) {
        add(seconds, &unmeasured_[static_cast<size_t>(level)]);
        above -= seconds;
      },
      [&](SankeyLevel level, double reached) {
        const double left = std::clamp(reached, 0.0, above);
        add(above - left, &lost_[static_cast<size_t>(level)]);
        above = left;
      });
}

std::optional<double> LossPrices::Of(std::string_view loss, SankeyLevel before,
                                     double gpu_seconds) const {
  if (before <= SankeyLevel::kAllocated || before >= SankeyLevel::kCount) return std::nullopt;
  const auto at = static_cast<size_t>(before);
  const PricedTime& own = loss == kUnmeasuredName ? unmeasured_[at] : lost_[at];
  // A loss that the whole has and no part of it: levels are cut to each other differently.
  const PricedTime& of = own.gpu_seconds > 0 ? own : all_;
  if (of.money.priced_s <= 0) return std::nullopt;
  return gpu_seconds * of.money.amount / of.gpu_seconds;
}

}  // namespace flopwatch::fleet
