#include "history/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "history/scrapes.h"
#include "ingest/pipeline.h"
#include "ingest/stored_time.h"
#include "telemetry/labels.h"

namespace flopwatch::history {
namespace {

using store::Window;

// Samples that are held at once: with their text and the answer that they come in, 100 MB.
constexpr uint64_t kSliceSamples = 400'000;
constexpr uint64_t kMostSamples = 10 * kSliceSamples;
constexpr Micros kFirstSlice = 5 * kMicrosPerMinute, kLongestSlice = 6 * kMicrosPerHour;
constexpr Micros kLook = 10 * kMicrosPerMinute;
// An hour is sealed a minute after its end (docs/store.md).
constexpr Micros kSealedAfter = kMicrosPerHour + 2 * kMicrosPerMinute;
constexpr Micros kKeepAll = 36'500 * kMicrosPerDay;

std::vector<std::string> MetricsOfGpus(const std::vector<std::string>& names) {
  const telemetry::FieldRegistry fields;
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (fields.Find(name).has_value() || telemetry::DialectOf(name) != telemetry::Dialect::kOther)
      out.push_back(name);
  }
  return out;
}

class Importer {
 public:
  Importer(const ImportOptions& options, const hardware::Catalog& catalog)
      : options_(options),
        catalog_(catalog),
        server_(options.access),
        scrapes_(options.replica_labels) {}

  Status Open() {
    if (options_.window.from >= options_.window.to)
      return absl::InvalidArgumentError("the window is empty: --from is not before --to");
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        MetricNames(&server_, options_.window));
    metrics_ = MetricsOfGpus(names);
    other_metrics_ = names.size() - metrics_.size();
    if (metrics_.empty()) {
      return absl::NotFoundError(
          fmt::format("{}: none of its {} metrics in this window is one of a GPU exporter "
                      "(docs/fields.md lists "
                      "them); is this the Prometheus that scrapes the GPUs, and the window right?",
                      server_.name(), names.size()));
    }
    FW_ASSIGN_OR_RETURN(way_, ChooseWay(&server_, options_.way, options_.window));
    lost_ = unread().lost;
    return absl::OkStatus();
  }

  Status Start(store::Store* store, const ingest::StoredTime* stored) {
    ingest::PipelineOptions pipeline;
    pipeline.backfill = true;
    pipeline.maintenance = false;  // it is done window by window
    pipeline.max_age = kKeepAll;
    pipeline.max_span = options_.max_span;
    pipeline.stored_time = stored;
    pipeline.clock = [this] { return reached_.load(std::memory_order_relaxed); };
    FW_ASSIGN_OR_RETURN(side_, ingest::IngestSide::Start(pipeline, &catalog_, store));
    return absl::OkStatus();
  }

  // Reads all metrics of the window, and hands the scrapes on. False, and nothing was handed on: it
  // has more samples than are to be held at once, as where a fleet begins after weeks of nothing.
  StatusOr<bool> Take(Window window) {
    for (const std::string& metric : metrics_) {
      if (options_.matchers.empty()) {
        FW_RETURN_IF_ERROR(Read({.metric = metric, .matchers = {}}, window));
      }
      for (const auto& matchers : options_.matchers)
        FW_RETURN_IF_ERROR(Read({.metric = metric, .matchers = matchers}, window));
      if (scrapes_.samples() > kMostSamples && window.to - window.from > 2 * kMicrosPerMinute) {
        scrapes_.Clear();
        return false;
      }
    }
    last_samples_ = scrapes_.samples();
    samples_ += last_samples_;
    result_.unnamed = std::max(result_.unnamed, scrapes_.unnamed());
    reached_ = window.to;
    scrapes_.Drain([&](const Scrapes::Scrape& scrape) {
      const ingest::TargetStats stats =
          side_->pipeline.Ingest({scrape.name, scrape.node}, scrape.body, scrape.ts, 0);
      ++result_.scrapes;
      result_.rows += stats.rows;
      for (const auto& [reason, n] : stats.refused) result_.refused[std::string(reason)] += n;
      for (const std::string& line : stats.examples)
        if (result_.examples.size() < 8) result_.examples.push_back(line);
    });
    return true;
  }

  ImportResult Result(const ingest::StoredTime& stored) {
    result_.way = way_->name();
    result_.metrics = metrics_.size();
    result_.samples = samples_;
    result_.known = stored.known();
    result_.unread = way_->unread();
    result_.requests = server_.requests();
    result_.bytes = server_.bytes();
    return result_;
  }
  FirstLook Look(Window looked_at, double seconds);

