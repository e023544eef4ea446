// ModuleMFU as msprof-analyze builds it: kernels by module, operator and its place in the module's
// call.
//
// Ranges of modules nest: a range's and an operator's parent is the innermost open range that holds
// it whole. Ascend looks at time alone, as msprof-analyze; other traces at the thread too.
// msprof-analyze follows 20 levels of modules, this one 64.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/ops/msprof.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr std::string_view kNnModule = "nn.Module: ";

// A round that is right for the double there is, as Python's: to `digits` decimals, then the
// shortest text, with ".0".
std::string AsPythonFloat(double value, int digits) {
  double rounded = 0;
  const std::string fixed = fmt::format("{:.{}f}", value, digits);
  rounded = std::strtod(fixed.c_str(), nullptr);
  std::string text = fmt::format("{}", rounded);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct Range {
  Nanos begin = 0, end = 0;
  uint32_t thread = 0;
  std::string_view name;
};

// Where this trace has its modules, in the order of preference.
std::vector<Range> RangesOf(const StringPool& names, const RankTrace& rank,
                            const std::vector<KernelEntry>& entries, std::string* from) {
  const EventTable& e = rank.events;
  std::vector<Range> out;
  for (const ModuleRange& m : rank.module_ranges)
    out.push_back({m.begin, m.end, m.thread, names.Text(m.name)});
  if (!out.empty() || rank.format == "ascend") {
    if (!out.empty()) *from = "ranges of the domain Module";
    return out;
  }
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kPythonFunction) continue;
    const std::string_view name = names.Text(e.name[r]);
    if (name.starts_with(kNnModule))
      out.push_back({e.ts[r], e.end(r), e.thread[r], name.substr(kNnModule.size())});
  }
  if (!out.empty()) {
    *from = "calls of nn.Module in the Python stack";
    return out;
  }
  // With with_modules every operator names its module; operators that follow each other in one
  // module are a call of it.
  Row last = kNoRow;
  for (const KernelEntry& entry : entries) {
    if (entry.op == last) continue;
    last = entry.op;
    NameId module = kNoName;
    size_t steps = 0;
    for (Row r = entry.op; r != kNoRow && module == kNoName && steps < kMaxDepth;
         r = e.parent[r], ++steps) {
      if (const OpDetail* op = rank.OpOf(r)) module = op->module_hierarchy;
    }
    if (module == kNoName) continue;
    const std::string_view name = names.Text(module);
    const Range range{e.ts[entry.op], e.end(entry.op), e.thread[entry.op], name};
    if (!out.empty() && out.back().name.data() == name.data() &&
        out.back().thread == range.thread) {
      out.back().end = std::max(out.back().end, range.end);
    } else {
      out.push_back(range);
    }
  }
  if (!out.empty()) {
    *from = "the module hierarchy that operators name";
    return out;
  }
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kUserAnnotation || e.file_category[r] == names.Find("nccl"))
      continue;
    const std::string_view name = names.Text(e.name[r]);
    if (!name.starts_with("ProfilerStep#")) out.push_back({e.ts[r], e.end(r), e.thread[r], name});
  }
  if (!out.empty()) *from = "annotations of the user";
  return out;
}

class ModuleTable {
 public:
  ModuleTable(const StringPool& names, const RankTrace& rank,
              const std::vector<KernelEntry>& entries, std::vector<Range> ranges)
      : names_(names),
        rank_(rank),
        e_(rank.events),
        entries_(entries),
        ranges_(std::move(ranges)) {}

  std::vector<ModuleMfu> Run() {
    CollectOperators();
    FindParents();
    Group();
    return Rows();
  }

 private:
  struct Operator {
    Row row = kNoRow;  // the first of those with the same name, start and end
    uint32_t range = kNone;
    uint32_t order = 0;  // its place in the module's call
    std::vector<uint32_t> entries;
  };
  struct RowGroup {
    uint32_t path = 0;
    std::string_view module;
    uint32_t sequence = 0;
    Row op = kNoRow;
    std::vector<uint32_t> kernels;  // entries of the first call
    Nanos total = 0;
    int64_t count = 0;
    std::vector<double> mfu_sum;
    std::vector<int64_t> mfu_count;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void CollectOperators() {
    absl::flat_hash_map<std::tuple<NameId, Nanos, Nanos, uint32_t>, uint32_t> known;
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      const Row op = entries_[i].op;
      const auto [it, added] =
          known.try_emplace({e_.name[op], e_.ts[op], e_.end(op), ByThread() ? e_.thread[op] : 0},
                            static_cast<uint32_t>(operators_.size()));
      if (added) operators_.push_back({.row = op, .entries = {}});
      operators_[it->second].entries.push_back(i);
    }
    std::ranges::stable_sort(operators_, [&](const Operator& a, const Operator& b) {
      return e_.ts[a.row] != e_.ts[b.row] ? e_.ts[a.row] < e_.ts[b.row]
                                          : e_.end(a.row) > e_.end(b.row);
    });
  }

