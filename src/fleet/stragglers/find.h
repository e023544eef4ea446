// Which GPU holds a job back, from counters alone (docs/stragglers.md).
//
// Every rank of a synchronous job does C tensor cycles a step of length T, so its tensor activity
// is C / (T f): activity x clock, and with it OFU, is the same on every rank and names nobody. What
// differs is the clock. The GPU with the lowest clock shows the highest activity, and that
//   - says that the job is synchronous: where activity x clock is not the same, ranks are
//     independent and nobody is waited for;
//   - measures the clock: activity is a mean that the hardware takes, and between GPUs that are
//     scraped together its ratio has none of the noise of clock readings (30 MHz each).
// A GPU is named where activity and clock agree that it is slower than the job's others, and where
// the probability that it is less than kInnocent slower is small: of all names less than one in a
// hundred is expected to be of such a GPU. What is slow at a normal clock is told by power, duty,
// links and errors (suspects.h).
//
// Pure: structs in, structs out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/stragglers/work.h"

namespace flopwatch::fleet {

// A GPU this much slower than it could be is within what GPUs of one model differ by. Its clock
// says so beside the middle of its job; what no clock shows comes to it.
inline constexpr double kInnocent = 0.03;

enum class StragglerKind : uint8_t { kClock, kPowerCap, kThermal, kStall, kLink, kHost, kUnknown };
inline constexpr std::string_view kStragglerKinds[] = {"clock", "power_cap", "thermal", "stall",
                                                       "link",  "host",      "unknown"};
std::string_view StragglerKindName(StragglerKind k);

struct StragglerRank {
  int32_t gpu = 0;                // any number of the caller's
  int32_t host = 0;               // GPUs with the same number are scraped together
  int32_t domain = 0;             // GPUs with the same number are joined by NVLink
  const GpuWork* work = nullptr;  // outlives the call
};
struct StragglerJob {
  std::vector<StragglerRank> ranks;  // whole GPUs that no other job shared
};

struct StragglerEvidence {
  std::string_view measure;     // "sm_clock_mhz", "tensor_active", "power_w", "pcie_replays", …
  double value = 0;             // of the GPU
  std::optional<double> peers;  // median of the others
};

struct Straggler {
  size_t job = 0, rank = 0;  // indices into what was given
  bool whole_host = false;   // all GPUs of the job on the host of that rank
  StragglerKind kind = StragglerKind::kUnknown;
  std::optional<double> deficit;  // how much slower than its peers: 0.08 = a step takes 1.08 times
  std::string deficit_reason;     // why there is none
  // Share of the job's time that it would be over earlier without it: a step then takes as long as
  // on the next slowest GPU. 0 where another one is slower; nullopt where the deficit is not known.
  std::optional<double> gain;
  double confidence = 0;  // probability that it is more than kInnocent slower
  std::vector<StragglerEvidence> evidence;
  // Named for these parts of the time alone, of those of AddEpisodes(); below 0: for all of it.
  int first_part = -1, last_part = -1;
};

enum class NotJudged : uint8_t {
  kJudged,
  kFewGpus,      // fewer than two GPUs did tensor work
  kShortWork,    // too little tensor work
  kNoCounters,   // no tensor activity or no clock
  kIndependent,  // activity x clock differs between ranks: nobody waits for anybody
};
inline constexpr std::string_view kNotJudgedNames[] = {"judged", "few_gpus", "short_work",
                                                       "no_counters", "independent"};

struct StragglerVerdict {
  NotJudged reason = NotJudged::kJudged;
  int64_t gpus = 0;    // that did tensor work for long enough
  int64_t unused = 0;  // that did none, or hardly any
  double work_s = 0;   // of tensor work, median over those GPUs
  double uneven = 0;   // sd of activity x clock over the ranks, without the noise of clock readings
  bool judged() const { return reason == NotJudged::kJudged; }
};

struct StragglerLimits {
  double min_work_s = 300;
  double min_readings = 4;
  // A name is given that is wrong (of a GPU less than kInnocent slower) with at most this
  // probability, ...
  double false_name = 0.01;
  // ... or a less certain one while at most this share of all names is expected to be wrong.
  double false_names = 0.006;
  // The same of names at a normal clock, among these.
  double false_soft_names = 0.02;
  // Whether stalls and bad links are sought: errors come in bursts, of which a short time shows too
  // many.
  bool by_errors = true;
};

struct StragglersFound {
  std::vector<StragglerVerdict> jobs;  // one for each that was given
  std::vector<Straggler> named;        // most certain first
  int64_t gpus_judged = 0;
  double spread = 0;  // sd of the clock among healthy GPUs of a job, as a share
};

StragglersFound FindStragglers(std::span<const StragglerJob> jobs,
                               const StragglerLimits& limits = {});

// What was found in parts of the time, of the same jobs and ranks (without by_errors): a GPU that
// is slow for a part of it is hardly so on the whole. Names that `whole` does not have are added,
// with the parts.
void AddEpisodes(std::span<const StragglersFound> parts, StragglersFound* whole);
// For the parts: stricter, because there are several.
inline constexpr StragglerLimits kPartLimits = {
    .false_name = 0.004, .false_names = 0, .false_soft_names = 0, .by_errors = false};

}  // namespace flopwatch::fleet