  const Unread& unread() const { return way_->unread(); }
  // Whether the window that failed has shown damage that is to be passed by: it is asked again.
  bool FoundDamage(const Status& failed) {
    if (failed.code() != absl::StatusCode::kDataLoss || unread().lost == lost_) return false;
    lost_ = unread().lost;
    scrapes_.Clear();
    return true;
  }

  ingest::IngestSide& side() { return *side_; }
  void End() { side_.reset(); }
  uint64_t samples() const { return samples_; }
  uint64_t last_samples() const { return last_samples_; }
  uint64_t rows() const { return result_.rows; }

 private:
  // What is too much at once is asked for in halves; nothing of a window that failed counts.
  Status Read(const Selector& selector, Window window) {
    while (window.to - window.from > most_at_once_) {
      FW_RETURN_IF_ERROR(Read(selector, {window.from, window.from + most_at_once_}));
      window.from += most_at_once_;
    }
    const Status read = way_->Read(
        selector, window, [&](const telemetry::MetricSeries& series) { scrapes_.Add(series); });
    if (read.ok() || read.code() != absl::StatusCode::kResourceExhausted) return read;
    const Micros middle = FloorTo((window.from + window.to) / 2, kMicrosPerSecond);
    if (middle <= window.from || middle >= window.to) return read;
    most_at_once_ = window.to - middle;  // as for every read from now on
    FW_RETURN_IF_ERROR(Read(selector, {window.from, middle}));
    return Read(selector, {middle, window.to});
  }

  const ImportOptions& options_;
  const hardware::Catalog& catalog_;
  Server server_;
  std::unique_ptr<Way> way_;
  std::vector<std::string> metrics_;
  uint64_t other_metrics_ = 0, samples_ = 0, last_samples_ = 0;
  uint64_t lost_ = 0;  // of unread(), that is known
  Micros most_at_once_ = kLongestSlice;
  Scrapes scrapes_;
  std::atomic<Micros> reached_{0};
  std::unique_ptr<ingest::IngestSide> side_;
  ImportResult result_;
};

FirstLook Importer::Look(Window looked_at, double seconds) {
  FirstLook look{.way = std::string(way_->name()),
                 .metrics = metrics_,
                 .other_metrics = other_metrics_,
                 .looked_at = looked_at,
                 .samples = samples_,
                 .rows = result_.rows,
                 .refused = result_.refused,
                 .seconds = seconds,
                 .unread = unread()};
  side_->live.ForEachGpu(0, [&](const ingest::GpuNow& gpu) {
    ++look.gpus;
    ++look.models[side_->registry.model(gpu.model).value_or(store::ModelRecord{}).name];
    constexpr std::pair<uint32_t, std::string_view> kReasons[] = {
        {telemetry::kTensorMissing, "tensor_missing"},
        {telemetry::kClockMissing, "clock_missing"},
        {telemetry::kModelUnknown, "model_unknown"},
        {telemetry::kOutOfRange, "out_of_range"}};
    for (const auto& [flag, reason] : kReasons) {
      if ((gpu.flags & flag) == 0) continue;
      ++look.not_computable[std::string(reason)];
      break;
    }
  });
  look.jobs = static_cast<uint64_t>(side_->jobs.stats().jobs);
  return look;
}

// What the store has of the window, which is of one hour, into `stored`. A row that ends later may
// reach back into it.
Status FindStored(store::Store* store, Window window, Micros max_span, ingest::StoredTime* stored) {
  absl::flat_hash_set<int32_t> has_raw;
  // Rollups are by minutes: both are asked of the same ones.
  const Window rolled_up = {FloorTo(window.from, kMicrosPerMinute),
                            FloorTo(window.to + kMicrosPerMinute - 1, kMicrosPerMinute)};
  const Window reach = {window.from - max_span, window.to + 4 * max_span};
  FW_RETURN_IF_ERROR(
      store->VisitGpuRows(reach, {}, store::RowOrder::kAny, [&](const store::GpuRows& rows) {
        for (size_t k = 0; k < rows.count; ++k) {
          const Micros from = rows.ts[k] - rows.span_ms[k] * kMicrosPerMilli;
          stored->Add(rows.entity[k], from, rows.ts[k]);
          if (rows.ts[k] >= rolled_up.from && rows.ts[k] < rolled_up.to)
            has_raw.insert(rows.entity[k]);
        }
        return absl::OkStatus();
      }));
  // Where raw rows went for their age, which they do by hours, rollups say that there was
  // something.
  FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> rolled, store->UsageByGpu(rolled_up));
  for (const store::GpuUsage& g : rolled) {
    if (g.sums.ofu.observed_s > 0 && !has_raw.contains(g.entity))
      stored->Add(g.entity, window.from, window.to);
  }
  stored->Settle();
  return absl::OkStatus();
}

}  // namespace

