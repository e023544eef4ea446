// One block of Prometheus' data folder: the samples of some hours or weeks. Series are read metric
// by metric and window by window, forwards mostly: where a series was left, the next window goes
// on. One thread. Source: prometheus/prometheus tsdb/docs/format, tsdb/block.go, tsdb/tombstones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "history/history.h"
#include "history/tsdb_index.h"
#include "telemetry/chunk_decoder.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {

// meta.json.
struct BlockMeta {
  std::string ulid;
  int64_t min_ms = 0, max_ms = 0;    // the second exclusive
  std::vector<std::string> parents;  // blocks that it was made from
  bool deletable = false;            // to be deleted: it is empty
  // Labels of the Prometheus that a series of Thanos' or Mimir's block does not say itself.
  std::vector<std::pair<std::string, std::string>> external;
  int64_t downsampled_ms = 0;  // Thanos: aggregates of so long, not samples
};
// DataLoss: none, or not one that is understood.
StatusOr<BlockMeta> ParseBlockMeta(std::string_view json);

// Time of samples that were deleted, by the number of the series: both ends inclusive, in order,
// apart.
using Tombstones = absl::flat_hash_map<uint32_t, std::vector<std::pair<int64_t, int64_t>>>;
StatusOr<Tombstones> ParseTombstones(std::string_view file);

// The files of a block, wherever they are.
struct BlockFiles {
  std::unique_ptr<ByteFile> index;
  std::string tombstones;  // the whole file; "" for none
  std::function<StatusOr<std::unique_ptr<ByteFile>>(uint32_t)> chunks;  // by number, from 1
};

// More samples than a window may have at once.
inline constexpr uint64_t kMostSamplesOfARead = 4'000'000;

class Block {
 public:
  // DataLoss: index or tombstones are damaged; Unimplemented: an index of another version.
  static StatusOr<std::unique_ptr<Block>> Open(BlockMeta meta, BlockFiles files);
  ~Block();

  const BlockMeta& meta() const { return meta_; }
  const TsdbIndex& index() const { return *index_; }

  using Give = absl::FunctionRef<void(const telemetry::MetricSeries&)>;
  // Of a chunk that cannot be read: of which time, and why ("a chunk's checksum is wrong").
  using Damage = absl::FunctionRef<void(int64_t min_ms, int64_t max_ms, std::string_view reason)>;
  // Gives each series' samples with from_ms < time <= to_ms, in order of time, without markers,
  // what is no number, and what was deleted. Chunks that cannot be read are told of and left out.
  // DataLoss: the index is damaged. ResourceExhausted: more than kMostSamplesOfARead.
  Status Read(const Selector& selector, int64_t from_ms, int64_t to_ms, Give give, Damage damage);

  uint64_t bytes() const { return bytes_; }  // of chunks that were read

 private:
  struct Series;
  using SeriesList = std::vector<Series>;

  Block(BlockMeta meta, BlockFiles files);
  StatusOr<SeriesList> Load(const Selector& selector);
  telemetry::MetricSeries LabelsOf(const std::vector<std::pair<uint32_t, uint32_t>>& labels) const;
  // The places of the series' chunks that have to do with the window, into series->ahead.
  Status Advance(Series* series, int64_t from_ms, int64_t to_ms) const;
  // Samples of a chunk, into samples_.
  Status ReadChunk(const ChunkPlace& place);
  StatusOr<const ByteFile*> ChunkFile(uint32_t number);
  void Append(const Series& series, const std::vector<telemetry::ChunkSample>& samples,
              int64_t from_ms, int64_t to_ms, std::vector<telemetry::MetricPoint>* points) const;

  const BlockMeta meta_;
  BlockFiles files_;
  std::unique_ptr<TsdbIndex> index_;
  Tombstones tombstones_;
  std::map<std::string, SeriesList> series_;  // by selector
  uint64_t kept_series_ = 0, kept_samples_ = 0;
  std::map<uint32_t, std::unique_ptr<ByteFile>> open_chunks_;
  std::string chunk_;                            // its bytes; used again
  std::vector<telemetry::ChunkSample> samples_;  // of it
  uint64_t bytes_ = 0;
};

}  // namespace flopwatch::history
