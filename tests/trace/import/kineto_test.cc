// The Kineto importer against the counts of the oracle (data/traces/oracle/format_facts.json, made
// by a plain script) and against hand-written events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/json_read.h"
#include "data.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using testing_data::ReadFile;
using testing_data::SharedData;

std::string Write(std::string_view name, std::string_view text) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

TraceSet LoadText(std::string_view text, std::string_view name = "kineto_test.json") {
  StatusOr<Loaded> loaded = Load({Write(name, text)});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? std::move(loaded->set) : TraceSet();
}

int64_t LossOf(const RankTrace& rank, std::string_view reason) {
  for (const Loss& loss : rank.losses) {
    if (loss.reason == reason) return loss.count;
  }
  return 0;
}

TEST(Kineto, EveryRealTraceHasTheOraclesCounts) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle/format_facts.json");
  const StatusOr<Json> facts =
      Json::Parse(ReadFile(SharedData() / "traces/oracle/format_facts.json"));
  ASSERT_TRUE(facts.ok()) << facts.status();
  // Not rows: arrows, instants, labels, the profiler's own spans, and events without a category.
  const std::set<std::string> no_rows = {
      "ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd", "cpu_instant_event",
      "M",    "None",  "Trace"};
  int files = 0;
  for (const auto& [file, fact] : facts->object()) {
    SCOPED_TRACE(file);
    const StatusOr<Loaded> loaded = Load({(SharedData() / "traces" / file).string()});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const TraceSet& set = loaded->set;
    ASSERT_EQ(set.ranks.size(), 1u);
    const RankTrace& rank = set.ranks[0];
    EXPECT_EQ(rank.text_bytes, static_cast<uint64_t>(fact["json_bytes"].integer_or(0)));
    std::map<std::string, int64_t> want, got;
    for (const auto& [category, count] : fact["cats"].object()) {
      if (!no_rows.contains(category)) want[category] = count.integer_or(0);
    }
    int64_t kernels = 0;
    std::set<int64_t> kernel_streams;
    for (Row r = 0; r < rank.events.size(); ++r) {
      ++got[std::string(set.names.Text(rank.events.file_category[r]))];
      if (rank.events.category[r] != Category::kKernel) continue;
      ++kernels;
      kernel_streams.insert(rank.events.stream[r]);
      EXPECT_NE(rank.KernelOf(r), nullptr);
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(kernels, fact["kernels"].integer_or(-1));
    std::set<int64_t> want_streams;
    for (const Json& stream : fact["streams"].array()) want_streams.insert(stream.integer_or(-1));
    EXPECT_EQ(kernel_streams, want_streams);
    std::vector<std::string> steps, want_steps;
    for (const Step& step : rank.steps) steps.emplace_back(set.Name(rank, step.row));
    for (const Json& step : fact["steps"].array()) want_steps.push_back(step.text());
    EXPECT_EQ(steps, want_steps);
    const Json& info = fact["distributedInfo"];
    EXPECT_EQ(rank.rank, info["rank"].integer_or(0));
    EXPECT_EQ(rank.world_size, info["world_size"].integer_or(kUnknown));
    EXPECT_EQ(rank.backend, info["backend"].text());
    const Json::Array& device = fact["device"].array();
    if (!device.empty()) {
      ASSERT_EQ(rank.devices.size(), static_cast<size_t>(device[1].integer_or(0)));
      EXPECT_EQ(rank.devices[0].name, device[0].text());
      EXPECT_EQ(rank.devices[0].sm_count, device[2].integer_or(0));
    }
    // The oracle's span has the profiler's own span in it, where there is one, and is a double of
    // microseconds.
    const double span_us = fact["span_us"].number_or(-1),
                 ours_us = static_cast<double>(rank.end - rank.begin) / 1e3;
    if (fact["cats"]["Trace"].is_null()) {
      EXPECT_NEAR(ours_us, span_us, 0.01) << "span";
    } else {
      EXPECT_LE(ours_us, span_us + 0.01);
    }
    ++files;
  }
  EXPECT_GE(files, 33);
}

