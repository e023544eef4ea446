// What a look says of GPUs and of their nodes. GPUs are looked at twice: once for what a job's GPUs
// are together (peers) and what a node's are, and once, a block at a time, for their own quantities
// beside those. Nobody has a copy of all: of 100,000 that would be most of what a round costs.
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "alerts/round.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "query/memory.h"

namespace flopwatch::alerts {

inline constexpr Micros kNews = 10 * kMicrosPerMinute;  // an XID, an error is new for so long
// A job that held the GPU so long before a code is seen may have ended with it: some scrapes.
inline constexpr Micros kEndedWith = 3 * kMicrosPerMinute;
// One reading of a clock is off by 2 %; a mean over so long, at two a minute, by a third of that.
inline constexpr Micros kSmoothed = 3 * kMicrosPerMinute;
inline constexpr double kAtWork = 0.5;  // duty cycle from which a GPU is compared with its job's
// What is heard of a silent node counts from so long after its newest sample on: a report may be
// later than the step that it tells of.
inline constexpr Micros kHeardAfter = kMicrosPerMinute;
inline constexpr size_t kFewestPeers = 3;  // for a median of a job's GPUs
// A GPU whose duty cycle is not known runs something where its SMs are active for more than this.
inline constexpr double kLeastActive = 0.05;

class DeviceLook {
 public:
  // `memory` has a live state, and outlives this.
  explicit DeviceLook(const query::Memory* memory) : memory_(*memory) {}

  // What is compared of a job's GPUs: clock, power, duty cycle, OFU. NaN = not known.
  enum Of : uint8_t { kClock, kPower, kDuty, kOfu, kCompared };
  using Four = float __attribute__((vector_size(kCompared * sizeof(float))));  // all at once

  struct Peers {  // the GPUs of one job set in this round
    int32_t set = 0;
    absl::InlinedVector<int32_t, 2> jobs;       // its members
    int32_t fresh = 0, all = 0, with_duty = 0;  // all = 0: nobody has it in this round
    int32_t active = 0;  // whose duty cycle is not known, and that run something
    int32_t model = -1;
    bool one_model = true;
    double median_duty = 0;
    Four one_of{};           // over the medians
    double duty = 0;         // NaN = not known
    double lowest_duty = 2;  // likewise; 2: of none it is, and all of these run something
  };

  // The first pass, for what follows.
  void Begin(Micros now, const QuantitySet& wanted);
  absl::Span<const Peers> peers() const { return peers_; }
  // When something was heard of a node by another way than its samples; 0 = never. `sets`: the job
  // sets that had its GPUs in its newest samples.
  using HeardOf =
      absl::FunctionRef<Micros(const std::string& node, absl::Span<const int32_t> sets)>;
  void TakeNodes(Micros now, HeardOf heard_of, Round* round);
  // The second. GPUs that came since the first are left out. May be called again.
  void VisitGpus(Micros now, const QuantitySet& wanted, SubjectVisitor visit);

  // Of a row of the last visit.
  int32_t EntityOf(size_t row) const { return seen_[row].entity; }
  int32_t SetOf(size_t row, Whose whose) const {
    return whose == Whose::kNow ? seen_[row].job_set
                                : stories_[static_cast<size_t>(seen_[row].entity)].xid_set;
  }
  const std::string& NodeOf(size_t row) const {
    return nodes_[static_cast<size_t>(node_rows_[row])];
  }

  // The clock was set back: what is of later stands in the way of what is now.
  void StepBack(Micros now);
  // What a restart must not forget: the XIDs that were seen.
  void WriteState(JsonWriter* json) const;  // an array
  void ReadState(const Json& xids);

 private:
  enum Errors : uint8_t { kEcc, kRemaps, kNvlink, kReplays, kErrorCounters };
  // The row of a GPU that its means beside its job's others have last.
  enum class Taken : uint8_t { kNone, kNewest, kEarlier };
  // A line of a cache: all of it is read and written in every round.
  struct alignas(64) Board {
    static constexpr uint32_t kNotSaid = ~uint32_t{0};
    uint64_t key = 0;   // 0 = not seen yet
    Micros row_at = 0;  // its newest row
    Four to_job{};      // beside its job's others, while it works: means over about kSmoothed
    // Error counters as they were said last, modulo 2^32: once round looks as a reset.
    std::array<uint32_t, kErrorCounters> totals = {kNotSaid, kNotSaid, kNotSaid, kNotSaid};
    int32_t job_set = 0;  // the last that held it
    int32_t xid = -1;
    int32_t xid_errors = -1;  // the last that was said, 0 before; -1 = not looked yet
    Taken taken = Taken::kNone;
    bool held = false;                    // its newest row is of job_set
    bool xid_came = false, grew = false;  // there is more in its Story
  };
  static_assert(sizeof(Board) == 64);
  // What seldom changes.
  struct Story {
    struct Growth {  // of an error counter, by pieces of kNews: this one and the last
      uint32_t now = 0, before = 0;
    };
    Micros xid_at = 0;    // when its last XID came; 0 = it was so when it was seen first
    Micros left_at = 0;   // the newest row of Board::job_set, where that is not its newest
    int32_t xid_set = 0;  // the job set that the XID came to; 0 = nobody, or not known
    std::array<Growth, kErrorCounters> growth;
  };
  struct NodeNow {
    Micros newest = 0;
    int32_t gpus = 0, allocated = 0;
  };
  struct SilentGpu {  // that a job holds
    int32_t node = 0, job_set = 0;
    Micros ts = 0;
    auto operator<=>(const SilentGpu&) const = default;
  };
  struct Seen {
    int32_t entity = 0, job_set = 0;
  };
  struct XidState {
    int32_t xid = -1;
    int64_t errors = -1;
  };
  class Cells;

