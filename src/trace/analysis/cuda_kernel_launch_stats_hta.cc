#include <algorithm>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/launches.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// This takes HTA's rows, and the launch calls that it knows by name here: CUDA's and MTIA's, none
// of HIP. Every GPU row of a call is a pair.
StatusOr<AnalysisTables> HtaCudaKernelLaunchStats(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "n", "cpu_duration_sum", "gpu_duration_sum", "launch_delay_sum",
                 "launch_delay.count", "launch_delay.mean", "launch_delay.std", "launch_delay.min",
                 "launch_delay.50%", "launch_delay.90%", "launch_delay.99%", "launch_delay.max",
                 "short_gpu_kernels(cpu<=50&gpu<cpu)", "runtime_outliers(cpu>50)",
                 "launch_delay_outliers(>100)"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::vector<NameId> names;
    for (const std::string_view name :
         {std::string_view("cudaLaunchKernel"), std::string_view("cudaLaunchKernelExC"),
          std::string_view("cudaMemcpyAsync"), std::string_view("cudaMemsetAsync"),
          kHtaMtiaLaunch}) {
      if (const NameId id = view->set().names.Find(name); id != kNoName) names.push_back(id);
    }
    Launches all;
    for (const Row r : view->hta().gpu) {
      const Row call = e.launch[r];
      if (call == kNoRow || IsLaunchApi(e.category[r])) continue;
      if (std::find(names.begin(), names.end(), e.name[call]) == names.end()) continue;
      all.Add(e.ts[call], e.dur[call], e.ts[r], e.dur[r]);
    }
    const Summary s = Describe(std::move(all.delays), kLaunchQuantiles);
    table.rows.push_back({RankCell(*view), all.pairs, all.call_us, all.gpu_us, all.delay_us,
                          static_cast<double>(s.count), NumberCell(s.mean), NumberCell(s.std),
                          NumberCell(s.min), NumberCell(s.percentiles[0]),
                          NumberCell(s.percentiles[1]), NumberCell(s.percentiles[2]),
                          NumberCell(s.max), all.short_kernels, all.slow_calls, all.slow_launches});
  }
  return OneTable(input, "", std::move(table));
}

}  // namespace flopwatch::trace
