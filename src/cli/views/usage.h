// The `usage` object of the API as the views read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_read.h"
#include "base/table.h"

namespace flopwatch::cli {

// Cells of a table; empty where the answer has nothing.
template <typename T>
Cell CellOf(const std::optional<T>& v) {
  if (!v) return std::monostate{};
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<int64_t>(*v);
  } else {
    return *v;
  }
}
inline Cell NumberCell(const std::optional<double>& v) { return v ? Cell(*v) : Cell(); }
inline Cell NumberCell(const Json& v) { return NumberCell(v.number()); }
inline Cell IntegerCell(const Json& v) { return v.integer() ? Cell(*v.integer()) : Cell(); }
inline Cell TextCell(std::string_view text) {
  return text.empty() ? Cell() : Cell(std::string(text));
}
inline Cell TextCell(const Json& v) { return TextCell(v.text()); }

struct UsageView {
  std::optional<double> ofu, ci95, coverage, tensor_active, sm_clock_mhz, sm_active, gpu_util,
      power_w, energy_j;
  std::string reason, source;
  double gpu_seconds = 0, observed_s = 0, computable_s = 0, lost_s = 0, stale_s = 0;
  int64_t gpus = 0, samples = 0;
  std::vector<std::pair<std::string, double>> lost_reasons;  // reason, GPU-seconds > 0; most first

  static UsageView From(const Json& json);
  double useful_s() const { return ofu.value_or(0) * computable_s; }
  // SM clock over the maximum tensor clock while tensor cores were busy: OFU / tensor activity.
  std::optional<double> clock_ratio() const;
};

struct SeriesView {
  double step_s = 0;
  std::vector<double> ts;
  std::vector<std::optional<double>> ofu, coverage, gpu_util, power_w, gpu_seconds;
  static SeriesView From(const Json& json);
};

struct WindowView {
  std::optional<int64_t> from, to;  // microseconds
  std::string source;
  static WindowView From(const Json& json);
  std::string Text() const;  // "2026-11-21 02:42 to 03:42 UTC (1h)"
};

// What a list says about a job in a few words (query/notes.h), or why it has no OFU; "" when
// nothing stands out.
std::string JobNote(const UsageView& usage);

// Quality flags in words (query/notes.h), divided by "; ".
std::string FlagWords(const Json& flags);

std::string JoinTexts(const Json& array, std::string_view separator);

}  // namespace flopwatch::cli