  void NameNodes();
  bool IsReplaced(const ingest::GpuNow& gpu) const;
  bool IsAlive(size_t node, Micros now, HeardOf heard_of);
  void SeeGpu(const ingest::GpuNow& gpu, bool fresh);
  // In peers_; -1 = nobody of the first pass had it.
  int32_t PlaceOfPeers(int32_t set) { return set == last_set_ ? last_place_ : FindPeers(set); }
  int32_t FindPeers(int32_t set);
  void BeginPeers();
  Peers& NewPeers(int32_t set);
  void FinishPeers(const QuantitySet& wanted);
  void TurnGrowth(Micros now);
  void TakeBlock(absl::Span<ingest::GpuNow> gpus, Micros now, const QuantitySet& wanted);
  void SetGpu(const ingest::GpuNow& gpu, const Peers* peers, Board* board, const Cells& out);
  static void NotCompared(const ingest::GpuNow& gpu, Board* board);
  static void SetBesidePeers(const ingest::GpuNow& gpu, const Peers& peers, Board* board,
                             const Cells& out);
  // `before`: as it was until this row.
  struct Before {
    int32_t job_set = 0;
    bool held = false;
  };
  void SetTroubles(const ingest::GpuNow& gpu, Micros now, Before before, Board* board,
                   const Cells& out);
  static int32_t XidSet(const ingest::GpuNow& gpu, Before before, const Board& board,
                        const Story& story);
  static void SeeErrors(Micros ts, const std::array<uint32_t, kErrorCounters>& said, Board* board,
                        Story* story);
  double OneOfMaxClock(int32_t model) {
    return model == last_model_ ? one_of_max_clock_ : FindMaxClock(model);
  }
  double FindMaxClock(int32_t model);
  Board& BoardOf(int32_t entity) {
    const auto at = static_cast<size_t>(entity);
    return at < boards_.size() && boards_[at].key != 0 ? boards_[at] : NewBoard(entity);
  }
  Board& NewBoard(int32_t entity);
  Story& StoryOf(int32_t entity) { return stories_[static_cast<size_t>(entity)]; }  // of a board
  void PrefetchBoard(int32_t entity) const;

  const query::Memory& memory_;
  std::vector<Board> boards_;     // by entity id
  std::vector<Story> stories_;    // likewise
  std::vector<int32_t> node_of_;  // by entity id: in nodes_; -1 = not known
  // By entity id: the boards that were at its place of its node, where they are several.
  struct AtPlace {
    int32_t entity = 0;
    Micros first_seen = 0;
  };
  absl::flat_hash_map<int32_t, std::vector<AtPlace>> same_place_;
  std::vector<std::string> nodes_;                          // each once
  std::vector<uint64_t> node_keys_;                         // likewise
  std::optional<uint64_t> nodes_version_;                   // of the registry that these are of
  absl::flat_hash_map<std::string, XidState> xids_;         // of a state: by UUID
  absl::flat_hash_map<int32_t, double> one_of_max_clocks_;  // by model
  Micros growth_ = 0;                                       // the piece of kNews that growth is of

  // When silent nodes were heard of by another way than their samples: by the first round in which
  // they were silent, and by the last. By key.
  struct Heard {
    Micros at_first = -1, last = 0;
    Micros round = 0;  // the last in which it was silent: one that is gone is forgotten
  };
  absl::flat_hash_map<uint64_t, Heard> heard_;

  // Of the round.
  std::vector<NodeNow> node_now_;                   // as nodes_
  std::vector<SilentGpu> silent_;                   // by node
  std::vector<int32_t> node_rows_;                  // by row: in nodes_
  std::vector<Peers> peers_;                        // of each job set; kept while GPUs have it
  std::vector<std::vector<Four>> beside_;           // likewise, of each of its GPUs
  absl::flat_hash_map<int32_t, int32_t> peers_at_;  // by job set, in peers_
  int32_t last_set_ = 0, last_place_ = -1;          // a job's GPUs are often in a row
  int32_t last_model_ = -1;                         // likewise
  double one_of_max_clock_ = 0;
  std::vector<Seen> seen_;  // by row
  Subjects block_;          // the rows in hand
};

}  // namespace flopwatch::alerts
