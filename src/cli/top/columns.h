// Which columns a list of `flopwatch top` has room for: whole ones or none, in a written order of
// what matters, so that no word of a narrow terminal is half a word. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/model.h"

namespace flopwatch::cli {

enum class TopField : uint8_t {
  kName,  // of a job or a row of the tree, or a GPU's node
  kIndex,
  kUser,
  kGpus,
  kOfu,
  kBar,
  kLost,
  kTensor,
  kClock,
  kDuty,
  kPower,
  kTemperature,
  kTrend,
  kNote,
};

struct ListColumn {
  TopField field;
  std::string title;
  // In columns of the terminal: below `least` the column is left out; more than `most` it never
  // needs. What FitColumns gives has both at its width.
  int least = 0, most = 0;
  bool right = false;
  JobSort sort = JobSort::kCount;  // what a click on the title sorts by
};

// A field gets its least width; a second time, what it lacks up to its most, as far as there is.
using FieldOrder = std::span<const TopField>;

// The columns of `all`, in their order there, that `width` has room for, with a blank before each
// and one at the end: taken in the order of `first`, each that still fits.
std::vector<ListColumn> FitColumns(std::vector<ListColumn> all, FieldOrder first, int width);

// The parts of a note (divided by "; ") that fit whole, from the first on.
std::string WholeParts(std::string_view note, int width);
// Columns of the first part of a note.
int FirstPartWidth(std::string_view note);

}  // namespace flopwatch::cli
