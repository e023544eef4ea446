#include "fleet/idle/track.h"

#include <algorithm>

#include "fleet/idle/rules.h"

namespace flopwatch::fleet {
namespace {

// Of two adjoining rows of one sign, the one at the border shows less: this much less, and the
// other sign had part of it.
constexpr double kMixed = .9;
// Below kEmptyAtMost_mib a process that comes or goes moves the memory by more than this.
constexpr double kMemoryStep_mib = 100;

double HigherOf(double a, double b) {
  if (std::isnan(a)) return b;
  return std::isnan(b) ? a : std::max(a, b);
}

// Which of two signs stands for more that runs: a row that saw both has the higher one's.
int Rank(IdleSign s) {
  switch (s) {
    case IdleSign::kQuiet:
      return 0;
    case IdleSign::kNoTensor:
      return 1;
    default:
      return 2;
  }
}

bool IsLow(double memory) { return memory <= kEmptyAtMost_mib; }

}  // namespace

double IdleReading::Duty() const { return HigherOf(HigherOf(gr_active, gpu_util), sm_active); }

IdleSign IdleTrack::SignOf(const IdleReading& row, double duty, double power_limit_w) const {
  if (std::isnan(duty)) return IdleSign::kNone;
  if (duty <= kIdleDuty) {
    const bool contradicted = power_limit_w > 0 && row.power_w > kQuietPowerShare * power_limit_w;
    return contradicted ? IdleSign::kNone : IdleSign::kQuiet;
  }
  if (std::isnan(row.tensor_active)) {
    // A value that is blank now and then changes nothing.
    const IdleSign now = (next_.empty() ? now_ : next_).run.sign;
    const bool known = has_tensor_ && (now == IdleSign::kNoTensor || now == IdleSign::kWork);
    return known ? now : IdleSign::kBlind;
  }
  return row.tensor_active <= kNoTensorActive ? IdleSign::kNoTensor : IdleSign::kWork;
}

void IdleTrack::Add(const IdleReading& reading, double share, double power_limit_w) {
  IdleReading clipped = reading;
  clipped.from = std::max({reading.from, from_, seen_to_});
  clipped.to = std::min(reading.to, to_);
  if (clipped.from >= clipped.to) return;
  // The memory in use is that of the row's end, when the job may have left the GPU.
  if (reading.to > to_ - kIdleClockSkew)
    clipped.memory_mib = std::numeric_limits<double>::quiet_NaN();
  const double seconds = ToSeconds(clipped.to - clipped.from), duty = reading.Duty();
  Row row{.sign = SignOf(reading, duty, power_limit_w),
          .duty = duty,
          .tensor = reading.tensor_active,
          .memory = clipped.memory_mib,
          .length = clipped.to - clipped.from,
          .share = share};
  const double summed = share * SummedSeconds(clipped.from, clipped.to);
  if (row.sign == IdleSign::kNone) {
    if (duty <= kIdleDuty) contradicted_s_ += summed;
    return;  // as if there were no row
  }
  if (!std::isnan(reading.tensor_active)) has_tensor_ = true;
  observed_s_ += summed;
  all_s_ += seconds;
  if (row.sign == IdleSign::kQuiet) all_quiet_s_ += seconds;
  if (seen_to_ != 0 && clipped.from - seen_to_ > kIdleMaxGap) Break();
  seen_to_ = clipped.to;
  const bool at_edge = reading.from < from_ + kIdleClockSkew || reading.to > to_ - kIdleClockSkew;
  if (at_edge && row.sign != IdleSign::kQuiet) {
    // It saw another job's work, or may have: it counts as what it adjoins.
    Making& run = next_.empty() ? now_ : next_;
    if (run.empty()) {
      if (lead_from_ == 0) lead_from_ = clipped.from;
    } else {
      run.run.to = clipped.to;
      run.run.covered_s += seconds;
      run.run.gpu_s += share * seconds;
      if (run.run.sign == IdleSign::kQuiet) quiet_s_ += summed;
    }
    return;
  }
  if (row.sign == IdleSign::kQuiet) quiet_s_ += summed;
  if (lead_from_ != 0) {
    row.length += clipped.from - lead_from_;
    clipped.from = lead_from_;
    lead_from_ = 0;
  }
  if (now_.empty()) return Take(clipped, row, &now_);
  if (next_.empty()) {
    if (GoesOn(now_, row)) return Take(clipped, row, &now_);
    return Take(clipped, row, &next_);
  }
  if (GoesOn(next_, row)) {
    if (next_.rows == 1) PlaceBorder(&now_, &next_, row);
    Close(now_, next_);
    now_ = std::exchange(next_, Making());
    return Take(clipped, row, &now_);
  }
  if (GoesOn(now_, row) && IsBlip(next_)) {
    next_ = Making();
    return Take(clipped, row, &now_);
  }
  Close(now_, next_);
  now_ = std::exchange(next_, Making());
  if (GoesOn(now_, row)) return Take(clipped, row, &now_);
  Take(clipped, row, &next_);
}

bool IdleTrack::GoesOn(const Making& run, const Row& row) const {
  if (run.run.sign != row.sign) return false;
  if (row.sign != IdleSign::kQuiet || std::isnan(row.memory) || std::isnan(run.memory_last))
    return true;
  // A process came or went.
  if (!IsLow(row.memory) && !IsLow(run.memory_last)) return true;
  return std::abs(row.memory - run.memory_last) <= kMemoryStep_mib;
}

bool IdleTrack::IsBlip(const Making& run) {
  return run.run.sign != IdleSign::kQuiet && run.run.duty.sum <= kIdleBlip_s;
}

void IdleTrack::Take(const IdleReading& reading, const Row& row, Making* into) {
  IdleRun& run = into->run;
  const double seconds = ToSeconds(row.length);
  if (into->empty()) {
    run.sign = row.sign;
    run.from = reading.from;
    into->first = row;
  }
  ++into->rows;
  // Of a row at an edge the memory in use may be that of behind the edge.
  if (into->rows > 2 && row.sign != IdleSign::kQuiet && !std::isnan(into->last.memory)) {
    least_memory_at_work_mib_ = std::isnan(least_memory_at_work_mib_)
                                    ? into->last.memory
                                    : std::min(least_memory_at_work_mib_, into->last.memory);
  }
  into->before_last = into->last;
  into->last = row;
  run.to = reading.to;
  run.covered_s += seconds;
  run.gpu_s += row.share * seconds;
  run.duty.Add(row.duty, seconds);
  run.sm_active.Add(reading.sm_active, seconds);
  run.power_w.Add(reading.power_w, seconds);
  if (!std::isnan(row.memory)) {
    run.memory_max_mib = HigherOf(run.memory_max_mib, row.memory);
    into->memory_last = row.memory;
  }
  if (row.sign != IdleSign::kWork) return;
  work_tensor_.Add(reading.tensor_active, seconds);
  work_power_.Add(reading.power_w, seconds);
  work_sm_.Add(reading.sm_active, seconds);
}

void IdleTrack::PlaceBorder(Making* before, Making* after, const Row& second) {
  const int a = Rank(before->run.sign), b = Rank(after->run.sign);
  if (a == b) return;
  const bool quiet = std::min(a, b) == 0;
  const auto level = [&](const Row& row) { return quiet ? row.duty : row.tensor; };
  // The rows of the side on which more runs: at the border, and next to it.
  const Row& at = a > b ? before->last : after->first;
  const Row& inner = a > b ? before->before_last : second;
  if (a > b && before->rows < 2) return;
  const double part = level(at) / level(inner);
  if (!(part < kMixed)) return;  // also where one is absent
  const auto length = static_cast<Micros>((1 - part) * static_cast<double>(at.length));
  const double seconds = ToSeconds(length), gpu_s = at.share * seconds;
  const Micros by = a > b ? -length : length;
  before->run.to += by;
  after->run.from += by;
  IdleRun& less = a > b ? after->run : before->run;
  IdleRun& more = a > b ? before->run : after->run;
  less.covered_s += seconds;
  more.covered_s -= seconds;
  less.gpu_s += gpu_s;
  more.gpu_s -= gpu_s;
  if (quiet)
    quiet_s_ += at.share * SummedSeconds(before->run.to - std::max<Micros>(by, 0),
                                         before->run.to + std::max<Micros>(-by, 0));
}

void IdleTrack::Close(const Making& made, const Making& after) {
  if (made.empty()) return;
  IdleRun run = made.run;
  if (run.sign != IdleSign::kQuiet && !IsBlip(made)) {
    if (first_active_ == 0) first_active_ = run.from;
    last_active_ = run.to;
    if (run.sign == IdleSign::kWork) {
      if (first_tensor_ == 0) first_tensor_ = run.from;
      last_tensor_ = run.to;
    }
  }
  const bool quiet = run.sign == IdleSign::kQuiet;
  run.follows = quiet && closed_quiet_to_ == run.from;
  closed_quiet_to_ = quiet ? run.to : 0;
  const bool followed = quiet && !after.empty() && after.run.sign == IdleSign::kQuiet;
  if (run.sign == IdleSign::kWork) return;
  // Before anything ran a short one matters, too: nothing may come after it.
  const bool first = quiet && first_active_ == 0;
  if (run.to - run.from < kShortestRun && !run.follows && !followed && !first) return;
  if (runs_.size() < kMaxIdleRuns) runs_.push_back(run);
}

void IdleTrack::Break() {
  if (!next_.empty() && !now_.empty() && IsBlip(next_)) next_ = Making();
  Close(now_, next_);
  Close(next_, Making());
  now_ = next_ = Making();
  closed_quiet_to_ = 0;
  lead_from_ = 0;
}

void IdleTrack::Finish() { Break(); }

}  // namespace flopwatch::fleet
