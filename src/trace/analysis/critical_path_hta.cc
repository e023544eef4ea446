// HTA 0.6's graph. It keeps times as doubles of microseconds, rounds starts up and ends down to
// whole ones; the only oracle of its paths is so. At the size of a wall clock a double is good to a
// quarter of a microsecond, which changes which calls are rounded away, so the doubles are made
// here too.
#include <cmath>

#include "trace/analysis/critical_path.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/path_builder.h"

namespace flopwatch::trace {
namespace {

// Whose time HTA takes for waiting (its BLOCKING_SYNC_CALLS), and which calls hold the lock of the
// CUDA runtime in its model.
constexpr std::string_view kHtaBlocking[] = {"cudaDeviceSynchronize",
                                             "cudaStreamSynchronize",
                                             "cudaEventQuery",
                                             "cudaEventSynchronize",
                                             "cudaMemcpy",
                                             "cudaMemcpyAsync"};
constexpr std::string_view kHtaLock[] = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"};

template <size_t n>
std::vector<bool> NamesIn(const StringPool& names, const std::string_view (&list)[n]) {
  std::vector<bool> out(names.size());
  for (const std::string_view text : list)
    if (const NameId id = names.Find(text); id != kNoName) out[id] = true;
  return out;
}

class HtaPath : public PathBuilder<HtaPath> {
 public:
  explicit HtaPath(const RankView& view)
      : PathBuilder(view), counted_(NamesIn(names_, kHtaLaunches)) {}

  StatusOr<CriticalPath> Run() {
    FW_RETURN_IF_ERROR(FindWindow());
    Select();
    if (rows_.empty()) return NotComputable("the window has neither operators nor GPU work");
    SelectWaits();
    AddLocks();
    AddThreads();
    FindStreamWaits();
    QueueLengths();
    AddKernels();
    graph_.MergePairs();  // HTA's graph holds one edge a pair of nodes
    LongestPath();
    return std::move(out_);
  }

 private:
  friend class PathBuilder<HtaPath>;
  static constexpr bool kManyBackward = false, kGpuAnnotations = true;

  Nanos Begin(Row r) const {
    return rank_.time_base + 1000 * static_cast<Nanos>(std::ceil(HtaTs(r)));
  }
  Nanos End(Row r) const {
    return rank_.time_base + 1000 * static_cast<Nanos>(std::floor(HtaTs(r) + Micros(e_.dur[r])));
  }
  double HtaTs(Row r) const { return Micros(e_.ts[r] - rank_.time_base); }
  static double Micros(Nanos t) { return static_cast<double>(static_cast<long double>(t) / 1000); }
  template <typename Use>
  void ForRows(const Use& use) const {
    for (const Row r : view_.hta().rows) use(r);
  }
  bool OnGpu(Row r) const { return e_.stream[r] != kNoStream; }
  bool IsNode(Row r) const {
    const Row call = e_.launch[r];
    return call != kNoRow && (Inside(call) || NameOf(r) == "Stream Wait Event");
  }
  static bool IsBackward(std::string_view n) {
    return n.find("autograd") != std::string_view::npos;
  }
  static bool IsMain(std::string_view n) { return n.find("forward") != std::string_view::npos; }
  const std::vector<bool>& CountedLaunches() const { return counted_; }
  static Nanos Length(Nanos weight) { return weight; }

  // Waits for an event or a context have no stream; calls wait by their names.
  void SelectWaits() {
    ForRows([&](Row r) {
      if (e_.category[r] == Category::kSync && e_.stream[r] == kNoStream &&
          e_.launch[r] != kNoRow && Inside(r) && End(r) > Begin(r)) {
        gpu_.push_back(r);
      }
    });
    const std::vector<bool> blocking = NamesIn(names_, kHtaBlocking);
    for (size_t i = 0; i < rows_.size(); ++i) waits_[i] = blocking[e_.name[rows_[i]]];
  }

  // Overlapping calls that need the lock of the CUDA runtime end in the order in which they got it.
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
    Node last = kNoPathNode;
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
    return lock_names_[e_.name[rows_[first / 2]]] && lock_names_[e_.name[rows_[second / 2]]] &&
           ((first & 1) == 0 || (second & 1) == 1);
  }

  void QueueLengths() {
    queue_.assign(e_.size(), std::numeric_limits<int32_t>::min());
    struct Change {
      Nanos ts;
      bool start;
      Row row;
    };
    absl::flat_hash_map<int32_t, std::vector<Change>> changes;
    for (const Row r : view_.hta().gpu) {
      const Row call = e_.launch[r];
      if (call == kNoRow || !counted_[e_.name[call]]) continue;
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

  void AddKernels() {
    // Rows are sorted by start, those of synchronisation by end.
    const auto when = [&](Row r) { return e_.category[r] == Category::kSync ? End(r) : Begin(r); };
    std::stable_sort(gpu_.begin(), gpu_.end(), [&](Row a, Row b) { return when(a) < when(b); });
    absl::flat_hash_map<int32_t, Row> last_on;
    std::vector<int32_t> streams;  // in the order of their first kernel
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
          for (const int32_t stream : streams) add(last_on[stream]);
        } else if (name == "Stream Sync") {
          if (const auto last = last_on.find(e_.stream[r]); last != last_on.end())
            add(last->second);
        }
        continue;
      }
      AddEdge(StartOf(r), EndOf(r), PathEdge::kOperator);
      const auto [entry, first] = last_on.try_emplace(e_.stream[r], kNoRow);
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

  PathBound BoundOf(Row r) const {
    if (e_.stream[r] == kNoStream) return PathBound::kCpu;
    return NameOf(r).find("ncclKernel") != std::string_view::npos ? PathBound::kGpuCommunication
                                                                  : PathBound::kGpuCompute;
  }

  const std::vector<bool> counted_;
  std::vector<bool> lock_names_;
  std::vector<int32_t> queue_;  // length of the stream's queue after a launch or a start; by row
};

}  // namespace

StatusOr<CriticalPath> FindHtaCriticalPath(const RankView& view) { return HtaPath(view).Run(); }

}  // namespace flopwatch::trace
