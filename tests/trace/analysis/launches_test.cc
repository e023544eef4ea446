// Streams, queues, launches and copies on traces small enough to work out by hand, in both modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/analysis/run_analysis.h"
#include "trace/builder.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

struct Launcher {
  TraceBuilder b;
  int64_t next = 1;
  // A launch call and its kernel, times in µs.
  void Kernel(Nanos call, Nanos call_dur, Nanos start, Nanos dur, int32_t stream = 7,
              std::string_view api = "cudaLaunchKernel") {
    b.Cpu(Category::kRuntime, api, call * kUs, call_dur * kUs, next);
    b.Gpu(Category::kKernel, "k", start * kUs, dur * kUs, next++, stream);
  }
};

TEST(IdleTime, WhyAStreamWaited) {
  Launcher l;
  l.Kernel(0, 2, 10, 10);
  l.Kernel(3, 2, 25, 10);    // in time: 5 µs of the GPU's own
  l.Kernel(50, 5, 60, 10);   // the call came 15 µs after the stream ran dry
  l.Kernel(56, 2, 170, 10);  // in time, yet 100 µs late
  l.b.Gpu(Category::kKernel, "no call", 200 * kUs, 10 * kUs);
  const TraceSet set = std::move(l.b).Build();
  const auto tables = RunNamed(set, "idle_time_breakdown");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "by_category");
  const auto idle = [&](std::string_view kind) {
    return NumberAt(t, "idle_us", {{"idle_category", Text(kind)}});
  };
  EXPECT_DOUBLE_EQ(idle("kernel_wait"), 5);
  EXPECT_DOUBLE_EQ(idle("host_wait"), 25);
  EXPECT_DOUBLE_EQ(idle("other"), 100);
  EXPECT_DOUBLE_EQ(idle("launch_unknown"), 20);
  EXPECT_DOUBLE_EQ(
      NumberAt(PartOf(*tables, "interval_stats"), "count", {{"idle_category", Text("other")}}), 1);
}

// A long kernel covers what starts after a short one that ran beside it on the same stream (graphs
// do this): HTA looks at the previous row only and finds idle time there; and gaps below zero where
// rows overlap.
TEST(IdleTime, AGapReachesBackToTheEndOfEverythingBefore) {
  Launcher l;
  l.Kernel(0, 1, 10, 100);
  l.Kernel(2, 1, 20, 10);
  l.Kernel(4, 1, 50, 10);
  l.Kernel(6, 1, 120, 10);
  const TraceSet set = std::move(l.b).Build();
  const auto right = RunNamed(set, "idle_time_breakdown");
  ASSERT_TRUE(right.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, "by_category"), "idle_us"), 10);
  const auto hta = RunNamed(set, "idle_time_breakdown", Hta());
  ASSERT_TRUE(hta.ok());
  // 20-110 = -90, 50-30 = 20, 120-60 = 60 (which is no kernel delay).
  const Table& t = PartOf(*hta, "by_category");
  EXPECT_DOUBLE_EQ(NumberAt(t, "idle_time", {{"idle_category", Text("kernel_wait")}}), -70);
  EXPECT_DOUBLE_EQ(NumberAt(t, "idle_time", {{"idle_category", Text("other")}}), 60);
}

TEST(IdleTime, StreamsOfTwoDevicesAreTwoStreams) {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "a", 0, 10 * kUs);
  b.Gpu(Category::kKernel, "a", 20 * kUs, 10 * kUs);
  b.rank().threads.push_back({.pid = 1, .tid = 7});
  b.Gpu(Category::kKernel, "b", 10 * kUs, 10 * kUs);
  b.rank().events.thread.back() = 1;
  const TraceSet set = std::move(b).Build();
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.ranks()[0]->gpu_streams().size(), 2u);
  EXPECT_EQ(input.ranks()[0]->gpu_streams()[0].rows.size(), 2u);
  EXPECT_EQ(input.ranks()[0]->gpu_streams()[1].device, 1);
}

// Lengths 1 for 10 µs, 2 for 10, 1 for 20, 0 for 40, 1 for 20: mean (10+20+20+20)/100.
TEST(QueueLength, IsWeightedByTime) {
  Launcher l;
  l.Kernel(0, 1, 20, 5);
  l.Kernel(10, 1, 40, 5);
  l.Kernel(80, 1, 100, 5);
  const TraceSet set = std::move(l.b).Build();
  const auto tables = RunNamed(set, "queue_length_summary");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "window_us"), 100);
  EXPECT_DOUBLE_EQ(NumberAt(t, "mean"), 0.7);
  EXPECT_DOUBLE_EQ(NumberAt(t, "max"), 2);
  EXPECT_DOUBLE_EQ(NumberAt(t, "empty_share"), 0.4);
  const auto hta = RunNamed(set, "queue_length_summary", Hta());
  ASSERT_TRUE(hta.ok());
  // Values at the six change points: 1, 2, 1, 0, 1, 0.
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "queue_length.count"), 6);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "queue_length.mean"), 5.0 / 6);
}

