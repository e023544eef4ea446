#include "trace/analysis/critical_path.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/path_graph.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"

namespace flopwatch::trace {
namespace {

// A longer gap between two kernels of a stream has a cause that the graph does not know (HTA 0.6
// has the same limit).
constexpr Nanos kLongestKernelGap = 1'500'000;
constexpr int kMaxDepth = 64;  // parents looked at for a data loader
constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();

// Whose time HTA takes for waiting (its BLOCKING_SYNC_CALLS), and which calls hold the lock of the
// CUDA runtime in its model.
constexpr std::string_view kHtaBlocking[] = {"cudaDeviceSynchronize",
                                             "cudaStreamSynchronize",
                                             "cudaEventQuery",
                                             "cudaEventSynchronize",
                                             "cudaMemcpy",
                                             "cudaMemcpyAsync"};
constexpr std::string_view kHtaLock[] = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"};
// Launches that HTA counts in queues.
constexpr std::string_view kPathLaunches[] = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel",          "cuLaunchKernelEx",
    "cudaMemcpyAsync",  "cudaMemsetAsync",     "hipMemcpyAsync",          "hipMemsetAsync",
    "hipLaunchKernel",  "hipMemcpyWithStream", "hipExtModuleLaunchKernel"};

// Calls that may wait for the GPU: an asynchronous copy does where its host memory is not pinned.
bool MayBlock(std::string_view name) {
  const CallKind kind = CallKindOf(name);
  return kind == CallKind::kSync || kind == CallKind::kBlockingCopy || kind == CallKind::kCopy;
}

// One bit a name, judged once.
template <typename Judge>
std::vector<bool> NamesThat(const StringPool& names, const Judge& judge) {
  std::vector<bool> out(names.size());
  for (NameId id = 0; id < names.size(); ++id) out[id] = judge(names.Text(id));
  return out;
}

template <size_t n>
std::vector<bool> NamesIn(const StringPool& names, const std::string_view (&list)[n]) {
  std::vector<bool> out(names.size());
  for (const std::string_view text : list) {
    if (const NameId id = names.Find(text); id != kNoName) out[id] = true;
  }
  return out;
}

using Node = PathNode;  // 2 * index of the row in rows_, + 1 for its end

class Graph {
 public:
  explicit Graph(const RankView& view)
      : view_(view),
        rank_(view.rank()),
        e_(view.rank().events),
        names_(view.set().names),
        hta_(view.options().hta) {}

  StatusOr<CriticalPath> Run() {
    FW_RETURN_IF_ERROR(FindWindow());
    Select();
    if (rows_.empty()) return NotComputable("the window has neither operators nor GPU work");
    if (hta_) {
      AddLocks();
    } else {
      FindWaits();
    }
    AddThreads();
    FindStreamWaits();
    if (hta_) {
      QueueLengths();
      AddKernelsHta();
      graph_.MergePairs();  // HTA's graph holds one edge a pair of nodes
    } else {
      AddKernels();
    }
    LongestPath();
    return std::move(out_);
  }

 private:
  const RankView& view_;
  const RankTrace& rank_;
  const EventTable& e_;
  const StringPool& names_;
  const bool hta_;
  CriticalPath out_;

  std::vector<uint32_t> index_;  // row -> index in rows_, kNoNode
  std::vector<Row> rows_;        // with nodes
  std::vector<Row> stack_rows_;  // CPU rows of the window, with and without nodes
  std::vector<Row> gpu_;         // GPU work of the window (hta: what its kernel loop walks)
  std::vector<Row> above_;       // of rows_: the row that encloses it on its (merged) thread
  std::vector<bool> waits_;      // of rows_: its own time is waiting
  std::vector<bool> lock_names_;
  mutable std::vector<int8_t>
      loads_;  // of a name, Python frames apart: whether it loads data; judged once

  PathGraph graph_;
  static constexpr uint8_t kZero = 0x80;  // in an edge's type: waiting, no time of its own

  absl::flat_hash_map<Row, Row> wait_for_;  // kernel -> the kernel of another stream it waited for
  std::vector<int32_t>
      queue_;  // hta: length of the stream's queue after a launch or a start; by row

