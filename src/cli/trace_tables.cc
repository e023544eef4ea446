#include "cli/trace_tables.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "trace/findings/finding.h"
#include "trace/kernel_class.h"
#include "trace/report/report.h"

namespace flopwatch::cli {
namespace {

using namespace trace;  // NOLINT: this file is about its types
using store::ColumnBlock;
using store::MemoryColumn;
using store::MemoryTable;
using store::SqlType;

struct Ref {
  const RankTrace* rank;
  const RankView* view;
  uint32_t at;  // a row, or an index into one of the rank's lists
  const EventTable& events() const { return rank->events; }
};

// What a table needs beside a row.
struct Scope {
  const StringPool& names;
  Nanos origin;
};

using Put = std::function<void(const Scope&, const Ref&, size_t i, ColumnBlock* out)>;
struct Def {
  std::string name;
  SqlType type;
  std::string help;
  Put put;
};

void PutName(const Scope& s, NameId id, size_t i, ColumnBlock* out) {
  id == kNoName ? out->Null(i) : out->Text(i, s.names.Text(id));
}
void PutKnown(int64_t v, size_t i, ColumnBlock* out) {
  v == kUnknown ? out->Null(i) : out->Integer(i, v);
}
// Numbers of which -1 says "not given".
void PutNatural(int64_t v, size_t i, ColumnBlock* out) {
  v < 0 ? out->Null(i) : out->Integer(i, v);
}
void PutRow(Row r, size_t i, ColumnBlock* out) { r == kNoRow ? out->Null(i) : out->Integer(i, r); }
void PutUs(Nanos n, size_t i, ColumnBlock* out) { out->Double(i, static_cast<double>(n) / 1e3); }

Def Rank() {
  return {"rank", SqlType::kInteger, "rank",
          [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
            out->Integer(i, r.rank->rank);
          }};
}

// Columns of any event row.
std::vector<Def> RowColumns() {
  return {Rank(),
          {"row", SqlType::kInteger, "row of the rank's events: what other tables join on",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) { out->Integer(i, r.at); }},
          {"name", SqlType::kText, "name",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* out) {
             PutName(s, r.events().name[r.at], i, out);
           }},
          {"ts_us", SqlType::kDouble, "start, µs since the earliest event of any rank",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* out) {
             PutUs(r.events().ts[r.at] - s.origin, i, out);
           }},
          {"dur_us", SqlType::kDouble, "duration, µs",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
             PutUs(r.events().dur[r.at], i, out);
           }},
          {"step", SqlType::kInteger, "number N of ProfilerStep#N; NULL outside of steps",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
             const int32_t s = r.events().step[r.at];
             s == kNoStep ? out->Null(i)
                          : out->Integer(i, r.rank->steps[static_cast<size_t>(s)].number);
           }}};
}

Def Stream() {
  return {"stream", SqlType::kInteger, "stream",
          [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
            PutNatural(r.events().stream[r.at], i, out);
          }};
}
Def Correlation() {
  return {"correlation", SqlType::kInteger, "links a launch call and GPU work",
          [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
            const int64_t v = r.events().correlation[r.at];
            v == kNoId ? out->Null(i) : out->Integer(i, v);
          }};
}
Def OpRow() {
  return {"op_row", SqlType::kInteger, "row of the operator that launched it",
          [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
            PutRow(r.events().op[r.at], i, out);
          }};
}
Def OpName() {
  return {"op_name", SqlType::kText, "its name",
          [](const Scope& s, const Ref& r, size_t i, ColumnBlock* out) {
            const Row op = r.events().op[r.at];
            op == kNoRow ? out->Null(i) : PutName(s, r.events().name[op], i, out);
          }};
}
Def LaunchRow() {
  return {"launch_row", SqlType::kInteger, "row of the call that launched it",
          [](const Scope&, const Ref& r, size_t i, ColumnBlock* out) {
            PutRow(r.events().launch[r.at], i, out);
          }};
}

template <typename Detail>
Def Of(std::string name, SqlType type, std::string help,
       const Detail* (RankTrace::*detail)(Row) const,
       void (*put)(const Scope&, const Detail&, size_t, ColumnBlock*)) {
  return {std::move(name), type, std::move(help),
          [detail, put](const Scope& s, const Ref& r, size_t i, ColumnBlock* out) {
            const Detail* d = (r.rank->*detail)(r.at);
            d == nullptr ? out->Null(i) : put(s, *d, i, out);
          }};
}

