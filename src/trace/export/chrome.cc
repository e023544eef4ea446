#include "trace/export/chrome.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "trace/export/json_members.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr Nanos kSecond = 1'000'000'000;
constexpr int64_t kProcessesARank = 100;

bool OnDevice(Category c) {
  return IsGpuWork(c) || c == Category::kSync || c == Category::kGpuUserAnnotation ||
         c == Category::kGpuCollective;
}

bool IsJson(std::string_view text) {
  const bool begins = !text.empty() && (text.front() == '[' || text.front() == '{');
  return begins && Json::Parse(text).ok();
}

class Writer {
 public:
  Writer(const TraceSet& set, const ChromeExportOptions& options, const ChromeSink& sink)
      : set_(set), options_(options), sink_(sink), is_json_(set.names) {}

  StatusOr<ChromeExport> Run() {
    FW_RETURN_IF_ERROR(ChooseRanks());
    Nanos first = std::numeric_limits<Nanos>::max();
    for (const uint32_t r : ranks_) {
      const RankTrace& rank = set_.ranks[r];
      const int32_t step = StepIndex(rank);
      first = std::min(
          first, (step == kNoStep ? rank.begin
                                  : rank.events.ts[rank.steps[static_cast<size_t>(step)].row]) -
                     Offset(r));
      any_wall_clock_ |= rank.wall_clock;
    }
    // A whole second, as Kineto has it: the times of old traces stay whole microseconds.
    base_ = any_wall_clock_ ? first - (first % kSecond + kSecond) % kSecond : 0;
    Header();
    for (const uint32_t r : ranks_) FW_RETURN_IF_ERROR(OneRank(r));
    buffer_ += "\n]}\n";
    FW_RETURN_IF_ERROR(Flush(true));
    return std::move(out_);
  }

 private:
  const TraceSet& set_;
  const ChromeExportOptions& options_;
  const ChromeSink& sink_;
  ChromeExport out_;
  std::vector<uint32_t> ranks_;  // indices into set_.ranks
  std::string buffer_;
  Nanos base_ = 0;
  bool any_wall_clock_ = false, first_event_ = true;
  int64_t next_arrow_ = 1;
  NameKinds<bool> is_json_;  // whether a name is a JSON list or object

  // A process of the rank that is written.
  struct Process {
    int64_t pid = 0;
    bool numeric = true;
    std::string_view text;
  };
  std::vector<Process> processes_;  // one a thread

  bool merged() const { return ranks_.size() > 1; }
  std::string_view Text(NameId id) const { return set_.names.Text(id); }
  Nanos Offset(uint32_t r) const {
    return options_.clocks != nullptr && r < options_.clocks->clocks.size()
               ? options_.clocks->clocks[r].offset
               : 0;
  }

  int32_t StepIndex(const RankTrace& rank) const {
    if (!options_.step) return kNoStep;
    for (size_t i = 0; i < rank.steps.size(); ++i)
      if (rank.steps[i].number == *options_.step) return static_cast<int32_t>(i);
    return kNoStep;
  }

  Status ChooseRanks() {
    std::string without;
    for (uint32_t i = 0; i < set_.ranks.size(); ++i) {
      const RankTrace& rank = set_.ranks[i];
      const bool asked = options_.ranks.empty() ||
                         std::ranges::find(options_.ranks, rank.rank) != options_.ranks.end();
      if (!asked) continue;
      if (options_.step && StepIndex(rank) == kNoStep) {
        without += fmt::format("{}{}", without.empty() ? "" : ", ", rank.rank);
        continue;
      }
      ranks_.push_back(i);
      out_.ranks.push_back(rank.rank);
    }
    if (ranks_.empty()) {
      return without.empty() ? NotFound("none of the asked ranks is in these traces")
                             : NotFound("no rank asked for has a step ProfilerStep#{}: {}",
                                        *options_.step, StepsOf());
    }
    if (!without.empty())
      out_.notes.push_back(fmt::format("without step {}: rank {}", *options_.step, without));
    for (const int32_t rank : options_.ranks)
      if (set_.FindRank(rank) == nullptr)
        out_.notes.push_back(fmt::format("rank {} is not loaded", rank));
    if (options_.clocks != nullptr && merged()) {
      std::map<int, int> components;
      for (const uint32_t r : ranks_) ++components[options_.clocks->clocks[r].component];
      if (components.size() > 1) {
        out_.notes.push_back(
            fmt::format("the clocks of {} groups of ranks are linked by no collective: their times "
                        "do not compare",
                        components.size()));
      }
    }
    return absl::OkStatus();
  }

