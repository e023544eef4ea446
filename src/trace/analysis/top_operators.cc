#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostOperators = 100;  // lines a rank

struct Operator {
  NameId name = kNoName;
  int64_t calls = 0, kernels = 0;
  // µs. `total` of an operator counts the operators it calls; an operator inside one of the same
  // name adds nothing to it.
  double cpu_total = 0, cpu_self = 0, api = 0, gpu_total = 0, gpu_self = 0;
};

constexpr uint32_t kNoCall = std::numeric_limits<uint32_t>::max();

// One call of an operator.
struct Call {
  Row row = kNoRow;
  uint32_t above = kNoCall;  // the call it is in
  uint32_t kernels = 0;
  double below = 0, api = 0, gpu = 0,
         gpu_total = 0;  // µs: in the calls right below it, in API calls, on the GPU
};

// Parents before children; `call_of` gets for every row its own call or the one that it is in.
std::vector<Call> CallsOf(const RankView& view, std::vector<uint32_t>* call_of) {
  const EventTable& e = view.events();
  std::vector<Call> calls;
  calls.reserve(static_cast<size_t>(std::ranges::count(e.category, Category::kCpuOp)));
  call_of->assign(e.size(), kNoCall);
  for (const Row r : view.parents_first()) {
    const Row parent = e.parent[r];
    const uint32_t above = parent == kNoRow ? kNoCall : (*call_of)[parent];
    (*call_of)[r] = above;
    if (e.category[r] == Category::kCpuOp) {
      if (above != kNoCall) calls[above].below += MicrosOf(e.dur[r]);
      (*call_of)[r] = static_cast<uint32_t>(calls.size());
      calls.push_back({r, above});
    } else if (above != kNoCall && IsLaunchApi(e.category[r]) && !IsLaunchApi(e.category[parent])) {
      calls[above].api += MicrosOf(e.dur[r]);
    }
  }
  for (const Row r : view.gpu_rows()) {
    if (e.op[r] == kNoRow || (*call_of)[e.op[r]] == kNoCall) continue;
    Call& call = calls[(*call_of)[e.op[r]]];
    call.gpu += MicrosOf(e.dur[r]);
    ++call.kernels;
  }
  for (size_t i = calls.size(); i-- > 0;) {
    calls[i].gpu_total += calls[i].gpu;
    if (calls[i].above != kNoCall) calls[calls[i].above].gpu_total += calls[i].gpu_total;
  }
  return calls;
}

std::vector<Operator> OperatorsOf(const RankView& view) {
  const EventTable& e = view.events();
  std::vector<uint32_t> call_of;
  const std::vector<Call> calls = CallsOf(view, &call_of);

  // The calls of each thread in the order entered, with those that are open, to see which names are
  // open already.
  std::vector<size_t> begin(view.rank().threads.size() + 1, 0);
  for (const Call& call : calls) ++begin[e.thread[call.row] + 1];
  for (size_t t = 1; t < begin.size(); ++t) begin[t] += begin[t - 1];
  std::vector<uint32_t> order(calls.size());
  {
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (uint32_t i = 0; i < calls.size(); ++i) order[next[e.thread[calls[i].row]]++] = i;
  }
  std::vector<uint32_t> slot(view.set().names.size(), 0), open_of_name(view.set().names.size(), 0);
  std::vector<Operator> out;
  std::vector<uint32_t> open;
  const auto close = [&] {
    --open_of_name[e.name[calls[open.back()].row]];
    open.pop_back();
  };
  for (size_t t = 0; t + 1 < begin.size(); ++t) {
    for (size_t i = begin[t]; i < begin[t + 1]; ++i) {
      const Call& call = calls[order[i]];
      while (!open.empty() && open.back() != call.above) close();
      const NameId name = e.name[call.row];
      if (slot[name] == 0) {
        out.emplace_back().name = name;
        slot[name] = static_cast<uint32_t>(out.size());
      }
      Operator& op = out[slot[name] - 1];
      ++op.calls;
      op.kernels += call.kernels;
      op.cpu_self += MicrosOf(e.dur[call.row]) - call.below;
      op.api += call.api;
      op.gpu_self += call.gpu;
      if (open_of_name[name] == 0) {
        op.cpu_total += MicrosOf(e.dur[call.row]);
        op.gpu_total += call.gpu_total;
      }
      open.push_back(order[i]);
      ++open_of_name[name];
    }
    while (!open.empty()) close();
  }
  return out;
}

StatusOr<AnalysisTables> RunTopOperators(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "operator", "#calls", "cpu_total_us", "cpu_self_us", "cuda_api_us",
                 "gpu_total_us", "gpu_self_us", "#kernels", "%gpu_self_share"});
  for (const auto& view : input.ranks()) {
    std::vector<Operator> ops = OperatorsOf(*view);
    double all_gpu = 0;
    for (const Row r : view->gpu_rows()) all_gpu += MicrosOf(view->events().dur[r]);
    const size_t shown = std::min(ops.size(), kMostOperators);
    std::partial_sort(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(shown), ops.end(),
                      [](const Operator& a, const Operator& b) {
                        if (a.gpu_self != b.gpu_self) return a.gpu_self > b.gpu_self;
                        return a.cpu_self != b.cpu_self ? a.cpu_self > b.cpu_self : a.name < b.name;
                      });
    const bool has_gpu = !view->gpu_rows().empty();
    for (size_t i = 0; i < shown; ++i) {
      const Operator& op = ops[i];
      const auto gpu = [&](Cell cell) { return has_gpu ? cell : Cell{}; };
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(op.name)), op.calls,
                            op.cpu_total, op.cpu_self, op.api, gpu(op.gpu_total), gpu(op.gpu_self),
                            gpu(op.kernels), ShareCell(op.gpu_self, all_gpu)});
    }
    if (shown < ops.size())
      table.notes.push_back(fmt::format("rank {}: the first {} of {} operators", view->rank().rank,
                                        shown, ops.size()));
  }
  if (table.rows.empty()) return NotComputable("the trace has no operators (cpu_op)");
  table.notes.push_back(
      "by GPU time of the kernels an operator launched itself, then by its own CPU time. total "
      "counts what it calls, once where it calls itself; self does not; cuda_api is the time in "
      "launch and runtime calls, part of cpu_self; GPU times are sums of durations");
  return OneTable(input, "top_operators", std::move(table));
}

}  // namespace

constinit const Analysis kTopOperators = {.name = "top_operators",
                                          .title = "Operators by their GPU and CPU time",
                                          .ours = RunTopOperators};

}  // namespace flopwatch::trace
