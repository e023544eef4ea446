#include "history/tsdb_block.h"

#include <algorithm>
#include <cmath>

#include "base/crc32c.h"
#include "base/json_read.h"
#include "base/text.h"
#include "history/series_filter.h"

namespace flopwatch::history {
namespace {

using telemetry::ChunkSample;
using telemetry::MetricPoint;
using telemetry::MetricSeries;

constexpr uint32_t kChunksMagic = 0x85bd40dd, kTombstonesMagic = 0x0130ba30;
constexpr size_t kChunksHead = 8, kTombstonesHead = 5, kCrcBytes = 4;
// 65,535 samples of 20 bytes.
constexpr uint64_t kMaxChunkBytes = 4 << 20;
constexpr size_t kUsualChunkBytes = 1024;
constexpr size_t kMaxOpenChunkFiles = 64;
// Kept from window to window: places of so many series, and samples of the chunks that reach into
// the next window; each about 64 MB. What is beyond is read again.
constexpr uint64_t kMaxKeptSeries = 300'000, kMaxKeptSamples = 3'000'000;
constexpr uint64_t kMaxParents = 10'000;

bool IsIn(const std::vector<std::pair<int64_t, int64_t>>& spans, int64_t ms) {
  const auto after =
      std::ranges::upper_bound(spans, ms, {}, [](const auto& span) { return span.first; });
  return after != spans.begin() && std::prev(after)->second >= ms;
}

}  // namespace

StatusOr<BlockMeta> ParseBlockMeta(std::string_view json) {
  auto parsed = Json::Parse(json, {.what = "it"});
  if (!parsed.ok() || !parsed->is_object()) return DataLoss("it is no JSON object");
  const Json& root = *parsed;
  BlockMeta meta;
  meta.ulid = root["ulid"].text();
  const auto min = root["minTime"].integer(), max = root["maxTime"].integer();
  // In the years from 1970 to 5138: microseconds of it fit 64 bits.
  constexpr int64_t kLatest = 100'000'000'000'000;
  if (!min || !max || *min < 0 || *max < *min || *max > kLatest)
    return DataLoss("it says no credible time");
  if (root["version"].integer_or(0) != 1)
    return DataLoss("its block is of version {}; 1 is read", root["version"].integer_or(0));
  meta.min_ms = *min;
  meta.max_ms = *max;
  meta.deletable = root["compaction"]["deletable"].boolean();
  for (const Json& parent : root["compaction"]["parents"].array()) {
    if (meta.parents.size() == kMaxParents) break;
    meta.parents.push_back(parent["ulid"].text());
  }
  const Json& thanos = root["thanos"];
  meta.downsampled_ms = thanos["downsample"]["resolution"].integer_or(0);
  for (const auto& [name, value] : thanos["labels"].object()) {
    if (!name.starts_with("__") && meta.external.size() < telemetry::kMaxWireLabels)
      meta.external.emplace_back(name, value.text());
  }
  return meta;
}

StatusOr<Tombstones> ParseTombstones(std::string_view file) {
  Tombstones stones;
  if (file.empty()) return stones;
  if (file.size() < kTombstonesHead + kCrcBytes || BigEndian32(file.data()) != kTombstonesMagic)
    return DataLoss("they are none");
  if (file[4] != 1)
    return DataLoss("they are of version {}; 1 is read", static_cast<uint8_t>(file[4]));
  const std::string_view body =
      file.substr(kTombstonesHead, file.size() - kTombstonesHead - kCrcBytes);
  if (!IsChecksum(Crc32c(body), body.data() + body.size()))
    return DataLoss("their checksum is wrong");
  ByteReader in(body);
  while (in.at() < body.size()) {
    const uint64_t series = in.Uvarint();
    const int64_t min = in.Varint(), max = in.Varint();
    if (!in.ok() || series > UINT32_MAX) return DataLoss("they end in the middle");
    if (min > max) return DataLoss("a deleted time ends before it begins");
    stones[static_cast<uint32_t>(series)].emplace_back(min, max);
  }
  for (auto& [series, spans] : stones) {  // sorted and apart, to be searched
    std::ranges::sort(spans);
    size_t last = 0;
    for (const auto& span : spans) {
      if (span.first > spans[last].second) {
        spans[++last] = span;
      } else {
        spans[last].second = std::max(spans[last].second, span.second);
      }
    }
    spans.resize(last + 1);
  }
  return stones;
}

// A series that the selector takes, and how far it was read.
struct Block::Series {
  uint32_t number = 0;
  std::vector<std::pair<uint32_t, uint32_t>> labels;
  ChunkCursor begin, next;
  // Chunks that end by then are behind, and no longer in `ahead`.
  int64_t behind_ms = INT64_MIN;
  std::vector<ChunkPlace> ahead;
  // Of the chunk that the last window ended in.
  std::vector<ChunkSample> kept;
  uint64_t kept_ref = 0;
};

Block::Block(BlockMeta meta, BlockFiles files) : meta_(std::move(meta)), files_(std::move(files)) {}
Block::~Block() = default;

StatusOr<std::unique_ptr<Block>> Block::Open(BlockMeta meta, BlockFiles files) {
  std::unique_ptr<Block> block(new Block(std::move(meta), std::move(files)));
  auto stones = ParseTombstones(block->files_.tombstones);
  if (!stones.ok()) return Annotate(stones.status(), "tombstones");
  block->tombstones_ = *std::move(stones);
  block->files_.tombstones.clear();
  auto index = TsdbIndex::Open(std::move(block->files_.index));
  if (!index.ok()) return Annotate(index.status(), "index");
  block->index_ = *std::move(index);
  return block;
}

MetricSeries Block::LabelsOf(const std::vector<std::pair<uint32_t, uint32_t>>& labels) const {
  MetricSeries series;
  for (const auto& [name, value] : labels) series.Add(index_->text(name), index_->text(value));
  for (const auto& [name, value] : meta_.external)
    if (series.Label(name).empty()) series.Add(name, value);
  return series;
}

StatusOr<Block::SeriesList> Block::Load(const Selector& selector) {
  FW_ASSIGN_OR_RETURN(const SeriesFilter filter, SeriesFilter::Of(selector.matchers));
  FW_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers, index_->SeriesOf(selector.metric));
  SeriesList list;
  for (const uint32_t number : numbers) {
    FW_ASSIGN_OR_RETURN(TsdbIndex::Entry entry, index_->ReadSeries(number));
    // Nothing of a GPU has so many, and no other way takes it.
    if (entry.too_many_labels) continue;
    const MetricSeries labels = LabelsOf(entry.labels);
    if (labels.name != selector.metric) return DataLoss("postings name a series of another metric");
    if (!filter.Takes(labels)) continue;
    Series& series = list.emplace_back();
    series.number = number;
    series.labels = std::move(entry.labels);
    series.begin = series.next = entry.chunks;
  }
  return list;
}

