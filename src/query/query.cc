#include "query/query.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace flopwatch::query {
namespace {

using store::EntityRecord;
using store::UsagePoint;
using store::Window;
using telemetry::EntityKind;

Micros CeilTo(Micros t, Micros step) { return FloorTo(t + step - 1, step); }

// Calls f(from, to, jobs) for every stretch of one entity's intervals in which the same jobs hold
// it.
template <typename F>
void Sweep(absl::Span<const jobs::IntervalRecord> intervals, Window window, F&& f) {
  if (intervals.size() == 1) {
    const int32_t job = intervals[0].job;
    const Micros from = std::max(window.from, intervals[0].from),
                 to = std::min(window.to, intervals[0].to);
    if (from < to) f(from, to, absl::MakeConstSpan(&job, 1));
    return;
  }
  std::vector<Micros> edges;
  for (const auto& i : intervals) {
    edges.push_back(std::clamp(i.from, window.from, window.to));
    edges.push_back(std::clamp(i.to, window.from, window.to));
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<int32_t> holders;
  for (size_t k = 0; k + 1 < edges.size(); ++k) {
    holders.clear();
    for (const auto& i : intervals) {
      if (i.from <= edges[k] && i.to >= edges[k + 1]) holders.push_back(i.job);
    }
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    if (!holders.empty()) f(edges[k], edges[k + 1], absl::MakeConstSpan(holders));
  }
}

std::shared_ptr<const GpuColumns> ColumnsOf(const ingest::LiveState& live,
                                            const ingest::Registry& registry) {
  auto columns = std::make_shared<GpuColumns>();
  absl::flat_hash_set<int32_t> seen;
  const auto add = [&](const ingest::GpuNow& g) {
    columns->entity.push_back(g.entity);
    columns->job_set.push_back(g.job_set);
    for (size_t k = 0; k < columns->keys.size(); ++k)
      columns->keys[k].push_back(SortKey(g, static_cast<GpuSort>(k)));
  };
  live.ForEachGpu(0, [&](const ingest::GpuNow& g) {
    seen.insert(g.entity);
    add(g);
  });
  // Known from before the last start and silent since: missing from the list they would be
  // forgotten.
  registry.ForEachEntity([&](const store::EntityRecord& e) {
    if (seen.contains(e.id)) return;
    ingest::GpuNow silent;
    silent.entity = e.id;
    add(silent);
  });
  return columns;
}

// The runs of records of one entity; Intervals() is sorted by entity.
template <typename F>
void ByEntity(const std::vector<jobs::IntervalRecord>& intervals, F&& f) {
  for (size_t at = 0; at < intervals.size();) {
    size_t end = at + 1;
    while (end < intervals.size() && intervals[end].entity == intervals[at].entity) ++end;
    f(intervals[at].entity, absl::MakeConstSpan(intervals).subspan(at, end - at));
    at = end;
  }
}

}  // namespace

double SortKey(const ingest::GpuNow& g, GpuSort sort) {
  switch (sort) {
    case GpuSort::kOfu:
      return g.ofu;
    case GpuSort::kTensor:
      return g.tensor_active;
    case GpuSort::kClock:
      return g.sm_clock_mhz;
    case GpuSort::kUtil:
      return g.gpu_util;
    case GpuSort::kPower:
      return g.power_w;
    case GpuSort::kMemory:
      return g.fb_used_mib;
    case GpuSort::kTemperature:
      return g.gpu_temp_c;
    case GpuSort::kAge:
      return -static_cast<double>(g.ts);
    case GpuSort::kSeen:
    case GpuSort::kCount:
      break;
  }
  return g.entity;
}

std::string_view UsageSourceName(UsageSource s) {
  switch (s) {
    case UsageSource::kLive:
      return "live";
    case UsageSource::kRollup:
      return "rollup";
    case UsageSource::kRaw:
      return "raw";
  }
  return "rollup";
}

Query::Query(Sources sources)
    : sources_([&] {
        if (!sources.clock) {
          // Offline the newest sample is "now": a store copied from elsewhere answers about its own
          // last hour.
          store::Store* store = sources.live ? nullptr : sources.store;
          sources.clock = [store] {
            const Micros newest = store == nullptr ? 0 : store->stats().newest_ts;
            return newest > 0 ? newest : Now();
          };
        }
        return std::move(sources);
      }()),
      started_(sources_.clock()),
      kept_deployed_(
          [this] { return std::make_shared<const Deployed>(*registry_, live(), started_); },
          kListsKept, [this] { return IsLarge(); }),
      kept_hour_([this] { return LiveJobsOf(kDefaultWindow); }, kListsKept,
                 [this] { return IsLarge(); }),
      kept_now_([this] { return LiveJobsOf(kNowWindow); }, kListsKept,
                [this] { return IsLarge(); }),
      kept_gpus_([this] { return ColumnsOf(*live(), *registry_); }, kGpusKept,
                 [this] { return IsLarge(); }) {
  if (sources_.live) {
    registry_ = sources_.live->registry;
    jobs_ = sources_.live->jobs;
    applications_ = sources_.live->applications;
    keeper_.emplace(std::vector<KeptBase*>{&kept_deployed_, &kept_hour_, &kept_now_, &kept_gpus_});
    return;
  }
  own_registry_ = std::make_unique<ingest::Registry>(sources_.catalog);
  own_jobs_ = std::make_unique<jobs::JobIndex>();
  own_applications_ = std::make_unique<ingest::ApplicationIntake>(nullptr);
  registry_ = own_registry_.get();
  jobs_ = own_jobs_.get();
  applications_ = own_applications_.get();
  if (sources_.store == nullptr) {
    ready_ = absl::UnavailableError("no store: nothing to answer from");
    return;
  }
  auto dimensions = sources_.store->LoadDimensions();
  if (!dimensions.ok()) {
    ready_ = Annotate(dimensions.status(), "reading GPUs and jobs");
    return;
  }
  own_registry_->Load(*dimensions);
  own_jobs_->Load(dimensions->jobs, dimensions->intervals, dimensions->sets,
                  sources_.store->stats().newest_ts);
  own_applications_->Load(std::move(dimensions->claims));
}

Micros Query::silent_after() const {
  return sources_.live ? sources_.live->silent_after : LiveSources().silent_after;
}

View Query::Resolve(Window asked, bool allow_live) const {
  const Micros now = this->now();
  View view;
  if (const ingest::LiveState* live = this->live();
      live != nullptr && allow_live && live->newest() != 0) {
    const bool ends_now = asked.to >= now - kMicrosPerSecond;
    const bool reached = asked.from > live->newest() - ingest::kLongestWindow;
    bool complete = live->oldest() <= asked.from;
    // Nothing older is stored either: the fleet is younger than the window.
    if (!complete && sources_.store != nullptr) {
      const Micros oldest = sources_.store->stats().oldest_ts;
      complete = oldest == 0 || oldest >= live->oldest();
    }
    if (ends_now && reached && (complete || sources_.store == nullptr)) {
      view.source = UsageSource::kLive;
      view.window.from = live->Align(asked.from);
      view.window.to = std::max(now, view.window.from + kMicrosPerSecond);
      return view;
    }
  }
  view.window.from = FloorTo(asked.from, kMicrosPerMinute);
  view.window.to = CeilTo(asked.to, kMicrosPerMinute);
  view.window.to = std::max(std::min(view.window.to, now), view.window.from + kMicrosPerSecond);
  return view;
}

std::optional<View> Query::NowView() const {
  const ingest::LiveState* live = this->live();
  if (live == nullptr || live->newest() == 0) return std::nullopt;
  const Micros to = std::max(now(), live->newest());
  View view;
  view.window = {live->Align(to - kNowWindow), to};
  view.source = UsageSource::kLive;
  return view;
}

// --- expected GPU-seconds ---

std::shared_ptr<const Deployed> Query::deployed() const {
  if (IsLarge()) return kept_deployed_.Get();
  // Of a small fleet always as it is now.
  const Micros monotonic = MonotonicNow();
  const uint64_t version = registry_->version();
  MutexLock lock(deployed_mutex_);
  if (deployed_ == nullptr || version != deployed_version_ ||
      monotonic - deployed_at_ > kDeployedFresh) {
    deployed_ = std::make_shared<const Deployed>(*registry_, live(), started_);
    deployed_version_ = version;
    deployed_at_ = monotonic;
  }
  return deployed_;
}

SecondsByJob Query::AllocatedSeconds(Window window) const {
  SecondsByJob out;
  for (const jobs::GpuSeconds& g : jobs_->GpuSecondsByJob(window.from, window.to))
    out[g.job] = g.gpu_seconds;
  if (!registry_->has_instances()) return out;
  // The index counts an instance as a whole GPU; take off what it is not.
  ByEntity(
      jobs_->Intervals(window.from, window.to),
      [&](int32_t entity, absl::Span<const jobs::IntervalRecord> intervals) {
        const double fraction = registry_->Fraction(entity);
        if (fraction >= 1) return;
        Sweep(intervals, window, [&](Micros from, Micros to, absl::Span<const int32_t> holders) {
          for (const int32_t job : holders)
            out[job] -= (1 - fraction) * ToSeconds(to - from) / static_cast<double>(holders.size());
        });
      });
  return out;
}

absl::flat_hash_map<int32_t, Holding> Query::Holdings(
    absl::Span<const store::JobWindow> windows) const {
  absl::flat_hash_map<int32_t, Holding> out;
  if (windows.empty()) return out;
  absl::flat_hash_map<int32_t, Window> of;
  Window all = windows[0].window;
  for (const store::JobWindow& w : windows) {
    of[w.job] = w.window;
    all = {std::min(all.from, w.window.from), std::max(all.to, w.window.to)};
  }
  const auto add = [&](int32_t entity, absl::Span<const jobs::IntervalRecord> intervals) {
    const double fraction = registry_->Fraction(entity);
    absl::flat_hash_set<int32_t> held;
    Sweep(intervals, all, [&](Micros from, Micros to, absl::Span<const int32_t> holders) {
      for (const int32_t job : holders) {
        const auto w = of.find(job);
        if (w == of.end()) continue;
        const Micros overlap = std::min(to, w->second.to) - std::max(from, w->second.from);
        if (overlap <= 0) continue;
        out[job].gpu_seconds += fraction * ToSeconds(overlap) / static_cast<double>(holders.size());
        held.insert(job);
      }
    });
    for (const int32_t job : held) {
      Holding& h = out[job];
      ++h.gpus;
      const std::string model = registry_->entity(entity).value_or(EntityRecord{}).labels.model;
      if (!model.empty() && std::find(h.models.begin(), h.models.end(), model) == h.models.end())
        h.models.push_back(model);
    }
    for (const jobs::IntervalRecord& i : intervals) {
      if (!held.contains(i.job)) continue;
      Holding& h = out[i.job];
      h.started = h.started == 0 ? i.from : std::min(h.started, i.from);
    }
  };
  if (windows.size() == 1) {
    // Its own GPUs, with whoever was on them too.
    int32_t last = -1;
    for (const jobs::IntervalRecord& i : jobs_->Intervals(all.from, all.to, windows[0].job)) {
      if (std::exchange(last, i.entity) != i.entity)
        add(i.entity, jobs_->EntityIntervals(i.entity, all.from, all.to));
    }
  } else {
    ByEntity(jobs_->Intervals(all.from, all.to), add);
  }
  for (auto& [job, h] : out) std::sort(h.models.begin(), h.models.end());
  return out;
}

std::vector<double> Query::AllocatedSteps(int32_t job, Window window, Micros step) const {
  const Micros start = FloorTo(window.from, step);
  const auto n = static_cast<size_t>(std::max<Micros>(1, (window.to - start + step - 1) / step));
  std::vector<double> out(n, 0);
  std::vector<jobs::IntervalRecord> own = jobs_->Intervals(window.from, window.to, job);
  ByEntity(own, [&](int32_t entity, absl::Span<const jobs::IntervalRecord>) {
    // All jobs of its GPUs: where another one was there too, the time is divided.
    const std::vector<jobs::IntervalRecord> intervals =
        jobs_->EntityIntervals(entity, window.from, window.to);
    const double fraction = registry_->Fraction(entity);
    Sweep(intervals, window, [&](Micros from, Micros to, absl::Span<const int32_t> holders) {
      if (std::find(holders.begin(), holders.end(), job) == holders.end()) return;
      const double share = fraction / static_cast<double>(holders.size());
      for (Micros at = from; at < to;) {
        const auto k = static_cast<size_t>((at - start) / step);
        const Micros end = std::min(to, start + static_cast<Micros>(k + 1) * step);
        out[k] += share * ToSeconds(end - at);
        at = end;
      }
    });
  });
  return out;
}

// --- usage ---

Usage Query::FleetUsage(const View& view) const {
  Usage usage;
  usage.expected_s = deployed()->Seconds(view.window);
  usage.sums = live()->FleetSince(view.window.from);
  return usage;
}

Fleet::Models Query::ModelUsage(const View& view) const {
  absl::flat_hash_map<int32_t, store::UsageSums> by_model;
  for (auto& [model, sums] : live()->ModelsSince(view.window.from)) by_model[model] = sums;
  return Describe(by_model, view);
}

Fleet::Models Query::Describe(const absl::flat_hash_map<int32_t, store::UsageSums>& by_model,
                              const View& view) const {
  Fleet::Models out;
  for (const auto& [model, sums] : by_model) {
    store::ModelRecord record = registry_->model(model).value_or(store::ModelRecord{});
    if (model == 0) record.name = "";
    Usage usage;
    usage.sums = sums;
    usage.sums.gpus = static_cast<int32_t>(deployed()->Gpus(view.window.to, model));
    usage.expected_s = deployed()->Seconds(view.window, model);
    out.emplace_back(std::move(record), std::move(usage));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.second.expected_s, a.first.id) <
           std::pair(-b.second.expected_s, b.first.id);
  });
  return out;
}

