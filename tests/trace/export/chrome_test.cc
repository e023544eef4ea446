#include "trace/export/chrome.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_read.h"
#include "data.h"
#include "trace/builder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

struct Written {
  std::string text;
  ChromeExport stats;
};

Written WriteExport(const TraceSet& set, const ChromeExportOptions& options) {
  Written out;
  const StatusOr<ChromeExport> stats = WriteChromeTrace(set, options, [&](std::string_view piece) {
    out.text += piece;
    return absl::OkStatus();
  });
  EXPECT_TRUE(stats.ok()) << stats.status();
  if (stats.ok()) out.stats = *stats;
  EXPECT_EQ(out.stats.bytes, out.text.size());
  return out;
}

StatusOr<Loaded> Reload(const std::string& text) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("flopwatch_export_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path, std::ios::binary) << text;
  StatusOr<Loaded> loaded = Load({path.string()});
  std::filesystem::remove(path);
  return loaded;
}

// Everything that a row says, as text, in the order of the table.
std::vector<std::string> ExportedRows(const TraceSet& set, const RankTrace& rank, int32_t step) {
  const EventTable& e = rank.events;
  std::vector<std::string> out;
  const auto name = [&](NameId id) { return std::string(set.names.Text(id)); };
  for (Row r = 0; r < e.size(); ++r) {
    if (step != kNoStep && e.step[r] != step) continue;
    const Thread& t = rank.threads[e.thread[r]];
    std::string line = std::to_string(e.ts[r]) + " " + std::to_string(e.dur[r]) + " " +
                       std::string(CategoryName(e.category[r])) + " " + name(e.name[r]) + " " +
                       name(e.file_category[r]) + " " + std::to_string(t.pid) + "/" +
                       std::to_string(t.tid) + " " + name(t.pid_text) + " " + name(t.process_name) +
                       " " + name(t.name) + " " + std::to_string(e.stream[r]) + " " +
                       std::to_string(e.correlation[r]) + " " + std::to_string(e.external_id[r]);
    if (const KernelDetail* k = rank.KernelOf(r)) {
      line += " grid " + std::to_string(k->grid[0]) + "," + std::to_string(k->grid[2]) + " block " +
              std::to_string(k->block[0]) + " regs " + std::to_string(k->registers_per_thread) +
              " shared " + std::to_string(k->shared_memory_bytes) + " bps " +
              std::to_string(k->blocks_per_sm) + " occ " + std::to_string(k->occupancy_pct) +
              " dev " + std::to_string(k->device) + " ctx " + std::to_string(k->context);
    }
    if (const CopyDetail* c = rank.CopyOf(r))
      line += " bytes " + std::to_string(c->bytes) + " bw " + std::to_string(c->bandwidth_gbps);
    if (const OpDetail* o = rank.OpOf(r)) {
      line += " dims " + name(o->input_dims) + " types " + name(o->input_types) + " concrete " +
              name(o->concrete_inputs) + " stack " + name(o->call_stack) + " seq " +
              std::to_string(o->sequence_number) + " fwd " + std::to_string(o->forward_thread);
    }
    if (const CollectiveDetail* c = rank.CollectiveOf(r)) {
      line += " coll " + name(c->collective) + " " + name(c->group_ranks) + " " +
              name(c->group_name) + " " + std::to_string(c->in_elements) + " " +
              std::to_string(c->sequence);
    }
    if (const PythonDetail* p = rank.PythonOf(r))
      line += " py " + std::to_string(p->id) + " " + std::to_string(p->parent_id);
    if (const SyncDetail* s = rank.SyncOf(r))
      line += " sync " + std::to_string(s->wait_on_stream) + " " +
              std::to_string(s->wait_on_event_record_correlation);
    out.push_back(std::move(line));
  }
  std::sort(out.begin(), out.end());
  return out;
}

