#include "api/params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace flopwatch::api {
namespace {

Status Bad(std::string_view name, std::string_view value, std::string_view rule) {
  return absl::InvalidArgumentError(
      fmt::format("parameter '{}' is '{}': {}", name, Printable(value, 60), rule));
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

StatusOr<Params> Params::Parse(const net::Request& request, std::vector<std::string_view> known) {
  for (const auto& [name, value] : request.query) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string_view near = Nearest(name, known);
    const std::string hint = near.empty() ? fmt::format("known are: {}", fmt::join(known, ", "))
                                          : fmt::format("did you mean '{}'?", near);
    return absl::InvalidArgumentError(fmt::format("parameter '{}' is not known to {}: {}",
                                                  Printable(name, 60), Printable(request.path, 80),
                                                  known.empty() ? "it takes none" : hint));
  }
  return Params(request);
}

std::optional<std::string_view> Params::Text(std::string_view name) const {
  const auto value = request_->Query(name);
  return value.has_value() && !value->empty() ? value : std::nullopt;
}

StatusOr<int64_t> Params::Int(std::string_view name, int64_t fallback, int64_t min,
                              int64_t max) const {
  const auto text = Text(name);
  if (!text.has_value()) return fallback;
  const auto value = ParseInt(*text);
  if (!value.has_value() || *value < min || *value > max) {
    return Bad(name, *text, fmt::format("a whole number from {} to {}", min, max));
  }
  return *value;
}

StatusOr<bool> Params::Bool(std::string_view name, bool fallback) const {
  const auto text = Text(name);
  if (!text.has_value()) return fallback;
  if (*text == "1" || *text == "true") return true;
  if (*text == "0" || *text == "false") return false;
  return Bad(name, *text, "use true or false");
}

StatusOr<int> Params::OneOf(std::string_view name,
                            const std::vector<std::string_view>& values) const {
  const auto text = Text(name);
  if (!text.has_value()) return 0;
  const auto it = std::find(values.begin(), values.end(), *text);
  if (it == values.end())
    return Bad(name, *text, fmt::format("use one of {}", fmt::join(values, ", ")));
  return static_cast<int>(it - values.begin());
}

StatusOr<store::Window> Params::WindowOrAll(Micros now) const {
  if (Has("from") || Has("to")) return Window(now);
  // Reports may be newer than the newest GPU sample, which is what offline is "now".
  return store::Window{1, std::max(now, Now()) + kMicrosPerDay};
}

StatusOr<store::Window> Params::Window(Micros now) const {
  store::Window w{.from = 0, .to = now};
  const auto time = [&](std::string_view name, Micros* out) -> Status {
    const auto text = Text(name);
    if (!text.has_value()) return absl::OkStatus();
    const auto parsed = ParseTime(*text, now);
    if (!parsed.ok()) return Bad(name, *text, std::string(parsed.status().message()));
    *out = *parsed;
    return absl::OkStatus();
  };
  FW_RETURN_IF_ERROR(time("to", &w.to));
  w.from = w.to - query::kDefaultWindow;
  FW_RETURN_IF_ERROR(time("from", &w.from));
  if (w.from >= w.to) {
    return absl::InvalidArgumentError(
        fmt::format("parameters 'from' and 'to': from ({}) is not before to ({})",
                    FormatTime(w.from), FormatTime(w.to)));
  }
  if (w.to - w.from > kMaxWindow) {
    return absl::InvalidArgumentError(
        fmt::format("parameters 'from' and 'to': a window of {} is longer than {}",
                    FormatDuration(w.to - w.from), FormatDuration(kMaxWindow)));
  }
  return w;
}

StatusOr<Micros> Params::Step(store::Window window) const {
  const Micros length = window.to - window.from;
  const auto text = Text("step");
  if (!text.has_value()) {
    constexpr int kNice[] = {1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 2880, 10080};
    for (const int minutes : kNice) {
      if (length <= minutes * kMicrosPerMinute * kDefaultPoints) return minutes * kMicrosPerMinute;
    }
    return 30 * kMicrosPerDay;
  }
  Micros step = 0;
  if (const auto seconds = ParseInt(*text);
      seconds.has_value() && *seconds < kMaxWindow / kMicrosPerSecond) {
    step = *seconds * kMicrosPerSecond;
  } else {
    const auto parsed = ParseDuration(*text);
    if (!parsed.ok()) return Bad("step", *text, "a duration such as 60s, 5m or 1h");
    step = *parsed;
  }
  if (step < kMicrosPerMinute || step % kMicrosPerMinute != 0) {
    return Bad("step", *text, "whole minutes, at least one: rollups are kept per minute");
  }
  if (length / step > kMaxPoints) {
    return Bad(
        "step", *text,
        fmt::format("gives more than {} points in this window; use a longer step", kMaxPoints));
  }
  return step;
}

}  // namespace flopwatch::api
