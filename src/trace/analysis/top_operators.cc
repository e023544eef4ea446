#include <algorithm>
#include <string>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/tables.h"
#include "trace/analysis/tree.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostOperators = 100;  // lines a rank

struct Operator {
  NameId name = kNoName;
  int64_t calls = 0, kernels = 0;
  // µs. `total` of an operator counts the operators it calls; an operator inside one of the same name adds nothing to it.
  double cpu_total = 0, cpu_self = 0, api = 0, gpu_total = 0, gpu_self = 0;
};

std::vector<Operator> OperatorsOf(const RankView& view) {
  const EventTable& e = view.events();
  const std::vector<Row> order = ParentsFirst(e);
  const auto is_op = [&](Row r) { return e.category[r] == Category::kCpuOp; };
  const std::vector<Row> above = NearestAbove(e, order, is_op);

  // By row of the operator: time in the operators right below it, in API calls right below it, on the GPU.
  std::vector<double> below(e.size(), 0), api(e.size(), 0), gpu(e.size(), 0);
  std::vector<uint32_t> kernels(e.size(), 0);
  for (Row r = 0; r < e.size(); ++r) {
    if (IsGpuWork(e.category[r])) {
      if (e.op[r] == kNoRow) continue;
      gpu[e.op[r]] += MicrosOf(e.dur[r]);
      ++kernels[e.op[r]];
    } else if (above[r] != kNoRow && is_op(r)) {
      below[above[r]] += MicrosOf(e.dur[r]);
    } else if (above[r] != kNoRow && IsLaunchApi(e.category[r]) && !IsLaunchApi(e.category[e.parent[r]])) {
      api[above[r]] += MicrosOf(e.dur[r]);
    }
  }
  std::vector<double> gpu_total = gpu;
  for (size_t i = order.size(); i-- > 0;) {
    const Row r = order[i];
    if (is_op(r) && above[r] != kNoRow) gpu_total[above[r]] += gpu_total[r];
  }

  // Every thread's operators in the order entered, with those that are open, to see which names are open already.
  std::vector<uint32_t> slot(view.set().names.size(), 0), open_of_name(view.set().names.size(), 0);
  std::vector<std::vector<Row>> by_thread(view.rank().threads.size());
  for (const Row r : order) {
    if (is_op(r)) by_thread[e.thread[r]].push_back(r);
  }
  std::vector<Operator> out;
  std::vector<Row> open;
  for (const std::vector<Row>& rows : by_thread) {
    for (const Row r : rows) {
      while (!open.empty() && open.back() != above[r]) {
        --open_of_name[e.name[open.back()]];
        open.pop_back();
      }
      const NameId name = e.name[r];
      if (slot[name] == 0) {
        out.push_back({.name = name});
        slot[name] = static_cast<uint32_t>(out.size());
      }
      Operator& op = out[slot[name] - 1];
      ++op.calls;
      op.kernels += kernels[r];
      op.cpu_self += MicrosOf(e.dur[r]) - below[r];
      op.api += api[r];
      op.gpu_self += gpu[r];
      if (open_of_name[name] == 0) {
        op.cpu_total += MicrosOf(e.dur[r]);
        op.gpu_total += gpu_total[r];
      }
      open.push_back(r);
      ++open_of_name[name];
    }
    for (const Row r : open) --open_of_name[e.name[r]];
    open.clear();
  }
  return out;
}

StatusOr<AnalysisTables> Run(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("rank"),        Plain("operator"),    Count("calls"),       Plain("cpu_total_us"), Plain("cpu_self_us"),
                   Plain("cuda_api_us"), Plain("gpu_total_us"), Plain("gpu_self_us"), Count("kernels"),      Share("gpu_self_share")};
  for (const auto& view : input.ranks()) {
    std::vector<Operator> ops = OperatorsOf(*view);
    double all_gpu = 0;
    for (const Row r : view->gpu_rows()) all_gpu += MicrosOf(view->events().dur[r]);
    const size_t shown = std::min(ops.size(), kMostOperators);
    std::partial_sort(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(shown), ops.end(), [](const Operator& a, const Operator& b) {
      if (a.gpu_self != b.gpu_self) return a.gpu_self > b.gpu_self;
      return a.cpu_self != b.cpu_self ? a.cpu_self > b.cpu_self : a.name < b.name;
    });
    const bool has_gpu = !view->gpu_rows().empty();
    for (size_t i = 0; i < shown; ++i) {
      const Operator& op = ops[i];
      const auto gpu = [&](Cell cell) { return has_gpu ? cell : Cell{}; };
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(op.name)), op.calls, op.cpu_total, op.cpu_self, op.api,
                            gpu(op.gpu_total), gpu(op.gpu_self), gpu(op.kernels), ShareCell(op.gpu_self, all_gpu)});
    }
    if (shown < ops.size()) {
      table.notes.push_back(fmt::format("rank {}: the first {} of {} operators", view->rank().rank, shown, ops.size()));
    }
  }
  if (table.rows.empty()) return NotComputable("the trace has no operators (cpu_op)");
  table.notes.push_back(
      "by GPU time of the kernels an operator launched itself, then by its own CPU time. total counts what it calls, once where it "
      "calls itself; self does not; cuda_api is the time in launch and runtime calls, part of cpu_self; GPU times are sums of durations");
  AddNotes(input, "top_operators", &table);
  return OneTable(std::move(table));
}

}  // namespace

constinit const Analysis kTopOperators = {
    .name = "top_operators",
    .title = "Operators by their GPU and CPU time",
    .run = Run,
};

}  // namespace flopwatch::trace