  bool ByThread() const { return rank_.format != "ascend"; }

  void FindParents() {
    struct Node {
      uint32_t thread;
      Nanos begin, end;
      bool op;
      uint32_t index;
    };
    std::vector<Node> nodes;
    for (uint32_t i = 0; i < ranges_.size(); ++i)
      nodes.push_back(
          {ByThread() ? ranges_[i].thread : 0, ranges_[i].begin, ranges_[i].end, false, i});
    for (uint32_t i = 0; i < operators_.size(); ++i) {
      const Row r = operators_[i].row;
      nodes.push_back({ByThread() ? e_.thread[r] : 0, e_.ts[r], e_.end(r), true, i});
    }
    std::ranges::stable_sort(nodes, [](const Node& a, const Node& b) {
      if (a.thread != b.thread) return a.thread < b.thread;
      if (a.begin != b.begin) return a.begin < b.begin;
      if (a.end != b.end) return a.end > b.end;
      return a.op < b.op;
    });
    path_of_.assign(ranges_.size(), 0);
    calls_.assign(ranges_.size(), {});
    paths_.push_back({});
    std::vector<uint32_t> open;
    uint32_t thread = kNone;
    for (const Node& node : nodes) {
      if (node.thread != thread) open.clear();
      thread = node.thread;
      while (!open.empty() && ranges_[open.back()].end <= node.begin &&
             ranges_[open.back()].begin < node.begin)
        open.pop_back();
      // Ranges that only overlap stay open; the innermost that holds this one whole is its parent.
      uint32_t parent = kNone;
      for (size_t i = open.size(), looked = 0; i-- > 0 && looked < kMaxDepth; ++looked) {
        if (ranges_[open[i]].end >= node.end) {
          parent = open[i];
          break;
        }
      }
      if (node.op) {
        operators_[node.index].range = parent;
        if (parent != kNone) calls_[parent].push_back(node.index);
        continue;
      }
      if (parent != kNone) path_of_[node.index] = PathUnder(path_of_[parent], ranges_[parent].name);
      if (open.size() >= kMaxDepth) open.erase(open.begin());
      if (paths_[path_of_[node.index]].depth < kMaxDepth) open.push_back(node.index);
    }
    for (std::vector<uint32_t>& call : calls_)
      for (uint32_t i = 0; i < call.size(); ++i) operators_[call[i]].order = i;
  }

  uint32_t PathUnder(uint32_t parent, std::string_view name) {
    const auto [it, added] =
        path_ids_.try_emplace({parent, std::string(name)}, static_cast<uint32_t>(paths_.size()));
    if (added) paths_.push_back({parent, name, paths_[parent].depth + 1});
    return it->second;
  }