Status Block::Advance(Series* series, int64_t from_ms, int64_t to_ms) const {
  if (from_ms < series->behind_ms) {  // asked for again
    series->next = series->begin;
    series->ahead.clear();
  }
  series->behind_ms = from_ms;
  std::erase_if(series->ahead, [&](const ChunkPlace& place) { return place.max_ms <= from_ms; });
  if (!series->ahead.empty() && series->ahead.back().max_ms > to_ms) return absl::OkStatus();
  return index_->VisitChunks(&series->next, [&](const ChunkPlace& place) {
    if (place.max_ms > from_ms) series->ahead.push_back(place);
    return place.max_ms <= to_ms;
  });
}

StatusOr<const ByteFile*> Block::ChunkFile(uint32_t number) {
  const auto open = open_chunks_.find(number);
  if (open != open_chunks_.end()) return open->second.get();
  FW_ASSIGN_OR_RETURN(std::unique_ptr<ByteFile> file, files_.chunks(number));
  char head[kChunksHead];
  FW_RETURN_IF_ERROR(file->Read(0, sizeof head, head));
  if (BigEndian32(head) != kChunksMagic) return DataLoss("it holds no chunks");
  if (head[4] != 1) return DataLoss("it is of an unknown version");
  if (open_chunks_.size() >= kMaxOpenChunkFiles) open_chunks_.clear();
  return open_chunks_.emplace(number, std::move(file)).first->second.get();
}

