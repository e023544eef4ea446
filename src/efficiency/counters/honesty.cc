#include "efficiency/counters/honesty.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "efficiency/counters/rules.h"
#include "efficiency/ofu.h"

namespace flopwatch::efficiency {
namespace {

constexpr uint16_t kLeastReadings = 5;  // for any opinion, and
constexpr float kLeastSeconds = 120;
constexpr float kWeight = 0.2F;      // of the newest reading in the recent means
constexpr double kIdleShare = 0.40;  // of the limit: above it nothing is idle

constexpr double kWorkingDuty = 0.5, kWorkingSms = 0.3, kWorkingTensor = 0.05;

// From the lowest on.
template <typename F>
void ForEachBit(uint32_t bits, F&& f) {
  for (; bits != 0; bits &= bits - 1) f(static_cast<size_t>(std::countr_zero(bits)));
}

void Blend(double value, float* mean) { *mean += kWeight * (static_cast<float>(value) - *mean); }
// Whether both are there and differ.
bool Moved(double now, float before) {
  return static_cast<float>(now) != before && !std::isnan(now) && !std::isnan(before);
}
double Step(double now, float before) {
  return Moved(now, before) ? std::abs(now - static_cast<double>(before)) : 0;
}

}  // namespace

std::string_view CounterFaultName(CounterFault fault) {
  static constexpr std::string_view kNames[] = {"missing", "dead",        "frozen",   "scaled",
                                                "renamed", "contradicts", "undecided"};
  return kNames[static_cast<size_t>(fault)];
}

std::string_view CounterOpinionName(CounterOpinion opinion) {
  static constexpr std::string_view kNames[] = {"not_judged", "ok", "undecided", "faulty"};
  return kNames[static_cast<size_t>(opinion)];
}

std::string_view WhyNotJudged(const CounterVerdict& verdict) {
  using enum CounterVerdict::Wanting;
  switch (verdict.wanting) {
    case kReadings:
      return "too few readings since the start";
    case kLoad:
      return "the GPU has not worked since the start: the zeros of an idle one prove nothing";
    case kProfiling:
      return "this model has no profiling counters: there is no tensor activity to judge";
    case kNothing:
      break;
  }
  return "";
}

CounterLook::CounterLook(const CountersRow& r, const CounterJudge& judge)
    : row(r),
      tdp_w(r.power_limit_w > 0 ? r.power_limit_w : r.tdp_w),
      activity(std::isnan(r.sm_active)   ? r.gr_active
               : std::isnan(r.gr_active) ? r.sm_active
                                         : std::max(r.sm_active, r.gr_active)),
      had_tensor(judge.had_tensor_),
      mean_excess(judge.mean_excess_),
      mean_ratio(judge.mean_ratio_),
      mean_energy_ratio(judge.mean_energy_ratio_) {
  activity_step = std::max({Step(r.tensor, judge.last_tensor_), Step(r.sm_active, judge.last_sm_),
                            Step(r.gr_active, judge.last_gr_), Step(r.duty, judge.last_duty_)});
  tensor_same = static_cast<float>(r.tensor) == judge.last_tensor_;
  power_same = static_cast<float>(r.power_w) == judge.last_power_;
  energy_same = r.energy_j == judge.last_energy_;
  const bool energy_moved =
      !energy_same && !std::isnan(r.energy_j) && !std::isnan(judge.last_energy_);
  fresh = judge.readings_ == 0 || activity_step > 0 || energy_moved ||
          Moved(r.power_w, judge.last_power_) || Moved(r.clock_mhz, judge.last_clock_);
  profiling_zero = !(r.gr_active > 0) && !(r.sm_active > 0) && !(r.tensor > 0) && !(r.dram > 0) &&
                   !std::isnan(activity);
  busy_and_hot = r.whole && r.duty > kDeadCounterUtil && tdp_w > 0 &&
                 r.power_w > kDeadCounterPowerShare * tdp_w;
  SetIdle(judge);
}

void CounterLook::SetIdle(const CounterJudge& judge) {
  at_idle_power = above_idle_power = false;
  if (!(row.power_w > 0)) return;
  if (!std::isnan(judge.idle_w_)) {
    at_idle_power = row.power_w <= judge.idle_w_ * 1.10 + 3;
    above_idle_power = row.power_w > judge.idle_w_ * 1.15 + 5;
  } else if (tdp_w > 0) {
    above_idle_power = row.power_w >= kIdleShare * tdp_w;
    // Its idle power is not known yet; a clock that is down says the same.
    at_idle_power = row.tensor_clock_max_mhz > 0 && row.clock_mhz > 0 &&
                    row.clock_mhz <= row.tensor_clock_max_mhz / 2 && row.power_w <= tdp_w / 4;
  }
}

void CounterJudge::Add(const CountersRow& row) {
  CounterLook look(row, *this);
  Remember(row, look);
  look.mean_excess = mean_excess_;
  look.mean_ratio = mean_ratio_;
  look.mean_energy_ratio = mean_energy_ratio_;
  const auto span = static_cast<float>(row.span_s);
  const float since = look.fresh ? unseen_s_ + span : 0;
  unseen_s_ = look.fresh ? 0 : unseen_s_ + span;
  readings_s_ += since;
  if (look.fresh && readings_ < UINT16_MAX) ++readings_;
  const AllSay says = AskAll(look);
  ForEachBit(says.fine & with_evidence_, [&](size_t k) { evidence_[k] = {}; });
  ForEachBit(says.fault, [&](size_t k) {
    Evidence& e = evidence_[k];
    e.seconds += (says.any >> k & 1) != 0 ? span : since;
    if (e.readings < UINT16_MAX) ++e.readings;
  });
  with_evidence_ = (with_evidence_ & ~says.fine) | says.fault;
}

void CounterJudge::Remember(const CountersRow& r, const CounterLook& look) {
  no_profiling_ = !r.has_profiling;
  had_tensor_ |= !std::isnan(r.tensor);
  worked_ |= r.duty >= kWorkingDuty || look.activity >= kWorkingSms || r.tensor >= kWorkingTensor ||
             (look.tdp_w > 0 && r.power_w >= kIdleShare * look.tdp_w);
  if (!look.fresh) return;
  if (!std::isnan(r.tensor) && !std::isnan(r.sm_active)) {
    Blend(r.tensor - r.sm_active, &mean_excess_);
  }
  if (r.tensor >= kWorkingTensor && r.cycles_mhz > 0 && r.clock_mhz > 0)
    Blend(r.tensor * r.clock_mhz / r.cycles_mhz, &mean_ratio_);
  const double joules = r.energy_j - last_energy_, seconds = unseen_s_ + r.span_s;
  if (joules > 0 && seconds > 0 && r.span_s > 0 && r.power_w > 0)
    Blend(std::min(joules / (r.power_w * seconds), 1e6), &mean_energy_ratio_);
  // Nothing runs: what the board draws then is its own idle power.
  if (r.duty == 0 && (look.profiling_zero || std::isnan(look.activity)) && r.power_w > 0 &&
      !(look.tdp_w > 0 && r.power_w > kIdleShare * look.tdp_w)) {
    const auto w = static_cast<float>(r.power_w);
    idle_w_ = std::isnan(idle_w_) ? w : std::min(idle_w_, w);
  }
  // An absent value leaves the last one in its place.
  const auto note = [](double value, float* last) {
    if (!std::isnan(value)) *last = static_cast<float>(value);
  };
  note(r.tensor, &last_tensor_);
  note(r.sm_active, &last_sm_);
  note(r.gr_active, &last_gr_);
  note(r.power_w, &last_power_);
  note(r.duty, &last_duty_);
  note(r.clock_mhz, &last_clock_);
  if (!std::isnan(r.energy_j)) last_energy_ = r.energy_j;
}

CounterVerdict CounterJudge::Verdict(const CounterPatience& patience) const {
  using Wanting = CounterVerdict::Wanting;
  CounterVerdict v;
  v.readings = readings_;
  ForEachBit(with_evidence_, [&](size_t k) {
    const CounterRule& rule = RuleOf(static_cast<CounterRuleId>(k));
    const Evidence& e = evidence_[k];
    if (e.readings < std::min(rule.readings, patience.readings) ||
        e.seconds < rule.seconds * static_cast<float>(patience.seconds))
      return;
    // What cannot be told is said only where nothing is known.
    if (rule.fault == CounterFault::kUndecided && v.found != 0) return;
    v.found |= 1U << k;
    if (v.rule != CounterRuleId::kNone) return;
    v.rule = rule.id;
    v.for_s = e.seconds;
  });
  v.wanting = Wanting::kNothing;
  if (v.found != 0) {
    v.opinion = RuleOf(v.rule).fault == CounterFault::kUndecided ? CounterOpinion::kUndecided
                                                                 : CounterOpinion::kFaulty;
  } else if (no_profiling_) {
    v.wanting = Wanting::kProfiling;
  } else if (readings_ < std::min(kLeastReadings, patience.readings) ||
             readings_s_ < kLeastSeconds * static_cast<float>(patience.seconds)) {
    v.wanting = Wanting::kReadings;
  } else if (!worked_) {
    v.wanting = Wanting::kLoad;
  } else {
    v.opinion = CounterOpinion::kHonest;
  }
  return v;
}

}  // namespace flopwatch::efficiency
