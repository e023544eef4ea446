// Two runs, or two windows of a workflow, of a user or of everything, side by side: each figure of
// usage, its change against what runs of the workflow scatter, and what else is different.
//
// A side is a job by its id, or a window "FROM/TO". Figures are over all of its time, pauses
// included, weighted by GPU-seconds, as its own page has them; ofu_busy leaves the pauses out. The
// scatter is that of single runs of the same setting (fleet::SettingDifference) about their level;
// with fewer than kLeastRunsForScatter there is none, and nothing is called usual or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "query/regressions.h"

namespace flopwatch::query {

inline constexpr size_t kLeastRunsForScatter = 5;
// A difference beyond so many standard deviations of a difference is not usual (normal values: one
// in twenty).
inline constexpr double kUsualDifference = 2;

enum class FigureUnit : uint8_t { kRatio, kNumber, kMhz, kWatts, kGpuSeconds };
inline constexpr std::string_view kFigureUnitNames[] = {"ratio", "number", "mhz", "w",
                                                        "gpu_seconds"};

struct ComparedFigure {
  std::string_view name;
  FigureUnit unit = FigureUnit::kRatio;
  std::optional<double> a, b;
  std::optional<double> change;   // b / a - 1
  std::optional<double> scatter;  // of one run, as a ratio of its level
  size_t scatter_runs = 0;        // behind it
  std::optional<bool> unusual;    // the change is more than the scatter explains
};

struct ComparedText {
  std::string_view what;
  std::string a, b;
};

struct ComparedSide {
  std::string name;  // as it was asked for
  bool is_job = false;
  store::Window window;
  std::string workflow, user;  // of a job
  size_t runs = 0;
};

struct Comparison {
  ComparedSide a, b;
  std::vector<ComparedFigure> figures;
  std::vector<ComparedText> differences;  // what is not the same on both sides
  std::vector<std::string> notes;
};

struct CompareQuestion {
  std::string a, b;
  std::string workflow, user;  // of windows: these runs alone
};

// NotFound: no such job, and no window either.
StatusOr<Comparison> Compare(const Query& query, const CompareQuestion& question);

}  // namespace flopwatch::query
