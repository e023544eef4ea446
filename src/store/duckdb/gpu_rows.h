// Raw rows of GPUs and instances, handed to a caller: for analyses whose answer is no sum.
//
//   fw_visit(sink, ts, entity, span_ms, flags, job_set, value...)   aggregate that hands its rows
//   to
//                                                                   a caller; the result says
//                                                                   nothing
//
// In any order the rows come from that function, as the engine's scan has them; GPU by GPU they are
// sorted by the engine, an hour and a range of GPUs at a time, so that the sort stays in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/layout.h"

namespace flopwatch::store::duck {

using GpuRowVisitor = absl::FunctionRef<Status(const GpuRows&)>;

// One question; use once. The connection is in no transaction.
class GpuRowReader {
 public:
  // `fields` says how columns are stored in this directory.
  GpuRowReader(Connection* c, const Layout& layout, const DimensionTables::Fields& fields)
      : c_(c), layout_(layout), fields_(fields) {}

  Status Visit(Window w, absl::Span<const std::string_view> columns, RowOrder order,
               GpuRowVisitor visit);

 private:
  // Of one table or of files of one schema.
  struct Source {
    std::string select;  // ts, entity, span_ms, flags, job_set, values; without a filter
    Extent extent;
  };
  std::vector<Source> Sources(Window w, absl::Span<const std::string_view> columns) const;
  std::string Select(absl::Span<const std::string_view> columns, std::string_view from,
                     absl::FunctionRef<bool(const std::string&)> has) const;
  Status VisitAny(Window w, const std::vector<Source>& sources, size_t values, GpuRowVisitor visit);
  Status VisitByGpu(Window hour, const std::vector<Source>& sources, size_t values,
                    GpuRowVisitor visit);

  Connection* c_;
  const Layout& layout_;
  const DimensionTables::Fields& fields_;
};

// Called once for each instance of the engine.
Status RegisterGpuRows(Connection* c);

}  // namespace flopwatch::store::duck
