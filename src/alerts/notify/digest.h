// What waits for a person's digest, in a file of its own: a line of JSON for each thing that
// happened, on disk before the call returns. Reading the file again gives the same book, whenever
// the process was killed: what had not been written whole had not been acknowledged.
//
// A digest is one person's of one day. It is open until it is closed, which is written before it is
// sent: from then on it does not change, so that one that is sent twice (a kill between sending and
// noting) is the same mail with the same Message-ID. What comes later is the next day's.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/civil_time.h"
#include "alerts/rule.h"
#include "base/json_read.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch::alerts {

inline constexpr size_t kMostOfDigest = 500;  // alerts of one; more are counted
inline constexpr size_t kMostDigests = 5'000;
inline constexpr size_t kMostDigestKeys = 50'000;
// A transition that was taken is known for so long: it may come again after a kill.
inline constexpr Micros kKeysKnown = 3 * kMicrosPerDay;

struct DigestEntry {
  std::string key;    // of the transition
  std::string alert;  // its id: a later transition of one alert takes the place of the earlier
  Severity severity = Severity::kTicket;
  bool over = false;
  std::string title, text;
  Micros at = 0;  // when it was taken
};
struct Digest {
  std::string to;
  absl::CivilDay day;
  bool closed = false;
  std::vector<DigestEntry> entries;
  uint64_t more = 0;  // that there was no room for

  // The same for the same content, of letters, digits, dots and hyphens.
  std::string Id() const;
};

class DigestBook {
 public:
  // `file` "": nothing outlives the book. `others`: whose digest counts what there is no digest for
  // (more than kMostDigests). DataLoss, Unavailable: the file is there and cannot be read; it is
  // left as it is.
  static StatusOr<DigestBook> Open(std::string file, std::string others, Micros now);
  DigestBook(DigestBook&& other) noexcept;  // the file is the new one's
  DigestBook& operator=(DigestBook&&) = delete;
  ~DigestBook();

  // A transition that waits or was mailed, here or at once.
  bool Knows(const std::string& key) const { return known_.contains(key); }
  const std::map<std::pair<absl::CivilDay, std::string>, Digest>& digests() const {
    return digests_;
  }

  // The next four are on disk when they return OK. Unavailable: they did not happen.
  // Into the digest of `day`, or of the next day whose is not closed.
  Status Add(const std::string& to, absl::CivilDay day, const DigestEntry& entry);
  Status Close(const std::string& to, absl::CivilDay day, Micros now);
  Status Sent(const std::string& to, absl::CivilDay day, Micros now);
  Status Mailed(const std::string& key, Micros now);

 private:
  DigestBook(std::string file, std::string others)
      : file_(std::move(file)), others_(std::move(others)) {}
  Status Write(const std::string& line, Micros now);
  Status Apply(const Json& line);
  Status Compact(Micros now);
  std::string Whole() const;
  const Digest* FirstOpen(const std::string& to, absl::CivilDay* day) const;

  std::string file_, others_;
  int fd_ = -1;
  uint64_t bytes_ = 0, compacted_bytes_ = 0;
  std::map<std::pair<absl::CivilDay, std::string>, Digest> digests_;
  absl::flat_hash_map<std::string, Micros> known_;  // when it was mailed; 0 = it waits
  size_t waiting_ = 0;                              // of them, those that wait
};

}  // namespace flopwatch::alerts
