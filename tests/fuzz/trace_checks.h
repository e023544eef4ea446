// What holds of every rank that an importer gives.
#pragma once

#include "fuzz/require.h"
#include "trace/import/importer.h"

namespace flopwatch::trace {

// Columns are of one length, and every index leads somewhere.
inline void CheckRank(const ImportedRank& rank) {
  const RankTrace& t = rank.trace;
  const EventTable& e = t.events;
  const size_t rows = e.size();
  Require(e.dur.size() == rows && e.category.size() == rows && e.name.size() == rows &&
              e.thread.size() == rows && e.stream.size() == rows && e.correlation.size() == rows &&
              e.external_id.size() == rows && e.detail.size() == rows &&
              e.file_category.size() == rows,
          "columns of one length");
  const auto name = [&](NameId id) { Require(id < rank.names.size(), "a name"); };
  for (Row r = 0; r < rows; ++r) {
    Require(e.dur[r] >= 0, "a duration");
    Require(e.end(r) >= e.ts[r], "an end");
    Require(e.thread[r] < t.threads.size(), "a thread");
    name(e.name[r]);
    name(e.file_category[r]);
    if (e.detail[r] == kNoDetail) continue;
    switch (e.category[r]) {
      case Category::kKernel:
        Require(t.KernelOf(r) != nullptr, "a kernel's detail");
        break;
      case Category::kGpuMemcpy:
      case Category::kGpuMemset:
        Require(t.CopyOf(r) != nullptr, "a copy's detail");
        break;
      case Category::kCpuOp:
      case Category::kUserAnnotation:
        Require(t.OpOf(r) != nullptr, "an operator's detail");
        break;
      case Category::kSync:
        Require(t.SyncOf(r) != nullptr, "a sync's detail");
        break;
      case Category::kPythonFunction:
        Require(t.PythonOf(r) != nullptr, "a Python call's detail");
        break;
      case Category::kGpuCollective:
        Require(t.CollectiveOf(r) != nullptr, "a collective's detail");
        break;
      default:
        Require(false, "a detail of a row that has none");
    }
  }
  for (const KernelDetail& k : t.kernels)
    Require(k.collective == kNoDetail || k.collective < t.collectives.size(), "a collective");
  for (const OpDetail& o : t.ops) {
    Require(o.collective == kNoDetail || o.collective < t.collectives.size(), "a collective");
    for (const NameId id : {o.input_dims, o.input_types, o.input_strides, o.concrete_inputs,
                            o.call_stack, o.module_hierarchy})
      name(id);
  }
  for (const RangeMetric& m : t.range_metrics) Require(m.row < rows, "a metric's row");
  for (const auto& [forward, backward] : t.forward_backward)
    Require(forward < rows && backward < rows, "an arrow's rows");
  for (const CounterSample& c : t.counters) name(c.counter);
}

}  // namespace flopwatch::trace
