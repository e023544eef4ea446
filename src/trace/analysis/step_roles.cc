// Step time by role as the PyTorch TensorBoard plugin counts it (pytorch/kineto, tb_plugin, until
// 2026), for people who know its overview page, and its device figures. Every moment of a step
// belongs to one role, the first of: kernel, memcpy, memset, communication, runtime, data loader,
// CPU operator, other. Its list of communication names is its own (ten names), so all-to-all and
// most of NCCL count as kernels here; comm_comp_overlap has the project's definition.
#include <algorithm>
#include <array>
#include <map>

#include "trace/analysis/analyses.h"
#include "trace/analysis/kernel_names.h"
#include "trace/analysis/sm_load.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

// Roles stand in the order in which they claim a moment.
enum Role : size_t {
  kKernels,
  kMemcpys,
  kMemsets,
  kCommunication,
  kRuntimeCalls,
  kDataLoader,
  kCpuOps,
  kRoles,
  kOther = kRoles
};
constexpr std::array<const char*, kRoles + 1> kRoleNames = {
    "kernel_us",  "memcpy_us",      "memset_us", "communication_us",
    "runtime_us", "data_loader_us", "cpu_op_us", "other_us"};
using RoleTimes = std::array<IntervalSet, kRoles>;

bool IsPluginCommunication(std::string_view name) {
  if (!name.starts_with("nccl:") && !name.starts_with("gloo:")) return false;
  const std::string_view what = name.substr(5);
  return what == "broadcast" || what == "reduce" || what == "all_reduce" || what == "all_gather" ||
         what == "reduce_scatter";
}
bool IsPluginLoader(std::string_view name) {
  return (name.starts_with("enumerate(DataLoader)#") || name.starts_with("enumerate(DataPipe)#")) &&
         name.ends_with(".__next__");
}
// The marks the plugin looks for; newer GPUs' names are not among them, so its ratio is too low
// there.
bool IsPluginTensorCore(std::string_view name) {
  return HasAny(name,
                {"h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2",
                 "first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1", "direct_group",
                 "xmma_implicit_gemm", "xmma_sparse_conv", "xmma_warp_specialized_implicit_gemm",
                 "xmma_gemm", "xmma_sparse_gemm", "c1688"});
}

struct Window {
  std::string label;
  Interval at;
};

// The plugin's steps: the complete ones; without steps one of everything it knows (operators,
// calls, GPU work).
std::vector<Window> WindowsOf(const RankView& view) {
  const EventTable& e = view.events();
  std::vector<Window> out;
  const RankTrace& rank = view.rank();
  // It keeps a step without device work unless all that follow have none either.
  size_t keep = rank.steps.size();
  while (keep > 0 && !rank.steps[keep - 1].complete) --keep;
  if (keep == 0) keep = rank.steps.size();
  for (size_t i = 0; i < keep; ++i)
    out.push_back({std::to_string(rank.steps[i].number), {rank.steps[i].begin, rank.steps[i].end}});
  if (!out.empty()) return out;
  Interval all{std::numeric_limits<Nanos>::max(), std::numeric_limits<Nanos>::min()};
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kCpuOp && e.category[r] != Category::kRuntime &&
        !IsGpuWork(e.category[r]))
      continue;
    all.begin = std::min(all.begin, e.ts[r]);
    all.end = std::max(all.end, e.end(r));
  }
  if (all.begin < all.end) out.push_back({"0", all});
  return out;
}

// The times of each role inside the windows, without what an earlier role claims.
RoleTimes RoleTimesOf(const RankView& view, const std::vector<Window>& windows) {
  const EventTable& e = view.events();
  const StringPool& names = view.set().names;
  NamePredicate communication(names, IsPluginCommunication), loader(names, IsPluginLoader),
      step_name(names, IsStepName);
  // External ids of communication calls: kernels that share one are communication too.
  std::vector<int64_t> ids;
  for (Row r = 0; r < e.size(); ++r) {
    if ((e.category[r] == Category::kCpuOp || e.category[r] == Category::kUserAnnotation) &&
        e.external_id[r] > 0 && communication(e.name[r]))
      ids.push_back(e.external_id[r]);
  }
  std::ranges::sort(ids);
  const auto role_of = [&](Row r) {
    switch (e.category[r]) {
      case Category::kKernel:
        return e.external_id[r] > 0 && std::binary_search(ids.begin(), ids.end(), e.external_id[r])
                   ? kCommunication
                   : kKernels;
      case Category::kGpuMemcpy:
        return kMemcpys;
      case Category::kGpuMemset:
        return kMemsets;
      case Category::kRuntime:
        return kRuntimeCalls;  // the plugin does not know driver calls
      case Category::kGpuUserAnnotation:
        return communication(e.name[r]) ? kCommunication : kOther;
      case Category::kCpuOp:
      case Category::kUserAnnotation:
        return communication(e.name[r]) ? kCommunication
               : loader(e.name[r])      ? kDataLoader
               : step_name(e.name[r])   ? kOther
                                        : kCpuOps;
      default:
        return kOther;
    }
  };
  std::array<Intervals, kRoles> rows;
  for (Row r = 0; r < e.size(); ++r)
    if (const Role role = role_of(r); role != kOther) rows[role].push_back({e.ts[r], e.end(r)});
  Intervals pieces;
  for (const Window& w : windows) pieces.push_back(w.at);
  const IntervalSet inside = Merge(std::move(pieces));
  RoleTimes own;
  IntervalSet claimed;
  for (size_t role = 0; role < kRoles; ++role) {
    const IntervalSet all = Intersect(Merge(std::move(rows[role])), inside);
    own[role] = Subtract(all, claimed);
    claimed = Union(claimed, all);
  }
  return own;
}