StatusOr<Fleet> Query::FleetOver(const View& view, Micros step) const {
  Fleet fleet;
  std::vector<UsagePoint> points;
  if (view.source == UsageSource::kLive) {
    fleet.usage = FleetUsage(view);
    fleet.models = ModelUsage(view);
    points = live()->FleetMinutes(view.window.from);
  } else {
    FW_ASSIGN_OR_RETURN(const std::vector<store::ModelPoint> by_step,
                        sources_.store->FleetByModel(view.window, step));
    absl::flat_hash_map<int32_t, store::UsageSums> by_model;
    for (const store::ModelPoint& p : by_step) {
      if (points.empty() || points.back().ts != p.ts) points.push_back({p.ts, {}});
      points.back().sums += p.sums;
      by_model[p.model] += p.sums;
      fleet.usage.sums += p.sums;
    }
    fleet.usage.expected_s = deployed()->Seconds(view.window);
    if (fleet.usage.sums.gpus == 0)
      fleet.usage.sums.gpus = static_cast<int32_t>(deployed()->Gpus(view.window.to));
    fleet.models = Describe(by_model, view);
  }
  fleet.series = MakeSeries(view.window, step, points, deployed()->Steps(view.window, step));
  return fleet;
}

StatusOr<Series> Query::JobSeries(int32_t job, const View& view, Micros step) const {
  std::vector<UsagePoint> points;
  if (view.source == UsageSource::kLive) {
    points = live()->JobMinutes(job, view.window.from);
  } else {
    FW_ASSIGN_OR_RETURN(points, sources_.store->JobSeries(job, view.window, step));
  }
  return MakeSeries(view.window, step, points, AllocatedSteps(job, view.window, step));
}

