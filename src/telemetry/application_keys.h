// Names under which training code reports its numbers, and what they mean: one table for JSON
// lines, metrics and OTLP. A unit is taken from the name where the name has it ("mfu(%)",
// "iteration_time_ms"), never guessed from the value; docs/application.md lists every name (a test
// compares the two).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/application.h"

namespace flopwatch::telemetry {

// How to read an MFU or HFU whose name has no unit.
enum class RatioUnit : uint8_t { kByName, kRatio, kPercent };

struct ApplicationKey {
  ApplicationField field = ApplicationField::kMfu;
  double factor = 1;        // value in the field's unit = reported x factor
  bool per_gpu = false;     // tokens a second of one GPU: to be multiplied by the GPUs of the job
  bool unit_stated = true;  // false: a bare "mfu", see InUnit()
};

// "Train/MFU (%)" -> "train/mfu_percent": lower case, one underscore for whatever is no letter,
// digit or slash.
std::string NormalKey(std::string_view name);

// Looks the whole normal name up, else what follows its last slash or a leading "train", "perf" and
// the like. Nothing for a name that is not one of the table's.
std::optional<ApplicationKey> FindApplicationKey(std::string_view name);

// The value in the field's unit. Nothing where it cannot be told: a bare "mfu" above kMaxBareRatio
// under RatioUnit::kByName.
inline constexpr double kMaxBareRatio = 2;
std::optional<double> InUnit(const ApplicationKey& key, double value, RatioUnit unit);

// A field of a claim by name ("convention", "peak_tflops", "world_size", "seq_length", ...); false
// when it is none. Values that cannot be (a count that is no whole number) leave it as it is and
// return true.
bool SetClaimField(std::string_view normal_name, std::string_view value, ApplicationClaim* claim);

// The documentation and its test read these: normal name, column.
std::vector<std::pair<std::string_view, std::string_view>> AllApplicationKeys();
std::vector<std::string_view> AllClaimKeys();

}  // namespace flopwatch::telemetry
