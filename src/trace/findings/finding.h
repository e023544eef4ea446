// Automated trace comprehension: each rule looks for one way of wasting a GPU and says what it saw,
// what it costs and what to do. One file a rule, registered in registry.cc. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/table.h"
#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

enum class Severity : uint8_t { kInfo, kWarning, kCritical };
std::string_view SeverityName(Severity s);  // "info", "warning", "critical"

// One fact a reader can check: what was measured, its value and unit.
struct Fact {
  std::string name;  // "median_kernel_us"
  Cell value;
  ColumnFormat format = ColumnFormat::kPlain;
  std::string text;  // "median kernel 4.1 µs, launch call 5.8 µs"
};

struct Finding {
  std::string id;  // the rule's: "tiny-kernels"
  std::string
      title;  // one line: "Half of the kernels are shorter than the call that launches them"
  Severity severity = Severity::kInfo;
  // Share of step time (of the trace without steps) that could be recovered at most, 0..1: an upper
  // bound, never more than the time the pattern touches. NaN = not computable; gain_basis then says
  // why.
  double gain = 0;
  std::string gain_basis;  // how the gain was estimated, one sentence
  std::vector<int32_t> ranks;
  std::vector<Fact> evidence;
  std::vector<std::string> top;  // the operators, kernels or calls most concerned, up to three
  // Where to look: a rank, a step and a window of its trace (absolute, as EventTable::ts).
  std::optional<int32_t> rank;
  std::optional<int64_t> step;
  Interval window;
  std::string advice;
  std::string source;                  // the paper or reference that the rule comes from
  std::vector<std::string> uncertain;  // what would make it certain and is not in the trace
};

struct NotChecked {
  std::string id, reason;
};

struct RuleResult {
  std::vector<Finding> findings;
  std::optional<std::string> not_checked;  // the data that is missing
};

class Measures;  // measures.h: what several rules need, computed once

struct Rule {
  std::string_view id, title;
  RuleResult (*check)(const Measures& measures);
  // Set where the rule's severity does not follow from the gain: what is worth knowing and costs no
  // step time (kInfo), or a risk (kWarning).
  std::optional<Severity> severity = std::nullopt;
};
std::span<const Rule> Rules();

struct Findings {
  std::vector<Finding>
      findings;  // by severity, then gain, largest first; equal ones in the order of Rules()
  std::vector<NotChecked> not_checked;
};
// Threads: options.threads at most, joined before it returns.
Findings FindAll(const AnalysisInput& input);

// Info below 10 % of step time, warning from there, critical from 20 %; NaN is info.
Severity SeverityOf(double gain);

}  // namespace flopwatch::trace
