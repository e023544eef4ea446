// What a trace is once it is read, whatever tool wrote it: one columnar table of the events of one
// rank, small tables of details beside it, and the links between rows. Importers (import/) fill it,
// Finish() (finish.h) sorts and links it, everything else reads it.
//
// Times are int64 nanoseconds, read as decimals and never through a double: a Kineto time of 4.4e12
// µs with three digits is exact. Zero = the Unix epoch where the trace knows its wall clock, else
// the start of the capture; ranks may have different clocks (collectives.h aligns them).
//
// Columns are parallel vectors (structure of arrays). 61 bytes an event; 1.7 M events are 105 MB.
// Rows are sorted by start time, equal times in the order of the file, after Finish(). A missing
// value is the constant below, never a zero.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "trace/intervals.h"
#include "trace/string_pool.h"
#include "trace/table_file.h"

namespace flopwatch::trace {

using Row = uint32_t;
inline constexpr Row kNoRow = std::numeric_limits<Row>::max();
inline constexpr int32_t kNoStream = -1;
inline constexpr int64_t kNoId = -1;  // correlation, external id, connection id
inline constexpr int32_t kNoStep = -1;
inline constexpr uint32_t kNoDetail = std::numeric_limits<uint32_t>::max();
inline constexpr int64_t kUnknown =
    std::numeric_limits<int64_t>::min();  // a number the trace does not give
// Rows lie within this of zero (142 years; importers drop others), so that the difference of any
// two times fits.
inline constexpr Nanos kMaxTime = 4'500'000'000'000'000'000;

// What kind of work a row is. Old and vendor names of categories map onto these
// (import/kineto_categories.cc); the name in the file is kept in EventTable::file_category.
enum class Category : uint8_t {
  // Operators: aten::*, autograd nodes, record_param_comms; Ascend PYTORCH_API; NVTX op ranges.
  kCpuOp,
  kUserAnnotation,  // record_function, ProfilerStep#N, NVTX ranges of the user, MSTX ranges
  kPythonFunction,
  kRuntime,            // cuda*/hip* API calls; Ascend CANN API
  kDriver,             // cu* API calls
  kKernel,             // GPU work
  kGpuMemcpy,          // GPU work
  kGpuMemset,          // GPU work
  kGpuUserAnnotation,  // GPU-side span of an annotation; no work of its own
  kSync,      // cuda_sync rows: Stream Sync, Event Sync, Context Sync, Stream Wait Event; no work
  kOverhead,  // of the profiler itself
  kProfilerRange,  // CUPTI counters of one kernel launch
  // Device-side span of a whole collective (Ascend COMMUNICATION_OP); its tasks are kernels.
  kGpuCollective,
  kOther,
};
std::string_view CategoryName(Category c);  // "cpu_op", "kernel", ... as Kineto writes them today
inline bool IsGpuWork(Category c) {
  return c == Category::kKernel || c == Category::kGpuMemcpy || c == Category::kGpuMemset;
}
inline bool IsLaunchApi(Category c) { return c == Category::kRuntime || c == Category::kDriver; }
// What the host says of itself: an operator, an annotation or a Python function.
inline bool IsHostBlock(Category c) {
  return c == Category::kCpuOp || c == Category::kUserAnnotation || c == Category::kPythonFunction;
}

struct EventTable {
  // One value a row.
  TableVector<Nanos> ts, dur;
  TableVector<Category> category;
  TableVector<NameId> name;
  TableVector<uint32_t> thread;  // index into RankTrace::threads
  TableVector<int32_t> stream;   // args.stream whatever the category says; kNoStream = not given
  // Launch call <-> GPU work, within one process; kNoId = not given.
  TableVector<int64_t> correlation;
  TableVector<int64_t> external_id;   // GPU work and launch calls -> operator; kNoId = not given
  TableVector<uint32_t> detail;       // index into the detail table of the row's kind; kNoDetail
  TableVector<NameId> file_category;  // the category as the file names it

  // What follows is made by Finish().
  // The index into RankTrace::steps, of CPU rows by start time, of GPU rows by launch; or kNoStep.
  TableVector<int32_t> step;
  TableVector<Row> launch;  // GPU work -> its launch call; launch call -> its first GPU row; kNoRow
  TableVector<Row> op;  // GPU work and launch calls -> innermost operator that launched it; kNoRow
  TableVector<Row> parent;  // CPU rows: innermost row of the same thread that encloses it; kNoRow

