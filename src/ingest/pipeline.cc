#include "ingest/pipeline.h"

#include <algorithm>
#include <tuple>

#include "ingest/source.h"

namespace flopwatch::ingest {
namespace {

constexpr Micros kRateWindow = 10 * kMicrosPerSecond;
constexpr Micros kSourceIdle = kMicrosPerHour;  // a source silent for so long makes room for others

PipelineOptions Adjusted(PipelineOptions options) {
  // Slow scrapes: one that is missed must not make the next one a gap.
  options.max_span = std::max(options.max_span, options.nominal_interval * 5 / 2);
  return options;
}

absl::string_view AbslKey(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

Pipeline::Pipeline(const IngestParts& parts) : parts_(parts) {}
Pipeline::~Pipeline() = default;

TargetStats Pipeline::Ingest(const Origin& origin, std::string_view body, Micros ts, int shard) {
  // What is scraped, which is nearly everything, is looked up without making a text.
  const std::shared_ptr<Source> found =
      FindOrMake(origin, origin.kind == SourceKind::kExporter ? origin.name : origin.Text());
  if (found == nullptr) {
    constexpr auto kReason = static_cast<size_t>(IngestRefusal::kSourceLimit);
    ++totals_.refused[kReason];
    TargetStats refused;
    refused.refused.emplace_back(RefusalName(kReason), 1);
    return refused;
  }
  return found->Ingest(body, ts, std::clamp(shard, 0, kMaxShards - 1));
}

std::shared_ptr<Source> Pipeline::FindOrMake(const Origin& origin, std::string_view text) {
  {
    ReaderLock lock(sources_mutex_);
    if (const auto it = sources_.find(AbslKey(text)); it != sources_.end()) return it->second;
  }
  WriterLock lock(sources_mutex_);
  if (const auto it = sources_.find(AbslKey(text)); it != sources_.end()) return it->second;
  if (sources_.size() >= parts_.options.max_sources) {
    const Micros limit = parts_.live.newest() - kSourceIdle;
    absl::erase_if(sources_, [&](const auto& s) { return s.second->last_ingest() < limit; });
    if (sources_.size() >= parts_.options.max_sources) return nullptr;
  }
  auto source = std::make_shared<Source>(parts_, &claims_, &totals_, ++last_source_, origin);
  sources_.emplace(std::string(text), source);
  return source;
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
  // Not in back-fill, where adding rows may wait for this very thread; its sources do not fall
  // silent.
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
      registry(catalog),
      writer(options, store, &registry, &jobs, &fields),
      application(store, options.clock),
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

StatusOr<std::unique_ptr<IngestSide>> IngestSide::Start(const PipelineOptions& options,
                                                        const hardware::Catalog* catalog,
                                                        store::Store* store) {
  auto side = std::make_unique<IngestSide>(options, catalog, store);
  if (store != nullptr) {
    auto dimensions = store->LoadDimensions();
    FW_RETURN_IF_ERROR(Annotate(dimensions.status(), "restoring GPUs and jobs from the store"));
    side->registry.Load(*dimensions);
    side->application.Load(dimensions->claims);
    side->jobs.Load(dimensions->jobs, dimensions->intervals, dimensions->sets,
                    store->stats().newest_ts);
    for (const store::EntityRecord& e : dimensions->entities)
      side->jobs.BindEntity(e.id, e.key, e.labels);
  }
  side->application.Start();
  side->writer.Start([pipeline = &side->pipeline] { pipeline->Tick(); });
  return side;
}

}  // namespace flopwatch::ingest
