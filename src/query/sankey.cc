#include "query/sankey.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/runs.h"

namespace flopwatch::query {
namespace {

using fleet::HeldLevels;
using fleet::HostTime;
using fleet::Sankey;
using fleet::SankeyInput;
using fleet::SankeyLevel;
using store::Window;

// What a scheduler says is current: polls are at most this far apart where all is well.
constexpr Micros kSchedulerSilent = 10 * kMicrosPerMinute;

// What each host was, and all of them.
struct TimeByHost {
  std::vector<HostTime> each;  // as Hosts::hosts
  HostTime all;
};
TimeByHost TimeOfAll(const Hosts& hosts, Window window) {
  TimeByHost out;
  out.each.reserve(hosts.hosts.size());
  for (const auto& [name, host] : hosts.hosts)
    out.all += out.each.emplace_back(TimeOf(host, {window.from, window.to}));
  return out;
}

HeldLevels HeldOf(const HostTime& t) {
  return {.on_busy_hosts_s = t.on_busy_hosts.gpu_seconds,
          .allocated_s = t.allocated.gpu_seconds,
          .mig_uncovered_s = t.mig_uncovered.gpu_seconds};
}

// Sums of the GPUs of each of these hosts, as parts of whole boards: of held time, or of all time
// where nobody says what is held. From rollups.
// `covered`, where it is asked for, gets that of their GPUs.
StatusOr<std::vector<store::UsageSums>> MeasuredByHost(
    const Query& query, Window window, const Hosts& hosts, const jobs::OwnedTimes* held_times,
    std::optional<SankeyInput::Covered>* covered) {
  absl::flat_hash_map<std::string_view, size_t> place;
  for (size_t k = 0; k < hosts.hosts.size(); ++k) place[hosts.hosts[k].first] = k;
  FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> gpus,
                      query.store().UsageByGpu(window, hosts.any_owner ? store::kAnyJob : 0));
  std::vector<store::UsageSums> sums(hosts.hosts.size());
  absl::flat_hash_map<int32_t, double> held;  // seconds of whole boards, by entity
  if (covered != nullptr) {
    covered->emplace();
    query.memory().ForEachHeld(window, held_times,
                               [&](absl::Span<const int32_t> entities, double fraction,
                                   absl::Span<const jobs::OwnedStretch> stretches) {
                                 double seconds = 0;
                                 for (const jobs::OwnedStretch& s : stretches)
                                   seconds += fraction * ToSeconds(s.to - s.from);
                                 for (const int32_t entity : entities) held[entity] += seconds;
                               });
  }
  const ingest::Registry& registry = query.memory().registry();
  for (const store::GpuUsage& g : gpus) {
    const auto e = registry.entity(g.entity);
    if (!e.has_value()) continue;
    const auto at = place.find(HostOf(*e));
    if (at == place.end()) continue;
    const store::UsageSums own = efficiency::OfGpu(g.sums, registry.Fraction(g.entity));
    sums[at->second] += own;
    if (covered == nullptr) continue;
    const auto of = held.find(g.entity);
    fleet::AddCovered(of == held.end() ? 0 : of->second, own, &**covered);
  }
  return sums;
}

// Whether every GPU of these hosts has the same prices: then it does not matter where losses were.
bool HaveOnePrice(const Hosts& hosts) {
  return std::ranges::all_of(hosts.hosts, [&](const auto& host) {
    return host.second.price == hosts.hosts.front().second.price;
  });
}

// What measured losses cost, host by host: a host's GPUs have one price at a time. `by_host` may be
// empty where there is only one price.
fleet::LossPrices PricesOfLosses(const Hosts& hosts, const TimeByHost& time,
                                 const store::UsageSums& measured,
                                 const std::vector<store::UsageSums>& by_host) {
  fleet::LossPrices prices(measured);
  // Where nobody says what was held, what was measured is of all deployed time.
  const auto part = hosts.any_owner ? &HostTime::allocated : &HostTime::deployed;
  if (by_host.empty()) {
    prices.Add((time.all.*part).gpu_seconds, measured, (time.all.*part).money);
    return prices;
  }
  for (size_t k = 0; k < by_host.size(); ++k)
    prices.Add((time.each[k].*part).gpu_seconds, by_host[k], (time.each[k].*part).money);
  return prices;
}

bool OfAccount(const std::vector<jobs::AttemptRecord>* attempts, const std::string& account) {
  return attempts != nullptr && std::ranges::any_of(*attempts, [&](const jobs::AttemptRecord& a) {
           return a.account == account;
         });
}

// What a job of an account held by its intervals, and what that cost in the place where its
// attempt ran, as in usage_by.h.
absl::flat_hash_map<int32_t, fleet::PricedTime> CostByJob(const Memory& memory, const JobList& jobs,
                                                          const AttemptsByJob& attempts,
                                                          const std::string& account,
                                                          const fleet::Prices& prices) {
  absl::flat_hash_map<int32_t, fleet::PricedTime> cost;
  const auto model_of = [&](int32_t entity) {
    return memory.registry().entity(entity).value_or(store::EntityRecord{}).labels.model;
  };
  const auto add = [&](const std::string& model, double gpus, const jobs::OwnedStretch& s) {
    for (const int32_t job : s.jobs) {
      const std::vector<jobs::AttemptRecord>* const of = attempts.Of(job);
      if (!OfAccount(of, account)) continue;
      const jobs::AttemptRecord& attempt = *AttemptAt(of, s.from);
      const double share = gpus / static_cast<double>(s.jobs.size());
      const fleet::PriceHistory& price =
          prices.Of(model, memory.catalog(), attempt.cluster, attempt.partition);
      cost[job] += {.gpu_seconds = share * ToSeconds(s.to - s.from),
                    .money = price.Over(s.from, s.to) * share};
    }
  };
  memory.ForEachHeld(jobs.view.window, jobs.held.get(),
                     [&](absl::Span<const int32_t> entities, double fraction,
                         absl::Span<const jobs::OwnedStretch> stretches) {
                       ForEachRun(entities, model_of,
                                  [&](absl::Span<const int32_t> run, const std::string& model) {
                                    for (const jobs::OwnedStretch& s : stretches)
                                      add(model, fraction * static_cast<double>(run.size()), s);
                                  });
                     });
  return cost;
}

// What an account's jobs held, and what was measured of it.
Sankey OfOneAccount(const Memory& memory, const JobList& jobs, Window window,
                    const std::string& account, const fleet::Prices& prices) {
  const AttemptsByJob attempts = AttemptsIn(memory, window);
  SankeyInput input;
  input.held.emplace();
  input.covered_s.emplace();
  std::vector<const JobRow*> rows;
  for (const JobRow& row : jobs.rows) {
    if (!OfAccount(attempts.Of(row.id), account)) continue;
    rows.push_back(&row);
    input.deployed_s += row.usage.expected_s;
    input.measured += row.usage.sums;
    fleet::AddCovered(row.usage.expected_s, row.usage.sums, &*input.covered_s);
  }
  if (!prices.empty()) {
    input.money.emplace(input.measured);
    const auto cost = CostByJob(memory, jobs, attempts, account, prices);
    for (const JobRow* row : rows) {
      const auto of = cost.find(row->id);
      if (of == cost.end()) continue;
      input.money->Add(of->second.gpu_seconds, row->usage.sums, of->second.money);
    }
  }
  absl::flat_hash_set<int32_t> seen;
  for (const JobRow* row : rows) seen.insert(row->id);
  NodeModels models(memory);
  for (const JobAttempts& job : attempts.jobs) {
    if (job.record.id != 0 && seen.contains(job.record.id)) continue;
    for (const jobs::AttemptRecord& a : job.attempts) {
      if (a.account != account) continue;
      const double held = HeldSeconds(a, window);
      input.deployed_s += held;
      if (!input.money.has_value() || held <= 0) continue;
      const fleet::Money each =
          prices.Of(models.On(a.nodes), memory.catalog(), a.cluster, a.partition)
              .Over(std::max(a.start, window.from), std::min(a.end, window.to));
      input.money->Add(held, {}, each * static_cast<double>(a.gpus));
    }
  }
  input.held->on_busy_hosts_s = input.held->allocated_s = input.deployed_s;
  Sankey sankey = fleet::MakeSankey(input);
  sankey.notes.insert(sankey.notes.begin(),
                      "An account has no hardware of its own: the chain begins with what its jobs "
                      "held, which stands for 'deployed' here.");
  return sankey;
}

}  // namespace