  // HTA keeps times as doubles of microseconds, rounds starts up and ends down to whole ones; the
  // only oracle of its paths is so. At the size of a wall clock a double is good to a quarter of a
  // microsecond, which changes which calls are rounded away, so the doubles are made here too.
  Nanos Begin(Row r) const {
    return !hta_ ? e_.ts[r] : rank_.time_base + 1000 * static_cast<Nanos>(std::ceil(HtaTs(r)));
  }
  Nanos End(Row r) const {
    return !hta_ ? e_.end(r)
                 : rank_.time_base +
                       1000 * static_cast<Nanos>(std::floor(HtaTs(r) + Micros(e_.dur[r])));
  }
  double HtaTs(Row r) const { return Micros(e_.ts[r] - rank_.time_base); }
  static double Micros(Nanos t) { return static_cast<double>(static_cast<long double>(t) / 1000); }
  Nanos TimeOf(Node n) const { return n & 1 ? End(rows_[n / 2]) : Begin(rows_[n / 2]); }
  bool HasNode(Row r) const { return index_[r] != kNoNode; }
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

  // All rows that HTA keeps, or all there are.
  template <typename Use>
  void ForRows(const Use& use) const {
    if (hta_) {
      for (const Row r : view_.hta().rows) use(r);
    } else {
      for (Row r = 0; r < e_.size(); ++r) use(r);
    }
  }
  bool OnGpu(Row r) const {
    return hta_ ? e_.stream[r] != kNoStream
                : IsGpuWork(e_.category[r]) || e_.category[r] == Category::kSync;
  }

  Status FindWindow() {
    const std::string& annotation = view_.options().annotation;
    const int instance = view_.options().instance;
    if (annotation.empty()) {
      Nanos begin = std::numeric_limits<Nanos>::max(), end = std::numeric_limits<Nanos>::min();
      ForRows([&](Row r) {
        begin = std::min(begin, Begin(r));
        end = std::max(end, End(r));
      });
      if (begin > end) return NotComputable("the trace has no events");
      out_.window = {begin, end};
      return absl::OkStatus();
    }
    const std::vector<bool> named = NamesThat(names_, [&](std::string_view name) {
      return name.find(annotation) != std::string_view::npos;
    });
    std::vector<Row> cpu, gpu;
    ForRows([&](Row r) {
      if (!named[e_.name[r]]) return;
      (e_.category[r] == Category::kGpuUserAnnotation || OnGpu(r) ? gpu : cpu).push_back(r);
    });
    if (hta_) cpu.insert(cpu.end(), gpu.begin(), gpu.end());
    if (instance < 0 || static_cast<size_t>(instance) >= cpu.size()) {
      return absl::NotFoundError(
          fmt::format("rank {} has {} rows whose name contains '{}': there is no instance {} (they "
                      "count from 0)",
                      rank_.rank, cpu.size(), annotation, instance));
    }
    const Row r = cpu[static_cast<size_t>(instance)];
    out_.window = {Begin(r), End(r)};
    return absl::OkStatus();
  }

  bool Inside(Row r) const { return Begin(r) >= out_.window.begin && Begin(r) <= out_.window.end; }

  void Select() {
    index_.assign(e_.size(), kNoNode);
    loads_.assign(2 * names_.size(), -1);
    rows_.reserve(e_.size());
    stack_rows_.reserve(e_.size());
    ForRows([&](Row r) {
      const Category c = e_.category[r];
      out_.sync_rows |= c == Category::kSync;
      bool node = false;
      if (!OnGpu(r)) {
        if (c == Category::kGpuUserAnnotation || !Inside(r) || End(r) <= Begin(r)) return;
        stack_rows_.push_back(r);
        node = IsCpuNode(r);
      } else if (hta_) {
        const Row call = e_.launch[r];
        if (call == kNoRow || (!Inside(call) && NameOf(r) != "Stream Wait Event")) return;
        node = true;
        gpu_.push_back(r);
      } else {
        const Row call = e_.launch[r];
        if (!Inside(call == kNoRow ? r : call)) return;
        if (c == Category::kSync) return;  // read where they are needed
        node = true;
        gpu_.push_back(r);
      }
      if (!node) return;
      index_[r] = static_cast<uint32_t>(rows_.size());
      rows_.push_back(r);
    });
    if (hta_) {  // waits for an event or a context have no stream
      ForRows([&](Row r) {
        if (e_.category[r] == Category::kSync && e_.stream[r] == kNoStream &&
            e_.launch[r] != kNoRow && Inside(r) && End(r) > Begin(r)) {
          gpu_.push_back(r);
        }
      });
    }
    above_.assign(rows_.size(), kNoRow);
    waits_.assign(rows_.size(), false);
    if (hta_) {
      const std::vector<bool> blocking = NamesIn(names_, kHtaBlocking);
      for (size_t i = 0; i < rows_.size(); ++i) waits_[i] = blocking[e_.name[rows_[i]]];
    }
  }

