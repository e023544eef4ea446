// The categories of Kineto and Chrome traces, of every year and back end. Internal to import/.
#pragma once

#include <string_view>

#include "trace/event_table.h"

namespace flopwatch::trace {

struct KinetoCategory {
  Category category = Category::kOther;
  bool bookkeeping = false;  // spans of the profiler about itself ("Trace"): no rows
};

// `text` is the event's "cat". Sources: pytorch/kineto ActivityType.cpp (today's names), the
// capitalised names until May 2022 and those of AMD, Intel, Meta and out-of-tree back ends. What is
// unknown is kOther.
KinetoCategory KinetoCategoryOf(std::string_view text);

// Whether a "kernel" of this name is a stream that waits: no work, and as long as what it waits
// for. Sources: pytorch/kineto CuptiActivity.cpp (syncs, which some writers put among kernels) and
// the task types of CANN (msprof; torch_npu writes them into Kineto's files).
bool IsDeviceWait(std::string_view kernel);

}  // namespace flopwatch::trace
