#include "cli/views/style.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/table.h"
#include "base/text.h"

namespace flopwatch::cli {

std::string Paint(const ViewOptions& v, Tone tone, std::string_view text) {
  // The codes are in the order of Tone.
  static constexpr const char* kCodes[] = {"", "2", "1", "34", "33", "31", "32"};
  const char* code = kCodes[static_cast<size_t>(tone)];
  const std::string shown = Visible(text, /*keep_lines=*/true);
  if (!v.color || *code == '\0' || text.empty()) return shown;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, shown);
}

std::string Bar(const ViewOptions& v, std::optional<double> ratio, int width, Tone tone) {
  if (width <= 0) return "";
  std::string filled, rest;
  int used = 0;
  if (!ratio.has_value()) {
    for (int i = 0; i < width; ++i) rest += v.ascii ? "." : "·";
    return Paint(v, Tone::kDim, rest);
  }
  const double r = std::clamp(*ratio, 0.0, 1.0);
  if (v.ascii) {
    used = static_cast<int>(std::lround(r * width));
    filled.assign(used, '#');
    rest.assign(width - used, '-');
  } else {
    static constexpr std::string_view kPartial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int eighths = static_cast<int>(std::lround(r * width * 8));
    if (eighths == 0 && r > 0) eighths = 1;  // a little is not nothing
    for (; used < eighths / 8; ++used) filled += "█";
    if (eighths % 8 != 0) filled += kPartial[eighths % 8], ++used;
    for (int i = used; i < width; ++i) rest += "░";
  }
  return Paint(v, tone, filled) + Paint(v, Tone::kDim, rest);
}

std::vector<std::optional<double>> Resample(const std::vector<std::optional<double>>& values,
                                            size_t width) {
  if (width == 0) return {};
  if (values.size() <= width) return values;
  std::vector<std::optional<double>> out;
  out.reserve(width);
  for (size_t i = 0; i < width; ++i) {
    double sum = 0;
    int n = 0;
    for (size_t k = i * values.size() / width; k < (i + 1) * values.size() / width; ++k) {
      if (values[k]) sum += *values[k], ++n;
    }
    out.push_back(n > 0 ? std::optional<double>(sum / n) : std::nullopt);
  }
  return out;
}

std::string Sparkline(const ViewOptions& v, const std::vector<std::optional<double>>& values,
                      int width, std::optional<double> top) {
  static constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::string_view kAscii = "_.-~=+*#";
  const auto points = Resample(values, static_cast<size_t>(std::max(0, width)));
  double scale = top.value_or(0);
  for (const auto& p : points) {
    if (!top && p) scale = std::max(scale, *p);
  }
  std::string out;
  for (const auto& p : points) {
    if (!p) {
      out += " ";
      continue;
    }
    const int level = scale > 0 ? std::clamp(static_cast<int>(*p / scale * 8), 0, 7) : 0;
    out += v.ascii ? kAscii.substr(static_cast<size_t>(level), 1) : kBlocks[level];
  }
  return out;
}

std::vector<std::optional<double>> Stretch(const std::vector<std::optional<double>>& values,
                                           int width) {
  const auto n = static_cast<size_t>(std::max(0, width));
  if (values.empty() || values.size() >= n) return values;
  std::vector<std::optional<double>> out;
  for (size_t i = 0; i < n; ++i) out.push_back(values[i * values.size() / n]);
  return out;
}

std::string ToAscii(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kSigns[] = {
      {"·", '-'}, {"…", '.'}, {"×", 'x'}, {"÷", '/'}, {"±", '~'}, {"°", ' '},
      {"▸", '>'}, {"▏", '|'}, {"▲", '!'}, {"•", '*'}, {"—", '-'}, {"≥", '>'}};
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out.push_back(text[i++]);
      continue;
    }
    size_t n = 1;
    while (i + n < text.size() && (static_cast<unsigned char>(text[i + n]) & 0xC0) == 0x80) ++n;
    const std::string_view glyph = text.substr(i, n);
    char ascii = '?';
    for (const auto& [sign, plain] : kSigns) {
      if (glyph == sign) ascii = plain;
    }
    out.append(static_cast<size_t>(std::max(0, DisplayWidth(glyph))), ascii);
    i += n;
  }
  return out;
}

