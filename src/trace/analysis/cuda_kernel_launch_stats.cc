#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// HTA's cut-offs, kept because people know them.
constexpr Nanos kSlowCall = 50'000;
constexpr Nanos kSlowLaunch = 100'000;
constexpr double kQuantiles[] = {0.5, 0.9, 0.99};

struct Launches {
  int64_t pairs = 0, short_kernels = 0, slow_calls = 0, slow_launches = 0;
  double call_us = 0, gpu_us = 0, delay_us = 0;
  std::vector<double> delays;

  // From the end of the call to the start of the work; 0 where the work starts while the call still
  // runs.
  void Add(Nanos call, Nanos call_dur, Nanos start, Nanos gpu_dur) {
    const Nanos delay = std::max<Nanos>(0, start - call - call_dur);
    ++pairs;
    call_us += MicrosOf(call_dur);
    gpu_us += MicrosOf(gpu_dur);
    delay_us += MicrosOf(delay);
    delays.push_back(MicrosOf(delay));
    short_kernels += call_dur <= kSlowCall && gpu_dur < call_dur;
    slow_calls += call_dur > kSlowCall;
    slow_launches += delay > kSlowLaunch;
  }
};

StatusOr<AnalysisTables> DefaultCudaKernelLaunchStats(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("rank"),
                   Count("launches"),
                   Plain("call_us"),
                   Plain("gpu_us"),
                   Plain("launch_delay_us"),
                   Plain("launch_delay_mean_us"),
                   Plain("launch_delay_std_us"),
                   Plain("launch_delay_min_us"),
                   Plain("launch_delay_p50_us"),
                   Plain("launch_delay_p90_us"),
                   Plain("launch_delay_p99_us"),
                   Plain("launch_delay_max_us"),
                   Count("short_kernels"),
                   Count("slow_calls"),
                   Count("slow_launches"),
                   Count("graph_launches"),
                   Count("graph_rows"),
                   Count("rows_without_launch")};
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    if (view->gpu_rows().empty()) continue;
    Launches all;
    int64_t graph_launches = 0, graph_rows = 0, without = 0;
    std::vector<bool> is_graph(view->set().names.size()), judged(view->set().names.size());
    for (const Row r : view->gpu_rows()) {
      const Row call = e.launch[r];
      if (call == kNoRow) {
        ++without;
        continue;
      }
      const NameId name = e.name[call];
      if (!judged[name]) {
        judged[name] = true;
        is_graph[name] = view->set().names.Text(name).find("GraphLaunch") != std::string_view::npos;
      }
      const bool first = e.launch[call] == r;
      if (is_graph[name]) {
        graph_launches += first;
        ++graph_rows;
      } else if (first) {
        all.Add(e.ts[call], e.dur[call], e.ts[r], e.dur[r]);
      }
    }
    const Summary s = Describe(std::move(all.delays), kQuantiles);
    const bool some = all.pairs > 0;
    table.rows.push_back({RankCell(*view), all.pairs, some ? Cell{all.call_us} : Cell{},
                          some ? Cell{all.gpu_us} : Cell{}, some ? Cell{all.delay_us} : Cell{},
                          NumberCell(s.mean), NumberCell(s.std), NumberCell(s.min),
                          NumberCell(s.percentiles[0]), NumberCell(s.percentiles[1]),
                          NumberCell(s.percentiles[2]), NumberCell(s.max), all.short_kernels,
                          all.slow_calls, all.slow_launches, graph_launches, graph_rows, without});
  }
  if (table.rows.empty()) return NotComputable(kNoGpuWork);
  table.notes.push_back(
      "a launch is a call (CUDA, HIP or driver) and the first GPU row it made; delay from the end "
      "of the call to the start of the "
      "work. short_kernels: shorter than their call of at most 50 µs; slow_calls: over 50 µs; "
      "slow_launches: delay over 100 µs. "
      "Graph launches are counted apart: one call starts many kernels");
  AddNotes(input, "cuda_kernel_launch_stats", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> HtaCudaKernelLaunchStats(const AnalysisInput& input) {
  Table table;
  table.columns =
      PlainColumns({"rank", "n", "cpu_duration_sum", "gpu_duration_sum", "launch_delay_sum",
                    "launch_delay.count", "launch_delay.mean", "launch_delay.std",
                    "launch_delay.min", "launch_delay.50%", "launch_delay.90%", "launch_delay.99%",
                    "launch_delay.max", "short_gpu_kernels(cpu<=50&gpu<cpu)",
                    "runtime_outliers(cpu>50)", "launch_delay_outliers(>100)"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::vector<NameId> names;
    for (const std::string_view name :
         {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}) {
      if (const NameId id = view->set().names.Find(name); id != kNoName) names.push_back(id);
    }
    Launches all;
    for (const Row r : view->hta().gpu) {
      const Row call = e.launch[r];
      if (call == kNoRow || IsLaunchApi(e.category[r])) continue;
      if (std::find(names.begin(), names.end(), e.name[call]) == names.end()) continue;
      all.Add(e.ts[call], e.dur[call], e.ts[r], e.dur[r]);
    }
    const Summary s = Describe(std::move(all.delays), kQuantiles);
    table.rows.push_back({RankCell(*view), all.pairs, all.call_us, all.gpu_us, all.delay_us,
                          static_cast<double>(s.count), NumberCell(s.mean), NumberCell(s.std),
                          NumberCell(s.min), NumberCell(s.percentiles[0]),
                          NumberCell(s.percentiles[1]), NumberCell(s.percentiles[2]),
                          NumberCell(s.max), all.short_kernels, all.slow_calls, all.slow_launches});
  }
  AddNotes(input, "", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> RunCudaKernelLaunchStats(const AnalysisInput& input) {
  return input.options().hta ? HtaCudaKernelLaunchStats(input)
                             : DefaultCudaKernelLaunchStats(input);
}

}  // namespace

constinit const Analysis kCudaKernelLaunchStats = {
    .name = "cuda_kernel_launch_stats",
    .title =
        "Launch calls: their own time, the delay until the work starts, kernels shorter than their "
        "call",
    .run = RunCudaKernelLaunchStats,
};

}  // namespace flopwatch::trace
