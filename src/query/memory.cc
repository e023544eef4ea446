#include "query/memory.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/lookup.h"
#include "base/runs.h"

namespace flopwatch::query {
namespace {

using store::EntityRecord;
using store::UsagePoint;
using store::Window;

Micros CeilTo(Micros t, Micros step) { return FloorTo(t + step - 1, step); }

// Calls f(from, to, jobs) for each stretch of one entity's intervals that the same jobs hold.
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
    for (const auto& i : intervals)
      if (i.from <= edges[k] && i.to >= edges[k + 1]) holders.push_back(i.job);
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
  // Known from before the last start and silent since: left out of the list they are forgotten.
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
  ForEachRun(
      absl::MakeConstSpan(intervals), [](const jobs::IntervalRecord& i) { return i.entity; },
      [&](absl::Span<const jobs::IntervalRecord> own, int32_t entity) { f(entity, own); });
}

}  // namespace

double SortKey(const ingest::GpuNow& g, GpuSort sort) {
  using ingest::GpuNow;
  static constexpr std::pair<GpuSort, double GpuNow::*> kReadings[] = {
      {GpuSort::kOfu, &GpuNow::ofu},
      {GpuSort::kTensor, &GpuNow::tensor_active},
      {GpuSort::kClock, &GpuNow::sm_clock_mhz},
      {GpuSort::kUtil, &GpuNow::gpu_util},
      {GpuSort::kPower, &GpuNow::power_w},
      {GpuSort::kMemory, &GpuNow::fb_used_mib},
      {GpuSort::kTemperature, &GpuNow::gpu_temp_c}};
  if (sort == GpuSort::kAge) return -static_cast<double>(g.ts);
  const auto reading = ValueOf(kReadings, sort, static_cast<double GpuNow::*>(nullptr));
  return reading == nullptr ? g.entity : g.*reading;
}

std::string_view UsageSourceName(UsageSource s) {
  static constexpr std::string_view kNames[] = {"live", "rollup", "raw"};
  return kNames[static_cast<size_t>(s)];
}

