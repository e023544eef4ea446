// Silences: alerts that nobody is told of for a while, by whom, and why. A silence with a weekly
// schedule is in force within its times alone. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "alerts/alert.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch::alerts {

// "rule=gpu_xid", "node=n12*", "job!=7", with * for any text. A list (nodes, gpus) matches where
// each of its members does.
struct Matcher {
  std::string label, pattern;
  bool negated = false;
};

struct Silence {
  std::string id;
  std::vector<Matcher> matchers;  // all must match
  std::string owner, comment;
  Micros from = 0, until = 0;
  std::string weekly;  // "Sat 22:00-Sun 06:00", UTC; "" = all the time
  Micros made = 0;
};

inline constexpr size_t kMaxSilences = 1000;
inline constexpr Micros kLongestSilence = 366 * kMicrosPerDay;

// `*` in the pattern stands for any text.
bool Like(std::string_view text, std::string_view pattern);

// One line each of what is wrong: an unknown label (with a near one), no owner, an end before the
// begin or more than kLongestSilence after it, a schedule that cannot be read, or matchers that are
// of every alert.
StatusOr<Matcher> ParseMatcher(std::string_view text);
Status Check(const Silence& silence);

bool InForce(const Silence& silence, Micros now);
bool Matches(const Silence& silence, const Alert& alert);

// With whether it is in force at `now`, and how many of `firing` it holds then.
void WriteJson(const Silence& silence, Micros now, absl::Span<const Alert> firing,
               JsonWriter* json);

}  // namespace flopwatch::alerts
