// What numbers say to whoever reads them, in words: why there is no OFU and what mends that, what
// stands out of a usage in a few words, and the notes on a job. The terminal, the page and the API
// take their words from here. Pure; times in seconds, ratios 0..1.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "query/divergence.h"
#include "query/usage.h"

namespace flopwatch::query {

// A reason or a quality flag of the API, as a person says it, and what to do about it ("" =
// nothing).
struct ReasonWords {
  std::string_view reason, title, advice;
};
std::span<const ReasonWords> Reasons();
// The code itself in words where the table has it not.
std::string ReasonTitle(std::string_view reason);
std::string_view ReasonAdvice(std::string_view reason);

// What of a usage the notes look at. Absent is not known, never zero.
struct NoteFigures {
  std::optional<double> ofu, gpu_util, tensor_active, sm_clock_mhz, coverage;
  double gpu_seconds = 0, observed_s = 0, computable_s = 0, stale_s = 0;
  // Reason, observed seconds without an OFU because of it; > 0, most first.
  std::vector<std::pair<std::string, double>> lost_reasons;
};
NoteFigures FiguresOf(const Usage& usage);

// What stands out, in a few words for a list; "" where nothing does: reasons that cost at least 1 %
// of the observed time (with their share), and what duty cycle and OFU say together, the two that
// explain the most GPU-seconds, divided by "; "; else a low coverage.
std::string ShortNote(const NoteFigures& figures);

// Why an OFU is what it is: the loss of the chain from held GPUs down to OFU (fleet/sankey) that
// took most of the measured time. It is decided where no other loss can be larger, whatever the
// time held in which a counter on the way was missing.
struct OfuCause {
  // The loss's name in the Sankey and what it took of the observed GPU-seconds; "" and 0 where
  // none is decided.
  std::string_view loss = {};
  double gpu_seconds = 0, share = 0;
  // One line for a person: the cause, why none is decided, or "not computable: " and why there is
  // no OFU.
  std::string text;
};
OfuCause CauseOfOfu(const Usage& usage);

// That a job's MFU and OFU cannot both be right.
struct MfuAlarm {
  std::string verdict, headline;
  std::optional<double> corrected_mfu;  // where one cause is decided
  double gpu_seconds = 0;  // that the claim has too many or too few, at peak arithmetic
};
std::optional<MfuAlarm> AlarmOf(const JobDivergence& divergence);  // nullopt: it is no alarm

struct JobFacts {
  struct Gpu {
    std::string name;  // "node-b gpu 2"
    NoteFigures usage;
  };
  std::string job;
  NoteFigures usage;
  std::vector<Gpu> gpus;
  // Steps of the window.
  Micros from = 0, step = 0;
  std::vector<std::optional<double>> ofu;
  std::vector<double> gpu_seconds;  // allocated; may be shorter: 0 then
  std::optional<MfuAlarm> alarm;
};

// What stands out in a job: a sentence with its numbers, then what to do ("" = nothing).
struct Note {
  std::string finding, action;
  bool serious = false;
  double gpu_seconds = 0;  // that it explains
};
// That which explains the most GPU-seconds first. Thresholds are ours (docs/cli.md).
std::vector<Note> JobNotes(const JobFacts& facts);

}  // namespace flopwatch::query