std::vector<Def> EventColumns() {
  std::vector<Def> out = RowColumns();
  out.insert(out.begin() + 3, {"category", SqlType::kText, "kind of row: cpu_op, kernel, ...",
                               [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                                 o->Text(i, CategoryName(r.events().category[r.at]));
                               }});
  out.push_back({"ts_ns", SqlType::kInteger, "start, ns by the trace's own clock",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   o->Integer(i, r.events().ts[r.at]);
                 }});
  out.push_back({"dur_ns", SqlType::kInteger, "duration, ns",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   o->Integer(i, r.events().dur[r.at]);
                 }});
  const auto thread = [](std::string name, std::string help,
                         void (*put)(const Scope&, const Thread&, size_t, ColumnBlock*)) -> Def {
    return {std::move(name), put == nullptr ? SqlType::kText : SqlType::kInteger, std::move(help),
            [put](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
              const uint32_t t = r.events().thread[r.at];
              if (t >= r.rank->threads.size()) return o->Null(i);
              put != nullptr ? put(s, r.rank->threads[t], i, o)
                             : PutName(s, r.rank->threads[t].name, i, o);
            }};
  };
  out.push_back(thread(
      "pid", "process; the device for GPU rows",
      [](const Scope&, const Thread& t, size_t i, ColumnBlock* o) { PutKnown(t.pid, i, o); }));
  out.push_back(thread(
      "tid", "thread; the stream for GPU rows",
      [](const Scope&, const Thread& t, size_t i, ColumnBlock* o) { PutKnown(t.tid, i, o); }));
  out.push_back(thread("thread", "name of the thread", nullptr));
  out.push_back(Stream());
  out.push_back(Correlation());
  out.push_back({"external_id", SqlType::kInteger, "links GPU work and operators",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   const int64_t v = r.events().external_id[r.at];
                   v == kNoId ? o->Null(i) : o->Integer(i, v);
                 }});
  out.push_back({"parent_row", SqlType::kInteger,
                 "innermost row of the same thread that encloses it",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   PutRow(r.events().parent[r.at], i, o);
                 }});
  out.push_back(LaunchRow());
  out.push_back(OpRow());
  out.push_back({"file_category", SqlType::kText, "category as the file names it",
                 [](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
                   PutName(s, r.events().file_category[r.at], i, o);
                 }});
  return out;
}

std::vector<Def> KernelColumns() {
  std::vector<Def> out = RowColumns();
  using D = KernelDetail;
  const auto of = [&](std::string name, SqlType type, std::string help,
                      void (*put)(const Scope&, const D&, size_t, ColumnBlock*)) {
    out.push_back(Of<D>(std::move(name), type, std::move(help), &RankTrace::KernelOf, put));
  };
  out.push_back({"class", SqlType::kText, "COMPUTATION or COMMUNICATION",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   o->Text(i, KernelClassName(r.view->classes()[r.at]));
                 }});
  out.push_back(Stream());
  of("device", SqlType::kInteger, "device of the host",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutNatural(d.device, i, o); });
  of("grid_x", SqlType::kInteger, "blocks of the grid along x",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.grid[0] == 0 ? o->Null(i) : o->Integer(i, d.grid[0]);
     });
  of("grid_y", SqlType::kInteger, "along y",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.grid[1] == 0 ? o->Null(i) : o->Integer(i, d.grid[1]);
     });
  of("grid_z", SqlType::kInteger, "along z",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.grid[2] == 0 ? o->Null(i) : o->Integer(i, d.grid[2]);
     });
  of("block_x", SqlType::kInteger, "threads of a block along x",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.block[0] == 0 ? o->Null(i) : o->Integer(i, d.block[0]);
     });
  of("block_y", SqlType::kInteger, "along y",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.block[1] == 0 ? o->Null(i) : o->Integer(i, d.block[1]);
     });
  of("block_z", SqlType::kInteger, "along z",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.block[2] == 0 ? o->Null(i) : o->Integer(i, d.block[2]);
     });
  of("registers_per_thread", SqlType::kInteger, "registers a thread",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       PutNatural(d.registers_per_thread, i, o);
     });
  of("shared_memory_bytes", SqlType::kInteger, "shared memory a block",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       PutKnown(d.shared_memory_bytes, i, o);
     });
  of("blocks_per_sm", SqlType::kDouble, "blocks an SM, by the launch",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { o->Double(i, d.blocks_per_sm); });
  of("warps_per_sm", SqlType::kDouble, "warps an SM, by the launch",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { o->Double(i, d.warps_per_sm); });
  of("occupancy_pct", SqlType::kDouble, "estimated occupancy, per cent, by the launch",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { o->Double(i, d.occupancy_pct); });
  of("graph_id", SqlType::kInteger, "CUDA graph",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.graph_id, i, o); });
  of("input_shapes", SqlType::kText, "shapes, where the kernel itself has them (Ascend)",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) {
       PutName(s, d.input_shapes, i, o);
     });
  of("input_types", SqlType::kText, "types, where the kernel itself has them (Ascend)",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.input_types, i, o); });
  out.push_back(Correlation());
  out.push_back(LaunchRow());
  out.push_back(OpRow());
  out.push_back(OpName());
  return out;
}

