// What several rules measure of one rank, computed once: the windows that count, where the GPU was
// idle, what the host did meanwhile, and small tables of kernels and calls. All times are within
// complete steps (within the whole GPU span where the trace has no steps), so that a cut last step
// or the time before the first one cannot decide anything.
//
// Cost: a few passes over the rows and one over the idle intervals; nothing is quadratic, names are
// judged once each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "hardware/accelerator.h"
#include "trace/analysis/analysis.h"
#include "trace/call_kind.h"
#include "trace/event_table.h"
#include "trace/intervals.h"

namespace flopwatch::trace {

// GPU time that no work fills, between two rows of GPU work, and the row that ends it.
struct IdleGap {
  Interval at;
  Row next = kNoRow;
};

struct RankMeasures {
  RankMeasures(const RankView& view);

  const RankView& view;
  const RankTrace& rank;
  const EventTable& events;
  const StringPool& names;

  // Windows.
  bool has_steps = false;
  std::vector<int32_t> steps;  // indices of the complete ones (all, where none is complete)
  double step_count = 1;       // what "per step" divides by: 1 without steps
  IntervalSet windows;  // the steps; the GPU span without steps; the whole trace without GPU work
  Nanos step_time = 0;  // length of `windows`: what shares are of
  IntervalSet gpu_windows;  // the part of them between the first and the last GPU work of the trace

  // The GPU.
  TableVector<Row> gpu;       // GPU work that begins in the windows, by time
  IntervalSet idle;           // of gpu_windows, no GPU work
  TableVector<IdleGap> gaps;  // one an interval of `idle`
  double idle_share = 0;      // idle / gpu_windows
  Nanos busy_time = 0, compute_busy = 0, communication_busy = 0, exposed_communication = 0,
        memory_busy = 0;  // merged, in the windows
  Nanos compute_sum = 0;  // of durations of compute kernels
  double sm_efficiency =
      0;  // estimated: blocks per SM up to 1, over time, in step_time (NaN where no kernel says)
  int64_t kernels = 0;
  const Device* device = nullptr;                      // the one most kernels ran on
  const hardware::Accelerator* accelerator = nullptr;  // its row of the hardware table
  int sm_count = 0;                                    // 0 = not known

  // The host.
  std::vector<bool> launches;  // by thread: gives at least a twentieth of the GPU's work
  // Those threads inside an operator, call, annotation (steps apart) or Python function that is no
  // blocking wait and no data loading.
  IntervalSet host_busy;
  IntervalSet loader;       // data loading, in the windows
  IntervalSet loader_idle;  // the part of it in which the GPU was idle, also before its first work
  IntervalSet idle_rest;    // idle without data loading
  double idle_rest_share = 0;  // of gpu_windows
  TableVector<Row> syncs;      // blocking calls that begin in the windows
  IntervalSet profiler;        // the profiler's own events, whole trace
  // Of the launching threads, under blocks named so in which the GPU computes next to nothing (a
  // frame around the whole job is no such block): the host writes or logs, collects garbage.
  IntervalSet output, collection;
  std::vector<Row> output_rows;  // the outermost of those blocks of output, by time
  // Operators, calls, annotations and Python functions of those threads in the windows.
  int64_t host_events = 0;
  // What recording those events cost the host, a rough figure: 3.2 to 5.3 µs an event were measured
  // on three jobs that the host limits, with shapes and without stacks (tests/gpu, PyTorch 2.11 on
  // the host of an H200).
  Nanos ProfilerCost() const { return 3000 * host_events; }
  IntervalSet blocking;  // blocking calls of the launching threads, whole trace
  IntervalSet waiting;   // the same, and waits for other ranks in Gloo
  // Gaps between the work of a stream; those whose launch call began after the last work's end.
  Nanos stream_gaps = 0, host_wait = 0;

  // Whether a moment lies in the windows. For moments in rising order keep one cursor: constant
  // time each.
  class Cursor {
   public:
    explicit Cursor(const IntervalSet& set) : set_(set) {}
    bool Contains(Nanos t) {
      while (at_ < set_.size() && set_[at_].end <= t) ++at_;
      return at_ < set_.size() && set_[at_].begin <= t;
    }

   private:
    const IntervalSet& set_;
    size_t at_ = 0;
  };

  std::string_view Name(Row r) const { return names.Text(events.name[r]); }
  KernelClass ClassOf(Row r) const { return view.classes()[r]; }
  CallKind CallOf(Row r) const;  // of a launch call's row
  // What of a call that may block is its own: from when the GPU work that was launched before it
  // had ended (of its stream, where the trace links one) to its end. The time before is waiting.
  Interval OwnPart(Row call) const;
  bool FromGraph(Row gpu_row) const;  // launched by a CUDA graph
  const CollectiveDetail* CollectiveOf(
      Row r) const;  // of a kernel: its own, or of the operator that launched it
  // Whether the host would keep ahead of the GPU if it never waited and without the calls in
  // `spared`: then the idle time after a wait
  // is the wait's doing until the host is ahead again, and else the host is slow by itself.
  bool HostCouldKeepAhead(const IntervalSet& spared = {}) const;
  // The idle gaps from each of `from` (by time) on, until the host has a lead again: work that was
  // launched long before the GPU had run dry.
  IntervalSet UntilAhead(const IntervalSet& from) const;
  // Nanoseconds of the whole GPU that SMs without a block are worth within `set`, all kernels that
  // run at the same time added up: what a small grid leaves, others may fill.
  double EmptySmTime(const IntervalSet& set) const;
  // Blocks per SM of a kernel: as the trace says, else grid over the device's SMs; NaN where
  // neither is known.
  double BlocksPerSm(const KernelDetail& k) const;
  int64_t Blocks(const KernelDetail& k) const;  // of the grid; 0 = not given
  double Share(Nanos t) const { return step_time > 0 ? static_cast<double>(t) / step_time : 0; }
  double PerStep(double n) const { return n / step_count; }
  // The number of the step that holds a moment, as the trace numbers them.
  std::optional<int64_t> StepAt(Nanos t) const;
  // The first row at or after t (rows are sorted by time).
  Row FirstFrom(Nanos t) const;
  // The innermost operator, call, annotation (steps apart) or Python function of a launching thread
  // that holds t; its parents hold it too. Looks at a bounded number of rows before t; kNoRow where
  // nothing was found.
  Row HostRowAt(Nanos t) const;
  bool IsStepAnnotation(Row r) const;

 private:
  void FindWindows();
  void MeasureGpu();
  void MeasureHost();
  // The rows of host blocks in which the GPU hardly computes, outermost, by time.
  std::vector<Row> QuietBlocks(const std::vector<Row>& rows) const;
  void MeasureWaits();

  TableVector<Row> host_rows_;                      // what HostRowAt() looks at, by time
  absl::flat_hash_map<Row, Nanos> own_begin_;       // of calls that waited first
  std::vector<std::optional<CallKind>> call_kind_;  // by NameId; none where it is no call's name
};

// Measures of all ranks, computed at construction, ranks in parallel.
class Measures {
 public:
  explicit Measures(const AnalysisInput& input);
  const AnalysisInput& input() const { return input_; }
  std::span<const std::unique_ptr<RankMeasures>> ranks() const { return ranks_; }

 private:
  const AnalysisInput& input_;
  std::vector<std::unique_ptr<RankMeasures>> ranks_;
};

}  // namespace flopwatch::trace
