// The default mode on real traces: the shares that a script of its own found by category
// (atc_metrics.json), and what must hold of any trace whatever its source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bitset>
#include <map>

#include "base/json_read.h"
#include "data.h"
#include "trace/analysis/run_analysis.h"
#include "trace/builder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;
using testing_data::ReadFile;
using testing_data::SharedData;

TEST(DefaultMode, SharesByCategoryAsAnIndependentScriptHasThem) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle/atc_metrics.json");
  const StatusOr<Json> oracle = Json::Parse(
      ReadFile(SharedData() / "traces/oracle/atc_metrics.json"), {.python_constants = true});
  ASSERT_TRUE(oracle.ok());
  int files = 0, values = 0;
  for (const auto& [path, want] : oracle->object()) {
    SCOPED_TRACE(path);
    const StatusOr<Loaded> loaded = Load({(SharedData() / "traces" / path).string()});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    if (want["span_us"].is_null()) continue;
    const auto tables = RunNamed(loaded->set, "temporal_breakdown");
    ASSERT_TRUE(tables.ok()) << tables.status();
    const Table& t = PartOf(*tables, "");
    const double span = NumberAt(t, "span_us");
    const auto near = [&](double got, const char* key) {
      if (want[key].is_null()) return;
      ++values;
      EXPECT_NEAR(got, want[key].number_or(kNaN), std::max(0.01, 100.0 / span))
          << key;  // 0.01 of a per cent, or 1 µs
    };
    EXPECT_NEAR(span, want["span_us"].number_or(kNaN), std::max(1.0, 1e-4 * span));
    near(100 * NumberAt(t, "idle_share"), "gpu_idle_pct");
    // The script knows NCCL's names only; this trace also has PyTorch's multimem_all_reduce_kernel,
    // 2,119.548 us of it, alone.
    const double more = path == "eager_b200_rank0of8_2026.json.gz" ? 2119.548 : 0;
    near(100 * (NumberAt(t, "communication_us") - more) / span, "comm_busy_pct");
    near(100 * (NumberAt(t, "exposed_communication_us") - more) / span, "exposed_comm_pct");
    ++files;
  }
  EXPECT_GE(files, 25);
  std::cout << files << " traces, " << values << " shares\n";
}

double SumOf(const Table& table, std::string_view column) {
  double sum = 0;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].name != column) continue;
    for (const std::vector<Cell>& row : table.rows) {
      if (const auto* v = std::get_if<double>(&row[c])) sum += *v;
      if (const auto* n = std::get_if<int64_t>(&row[c])) sum += static_cast<double>(*n);
    }
  }
  return sum;
}

// Every analysis gives a table or says why not; every number is one; what is counted twice agrees.
void ExpectSound(const TraceSet& set) {
  for (const bool hta : {false, true}) {
    const AnalysisInput input(set, {.hta = hta});
    std::vector<const Analysis*> all;
    for (const Analysis& a : Analyses()) all.push_back(&a);
    for (const AnalysisRun& run : RunAnalyses(input, all)) {
      SCOPED_TRACE(run.analysis->name);
      if (!run.result.ok()) {
        EXPECT_EQ(run.result.status().code(), absl::StatusCode::kFailedPrecondition)
            << run.result.status();
        continue;
      }
      size_t notes = 0;
      for (const AnalysisTables::Part& part : run.result->parts) {
        notes += part.table.notes.size();
        for (const std::vector<Cell>& row : part.table.rows) {
          ASSERT_EQ(row.size(), part.table.columns.size());
          for (size_t c = 0; c < row.size(); ++c) {
            const auto* number = std::get_if<double>(&row[c]);
            if (number == nullptr) continue;
            EXPECT_TRUE(std::isfinite(*number)) << part.table.columns[c].name;
            if (!hta && part.table.columns[c].name.ends_with("share")) {
              EXPECT_GE(*number, -1e-9) << part.table.columns[c].name;
              EXPECT_LE(*number, 1 + 1e-9) << part.table.columns[c].name;
            }
          }
        }
      }
      EXPECT_GT(notes, 0u);  // window, definition, coverage
    }
  }
  const auto time = RunNamed(set, "temporal_breakdown");
  if (!time.ok()) return;
  const Table& t = PartOf(*time, "");
  const double span = SumOf(t, "span_us"), allowed = 1e-6 * (1 + span);
  EXPECT_NEAR(SumOf(t, "idle_us") + SumOf(t, "compute_us") + SumOf(t, "exposed_communication_us") +
                  SumOf(t, "memory_us"),
              span, allowed);
  const auto kinds = RunNamed(set, "gpu_kernel_breakdown");
  ASSERT_TRUE(kinds.ok());
  EXPECT_NEAR(SumOf(PartOf(*kinds, "kernel_type"), "sum_us"), span - SumOf(t, "idle_us"), allowed);
  const auto all = RunNamed(set, "gpu_kernel_breakdown_all");
  EXPECT_NEAR(SumOf(PartOf(*kinds, "kernels"), "sum_us"), SumOf(PartOf(*all, "kernels"), "sum_us"),
              allowed);
  EXPECT_EQ(SumOf(PartOf(*kinds, "kernels"), "count"), SumOf(PartOf(*all, "kernels"), "count"));
  if (const auto exposed = RunNamed(set, "exposed_communication"); exposed.ok()) {
    EXPECT_NEAR(SumOf(PartOf(*exposed, ""), "exposed_us"), SumOf(t, "exposed_communication_us"),
                allowed);
  }
}