std::vector<Def> CopyColumns() {
  std::vector<Def> out = RowColumns();
  using D = CopyDetail;
  out.push_back(Stream());
  out.push_back(Of<D>(
      "device", SqlType::kInteger, "device of the host", &RankTrace::CopyOf,
      [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutNatural(d.device, i, o); }));
  out.push_back(
      Of<D>("bytes", SqlType::kInteger, "bytes", &RankTrace::CopyOf,
            [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.bytes, i, o); }));
  out.push_back(Of<D>(
      "bandwidth_gbps", SqlType::kDouble, "GB/s, as the trace says", &RankTrace::CopyOf,
      [](const Scope&, const D& d, size_t i, ColumnBlock* o) { o->Double(i, d.bandwidth_gbps); }));
  out.push_back(Correlation());
  out.push_back(LaunchRow());
  out.push_back(OpRow());
  out.push_back(OpName());
  return out;
}

std::vector<Def> OpColumns() {
  std::vector<Def> out = RowColumns();
  using D = OpDetail;
  const auto of = [&](std::string name, SqlType type, std::string help,
                      void (*put)(const Scope&, const D&, size_t, ColumnBlock*)) {
    out.push_back(Of<D>(std::move(name), type, std::move(help), &RankTrace::OpOf, put));
  };
  of("input_dims", SqlType::kText, "shapes of the inputs",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.input_dims, i, o); });
  of("input_types", SqlType::kText, "types of the inputs",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.input_types, i, o); });
  of("input_strides", SqlType::kText, "strides of the inputs",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) {
       PutName(s, d.input_strides, i, o);
     });
  of("concrete_inputs", SqlType::kText, "scalar inputs",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) {
       PutName(s, d.concrete_inputs, i, o);
     });
  of("call_stack", SqlType::kText, "Python stack",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.call_stack, i, o); });
  of("module_hierarchy", SqlType::kText, "modules",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) {
       PutName(s, d.module_hierarchy, i, o);
     });
  of("sequence_number", SqlType::kInteger, "links forward and backward",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.sequence_number, i, o); });
  of("backward", SqlType::kBoolean, "a backward operator",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       d.forward_thread == kUnknown ? o->Null(i) : o->Boolean(i, d.forward_thread != 0);
     });
  out.push_back({"parent_row", SqlType::kInteger, "innermost row that encloses it",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   PutRow(r.events().parent[r.at], i, o);
                 }});
  return out;
}

std::vector<Def> LaunchColumns() {
  std::vector<Def> out = RowColumns();
  out.push_back(Correlation());
  out.push_back({"gpu_row", SqlType::kInteger, "row of the first GPU work of the call",
                 [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                   PutRow(r.events().launch[r.at], i, o);
                 }});
  const auto gpu = [&](std::string name, SqlType type, std::string help,
                       void (*put)(const Scope&, const Ref&, Row, size_t, ColumnBlock*)) {
    out.push_back({std::move(name), type, std::move(help),
                   [put](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
                     const Row g = r.events().launch[r.at];
                     g == kNoRow ? o->Null(i) : put(s, r, g, i, o);
                   }});
  };
  gpu("gpu_name", SqlType::kText, "its name",
      [](const Scope& s, const Ref& r, Row g, size_t i, ColumnBlock* o) {
        PutName(s, r.events().name[g], i, o);
      });
  gpu("gpu_ts_us", SqlType::kDouble, "its start, µs",
      [](const Scope& s, const Ref& r, Row g, size_t i, ColumnBlock* o) {
        PutUs(r.events().ts[g] - s.origin, i, o);
      });
  gpu("gpu_dur_us", SqlType::kDouble, "its duration, µs",
      [](const Scope&, const Ref& r, Row g, size_t i, ColumnBlock* o) {
        PutUs(r.events().dur[g], i, o);
      });
  gpu("delay_us", SqlType::kDouble,
      "from the end of the call to the start of the work, µs; negative where it started before",
      [](const Scope&, const Ref& r, Row g, size_t i, ColumnBlock* o) {
        PutUs(r.events().ts[g] - r.events().end(r.at), i, o);
      });
  out.push_back(OpRow());
  out.push_back(OpName());
  return out;
}