  std::string PathText(uint32_t path) const {
    std::vector<std::string_view> parts;
    for (; path != 0; path = paths_[path].parent) parts.push_back(paths_[path].name);
    std::string out;
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
      out += out.empty() ? "" : "/";
      out += *it;
    }
    return out;
  }

  // Equal lists of ids get equal numbers.
  static uint32_t NumberOf(const std::vector<uint32_t>& ids,
                           absl::flat_hash_map<std::string, uint32_t>* known) {
    std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint32_t));
    return known->try_emplace(std::move(bytes), static_cast<uint32_t>(known->size())).first->second;
  }

  void Group() {
    absl::flat_hash_map<std::string, uint32_t> sequences, lists;
    std::vector<uint32_t> sequence_of(calls_.size(), 0), ids;
    for (size_t c = 0; c < calls_.size(); ++c) {
      ids.clear();
      for (const uint32_t op : calls_[c]) ids.push_back(e_.name[operators_[op].row]);
      if (!ids.empty()) sequence_of[c] = NumberOf(ids, &sequences);
    }
    absl::flat_hash_map<
        std::tuple<uint32_t, std::string_view, NameId, uint32_t, uint32_t, uint32_t>, uint32_t>
        known;
    for (const Operator& op : operators_) {
      if (op.range == kNone) continue;
      ids.clear();
      for (const uint32_t entry : op.entries) ids.push_back(e_.name[entries_[entry].kernel]);
      const uint32_t list = NumberOf(ids, &lists), sequence = sequence_of[op.range];
      const auto [it, added] = known.try_emplace(
          {path_of_[op.range], ranges_[op.range].name, e_.name[op.row], op.order, list, sequence},
          static_cast<uint32_t>(groups_.size()));
      if (added) {
        RowGroup& group = groups_.emplace_back();
        group.path = path_of_[op.range];
        group.module = ranges_[op.range].name;
        group.sequence = sequence;
        group.op = op.row;
        group.kernels = op.entries;
        group.mfu_sum.assign(op.entries.size(), 0);
        group.mfu_count.assign(op.entries.size(), 0);
      }
      RowGroup& group = groups_[it->second];
      ++group.count;
      for (size_t i = 0; i < op.entries.size(); ++i) {
        const KernelEntry& entry = entries_[op.entries[i]];
        group.total += e_.dur[entry.kernel];
        if (entry.mfu > 0) {
          group.mfu_sum[i] += entry.mfu;
          ++group.mfu_count[i];
        }
      }
    }
  }

  std::vector<ModuleMfu> Rows() {
    std::vector<ModuleMfu> out;
    for (size_t begin = 0; begin < groups_.size();) {
      // A run of rows of one module: calls that differ in their operators are told apart by a
      // number.
      size_t end = begin;
      std::vector<uint32_t> sequences;
      absl::flat_hash_map<uint32_t, size_t> number;
      for (; end < groups_.size() && groups_[end].path == groups_[begin].path &&
             groups_[end].module == groups_[begin].module;
           ++end) {
        number.try_emplace(groups_[end].sequence, number.size());
      }
      const std::string parent = PathText(groups_[begin].path);
      for (size_t i = begin; i < end; ++i) {
        const RowGroup& group = groups_[i];
        ModuleMfu row;
        row.rank = rank_.rank;
        row.parent_module = parent;
        row.module = number.size() > 1
                         ? fmt::format("{}_{}", group.module, number.at(group.sequence))
                         : std::string(group.module);
        row.op_name = names_.Text(e_.name[group.op]);
        for (size_t k = 0; k < group.kernels.size(); ++k) {
          row.kernel_list += k == 0 ? "" : ", ";
          row.kernel_list += KernelTitle(names_, rank_, entries_[group.kernels[k]].kernel);
          if (group.mfu_count[k] == 0) continue;
          row.avg_mfu += row.avg_mfu.empty() ? "" : ",";
          row.avg_mfu +=
              AsPythonFloat(group.mfu_sum[k] / static_cast<double>(group.mfu_count[k]) * 100, 2) +
              "%";
        }
        row.total_kernel_ns = group.total;
        row.avg_kernel_ns = static_cast<double>(group.total) / static_cast<double>(group.count);
        row.op_count = group.count;
        out.push_back(std::move(row));
      }
      begin = end;
    }
    return out;
  }

  struct Path {
    uint32_t parent = 0;
    std::string_view name;
    size_t depth = 0;
  };

  const StringPool& names_;
  const RankTrace& rank_;
  const EventTable& e_;
  const std::vector<KernelEntry>& entries_;
  std::vector<Range> ranges_;
  std::vector<Operator> operators_;
  std::vector<std::vector<uint32_t>> calls_;  // by range: operators in order
  std::vector<uint32_t> path_of_;
  std::vector<Path> paths_;
  absl::flat_hash_map<std::pair<uint32_t, std::string>, uint32_t> path_ids_;
  std::vector<RowGroup> groups_;
};

}  // namespace

std::vector<ModuleMfu> Modules(const StringPool& names, const RankTrace& rank,
                               const std::vector<KernelEntry>& entries, std::string* from) {
  std::vector<Range> ranges = RangesOf(names, rank, entries, from);
  if (ranges.empty()) return {};
  return ModuleTable(names, rank, entries, std::move(ranges)).Run();
}

}  // namespace flopwatch::trace
