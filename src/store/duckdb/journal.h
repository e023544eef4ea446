// The journal: what was acknowledged and is not yet in a segment. One append-only file,
// hot/journal-GENERATION.log; when a segment has taken its rows in (one transaction that also
// records the generation), the file goes and the next begins.
//
// A frame: 4 bytes magic, 4 bytes kind, 8 bytes length, 8 bytes XXH3 of what follows, 8 bytes
// arrival in microseconds, then StagedRows::Encode(), then zeros up to the next 4096 bytes. All
// little-endian, like everything flopwatch runs on. A frame is acknowledged after its fsync; one
// that is not whole was not, and ends the file.
//
// Frames go to the disk past the page cache, where the file system can: nobody reads them back but
// after a kill, and each page of the cache that they pass through has to be found, cleared of
// others and given back.
//
// Kinds: 0, rows of a flush. 1, rows carried over: what a segment left of an earlier journal
// because it takes whole row groups only. They are in that journal too, so they count only when a
// segment has that one; 8 bytes, its generation, come first. Rows of a journal therefore come in
// with those of later ones in one transaction, or not at all.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch::store::duck {

class Journal {
 public:
  static StatusOr<std::unique_ptr<Journal>> Create(const std::string& directory,
                                                   uint64_t generation);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Returns after the frame is on disk. After an error the file is as it was before; where even
  // that cannot be had, every later call fails too. ResourceExhausted when the disk is full.
  Status Append(Micros arrival, std::string_view payload);
  // Rows that are in the journal of an earlier generation as well.
  Status AppendCarried(Micros arrival, std::string_view payload, uint64_t from);

  uint64_t generation() const { return generation_; }
  uint64_t bytes() const { return bytes_; }
  bool broken() const { return fd_ < 0; }  // takes nothing more

 private:
  Journal() = default;
  // The payload is `first` and then `rest`.
  Status Write(Micros arrival, std::string_view first, std::string_view rest, uint32_t kind);
  std::string_view Frame(Micros arrival, std::string_view first, std::string_view rest,
                         uint32_t kind);  // in buffer_
  bool UseCache();                        // from now on; false = it does already

  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> buffer_;  // aligned as the disk wants it
  size_t capacity_ = 0;
  std::string path_;
  uint64_t generation_ = 0;
  uint64_t bytes_ = 0;
  int fd_ = -1;
};

std::string JournalPath(const std::string& directory, uint64_t generation);
// Where a damaged file is kept: no journal any more.
std::string DamagedJournalPath(const std::string& directory, uint64_t generation);
// Generations of the files there are, in order.
std::vector<uint64_t> FindJournals(const std::string& directory);
// What of a file is no whole frame.
struct JournalGaps {
  // From the last whole frame to the end: of a kill in the middle of a write, or of damage to what
  // came last.
  uint64_t tail_bytes = 0;
  // Before a whole frame: acknowledged, and damaged since.
  uint64_t damaged_bytes = 0;
  // Arrivals of the whole frames around what is damaged, 0 = there is none before it.
  Micros damaged_after = 0, damaged_before = 0;
};
// Every whole frame of a file in order; `from` is the generation rows were carried over from, or 0.
// After one that is not whole the next is looked for at each block. Errors: the file cannot be
// read, or those of `frame`.
StatusOr<JournalGaps> ReadJournal(
    const std::string& path,
    absl::FunctionRef<Status(Micros arrival, std::string_view payload, uint64_t from)> frame);

}  // namespace flopwatch::store::duck
