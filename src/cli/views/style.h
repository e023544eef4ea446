// What all terminal views draw with: colours by meaning, bars, sparklines, numbers a person reads.
// Pure functions.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/figures.h"
#include "base/time.h"

namespace flopwatch::cli {

struct ViewOptions {
  int width = 80;
  bool color = false;
  bool ascii = false;
};

// Colour carries meaning, never decoration, and never alone: useful and lost are the same two hues
// everywhere (blue and orange, told apart by colour-blind eyes too); kBad is for trouble only.
enum class Tone { kPlain, kDim, kBold, kUseful, kLost, kBad, kGood };
std::string Paint(const ViewOptions& v, Tone tone, std::string_view text);

// A bar of exactly `width` columns; the filled part in eighths of a column. Absent draws dots:
// missing is not zero.
std::string Bar(const ViewOptions& v, std::optional<double> ratio, int width,
                Tone tone = Tone::kUseful);
// One column a value, resampled to at most `width`; a gap stays a gap. The scale runs from 0 to the
// largest value, or `top`.
std::string Sparkline(const ViewOptions& v, const std::vector<std::optional<double>>& values,
                      int width, std::optional<double> top = {});
// Means of equal runs, so that at most `width` values are left; a run without values is a gap.
std::vector<std::optional<double>> Resample(const std::vector<std::optional<double>>& values,
                                            size_t width);

// Values repeated so that a short series fills `width`.
std::vector<std::optional<double>> Stretch(const std::vector<std::optional<double>>& values,
                                           int width);
// Box drawing and typographic signs as plain ASCII of the same width; '?' where there is none.
std::string ToAscii(std::string_view text);

// What people are shown, at the last place before the terminal: only the codes of
// Paint() are obeyed, and only where there are colours. Views write out what comes from elsewhere
// (Visible(), base/text.h); this holds where one forgets to.
std::string WithOwnColorsAlone(std::string_view text, bool color);

std::string Watts(std::optional<double> watts);
std::string Energy(std::optional<double> joules);  // "1.2 MWh"
std::string Count(double n);
inline std::string Count(std::integral auto n) { return Count(static_cast<double>(n)); }
// Reads RFC 3339 from an answer; nullopt when it is not one.
std::optional<Micros> TimeOf(std::string_view rfc3339);
std::string Ago(double seconds);  // "4s", "3m", "2h", "5d"

// Left- or right-aligned in `width` columns, cut where longer.
std::string PadRight(std::string_view text, int width);
std::string PadLeft(std::string_view text, int width);
// Text wrapped at blanks to `width` columns, each line behind `indent`, the first behind `first`.
// A number stays with its unit.
std::string Wrap(std::string_view text, int width, std::string_view first, std::string_view indent);

}  // namespace flopwatch::cli
