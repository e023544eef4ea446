// The raw measurements of a trace that most rules look at, one row a rank, over its whole GPU span:
// what the findings are made of, to compare two traces by or to draw one's own conclusions.
#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/kernel_names.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr Nanos kLongGap = 1'000'000;
constexpr int64_t kSmallCopy = 4096;

struct Weighted {
  double sum = 0, weight = 0;
  void Add(double value, Nanos time) {
    if (std::isnan(value)) return;
    sum += value * static_cast<double>(time);
    weight += static_cast<double>(time);
  }
  Cell mean() const { return ShareCell(sum, weight); }
};

bool IsToDevice(std::string_view name) { return HasAny(name, {"htod"}); }
bool IsToHost(std::string_view name) { return HasAny(name, {"dtoh"}); }
bool IsGloo(std::string_view name) { return name.starts_with("gloo:"); }

struct GpuMetrics {
  explicit GpuMetrics(const RankView& view);

  std::vector<Nanos> durations;  // of kernels
  Nanos compute = 0, low = 0, to_device = 0, to_host = 0, median = 0;
  int64_t under5 = 0, under10 = 0, shorter = 0, copies = 0, small = 0, pageable = 0;
  Weighted blocks, occupancy;
  bool any_blocks = false;
};

GpuMetrics::GpuMetrics(const RankView& view) {
  const EventTable& e = view.events();
  const RankTrace& rank = view.rank();
  const StringPool& names = view.set().names;
  NamePredicate is_pageable(names, IsPageable), htod(names, IsToDevice), dtoh(names, IsToHost);
  for (const Row r : view.gpu_rows()) {
    if (e.category[r] == Category::kKernel) {
      durations.push_back(e.dur[r]);
      under5 += e.dur[r] < 5'000;
      under10 += e.dur[r] < 10'000;
      shorter += e.launch[r] != kNoRow && e.dur[r] < e.dur[e.launch[r]];
      const KernelDetail* k = rank.KernelOf(r);
      if (k == nullptr || view.classes()[r] != KernelClass::kCompute) continue;
      blocks.Add(k->blocks_per_sm, e.dur[r]);
      occupancy.Add(k->occupancy_pct / 100, e.dur[r]);
      if (std::isnan(k->blocks_per_sm)) continue;
      any_blocks = true;
      compute += e.dur[r];
      low += k->blocks_per_sm < 1 ? e.dur[r] : 0;
    } else if (e.category[r] == Category::kGpuMemcpy) {
      ++copies;
      const CopyDetail* copy = rank.CopyOf(r);
      small += copy != nullptr && copy->bytes != kUnknown && copy->bytes < kSmallCopy;
      pageable += is_pageable(e.name[r]);
      to_device += htod(e.name[r]) ? e.dur[r] : 0;
      to_host += dtoh(e.name[r]) ? e.dur[r] : 0;
    }
  }
  if (!durations.empty()) {
    const auto middle = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 2);
    std::nth_element(durations.begin(), middle, durations.end());
    median = *middle;  // the upper one of an even number
  }
}

struct HostMetrics {
  explicit HostMetrics(const RankView& view);

  int64_t syncs = 0, allocations = 0, gloo_events = 0;
  Nanos sync_time = 0, allocation_time = 0, step_time = 0;
  Intervals loading;
};

HostMetrics::HostMetrics(const RankView& view) {
  const EventTable& e = view.events();
  const RankTrace& rank = view.rank();
  const StringPool& names = view.set().names;
  NamePredicate gloo(names, IsGloo);
  NameKinds<CallKind> calls(names);
  NameKinds<bool> loads(names);
  for (const Step& s : rank.steps) step_time += e.dur[s.row];
  for (Row r = 0; r < e.size(); ++r) {
    const Category c = e.category[r];
    if (IsLaunchApi(c)) {
      const CallKind call = calls.Of(e.name[r], CallKindOf);
      if (call == CallKind::kSync || call == CallKind::kBlockingCopy) {
        ++syncs;
        sync_time += e.dur[r];
      } else if (call == CallKind::kAllocate) {
        ++allocations;
        allocation_time += e.dur[r];
      }
    } else if (c == Category::kCpuOp || c == Category::kUserAnnotation ||
               c == Category::kPythonFunction) {
      if (loads.Of(e.name[r], [c](std::string_view name) { return IsDataLoading(name, c); }))
        loading.push_back({e.ts[r], e.end(r)});
      gloo_events += gloo(e.name[r]);
    }
  }
}