  std::string StepsOf() const {
    for (const RankTrace& rank : set_.ranks) {
      if (rank.steps.empty()) continue;
      return fmt::format("rank {} has steps {} to {}", rank.rank, rank.steps.front().number,
                         rank.steps.back().number);
    }
    return "the traces mark no steps";
  }

  void Header() {
    buffer_ += "{\n\"schemaVersion\":1,\n\"displayTimeUnit\":\"ms\"";
    if (base_ != 0) buffer_ += fmt::format(",\n\"baseTimeNanoseconds\":{}", base_);
    const RankTrace& first = set_.ranks[ranks_.front()];
    std::map<int32_t, const Device*> devices;
    bool shapes = false, stack = false, memory = false, modules = false;
    for (const uint32_t r : ranks_) {
      const RankTrace& rank = set_.ranks[r];
      for (const Device& device : rank.devices) devices.try_emplace(device.id, &device);
      shapes |= rank.record_shapes;
      stack |= rank.with_stack;
      memory |= rank.profile_memory;
      modules |= rank.with_modules;
    }
    const auto flag = [&](bool on, std::string_view name) {
      if (on) buffer_ += fmt::format(",\n\"{}\":1", name);
    };
    flag(shapes, "record_shapes");
    flag(stack, "with_stack");
    flag(memory, "profile_memory");
    flag(modules, "with_modules");
    buffer_ += ",\n\"deviceProperties\":[";
    for (const auto& [id, device] : devices) {
      if (buffer_.back() == '}') buffer_ += ',';
      Members m(&buffer_);
      m.Integer("id", id);
      m.Text("name", device->name);
      m.Known("totalGlobalMem", device->memory_bytes);
      if (device->compute_major >= 0) m.Integer("computeMajor", device->compute_major);
      if (device->compute_minor >= 0) m.Integer("computeMinor", device->compute_minor);
      if (device->sm_count >= 0) m.Integer("numSms", device->sm_count);
      m.Close();
    }
    buffer_ += "],\n\"distributedInfo\":";
    Members info(&buffer_);
    if (!first.backend.empty()) info.Text("backend", first.backend);
    if (!merged() && first.rank_known)
      info.Raw("rank", fmt::format(" {}", first.rank));  // HTA looks for `"rank": `
    info.Known("world_size", first.world_size);
    if (!first.nccl_version.empty()) info.Text("nccl_version", first.nccl_version);
    if (!merged() && !first.process_groups.empty()) ProcessGroups(first, &info);
    info.Close();
    buffer_ += ",\n\"flopwatch\":";
    Members own(&buffer_);
    own.Text("clocks", options_.clocks == nullptr ? "as recorded"
                       : options_.clocks->one_clock
                           ? "as recorded: the ends of collectives agree as on one clock"
                           : "aligned on the ends of collectives: offset_ns was subtracted from "
                             "the times of each rank");
    if (options_.step) own.Integer("step", *options_.step);
    own.Key("ranks");
    buffer_ += '[';
    for (const uint32_t r : ranks_) {
      if (buffer_.back() == '}') buffer_ += ',';
      Members m(&buffer_);
      m.Integer("rank", set_.ranks[r].rank);
      m.Integer("offset_ns", Offset(r));
      if (options_.clocks != nullptr && r < options_.clocks->clocks.size()) {
        const RankClock& clock = options_.clocks->clocks[r];
        m.Integer("measured_ns", clock.measured);
        m.Integer("collectives", clock.samples);
        m.Integer("spread_ns", clock.spread);
        m.Integer("component", clock.component);
      }
      m.Text("path", set_.ranks[r].path.substr(set_.ranks[r].path.find_last_of('/') + 1));
      m.Close();
    }
    buffer_ += ']';
    own.Close();
    buffer_ += ",\n\"traceEvents\":[";
  }