TEST(Kineto, EightRanksLoadAtOnce) {
  FLOPWATCH_REQUIRE_DATA("traces/dlrm_v100_8ranks");
  const StatusOr<Loaded> loaded = Load({(SharedData() / "traces/dlrm_v100_8ranks").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->failures.empty());
  ASSERT_EQ(loaded->set.ranks.size(), 8u);
  for (int32_t i = 0; i < 8; ++i) {
    const RankTrace& rank = loaded->set.ranks[static_cast<size_t>(i)];
    EXPECT_EQ(rank.rank, i);
    EXPECT_TRUE(rank.rank_known);
    EXPECT_EQ(rank.world_size, 8);
    ASSERT_EQ(rank.steps.size(), 1u);
    EXPECT_EQ(rank.steps[0].number, 10);
  }
}

TEST(Kineto, TimesAreExactAndDetailsAreKept) {
  const TraceSet set = LoadText(
      R"json({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3",
      "totalGlobalMem": 85045149696, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank":3, "world_size": 4,
    "pg_config": [{"pg_name": "0", "pg_desc": "default_pg",
      "backend_config": "cuda:nccl", "pg_size": 4, "ranks": [0, 1, 2, 3]}],
      "nccl_version": "2.27.5"},
    "record_shapes": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10, "tid": 11,
    "ts": 4419247333291.708, "dur": 22.51,
      "args": {"External id": 5, "Input Dims": [[32, 9216], [4096, 9216]],
      "Input type": ["float", "float"], "Sequence number": 7}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 11,
    "ts": 4419247333295.001, "dur": 4,
      "args": {"External id": 5, "correlation": 9007199254740993}},
    {"ph": "X", "cat": "kernel", "name": "gemm \"x\"", "pid": 0, "tid": 7,
    "ts": "4419247333300.5", "dur": "10.0004",
      "args": {"External id": 5, "device": 0, "context": 1, "stream": 7,
      "correlation": "9007199254740993",
        "registers per thread": 168, "shared memory": 229376, "blocks per SM": 0.969697,
        "warps per SM": 3.878788,
        "grid": [128, 1, 1], "block": [128, 2, 1], "est. achieved occupancy %": 6,
        "graph node id": 12}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 "}},
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
    {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 10,
    "tid": 11, "ts": 4419247333292.000,
      "args": {"Total Reserved": 2097152, "Total Allocated": 512, "Bytes": -512,
      "Addr": 140250, "Device Id": 0, "Device Type": 1, "Ev Idx": 1}}
    ], "baseTimeNanoseconds": 1751410836000000000, "traceName": "x.json"})json");
  ASSERT_EQ(set.ranks.size(), 1u);
  const RankTrace& rank = set.ranks[0];
  const EventTable& e = rank.events;
  EXPECT_EQ(rank.rank, 3);
  EXPECT_TRUE(rank.rank_known);
  EXPECT_TRUE(rank.wall_clock);
  EXPECT_TRUE(rank.record_shapes);
  EXPECT_EQ(rank.nccl_version, "2.27.5");
  ASSERT_EQ(rank.process_groups.size(), 1u);
  EXPECT_THAT(rank.process_groups[0].ranks, ::testing::ElementsAre(0, 1, 2, 3));
  ASSERT_EQ(e.size(), 3u);
  EXPECT_EQ(e.ts[0], 1751410836000000000 + 4419247333291708);
  EXPECT_EQ(e.dur[0], 22510);
  EXPECT_EQ(e.ts[2], 1751410836000000000 + 4419247333300500);
  EXPECT_EQ(e.dur[2], 10000);
  EXPECT_EQ(e.correlation[1], 9007199254740993);
  EXPECT_EQ(e.launch[2], 1u);
  EXPECT_EQ(e.op[2], 0u);
  EXPECT_EQ(set.Name(rank, 2), "gemm \"x\"");
  EXPECT_EQ(e.stream[2], 7);
  EXPECT_EQ(e.stream[0], kNoStream);
  const OpDetail* op = rank.OpOf(0);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(set.names.Text(op->input_dims), "[[32, 9216], [4096, 9216]]");
  EXPECT_EQ(set.names.Text(op->input_types), R"(["float", "float"])");
  EXPECT_EQ(op->sequence_number, 7);
  const KernelDetail* kernel = rank.KernelOf(2);
  ASSERT_NE(kernel, nullptr);
  EXPECT_THAT(kernel->grid, ::testing::ElementsAre(128, 1, 1));
  EXPECT_THAT(kernel->block, ::testing::ElementsAre(128, 2, 1));
  EXPECT_EQ(kernel->registers_per_thread, 168);
  EXPECT_EQ(kernel->shared_memory_bytes, 229376);
  EXPECT_DOUBLE_EQ(kernel->blocks_per_sm, 0.969697);
  EXPECT_DOUBLE_EQ(kernel->occupancy_pct, 6);
  EXPECT_EQ(kernel->graph_id, kUnknown);
  EXPECT_EQ(kernel->graph_node_id, 12);
  EXPECT_EQ(set.names.Text(rank.threads[e.thread[2]].name), "stream 7 ");
  EXPECT_EQ(set.names.Text(rank.threads[e.thread[2]].process_label), "GPU 0");
  ASSERT_EQ(rank.memory.size(), 1u);
  EXPECT_EQ(rank.memory[0].ts, 1751410836000000000 + 4419247333292000);
  EXPECT_EQ(rank.memory[0].bytes, -512);
  EXPECT_EQ(rank.memory[0].total_allocated, 512);
  ASSERT_EQ(rank.devices.size(), 1u);
  EXPECT_EQ(rank.devices[0].memory_bytes, 85045149696);
  EXPECT_TRUE(rank.losses.empty()) << rank.losses[0].reason;
}