TEST(DefaultMode, SoundOnEveryRealTrace) {
  FLOPWATCH_REQUIRE_DATA("traces");
  int files = 0;
  for (const char* folder : {"traces", "nsys", "ascend"}) {
    if (!fs::exists(SharedData() / folder)) continue;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(SharedData() / folder)) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || path.find("/oracle/") != std::string::npos) continue;
      if (!path.ends_with(".json.gz") && !path.ends_with(".json") && !path.ends_with(".sqlite") &&
          !path.ends_with(".db"))
        continue;
      const StatusOr<Loaded> loaded = Load({path});
      if (!loaded.ok() || loaded->set.ranks.empty()) continue;
      SCOPED_TRACE(path);
      ExpectSound(loaded->set);
      ++files;
    }
  }
  EXPECT_GE(files, 40);
  std::cout << files << " files\n";
}

// Random traces against the same times as bits, one a nanosecond.
constexpr size_t kWorld = 256;
using BitsOf = std::bitset<kWorld>;

struct RandomRow {
  Nanos start = 0, dur = 0, call = 0;
  int kind = 0, stream = 0;
};

RC_GTEST_PROP(DefaultMode, BreakdownsAgreeWithBits, ()) {
  const auto rows = *rc::gen::container<std::vector<RandomRow>>(
      rc::gen::map(rc::gen::tuple(rc::gen::inRange<Nanos>(0, 200), rc::gen::inRange<Nanos>(0, 50),
                                  rc::gen::inRange<Nanos>(0, 60), rc::gen::inRange(0, 3),
                                  rc::gen::inRange(0, 2)),
                   [](const std::tuple<Nanos, Nanos, Nanos, int, int>& t) {
                     const auto& [start, dur, before, kind, stream] = t;
                     return RandomRow{start, dur, std::max<Nanos>(0, start - before), kind, stream};
                   }));
  RC_PRE(!rows.empty());
  TraceBuilder b;
  BitsOf of[3], all;
  Nanos first = rows[0].start, last = 0;
  int64_t id = 1;
  for (const RandomRow& row : rows) {
    static constexpr std::string_view kNames[] = {"gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD"};
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", row.call, 1, id);
    b.Gpu(row.kind == 2 ? Category::kGpuMemcpy : Category::kKernel, kNames[row.kind], row.start,
          row.dur, id++, row.stream);
    for (Nanos t = row.start; t < row.start + row.dur; ++t)
      of[row.kind].set(static_cast<size_t>(t));
    first = std::min(first, row.start);
    last = std::max(last, row.start + row.dur);
  }
  all = of[0] | of[1] | of[2];
  const TraceSet set = std::move(b).Build();
  const auto us = [](const BitsOf& bits) { return static_cast<double>(bits.count()) / 1000; };
  const auto near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
  const auto time = RunNamed(set, "temporal_breakdown");
  RC_ASSERT(time.ok());
  const Table& t = PartOf(*time, "");
  RC_ASSERT(near(NumberAt(t, "span_us"), static_cast<double>(last - first) / 1000));
  RC_ASSERT(near(NumberAt(t, "idle_us"), static_cast<double>(last - first) / 1000 - us(all)));
  RC_ASSERT(near(NumberAt(t, "compute_us"), us(of[0])));
  RC_ASSERT(near(NumberAt(t, "exposed_communication_us"), us(of[1] & ~of[0])));
  RC_ASSERT(near(NumberAt(t, "memory_us"), us(of[2] & ~of[0] & ~of[1])));
  const auto kinds = RunNamed(set, "gpu_kernel_breakdown");
  for (unsigned subset = 1; subset < 8; ++subset) {
    BitsOf exactly = all;
    std::string name;
    for (unsigned k = 0; k < 3; ++k) {
      exactly &= (subset >> k & 1u) != 0 ? of[k] : ~of[k];
      static constexpr std::string_view kKinds[] = {"COMPUTATION", "COMMUNICATION", "MEMORY"};
      if ((subset >> k & 1u) != 0)
        name += (name.empty() ? "" : " overlapping ") + std::string(kKinds[k]);
    }
    double got = 0;
    for (const auto& row : PartOf(*kinds, "kernel_type").rows) {
      if (row[0] == Cell{name}) got = std::get<double>(row[1]);
    }
    RC_ASSERT(near(got, us(exactly)));
  }
  // Queues: at every moment the commands issued and not started, averaged over the window of each
  // stream.
  const auto queues = RunNamed(set, "queue_length_summary");
  for (int stream = 0; stream < 2; ++stream) {
    Nanos from = kWorld, to = 0;
    for (const RandomRow& row : rows) {
      if (row.stream != stream) continue;
      from = std::min(from, row.call);
      to = std::max(to, row.start);
    }
    if (to <= from) continue;
    double sum = 0, most = 0;
    for (Nanos at = from; at < to; ++at) {
      const auto length =
          static_cast<double>(std::count_if(rows.begin(), rows.end(), [&](const RandomRow& r) {
            return r.stream == stream && r.call <= at && at < r.start;
          }));
      sum += length;
      most = std::max(most, length);
    }
    const Where where = {{"stream", int64_t{stream}}};
    RC_ASSERT(std::abs(NumberAt(PartOf(*queues, ""), "mean", where) -
                       sum / static_cast<double>(to - from)) < 1e-9);
    RC_ASSERT(NumberAt(PartOf(*queues, ""), "max", where) == most);
  }
}

}  // namespace
}  // namespace flopwatch::trace