std::shared_ptr<const GpuColumns> Query::gpus() const {
  return IsLarge() ? kept_gpus_.Get() : ColumnsOf(*live(), *registry_);
}

absl::flat_hash_map<int32_t, bool> Query::RunningJobs() const {
  absl::flat_hash_map<int32_t, bool> running;
  if (IsLarge()) {
    const std::shared_ptr<const JobList> list = kept_now_.Get();  // the next one may come meanwhile
    for (const JobRow& row : list->rows) {
      if (row.running) running[row.id] = true;
    }
    return running;
  }
  if (const ingest::LiveState* live = this->live(); live != nullptr) {
    const Micros since = now() - silent_after();
    for (const store::JobUsage& j : live->JobsSince(since)) {
      if (j.job != 0) running[j.job] = true;
    }
    return running;
  }
  const Micros now = this->now();
  for (const jobs::IntervalRecord& i : jobs_->Intervals(now - silent_after(), now + 1))
    running[i.job] = true;
  return running;
}

size_t Query::RunningJobCount() const {
  if (!IsLarge()) return RunningJobs().size();
  const auto list = kept_now_.Get();
  return static_cast<size_t>(std::count_if(list->rows.begin(), list->rows.end(),
                                           [](const JobRow& r) { return r.running; }));
}

