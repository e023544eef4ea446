// A round from the live state: what the rules' quantities are now (kQuantities says of each what it
// is made of). It keeps what a single look does not show: which XID a GPU had before, how its error
// counters grew, and what each job's OFU was. A replay gives it a live state of its own, which is
// fed from stored rows, so that both see the same. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/types/span.h"
#include "alerts/answers.h"
#include "alerts/judge.h"
#include "alerts/look_devices.h"
#include "alerts/racks.h"
#include "alerts/reports.h"
#include "alerts/round.h"
#include "base/json_read.h"
#include "query/memory.h"

namespace flopwatch::alerts {

inline constexpr Micros kWindow = 5 * kMicrosPerMinute;       // what quantities of jobs are over
inline constexpr Micros kBaselineReach = 2 * kMicrosPerHour;  // of a job
inline constexpr Micros kBaselineGap = 15 * kMicrosPerMinute;
inline constexpr Micros kLowReach = kMicrosPerDay;  // without the last kBaselineReach
inline constexpr Micros kFleetReach = kMicrosPerDay;
inline constexpr Micros kFleetGap = 30 * kMicrosPerMinute;
inline constexpr double kLeastDuty = 0.05;  // for OFU over the duty cycle
inline constexpr double kLeastWork = 0.25;  // over kWindow: below, a job pauses in part of it

class Look {
 public:
  // `memory` has a live state, and outlives this.
  explicit Look(const query::Memory* memory) : memory_(*memory), devices_(memory) {}

  // What a job says of itself. In the order of time; before the round that is to see it.
  void Hear(std::string_view job, const telemetry::ApplicationSample& sample) {
    reports_.Add(job, sample);
  }

  // From the next round on; null = no rack is known. Shared with replays that run meanwhile.
  void SetRacks(std::shared_ptr<const Racks> racks) { racks_ = std::move(racks); }

  // When the host of each exporter answered last without samples, by node; asked at most once a
  // round. Empty: nobody knows.
  void SetAnswers(std::function<Answers()> answers) { ask_ = std::move(answers); }

  // What is known of jobs at a moment, from the next round on, for kJudgedGood; null = nothing.
  void SetVerdicts(std::shared_ptr<const Verdicts> verdicts, Micros moment) {
    verdicts_ = std::move(verdicts);
    judged_ = moment;
  }

  // Fills `round` with what is known at `now`. The round refers to this until the next call.
  void Take(Micros now, Round* round);

  // The jobs' baselines of OFU in the round that was taken last, by job; those that are known.
  std::map<std::string, double, std::less<>> Baselines(const Round& round) const;

  uint64_t reports_left_out() const { return reports_.left_out(); }

  // What a restart must not forget: baselines and the XIDs that were seen.
  void WriteState(std::string* json) const;
  Status ReadState(const Json& json);

 private:
  struct Past {
    Micros to = 0;  // of the window
    float ofu = 0, tensor = 0, power = 0, duty = 0;
  };
  using Ring = std::deque<Past>;
  // The least OFU while kernels ran over three windows in a row that end in an hour.
  struct Low {
    Micros hour = 0;
    float ofu = 0;
  };
  struct Baseline {  // of these windows of a ring
    Micros first = 0, last = 0;
    size_t windows = 0;
    double ofu = 0, tensor = 0, power = 0, duty = 0, spread = 0;
    Micros at = 0;   // when it was worked out; SetBaseline()
    double low = 0;  // of the lows of before
  };
  struct JobPast {
    Ring ring;
    std::deque<Low> lows;              // of kLowReach
    std::optional<Baseline> baseline;  // as it was worked out last
    uint64_t look = 0;                 // the last that saw the job
  };
  // A job of this round; kept while there is a round after the other that has it.
  struct JobNow {
    std::string key;
    uint64_t subject = 0;     // Subjects::keys
    JobPast* past = nullptr;  // in jobs_; null = not named yet
    uint64_t look = 0;
    // Its GPUs.
    int32_t fresh = 0, all = 0, with_duty = 0;
    double lowest_duty = 2;
    bool shared = false;
  };

  Micros HeardOf(const std::string& node, absl::Span<const int32_t> sets);
  bool NameJob(int32_t id, JobNow* job);
  void StepBack(Micros now);
  void TakeJobs(Micros now, Round* round);
  void SetReports(std::string_view job, Micros now, size_t row, Subjects* out);
  void SetVerdict(const std::string& job, Micros now, size_t row, Subjects* out) const;
  static void SetBaseline(Micros now, size_t row, JobPast* past, Subjects* out);
  static Baseline BaselineOf(Micros now, Micros at, const JobPast& past);
  static void KeepLow(JobPast* past);
  void TakeFleet(Micros now, Round* round);
  static void Keep(Ring* ring, const Past& past, Micros reach);
  Who WhoOf(Scope scope, size_t row, Whose whose) const;
  // The scheduler's word of a node that is there; "" = not known, or of several.
  struct Place {
    std::string cluster, partition;
  };
  const Place& PlaceOf(const std::string& node) const;

  const query::Memory& memory_;
  DeviceLook devices_;
  std::shared_ptr<const Racks> racks_;
  std::shared_ptr<const Verdicts> verdicts_;
  Micros judged_ = 0;  // the moment of verdicts_
  std::function<Answers()> ask_;
  absl::node_hash_map<std::string, JobPast> jobs_;  // by key
  Ring fleet_;
  Reports reports_;
  Micros last_ = 0;    // the last look
  Micros window_ = 0;  // the last that is in the rings; end
  uint64_t looks_ = 0;

  // Of the round.
  std::optional<Answers> answers_;  // made when it is asked for
  // Account and partition by job; made when it is asked for.
  mutable std::optional<absl::flat_hash_map<std::string, std::pair<std::string, std::string>>>
      accounts_;
  mutable std::optional<absl::flat_hash_map<std::string, Place>> places_;  // by node; likewise
  absl::flat_hash_map<int32_t, JobNow> here_;                              // by job id
  std::vector<int32_t> job_ids_;
};

}  // namespace flopwatch::alerts