  void ProcessGroups(const RankTrace& rank, Members* info) {
    info->Key("pg_config");
    buffer_ += '[';
    for (const ProcessGroup& group : rank.process_groups) {
      if (buffer_.back() == '}') buffer_ += ',';
      Members m(&buffer_);
      m.Text("pg_name", group.name);
      m.Text("pg_desc", group.description);
      m.Text("backend_config", group.backend);
      m.Known("pg_size", group.size);
      std::string ranks;
      for (const int32_t member : group.ranks)
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", member);
      m.Raw("ranks", fmt::format("[{}]", ranks));
      m.Close();
    }
    buffer_ += ']';
  }

  Status Flush(bool all) {
    if (buffer_.empty() || (!all && buffer_.size() < kChromeChunk)) return absl::OkStatus();
    out_.bytes += buffer_.size();
    const Status status = sink_(buffer_);
    buffer_.clear();
    return status;
  }

  Members Event() {
    buffer_ += first_event_ ? "\n" : ",\n";
    first_event_ = false;
    return Members(&buffer_);
  }

  void Place(Members* m, const RankTrace& rank, uint32_t thread) const {
    const Thread& t = rank.threads[thread];
    const Process& p = processes_[thread];
    if (p.numeric)
      m->Integer("pid", p.pid);
    else
      m->Text("pid", p.text);
    if (t.tid == kUnknown && t.tid_text != kNoName)
      m->Text("tid", Text(t.tid_text));
    else
      m->Integer("tid", t.tid == kUnknown ? 0 : t.tid);
  }

  // In a merged file the processes of a rank are counted from rank * kProcessesARank, in the order
  // of their own numbers.
  void NumberProcesses(const RankTrace& rank, int64_t first, int64_t width) {
    std::map<std::pair<int64_t, std::string_view>, int64_t> order;
    for (const Thread& t : rank.threads) order.try_emplace({t.pid, Text(t.pid_text)}, 0);
    int64_t next = 0;
    for (auto& [key, n] : order) n = first + next++ % width;
    processes_.clear();
    for (const Thread& t : rank.threads) {
      const bool numeric = merged() || t.pid != kUnknown || t.pid_text == kNoName;
      const int64_t own = t.pid == kUnknown ? 0 : t.pid;
      processes_.push_back(
          {merged() ? order[{t.pid, Text(t.pid_text)}] : own, numeric, Text(t.pid_text)});
    }
  }

  Status OneRank(uint32_t index) {
    const RankTrace& rank = set_.ranks[index];
    const EventTable& e = rank.events;
    const Nanos shift = Offset(index) + base_;
    const int32_t step = StepIndex(rank);
    const Interval window = step == kNoStep ? Interval{}
                                            : Interval{rank.steps[static_cast<size_t>(step)].begin,
                                                       rank.steps[static_cast<size_t>(step)].end};
    const auto in_window = [&](Nanos t) {
      return step == kNoStep || (t >= window.begin && t < window.end);
    };
    const auto wanted = [&](Row r) {
      if (step == kNoStep || e.step[r] == step) return true;
      return e.step[r] == kNoStep && OnDevice(e.category[r]) && in_window(e.ts[r]);
    };
    int64_t width = kProcessesARank;
    for (const uint32_t r : ranks_) {
      while (width < static_cast<int64_t>(set_.ranks[r].threads.size())) width *= 10;
    }
    NumberProcesses(rank, static_cast<int64_t>(rank.rank) * width, width);
    std::vector<bool> used(rank.threads.size(), false), device(rank.threads.size(), false);
    for (Row r = 0; r < e.size(); ++r) {
      if (!wanted(r)) continue;
      used[e.thread[r]] = true;
      if (OnDevice(e.category[r])) device[e.thread[r]] = true;
    }
    NameThreads(rank, used, device);
    absl::flat_hash_set<Row> critical;
    const CriticalPath* path = nullptr;
    for (const ChromeOverlay& overlay : options_.overlays)
      if (overlay.rank == rank.rank) path = overlay.path;
    if (path != nullptr)
      for (const PathStep& s : path->steps) critical.insert({s.from, s.to});
    absl::flat_hash_map<Row, std::vector<const RangeMetric*>> metrics;
    for (const RangeMetric& metric : rank.range_metrics) metrics[metric.row].push_back(&metric);
    for (Row r = 0; r < e.size(); ++r) {
      if (!wanted(r)) continue;
      Members m = Event();
      m.Text("ph", "X");
      m.Text("cat", CategoryText(rank, r));
      m.Text("name", Text(e.name[r]));
      Place(&m, rank, e.thread[r]);
      m.Time("ts", e.ts[r] - shift);
      m.Time("dur", e.dur[r]);
      m.Key("args");
      Args(rank, r, critical.contains(r), metrics);
      m.Close();
      ++out_.rows;
      if (options_.arrows && IsGpuWork(e.category[r]) && e.launch[r] != kNoRow &&
          wanted(e.launch[r])) {
        Arrow(rank, "ac2g", "ac2g", e.launch[r], e.ts[e.launch[r]] - shift, r, e.ts[r] - shift);
      }
      FW_RETURN_IF_ERROR(Flush(false));
    }
    FW_RETURN_IF_ERROR(ArrowsBetween(rank, path, shift, wanted));
    return Samples(rank, shift, in_window);
  }