TEST(Kineto, ListRootCountersAndForwardBackward) {
  const TraceSet set = LoadText(R"json([
    {"ph": "X", "cat": "Operator", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
    {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10,
    "dur": 10, "args": {"Sequence number": 1}},
    {"ph": "X", "cat": "Operator", "name": "MmBackward", "pid": 1, "tid": 2, "ts": 50,
    "dur": 5, "args": {"Sequence number": 1, "Fwd thread id": 1}},
    {"ph": "s", "id": 3, "pid": 1, "tid": 1, "ts": 10, "cat": "fwdbwd", "name": "fwdbwd"},
    {"ph": "f", "id": 3, "pid": 1, "tid": 2, "ts": 50, "cat": "fwdbwd", "name": "fwdbwd",
    "bp": "e"},
    {"ph": "f", "id": 4, "pid": 1, "tid": 2, "ts": 51, "cat": "fwdbwd", "name": "fwdbwd",
    "bp": "e"},
    {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 20, "args": {"GPU Utilization": 0.5}},
    {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 15, "args": {"GPU Utilization": 1}},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Traces",
    "tid": "PyTorch Profiler", "ts": 0, "dur": 100}
  ])json");
  ASSERT_EQ(set.ranks.size(), 1u);
  const RankTrace& rank = set.ranks[0];
  ASSERT_EQ(rank.events.size(), 3u);
  EXPECT_EQ(rank.events.category[0], Category::kCpuOp);
  ASSERT_EQ(rank.forward_backward.size(), 1u);
  EXPECT_EQ(set.Name(rank, rank.forward_backward[0].first), "aten::mm");
  EXPECT_EQ(set.Name(rank, rank.forward_backward[0].second), "MmBackward");
  EXPECT_EQ(LossOf(rank, "flow_without_operator"), 1);
  ASSERT_EQ(rank.counters.size(), 2u);
  EXPECT_EQ(rank.counters[0].ts, 15'000);
  EXPECT_EQ(rank.counters[0].value, 1);
  EXPECT_EQ(set.names.Text(rank.counters[0].counter), "GPU 0 Utilization GPU Utilization");
  EXPECT_FALSE(rank.wall_clock);
}

// A stream that waits is no kernel, whatever the writer calls it: it would be the longest of all.
TEST(Kineto, AWaitThatIsWrittenAsAKernelIsAWait) {
  const TraceSet set = LoadText(R"({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 5, "pid": 0, "tid": 7,
     "args": {"stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "Stream Wait Event", "ts": 5, "dur": 900, "pid": 0,
     "tid": 7, "args": {"stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "EVENT_WAIT", "ts": 905, "dur": 800, "pid": 0, "tid": 7},
    {"ph": "X", "cat": "kernel", "name": "Stream Wait Event kernel", "ts": 1705, "dur": 1,
     "pid": 0, "tid": 7, "args": {"stream": 7}}]})");
  ASSERT_EQ(set.ranks.size(), 1u);
  const EventTable& e = set.ranks[0].events;
  std::map<std::string, Category> is;
  for (Row r = 0; r < e.size(); ++r) is[std::string(set.names.Text(e.name[r]))] = e.category[r];
  EXPECT_EQ(is["gemm"], Category::kKernel);
  EXPECT_EQ(is["Stream Wait Event"], Category::kSync);
  EXPECT_EQ(is["EVENT_WAIT"], Category::kSync);
  EXPECT_EQ(is["Stream Wait Event kernel"], Category::kKernel);
}

}  // namespace
}  // namespace flopwatch::trace
