#include "alerts/words.h"

#include <fmt/format.h>

#include <cmath>

#include "net/http.h"

namespace flopwatch::alerts {
namespace {

constexpr Micros kBefore = kMicrosPerHour;  // what is shown of the time before an alert

// "GPU-1a2b", "3 GPUs", "".
std::string Some(const std::vector<std::string>& of, std::string_view many) {
  if (of.size() == 1) return of[0];
  return of.empty() ? "not known" : fmt::format("{} {}", of.size(), many);
}

std::string OrNotKnown(const std::string& text) { return text.empty() ? "not known" : text; }

std::string WithoutSlash(std::string_view url) {
  while (url.ends_with('/')) url.remove_suffix(1);
  return std::string(url);
}

}  // namespace

std::string UnitOf(const std::optional<Expression>& expression) {
  if (!expression || expression->quantities().empty()) return "1";
  return std::string(SpecOf(expression->quantities()[0]).unit);
}

std::string NumberInWords(double value, std::string_view unit) {
  if (std::isnan(value)) return "not known";
  if (unit == "ratio") return fmt::format("{:.3g} %", value * 100);
  if (unit == "code" || value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string Filled(std::string_view text, const Rule& rule, const Alert& alert, Micros now) {
  const auto value_of = [&](std::string_view name) -> std::optional<std::string> {
    const Subject& s = alert.subject;
    if (name == "job") return OrNotKnown(s.job);
    if (name == "user") return OrNotKnown(s.user);
    if (name == "node") return Some(s.nodes, "nodes");
    if (name == "rack") return Some(s.racks, "racks");
    if (name == "gpus") return Some(s.gpus, "GPUs");
    if (name == "for") return FormatDuration(FloorTo(now - alert.since, kMicrosPerSecond));
    if (name == "value") return NumberInWords(alert.value, UnitOf(rule.value));
    if (name == "threshold") return NumberInWords(alert.threshold, UnitOf(rule.value));
    for (const Evidence& e : alert.evidence)
      if (e.quantity == name) return NumberInWords(e.value, e.unit);
    return std::nullopt;
  };
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    const size_t close = text.find('}');
    if (close == std::string_view::npos) return out += text;
    const auto value = value_of(text.substr(1, close - 1));
    out += value.has_value() ? *value : std::string(text.substr(0, close + 1));
    text.remove_prefix(close + 1);
  }
  return out;
}

std::string LinkTo(std::string_view external_url, const Alert& alert) {
  return WithoutSlash(external_url) + "/alerts/" + net::PercentEncode(alert.id);
}

std::string LinkToEvidence(std::string_view external_url, Scope scope, const Alert& alert) {
  const Subject& s = alert.subject;
  const std::string path = !s.job.empty()          ? "/jobs/" + net::PercentEncode(s.job)
                           : scope == Scope::kNode ? std::string("/targets")
                           : s.gpus.size() == 1    ? "/gpus/" + net::PercentEncode(s.gpus[0])
                           : scope == Scope::kGpu  ? std::string("/gpus")
                                                   : std::string("/");
  const Micros to = std::max(alert.seen, alert.fired) + 5 * kMicrosPerMinute;
  return fmt::format("{}{}?from={}&to={}", WithoutSlash(external_url), path,
                     FormatTime(alert.since - kBefore), FormatTime(to));
}

}  // namespace flopwatch::alerts
