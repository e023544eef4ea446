// What a Kineto file can lose, with a stable name each. Internal to import/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace flopwatch::trace {

enum class KinetoLoss : uint8_t {
  // Events that are left out.
  kCutTail,
  kGzipBroken,
  kMalformedEvent,
  kNotAnEvent,
  kWithoutTime,
  kZeroTime,
  kTimeOutOfRange,
  kWithoutDuration,
  kNegativeDuration,
  kLongDuration,
  kBeginEnd,
  kInstant,
  kUnknownPhase,
  kMetadata,
  kTooManyThreads,
  kTooManyNames,
  kFlowWithoutOperator,
  kNoRows,
  // Repairs: the event is kept.
  kControlCharacter,
  kBadEscape,
  kBadUtf8,
  kUnescapedQuote,
  kEmptyValue,
  kBareValue,
  kComma,
  kTextCut,
  kMetadataRepaired,
  kCount,
};
inline constexpr size_t kKinetoLossCount = static_cast<size_t>(KinetoLoss::kCount);

struct KinetoLossText {
  std::string_view reason, explain;
  bool repaired = false;
};

inline constexpr std::array<KinetoLossText, kKinetoLossCount> kKinetoLossTexts = {{
    {"cut_tail",
     "the file ends before its list of events does (a killed writer, a full disk): the events "
     "before that are complete"},
    {"gzip_broken", "the gzip stream is cut or damaged: the events before that point are complete"},
    {"malformed_event", "an event is no JSON and could not be repaired"},
    {"not_an_event", "an entry of traceEvents has no phase (\"ph\") or is no object"},
    {"event_without_time", "a complete event whose ts is absent or no number"},
    {"event_at_time_zero",
     "an event at time 0 in a trace of absolute times: the writer lost its time (pytorch issue "
     "188481)"},
    {"time_out_of_range", "an event whose time does not fit a 64-bit number of nanoseconds"},
    {"event_without_duration",
     "a complete event whose dur is absent or no number: it had not ended"},
    {"negative_duration", "an event that ends before it starts"},
    {"duration_over_7_days", "an event longer than seven days: an overflow of the writer"},
    {"begin_end_event",
     "begin and end events (ph B and E) are not read; PyTorch writes complete events"},
    {"instant_event", "instant events other than those of the allocator are not kept"},
    {"unknown_phase", "an event of a phase that is not read"},
    {"metadata_unreadable",
     "an entry of the file's header is no JSON or too large and was left out"},
    {"too_many_threads",
     "the trace names more threads than are told apart: the events of the others share one"},
    {"too_many_names",
     "the trace has more distinct text than is kept: the names of the others are left out"},
    {"flow_without_operator", "a forward-backward arrow whose operator is not in the trace"},
    {"no_rows",
     "the trace holds no complete event: the profiler recorded nothing, or its writer was stopped"},
    {"control_character", "a raw control character or line break inside a text: kept", true},
    {"bad_escape", "a backslash that escapes nothing: kept as a backslash", true},
    {"bad_utf8", "bytes that are no UTF-8: replaced by U+FFFD", true},
    {"unescaped_quote", "a quote inside a text that is not escaped: kept", true},
    {"empty_value", "a member without a value: not given", true},
    {"bare_value", "a value that is no JSON (NaN, Infinity, N/A): not given", true},
    {"bad_comma", "a comma too many or too few", true},
    {"long_text", "a text of more than 256 KiB: left out of its event", true},
    {"metadata_repaired", "an entry of the file's header is no JSON and was repaired", true},
}};

using KinetoLossCounts = std::array<int64_t, kKinetoLossCount>;

}  // namespace flopwatch::trace