std::vector<Def> CollectiveColumns() {
  std::vector<Def> out = RowColumns();
  using D = CollectiveDetail;
  const auto of = [&](std::string name, SqlType type, std::string help,
                      void (*put)(const Scope&, const D&, size_t, ColumnBlock*)) {
    out.push_back(Of<D>(std::move(name), type, std::move(help), &RankTrace::CollectiveOf, put));
  };
  out.insert(out.begin() + 3, {"category", SqlType::kText, "kernel, or cpu_op for the call",
                               [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
                                 o->Text(i, CategoryName(r.events().category[r.at]));
                               }});
  of("collective", SqlType::kText, "allreduce, all_to_all, ...",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.collective, i, o); });
  of("dtype", SqlType::kText, "type of the elements",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.dtype, i, o); });
  of("group_name", SqlType::kText, "process group",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.group_name, i, o); });
  of("group_description", SqlType::kText, "its description",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) {
       PutName(s, d.group_description, i, o);
     });
  of("group_ranks", SqlType::kText, "its ranks, as written",
     [](const Scope& s, const D& d, size_t i, ColumnBlock* o) { PutName(s, d.group_ranks, i, o); });
  of("group_size", SqlType::kInteger, "its size",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.group_size, i, o); });
  of("in_elements", SqlType::kInteger, "elements in",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.in_elements, i, o); });
  of("out_elements", SqlType::kInteger, "elements out",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.out_elements, i, o); });
  of("bytes", SqlType::kInteger, "bytes, where the writer gives them",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.bytes, i, o); });
  of("sequence", SqlType::kInteger, "sequence number in the group",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutKnown(d.sequence, i, o); });
  of("source_rank", SqlType::kInteger, "of a send or receive",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) { PutNatural(d.source_rank, i, o); });
  of("destination_rank", SqlType::kInteger, "of a send or receive",
     [](const Scope&, const D& d, size_t i, ColumnBlock* o) {
       PutNatural(d.destination_rank, i, o);
     });
  out.push_back(Stream());
  return out;
}

std::vector<Def> StepColumns() {
  return {Rank(),
          {"step", SqlType::kInteger, "number N of ProfilerStep#N",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             o->Integer(i, r.rank->steps[r.at].number);
           }},
          {"begin_us", SqlType::kDouble, "start, µs since the earliest event of any rank",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
             PutUs(r.rank->steps[r.at].begin - s.origin, i, o);
           }},
          {"dur_us", SqlType::kDouble, "duration, µs",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutUs(r.rank->steps[r.at].end - r.rank->steps[r.at].begin, i, o);
           }},
          {"complete", SqlType::kBoolean, "whether the whole step is in the trace",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             o->Boolean(i, r.rank->steps[r.at].complete);
           }}};
}

std::vector<Def> CounterColumns() {
  return {Rank(),
          {"ts_us", SqlType::kDouble, "time, µs since the earliest event of any rank",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
             PutUs(r.rank->counters[r.at].ts - s.origin, i, o);
           }},
          {"counter", SqlType::kText, "counter, with its unit as the tool names it",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
             PutName(s, r.rank->counters[r.at].counter, i, o);
           }},
          {"device", SqlType::kInteger, "device of the host",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutNatural(r.rank->counters[r.at].device, i, o);
           }},
          {"value", SqlType::kDouble, "value",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             o->Double(i, r.rank->counters[r.at].value);
           }}};
}

