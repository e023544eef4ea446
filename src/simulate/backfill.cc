#include "simulate/backfill.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "hardware/accelerator.h"
#include "ingest/pipeline.h"
#include "simulate/application.h"
#include "store/store.h"

namespace flopwatch::simulate {
namespace {

// Hosts advance together in pieces of simulated time: rows reach the store roughly in order.
constexpr Micros kPiece = 5 * kMicrosPerMinute;
// A reader of the directory replays the logs of open hours into memory: simulated time that may be
// in them, and how long each may be.
constexpr Micros kMostOpen = 12 * kMicrosPerHour;
constexpr uint64_t kLogBytes = 1ull << 20;
constexpr size_t kReportsAtOnce = 50'000;

// Writes what the applications said until `end`. Claims that are stored already (from an earlier
// part of the history) keep their ids.
Status WriteApplications(const Fleet& fleet, Micros end, store::Store* store,
                         BackfillResult* result) {
  FW_ASSIGN_OR_RETURN(const store::Dimensions stored, store->LoadDimensions());
  std::map<std::string, int32_t> ids;
  int32_t last = 0;
  for (const telemetry::ApplicationClaim& c : stored.claims) {
    ids.emplace(c.Content(), c.id);
    last = std::max(last, c.id);
  }
  std::vector<telemetry::ApplicationClaim> fresh;
  std::vector<telemetry::ApplicationSample> samples;
  const auto write = [&]() -> Status {
    if (!fresh.empty()) FW_RETURN_IF_ERROR(store->PutClaims(fresh));
    if (!samples.empty()) FW_RETURN_IF_ERROR(store->AppendApplication(samples, end));
    fresh.clear();
    samples.clear();
    return absl::OkStatus();
  };
  for (Application& a : Applications(fleet)) {
    std::vector<telemetry::ApplicationSample> own = SamplesOf(fleet, a, 0, end);
    if (own.empty()) continue;
    const auto [it, is_new] = ids.try_emplace(a.claim.Content(), last + 1);
    if (is_new) {
      a.claim.id = ++last;
      fresh.push_back(a.claim);
    }
    for (telemetry::ApplicationSample& s : own) s.claim = it->second;
    samples.insert(samples.end(), own.begin(), own.end());
    ++result->applications;
    result->reports += own.size();
    if (samples.size() >= kReportsAtOnce) FW_RETURN_IF_ERROR(write());
  }
  return write();
}

}  // namespace

StatusOr<BackfillResult> WriteHistory(const Fleet& fleet, const BackfillOptions& options) {
  const FleetOptions& o = fleet.options();
  const Micros end =
      options.until > 0 ? std::min(options.until, o.start + o.duration) : o.start + o.duration;
  store::Options store_options;
  store_options.directory = options.directory;
  store_options.checkpoint_log_bytes = kLogBytes;
  FW_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::OpenDuckDbStore(store_options));
  std::atomic<Micros> reached{o.start};
  ingest::PipelineOptions pipeline_options;
  pipeline_options.backfill = true;
  pipeline_options.nominal_interval = o.interval;
  pipeline_options.max_age = kMaxDuration;
  pipeline_options.clock = [&reached] { return reached.load(std::memory_order_relaxed); };
  FW_ASSIGN_OR_RETURN(
      std::unique_ptr<ingest::IngestSide> ingest,
      ingest::IngestSide::Start(pipeline_options, &hardware::Catalog::Builtin(), store.get()));
  std::vector<jobs::StaticAssignment> assignments = fleet.Assignments();
  std::erase_if(assignments, [&](const jobs::StaticAssignment& a) { return a.from >= end; });
  for (jobs::StaticAssignment& a : assignments)
    if (a.to > end) a.to = jobs::kOpenEnd;  // as it was known then
  ingest->jobs.SetStatic(std::move(assignments));

  const int threads = std::clamp(options.threads, 1, 16);
  std::atomic<uint64_t> scrapes{0}, bytes{0}, samples{0}, rows{0}, refused{0};
  std::vector<int64_t> next(fleet.hosts(), 0);
  Micros sealed = o.start;
  std::vector<std::string> names;
  for (int h = 0; h < fleet.hosts(); ++h) names.push_back(fleet.HostName(h));
  for (Micros piece = o.start; piece < end; piece += kPiece) {
    const Micros piece_end = std::min(piece + kPiece, end);
    auto work = [&](int thread) {
      std::string text, source;
      uint64_t n = 0, b = 0, s = 0, r = 0, bad = 0;
      for (int h = thread; h < fleet.hosts(); h += threads) {
        source = "simulate://" + names[h];
        const int64_t ticks = fleet.Ticks(h);
        for (int64_t& tick = next[h]; tick < ticks; ++tick) {
          const Micros t = fleet.TickTime(h, tick);
          if (t > piece_end) break;
          if (fleet.RenderHost(h, tick, Stamps::kExplicit, &text) != Answer::kOk) continue;
          const ingest::TargetStats stats =
              ingest->pipeline.Ingest({source, names[h]}, text, t, thread);
          ++n;
          b += text.size();
          s += stats.samples;
          r += stats.rows;
          for (const auto& [reason, count] : stats.refused) bad += count;
        }
      }
      scrapes += n;
      bytes += b;
      samples += s;
      rows += r;
      refused += bad;
    };
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work, i);
    work(0);
    helpers.clear();
    reached = piece_end;
    if (piece_end - sealed >= kMostOpen) {
      FW_RETURN_IF_ERROR(ingest->pipeline.Flush());
      FW_RETURN_IF_ERROR(store->RollUp());
      FW_RETURN_IF_ERROR(store->Seal(piece_end));
      sealed = piece_end;
    }
    if (options.progress) options.progress(piece_end, samples);
  }
  ingest->pipeline.Settle();
  FW_RETURN_IF_ERROR(ingest->pipeline.Flush());
  ingest.reset();
  BackfillResult result{
      .scrapes = scrapes, .samples = samples, .rows = rows, .bytes = bytes, .refused = refused};
  FW_RETURN_IF_ERROR(WriteApplications(fleet, end, store.get(), &result));
  store.reset();
  return result;
}

}  // namespace flopwatch::simulate
