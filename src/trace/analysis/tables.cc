#include "trace/analysis/tables.h"

#include <algorithm>

#include <fmt/format.h>
#include "trace/analysis/hta.h"

namespace flopwatch::trace {

AnalysisTables OneTable(Table table) {
  AnalysisTables out;
  out.parts.push_back({"", std::move(table)});
  return out;
}

Status NotComputable(std::string_view why) { return FailedPrecondition("not computable: {}", why); }

bool AnyGpuWork(const AnalysisInput& input) {
  return std::any_of(input.ranks().begin(), input.ranks().end(), [&](const auto& view) {
    return input.options().hta ? !view->hta().gpu.empty() : !view->gpu_rows().empty();
  });
}

bool AnySteps(const AnalysisInput& input) {
  return std::any_of(input.ranks().begin(), input.ranks().end(),
                     [](const auto& view) { return !view->rank().steps.empty(); });
}

const RankView* AskedRank(const AnalysisInput& input) {
  for (const auto& view : input.ranks())
    if (!input.options().rank || view->rank().rank == *input.options().rank) return view.get();
  return nullptr;
}

void AddNotes(const AnalysisInput& input, std::string_view definition, Table* table) {
  if (table->rows.size() > kMaxTableRows) {
    table->notes.push_back(
        fmt::format("the first {} of {} lines", kMaxTableRows, table->rows.size()));
    table->rows.resize(kMaxTableRows);
  }
  if (input.options().hta) return AddHtaNotes(input, table);
  size_t steps = 0, complete = 0, with_gpu = 0;
  for (const auto& view : input.ranks()) {
    steps += view->rank().steps.size();
    complete += static_cast<size_t>(
        std::ranges::count_if(view->rank().steps, [](const Step& s) { return s.complete; }));
    with_gpu += !view->gpu_rows().empty();
  }
  table->notes.push_back(
      steps == 0
          ? std::string("window: the whole trace (it marks no steps)")
          : fmt::format("window: the whole trace with every step ({} steps, {} of them complete)",
                        steps, complete));
  table->notes.push_back(fmt::format("definition: docs/traces.md, analyses: {}", definition));
  AddCoverage(input, with_gpu, table);
}

AnalysisTables OneTable(const AnalysisInput& input, std::string_view definition, Table table) {
  AddNotes(input, definition, &table);
  return OneTable(std::move(table));
}

void AddCoverage(const AnalysisInput& input, size_t ranks, Table* table) {
  table->notes.push_back(
      fmt::format("coverage: {} of {} ranks have GPU work", ranks, input.ranks().size()));
}

}  // namespace flopwatch::trace
