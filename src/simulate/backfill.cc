#include "simulate/backfill.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "hardware/accelerator.h"
#include "server/pipeline.h"
#include "store/store.h"

namespace flopwatch::simulate {
namespace {

// Hosts advance together in pieces of simulated time, so that rows reach the store roughly in order
// of time.
constexpr Micros kPiece = 5 * kMicrosPerMinute;

}  // namespace

StatusOr<BackfillResult> WriteHistory(const Fleet& fleet, const BackfillOptions& options) {
  const FleetOptions& o = fleet.options();
  const Micros end =
      options.until > 0 ? std::min(options.until, o.start + o.duration) : o.start + o.duration;
  store::Options store_options;
  store_options.directory = options.directory;
  FW_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::OpenDuckDbStore(store_options));
  std::atomic<Micros> reached{o.start};
  server::PipelineOptions pipeline_options;
  pipeline_options.backfill = true;
  pipeline_options.nominal_interval = o.interval;
  pipeline_options.max_age = kMaxDuration;
  pipeline_options.clock = [&reached] { return reached.load(std::memory_order_relaxed); };
  FW_ASSIGN_OR_RETURN(
      std::unique_ptr<server::Pipeline> pipeline,
      server::Pipeline::Start(pipeline_options, &hardware::Catalog::Builtin(), store.get()));
  std::vector<jobs::StaticAssignment> assignments = fleet.Assignments();
  std::erase_if(assignments, [&](const jobs::StaticAssignment& a) { return a.from >= end; });
  for (jobs::StaticAssignment& a : assignments)
    if (a.to > end) a.to = jobs::kOpenEnd;  // as it was known then
  pipeline->jobs().SetStatic(std::move(assignments));

  const int threads = std::clamp(options.threads, 1, 16);
  std::atomic<uint64_t> scrapes{0}, bytes{0}, samples{0}, rows{0}, refused{0};
  std::vector<int64_t> next(fleet.hosts(), 0);
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
          const server::TargetStats stats = pipeline->Ingest(source, names[h], text, t, thread);
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
    if (options.progress) options.progress(piece_end, samples);
  }
  pipeline->Settle();
  FW_RETURN_IF_ERROR(pipeline->Flush());
  pipeline.reset();
  store.reset();
  return BackfillResult{scrapes, samples, rows, bytes, refused};
}

}  // namespace flopwatch::simulate
