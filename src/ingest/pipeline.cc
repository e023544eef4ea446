#include "ingest/pipeline.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "ingest/source.h"

namespace flopwatch::ingest {
namespace {

constexpr Micros kRateWindow = 10 * kMicrosPerSecond;

PipelineOptions Adjusted(PipelineOptions options) {
  // Slow scrapes: one that is missed must not make the next one a gap.
  options.max_span = std::max(options.max_span, options.nominal_interval * 5 / 2);
  return options;
}

absl::string_view AbslKey(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

Pipeline::Pipeline(const IngestParts& parts)
    : parts_(parts),
      claims_(IdsFor(parts.options.known.entities)),
      budgets_(parts.options.allowances, parts.options.max_sender_bytes, parts.options.monotonic) {}
Pipeline::~Pipeline() = default;

TargetStats Pipeline::Ingest(const Origin& origin, const telemetry::ScrapeBody& body, Micros ts,
                             int shard) {
  // What is scraped, which is nearly everything, is looked up without making a text.
  IngestRefusal reason = IngestRefusal::kSourceLimit;
  const std::shared_ptr<Source> found = FindOrMake(
      origin, origin.kind == SourceKind::kExporter ? origin.name : origin.Text(), &reason);
  if (found == nullptr) {
    ++totals_.refused[static_cast<size_t>(reason)];
    TargetStats refused;
    refused.refused.emplace_back(RefusalName(static_cast<size_t>(reason)), 1);
    refused.come_again = true;
    return refused;
  }
  Newcomers newcomers(own_budgets(), SenderOfOrigin(origin));
  TargetStats stats = found->Ingest(body, ts, std::clamp(shard, 0, kMaxShards - 1), &newcomers);
  if (found->too_much()) Forget(origin.Text());
  return stats;
}

void Pipeline::Refuse(const Origin& origin, telemetry::Refusal reason, uint64_t n) {
  IngestRefusal full = IngestRefusal::kSourceLimit;
  if (const auto source = FindOrMake(origin, origin.Text(), &full)) source->Refuse(reason, n);
}

bool Pipeline::Welcome(const Origin& origin) {
  std::string text = origin.Text();
  {
    ReaderLock lock(sources_mutex_);
    if (sources_.contains(text) || welcome_.contains(text)) return true;
  }
  Gone gone;
  WriterLock lock(sources_mutex_);
  if (sources_.contains(text) || welcome_.contains(text)) return true;
  IngestRefusal reason = IngestRefusal::kSourceLimit;
  if (!MayBeNew(origin, &reason, &gone)) {
    ++totals_.refused[static_cast<size_t>(reason)];
    return false;
  }
  welcome_.insert(std::move(text));
  return true;
}

bool Pipeline::MayBeNew(const Origin& origin, IngestRefusal* reason, Gone* gone) {
  const size_t limit = parts_.options.max_sources;
  // Room is made once a second, or everyone refused would look through all sources.
  const Micros now = parts_.options.monotonic();
  if (sources_.size() + welcome_.size() >= limit && now >= next_room_) {
    next_room_ = now + kMicrosPerSecond;
    ForgetIdle(/*exporters=*/true, gone);
  }
  const size_t known = sources_.size() + welcome_.size();
  if (known >= limit) {
    *reason = IngestRefusal::kSourceLimit;
    return false;
  }
  // Those that are scraped were asked for by who runs the server.
  if (origin.kind == SourceKind::kExporter) return true;
  Newcomers newcomer(own_budgets(), SenderOfOrigin(origin));
  *reason = IngestRefusal::kSourceBudget;
  return newcomer.May(NewThing::kSource, 1, limit - known);
}

std::shared_ptr<Source> Pipeline::FindOrMake(const Origin& origin, std::string_view text,
                                             IngestRefusal* reason) {
  {
    ReaderLock lock(sources_mutex_);
    if (const auto it = sources_.find(AbslKey(text)); it != sources_.end()) return it->second;
  }
  Gone gone;
  WriterLock lock(sources_mutex_);
  if (const auto it = sources_.find(AbslKey(text)); it != sources_.end()) return it->second;
  if (welcome_.erase(AbslKey(text)) == 0 && !MayBeNew(origin, reason, &gone)) return nullptr;
  auto source =
      std::make_shared<Source>(parts_, &claims_, &totals_, own_budgets(), ++last_source_, origin);
  sources_.emplace(std::string(text), source);
  return source;
}

void Pipeline::ForgetIdle(bool exporters, Gone* gone) {
  const Micros limit = parts_.options.monotonic() - parts_.options.source_idle;
  absl::erase_if(sources_, [&](auto& s) {
    if (s.second->last_fed() >= limit) return false;
    if (!exporters && s.second->kind() == SourceKind::kExporter) return false;
    gone->push_back(std::move(s.second));
    return true;
  });
}

void Pipeline::Forget(std::string_view source) {
  std::shared_ptr<Source> gone;  // ends outside the lock
  WriterLock lock(sources_mutex_);
  const auto it = sources_.find(AbslKey(source));
  if (it == sources_.end()) return;
  gone = it->second;
  sources_.erase(it);
  lock.Unlock();
}

Status Pipeline::Flush() {
  FW_RETURN_IF_ERROR(parts_.application.Flush());
  return parts_.writer.Flush();
}

void Pipeline::Settle() { SettleSources(0); }

void Pipeline::SettleSources(Micros silent_since) {
  for (const auto& source : AllSources()) source->Settle(silent_since);
}

std::vector<std::shared_ptr<Source>> Pipeline::AllSources() const {
  std::vector<std::shared_ptr<Source>> all;
  ReaderLock lock(sources_mutex_);
  all.reserve(sources_.size());
  for (const auto& [name, source] : sources_) all.push_back(source);
  return all;
}

void Pipeline::Tick() {
  const Micros now = MonotonicNow();
  {
    MutexLock lock(rate_mutex_);
    if (rate_.empty() || now - rate_.back().first >= kMicrosPerSecond / 2)
      rate_.emplace_back(now, totals_.samples.load());
    while (rate_.size() > 2 && rate_[1].first <= now - kRateWindow) rate_.pop_front();
  }
  if (now - last_expiry_ < kMicrosPerMinute) return;
  last_expiry_ = now;
  parts_.live.Expire();
  if (!parts_.options.backfill) {
    Gone gone;
    WriterLock lock(sources_mutex_);
    ForgetIdle(/*exporters=*/false, &gone);
  }
  // In back-fill adding rows may wait for this very thread, and no source falls silent.
  if (totals_.held_rows.load() > 0 && !parts_.options.backfill)
    SettleSources(parts_.options.Clock() - parts_.options.max_span);
}

PipelineStats Pipeline::stats() const {
  PipelineStats s;
  s.scrapes = totals_.scrapes;
  s.rows = totals_.rows;
  s.samples = totals_.samples;
  s.narrow = totals_.narrow;
  s.late_rows = totals_.late_rows;
  s.zero_weight_rows = totals_.zero_weight_rows;
  s.frozen_rows = totals_.frozen_rows;
  s.held_rows = totals_.held_rows;
  std::tie(s.uuid_conflicts, s.duplicate_gpus) = claims_.Count(parts_.options.Clock());
  RefusalCounts refused{};
  for (size_t k = 0; k < kRefusalCount; ++k) refused[k] = totals_.refused[k];
  s.refused = NonZero(refused);
  {
    ReaderLock lock(sources_mutex_);
    s.sources = sources_.size();
  }
  {
    MutexLock lock(rate_mutex_);
    if (rate_.size() >= 2) {
      const double seconds =
          static_cast<double>(rate_.back().first - rate_.front().first) / kMicrosPerSecond;
      s.samples_per_s =
          static_cast<double>(rate_.back().second - rate_.front().second) / std::max(seconds, 1e-3);
    }
  }
  parts_.writer.FillStats(&s);
  return s;
}

TargetStats Pipeline::StatsOf(std::string_view source) const {
  std::shared_ptr<Source> found;
  {
    ReaderLock lock(sources_mutex_);
    const auto it = sources_.find(AbslKey(source));
    if (it == sources_.end()) return {};
    found = it->second;
  }
  TargetStats stats = found->info().stats;
  stats.conflicts = claims_.Of(found->id(), parts_.registry, parts_.options.Clock());
  return stats;
}

std::vector<GpuCounters> Pipeline::CountersOf(std::string_view source,
                                              const efficiency::CounterPatience& patience) const {
  std::shared_ptr<Source> found;
  {
    ReaderLock lock(sources_mutex_);
    const auto it = sources_.find(AbslKey(source));
    if (it == sources_.end()) return {};
    found = it->second;
  }
  return found->Counters(patience);
}

std::vector<SourceInfo> Pipeline::Sources() const {
  const std::vector<std::shared_ptr<Source>> all = AllSources();
  std::vector<SourceInfo> out;
  out.reserve(all.size());
  for (const auto& source : all) out.push_back(source->info());
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.source < b.source; });
  return out;
}

Counts Pipeline::ContestedGpus() const { return claims_.BySource(parts_.options.Clock()); }

IngestSide::IngestSide(const PipelineOptions& o, const hardware::Catalog* catalog,
                       store::Store* store)
    : options(Adjusted(o)),
      registry(catalog, options.known),
      jobs(options.jobs),
      live(IdsFor(options.known.entities)),
      application(store, options.clock),
      writer(options, store, &registry, &jobs, &books, &fields, &application),
      pipeline({.options = options,
                .fields = fields,
                .registry = registry,
                .jobs = jobs,
                .live = live,
                .writer = writer,
                .application = application}) {}

IngestSide::~IngestSide() {
  pipeline.Settle();  // with the writer's thread, for which adding rows may have to wait
  writer.Stop();      // it calls the pipeline
}

BackfillSide::BackfillSide(const PipelineOptions& o, IngestSide* of)
    : options(Adjusted(o)),
      live(IdsFor(options.known.entities)),
      writer(options, of->writer),
      pipeline({.options = options,
                .fields = of->fields,
                .registry = of->registry,
                .jobs = of->jobs,
                .live = live,
                .writer = writer,
                .application = of->application,
                .budgets = of->pipeline.budgets()}) {
  writer.Start([this] { pipeline.Tick(); });
}

BackfillSide::~BackfillSide() {
  pipeline.Settle();
  writer.Stop();
}

StatusOr<std::unique_ptr<IngestSide>> IngestSide::Start(const PipelineOptions& options,
                                                        const hardware::Catalog* catalog,
                                                        store::Store* store) {
  auto side = std::make_unique<IngestSide>(options, catalog, store);
  if (store != nullptr) {
    auto dimensions = store->LoadDimensions();
    FW_RETURN_IF_ERROR(Annotate(dimensions.status(), "restoring GPUs and jobs from the store"));
    side->registry.Load(*dimensions);
    side->application.Load(dimensions->claims);
    // Nothing was seen after now: newer samples are of a clock that was ahead.
    const Micros latest = options.backfill ? std::numeric_limits<Micros>::max() : options.Clock();
    side->jobs.Load(dimensions->jobs, dimensions->intervals, dimensions->sets,
                    std::min(store->stats().newest_ts, latest));
    side->books.Load(dimensions->attempts, dimensions->nodes);
    jobs::RemindIndex(side->books, &side->jobs);
    // Who was seen last in a slot has it. Not by id, which may be that of a GPU that was forgotten.
    std::sort(dimensions->entities.begin(), dimensions->entities.end(),
              [](const store::EntityRecord& a, const store::EntityRecord& b) {
                return std::tie(a.last_seen, a.first_seen, a.id) <
                       std::tie(b.last_seen, b.first_seen, b.id);
              });
    for (const store::EntityRecord& e : dimensions->entities)
      side->jobs.BindEntity(e.id, e.key, e.labels);
    jobs::AwaitUnseenGpus(side->books, &side->jobs);
  }
  side->application.Start();
  side->writer.Start([pipeline = &side->pipeline] { pipeline->Tick(); });
  return side;
}

}  // namespace flopwatch::ingest
