#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kAllNames = static_cast<size_t>(-1);
constexpr size_t kTopNames = 10;  // names a rank and type before "others"; HTA's num_kernels

// The kinds of work, in the order in which their names stand in "A overlapping B". A set of kinds
// is a bit mask.
constexpr size_t kKinds = 3;
constexpr KernelClass kClasses[kKinds] = {KernelClass::kCompute, KernelClass::kCommunication,
                                          KernelClass::kMemory};
constexpr unsigned kSubsets = 1u << kKinds;

std::string SubsetName(unsigned subset) {
  std::string out;
  for (size_t i = 0; i < kKinds; ++i) {
    if ((subset >> i & 1u) == 0) continue;
    out += (out.empty() ? "" : " overlapping ");
    out += KernelClassName(kClasses[i]);
  }
  return out;
}

// Calls use(subset, time) for every stretch of time during which the same kinds of work run.
template <typename Use>
void Sweep(const std::array<const IntervalSet*, kKinds>& sets, const Use& use) {
  std::array<size_t, kKinds> at{};
  std::array<bool, kKinds> inside{};
  Nanos now = 0;
  while (true) {
    // The next edge of any set, and what runs until then.
    bool any = false;
    Nanos next = 0;
    unsigned running = 0;
    for (size_t i = 0; i < kKinds; ++i) {
      if (at[i] == sets[i]->size()) continue;
      const Interval& piece = (*sets[i])[at[i]];
      const Nanos edge = inside[i] ? piece.end : piece.begin;
      if (!any || edge < next) next = edge;
      any = true;
      if (inside[i]) running |= 1u << i;
    }
    if (!any) return;
    if (running != 0) use(running, next - now);
    now = next;
    for (size_t i = 0; i < kKinds; ++i) {
      if (at[i] == sets[i]->size()) continue;
      const Interval& piece = (*sets[i])[at[i]];
      if (inside[i] && piece.end == now) {
        inside[i] = false;
        ++at[i];
      } else if (!inside[i] && piece.begin == now) {
        inside[i] = true;
      }
    }
  }
}

void SortByTime(std::vector<std::vector<Cell>>* rows) {
  std::stable_sort(
      rows->begin(), rows->end(),
      [](const std::vector<Cell>& a, const std::vector<Cell>& b) { return a[1] > b[1]; });
}

Table DefaultTypes(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("kernel_type"), Plain("sum_us"), Share("share_of_busy")};
  std::array<Nanos, kSubsets> sums{};
  Nanos all = 0;
  for (const auto& view : input.ranks()) {
    Sweep({&view->busy(kClasses[0]), &view->busy(kClasses[1]), &view->busy(kClasses[2])},
          [&](unsigned subset, Nanos t) {
            sums[subset] += t;
            all += t;
          });
  }
  for (unsigned s = 1; s < kSubsets; ++s) {
    if (sums[s] == 0) continue;
    table.rows.push_back(
        {SubsetName(s), MicrosCell(sums[s]), ShareCell(MicrosOf(sums[s]), MicrosOf(all))});
  }
  SortByTime(&table.rows);
  table.notes.push_back(
      "time during which exactly these kinds of work run, added over ranks; idle time is not in "
      "it");
  return table;
}

// HTA cuts every stretch to whole µs before it adds them up.
Table HtaTypes(const AnalysisInput& input) {
  Table table;
  table.columns = PlainColumns({"kernel_type", "sum", "percentage"});
  std::array<int64_t, kSubsets> sums{};
  std::array<bool, kSubsets> seen{};
  int64_t all = 0;
  for (const auto& view : input.ranks()) {
    IntervalSet sets[kKinds];
    for (size_t i = 0; i < kKinds; ++i)
      sets[i] = HtaBusy(view->events(), view->hta(), kHtaKernelTypes[i]);
    Sweep({&sets[0], &sets[1], &sets[2]}, [&](unsigned subset, Nanos t) {
      sums[subset] += t / 1000;
      seen[subset] = true;
      all += t / 1000;
    });
  }
  for (unsigned s = 1; s < kSubsets; ++s) {
    if (!seen[s]) continue;
    table.rows.push_back(
        {SubsetName(s), sums[s],
         all > 0
             ? Cell{HtaRound(100.0 * static_cast<double>(sums[s]) / static_cast<double>(all), 1)}
             : Cell{}});
  }
  SortByTime(&table.rows);
  return table;
}

