// A round from the live state: what the rules' quantities are now (kQuantities says of each what it
// is made of). It keeps what a single look does not show: which XID a GPU had before, how its error
// counters grew, and what each job's OFU was. A replay gives it a live state of its own, which is
// fed from stored rows, so that both see the same. One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "alerts/judge.h"
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
inline constexpr Micros kNews = 10 * kMicrosPerMinute;  // an XID, an error is new for so long
// A job that held the GPU so long before a code is seen may have ended with it: some scrapes.
inline constexpr Micros kEndedWith = 3 * kMicrosPerMinute;
// One reading of a clock is off by 2 %; a mean over so long, at two a minute, by a third of that.
inline constexpr Micros kSmoothed = 3 * kMicrosPerMinute;
inline constexpr double kAtWork = 0.5;     // duty cycle from which a GPU is compared with its job's
inline constexpr size_t kFewestPeers = 3;  // for a median of a job's GPUs
inline constexpr double kLeastDuty = 0.05;  // for OFU over the duty cycle
inline constexpr double kLeastWork = 0.25;  // over kWindow: below, a job pauses in part of it

class Look {
 public:
  // `memory` has a live state, and outlives this.
  explicit Look(const query::Memory* memory) : memory_(*memory) {}

  // What a job says of itself. In the order of time; before the round that is to see it.
  void Hear(std::string_view job, const telemetry::ApplicationSample& sample) {
    reports_.Add(job, sample);
  }

  // From the next round on; null = no rack is known. Shared with replays that run meanwhile.
  void SetRacks(std::shared_ptr<const Racks> racks) { racks_ = std::move(racks); }

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
  // An error counter's growth, by pieces of kNews: this one and the last.
  struct Growth {
    int64_t total = -1, now = 0, before = 0;
    void See(int64_t value);
  };
  struct Board {
    uint64_t key = 0;  // 0 = not seen yet
    int32_t entity = 0, xid = -1;
    std::optional<int64_t>
        xid_errors;                  // the last that was said, 0 before; nullopt = not looked yet
    Micros xid_at = 0;               // when it came last; 0 = it was so when it was seen first
    int32_t xid_set = 0;             // the job set that it came to; 0 = nobody, or not known
    int32_t held_by = 0;             // the last job set that held it
    Micros row_at = 0, held_at = 0;  // its newest row, and the newest that `held_by` had
    Growth ecc, remaps, nvlink, replays;
    // Beside its job's others, while it works: means over about kSmoothed.
    int32_t job_set = 0;
    Micros beside_at = 0;  // of the sample that is in them
    double clock_to_job = 0, power_to_job = 0, duty_to_job = 0, ofu_to_job = 0;
  };
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
  };
  struct JobPast {
    Ring ring;
    std::deque<Low> lows;              // of kLowReach
    std::optional<Baseline> baseline;  // as it was worked out last
    uint64_t look = 0;                 // the last that saw the job
  };
  struct Beside {  // what is compared of the GPUs of a job
    std::vector<float> clocks, powers, duties, ofus;
  };
  struct NodeNow {
    Micros newest = 0;
    int32_t gpus = 0, allocated = 0;
  };
  struct Peers {  // of one job set in this round
    int32_t set = 0;
    double median_clock = 0, median_power = 0, median_duty = 0, median_ofu = 0;
    double duty = 0, lowest_duty = 2;
    int32_t jobs = 0;  // that are members of the set
    int32_t model = -1, fresh = 0, all = 0, with_duty = 0;
    bool one_model = true;
  };

  void StepBack(Micros now);
  void TakeGpus(Micros now, Round* round);
  void ReadGpus(Micros now, const QuantitySet& wanted);
  void FinishPeers();
  void SetGpu(size_t row, const ingest::GpuNow& gpu, Board* board, Subjects* out);
  double MaxClock(int32_t model);
  static void SetBesidePeers(size_t row, const ingest::GpuNow& gpu, const Peers& peers,
                             Board* board, Subjects* out);
  static int32_t XidSet(const ingest::GpuNow& gpu, const Board& board);
  void SetTroubles(size_t row, const ingest::GpuNow& gpu, Micros now, Board* board, Subjects* out);
  void TakeNodes(Micros now, Round* round);
  void TakeJobs(Micros now, Round* round);
  void SetReports(std::string_view job, Micros now, size_t row, Subjects* out);
  void SetVerdict(const std::string& job, Micros now, size_t row, Subjects* out) const;
  static void SetBaseline(Micros now, size_t row, JobPast* past, Subjects* out);
  static void KeepLow(JobPast* past);
  void TakeFleet(Micros now, Round* round);
  static void Keep(Ring* ring, const Past& past, Micros reach);
  Who WhoOf(Scope scope, size_t row, Whose whose) const;
  Board& BoardOf(int32_t entity);
  const Peers* PeersOf(size_t row) const {  // null = nobody holds it
    const int32_t at = peers_of_[row];
    return at < 0 ? nullptr : &peers_[static_cast<size_t>(at)];
  }
  void NameNodes();

  // The scheduler's word of a node that is there; "" = not known, or of several.
  struct Place {
    std::string cluster, partition;
  };
  const Place& PlaceOf(const std::string& node) const;

  const query::Memory& memory_;
  std::shared_ptr<const Racks> racks_;
  std::shared_ptr<const Verdicts> verdicts_;
  Micros judged_ = 0;                      // the moment of verdicts_
  std::vector<Board> boards_;              // by entity id
  std::vector<int32_t> node_of_;           // by entity id: in nodes_; -1 = not known
  std::vector<std::string> nodes_;         // each once
  std::vector<uint64_t> node_keys_;        // likewise
  std::optional<uint64_t> nodes_version_;  // of the registry that these are of
  struct XidState {
    int32_t xid = -1;
    std::optional<int64_t> errors;
  };
  absl::flat_hash_map<std::string, XidState> xids_;  // of a state: by UUID
  absl::flat_hash_map<std::string, JobPast> jobs_;   // by key
  Ring fleet_;
  Reports reports_;
  Micros last_ = 0;    // the last look
  Micros window_ = 0;  // the last that is in the rings; end
  Micros growth_ = 0;  // the piece of kNews that growth is of
  uint64_t looks_ = 0;

  // Of the round.
  std::vector<ingest::GpuNow> gpus_;
  std::vector<NodeNow> node_now_;                   // as nodes_
  std::vector<Peers> peers_;                        // of each job set
  std::vector<Beside> beside_;                      // likewise; more than there are, for their room
  absl::flat_hash_map<int32_t, int32_t> peers_at_;  // by job set, in peers_
  std::vector<int32_t> peers_of_;                   // by row, in peers_; -1 = nobody holds it
  absl::flat_hash_map<int32_t, double> max_clock_;  // by model
  // Account and partition by job; made when it is asked for.
  mutable std::optional<absl::flat_hash_map<std::string, std::pair<std::string, std::string>>>
      accounts_;
  mutable std::optional<absl::flat_hash_map<std::string, Place>> places_;  // by node; likewise
  std::vector<int32_t> node_rows_;                                         // by row: in nodes_
  std::vector<int32_t> job_ids_;
};

}  // namespace flopwatch::alerts