std::vector<Def> MemoryColumns() {
  return {Rank(),
          {"ts_us", SqlType::kDouble, "time, µs since the earliest event of any rank",
           [](const Scope& s, const Ref& r, size_t i, ColumnBlock* o) {
             PutUs(r.rank->memory[r.at].ts - s.origin, i, o);
           }},
          {"bytes", SqlType::kInteger, "bytes; negative = freed",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutKnown(r.rank->memory[r.at].bytes, i, o);
           }},
          {"device_type", SqlType::kInteger, "0 CPU, 1 CUDA (c10::DeviceType)",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutNatural(r.rank->memory[r.at].device_type, i, o);
           }},
          {"device", SqlType::kInteger, "device of the host",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutNatural(r.rank->memory[r.at].device, i, o);
           }},
          {"total_allocated", SqlType::kInteger, "allocated after it, bytes",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutKnown(r.rank->memory[r.at].total_allocated, i, o);
           }},
          {"total_reserved", SqlType::kInteger, "reserved after it, bytes",
           [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
             PutKnown(r.rank->memory[r.at].total_reserved, i, o);
           }}};
}

std::vector<Def> RankColumns() {
  return {
      Rank(),
      {"path", SqlType::kText, "file",
       [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) { o->Text(i, r.rank->path); }},
      {"format", SqlType::kText, "format",
       [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) { o->Text(i, r.rank->format); }},
      {"events", SqlType::kInteger, "events",
       [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
         o->Integer(i, static_cast<int64_t>(r.events().size()));
       }},
      {"device", SqlType::kText, "first device of the host",
       [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
         r.rank->devices.empty() ? o->Null(i) : o->Text(i, r.rank->devices.front().name);
       }},
      {"world_size", SqlType::kInteger, "ranks of the job",
       [](const Scope&, const Ref& r, size_t i, ColumnBlock* o) {
         PutKnown(r.rank->world_size, i, o);
       }}};
}

// Which entries of each rank a table has: every row, rows of some kind, or a list of the rank's.
using Keep = bool (*)(const RankTrace&, Row);
using Size = size_t (*)(const RankTrace&);
struct Source {
  std::string_view name, help;
  std::vector<Def> (*columns)();
  Keep keep = nullptr;
  Size size = nullptr;
};

const std::vector<Source>& Sources() {
  static const auto* const sources = new std::vector<Source>{
      {"events", "every event of the trace", EventColumns, nullptr,
       [](const RankTrace& r) { return r.events.size(); }},
      {"kernels", "GPU kernels", KernelColumns,
       [](const RankTrace& r, Row row) { return r.events.category[row] == Category::kKernel; }},
      {"copies", "GPU copies and sets of memory", CopyColumns,
       [](const RankTrace& r, Row row) {
         return r.events.category[row] == Category::kGpuMemcpy ||
                r.events.category[row] == Category::kGpuMemset;
       }},
      {"ops", "operators on the CPU", OpColumns,
       [](const RankTrace& r, Row row) { return r.events.category[row] == Category::kCpuOp; }},
      {"launches", "calls of the runtime and driver, with the GPU work they launched",
       LaunchColumns,
       [](const RankTrace& r, Row row) { return IsLaunchApi(r.events.category[row]); }},
      {"collectives", "kernels and calls that carry a collective's metadata", CollectiveColumns,
       [](const RankTrace& r, Row row) { return r.CollectiveOf(row) != nullptr; }},
      {"steps", "training steps", StepColumns, nullptr,
       [](const RankTrace& r) { return r.steps.size(); }},
      {"counters", "values of counter tracks", CounterColumns, nullptr,
       [](const RankTrace& r) { return r.counters.size(); }},
      {"memory", "events of the framework's allocator", MemoryColumns, nullptr,
       [](const RankTrace& r) { return r.memory.size(); }},
      {"ranks", "the ranks", RankColumns, nullptr, [](const RankTrace&) { return size_t{1}; }},
  };
  return *sources;
}

// Where the entries of a table lie: made at the first query that names it.
struct Index {
  std::once_flag once;
  std::vector<uint64_t> first;  // entry of each rank
  std::vector<Row> rows;        // of a table of rows of a kind
  uint64_t count = 0;
};

