// Which source reports an entity, so that two exporters of one GPU count it once, and who wins when
// they are at odds.
//
// A claim is a source saying "this GPU is mine, on that node". While the holder of a GPU has not
// been silent for 2.5 intervals, a second source's rows of it are refused, unless its claim is the
// stronger one; then it takes the GPU over. Stronger is, in this order:
//   1. the node it names is the host it is scraped from (by name; an IP address tells nothing, a
//      push names its own node); naming another host than the one it answers from is the weakest;
//   2. it names the node the GPU has been known under (from the store after a restart, else the
//      first claim; a new node becomes the known one after kSettled without contest: the board was
//      moved);
//   3. it was there first.
// Where the last row is of a time that has not come yet and a new one is not, a clock was set back:
// the holder goes on from there, and is silent from there on if it has gone.
// Refused rows are counted: duplicate_exporter where both name one node (one exporter behind two
// addresses, say), else uuid_conflict (one of the two is wrong). Both targets show the conflict. A
// refused claim changes nothing else: no label, no job, no sum.
//
// Threads: every method from any thread. Only conflicts take the one mutex.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/time.h"
#include "ingest/chunked_table.h"
#include "ingest/options.h"
#include "ingest/registry.h"

namespace flopwatch::ingest {

// What a source's address says about the node it names.
enum class Evidence : uint8_t { kContradicts = 0, kNone = 1, kMatches = 2 };
// `named` is the node on the row, `address` the target's host or node name; `pushed`: the source
// says both itself.
Evidence EvidenceOf(std::string_view named, std::string_view address, bool pushed);
uint64_t NodeHash(std::string_view node);  // never 0; case and domain do not matter

// A GPU that two sources claim, as one of them sees it.
struct TargetConflict {
  std::string gpu = {};
  int32_t gpu_instance = -1;
  std::string other;   // the other source
  std::string kind;    // "uuid_conflict" or "duplicate_exporter"
  bool holds = false;  // this source's rows count
  Micros since = 0, last = 0;
  uint64_t refused = 0;  // rows
};

class Claims {
 public:
  static constexpr Micros kSettled = 10 * kMicrosPerMinute;
  // A conflict is over when none of its rows came for so long.
  static constexpr Micros kRemembered = 10 * kMicrosPerMinute;
  // Listed, in all and of one refused source, so that none takes them all; refused rows are counted
  // all the same.
  static constexpr size_t kMaxConflicts = 4096, kMaxConflictsOfSource = 256;

  explicit Claims(int32_t last_entity) : owners_(last_entity) {}

  struct Claim {
    uint32_t source = 0;
    int32_t entity = 0;
    uint64_t node = 0;  // NodeHash
    Evidence evidence = Evidence::kNone;
  };
  struct Timing {
    Micros nominal_interval = 0, max_span = 0;
    Micros now = 0;  // the server's clock; 0 = not known
  };
  enum class Outcome : uint8_t { kAccepted, kStale, kDuplicate, kConflict };
  struct Verdict {
    Outcome outcome = Outcome::kAccepted;
    Micros previous = 0;    // time of the row that this one continues; 0 = none
    uint32_t rival = 0;     // the source the GPU is held against, or was taken from
    bool set_back = false;  // accepted although it is earlier than the last: a clock was set back
  };

  // A row of `claim` at `ts`. With its own timestamp, one that is not newer is stale; the scraper's
  // clock may be set back.
  Verdict Admit(const Claim& claim, Micros ts, bool own_timestamp, const Timing& timing);
  // Asks for the memory that Admit() will want.
  void Prefetch(int32_t entity) const { owners_.Prefetch(entity, sizeof(Ownership)); }
  // Whether what this source says about the GPU (labels, model) is to be believed now.
  bool MayDescribe(const Claim& claim, Micros ts, const Timing& timing) const;
  // The node a GPU was known under when it was met; only the first call for an entity counts.
  void SetHome(int32_t entity, uint64_t node);

  void Know(uint32_t source, std::string name);
  void Forget(uint32_t source);
  void Note(const Claim& refused, uint32_t holder, Outcome outcome, Micros now);
  // Conflicts of the last kRemembered before `now`, of one source, by GPU.
  std::vector<TargetConflict> Of(uint32_t source, const Registry& registry, Micros now) const;
  // Sources with conflicts, by name, and how many GPUs each has in one.
  std::vector<std::pair<std::string, uint64_t>> BySource(Micros now) const;
  // GPUs in conflict now, by kind: {uuid_conflict, duplicate_exporter}.
  std::pair<size_t, size_t> Count(Micros now) const;

 private:
  struct Ownership {
    uint32_t source = 0;
    uint32_t before = 0;      // the source that held it before this one
    int32_t interval_ms = 0;  // between the holder's own rows; 0 = not known
    Evidence evidence = Evidence::kNone;
    Micros last_ts = 0;  // of the last row that counted, whose ever
    // The last row of the holder, and of the one before, while they held it.
    Micros own_ts = 0, before_ts = 0;
    uint64_t node = 0, home = 0;
    Micros uncontested_since = 0;
  };
  struct Conflict {
    Outcome outcome = Outcome::kConflict;
    uint32_t holder = 0;
    Micros since = 0, last = 0;
    uint64_t refused = 0;
  };
  static bool SetBack(const Ownership& o, Micros ts, const Timing& timing);
  template <typename F>
  void ForgetConflicts(F&& over) FW_REQUIRES(mutex_);
  static bool Reports(const Ownership& o, Micros ts, const Timing& timing);
  static bool Stronger(const Claim& claim, const Ownership& than);
  static void Hold(Ownership* o, const Claim& claim, Micros ts, const Timing& timing);

  ChunkedTable<Ownership> owners_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::string> names_ FW_GUARDED_BY(mutex_);
  // `conflicts_` has one for each entity and refused source.
  absl::flat_hash_map<std::pair<int32_t, uint32_t>, Conflict> conflicts_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, size_t> conflicts_of_ FW_GUARDED_BY(mutex_);  // by refused source
  Micros last_forgotten_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::ingest