// One graph launch of three kernels is one command; HTA does not know it at all.
TEST(QueueLength, AGraphLaunchIsOneCommand) {
  TraceBuilder b;
  b.Cpu(Category::kRuntime, "cudaGraphLaunch", 0, 2 * kUs, 1);
  for (int i = 0; i < 3; ++i) b.Gpu(Category::kKernel, "k", (10 + 10 * i) * kUs, 10 * kUs, 1);
  const TraceSet set = std::move(b).Build();
  const auto tables = RunNamed(set, "queue_length_summary");
  ASSERT_TRUE(tables.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*tables, ""), "commands"), 1);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*tables, ""), "window_us"), 10);
  EXPECT_FALSE(RunNamed(set, "queue_length_summary", Hta()).ok());
  const auto stats = RunNamed(set, "cuda_kernel_launch_stats");
  ASSERT_TRUE(stats.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*stats, ""), "launches"), 0);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*stats, ""), "graph_launches"), 1);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*stats, ""), "graph_rows"), 3);
  EXPECT_EQ(CellAt(PartOf(*stats, ""), "launch_delay_mean_us"), Cell{});
}

// Two streams of one rank fill up; HTA keeps one.
TEST(QueueLength, TimeOfAFullQueueOnEveryStream) {
  Launcher l;
  for (const int32_t stream : {7, 8}) {
    for (int i = 0; i < 1024; ++i) l.Kernel(i, 0, 5000 + i, 1, stream);
  }
  const TraceSet set = std::move(l.b).Build();
  const auto tables = RunNamed(set, "blocked_on_full_queue");
  ASSERT_TRUE(tables.ok());
  const Table& t = PartOf(*tables, "");
  ASSERT_EQ(t.rows.size(), 2u);
  for (const int64_t stream : {7, 8}) {
    EXPECT_DOUBLE_EQ(NumberAt(t, "full_us", {{"stream", stream}}), 5000 - 1023);
    EXPECT_DOUBLE_EQ(NumberAt(t, "max_length", {{"stream", stream}}), 1024);
  }
  const auto hta = RunNamed(set, "blocked_on_full_queue", Hta());
  ASSERT_TRUE(hta.ok());
  ASSERT_EQ(PartOf(*hta, "").rows.size(), 1u);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "duration_at_max_queue_length"), 5000 - 1023);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "stream"), 8);
}

TEST(LaunchStats, DelaysAndShortKernels) {
  Launcher l;
  l.Kernel(0, 10, 12, 4);       // delay 2, shorter than its call
  l.Kernel(100, 60, 130, 100);  // starts while the call runs; a slow call
  l.Kernel(300, 10, 510, 50, 7,
           "cuLaunchKernel");  // delay 200: slow; HTA does not count driver calls
  l.Kernel(600, 10, 620, 5, 7, "hipLaunchKernel");
  l.b.Gpu(Category::kKernel, "no call", 700 * kUs, kUs);
  const TraceSet set = std::move(l.b).Build();
  const auto tables = RunNamed(set, "cuda_kernel_launch_stats");
  ASSERT_TRUE(tables.ok());
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "launches"), 4);
  EXPECT_DOUBLE_EQ(NumberAt(t, "call_us"), 90);
  EXPECT_DOUBLE_EQ(NumberAt(t, "launch_delay_us"), 2 + 0 + 200 + 10);
  EXPECT_DOUBLE_EQ(NumberAt(t, "launch_delay_p50_us"), 6);
  EXPECT_DOUBLE_EQ(NumberAt(t, "short_kernels"), 2);
  EXPECT_DOUBLE_EQ(NumberAt(t, "slow_calls"), 1);
  EXPECT_DOUBLE_EQ(NumberAt(t, "slow_launches"), 1);
  EXPECT_DOUBLE_EQ(NumberAt(t, "rows_without_launch"), 1);
  const auto hta = RunNamed(set, "cuda_kernel_launch_stats", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "n"), 2);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "launch_delay.mean"), 1);
}

