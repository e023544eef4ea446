// A block of snappy from outside, as Prometheus' protocols send one. Source of the format:
// google/snappy, format_description.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::telemetry {

// Its size is bounded before anything is unpacked. InvalidArgument: no snappy, damaged, cut short;
// ResourceExhausted: more than `max_bytes` would come out. Messages begin with `what` ("remote
// write"), and say at the end what to do about too much (`remedy`: "send smaller batches").
StatusOr<std::string> UnpackSnappy(std::string_view block, uint64_t max_bytes,
                                   std::string_view what, std::string_view remedy);

}  // namespace flopwatch::telemetry