int32_t StepIndex(const RankTrace& rank, int64_t number) {
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    if (rank.steps[i].number == number) return static_cast<int32_t>(i);
  }
  return kNoStep;
}

TEST(ExportChrome, HostileNamesAndNanosecondsComeBack) {
  TraceBuilder b;
  const Nanos t0 = 1'712'195'495'502'094'512;
  b.Cpu(Category::kUserAnnotation, "ProfilerStep#7", t0, 5'000'001);
  b.Cpu(Category::kCpuOp, "quote \" backslash \\ line\nfeed \x01 umlaut \xC3\xA4 broken \xFF",
        t0 + 17, 999);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", t0 + 20, 3, 42);
  b.Gpu(Category::kKernel, "k<\"x\">", t0 + 1001, 1, 42);
  b.Cpu(Category::kCpuOp, "after", t0 + 9'000'000, 10);
  b.rank().wall_clock = true;
  b.rank().format = "kineto";
  const TraceSet set = std::move(b).Build();
  ChromeExportOptions options;
  options.step = 7;
  const Written written = WriteExport(set, options);
  EXPECT_EQ(written.stats.rows, 4);
  EXPECT_EQ(written.stats.arrows, 1);
  const StatusOr<Json> json = Json::Parse(written.text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["baseTimeNanoseconds"].integer(), 1'712'195'495'000'000'000);
  const StatusOr<Loaded> back = Reload(written.text);
  ASSERT_TRUE(back.ok()) << back.status();
  const RankTrace& rank = back->set.ranks[0];
  EXPECT_TRUE(rank.losses.empty() || rank.losses[0].reason.find("gpu_work") == 0)
      << rank.losses[0].reason;
  ASSERT_EQ(rank.events.size(), 4u);
  EXPECT_EQ(rank.events.ts[0], t0);
  EXPECT_EQ(rank.events.ts[3], t0 + 1001);
  EXPECT_EQ(rank.events.dur[0], 5'000'001);
  EXPECT_EQ(back->set.Name(rank, 1),
            "quote \" backslash \\ line\nfeed \x01 umlaut \xC3\xA4 broken \xEF\xBF\xBD");
  EXPECT_EQ(rank.events.launch[3], 2u);
  ASSERT_EQ(rank.steps.size(), 1u);
}

