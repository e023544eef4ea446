#include "api/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "query/memory.h"

namespace flopwatch::api {
namespace {

Status Bad(std::string_view name, std::string_view value, std::string_view rule) {
  return InvalidArgument("parameter '{}' is '{}': {}", name, Printable(value, 60), rule);
}

bool IsText(std::string_view text) {
  return text.find('\0') == std::string_view::npos && IsUtf8(text);
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status NotKnown(const Route& route, const net::Request& request, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Parameter* p : route.parameters)
    if (p->kind != Kind::kPathName) known.push_back(p->name);
  const std::string_view near = Nearest(name, known);
  const std::string hint = near.empty() ? fmt::format("known are: {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean '{}'?", near);
  return InvalidArgument("parameter '{}' is not known to {}: {}", Printable(name, 60),
                         Printable(request.path, 80), known.empty() ? "it takes none" : hint);
}

StatusOr<Micros> ReadDuration(const Parameter& p, std::string_view text) {
  Micros duration = 0;
  if (const auto seconds = ParseInt(text);
      seconds.has_value() && *seconds < kMaxWindow / kMicrosPerSecond) {
    duration = *seconds * kMicrosPerSecond;
  } else {
    const auto parsed = ParseDuration(text);
    if (!parsed.ok()) return Bad(p.name, text, "a duration such as 60s, 5m or 1h");
    duration = *parsed;
  }
  if (duration < kMicrosPerMinute || duration % kMicrosPerMinute != 0)
    return Bad(p.name, text, "whole minutes, at least one: rollups are kept per minute");
  return duration;
}

}  // namespace

StatusOr<Arguments> Arguments::Read(const Route& route, const net::Request& request,
                                    const std::function<Micros()>& clock) {
  Arguments args(route);
  const auto& declared = route.parameters;
  if (route.any_parameters) return args;
  if (!IsText(request.path))
    return InvalidArgument("the path '{}' is not UTF-8", Printable(request.path, 80));
  for (size_t k = 0; k < declared.size(); ++k) {
    args.values_[k].number = declared[k]->fallback.value_or(0);
    if (declared[k]->kind == Kind::kTime && args.now_ == 0) args.now_ = clock();
  }
  for (const auto& [name, text] : request.query) {
    const auto found = std::find_if(declared.begin(), declared.end(), [&](const Parameter* p) {
      return p->kind != Kind::kPathName && p->name == name;
    });
    if (found == declared.end()) return NotKnown(route, request, name);
    if (!IsText(text)) return Bad(name, text, "not UTF-8, or with a NUL byte");
    Value& value = args.values_[static_cast<size_t>(found - declared.begin())];
    // An empty value is none; of several the first counts.
    if (value.given || text.empty()) continue;
    FW_RETURN_IF_ERROR(args.ReadValue(**found, text, &value));
  }
  return args;
}

Status Arguments::ReadValue(const Parameter& p, std::string_view text, Value* value) {
  value->given = true;
  value->text = text;
  switch (p.kind) {
    case Kind::kPathName:
    case Kind::kText:
      return absl::OkStatus();
    case Kind::kBoolean:
      value->number = text == "1" || text == "true";
      if (value->number != 0 || text == "0" || text == "false") return absl::OkStatus();
      return Bad(p.name, text, "use true or false");
    case Kind::kInteger: {
      const int64_t min = p.min.value_or(INT64_MIN), max = p.max.value_or(INT64_MAX);
      const auto number = ParseInt(text);
      if (!number.has_value() || *number < min || *number > max)
        return Bad(p.name, text, fmt::format("a whole number from {} to {}", min, max));
      value->number = *number;
      return absl::OkStatus();
    }
    case Kind::kOneOf: {
      const auto it = std::find(p.values.begin(), p.values.end(), text);
      if (it == p.values.end())
        return Bad(p.name, text, fmt::format("use one of {}", fmt::join(p.values, ", ")));
      value->number = it - p.values.begin();
      return absl::OkStatus();
    }
    case Kind::kTime: {
      const auto time = ParseTime(text, now_);
      if (!time.ok()) return Bad(p.name, text, MessageOf(time.status()));
      value->number = *time;
      if (p.name == kTo.name) to_ = *time;
      if (p.name == kFrom.name) from_ = *time;
      return absl::OkStatus();
    }
    case Kind::kDuration: {
      FW_ASSIGN_OR_RETURN(value->number, ReadDuration(p, text));
      step_ = value->number;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

const Arguments::Value& Arguments::At(const Parameter& parameter) const {
  const auto& declared = route_->parameters;
  const auto it = std::find(declared.begin(), declared.end(), &parameter);
  if (it == declared.end()) std::abort();  // a handler asks for what its route does not declare
  return values_[static_cast<size_t>(it - declared.begin())];
}

StatusOr<store::Window> Arguments::WindowOrAll() const {
  if (HasWindow()) return Window();
  // Reports may be newer than the newest GPU sample, which is what offline is "now".
  return store::Window{1, std::max(now_, Now()) + kMicrosPerDay};
}

StatusOr<store::Window> Arguments::Window() const { return Window(query::kDefaultWindow); }

StatusOr<store::Window> Arguments::Window(Micros length) const {
  store::Window w;
  w.to = to_.value_or(now_);
  w.from = from_.value_or(w.to - length);
  if (w.from >= w.to) {
    return InvalidArgument("parameters 'from' and 'to': from ({}) is not before to ({})",
                           FormatTime(w.from), FormatTime(w.to));
  }
  if (w.to - w.from > kMaxWindow) {
    return InvalidArgument("parameters 'from' and 'to': a window of {} is longer than {}",
                           FormatDuration(w.to - w.from), FormatDuration(kMaxWindow));
  }
  return w;
}

Micros Arguments::DefaultStep(store::Window window) {
  constexpr int kNice[] = {1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 2880, 10080};
  for (const int minutes : kNice) {
    if (window.to - window.from <= minutes * kMicrosPerMinute * kDefaultPoints)
      return minutes * kMicrosPerMinute;
  }
  return 30 * kMicrosPerDay;
}

StatusOr<Micros> Arguments::Step(store::Window window) const {
  if (!step_.has_value()) return DefaultStep(window);
  if ((window.to - window.from) / *step_ > kMaxPoints) {
    return Bad(
        kStep.name, FormatDuration(*step_),
        fmt::format("gives more than {} points in this window; use a longer step", kMaxPoints));
  }
  return *step_;
}

}  // namespace flopwatch::api
