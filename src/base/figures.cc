#include "base/figures.h"

#include <algorithm>

#include "base/table.h"

namespace flopwatch {

std::string Percent(std::optional<double> ratio) {
  return ratio.has_value() ? HumanCell(*ratio, ColumnFormat::kPercent) : "-";
}

std::string GpuHours(double gpu_seconds) {
  std::string text = HumanCell(gpu_seconds, ColumnFormat::kGpuHours);
  if (text.ends_with(" GPU-h")) text.resize(text.size() - 6);
  return text;
}

std::string Minute(Micros t) {
  std::string text = FormatTime(FloorTo(t, kMicrosPerMinute));  // 2026-11-21T03:42:00Z
  text.resize(std::min<size_t>(text.size(), 16));
  if (text.size() > 10) text[10] = ' ';
  return text;
}

}  // namespace flopwatch
