// The index of a block of Prometheus' data folder: which series there are, and where their chunks
// lie. Versions 2 and 3, which differ in nothing that is read here. What is kept in memory is the
// names of metrics, the place of every 32nd symbol, and the symbols that were asked for. Checksums
// of everything that is read are checked; all errors are DataLoss but where said. One thread.
// Source: prometheus/prometheus tsdb/docs/format/index.md, tsdb/index/index.go.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "history/tsdb_bytes.h"

namespace flopwatch::history {

// Where a chunk is, and of which time: both ends inclusive, milliseconds since 1970.
struct ChunkPlace {
  int64_t min_ms = 0, max_ms = 0;
  uint64_t ref = 0;  // number of the file from 0 (the upper 32 bits), offset in it
};

// The places of a series' chunks, in order of time, one after the other: what is to be read next.
struct ChunkCursor {
  uint64_t at = 0, end = 0;  // in the index
  uint32_t left = 0;
  bool first = true;
  ChunkPlace last;  // from which the next is told
};

class TsdbIndex {
 public:
  // Unimplemented: an index of another version.
  static StatusOr<std::unique_ptr<TsdbIndex>> Open(std::unique_ptr<ByteFile> file);

  // Sorted.
  const std::vector<std::pair<std::string, uint64_t>>& metrics() const { return metrics_; }
  // The numbers of a metric's series, ascending.
  StatusOr<std::vector<uint32_t>> SeriesOf(std::string_view metric) const;

  struct Entry {
    std::vector<std::pair<uint32_t, uint32_t>> labels;  // names and values, for text()
    bool too_many_labels = false;                       // they are left out
    ChunkCursor chunks;
  };
  StatusOr<Entry> ReadSeries(uint32_t number);
  const std::string& text(uint32_t place) const { return texts_[place]; }

  // Calls f with the places that follow until it says false, which it does of one that it takes
  // too. The index was checked by ReadSeries(); what cannot be is an error all the same.
  template <typename F>
  Status VisitChunks(ChunkCursor* cursor, F f) const {
    char buffer[kPlacesBytes];
    while (cursor->left > 0) {
      const size_t bytes = cursor->end - cursor->at < sizeof buffer
                               ? static_cast<size_t>(cursor->end - cursor->at)
                               : sizeof buffer;
      FW_RETURN_IF_ERROR(file_->Read(cursor->at, bytes, buffer));
      const std::string_view places(buffer, bytes);
      size_t used = 0;
      for (bool more = true; more && cursor->left > 0;) {
        const size_t taken = TakePlace(places.substr(used), cursor);
        if (taken == 0) break;  // cut by the buffer's end
        used += taken;
        more = f(cursor->last);
        if (!more) return absl::OkStatus();
      }
      if (used == 0) return DataLoss("a series' chunks cannot be where the index says");
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kPlacesBytes = 512;

  explicit TsdbIndex(std::unique_ptr<ByteFile> file) : file_(std::move(file)) {}
  Status ReadSymbols(uint64_t offset);
  Status ReadMetrics(uint64_t offset);
  // Where text() has it.
  StatusOr<uint32_t> Symbol(uint64_t number);
  // One place: how many bytes it takes, or 0 where it is none.
  static size_t TakePlace(std::string_view bytes, ChunkCursor* cursor);

  const std::unique_ptr<ByteFile> file_;
  uint64_t series_begin_ = 0;
  uint64_t symbols_ = 0, symbols_end_ = 0;
  std::vector<uint64_t> every_32nd_;  // where it begins
  std::vector<std::pair<std::string, uint64_t>> metrics_;
  absl::flat_hash_map<uint32_t, uint32_t> known_;  // places in texts_, by number
  std::deque<std::string> texts_;
  uint64_t text_bytes_ = 0;
};

}  // namespace flopwatch::history
