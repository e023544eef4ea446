// Hotspot statistics of the Facebook fleet paper (Automated Trace Comprehension): frequency,
// duration and size distribution of operators, calls, kernels and copies, the most time-consuming
// first. All ranks together.
#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kTop = 30;

// One event of a group: its name, how long it took, and how large it was (-1 = not known).
struct Item {
  NameId name;
  Nanos dur;
  double size;
};

// The q-quantile by linear interpolation of values that it reorders.
double Quantile(std::vector<double>& v, double q) {
  if (v.empty()) return kNaN;
  const double at = q * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(at);
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(low), v.end());
  const double a = v[low];
  if (low + 1 == v.size()) return a;
  const double b = *std::min_element(v.begin() + static_cast<ptrdiff_t>(low) + 1, v.end());
  return a + (at - static_cast<double>(low)) * (b - a);
}

AnalysisTables::Part PartOf(const AnalysisInput& input, std::string name,
                            std::string_view size_name, std::vector<Item> items) {
  const StringPool& names = input.set().names;
  // Grouped by counting: names are small numbers.
  std::vector<uint32_t> begin(names.size() + 1, 0);
  std::vector<Nanos> total(names.size(), 0);
  Nanos all = 0;
  for (const Item& i : items) {
    ++begin[i.name + 1];
    total[i.name] += i.dur;
    all += i.dur;
  }
  std::vector<NameId> order;
  for (NameId n = 0; n < names.size(); ++n)
    if (begin[n + 1] > 0) order.push_back(n);
  for (size_t n = 1; n < begin.size(); ++n) begin[n] += begin[n - 1];
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1), grouped(items.size());
  for (uint32_t i = 0; i < items.size(); ++i) grouped[next[items[i].name]++] = i;
  const auto more = [&](NameId a, NameId b) {
    return total[a] != total[b] ? total[a] > total[b] : names.Text(a) < names.Text(b);
  };
  const size_t keep = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(keep), order.end(), more);

  Table table = TableWith(
      {"name", "#count", "total_us", "%share", "mean_us", "p50_us", "p90_us", "p99_us", "max_us"});
  if (!size_name.empty()) {
    for (const char* what : {"_p50", "_p90", "_max", "_total"})
      table.columns.push_back(Plain(std::string(size_name) + what));
  }
  const size_t distinct = order.size();
  order.resize(keep);
  std::vector<double> values;
  for (const NameId n : order) {
    values.clear();
    for (uint32_t i = begin[n]; i < begin[n + 1]; ++i)
      values.push_back(MicrosOf(items[grouped[i]].dur));
    const auto count = static_cast<int64_t>(values.size());
    std::vector<Cell> row = {TextCell(names.Text(n)),
                             count,
                             MicrosCell(total[n]),
                             ShareCell(static_cast<double>(total[n]), static_cast<double>(all)),
                             MicrosOf(total[n]) / static_cast<double>(count),
                             Quantile(values, 0.5),
                             Quantile(values, 0.9),
                             Quantile(values, 0.99),
                             *std::ranges::max_element(values)};
    if (!size_name.empty()) {
      values.clear();
      double sum = 0;
      for (uint32_t i = begin[n]; i < begin[n + 1]; ++i)
        if (items[grouped[i]].size >= 0)
          values.push_back(items[grouped[i]].size), sum += values.back();
      row.push_back(NumberCell(Quantile(values, 0.5)));
      row.push_back(NumberCell(Quantile(values, 0.9)));
      row.push_back(NumberCell(values.empty() ? kNaN : *std::ranges::max_element(values)));
      row.push_back(NumberCell(values.empty() ? kNaN : sum));
    }
    table.rows.push_back(std::move(row));
  }
  AddNotes(input, "hotspots", &table);
  table.notes.push_back(
      absl::StrCat(keep, " of ", distinct,
                   " names, the ones with the largest sum; shares are of the sum of all"));
  return {std::move(name), std::move(table)};
}

StatusOr<AnalysisTables> RunHotspots(const AnalysisInput& input) {
  std::vector<Item> operators, calls, kernels, copies;
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    // An operator's own time leaves out the operators and calls directly inside it.
    std::vector<Nanos> inside(e.size(), 0);
    const auto counts = [&](Row r) {
      return e.category[r] == Category::kCpuOp || IsLaunchApi(e.category[r]);
    };
    for (Row r = 0; r < e.size(); ++r) {
      if (!counts(r)) continue;
      const Row parent = e.parent[r];
      if (parent != kNoRow && e.category[parent] == Category::kCpuOp) inside[parent] += e.dur[r];
    }
    for (Row r = 0; r < e.size(); ++r) {
      const Category c = e.category[r];
      if (c == Category::kCpuOp) {
        operators.push_back({e.name[r], std::max<Nanos>(0, e.dur[r] - inside[r]), -1});
      } else if (IsLaunchApi(c)) {
        calls.push_back({e.name[r], e.dur[r], -1});
      } else if (c == Category::kKernel) {
        const KernelDetail* k = view->rank().KernelOf(r);
        double threads = -1;
        if (k != nullptr && k->grid[0] > 0) {
          threads = 1;
          for (int axis = 0; axis < 3; ++axis)
            threads *=
                std::max(k->grid[axis], 1) * static_cast<double>(std::max(k->block[axis], 1));
        }
        kernels.push_back({e.name[r], e.dur[r], threads});
      } else if (c == Category::kGpuMemcpy || c == Category::kGpuMemset) {
        const CopyDetail* copy = view->rank().CopyOf(r);
        copies.push_back(
            {e.name[r], e.dur[r],
             copy == nullptr || copy->bytes == kUnknown ? -1 : static_cast<double>(copy->bytes)});
      }
    }
  }
  if (operators.empty() && calls.empty() && kernels.empty() && copies.empty())
    return NotComputable("the trace has no operators, calls or GPU work");
  AnalysisTables out;
  out.parts.push_back(PartOf(input, "operators", "", std::move(operators)));
  out.parts.push_back(PartOf(input, "calls", "", std::move(calls)));
  out.parts.push_back(PartOf(input, "kernels", "threads", std::move(kernels)));
  out.parts.push_back(PartOf(input, "copies", "bytes", std::move(copies)));
  return out;
}

}  // namespace

constinit const Analysis kHotspots = {
    .name = "hotspots",
    .title = "Operators (own time), calls, kernels and copies: how often, how long, how large",
    .ours = RunHotspots};

}  // namespace flopwatch::trace
