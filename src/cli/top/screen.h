// A grid of character cells, and the escape codes that turn one grid into the next. No terminal is
// touched here: a frame is a value, compared in tests as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flopwatch::cli {

inline constexpr int kMaxScreenColumns = 1000;
inline constexpr int kMaxScreenRows = 1000;

// Colour of a cell: none, or a number of the 256-colour palette (turned into one of 16 where a
// terminal has no more).
struct Paintwork {
  int16_t foreground = -1;
  int16_t background = -1;
  bool bold = false, dim = false, reverse = false, underline = false;
  bool operator==(const Paintwork&) const = default;
};

enum class ColorDepth : uint8_t { kNone, k16, k256 };

class Screen {
 public:
  Screen(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }

  // Writes UTF-8 text from column x, cut at `limit` columns or the right edge. Returns the column
  // after it. What lies outside the grid is dropped.
  int Put(int x, int y, std::string_view text, Paintwork paint = {}, int limit = kMaxScreenColumns);
  void FillRow(int y, Paintwork paint);

  // Every character that is not ASCII replaced (views/style.h, ToAscii).
  void MakeAscii();

  // Plain text, trailing blanks removed, one line a row.
  std::string Text() const;
  // The same with colours, for output without a terminal's cursor (--once).
  std::string Colored(ColorDepth depth) const;
  // Codes that change a terminal showing `before` into this; one of another size is redrawn whole.
  std::string Diff(const Screen& before, ColorDepth depth) const;

 private:
  struct Cell {
    std::string glyph = " ";  // one character; "" = right half of a wide one
    Paintwork paint;
    bool operator==(const Cell&) const = default;
  };
  const Cell& at(int x, int y) const { return cells_[static_cast<size_t>(y) * width_ + x]; }
  Cell& at(int x, int y) { return cells_[static_cast<size_t>(y) * width_ + x]; }

  int width_, height_;
  std::vector<Cell> cells_;
};

// Select Graphic Rendition for a paintwork, always from a reset.
std::string PaintCode(const Paintwork& paint, ColorDepth depth);

}  // namespace flopwatch::cli
