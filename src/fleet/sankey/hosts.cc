#include "fleet/sankey/hosts.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "base/runs.h"

namespace flopwatch::fleet {
namespace {

// A count that changes by so much at a moment.
struct Edge {
  Micros at = 0;
  double by = 0;
};
// In order of time, each moment once.
using Edges = std::vector<Edge>;

void AddSpan(HostSpan span, double by, Edges* to) {
  if (span.from >= span.to || by == 0) return;
  to->push_back({span.from, by});
  to->push_back({span.to, -by});
}

// Puts them in order. What ends where the like begins is no edge.
void Settle(Edges* edges) {
  if (!std::ranges::is_sorted(*edges, {}, &Edge::at)) std::ranges::sort(*edges, {}, &Edge::at);
  size_t kept = 0;
  for (const Edge& e : *edges) {
    if (kept > 0 && (*edges)[kept - 1].at == e.at) {
      (*edges)[kept - 1].by += e.by;
    } else {
      if (kept > 0 && (*edges)[kept - 1].by == 0) --kept;
      (*edges)[kept++] = e;
    }
  }
  edges->resize(kept);
}

// What is counted from moment to moment.
enum class Counted : uint8_t { kSeen, kUncovered, kHeld, kByNumber, kCount };

class Sweep {
 public:
  Sweep(const Host& host, HostSpan window) : host_(host), window_(window) {}

  HostTime Over() {
    Collect();
    Micros since = window_.from;
    while (since < window_.to) {
      const Micros next = PassEdges(since);
      Add({since, next});
      since = next;
    }
    return std::move(out_);
  }

 private:
  HostSpan Within(HostSpan span) const {
    return {std::max(span.from, window_.from), std::min(span.to, window_.to)};
  }
  Edges& Of(Counted what) { return edges_[static_cast<size_t>(what)]; }
  double Now(Counted what) const { return now_[static_cast<size_t>(what)]; }

  void Collect() {
    ForEachRun(absl::MakeConstSpan(host_.boards), std::identity(),
               [&](absl::Span<const Host::Board> alike, const Host::Board& board) {
                 const auto count = static_cast<double>(alike.size());
                 const HostSpan there = Within(board.there);
                 AddSpan(there, count, &Of(Counted::kSeen));
                 if (board.instances > 0)
                   AddSpan(there, count * std::max(0.0, 1 - board.instances),
                           &Of(Counted::kUncovered));
                 CollectHeld(board, count);
               });
    for (const Host::Count& count : host_.counts)
      AddSpan(Within(count.time), count.gpus, &Of(Counted::kByNumber));
    for (Edges& edges : edges_) Settle(&edges);
  }

  // Jobs hold whole hosts more often than not, so that the boards' edges are the same moments: to
  // merge those is much less than to sort all.
  void CollectHeld(const Host::Board& board, double count) {
    board_.clear();
    // Where a list says what the host has, a GPU is held before it is first seen, too.
    const HostSpan there = Within(host_.states.empty() ? board.there : window_);
    for (const Host::Board::Hold& hold : board.held) {
      for (const HostSpan& t : *hold.times) {
        AddSpan({std::max(t.from, there.from), std::min(t.to, there.to)}, count * hold.weight,
                &board_);
      }
    }
    Settle(&board_);
    Edges& all = Of(Counted::kHeld);
    merged_.clear();
    auto a = all.begin();
    for (auto b = board_.begin(); a != all.end() || b != board_.end();) {
      if (b == board_.end() || (a != all.end() && a->at < b->at)) {
        merged_.push_back(*a++);
      } else if (a == all.end() || b->at < a->at) {
        merged_.push_back(*b++);
      } else {
        merged_.push_back({a->at, a->by + b->by});
        ++a, ++b;
      }
    }
    all.swap(merged_);
  }

  // Applies what changes at `now` or before; gives when the next change is.
  Micros PassEdges(Micros now) {
    Micros next = window_.to;
    for (size_t k = 0; k < edges_.size(); ++k) {
      const Edges& edges = edges_[k];
      size_t& at = passed_[k];
      for (; at < edges.size() && edges[at].at <= now; ++at) now_[k] += edges[at].by;
      if (at < edges.size()) next = std::min(next, edges[at].at);
    }
    while (states_passed_ < host_.states.size() && host_.states[states_passed_].time.from <= now)
      state_ = &host_.states[states_passed_++];
    if (states_passed_ < host_.states.size())
      next = std::min(next, host_.states[states_passed_].time.from);
    if (state_ != nullptr && state_->time.to <= now) state_ = nullptr;
    if (state_ != nullptr) next = std::min(next, state_->time.to);
    return next;
  }

  void Charge(double gpus, PricedTime* to) const {
    if (gpus <= kRounding) return;
    to->gpu_seconds += gpus * seconds_;
    to->money += each_ * gpus;
  }

  void SetSpan(Micros from, Micros to) {
    seconds_ = ToSeconds(to - from);
    each_ = host_.price == nullptr ? Money() : host_.price->Over(from, to);
  }

  // What nobody held in the span, beside a queue and without one. Most of the time there is nothing
  // free, and nobody asks who waits.
  void ChargeFree(double gpus, HostSpan span, PricedTime* alone, PricedTime* beside_queue) {
    if (gpus <= kRounding) return;
    Micros at = span.from;
    for (; host_.queued != nullptr && queue_passed_ < host_.queued->size(); ++queue_passed_) {
      const HostSpan& queued = (*host_.queued)[queue_passed_];
      if (queued.from >= span.to) break;
      if (queued.to <= at) continue;
      const Micros from = std::max(queued.from, at), to = std::min(queued.to, span.to);
      SetSpan(at, from);
      Charge(gpus, alone);
      SetSpan(from, to);
      Charge(gpus, beside_queue);
      at = to;
      if (queued.to > span.to) break;  // it goes on
    }
    SetSpan(at, span.to);
    Charge(gpus, alone);
  }

  void Add(HostSpan span) {
    SetSpan(span.from, span.to);
    const double known =
        state_ != nullptr && state_->gpus >= 0 ? state_->gpus : Now(Counted::kSeen);
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
    if (held <= kRounding) {
      ChargeFree(known, span, &out_.idle, &out_.idle_queued);
      return;
    }
    Charge(known, &out_.on_busy_hosts);
    Charge(uncovered, &out_.mig_uncovered);
    ChargeFree(free, span, &out_.free, &out_.free_queued);
  }

  // Sums of weights that came and went are off by less than this.
  static constexpr double kRounding = 1e-9;

  const Host& host_;
  const HostSpan window_;
  static constexpr auto kCounts = static_cast<size_t>(Counted::kCount);
  std::array<Edges, kCounts> edges_;
  std::array<size_t, kCounts> passed_{};
  std::array<double, kCounts> now_{};
  size_t states_passed_ = 0, queue_passed_ = 0;
  Edges board_, merged_;  // of CollectHeld()
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
