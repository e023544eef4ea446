#include "query/query.h"

#include <utility>

namespace flopwatch::query {

View Query::Resolve(store::Window asked, JobJoin join) const {
  if (join == JobJoin::kStamped) {
    if (const auto live = memory_.LiveView(asked)) return *live;
  }
  View view = memory_.StoredView(asked);
  if (join == JobJoin::kExact) view.source = UsageSource::kRaw;
  return view;
}

StatusOr<Fleet> Query::FleetOver(const View& view, Micros step) const {
  if (view.source == UsageSource::kLive) return memory_.FleetOver(view, step);
  FW_ASSIGN_OR_RETURN(const std::vector<store::ModelPoint> by_step,
                      store_.FleetByModel(view.window, step));
  Fleet fleet;
  std::vector<store::UsagePoint> points;
  absl::flat_hash_map<int32_t, store::UsageSums> by_model;
  for (const store::ModelPoint& p : by_step) {
    if (points.empty() || points.back().ts != p.ts) points.push_back({p.ts, {}});
    points.back().sums += p.sums;
    by_model[p.model] += p.sums;
    fleet.usage.sums += p.sums;
  }
  const std::shared_ptr<const Deployed> deployed = memory_.deployed();
  fleet.usage.expected_s = deployed->Seconds(view.window);
  if (fleet.usage.sums.gpus == 0)
    fleet.usage.sums.gpus = static_cast<int32_t>(deployed->Gpus(view.window.to));
  fleet.models = memory_.Describe(by_model, view);
  fleet.series = MakeSeries(view.window, step, points, deployed->Steps(view.window, step));
  return fleet;
}

StatusOr<Series> Query::JobSeries(int32_t job, const View& view, Micros step) const {
  if (view.source == UsageSource::kLive) return memory_.JobSeries(job, view, step);
  FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> points,
                      store_.JobSeries(job, view.window, step));
  return MakeSeries(view.window, step, points, memory_.AllocatedSteps(job, view.window, step));
}

StatusOr<std::shared_ptr<const JobList>> Query::Jobs(const View& view, JobJoin join) const {
  const bool exact = join == JobJoin::kExact;
  if (view.source == UsageSource::kLive && !exact)
    return JoinedWhereLate(memory_.Jobs(view), view.window);
  FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> usages,
                      exact ? store_.UsageByJobExact(view.window) : store_.UsageByJob(view.window));
  const absl::flat_hash_map<int32_t, bool> running = memory_.RunningJobs();
  std::shared_ptr<const jobs::OwnedTimes> held;
  if (auto kept = memory_.jobs().Owned(view.window.from, view.window.to, kMostHeldKept))
    held = std::make_shared<const jobs::OwnedTimes>(*std::move(kept));
  std::shared_ptr<JobList> list = memory_.ListOf(
      view, usages, [&](int32_t job, const store::UsageSums&) { return running.contains(job); },
      std::move(held));
  if (!exact) return JoinedWhereLate(std::move(list), view.window);
  for (JobRow& row : list->rows) row.exact = true;
  return std::shared_ptr<const JobList>(std::move(list));
}

StatusOr<std::shared_ptr<const JobList>> Query::JoinedWhereLate(
    std::shared_ptr<const JobList> found, store::Window window) const {
  if (!found->late || window.to - window.from > kExactWindow) return found;
  FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> joined, store_.UsageByJobExact(window));
  absl::flat_hash_map<int32_t, const store::UsageSums*> exact_of;
  for (const store::JobUsage& u : joined) exact_of[u.job] = &u.sums;
  auto list = std::make_shared<JobList>(*found);
  for (JobRow& row : list->rows) {
    const auto it = exact_of.find(row.id);
    if (it == exact_of.end() || it->second->ofu.observed_s <= row.usage.sums.ofu.observed_s ||
        !memory_.IsLate(row))
      continue;
    row.usage.sums = *it->second;
    row.exact = true;
  }
  return std::shared_ptr<const JobList>(std::move(list));
}

StatusOr<std::vector<ClaimUsage>> Query::Application(std::string_view job,
                                                     store::Window window) const {
  std::vector<ClaimUsage> out;
  std::vector<int32_t> ids;
  for (telemetry::ApplicationClaim& claim : memory_.applications().ClaimsOf(job)) {
    ids.push_back(claim.id);
    out.push_back({std::move(claim), {}});
  }
  if (out.empty()) return out;
  FW_ASSIGN_OR_RETURN(const auto usage, store_.ApplicationByClaim(window, ids));
  for (const store::ApplicationUsage& u : usage) {
    for (ClaimUsage& c : out)
      if (c.claim.id == u.claim) c.sums = u.sums;
  }
  return out;
}

}  // namespace flopwatch::query
