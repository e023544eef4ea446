// The GPUs that an attempt held, as one short text: "gpu[001-004]:nvidia0-7;gpu005:nvidia2,4".
// What the books keep, so that a GPU which is seen for the first time after a restart, or after an
// import, still knows whose it was. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace flopwatch::jobs {

// A longer text is not kept: the list of an attempt that held so many GPUs in no order.
inline constexpr size_t kMaxGpuListBytes = 64 << 10;

// Names as StaticAssignment::gpu has them; order and repetitions are not kept. "" where the text
// would be longer than kMaxGpuListBytes, or where a name is none that the text could tell.
std::string CompressGpuList(absl::Span<const std::string> gpus);

// Calls f for each name of the list. False where it is no such list, or has more than `max` names:
// then f may have been called for some.
bool ForEachGpuOf(std::string_view list, size_t max,
                  absl::FunctionRef<void(const std::string& gpu)> f);

}  // namespace flopwatch::jobs
