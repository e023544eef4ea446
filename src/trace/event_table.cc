#include "trace/event_table.h"

#include <algorithm>

namespace flopwatch::trace {
namespace {

template <typename T>
const T* DetailAt(const TableVector<T>& table, uint32_t index) {
  return index < table.size() ? &table[index] : nullptr;
}

}  // namespace

std::string_view CategoryName(Category c) {
  static constexpr std::string_view kNames[] = {"cpu_op",
                                                "user_annotation",
                                                "python_function",
                                                "cuda_runtime",
                                                "cuda_driver",
                                                "kernel",
                                                "gpu_memcpy",
                                                "gpu_memset",
                                                "gpu_user_annotation",
                                                "cuda_sync",
                                                "overhead",
                                                "cuda_profiler_range",
                                                "gpu_collective",
                                                "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(Category::kOther) + 1);
  return kNames[static_cast<size_t>(c)];
}

void EventTable::Reserve(size_t rows) {
  ts.reserve(rows);
  dur.reserve(rows);
  category.reserve(rows);
  name.reserve(rows);
  thread.reserve(rows);
  stream.reserve(rows);
  correlation.reserve(rows);
  external_id.reserve(rows);
  detail.reserve(rows);
  file_category.reserve(rows);
}

void RankTrace::AddLoss(std::string_view reason, std::string_view explain, int64_t count,
                        bool repaired) {
  if (count == 0) return;
  const auto it = std::ranges::find_if(losses, [&](const Loss& l) { return l.reason == reason; });
  if (it != losses.end())
    it->count += count;
  else
    losses.push_back({std::string(reason), std::string(explain), count, repaired});
}

void RankTrace::MoveTo(TableFile* to) {
  EventTable& e = events;
  TakeAll(to, &e.ts, &e.dur, &e.category, &e.name, &e.thread, &e.stream, &e.correlation,
          &e.external_id, &e.detail, &e.file_category, &e.step, &e.launch, &e.op, &e.parent);
  TakeAll(to, &kernels, &copies, &ops, &collectives, &syncs, &python, &range_metrics, &counters,
          &memory, &op_links);
}

const KernelDetail* RankTrace::KernelOf(Row r) const {
  return events.category[r] == Category::kKernel ? DetailAt(kernels, events.detail[r]) : nullptr;
}

const CopyDetail* RankTrace::CopyOf(Row r) const {
  const Category c = events.category[r];
  return c == Category::kGpuMemcpy || c == Category::kGpuMemset ? DetailAt(copies, events.detail[r])
                                                                : nullptr;
}

const OpDetail* RankTrace::OpOf(Row r) const {
  const Category c = events.category[r];
  return c == Category::kCpuOp || c == Category::kUserAnnotation ? DetailAt(ops, events.detail[r])
                                                                 : nullptr;
}

const SyncDetail* RankTrace::SyncOf(Row r) const {
  return events.category[r] == Category::kSync ? DetailAt(syncs, events.detail[r]) : nullptr;
}

const PythonDetail* RankTrace::PythonOf(Row r) const {
  return events.category[r] == Category::kPythonFunction ? DetailAt(python, events.detail[r])
                                                         : nullptr;
}

const CollectiveDetail* RankTrace::CollectiveOf(Row r) const {
  if (events.category[r] == Category::kGpuCollective)
    return DetailAt(collectives, events.detail[r]);
  if (const KernelDetail* kernel = KernelOf(r)) return DetailAt(collectives, kernel->collective);
  if (const OpDetail* op = OpOf(r)) return DetailAt(collectives, op->collective);
  return nullptr;
}

const Device* RankTrace::DeviceOf(int32_t id) const {
  const auto it = std::ranges::find_if(devices, [&](const Device& d) { return d.id == id; });
  return it == devices.end() ? nullptr : &*it;
}

const RankTrace* TraceSet::FindRank(int32_t rank) const {
  const auto it = std::ranges::find_if(ranks, [&](const RankTrace& r) { return r.rank == rank; });
  return it == ranks.end() ? nullptr : &*it;
}

Nanos TraceSet::origin() const {
  Nanos origin = std::numeric_limits<Nanos>::max();
  for (const RankTrace& rank : ranks)
    if (rank.events.size() > 0) origin = std::min(origin, rank.begin);
  return origin == std::numeric_limits<Nanos>::max() ? 0 : origin;
}

}  // namespace flopwatch::trace
