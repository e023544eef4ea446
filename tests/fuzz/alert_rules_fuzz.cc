// The input is a site's file of rules, a condition, or what a silence matches. No crash; what is
// taken can be evaluated and is what its own text says, what is refused has a reason. The first
// byte picks which.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alerts/rule.h"
#include "alerts/silence.h"
#include "base/text.h"
#include "fuzz/require.h"

using namespace flopwatch;          // NOLINT: a program of its own
using namespace flopwatch::alerts;  // NOLINT

namespace {

void CheckReason(const Status& status) {
  Require(!status.message().empty() && IsUtf8(std::string(status.message())), "a reason to print");
}

void CheckExpression(std::string_view text, Scope scope, Expression::Kind kind) {
  const auto read = Expression::Parse(text, scope, kind);
  if (!read.ok()) return CheckReason(read.status());
  // One of whom nothing is known, one of zeros, one of a large number.
  Subjects subjects;
  subjects.Resize(scope, 3, QuantitySet().set());
  for (const Quantity q : read->quantities()) {
    subjects.Set(q, 1, 0);
    subjects.Set(q, 2, 1e300);
  }
  std::vector<double> out;
  read->Evaluate(subjects, &out);
  Require(out.size() == 3, "one value a subject");
  if (kind == Expression::Kind::kCondition)
    for (const double v : out) Require(std::isnan(v) || v == 0 || v == 1, "a truth");
  Require(Expression::Parse(read->text(), scope, kind).ok(), "its own text");
}

void CheckRules(std::string_view text) {
  std::vector<Rule> rules = ShippedRules();
  const size_t shipped = rules.size();
  const Status status = AddRules(text, "rules.toml", &rules);
  if (!status.ok()) {
    CheckReason(status);
    return Require(rules.size() == shipped, "a refused file adds nothing");
  }
  for (const Rule& rule : rules) {
    Require(!rule.name.empty() && rule.when.has_value(), "a rule without a condition");
    Require(rule.hold >= 0 && rule.keep_firing >= 0 && rule.keep_unknown > 0,
            "a time below nothing");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 65536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const uint8_t kind = data[0];
  if (kind == 'r') {
    CheckRules(text);
  } else if (kind == 'm') {
    const auto matcher = ParseMatcher(text);
    if (!matcher.ok()) CheckReason(matcher.status());
  } else {
    CheckExpression(text, static_cast<Scope>(kind % 4),
                    (kind & 4) != 0 ? Expression::Kind::kNumber : Expression::Kind::kCondition);
  }
  return 0;
}
