#include "trace/findings/measures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "trace/analysis/sm_load.h"
#include "trace/findings/host_names.h"
#include "trace/name_predicate.h"
#include "trace/parallel.h"

namespace flopwatch::trace {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// A thread that launches less of the GPU's work than this is not one whose waiting starves the GPU.
constexpr double kLaunchThreadShare = 0.05;

// What a host row that is no call tells, by its name.
enum class HostBlockKind : uint8_t {
  kWork,
  kDataLoading,
  kStepMark,
  kGloo,  // waits for other ranks
  kOutput,
  kCollection,
};

HostBlockKind HostBlockKindOf(std::string_view name, Category category) {
  if (IsStepName(name)) return HostBlockKind::kStepMark;
  if (name.starts_with("gloo:")) return HostBlockKind::kGloo;
  if (IsDataLoading(name, category)) return HostBlockKind::kDataLoading;
  if (IsCollectionName(name)) return HostBlockKind::kCollection;
  return IsOutputName(name) ? HostBlockKind::kOutput : HostBlockKind::kWork;
}

// Joins intervals that come by rising begin.
void Append(IntervalSet* set, Nanos begin, Nanos end) {
  if (end <= begin) return;
  if (!set->empty() && begin <= set->back().end)
    set->back().end = std::max(set->back().end, end);
  else
    set->push_back({begin, end});
}

std::vector<SmLoad> LoadsOf(const RankMeasures& m) {
  std::vector<SmLoad> loads;
  for (const Row r : m.gpu) {
    const KernelDetail* k = m.rank.KernelOf(r);
    if (k == nullptr) continue;
    const double blocks = m.BlocksPerSm(*k);
    if (!std::isnan(blocks)) loads.push_back({{m.events.ts[r], m.events.end(r)}, blocks});
  }
  return loads;
}

}  // namespace

RankMeasures::RankMeasures(const RankView& v)
    : view(v), rank(v.rank()), events(v.events()), names(v.set().names) {
  call_kind_.resize(names.size());
  for (Row r = 0; r < events.size(); ++r) {
    if (!IsLaunchApi(events.category[r])) continue;
    std::optional<CallKind>& kind = call_kind_[events.name[r]];
    if (!kind) kind = CallKindOf(Name(r));
  }
  FindWindows();
  MeasureGpu();
  MeasureHost();
  MeasureWaits();
  TakeAll(v.set().file.get(), &windows, &gpu_windows, &gpu, &idle, &gaps, &host_busy, &loader,
          &loader_idle, &idle_rest, &syncs, &profiler, &output, &collection, &blocking, &waiting,
          &host_rows_);
}

CallKind RankMeasures::CallOf(Row r) const {
  if (!IsLaunchApi(events.category[r])) return CallKind::kOther;
  return call_kind_[events.name[r]].value_or(CallKind::kOther);
}

bool RankMeasures::FromGraph(Row r) const {
  const KernelDetail* k = rank.KernelOf(r);
  if (k != nullptr && (k->graph_id > 0 || k->graph_node_id > 0)) return true;
  return events.launch[r] != kNoRow && CallOf(events.launch[r]) == CallKind::kGraphLaunch;
}

const CollectiveDetail* RankMeasures::CollectiveOf(Row r) const {
  if (const CollectiveDetail* own = rank.CollectiveOf(r); own != nullptr) return own;
  // record_param_comms encloses nccl:*, c10d::* and the launch.
  constexpr int kMaxParents = 64;
  Row op = events.op[r];
  for (int i = 0; i < kMaxParents && op != kNoRow; ++i, op = events.parent[op])
    if (const CollectiveDetail* c = rank.CollectiveOf(op); c != nullptr) return c;
  return nullptr;
}

int64_t RankMeasures::Blocks(const KernelDetail& k) const {
  const auto axis = [](int32_t n) { return static_cast<int64_t>(std::max(n, 0)); };
  // A grid has at most 2^31 x 2^16 x 2^16 blocks.
  return k.grid[0] <= 0 ? 0
                        : std::min<int64_t>(axis(k.grid[0]) * std::max<int64_t>(axis(k.grid[1]), 1),
                                            int64_t{1} << 40) *
                              std::min<int64_t>(std::max<int64_t>(axis(k.grid[2]), 1), 65536);
}

double RankMeasures::BlocksPerSm(const KernelDetail& k) const {
  if (!std::isnan(k.blocks_per_sm)) return k.blocks_per_sm;
  if (const int64_t blocks = Blocks(k); blocks > 0 && sm_count > 0)
    return static_cast<double>(blocks) / sm_count;
  return kNaN;
}

