#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"

namespace flopwatch::trace {
namespace {

// Commands (launch calls, a graph launch is one) that were issued to a stream and have not started
// on it.
struct QueueTimes {
  std::vector<Nanos>
      time_at;  // how long each length lasted, between the first launch and the last start
  int64_t commands = 0, before_launch = 0, without_launch = 0;
};

QueueTimes QueueOf(const EventTable& e, const GpuStream& stream, std::vector<uint32_t>* seen,
                   uint32_t mark) {
  QueueTimes out;
  std::vector<Nanos> issued, started;
  for (const Row r : stream.rows) {
    const Row call = e.launch[r];
    if (call == kNoRow) {
      ++out.without_launch;
      continue;
    }
    if ((*seen)[call] == mark) continue;  // a further kernel of the same graph launch
    (*seen)[call] = mark;
    // Clocks of host and GPU are aligned to about a microsecond: work cannot have started before it
    // was asked for.
    out.before_launch += e.ts[call] > e.ts[r];
    issued.push_back(std::min(e.ts[call], e.ts[r]));
    started.push_back(e.ts[r]);
  }
  out.commands = static_cast<int64_t>(issued.size());
  std::sort(issued.begin(), issued.end());  // `started` is sorted: rows are
  size_t i = 0, s = 0;
  Nanos now = 0;
  while (s < started.size()) {
    const Nanos next = i < issued.size() ? std::min(issued[i], started[s]) : started[s];
    if (const size_t length = i - s; i > 0 && next > now) {
      if (out.time_at.size() <= length) out.time_at.resize(length + 1, 0);
      out.time_at[length] += next - now;
    }
    now = next;
    while (i < issued.size() && issued[i] == now) ++i;
    while (s < started.size() && started[s] == now) ++s;
  }
  return out;
}

template <typename Use>
void ForEachStream(const AnalysisInput& input, const Use& use) {
  for (const auto& view : input.ranks()) {
    std::vector<uint32_t> seen(view->events().size(), 0);
    uint32_t mark = 0;
    for (const GpuStream& stream : view->gpu_streams()) {
      const QueueTimes queue = QueueOf(view->events(), stream, &seen, ++mark);
      if (queue.commands > 0) use(*view, stream, queue);
    }
  }
}

std::vector<Held> HeldLengths(const QueueTimes& queue) {
  std::vector<Held> out;
  for (size_t i = 0; i < queue.time_at.size(); ++i)
    out.push_back({static_cast<double>(i), queue.time_at[i]});
  return out;
}

constexpr std::string_view kCommandNote =
    "commands issued to a stream and not yet started on it, weighted by how long each length "
    "lasted, from the first launch call to the last start; a graph launch is one command";

StatusOr<AnalysisTables> SummariseQueue(const AnalysisInput& input) {
  Table table = TableWith({"rank", "device", "stream", "#commands", "window_us", "mean", "std",
                           "min", "p50", "p90", "max", "%empty_share"});
  int64_t without = 0, before = 0;
  ForEachStream(input, [&](const RankView& view, const GpuStream& stream, const QueueTimes& queue) {
    const HeldSummary s = DescribeHeld(HeldLengths(queue));
    const Nanos empty = queue.time_at.empty() ? 0 : queue.time_at[0];
    without += queue.without_launch;
    before += queue.before_launch;
    table.rows.push_back({RankCell(view), DeviceCell(stream), StreamCell(stream.stream),
                          queue.commands, MicrosCell(s.time), NumberCell(s.mean), NumberCell(s.std),
                          NumberCell(s.min), NumberCell(s.p50), NumberCell(s.p90),
                          NumberCell(s.max), ShareCell(MicrosOf(empty), MicrosOf(s.time))});
  });
  if (table.rows.empty()) return NotComputable("no GPU work has its launch call in the trace");
  table.notes.push_back(std::string(kCommandNote));
  if (without > 0)
    table.notes.push_back(
        absl::StrCat("left out: ", without, " GPU rows whose launch call is not in the trace"));
  if (before > 0)
    table.notes.push_back(
        absl::StrCat(before, " rows start before their launch call; counted as started at once"));
  return OneTable(input, "queue_length_summary", std::move(table));
}

StatusOr<AnalysisTables> BlockedOnFullQueue(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "device", "stream", "full_us", "%full_share_of_trace", "#max_length"});
  ForEachStream(input, [&](const RankView& view, const GpuStream& stream, const QueueTimes& queue) {
    Nanos full = 0;
    for (size_t i = kFullQueue; i < queue.time_at.size(); ++i) full += queue.time_at[i];
    table.rows.push_back(
        {RankCell(view), DeviceCell(stream), StreamCell(stream.stream), MicrosCell(full),
         ShareCell(MicrosOf(full), MicrosOf(view.rank().end - view.rank().begin)),
         queue.time_at.empty() ? int64_t{0} : static_cast<int64_t>(queue.time_at.size()) - 1});
  });
  if (table.rows.empty()) return NotComputable("no GPU work has its launch call in the trace");
  table.notes.push_back(absl::StrCat("time with ", kFullQueue,
                                     " commands or more waiting, where launch calls block; ",
                                     std::string(kCommandNote)));
  return OneTable(input, "blocked_on_full_queue", std::move(table));
}

}  // namespace

constinit const Analysis kQueueLengthSummary = {
    .name = "queue_length_summary",
    .title = "How many launched commands waited on each stream",
    .ours = SummariseQueue,
    .as_hta = HtaQueueLengthSummary};

constinit const Analysis kBlockedOnFullQueue = {
    .name = "blocked_on_full_queue",
    .title = "How long the launch queue of each stream was full",
    .ours = BlockedOnFullQueue,
    .as_hta = HtaBlockedOnFullQueue};

}  // namespace flopwatch::trace
