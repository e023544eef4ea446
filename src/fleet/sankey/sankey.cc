#include "fleet/sankey/sankey.h"

#include <algorithm>
#include <functional>

#include "fmt/format.h"

namespace flopwatch::fleet {
namespace {

using efficiency::UsageSums;

constexpr std::string_view kNoScheduler =
    "no scheduler says which hosts are down, drained or in maintenance";
constexpr std::string_view kNobodySays =
    "nobody says who holds which GPU: no exporter names jobs or pods, and there is no job file";

struct LossSpec {
  std::string_view name, title;
};
constexpr LossSpec kUnmeasured = {"unmeasured", "not measured"};
constexpr LossSpec kMigUncovered = {"mig_uncovered", "SMs of no instance"};
constexpr LossSpec kIdleQueued = {"idle_hosts_queued", "idle hosts, jobs wait"};
constexpr LossSpec kFreeQueued = {"free_queued", "free, jobs wait"};
struct OutSpec {
  HostLoss loss;
  LossSpec names;
};
constexpr OutSpec kOut[] = {{HostLoss::kDown, {"down", "down"}},
                            {HostLoss::kDrained, {"drained", "drained"}},
                            {HostLoss::kMaintenance, {"maintenance", "maintenance"}},
                            {HostLoss::kPoweredDown, {"powered_down", "powered down"}}};

struct LevelSpec {
  std::string_view name, title;
  LossSpec loss;  // of what did not get here
  // Of a level that is measured: its sum, the seconds in which its counter was there, and the
  // reason where it never was.
  double (*sum)(const UsageSums&) = nullptr;
  double (*span)(const UsageSums&) = nullptr;
  std::string_view missing = {};
};
constexpr std::array<LevelSpec, kSankeyLevels> kSpecs = {{
    {"deployed", "deployed", {}},
    {"schedulable", "schedulable", {"not_schedulable", "hosts take no work"}},
    {"on_busy_hosts", "on busy hosts", {"idle_hosts", "idle hosts"}},
    {"allocated", "allocated", {"free_on_busy_hosts", "free on busy hosts"}},
    {"busy",
     "busy",
     {"allocated_idle", "held, no kernel runs"},
     [](const UsageSums& s) { return s.gpu_util_s; },
     [](const UsageSums& s) { return s.gpu_util_span_s; },
     "no exporter reports DCGM_FI_DEV_GPU_UTIL or DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
    {"sm_active",
     "SMs active",
     {"sm_idle", "SMs idle"},
     [](const UsageSums& s) { return s.sm_active_s; },
     [](const UsageSums& s) { return s.sm_active_span_s; },
     "no exporter reports DCGM_FI_PROF_SM_ACTIVE"},
    {"tensor_active",
     "tensor active",
     {"tensor_idle", "tensor cores idle"},
     [](const UsageSums& s) { return s.tensor_s; },
     [](const UsageSums& s) { return s.tensor_span_s; },
     "no exporter reports a DCGM_FI_PROF_PIPE_TENSOR_ACTIVE that lives"},
    {"full_clock",
     "full clock = OFU",
     {"below_full_clock", "below full clock"},
     [](const UsageSums& s) { return s.ofu.ofu_s; },
     [](const UsageSums& s) { return s.ofu.computable_s; },
     "OFU is computable nowhere: tensor activity, SM clock or the GPU model is not known"},
}};
const LevelSpec& SpecOf(SankeyLevel level) { return kSpecs[static_cast<size_t>(level)]; }

constexpr auto kFirstMeasured = static_cast<size_t>(SankeyLevel::kBusy);
// Less than this of a window is rounding of its edges.
constexpr double kRounding = 1e-6;

// What the measured levels come to below `top`, and how much of it their counters were missing.
struct Measured {
  std::array<double, kSankeyLevels> least{}, missing{}, covered{};
  std::array<bool, kSankeyLevels> known{};
};
Measured MeasuredOf(const SankeyInput& in, double top) {
  const UsageSums& sums = in.measured;
  Measured m;
  double below = 0, below_span = 0;
  for (size_t k = kSankeyLevels; k-- > kFirstMeasured;) {
    const double all = kSpecs[k].span(sums), own = kSpecs[k].sum(sums);
    m.known[k] = all > 0;
    const double span = in.covered_s.has_value() ? std::min(all, (*in.covered_s)[k]) : all;
    m.covered[k] = span;
    const double missing = std::max(0.0, top - span);
    // What the level below shows, this one has at least: in the time that its counter was missing
    // and the other was there. Where both were there and the level below shows more, that is a
    // contradiction (or clocks above the maximum tensor clock), and none of this one's time.
    const double lift =
        std::clamp(below - own, 0.0, std::min(missing, std::max(0.0, below_span - span)));
    m.least[k] = own + lift;
    m.missing[k] = missing - lift;
    if (!m.known[k]) continue;
    below = m.least[k];
    below_span = std::max(span, below_span);
  }
  return m;
}

class Builder {
 public:
  explicit Builder(const SankeyInput& input) : in_(input) {
    out_.deployed_from = input.deployed_from;
    for (size_t k = 0; k < kSankeyLevels; ++k) out_.levels[k].level = static_cast<SankeyLevel>(k);
  }

  Sankey Build() {
    out_.deployed_s = std::max(0.0, in_.deployed_s);
    if (in_.money.has_value() && in_.hosts.has_value())
      out_.deployed_money = in_.hosts->deployed.money.priced_s > 0
                                ? std::optional(in_.hosts->deployed.money.amount)
                                : std::nullopt;
    Row(SankeyLevel::kDeployed).gpu_seconds = above_ = out_.deployed_s;
    above_known_ = above_;
    if (in_.schedulable_s.has_value()) {
      OutOfService();
      Reach(SankeyLevel::kSchedulable, *in_.schedulable_s);
    } else {
      Row(SankeyLevel::kSchedulable).why_unknown = kNoScheduler;
    }
    if (in_.held.has_value()) {
      const HostTime none, &hosts = in_.hosts.has_value() ? *in_.hosts : none;
      LosePart(kIdleQueued, SankeyLevel::kOnBusyHosts, hosts.idle_queued,
               in_.held->on_busy_hosts_s);
      Reach(SankeyLevel::kOnBusyHosts, in_.held->on_busy_hosts_s, hosts.idle.money);
      PricedTime uncovered = hosts.mig_uncovered;
      uncovered.gpu_seconds = in_.held->mig_uncovered_s;
      LosePart(kMigUncovered, SankeyLevel::kAllocated, uncovered, in_.held->allocated_s);
      LosePart(kFreeQueued, SankeyLevel::kAllocated, hosts.free_queued, in_.held->allocated_s);
      Reach(SankeyLevel::kAllocated, in_.held->allocated_s, hosts.free.money);
    } else {
      Row(SankeyLevel::kOnBusyHosts).why_unknown = kNobodySays;
      Row(SankeyLevel::kAllocated).why_unknown = kNobodySays;
    }
    Measure();
    Notes();
    return std::move(out_);
  }

 private:
  SankeyRow& Row(SankeyLevel level) { return out_.levels[static_cast<size_t>(level)]; }
  void Lose(const LossSpec& loss, SankeyLevel before, double seconds, const Money& money = {}) {
    if (seconds <= kRounding) return;
    SankeyLoss& lost =
        out_.losses.emplace_back(SankeyLoss{loss.name, loss.title, before, seconds, {}});
    if (in_.money.has_value()) {
      const auto known = in_.money->find({loss.name, before});
      if (known != in_.money->end()) {
        lost.money = known->second;
      } else if (money.priced_s > 0) {  // time without a price is not free
        lost.money = money.amount;
      }
    }
    above_ -= seconds;
  }
  // At most what keeps `level_s` for the level.
  void LosePart(const LossSpec& loss, SankeyLevel before, const PricedTime& part, double level_s) {
    const double room = above_ - std::min(above_, level_s);
    Lose(loss, before, std::min(room, part.gpu_seconds), part.money);
  }
  void OutOfService() {
    if (!in_.hosts.has_value()) return;
    out_.draining_work_s = in_.hosts->draining_work.gpu_seconds;
    for (const OutSpec& out : kOut) {
      const size_t before = out_.losses.size();
      LosePart(out.names, SankeyLevel::kSchedulable, PartOf(*in_.hosts, out.loss),
               *in_.schedulable_s);
      if (out_.losses.size() > before) out_.losses.back().reasons = ReasonsOf(*in_.hosts, out.loss);
    }
  }
  // The level has so much, or all of the one above where that is less; the rest is its loss.
  void Reach(SankeyLevel level, double seconds, const Money& lost = {}) {
    SankeyRow& row = Row(level);
    row.of_previous = above_known_ > 0
                          ? std::optional<double>(std::min(seconds, above_) / above_known_)
                          : std::nullopt;
    row.excess_s = seconds - above_ > kRounding * std::max(1.0, above_) ? seconds - above_ : 0;
    row.gpu_seconds = std::clamp(seconds, 0.0, above_);
    Lose(SpecOf(level).loss, level, above_ - *row.gpu_seconds, lost);
    above_ = above_known_ = *row.gpu_seconds;
  }

  void Measure() {
    const double top = above_;
    if (top <= 0) {  // nothing was held, so nothing was computed on it
      for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k) out_.levels[k].gpu_seconds = 0;
      if (out_.deployed_s > 0) out_.compound = 0;
      return;
    }
    const Measured m = MeasuredOf(in_, top);
    double unmeasured = 0;
    for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k) {
      const auto level = static_cast<SankeyLevel>(k);
      SankeyRow& row = Row(level);
      row.coverage = std::min(1.0, m.covered[k] / top);
      if (!m.known[k]) {
        row.why_unknown = kSpecs[k].missing;
        continue;
      }
      // Time that was missing at a level above and is not missing here is in that one's loss.
      const double before = above_;
      Lose(kUnmeasured, level,
           std::clamp(m.missing[k] - unmeasured, 0.0, std::max(0.0, before - m.least[k])));
      unmeasured += before - above_;
      Reach(level, m.least[k]);
    }
    if (m.known[kSankeyLevels - 1]) {
      out_.compound = above_ / out_.deployed_s;
    } else {
      Lose(kUnmeasured, SankeyLevel::kFullClock, above_);
    }
  }