std::optional<int64_t> RankMeasures::StepAt(Nanos t) const {
  const auto it = std::ranges::upper_bound(rank.steps, t, {}, &Step::begin);
  if (it == rank.steps.begin() || std::prev(it)->end <= t) return std::nullopt;
  return std::prev(it)->number;
}

Row RankMeasures::FirstFrom(Nanos t) const {
  return static_cast<Row>(std::lower_bound(events.ts.begin(), events.ts.end(), t) -
                          events.ts.begin());
}

bool RankMeasures::IsStepAnnotation(Row r) const { return IsStepName(Name(r)); }

Row RankMeasures::HostRowAt(Nanos t) const {
  // Rows of other threads may lie between; each of them is looked at with its parents. Bounded: a
  // hostile file nests and interleaves as it likes.
  constexpr int kMaxRows = 64, kMaxParents = 512;
  auto it = std::upper_bound(host_rows_.begin(), host_rows_.end(), t,
                             [&](Nanos at, Row r) { return at < events.ts[r]; });
  for (int i = 0; i < kMaxRows && it != host_rows_.begin(); ++i) {
    Row at = *--it;
    for (int up = 0; up < kMaxParents && at != kNoRow && events.end(at) <= t; ++up)
      at = events.parent[at];
    if (at != kNoRow && events.end(at) > t && !IsStepAnnotation(at)) return at;
  }
  return kNoRow;
}

void RankMeasures::FindWindows() {
  for (size_t i = 0; i < rank.steps.size(); ++i)
    if (rank.steps[i].complete) steps.push_back(static_cast<int32_t>(i));
  if (steps.empty())
    for (size_t i = 0; i < rank.steps.size(); ++i) steps.push_back(static_cast<int32_t>(i));
  has_steps = !steps.empty();
  const Interval span = view.gpu_span();
  if (has_steps) {
    Intervals pieces;
    for (const int32_t s : steps)
      pieces.push_back(
          {rank.steps[static_cast<size_t>(s)].begin, rank.steps[static_cast<size_t>(s)].end});
    windows = Merge(std::move(pieces));
    step_count = static_cast<double>(steps.size());
  } else {
    windows = Merge({span.end > span.begin ? span : Interval{rank.begin, rank.end}});
  }
  step_time = Length(windows);
  gpu_windows = span.end > span.begin ? Clip(windows, span.begin, span.end) : IntervalSet{};
}

double RankMeasures::EmptySmTime(const IntervalSet& set) const {
  return static_cast<double>(Length(set)) - BusySmTime(LoadsOf(*this), set);
}

void RankMeasures::MeasureGpu() {
  Cursor in(windows);
  absl::flat_hash_map<int32_t, int64_t> devices;
  for (const Row r : view.gpu_rows()) {
    if (!in.Contains(events.ts[r])) continue;
    gpu.push_back(r);
    if (events.category[r] != Category::kKernel) continue;
    ++kernels;
    if (ClassOf(r) == KernelClass::kCompute) compute_sum += events.dur[r];
    if (const KernelDetail* k = rank.KernelOf(r)) ++devices[k->device];
  }
  int64_t most = 0;
  for (const auto& [id, count] : devices) {
    if (count > most || (count == most && device != nullptr && id < device->id)) {
      if (const Device* d = rank.DeviceOf(id)) {
        device = d;
        most = count;
      }
    }
  }
  if (device == nullptr && rank.devices.size() == 1) device = &rank.devices[0];
  if (device != nullptr) {
    if (auto found = hardware::Catalog::Builtin().Find(device->name); found.ok())
      accelerator = *found;
    sm_count = std::max(device->sm_count, 0);
  }
  if (sm_count == 0 && accelerator != nullptr) sm_count = accelerator->sm_count.value_or(0);

  const std::vector<SmLoad> loads = LoadsOf(*this);
  sm_efficiency = loads.empty() || step_time == 0
                      ? kNaN
                      : BusySmTime(loads, windows) / static_cast<double>(step_time);

  idle = Subtract(gpu_windows, view.busy());
  const Nanos in_gpu_windows = Length(gpu_windows);
  idle_share = in_gpu_windows > 0 ? static_cast<double>(Length(idle)) / in_gpu_windows : 0;
  busy_time = Length(Intersect(windows, view.busy()));
  compute_busy = Length(Intersect(windows, view.computing()));
  communication_busy = Length(Intersect(windows, view.busy(KernelClass::kCommunication)));
  memory_busy = Length(Intersect(windows, view.busy(KernelClass::kMemory)));
  exposed_communication = Length(Intersect(windows, view.exposed_communication()));

  const TableVector<Row>& all = view.gpu_rows();
  size_t next = 0;
  for (const Interval& i : idle) {
    while (next < all.size() && events.ts[all[next]] < i.end) ++next;
    gaps.push_back({i, next < all.size() && events.ts[all[next]] == i.end ? all[next] : kNoRow});
  }

  // A stream's gap is from the end of all that ran on it before to the next work, as in
  // idle_time_breakdown.
  absl::flat_hash_map<int32_t, Nanos> last_end;
  for (const Row r : gpu) {
    auto [it, first] = last_end.try_emplace(events.stream[r], events.end(r));
    if (first) continue;
    if (events.ts[r] > it->second) {
      const Nanos gap = events.ts[r] - it->second;
      stream_gaps += gap;
      if (events.launch[r] != kNoRow && events.ts[events.launch[r]] > it->second) host_wait += gap;
    }
    it->second = std::max(it->second, events.end(r));
  }
}