Memory::Memory(MemorySources sources, StatusOr<store::Dimensions> stored)
    : sources_([&] {
        if (!sources.clock) {
          // Offline the newest sample is "now": a copied store answers about its own last hour.
          const bool offline = !sources.live && sources.store_stats;
          sources.clock = [stats = offline ? sources.store_stats : nullptr] {
            const Micros newest = stats ? stats().newest_ts : 0;
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
    books_ = sources_.live->books;
    applications_ = sources_.live->applications;
    keeper_.emplace(std::vector<KeptBase*>{&kept_deployed_, &kept_hour_, &kept_now_, &kept_gpus_});
    return;
  }
  owned_ = std::make_unique<Owned>(sources_.catalog);
  registry_ = &owned_->registry;
  jobs_ = &owned_->jobs;
  books_ = &owned_->books;
  applications_ = &owned_->applications;
  if (!stored.ok()) {
    ready_ = Annotate(stored.status(), "reading GPUs and jobs");
    return;
  }
  owned_->registry.Load(*stored);
  owned_->jobs.Load(stored->jobs, stored->intervals, stored->sets,
                    sources_.store_stats ? sources_.store_stats().newest_ts : 0);
  owned_->books.Load(stored->attempts, stored->nodes);
  jobs::RemindIndex(owned_->books, &owned_->jobs);
  owned_->applications.Load(std::move(stored->claims));
}

Micros Memory::silent_after() const {
  return sources_.live ? sources_.live->silent_after : LiveSources().silent_after;
}

bool Memory::AtHand(std::initializer_list<Snapshot> snapshots) const {
  if (!IsLarge()) return true;
  return std::all_of(snapshots.begin(), snapshots.end(), [&](Snapshot s) {
    return s == Snapshot::kDeployed     ? kept_deployed_.Has()
           : s == Snapshot::kJobsOfHour ? kept_hour_.Has()
           : s == Snapshot::kJobsNow    ? kept_now_.Has()
                                        : kept_gpus_.Has();
  });
}

std::optional<View> Memory::LiveView(Window asked) const {
  const ingest::LiveState* live = this->live();
  if (live == nullptr || live->newest() == 0) return std::nullopt;
  const Micros now = this->now();
  if (asked.to < now - kMicrosPerSecond) return std::nullopt;
  if (asked.from <= live->newest() - ingest::kLongestWindow) return std::nullopt;
  if (live->oldest() > asked.from && sources_.store_stats) {
    // A fleet that is younger than the window has nothing older stored either.
    const Micros oldest = sources_.store_stats().oldest_ts;
    if (oldest != 0 && oldest < live->oldest()) return std::nullopt;
  }
  View view{.window = {live->Align(asked.from), 0}, .source = UsageSource::kLive};
  view.window.to = std::max(now, view.window.from + kMicrosPerSecond);
  return view;
}

View Memory::StoredView(Window asked) const {
  View view{.window = {FloorTo(asked.from, kMicrosPerMinute), CeilTo(asked.to, kMicrosPerMinute)}};
  view.window.to = std::max(std::min(view.window.to, now()), view.window.from + kMicrosPerSecond);
  return view;
}

std::optional<View> Memory::NowView() const {
  const ingest::LiveState* live = this->live();
  if (live == nullptr || live->newest() == 0) return std::nullopt;
  const Micros to = std::max(now(), live->newest());
  View view;
  view.window = {live->Align(to - kNowWindow), to};
  view.source = UsageSource::kLive;
  return view;
}

// --- expected GPU-seconds ---

std::shared_ptr<const Deployed> Memory::deployed() const {
  if (IsLarge()) return kept_deployed_.Get();
  // A small fleet's list is always as it is now.
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

void Memory::ForEachOwned(Window window, const jobs::OwnedTimes* held, jobs::VisitOwned f) const {
  if (held != nullptr) return held->ForEach(f);
  jobs_->ForEachOwned(window.from, window.to, f);
}

SecondsByJob Memory::AllocatedSeconds(Window window, const jobs::OwnedTimes* held) const {
  SecondsByJob out;
  for (const jobs::GpuSeconds& g :
       held != nullptr ? held->SecondsByJob() : jobs_->GpuSecondsByJob(window.from, window.to))
    out[g.job] = g.gpu_seconds;
  if (!registry_->has_instances()) return out;
  // The index counts an instance as a whole GPU; take off what it is not.
  ForEachHeld(window, held,
              [&](absl::Span<const int32_t> entities, double fraction,
                  absl::Span<const jobs::OwnedStretch> stretches) {
                if (fraction >= 1) return;
                const double less = (1 - fraction) * static_cast<double>(entities.size());
                for (const jobs::OwnedStretch& s : stretches) {
                  for (const int32_t job : s.jobs)
                    out[job] -=
                        less * ToSeconds(s.to - s.from) / static_cast<double>(s.jobs.size());
                }
              });
  return out;
}

void Memory::ForEachHeld(
    Window window, const jobs::OwnedTimes* held,
    absl::FunctionRef<void(absl::Span<const int32_t>, double, absl::Span<const jobs::OwnedStretch>)>
        f) const {
  const bool all_whole = !registry_->has_instances();
  ForEachOwned(
      window, held,
      [&](absl::Span<const int32_t> entities, absl::Span<const jobs::OwnedStretch> stretches) {
        if (all_whole) return f(entities, 1, stretches);
        ForEachRun(
            entities, [&](int32_t entity) { return registry_->Fraction(entity); },
            [&](absl::Span<const int32_t> run, double fraction) { f(run, fraction, stretches); });
      });
}

absl::flat_hash_map<int32_t, Holding> Memory::Holdings(
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

std::vector<double> Memory::AllocatedSteps(int32_t job, Window window, Micros step) const {
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

Usage Memory::FleetUsage(const View& view) const {
  Usage usage;
  usage.expected_s = deployed()->Seconds(view.window);
  usage.sums = live()->FleetSince(view.window.from);
  return usage;
}

Fleet::Models Memory::ModelUsage(const View& view) const {
  absl::flat_hash_map<int32_t, store::UsageSums> by_model;
  for (auto& [model, sums] : live()->ModelsSince(view.window.from)) by_model[model] = sums;
  return Describe(by_model, view);
}

Fleet::Models Memory::Describe(const absl::flat_hash_map<int32_t, store::UsageSums>& by_model,
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

std::shared_ptr<const GpuColumns> Memory::gpus() const {
  return IsLarge() ? kept_gpus_.Get() : ColumnsOf(*live(), *registry_);
}

absl::flat_hash_map<int32_t, bool> Memory::RunningJobs() const {
  absl::flat_hash_map<int32_t, bool> running;
  if (IsLarge()) {
    const std::shared_ptr<const JobList> list = kept_now_.Get();  // the next one may come meanwhile
    for (const JobRow& row : list->rows)
      if (row.running) running[row.id] = true;
    return running;
  }
  if (const ingest::LiveState* live = this->live(); live != nullptr) {
    const Micros since = now() - silent_after();
    for (const store::JobUsage& j : live->JobsSince(since))
      if (j.job != 0) running[j.job] = true;
    return running;
  }
  const Micros now = this->now();
  jobs_->ForEachOwned(
      now - silent_after(), now + 1,
      [&](absl::Span<const int32_t>, absl::Span<const jobs::OwnedStretch> stretches) {
        for (const jobs::OwnedStretch& s : stretches)
          for (const int32_t job : s.jobs) running[job] = true;
      });
  return running;
}

size_t Memory::RunningJobCount() const {
  if (!IsLarge()) return RunningJobs().size();
  const auto list = kept_now_.Get();
  return static_cast<size_t>(std::count_if(list->rows.begin(), list->rows.end(),
                                           [](const JobRow& r) { return r.running; }));
}

Fleet Memory::FleetOver(const View& view, Micros step) const {
  Fleet fleet{.usage = FleetUsage(view), .series = {}, .models = ModelUsage(view)};
  fleet.series = MakeSeries(view.window, step, live()->FleetMinutes(view.window.from),
                            deployed()->Steps(view.window, step));
  return fleet;
}

Series Memory::JobSeries(int32_t job, const View& view, Micros step) const {
  return MakeSeries(view.window, step, live()->JobMinutes(job, view.window.from),
                    AllocatedSteps(job, view.window, step));
}

std::shared_ptr<JobList> Memory::ListOf(
    const View& view, absl::Span<const store::JobUsage> usages,
    absl::FunctionRef<bool(int32_t job, const store::UsageSums& sums)> running,
    std::shared_ptr<const jobs::OwnedTimes> held) const {
  auto list = std::make_shared<JobList>();
  list->view = view;
  list->held = std::move(held);
  list->rows.reserve(usages.size());
  SecondsByJob expected = AllocatedSeconds(view.window, list->held.get());
  for (const store::JobUsage& u : usages) {
    if (u.job == 0) continue;
    JobRow& row = list->rows.emplace_back();
    row.id = u.job;
    row.usage.sums = u.sums;
    row.running = running(u.job, u.sums);
    const auto it = expected.find(u.job);
    if (it == expected.end()) continue;
    row.usage.expected_s = it->second;
    expected.erase(it);
  }
  // These jobs held GPUs that no sample speaks for.
  for (const auto& [job, seconds] : expected) {
    if (seconds <= 0) continue;
    JobRow& row = list->rows.emplace_back();
    row.id = job;
    row.usage.expected_s = seconds;
    row.running = running(job, row.usage.sums);
  }
  list->late = std::any_of(list->rows.begin(), list->rows.end(),
                           [&](const JobRow& row) { return IsLate(row); });
  return list;
}

bool Memory::IsLate(const JobRow& row) const {
  if (row.usage.sums.ofu.observed_s >= 0.5 * row.usage.expected_s) return false;
  const auto record = jobs_->job(row.id);
  return record.has_value() && record->source != jobs::Source::kLabels;
}

std::shared_ptr<const JobList> Memory::LiveJobs(const View& view) const {
  // A live window says itself who was seen last.
  const Micros since = now() - silent_after();
  std::shared_ptr<JobList> list =
      ListOf(view, live()->JobsSince(view.window.from),
             [&](int32_t, const store::UsageSums& sums) { return sums.last_ts > since; });
  Describe(absl::MakeSpan(list->rows));
  list->described = true;
  return list;
}

std::shared_ptr<const JobList> Memory::Jobs(const View& view) const {
  const Micros length = view.window.to - view.window.from;
  const auto near = [&](Micros window) {
    return IsLarge() && length <= window && length > window - 2 * kMicrosPerMinute;
  };
  return near(kDefaultWindow) ? kept_hour_.Get()
         : near(kNowWindow)   ? kept_now_.Get()
                              : LiveJobs(view);
}

JobRow Memory::RowOf(const JobList& list, const jobs::JobRecord& record) const {
  JobRow row;
  const auto known = std::find_if(list.rows.begin(), list.rows.end(),
                                  [&](const JobRow& r) { return r.id == record.id; });
  if (known != list.rows.end()) {
    row = *known;
  } else {
    row.id = record.id;
    row.running = RunningJobs().contains(record.id);
  }
  row.record = record;
  return row;
}

std::optional<Window> Memory::LifeOf(int32_t job, Micros longest) const {
  const Micros now = this->now();
  Window life{now, 0};
  for (const jobs::IntervalRecord& i : jobs_->Intervals(0, now + kMicrosPerMinute, job)) {
    life.from = std::min(life.from, i.from);
    life.to = std::max(life.to, i.to);
  }
  if (life.to == 0) return std::nullopt;
  if (RunningJobs().contains(job)) life.to = now;
  life.to = std::max(std::min(life.to, now), life.from + kMicrosPerSecond);
  life.from = std::max(life.from, life.to - longest);
  return life;
}

std::shared_ptr<const JobList> Memory::LiveJobsOf(Micros window) const {
  const Micros to = std::max(now(), live()->newest());
  return LiveJobs({.window = {live()->Align(to - window), to}, .source = UsageSource::kLive});
}

void Memory::Describe(absl::Span<JobRow> rows) const {
  for (JobRow& row : rows) {
    if (!row.record.key.empty()) continue;
    if (auto record = jobs_->job(row.id)) {
      row.record = *std::move(record);
    } else if (row.id == store::kUnknownJob) {
      row.record.key = store::kUnknownJobName;
    }
  }
}

std::optional<JobGpus> Memory::LiveJobGpus(int32_t job, const View& view) const {
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

std::string Memory::ModelOfJob(std::string_view job) const {
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
