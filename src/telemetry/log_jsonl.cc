// One JSON object a line: wandb's history export, HF Trainer's log history, metrics files of
// training loops of any kind. Names are those of application_keys.h; objects within are read as
// "outer/inner", one level deep. Times are Unix seconds (also in milli-, micro- or nanoseconds,
// told by their size, which no two of them share before the year 5000) or RFC 3339.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "base/json_read.h"
#include "telemetry/log_decoder.h"

namespace flopwatch::telemetry {
namespace {

constexpr std::string_view kTimeKeys[] = {"ts",         "timestamp", "time",
                                          "created_at", "datetime",  "wall_time"};
constexpr std::string_view kStepKeys[] = {"step", "global_step", "iteration", "iter",
                                          "trainer/global_step"};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<Micros> UnixTime(double t) {
  if (!std::isfinite(t)) return std::nullopt;
  // In each unit the years 2001 to 2286 are times.
  for (double per_second : {1.0, 1e3, 1e6, 1e9}) {
    if (t >= 1e9 * per_second && t < 1e10 * per_second)
      return static_cast<Micros>(std::llround(t * (1e6 / per_second)));
  }
  return std::nullopt;
}

class JsonLog : public LogLines {
 public:
  explicit JsonLog(RatioUnit unit) : unit_(unit) {}
  std::string_view convention() const override { return ""; }
  ApplicationSource source() const override { return ApplicationSource::kJsonLines; }

  Found Line(std::string_view line, LogStep* step, ApplicationClaim* facts,
             const Refuse& refuse) override {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos || line[begin] != '{') return Found::kNothing;
    const auto json = Json::Parse(line, {.max_bytes = kMaxLogLineBytes,
                                         .max_depth = 8,
                                         .what = "a line",
                                         .python_constants_as_text = true});
    if (!json.ok() || !json->is_object()) {
      refuse(LogRefusal::kMalformed, line);
      return Found::kNothing;
    }
    bool any = false;
    for (const auto& [name, value] : json->object()) {
      if (value.is_object()) {
        for (const auto& [inner, v] : value.object())
          any |= Member(name + "/" + inner, v, step, facts, refuse);
      } else {
        any |= Member(name, value, step, facts, refuse);
      }
    }
    return any ? Found::kStep : Found::kFact;
  }

 private:
  bool Member(std::string_view name, const Json& value, LogStep* step, ApplicationClaim* facts,
              const Refuse& refuse) const {
    const std::string normal = NormalKey(name);
    if (IsOneOf(normal, kTimeKeys)) {
      if (const auto n = value.number()) {
        step->ts = UnixTime(*n);
      } else if (const auto t = FindLogTime(value.text()); t.has_value() && t->second) {
        step->ts = t->first;
      }
      return false;  // one without a zone is found as the line's own time
    }
    if (IsOneOf(normal, kStepKeys)) {
      if (const auto n = value.number();
          n.has_value() && *n >= 0 && *n <= 9e15 && *n == std::floor(*n)) {
        step->step = static_cast<int64_t>(*n);
      }
      return false;
    }
    const auto number = value.number();
    const std::string text = number.has_value() ? NumberText(*number) : value.text();
    if (!text.empty() && SetClaimField(normal, text, facts)) return false;
    const auto key = FindApplicationKey(name);
    if (!key.has_value()) return false;
    // JSON has no such numbers; who writes it gives the word.
    if (const auto none = ReadNotFinite(value.text()); none && MayBeNotFinite(key->field)) {
      (*step)[key->field] = *none;
      return true;
    }
    if (!number.has_value()) return false;
    const auto v = InUnit(*key, *number, unit_);
    if (!v.has_value()) {
      refuse(LogRefusal::kUnitUnclear, name);
      return false;
    }
    if (key->per_gpu) {
      step->tokens_per_s_per_gpu = *v;
    } else {
      (*step)[key->field] = *v;
    }
    return true;
  }

  static std::string NumberText(double v);

  const RatioUnit unit_;
};

std::string JsonLog::NumberText(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", v);
  return text;
}

}  // namespace

std::unique_ptr<LogLines> JsonLines(RatioUnit unit) { return std::make_unique<JsonLog>(unit); }

}  // namespace flopwatch::telemetry
