// What questions over the store say of jobs, for rules: whether the MFU that a job reports can be
// true (query/divergence.h), and what earlier runs of its workflow reached (query/regressions.h).
// They read an hour, and two weeks, of rollups: too much for every round. They are asked every ten
// minutes, beside the rounds, at the same moments live and in a replay. One thread.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "alerts/rule.h"
#include "base/status.h"
#include "fleet/regressions/run.h"
#include "query/minutes_ahead.h"
#include "query/query.h"

namespace flopwatch::alerts {

inline constexpr Micros kJudgedEvery = 10 * kMicrosPerMinute;
// What nobody has asked anew for so long, because a question hangs or a clock jumped, is not known.
inline constexpr Micros kJudgedGood = 3 * kJudgedEvery;
inline constexpr Micros kJudgedOver = kMicrosPerHour;
inline constexpr Micros kLeastJudged = 30 * kMicrosPerMinute;  // of that, with reports
// The last minutes are left out: they may not be rolled up yet, or reported.
inline constexpr Micros kJudgedLag = 5 * kMicrosPerMinute;
inline constexpr Micros kHistoryReach = 14 * kMicrosPerDay;
inline constexpr Micros kHistoryEvery = kMicrosPerHour;  // two weeks are read so often
// A run is over when it ended so long before the hour, and runs when it began so long before.
inline constexpr Micros kSettled = 30 * kMicrosPerMinute;
inline constexpr size_t kMostHistoryRuns = 48;  // the newest before the job

// Of a job; NaN = not known.
struct Verdict {
  // MFU - OFU after what a healthy job shows, 0..1, and whether that is an alarm or impossible
  // (fleet::Diagnosis::flagged): 1, else 0.
  double divergence = std::numeric_limits<double>::quiet_NaN();
  double divergence_flagged = divergence;
  // The smaller of MFU - OFU as it stands and that, without its sign, beyond what jobs of the size
  // scatter by; and whether a supported cause explains it: 1, else 0.
  double divergence_excess = divergence, divergence_caused = divergence;
  // Of earlier runs of its workflow that were set alike: how many, their median OFU while kernels
  // ran, and how much it scatters (standard deviation of its logarithm, from the middle half).
  double history_runs = divergence, history_ofu = divergence, history_scatter = divergence;
  double history_low = divergence;  // what nine in ten of them reached
};
using Verdicts = absl::flat_hash_map<std::string, Verdict>;  // by the job's key

class Judge {
 public:
  // `query` outlives this. Questions that no rule names the answer of are not asked. `all`: moments
  // are of this window alone, and history is read once, up to its end.
  Judge(const query::Query* query, absl::Span<const Rule> rules,
        std::optional<store::Window> all = std::nullopt);
  // False: no rule needs it.
  bool needed() const { return divergence_ || history_; }

  // What is known at `at`. Of a question that failed nothing is known; the first error is the
  // answer's, beside what the others said.
  Status At(Micros at, Verdicts* out);

 private:
  struct Run {
    std::string job;
    Micros from = 0, to = 0;
    fleet::RunSetting setting;
    std::optional<double> level;  // fleet::LevelOf()
  };
  using Workflow = std::vector<Run>;  // by when they began

  Status Diverge(Micros at, Verdicts* out);
  Status ReadHistory(Micros to);
  void Compare(Micros hour, Verdicts* out) const;

  const query::Query& query_;
  const std::optional<store::Window> all_;
  std::optional<query::MinutesAhead> ahead_;  // of a past that is known
  bool divergence_ = false, history_ = false;
  std::vector<Workflow> workflows_;
  Micros read_to_ = 0;  // the end of the history; 0 = not read yet
};

}  // namespace flopwatch::alerts
