#include "ingest/pipeline.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ingest/source.h"
#include "ingest/writer.h"

namespace flopwatch::ingest {
namespace {

constexpr Micros kRateWindow = 10 * kMicrosPerSecond;
constexpr Micros kSourceIdle = kMicrosPerHour;  // a source silent for so long makes room for others

class PipelineImpl : public Pipeline {
 public:
  PipelineImpl(const PipelineOptions& options, const hardware::Catalog* catalog,
               store::Store* store)
      : options_(Adjusted(options)),
        registry_(catalog),
        writer_(options_, store, &registry_, &jobs_, &fields_),
        application_(store, options_.clock),
        context_{.options = options_,
                 .clock = options_.clock ? options_.clock : Now,
                 .registry = registry_,
                 .jobs = jobs_,
                 .live = live_,
                 .writer = writer_,
                 .fields = fields_,
                 .claims = claims_,
                 .application = application_,
                 .totals = totals_} {}

  Status Restore(store::Store& store) {
    FW_ASSIGN_OR_RETURN(const store::Dimensions dimensions, store.LoadDimensions());
    registry_.Load(dimensions);
    application_.Load(dimensions.claims);
    jobs_.Load(dimensions.jobs, dimensions.intervals, dimensions.sets, store.stats().newest_ts);
    for (const store::EntityRecord& e : dimensions.entities)
      jobs_.BindEntity(e.id, e.key, e.labels);
    return absl::OkStatus();
  }

  ~PipelineImpl() override {
    Settle();
    std::unique_lock lock(sources_mutex_);  // the writer's tick still runs
    sources_.clear();
  }

  void Start() {
    application_.Start();
    writer_.set_on_tick([this] { Tick(); });
    writer_.Start();
  }

  TargetStats Ingest(std::string_view source, std::string_view node, std::string_view body,
                     Micros ts, int shard) override {
    const std::shared_ptr<Source> found = FindOrMake(source, node);
    if (found == nullptr) {
      ++totals_.refused[static_cast<size_t>(IngestRefusal::kSourceLimit)];
      TargetStats refused;
      refused.refused.emplace_back(RefusalName(static_cast<size_t>(IngestRefusal::kSourceLimit)),
                                   1);
      return refused;
    }
    return found->Ingest(body, ts, std::clamp(shard, 0, kMaxShards - 1));
  }

  void Forget(std::string_view source) override {
    std::shared_ptr<Source> gone;  // ends outside the lock
    std::unique_lock lock(sources_mutex_);
    const auto it = sources_.find(std::string(source));
    if (it == sources_.end()) return;
    gone = it->second;
    sources_.erase(it);
    lock.unlock();
  }

  Status Flush() override {
    FW_RETURN_IF_ERROR(application_.Flush());
    return writer_.Flush();
  }
  void Settle() override { SettleSources(0); }

  jobs::JobIndex& jobs() override { return jobs_; }
  ApplicationIntake& application() override { return application_; }
  LiveState& live() override { return live_; }
  telemetry::FieldRegistry& fields() override { return fields_; }
  const Registry& registry() const override { return registry_; }
  const PipelineOptions& options() const override { return options_; }

  PipelineStats stats() const override {
    PipelineStats s;
    s.scrapes = totals_.scrapes;
    s.rows = totals_.rows;
    s.samples = totals_.samples;
    s.narrow = totals_.narrow;
    s.late_rows = totals_.late_rows;
    s.zero_weight_rows = totals_.zero_weight_rows;
    s.frozen_rows = totals_.frozen_rows;
    s.held_rows = totals_.held_rows;
    std::tie(s.uuid_conflicts, s.duplicate_gpus) = claims_.Count(context_.clock());
    RefusalCounts refused{};
    for (size_t k = 0; k < kRefusalCount; ++k) refused[k] = totals_.refused[k];
    s.refused = NonZero(refused);
    {
      std::shared_lock lock(sources_mutex_);
      s.sources = sources_.size();
    }
    {
      std::lock_guard lock(rate_mutex_);
      if (rate_.size() >= 2) {
        const double seconds =
            static_cast<double>(rate_.back().first - rate_.front().first) / kMicrosPerSecond;
        s.samples_per_s = static_cast<double>(rate_.back().second - rate_.front().second) /
                          std::max(seconds, 1e-3);
      }
    }
    writer_.FillStats(&s);
    return s;
  }