  // The arrows from forward to backward, and along the critical path where one is given.
  template <typename Wanted>
  Status ArrowsBetween(const RankTrace& rank, const CriticalPath* path, Nanos shift,
                       const Wanted& wanted) {
    const EventTable& e = rank.events;
    if (options_.arrows) {
      for (const auto& [forward, backward] : rank.forward_backward) {
        if (forward >= e.size() || backward >= e.size() || !wanted(forward) || !wanted(backward))
          continue;
        Arrow(rank, "fwdbwd", "fwdbwd", forward, e.ts[forward] - shift, backward,
              e.ts[backward] - shift);
        FW_RETURN_IF_ERROR(Flush(false));
      }
    }
    if (path != nullptr) {
      for (const PathStep& s : path->steps) {
        if (s.from == s.to || s.edge == PathEdge::kOperator ||
            s.edge == PathEdge::kKernelKernelDelay || !wanted(s.from) || !wanted(s.to))
          continue;
        // Times are inside the slice: an arrow belongs to what runs at its time.
        const auto at = [&](Row r, bool start) {
          return (start ? e.ts[r] : std::max(e.ts[r], e.end(r) - 1)) - shift;
        };
        Arrow(rank, PathEdgeName(s.edge), "critical_path", s.from, at(s.from, s.from_start), s.to,
              at(s.to, s.to_start));
        FW_RETURN_IF_ERROR(Flush(false));
      }
    }
    return absl::OkStatus();
  }

  std::string_view CategoryText(const RankTrace& rank, Row r) const {
    if (rank.format == "kineto" && rank.events.file_category[r] != kNoName)
      return Text(rank.events.file_category[r]);
    const Category c = rank.events.category[r];
    return c == Category::kGpuCollective ? "collective_comm" : CategoryName(c);
  }

