#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/launches.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

StatusOr<AnalysisTables> CudaKernelLaunchStats(const AnalysisInput& input) {
  Table table = TableWith({"rank", "#launches", "call_us", "gpu_us", "launch_delay_us",
                           "launch_delay_mean_us", "launch_delay_std_us", "launch_delay_min_us",
                           "launch_delay_p50_us", "launch_delay_p90_us", "launch_delay_p99_us",
                           "launch_delay_max_us", "#short_kernels", "#slow_calls", "#slow_launches",
                           "#graph_launches", "#graph_rows", "#rows_without_launch"});
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
    const Summary s = Describe(std::move(all.delays), kLaunchQuantiles);
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
      "of the call to the start of the work. short_kernels: shorter than their call of at most 50 "
      "µs; slow_calls: over 50 µs; slow_launches: delay over 100 µs. Graph launches are counted "
      "apart: one call starts many kernels");
  return OneTable(input, "cuda_kernel_launch_stats", std::move(table));
}

}  // namespace

constinit const Analysis kCudaKernelLaunchStats = {
    .name = "cuda_kernel_launch_stats",
    .title =
        "Launch calls: their own time, the delay until the work starts, kernels shorter than their "
        "call",
    .ours = CudaKernelLaunchStats,
    .as_hta = HtaCudaKernelLaunchStats};

}  // namespace flopwatch::trace