  TargetStats StatsOf(std::string_view source) const override {
    std::shared_ptr<Source> found;
    {
      std::shared_lock lock(sources_mutex_);
      const auto it = sources_.find(std::string(source));
      if (it == sources_.end()) return {};
      found = it->second;
    }
    TargetStats stats = found->info().stats;
    stats.conflicts = claims_.Of(found->id(), registry_, context_.clock());
    return stats;
  }

  Counts ContestedGpus() const override { return claims_.BySource(context_.clock()); }

  std::vector<SourceInfo> Sources() const override {
    std::vector<std::shared_ptr<Source>> all;
    {
      std::shared_lock lock(sources_mutex_);
      for (const auto& [name, source] : sources_) all.push_back(source);
    }
    std::vector<SourceInfo> out;
    out.reserve(all.size());
    for (const auto& source : all) out.push_back(source->info());
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.source < b.source; });
    return out;
  }

 private:
  void SettleSources(Micros silent_since) {
    std::vector<std::shared_ptr<Source>> all;
    {
      std::shared_lock lock(sources_mutex_);
      for (const auto& [name, source] : sources_) all.push_back(source);
    }
    for (const auto& source : all) source->Settle(silent_since);
  }

  std::shared_ptr<Source> FindOrMake(std::string_view name, std::string_view node) {
    const absl::string_view key(name.data(), name.size());
    {
      std::shared_lock lock(sources_mutex_);
      if (const auto it = sources_.find(key); it != sources_.end()) return it->second;
    }
    std::unique_lock lock(sources_mutex_);
    if (const auto it = sources_.find(key); it != sources_.end()) return it->second;
    if (sources_.size() >= options_.max_sources) {
      const Micros limit = live_.newest() - kSourceIdle;
      absl::erase_if(sources_, [&](const auto& s) { return s.second->last_ingest() < limit; });
      if (sources_.size() >= options_.max_sources) return nullptr;
    }
    auto source =
        std::make_shared<Source>(&context_, ++last_source_, std::string(name), std::string(node));
    sources_.emplace(std::string(name), source);
    return source;
  }

  static PipelineOptions Adjusted(PipelineOptions options) {
    // Slow scrapes: one that is missed must not make the next one a gap.
    options.max_span = std::max(options.max_span, options.nominal_interval * 5 / 2);
    return options;
  }

  // On the writer thread, about once a flush interval.
  void Tick() {
    const Micros now = MonotonicNow();
    {
      std::lock_guard lock(rate_mutex_);
      if (rate_.empty() || now - rate_.back().first >= kMicrosPerSecond / 2)
        rate_.emplace_back(now, totals_.samples.load());
      while (rate_.size() > 2 && rate_[1].first <= now - kRateWindow) rate_.pop_front();
    }
    if (now - last_expiry_ >= kMicrosPerMinute) {
      last_expiry_ = now;
      live_.Expire();
      // Not in back-fill, where adding rows may wait for this very thread; its sources do not fall
      // silent.
      if (totals_.held_rows.load() > 0 && !options_.backfill)
        SettleSources(context_.clock() - options_.max_span);
    }
  }

  const PipelineOptions options_;
  telemetry::FieldRegistry fields_;
  Registry registry_;
  jobs::JobIndex jobs_;
  LiveState live_;
  Claims claims_;
  Totals totals_;
  mutable std::mutex rate_mutex_;
  std::deque<std::pair<Micros, uint64_t>> rate_;  // monotonic time, samples so far
  Micros last_expiry_ = 0;
  mutable std::shared_mutex sources_mutex_;
  // Shared: a source may be forgotten while another thread is still in it.
  absl::flat_hash_map<std::string, std::shared_ptr<Source>> sources_;
  uint32_t last_source_ = 0;
  // Last, so that it stops first: its thread calls Tick().
  Writer writer_;
  ApplicationIntake application_;
  IngestContext context_;
};

}  // namespace

StatusOr<std::unique_ptr<Pipeline>> Pipeline::Start(const PipelineOptions& options,
                                                    const hardware::Catalog* catalog,
                                                    store::Store* store) {
  auto pipeline = std::make_unique<PipelineImpl>(options, catalog, store);
  if (store != nullptr) {
    FW_RETURN_IF_ERROR(
        Annotate(pipeline->Restore(*store), "restoring GPUs and jobs from the store"));
  }
  pipeline->Start();
  return std::unique_ptr<Pipeline>(std::move(pipeline));
}

}  // namespace flopwatch::ingest
