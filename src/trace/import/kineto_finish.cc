#include "trace/import/kineto_finish.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"

namespace flopwatch::trace {
namespace {

// Times below are relative to something; above, nanoseconds since 1970 (this is 2001).
constexpr Nanos kFirstWallClock = 1'000'000'000'000'000'000;
// A trace whose rows lie above this has absolute times, and a row at 0 has lost its own.
constexpr Nanos kFirstAbsolute = 10'000'000'000'000;

template <typename T>
void Keep(const std::vector<bool>& drop, TableVector<T>* column) {
  size_t to = 0;
  for (size_t i = 0; i < column->size(); ++i)
    if (!drop[i]) (*column)[to++] = (*column)[i];
  column->resize(to);
}

// Rows at time 0 in a trace of absolute times, and rows whose absolute time does not fit.
void DropLostTimes(int64_t base, KinetoLossCounts* losses, RankTrace* trace) {
  EventTable& e = trace->events;
  Nanos latest = std::numeric_limits<Nanos>::min();
  for (const Nanos ts : e.ts) latest = std::max(latest, ts);
  const bool absolute = latest >= kFirstAbsolute;
  std::vector<bool> drop;
  size_t dropped = 0;
  const auto take_out = [&](size_t row, KinetoLoss loss) {
    if (drop.empty()) drop.resize(e.size());
    drop[row] = true;
    ++dropped;
    ++(*losses)[static_cast<size_t>(loss)];
  };
  for (size_t row = 0; row < e.size(); ++row) {
    Nanos end = 0;
    if (absolute && e.ts[row] == 0) {
      take_out(row, KinetoLoss::kZeroTime);
    } else if (__builtin_add_overflow(e.ts[row], base, &e.ts[row]) ||
               __builtin_add_overflow(e.ts[row], e.dur[row], &end) || e.ts[row] < -kMaxTime ||
               end > kMaxTime) {
      take_out(row, KinetoLoss::kTimeOutOfRange);
    }
  }
  if (dropped == 0) return;
  std::vector<Row> moved(e.size(), kNoRow);
  Row to = 0;
  for (size_t row = 0; row < e.size(); ++row)
    if (!drop[row]) moved[row] = to++;
  Keep(drop, &e.ts);
  Keep(drop, &e.dur);
  Keep(drop, &e.category);
  Keep(drop, &e.name);
  Keep(drop, &e.thread);
  Keep(drop, &e.stream);
  Keep(drop, &e.correlation);
  Keep(drop, &e.external_id);
  Keep(drop, &e.detail);
  Keep(drop, &e.file_category);
  std::erase_if(trace->range_metrics, [&](const RangeMetric& m) { return moved[m.row] == kNoRow; });
  for (RangeMetric& m : trace->range_metrics) m.row = moved[m.row];
}

// Both ends of an arrow are where an operator of that thread starts; of several the one with a
// sequence number, the innermost.
void LinkForwardBackward(int64_t base, const std::vector<KinetoBatch::Flow>& flows,
                         KinetoLossCounts* losses, RankTrace* trace) {
  if (flows.empty()) return;
  using Start = std::pair<Nanos, uint32_t>;  // time, thread
  absl::flat_hash_map<Start, Row> rows;
  std::vector<uint64_t> seen(
      4096, 0);  // a bit for the hash of each time that is looked for: most rows ask no further
  const auto bit = [](Nanos ts) { return static_cast<uint64_t>(ts) * 0x9e3779b97f4a7c15u >> 46; };
  for (const KinetoBatch::Flow& flow : flows) {
    const Nanos ts =
        static_cast<Nanos>(static_cast<uint64_t>(flow.ts) + static_cast<uint64_t>(base));
    rows.try_emplace({ts, flow.thread}, kNoRow);
    seen[bit(ts) / 64] |= uint64_t{1} << bit(ts) % 64;
  }
  const EventTable& e = trace->events;
  const auto has_sequence = [&](Row r) {
    const OpDetail* op = trace->OpOf(r);
    return op != nullptr && op->sequence_number != kUnknown;
  };
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kCpuOp ||
        (seen[bit(e.ts[r]) / 64] >> bit(e.ts[r]) % 64 & 1) == 0)
      continue;
    const auto it = rows.find({e.ts[r], e.thread[r]});
    if (it == rows.end()) continue;
    Row& kept = it->second;
    if (kept == kNoRow || has_sequence(r) > has_sequence(kept) ||
        (has_sequence(r) == has_sequence(kept) && e.dur[r] < e.dur[kept])) {
      kept = r;
    }
  }
  absl::flat_hash_map<int64_t, Row> forward;
  const auto row_of = [&](const KinetoBatch::Flow& flow) {
    return rows[{static_cast<Nanos>(static_cast<uint64_t>(flow.ts) + static_cast<uint64_t>(base)),
                 flow.thread}];
  };
  for (const KinetoBatch::Flow& flow : flows)
    if (flow.start) forward[flow.id] = row_of(flow);
  for (const KinetoBatch::Flow& flow : flows) {
    if (flow.start) continue;
    const auto it = forward.find(flow.id);
    const Row backward = row_of(flow);
    if (it == forward.end() || it->second == kNoRow || backward == kNoRow)
      ++(*losses)[static_cast<size_t>(KinetoLoss::kFlowWithoutOperator)];
    else
      trace->forward_backward.emplace_back(it->second, backward);
  }
}

void NameThreads(const std::vector<KinetoBatch::Label>& labels, RankTrace* trace) {
  struct Process {
    NameId name = kNoName, label = kNoName;
  };
  using Pid = std::pair<int64_t, NameId>;
  absl::flat_hash_map<Pid, Process> processes;
  for (const KinetoBatch::Label& label : labels) {
    Thread& thread = trace->threads[label.thread];
    if (label.kind == KinetoBatch::Label::kThreadName) {
      thread.name = label.text;
    } else {
      Process& process = processes[{thread.pid, thread.pid_text}];
      (label.kind == KinetoBatch::Label::kProcessName ? process.name : process.label) = label.text;
    }
  }
  for (Thread& thread : trace->threads) {
    if (const auto it = processes.find({thread.pid, thread.pid_text}); it != processes.end()) {
      thread.process_name = it->second.name;
      thread.process_label = it->second.label;
    }
  }
}

}  // namespace

void FinishKineto(std::optional<int64_t> base_time, const std::vector<KinetoBatch::Flow>& flows,
                  const std::vector<KinetoBatch::Label>& labels, const KinetoLossCounts& counted,
                  RankTrace* trace) {
  KinetoLossCounts losses = counted;
  const int64_t base = base_time.value_or(0);
  DropLostTimes(base, &losses, trace);
  const auto shift = [&](auto* samples) {
    std::erase_if(*samples, [&](auto& sample) {
      return __builtin_add_overflow(sample.ts, base, &sample.ts);
    });
    std::stable_sort(samples->begin(), samples->end(),
                     [](const auto& a, const auto& b) { return a.ts < b.ts; });
  };
  shift(&trace->counters);
  shift(&trace->memory);
  LinkForwardBackward(base, flows, &losses, trace);
  NameThreads(labels, trace);
  const EventTable& e = trace->events;
  trace->time_base = base;
  trace->wall_clock =
      base != 0 || (e.size() > 0 && *std::min_element(e.ts.begin(), e.ts.end()) >= kFirstWallClock);
  for (size_t i = 0; i < losses.size(); ++i) {
    const KinetoLossText& text = kKinetoLossTexts[i];
    trace->AddLoss(text.reason, text.explain, losses[i], text.repaired);
  }
}

}  // namespace flopwatch::trace
