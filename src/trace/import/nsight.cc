// Nsight Systems SQLite exports. Tables appear when there is data and columns come and go with the
// version, so nothing but the kernel's and the call's times and ids is taken for granted (NVIDIA's
// export guide; export schema 3.25 as seen).
//
// A process is a rank: correlation ids are unique within one process only. A process that NCCL says
// holds several ranks, one a GPU, becomes one rank a GPU. Times are made wall clock where the
// export has the session's start. Text of an NVTX range is in `text` or, as an id, in `textId`.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/json_read.h"
#include "trace/import/importers.h"
#include "trace/import/nsight_text.h"
#include "trace/import/row_writer.h"
#include "trace/import/sqlite_reader.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kKernels = "CUPTI_ACTIVITY_KIND_KERNEL",
                           kRuntime = "CUPTI_ACTIVITY_KIND_RUNTIME",
                           kMemcpy = "CUPTI_ACTIVITY_KIND_MEMCPY",
                           kMemset = "CUPTI_ACTIVITY_KIND_MEMSET",
                           kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                           kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kNvtx = "NVTX_EVENTS",
                           kMetrics = "GPU_METRICS";
// NVTX_EVENTS.eventType.
constexpr int64_t kPushPop = 59, kStartEnd = 60, kDomain = 75;
constexpr size_t kMaxProcesses = 4096;

// Serialised ids have the process in bits 24..47, the thread below; above them the host and its
// virtual machine (not 0 on WSL).
int64_t PidOf(int64_t global) { return (global >> 24) & 0xFFFFFF; }
int64_t TidOf(int64_t global) { return global & 0xFFFFFF; }

std::string_view MemoryKind(int64_t kind) {
  constexpr std::string_view kNames[] = {"Pageable", "Pinned", "Device", "Array",
                                         "Managed",  "Device", "Managed"};
  return kind >= 0 && kind < static_cast<int64_t>(std::size(kNames)) ? kNames[kind] : "Unknown";
}

// Names copies as Kineto does, so that every rule that reads such names works here too.
std::string CopyName(int64_t kind, int64_t from, int64_t to) {
  constexpr std::string_view kKinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                         "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
  const std::string_view way =
      kind > 0 && kind < static_cast<int64_t>(std::size(kKinds)) ? kKinds[kind] : "unknown";
  return fmt::format("Memcpy {} ({} -> {})", way, MemoryKind(from), MemoryKind(to));
}

std::string_view SyncName(int64_t type) {
  constexpr std::string_view kNames[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                         "Stream Sync", "Context Sync"};
  return type >= 0 && type < static_cast<int64_t>(std::size(kNames)) ? kNames[type] : kNames[0];
}

// What NCCL said about a communicator when it was made.
struct NcclRank {
  int32_t device = -1, rank = -1;
  int64_t ranks = kUnknown;
};

struct Process {
  ImportedRank imported;
  std::unique_ptr<RowWriter> writer;
  absl::flat_hash_set<int32_t> devices;
  std::vector<NcclRank> nccl;
};

class NsightExport {
 public:
  NsightExport(const std::string& path, const ImportOptions& options, SqliteReader* db)
      : path_(path), options_(options), db_(db) {}

  StatusOr<std::vector<ImportedRank>> Read() {
    if (!db_->has_table(kKernels) && !db_->has_table(kNvtx) && !db_->has_table(kRuntime))
      return InvalidArgument(
          "{} has no table {}, {} or {}: export the report with 'nsys export --type sqlite'", path_,
          kKernels, kRuntime, kNvtx);
    ReadFacts();
    Scan("StringIds", {"id", "value"}, [&](const auto& r) {
      const std::string_view text = r.text(1).substr(0, kMaxNameBytes);
      if (options_.guard == nullptr || options_.guard->TakeNames(1, text.size()).ok())
        strings_[r.integer_or(0, -1)] = std::string(text);
    });
    ReadKernels();
    ReadCopies();
    ReadGraphs();
    ReadSyncs();
    ReadCalls();
    ReadNvtx();
    ReadMetrics();
    return Finish();
  }

 private:
  template <typename F>
  void Scan(std::string_view table, std::initializer_list<std::string_view> columns, F&& each) {
    uint64_t stopped = 0;
    const Status status = db_->Scan(table, columns, [&](const SqliteReader::Record& r) {
      each(r);
      if (last_ != nullptr && !taken_.GoOn(events_, last_->imported.names)) return false;
      stopped = events_ >= options_.max_events;
      return stopped == 0;
    });
    if (stopped != 0)
      losses_.push_back({"event_limit", "the trace has more events than are read at most", 1});
    if (!status.ok()) losses_.push_back({"broken_table", std::string(status.message()), 1});
    if (options_.progress)
      options_.progress(std::min<uint64_t>(++scans_, 10) * db_->file_bytes() / 10,
                        db_->file_bytes());
  }

