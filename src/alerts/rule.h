// A rule: what must hold of a subject, for how long, who is told, and what to do. Rules are TOML;
// those that are shipped are the files of rules/, one each, and are on unless switched off. A
// site's own file adds rules, and changes shipped ones by naming them:
//
//   [rules.gpu_thermal_throttle]       the name
//   scope = "gpu"                      of what: gpu, job, node, fleet
//   when = "bits(throttle, 0x68)"      expression.h
//   while = "gpu_util > 0.1"         otherwise it pauses: there is nothing to see (engine.h)
//   for = "5m"                         so long without a break before it fires
//   keep_firing = "10m"                so long not any more before it is resolved
//   keep_unknown = "12h"               so long not known before it is resolved: what lasts until
//                                    somebody mends it is not gone because nobody hears of it (of
//                                    what is not there any more, as a job that is over, 15 minutes)
//   group = "job"                    one alert for a job (without one, for a node); node; gpu; rack
//                                    (of GPUs or nodes; where no rack is known, for a node)
//   severity = "ticket"              page, ticket, note
//   value = "gpu_temp_c"             the number that is shown; "threshold" beside it
//   summary = "..."                  {job}, {node}, {rack}, {gpus}, {value}, {QUANTITY}
//   action = "..."                   what to do, in one sentence or two
//   source = "..."                     who says so
//   inhibited_by = ["node_silent"]   not told while one of these fires for the same node or job
//   enabled = false
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "alerts/expression.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch::alerts {

enum class Severity : uint8_t { kNote, kTicket, kPage };
inline constexpr std::string_view kSeverityNames[] = {"note", "ticket", "page"};
constexpr std::string_view SeverityName(Severity s) {
  return kSeverityNames[static_cast<size_t>(s)];
}

// What one alert is of.
enum class Grouping : uint8_t { kJob, kNode, kGpu, kSubject, kRack };
inline constexpr std::string_view kGroupingNames[] = {"job", "node", "gpu", "subject", "rack"};

struct Rule {
  std::string name;
  Scope scope = Scope::kGpu;
  std::optional<Expression> when, while_;
  Micros hold = 0;  // `for`
  Micros keep_firing = 5 * kMicrosPerMinute;
  Micros keep_unknown = 15 * kMicrosPerMinute;
  Grouping group = Grouping::kSubject;
  Severity severity = Severity::kTicket;
  std::string owner;  // "user": who runs the job; "operator"
  std::optional<Expression> value, threshold;
  std::string summary, action, source;
  std::vector<std::string> inhibited_by;
  bool enabled = true;
  bool shipped = false;
};

// The shipped ones, by name. They are read by the same reader as a site's.
const std::vector<Rule>& ShippedRules();
// What `rule` is decided on, each once: what `when` names, then `while`.
std::vector<Quantity> EvidenceOf(const Rule& rule);
// Both, as people read them.
std::string ConditionOf(const Rule& rule);
// What those of them that are enabled name.
QuantitySet QuantitiesOf(absl::Span<const Rule> rules);
// The text of a shipped rule; "" = there is none.
std::string_view ShippedRuleText(std::string_view name);

// Adds the rules of a TOML text to `rules`, or changes those of the same name there. Errors name
// `file`, the line, the rule and the key at fault, and a near one.
Status AddRules(std::string_view text, std::string_view file, std::vector<Rule>* rules);

}  // namespace flopwatch::alerts