  // HTA: overlapping calls that need the lock of the CUDA runtime end in the order in which they
  // got it.
  void AddLocks() {
    lock_names_ = NamesIn(names_, kHtaLock);
    std::vector<Node> nodes;
    for (const Row r : rows_) {
      if (!lock_names_[e_.name[r]]) continue;
      nodes.push_back(StartOf(r));
      nodes.push_back(EndOf(r));
    }
    std::sort(nodes.begin(), nodes.end(), [&](Node a, Node b) {
      const Nanos ta = TimeOf(a), tb = TimeOf(b);
      return ta != tb ? ta < tb : a < b;
    });
    std::vector<Node> open;
    Node last = kNoNode;
    for (const Node node : nodes) {
      if ((node & 1) == 0) {
        open.push_back(node);
      } else {
        for (; !open.empty(); open.pop_back()) {
          const bool own = open.back() / 2 == node / 2;
          AddEdge(open.back(), node, own ? PathEdge::kOperator : PathEdge::kDependency);
        }
        if ((last & 1) == 1) AddEdge(last, node, PathEdge::kDependency);
      }
      last = node;
    }
  }

  bool ShareLock(Node first, Node second) const {
    return hta_ && lock_names_[e_.name[rows_[first / 2]]] &&
           lock_names_[e_.name[rows_[second / 2]]] && ((first & 1) == 0 || (second & 1) == 1);
  }

  // Threads that run one after the other as one: the backward pass belongs to the thread that
  // called it.
  std::vector<uint32_t> MergedThreads() const {
    std::vector<uint32_t> chain(rank_.threads.size());
    for (uint32_t t = 0; t < chain.size(); ++t) chain[t] = t;
    std::vector<bool> backward(chain.size(), false), forward(chain.size(), false);
    const std::vector<bool> autograd = NamesThat(names_, [&](std::string_view n) {
      return hta_ ? n.find("autograd") != std::string_view::npos
                  : n.starts_with("autograd::engine");
    });
    const std::vector<bool> main = NamesThat(names_, [&](std::string_view n) {
      return hta_ ? n.find("forward") != std::string_view::npos : n.starts_with("ProfilerStep#");
    });
    for (const Row r : stack_rows_) {
      const Category c = e_.category[r];
      if (c != Category::kCpuOp && c != Category::kUserAnnotation) continue;
      if (autograd[e_.name[r]]) backward[e_.thread[r]] = true;
      if (main[e_.name[r]]) forward[e_.thread[r]] = true;
    }
    const auto is = [](bool b) { return b; };
    const auto backs = std::count_if(backward.begin(), backward.end(), is),
               fronts = std::count_if(forward.begin(), forward.end(), is);
    if (fronts != 1 || backs < 1 || (hta_ && backs != 1)) return chain;
    const auto front =
        static_cast<uint32_t>(std::find(forward.begin(), forward.end(), true) - forward.begin());
    for (uint32_t t = 0; t < chain.size(); ++t) {
      if (backward[t]) chain[t] = front;
    }
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
      while (j < rows->size() && Begin((*rows)[j]) == Begin((*rows)[i])) ++j;
      if (j - i > 1) {
        std::stable_sort(rows->begin() + static_cast<ptrdiff_t>(i),
                         rows->begin() + static_cast<ptrdiff_t>(j),
                         [&](Row a, Row b) { return End(a) > End(b); });
      }
      i = j;
    }
    std::priority_queue<Nanos, std::vector<Nanos>, std::greater<>>
        ends;  // of the open rows: as many as the stack is deep
    std::vector<Row> stack;
    Node last = kNoNode;
    int depth = 0;
    const auto enter = [&](Row r) {
      const Row above = stack.empty() ? kNoRow : stack.back();
      stack.push_back(r);
      if (!HasNode(r)) return;
      above_[index_[r]] = above;
      if (last != kNoNode && !ShareLock(last, StartOf(r))) {
        AddEdge(last, StartOf(r), depth == 0 ? PathEdge::kDependency : PathEdge::kOperator);
      }
      last = StartOf(r);
      ++depth;
    };
    const auto leave = [&] {
      const Row r = stack.back();
      stack.pop_back();
      if (!HasNode(r)) return;
      if (last != kNoNode && !ShareLock(last, EndOf(r)))
        AddEdge(last, EndOf(r), PathEdge::kOperator, waits_[index_[r]]);
      last = EndOf(r);
      --depth;
    };
    for (const Row r : *rows) {
      for (; !ends.empty() && ends.top() <= Begin(r); ends.pop()) leave();
      enter(r);
      ends.push(End(r));
    }
    while (!stack.empty()) leave();
  }