MemoryTable Make(const trace::AnalysisInput& input, const Source& source) {
  MemoryTable out;
  out.name = source.name;
  out.help = source.help;
  const auto defs = std::make_shared<const std::vector<Def>>(source.columns());
  for (const Def& d : *defs) out.columns.push_back({d.name, d.type, d.help});
  const auto index = std::make_shared<Index>();
  out.rows = [&input, &source, index] {
    std::call_once(index->once, [&] {
      for (const auto& view : input.ranks()) {
        index->first.push_back(index->count);
        const RankTrace& rank = view->rank();
        if (source.size != nullptr) {
          index->count += source.size(rank);
          continue;
        }
        for (Row r = 0; r < rank.events.size(); ++r) {
          if (source.keep(rank, r)) index->rows.push_back(r);
        }
        index->count = index->rows.size();
      }
    });
    return index->count;
  };
  const bool listed = source.size == nullptr;
  out.fill = [&input, defs, index, listed](size_t column, uint64_t begin, size_t count,
                                           ColumnBlock* block) {
    const Scope scope{input.set().names, input.set().origin()};
    const auto ranks = input.ranks();
    const std::vector<uint64_t>& first = index->first;
    size_t rank =
        static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) -
        1;
    const Put& put = (*defs)[column].put;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t at = begin + i;
      while (rank + 1 < first.size() && first[rank + 1] <= at) ++rank;
      const RankView& view = *ranks[rank];
      put(scope,
          {&view.rank(), &view, static_cast<uint32_t>(listed ? index->rows[at] : at - first[rank])},
          i, block);
    }
  };
  return out;
}

constexpr std::string_view kFindings = "findings";

std::vector<MemoryColumn> FindingColumns() {
  return {{"id", SqlType::kText, "rule"},
          {"severity", SqlType::kText, "info, warning, critical"},
          {"gain", SqlType::kDouble, "share of the step that could be recovered at most"},
          {"title", SqlType::kText, "one line"},
          {"advice", SqlType::kText, "what to do"},
          {"rank", SqlType::kInteger, "where to look"},
          {"step", SqlType::kInteger, "where to look"},
          {"begin_us", SqlType::kDouble, "window to look at, µs"},
          {"end_us", SqlType::kDouble, "window to look at, µs"}};
}

MemoryTable FindingsOf(const trace::AnalysisInput& input) {
  MemoryTable out;
  out.name = kFindings;
  out.help = "what the rules found";
  out.columns = FindingColumns();
  struct Lazy {
    std::once_flag once;
    trace::Findings all;
  };
  const auto found = std::make_shared<Lazy>();
  out.rows = [&input, found]() -> uint64_t {
    std::call_once(found->once, [&] { found->all = trace::FindAll(input); });
    return found->all.findings.size();
  };
  out.fill = [found, origin = input.set().origin()](size_t column, uint64_t begin, size_t count,
                                                    ColumnBlock* o) {
    for (size_t i = 0; i < count; ++i) {
      const trace::Finding& f = found->all.findings[begin + i];
      const bool window = f.window.end > f.window.begin;
      switch (column) {
        case 0:
          o->Text(i, f.id);
          break;
        case 1:
          o->Text(i, trace::SeverityName(f.severity));
          break;
        case 2:
          o->Double(i, f.gain);
          break;
        case 3:
          o->Text(i, f.title);
          break;
        case 4:
          o->Text(i, f.advice);
          break;
        case 5:
          f.rank ? o->Integer(i, *f.rank) : o->Null(i);
          break;
        case 6:
          f.step ? o->Integer(i, *f.step) : o->Null(i);
          break;
        case 7:
          window ? PutUs(f.window.begin - origin, i, o) : o->Null(i);
          break;
        default:
          window ? PutUs(f.window.end - origin, i, o) : o->Null(i);
          break;
      }
    }
  };
  return out;
}

}  // namespace

std::vector<MemoryTable> TraceTables(const trace::AnalysisInput& input) {
  std::vector<MemoryTable> out;
  for (const Source& s : Sources()) out.push_back(Make(input, s));
  out.push_back(FindingsOf(input));
  return out;
}

Table TraceSchema() {
  static constexpr std::string_view kTypes[] = {"BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"};
  Table t;
  t.columns = {{"table", "table"}, {"column", "column"}, {"type", "type"}, {"meaning", "meaning"}};
  const auto add = [&](std::string_view table, const std::string& column, SqlType type,
                       const std::string& help) {
    t.rows.push_back(
        {std::string(table), column, std::string(kTypes[static_cast<size_t>(type)]), help});
  };
  for (const Source& s : Sources()) {
    for (const Def& d : s.columns()) add(s.name, d.name, d.type, d.help);
  }
  for (const MemoryColumn& c : FindingColumns()) add(kFindings, c.name, c.type, c.help);
  return t;
}

}  // namespace flopwatch::cli