  size_t size() const { return ts.size(); }
  Nanos end(Row r) const { return ts[r] + dur[r]; }
  void Reserve(size_t rows);
};

// The details of a kKernel row. Numbers that are not given are kUnknown (integers) or NaN.
struct KernelDetail {
  int32_t device = -1;
  int64_t context = kUnknown;
  int32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};  // 0 = not given
  int32_t registers_per_thread = -1;
  int64_t shared_memory_bytes = kUnknown;
  double blocks_per_sm = std::numeric_limits<double>::quiet_NaN();
  double warps_per_sm = std::numeric_limits<double>::quiet_NaN();
  // Kineto's "est. achieved occupancy %", estimated from the launch.
  double occupancy_pct = std::numeric_limits<double>::quiet_NaN();
  int64_t graph_id = kUnknown, graph_node_id = kUnknown;
  // Index into collectives, where the kernel itself carries them (NCCL).
  uint32_t collective = kNoDetail;
  // Ascend: shapes and types stand on the kernel ("32,9216;4096,9216", "FLOAT16;FLOAT16"); "N/A" =
  // not collected.
  NameId input_shapes = kNoName, input_types = kNoName, output_shapes = kNoName;
  // The function's name without types, where the trace gives it beside the full one (Nsight).
  NameId short_name = kNoName;
};

// The details of a kGpuMemcpy or kGpuMemset row.
struct CopyDetail {
  int32_t device = -1;
  int64_t bytes = kUnknown;
  double bandwidth_gbps = std::numeric_limits<double>::quiet_NaN();  // as the trace says, GB/s
};

// The details of a kCpuOp row. The lists are kept as the text of the file ("[[32, 9216], [4096,
// 9216]]"): the operator formulas read them once a distinct text (ops/). kNoName = not recorded.
struct OpDetail {
  NameId input_dims = kNoName, input_types = kNoName, input_strides = kNoName,
         concrete_inputs = kNoName;
  NameId call_stack = kNoName, module_hierarchy = kNoName;
  int64_t sequence_number = kUnknown;  // links forward and backward
  int64_t forward_thread = kUnknown;   // != 0: a backward op
  uint32_t collective = kNoDetail;     // record_param_comms
};

// The details of record_param_comms and the NCCL kernel linked to it.
struct CollectiveDetail {
  NameId collective = kNoName;  // "allreduce", "_allgather_base", "all_to_allv", ...
  NameId dtype = kNoName;       // "Float", "BFloat16", ...
  NameId group_name = kNoName, group_description = kNoName;
  NameId group_ranks = kNoName;  // as written: "[0, 1, ...]"; may be cut by the writer
  int64_t group_size = kUnknown, in_elements = kUnknown, out_elements = kUnknown;
  int64_t sequence = kUnknown;  // "Seq" (2026)
  int64_t communicator = kUnknown;
  int64_t bytes = kUnknown;  // where the writer gives bytes (Ascend, Nsight NVTX payload)
  int32_t source_rank = -1, destination_rank = -1;
};

// The details of a kSync row.
struct SyncDetail {
  int32_t wait_on_stream = kNoStream;
  int64_t wait_on_event_id = kUnknown;
  int64_t wait_on_event_record_correlation = kUnknown;
};

// The details of a kPythonFunction row.
struct PythonDetail {
  int64_t id = kUnknown, parent_id = kUnknown, module_id = kUnknown;
};

// Counters measured over one row (kProfilerRange): one entry a metric.
struct RangeMetric {
  Row row = kNoRow;
  NameId metric = kNoName;
  double value = 0;
};

// A value of a counter track at a moment (Chrome "C" events, Nsight GPU_METRICS).
struct CounterSample {
  Nanos ts = 0;
  NameId counter = kNoName;  // with its unit as the tool names it: "Tensor Active [Throughput %]"
  int32_t device = -1;
  double value = 0;
};

// A memory event of the framework's allocator.
struct MemoryEvent {
  Nanos ts = 0;
  int64_t bytes = 0;  // negative = freed
  int64_t address = kUnknown;
  int32_t device_type = -1, device = -1;  // type 0 CPU, 1 CUDA (c10::DeviceType)
  int64_t total_allocated = kUnknown, total_reserved = kUnknown;
};

// Which operator launched which GPU work, where the trace says so by ids of its own and work may
// have several (Ascend).
struct OpLink {
  Row op = kNoRow, work = kNoRow;
};

// FLOPs that the framework itself wrote down for what a thread did in a window (torch_npu's MSTX
// domain `mfu_flops`).
struct FlopsRecord {
  Nanos begin = 0, end = 0;
  uint32_t thread = 0;
  int64_t flops = 0;  // > 0
  NameId op = kNoName;
};

// A range of a thread that stands for a call of a module (MSTX domain `Module`).
struct ModuleRange {
  Nanos begin = 0, end = 0;
  uint32_t thread = 0;
  NameId name = kNoName;
};

struct Thread {
  // Chrome's pid and tid. Rows of the GPU have the device as pid and the stream as tid. A pid that
  // is text has pid = kUnknown.
  int64_t pid = kUnknown, tid = kUnknown;
  NameId pid_text = kNoName, tid_text = kNoName;
  NameId process_name = kNoName, process_label = kNoName, name = kNoName;
};

