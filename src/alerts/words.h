// An alert in words: a rule's sentences filled in, numbers as people read them, and where on the
// page its evidence is. Pure.
#pragma once

#include <string>
#include <string_view>

#include "alerts/alert.h"

namespace flopwatch::alerts {

// A ratio as "12.3 %", a code or count as a whole number, else four digits; "not known" for NaN.
std::string NumberInWords(double value, std::string_view unit);

// `text` with {job}, {node}, {gpus}, {user}, {for}, {value}, {threshold} and {QUANTITY} of the
// condition filled in; {anything else} stays as it is.
std::string Filled(std::string_view text, const Rule& rule, const Alert& alert, Micros now);

// The unit of a rule's value: that of the first quantity it names; "1" where it names none.
std::string UnitOf(const std::optional<Expression>& expression);

// The page of the alert.
std::string LinkTo(std::string_view external_url, const Alert& alert);
// The page of the job, of the GPU or of the fleet, from an hour before the alert on.
std::string LinkToEvidence(std::string_view external_url, Scope scope, const Alert& alert);

}  // namespace flopwatch::alerts
