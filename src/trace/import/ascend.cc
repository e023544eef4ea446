// Ascend profiling folders: PROF data exported into
// ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_<rank>.db. Tables, columns and their oddities as
// in the public writer and in real databases: schema 1.0.0 and 1.2.0, columns added by viewers,
// text times, sizes and types swapped. Tables are created only when there is data: any of them may
// be missing.
//
// What becomes what: COMPUTE_TASK_INFO and its TASK a kernel, COMMUNICATION_OP the span of a
// collective, the tasks of collectives kernels with collective metadata, PYTORCH_API operators and
// Python frames, CANN_API launch calls, MSTX_EVENTS annotations, module ranges (domain Module) and
// recorded FLOPs (domain mfu_flops). EventTable::file_category is the table.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/import/ascend_folder.h"
#include "trace/import/importers.h"
#include "trace/import/row_writer.h"
#include "trace/import/sqlite_reader.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;

// ENUM_API_TYPE.
constexpr int64_t kApiOp = 50001, kApiQueue = 50002, kApiTrace = 50003, kApiMstx = 50004;
// ENUM_MSTX_EVENT_TYPE: 0 and 3 are markers, without length.
constexpr int64_t kMstxPushPop = 1, kMstxStartEnd = 2;
constexpr int64_t kNoConnection = 4'294'967'295;  // how the writer says "none" in 32 bits
// Links kernel <-> operator: connection ids are many to many, and a hostile file could name every
// pair.
constexpr size_t kLinksPerRow = 64;

// msprof-analyze's reader strips both kinds of quotes off both ends.
std::string_view StripQuotes(std::string_view text) {
  while (!text.empty() && (text.front() == '"' || text.front() == '\'')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == '"' || text.back() == '\'')) text.remove_suffix(1);
  return text;
}

// "32,3,224,224;\r\n64;\r\n" -> "[[32,3,224,224],[64],[]]"; "float;\r\nScalar" ->
// ["float","Scalar"]: the forms of a Kineto trace, which the formulas read (ops/op_inputs.h).
std::string AsList(std::string_view text, bool sizes) {
  std::string out = "[";
  std::string part;
  const auto close = [&] {
    out += out.size() > 1 ? "," : "";
    out += sizes ? "[" + part + "]" : "\"" + part + "\"";
    part.clear();
  };
  for (const char c : text) {
    if (c == ';') {
      close();
    } else if (c != '\r' && c != '\n' && c != '"' && c != '\\') {
      part += c;
    }
  }
  close();
  return out + "]";
}

bool LooksLikeSizes(std::string_view text) {
  const size_t first = text.find_first_not_of(" \r\n\t;");
  return first != std::string_view::npos && text[first] >= '0' && text[first] <= '9';
}

class AscendDatabase {
 public:
  AscendDatabase(const AscendRank& folder, const ImportOptions& options, SqliteReader* db,
                 ImportedRank* out)
      : folder_(folder), options_(options), db_(db), w_(out), trace_(out->trace) {}

  Status Read() {
    if (!db_->has_table("STRING_IDS") ||
        !(db_->has_table("TASK") || db_->has_table("PYTORCH_API"))) {
      return InvalidArgument(
          "{} has no tables STRING_IDS, TASK and PYTORCH_API: it is no database of the Ascend "
          "PyTorch profiler; profile with export_type=Db",
          folder_.database);
    }
    trace_.rank = folder_.rank;
    trace_.rank_known = true;
    trace_.path = folder_.path;
    trace_.wall_clock = true;
    trace_.backend = "hccl";
    trace_.file_bytes = trace_.text_bytes = db_->file_bytes();
    if (db_->unread_log()) {
      trace_.AddLoss(
          "unread_write_ahead_log",
          "a -wal file lies beside the database: rows in it were not read; close the program "
          "that holds it and copy both");
    }
    Scan("STRING_IDS", {"id", "value"},
         [&](const auto& r) { strings_[r.integer_or(0, -1)] = w_.Name(r.text(1)); });
    ReadFacts();
    ReadTasks();
    ReadComputeTasks();
    ReadCollectives();
    AddOtherTasks();
    ReadOperators();
    ReadCannApi();
    ReadRanges();
    FW_RETURN_IF_ERROR(taken_.Take(trace_.events.size(), w_.rank().names));
    LinkOperators();
    if (trace_.events.size() == 0)
      return InvalidArgument("{} holds no operator and no task: nothing was recorded",
                             folder_.database);
    return absl::OkStatus();
  }

