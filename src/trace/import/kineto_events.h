// The events of a Kineto trace, from text to columns: what each worker of the importer runs over
// its piece of the file. Internal to import/.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trace/event_table.h"
#include "trace/import/json_scan.h"
#include "trace/import/kineto_args.h"
#include "trace/import/kineto_categories.h"
#include "trace/import/kineto_losses.h"

namespace flopwatch::trace {

inline constexpr size_t kMaxKinetoThreads = 65'536;
inline constexpr size_t kMaxKinetoText = 256 << 10;  // of one name or list
inline constexpr uint64_t kMaxKinetoTextTotal = uint64_t{1}
                                                << 30;  // of all distinct names of a file
inline constexpr size_t kMaxKinetoNames = 32 << 20;
inline constexpr Nanos kMaxKinetoDuration = Nanos{7} * 24 * 3600 * 1'000'000'000;

// What one piece of text gave. Name and thread ids are the parser's own.
struct KinetoBatch {
  struct Flow {  // one end of an arrow from a forward operator ("s") to its backward operator ("f")
    int64_t id = 0;
    Nanos ts = 0;
    uint32_t thread = 0;
    bool start = false;
  };
  struct Label {  // a metadata event ("M")
    enum Kind : uint8_t { kProcessName, kProcessLabel, kThreadName } kind = kProcessName;
    uint32_t thread = 0;
    NameId text = kNoName;
  };

  RankTrace rows;  // events, details, counters and memory; nothing else
  std::vector<Flow> flows;
  std::vector<Label> labels;
  KinetoLossCounts losses{};
  uint64_t entries = 0;  // of traceEvents, kept or not
  // What was new to the parser in this batch, in order of its ids: names from `first_name` on,
  // threads from `first_thread` on.
  NameId first_name = 0;
  std::vector<std::string_view> names;
  uint32_t first_thread = 0;
  std::vector<Thread> threads;

  void Count(KinetoLoss loss, int64_t n = 1) { losses[static_cast<size_t>(loss)] += n; }
  void Clear();  // keeps the memory
};

// A thread as a file names it: numbers where they are numbers, else text.
struct ThreadKey {
  int64_t pid, tid;
  NameId pid_text, tid_text;
  friend bool operator==(const ThreadKey&, const ThreadKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ThreadKey& k) {
    return H::combine(std::move(h), k.pid, k.tid, k.pid_text, k.tid_text);
  }
};

// One thread. Its names and threads grow from batch to batch; texts given out in batches stay where
// they are.
class KinetoEventParser {
 public:
  KinetoEventParser();

  enum class Stop : uint8_t {
    kSplit,     // `at` is where an event starts, at or behind `split`
    kArrayEnd,  // `at` is behind the bracket that closes the events
    kCut,       // the text from `at` on has to be read again together with what comes behind `end`
  };
  struct Parsed {
    Stop stop = Stop::kCut;
    const char* at = nullptr;
    bool need_comma = false;  // `at` is right behind an entry
  };
  // Reads events from `p`, where one starts (spaces and a comma may come first), until one would
  // start at or behind `split`. `end` is the end of the text, kJsonPadding readable bytes behind
  // it; `last`: and of the file, so that a broken event is given up instead of waited for.
  Parsed Parse(const char* p, bool need_comma, const char* split, const char* end, bool last,
               KinetoBatch* batch);

 private:
  struct Value {
    enum Kind : uint8_t { kEmpty, kBare, kString, kNested } kind = kEmpty;
    uint32_t flags = 0;  // StringFlags
    const char* begin = nullptr;
    const char* end = nullptr;
    std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
  };
  struct Member {
    std::string_view key;
    Value value;
  };
  struct CategoryEntry {
    std::string text;
    KinetoCategory meaning;
    NameId name = kNoName;
  };

  ScanResult ReadValue(const char** p, const char* end, Value* value);
  ScanResult ExtendString(const char** p, const char* end, Value* value);
  template <typename OnMember>
  ScanResult ReadMembers(const char** p, const char* end, OnMember on_member);
  ScanResult ReadEvent(const char** p, const char* end);
  // The members of args of the event at hand that no Arg stands for, and the others: for those
  // whose names are data.
  const std::vector<Member>& AllArgs();

  void Store();
  void StoreComplete();
  void StoreInstant();
  void StoreCounter();
  void StoreFlow(bool start);
  void StoreLabel();
  uint32_t StoreKernel();
  uint32_t StoreCopy();
  uint32_t StoreOp();
  uint32_t StoreSync();
  uint32_t StorePython();
  uint32_t StoreCollective();
  void StoreRangeMetrics(Row row);

  bool Has(Arg arg) const { return (seen_args_ >> static_cast<int>(arg) & 1) != 0; }
  bool HasAny(std::initializer_list<Arg> args) const;
  const Value& ArgValue(Arg arg) const { return args_[static_cast<size_t>(arg)]; }
  bool Has(EventKey key) const { return (seen_keys_ >> static_cast<int>(key) & 1) != 0; }
  const Value& KeyValue(EventKey key) const { return keys_[static_cast<size_t>(key)]; }
  bool Time(EventKey key, Nanos* out);
  bool Integer(const Value& value, int64_t* out);
  static bool Number(const Member& member, double* out);
  int64_t IntegerOr(Arg arg, int64_t fallback);
  int32_t SmallOr(Arg arg, int32_t fallback);
  double DoubleOr(Arg arg, double fallback);
  void Triple(Arg arg, int32_t out[3]);
  NameId Text(const Value& value);
  NameId TextOf(Arg arg) { return Has(arg) ? Text(ArgValue(arg)) : kNoName; }
  NameId Intern(std::string_view text);
  const CategoryEntry& CategoryOf();
  uint32_t ThreadOf();
  void CountBare(const Value& value);

  StringPool names_;
  NameId forward_backward_name_;
  NameId given_names_ = 0;  // of which batches told
  uint32_t given_threads_ = 0;
  std::vector<CategoryEntry> categories_;
  size_t last_category_ = 0;
  absl::flat_hash_map<ThreadKey, uint32_t> thread_ids_;
  std::vector<Thread> threads_;
  ThreadKey last_key_{};
  uint32_t last_thread_ = 0;
  std::string scratch_;
  KinetoBatch* batch_ = nullptr;

  // The event at hand.
  uint32_t seen_keys_ = 0;
  uint64_t seen_args_ = 0;
  std::array<Value, static_cast<size_t>(EventKey::kCount)> keys_;
  std::array<Value, static_cast<size_t>(Arg::kCount)> args_;
  Value all_args_;  // from its opening brace; begin == nullptr: none
  std::vector<Member> all_members_;
};

}  // namespace flopwatch::trace