JobRow Query::RowOf(const store::JobUsage& usage, const SecondsByJob& expected) const {
  JobRow row;
  row.id = usage.job;
  row.usage.sums = usage.sums;
  const auto it = expected.find(usage.job);
  if (it != expected.end()) row.usage.expected_s = it->second;
  return row;
}

// Jobs that held GPUs no sample speaks for.
void Query::AddUnsampled(const SecondsByJob& expected,
                         const absl::flat_hash_map<int32_t, bool>& running, JobList* list) const {
  absl::flat_hash_set<int32_t> sampled;
  for (const JobRow& row : list->rows) sampled.insert(row.id);
  for (const auto& [job, seconds] : expected) {
    if (seconds <= 0 || sampled.contains(job)) continue;
    JobRow& row = list->rows.emplace_back();
    row.id = job;
    row.usage.expected_s = seconds;
    row.running = running.contains(job);
  }
}

std::shared_ptr<const JobList> Query::LiveJobsOf(Micros window) const {
  const Micros to = std::max(now(), live()->newest());
  return LiveJobs({.window = {live()->Align(to - window), to}, .source = UsageSource::kLive});
}

std::shared_ptr<const JobList> Query::LiveJobs(const View& view) const {
  auto list = std::make_shared<JobList>();
  list->view = view;
  const SecondsByJob expected = AllocatedSeconds(view.window);
  const Micros since = now() - silent_after();
  const std::vector<store::JobUsage> usages = live()->JobsSince(view.window.from);
  list->rows.reserve(usages.size());
  for (const store::JobUsage& u : usages) {
    if (u.job == 0) continue;
    JobRow& row = list->rows.emplace_back(RowOf(u, expected));
    row.running = u.sums.last_ts > since;  // a live window says itself who was seen last
  }
  AddUnsampled(expected, {}, list.get());
  Describe(absl::MakeSpan(list->rows));
  list->described = true;
  return list;
}

