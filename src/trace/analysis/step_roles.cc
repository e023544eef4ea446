// Step time by role as the PyTorch TensorBoard plugin counts it (pytorch/kineto, tb_plugin, until
// 2026), for people who know its overview page, and its device figures. Every moment of a step
// belongs to one role, the first of: kernel, memcpy, memset, communication, runtime, data loader,
// CPU operator, other. Its list of communication names is its own (ten names), so all-to-all and
// most of NCCL count as kernels here; comm_comp_overlap has the project's definition.
#include <algorithm>
#include <array>

#include "trace/analysis/analyses.h"
#include "trace/analysis/kernel_names.h"
#include "trace/analysis/sm_load.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"
#include "trace/name_test.h"

namespace flopwatch::trace {
namespace {

constexpr std::array kRoles = {"kernel_us",  "memcpy_us",      "memset_us", "communication_us",
                               "runtime_us", "data_loader_us", "cpu_op_us", "other_us"};

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

struct Figures {
  Table steps, devices;
};

void AddRank(const RankView& view, Figures* out) {
  const EventTable& e = view.events();
  const RankTrace& rank = view.rank();
  const StringPool& names = view.set().names;
  const std::vector<Window> windows = WindowsOf(view);
  if (windows.empty()) return;
  NameTest communication(names, IsPluginCommunication), loader(names, IsPluginLoader),
      tensor_plugin(names, IsPluginTensorCore), tensor(names, IsTensorCoreKernel),
      step_name(names, IsStepName);

  // External ids of communication calls: kernels that share one are communication too.
  std::vector<int64_t> ids;
  for (Row r = 0; r < e.size(); ++r) {
    if ((e.category[r] == Category::kCpuOp || e.category[r] == Category::kUserAnnotation) &&
        e.external_id[r] > 0 && communication(e.name[r]))
      ids.push_back(e.external_id[r]);
  }
  std::sort(ids.begin(), ids.end());
  std::array<std::vector<Interval>, 7> rows;
  std::vector<Interval> kernels;
  for (Row r = 0; r < e.size(); ++r) {
    const Interval at{e.ts[r], e.end(r)};
    size_t role = 7;
    switch (e.category[r]) {
      case Category::kKernel:
        role = e.external_id[r] > 0 && std::binary_search(ids.begin(), ids.end(), e.external_id[r])
                   ? 3
                   : 0;
        kernels.push_back(at);
        break;
      case Category::kGpuMemcpy:
        role = 1;
        break;
      case Category::kGpuMemset:
        role = 2;
        break;
      case Category::kRuntime:
        role = 4;
        break;  // the plugin does not know driver calls
      case Category::kGpuUserAnnotation:
        role = communication(e.name[r]) ? 3 : 7;
        break;
      case Category::kCpuOp:
      case Category::kUserAnnotation:
        role = communication(e.name[r]) ? 3 : loader(e.name[r]) ? 5 : step_name(e.name[r]) ? 7 : 6;
        break;
      default:
        break;
    }
    if (role < rows.size()) rows[role].push_back(at);
  }
  std::vector<Interval> pieces;
  for (const Window& w : windows) pieces.push_back(w.at);
  const IntervalSet inside = Merge(std::move(pieces));
  std::array<IntervalSet, 7> own;
  IntervalSet claimed;
  for (size_t role = 0; role < rows.size(); ++role) {
    const IntervalSet all = Intersect(Merge(std::move(rows[role])), inside);
    own[role] = Subtract(all, claimed);
    claimed = Union(claimed, all);
  }
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
    out->steps.rows.push_back(std::move(row));
  }

  // Its device figures are over one window, from the first step's begin to the last one's end.
  const Interval whole{windows.front().at.begin, windows.back().at.end};
  const double length = static_cast<double>(whole.end - whole.begin);
  struct PerDevice {
    std::vector<Interval> kernels;
    std::vector<SmLoad> loads;
    double occupancy = 0, occupancy_time = 0;
    Nanos time = 0, plugin_tensor = 0, tensor = 0, compute = 0;
  };
  absl::flat_hash_map<int32_t, PerDevice> devices;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kKernel) continue;
    const KernelDetail* k = rank.KernelOf(r);
    PerDevice& d = devices[k == nullptr ? -1 : k->device];
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
  Nanos load = 0, communicate = 0, total = 0;
  for (const Window& w : windows) {
    load += LengthWithin(own[5], w.at.begin, w.at.end);
    communicate += LengthWithin(own[3], w.at.begin, w.at.end);
    total += w.at.end - w.at.begin;
  }
  std::vector<int32_t> order;
  for (const auto& [id, d] : devices) order.push_back(id);
  std::sort(order.begin(), order.end());
  for (const int32_t id : order) {
    PerDevice& d = devices[id];
    const bool any_blocks = std::any_of(d.loads.begin(), d.loads.end(), [](const SmLoad& l) {
      return !std::isnan(l.blocks_per_sm);
    });
    const double utilisation = length > 0
                                   ? static_cast<double>(LengthWithin(Merge(std::move(d.kernels)),
                                                                      whole.begin, whole.end)) /
                                         length
                                   : 0;
    std::string fired;
    const auto fire = [&](bool yes, std::string_view rule) {
      if (yes) fired += (fired.empty() ? "" : ", ") + std::string(rule);
    };
    // Its rules as far as they need this table alone (its thresholds).
    fire(static_cast<double>(load) > 0.05 * static_cast<double>(total), "dataloader_over_5pct");
    fire(static_cast<double>(communicate) > 0.10 * static_cast<double>(total),
         "communication_over_10pct");
    fire(utilisation < 0.5, "gpu_util_under_50pct");
    out->devices.rows.push_back(
        {RankCell(view), int64_t{id}, Cell{utilisation},
         any_blocks ? ShareCell(BusySmTime(d.loads, {whole}), length) : Cell{},
         ShareCell(d.occupancy, d.occupancy_time),
         ShareCell(static_cast<double>(d.plugin_tensor), static_cast<double>(d.time)),
         ShareCell(static_cast<double>(d.tensor), static_cast<double>(d.compute)),
         TextCell(fired)});
  }
}

StatusOr<AnalysisTables> RunStepRoles(const AnalysisInput& input) {
  Figures figures;
  figures.steps.columns = ColumnsOf({"rank", "step"});
  for (const char* role : kRoles) figures.steps.columns.push_back(Plain(role));
  figures.steps.columns.push_back(Plain("total_us"));
  figures.devices.columns = ColumnsOf({"rank", "device", "%gpu_utilization", "%est_sm_efficiency",
                                       "%est_achieved_occupancy", "%plugin_tensor_core_ratio",
                                       "%tensor_core_ratio", "rules_fired"});
  for (const auto& view : input.ranks()) AddRank(*view, &figures);
  if (figures.steps.rows.empty())
    return NotComputable("the trace has no steps, operators, calls or GPU work");
  AddNotes(input, "step_roles", &figures.steps);
  AddNotes(input, "step_roles", &figures.devices);
  AnalysisTables out;
  out.parts.push_back({"steps", std::move(figures.steps)});
  out.parts.push_back({"devices", std::move(figures.devices)});
  return out;
}

}  // namespace

constinit const Analysis kStepRoles = {
    .name = "step_roles",
    .title = "Step time by role and device figures, as the PyTorch TensorBoard plugin counts them",
    .ours = RunStepRoles,
};

}  // namespace flopwatch::trace
