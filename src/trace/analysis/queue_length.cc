#include <algorithm>
#include <map>
#include <optional>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// Launches that a CUDA stream takes before the launch call itself blocks (traces.md 2.7).
constexpr int64_t kFullQueue = 1024;

// Commands (launch calls, a graph launch is one) that were issued to a stream and have not started
// on it.
struct QueueTimes {
  std::vector<Nanos>
      time_at;  // how long each length lasted, between the first launch and the last start
  int64_t commands = 0, before_launch = 0, without_launch = 0;
};

QueueTimes DefaultQueue(const EventTable& e, const GpuStream& stream, std::vector<uint32_t>* seen,
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
      const QueueTimes queue = DefaultQueue(view->events(), stream, &seen, ++mark);
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
    "lasted, from the first launch call "
    "to the last start; a graph launch is one command";

StatusOr<AnalysisTables> DefaultSummary(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("rank"),      Plain("device"), Plain("stream"), Count("commands"),
                   Plain("window_us"), Plain("mean"),   Plain("std"),    Plain("min"),
                   Plain("p50"),       Plain("p90"),    Plain("max"),    Share("empty_share")};
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
  AddNotes(input, "queue_length_summary", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> DefaultBlocked(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("rank"),
                   Plain("device"),
                   Plain("stream"),
                   Plain("full_us"),
                   Share("full_share_of_trace"),
                   Count("max_length")};
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
  AddNotes(input, "blocked_on_full_queue", &table);
  return OneTable(std::move(table));
}

// HTA: +1 at a launch call of these names, -1 where its GPU rows start.
constexpr std::string_view kQueueLaunches[] = {
    "cudaLaunchKernel", "cudaLaunchKernelExC",      "cuLaunchKernel",     "cuLaunchKernelEx",
    "cudaMemcpyAsync",  "cudaMemsetAsync",          "hipMemcpyAsync",     "hipMemsetAsync",
    "hipLaunchKernel",  "hipExtModuleLaunchKernel", "hipMemcpyWithStream"};

struct Change {
  Nanos ts = 0;
  int delta = 0;
  int64_t length = 0;
};
// By stream, by time; of equal times launches come before starts (HTA sorts them with a sort that
// promises no order).
std::map<int32_t, std::vector<Change>> HtaSeries(const RankView& view) {
  const EventTable& e = view.events();
  std::vector<NameId> launches;
  for (const std::string_view name : kQueueLaunches) {
    if (const NameId id = view.set().names.Find(name); id != kNoName) launches.push_back(id);
  }
  std::map<int32_t, std::vector<Change>> out;
  for (const Row r : view.hta().gpu) {
    const Row call = e.launch[r];
    if (call == kNoRow || IsLaunchApi(e.category[r])) continue;
    if (std::find(launches.begin(), launches.end(), e.name[call]) == launches.end()) continue;
    out[e.stream[r]].push_back({e.ts[call], 1});
    out[e.stream[r]].push_back({e.ts[r], -1});
  }
  for (auto& [stream, changes] : out) {
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return a.ts != b.ts ? a.ts < b.ts : a.delta > b.delta;
    });
    int64_t length = 0;
    for (Change& c : changes) c.length = length += c.delta;
  }
  return out;
}

StatusOr<AnalysisTables> HtaSummary(const AnalysisInput& input) {
  Table table;
  table.columns = PlainColumns({"rank", "stream", "queue_length.count", "queue_length.mean",
                                "queue_length.std", "queue_length.min", "queue_length.25%",
                                "queue_length.50%", "queue_length.75%", "queue_length.max"});
  for (const auto& view : input.ranks()) {
    for (const auto& [stream, changes] : HtaSeries(*view)) {
      std::vector<double> lengths;
      for (const Change& c : changes) lengths.push_back(static_cast<double>(c.length));
      const Summary s = Describe(std::move(lengths), kQuartiles);
      table.rows.push_back({RankCell(*view), StreamCell(stream), static_cast<double>(s.count),
                            NumberCell(s.mean), NumberCell(s.std), NumberCell(s.min),
                            NumberCell(s.percentiles[0]), NumberCell(s.percentiles[1]),
                            NumberCell(s.percentiles[2]), NumberCell(s.max)});
    }
  }
  if (table.rows.empty()) return NotComputable("no GPU work has a launch call that HTA knows");
  AddNotes(input, "", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> HtaBlocked(const AnalysisInput& input) {
  Table table;
  table.columns = PlainColumns(
      {"rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::optional<std::vector<Cell>> kept;  // one stream a rank, the last
    for (const auto& [stream, changes] : HtaSeries(*view)) {
      Nanos full = 0;
      bool any = false;
      for (size_t i = 0; i < changes.size(); ++i) {
        if (changes[i].length < kFullQueue) continue;
        any = true;
        if (i + 1 < changes.size()) full += changes[i + 1].ts - changes[i].ts;
      }
      if (!any) continue;
      const std::vector<Row>& rows = view->hta().rows;
      const Nanos duration = e.ts[rows.back()] - e.ts[rows.front()];
      kept = {RankCell(*view), StreamCell(stream), MicrosCell(full),
              ShareCell(MicrosOf(full), MicrosOf(duration))};
    }
    if (kept.has_value()) table.rows.push_back(*std::move(kept));
  }
  AddNotes(input, "", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> SummariseQueue(const AnalysisInput& input) {
  return input.options().hta ? HtaSummary(input) : DefaultSummary(input);
}
StatusOr<AnalysisTables> Blocked(const AnalysisInput& input) {
  return input.options().hta ? HtaBlocked(input) : DefaultBlocked(input);
}

}  // namespace

constinit const Analysis kQueueLengthSummary = {
    .name = "queue_length_summary",
    .title = "How many launched commands waited on each stream",
    .run = SummariseQueue,
};

constinit const Analysis kBlockedOnFullQueue = {
    .name = "blocked_on_full_queue",
    .title = "How long the launch queue of each stream was full",
    .run = Blocked,
};

}  // namespace flopwatch::trace