  void Notes() {
    if (in_.scheduler_silent > 0) {
      out_.notes.push_back(
          fmt::format("The scheduler was last heard {} ago: what it said then still stands.",
                      FormatDuration(in_.scheduler_silent)));
    }
    if (in_.never_seen > 0) {
      out_.notes.push_back(
          fmt::format("{} hosts of the list never answered an exporter: nothing is measured there.",
                      in_.never_seen));
    }
    if (in_.not_listed > 0) {
      out_.notes.push_back(fmt::format(
          "{} GPUs were seen on hosts that no list of the scheduler has: they count as deployed.",
          in_.not_listed));
    }
    if (in_.money.has_value() && in_.hosts.has_value() && out_.deployed_s > 0) {
      const double priced = in_.hosts->deployed.money.priced_s / out_.deployed_s;
      if (priced < 1 - kRounding) {
        out_.notes.push_back(fmt::format(
            "A price is known of {:.1f} % of the deployed GPU time; money is of that part.",
            100 * priced));
      }
    }
    if (out_.draining_work_s > kRounding) {
      out_.notes.push_back(
          fmt::format("{:.1f} GPU-hours of 'schedulable' were held on hosts that take no new work.",
                      out_.draining_work_s / 3600));
    }
    if (in_.deployed_from == DeployedFrom::kSeen) {
      out_.notes.push_back(
          "Deployed are the GPUs that were ever seen: a host that never answered is not among "
          "them. One that was down or drained counts as idle: no scheduler says so.");
    }
    if (!in_.held.has_value()) {
      out_.notes.push_back(
          fmt::format("Allocation is not known: {}. The measured levels are over all deployed GPUs "
                      "(docs/jobs.md says where owners come from).",
                      kNobodySays));
    }
    if (in_.held.has_value() && in_.busy_without_owner_s > 0.01 * out_.deployed_s) {
      out_.notes.push_back(
          fmt::format("{:.1f} GPU-hours of work had no owner: they are among the free GPUs.",
                      in_.busy_without_owner_s / 3600));
    }
    for (const SankeyRow& row : out_.levels) {
      if (row.excess_s <= 0) continue;
      out_.notes.push_back(
          fmt::format("'{}' exceeded the level above by {:.2f} GPU-hours and was cut to it.",
                      SankeyLevelName(row.level), row.excess_s / 3600));
    }
  }

  const SankeyInput& in_;
  Sankey out_;
  double above_ = 0;        // what is left of the level above, after the losses named so far
  double above_known_ = 0;  // the nearest level above that is known
};

}  // namespace

std::string_view SankeyLevelName(SankeyLevel level) { return SpecOf(level).name; }

std::string_view SankeyLevelTitle(SankeyLevel level) { return SpecOf(level).title; }

std::string_view DeployedFromName(DeployedFrom from) {
  static constexpr std::string_view kNames[] = {"gpus_seen", "scheduler", "inventory", "several"};
  return kNames[static_cast<size_t>(from)];
}

void AddCovered(double held_s, const UsageSums& measured, SankeyInput::Covered* covered) {
  for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k)
    (*covered)[k] += std::min(held_s, kSpecs[k].span(measured));
}

Sankey MakeSankey(const SankeyInput& input) { return Builder(input).Build(); }

}  // namespace flopwatch::fleet