absl::flat_hash_set<int32_t> JobsOf(const Memory& memory, Window window,
                                    const SankeyFilter& filter) {
  absl::flat_hash_set<int32_t> jobs;
  if (!filter.account.empty()) {
    for (const JobAttempts& job : AttemptsIn(memory, window).jobs)
      if (job.record.id != 0 && OfAccount(&job.attempts, filter.account))
        jobs.insert(job.record.id);
  }
  if (filter.hardware.empty()) return jobs;
  const fleet::Prices none;
  absl::flat_hash_set<std::string> hosts;
  for (const auto& [name, host] : HostsIn(memory, window, filter.hardware, none).hosts)
    hosts.insert(name);
  absl::flat_hash_set<int32_t> there;
  const auto is_there = [&](int32_t entity) {
    const auto e = memory.registry().entity(entity);
    return e.has_value() && hosts.contains(HostOf(*e));
  };
  memory.ForEachHeld(window, nullptr,
                     [&](absl::Span<const int32_t> entities, double,
                         absl::Span<const jobs::OwnedStretch> stretches) {
                       if (std::ranges::none_of(entities, is_there)) return;
                       for (const jobs::OwnedStretch& s : stretches)
                         there.insert(s.jobs.begin(), s.jobs.end());
                     });
  if (filter.account.empty()) return there;
  absl::erase_if(jobs, [&](int32_t job) { return !there.contains(job); });
  return jobs;
}

