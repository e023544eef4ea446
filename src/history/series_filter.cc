#include "history/series_filter.h"

#include <optional>
#include <regex>
#include <utility>

#include "base/text.h"

namespace flopwatch::history {

using Type = telemetry::ReadMatcher::Type;

struct SeriesFilter::One {
  telemetry::ReadMatcher matcher;
  std::optional<std::regex> expression;
};

SeriesFilter::SeriesFilter(std::vector<One> all) : all_(std::move(all)) {}
SeriesFilter::SeriesFilter(SeriesFilter&&) noexcept = default;
SeriesFilter::~SeriesFilter() = default;

StatusOr<SeriesFilter> SeriesFilter::Of(const std::vector<telemetry::ReadMatcher>& matchers) {
  std::vector<One> all;
  for (const telemetry::ReadMatcher& m : matchers) {
    One& one = all.emplace_back();
    one.matcher = m;
    if (m.type != Type::kRegex && m.type != Type::kNotRegex) continue;
    // libstdc++ alone offers one that keeps all its states at once: time that grows with the value,
    // no recursion.
    auto flags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
    std::string_view text = m.value;
    if (text.starts_with("(?i)")) {
      text.remove_prefix(4);
      flags |= std::regex_constants::icase;
    }
    try {
      one.expression.emplace(text.begin(), text.end(), flags);
    } catch (const std::regex_error& e) {
      return InvalidArgument("'{}' is no expression that is understood here: {}",
                             Printable(m.value, 80), e.what());
    }
  }
  return SeriesFilter(std::move(all));
}

bool SeriesFilter::Takes(const telemetry::SeriesLabels& series) const {
  for (const One& one : all_) {
    const std::string_view value =
        one.matcher.name == "__name__" ? series.name : series.Label(one.matcher.name);
    const bool same = one.expression.has_value()
                          ? std::regex_match(value.begin(), value.end(), *one.expression)
                          : value == one.matcher.value;
    const bool wanted = one.matcher.type == Type::kEqual || one.matcher.type == Type::kRegex;
    if (same != wanted) return false;
  }
  return true;
}

}  // namespace flopwatch::history
