// Figures as a person reads them, in the sentences of notes and in the terminal's views. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"

namespace flopwatch {

// "31.2 %"; "-" when absent.
std::string Percent(std::optional<double> ratio);
std::string GpuHours(double gpu_seconds);  // "1,204.5"; without the unit
// "2026-11-21 03:42" UTC.
std::string Minute(Micros t);

}  // namespace flopwatch
