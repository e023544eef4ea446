#include <algorithm>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/tables.h"
#include "trace/analysis/tree.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostDelayed = 100;  // lines a rank

// What one operator instance launched first.
struct First {
  Row call = kNoRow, work = kNoRow;
  uint32_t kernels = 0;
};

struct Delays {
  NameId name = kNoName;
  Accumulator to_launch, to_start;
  int64_t kernels = 0;
};

// Delays of the innermost aten operator above a launch call (same thread: no other can have made
// it): from the operator's start to its first launch call, and from that call's start to the start
// of its first GPU work.
std::vector<Delays> DelaysOf(const RankView& view) {
  const EventTable& e = view.events();
  const StringPool& names = view.set().names;
  NamePredicate aten(names, [](std::string_view name) { return name.starts_with("aten::"); });
  const auto is_aten = [&](Row r) { return e.category[r] == Category::kCpuOp && aten(e.name[r]); };
  const std::vector<Row> above = NearestAbove(e, view.parents_first(), is_aten);
  std::vector<uint32_t> instance(e.size(), 0);  // 1 + index into firsts
  std::vector<std::pair<Row, First>> firsts;
  for (const Row r : view.gpu_rows()) {
    const Row call = e.launch[r];
    const Row op = call == kNoRow ? kNoRow : above[call];
    if (op == kNoRow) continue;
    if (instance[op] == 0) {
      firsts.push_back({op, {}});
      instance[op] = static_cast<uint32_t>(firsts.size());
    }
    First& first = firsts[instance[op] - 1].second;
    ++first.kernels;
    if (first.call == kNoRow || e.ts[call] < e.ts[first.call]) first.call = call;
    if (first.work == kNoRow) first.work = r;  // rows come by start time
  }
  std::vector<uint32_t> slot(names.size(), 0);
  std::vector<Delays> out;
  for (const auto& [op, first] : firsts) {
    uint32_t& at = slot[e.name[op]];
    if (at == 0) {
      out.emplace_back().name = e.name[op];
      at = static_cast<uint32_t>(out.size());
    }
    Delays& d = out[at - 1];
    d.kernels += first.kernels;
    d.to_launch.Add(MicrosOf(e.ts[first.call] - e.ts[op]));
    d.to_start.Add(MicrosOf(e.ts[first.work] - e.ts[first.call]));
  }
  return out;
}

StatusOr<AnalysisTables> RunOpLaunchDelay(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "operator", "#instances", "#kernels", "op_to_launch_mean_us",
                 "op_to_launch_max_us", "launch_to_start_mean_us", "launch_to_start_max_us"});
  for (const auto& view : input.ranks()) {
    std::vector<Delays> all = DelaysOf(*view);
    const size_t shown = std::min(all.size(), kMostDelayed);
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(shown), all.end(),
                      [](const Delays& a, const Delays& b) {
                        return a.to_launch.sum() != b.to_launch.sum()
                                   ? a.to_launch.sum() > b.to_launch.sum()
                                   : a.name < b.name;
                      });
    for (size_t i = 0; i < shown; ++i) {
      const Delays& d = all[i];
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(d.name)),
                            d.to_launch.count(), d.kernels, d.to_launch.mean(), d.to_launch.max(),
                            d.to_start.mean(), d.to_start.max()});
    }
    if (shown < all.size())
      table.notes.push_back(fmt::format("rank {}: the first {} of {} operators", view->rank().rank,
                                        shown, all.size()));
  }
  if (table.rows.empty()) return NotComputable("no aten operator of the trace launches GPU work");
  table.notes.push_back(
      "of operators (aten::) that launch GPU work themselves: from the operator's start to its "
      "first launch call, and from that "
      "call's start to the start of its first GPU work; by total time to the launch");
  return OneTable(input, "op_launch_delay", std::move(table));
}

}  // namespace

constinit const Analysis kOpLaunchDelay = {
    .name = "op_launch_delay",
    .title = "From an operator's start to its launch, and from the launch to the GPU",
    .ours = RunOpLaunchDelay};

}  // namespace flopwatch::trace