  void Lose(std::string_view reason, std::string_view explain) {
    for (Loss& loss : losses_) {
      if (loss.reason == reason) {
        ++loss.count;
        return;
      }
    }
    losses_.push_back({std::string(reason), std::string(explain), 1});
  }

  // The rank under construction of the process behind a serialised id; nullptr beyond the limit.
  Process* ProcessOf(std::optional<int64_t> global) {
    const int64_t pid = PidOf(global.value_or(0));
    if (last_ != nullptr && pid == last_pid_) return last_;
    auto it = processes_.find(pid);
    if (it == processes_.end()) {
      if (processes_.size() >= kMaxProcesses) {
        Lose("too_many_processes", "rows of more processes than are read");
        return nullptr;
      }
      it = processes_.emplace(pid, std::make_unique<Process>()).first;
      it->second->writer = std::make_unique<RowWriter>(&it->second->imported);
    }
    last_pid_ = pid;
    return last_ = it->second.get();
  }

  NameId Name(Process* p, std::string_view text) { return p->writer->Name(text); }
  NameId String(Process* p, std::optional<int64_t> id) {
    const auto it = id ? strings_.find(*id) : strings_.end();
    return it == strings_.end() ? kNoName : p->writer->Name(it->second);
  }

  // A row of the export in a process; kNoRow where it has no times.
  Row Add(Process* p, Category category, NameId name, std::string_view table,
          std::optional<int64_t> begin, std::optional<int64_t> end, uint32_t thread, int32_t stream,
          std::optional<int64_t> correlation, uint32_t detail) {
    if (!begin || !end) {
      Lose("event_without_time", "rows without a start or an end");
      return kNoRow;
    }
    ++events_;
    // An end before the start (never written) is 0 in some exports.
    Nanos from = 0, to = 0;
    if (__builtin_add_overflow(*begin, epoch_, &from) || __builtin_add_overflow(*end, epoch_, &to))
      from = -1;
    return p->writer->Add({category, name, Name(p, table), from, to, thread, stream,
                           correlation.value_or(kNoId), detail});
  }

