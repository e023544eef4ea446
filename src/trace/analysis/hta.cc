#include "trace/analysis/hta.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include "absl/container/flat_hash_set.h"
#include "trace/analysis/tables.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep";

bool Contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool SeveralSteps(const TraceSet& set) {
  std::optional<int64_t> first;
  for (const RankTrace& rank : set.ranks) {
    for (const Step& step : rank.steps) {
      if (first.has_value() && *first != step.number) return true;
      first = step.number;
    }
  }
  return false;
}

void Classify(const TraceSet& set, const EventTable& events, HtaRows* out) {
  NameKinds<HtaKernelType> types(set.names);
  out->gpu_type.reserve(out->gpu.size());
  for (const Row r : out->gpu) out->gpu_type.push_back(types.Of(events.name[r], HtaKernelTypeOf));
}

}  // namespace

std::string_view HtaKernelTypeName(HtaKernelType type) {
  static constexpr std::string_view kNames[] = {"COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER"};
  static_assert(std::size(kNames) == static_cast<size_t>(HtaKernelType::kOther) + 1);
  return kNames[static_cast<size_t>(type)];
}

HtaKernelType HtaKernelTypeOf(std::string_view name) {
  for (const std::string_view prefix : {"nccl", "hip", "hccl"})
    if (name.starts_with(prefix)) return HtaKernelType::kCommunication;
  if (Contains(name, "ncclKernel")) return HtaKernelType::kCommunication;
  for (const std::string_view prefix : {"Memcpy", "Memset", "dma"})
    if (name.starts_with(prefix)) return HtaKernelType::kMemory;
  for (const std::string_view part : {"Memcpy", "Memset", "dma", "Sync"})
    if (Contains(name, part)) return HtaKernelType::kOther;
  const size_t cuda = name.find("cuda");
  if (name.starts_with("Stream Wait Event") || name.starts_with("runFunction") ||
      (cuda != std::string_view::npos && Contains(name.substr(cuda), "LaunchKernel"))) {
    return HtaKernelType::kOther;
  }
  return HtaKernelType::kComputation;
}

HtaRows SelectHtaRows(const TraceSet& set, const RankTrace& rank) {
  const EventTable& e = rank.events;
  HtaRows out;
  const bool trim = SeveralSteps(set);
  // HTA's CPU side: no stream or no correlation, except waits for an event or a context.
  const NameId event_sync = set.names.Find("Event Sync"),
               context_sync = set.names.Find("Context Sync");
  const auto on_cpu = [&](Row r) {
    const bool waits =
        e.name[r] != kNoName && (e.name[r] == event_sync || e.name[r] == context_sync);
    return !waits && (e.stream[r] < 0 || e.correlation[r] < 0);
  };
  Nanos last_step = std::numeric_limits<Nanos>::min();
  absl::flat_hash_set<int64_t> launched;
  if (trim) {
    for (Row r = 0; r < e.size(); ++r) {
      const Category c = e.category[r];
      if (c == Category::kKernel || IsLaunchApi(c) || c == Category::kPythonFunction) continue;
      if (on_cpu(r) && set.names.Text(e.name[r]).starts_with(kStepPrefix))
        last_step = std::max(last_step, e.ts[r]);
    }
    for (Row r = 0; r < e.size() && e.ts[r] < last_step; ++r)
      if (e.correlation[r] != kNoId && on_cpu(r)) launched.insert(e.correlation[r]);
  }
  for (Row r = 0; r < e.size(); ++r) {
    if (trim && !(on_cpu(r) ? e.ts[r] < last_step : launched.contains(e.correlation[r]))) continue;
    out.rows.push_back(r);
    if (e.stream[r] != kNoStream) out.gpu.push_back(r);
  }
  Classify(set, e, &out);
  return out;
}

Interval HtaSpan(const EventTable& events, const HtaRows& rows) {
  if (rows.gpu.empty()) return {};
  Interval span = {events.ts[rows.gpu.front()], events.end(rows.gpu.front())};
  for (const Row r : rows.gpu) span.end = std::max(span.end, events.end(r));
  return span;
}

IntervalSet HtaBusy(const EventTable& events, const HtaRows& rows, HtaKernelType type) {
  Intervals intervals;
  for (size_t i = 0; i < rows.gpu.size(); ++i)
    if (rows.gpu_type[i] == type)
      intervals.push_back({events.ts[rows.gpu[i]], events.end(rows.gpu[i])});
  return Merge(std::move(intervals));
}

IntervalSet HtaBusy(const EventTable& events, const HtaRows& rows) {
  Intervals intervals;
  intervals.reserve(rows.gpu.size());
  for (const Row r : rows.gpu) intervals.push_back({events.ts[r], events.end(r)});
  return Merge(std::move(intervals));
}

std::vector<HtaNameLine> HtaNameLines(const StringPool& names, const NameTotals& totals,
                                      size_t most) {
  const std::vector<NameTotals::Line> sorted = totals.BySum();
  std::vector<HtaNameLine> out;
  const auto line = [](std::string_view name, const Accumulator& a) {
    return HtaNameLine{name, a.sum(), a.max(), a.min(), a.count() > 1 ? a.std() : 0.0, a.mean()};
  };
  if (sorted.size() <= most) {
    for (const NameTotals::Line& l : sorted) out.push_back(line(names.Text(l.name), l.total));
  } else {
    // The limit is the 0.8 quantile of the column of running sums.
    std::vector<double> running;
    for (const NameTotals::Line& l : sorted)
      running.push_back((running.empty() ? 0 : running.back()) + l.total.sum());
    const double quantile = 0.8;
    const double limit = Describe(running, std::span(&quantile, 1)).percentiles[0];
    Accumulator others;
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i >= most || running[i] > limit) {
        others.Add(sorted[i].total.sum());
      } else {
        Accumulator one;
        one.Add(sorted[i].total.sum());
        out.push_back(line(names.Text(sorted[i].name), one));
      }
    }
    out.push_back(line("others", others));
  }
  std::ranges::sort(out, {}, &HtaNameLine::name);
  return out;
}

double HtaRound(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::nearbyint(value * scale) / scale;
}

Cell HtaPercent(int64_t part, int64_t whole, int digits) {
  if (whole <= 0) return {};
  return HtaRound(100.0 * static_cast<double>(part) / static_cast<double>(whole), digits);
}

void AddHtaNotes(const AnalysisInput& input, Table* table) {
  size_t rows = 0, used = 0, with_gpu = 0;
  for (const auto& view : input.ranks()) {
    rows += view->events().size();
    used += view->hta().rows.size();
    with_gpu += !view->hta().gpu.empty();
  }
  table->notes.push_back(
      fmt::format("window: as HolisticTraceAnalysis 0.6 selects ({} of {} rows; with two or more "
                  "steps the last one is dropped)",
                  used, rows));
  table->notes.push_back("definition: docs/traces.md, analyses, column hta");
  AddCoverage(input, with_gpu, table);
}

}  // namespace flopwatch::trace