TEST(ExportChrome, ErrorsOfTheSinkAndWhatIsNotThere) {
  TraceBuilder b;
  b.Cpu(Category::kUserAnnotation, "ProfilerStep#7", 0, 10);
  const TraceSet set = std::move(b).Build();
  const StatusOr<ChromeExport> refused = WriteChromeTrace(
      set, {}, [](std::string_view) { return absl::ResourceExhaustedError("disk full"); });
  EXPECT_THAT(refused.status().message(), HasSubstr("disk full"));
  ChromeExportOptions options;
  options.step = 8;
  EXPECT_THAT(WriteChromeTrace(set, options, [](std::string_view) { return absl::OkStatus(); })
                  .status()
                  .message(),
              HasSubstr("ProfilerStep#8: rank 0 has steps 7 to 7"));
  options = {};
  options.ranks = {5};
  EXPECT_EQ(WriteChromeTrace(set, options, [](std::string_view) { return absl::OkStatus(); })
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST(ExportChrome, MergedRanksHaveProcessesOfTheirOwnAndOneClock) {
  constexpr Nanos kMs = 1'000'000;
  JobBuilder job;
  for (int32_t rank = 0; rank < 3; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      const Nanos clock = rank * 7 * kMs;  // ranks' clocks are milliseconds apart
      for (int i = 0; i < 5; ++i) {
        const Nanos end = 100 * kMs + i * kMs;
        b.Cpu(Category::kRuntime, "cudaLaunchKernel", clock + end - 500'000, 10'000, i + 1);
        b.Gpu(Category::kKernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
              clock + end - 100'000 - rank * 50'000, 100'000 + rank * 50'000, i + 1, 20);
      }
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  ChromeExportOptions options;
  options.clocks = &input.collectives();
  const Written written = WriteExport(set, options);
  EXPECT_EQ(written.stats.ranks.size(), 3u);
  EXPECT_EQ(written.stats.rows, 30);
  const StatusOr<Json> json = Json::Parse(written.text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT((*json)["flopwatch"]["clocks"].text(), HasSubstr("aligned"));
  const Json::Array& ranks = (*json)["flopwatch"]["ranks"].array();
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(*ranks[2]["offset_ns"].integer() - *ranks[1]["offset_ns"].integer(), 7 * kMs);
  std::map<int64_t, std::set<std::string>> names;  // pid -> process names
  std::vector<double> ends;
  bool events_begun = false;
  for (const Json& event : (*json)["traceEvents"].array()) {
    if (event["name"].text() == "process_name")
      names[*event["pid"].integer()].insert(event["args"]["name"].text());
    if (event["ph"].text() == "X") events_begun = true;
    if (event["ph"].text() == "X" && event["cat"].text() == "kernel")
      ends.push_back(*event["ts"].number() + *event["dur"].number());
  }
  EXPECT_TRUE(events_begun);
  ASSERT_EQ(names.size(), 6u);
  for (const auto& [pid, of_pid] : names) EXPECT_EQ(of_pid.size(), 1u) << pid;
  EXPECT_EQ(*names[100].begin(), "rank 1: GPU 0");
  EXPECT_EQ(*names[101].begin(), "rank 1: process (pid 1000)");
  ASSERT_EQ(ends.size(), 15u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(ends[i], ends[5 + i], 1e-6);
    EXPECT_NEAR(ends[i], ends[10 + i], 1e-6);
  }
}

TEST(ExportChrome, TheCriticalPathIsMarked) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::mm", 0, 100);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 10, 5, 1);
  b.Cpu(Category::kRuntime, "cudaDeviceSynchronize", 20, 70, 2);
  b.Gpu(Category::kKernel, "gemm", 30, 50, 1);
  b.Cpu(Category::kCpuOp, "elsewhere", 0, 5, kNoId, 9);
  const TraceSet set = std::move(b).Build();
  const AnalysisInput input(set, {});
  const StatusOr<CriticalPath> path = FindCriticalPath(*input.ranks()[0]);
  ASSERT_TRUE(path.ok());
  ChromeExportOptions options;
  options.overlays.push_back({0, &*path});
  const Written written = WriteExport(set, options);
  const StatusOr<Json> json = Json::Parse(written.text);
  ASSERT_TRUE(json.ok()) << json.status();
  std::set<std::string> critical;
  int arrows = 0;
  for (const Json& event : (*json)["traceEvents"].array()) {
    if (event["args"]["critical"].integer() == 1) critical.insert(event["name"].text());
    arrows += event["name"].text() == "critical_path" && event["ph"].text() == "s";
  }
  EXPECT_THAT(critical, testing::UnorderedElementsAre("aten::mm", "cudaLaunchKernel", "gemm",
                                                      "cudaDeviceSynchronize"));
  EXPECT_EQ(arrows, 2);  // launch to kernel, kernel to the call that waited
}

class RoundTrip : public ::testing::TestWithParam<std::pair<std::string, int64_t>> {};

TEST_P(RoundTrip, OneStepOfARealTraceReadsBackTheSame) {
  const auto& [file, number] = GetParam();
  FLOPWATCH_REQUIRE_DATA("traces/" + file);
  const StatusOr<Loaded> loaded = Load({(testing_data::SharedData() / "traces" / file).string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const RankTrace& rank = loaded->set.ranks[0];
  ChromeExportOptions options;
  if (number >= 0) options.step = number;
  const Written written = WriteExport(loaded->set, options);
  const StatusOr<Loaded> back = Reload(written.text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->set.ranks[0].rank, rank.rank);
  EXPECT_EQ(back->set.ranks[0].world_size, rank.world_size);
  EXPECT_EQ(back->set.ranks[0].devices.size(), rank.devices.size());
  const std::vector<std::string> before =
      ExportedRows(loaded->set, rank, number >= 0 ? StepIndex(rank, number) : kNoStep);
  const std::vector<std::string> after =
      ExportedRows(back->set, back->set.ranks[0], number >= 0 ? 0 : kNoStep);
  ASSERT_GT(before.size(), 10u);
  ASSERT_EQ(after.size(), before.size());
  size_t shown = 0;
  for (size_t i = 0; i < before.size() && shown < 5; ++i) {
    EXPECT_EQ(after[i], before[i]);
    shown += after[i] != before[i];
  }
  if (number < 0) {
    EXPECT_EQ(back->set.ranks[0].forward_backward.size(), rank.forward_backward.size());
  }
  // What was cut gives the same figures again: the launch of every kernel is found.
  const auto linked = [](const RankTrace& r, int32_t step) {
    int64_t n = 0;
    for (Row row = 0; row < r.events.size(); ++row) {
      n += IsGpuWork(r.events.category[row]) && r.events.launch[row] != kNoRow &&
           (step == kNoStep || r.events.step[row] == step);
    }
    return n;
  };
  EXPECT_EQ(linked(back->set.ranks[0], kNoStep),
            linked(rank, number >= 0 ? StepIndex(rank, number) : kNoStep));
}

INSTANTIATE_TEST_SUITE_P(
    RealTraces, RoundTrip,
    ::testing::Values(std::pair{std::string("dlrm_v100_8ranks/rank3.json.gz"), int64_t{10}},
                      std::pair{std::string("resnet_v100_ns_2024.json.gz"), int64_t{103}},
                      std::pair{std::string("resnet_v100_ns_2024.json.gz"), int64_t{-1}},
                      std::pair{std::string("resnet50_v100_workers0_2021.json.gz"), int64_t{7}},
                      std::pair{std::string("ddp_a100_rank0of2_2024.json.gz"), int64_t{5}},
                      std::pair{std::string("critical_path/event_sync.json.gz"), int64_t{-1}},
                      std::pair{std::string("eager_b200_rank0of8_2026.json.gz"), int64_t{-1}},
                      std::pair{std::string("bertsmall_h100_infer_2025.json.gz"), int64_t{-1}}));

TEST(ExportChromeReal, EightRanksMergedIntoOneFile) {
  FLOPWATCH_REQUIRE_DATA("traces/dlrm_v100_8ranks");
  const StatusOr<Loaded> loaded =
      Load({(testing_data::SharedData() / "traces/dlrm_v100_8ranks").string()});
  ASSERT_TRUE(loaded.ok());
  const AnalysisInput input(loaded->set, {});
  ChromeExportOptions options;
  options.clocks = &input.collectives();
  const Written written = WriteExport(loaded->set, options);
  size_t rows = 0;
  for (const RankTrace& rank : loaded->set.ranks) rows += rank.events.size();
  EXPECT_EQ(static_cast<size_t>(written.stats.rows), rows);
  const StatusOr<Json> json = Json::Parse(written.text);
  ASSERT_TRUE(json.ok()) << json.status();
  std::map<int64_t, std::string> names;
  size_t events = 0;
  for (const Json& event : (*json)["traceEvents"].array()) {
    events += event["ph"].text() == "X";
    if (event["name"].text() != "process_name") continue;
    EXPECT_TRUE(names.emplace(*event["pid"].integer(), event["args"]["name"].text()).second);
  }
  EXPECT_EQ(events, rows);
  EXPECT_GE(names.size(), 16u);
  if (const char* out = std::getenv("FLOPWATCH_SHOW"))
    std::ofstream(out, std::ios::binary) << written.text;
}

}  // namespace
}  // namespace flopwatch::trace
