// Writes OperatorMFU and ModuleMFU as msprof-analyze does: the same folders, names, columns and
// styles, so that what reads its results reads these.
//
//  - db: <out>/cluster_analysis_output/cluster_analysis.db, tables OperatorMFU and ModuleMFU, each
//    replaced.
//  - xlsx: <out>/cluster_analysis_output/OperatorMfu/operator_mfu_kernel_<rank>.xlsx and
//    operator_mfu_module_<rank>.xlsx; start and end as text, because a spreadsheet's numbers round
//    nanoseconds since 1970 by up to 256 ns.
//  - csv: <out>/cluster_analysis_output/OperatorMfu/operator_mfu_kernel.csv and
//    operator_mfu_module.csv, all ranks, headers as the db.
// An empty result writes no table and no file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trace/ops/ops.h"

namespace flopwatch::trace {

// Paths written. InvalidArgument for another format than db, xlsx and csv, or for more rows than a
// sheet holds; errors of the file system name the file and what to do.
StatusOr<std::vector<std::string>> ExportOperators(const OpsReport& report, std::string_view format,
                                                   const std::string& out_dir);

}  // namespace flopwatch::trace