fleet::Sankey LossesOfHeld(double held_s, const store::UsageSums& measured) {
  return fleet::MakeSankey(
      {.deployed_s = held_s,
       .held = fleet::HeldLevels{.on_busy_hosts_s = held_s, .allocated_s = held_s},
       .measured = measured});
}

std::optional<HeldLevels> HeldTime(const Memory& memory, Window window) {
  const fleet::Prices none;
  const Hosts hosts = HostsIn(memory, window, {}, none);
  if (!hosts.any_owner) return std::nullopt;
  return HeldOf(TimeOfAll(hosts, window).all);
}

StatusOr<Sankey> SankeyOver(const Query& query, View* view, JobJoin join,
                            const SankeyFilter& filter, const fleet::Prices& prices) {
  const Memory& memory = query.memory();
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> jobs, query.Jobs(*view, join));
  view->window = jobs->view.window;
  const Window window = view->window;
  if (!filter.account.empty()) return OfOneAccount(memory, *jobs, window, filter.account, prices);
  const Hosts hosts = HostsIn(memory, window, filter.hardware, prices, jobs->held.get());
  const TimeByHost time = TimeOfAll(hosts, window);
  SankeyInput input;
  input.deployed_from = hosts.from;
  input.never_seen = hosts.never_seen;
  input.not_listed = hosts.not_listed;
  input.hosts = time.all;
  input.deployed_s = time.all.deployed.gpu_seconds;
  if (hosts.any_states) {
    input.schedulable_s = time.all.schedulable.gpu_seconds;
    const Micros look = memory.books().LastLook();
    if (look > 0 && window.to - look > kSchedulerSilent) input.scheduler_silent = window.to - look;
  }
  if (hosts.any_owner) input.held = HeldOf(time.all);
  std::vector<store::UsageSums> by_host;
  const bool cut = !filter.hardware.empty();
  if (cut || (!prices.empty() && !HaveOnePrice(hosts))) {
    FW_ASSIGN_OR_RETURN(by_host,
                        MeasuredByHost(query, window, hosts, jobs->held.get(),
                                       cut && hosts.any_owner ? &input.covered_s : nullptr));
  }
  if (cut) {
    for (const store::UsageSums& sums : by_host) input.measured += sums;
  } else {
    FW_ASSIGN_OR_RETURN(const Fleet fleet, query.FleetOver(*view, /*step=*/kMicrosPerDay));
    if (hosts.any_owner) {
      input.covered_s.emplace();
      for (const JobRow& row : jobs->rows) {
        input.measured += row.usage.sums;
        fleet::AddCovered(row.usage.expected_s, row.usage.sums, &*input.covered_s);
      }
      input.busy_without_owner_s = fleet.usage.sums.gpu_util_s - input.measured.gpu_util_s;
    } else {
      input.measured = fleet.usage.sums;
    }
  }
  if (!prices.empty()) input.money = PricesOfLosses(hosts, time, input.measured, by_host);
  return fleet::MakeSankey(input);
}

}  // namespace flopwatch::query
