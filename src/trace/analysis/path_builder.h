// The graph under the critical path, as far as our definition and HTA's agree: nodes, the walk
// along threads, waits for events, the longest way. What differs is a class of its own on top of
// this one, in critical_path.cc and critical_path_hta.cc. Internal to the two.
#pragma once

#include <algorithm>
#include <limits>
#include <queue>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/critical_path.h"
#include "trace/analysis/path_graph.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// A longer gap between two kernels of a stream has a cause that the graph does not know (HTA 0.6
// has the same limit).
inline constexpr Nanos kLongestKernelGap = 1'500'000;

// One bit a name, judged once.
template <typename Judge>
std::vector<bool> NamesThat(const StringPool& names, const Judge& judge) {
  std::vector<bool> out(names.size());
  for (NameId id = 0; id < names.size(); ++id) out[id] = judge(names.Text(id));
  return out;
}

// `Definition` derives from PathBuilder<Definition> and has, beside what it adds to the graph:
//  - Begin(row), End(row): the times of a row.
//  - ForRows(use): the rows it looks at; OnGpu(row): which of them lie on the GPU.
//  - IsNode(gpu row): whether such a row of the window has nodes; gpu_ then holds it.
//  - ShareLock(first, second): nodes of a thread between which a lock's edges take its place.
//  - IsBackward(name), IsMain(name): annotations of the thread of the backward pass and of the main
//    one; kManyBackward: there may be more than one of the former.
//  - kGpuAnnotations: instances of an annotation on the GPU count too, after the CPU's.
//  - CountedLaunches(): of every name, whether it is a launch that waits may end at.
//  - Length(weight): an edge's time on the path; BoundOf(row): what a row's time is bound by.
template <typename Definition>
class PathBuilder {
 protected:
  using Node = PathNode;  // 2 * index of the row in rows_, + 1 for its end

  explicit PathBuilder(const RankView& view)
      : view_(view), rank_(view.rank()), e_(view.rank().events), names_(view.set().names) {}

  const RankView& view_;
  const RankTrace& rank_;
  const EventTable& e_;
  const StringPool& names_;
  CriticalPath out_;

  std::vector<uint32_t> index_;  // row -> index in rows_, kNoPathNode
  std::vector<Row> rows_;        // with nodes
  std::vector<Row> stack_rows_;  // CPU rows of the window, with and without nodes
  std::vector<Row> gpu_;         // GPU work of the window, as the definition selects it
  std::vector<Row> above_;       // of rows_: the row that encloses it on its (merged) thread
  std::vector<bool> waits_;      // of rows_: its own time is waiting

  PathGraph graph_;
  static constexpr uint8_t kZero = 0x80;  // in an edge's type: waiting, no time of its own

  absl::flat_hash_map<Row, Row> wait_for_;  // kernel -> the kernel of another stream it waited for

  absl::flat_hash_map<Row, Row> event_sync_;  // row of "Event Sync" -> the kernel waited for

  const Definition& self() const { return static_cast<const Definition&>(*this); }
  Definition& self() { return static_cast<Definition&>(*this); }

  Nanos TimeOf(Node n) const {
    return n & 1 ? self().End(rows_[n / 2]) : self().Begin(rows_[n / 2]);
  }
  bool HasNode(Row r) const { return index_[r] != kNoPathNode; }
  Node StartOf(Row r) const { return 2 * index_[r]; }
  Node EndOf(Row r) const { return 2 * index_[r] + 1; }
  std::string_view NameOf(Row r) const { return names_.Text(e_.name[r]); }
  bool IsCpuNode(Row r) const {
    return e_.category[r] == Category::kCpuOp || IsLaunchApi(e_.category[r]);
  }

  void AddEdge(Node from, Node to, PathEdge type, bool zero = false) {
    graph_.Add(from, to, static_cast<uint8_t>(static_cast<uint8_t>(type) | (zero ? kZero : 0)));
  }
  Nanos WeightOf(size_t edge) const {
    const uint8_t type = graph_.type(edge);
    if (type == static_cast<uint8_t>(PathEdge::kDependency) ||
        type == static_cast<uint8_t>(PathEdge::kSync) || (type & kZero) != 0) {
      return 0;
    }
    return TimeOf(graph_.to(edge)) - TimeOf(graph_.from(edge));
  }