Table DefaultKernels(const AnalysisInput& input, size_t most) {
  Table table;
  table.columns = {Plain("rank"),   Plain("kernel_type"),
                   Plain("name"),   Count("count"),
                   Plain("sum_us"), Plain("mean_us"),
                   Plain("std_us"), Plain("min_us"),
                   Plain("max_us"), Share("share_of_kernel_time")};
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const std::vector<KernelClass>& classes = view->classes();
    std::vector<NameTotals> totals(kKinds, NameTotals(view->set().names.size()));
    double all = 0;
    std::array<std::vector<Row>, kKinds> rows_of;
    for (const Row r : view->gpu_rows()) {
      const size_t kind =
          static_cast<size_t>(classes[r]) - static_cast<size_t>(KernelClass::kCompute);
      totals[kind].Add(e.name[r], MicrosOf(e.dur[r]));
      rows_of[kind].push_back(r);
      all += MicrosOf(e.dur[r]);
    }
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const auto add = [&](std::string name, const Accumulator& a) {
        table.rows.push_back({RankCell(*view), TextCell(KernelClassName(kClasses[kind])),
                              std::move(name), a.count(), a.sum(), a.mean(), NumberCell(a.std()),
                              a.min(), a.max(), ShareCell(a.sum(), all)});
      };
      const std::vector<NameTotals::Line> lines = totals[kind].BySum();
      const size_t shown = std::min(lines.size(), most);
      std::vector<bool> named(shown < lines.size() ? view->set().names.size() : 0, false);
      for (size_t i = 0; i < shown; ++i) {
        add(std::string(view->set().names.Text(lines[i].name)), lines[i].total);
        if (!named.empty()) named[lines[i].name] = true;
      }
      if (shown == lines.size()) continue;
      Accumulator others;
      for (const Row r : rows_of[kind]) {
        if (!named[e.name[r]]) others.Add(MicrosOf(e.dur[r]));
      }
      add(fmt::format("others ({} names)", lines.size() - shown), others);
    }
  }
  table.notes.push_back("sums of kernel durations: kernels that run at the same time count each");
  return table;
}

Table HtaKernels(const AnalysisInput& input, size_t most) {
  Table table;
  table.columns = PlainColumns(
      {"name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "kernel_type", "rank"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const HtaRows& rows = view->hta();
    std::vector<NameTotals> totals(kKinds, NameTotals(view->set().names.size()));
    for (size_t i = 0; i < rows.gpu.size(); ++i) {
      if (rows.gpu_type[i] == HtaKernelType::kOther) continue;
      totals[static_cast<size_t>(rows.gpu_type[i])].Add(e.name[rows.gpu[i]],
                                                        MicrosOf(e.dur[rows.gpu[i]]));
    }
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (const HtaNameLine& line : HtaNameLines(view->set().names, totals[kind], most)) {
        table.rows.push_back({TextCell(line.name), line.sum, line.max, line.min, line.std,
                              line.mean, TextCell(HtaKernelTypeName(kHtaKernelTypes[kind])),
                              RankCell(*view)});
      }
    }
  }
  // By type, name and rank; the types by their names.
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const std::vector<Cell>& a, const std::vector<Cell>& b) {
                     return std::tie(a[6], a[0], a[7]) < std::tie(b[6], b[0], b[7]);
                   });
  return table;
}

StatusOr<AnalysisTables> Breakdown(const AnalysisInput& input, size_t most) {
  const bool hta = input.options().hta;
  if (!hta && !AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  AnalysisTables out;
  out.parts.push_back({"kernel_type", hta ? HtaTypes(input) : DefaultTypes(input)});
  out.parts.push_back({"kernels", hta ? HtaKernels(input, most) : DefaultKernels(input, most)});
  for (AnalysisTables::Part& part : out.parts) AddNotes(input, "gpu_kernel_breakdown", &part.table);
  return out;
}

StatusOr<AnalysisTables> Top(const AnalysisInput& input) { return Breakdown(input, kTopNames); }
StatusOr<AnalysisTables> All(const AnalysisInput& input) { return Breakdown(input, kAllNames); }

}  // namespace

constinit const Analysis kGpuKernelBreakdown = {
    .name = "gpu_kernel_breakdown",
    .title = "GPU time by kind of work, and the kernels that take most of it",
    .run = Top,
};

constinit const Analysis kGpuKernelBreakdownAll = {
    .name = "gpu_kernel_breakdown_all",
    .title = "GPU time by kind of work, and every kernel",
    .run = All,
};

}  // namespace flopwatch::trace
