#include "fleet/sankey/hosts.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace flopwatch::fleet {
namespace {

// What is counted from moment to moment.
enum class Counted : uint8_t { kSeen, kUncovered, kHeld, kByNumber, kQueued, kCount };

// What changes at a moment. There are millions in a large fleet, so it is small.
struct Event {
  Micros at = 0;
  double by = 0;                       // of `what`
  const Host::State* state = nullptr;  // begins or ends instead
  Counted what = Counted::kSeen;
  bool ends = false;  // the state
};

class Sweep {
 public:
  Sweep(const Host& host, HostSpan window) : host_(host), window_(window) {}

  HostTime Over() {
    Collect();
    std::ranges::sort(events_, {}, &Event::at);
    Micros since = window_.from;
    for (size_t k = 0; k < events_.size();) {
      const Micros at = events_[k].at;
      if (at > since) Add({since, at});
      since = std::max(since, at);
      for (; k < events_.size() && events_[k].at == at; ++k) Apply(events_[k]);
    }
    if (since < window_.to) Add({since, window_.to});
    return std::move(out_);
  }

 private:
  HostSpan Within(HostSpan span) const {
    return {std::max(span.from, window_.from), std::min(span.to, window_.to)};
  }
  void Count(HostSpan span, Counted what, double by) {
    span = Within(span);
    if (span.from >= span.to || by == 0) return;
    events_.push_back({.at = span.from, .by = by, .what = what});
    events_.push_back({.at = span.to, .by = -by, .what = what});
  }

  void Collect() {
    for (const Host::State& state : host_.states) {
      const HostSpan span = Within(state.time);
      if (span.from >= span.to) continue;
      events_.push_back({.at = span.from, .state = &state});
      events_.push_back({.at = span.to, .state = &state, .ends = true});
    }
    for (const Host::Board& board : host_.boards) {
      Count(board.there, Counted::kSeen, 1);
      if (board.instances > 0)
        Count(board.there, Counted::kUncovered, std::max(0.0, 1 - board.instances));
      for (const Host::Board::Hold& hold : board.held) {
        // Where a list says what the host has, a GPU is held before it is first seen, too.
        const HostSpan time = !host_.states.empty()
                                  ? hold.time
                                  : HostSpan{std::max(hold.time.from, board.there.from),
                                             std::min(hold.time.to, board.there.to)};
        Count(time, Counted::kHeld, hold.weight);
      }
    }
    for (const Host::Count& count : host_.counts)
      Count(count.time, Counted::kByNumber, count.gpus);
    for (const HostSpan& queued : host_.queued) Count(queued, Counted::kQueued, 1);
  }

  double Now(Counted what) const { return now_[static_cast<size_t>(what)]; }

  void Apply(const Event& e) {
    if (e.state == nullptr) {
      now_[static_cast<size_t>(e.what)] += e.by;
      return;
    }
    // Where one state ends as the next begins their order does not matter.
    if (!e.ends) {
      state_ = e.state;
    } else if (state_ == e.state) {
      state_ = nullptr;
    }
  }

  void Charge(double gpus, PricedTime* to) const {
    if (gpus <= kRounding) return;
    to->gpu_seconds += gpus * seconds_;
    to->money += each_ * gpus;
  }

  void Add(HostSpan span) {
    seconds_ = ToSeconds(span.to - span.from);
    each_ = host_.price == nullptr ? Money() : host_.price->Over(span.from, span.to);
    const double known = state_ != nullptr && state_->gpus >= 0 ? state_->gpus : Now(Counted::kSeen);
    const double wanted = std::max(0.0, Now(Counted::kHeld) + Now(Counted::kByNumber));
    const double held = std::min(wanted, known);
    out_.excess_s += (wanted - held) * seconds_;
    const auto service = state_ == nullptr ? jobs::Service::kInService : state_->service;
    const bool takes_work =
        service == jobs::Service::kInService || service == jobs::Service::kUnknown;
    Charge(known, &out_.deployed);
    Charge(held, &out_.allocated);
    const double uncovered = std::clamp(Now(Counted::kUncovered), 0.0, known - held);
    const double free = known - held - uncovered;
    if (!takes_work) {
      Charge(held, &out_.schedulable);
      Charge(held, &out_.draining_work);
      Charge(held, &out_.on_busy_hosts);
      HostTime::Out& out = out_.out[static_cast<size_t>(service)];
      Charge(known - held, &out.time);
      if (known - held > kRounding) out.reasons[state_->reason] += (known - held) * seconds_;
      return;
    }
    Charge(known, &out_.schedulable);
    const bool queued = Now(Counted::kQueued) > 0;
    if (held <= kRounding) {
      Charge(known, queued ? &out_.idle_queued : &out_.idle);
      return;
    }
    Charge(known, &out_.on_busy_hosts);
    Charge(uncovered, &out_.mig_uncovered);
    Charge(free, queued ? &out_.free_queued : &out_.free);
  }

