#include "trace/finish.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";
// A step with fewer GPU events than this share of the step before it was cut (the rule of the
// PyTorch TensorBoard plugin).
constexpr double kCompleteShare = 0.8;

template <typename T>
void Reorder(const std::vector<Row>& order, TableVector<T>* column) {
  TableVector<T> sorted(order.size());
  for (size_t i = 0; i < order.size(); ++i) sorted[i] = (*column)[order[i]];
  *column = std::move(sorted);
}

void SortRows(RankTrace* rank) {
  EventTable& e = rank->events;
  if (std::is_sorted(e.ts.begin(), e.ts.end())) return;
  std::vector<Row> order(e.size());
  std::iota(order.begin(), order.end(), Row{0});
  // Kineto writes long sorted runs; a stable sort merges them and keeps the order of the file among
  // equal times.
  std::ranges::stable_sort(order, [&](Row a, Row b) { return e.ts[a] < e.ts[b]; });
  Reorder(order, &e.ts);
  Reorder(order, &e.dur);
  Reorder(order, &e.category);
  Reorder(order, &e.name);
  Reorder(order, &e.thread);
  Reorder(order, &e.stream);
  Reorder(order, &e.correlation);
  Reorder(order, &e.external_id);
  Reorder(order, &e.detail);
  Reorder(order, &e.file_category);
  if (rank->forward_backward.empty() && rank->range_metrics.empty() && rank->op_links.empty())
    return;
  std::vector<Row> moved(order.size());
  for (size_t i = 0; i < order.size(); ++i) moved[order[i]] = static_cast<Row>(i);
  for (auto& [forward, backward] : rank->forward_backward) {
    forward = moved[forward];
    backward = moved[backward];
  }
  for (RangeMetric& m : rank->range_metrics) m.row = moved[m.row];
  for (OpLink& link : rank->op_links) link = {moved[link.op], moved[link.work]};
}

bool Nests(Category c) { return IsHostBlock(c) || IsLaunchApi(c); }

void FindParents(RankTrace* rank) {
  EventTable& e = rank->events;
  e.parent.assign(e.size(), kNoRow);
  std::vector<std::vector<Row>> by_thread(rank->threads.size());
  for (Row r = 0; r < e.size(); ++r)
    if (Nests(e.category[r])) by_thread[e.thread[r]].push_back(r);
  std::vector<Row> open;
  for (std::vector<Row>& rows : by_thread) {
    // Of rows that start together the longest is the outermost, whatever the order of the file.
    for (size_t i = 0; i < rows.size();) {
      size_t j = i + 1;
      while (j < rows.size() && e.ts[rows[j]] == e.ts[rows[i]]) ++j;
      if (j - i > 1)
        std::stable_sort(rows.begin() + static_cast<ptrdiff_t>(i),
                         rows.begin() + static_cast<ptrdiff_t>(j),
                         [&](Row a, Row b) { return e.dur[a] > e.dur[b]; });
      i = j;
    }
    open.clear();
    for (const Row r : rows) {
      // What ends before r does, or before it starts, encloses neither r nor any row that comes
      // after r: of two rows that overlap, the later is the innermost of what lies in both. So the
      // open rows are always nested.
      while (!open.empty() && (e.end(open.back()) < e.end(r) ||
                               (e.end(open.back()) <= e.ts[r] && e.ts[open.back()] < e.ts[r]))) {
        open.pop_back();
      }
      if (!open.empty()) e.parent[r] = open.back();
      open.push_back(r);
    }
  }
}

void LinkLaunches(RankTrace* rank) {
  EventTable& e = rank->events;
  e.launch.assign(e.size(), kNoRow);
  e.op.assign(e.size(), kNoRow);
  absl::flat_hash_map<int64_t, Row> calls;     // correlation -> launch call
  absl::flat_hash_map<int64_t, Row> op_of_id;  // external id -> operator
  for (Row r = 0; r < e.size(); ++r)
    if (IsLaunchApi(e.category[r]) && e.correlation[r] != kNoId)
      calls.try_emplace(e.correlation[r], r);
  const auto innermost_op = [&](Row r) {
    while (r != kNoRow && e.category[r] != Category::kCpuOp) r = e.parent[r];
    return r;
  };
  for (Row r = 0; r < e.size(); ++r)
    if (IsLaunchApi(e.category[r])) e.op[r] = innermost_op(e.parent[r]);
  const auto by_external_id = [&](int64_t id) {
    if (id == kNoId) return kNoRow;
    if (op_of_id.empty()) {
      op_of_id.try_emplace(kNoId, kNoRow);
      for (Row r = 0; r < e.size(); ++r)
        if (e.category[r] == Category::kCpuOp && e.external_id[r] != kNoId)
          op_of_id[e.external_id[r]] = r;
    }
    const auto it = op_of_id.find(id);
    return it == op_of_id.end() ? kNoRow : it->second;
  };
  // Links that the trace gives itself go before what lies around the launch call. Sorted by
  // operator, the last of a row is its innermost operator.
  std::ranges::sort(rank->op_links, [](const OpLink& a, const OpLink& b) {
    return a.op != b.op ? a.op < b.op : a.work < b.work;
  });
  for (const OpLink& link : rank->op_links) e.op[link.work] = link.op;
  int64_t without_call = 0, without_op = 0;
  for (Row r = 0; r < e.size(); ++r) {
    const bool gpu_work = IsGpuWork(e.category[r]);
    if (!gpu_work && e.category[r] != Category::kSync && e.category[r] != Category::kGpuCollective)
      continue;
    const auto call = e.correlation[r] == kNoId ? calls.end() : calls.find(e.correlation[r]);
    if (call != calls.end()) {
      e.launch[r] = call->second;
      Row& first = e.launch[call->second];
      // GPU work goes before a sync row of the same call.
      if (first == kNoRow || (gpu_work && !IsGpuWork(e.category[first]))) first = r;
      if (e.op[r] == kNoRow) {
        e.op[r] = e.op[call->second];
        if (e.op[r] == kNoRow)
          e.op[r] = e.op[call->second] = by_external_id(e.external_id[call->second]);
      }
    }
    if (e.op[r] == kNoRow) e.op[r] = by_external_id(e.external_id[r]);
    if (gpu_work) {
      without_call += e.launch[r] == kNoRow;
      without_op += e.op[r] == kNoRow;
    }
  }
  rank->AddLoss("gpu_work_without_launch",
                "GPU work whose launch call is not in the trace: it has no launch delay and "
                "belongs to no step",
                without_call, true);
  rank->AddLoss("gpu_work_without_operator", "GPU work that no operator of the trace launched",
                without_op, true);
}

