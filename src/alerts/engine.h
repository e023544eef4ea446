// From rounds to alerts: what holds, for how long, who belongs together, what was said of it. The
// same for what is live and for what is replayed. No clock, no I/O; one thread.
//
// A subject. Its condition holds, does not hold, or is not known (a quantity is missing, or the
// subject is not there). It begins to fire when the condition has held for `hold` without a break;
// a time in which it is not known, up to kUnknownHolds, is no break and does not count. It ends
// when the condition has not held for `keep_firing`, was not known for `keep_unknown`, or when it
// is gone for kUnknownHolds ("no data"). Where the rule has a `while` and that does not hold, the
// subject pauses, as a job does that writes a checkpoint: what it would show at work is not known,
// for up to kPauseHolds ("paused"). A GPU that no job holds does not pause: there the condition
// does not hold.
//
// An alert is of one rule and one group of subjects. It fires with its first subject, takes in the
// others as they fire, and is resolved with the last. One that fires again within kReopens is the
// same alert (reopened), and each time it stays for twice as long, up to kLongestKeep: what flaps
// is told once.
//
// Told. An alert that fires is told once, when it is neither silenced nor inhibited; that it is
// resolved is told where it was told that it fires. Transitions wait in the outbox until who sends
// them says that they were sent (Sent); the outbox is a part of the state, so that a kill between
// the two repeats one transition at most, under the same key.
//
// Time in which nobody looked (a start from a state, a clock that jumps ahead) is not known: it
// counts neither for nor against.
//
// Start. Nothing fires within `grace` of the first round of an engine without a state: the first
// samples after a start are as likely of the start as of the fleet.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "alerts/alert.h"
#include "alerts/round.h"
#include "alerts/rule.h"
#include "alerts/silence.h"
#include "base/json_read.h"

namespace flopwatch::alerts {

inline constexpr Micros kUnknownHolds = 15 * kMicrosPerMinute;
inline constexpr Micros kPauseHolds = kMicrosPerHour;
inline constexpr Micros kReopens = 30 * kMicrosPerMinute;
inline constexpr Micros kLongestKeep = kMicrosPerHour;
inline constexpr size_t kMostAlerts = 20'000;   // that are open; more are counted, not kept
inline constexpr size_t kMostResolved = 5'000;  // kept to be looked at
inline constexpr size_t kMostOutbox = 50'000;
inline constexpr size_t kMostPending = 5'000;  // subjects that are asked for who they are

// A clock that is set back by more begins anew from there; by less, rounds wait until it is again
// where it was.
inline constexpr Micros kSetBack = 2 * kMicrosPerMinute;

struct EngineOptions {
  Micros interval = 15 * kMicrosPerSecond;  // between rounds; four times that is a gap
  std::string external_url;                 // "" = links begin at "/"
  Micros grace = 5 * kMicrosPerMinute;
  // Links lead to the time of the subject: the alerts of a replay have no page.
  bool links_to_evidence = false;
};

struct EngineStats {
  uint64_t rounds = 0, fired = 0, resolved = 0, told = 0, refused_alerts = 0, dropped_told = 0;
  uint64_t silenced = 0, inhibited = 0;  // now
  Micros last_round = 0;
  Micros grace_until = 0;  // nothing fires before; 0 = there is no grace, or no round yet
};

class Engine {
 public:
  Engine(std::vector<Rule> rules, EngineOptions options);

  // One round. One that is not later than the last is left out (but see kSetBack). Returns whether
  // anything has changed that a restart must not forget.
  bool Run(const Round& round);

  // Those that are open, in order of their since; with `resolved`, the last ones too.
  std::vector<const Alert*> Alerts(bool resolved) const;
  const Alert* Find(std::string_view id) const;
  const std::vector<Rule>& rules() const { return rules_; }
  // What they name: a round of these is enough.
  QuantitySet quantities() const { return QuantitiesOf(rules_); }
  EngineStats stats() const;
  // Those that would fire if their conditions went on to hold: by the alerts that they would be,
  // the longest first. Subjects of an alert that fires already are not among them. `round` is the
  // one that was run last, and can still be asked who somebody is; of another there are none. An
  // id is that of the alert to come, as long as nothing moves its begin.
  std::vector<Alert> Pending(const Round& round) const;

  // What is to be told, the oldest first, and that it was.
  const std::deque<Transition>& outbox() const { return outbox_; }
  void Sent(std::string_view key);

