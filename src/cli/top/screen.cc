#include "cli/top/screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

// The nearest of the 16 basic colours, by the brightness and hue of the 6x6x6 cube.
int Basic(int color) {
  if (color < 16) return color;
  if (color >= 232) return color < 238 ? 8 : (color < 250 ? 7 : 15);
  const int c = color - 16, r = c / 36, g = c / 6 % 6, b = c % 6;
  const int top = std::max({r, g, b});
  if (top == 0) return 8;
  int out = 0;
  if (r * 2 >= top && r > 0) out |= 1;
  if (g * 2 >= top && g > 0) out |= 2;
  if (b * 2 >= top && b > 0) out |= 4;
  return top > 4 ? out + 8 : out;
}

}  // namespace

Screen::Screen(int width, int height)
    : width_(std::clamp(width, 1, kMaxScreenColumns)),
      height_(std::clamp(height, 1, kMaxScreenRows)),
      cells_(static_cast<size_t>(width_) * height_) {}

int Screen::Put(int x, int y, std::string_view text, Paintwork paint, int limit) {
  if (y < 0 || y >= height_) return x;
  const int end = static_cast<int>(std::min<int64_t>(width_, static_cast<int64_t>(x) + limit));
  const std::string shown = Visible(text);  // what comes from outside never moves the cursor
  for (size_t i = 0; i < shown.size();) {
    const std::string_view glyph = std::string_view(shown).substr(i, ReadUtf8(shown, i).bytes);
    i += glyph.size();
    const int w = DisplayWidth(glyph);
    if (w == 0) continue;
    if (x + w > end) break;
    if (x >= 0) {
      at(x, y) = {std::string(glyph), paint};
      if (w == 2) at(x + 1, y) = {"", paint};
    }
    x += w;
  }
  return x;
}

void Screen::FillRow(int y, Paintwork paint) {
  if (y < 0 || y >= height_) return;
  for (int x = 0; x < width_; ++x) at(x, y) = {" ", paint};
}

void Screen::MakeAscii() {
  for (Cell& c : cells_) {
    if (c.glyph.empty()) c.glyph = "?";  // the right half of a wide character
    c.glyph = ToAscii(c.glyph).substr(0, 1);
  }
}

std::string Screen::Text() const {
  std::string out;
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) out += at(x, y).glyph;
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += "\n";
  }
  return out;
}

std::string Screen::Colored(ColorDepth depth) const {
  if (depth == ColorDepth::kNone) return Text();
  std::string out;
  for (int y = 0; y < height_; ++y) {
    int last = width_ - 1;
    while (last >= 0 && at(last, y).glyph == " " && at(last, y).paint == Paintwork{}) --last;
    Paintwork now;
    for (int x = 0; x <= last; ++x) {
      const Cell& c = at(x, y);
      if (!(c.paint == now)) out += PaintCode(c.paint, depth), now = c.paint;
      out += c.glyph;
    }
    if (!(now == Paintwork{})) out += "\x1b[0m";
    out += "\n";
  }
  return out;
}

std::string Screen::Diff(const Screen& before, ColorDepth depth) const {
  const bool whole = before.width_ != width_ || before.height_ != height_;
  std::string out = whole ? "\x1b[0m\x1b[2J" : "";
  Paintwork now;
  bool painted = false;
  for (int y = 0; y < height_; ++y) {
    int cursor = -1;  // column the terminal's cursor is at in this row; -1 = elsewhere
    for (int x = 0; x < width_; ++x) {
      const Cell& c = at(x, y);
      if (c.glyph.empty()) continue;
      if (whole ? c == Cell{} : c == before.at(x, y)) continue;
      if (cursor != x) out += fmt::format("\x1b[{};{}H", y + 1, x + 1);
      if (!painted || !(c.paint == now))
        out += PaintCode(c.paint, depth), now = c.paint, painted = true;
      out += c.glyph;
      cursor = x + DisplayWidth(c.glyph);
    }
  }
  if (painted) out += "\x1b[0m";
  return out;
}

std::string PaintCode(const Paintwork& paint, ColorDepth depth) {
  std::string out = "\x1b[0";
  if (paint.bold) out += ";1";
  if (paint.dim) out += ";2";
  if (paint.underline) out += ";4";
  if (paint.reverse) out += ";7";
  const auto color = [&](int number, int base, int bright) {
    if (number < 0 || depth == ColorDepth::kNone) return;
    if (depth == ColorDepth::k256) {
      out += fmt::format(";{};5;{}", base + 8, number);
      return;
    }
    const int basic = Basic(number);
    out += fmt::format(";{}", basic < 8 ? base + basic : bright + basic - 8);
  };
  color(paint.foreground, 30, 90);
  color(paint.background, 40, 100);
  return out + "m";
}

}  // namespace flopwatch::cli