  // Sums of weights that came and went are off by less than this.
  static constexpr double kRounding = 1e-9;

  const Host& host_;
  const HostSpan window_;
  std::vector<Event> events_;
  std::array<double, static_cast<size_t>(Counted::kCount)> now_{};
  const Host::State* state_ = nullptr;
  double seconds_ = 0;  // of the part that is added
  Money each_;          // what one GPU costs in it
  HostTime out_;
};

}  // namespace

PricedTime& PricedTime::operator+=(const PricedTime& o) {
  gpu_seconds += o.gpu_seconds;
  money += o.money;
  return *this;
}

void Unite(std::vector<HostSpan>* spans) {
  std::ranges::sort(*spans, {}, &HostSpan::from);
  size_t kept = 0;
  for (const HostSpan& s : *spans) {
    if (kept > 0 && s.from <= (*spans)[kept - 1].to) {
      (*spans)[kept - 1].to = std::max((*spans)[kept - 1].to, s.to);
    } else {
      (*spans)[kept++] = s;
    }
  }
  spans->resize(kept);
}

HostTime& HostTime::operator+=(const HostTime& o) {
  for (const auto member :
       {&HostTime::deployed, &HostTime::schedulable, &HostTime::draining_work,
        &HostTime::on_busy_hosts, &HostTime::allocated, &HostTime::idle, &HostTime::idle_queued,
        &HostTime::free, &HostTime::free_queued, &HostTime::mig_uncovered})
    this->*member += o.*member;
  for (size_t k = 0; k < kServices; ++k) {
    out[k].time += o.out[k].time;
    for (const auto& [reason, seconds] : o.out[k].reasons) out[k].reasons[reason] += seconds;
  }
  excess_s += o.excess_s;
  return *this;
}

HostTime TimeOf(const Host& host, HostSpan window) { return Sweep(host, window).Over(); }

namespace {

// What a host is while the loss grows.
jobs::Service ServiceOf(HostLoss loss) {
  switch (loss) {
    case HostLoss::kDown:
      return jobs::Service::kDown;
    case HostLoss::kDrained:
      return jobs::Service::kDrain;
    case HostLoss::kMaintenance:
      return jobs::Service::kMaintenance;
    case HostLoss::kPoweredDown:
      return jobs::Service::kPoweredDown;
    default:
      return jobs::Service::kInService;
  }
}

}  // namespace

const PricedTime& PartOf(const HostTime& time, HostLoss loss) {
  static constexpr PricedTime HostTime::*kParts[] = {&HostTime::idle, &HostTime::idle_queued,
                                                     &HostTime::free, &HostTime::free_queued,
                                                     &HostTime::mig_uncovered};
  const auto at = static_cast<size_t>(loss);
  if (at < std::size(kParts)) return time.*kParts[at];
  return time.out[static_cast<size_t>(ServiceOf(loss))].time;
}

std::vector<std::pair<std::string, double>> ReasonsOf(const HostTime& time, HostLoss loss) {
  const auto& all = time.out[static_cast<size_t>(ServiceOf(loss))].reasons;
  std::vector<std::pair<std::string, double>> reasons(all.begin(), all.end());
  std::ranges::stable_sort(reasons, std::greater(), [](const auto& r) { return r.second; });
  if (reasons.size() <= kMaxReasons) return reasons;
  double others = 0;
  for (size_t k = kMaxReasons; k < reasons.size(); ++k) others += reasons[k].second;
  reasons.resize(kMaxReasons);
  reasons.emplace_back("others", others);
  return reasons;
}

}  // namespace flopwatch::fleet