void AddSteps(const RankView& view, const std::vector<Window>& windows, const RoleTimes& own,
              Table* out) {
  for (const Window& w : windows) {
    std::vector<Cell> row = {RankCell(view), w.label};
    Nanos sum = 0;
    for (const IntervalSet& role : own) {
      const Nanos t = LengthWithin(role, w.at.begin, w.at.end);
      sum += t;
      row.push_back(MicrosCell(t));
    }
    row.push_back(MicrosCell(w.at.end - w.at.begin - sum));
    row.push_back(MicrosCell(w.at.end - w.at.begin));
    out->rows.push_back(std::move(row));
  }
}

struct DeviceSums {
  Intervals kernels;
  std::vector<SmLoad> loads;
  double occupancy = 0, occupancy_time = 0;
  Nanos time = 0, plugin_tensor = 0, tensor = 0, compute = 0;
};

std::map<int32_t, DeviceSums> DevicesOf(const RankView& view, Interval whole) {
  const EventTable& e = view.events();
  NamePredicate tensor_plugin(view.set().names, IsPluginTensorCore),
      tensor(view.set().names, IsTensorCoreKernel);
  std::map<int32_t, DeviceSums> devices;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kKernel) continue;
    const KernelDetail* k = view.rank().KernelOf(r);
    DeviceSums& d = devices[k == nullptr ? -1 : k->device];
    // Its tensor-core ratio is of all kernels of the trace.
    d.time += e.dur[r];
    d.plugin_tensor += tensor_plugin(e.name[r]) ? e.dur[r] : 0;
    if (e.end(r) <= whole.begin || e.ts[r] >= whole.end) continue;
    d.kernels.push_back({e.ts[r], e.end(r)});
    if (view.classes()[r] == KernelClass::kCompute) {
      d.compute += e.dur[r];
      d.tensor += tensor(e.name[r]) ? e.dur[r] : 0;
    }
    if (k == nullptr) continue;
    d.loads.push_back({{e.ts[r], e.end(r)}, k->blocks_per_sm});
    if (!std::isnan(k->occupancy_pct)) {
      d.occupancy += k->occupancy_pct / 100 * static_cast<double>(e.dur[r]);
      d.occupancy_time += static_cast<double>(e.dur[r]);
    }
  }
  return devices;
}

// The plugin's device figures are over one window, from the first step's begin to the last one's
// end.
void AddDevices(const RankView& view, const std::vector<Window>& windows, const RoleTimes& own,
                Table* out) {
  const Interval whole{windows.front().at.begin, windows.back().at.end};
  const double length = static_cast<double>(whole.end - whole.begin);
  Nanos load = 0, communicate = 0, total = 0;
  for (const Window& w : windows) {
    load += LengthWithin(own[kDataLoader], w.at.begin, w.at.end);
    communicate += LengthWithin(own[kCommunication], w.at.begin, w.at.end);
    total += w.at.end - w.at.begin;
  }
  for (auto& [id, d] : DevicesOf(view, whole)) {
    const bool any_blocks =
        std::ranges::any_of(d.loads, [](const SmLoad& l) { return !std::isnan(l.blocks_per_sm); });
    const Nanos busy = LengthWithin(Merge(d.kernels), whole.begin, whole.end);
    const double utilisation = length > 0 ? static_cast<double>(busy) / length : 0;
    std::string fired;
    const auto fire = [&](bool yes, std::string_view rule) {
      if (yes) fired += (fired.empty() ? "" : ", ") + std::string(rule);
    };
    // Its rules as far as they need this table alone (its thresholds).
    fire(static_cast<double>(load) > 0.05 * static_cast<double>(total), "dataloader_over_5pct");
    fire(static_cast<double>(communicate) > 0.10 * static_cast<double>(total),
         "communication_over_10pct");
    fire(utilisation < 0.5, "gpu_util_under_50pct");
    out->rows.push_back(
        {RankCell(view), int64_t{id}, Cell{utilisation},
         any_blocks ? ShareCell(BusySmTime(d.loads, {whole}), length) : Cell{},
         ShareCell(d.occupancy, d.occupancy_time),
         ShareCell(static_cast<double>(d.plugin_tensor), static_cast<double>(d.time)),
         ShareCell(static_cast<double>(d.tensor), static_cast<double>(d.compute)),
         TextCell(fired)});
  }
}

StatusOr<AnalysisTables> StepRoles(const AnalysisInput& input) {
  Table steps, devices;
  steps.columns = ColumnsOf({"rank", "step"});
  for (const char* role : kRoleNames) steps.columns.push_back(Plain(role));
  steps.columns.push_back(Plain("total_us"));
  devices.columns = ColumnsOf({"rank", "device", "%gpu_utilization", "%est_sm_efficiency",
                               "%est_achieved_occupancy", "%plugin_tensor_core_ratio",
                               "%tensor_core_ratio", "rules_fired"});
  for (const auto& view : input.ranks()) {
    const std::vector<Window> windows = WindowsOf(*view);
    if (windows.empty()) continue;
    const RoleTimes own = RoleTimesOf(*view, windows);
    AddSteps(*view, windows, own, &steps);
    AddDevices(*view, windows, own, &devices);
  }
  if (steps.rows.empty())
    return NotComputable("the trace has no steps, operators, calls or GPU work");
  AddNotes(input, "step_roles", &steps);
  AddNotes(input, "step_roles", &devices);
  AnalysisTables out;
  out.parts.push_back({"steps", std::move(steps)});
  out.parts.push_back({"devices", std::move(devices)});
  return out;
}

}  // namespace

constinit const Analysis kStepRoles = {
    .name = "step_roles",
    .title = "Step time by role and device figures, as the PyTorch TensorBoard plugin counts them",
    .ours = StepRoles};

}  // namespace flopwatch::trace