struct Device {
  int32_t id = -1;
  std::string name;  // as the driver says: the hardware room's lookup takes it; "" = not given
  int32_t sm_count = -1, compute_major = -1, compute_minor = -1;
  int64_t memory_bytes = kUnknown;
  // FP16, FLOP/s, where the trace itself carries it (Ascend: AI cores x clock x 8192).
  double tensor_peak_flops = std::numeric_limits<double>::quiet_NaN();
};

struct ProcessGroup {
  std::string name, description, backend;
  int64_t size = kUnknown;
  std::vector<int32_t> ranks;
};

// A window of one training step, as the PyTorch TensorBoard plugin has it: from the later of the
// previous step's end and the annotation's start to the later of the annotation's end and the end
// of the last GPU work launched in it; the first one from when work launched before it is done, as
// far as that ends before the first work of its own.
struct Step {
  int64_t number = 0;  // N of ProfilerStep#N
  Row row = kNoRow;    // the annotation
  Nanos begin = 0, end = 0;
  // Whether the whole step is in the trace: false for a last step that was cut (no GPU work
  // although others have it, or less than 80 % of the previous step's GPU events).
  bool complete = true;
};

// What an importer left out or repaired, and how often. Never silent.
struct Loss {
  std::string reason;   // stable id: "bad_utf8", "event_without_time", ...
  std::string explain;  // one sentence
  int64_t count = 0;
  bool repaired = false;  // the event was kept: after a repair, or with a link missing
};

// One rank of one trace: everything one file (or folder) says.
struct RankTrace {
  int32_t rank = 0;
  bool rank_known = false;  // false: the file does not say; a number was given by order
  std::string path;         // as the user named it
  std::string format;       // the importer's name: "kineto", "nsight", "ascend"
  std::string backend;      // of torch.distributed: "nccl", "gloo"; "" = not given
  int64_t world_size = kUnknown;
  std::string nccl_version;
  bool record_shapes = false, with_stack = false, with_flops = false, profile_memory = false,
       with_modules = false;
  bool wall_clock = false;  // zero of the times is the Unix epoch
  // What the file's own times count from (baseTimeNanoseconds); the times here have it added.
  Nanos time_base = 0;
  uint64_t file_bytes = 0, text_bytes = 0;  // as stored, and decompressed

  EventTable events;
  TableVector<KernelDetail> kernels;
  TableVector<CopyDetail> copies;
  TableVector<OpDetail> ops;
  TableVector<CollectiveDetail> collectives;
  TableVector<SyncDetail> syncs;
  TableVector<PythonDetail> python;
  TableVector<RangeMetric> range_metrics;
  TableVector<CounterSample> counters;  // by time
  TableVector<MemoryEvent> memory;      // by time
  std::vector<Thread> threads;
  std::vector<Device> devices;
  std::vector<ProcessGroup> process_groups;
  std::vector<std::pair<Row, Row>>
      forward_backward;          // from "fwdbwd" flows: forward op, backward op
  TableVector<OpLink> op_links;  // Finish() sorts them by the operator's row, then the work's
  std::vector<FlopsRecord> flops_records;  // by begin
  std::vector<ModuleRange> module_ranges;  // by begin, longest first
  std::vector<std::pair<std::string, std::string>>
      metadata;  // other top-level scalars of the file, bounded
  std::vector<Loss> losses;

  // What follows is made by Finish().
  std::vector<Step> steps;
  Nanos begin = 0, end = 0;  // of all rows

  void AddLoss(std::string_view reason, std::string_view explain, int64_t count = 1,
               bool repaired = false);
  // Moves its columns into the file, which outlives it.
  void MoveTo(TableFile* file);
  // They give nullptr where the row has none.
  const KernelDetail* KernelOf(Row r) const;
  const CopyDetail* CopyOf(Row r) const;
  const OpDetail* OpOf(Row r) const;
  const SyncDetail* SyncOf(Row r) const;
  const PythonDetail* PythonOf(Row r) const;
  const CollectiveDetail* CollectiveOf(Row r) const;  // of a kernel or of an operator
  const Device* DeviceOf(int32_t id) const;
};

// All ranks of one job, ordered by rank, with one pool of names. Read-only after Load(): any
// thread.
struct TraceSet {
  // Where the ranks are more than memory should hold: where their columns lie. Ends after them.
  std::unique_ptr<TableFile> file;
  StringPool names;
  std::vector<RankTrace> ranks;

  TraceSet() = default;
  TraceSet(TraceSet&&) = default;
  // What it had ends in the right order.
  TraceSet& operator=(TraceSet&& other) noexcept {
    ranks = std::move(other.ranks);
    names = std::move(other.names);
    file = std::move(other.file);
    return *this;
  }

  std::string_view Name(const RankTrace& rank, Row r) const {
    return names.Text(rank.events.name[r]);
  }
  const RankTrace* FindRank(int32_t rank) const;
  // The earliest row of any rank: what tables show times relative to.
  Nanos origin() const;
};

}  // namespace flopwatch::trace
