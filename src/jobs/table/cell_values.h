// Cells as what they mean. Each function says why where a text is none. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time_zone.h"
#include "jobs/table/mapping.h"

namespace flopwatch::table {

// A number of the field's unit, or a text: "2017-11-05 01:00[:00[.5]]", with "T", with "Z" or an
// offset, or a day alone. FailedPrecondition for local time without a zone.
StatusOr<TimeReading> ReadTimeCell(std::string_view cell, const Field& field,
                                   const std::optional<TimeZone>& zone);
// In microseconds, from 0 to a hundred years.
StatusOr<Micros> ReadDurationCell(std::string_view cell, const Field& field);
// A whole number from 0, "8" or "8.0"; or that of the first TRES named in `field` that `cell` has,
// 0 where it has none of them. OutOfRange for a part of a GPU.
StatusOr<int64_t> ReadCountCell(std::string_view cell, const Field& field);
// From 0 to 1.
StatusOr<double> ReadShareCell(std::string_view cell, const Field& field);
// The hosts as Slurm writes them: "gpu[001-004]". ResourceExhausted for too many.
StatusOr<std::string> ReadNodesCell(std::string_view cell, const Field& field);

// "a0128=GPU-1,GPU-2", "gpu1:0 gpu1:1": GPUs by name.
struct NamedGpus {
  std::vector<std::string> names;  // as the job index takes them; empty where it takes none
  size_t count = 0;
};
NamedGpus ReadGpuListCell(std::string_view cell);

}  // namespace flopwatch::table
