#include "query/sankey.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace flopwatch::query {
namespace {

using fleet::HostTime;
using fleet::Sankey;
using fleet::SankeyInput;
using fleet::SankeyLevel;
using store::Window;

// What a scheduler says is current: polls are at most this far apart where all is well.
constexpr Micros kSchedulerSilent = 10 * kMicrosPerMinute;

HostTime TimeOfAll(const Hosts& hosts, Window window) {
  HostTime all;
  for (const auto& [name, host] : hosts.hosts) all += TimeOf(host, {window.from, window.to});
  return all;
}

SankeyInput::Held HeldOf(const HostTime& t) {
  return {.on_busy_hosts_s = t.on_busy_hosts.gpu_seconds,
          .allocated_s = t.allocated.gpu_seconds,
          .mig_uncovered_s = t.mig_uncovered.gpu_seconds};
}

// Part of a chain that begins with what was held.
SankeyInput OfHeld(double held_s, const store::UsageSums& measured) {
  SankeyInput part;
  part.deployed_s = held_s;
  part.held = SankeyInput::Held{.on_busy_hosts_s = held_s, .allocated_s = held_s};
  part.measured = measured;
  return part;
}

// What measured losses of one price cost.
void AddMoney(double held_s, const store::UsageSums& measured, double per_second,
              SankeyInput::LossMoney* money) {
  if (held_s <= 0 || per_second <= 0) return;
  for (const fleet::SankeyLoss& loss : fleet::MakeSankey(OfHeld(held_s, measured)).losses)
    if (loss.before > SankeyLevel::kAllocated)
      (*money)[{loss.name, loss.before}] += per_second * loss.gpu_seconds;
}

// What a GPU of a job costs a second: the mean over those that it held.
absl::flat_hash_map<int32_t, fleet::Money> CostByJob(const Memory& memory, Window window,
                                                     const fleet::Prices& prices) {
  absl::flat_hash_map<int32_t, fleet::Money> cost;
  absl::flat_hash_map<int32_t, const fleet::PriceHistory*> history;  // by entity
  memory.ForEachHeld(window, [&](int32_t entity, double fraction, Micros from, Micros to,
                                 absl::Span<const int32_t> holders) {
    const auto [it, fresh] = history.try_emplace(entity, nullptr);
    if (fresh) {
      const auto e = memory.registry().entity(entity);
      it->second = &prices.Of(e.has_value() ? e->labels.model : "", memory.catalog());
    }
    const fleet::Money each =
        it->second->Over(from, to) * (fraction / static_cast<double>(holders.size()));
    for (const int32_t job : holders) cost[job] += each;
  });
  return cost;
}

// Sums of held time of the GPUs of these hosts, as parts of whole boards.
StatusOr<store::UsageSums> MeasuredOn(const Query& query, Window window,
                                      const absl::flat_hash_set<std::string>& hosts) {
  FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> gpus,
                      query.store().UsageByGpu(window, store::kAnyJob));
  store::UsageSums sums;
  const ingest::Registry& registry = query.memory().registry();
  for (const store::GpuUsage& g : gpus) {
    const auto e = registry.entity(g.entity);
    if (!e.has_value()) continue;
    const std::string node = e->labels.node.empty() ? "GPU " + e->key.uuid : e->labels.node;
    if (hosts.contains(node)) sums += efficiency::OfGpu(g.sums, registry.Fraction(g.entity));
  }
  return sums;
}

bool OfAccount(const std::vector<jobs::AttemptRecord>* attempts, const std::string& account) {
  return attempts != nullptr && std::ranges::any_of(*attempts, [&](const jobs::AttemptRecord& a) {
           return a.account == account;
         });
}