  // Default mode: which calls waited, and for what. GPU work by its end.
  std::vector<Row> by_end_;
  std::vector<std::pair<Row, Row>> waited_;  // call, GPU row
  void FindWaits() {
    by_end_ = gpu_;
    std::stable_sort(by_end_.begin(), by_end_.end(),
                     [&](Row a, Row b) { return e_.end(a) < e_.end(b); });
    if (gpu_.empty()) return;
    const std::vector<bool> may_block = NamesThat(names_, MayBlock);
    // Where the trace says which stream a call waited for.
    absl::flat_hash_map<Row, int32_t> stream_of;
    absl::flat_hash_map<int32_t, std::vector<Row>> by_stream;
    if (out_.sync_rows) {
      for (Row r = 0; r < e_.size(); ++r) {
        if (e_.category[r] == Category::kSync && e_.stream[r] != kNoStream &&
            e_.launch[r] != kNoRow)
          stream_of[e_.launch[r]] = e_.stream[r];
      }
      for (const Row r : by_end_) by_stream[e_.stream[r]].push_back(r);
    }
    const auto last_before = [&](const std::vector<Row>& rows, Nanos t) {
      const auto next = std::upper_bound(rows.begin(), rows.end(), t,
                                         [&](Nanos at, Row r) { return at < e_.end(r); });
      return next == rows.begin() ? kNoRow : *(next - 1);
    };
    for (const Row call : rows_) {
      if (!IsLaunchApi(e_.category[call]) || !may_block[e_.name[call]]) continue;
      Row work = e_.launch[call] != kNoRow && IsGpuWork(e_.category[e_.launch[call]])
                     ? e_.launch[call]
                     : kNoRow;
      if (work == kNoRow) {
        const auto stream = stream_of.find(call);
        if (stream == stream_of.end()) {
          work = last_before(by_end_, e_.end(call));
        } else if (const auto of = by_stream.find(stream->second); of != by_stream.end()) {
          work = last_before(of->second, e_.end(call));
        }
      }
      if (work == kNoRow || !HasNode(work) || e_.end(work) <= e_.ts[call] ||
          e_.end(work) > e_.end(call))
        continue;
      waits_[index_[call]] = true;
      waited_.push_back({call, work});
    }
  }

