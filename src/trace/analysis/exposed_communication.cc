#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/analyses.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostLines = 2000;

struct Line {
  int32_t step = kNoStep;
  NameId collective = kNoName;  // the collective's name where the trace has it, else the kernel's
  NameId group = kNoName;
  int64_t count = 0, with_bytes = 0;
  double bytes = 0;  // of the larger of what goes in and comes out
  Nanos time = 0, own = 0, exposed = 0;
};

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL" of "void
// ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs...)".
std::string ShortKernelName(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  return std::string(name.substr(0, name.find_first_of("<(")));
}

// -1 = not known.
double BytesOf(const StringPool& names, const CollectiveDetail* detail) {
  if (detail == nullptr) return -1;
  if (detail->bytes >= 0) return static_cast<double>(detail->bytes);
  const int64_t elements = std::max(detail->in_elements, detail->out_elements),
                each = ElementBytes(names.Text(detail->dtype));
  return elements >= 0 && each > 0 ? static_cast<double>(elements) * static_cast<double>(each) : -1;
}

// Every moment of communication belongs to the collective that started first of those that run
// then: so the exposed times of the lines add up to the rank's exposed communication.
std::vector<Line> LinesOf(const RankView& view) {
  const EventTable& e = view.events();
  const IntervalSet& exposed = view.exposed_communication();
  std::vector<Line> out;
  absl::flat_hash_map<std::tuple<int32_t, NameId, NameId>, uint32_t> known;
  Nanos covered = std::numeric_limits<Nanos>::min();
  for (const Row r : view.gpu_rows()) {
    if (view.classes()[r] != KernelClass::kCommunication) continue;
    const CollectiveDetail* detail = view.rank().CollectiveOf(r);
    if (detail == nullptr && e.op[r] != kNoRow) detail = view.rank().CollectiveOf(e.op[r]);
    const NameId name =
        detail != nullptr && detail->collective != kNoName ? detail->collective : e.name[r];
    const NameId group = detail == nullptr                      ? kNoName
                         : detail->group_description != kNoName ? detail->group_description
                                                                : detail->group_name;
    const auto [found, added] =
        known.try_emplace({e.step[r], name, group}, static_cast<uint32_t>(out.size()));
    if (added) out.push_back({.step = e.step[r], .collective = name, .group = group});
    Line& line = out[found->second];
    ++line.count;
    line.time += e.dur[r];
    if (const double bytes = BytesOf(view.set().names, detail); bytes >= 0) {
      ++line.with_bytes;
      line.bytes += bytes;
    }
    const Nanos from = std::max(e.ts[r], covered);
    if (e.end(r) > from) {
      line.own += e.end(r) - from;
      line.exposed += LengthWithin(exposed, from, e.end(r));
      covered = e.end(r);
    }
  }
  return out;
}

StatusOr<AnalysisTables> RunExposedCommunication(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "step", "collective", "group", "#count", "@bytes", "communication_us",
                 "exposed_us", "%exposed_share", "%exposed_share_of_step"});
  size_t left_out = 0;
  for (const auto& view : input.ranks()) {
    const StringPool& names = view->set().names;
    const Interval span = view->gpu_span();
    std::vector<Line> lines = LinesOf(*view);
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
      return std::tie(a.step, b.exposed, a.collective, a.group) <
             std::tie(b.step, a.exposed, b.collective, b.group);
    });
    for (const Line& line : lines) {
      if (table.rows.size() >= kMostLines) {
        ++left_out;
        continue;
      }
      const Step* step =
          line.step == kNoStep ? nullptr : &view->rank().steps[static_cast<size_t>(line.step)];
      const Nanos whole = step != nullptr ? step->end - step->begin : span.end - span.begin;
      table.rows.push_back({RankCell(*view), step != nullptr ? Cell{step->number} : Cell{},
                            ShortKernelName(names.Text(line.collective)),
                            line.group == kNoName ? Cell{} : TextCell(names.Text(line.group)),
                            line.count, line.with_bytes == line.count ? Cell{line.bytes} : Cell{},
                            MicrosCell(line.time), MicrosCell(line.exposed),
                            ShareCell(MicrosOf(line.exposed), MicrosOf(line.own)),
                            step != nullptr || view->rank().steps.empty()
                                ? ShareCell(MicrosOf(line.exposed), MicrosOf(whole))
                                : Cell{}});
    }
  }
  if (table.rows.empty()) return NotComputable("no rank of this trace has communication kernels");
  if (left_out > 0) table.notes.push_back(fmt::format("{} further lines are left out", left_out));
  table.notes.push_back(
      "by the step that launched it and the collective; exposed = no compute kernel runs. Where "
      "collectives overlap, the time is of the one that started first, so that the lines add up to "
      "the exposed communication of the rank; without steps the share is of the GPU span");
  return OneTable(input, "exposed_communication", std::move(table));
}

}  // namespace

constinit const Analysis kExposedCommunication = {
    .name = "exposed_communication",
    .title = "Communication that no compute hides, by step and collective",
    .ours = RunExposedCommunication};

}  // namespace flopwatch::trace
