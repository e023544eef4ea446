#include "history/store_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace flopwatch::history {
namespace {

using store::Window;

constexpr size_t kMostExamples = 8;
// An hour is sealed a minute after its end (docs/store.md).
constexpr Micros kSealedAfter = kMicrosPerHour + 2 * kMicrosPerMinute;

}  // namespace

void Taken::Add(const Taken& more) {
  samples += more.samples;
  scrapes += more.scrapes;
  rows += more.rows;
  known += more.known;
  unnamed = std::max(unnamed, more.unnamed);
  for (const auto& [reason, n] : more.refused) refused[reason] += n;
  for (const std::string& line : more.examples)
    if (examples.size() < kMostExamples) examples.push_back(line);
}

ingest::PipelineOptions StoreTaker::OptionsOf() {
  ingest::PipelineOptions pipeline;
  pipeline.backfill = true;
  pipeline.maintenance = false;  // it is done window by window
  pipeline.max_age = kKeepAll;
  pipeline.max_span = options_.max_span;
  if (store_ != nullptr) pipeline.stored_time = &stored_;
  pipeline.clock = [this] { return reached_.load(std::memory_order_relaxed); };
  return pipeline;
}

StatusOr<std::unique_ptr<StoreTaker>> StoreTaker::Into(const TakerOptions& options,
                                                       const hardware::Catalog& catalog,
                                                       store::Store* store) {
  std::unique_ptr<StoreTaker> taker(new StoreTaker(options, store));
  taker->within_hours_ = store != nullptr && store->stats().newest_ts != 0;
  if (taker->within_hours_) {
    FW_ASSIGN_OR_RETURN(const store::Dimensions known, store->LoadDimensions());
    for (const store::EntityRecord& e : known.entities) taker->stored_.Describe(e.id, e.last_seen);
  }
  FW_ASSIGN_OR_RETURN(taker->own_, ingest::IngestSide::Start(taker->OptionsOf(), &catalog, store));
  taker->pipeline_ = &taker->own_->pipeline;
  taker->jobs_ = &taker->own_->jobs;
  taker->books_ = &taker->own_->books;
  return taker;
}

std::unique_ptr<StoreTaker> StoreTaker::Beside(const TakerOptions& options,
                                               ingest::IngestSide* live, store::Store* store,
                                               std::function<Micros()> clock) {
  std::unique_ptr<StoreTaker> taker(new StoreTaker(options, store));
  taker->within_hours_ = true;
  taker->clock_ = std::move(clock);
  live->registry.ForEachEntity(
      [&](const store::EntityRecord& e) { taker->stored_.Describe(e.id, e.last_seen); });
  ingest::PipelineOptions pipeline = taker->OptionsOf();
  pipeline.known = live->options.known;
  taker->shared_ = std::make_unique<ingest::BackfillSide>(pipeline, live);
  taker->pipeline_ = &taker->shared_->pipeline;
  taker->jobs_ = &live->jobs;
  taker->books_ = &live->books;
  return taker;
}

// What the store has of the window, which is of one hour. A row that ends later may reach back into
// it.
Status StoreTaker::FindStored(Window window) {
  absl::flat_hash_set<int32_t> has_raw;
  // Rollups are by minutes: both are asked of the same ones.
  const Window rolled_up = {FloorTo(window.from, kMicrosPerMinute),
                            FloorTo(window.to + kMicrosPerMinute - 1, kMicrosPerMinute)};
  const Window reach = {window.from - options_.max_span, window.to + 4 * options_.max_span};
  FW_RETURN_IF_ERROR(
      store_->VisitGpuRows(reach, {}, store::RowOrder::kAny, [&](const store::GpuRows& rows) {
        for (size_t k = 0; k < rows.count; ++k) {
          const Micros from = rows.ts[k] - rows.span_ms[k] * kMicrosPerMilli;
          stored_.Add(rows.entity[k], from, rows.ts[k]);
          if (rows.ts[k] >= rolled_up.from && rows.ts[k] < rolled_up.to)
            has_raw.insert(rows.entity[k]);
        }
        return absl::OkStatus();
      }));
  // Where raw rows went for their age, which they do by hours, rollups say that there was
  // something.
  FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> rolled, store_->UsageByGpu(rolled_up));
  for (const store::GpuUsage& g : rolled) {
    if (g.sums.ofu.observed_s > 0 && !has_raw.contains(g.entity))
      stored_.Add(g.entity, window.from, window.to);
  }
  stored_.Settle();
  return absl::OkStatus();
}