void RankMeasures::MeasureHost() {
  launches.assign(rank.threads.size(), false);
  std::vector<int64_t> launched(rank.threads.size(), 0);
  int64_t all = 0;
  for (const Row r : gpu) {
    if (events.launch[r] == kNoRow) continue;
    ++launched[events.thread[events.launch[r]]];
    ++all;
  }
  bool any = false;
  for (size_t t = 0; t < launched.size(); ++t) {
    launches[t] = launched[t] > 0 && launched[t] >= kLaunchThreadShare * all;
    any = any || launches[t];
  }
  // Data loading counts on the threads that launch, and on the one that runs the steps.
  std::vector<bool> waits = launches;
  for (const Step& s : rank.steps) waits[events.thread[s.row]] = true;
  const bool any_wait = any || !rank.steps.empty();

  NameKinds<HostBlockKind> kinds(names);
  IntervalSet busy, load, load_elsewhere;
  std::vector<Row> outputs, collections;
  Cursor in(windows);
  for (Row r = 0; r < events.size(); ++r) {
    const Category c = events.category[r];
    const bool block = IsHostBlock(c);
    if (c == Category::kOverhead) Append(&profiler, events.ts[r], events.end(r));
    if (!block && !IsLaunchApi(c)) continue;
    const uint32_t thread = events.thread[r];
    if (block) {
      const HostBlockKind kind =
          kinds.Of(events.name[r], [c](std::string_view name) { return HostBlockKindOf(name, c); });
      if (kind == HostBlockKind::kStepMark) continue;
      if (kind == HostBlockKind::kGloo) Append(&waiting, events.ts[r], events.end(r));
      if (kind == HostBlockKind::kDataLoading)
        Append(waits[thread] || !any_wait ? &load : &load_elsewhere, events.ts[r], events.end(r));
      const bool launching = !any || launches[thread];
      if (launching && kind == HostBlockKind::kOutput) outputs.push_back(r);
      if (launching && kind == HostBlockKind::kCollection) collections.push_back(r);
    }
    if (any && !launches[thread]) continue;
    host_rows_.push_back(r);
    host_events += in.Contains(events.ts[r]);
    Append(&busy, events.ts[r], events.end(r));
    if (!block) {
      const CallKind kind = CallOf(r);
      if (kind == CallKind::kSync || kind == CallKind::kBlockingCopy) {
        Append(&waiting, events.ts[r], events.end(r));
        Append(&blocking, events.ts[r], events.end(r));
      }
    }
  }
  // A program that gets its batches on a thread that neither launches nor has the steps.
  if (load.empty()) load = std::move(load_elsewhere);
  loader = Intersect(load, windows);
  loader_idle = Subtract(loader, view.busy());
  host_busy = Subtract(Subtract(busy, waiting), load);
  output_rows = QuietBlocks(outputs);
  for (const Row r : output_rows) Append(&output, events.ts[r], events.end(r));
  for (const Row r : QuietBlocks(collections)) Append(&collection, events.ts[r], events.end(r));
  idle_rest = Subtract(idle, loader);
  const Nanos in_gpu_windows = Length(gpu_windows);
  idle_rest_share =
      in_gpu_windows > 0 ? static_cast<double>(Length(idle_rest)) / in_gpu_windows : 0;
}