  void ReadFacts() {
    Scan("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const auto& r) {
      const int64_t epoch = r.integer_or(0, 0);
      if (epoch > 0 && epoch < int64_t{4'000'000'000'000'000'000}) epoch_ = epoch;
    });
    Scan("META_DATA_EXPORT", {"name", "value"}, [&](const auto& r) {
      if (metadata_.size() < 64)
        metadata_.emplace_back(r.text(0).substr(0, 256), r.text(1).substr(0, 4096));
    });
    Scan("TARGET_INFO_GPU",
         {"id", "name", "smCount", "cuDevice", "pwGpuId", "computeMajor", "computeMinor",
          "totalMemory"},
         [&](const auto& r) {
           if (devices_.size() >= 1024) return;
           Device d;
           // The CUDA device is what kernels name; the row's own id and the counters' id may be in
           // another order.
           d.id = static_cast<int32_t>(
               r.integer_or(3, r.integer_or(0, static_cast<int64_t>(devices_.size()))));
           d.name = std::string(r.text(1).substr(0, 256));
           d.sm_count = static_cast<int32_t>(r.integer_or(2, -1));
           d.compute_major = static_cast<int32_t>(r.integer_or(5, -1));
           d.compute_minor = static_cast<int32_t>(r.integer_or(6, -1));
           d.memory_bytes = r.integer_or(7, kUnknown);
           if (const auto pw = r.integer(4)) cuda_of_counter_gpu_.try_emplace(*pw, d.id);
           devices_.push_back(std::move(d));
         });
  }

  uint32_t DeviceThread(Process* p, int32_t device, int32_t stream) {
    p->devices.insert(device);
    return p->writer->ThreadOf(device, stream);
  }

  void ReadKernels() {
    Scan(kKernels,
         {"start",
          "end",
          "deviceId",
          "streamId",
          "correlationId",
          "globalPid",
          "demangledName",
          "shortName",
          "gridX",
          "gridY",
          "gridZ",
          "blockX",
          "blockY",
          "blockZ",
          "registersPerThread",
          "staticSharedMemory",
          "dynamicSharedMemory",
          "graphId",
          "graphNodeId",
          "contextId",
          "mangledName"},
         [&](const auto& r) {
           Process* const p = ProcessOf(r.integer(5));
           if (p == nullptr) return;
           const auto small = [&](int column) {
             return static_cast<int32_t>(r.integer_or(column, 0));
           };
           KernelDetail k;
           k.device = static_cast<int32_t>(r.integer_or(2, -1));
           k.context = r.integer_or(19, kUnknown);
           for (int i = 0; i < 3; ++i) {
             k.grid[i] = small(8 + i);
             k.block[i] = small(11 + i);
           }
           k.registers_per_thread = static_cast<int32_t>(r.integer_or(14, -1));
           if (!r.null(15) || !r.null(16))
             k.shared_memory_bytes =
                 r.integer_or(15, 0) + std::max<int64_t>(0, r.integer_or(16, 0));
           if (r.integer_or(17, 0) != 0) k.graph_id = *r.integer(17);
           k.graph_node_id = r.integer_or(18, kUnknown);
           k.short_name = String(p, r.integer(7));
           NameId name = String(p, r.integer(6));
           if (name == kNoName)
             name = k.short_name != kNoName ? k.short_name : String(p, r.integer(20));
           const auto stream = static_cast<int32_t>(r.integer_or(3, kNoStream));
           const auto detail = static_cast<uint32_t>(p->imported.trace.kernels.size());
           if (Add(p, Category::kKernel, name, "kernel", r.integer(0), r.integer(1),
                   DeviceThread(p, k.device, stream), stream, r.integer(4), detail) != kNoRow) {
             p->imported.trace.kernels.push_back(k);
           }
         });
  }

  void ReadCopies() {
    const auto add = [&](const auto& r, Category category, std::string_view file_category,
                         const std::string& name) {
      Process* const p = ProcessOf(r.integer(5));
      if (p == nullptr) return;
      const CopyDetail copy{static_cast<int32_t>(r.integer_or(2, -1)), r.integer_or(6, kUnknown)};
      const auto stream = static_cast<int32_t>(r.integer_or(3, kNoStream));
      const auto detail = static_cast<uint32_t>(p->imported.trace.copies.size());
      if (Add(p, category, Name(p, name), file_category, r.integer(0), r.integer(1),
              DeviceThread(p, copy.device, stream), stream, r.integer(4), detail) != kNoRow) {
        p->imported.trace.copies.push_back(copy);
      }
    };
    Scan(kMemcpy,
         {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
          "srcKind", "dstKind"},
         [&](const auto& r) {
           add(r, Category::kGpuMemcpy, "gpu_memcpy",
               CopyName(r.integer_or(7, 0), r.integer_or(8, -1), r.integer_or(9, -1)));
         });
    Scan(kMemset,
         {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "memKind"},
         [&](const auto& r) {
           add(r, Category::kGpuMemset, "gpu_memset",
               fmt::format("Memset ({})", MemoryKind(r.integer_or(7, -1))));
         });
  }

  // Graphs traced as a whole ("--cuda-graph-trace=graph"): one row for all that a replay ran.
  void ReadGraphs() {
    Scan(kGraphs, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId"},
         [&](const auto& r) {
           Process* const p = ProcessOf(r.integer(5));
           if (p == nullptr) return;
           KernelDetail k;
           k.device = static_cast<int32_t>(r.integer_or(2, -1));
           k.graph_id = r.integer_or(6, kUnknown);
           const auto stream = static_cast<int32_t>(r.integer_or(3, kNoStream));
           const auto detail = static_cast<uint32_t>(p->imported.trace.kernels.size());
           if (Add(p, Category::kKernel, Name(p, "CUDA graph, traced as a whole"), "graph",
                   r.integer(0), r.integer(1), DeviceThread(p, k.device, stream), stream,
                   r.integer(4), detail) != kNoRow) {
             p->imported.trace.kernels.push_back(k);
           }
         });
  }

  void ReadSyncs() {
    Scan(kSyncs,
         {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType",
          "eventId"},
         [&](const auto& r) {
           Process* const p = ProcessOf(r.integer(5));
           if (p == nullptr) return;
           const auto device = static_cast<int32_t>(r.integer_or(2, -1)),
                      stream = static_cast<int32_t>(r.integer_or(3, kNoStream));
           const auto detail = static_cast<uint32_t>(p->imported.trace.syncs.size());
           if (Add(p, Category::kSync, Name(p, SyncName(r.integer_or(6, 0))), "cuda_sync",
                   r.integer(0), r.integer(1), p->writer->ThreadOf(device, stream), stream,
                   r.integer(4), detail) != kNoRow) {
             SyncDetail sync;
             sync.wait_on_event_id = r.integer_or(7, kUnknown);
             p->imported.trace.syncs.push_back(sync);
           }
         });
  }

  uint32_t HostThread(Process* p, int64_t global) {
    return p->writer->ThreadOf(PidOf(global), TidOf(global));
  }

  void ReadCalls() {
    Scan(kRuntime, {"start", "end", "globalTid", "correlationId", "nameId", "eventClass"},
         [&](const auto& r) {
           const int64_t thread = r.integer_or(2, 0);
           Process* const p = ProcessOf(thread);
           if (p == nullptr) return;
           // In ENUM_NSYS_EVENT_CLASS 0 is the CUDA runtime, 1 the CUDA driver.
           const bool driver = r.integer_or(5, 0) == 1;
           const auto it = strings_.find(r.integer_or(4, -1));
           Add(p, driver ? Category::kDriver : Category::kRuntime,
               Name(p, it == strings_.end() ? "" : ApiName(it->second)),
               driver ? "cuda_driver" : "cuda_runtime", r.integer(0), r.integer(1),
               HostThread(p, thread), kNoStream, r.integer(3), kNoDetail);
         });
  }

  void ReadNvtx() {
    // `nccl` has NCCL's domains by process: domains are named by rows of their own, which may come
    // last.
    absl::flat_hash_set<std::pair<int64_t, int64_t>> nccl;
    const auto text_of = [&](const auto& r, int text, int id) -> std::string_view {
      const std::string_view direct = r.text(text);
      if (!direct.empty()) return direct.substr(0, kMaxNameBytes);
      const auto it = strings_.find(r.integer_or(id, -1));
      return it == strings_.end() ? std::string_view() : std::string_view(it->second);
    };
    Scan(kNvtx, {"eventType", "text", "textId", "globalTid", "domainId"}, [&](const auto& r) {
      if (r.integer_or(0, 0) == kDomain && text_of(r, 1, 2) == "NCCL")
        nccl.insert({PidOf(r.integer_or(3, 0)), r.integer_or(4, 0)});
    });
    Scan(kNvtx,
         {"eventType", "text", "textId", "globalTid", "domainId", "start", "end", "endGlobalTid",
          "jsonText", "jsonTextId"},
         [&](const auto& r) {
           const int64_t type = r.integer_or(0, 0);
           if (type != kPushPop && type != kStartEnd) return;
           const int64_t thread = r.integer_or(3, 0);
           Process* const p = ProcessOf(thread);
           if (p == nullptr) return;
           const std::string_view text = text_of(r, 1, 2);
           const bool of_nccl =
               nccl.contains({PidOf(thread), r.integer_or(4, 0)}) || text.starts_with("nccl");
           if (of_nccl && text.starts_with("ncclCommInit")) ReadCommunicator(p, text_of(r, 8, 9));
           if (r.null(6)) {
             Lose("range_without_end", "NVTX ranges that were still open when the capture ended");
             return;
           }
           // A range that ends on another thread nests in neither; it stays on the thread that
           // opened it.
           AddRange(p, text, of_nccl, r.integer(5), r.integer(6), HostThread(p, thread));
         });
  }

  void AddRange(Process* p, std::string_view text, bool of_nccl, std::optional<int64_t> begin,
                std::optional<int64_t> end, uint32_t thread) {
    const NvtxOp op = ParseNvtxOp(text);
    if (!op.is_op) {
      Add(p, Category::kUserAnnotation, Name(p, text), of_nccl ? "nccl" : "user_annotation", begin,
          end, thread, kNoStream, std::nullopt, kNoDetail);
      return;
    }
    const auto detail = static_cast<uint32_t>(p->imported.trace.ops.size());
    if (Add(p, Category::kCpuOp, Name(p, op.name), "cpu_op", begin, end, thread, kNoStream,
            std::nullopt, detail) == kNoRow)
      return;
    OpDetail d;
    if (!op.sizes.empty()) {
      d.input_dims = Name(p, op.sizes);
      p->imported.trace.record_shapes = true;
    }
    d.sequence_number = op.sequence;
    p->imported.trace.ops.push_back(d);
  }

  // The payload of ncclCommInit*, where the export has it as JSON.
  static void ReadCommunicator(Process* p, std::string_view json) {
    if (json.empty() || p->nccl.size() >= 4096) return;
    const StatusOr<Json> payload =
        Json::Parse(json, {.max_bytes = 64 << 10, .what = "an NCCL payload"});
    if (!payload.ok() || !payload->is_object()) return;
    NcclRank rank;
    rank.rank = static_cast<int32_t>((*payload)["Rank"].integer_or(-1));
    rank.device = static_cast<int32_t>((*payload)["CUDA device"].integer_or(-1));
    rank.ranks = (*payload)["No. of ranks"].integer_or(kUnknown);
    if (rank.rank >= 0) p->nccl.push_back(rank);
  }

  // Counters belong to a GPU: the low byte of typeId is the counters' own number of it, which
  // TARGET_INFO_GPU maps to CUDA's.
  void ReadMetrics() {
    struct Metric {
      std::string name;
      bool clock = false;
    };
    absl::flat_hash_map<std::pair<int64_t, int64_t>, Metric> metrics;
    Scan("TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"}, [&](const auto& r) {
      const std::string_view name = r.text(2).substr(0, 256);
      if (metrics.size() < 100'000)
        metrics[{r.integer_or(0, 0), r.integer_or(1, 0)}] = {std::string(name),
                                                             IsClockInMegahertz(name)};
    });
    std::map<int32_t, std::vector<Process*>> on_device;
    for (auto& [pid, p] : processes_)
      for (const int32_t device : p->devices) on_device[device].push_back(p.get());
    Scan(
        kMetrics, {"timestamp", "typeId", "metricId", "value", "rawTimestamp"}, [&](const auto& r) {
          const auto at = r.null(0) ? r.integer(4) : r.integer(0);
          const auto value = r.number(3);
          const int64_t type = r.integer_or(1, 0);
          const auto metric = metrics.find({type, r.integer_or(2, -1)});
          if (!at || !value || metric == metrics.end()) {
            Lose("metric_unknown", "GPU metrics without a time, a value or a name");
            return;
          }
          const int64_t counter_gpu = type & 0xFF;
          const auto cuda = cuda_of_counter_gpu_.find(counter_gpu);
          const int32_t device =
              cuda == cuda_of_counter_gpu_.end() ? static_cast<int32_t>(counter_gpu) : cuda->second;
          const auto processes = on_device.find(device);
          if (processes == on_device.end()) return;  // a GPU that nobody here used
          // "GPC Clock Frequency [MHz]" holds Hz: no clock in MHz is above 100,000.
          const double scaled = metric->second.clock && *value > 1e5 ? *value / 1e6 : *value;
          Nanos when = 0;
          if (__builtin_add_overflow(*at, epoch_, &when) || when < 0 || when > kMaxTime) return;
          for (Process* const p : processes->second) {
            ++events_;
            p->imported.trace.counters.push_back(
                {when, Name(p, metric->second.name), device, scaled});
          }
        });
    for (auto& [pid, p] : processes_)
      std::ranges::stable_sort(p->imported.trace.counters, {}, &CounterSample::ts);
  }

  StatusOr<std::vector<ImportedRank>> Finish() {
    // Processes that used no GPU (data loaders) are no ranks, unless nobody used one.
    const bool any_gpu =
        std::ranges::any_of(processes_, [](const auto& p) { return !p.second->devices.empty(); });
    std::vector<std::pair<std::pair<int32_t, int64_t>, Process*>>
        order;  // by first device, then process
    for (auto& [pid, p] : processes_) {
      if (p->imported.trace.events.size() == 0) continue;
      if (any_gpu && p->devices.empty()) {
        Lose("process_without_gpu", "processes that used no GPU, left out");
        continue;
      }
      const int32_t first = p->devices.empty() ? -1 : *std::ranges::min_element(p->devices);
      order.push_back({{first, pid}, p.get()});
    }
    std::ranges::sort(order);
    if (order.empty()) {
      return InvalidArgument(
          "{} holds no kernel, no call and no range: nothing was recorded, or the "
          "export broke off{}",
          path_, losses_.empty() ? "" : " (" + losses_.front().explain + ")");
    }
    std::vector<ImportedRank> out;
    for (auto& [key, p] : order) {
      RankTrace& t = p->imported.trace;
      t.wall_clock = epoch_ != 0;
      t.devices = devices_;
      t.metadata = metadata_;
      t.file_bytes = t.text_bytes = db_->file_bytes();
      if (out.empty()) {
        for (const Loss& loss : losses_)
          t.AddLoss(loss.reason, loss.explain, loss.count, loss.repaired);
        if (db_->unread_log())
          t.AddLoss("unread_write_ahead_log",
                    "a -wal file lies beside the database: rows in it were not read");
      }
      SetRank(p);
      if (auto parts = SplitByDevice(p); !parts.empty()) {
        for (ImportedRank& part : parts) out.push_back(std::move(part));
      } else {
        out.push_back(std::move(p->imported));
      }
    }
    return out;
  }

  // The rank in the largest communicator that NCCL made in this process.
  static void SetRank(Process* p) {
    RankTrace& t = p->imported.trace;
    for (const NcclRank& n : p->nccl) {
      if (n.ranks < t.world_size) continue;
      t.rank = n.rank;
      t.rank_known = true;
      t.world_size = n.ranks;
      t.backend = "nccl";
    }
  }

  // One process that is several ranks of one communicator, one a GPU: a copy a rank, each with its
  // GPU's rows and all the rows of the CPU.
  std::vector<ImportedRank> SplitByDevice(Process* p) {
    RankTrace& t = p->imported.trace;
    std::map<int32_t, int32_t> rank_of_device;
    for (const NcclRank& n : p->nccl)
      if (n.ranks == t.world_size && n.device >= 0 && p->devices.contains(n.device))
        rank_of_device[n.device] = n.rank;
    absl::flat_hash_set<int32_t> distinct;
    for (const auto& [device, rank] : rank_of_device) distinct.insert(rank);
    if (rank_of_device.size() < 2 || distinct.size() != rank_of_device.size() ||
        rank_of_device.size() != p->devices.size())
      return {};
    std::vector<ImportedRank> out;
    for (const auto& [device, rank] : rank_of_device) {
      if (options_.guard != nullptr && !options_.guard->TakeRows(t.events.size()).ok()) break;
      ImportedRank part;
      RowWriter writer(&part);
      for (NameId id = 0; id < p->imported.names.size(); ++id)
        part.names.Intern(p->imported.names.Text(id));  // same numbers
      RankTrace rest = t;
      const EventTable e = std::move(rest.events);
      rest.events = {};
      part.trace = std::move(rest);
      part.trace.rank = rank;
      std::erase_if(part.trace.counters,
                    [&](const CounterSample& c) { return c.device != device; });
      for (Row r = 0; r < e.size(); ++r) {
        const Category c = e.category[r];
        const bool on_gpu = IsGpuWork(c) || c == Category::kSync;
        if (on_gpu && t.threads[e.thread[r]].pid != device) continue;
        writer.Add({c, e.name[r], e.file_category[r], e.ts[r], e.end(r), e.thread[r], e.stream[r],
                    e.correlation[r], e.detail[r]});
      }
      out.push_back(std::move(part));
    }
    return out;
  }

  const std::string& path_;
  const ImportOptions& options_;
  SqliteReader* db_;
  Nanos epoch_ = 0;
  uint64_t events_ = 0, scans_ = 0;
  TakenRows taken_{options_.guard};
  std::vector<Loss> losses_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<Device> devices_;
  absl::flat_hash_map<int64_t, int32_t> cuda_of_counter_gpu_;
  absl::flat_hash_map<int64_t, std::string> strings_;
  std::map<int64_t, std::unique_ptr<Process>> processes_;
  Process* last_ = nullptr;
  int64_t last_pid_ = -1;
};

bool AcceptsNsight(const std::string& path, bool is_folder, std::string_view prefix) {
  if (is_folder || !prefix.starts_with(kSqliteMagic)) return false;
  const StatusOr<std::unique_ptr<SqliteReader>> db = SqliteReader::Open(path);
  // A database that cannot be opened is claimed by its usual name, so that the reader learns what
  // is wrong with it.
  if (!db.ok()) return std::filesystem::path(path).extension() == ".sqlite";
  return (*db)->has_table("StringIds") || (*db)->has_table(kNvtx);
}

StatusOr<std::vector<ImportedRank>> ImportNsight(const ImportInput& input,
                                                 const ImportOptions& options) {
  FW_ASSIGN_OR_RETURN(const auto db, SqliteReader::Open(input.path, options.guard));
  return NsightExport(input.path, options, db.get()).Read();
}

}  // namespace

constinit const Importer kNsightImporter = {
    "nsight", "Nsight Systems export (nsys export --type sqlite)", AcceptsNsight, ImportNsight};

}  // namespace flopwatch::trace