StatusOr<std::shared_ptr<const JobList>> Query::Jobs(const View& view, bool exact) const {
  std::shared_ptr<const JobList> found;
  if (view.source == UsageSource::kLive && !exact) {
    const Micros length = view.window.to - view.window.from;
    const auto near = [&](Micros window) {
      return IsLarge() && length <= window && length > window - 2 * kMicrosPerMinute;
    };
    found = near(kDefaultWindow) ? kept_hour_.Get()
            : near(kNowWindow)   ? kept_now_.Get()
                                 : LiveJobs(view);
  } else {
    auto list = std::make_shared<JobList>();
    list->view = view;
    StatusOr<std::vector<store::JobUsage>> usages =
        exact ? sources_.store->UsageByJobExact(view.window)
              : sources_.store->UsageByJob(view.window);
    FW_RETURN_IF_ERROR(usages.status());
    const SecondsByJob expected = AllocatedSeconds(view.window);
    const auto running = RunningJobs();
    for (const store::JobUsage& u : *usages) {
      if (u.job == 0) continue;
      JobRow& row = list->rows.emplace_back(RowOf(u, expected));
      row.running = running.contains(u.job);
      row.exact = exact;
    }
    AddUnsampled(expected, running, list.get());
    if (exact) {
      for (JobRow& row : list->rows) row.exact = true;
    }
    found = std::move(list);
  }

  // A static file may have named a job after its samples were stamped: then the stamps miss it and
  // only a join with the intervals finds them.
  const auto is_late = [&](const JobRow& r) {
    if (r.usage.sums.ofu.observed_s >= 0.5 * r.usage.expected_s) return false;
    const auto record = jobs_->job(r.id);
    return record.has_value() && record->source == jobs::Source::kStaticFile;
  };
  const bool late = !exact && view.window.to - view.window.from <= kExactWindow &&
                    sources_.store != nullptr &&
                    std::any_of(found->rows.begin(), found->rows.end(), is_late);
  if (!late) return found;
  FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> joined,
                      sources_.store->UsageByJobExact(view.window));
  absl::flat_hash_map<int32_t, const store::UsageSums*> exact_of;
  for (const store::JobUsage& u : joined) exact_of[u.job] = &u.sums;
  auto list = std::make_shared<JobList>(*found);
  for (JobRow& row : list->rows) {
    const auto it = exact_of.find(row.id);
    if (it == exact_of.end() || it->second->ofu.observed_s <= row.usage.sums.ofu.observed_s ||
        !is_late(row))
      continue;
    row.usage.sums = *it->second;
    row.exact = true;
  }
  return std::shared_ptr<const JobList>(std::move(list));
}

