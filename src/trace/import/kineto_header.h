// What a Kineto file says besides its events: the members of its root object, which may stand
// before and behind them. Internal to import/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trace/event_table.h"
#include "trace/import/kineto_losses.h"

namespace flopwatch::trace {

// One member of the root; a longer one is left out with a count.
inline constexpr size_t kMaxKinetoMember = 32 << 20;
inline constexpr int kMaxKinetoLongMembers = 4;         // then the rest of the file is given up
inline constexpr size_t kMaxKinetoMetadata = 64;        // scalars that are kept, and
inline constexpr size_t kMaxKinetoMetadataText = 4096;  // bytes of one

// Reads the root's members piece by piece, in whatever order they come. One thread.
class KinetoHeader {
 public:
  enum class Stop : uint8_t {
    kEvents,  // `at` is behind the [ of the events
    // The text ends inside the member that starts at `at`: call again with more text from there.
    kMore,
    kEnd,      // the root is closed, or the file is over
    kNoTrace,  // the text is no object and no list
  };
  struct Read {
    Stop stop;
    const char* at;
  };
  // `p` is the file's first byte, or what an earlier call or the end of the events left;
  // kJsonPadding bytes readable behind `end`; `last`: the file ends at `end`. A member that is no
  // JSON is passed over, up to the next line that starts with one.
  Read Parse(const char* p, const char* end, bool last, RankTrace* trace, KinetoLossCounts* losses);

  // Nanoseconds since the epoch that event times are relative to.
  std::optional<int64_t> base_time() const { return base_time_; }
  bool events_seen() const { return events_seen_; }

 private:
  void Member(std::string_view key, std::string_view value, bool is_string, RankTrace* trace,
              KinetoLossCounts* losses);

  bool opened_ = false, list_ = false, events_seen_ = false;
  bool lost_ = false;  // behind something that is no JSON, and no member found yet
  int long_members_ = 0;
  std::optional<int64_t> base_time_;
};

}  // namespace flopwatch::trace
