// The label-sequence cache: what series a target sent, in which order, as 16 bytes each. Internal
// to the decoder.
//
// A line is recognised without a search for its newline and without a look at its labels. The bytes
// before its value are its metric name, known by its hash, and the rest, compared with the text
// kept once for all the metrics of a GPU; a series whose labels no other one shares (a link, a
// node-exporter's) is known by the hash of both.
//
// Series lie grouped by metric name, in the order of the body they were learned from; each group
// has its own cursor and remembers which group came after it. So groups in another order cost one
// look-up by name each, and so do the lines of a body that interleaves its groups.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace flopwatch::telemetry {

// One cached series.
struct Series {
  uint64_t hash = 0;           // of the bytes before the value
  uint16_t prefix_length = 0;  // how many they are
  uint16_t spelling = 0;       // what the value is: FieldMatch::spelling, or a mark below
  uint16_t label_set = 0;      // of a wide series: whose it is (EntityTable)
  uint16_t name_and_mode =
      0;  // length of the metric name; kByText = what follows it is the label set's text

  static constexpr uint16_t kByText = 0x8000;
  static constexpr size_t kMaxNameLength = 0x7fff;
  uint16_t name_length() const { return name_and_mode & kMaxNameLength; }
  bool by_text() const { return (name_and_mode & kByText) != 0; }
};
static_assert(sizeof(Series) == 16);

inline constexpr uint16_t kNarrow = 0xffff;
inline constexpr uint16_t kNarrowWithoutIdentity = 0xfffe;  // a GPU metric that names no GPU
inline constexpr uint16_t kNarrowFieldLimit =
    0xfffd;  // a GPU metric without a column; never cached
inline bool IsNarrow(const Series& s) { return s.spelling >= kNarrowFieldLimit; }

inline uint64_t HashBytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

class SequenceCache {
 public:
  // Remembers at most `max_series` series of one scrape. `texts`: by label set, the bytes between
  // name and value.
  SequenceCache(size_t max_series, const std::vector<std::string_view>* texts);

  void BeginScrape();

  // Index of the series expected at the current line; an index that matches nothing when none is.
  uint32_t expected() const { return at_; }
  const Series& series(uint32_t index) const { return series_[index]; }
  // Whether that series starts at p; at least one byte follows it before `limit`.
  bool ExpectedStartsAt(const char* p, const char* limit) const {
    const Series& s = series_[at_];
    if (static_cast<size_t>(limit - p) <= s.prefix_length) return false;
    if (!s.by_text()) return XXH3_64bits(p, s.prefix_length) == s.hash;
    const size_t name_length = s.name_length();
    const std::string_view text = (*texts_)[s.label_set];
    return std::memcmp(p + name_length, text.data(), text.size()) == 0 &&
           XXH3_64bits(p, name_length) == name_hash_;
  }
  // The expected series was at the current line: on to the next one.
  void Advance() {
    if (++at_ == end_) LeaveGroup();
  }

  // Where the expected series is not at the current line, it expects the metric's group, at its
  // cursor. False = no change.
  bool ExpectGroupOf(std::string_view metric_name);
  // Then expects the series of the current group with exactly this prefix, nearest ahead first.
  // False = not near.
  bool ExpectPrefix(std::string_view prefix);

  // A series the cache does not know stood at the current line.
  void Learn(const Series& series, std::string_view metric_name);
  bool learned_any() const { return !learned_->empty(); }
  // Where something was learned, the series of this scrape for which `keep` holds, in their order,
  // become the cache.
  void EndScrape(absl::FunctionRef<bool(const Series&)> keep);

  // Forgets all.
  void Clear();

  size_t bytes() const;

 private:
  struct Group {
    uint64_t name_hash = 0;
    uint32_t begin = 0, end = 0;  // in series_
    uint32_t cursor = 0;          // next expected one of this group in this scrape
    uint32_t next = 0;            // group that came after this one last time
  };
  struct Learned {
    Series series;
    uint64_t name_hash = 0;
  };
  // Open addressing over group indices: 4 bytes an entry instead of a hash map per target.
  class NameTable {
   public:
    void Reset(size_t groups);
    void Prefetch() const;
    uint32_t* Find(uint64_t name_hash,
                   const std::vector<Group>& groups);  // its entry, kNoGroup where it is free
    size_t bytes() const { return entries_.capacity() * sizeof(uint32_t); }

   private:
    std::vector<uint32_t> entries_;
  };

  static constexpr uint32_t kNoGroup = ~uint32_t{0};
  // Series looked at on each side of the cursor before a line is new: bounds a hostile order.
  static constexpr uint32_t kSearchWindow = 128;

  // Series of the body one after the other: [begin, end) of series_, or of learned_.
  struct Run {
    uint32_t begin = 0, end = 0;
    bool learned = false;
  };

  void LeaveGroup();
  void Enter(uint32_t group);
  void MoveTo(uint32_t index);
  void CloseRun();
  uint32_t guard() const { return static_cast<uint32_t>(series_.size() - 1); }

  size_t max_series_;
  std::vector<Series> series_;  // by group; the last one is a guard that matches nothing
  std::vector<Group> groups_;
  NameTable names_;
  const std::vector<std::string_view>* texts_;
  uint32_t at_ = 0, end_ = 0;
  uint32_t run_begin_ = 0;  // of the run that at_ ends
  uint64_t name_hash_ = 0;  // of the current group
  uint32_t group_ = kNoGroup;
  uint32_t left_ = kNoGroup;  // the group whose end led here
  // What this scrape held, in its order. Shared by all decoders of a thread: only one of them
  // decodes at a time.
  std::vector<Run>* order_ = nullptr;
  std::vector<Learned>* learned_ = nullptr;
  size_t lines_ = 0;  // in the runs of order_
};

}  // namespace flopwatch::telemetry
