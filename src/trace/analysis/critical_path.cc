#include "trace/analysis/critical_path.h"

#include "trace/analysis/path_builder.h"
#include "trace/call_kind.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr int kMaxDepth = 64;  // parents looked at for a data loader

// Calls that may wait for the GPU: an asynchronous copy does where its host memory is not pinned.
bool MayBlock(std::string_view name) {
  const CallKind kind = CallKindOf(name);
  return kind == CallKind::kSync || kind == CallKind::kBlockingCopy || kind == CallKind::kCopy;
}

class OurPath : public PathBuilder<OurPath> {
 public:
  explicit OurPath(const RankView& view)
      : PathBuilder(view), frame_loads_(view.set().names), row_loads_(view.set().names) {}

  StatusOr<CriticalPath> Run() {
    FW_RETURN_IF_ERROR(FindWindow());
    Select();
    if (rows_.empty()) return NotComputable("the window has neither operators nor GPU work");
    FindWaits();
    AddThreads();
    FindStreamWaits();
    AddKernels();
    LongestPath();
    return std::move(out_);
  }

 private:
  friend class PathBuilder<OurPath>;
  static constexpr bool kManyBackward = true, kGpuAnnotations = false;

  Nanos Begin(Row r) const { return e_.ts[r]; }
  Nanos End(Row r) const { return e_.end(r); }
  template <typename Use>
  void ForRows(const Use& use) const {
    for (Row r = 0; r < e_.size(); ++r) use(r);
  }
  bool OnGpu(Row r) const { return IsGpuWork(e_.category[r]) || e_.category[r] == Category::kSync; }
  bool IsNode(Row r) const {
    const Row call = e_.launch[r];  // rows of synchronisation are read where they are needed
    return Inside(call == kNoRow ? r : call) && e_.category[r] != Category::kSync;
  }
  static bool ShareLock(Node, Node) { return false; }
  static bool IsBackward(std::string_view n) { return n.starts_with("autograd::engine"); }
  static bool IsMain(std::string_view n) { return n.starts_with("ProfilerStep#"); }
  std::vector<bool> CountedLaunches() const { return std::vector<bool>(names_.size(), true); }
  static Nanos Length(Nanos weight) { return std::max<Nanos>(0, weight); }

  // Finds which calls waited, and for what, in GPU work sorted by its end.
  void FindWaits() {
    by_end_ = gpu_;
    std::ranges::stable_sort(by_end_, [&](Row a, Row b) { return e_.end(a) < e_.end(b); });
    if (gpu_.empty()) return;
    const std::vector<bool> may_block = NamesThat(names_, MayBlock);
    // `stream_of` has the stream a call waited for, where the trace says it.
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

  void AddKernels() {
    for (const auto& [call, work] : waited_) AddEdge(EndOf(work), EndOf(call), PathEdge::kSync);
    if (!out_.sync_rows) out_.inferred += static_cast<int64_t>(waited_.size());
    absl::flat_hash_map<uint64_t, Row> last_on;  // stream -> its last kernel
    size_t ended = 0;                            // of by_end_
    for (const Row r : gpu_) {
      AddEdge(StartOf(r), EndOf(r), PathEdge::kOperator);
      const Row call = e_.launch[r] != kNoRow && HasNode(e_.launch[r]) ? e_.launch[r] : kNoRow;
      Row& last = last_on.try_emplace(StreamKey(r), kNoRow).first->second;
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

  uint64_t StreamKey(Row r) const {
    return (static_cast<uint64_t>(rank_.threads[e_.thread[r]].pid) << 32) |
           static_cast<uint32_t>(e_.stream[r]);
  }

  PathBound BoundOf(Row r) const {
    const KernelClass c = view_.classes()[r];
    if (c == KernelClass::kCommunication) return PathBound::kGpuCommunication;
    if (c == KernelClass::kMemory) return PathBound::kGpuMemory;
    if (c == KernelClass::kCompute || c == KernelClass::kFused) return PathBound::kGpuCompute;
    for (int depth = 0; r != kNoRow && depth < kMaxDepth; r = e_.parent[r], ++depth) {
      const Category category = e_.category[r];
      const auto loads = [category](std::string_view name) {
        return IsDataLoading(name, category);
      };
      if ((category == Category::kPythonFunction ? frame_loads_ : row_loads_).Of(e_.name[r], loads))
        return PathBound::kDataLoading;
    }
    return PathBound::kCpu;
  }

  std::vector<Row> by_end_;
  std::vector<std::pair<Row, Row>> waited_;  // call, GPU row
  // Whether a name is that of loading data: of Python frames, and of other rows.
  mutable NameKinds<bool> frame_loads_, row_loads_;
};

}  // namespace

StatusOr<CriticalPath> FindCriticalPath(const RankView& view) {
  return view.options().hta ? FindHtaCriticalPath(view) : OurPath(view).Run();
}

}  // namespace flopwatch::trace
