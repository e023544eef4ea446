#include "trace/export/sql_tables.h"

#include <algorithm>
#include <limits>
#include <string>

#include "trace/analysis/statistics.h"
#include "trace/kernel_class.h"

namespace flopwatch::trace {
namespace {

using Integer = std::optional<int64_t>;
using Boolean = std::optional<bool>;
using Text = std::optional<std::string_view>;
using Columns = std::vector<SqlColumn>;

// A value of the event table as SQL sees it: what says "not given" is NULL.
double Value(const SqlRow&, double v) { return v; }
Integer Value(const SqlRow&, int64_t v) { return v == kUnknown ? Integer() : v; }
Integer Value(const SqlRow&, int32_t v) { return v < 0 ? Integer() : v; }
Text Value(const SqlRow& r, NameId v) { return v == kNoName ? Text() : r.names->Text(v); }

Integer IdOf(int64_t v) { return v == kNoId ? Integer() : v; }
Integer RowOf(Row v) { return v == kNoRow ? Integer() : v; }

template <typename T>
T Null() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::quiet_NaN();
  else
    return T();
}

// A member of what RankTrace knows beside a row (KernelOf, OpOf, ...).
template <auto DetailOf, auto Member>
SqlColumn Of(std::string_view name, std::string_view help) {
  return {name, help, +[](const SqlRow& r) {
            const auto* detail = (r.rank().*DetailOf)(r.at);
            using Cell = decltype(Value(r, detail->*Member));
            return detail == nullptr ? Null<Cell>() : Value(r, detail->*Member);
          }};
}

// A member of an entry of one of the rank's lists.
template <auto List, auto Member>
SqlColumn Entry(std::string_view name, std::string_view help) {
  return {name, help, +[](const SqlRow& r) { return Value(r, (r.rank().*List)[r.at].*Member); }};
}
template <auto List, auto Member>
SqlColumn EntryTime() {
  return {"ts_us", "time, µs since the earliest event of any rank",
          +[](const SqlRow& r) { return MicrosOf((r.rank().*List)[r.at].*Member - r.origin); }};
}

// One side of a launch's grid or block; 0 says that it is not given.
template <auto Sides, int kAxis>
SqlColumn Side(std::string_view name, std::string_view help) {
  return {name, help, +[](const SqlRow& r) {
            const KernelDetail* k = r.rank().KernelOf(r.at);
            return k == nullptr || (k->*Sides)[kAxis] == 0 ? Integer() : (k->*Sides)[kAxis];
          }};
}

template <auto Member>
SqlColumn ThreadMember(std::string_view name, std::string_view help) {
  return {name, help, +[](const SqlRow& r) {
            const uint32_t thread = r.events().thread[r.at];
            using Cell = decltype(Value(r, r.rank().threads[thread].*Member));
            return thread < r.rank().threads.size() ? Value(r, r.rank().threads[thread].*Member)
                                                    : Null<Cell>();
          }};
}

Columns operator+(Columns a, const Columns& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr SqlColumn kRank = {"rank", "rank",
                             [](const SqlRow& r) -> Integer { return r.rank().rank; }};
constexpr SqlColumn kStream = {"stream", "stream", [](const SqlRow& r) -> Integer {
                                 return Value(r, r.events().stream[r.at]);
                               }};
constexpr SqlColumn kCorrelation = {
    "correlation", "links a launch call and GPU work",
    [](const SqlRow& r) -> Integer { return IdOf(r.events().correlation[r.at]); }};
constexpr SqlColumn kLaunchRow = {
    "launch_row", "row of the call that launched it",
    [](const SqlRow& r) -> Integer { return RowOf(r.events().launch[r.at]); }};
constexpr SqlColumn kOpRow = {
    "op_row", "row of the operator that launched it",
    [](const SqlRow& r) -> Integer { return RowOf(r.events().op[r.at]); }};
constexpr SqlColumn kOpName = {"op_name", "its name", [](const SqlRow& r) -> Text {
                                 const Row op = r.events().op[r.at];
                                 return op == kNoRow ? Text() : Value(r, r.events().name[op]);
                               }};

SqlColumn CategoryColumn(std::string_view help) {
  return {"category", help,
          [](const SqlRow& r) -> Text { return CategoryName(r.events().category[r.at]); }};
}
SqlColumn ParentRow(std::string_view help) {
  return {"parent_row", help,
          [](const SqlRow& r) -> Integer { return RowOf(r.events().parent[r.at]); }};
}

// Which event it is, and when: the first and the next columns of every table of events.
Columns NamedColumns() {
  return {
      kRank,
      {"row", "row of the rank's events: what other tables join on",
       [](const SqlRow& r) -> Integer { return r.at; }},
      {"name", "name", [](const SqlRow& r) -> Text { return Value(r, r.events().name[r.at]); }}};
}
Columns TimedColumns() {
  return {
      {"ts_us", "start, µs since the earliest event of any rank",
       [](const SqlRow& r) -> double { return MicrosOf(r.events().ts[r.at] - r.origin); }},
      {"dur_us", "duration, µs",
       [](const SqlRow& r) -> double { return MicrosOf(r.events().dur[r.at]); }},
      {"step", "number N of ProfilerStep#N; NULL outside of steps", [](const SqlRow& r) -> Integer {
         const int32_t step = r.events().step[r.at];
         if (step == kNoStep) return {};
         return r.rank().steps[static_cast<size_t>(step)].number;
       }}};
}

Columns EventColumns() {
  return NamedColumns() + Columns{CategoryColumn("kind of row: cpu_op, kernel, ...")} +
         TimedColumns() +
         Columns{{"ts_ns", "start, ns by the trace's own clock",
                  [](const SqlRow& r) -> Integer { return r.events().ts[r.at]; }},
                 {"dur_ns", "duration, ns",
                  [](const SqlRow& r) -> Integer { return r.events().dur[r.at]; }},
                 ThreadMember<&Thread::pid>("pid", "process; the device for GPU rows"),
                 ThreadMember<&Thread::tid>("tid", "thread; the stream for GPU rows"),
                 ThreadMember<&Thread::name>("thread", "name of the thread"),
                 kStream,
                 kCorrelation,
                 {"external_id", "links GPU work and operators",
                  [](const SqlRow& r) -> Integer { return IdOf(r.events().external_id[r.at]); }},
                 ParentRow("innermost row of the same thread that encloses it"),
                 kLaunchRow,
                 kOpRow,
                 {"file_category", "category as the file names it", [](const SqlRow& r) -> Text {
                    return Value(r, r.events().file_category[r.at]);
                  }}};
}

template <auto Member>
SqlColumn OfKernel(std::string_view name, std::string_view help) {
  return Of<&RankTrace::KernelOf, Member>(name, help);
}

Columns KernelColumns() {
  using K = KernelDetail;
  return NamedColumns() + TimedColumns() +
         Columns{{"class", "COMPUTATION or COMMUNICATION",
                  [](const SqlRow& r) -> Text { return KernelClassName(r.view->classes()[r.at]); }},
                 kStream,
                 OfKernel<&K::device>("device", "device of the host"),
                 Side<&K::grid, 0>("grid_x", "blocks of the grid along x"),
                 Side<&K::grid, 1>("grid_y", "along y"),
                 Side<&K::grid, 2>("grid_z", "along z"),
                 Side<&K::block, 0>("block_x", "threads of a block along x"),
                 Side<&K::block, 1>("block_y", "along y"),
                 Side<&K::block, 2>("block_z", "along z"),
                 OfKernel<&K::registers_per_thread>("registers_per_thread", "registers a thread"),
                 OfKernel<&K::shared_memory_bytes>("shared_memory_bytes", "shared memory a block"),
                 OfKernel<&K::blocks_per_sm>("blocks_per_sm", "blocks an SM, by the launch"),
                 OfKernel<&K::warps_per_sm>("warps_per_sm", "warps an SM, by the launch"),
                 OfKernel<&K::occupancy_pct>("occupancy_pct",
                                             "estimated occupancy, per cent, by the launch"),
                 OfKernel<&K::graph_id>("graph_id", "CUDA graph"),
                 OfKernel<&K::input_shapes>("input_shapes",
                                            "shapes, where the kernel itself has them (Ascend)"),
                 OfKernel<&K::input_types>("input_types",
                                           "types, where the kernel itself has them (Ascend)"),
                 kCorrelation,
                 kLaunchRow,
                 kOpRow,
                 kOpName};
}

Columns CopyColumns() {
  constexpr auto kCopy = &RankTrace::CopyOf;
  return NamedColumns() + TimedColumns() +
         Columns{
             kStream,
             Of<kCopy, &CopyDetail::device>("device", "device of the host"),
             Of<kCopy, &CopyDetail::bytes>("bytes", "bytes"),
             Of<kCopy, &CopyDetail::bandwidth_gbps>("bandwidth_gbps", "GB/s, as the trace says"),
             kCorrelation,
             kLaunchRow,
             kOpRow,
             kOpName};
}

Columns OpColumns() {
  constexpr auto kOp = &RankTrace::OpOf;
  using O = OpDetail;
  return NamedColumns() + TimedColumns() +
         Columns{Of<kOp, &O::input_dims>("input_dims", "shapes of the inputs"),
                 Of<kOp, &O::input_types>("input_types", "types of the inputs"),
                 Of<kOp, &O::input_strides>("input_strides", "strides of the inputs"),
                 Of<kOp, &O::concrete_inputs>("concrete_inputs", "scalar inputs"),
                 Of<kOp, &O::call_stack>("call_stack", "Python stack"),
                 Of<kOp, &O::module_hierarchy>("module_hierarchy", "modules"),
                 Of<kOp, &O::sequence_number>("sequence_number", "links forward and backward"),
                 {"backward", "a backward operator",
                  [](const SqlRow& r) -> Boolean {
                    const O* op = r.rank().OpOf(r.at);
                    if (op == nullptr || op->forward_thread == kUnknown) return {};
                    return op->forward_thread != 0;
                  }},
                 ParentRow("innermost row that encloses it")};
}

// A value of the first GPU work of a call; NULL where the call launched none.
template <auto Get>
SqlColumn OfGpuWork(std::string_view name, std::string_view help) {
  return {name, help, +[](const SqlRow& r) {
            const Row gpu = r.events().launch[r.at];
            return gpu == kNoRow ? Null<decltype(Get(r, gpu))>() : Get(r, gpu);
          }};
}

Columns LaunchColumns() {
  return NamedColumns() + TimedColumns() +
         Columns{kCorrelation,
                 {"gpu_row", "row of the first GPU work of the call", kLaunchRow.value},
                 OfGpuWork<[](const SqlRow& r, Row gpu) { return Value(r, r.events().name[gpu]); }>(
                     "gpu_name", "its name"),
                 OfGpuWork<[](const SqlRow& r, Row gpu) {
                   return MicrosOf(r.events().ts[gpu] - r.origin);
                 }>("gpu_ts_us", "its start, µs"),
                 OfGpuWork<[](const SqlRow& r, Row gpu) { return MicrosOf(r.events().dur[gpu]); }>(
                     "gpu_dur_us", "its duration, µs"),
                 OfGpuWork<[](const SqlRow& r, Row gpu) {
                   return MicrosOf(r.events().ts[gpu] - r.events().end(r.at));
                 }>("delay_us",
                    "from the end of the call to the start of the work, µs; negative where it "
                    "started before"),
                 kOpRow,
                 kOpName};
}

template <auto Member>
SqlColumn OfCollective(std::string_view name, std::string_view help) {
  return Of<&RankTrace::CollectiveOf, Member>(name, help);
}

Columns CollectiveColumns() {
  using C = CollectiveDetail;
  return NamedColumns() + Columns{CategoryColumn("kernel, or cpu_op for the call")} +
         TimedColumns() +
         Columns{OfCollective<&C::collective>("collective", "allreduce, all_to_all, ..."),
                 OfCollective<&C::dtype>("dtype", "type of the elements"),
                 OfCollective<&C::group_name>("group_name", "process group"),
                 OfCollective<&C::group_description>("group_description", "its description"),
                 OfCollective<&C::group_ranks>("group_ranks", "its ranks, as written"),
                 OfCollective<&C::group_size>("group_size", "its size"),
                 OfCollective<&C::in_elements>("in_elements", "elements in"),
                 OfCollective<&C::out_elements>("out_elements", "elements out"),
                 OfCollective<&C::bytes>("bytes", "bytes, where the writer gives them"),
                 OfCollective<&C::sequence>("sequence", "sequence number in the group"),
                 OfCollective<&C::source_rank>("source_rank", "of a send or receive"),
                 OfCollective<&C::destination_rank>("destination_rank", "of a send or receive"),
                 kStream};
}

Columns StepColumns() {
  return {
      kRank,
      {"step", "number N of ProfilerStep#N",
       [](const SqlRow& r) -> Integer { return r.rank().steps[r.at].number; }},
      {"begin_us", "start, µs since the earliest event of any rank",
       [](const SqlRow& r) -> double { return MicrosOf(r.rank().steps[r.at].begin - r.origin); }},
      {"dur_us", "duration, µs",
       [](const SqlRow& r) -> double {
         return MicrosOf(r.rank().steps[r.at].end - r.rank().steps[r.at].begin);
       }},
      {"complete", "whether the whole step is in the trace",
       [](const SqlRow& r) -> Boolean { return r.rank().steps[r.at].complete; }}};
}

Columns CounterColumns() {
  constexpr auto kList = &RankTrace::counters;
  using C = CounterSample;
  return {kRank, EntryTime<kList, &C::ts>(),
          Entry<kList, &C::counter>("counter", "counter, with its unit as the tool names it"),
          Entry<kList, &C::device>("device", "device of the host"),
          Entry<kList, &C::value>("value", "value")};
}

Columns MemoryColumns() {
  constexpr auto kList = &RankTrace::memory;
  using M = MemoryEvent;
  return {kRank,
          EntryTime<kList, &M::ts>(),
          Entry<kList, &M::bytes>("bytes", "bytes; negative = freed"),
          Entry<kList, &M::device_type>("device_type", "0 CPU, 1 CUDA (c10::DeviceType)"),
          Entry<kList, &M::device>("device", "device of the host"),
          Entry<kList, &M::total_allocated>("total_allocated", "allocated after it, bytes"),
          Entry<kList, &M::total_reserved>("total_reserved", "reserved after it, bytes")};
}

Columns RankColumns() {
  return {kRank,
          {"path", "file", [](const SqlRow& r) -> Text { return r.rank().path; }},
          {"format", "format", [](const SqlRow& r) -> Text { return r.rank().format; }},
          {"events", "events",
           [](const SqlRow& r) -> Integer { return static_cast<int64_t>(r.events().size()); }},
          {"device", "first device of the host",
           [](const SqlRow& r) -> Text {
             if (r.rank().devices.empty()) return {};
             return r.rank().devices.front().name;
           }},
          {"world_size", "ranks of the job",
           [](const SqlRow& r) -> Integer { return Value(r, r.rank().world_size); }}};
}

// One end of the window where a finding is to be seen; NULL where it has none.
template <auto End>
SqlColumn WindowEnd(std::string_view name) {
  return {name, "window to look at, µs", +[](const SqlRow& r) {
            const Interval& window = r.finding->window;
            return window.end > window.begin ? MicrosOf(window.*End - r.origin) : Null<double>();
          }};
}

Columns FindingColumns() {
  return {{"id", "rule", [](const SqlRow& r) -> Text { return r.finding->id; }},
          {"severity", "info, warning, critical",
           [](const SqlRow& r) -> Text { return SeverityName(r.finding->severity); }},
          {"gain", "share of the step that could be recovered at most",
           [](const SqlRow& r) -> double { return r.finding->gain; }},
          {"title", "one line", [](const SqlRow& r) -> Text { return r.finding->title; }},
          {"advice", "what to do", [](const SqlRow& r) -> Text { return r.finding->advice; }},
          {"rank", "where to look", [](const SqlRow& r) -> Integer { return r.finding->rank; }},
          {"step", "where to look", [](const SqlRow& r) -> Integer { return r.finding->step; }},
          WindowEnd<&Interval::begin>("begin_us"),
          WindowEnd<&Interval::end>("end_us")};
}

bool IsCopy(const RankTrace& r, Row row) {
  const Category c = r.events.category[row];
  return c == Category::kGpuMemcpy || c == Category::kGpuMemset;
}
template <Category kCategory>
bool Is(const RankTrace& r, Row row) {
  return r.events.category[row] == kCategory;
}
template <auto List>
size_t SizeOf(const RankTrace& r) {
  return (r.*List).size();
}

}  // namespace

const std::vector<SqlSource>& SqlSources() {
  static const auto* const sources = new std::vector<SqlSource>{
      {"events", "every event of the trace", EventColumns(), nullptr,
       [](const RankTrace& r) { return r.events.size(); }},
      {"kernels", "GPU kernels", KernelColumns(), Is<Category::kKernel>},
      {"copies", "GPU copies and sets of memory", CopyColumns(), IsCopy},
      {"ops", "operators on the CPU", OpColumns(), Is<Category::kCpuOp>},
      {"launches", "calls of the runtime and driver, with the GPU work they launched",
       LaunchColumns(),
       [](const RankTrace& r, Row row) { return IsLaunchApi(r.events.category[row]); }},
      {"collectives", "kernels and calls that carry a collective's metadata", CollectiveColumns(),
       [](const RankTrace& r, Row row) { return r.CollectiveOf(row) != nullptr; }},
      {"steps", "training steps", StepColumns(), nullptr, SizeOf<&RankTrace::steps>},
      {"counters", "values of counter tracks", CounterColumns(), nullptr,
       SizeOf<&RankTrace::counters>},
      {"memory", "events of the framework's allocator", MemoryColumns(), nullptr,
       SizeOf<&RankTrace::memory>},
      {"ranks", "the ranks", RankColumns(), nullptr, [](const RankTrace&) { return size_t{1}; }},
      {"findings", "what the rules found", FindingColumns()}};
  return *sources;
}

Table SqlSchema() {
  static constexpr const char* kTypes[] = {"BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"};
  Table t;
  t.columns = {{"table", "table"}, {"column", "column"}, {"type", "type"}, {"meaning", "meaning"}};
  for (const SqlSource& s : SqlSources()) {
    for (const SqlColumn& c : s.columns)
      t.rows.push_back({std::string(s.name), std::string(c.name),
                        std::string(kTypes[c.value.index()]), std::string(c.help)});
  }
  return t;
}

uint64_t SqlTable::rows() const {
  std::call_once(found_, [this] { FindRows(); });
  return count_;
}

void SqlTable::FindRows() const {
  origin_ = input_.set().origin();
  if (source_.size == nullptr && source_.keep == nullptr) {
    findings_ = FindAll(input_);
    count_ = findings_.findings.size();
    return;
  }
  for (const auto& view : input_.ranks()) {
    first_of_.push_back(count_);
    const RankTrace& rank = view->rank();
    if (source_.size != nullptr) {
      count_ += source_.size(rank);
      continue;
    }
    for (Row r = 0; r < rank.events.size(); ++r)
      if (source_.keep(rank, r)) kept_.push_back(r);
    count_ = kept_.size();
  }
}

size_t SqlTable::RankOf(uint64_t at) const {
  return static_cast<size_t>(std::upper_bound(first_of_.begin(), first_of_.end(), at) -
                             first_of_.begin()) -
         1;
}

}  // namespace flopwatch::trace
