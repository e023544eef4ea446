#include "alerts/silence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr std::string_view kLabels[] = {"rule",      "severity", "owner", "id",       "cluster",
                                        "partition", "account",  "user",  "workflow", "job",
                                        "node",      "rack",     "gpu"};
constexpr std::string_view kDays[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr Micros kWeek = 7 * kMicrosPerDay;
constexpr Micros kFirstMonday = 4 * kMicrosPerDay;  // 1970-01-05

std::vector<std::string> ValuesOf(const Alert& a, std::string_view label) {
  const Subject& s = a.subject;
  if (label == "node") return s.nodes;
  if (label == "rack") return s.racks;
  if (label == "gpu") return s.gpus;
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"rule", a.rule},         {"severity", SeverityName(a.severity)},
      {"owner", a.owner},       {"id", a.id},
      {"cluster", s.cluster},   {"partition", s.partition},
      {"account", s.account},   {"user", s.user},
      {"workflow", s.workflow}, {"job", s.job}};
  for (const auto& [name, text] : texts)
    if (name == label) return {std::string(text)};
  return {};
}

// "Sat 22:00" as the time since Monday 00:00 UTC.
std::optional<Micros> InWeek(std::string_view text) {
  if (text.size() != 9 || text[3] != ' ' || text[6] != ':') return std::nullopt;
  const auto* day = std::ranges::find(kDays, text.substr(0, 3));
  if (day == std::end(kDays)) return std::nullopt;
  for (const size_t k : {4, 5, 7, 8})
    if (text[k] < '0' || text[k] > '9') return std::nullopt;
  const int hour = (text[4] - '0') * 10 + text[5] - '0';
  const int minute = (text[7] - '0') * 10 + text[8] - '0';
  if (hour > 24 || minute > 59 || (hour == 24 && minute != 0)) return std::nullopt;
  return (day - std::begin(kDays)) * kMicrosPerDay + hour * kMicrosPerHour +
         minute * kMicrosPerMinute;
}

struct Weekly {
  Micros from = 0, to = 0;  // `to` before `from`: over the end of the week
};
std::optional<Weekly> ParseWeekly(std::string_view text) {
  if (text.size() != 19 || text[9] != '-') return std::nullopt;
  const auto from = InWeek(text.substr(0, 9)), to = InWeek(text.substr(10));
  if (!from || !to || *from == *to) return std::nullopt;
  return Weekly{*from, *to};
}

}  // namespace

bool Like(std::string_view text, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  const std::string_view rest = pattern.substr(star + 1);
  const size_t piece_end = rest.find('*');
  if (piece_end == std::string_view::npos)
    return text.size() >= rest.size() && text.ends_with(rest);
  // The first place where the next piece stands is as good as any later one.
  const std::string_view piece = rest.substr(0, piece_end);
  const size_t at = text.find(piece);
  return at != std::string_view::npos &&
         Like(text.substr(at + piece.size()), rest.substr(piece_end));
}

StatusOr<Matcher> ParseMatcher(std::string_view text) {
  const size_t at = text.find('=');
  if (at == std::string_view::npos || at == 0)
    return InvalidArgument("\"{}\" is no LABEL=PATTERN, as rule=gpu_idle_held or node!=n12*",
                           Printable(text, 80));
  Matcher m;
  m.negated = text[at - 1] == '!';
  m.label = std::string(text.substr(0, at - (m.negated ? 1 : 0)));
  m.pattern = std::string(text.substr(at + 1));
  if (m.pattern.empty())
    return InvalidArgument("\"{}\" has nothing behind the =; * stands for any text",
                           Printable(text, 80));
  if (std::ranges::find(kLabels, m.label) != std::end(kLabels)) return m;
  const std::string_view near =
      Nearest(m.label, std::vector<std::string_view>(std::begin(kLabels), std::end(kLabels)));
  return InvalidArgument("an alert has no label \"{}\"; {}", Printable(m.label, 40),
                         near.empty() ? fmt::format("there are {}", fmt::join(kLabels, ", "))
                                      : fmt::format("did you mean {}?", near));
}

Status Check(const Silence& s) {
  if (s.matchers.empty())
    return InvalidArgument("it matches every alert; say which, as rule=gpu_idle_held or node=n12*");
  for (const Matcher& m : s.matchers)
    if (m.pattern.size() > 500) return InvalidArgument("a pattern has more than 500 characters");
  const bool all = std::ranges::all_of(s.matchers, [](const Matcher& m) {
    return !m.negated && m.pattern.find_first_not_of('*') == std::string::npos;
  });
  if (all)
    return InvalidArgument("it matches every alert; say which, as rule=gpu_idle_held or node=n12*");
  if (s.owner.empty()) return InvalidArgument("it has no owner; say who is asked about it");
  if (s.owner.size() > 200 || s.comment.size() > 2000)
    return InvalidArgument("its owner or comment is too long");
  if (s.until <= s.from)
    return InvalidArgument("it ends at {}, before it begins at {}", FormatTime(s.until),
                           FormatTime(s.from));
  if (s.until - s.from > kLongestSilence)
    return InvalidArgument("it lasts {}; at most {} are taken", FormatDuration(s.until - s.from),
                           FormatDuration(kLongestSilence));
  if (!s.weekly.empty() && !ParseWeekly(s.weekly))
    return InvalidArgument("\"{}\" is no weekly time, as Sat 22:00-Sun 06:00 (UTC)",
                           Printable(s.weekly, 60));
  return absl::OkStatus();
}

bool InForce(const Silence& s, Micros now) {
  if (now < s.from || now >= s.until) return false;
  if (s.weekly.empty()) return true;
  const auto weekly = ParseWeekly(s.weekly);
  if (!weekly) return false;
  const Micros since_monday = now - kFirstMonday;
  const Micros at = since_monday - FloorTo(since_monday, kWeek);
  return weekly->from < weekly->to ? at >= weekly->from && at < weekly->to
                                   : at >= weekly->from || at < weekly->to;
}

bool Matches(const Silence& s, const Alert& alert) {
  return std::ranges::all_of(s.matchers, [&](const Matcher& m) {
    const std::vector<std::string> values = ValuesOf(alert, m.label);
    const auto like = [&](const std::string& v) { return Like(v, m.pattern); };
    if (m.negated) return std::ranges::none_of(values, like);
    return !values.empty() && std::ranges::all_of(values, like);
  });
}

void WriteJson(const Silence& s, Micros now, absl::Span<const Alert> firing, JsonWriter* json) {
  const bool in_force = InForce(s, now);
  json->BeginObject().Field("id", s.id).Key("matchers").BeginArray();
  for (const Matcher& m : s.matchers) json->Value(m.label + (m.negated ? "!=" : "=") + m.pattern);
  json->EndArray().Field("owner", s.owner).TextField("comment", s.comment);
  json->Field("from", FormatTime(s.from)).Field("until", FormatTime(s.until));
  json->TextField("weekly", s.weekly).Field("in_force", in_force);
  const auto holds = std::ranges::count_if(
      firing, [&](const Alert& alert) { return in_force && Matches(s, alert); });
  json->Field("holds", static_cast<int64_t>(holds)).EndObject();
}

}  // namespace flopwatch::alerts