// What an account's jobs held, and what was measured of it.
Sankey OfOneAccount(const Memory& memory, const JobList& jobs, Window window,
                    const std::string& account, const fleet::Prices& prices) {
  const AttemptsByJob attempts = AttemptsIn(memory, window);
  const auto cost = CostByJob(memory, window, prices);
  double held_s = 0;
  store::UsageSums measured;
  SankeyInput::LossMoney money;
  absl::flat_hash_set<int32_t> seen;
  for (const JobRow& row : jobs.rows) {
    if (!OfAccount(attempts.Of(row.id), account)) continue;
    seen.insert(row.id);
    held_s += row.usage.expected_s;
    measured += row.usage.sums;
    const auto c = cost.find(row.id);
    if (c != cost.end() && row.usage.expected_s > 0)
      AddMoney(row.usage.expected_s, row.usage.sums, c->second.amount / row.usage.expected_s,
               &money);
  }
  for (const JobAttempts& job : attempts.jobs) {
    if (job.record.id != 0 && seen.contains(job.record.id)) continue;
    for (const jobs::AttemptRecord& a : job.attempts)
      if (a.account == account) held_s += HeldSeconds(a, window);
  }
  SankeyInput input = OfHeld(held_s, measured);
  if (!prices.empty() && !prices.by_place()) input.money = std::move(money);
  Sankey sankey = fleet::MakeSankey(input);
  sankey.notes.insert(sankey.notes.begin(),
                      "An account has no hardware of its own: the chain begins with what its jobs "
                      "held, which stands for 'deployed' here.");
  return sankey;
}

}  // namespace

std::optional<SankeyInput::Held> HeldTime(const Memory& memory, Window window) {
  const fleet::Prices none;
  const Hosts hosts = HostsIn(memory, window, {}, none);
  if (!hosts.any_owner) return std::nullopt;
  return HeldOf(TimeOfAll(hosts, window));
}

StatusOr<Sankey> SankeyOver(const Query& query, View* view, JobJoin join,
                            const SankeyFilter& filter, const fleet::Prices& prices) {
  const Memory& memory = query.memory();
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> jobs, query.Jobs(*view, join));
  view->window = jobs->view.window;
  const Window window = view->window;
  if (!filter.account.empty()) return OfOneAccount(memory, *jobs, window, filter.account, prices);
  const Hosts hosts = HostsIn(memory, window, filter.hardware, prices);
  SankeyInput input;
  input.deployed_from = hosts.from;
  input.never_seen = hosts.never_seen;
  input.not_listed = hosts.not_listed;
  input.hosts = TimeOfAll(hosts, window);
  input.deployed_s = input.hosts->deployed.gpu_seconds;
  if (hosts.any_states) {
    input.schedulable_s = input.hosts->schedulable.gpu_seconds;
    const Micros look = memory.books().LastLook();
    if (look > 0 && window.to - look > kSchedulerSilent) input.scheduler_silent = window.to - look;
  }
  if (hosts.any_owner) input.held = HeldOf(*input.hosts);
  if (!filter.hardware.empty()) {
    absl::flat_hash_set<std::string> names;
    for (const auto& [name, host] : hosts.hosts) names.insert(name);
    FW_ASSIGN_OR_RETURN(input.measured, MeasuredOn(query, window, names));
    return fleet::MakeSankey(input);
  }
  if (!hosts.any_owner) {
    FW_ASSIGN_OR_RETURN(const Fleet fleet, query.FleetOver(*view, /*step=*/kMicrosPerDay));
    input.measured = fleet.usage.sums;
    return fleet::MakeSankey(input);
  }
  for (const JobRow& row : jobs->rows) input.measured += row.usage.sums;
  FW_ASSIGN_OR_RETURN(const Fleet fleet, query.FleetOver(*view, /*step=*/kMicrosPerDay));
  input.busy_without_owner_s = fleet.usage.sums.gpu_util_s - input.measured.gpu_util_s;
  if (!prices.empty()) {
    input.money.emplace();
    // A job's price by its cluster or partition is not worked out here: then it is not known.
    const auto cost = prices.by_place() ? decltype(CostByJob(memory, window, prices))()
                                        : CostByJob(memory, window, prices);
    for (const JobRow& row : jobs->rows) {
      const auto c = cost.find(row.id);
      if (c != cost.end() && row.usage.expected_s > 0)
        AddMoney(row.usage.expected_s, row.usage.sums, c->second.amount / row.usage.expected_s,
                 &*input.money);
    }
  }
  return fleet::MakeSankey(input);
}

}  // namespace flopwatch::query