 private:
  struct Task {
    Nanos begin = 0, end = 0;
    int64_t connection = kNoId;
    NameId type = kNoName;
    int32_t device = 0, stream = kNoStream;
    bool used = false;
  };

  template <typename F>
  void Scan(std::string_view table, std::initializer_list<std::string_view> columns, F&& each) {
    const Status status = db_->Scan(table, columns, [&](const SqliteReader::Record& r) {
      each(r);
      if (!taken_.GoOn(trace_.events.size(), w_.rank().names)) return false;
      if (trace_.events.size() < options_.max_events) return true;
      trace_.AddLoss("event_limit", "the trace has more events than are read at most");
      return false;
    });
    if (!status.ok()) trace_.AddLoss("broken_table", std::string(status.message()));
    if (options_.progress) options_.progress(++scans_ * db_->file_bytes() / 16, db_->file_bytes());
  }

  NameId String(std::optional<int64_t> id) const {
    if (!id) return kNoName;
    const auto it = strings_.find(*id);
    return it == strings_.end() ? kNoName : it->second;
  }
  std::string_view Text(NameId id) { return w_.rank().names.Text(id); }

  void ReadFacts() {
    std::optional<int32_t> device;
    Scan("RANK_DEVICE_MAP", {"rankId", "deviceId"}, [&](const auto& r) {
      if (r.integer_or(0, -1) == trace_.rank || !device)
        device = static_cast<int32_t>(r.integer_or(1, 0));
    });
    Scan("NPU_INFO", {"id", "name"}, [&](const auto& r) {
      if (trace_.devices.size() < 1024) {
        Device& d = trace_.devices.emplace_back();
        d.id = static_cast<int32_t>(r.integer_or(0, 0));
        d.name = std::string(r.text(1).substr(0, 256));
      }
    });
    if (trace_.devices.empty()) {
      trace_.devices.emplace_back();
      trace_.devices.back().id = device.value_or(std::max(0, folder_.rank));
    }
    // The chip of info.json is the rank's: every device of the database has the same cores and
    // clock.
    for (Device& d : trace_.devices) {
      d.sm_count = folder_.chip ? folder_.chip->ai_cores : -1;
      if (folder_.chip) d.tensor_peak_flops = folder_.chip->fp16_flops();
    }
    Scan("META_DATA", {"name", "value"}, [&](const auto& r) {
      if (trace_.metadata.size() < 64)
        trace_.metadata.emplace_back(r.text(0).substr(0, 256), r.text(1).substr(0, 4096));
    });
    const NameId clock = w_.Name("AI Core Frequency [MHz]");
    Scan("AICORE_FREQ", {"deviceId", "timestampNs", "freq"}, [&](const auto& r) {
      const auto value = r.number(2);
      const int64_t at = r.integer_or(1, -1);
      if (value && at >= 0 && at <= kMaxTime)
        trace_.counters.push_back({at, clock, static_cast<int32_t>(r.integer_or(0, 0)), *value});
    });
    std::ranges::stable_sort(trace_.counters, {}, &CounterSample::ts);
    trace_.record_shapes = folder_.record_shapes;
    trace_.with_flops = folder_.with_flops;
    trace_.with_stack = folder_.with_stack;
    trace_.with_modules = folder_.with_modules;
  }