  // Rows of "Stream Wait Event": the next kernel on the waiting stream waits for the last one
  // before the event's record.
  void FindStreamWaits() {
    if (!out_.sync_rows) return;
    const NameId record_name = names_.Find("cudaEventRecord");
    absl::flat_hash_map<int32_t, std::vector<Row>> launches;  // stream -> calls by time
    absl::flat_hash_map<std::pair<int32_t, uint32_t>, std::vector<Row>>
        by_thread;  // stream, thread -> calls by time
    const std::vector<bool> counted = NamesIn(names_, kPathLaunches);
    absl::flat_hash_map<int64_t, Row> records;  // correlation -> cudaEventRecord
    ForRows([&](Row r) {
      if (!IsLaunchApi(e_.category[r])) return;
      if (record_name != kNoName && e_.name[r] == record_name && e_.correlation[r] != kNoId)
        records[e_.correlation[r]] = r;
      const Row work = e_.launch[r];
      if (work == kNoRow || !IsGpuWork(e_.category[work]) || (hta_ && !counted[e_.name[r]])) return;
      launches[e_.stream[work]].push_back(r);
      by_thread[{e_.stream[work], e_.thread[r]}].push_back(r);
    });
    const auto after = [&](const std::vector<Row>& calls, Nanos t) {
      return std::upper_bound(calls.begin(), calls.end(), t,
                              [&](Nanos at, Row r) { return at < e_.ts[r]; });
    };
    ForRows([&](Row r) {
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
  absl::flat_hash_map<Row, Row> event_sync_;  // row of "Event Sync" -> the kernel waited for

  static uint64_t StreamKey(const RankTrace& rank, Row r, bool hta) {
    const auto stream = static_cast<uint32_t>(rank.events.stream[r]);
    if (hta) return stream;  // HTA knows one device
    return (static_cast<uint64_t>(rank.threads[rank.events.thread[r]].pid) << 32) | stream;
  }

  void AddKernels() {
    for (const auto& [call, work] : waited_) AddEdge(EndOf(work), EndOf(call), PathEdge::kSync);
    if (!out_.sync_rows) out_.inferred += static_cast<int64_t>(waited_.size());
    absl::flat_hash_map<uint64_t, Row> last_on;  // stream -> its last kernel
    size_t ended = 0;                            // of by_end_
    for (const Row r : gpu_) {
      AddEdge(StartOf(r), EndOf(r), PathEdge::kOperator);
      const Row call = e_.launch[r] != kNoRow && HasNode(e_.launch[r]) ? e_.launch[r] : kNoRow;
      Row& last = last_on.try_emplace(StreamKey(rank_, r, false), kNoRow).first->second;
      const auto wait = wait_for_.find(r);
      Row source =
          wait == wait_for_.end() || !HasNode(wait->second) || e_.end(wait->second) > e_.ts[r]
              ? kNoRow
              : wait->second;
      while (ended < by_end_.size() && e_.end(by_end_[ended]) <= e_.ts[r]) ++ended;
      if (source != kNoRow) {
        AddEdge(EndOf(source), StartOf(r), PathEdge::kSync);
      } else if (!out_.sync_rows && ended > 0 && call != kNoRow) {
        // Launched before, it could start when this ended: it waited for it, through an event that
        // the trace does not show.
        const Row before = by_end_[ended - 1];
        const bool queued =
            e_.end(before) > e_.end(call) && (last == kNoRow || e_.end(before) > e_.end(last));
        if (queued && before != r && e_.ts[r] - e_.end(before) <= kLongestKernelGap) {
          source = before;
          AddEdge(EndOf(source), StartOf(r), PathEdge::kKernelKernelDelay);
          ++out_.inferred;
        }
      }
      const auto before_launch = [&](Row work) {
        return work == kNoRow || e_.end(work) <= e_.ts[call];
      };
      bool delayed = false;
      if (call != kNoRow && before_launch(last) && before_launch(source)) {
        AddEdge(StartOf(call), StartOf(r), PathEdge::kLaunchDelay);
        delayed = true;
      } else if (last != kNoRow && e_.end(last) <= e_.ts[r] &&
                 e_.ts[r] - e_.end(last) <= kLongestKernelGap &&
                 (source == kNoRow || e_.end(source) < e_.end(last))) {
        AddEdge(EndOf(last), StartOf(r), PathEdge::kKernelKernelDelay);
      }
      // No kernel starts before its launch.
      if (!delayed && call != kNoRow)
        AddEdge(StartOf(call), StartOf(r), PathEdge::kLaunchDelay, true);
      last = r;
    }
  }

  void QueueLengths() {
    queue_.assign(e_.size(), std::numeric_limits<int32_t>::min());
    const std::vector<bool> counted = NamesIn(names_, kPathLaunches);
    struct Change {
      Nanos ts;
      bool start;
      Row row;
    };
    absl::flat_hash_map<int32_t, std::vector<Change>> changes;
    for (const Row r : view_.hta().gpu) {
      const Row call = e_.launch[r];
      if (call == kNoRow || !counted[e_.name[call]]) continue;
      changes[e_.stream[r]].push_back({Begin(call), false, call});
      changes[e_.stream[r]].push_back({Begin(r), true, r});
    }
    for (auto& [stream, list] : changes) {
      // A launch before a start of the same microsecond. HTA sorts these with an unstable sort: a
      // few of its edges differ.
      std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
        return a.ts != b.ts ? a.ts < b.ts : a.start != b.start ? b.start : a.row < b.row;
      });
      int32_t length = 0;
      for (const Change& c : list) queue_[c.row] = length += c.start ? -1 : 1;
    }
  }

  void AddKernelsHta() {
    // By start, rows of synchronisation by end.
    const auto when = [&](Row r) { return e_.category[r] == Category::kSync ? End(r) : Begin(r); };
    std::stable_sort(gpu_.begin(), gpu_.end(), [&](Row a, Row b) { return when(a) < when(b); });
    absl::flat_hash_map<uint64_t, Row> last_on;
    std::vector<uint64_t> streams;  // in the order of their first kernel
    for (const Row r : gpu_) {
      const Row call = e_.launch[r];
      if (e_.category[r] == Category::kSync) {
        const auto add = [&](Row work) {
          if (work != kNoRow && HasNode(work) && HasNode(call))
            AddEdge(EndOf(work), EndOf(call), PathEdge::kSync);
        };
        const std::string_view name = NameOf(r);
        if (name == "Event Sync") {
          if (const auto source = event_sync_.find(r); source != event_sync_.end())
            add(source->second);
        } else if (name == "Context Sync") {
          for (const uint64_t stream : streams) add(last_on[stream]);
        } else if (name == "Stream Sync") {
          if (const auto last = last_on.find(StreamKey(rank_, r, true)); last != last_on.end())
            add(last->second);
        }
        continue;
      }
      AddEdge(StartOf(r), EndOf(r), PathEdge::kOperator);
      const auto [entry, first] = last_on.try_emplace(StreamKey(rank_, r, true), kNoRow);
      if (first) streams.push_back(entry->first);
      const Row last = entry->second;
      const auto wait = wait_for_.find(r);
      const Row source = wait == wait_for_.end() || !HasNode(wait->second) ? kNoRow : wait->second;
      if (source != kNoRow) AddEdge(EndOf(source), StartOf(r), PathEdge::kSync);
      const auto before_launch = [&](Row work) {
        return work == kNoRow || End(work) < Begin(call);
      };
      bool delayed = false;
      if (queue_[call] == 1 && queue_[r] == 0 && before_launch(last) && before_launch(source)) {
        if (HasNode(call)) AddEdge(StartOf(call), StartOf(r), PathEdge::kLaunchDelay);
        delayed = true;
      } else if (last != kNoRow && (source == kNoRow || End(source) < End(last)) &&
                 Begin(r) - End(last) < kLongestKernelGap) {
        AddEdge(EndOf(last), StartOf(r), PathEdge::kKernelKernelDelay);
      }
      if (!delayed && HasNode(call))
        AddEdge(StartOf(call), StartOf(r), PathEdge::kLaunchDelay, true);
      entry->second = r;
    }
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
    step.duration = hta_ ? WeightOf(edge) : std::max<Nanos>(0, WeightOf(edge));
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
        step.bound = step.row == kNoRow ? PathBound::kCpu : BoundOf(step.row);
        break;
      default:
        break;
    }
    return step;
  }

  PathBound BoundOf(Row r) const {
    if (hta_) {
      if (e_.stream[r] == kNoStream) return PathBound::kCpu;
      return NameOf(r).find("ncclKernel") != std::string_view::npos ? PathBound::kGpuCommunication
                                                                    : PathBound::kGpuCompute;
    }
    switch (view_.classes()[r]) {
      case KernelClass::kCommunication:
        return PathBound::kGpuCommunication;
      case KernelClass::kMemory:
        return PathBound::kGpuMemory;
      case KernelClass::kCompute:
        return PathBound::kGpuCompute;
      case KernelClass::kNone:
        break;
    }
    for (int depth = 0; r != kNoRow && depth < kMaxDepth; r = e_.parent[r], ++depth) {
      int8_t& known =
          loads_[2 * e_.name[r] + (e_.category[r] == Category::kPythonFunction ? 1 : 0)];
      if (known < 0) known = IsDataLoading(NameOf(r), e_.category[r]) ? 1 : 0;
      if (known == 1) return PathBound::kDataLoading;
    }
    return PathBound::kCpu;
  }
};

}  // namespace

StatusOr<CriticalPath> FindCriticalPath(const RankView& view) { return Graph(view).Run(); }

}  // namespace flopwatch::trace
