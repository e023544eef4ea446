// What the texts in an Nsight Systems export say. Pure; internal to import/.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/event_table.h"

namespace flopwatch::trace {

// A range written by PyTorch's emit_nvtx: "aten::addmm, seq = 45339, op_id = 990761, sizes = [[..],
// ..], input_op_ids = [..]".
struct NvtxOp {
  bool is_op = false;  // false: a range of the user
  std::string_view name;
  std::string_view sizes;  // "[[8192], [8192, 4096]]"; "" = not recorded or cut
  int64_t sequence = kUnknown;
};
NvtxOp ParseNvtxOp(std::string_view text);

// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel", as every other tool names it.
std::string_view ApiName(std::string_view name);

// "GPC Clock Frequency [MHz]", "SYS Clock Frequency [MHz]".
bool IsClockInMegahertz(std::string_view metric);

}  // namespace flopwatch::trace
