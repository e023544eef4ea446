// Tables of a terminal whose sentences stand below their row, whole, where no column has room for
// them: why an OFU is not known, what an exporter answered, what to do. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/table.h"

namespace flopwatch::cli {

// A column of sentences. Its text stands behind `before`; of a `brief` one only what is before the
// first colon, as the page has it. Where it is `usual`, nothing is said.
struct BelowText {
  std::string_view column, before;
  bool brief = false;
  std::string_view usual = {};
};

// As Render(). Of a table for a terminal that has not room for all of its columns, those named are
// left out, and a row that has one of them is followed by its text, wrapped to the width.
std::string RenderBelow(const Table& table, const WriteOptions& options,
                        std::span<const BelowText> below);

// What an analysis found, in its own words.
inline constexpr BelowText kEvidence[] = {{"evidence", ""}};
// The reason beside an OFU that is not computable.
inline constexpr BelowText kWhyNoOfu[] = {{"ofu_reason", "no OFU: ", true}};

}  // namespace flopwatch::cli