  Status FindWindow() {
    const std::string& annotation = view_.options().annotation;
    const int instance = view_.options().instance;
    if (annotation.empty()) {
      Nanos begin = std::numeric_limits<Nanos>::max(), end = std::numeric_limits<Nanos>::min();
      self().ForRows([&](Row r) {
        begin = std::min(begin, self().Begin(r));
        end = std::max(end, self().End(r));
      });
      if (begin > end) return NotComputable("the trace has no events");
      out_.window = {begin, end};
      return absl::OkStatus();
    }
    const std::vector<bool> named = NamesThat(names_, [&](std::string_view name) {
      return name.find(annotation) != std::string_view::npos;
    });
    std::vector<Row> cpu, gpu;
    self().ForRows([&](Row r) {
      if (!named[e_.name[r]]) return;
      (e_.category[r] == Category::kGpuUserAnnotation || self().OnGpu(r) ? gpu : cpu).push_back(r);
    });
    if (Definition::kGpuAnnotations) cpu.insert(cpu.end(), gpu.begin(), gpu.end());
    if (instance < 0 || static_cast<size_t>(instance) >= cpu.size()) {
      return NotFound(
          "rank {} has {} rows whose name contains '{}': there is no instance {} (they "
          "count from 0)",
          rank_.rank, cpu.size(), annotation, instance);
    }
    const Row r = cpu[static_cast<size_t>(instance)];
    out_.window = {self().Begin(r), self().End(r)};
    return absl::OkStatus();
  }

  bool Inside(Row r) const {
    return self().Begin(r) >= out_.window.begin && self().Begin(r) <= out_.window.end;
  }

  void Select() {
    index_.assign(e_.size(), kNoPathNode);
    rows_.reserve(e_.size());
    stack_rows_.reserve(e_.size());
    self().ForRows([&](Row r) {
      const Category c = e_.category[r];
      out_.sync_rows |= c == Category::kSync;
      if (self().OnGpu(r)) {
        if (!self().IsNode(r)) return;
        gpu_.push_back(r);
      } else {
        if (c == Category::kGpuUserAnnotation || !Inside(r) || self().End(r) <= self().Begin(r))
          return;
        stack_rows_.push_back(r);
        if (!IsCpuNode(r)) return;
      }
      index_[r] = static_cast<uint32_t>(rows_.size());
      rows_.push_back(r);
    });
    above_.assign(rows_.size(), kNoRow);
    waits_.assign(rows_.size(), false);
  }

  // Threads that run one after the other as one: the backward pass belongs to the thread that
  // called it.
  std::vector<uint32_t> MergedThreads() const {
    std::vector<uint32_t> chain(rank_.threads.size());
    for (uint32_t t = 0; t < chain.size(); ++t) chain[t] = t;
    std::vector<bool> backward(chain.size(), false), main(chain.size(), false);
    const std::vector<bool> is_backward = NamesThat(names_, Definition::IsBackward),
                            is_main = NamesThat(names_, Definition::IsMain);
    for (const Row r : stack_rows_) {
      const Category c = e_.category[r];
      if (c != Category::kCpuOp && c != Category::kUserAnnotation) continue;
      if (is_backward[e_.name[r]]) backward[e_.thread[r]] = true;
      if (is_main[e_.name[r]]) main[e_.thread[r]] = true;
    }
    const auto backs = std::ranges::count(backward, true), mains = std::ranges::count(main, true);
    if (mains != 1 || backs < 1 || (!Definition::kManyBackward && backs != 1)) return chain;
    const auto front = static_cast<uint32_t>(std::ranges::find(main, true) - main.begin());
    for (uint32_t t = 0; t < chain.size(); ++t)
      if (backward[t]) chain[t] = front;
    return chain;
  }

  void AddThreads() {
    const std::vector<uint32_t> chain = MergedThreads();
    std::vector<std::vector<Row>> by_thread(rank_.threads.size());
    for (const Row r : stack_rows_) by_thread[chain[e_.thread[r]]].push_back(r);
    graph_.Reserve(graph_.size() + 2 * rows_.size() + 3 * gpu_.size());
    for (std::vector<Row>& rows : by_thread) AddThread(&rows);
  }

  // Walks one thread's starts and ends in time. Whatever ends closes the innermost open row: rows
  // that only overlap stay in one chain.
  void AddThread(std::vector<Row>* rows) {
    // Rows come by time; of those that begin together the longest is the outermost.
    for (size_t i = 0; i < rows->size();) {
      size_t j = i + 1;
      while (j < rows->size() && self().Begin((*rows)[j]) == self().Begin((*rows)[i])) ++j;
      if (j - i > 1)
        std::stable_sort(rows->begin() + static_cast<ptrdiff_t>(i),
                         rows->begin() + static_cast<ptrdiff_t>(j),
                         [&](Row a, Row b) { return self().End(a) > self().End(b); });
      i = j;
    }
    std::priority_queue<Nanos, std::vector<Nanos>, std::greater<>>
        ends;  // of the open rows: as many as the stack is deep
    std::vector<Row> stack;
    Node last = kNoPathNode;
    int depth = 0;
    const auto enter = [&](Row r) {
      const Row above = stack.empty() ? kNoRow : stack.back();
      stack.push_back(r);
      if (!HasNode(r)) return;
      above_[index_[r]] = above;
      if (last != kNoPathNode && !self().ShareLock(last, StartOf(r)))
        AddEdge(last, StartOf(r), depth == 0 ? PathEdge::kDependency : PathEdge::kOperator);
      last = StartOf(r);
      ++depth;
    };
    const auto leave = [&] {
      const Row r = stack.back();
      stack.pop_back();
      if (!HasNode(r)) return;
      if (last != kNoPathNode && !self().ShareLock(last, EndOf(r)))
        AddEdge(last, EndOf(r), PathEdge::kOperator, waits_[index_[r]]);
      last = EndOf(r);
      --depth;
    };
    for (const Row r : *rows) {
      for (; !ends.empty() && ends.top() <= self().Begin(r); ends.pop()) leave();
      enter(r);
      ends.push(self().End(r));
    }
    while (!stack.empty()) leave();
  }

