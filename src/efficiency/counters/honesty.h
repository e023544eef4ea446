// Whether the counters of a GPU can be believed: each is held against power, clock, duty cycle and
// its siblings, sample by sample, and what is wrong is named with its remedy (docs/counters.md).
//
// A rule (rules.cc, one registration each) says of every reading whether it speaks for a fault,
// against it, or not at all. Evidence for is added up in seconds and readings, evidence against
// begins it anew, and a rule has found something when it has enough of both. What no reading can
// tell is not guessed: a tensor counter at 0 under load is dead, or the job has no tensor work, and
// where nothing that the exporter shows tells the two apart the verdict says so and what to export.
//
// Pure: no clock, no I/O, no allocation. One judge a GPU or MIG instance, about 300 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace flopwatch::efficiency {

enum class CounterFault : uint8_t {
  kMissing,      // not there
  kDead,         // 0 whatever the GPU does
  kFrozen,       // a value that has stopped changing
  kScaled,       // in another unit than its name says
  kRenamed,      // there, under a name that nobody knows
  kContradicts,  // impossible beside power, clock, duty cycle or its siblings
  kUndecided,    // may be wrong; what would tell is not exported
};
std::string_view CounterFaultName(CounterFault fault);  // "missing", ..., "undecided"

// The order is that in which findings are told: a cause before what follows from it.
enum class CounterRuleId : uint8_t {
  kExporterFrozen,
  kTensorPercent,
  kTensorRenamed,
  kTensorGone,
  kTensorUnlisted,
  kProfilingDead,
  kPowerScaled,
  kPowerDead,
  kPowerFrozen,
  kPowerGone,
  kPowerMissing,
  kClockScaled,
  kClockGone,
  kClockMissing,
  kDutyScaled,
  kDutyDead,
  kDutyStuck,
  kDutyGone,
  kDutyMissing,
  kTensorDead,
  kTensorFrozen,
  kTensorWithoutPower,
  kSmBelowTensor,
  kTensorAgainstCycles,
  kEnergyFrozen,
  kEnergyScaled,
  kTensorUndecided,
  kCount,
  kNone = 0xff,
};
inline constexpr size_t kCounterRules = static_cast<size_t>(CounterRuleId::kCount);

enum class CounterVendor : uint8_t { kUnknown, kNvidia, kAmd };

// One sample of a GPU or instance and what stands beside it. NaN = absent. Ratios 0..1, MHz, W, J.
struct CountersRow {
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  // Refused by the decoder because no such quantity can have the value.
  enum Beyond : uint8_t { kTensor = 1, kClock = 2, kPower = 4, kDuty = 8 };

  double span_s = 0;  // the time it stands for; 0 = not known
  double tensor = kAbsent, sm_active = kAbsent, gr_active = kAbsent, dram = kAbsent;
  double other_pipes = kAbsent;  // FP64 + FP32 + FP16, of those that are exported
  double integer_pipe = kAbsent;
  double tensor_parts = kAbsent;  // HMMA + IMMA + DFMA, of those that are exported
  double cycles_mhz = kAbsent;    // rate of the tensor pipe's cycle total
  double clock_mhz = kAbsent, duty = kAbsent;
  double power_w = kAbsent, power_limit_w = kAbsent, energy_j = kAbsent;
  uint8_t beyond = 0;   // Beyond
  bool frozen = false;  // all readings are old ones (sample_flags.h, kFrozen)

  // What it is.
  bool whole = true;  // a GPU that is not divided
  bool board = true;  // has the board's values: a GPU, divided or not
  // Its tensor activity counts: not a GPU whose instances have it, nor an instance whose GPU has.
  bool counts = true;
  bool has_profiling = true;  // false: this model has no profiling counters at all
  CounterVendor vendor = CounterVendor::kUnknown;
  double tdp_w = 0, tensor_clock_max_mhz = 0;  // 0 = not known

