#include "cli/top/paint.h"

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/views/style.h"

namespace flopwatch::cli::top {
namespace {

constexpr Palette kDark = {{60, 61, 31, 30, 36, 72, 113, 184}, 75, 214, 203, 245, 238, 237};
// A light background has the same hues, dark enough to read, and the scale from light to dark.
constexpr Palette kLight = {{187, 150, 108, 72, 30, 24, 18, 53}, 25, 130, 160, 240, 252, 254};
constexpr std::array<std::string_view, 8> kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels = "_.-~=+*#";

}  // namespace

const Palette& Colors(const TopUi& ui) { return ui.light ? kLight : kDark; }

std::string Wrapped(const Frame& f, std::string_view text) {
  return Wrap(Visible(text), f.width() - 1, " ", " ");
}

int PutWrapped(const Frame& f, int y, std::string_view text, Paintwork paint, int rows) {
  const std::string wrapped = Wrapped(f, text);
  for (size_t at = 0; at < wrapped.size() && rows > 0; --rows, ++y) {
    const size_t end = std::min(wrapped.find('\n', at), wrapped.size());
    f.screen.Put(0, y, std::string_view(wrapped).substr(at, end - at), paint);
    at = end + 1;
  }
  return y;
}

int PutParts(const Frame& f, int x, int y, const std::vector<std::string>& parts, Paintwork paint,
             std::string_view between) {
  bool any = false;
  for (const std::string& part : parts) {
    const std::string more = (any ? std::string(between) : "") + part;
    if (x + DisplayWidth(Visible(more)) > f.width()) continue;
    x = f.screen.Put(x, y, more, paint);
    any = true;
  }
  return x;
}

double Scaled(double value, Metric metric, double top_power) {
  if (metric == Metric::kPower) return top_power > 0 ? value / top_power : 0;
  return metric == Metric::kTemperature ? (value - 20) / 70 : value;  // 20 to 90 °C
}

double TopOf(Metric metric) {
  return metric == Metric::kOfu || metric == Metric::kTensor ? 0.6 : 1.0;
}

Glyph LevelGlyph(const TopUi& ui, std::optional<double> ratio) {
  if (!ratio) return {ui.ascii ? "?" : "·", {.foreground = Colors(ui).soft}};
  const int level = std::clamp(static_cast<int>(*ratio / TopOf(ui.metric) * 8), 0, 7);
  return {ui.ascii ? std::string(1, kAsciiLevels[level]) : std::string(kLevels[level]),
          {.foreground = Colors(ui).scale[static_cast<size_t>(level)]}};
}

int PutBar(const Frame& f, int x, int y, std::optional<double> ratio, int width, int16_t color) {
  ViewOptions v;
  v.ascii = f.ui.ascii;
  const std::string bar = Bar(v, ratio, width);
  if (!ratio) return f.screen.Put(x, y, bar, f.dim());
  // The filled part ends where the track's glyph begins.
  const std::string_view track = f.ui.ascii ? "-" : "░";
  const size_t at = std::min(bar.find(track), bar.size());
  x = f.screen.Put(x, y, std::string_view(bar).substr(0, at), {.foreground = color});
  return f.screen.Put(x, y, std::string_view(bar).substr(at), {.foreground = f.colors().track});
}

std::string Spark(const TopUi& ui, const std::vector<std::optional<double>>& values, int width) {
  ViewOptions v;
  v.ascii = ui.ascii;
  return Sparkline(v, values, width);
}

}  // namespace flopwatch::cli::top