// An attempt each. One that an import knew before, of this time or of the time just before it, goes
// on.
void StoreTaker::TellPods(const std::vector<PodHeld>& pods) {
  if (pods.empty()) return;
  Window all = {pods.front().from, pods.front().to};
  for (const PodHeld& p : pods) all = {std::min(all.from, p.from), std::max(all.to, p.to)};
  absl::flat_hash_map<std::string, std::vector<jobs::AttemptRecord>> known;
  books_->ForEachAttempt(all.from - jobs::kMaxGap, all.to, [&](const jobs::AttemptRecord& a) {
    if (a.cluster.empty()) known[a.job].push_back(a);
  });
  std::vector<jobs::AttemptRecord> attempts;
  for (const PodHeld& p : pods) {
    jobs::AttemptRecord attempt;
    attempt.job = fmt::format("{}/{}", p.ns, p.pod);
    // Where the GPUs' own labels name it, its intervals say what it held.
    const auto job = jobs_->FindJobOf("", attempt.job);
    if (job.has_value() && jobs_->GpusEver(job->id) > 0) continue;
    attempt.start = p.from;
    attempt.end = attempt.seen = p.to;
    attempt.gpus = p.gpus;
    attempt.nodes = p.node;
    for (const jobs::AttemptRecord& a : known[attempt.job]) {
      if (a.start == 0 || a.start > p.from || a.end < p.from - jobs::kMaxGap || a.gpus != p.gpus ||
          a.nodes != p.node)
        continue;
      attempt.start = a.start;
      attempt.end = std::max(attempt.end, a.end);
    }
    attempts.push_back(std::move(attempt));
  }
  books_->Tell(attempts);
}

StatusOr<Taken> StoreTaker::Take(Window window, bool more) {
  if (clock_ && window.to > clock_() - kLiveReach) {
    return InvalidArgument(
        "the window ends at {}, where samples may still come in live; it must end {} before now",
        FormatTime(window.to), FormatDuration(kLiveReach));
  }
  if (again_.has_value() && (again_->from != window.from || again_->to != window.to)) {
    return InvalidArgument("more of the window from {} to {} is to come, before another one",
                           FormatTime(again_->from), FormatTime(again_->to));
  }
  if (store_ != nullptr && !again_.has_value()) {
    stored_.Begin(window);
    if (within_hours_) FW_RETURN_IF_ERROR(FindStored(window));
  }
  again_ = more ? std::optional(window) : std::nullopt;
  Taken taken{.samples = scrapes_.samples(), .unnamed = scrapes_.unnamed()};
  last_ = reached_ = window.to;
  const ingest::SourceKind kind =
      shared_ != nullptr ? ingest::SourceKind::kRemoteWrite : ingest::SourceKind::kExporter;
  const auto take = [&](const Scrapes::Scrape& scrape) {
    const ingest::TargetStats stats = pipeline_->Ingest(
        {scrape.name, scrape.node, kind, options_.sender}, scrape.samples, scrape.ts, 0);
    ++taken.scrapes;
    taken.rows += stats.rows;
    for (const auto& [reason, n] : stats.refused) taken.refused[std::string(reason)] += n;
    for (const std::string& line : stats.examples)
      if (taken.examples.size() < kMostExamples) taken.examples.push_back(line);
  };
  scrapes_.Drain(take, more);
  TellPods(scrapes_.TakePods());
  if (store_ != nullptr && !more) {
    FW_RETURN_IF_ERROR(pipeline_->Flush());
    // Hours of the past are over: who opens the directory next finds files, not logs to replay.
    // Beside what is live, it is live's clock that says what is over.
    if (!clock_ || window.to % kMicrosPerHour == 0)
      FW_RETURN_IF_ERROR(store_->Seal(clock_ ? clock_() : window.to));
  }
  taken.known = stored_.known() - known_;
  known_ = stored_.known();
  return taken;
}

Status StoreTaker::End() {
  if (pipeline_ == nullptr) return absl::OkStatus();
  pipeline_->Settle();
  Status stored = store_ == nullptr ? absl::OkStatus() : pipeline_->Flush();
  pipeline_ = nullptr;
  own_.reset();
  shared_.reset();
  if (!stored.ok() || store_ == nullptr) return stored;
  FW_RETURN_IF_ERROR(store_->RollUp());
  return store_->Seal(clock_ ? clock_() : last_ + kSealedAfter);
}

}  // namespace flopwatch::history
