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
#include "trace/findings/ledger.h"

namespace flopwatch::trace {

struct Finding;
// Whether other findings have a part of a finding's gain worth saying (half a per cent of the
// step).
bool SharedGain(const Finding& finding);

enum class Severity : uint8_t { kInfo, kWarning, kCritical };
std::string_view SeverityName(Severity s);  // "info", "warning", "critical"

// One fact a reader can check: what was measured, its value and unit.
struct Fact {
  std::string name;  // "median_kernel_us"
  Cell value;
  ColumnFormat format = ColumnFormat::kPlain;
  std::string text;  // "median kernel 4.1 µs, launch call 5.8 µs"
};

// What a finding is worth on one rank, as shares of its step time.
struct RankPrice {
  int32_t rank = 0;
  double gain = 0;  // the upper bound; NaN = not computable
  // What of it no finding with stronger evidence has: all `claimed` of a rank together never exceed
  // the time that it lost (ledger.h).
  double claimed = 0;
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
  std::string gain_basis;          // how the gain was estimated, one sentence
  double claimed = 0;              // RankPrice::claimed of the rank that the finding shows, 0..1
  std::vector<RankPrice> by_rank;  // of all ranks concerned, by rank
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

// What one rule found in one rank.
struct RankCheck {
  std::optional<Finding> finding;
  std::optional<std::string> not_checked;  // the data that is missing
  // The time that the finding explains; what a finding without any explains is nobody's.
  std::vector<Claim> claims = {};
};

// What a rule that compares ranks found: one finding, and what it explains on each rank.
struct RuleResult {
  struct OfRank {
    size_t index = 0;  // into Measures::ranks()
    double gain = 0;   // RankPrice::gain
    std::vector<Claim> claims;
  };
  std::optional<Finding> finding;
  std::optional<std::string> not_checked;
  std::vector<OfRank> ranks;
};

class Measures;       // measures.h: what several rules need, computed once
struct RankMeasures;  // the same, of one rank

// A rule looks at one rank alone, or at all of them together.
struct Rule {
  std::string_view id, title;
  RankCheck (*each)(const RankMeasures& rank) = nullptr;
  RuleResult (*all)(const Measures& measures) = nullptr;
  // Set where the rule's severity does not follow from what it claims: what is worth knowing and
  // costs no step time (kInfo), or a risk (kWarning).
  std::optional<Severity> severity = std::nullopt;
};
std::span<const Rule> Rules();
// The ids of all rules in the order in which they claim time, the strongest evidence first; why in
// this order is said in registry.cc and docs/traces.md.
std::span<const std::string_view> ClaimOrder();

// What one rank lost in its steps, and what of it the findings explain. All times in nanoseconds.
struct RankLedger {
  int32_t rank = 0;
  Nanos steps = 0;  // length of the windows that count
  // Measured in the windows: without GPU work between the first and the last of the trace, and
  // before the first or after the last; communication and copies that nothing hides.
  Nanos idle = 0, outside = 0, exposed_communication = 0, exposed_copies = 0;
  double inside_kernels = 0;  // of computing time: what findings say that it could be shorter by
  double claimed = 0;         // by all findings
  double lost() const {
    return static_cast<double>(idle + outside + exposed_communication + exposed_copies) +
           inside_kernels;
  }
};

struct Findings {
  // By severity, then what they claim, then gain, largest first; equal ones in the order of
  // Rules().
  std::vector<Finding> findings;
  std::vector<NotChecked> not_checked;
  std::vector<RankLedger> ledger;  // one a rank with GPU work
};
// Threads: options.threads at most, joined before it returns.
Findings FindAll(const AnalysisInput& input);

// Info below 10 % of step time, warning from there, critical from 20 %; NaN is info.
Severity SeverityOf(double claimed);

}  // namespace flopwatch::trace