// Whether what stands between "ESC [" and "m" is of what Paint() and Screen write: bold, dim,
// reverse and colours. Nobody is hidden (8) and nothing blinks (5).
static bool IsOwnColor(std::string_view codes) {
  const auto number = [&]() -> int {
    int n = -1;
    const auto [end, error] = std::from_chars(codes.data(), codes.data() + codes.size(), n);
    codes.remove_prefix(static_cast<size_t>(end - codes.data()));
    if (codes.starts_with(';')) codes.remove_prefix(1);
    return error == std::errc() ? n : -1;
  };
  while (!codes.empty()) {
    const int n = number();
    if (n == 38 || n == 48) {  // one of 256
      if (number() != 5 || number() < 0) return false;
      continue;
    }
    const bool style = n == 0 || n == 1 || n == 2 || n == 7;
    if (!style && (n < 30 || n > 49) && (n < 90 || n > 107)) return false;
  }
  return true;
}

std::string WithOwnColorsAlone(std::string_view text, bool color) {
  const auto length_of_color = [&](size_t at) -> size_t {
    if (!color || !text.substr(at).starts_with("\x1b[")) return 0;
    const size_t end = text.find_first_not_of("0123456789;", at + 2);
    const bool own = end != std::string_view::npos && text[end] == 'm' &&
                     IsOwnColor(text.substr(at + 2, end - at - 2));
    return own ? end + 1 - at : 0;
  };
  std::string out;
  while (!text.empty()) {
    const size_t escape = text.find('\x1b');
    out += Visible(text.substr(0, escape), /*keep_lines=*/true);
    if (escape == std::string_view::npos) break;
    const size_t n = length_of_color(escape);
    out += n > 0 ? std::string(text.substr(escape, n)) : Visible(text.substr(escape, 1));
    text.remove_prefix(escape + std::max<size_t>(n, 1));
  }
  return out;
}

std::string Watts(std::optional<double> watts) {
  return HumanCell(watts ? Cell(*watts) : Cell(), ColumnFormat::kWatts);
}

std::string Energy(std::optional<double> joules) {
  if (!joules) return "-";
  double wh = *joules / 3600;
  static constexpr const char* kUnits[] = {"Wh", "kWh", "MWh", "GWh"};
  int unit = 0;
  while (std::abs(wh) >= 999.5 && unit < 3) wh /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", wh, std::abs(wh) < 9.995 ? 2 : (std::abs(wh) < 99.95 ? 1 : 0),
                     kUnits[unit]);
}

std::string Count(double n) { return HumanCell(n, ColumnFormat::kCount); }

std::optional<Micros> TimeOf(std::string_view rfc3339) {
  if (rfc3339.empty()) return std::nullopt;
  const auto t = ParseTime(rfc3339, 0);
  return t.ok() ? std::optional<Micros>(*t) : std::nullopt;
}

std::string Ago(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f}s", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.0f}h", seconds / 3600);
  return fmt::format("{:.0f}d", seconds / 86400);
}

std::string PadRight(std::string_view text, int width) {
  std::string out = CutToWidth(Visible(text), width);
  out.append(std::max(0, width - DisplayWidth(out)), ' ');
  return out;
}

std::string PadLeft(std::string_view text, int width) {
  std::string out = CutToWidth(Visible(text), width);
  out.insert(0, std::max(0, width - DisplayWidth(out)), ' ');
  return out;
}

namespace {

// Whether `word`, without the marks behind it, is the unit of the number that ends in `before`.
bool IsUnitOf(char before, std::string_view word) {
  static constexpr std::string_view kUnits[] = {"%",  "GPU-h", "MHz", "W",   "kW", "s",
                                                "ms", "µs",    "ns",  "GiB", "°C", "points"};
  if (before < '0' || before > '9') return false;
  while (!word.empty() && std::string_view(".,;:)").find(word.back()) != std::string_view::npos)
    word.remove_suffix(1);
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

// The end of the first word of `text`; a number and its unit are one.
size_t EndOfWord(std::string_view text) {
  const size_t at = std::min(text.find(' '), text.size());
  if (at == 0 || at + 1 >= text.size()) return at;
  const size_t next = std::min(text.find(' ', at + 1), text.size());
  return IsUnitOf(text[at - 1], text.substr(at + 1, next - at - 1)) ? next : at;
}

}  // namespace

std::string Wrap(std::string_view text, int width, std::string_view first,
                 std::string_view indent) {
  std::string out(first), line;
  int column = DisplayWidth(first);
  bool fresh = true;
  while (!text.empty()) {
    const size_t at = EndOfWord(text);
    const std::string_view word = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    const int w = DisplayWidth(word);
    if (!fresh && column + 1 + w > width) {
      out += "\n";
      out += indent;
      column = DisplayWidth(indent);
      fresh = true;
    }
    if (!fresh) out += ' ', ++column;
    out += word;
    column += w;
    fresh = false;
  }
  return out + "\n";
}

}  // namespace flopwatch::cli