Status Block::ReadChunk(const ChunkPlace& place) {
  samples_.clear();
  const uint64_t number = (place.ref >> 32) + 1, at = place.ref & UINT32_MAX;
  auto file = ChunkFile(static_cast<uint32_t>(number));
  if (!file.ok()) return Annotate(file.status(), fmt::format("file of chunks {:06}", number));
  const uint64_t size = (*file)->size();
  if (at >= size) return DataLoss("a chunk is beyond the end of its file");
  chunk_.resize(std::min<uint64_t>(kUsualChunkBytes, size - at));
  FW_RETURN_IF_ERROR((*file)->Read(at, chunk_.size(), chunk_.data()));
  ByteReader head(chunk_);
  // Of the data: the byte of the encoding is before it.
  const uint64_t length = head.Uvarint(), begin = head.at();
  if (!head.ok() || length > kMaxChunkBytes || begin + 1 + length + kCrcBytes > size - at)
    return DataLoss("a chunk goes on beyond the end of its file, or is too long");
  const size_t whole = begin + 1 + length + kCrcBytes;
  if (whole > chunk_.size()) {
    chunk_.resize(whole);
    FW_RETURN_IF_ERROR((*file)->Read(at, whole, chunk_.data()));
  }
  bytes_ += whole;
  const std::string_view body = std::string_view(chunk_).substr(begin, 1 + length);
  if (!IsChecksum(Crc32c(body), chunk_.data() + begin + 1 + length))
    return DataLoss("a chunk's checksum is wrong");
  FW_RETURN_IF_ERROR(
      telemetry::DecodeChunk(static_cast<uint8_t>(body[0]), body.substr(1), &samples_));
  for (size_t k = 0; k < samples_.size(); ++k) {
    const int64_t before = k == 0 ? place.min_ms : samples_[k - 1].millis;
    if (samples_[k].millis < before || samples_[k].millis > place.max_ms)
      return DataLoss("a chunk's samples are not of the time that the index says");
  }
  return absl::OkStatus();
}

void Block::Append(const Series& series, const std::vector<ChunkSample>& samples, int64_t from_ms,
                   int64_t to_ms, std::vector<MetricPoint>* points) const {
  const auto deleted = tombstones_.find(series.number);
  const auto first = std::ranges::upper_bound(samples, from_ms, {}, &ChunkSample::millis);
  for (auto s = first; s != samples.end() && s->millis <= to_ms; ++s) {
    if (s->stale || !std::isfinite(s->value)) continue;
    if (deleted != tombstones_.end() && IsIn(deleted->second, s->millis)) continue;
    points->push_back({s->millis * kMicrosPerMilli, s->value});
  }
}

Status Block::Read(const Selector& selector, int64_t from_ms, int64_t to_ms, Give give,
                   Damage damage) {
  const std::string key = selector.Text();
  auto known = series_.find(key);
  SeriesList own;  // too many to be kept
  if (known == series_.end()) {
    FW_ASSIGN_OR_RETURN(own, Load(selector));
    if (kept_series_ + own.size() <= kMaxKeptSeries) {
      kept_series_ += own.size();
      known = series_.emplace(key, std::move(own)).first;
    }
  }
  const uint64_t may_keep = known == series_.end() ? 0 : kMaxKeptSamples;
  uint64_t samples = 0;
  for (Series& series : known == series_.end() ? own : known->second) {
    FW_RETURN_IF_ERROR(Advance(&series, from_ms, to_ms));
    if (series.ahead.empty() || series.ahead.front().min_ms > to_ms) continue;
    MetricSeries out = LabelsOf(series.labels);
    for (const ChunkPlace& place : series.ahead) {
      if (place.min_ms > to_ms) break;
      if (!series.kept.empty() && series.kept_ref == place.ref) {
        Append(series, series.kept, from_ms, to_ms, &out.points);
        continue;
      }
      const Status read = ReadChunk(place);
      if (!read.ok()) {
        damage(place.min_ms, place.max_ms, MessageOf(read));
        continue;
      }
      Append(series, samples_, from_ms, to_ms, &out.points);
      kept_samples_ -= series.kept.size();
      series.kept.clear();
      if (place.max_ms > to_ms && kept_samples_ + samples_.size() <= may_keep) {
        series.kept.assign(samples_.begin(), samples_.end());
        series.kept_ref = place.ref;
        kept_samples_ += samples_.size();
      }
    }
    samples += out.points.size();
    if (samples > kMostSamplesOfARead)
      return ResourceExhausted("more samples than are read at once");
    if (!out.points.empty()) give(out);
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::history
