// The fields of a static assignment, shared by its CSV and TOML readers.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "jobs/job_index.h"

namespace flopwatch::jobs {

enum class StaticField : uint8_t { kGpu, kFrom, kTo, kJob, kRank, kUser, kWorkflow, kName };
inline constexpr std::array<std::string_view, 8> kStaticFieldNames = {
    "gpu", "from", "to", "job", "rank", "user", "workflow", "name"};

// The text without the blanks at its two ends.
std::string_view Trim(std::string_view text);

std::string_view StaticFieldName(StaticField field);
// The error lists the known names.
StatusOr<StaticField> StaticFieldNamed(std::string_view name);
// Reads one value from its text; errors begin with the field's name.
Status SetStaticField(StaticField field, std::string_view value, Micros now,
                      StaticAssignment* assignment);
// Checks that all that is needed is there and the end is after the start.
Status CheckStaticAssignment(const StaticAssignment& assignment);

StatusOr<std::vector<StaticAssignment>> ParseStaticToml(std::string_view text,
                                                        std::string_view file_name, Micros now);

}  // namespace flopwatch::jobs