  void NameThreads(const RankTrace& rank, const std::vector<bool>& used,
                   const std::vector<bool>& device) {
    std::vector<uint32_t> order;
    for (uint32_t t = 0; t < rank.threads.size(); ++t)
      if (used[t]) order.push_back(t);
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
      return std::pair(processes_[a].pid, rank.threads[a].tid) <
             std::pair(processes_[b].pid, rank.threads[b].tid);
    });
    const auto meta = [&](uint32_t thread, std::string_view name, std::string_view key,
                          const auto& value) {
      Members m = Event();
      m.Text("ph", "M");
      m.Text("name", name);
      Place(&m, rank, thread);
      m.Integer("ts", 0);
      Members args(m.Key("args"));
      if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>)
        args.Integer(key, value);
      else
        args.Text(key, value);
      args.Close();
      m.Close();
    };
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t t = order[i];
      const Thread& thread = rank.threads[t];
      const bool new_process = i == 0 || processes_[order[i - 1]].pid != processes_[t].pid ||
                               processes_[order[i - 1]].text != processes_[t].text;
      if (new_process) {
        std::string name(Text(thread.process_name));
        const std::string_view label = Text(thread.process_label);
        if (name.empty() && thread.pid_text != kNoName) name = Text(thread.pid_text);
        if (merged()) {
          const std::string own =
              thread.pid == kUnknown ? std::string() : fmt::format(" (pid {})", thread.pid);
          name = fmt::format("rank {}: {}", rank.rank,
                             device[t] ? fmt::format("GPU {}", thread.pid)
                                       : (name.empty() ? "process" : name) + own);
        }
        if (!name.empty()) meta(t, "process_name", "name", name);
        if (!label.empty()) meta(t, "process_labels", "labels", label);
        meta(t, "process_sort_index", "sort_index",
             int64_t{merged() ? rank.rank : 0} * 2 + (device[t] ? 1 : 0));
      }
      if (thread.name != kNoName) meta(t, "thread_name", "name", Text(thread.name));
      if (thread.tid != kUnknown) meta(t, "thread_sort_index", "sort_index", thread.tid);
    }
  }

  void Arrow(const RankTrace& rank, std::string_view category, std::string_view name, Row from,
             Nanos from_ts, Row to, Nanos to_ts) {
    for (const bool start : {true, false}) {
      Members m = Event();
      m.Text("ph", start ? "s" : "f");
      m.Integer("id", next_arrow_);
      Place(&m, rank, rank.events.thread[start ? from : to]);
      m.Time("ts", start ? from_ts : to_ts);
      m.Text("cat", category);
      m.Text("name", name);
      if (!start) m.Text("bp", "e");
      m.Close();
    }
    ++next_arrow_;
    ++out_.arrows;
  }

  // Lists of operators are JSON in the file they come from; what is none is written as a text.
  void List(Members* m, std::string_view key, NameId id) {
    if (id == kNoName) return;
    const std::string_view text = Text(id);
    if (is_json_.Of(id, IsJson))
      m->Raw(key, text);
    else
      m->Text(key, text);
  }

  void TextOf(Members* m, std::string_view key, NameId id) const {
    if (id != kNoName) m->Text(key, Text(id));
  }

  void Args(const RankTrace& rank, Row r, bool critical,
            const absl::flat_hash_map<Row, std::vector<const RangeMetric*>>& metrics) {
    const EventTable& e = rank.events;
    Members m(&buffer_);
    if (e.external_id[r] != kNoId) m.Integer("External id", e.external_id[r]);
    if (const KernelDetail* k = rank.KernelOf(r)) {
      if (k->device >= 0) m.Integer("device", k->device);
      m.Known("context", k->context);
      if (k->registers_per_thread >= 0) m.Integer("registers per thread", k->registers_per_thread);
      m.Known("shared memory", k->shared_memory_bytes);
      m.Real("blocks per SM", k->blocks_per_sm);
      m.Real("warps per SM", k->warps_per_sm);
      if (k->grid[0] != 0)
        m.Raw("grid", fmt::format("[{},{},{}]", k->grid[0], k->grid[1], k->grid[2]));
      if (k->block[0] != 0)
        m.Raw("block", fmt::format("[{},{},{}]", k->block[0], k->block[1], k->block[2]));
      m.Real("est. achieved occupancy %", k->occupancy_pct);
      m.Known("graph id", k->graph_id);
      m.Known("graph node id", k->graph_node_id);
    }
    if (const CopyDetail* c = rank.CopyOf(r)) {
      if (c->device >= 0) m.Integer("device", c->device);
      m.Known("bytes", c->bytes);
      m.Real("memory bandwidth (GB/s)", c->bandwidth_gbps);
    }
    if (e.stream[r] != kNoStream) m.Integer("stream", e.stream[r]);
    if (e.correlation[r] != kNoId) m.Integer("correlation", e.correlation[r]);
    if (const OpDetail* o = rank.OpOf(r)) {
      List(&m, "Input Dims", o->input_dims);
      List(&m, "Input type", o->input_types);
      List(&m, "Input Strides", o->input_strides);
      List(&m, "Concrete Inputs", o->concrete_inputs);
      TextOf(&m, "Call stack", o->call_stack);
      TextOf(&m, "Module Hierarchy", o->module_hierarchy);
      m.Known("Sequence number", o->sequence_number);
      m.Known("Fwd thread id", o->forward_thread);
    }
    if (const CollectiveDetail* c = rank.CollectiveOf(r)) {
      TextOf(&m, "Collective name", c->collective);
      TextOf(&m, "dtype", c->dtype);
      m.Known("In msg nelems", c->in_elements);
      m.Known("Out msg nelems", c->out_elements);
      m.Known("Group size", c->group_size);
      TextOf(&m, "Process Group Name", c->group_name);
      TextOf(&m, "Process Group Description", c->group_description);
      TextOf(&m, "Process Group Ranks", c->group_ranks);
      m.Known("Seq", c->sequence);
      m.Known("Comms Id", c->communicator);
      if (c->source_rank >= 0) m.Integer("Src Rank", c->source_rank);
      if (c->destination_rank >= 0) m.Integer("Dst Rank", c->destination_rank);
    }
    if (const SyncDetail* s = rank.SyncOf(r)) {
      if (s->wait_on_stream != kNoStream) m.Integer("wait_on_stream", s->wait_on_stream);
      m.Known("wait_on_cuda_event_id", s->wait_on_event_id);
      m.Known("wait_on_cuda_event_record_corr_id", s->wait_on_event_record_correlation);
    }
    if (const PythonDetail* p = rank.PythonOf(r)) {
      m.Known("Python id", p->id);
      m.Known("Python parent id", p->parent_id);
      m.Known("Python module id", p->module_id);
    }
    if (const auto of_row = metrics.find(r); of_row != metrics.end()) {
      for (const RangeMetric* metric : of_row->second) {
        if (!std::isfinite(metric->value)) continue;
        std::string key;
        AppendJsonString(&key, Text(metric->metric));
        m.Real(std::string_view(key).substr(1, key.size() - 2), metric->value);
      }
    }
    if (critical) m.Integer("critical", 1);
    m.Close();
  }

  // Counter tracks and the allocator's events. They name no process of their own: the first of the
  // rank has them.
  template <typename InWindow>
  Status Samples(const RankTrace& rank, Nanos shift, const InWindow& in_window) {
    if (rank.threads.empty()) return absl::OkStatus();
    for (const CounterSample& c : rank.counters) {
      if (!in_window(c.ts) || !std::isfinite(c.value)) continue;
      Members m = Event();
      m.Text("ph", "C");
      m.Text("name", c.device >= 0 ? fmt::format("{} (GPU {})", Text(c.counter), c.device)
                                   : std::string(Text(c.counter)));
      Place(&m, rank, 0);
      m.Time("ts", c.ts - shift);
      Members args(m.Key("args"));
      args.Real("value", c.value);
      args.Close();
      m.Close();
      FW_RETURN_IF_ERROR(Flush(false));
    }
    for (const MemoryEvent& event : rank.memory) {
      if (!in_window(event.ts)) continue;
      Members m = Event();
      m.Text("ph", "i");
      m.Text("s", "t");
      m.Text("cat", "cpu_instant_event");
      m.Text("name", "[memory]");
      Place(&m, rank, 0);
      m.Time("ts", event.ts - shift);
      Members args(m.Key("args"));
      args.Integer("Bytes", event.bytes);
      args.Known("Addr", event.address);
      if (event.device_type >= 0) args.Integer("Device Type", event.device_type);
      args.Integer("Device Id", event.device);
      args.Known("Total Allocated", event.total_allocated);
      args.Known("Total Reserved", event.total_reserved);
      args.Close();
      m.Close();
      FW_RETURN_IF_ERROR(Flush(false));
    }
    return absl::OkStatus();
  }
};

}  // namespace

StatusOr<ChromeExport> WriteChromeTrace(const TraceSet& set, const ChromeExportOptions& options,
                                        const ChromeSink& sink) {
  return Writer(set, options, sink).Run();
}

}  // namespace flopwatch::trace
