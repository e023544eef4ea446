// Tables of the critical path.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/analyses.h"
#include "trace/analysis/critical_path.h"
#include "trace/analysis/short_name.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kTopEvents = 30;

struct PathSums {
  int64_t edges = 0;
  Nanos time = 0;
  void Add(Nanos t) {
    ++edges;
    time += t;
  }
};

// Time on the path by name, longest first. HTA adds the gap after a kernel to the kernel, and adds
// up by the short name.
std::vector<std::pair<std::string, PathSums>> TimeByName(const RankView& view,
                                                         const CriticalPath& path) {
  const bool hta = view.options().hta;
  absl::flat_hash_map<NameId, PathSums> by_name;
  for (const PathStep& step : path.steps)
    if (step.row != kNoRow && (hta || step.edge == PathEdge::kOperator))
      by_name[view.events().name[step.row]].Add(step.duration);
  std::map<std::string, PathSums> by_text;
  for (const auto& [name, sums] : by_name) {
    const std::string_view text = view.set().names.Text(name);
    PathSums& of = by_text[hta ? ShortName(text) : std::string(text)];
    of.edges += sums.edges;
    of.time += sums.time;
  }
  std::vector<std::pair<std::string, PathSums>> out(by_text.begin(), by_text.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  return out;
}

void AddPathNotes(const RankView& view, const CriticalPath& path, Table* out) {
  const AnalysisOptions& options = view.options();
  out->notes.push_back(fmt::format(
      "window: rank {}, {}, {:.3f} ms; the path has {:.3f} ms of work, the rest of the window "
      "nobody worked on it",
      view.rank().rank,
      options.annotation.empty()
          ? std::string("the whole trace")
          : fmt::format("'{}', instance {}", options.annotation, options.instance),
      static_cast<double>(path.window.end - path.window.begin) / 1e6,
      static_cast<double>(path.total) / 1e6));
  if (!path.sync_rows) {
    out->notes.push_back(options.hta
                             ? std::string("the trace has no rows of synchronisation (cuda_sync): "
                                           "HTA's path does not know what calls waited for")
                             : fmt::format("the trace has no rows of synchronisation (cuda_sync): "
                                           "{} waits were inferred from times",
                                           path.inferred));
  }
  if (path.dropped > 0)
    out->notes.push_back(fmt::format(
        "{} edges ran in a circle (times contradict each other) and were left out", path.dropped));
}

Table GraphTable(const RankView& view, const CriticalPath& path) {
  Table graph = TableWith({"rank", "#nodes", "#edges", "#critical_nodes", "#critical_edges",
                           "total_duration_us", "window_us", "share_of_window"});
  graph.rows.push_back(
      {int64_t{view.rank().rank}, static_cast<int64_t>(path.nodes),
       static_cast<int64_t>(path.edges),
       path.steps.empty() ? int64_t{0} : static_cast<int64_t>(path.steps.size() + 1),
       static_cast<int64_t>(path.steps.size()), MicrosCell(path.total),
       MicrosCell(path.window.end - path.window.begin),
       ShareCell(MicrosOf(path.total), MicrosOf(path.window.end - path.window.begin))});
  return graph;
}

StatusOr<AnalysisTables> CriticalPathTables(const AnalysisInput& input) {
  const RankView* view = AskedRank(input);
  if (view == nullptr) {
    if (input.ranks().empty()) return NotFound("not computable: no rank is loaded");
    return NotFound("rank {} is not loaded", input.options().rank.value_or(0));
  }
  FW_ASSIGN_OR_RETURN(const CriticalPath path, FindCriticalPath(*view));
  std::map<PathBound, PathSums> bounds;
  std::map<PathEdge, PathSums> types;
  for (const PathStep& step : path.steps) {
    bounds[step.bound].Add(step.duration);
    types[step.edge].Add(step.duration);
  }
  const auto share = [&](Nanos t) { return ShareCell(MicrosOf(t), MicrosOf(path.total)); };
  Table summary = TableWith({"bound_by", "duration_us", "%share", "#edges"});
  for (const auto& [bound, sums] : bounds)
    summary.rows.push_back(
        {TextCell(PathBoundName(bound)), MicrosCell(sums.time), share(sums.time), sums.edges});
  std::stable_sort(summary.rows.begin(), summary.rows.end(), [](const auto& a, const auto& b) {
    return std::get<double>(a[1]) > std::get<double>(b[1]);
  });
  AddPathNotes(*view, path, &summary);

  Table edges = TableWith({"edge_type", "#edges", "duration_us", "%share"});
  for (const auto& [type, sums] : types)
    edges.rows.push_back(
        {TextCell(PathEdgeName(type)), sums.edges, MicrosCell(sums.time), share(sums.time)});
  const std::vector<std::pair<std::string, PathSums>> events = TimeByName(*view, path);
  Table top = TableWith({"name", "duration_us", "%share", "#edges"});
  for (size_t i = 0; i < std::min(events.size(), kTopEvents); ++i) {
    const auto& [name, sums] = events[i];
    top.rows.push_back({TextCell(name), MicrosCell(sums.time), share(sums.time), sums.edges});
  }
  top.notes.push_back(fmt::format("{} names in all; time on the path", events.size()));
  AnalysisTables out;
  out.parts.push_back({"", std::move(summary)});
  out.parts.push_back({"edge_types", std::move(edges)});
  out.parts.push_back({"top_events", std::move(top)});
  out.parts.push_back({"graph", GraphTable(*view, path)});
  return out;
}

}  // namespace

std::string_view PathEdgeName(PathEdge e) {
  static constexpr std::string_view kNames[] = {
      "critical_path_operator", "critical_path_dependency", "critical_path_kernel_launch_delay",
      "critical_path_kernel_kernel_delay", "critical_path_sync_dependency"};
  static_assert(std::size(kNames) == static_cast<size_t>(PathEdge::kSync) + 1);
  return kNames[static_cast<size_t>(e)];
}

std::string_view PathBoundName(PathBound b) {
  static constexpr std::string_view kNames[] = {"(dependency)",
                                                "cpu_bound",
                                                "data_loading",
                                                "gpu_compute_bound",
                                                "gpu_memory_bound",
                                                "gpu_communication_bound",
                                                "gpu_kernel_kernel_overhead",
                                                "gpu_kernel_launch_overhead"};
  static_assert(std::size(kNames) == static_cast<size_t>(PathBound::kLaunch) + 1);
  return kNames[static_cast<size_t>(b)];
}

constinit const Analysis kCriticalPath = {
    .name = "critical_path",
    .title = "The chain of CPU and GPU work that decides how long a step takes",
    .ours = CriticalPathTables};

}  // namespace flopwatch::trace