void Query::Describe(absl::Span<JobRow> rows) const {
  for (JobRow& row : rows) {
    if (!row.record.key.empty()) continue;
    if (auto record = jobs_->job(row.id)) row.record = *std::move(record);
  }
}

StatusOr<JobRow> Query::Job(const View& view, const jobs::JobRecord& record, bool exact) const {
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> list, Jobs(view, exact));
  for (const JobRow& known : list->rows) {
    if (known.id != record.id) continue;
    JobRow row = known;
    row.record = record;
    return row;
  }
  JobRow none;
  none.id = record.id;
  none.record = record;
  none.exact = exact;
  none.running = RunningJobs().contains(record.id);
  return none;
}

std::optional<JobGpus> Query::LiveJobGpus(int32_t job, const View& view) const {
  if (view.source != UsageSource::kLive) return std::nullopt;
  JobGpus out{.window = {CeilTo(view.window.from, ingest::kGpuSlot), view.window.to}, .gpus = {}};
  if (out.window.to - out.window.from < 2 * ingest::kGpuSlot) return std::nullopt;
  absl::flat_hash_map<int32_t, double> shares;  // of a set; 0 = the job is not in it
  for (const jobs::IntervalRecord& i : jobs_->Intervals(out.window.from, out.window.to, job)) {
    if (!out.gpus.empty() && out.gpus.back().entity == i.entity)
      continue;  // the first says from when it must be known
    const int32_t set = live()->Gpu(i.entity).job_set;
    const auto [share, fresh] = shares.try_emplace(set, 0);
    if (fresh) {
      const std::vector<int32_t> members = jobs_->SetMembers(set);
      if (std::find(members.begin(), members.end(), job) != members.end())
        share->second = 1.0 / static_cast<double>(members.size());
    }
    if (share->second == 0) return std::nullopt;
    auto known = live()->GpuSince(i.entity, set, out.window.from);
    if (!known.has_value() || known->since > std::max(i.from, out.window.from) + kMicrosPerSecond)
      return std::nullopt;
    store::UsageSums sums = efficiency::OfJob(known->sums, share->second);
    sums.gpus = 1;
    out.gpus.push_back({i.entity, sums});
  }
  return out;
}

StatusOr<std::vector<ClaimUsage>> Query::Application(std::string_view job, Window window) const {
  std::vector<ClaimUsage> out;
  std::vector<int32_t> ids;
  for (telemetry::ApplicationClaim& claim : applications_->ClaimsOf(job)) {
    ids.push_back(claim.id);
    out.push_back({std::move(claim), {}});
  }
  if (out.empty() || sources_.store == nullptr) return out;
  FW_ASSIGN_OR_RETURN(const auto usage, sources_.store->ApplicationByClaim(window, ids));
  for (const store::ApplicationUsage& u : usage) {
    for (ClaimUsage& c : out) {
      if (c.claim.id == u.claim) c.sums = u.sums;
    }
  }
  return out;
}

std::string Query::ModelOfJob(std::string_view job) const {
  const auto record = jobs_->FindJob(job);
  if (!record.has_value()) return {};
  absl::flat_hash_set<int32_t> models;
  for (const jobs::IntervalRecord& i : jobs_->Intervals(0, now() + kMicrosPerMinute, record->id)) {
    const auto entity = registry_->entity(i.entity);
    if (entity.has_value()) models.insert(entity->model);
    if (models.size() > 1) return {};
  }
  if (models.size() != 1) return {};
  const auto model = registry_->model(*models.begin());
  return model.has_value() ? model->name : std::string();
}

}  // namespace flopwatch::query