  // NotFound: there is no such alert or silence.
  StatusOr<std::string> Silence(alerts::Silence silence, Micros now);  // its id
  Status Unsilence(std::string_view id, Micros now);
  std::vector<alerts::Silence> Silences() const;
  // What somebody did about it: a note, and a mark where it was a restart or a drain.
  Status Note(std::string_view id, const Report& report, Micros now);

  // Everything that a restart must not forget.
  void WriteState(std::string* json) const;
  // DataLoss: that is no state; then nothing is changed.
  Status ReadState(std::string_view json);

 private:
  struct Member {  // one subject that holds or fires
    // It began to hold, and held last. While it waits, time in which it was not known moves both.
    Micros since = 0, held = 0;
    Micros unknown = 0;   // since when it is not known, or pauses; 0 = it is
    Micros no_data = 0;   // since when it is not known for another reason than a pause; likewise
    Micros looked = 0;    // the last round that had it
    uint32_t row = 0;     // where it was in that round
    uint32_t holder = 0;  // Subjects::holders; 0 = not known
    std::string group;    // "" until it fires
    Who who;
    double value = 0, threshold = 0;
    std::vector<double> evidence;  // as OfRule::evidence
  };
  using Members = absl::flat_hash_map<uint64_t, Member>;
  // Which keys may be among a rule's members, from before the round: one bit says of most subjects
  // that they are not.
  class Marks {
   public:
    void Set(const Members& members) {
      bits_.reset();
      for (const auto& [key, member] : members) bits_.set(key % kBits);
    }
    bool MayHave(uint64_t key) const { return bits_[key % kBits]; }

   private:
    static constexpr size_t kBits = 1 << 13;
    std::bitset<kBits> bits_;
  };
  struct Group {
    std::string id;  // of its alert, which may be resolved
    std::vector<uint64_t> members;
  };
  struct OfRule {
    Members members;
    Marks marks;
    std::map<std::string, Group> groups;
    std::vector<Quantity> evidence;  // of the rule
  };
  enum class Holds : uint8_t { kYes, kNo, kUnknown, kGone, kPauses };  // kGone: not in the round

  void MoveTimes(Micros by);
  struct Block {  // some of a round's subjects of one kind
    const Subjects& subjects;
    size_t first = 0;  // in the round
  };
  void RunRule(size_t rule, const Round& round, const Block& block);
  // Members that this round did not have.
  void LookForMissing(size_t rule, Micros ts);
  Holds HoldsOf(const Rule& rule, const Subjects& subjects, size_t row) const;
  void Hold(size_t rule, const Round& round, const Block& block, size_t row, Member* member);
  // A rule about new XIDs is about who had the GPU when one came; the others, who has it now.
  static Whose WhoseOf(const Rule& rule);
  static uint32_t HolderOf(const Rule& rule, const Subjects& subjects, size_t row);
  // What is told of a job ends with it: another holds the GPU now.
  bool ChangedHands(size_t rule, const Subjects& subjects, size_t row, Member* member);
  // Whether what does not hold (kNo), pauses or is not known has been so for long enough to count;
  // keeps the times of the latter two.
  static bool Counts(const Rule& rule, Holds holds, Micros ts, Member* member);
  // True: it is over, and the member goes.
  bool DoesNotHold(size_t rule, uint64_t key, Member* member, Holds holds, Micros ts);
  void Fire(size_t rule, uint64_t key, Member* member, const Round& round);
  Alert Begun(size_t rule, const Member& member, std::string_view id, std::string_view name) const;
  Alert* Open(size_t rule, const Member& member, std::string_view name, Micros ts, Group* group);
  void Leave(size_t rule, uint64_t key, const Member& member, Micros ts, std::string_view why);
  void Show(size_t rule, const Member& member, Micros ts, Alert* alert) const;
  void Resolve(Alert* alert, Micros ts, std::string_view why);
  void Tell(Micros ts);
  void Forget(Micros ts);
  bool Enqueue(const Alert& alert, std::string_view what);
  Status ReadRule(const Json& json);

  std::vector<Rule> rules_;
  const EngineOptions options_;
  std::vector<OfRule> state_;                           // by rule
  std::map<std::string, Alert, std::less<>> alerts_;    // by id: open, and lately resolved
  absl::flat_hash_map<std::string, std::string> told_;  // id: what was told last
  std::deque<Transition> outbox_;
  std::vector<alerts::Silence> silences_;
  Micros begun_ = 0;        // the first round; 0 = there was none
  bool has_state_ = false;  // it goes on from one: no grace
  bool changed_ = false;
  EngineStats stats_;
  std::vector<double> holds_, works_, values_, thresholds_;  // of the block
};

}  // namespace flopwatch::alerts
