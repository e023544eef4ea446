// What the parts of a frame of `flopwatch top` draw with: colours, bars, text that wraps. Private
// to this folder; pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/model.h"
#include "cli/top/screen.h"

namespace flopwatch::cli::top {

// `scale` goes from dark to bright, told apart in grey and by colour-blind eyes (after viridis).
// Height of the glyph says the same.
struct Palette {
  std::array<int16_t, 8> scale;
  int16_t useful, lost, bad, soft, track, chosen;
};
const Palette& Colors(const TopUi& ui);
inline constexpr Paintwork kBold{.bold = true};

// What is drawn, and where.
struct Frame {
  const TopData& data;
  const TopUi& ui;
  Screen& screen;
  TopHits* hits;
  const Palette& colors() const { return Colors(ui); }
  Paintwork dim() const { return {.foreground = colors().soft}; }
  int width() const { return screen.width(); }
  int height() const { return screen.height(); }
};

// As wide as it is shown, with what would act on the terminal written out.
std::string Wrapped(const Frame& f, std::string_view text);
// Text that is too long for its row goes on in the next ones, whole words each; at most `rows`.
// Returns the row after it.
int PutWrapped(const Frame& f, int y, std::string_view text, Paintwork paint, int rows = 8);
// The parts that fit into what is left of the row, each whole, the first ones first; what does not
// fit is left out. Returns the column after them.
int PutParts(const Frame& f, int x, int y, const std::vector<std::string>& parts, Paintwork paint,
             std::string_view between = "  ");

// Where a metric stands between nothing and full.
double Scaled(double value, Metric metric, double top_power);
// The scale of OFU ends at 60 %: few jobs pass it, and below it every step shows (an 8-level scale
// to 100 % would paint a whole fleet in three shades).
double TopOf(Metric metric);

struct Glyph {
  std::string text;
  Paintwork paint;
};
Glyph LevelGlyph(const TopUi& ui, std::optional<double> ratio);
int PutBar(const Frame& f, int x, int y, std::optional<double> ratio, int width, int16_t color);
std::string Spark(const TopUi& ui, const std::vector<std::optional<double>>& values, int width);

}  // namespace flopwatch::cli::top
