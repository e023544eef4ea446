#include "fleet/sankey/sankey.h"

#include <algorithm>
#include <functional>

#include "fleet/sankey/measured.h"
#include "fmt/format.h"

namespace flopwatch::fleet {
namespace {

constexpr std::string_view kNoScheduler =
    "no scheduler says which hosts are down, drained or in maintenance";
constexpr std::string_view kNobodySays =
    "nobody says who holds which GPU: no exporter names jobs or pods, and there is no job file";

struct LossSpec {
  std::string_view name, title;
};
constexpr LossSpec kUnmeasured = {kUnmeasuredName, "not measured"};
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
  LossSpec loss;                  // of what did not get here
  std::string_view missing = {};  // of a level that is measured: the reason where it never was
};
constexpr std::array<LevelSpec, kSankeyLevels> kSpecs = {{
    {"deployed", "deployed", {}},
    {"schedulable", "schedulable", {"not_schedulable", "hosts take no work"}},
    {"on_busy_hosts", "on busy hosts", {"idle_hosts", "idle hosts"}},
    {"allocated", "allocated", {"free_on_busy_hosts", "free on busy hosts"}},
    {"busy",
     "busy",
     {"allocated_idle", "held, no kernel runs"},
     "no exporter reports DCGM_FI_DEV_GPU_UTIL or DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
    {"sm_active",
     "SMs active",
     {"sm_idle", "SMs idle"},
     "no exporter reports DCGM_FI_PROF_SM_ACTIVE"},
    {"tensor_active",
     "tensor active",
     {"tensor_idle", "tensor cores idle"},
     "no exporter reports a DCGM_FI_PROF_PIPE_TENSOR_ACTIVE that lives"},
    {"full_clock",
     "full clock = OFU",
     {"below_full_clock", "below full clock"},
     "OFU is computable nowhere: tensor activity, SM clock or the GPU model is not known"},
}};
const LevelSpec& SpecOf(SankeyLevel level) { return kSpecs[static_cast<size_t>(level)]; }

// Less than this of a window is rounding of its edges.
constexpr double kRounding = 1e-6;

class Builder {
 public:
  explicit Builder(const SankeyInput& input) : in_(input) {
    out_.deployed_from = input.deployed_from;
    for (size_t k = 0; k < kSankeyLevels; ++k) out_.levels[k].level = static_cast<SankeyLevel>(k);
  }

  Sankey Build() {
    out_.deployed_s = std::max(0.0, in_.deployed_s);
    if (in_.money.has_value()) {
      const Money& cost = in_.hosts.has_value() ? in_.hosts->deployed.money : in_.money->cost();
      if (cost.priced_s > 0) out_.deployed_money = cost.amount;
    }
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
      if (before > SankeyLevel::kAllocated) {
        lost.money = in_.money->Of(loss.name, before, seconds);
      } else if (money.priced_s > 0) {  // time without a price is not free
        lost.money = money.amount;
      }
    }
    above_ -= seconds;
  }
  // At most what keeps `level_s` for the level.
  void LosePart(const LossSpec& loss, SankeyLevel before, const PricedTime& part, double level_s) {
    const double room = above_ - std::min(above_, level_s);
    const double taken = std::min(room, part.gpu_seconds);
    if (taken > 0) Lose(loss, before, taken, part.money * (taken / part.gpu_seconds));
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
    const Measured m = MeasuredOf(in_.measured, top, KnownOf(in_.measured), in_.covered_s);
    for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k) {
      SankeyRow& row = out_.levels[k];
      row.coverage = std::min(1.0, m.covered[k] / top);
      if (!m.known[k]) row.why_unknown = kSpecs[k].missing;
    }
    WalkDown(
        m, top, [&](SankeyLevel level, double seconds) { Lose(kUnmeasured, level, seconds); },
        [&](SankeyLevel level, double seconds) { Reach(level, seconds); });
    if (m.known[kSankeyLevels - 1]) out_.compound = above_ / out_.deployed_s;
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
    if (in_.money.has_value()) PriceNote();
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

  void PriceNote() {
    const auto share = [](const Money& of, double seconds) {
      return seconds > 0 ? std::min(1.0, of.priced_s / seconds) : 1;
    };
    const double held = share(in_.money->cost(), in_.money->held_s());
    const double deployed =
        in_.hosts.has_value() ? share(in_.hosts->deployed.money, out_.deployed_s) : held;
    if (std::min(held, deployed) >= 1 - kRounding) return;
    out_.notes.push_back(fmt::format(
        "A price is known of {:.1f} % of the deployed GPU time{}; money is of that part.",
        100 * deployed,
        in_.held.has_value() ? fmt::format(" and of {:.1f} % of the allocated time", 100 * held)
                             : ""));
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

Sankey MakeSankey(const SankeyInput& input) { return Builder(input).Build(); }

}  // namespace flopwatch::fleet