  // Rows of "Stream Wait Event": the next kernel on the waiting stream waits for the last one
  // before the event's record.
  void FindStreamWaits() {
    if (!out_.sync_rows) return;
    const NameId record_name = names_.Find("cudaEventRecord");
    absl::flat_hash_map<int32_t, std::vector<Row>> launches;  // stream -> calls by time
    absl::flat_hash_map<std::pair<int32_t, uint32_t>, std::vector<Row>>
        by_thread;  // stream, thread -> calls by time
    const std::vector<bool> counted = self().CountedLaunches();
    absl::flat_hash_map<int64_t, Row> records;  // correlation -> cudaEventRecord
    self().ForRows([&](Row r) {
      if (!IsLaunchApi(e_.category[r])) return;
      if (record_name != kNoName && e_.name[r] == record_name && e_.correlation[r] != kNoId)
        records[e_.correlation[r]] = r;
      const Row work = e_.launch[r];
      if (work == kNoRow || !IsGpuWork(e_.category[work]) || !counted[e_.name[r]]) return;
      launches[e_.stream[work]].push_back(r);
      by_thread[{e_.stream[work], e_.thread[r]}].push_back(r);
    });
    const auto after = [&](const std::vector<Row>& calls, Nanos t) {
      return std::upper_bound(calls.begin(), calls.end(), t,
                              [&](Nanos at, Row r) { return at < e_.ts[r]; });
    };
    self().ForRows([&](Row r) {
      const SyncDetail* sync = rank_.SyncOf(r);
      if (sync == nullptr || sync->wait_on_event_record_correlation == kUnknown ||
          e_.launch[r] == kNoRow)
        return;
      const auto record = records.find(sync->wait_on_event_record_correlation);
      if (record == records.end()) return;
      const auto sources = launches.find(sync->wait_on_stream);
      if (sources == launches.end()) return;
      const auto next = after(sources->second, e_.ts[record->second]);
      if (next == sources->second.begin()) return;
      const Row source = e_.launch[*(next - 1)];
      if (NameOf(r) == "Event Sync") {
        event_sync_[r] = source;
        return;
      }
      if (e_.stream[r] == kNoStream) return;
      const auto targets = by_thread.find({e_.stream[r], e_.thread[e_.launch[r]]});
      if (targets == by_thread.end()) return;
      const auto target = after(targets->second, e_.ts[e_.launch[r]]);
      if (target != targets->second.end()) wait_for_[e_.launch[*target]] = source;
    });
  }

  void LongestPath() {
    out_.edges = graph_.size();
    const PathGraph::Way way =
        graph_.Longest(2 * rows_.size(), [&](size_t edge) { return WeightOf(edge); });
    out_.nodes = way.nodes;
    out_.dropped = way.dropped;
    out_.steps.reserve(way.edges.size());
    for (const uint32_t edge : way.edges) out_.steps.push_back(StepOf(edge));
    for (const PathStep& step : out_.steps) out_.total += step.duration;
  }

  PathStep StepOf(size_t edge) const {
    const Node from = graph_.from(edge), to = graph_.to(edge);
    PathStep step{.from = rows_[from / 2],
                  .to = rows_[to / 2],
                  .from_start = (from & 1) == 0,
                  .to_start = (to & 1) == 0};
    step.edge = static_cast<PathEdge>(graph_.type(edge) & ~kZero);
    step.duration = self().Length(WeightOf(edge));
    switch (step.edge) {
      case PathEdge::kKernelKernelDelay:
        step.row = step.from;
        step.bound = PathBound::kKernelKernel;
        break;
      case PathEdge::kLaunchDelay:
        step.bound = PathBound::kLaunch;
        break;
      case PathEdge::kOperator:
        // Between two rows inside a third the time is the third's.
        step.row = step.from_start ? step.from : !step.to_start ? step.to : above_[from / 2];
        step.bound = step.row == kNoRow ? PathBound::kCpu : self().BoundOf(step.row);
        break;
      default:
        break;
    }
    return step;
  }
};

}  // namespace flopwatch::trace