  // What its siblings on the same exporter show.
  bool others_have_tensor = false;  // another GPU does have the counter
  uint8_t most_have = 0;         // Beyond: of its GPUs more than half have the value, this one not
  bool job_uses_tensor = false;  // another GPU of the same job shows tensor activity, at load
  bool like_tensor = false;      // it has a counter that is named like the missing one
};

// How much evidence is asked for. A server has time; someone who asks an exporter once has not, and
// is told how many readings the answer rests on.
struct CounterPatience {
  double seconds = 1;          // of what a rule asks for
  uint16_t readings = 0xffff;  // at most so many
};

enum class CounterOpinion : uint8_t {
  kNotJudged,  // too few readings, or the GPU has not worked since they began
  kHonest,     // it worked, and nothing contradicts anything
  kUndecided,
  kFaulty,
};
std::string_view CounterOpinionName(CounterOpinion opinion);  // "not_judged", "ok", ...

struct CounterVerdict {
  CounterOpinion opinion = CounterOpinion::kNotJudged;
  CounterRuleId rule = CounterRuleId::kNone;  // of the first finding; kNone without one
  uint16_t readings = 0;  // that it rests on, at most 65535: distinct ones since the start
  float for_s = 0;        // how long the first finding has held, of what was seen
  uint32_t found = 0;     // a bit for each rule that has found something
  enum class Wanting : uint8_t { kNothing, kReadings, kLoad, kProfiling };
  Wanting wanting = Wanting::kReadings;  // what there is no opinion for yet
  bool Has(CounterRuleId id) const { return (found >> static_cast<unsigned>(id) & 1) != 0; }
};
// Why there is no opinion yet, one sentence; "" where there is one.
std::string_view WhyNotJudged(const CounterVerdict& verdict);

struct CounterRule {
  CounterRuleId id;
  std::string_view name;  // stable: "tensor_dead"
  CounterFault fault;
  std::string_view counter;  // the column that cannot be believed: "tensor_active"; "" = all
  float seconds;             // of evidence, and
  uint16_t readings;         // readings it is asked for
  std::string_view says;     // what is wrong, one sentence
  std::string_view remedy;   // one exact line, for dcgm-exporter and DCGM; and for AMD's exporter
  std::string_view amd_remedy;
  std::string_view source;  // where the rule comes from
};
const CounterRule& RuleOf(CounterRuleId id);
std::span<const CounterRule> CounterRules();
std::string_view RemedyOf(CounterRuleId id, CounterVendor vendor);

class CounterLook;  // rules.h

class CounterJudge {
 public:
  void Add(const CountersRow& row);
  CounterVerdict Verdict(const CounterPatience& patience = {}) const;

 private:
  friend class CounterLook;
  struct Evidence {
    float seconds = 0;
    uint16_t readings = 0;
  };
  void Remember(const CountersRow& row, const CounterLook& look);
  static constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();
  // The reading before, and what was seen so far. Of an honest GPU no more than this is touched.
  double last_energy_ = CountersRow::kAbsent;
  float last_tensor_ = kAbsent, last_sm_ = kAbsent, last_gr_ = kAbsent, last_power_ = kAbsent,
        last_duty_ = kAbsent, last_clock_ = kAbsent;
  float idle_w_ = kAbsent;       // the least power while nothing ran
  float mean_excess_ = 0;        // tensor over SM activity, of recent readings
  float mean_ratio_ = 1;         // tensor ratio x clock over the rate of cycles
  float mean_energy_ratio_ = 1;  // energy over power x time
  float unseen_s_ = 0;           // time since the last distinct reading
  float readings_s_ = 0;
  uint16_t readings_ = 0;
  bool had_tensor_ = false, no_profiling_ = false;
  bool worked_ = false;         // a load was seen under which dishonest counters show
  uint32_t with_evidence_ = 0;  // a bit for each rule that has any; of the others it is 0
  std::array<Evidence, kCounterRules> evidence_{};
};

}  // namespace flopwatch::efficiency