  void ReadTasks() {
    Scan("TASK",
         {"startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "taskType", "streamId"},
         [&](const auto& r) {
           const auto begin = r.integer(0), end = r.integer(1), id = r.integer(4);
           if (!begin || !end || !id) {
             trace_.AddLoss("task_without_time", "rows of TASK without times or id");
             return;
           }
           task_of_.try_emplace(*id, static_cast<uint32_t>(tasks_.size()));
           tasks_.push_back({*begin, *end, Connection(r.integer(3)), String(r.integer(5)),
                             static_cast<int32_t>(r.integer_or(2, 0)),
                             static_cast<int32_t>(r.integer_or(6, kNoStream)), false});
         });
  }

  static int64_t Connection(std::optional<int64_t> id) {
    return !id || *id == kNoConnection || *id < 0 ? kNoId : *id;
  }

  // The task of a row of a detail table; nullptr where it has none.
  Task* TaskOf(std::optional<int64_t> id) {
    const auto it = id ? task_of_.find(*id) : task_of_.end();
    if (it == task_of_.end()) {
      trace_.AddLoss("task_missing", "kernels whose row of TASK, with the times, is not there");
      return nullptr;
    }
    return &tasks_[it->second];
  }

  Row AddDeviceRow(Category category, const Task& task, NameId name, NameId table,
                   uint32_t detail) {
    const Row row =
        w_.Add({category, name, table, task.begin, task.end, w_.ThreadOf(task.device, task.stream),
                task.stream, task.connection, detail});
    if (row != kNoRow) work_.push_back({task.connection, row});
    return row;
  }

  uint32_t NewKernel(const Task& task) {
    trace_.kernels.push_back({.device = task.device});
    return static_cast<uint32_t>(trace_.kernels.size() - 1);
  }

  void ReadComputeTasks() {
    const NameId table = w_.Name("COMPUTE_TASK_INFO");
    const auto shapes = [&](NameId id) { return w_.Name(StripQuotes(Text(id))); };
    Scan(
        "COMPUTE_TASK_INFO",
        {"name", "globalTaskId", "inputDataTypes", "inputShapes", "outputShapes"},
        [&](const auto& r) {
          Task* const task = TaskOf(r.integer(1));
          if (task == nullptr) return;
          const uint32_t detail = NewKernel(*task);
          if (AddDeviceRow(Category::kKernel, *task, String(r.integer(0)), table, detail) == kNoRow)
            return;
          KernelDetail& kernel = trace_.kernels[detail];
          kernel.input_types = String(r.integer(2));
          kernel.input_shapes = shapes(String(r.integer(3)));
          kernel.output_shapes = shapes(String(r.integer(4)));
          task->used = true;
        });
  }

  void ReadCollectives() {
    absl::flat_hash_map<int64_t, NameId> types;
    Scan("ENUM_HCCL_DATA_TYPE", {"id", "name"},
         [&](const auto& r) { types[r.integer_or(0, -1)] = w_.Name(r.text(1)); });
    absl::flat_hash_map<int64_t, uint32_t> collective_of_op;  // opId -> collectives
    const NameId ops = w_.Name("COMMUNICATION_OP"),
                 schedule = w_.Name("COMMUNICATION_SCHEDULE_TASK_INFO"),
                 tasks = w_.Name("COMMUNICATION_TASK_INFO");
    Scan("COMMUNICATION_OP",
         {"opType", "startNs", "endNs", "connectionId", "groupName", "opId", "dataType", "count",
          "deviceId", "rankSize"},
         [&](const auto& r) {
           const auto begin = r.integer(1), end = r.integer(2);
           if (!begin || !end) return;
           const Task span{*begin,
                           *end,
                           Connection(r.integer(3)),
                           kNoName,
                           static_cast<int32_t>(r.integer_or(8, trace_.devices.front().id)),
                           kNoStream,
                           true};
           CollectiveDetail detail;
           detail.collective = String(r.integer(0));
           detail.group_name = String(r.integer(4));
           const auto type = types.find(r.integer_or(6, -1));
           if (type != types.end()) detail.dtype = type->second;
           detail.in_elements = r.integer_or(7, kUnknown);
           detail.group_size = r.integer_or(9, kUnknown);
           const auto index = static_cast<uint32_t>(trace_.collectives.size());
           trace_.collectives.push_back(detail);
           collective_of_op.try_emplace(r.integer_or(5, -1), index);
           if (span.connection != kNoId)
             collective_of_connection_.try_emplace(span.connection, index);
           AddDeviceRow(Category::kGpuCollective, span, detail.collective, ops, index);
         });
    const auto add_task = [&](std::optional<int64_t> id, NameId name, NameId table,
                              std::optional<uint32_t> collective) {
      Task* const task = TaskOf(id);
      if (task == nullptr || task->used) return;
      const uint32_t detail = NewKernel(*task);
      if (!collective) {
        collective = static_cast<uint32_t>(trace_.collectives.size());
        trace_.collectives.push_back({.collective = name});
      }
      trace_.kernels[detail].collective = *collective;
      AddDeviceRow(Category::kKernel, *task, name, table, detail);
      task->used = true;
    };
    Scan("COMMUNICATION_SCHEDULE_TASK_INFO", {"name", "globalTaskId"}, [&](const auto& r) {
      add_task(r.integer(1), String(r.integer(0)), schedule, std::nullopt);
    });
    Scan("COMMUNICATION_TASK_INFO", {"name", "globalTaskId", "opId"}, [&](const auto& r) {
      const auto op = collective_of_op.find(r.integer_or(2, -1));
      add_task(r.integer(1), String(r.integer(0)), tasks,
               op == collective_of_op.end() ? std::nullopt : std::optional<uint32_t>(op->second));
    });
  }

  // Tasks that no detail table names: copies are work, the kernels among them have no name but
  // their type, events and notifications only order other work.
  void AddOtherTasks() {
    const NameId table = w_.Name("TASK");
    for (const Task& task : tasks_) {
      if (task.used) continue;
      const std::string_view type = Text(task.type);
      const auto has = [&](std::string_view part) {
        return type.find(part) != std::string_view::npos;
      };
      if (has("PROFILING")) continue;
      if (has("MEMCPY") || has("SDMA") || has("PCIE_DMA")) {
        trace_.copies.push_back({.device = task.device});
        AddDeviceRow(Category::kGpuMemcpy, task, task.type, table,
                     static_cast<uint32_t>(trace_.copies.size() - 1));
      } else if (has("KERNEL") || has("AI_CORE") || has("AI_CPU") || has("AIV") || has("AIC")) {
        const uint32_t detail = NewKernel(task);
        // What was enqueued with a collective is part of it (the reductions of HCCL have no row of
        // their own).
        const auto collective = collective_of_connection_.find(task.connection);
        if (task.connection != kNoId && collective != collective_of_connection_.end())
          trace_.kernels[detail].collective = collective->second;
        AddDeviceRow(Category::kKernel, task, task.type, table, detail);
      } else {
        AddDeviceRow(Category::kSync, task, task.type, table, kNoDetail);
      }
    }
  }

  uint32_t HostThread(std::optional<int64_t> global) {
    const auto id = static_cast<uint64_t>(global.value_or(0));
    return w_.ThreadOf(static_cast<int64_t>(id >> 32), static_cast<int64_t>(id & 0xFFFFFFFFu));
  }

  void ReadOperators() {
    const NameId table = w_.Name("PYTORCH_API");
    absl::flat_hash_map<std::pair<NameId, bool>, NameId> lists;  // each distinct text once
    const auto list = [&](NameId id, bool sizes) {
      if (id == kNoName) return kNoName;
      const auto [it, added] = lists.try_emplace({id, sizes}, kNoName);
      if (added) it->second = w_.Name(AsList(Text(id), sizes));
      return it->second;
    };
    bool steps = false;
    Scan("PYTORCH_API",
         {"startNs", "endNs", "globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId",
          "inputDtypes", "inputShapes", "type"},
         [&](const auto& r) {
           const auto begin = r.integer(0), end = r.integer(1);  // the writer declares them TEXT
           if (!begin || !end) {
             trace_.AddLoss("operator_without_time",
                            "rows of PYTORCH_API whose times are no numbers");
             return;
           }
           const NameId name = String(r.integer(4));
           const int64_t type = r.integer_or(9, kApiOp);
           Category category = type == kApiQueue   ? Category::kOther
                               : type == kApiTrace ? Category::kPythonFunction
                               : type == kApiMstx  ? Category::kUserAnnotation
                                                   : Category::kCpuOp;
           if (type == kApiOp && Text(name).starts_with("ProfilerStep#")) {
             category = Category::kUserAnnotation;
             steps = true;
           }
           uint32_t detail = kNoDetail;
           if (category == Category::kCpuOp) {
             // Some writers file the sizes under the types and the types under the sizes.
             NameId sizes = String(r.integer(8)), types = String(r.integer(7));
             if (LooksLikeSizes(Text(types)) && !LooksLikeSizes(Text(sizes)))
               std::swap(sizes, types);
             OpDetail op;
             op.input_dims = list(sizes, true);
             op.input_types = list(types, false);
             op.sequence_number = r.integer_or(5, -1) < 0 ? kUnknown : r.integer_or(5, kUnknown);
             op.forward_thread = r.integer_or(6, kUnknown);
             detail = static_cast<uint32_t>(trace_.ops.size());
             trace_.ops.push_back(op);
           }
           const Row row = w_.Add({category, name, table, *begin, *end, HostThread(r.integer(2)),
                                   kNoStream, kNoId, detail});
           const int64_t connection = Connection(r.integer(3));
           if (row != kNoRow && connection != kNoId) operators_.push_back({connection, row});
         });
    if (steps) return;
    const uint32_t thread = trace_.threads.empty() ? w_.ThreadOf(0, 0) : 0;
    Scan("STEP_TIME", {"id", "startNs", "endNs"}, [&](const auto& r) {
      const NameId name = w_.Name(fmt::format("ProfilerStep#{}", r.integer_or(0, 0)));
      w_.Add({Category::kUserAnnotation, name, w_.Name("STEP_TIME"), r.integer_or(1, -1),
              r.integer_or(2, -1), thread});
    });
  }

  void ReadCannApi() {
    const NameId table = w_.Name("CANN_API");
    Scan("CANN_API", {"startNs", "endNs", "globalTid", "connectionId", "name"}, [&](const auto& r) {
      w_.Add({Category::kRuntime, String(r.integer(4)), table, r.integer_or(0, -1),
              r.integer_or(1, -1), HostThread(r.integer(2)), kNoStream, Connection(r.integer(3))});
    });
  }

  void ReadRanges() {
    const NameId table = w_.Name("MSTX_EVENTS"), flops_domain = w_.rank().names.Find("mfu_flops"),
                 modules = w_.rank().names.Find("Module");
    Scan("MSTX_EVENTS", {"startNs", "endNs", "eventType", "message", "globalTid", "domainId"},
         [&](const auto& r) {
           const auto begin = r.integer(0), end = r.integer(1);
           if (!begin || !end || *begin < 0 || *end < *begin || *end > kMaxTime) return;
           const int64_t type = r.integer_or(2, -1);
           const NameId message = String(r.integer(3)), domain = String(r.integer(5));
           const uint32_t thread = HostThread(r.integer(4));
           if (domain != kNoName && domain == flops_domain) {  // of any event type
             AddFlops(*begin, *end, thread, Text(message));
             return;
           }
           if (domain != kNoName && domain == modules && type == kMstxStartEnd)
             trace_.module_ranges.push_back({*begin, *end, thread, message});
           if (type == kMstxPushPop || type == kMstxStartEnd)
             w_.Add({Category::kUserAnnotation, message, table, *begin, *end, thread});
         });
    std::ranges::stable_sort(trace_.flops_records, {}, &FlopsRecord::begin);
    std::ranges::stable_sort(trace_.module_ranges, [](const ModuleRange& a, const ModuleRange& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }

  // "<FLOPs>-<op>", of a range that is not empty.
  void AddFlops(Nanos begin, Nanos end, uint32_t thread, std::string_view message) {
    int64_t value = 0;
    const char* const last = message.data() + message.size();
    const auto [stop, error] = std::from_chars(message.data(), last, value);
    const bool number = error == std::errc() && stop != message.data() && message.front() != '-';
    if (!number || last - stop < 2 || *stop != '-' || value <= 0 || end <= begin) {
      trace_.AddLoss("flops_record_unusable",
                     "FLOPs ranges without a positive number and a name, or without length");
      return;
    }
    trace_.flops_records.push_back(
        {begin, end, thread, value, w_.Name({stop + 1, static_cast<size_t>(last - stop - 1)})});
  }

  // The join is TASK.connectionId = CONNECTION_IDS.connectionId, CONNECTION_IDS.id =
  // PYTORCH_API.connectionId.
  void LinkOperators() {
    using Pair = std::pair<int64_t, Row>;
    std::vector<std::pair<int64_t, int64_t>> ids;  // connection of the work, of the operator
    Scan("CONNECTION_IDS", {"id", "connectionId"}, [&](const auto& r) {
      const auto id = r.integer(0), connection = r.integer(1);
      if (id && connection) ids.emplace_back(*connection, *id);
    });
    std::ranges::sort(ids);
    std::ranges::sort(operators_);
    const size_t limit = kLinksPerRow * (work_.size() + operators_.size() + 1);
    const auto below = [](const auto& a, int64_t b) { return a.first < b; };
    for (const Pair& work : work_) {
      if (work.first == kNoId) continue;
      for (auto id = std::lower_bound(ids.begin(), ids.end(), work.first, below);
           id != ids.end() && id->first == work.first; ++id) {
        for (auto op = std::lower_bound(operators_.begin(), operators_.end(), id->second, below);
             op != operators_.end() && op->first == id->second; ++op) {
          if (trace_.op_links.size() >= limit) {
            trace_.AddLoss("too_many_links",
                           "connection ids name more operators for a kernel than can be true");
            return;
          }
          trace_.op_links.push_back({op->second, work.second});
        }
      }
    }
  }

  const AscendRank& folder_;
  const ImportOptions& options_;
  SqliteReader* db_;
  RowWriter w_;
  RankTrace& trace_;
  uint64_t scans_ = 0;
  TakenRows taken_{options_.guard};
  absl::flat_hash_map<int64_t, NameId> strings_;
  std::vector<Task> tasks_;
  absl::flat_hash_map<int64_t, uint32_t> task_of_;
  absl::flat_hash_map<int64_t, uint32_t> collective_of_connection_;
  std::vector<std::pair<int64_t, Row>> work_, operators_;  // connection, row
};

bool AcceptsAscend(const std::string& path, bool is_folder, std::string_view prefix) {
  if (is_folder) return IsAscendFolder(path);
  return prefix.starts_with(kSqliteMagic) &&
         RankOfAscendDatabase(fs::path(path).filename().string()).has_value();
}

StatusOr<std::vector<ImportedRank>> ImportAscend(const ImportInput& input,
                                                 const ImportOptions& options) {
  FW_ASSIGN_OR_RETURN(const AscendRank folder, ReadAscendFolder(input.path));
  FW_ASSIGN_OR_RETURN(const auto db, SqliteReader::Open(folder.database, options.guard));
  std::vector<ImportedRank> out(1);
  FW_RETURN_IF_ERROR(AscendDatabase(folder, options, db.get(), &out[0]).Read());
  for (const std::string& note : folder.notes) out[0].trace.AddLoss("chip_unknown", note);
  return out;
}

}  // namespace

constinit const Importer kAscendImporter = {
    "ascend", "Ascend PyTorch profiler folder (*_ascend_pt) or its database", AcceptsAscend,
    ImportAscend};

}  // namespace flopwatch::trace