std::vector<Cell> RowOf(const RankView& view) {
  const RankTrace& rank = view.rank();
  const Interval span = view.gpu_span();
  const double length = static_cast<double>(span.end - span.begin);
  const auto of_span = [&](Nanos t) { return ShareCell(static_cast<double>(t), length); };
  const GpuMetrics gpu(view);
  HostMetrics host(view);
  const IntervalSet idle = length > 0 ? Subtract({span}, view.busy()) : IntervalSet{};
  int64_t long_gaps = 0;
  Nanos long_time = 0;
  for (const Interval& i : idle) {
    if (i.end - i.begin <= kLongGap) continue;
    ++long_gaps;
    long_time += i.end - i.begin;
  }
  const Nanos communication = Length(view.busy(KernelClass::kCommunication)),
              exposed = Length(view.exposed_communication());
  const double kernels = static_cast<double>(gpu.durations.size());
  return {
      RankCell(view),
      MicrosCell(span.end - span.begin),
      static_cast<int64_t>(rank.steps.size()),
      MicrosCell(host.step_time),
      static_cast<int64_t>(gpu.durations.size()),
      of_span(Length(idle)),
      of_span(communication),
      of_span(exposed),
      ShareCell(static_cast<double>(communication - exposed), static_cast<double>(communication)),
      ShareCell(static_cast<double>(gpu.under5), kernels),
      ShareCell(static_cast<double>(gpu.under10), kernels),
      ShareCell(static_cast<double>(gpu.shorter), kernels),
      gpu.durations.empty() ? Cell{} : MicrosCell(gpu.median),
      gpu.blocks.mean(),
      gpu.occupancy.mean(),
      gpu.any_blocks ? ShareCell(static_cast<double>(gpu.low), static_cast<double>(gpu.compute))
                     : Cell{},
      gpu.copies,
      gpu.small,
      gpu.pageable,
      MicrosCell(gpu.to_device),
      MicrosCell(gpu.to_host),
      host.syncs,
      MicrosCell(host.sync_time),
      host.allocations,
      MicrosCell(host.allocation_time),
      MicrosCell(Length(Merge(std::move(host.loading)))),
      host.gloo_events,
      long_gaps,
      of_span(long_time)};
}

StatusOr<AnalysisTables> TraceMetrics(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  Table table = TableWith({"rank",
                           "span_us",
                           "#steps",
                           "step_annotations_us",
                           "#kernels",
                           "%idle_share",
                           "%communication_share",
                           "%exposed_communication_share",
                           "%communication_overlap_share",
                           "%kernels_under_5us_share",
                           "%kernels_under_10us_share",
                           "%kernels_shorter_than_launch_share",
                           "median_kernel_us",
                           "mean_blocks_per_sm",
                           "%mean_occupancy",
                           "%low_parallelism_share",
                           "#copies",
                           "#copies_under_4k",
                           "#pageable_copies",
                           "copies_to_device_us",
                           "copies_to_host_us",
                           "#blocking_calls",
                           "blocking_us",
                           "#allocation_calls",
                           "allocation_us",
                           "data_loading_us",
                           "#gloo_events",
                           "#gaps_over_1ms",
                           "%gaps_over_1ms_share"});
  for (const auto& view : input.ranks()) table.rows.push_back(RowOf(*view));
  return OneTable(input, "trace_metrics", std::move(table));
}

}  // namespace

constinit const Analysis kTraceMetrics = {
    .name = "trace_metrics",
    .title = "The measurements that findings are made of, one row a rank",
    .ours = TraceMetrics};

}  // namespace flopwatch::trace
