#include <algorithm>
#include <map>

#include <fmt/format.h>
#include "trace/analysis/diff.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/short_name.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// What a name did in the control (0) and in the test (1).
struct HtaSums {
  int64_t counts[2] = {0, 0};
  Nanos dur[2] = {0, 0};
};
using HtaSumsByName = std::map<std::string, HtaSums>;

// One rank and one step of HTA's rows, by name.
Status AddHtaSide(const TraceSet& set, const DiffOptions& options, DiffDevice device, int side,
                  HtaSumsByName* out) {
  const std::optional<int32_t> only_rank = side == 0 ? options.rank_a : options.rank_b;
  const std::optional<int64_t> only_step = side == 0 ? options.step_a : options.step_b;
  const std::string_view which = side == 0 ? "control" : "test";
  if (set.ranks.empty()) return NotComputable(fmt::format("the {} trace has no rank", which));
  const RankTrace* rank = only_rank ? set.FindRank(*only_rank) : &set.ranks.front();
  if (rank == nullptr) return NoRank(set, *only_rank, which);
  if (rank->steps.empty())
    return NotComputable(fmt::format("the {} trace marks no steps (ProfilerStep)", which));
  const int64_t number = only_step.value_or(rank->steps.front().number);
  const auto step = std::find_if(rank->steps.begin(), rank->steps.end(),
                                 [&](const Step& s) { return s.number == number; });
  if (step == rank->steps.end())
    return NotFound("the {} trace has no step ProfilerStep#{}", which, number);
  const int32_t index = static_cast<int32_t>(step - rank->steps.begin());
  const EventTable& e = rank->events;
  std::vector<std::pair<int64_t, Nanos>> sums(set.names.size());  // count, time
  for (const Row r : SelectHtaRows(set, *rank).rows) {
    const bool gpu = e.stream[r] != kNoStream;
    if (e.step[r] != index || (device == DiffDevice::kCpu && gpu) ||
        (device == DiffDevice::kGpu && !gpu))
      continue;
    ++sums[e.name[r]].first;
    sums[e.name[r]].second += e.dur[r];
  }
  for (NameId id = 0; id < sums.size(); ++id) {
    if (sums[id].first == 0) continue;
    const std::string_view text = set.names.Text(id);
    HtaSums& both = (*out)[options.short_names ? ShortName(text) : std::string(text)];
    both.counts[side] += sums[id].first;
    both.dur[side] += sums[id].second;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Table> HtaTraceDiff(const TraceSet& a, const TraceSet& b, const DiffOptions& options,
                             DiffDevice device) {
  HtaSumsByName by_name;
  FW_RETURN_IF_ERROR(AddHtaSide(a, options, device, 0, &by_name));
  FW_RETURN_IF_ERROR(AddHtaSide(b, options, device, 1, &by_name));
  Table table = TableWith({"name", "control_counts", "control_total_duration", "test_counts",
                           "test_total_duration", "diff_counts", "diff_duration",
                           "counts_change_categories"});
  // First the names of the control, then those that only the test has, as HTA joins them.
  for (const bool in_control : {true, false}) {
    for (const auto& [name, both] : by_name) {
      if ((both.counts[0] > 0) != in_control) continue;
      const int64_t diff = both.counts[1] - both.counts[0];
      table.rows.push_back({name, both.counts[0], MicrosCell(both.dur[0]), both.counts[1],
                            MicrosCell(both.dur[1]), diff, MicrosCell(both.dur[1] - both.dur[0]),
                            std::string(diff > 0   ? "+"
                                        : diff < 0 ? "-"
                                                   : "=")});
    }
  }
  return table;
}

}  // namespace flopwatch::trace