void FindSteps(const StringPool& names, RankTrace* rank) {
  EventTable& e = rank->events;
  rank->steps.clear();
  e.step.assign(e.size(), kNoStep);
  absl::flat_hash_set<int64_t> seen;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] != Category::kUserAnnotation && e.category[r] != Category::kCpuOp) continue;
    const std::string_view text = names.Text(e.name[r]);
    if (!text.starts_with(kStepPrefix)) continue;
    Step step{.row = r, .begin = e.ts[r], .end = e.end(r)};
    const auto [stop, error] =
        std::from_chars(text.data() + kStepPrefix.size(), text.data() + text.size(), step.number);
    if (error != std::errc() || stop != text.data() + text.size()) continue;
    if (seen.insert(step.number).second) rank->steps.push_back(step);
  }
  if (rank->steps.empty()) return;

  // CPU rows by the annotation that holds their start, GPU rows by that of their launch.
  std::vector<int64_t> gpu_rows(rank->steps.size(), 0);
  std::vector<Nanos> gpu_end(rank->steps.size(), std::numeric_limits<Nanos>::min());
  const auto step_at = [&](Nanos t) {
    auto it = std::ranges::upper_bound(rank->steps, t, {}, &Step::begin);
    if (it == rank->steps.begin()) return kNoStep;
    --it;
    return t < it->end ? static_cast<int32_t>(it - rank->steps.begin()) : kNoStep;
  };
  for (Row r = 0; r < e.size(); ++r) {
    const Category c = e.category[r];
    if (!IsGpuWork(c) && c != Category::kSync && c != Category::kGpuUserAnnotation &&
        c != Category::kGpuCollective) {
      e.step[r] = step_at(e.ts[r]);
    }
  }
  for (Row r = 0; r < e.size(); ++r) {
    if (e.launch[r] == kNoRow || IsLaunchApi(e.category[r])) continue;
    e.step[r] = e.step[e.launch[r]];
    if (e.step[r] == kNoStep || !IsGpuWork(e.category[r])) continue;
    const auto step = static_cast<size_t>(e.step[r]);
    ++gpu_rows[step];
    gpu_end[step] = std::max(gpu_end[step], e.end(r));
  }
  // Work that was launched before the first step and ends before the first work of that step
  // belongs to no step: the first step begins when it is done, as a later one begins when the step
  // before it is done.
  Nanos first_work = std::numeric_limits<Nanos>::max(), before = std::numeric_limits<Nanos>::min();
  if (gpu_rows[0] > 0) {
    for (Row r = 0; r < e.size(); ++r) {
      if (!IsGpuWork(e.category[r])) continue;
      if (e.step[r] == 0) {
        first_work = e.ts[r];
        break;
      }
    }
    for (Row r = 0; r < e.size() && e.ts[r] < first_work; ++r)
      if (IsGpuWork(e.category[r]) && e.step[r] == kNoStep && e.end(r) < first_work)
        before = std::max(before, e.end(r));
  }
  const bool any_gpu = std::ranges::any_of(gpu_rows, [](int64_t n) { return n > 0; });
  for (size_t i = 0; i < rank->steps.size(); ++i) {
    Step& step = rank->steps[i];
    step.end = std::max(step.end, gpu_end[i]);
    step.begin = std::max(step.begin, i > 0 ? rank->steps[i - 1].end : before);
    step.end = std::max(step.end, step.begin);
    step.complete = !any_gpu || gpu_rows[i] > 0;
  }
  // Only the tail can have been cut by the end of the profile.
  for (size_t i = rank->steps.size(); any_gpu && i-- > 1;) {
    if (gpu_rows[i] > 0 &&
        static_cast<double>(gpu_rows[i]) >= kCompleteShare * static_cast<double>(gpu_rows[i - 1]))
      break;
    rank->steps[i].complete = false;
  }
}

}  // namespace

void Finish(const StringPool& names, RankTrace* rank) {
  SortRows(rank);
  EventTable& e = rank->events;
  rank->begin = e.size() == 0 ? 0 : e.ts.front();
  rank->end = rank->begin;
  for (Row r = 0; r < e.size(); ++r) rank->end = std::max(rank->end, e.end(r));
  FindParents(rank);
  LinkLaunches(rank);
  FindSteps(names, rank);
}

}  // namespace flopwatch::trace