// Six calls and their work on two streams. What HolisticTraceAnalysis 0.5.0 itself says of this
// trace with the calls and categories of MTIA and of HIP: it counts launches of both in queues, and
// HIP's in no launch statistics; copies of MTIA are "dma" kernels.
TEST(Hta, LaunchesOfMtiaAndHipAreCountedWhereItCountsThem) {
  struct Vendor {
    std::string_view launch, copy_call, copy;
    Category copy_category;
    double launches;
  };
  const std::string_view mtia = "runFunction - job_prep_and_submit_for_execution";
  for (const Vendor& v : {Vendor{mtia, mtia, "dma_copy", Category::kKernel, 6},
                          Vendor{"hipLaunchKernel", "hipMemcpyWithStream",
                                 "Memcpy HtoD (Host -> Device)", Category::kGpuMemcpy, 0}}) {
    TraceBuilder b;
    int64_t next = 1;
    const auto work = [&](std::string_view name, Nanos call, Nanos call_dur, Nanos start, Nanos dur,
                          int32_t stream) {
      const bool copies = name == v.copy;
      b.Cpu(Category::kRuntime, copies ? v.copy_call : v.launch, call * kUs, call_dur * kUs, next);
      b.Gpu(copies ? v.copy_category : Category::kKernel, name, start * kUs, dur * kUs, next++,
            stream);
    };
    work("gemm", 1010, 4, 1020, 30, 7);
    work("softmax_kernel", 1016, 4, 1052, 20, 7);
    work("gemm", 1022, 4, 1075, 10, 7);
    work(v.copy, 1028, 60, 1100, 40, 9);
    work("softmax_kernel", 1100, 5, 1130, 25, 7);
    work("add", 1110, 4, 1160, 30, 9);
    const TraceSet set = std::move(b).Build();
    const auto queue = RunNamed(set, "queue_length_summary", Hta());
    ASSERT_TRUE(queue.ok()) << queue.status();
    const Where seven = {{"stream", Cell(int64_t{7})}};
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*queue, ""), "queue_length.count", seven), 8);
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*queue, ""), "queue_length.mean", seven), 1);
    EXPECT_NEAR(NumberAt(PartOf(*queue, ""), "queue_length.std", seven), .755929, 1e-6);
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*queue, ""), "queue_length.max", seven), 2);
    const auto launches = RunNamed(set, "cuda_kernel_launch_stats", Hta());
    ASSERT_TRUE(launches.ok()) << launches.status();
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*launches, ""), "n"), v.launches);
    if (v.launches > 0) {
      EXPECT_DOUBLE_EQ(NumberAt(PartOf(*launches, ""), "launch_delay_sum"),
                       6 + 32 + 49 + 12 + 25 + 46);
    }
    const auto time = RunNamed(set, "temporal_breakdown", Hta());
    ASSERT_TRUE(time.ok());
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*time, ""), "compute_time(us)"), 115);
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*time, ""), "non_compute_time(us)"), 30);
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*time, ""), "idle_time(us)"), 25);
    const auto idle = RunNamed(set, "idle_time_breakdown", Hta());
    ASSERT_TRUE(idle.ok());
    EXPECT_DOUBLE_EQ(NumberAt(PartOf(*idle, "by_category"), "idle_time",
                              {{"stream", Cell(int64_t{7})}, {"idle_category", Text("host_wait")}}),
                     45);
  }
}

struct Copier {
  TraceBuilder b;
  void Copy(Nanos start, Nanos dur, int64_t bytes, double gbps) {
    b.Gpu(Category::kGpuMemcpy, "Memcpy DtoD (Device -> Device)", start * kUs, dur * kUs);
    b.rank().events.detail.back() = static_cast<uint32_t>(b.rank().copies.size());
    b.rank().copies.push_back({.device = 0, .bytes = bytes, .bandwidth_gbps = gbps});
  }
};

// 2 GB/s for 10 µs, both (2 + 4) for 10 µs, 4 for 20 µs: mean (20+60+80)/40 over the 40 µs busy.
TEST(MemoryBandwidth, IsWeightedByTimeAndAddsUpWhatRunsTogether) {
  Copier c;
  c.Copy(0, 20, 40'000, 2);
  c.Copy(10, 30, 120'000, 4);
  c.Copy(100, 0, 512, 0);  // no duration: its bytes count, it has no bandwidth
  const TraceSet set = std::move(c.b).Build();
  const auto tables = RunNamed(set, "memory_bw_summary");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "copies"), 3);
  EXPECT_DOUBLE_EQ(NumberAt(t, "bytes"), 160'512);
  EXPECT_DOUBLE_EQ(NumberAt(t, "busy_us"), 40);
  EXPECT_DOUBLE_EQ(NumberAt(t, "mean_gbps"), 4);
  EXPECT_DOUBLE_EQ(NumberAt(t, "max_gbps"), 6);
  EXPECT_DOUBLE_EQ(NumberAt(t, "p50_gbps"), 4);
  EXPECT_DOUBLE_EQ(NumberAt(t, "without_bandwidth"), 1);
  const auto hta = RunNamed(set, "memory_bw_summary", Hta());
  ASSERT_TRUE(hta.ok());
  // Change points above zero: 2, 6, 4.
  EXPECT_DOUBLE_EQ(
      NumberAt(PartOf(*hta, ""), "memory_bw_gbps.count", {{"name", Text("Memcpy DtoD")}}), 3);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "memory_bw_gbps.mean"), 4);
}

// No bytes and no bandwidth (ROCm): the copies are listed, their bandwidth is absent and not zero.
TEST(MemoryBandwidth, UnknownIsAbsent) {
  Copier c;
  c.Copy(0, 20, kUnknown, kNaN);
  const TraceSet set = std::move(c.b).Build();
  const auto tables = RunNamed(set, "memory_bw_summary");
  ASSERT_TRUE(tables.ok());
  EXPECT_EQ(CellAt(PartOf(*tables, ""), "bytes"), Cell{});
  EXPECT_EQ(CellAt(PartOf(*tables, ""), "mean_gbps"), Cell{});
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*tables, ""), "copy_us"), 20);
}

}  // namespace
}  // namespace flopwatch::trace
