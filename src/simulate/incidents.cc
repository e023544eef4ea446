#include "simulate/incidents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/text.h"

namespace flopwatch::simulate {
namespace {

struct KindRow {
  IncidentGroup group;
  std::string_view name, short_name, about;
};

constexpr KindRow kKinds[] = {
    {IncidentGroup::kStraggler, "straggler_clock", "clock",
     "one GPU of a synchronous job runs at a lower clock, no cause told"},
    {IncidentGroup::kStraggler, "straggler_power_cap", "power_cap",
     "one GPU has a lower power limit and runs at it"},
    {IncidentGroup::kStraggler, "straggler_thermal", "thermal",
     "one GPU is hot and slowed down for it"},
    {IncidentGroup::kStraggler, "straggler_stall", "stall",
     "one GPU waits for retries (PCIe, ECC) at full clock"},
    {IncidentGroup::kStraggler, "straggler_link", "link",
     "NVLinks of one GPU have errors or a fraction of their bandwidth"},
    {IncidentGroup::kStraggler, "straggler_host", "host",
     "all GPUs of one host are late with every step"},
    {IncidentGroup::kRegression, "regression_tensor", "tensor",
     "runs of a workflow do less tensor work from one on"},
    {IncidentGroup::kRegression, "regression_clock", "clock", "... run at a lower clock"},
    {IncidentGroup::kRegression, "regression_duty", "duty",
     "... wait for data: the duty cycle falls"},
    {IncidentGroup::kRegression, "regression_memory", "memory", "... are bound by device memory"},
    {IncidentGroup::kRegression, "regression_network", "network",
     "... spend their time in communication"},
    {IncidentGroup::kDrop, "drop_tensor", "tensor",
     "a run does less tensor work from some moment on"},
    {IncidentGroup::kDrop, "drop_clock", "clock", "... runs at a lower clock"},
    {IncidentGroup::kDrop, "drop_duty", "duty", "... waits for data"},
    {IncidentGroup::kDrop, "drop_memory", "memory", "... is bound by device memory"},
    {IncidentGroup::kDrop, "drop_network", "network", "... spends its time in communication"},
    {IncidentGroup::kChange, "change_gpus", "gpus",
     "a workflow changes its number of GPUs: no regression"},
    {IncidentGroup::kChange, "change_model", "model",
     "a workflow changes its model: no regression"},
    {IncidentGroup::kChange, "change_precision", "precision",
     "a workflow changes its precision: no regression"},
    {IncidentGroup::kIdle, "idle_no_process", "no_process",
     "a job holds GPUs and no process runs on them"},
    {IncidentGroup::kIdle, "idle_no_work", "no_work", "a process holds memory and does nothing"},
    {IncidentGroup::kIdle, "idle_startup", "startup", "a job takes long until its work begins"},
    {IncidentGroup::kIdle, "idle_barrier", "barrier", "a job waits in a collective, then goes on"},
    {IncidentGroup::kIdle, "hung", "hung", "a job waits in a collective until it ends"},
    {IncidentGroup::kIdle, "idle_after_last_output", "after_last_output",
     "a job's work is done, and it holds on"},
    {IncidentGroup::kIdle, "idle_unused_gpu", "unused_gpu", "some GPUs of a job are never touched"},
    {IncidentGroup::kBoard, "xid_application", "application", "a GPU tells XID 13, 31, 43 or 45"},
    {IncidentGroup::kBoard, "xid_memory", "memory",
     "... 48, 63, 64, 94 or 95, with uncorrectable errors for 48 and 95"},
    {IncidentGroup::kBoard, "xid_link", "link", "... 74"},
    {IncidentGroup::kBoard, "xid_bus", "bus", "... 79"},
    {IncidentGroup::kBoard, "xid_gsp", "gsp", "... 119 or 120"},
    {IncidentGroup::kBoard, "ecc_double", "ecc_double",
     "a GPU counts an uncorrectable memory error, without an XID"},
    {IncidentGroup::kBoard, "row_remap", "row_remap",
     "... remaps rows of its memory, without an XID"},
    {IncidentGroup::kBoard, "row_remap_failed", "row_remap_failed",
     "... cannot remap a row of its memory"},
    {IncidentGroup::kBoard, "xid_fatal", "fatal",
     "a job ends as one of its GPUs tells an XID, of any sort"},
    {IncidentGroup::kBoard, "xid_again", "again",
     "a GPU tells the same XID three times, half an hour and more apart"},
    {IncidentGroup::kBoard, "xid_old", "old",
     "a GPU shows a code of before the simulated time: no news"},
    {IncidentGroup::kBoard, "row_remap_old", "row_remap_old",
     "a GPU remapped rows before the simulated time: no news"},
    {IncidentGroup::kReported, "loss_not_finite", "not_finite",
     "a job reports a loss that is NaN or infinite, for long"},
    {IncidentGroup::kReported, "loss_spike", "spike", "... a loss far above its own, for minutes"},
    {IncidentGroup::kReported, "grad_norm", "grad_norm",
     "... gradients of many times their norm, for minutes"},
    {IncidentGroup::kReported, "loss_once", "once",
     "... one loss that is NaN or far off, alone: no harm"},
    {IncidentGroup::kClock, "clock_stuck", "stuck",
     "a job's clocks stand at half of what they should be, from its begin"},
    {IncidentGroup::kClock, "power_brake", "power_brake",
     "the supplies of a host hold the clocks of its GPUs down for a while"},
    {IncidentGroup::kPause, "restart", "restart",
     "a job's processes end, and go on from a checkpoint: no harm"},
    {IncidentGroup::kFleet, "fleet_drop", "fleet_drop",
     "all that trains waits for data at once, for hours"},
};
static_assert(std::size(kKinds) == kIncidentKinds);
static_assert(static_cast<size_t>(IncidentKind::kFleetDrop) + 1 == kIncidentKinds);

const KindRow& RowOf(IncidentKind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

IncidentGroup GroupOf(IncidentKind kind) { return RowOf(kind).group; }

Family FamilyOf(IncidentKind kind) {
  const IncidentKind first = GroupOf(kind) == IncidentGroup::kDrop
                                 ? IncidentKind::kDropTensor
                                 : IncidentKind::kRegressionTensor;
  return static_cast<Family>(static_cast<int>(kind) - static_cast<int>(first));
}

std::string_view IncidentName(IncidentKind kind) { return RowOf(kind).name; }
std::string_view IncidentAbout(IncidentKind kind) { return RowOf(kind).about; }
std::string_view IncidentShortName(IncidentKind kind) { return RowOf(kind).short_name; }

bool IncidentCounts::any() const {
  return std::ranges::any_of(n, [](int32_t count) { return count > 0; });
}

Status ParseIncidents(std::string_view text, IncidentCounts* counts) {
  std::vector<std::string_view> names;
  for (const KindRow& row : kKinds) names.push_back(row.name);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const auto known = std::ranges::find(names, name);
    if (known == names.end()) {
      const std::string_view near = Nearest(name, names);
      return InvalidArgument(
          "--incidents {}: no kind of incident is called that{}; `--incidents list` has all", name,
          near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
    }
    int32_t n = 0;
    std::string_view number =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    const size_t kind = static_cast<size_t>(known - names.begin());
    if (const size_t mark = number.find('@'); mark != std::string_view::npos) {
      const std::string_view size = number.substr(mark + 1);
      number = number.substr(0, mark);
      float least = 0;
      const auto read = std::from_chars(size.data(), size.data() + size.size(), least);
      const IncidentGroup group = GroupOf(static_cast<IncidentKind>(kind));
      if (group != IncidentGroup::kDrop && group != IncidentGroup::kRegression &&
          group != IncidentGroup::kStraggler)
        return InvalidArgument(
            "--incidents {}: only stragglers, regressions and drops have a size that can be asked "
            "for; leave out @{}",
            item, size);
      if (read.ec != std::errc{} || read.ptr != size.data() + size.size() ||
          !(least >= kLeastSize && least <= kMostLeast))
        return InvalidArgument(
            "--incidents {}: a size is a part from {} to {}, as in drop_tensor=5@0.3", item,
            kLeastSize, kMostLeast);
      counts->least[kind] = least;
    }
    const char* end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, n);
    if (number.empty() || read.ec != std::errc{} || read.ptr != end || n < 0 || n > kMaxIncidents)
      return InvalidArgument("--incidents {}: write KIND=N, or KIND=N@SIZE, with N from 0 to {}",
                             item, kMaxIncidents);
    int32_t& sum = counts->n[kind];
    sum = std::min(kMaxIncidents, sum + n);
  }
  return absl::OkStatus();
}

std::string IncidentList() {
  std::string out;
  for (const KindRow& row : kKinds) out += fmt::format("{:<24}{}\n", row.name, row.about);
  return out;
}

}  // namespace flopwatch::simulate
