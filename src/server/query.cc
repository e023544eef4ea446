#include "server/query.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace flopwatch::server {
namespace {

using store::EntityRecord;
using store::UsagePoint;
using store::Window;
using telemetry::EntityKind;

Micros Overlap(Window a, Micros from, Micros to) {
  return std::max<Micros>(0, std::min(a.to, to) - std::max(a.from, from));
}
double Seconds(Micros d) { return static_cast<double>(d) / kMicrosPerSecond; }
Micros CeilTo(Micros t, Micros step) { return FloorTo(t + step - 1, step); }

// Calls f(from, to, jobs) for every stretch of one entity's intervals in which the same jobs hold it.
template <typename F>
void Sweep(absl::Span<const jobs::IntervalRecord> intervals, Window window, F&& f) {
  if (intervals.size() == 1) {
    const int32_t job = intervals[0].job;
    const Micros from = std::max(window.from, intervals[0].from), to = std::min(window.to, intervals[0].to);
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

store::UsageSums Scaled(store::UsageSums s, double f) {
  if (f == 1) return s;
  for (double* sum : {&s.ofu.ofu_s, &s.ofu.computable_s, &s.ofu.observed_s, &s.tensor_s, &s.tensor_span_s, &s.clock_mhz_s,
                      &s.clock_span_s, &s.sm_active_s, &s.sm_active_span_s, &s.gpu_util_s, &s.gpu_util_span_s,
                      &s.tensor_missing_s, &s.clock_missing_s, &s.model_unknown_s, &s.dead_counter_s, &s.out_of_range_s,
                      &s.stale_s, &s.cycle_path_s}) {
    *sum *= f;
  }
  return s;
}

store::UsageSums BoardOnly(const store::UsageSums& s) {
  store::UsageSums out;
  out.power_j = s.power_j;
  out.power_span_s = s.power_span_s;
  return out;
}

std::string_view UsageSourceName(UsageSource s) {
  switch (s) {
    case UsageSource::kLive: return "live";
    case UsageSource::kRollup: return "rollup";
    case UsageSource::kRaw: return "raw";
  }
  return "rollup";
}

Query::Query(const ApiParts& parts) : parts_(parts), started_(parts.clock()) {
  if (parts_.pipeline != nullptr) {
    registry_ = &parts_.pipeline->registry();
    jobs_ = &parts_.pipeline->jobs();
    refresher_ = std::jthread([this](std::stop_token stop) { Refresh(stop); });
    return;
  }
  own_registry_ = std::make_unique<Registry>(parts_.catalog);
  own_jobs_ = std::make_unique<jobs::JobIndex>();
  registry_ = own_registry_.get();
  jobs_ = own_jobs_.get();
  if (parts_.store == nullptr) {
    ready_ = absl::UnavailableError("no store: nothing to answer from");
    return;
  }
  const auto dimensions = parts_.store->LoadDimensions();
  if (!dimensions.ok()) {
    ready_ = Annotate(dimensions.status(), "reading GPUs and jobs");
    return;
  }
  own_registry_->Load(*dimensions);
  own_jobs_->Load(dimensions->jobs, dimensions->intervals, dimensions->sets, parts_.store->stats().newest_ts);
}

Micros Query::silent_after() const {
  return parts_.pipeline == nullptr ? 90 * kMicrosPerSecond : parts_.pipeline->options().max_span;
}

View Query::Resolve(Window asked, bool allow_live) const {
  const Micros now = this->now();
  View view;
  if (const LiveState* live = this->live(); live != nullptr && allow_live && live->newest() != 0) {
    const bool ends_now = asked.to >= now - kMicrosPerSecond;
    const bool reached = asked.from > live->newest() - kLongestWindow;
    bool complete = live->oldest() <= asked.from;
    // Nothing older is stored either: the fleet is younger than the window.
    if (!complete && parts_.store != nullptr) {
      const Micros oldest = parts_.store->stats().oldest_ts;
      complete = oldest == 0 || oldest >= live->oldest();
    }
    if (ends_now && reached && (complete || parts_.store == nullptr)) {
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
  const LiveState* live = this->live();
  if (live == nullptr || live->newest() == 0) return std::nullopt;
  const Micros to = std::max(now(), live->newest());
  View view;
  view.window = {live->Align(to - kNowWindow), to};
  view.source = UsageSource::kLive;
  return view;
}

// --- expected GPU-seconds ---

std::shared_ptr<const Deployed> Query::deployed() const {
  const Micros monotonic = MonotonicNow();
  const uint64_t version = registry_->version();
  std::lock_guard lock(deployed_mutex_);
  const Micros age = monotonic - deployed_at_;
  // While a big fleet is being met for the first time, every scrape changes the registry.
  const bool changed = version != deployed_version_ &&
                       (age > kStandingFresh || registry_->entity_count() <= kInlineEntities);
  if (deployed_ == nullptr || changed || age > kDeployedFresh) {
    deployed_ = std::make_shared<const Deployed>(*registry_, live(), started_);
    deployed_version_ = version;
    deployed_at_ = monotonic;
  }
  return deployed_;
}

SecondsByJob Query::AllocatedSeconds(Window window) const {
  SecondsByJob out;
  for (const jobs::GpuSeconds& g : jobs_->GpuSecondsByJob(window.from, window.to)) out[g.job] = g.gpu_seconds;
  if (!registry_->has_instances()) return out;
  // The index counts an instance as a whole GPU; take off what it is not.
  ByEntity(jobs_->Intervals(window.from, window.to), [&](int32_t entity, absl::Span<const jobs::IntervalRecord> intervals) {
    const double fraction = registry_->Fraction(entity);
    if (fraction >= 1) return;
    Sweep(intervals, window, [&](Micros from, Micros to, absl::Span<const int32_t> holders) {
      for (const int32_t job : holders) out[job] -= (1 - fraction) * Seconds(to - from) / static_cast<double>(holders.size());
    });
  });
  return out;
}

std::shared_ptr<const SecondsByJob> Query::ExpectedOf(const View& view) const {
  if (view.source != UsageSource::kLive || registry_->entity_count() <= kInlineEntities) {
    return std::make_shared<const SecondsByJob>(AllocatedSeconds(view.window));
  }
  const Micros length = FloorTo(view.window.to - view.window.from, kMicrosPerMinute);
  const Micros monotonic = MonotonicNow();
  {
    std::lock_guard lock(standing_mutex_);
    for (Standing& s : standing_) {
      if (s.length != length || monotonic - s.computed > kStandingUsable) continue;
      if (monotonic - s.computed > kStandingFresh && !s.wanted) {
        s.wanted = true;
        standing_wake_.notify_all();
      }
      return s.seconds;
    }
  }
  auto seconds = std::make_shared<const SecondsByJob>(AllocatedSeconds(view.window));
  std::lock_guard lock(standing_mutex_);
  std::erase_if(standing_, [&](const Standing& s) { return s.length == length || monotonic - s.computed > kStandingUsable; });
  if (standing_.size() < kMaxStanding) standing_.push_back({length, monotonic, false, seconds});
  return seconds;
}

void Query::Refresh(std::stop_token stop) {
  std::unique_lock lock(standing_mutex_);
  const auto wanted = [&] { return std::find_if(standing_.begin(), standing_.end(), [](const Standing& s) { return s.wanted; }); };
  while (standing_wake_.wait(lock, stop, [&] { return wanted() != standing_.end(); })) {
    const Micros length = wanted()->length;
    lock.unlock();
    const Micros to = now();
    auto seconds = std::make_shared<const SecondsByJob>(AllocatedSeconds({live()->Align(to - length), to}));
    lock.lock();
    for (Standing& s : standing_) {
      if (s.length == length) s = {length, MonotonicNow(), false, seconds};
    }
  }
}

std::vector<double> Query::AllocatedSteps(int32_t job, Window window, Micros step) const {
  const Micros start = FloorTo(window.from, step);
  const auto n = static_cast<size_t>(std::max<Micros>(1, (window.to - start + step - 1) / step));
  std::vector<double> out(n, 0);
  std::vector<jobs::IntervalRecord> own = jobs_->Intervals(window.from, window.to, job);
  // Shares matter only where another job was on the same GPU; then, and only then, all intervals are needed.
  double whole = 0, divided = 0;
  for (const auto& i : own) whole += Seconds(Overlap(window, i.from, i.to));
  for (const auto& g : jobs_->GpuSecondsByJob(window.from, window.to)) {
    if (g.job == job) divided = g.gpu_seconds;
  }
  if (divided < whole * 0.999) {
    absl::flat_hash_map<int32_t, bool> mine;
    for (const auto& i : own) mine[i.entity] = true;
    own = jobs_->Intervals(window.from, window.to);
    std::erase_if(own, [&](const auto& i) { return !mine.contains(i.entity); });
  }
  ByEntity(own, [&](int32_t entity, absl::Span<const jobs::IntervalRecord> intervals) {
    const double fraction = registry_->Fraction(entity);
    Sweep(intervals, window, [&](Micros from, Micros to, absl::Span<const int32_t> holders) {
      if (std::find(holders.begin(), holders.end(), job) == holders.end()) return;
      const double share = fraction / static_cast<double>(holders.size());
      for (Micros at = from; at < to;) {
        const auto k = static_cast<size_t>((at - start) / step);
        const Micros end = std::min(to, start + static_cast<Micros>(k + 1) * step);
        out[k] += share * Seconds(end - at);
        at = end;
      }
    });
  });
  return out;
}

// --- usage ---

StatusOr<Usage> Query::FleetUsage(const View& view) const {
  Usage usage;
  usage.expected_s = deployed()->Seconds(view.window);
  if (view.source == UsageSource::kLive) {
    usage.sums = live()->FleetSince(view.window.from);
    return usage;
  }
  const Micros step = CeilTo(std::max<Micros>(view.window.to - view.window.from, kMicrosPerMinute), kMicrosPerMinute);
  FW_ASSIGN_OR_RETURN(const std::vector<UsagePoint> points, parts_.store->FleetSeries(view.window, step));
  for (const UsagePoint& p : points) usage.sums += p.sums;
  int32_t most = 0;
  for (const UsagePoint& p : points) most = std::max(most, p.sums.gpus);
  usage.sums.gpus = most != 0 ? most : static_cast<int32_t>(deployed()->Gpus(view.window.to));
  return usage;
}

StatusOr<std::vector<std::pair<store::ModelRecord, Usage>>> Query::ModelUsage(const View& view) const {
  std::vector<std::pair<store::ModelRecord, Usage>> out;
  absl::flat_hash_map<int32_t, store::UsageSums> by_model;
  if (view.source == UsageSource::kLive) {
    for (auto& [model, sums] : live()->ModelsSince(view.window.from)) by_model[model] = sums;
  } else {
    FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> gpus, parts_.store->UsageByGpu(view.window));
    // By GPU, an instance's seconds are its own and its GPU's row is whole; by model they are shares of one GPU.
    absl::flat_hash_map<int32_t, std::pair<int32_t, int32_t>> facts;  // model, parent
    registry_->ForEachEntity([&](const EntityRecord& e) { facts[e.id] = {e.model, e.parent}; });
    absl::flat_hash_map<int32_t, bool> split;
    for (const store::GpuUsage& g : gpus) {
      if (const int32_t parent = facts[g.entity].second; parent != 0) split[parent] = true;
    }
    for (const store::GpuUsage& g : gpus) {
      by_model[facts[g.entity].first] += split.contains(g.entity) ? BoardOnly(g.sums) : Scaled(g.sums, registry_->Fraction(g.entity));
    }
  }
  for (auto& [model, sums] : by_model) {
    store::ModelRecord record = registry_->model(model).value_or(store::ModelRecord{});
    if (model == 0) record.name = "";
    Usage usage;
    usage.sums = sums;
    usage.sums.gpus = static_cast<int32_t>(deployed()->Gpus(view.window.to, model));
    usage.expected_s = deployed()->Seconds(view.window, model);
    out.emplace_back(std::move(record), std::move(usage));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.second.expected_s, a.first.id) < std::pair(-b.second.expected_s, b.first.id);
  });
  return out;
}

StatusOr<Series> Query::FleetSeries(const View& view, Micros step) const {
  std::vector<UsagePoint> points;
  if (view.source == UsageSource::kLive) {
    points = live()->FleetMinutes(view.window.from);
  } else {
    FW_ASSIGN_OR_RETURN(points, parts_.store->FleetSeries(view.window, step));
  }
  return MakeSeries(view.window, step, points, deployed()->Steps(view.window, step));
}

StatusOr<Series> Query::JobSeries(int32_t job, const View& view, Micros step) const {
  std::vector<UsagePoint> points;
  if (view.source == UsageSource::kLive) {
    points = live()->JobMinutes(job, view.window.from);
  } else {
    FW_ASSIGN_OR_RETURN(points, parts_.store->JobSeries(job, view.window, step));
  }
  return MakeSeries(view.window, step, points, AllocatedSteps(job, view.window, step));
}

absl::flat_hash_map<int32_t, bool> Query::RunningJobs() const {
  absl::flat_hash_map<int32_t, bool> running;
  if (const LiveState* live = this->live(); live != nullptr) {
    const Micros since = now() - silent_after();
    for (const store::JobUsage& j : live->JobsSince(since)) {
      if (j.job != 0) running[j.job] = true;
    }
    return running;
  }
  const Micros now = this->now();
  for (const jobs::IntervalRecord& i : jobs_->Intervals(now - silent_after(), now + 1)) running[i.job] = true;
  return running;
}

StatusOr<std::vector<JobRow>> Query::Jobs(const View& view, bool exact) const {
  std::vector<store::JobUsage> usages;
  if (view.source == UsageSource::kLive && !exact) {
    usages = live()->JobsSince(view.window.from);
  } else if (exact) {
    FW_ASSIGN_OR_RETURN(usages, parts_.store->UsageByJobExact(view.window));
  } else {
    FW_ASSIGN_OR_RETURN(usages, parts_.store->UsageByJob(view.window));
  }
  const std::shared_ptr<const SecondsByJob> expected = ExpectedOf(view);
  // A live window says itself who was seen last.
  const bool live_view = view.source == UsageSource::kLive && !exact;
  const auto running = live_view ? absl::flat_hash_map<int32_t, bool>{} : RunningJobs();
  const Micros since = now() - silent_after();
  std::vector<JobRow> rows;
  rows.reserve(usages.size());
  absl::flat_hash_set<int32_t> sampled;
  for (const store::JobUsage& u : usages) {
    if (u.job == 0) continue;
    sampled.insert(u.job);
    JobRow& row = rows.emplace_back();
    row.id = u.job;
    row.usage.sums = u.sums;
    const auto it = expected->find(u.job);
    if (it != expected->end()) row.usage.expected_s = it->second;
    row.running = live_view ? u.sums.last_ts > since : running.contains(u.job);
    row.exact = exact;
  }
  // Jobs that held GPUs no sample speaks for.
  for (const auto& [job, seconds] : *expected) {
    if (seconds <= 0 || sampled.contains(job)) continue;
    JobRow& row = rows.emplace_back();
    row.id = job;
    row.usage.expected_s = seconds;
    row.running = running.contains(job);
    row.exact = exact;
  }

  // A static file may have named a job after its samples were stamped: then the stamps miss it and only a join with the
  // intervals finds them.
  const auto is_late = [&](const JobRow& r) {
    if (r.usage.sums.ofu.observed_s >= 0.5 * r.usage.expected_s) return false;
    const auto record = jobs_->job(r.id);
    return record.has_value() && record->source == jobs::Source::kStaticFile;
  };
  const bool late = !exact && view.window.to - view.window.from <= kExactWindow && parts_.store != nullptr &&
                    std::any_of(rows.begin(), rows.end(), is_late);
  if (!late) return rows;
  FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> joined, parts_.store->UsageByJobExact(view.window));
  absl::flat_hash_map<int32_t, const store::UsageSums*> exact_of;
  for (const store::JobUsage& u : joined) exact_of[u.job] = &u.sums;
  for (JobRow& row : rows) {
    const auto it = exact_of.find(row.id);
    if (it == exact_of.end() || it->second->ofu.observed_s <= row.usage.sums.ofu.observed_s || !is_late(row)) continue;
    row.usage.sums = *it->second;
    row.exact = true;
  }
  return rows;
}

void Query::Describe(absl::Span<JobRow> rows) const {
  for (JobRow& row : rows) {
    if (!row.record.key.empty()) continue;
    if (auto record = jobs_->job(row.id)) row.record = *std::move(record);
  }
}

StatusOr<JobRow> Query::Job(const View& view, const jobs::JobRecord& record, bool exact) const {
  FW_ASSIGN_OR_RETURN(std::vector<JobRow> rows, Jobs(view, exact));
  for (JobRow& row : rows) {
    if (row.id != record.id) continue;
    row.record = record;
    return std::move(row);
  }
  JobRow none;
  none.id = record.id;
  none.record = record;
  none.exact = exact;
  none.running = RunningJobs().contains(record.id);
  return none;
}

}  // namespace flopwatch::server