std::vector<Row> RankMeasures::QuietBlocks(const std::vector<Row>& rows) const {
  constexpr double kComputes = 0.10;  // of a block: more, and it is a frame around other work
  // Computing time up to each of its intervals, so that a block costs a search however long it is.
  const IntervalSet& computing = view.computing();
  std::vector<Nanos> before(computing.size() + 1, 0);
  for (size_t i = 0; i < computing.size(); ++i)
    before[i + 1] = before[i] + computing[i].end - computing[i].begin;
  const auto computed_until = [&](Nanos t) {
    const auto it = std::ranges::upper_bound(computing, t, {}, &Interval::begin);
    const auto i = static_cast<size_t>(it - computing.begin());
    return i == 0 ? 0 : before[i] - std::max<Nanos>(0, computing[i - 1].end - t);
  };
  std::vector<Row> out;
  for (const Row r : rows) {
    if (!out.empty() && events.end(r) <= events.end(out.back())) continue;  // inside of that one
    const Nanos computed = computed_until(events.end(r)) - computed_until(events.ts[r]);
    if (static_cast<double>(computed) <= kComputes * static_cast<double>(events.dur[r]))
      out.push_back(r);
  }
  return out;
}

// Goes through the calls in their order and knows when the work of each stream that was launched
// until then ends.
void RankMeasures::MeasureWaits() {
  Cursor in(windows);
  absl::flat_hash_map<int32_t, Nanos> stream_end;
  absl::flat_hash_map<Row, Nanos> graph_end;  // of graph launches, which have many rows
  for (const Row r : view.gpu_rows()) {
    const Row call = events.launch[r];
    if (call == kNoRow || events.launch[call] == r) continue;
    Nanos& end = graph_end[call];
    end = std::max(end, events.end(r));
  }
  Nanos all_end = std::numeric_limits<Nanos>::min();
  for (Row r = 0; r < events.size(); ++r) {
    if (!IsLaunchApi(events.category[r])) continue;
    const CallKind kind = CallOf(r);
    const bool blocks = kind == CallKind::kSync || kind == CallKind::kBlockingCopy;
    if (blocks && in.Contains(events.ts[r])) syncs.push_back(r);
    const Row work = events.launch[r];
    if (blocks || kind == CallKind::kCopy || kind == CallKind::kAllocate) {
      Nanos until = all_end;
      const bool one_stream = kind == CallKind::kCopy || kind == CallKind::kSync;
      if (one_stream && work != kNoRow && events.stream[work] >= 0) {
        const auto known = stream_end.find(events.stream[work]);
        until = known == stream_end.end() ? events.ts[r] : known->second;
      }
      if (until > events.ts[r]) own_begin_[r] = std::min(until, events.end(r));
    }
    if (work == kNoRow || !IsGpuWork(events.category[work])) continue;
    Nanos end = events.end(work);
    if (const auto graph = graph_end.find(r); graph != graph_end.end())
      end = std::max(end, graph->second);
    const auto [it, added] = stream_end.try_emplace(events.stream[work], end);
    it->second = std::max(it->second, end);
    all_end = std::max(all_end, end);
  }
}

Interval RankMeasures::OwnPart(Row call) const {
  const auto waited = own_begin_.find(call);
  return {waited == own_begin_.end() ? events.ts[call] : waited->second, events.end(call)};
}

bool RankMeasures::HostCouldKeepAhead(const IntervalSet& spared) const {
  return Length(Subtract(Intersect(host_busy, windows), spared)) - ProfilerCost() < busy_time;
}

IntervalSet RankMeasures::UntilAhead(const IntervalSet& from) const {
  // A host that is ahead has some milliseconds of work in the queue; one that is not has at times
  // as much as the last long kernel took.
  constexpr Nanos kLead = 1'000'000;
  IntervalSet out;
  bool behind = false;
  size_t next = 0;
  for (const IdleGap& gap : gaps) {
    while (next < from.size() && from[next].end <= gap.at.begin) ++next;
    const bool after_wait = next < from.size() && from[next].begin < gap.at.end;
    const Row call = gap.next == kNoRow ? kNoRow : events.launch[gap.next];
    behind = after_wait || (behind && call != kNoRow && gap.at.begin - events.ts[call] < kLead);
    if (behind) out.push_back(gap.at);
  }
  return out;
}

Measures::Measures(const AnalysisInput& input) : input_(input), ranks_(input.ranks().size()) {
  ForEachOnThreads(ranks_.size(), std::min(input.options().threads, 64), [&](size_t i) {
    ranks_[i] = std::make_unique<RankMeasures>(*input.ranks()[i]);
  });
}

}  // namespace flopwatch::trace