StatusOr<FirstLook> LookAt(const ImportOptions& options, const hardware::Catalog& catalog) {
  Importer importer(options, catalog);
  FW_RETURN_IF_ERROR(importer.Open());
  FW_RETURN_IF_ERROR(importer.Start(nullptr, nullptr));
  Window look = {std::max(options.window.from, options.window.to - kLook), options.window.to};
  Micros begin = MonotonicNow();
  for (;;) {
    const StatusOr<bool> took = importer.Take(look);
    if (!took.ok() && importer.FoundDamage(took.status())) continue;
    FW_RETURN_IF_ERROR(took.status());
    if (*took) break;
    look.from = (look.from + look.to) / 2;
    begin = MonotonicNow();
  }
  return importer.Look(look, ToSeconds(MonotonicNow() - begin));
}

StatusOr<ImportResult> Import(const ImportOptions& options, const hardware::Catalog& catalog) {
  std::unique_ptr<store::Store> store;
  ingest::StoredTime stored;
  Importer importer(options, catalog);  // last: it uses the others until it ends
  FW_RETURN_IF_ERROR(importer.Open());
  store::Options keep = options.store;
  keep.raw_retention = keep.minute_retention = keep.hour_retention = kKeepAll;
  FW_ASSIGN_OR_RETURN(store, store::OpenDuckDbStore(keep));
  const bool was_empty = store->stats().newest_ts == 0;
  FW_RETURN_IF_ERROR(importer.Start(store.get(), &stored));
  const Window all = options.window;
  Micros length = kFirstSlice;
  Micros begins = all.from;  // what came just before is not known yet
  for (Micros at = begins; at < all.to;) {
    const Window unread = importer.unread().NextAfter(at == begins ? at - options.max_span : at);
    if (unread.from <= at) {
      // No minute of a rollup is of two imports, should the rest come one day.
      at = begins = FloorTo(unread.to + options.max_span + kMicrosPerMinute - 1, kMicrosPerMinute);
      continue;
    }
    Window slice = {at, std::min({at + length, all.to, unread.from})};
    // Of an hour there are all raw rows or none.
    if (!was_empty) slice.to = std::min(slice.to, FloorTo(at, kMicrosPerHour) + kMicrosPerHour);
    stored.Begin(slice);
    if (!was_empty) FW_RETURN_IF_ERROR(FindStored(store.get(), slice, options.max_span, &stored));
    // What came just before the window tells what its first samples stand for.
    const StatusOr<bool> took =
        importer.Take({at == begins ? at - options.max_span : at, slice.to});
    if (!took.ok() && importer.FoundDamage(took.status())) continue;
    if (!took.ok()) {
      const std::string until =
          at == all.from ? "nothing was taken"
                         : fmt::format("what is before {} is stored", FormatTime(slice.from));
      return Status(took.status().code(), fmt::format("{}; {}: the same command again goes on",
                                                      std::string(took.status().message()), until));
    }
    if (!*took) {
      length = std::max(FloorTo((slice.to - slice.from) / 2, kMicrosPerMinute), kMicrosPerMinute);
      continue;
    }
    FW_RETURN_IF_ERROR(importer.side().pipeline.Flush());
    // Hours of the past are over: who opens the directory next finds files, not logs to replay.
    FW_RETURN_IF_ERROR(store->Seal(slice.to));
    at = slice.to;
    if (options.progress)
      options.progress(
          {.all = all, .done = at, .samples = importer.samples(), .rows = importer.rows()});
    const double fill = static_cast<double>(std::max<uint64_t>(importer.last_samples(), 1)) /
                        static_cast<double>(kSliceSamples);
    const double next = ToSeconds(slice.to - slice.from) * std::min(2.0, 1 / fill);
    length = std::clamp(FloorTo(static_cast<Micros>(next * kMicrosPerSecond), kMicrosPerMinute),
                        kMicrosPerMinute, kLongestSlice);
  }
  importer.side().pipeline.Settle();
  FW_RETURN_IF_ERROR(importer.side().pipeline.Flush());
  importer.End();
  FW_RETURN_IF_ERROR(store->RollUp());
  FW_RETURN_IF_ERROR(store->Seal(all.to + kSealedAfter));
  return importer.Result(stored);
}

}  // namespace flopwatch::history
