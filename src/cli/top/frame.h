// One frame of `flopwatch top`: a pure function of what is known, what the person chose, and the
// size of the terminal.
#pragma once

#include "cli/top/model.h"
#include "cli/top/screen.h"

namespace flopwatch::cli {

inline constexpr int kMinTopColumns = 40;
inline constexpr int kMinTopRows = 8;

// `hits`, where wanted: what a click on the frame means.
Screen DrawTop(const TopData& data, const TopUi& ui, int width, int height,
               TopHits* hits = nullptr);
// Rows a frame needs to show everything, for --once; at most kMaxScreenRows.
int NaturalHeight(const TopData& data, const TopUi& ui, int width);

}  // namespace flopwatch::cli
