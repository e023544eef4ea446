// Training logs -> samples and the claim they stand under. Text in any pieces; never fails as a
// whole: what cannot be read is counted under a named reason. One format a file (log_megatron,
// log_torchtitan, log_jsonl); this is what they share: lines, colours, ranks, times, spans.
//
// Times. A time with a zone is taken as it is. One without is read in LogOptions::utc_offset (and
// counted, so that the caller can say so). A step line without a time takes that of the nearest
// line before it, if that is newer than the last step's; else the last step's time plus what the
// steps took; the first such step begins at LogOptions::start. Where none of these is there the
// step is refused (no_time): a time is never made up.
//
// Span. The steps since the last logged one times the reported step time; without a step time the
// time since the last sample, if that is at most kMaxLogGap. The first sample of a log whose step
// time is known stands for LogOptions::log_interval steps.
//
// Ranks. Several ranks may log the same step: it is taken once. A step line of another rank, or at
// the same moment, that repeats a step is refused (repeated_step); a later one that goes back is a
// restart from a checkpoint.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "telemetry/application.h"
#include "telemetry/application_keys.h"

namespace flopwatch::telemetry {

inline constexpr size_t kMaxLogLineBytes = 256 * 1024;
inline constexpr Micros kMaxLogGap = 10 * kMicrosPerMinute;

enum class LogFormat : uint8_t { kAuto, kMegatron, kTorchtitan, kJsonLines };
// "auto", "megatron", "torchtitan", "jsonl".
StatusOr<LogFormat> ParseLogFormat(std::string_view name);
std::string_view LogFormatName(LogFormat format);

// Why a step or a value gave nothing. Names are stable.
enum class LogRefusal : uint8_t {
  kNoTime,
  kRepeatedStep,
  kLineTooLong,
  kTruncated,    // a last line without newline that is no whole record
  kNotFinite,    // a value: nan, inf
  kOutOfBounds,  // a value that cannot be
  kUnitUnclear,  // "mfu": 38.2 without a unit in the name
  kNoGpuCount,   // tokens a second of one GPU, and how many there are is not known
  kMalformed,    // JSON lines: no JSON object
  kNoValues,     // a step without any number of the table
  kCount,
};
std::string_view LogRefusalName(LogRefusal reason);

// A time, and whether it names a zone; then it is UTC.
using LogTime = std::pair<Micros, bool>;

struct LogOptions {
  LogFormat format = LogFormat::kAuto;
  // What the caller knows: the job, and facts that win over those of the log. Its convention and
  // source are filled in by format where empty.
  ApplicationClaim claim;
  std::optional<Micros> start;  // when the first step began, for logs without times
  Micros utc_offset = 0;        // of times without a zone: local = UTC + offset
  int64_t log_interval = 1;     // steps the first sample stands for
  RatioUnit ratio_unit = RatioUnit::kByName;
};

struct LogStats {
  uint64_t bytes = 0, lines = 0, step_lines = 0, samples = 0;
  uint64_t zoneless_times = 0;  // of samples
  uint64_t times_of_other_lines = 0, times_by_steps = 0;
  std::array<uint64_t, static_cast<size_t>(LogRefusal::kCount)> refused{};
  std::vector<std::pair<LogRefusal, std::string>> examples;  // up to eight, printable
  LogFormat format = LogFormat::kAuto;                       // as recognised; kAuto = nothing was
};

// What one step line says, before times and units are settled.
struct LogStep {
  std::optional<int64_t> step;
  std::array<std::optional<double>, kApplicationFields> values;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> sequences;  // of this step, where tokens are to be counted from them
  std::optional<double> consumed_sequences;   // since the start
  std::optional<double> tokens_per_sequence;  // of this step, where it differs from the claim's
  std::optional<Micros> ts;                   // absolute, from the record itself
  std::optional<double>& operator[](ApplicationField f) { return values[static_cast<size_t>(f)]; }
};

// A format. Line() is given a line without colours, rank prefix and newline.
class LogLines {
 public:
  enum class Found : uint8_t { kNothing, kFact, kStep };
  using Refuse = std::function<void(LogRefusal, std::string_view)>;
  virtual ~LogLines() = default;
  // kFact: `facts` was changed. kStep: `step` was filled. `facts` is what the log has said so far.
  virtual Found Line(std::string_view line, LogStep* step, ApplicationClaim* facts,
                     const Refuse& refuse) = 0;
  virtual std::string_view convention() const = 0;
  virtual ApplicationSource source() const = 0;
};
std::unique_ptr<LogLines> MegatronLines();
std::unique_ptr<LogLines> TorchtitanLines();
std::unique_ptr<LogLines> JsonLines(RatioUnit unit);

// Samples under one claim, in the order of the log.
struct LogBatch {
  ApplicationClaim claim;
  std::vector<ApplicationSample> samples;
};

class LogDecoder {
 public:
  explicit LogDecoder(LogOptions options);
  ~LogDecoder();
  void Feed(std::string_view bytes);
  void Finish();  // a last line without newline
  // What was decoded since the last call.
  std::vector<LogBatch> Take();
  const LogStats& stats() const { return stats_; }

 private:
  void Line(std::string_view line);
  void Step(const LogStep& in, std::optional<int> rank, std::optional<LogTime> own_time);
  void SetValues(const LogStep& in, const ApplicationClaim& claim, ApplicationSample* sample);
  // Time that the steps since the last sample took.
  std::optional<Micros> TimeTaken(const ApplicationSample& sample) const;
  struct StepTime {
    std::optional<Micros> ts;
    bool zoneless = false, guessed = false;
  };
  // `said` by the record, `own` of its line, or else a guess.
  StepTime TimeOf(std::optional<Micros> said, std::optional<LogTime> own,
                  std::optional<Micros> took);
  bool IsRepeated(std::optional<int64_t> step, std::optional<int> rank, const StepTime& time) const;
  ApplicationClaim Claim() const;
  void Refuse(LogRefusal reason, std::string_view line);

  const LogOptions options_;
  LogStats stats_;
  std::string pending_;    // the begin of a line
  bool skipping_ = false;  // the rest of a line that is too long
  std::vector<std::pair<LogFormat, std::unique_ptr<LogLines>>> formats_;  // one once it is known
  ApplicationClaim facts_;
  std::vector<LogBatch> batches_;
  std::string batch_content_;
  // The clock of the log.
  std::optional<LogTime> line_time_;  // of the nearest line that has one
  std::optional<Micros> last_ts_;
  std::optional<int64_t> last_step_;
  std::optional<int> last_rank_;
  bool reported_ = false;  // a sample was made
};

// --- parts of lines, for the formats ---
// The first number at the start of `text` after blanks: "1,234", "2.3E+00", "38.2%"; sets *end
// behind it.
std::optional<double> LeadingNumber(std::string_view text, size_t* end = nullptr);
// A date and time in the first 256 bytes: "2025-01-02 03:04:05,123", "2025-01-02T03:04:05Z",
// "20250102 03:04:05".
std::optional<LogTime> FindLogTime(std::string_view line);
// Colours and cursor movements out; other control characters become blanks.
void StripAnsi(std::string_view line, std::string* out);
// "[rank3]:", "[default0]:", "  12: " (srun -l); removes it from *line.
std::optional<int> TakeRankPrefix(std::string_view* line);

}  // namespace flopwatch::telemetry
