#include "history/tsdb_index.h"

#include <algorithm>
#include <limits>

#include "base/crc32c.h"
#include "base/text.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {
namespace {

constexpr uint32_t kIndexMagic = 0xbaaad700;
constexpr size_t kIndexHead = 5, kContentsBytes = 52;
constexpr uint64_t kSymbolStep = 32;
// Of one name or value that is wanted, and of all of a block.
constexpr uint64_t kMaxSymbolBytes = 64 << 10, kMaxSymbolsBytes = 128 << 20;
constexpr uint64_t kMaxMetricNames = 1 << 20;
// A month of chunks of two samples takes a tenth.
constexpr uint64_t kMaxSeriesBytes = 4 << 20;
constexpr size_t kUsualSeriesBytes = 1024;
constexpr std::string_view kNameLabel = "__name__";

}  // namespace

StatusOr<std::unique_ptr<TsdbIndex>> TsdbIndex::Open(std::unique_ptr<ByteFile> file) {
  const uint64_t size = file->size();
  if (size < kIndexHead + kContentsBytes) return DataLoss("it is too short");
  char head[kIndexHead];
  FW_RETURN_IF_ERROR(file->Read(0, sizeof head, head));
  if (BigEndian32(head) != kIndexMagic) return DataLoss("it is no index");
  const int version = static_cast<uint8_t>(head[4]);
  if (version != 2 && version != 3) {
    return Unimplemented("it is of version {}; 2 and 3 are read", version);
  }
  char contents[kContentsBytes];
  FW_RETURN_IF_ERROR(file->Read(size - sizeof contents, sizeof contents, contents));
  if (!IsChecksum(Crc32c({contents, kContentsBytes - 4}), contents + kContentsBytes - 4))
    return DataLoss("the checksum of its contents is wrong");
  // Six offsets: symbols, series, label indices and their table (which nobody uses), postings,
  // their table.
  std::unique_ptr<TsdbIndex> index(new TsdbIndex(std::move(file)));
  index->series_begin_ = BigEndian64(contents + 8);
  FW_RETURN_IF_ERROR(Annotate(index->ReadSymbols(BigEndian64(contents)), "symbols"));
  FW_RETURN_IF_ERROR(Annotate(index->ReadMetrics(BigEndian64(contents + 40)), "table of postings"));
  return index;
}

Status TsdbIndex::ReadSymbols(uint64_t offset) {
  FW_ASSIGN_OR_RETURN(SectionReader in, SectionReader::Open(file_.get(), offset));
  symbols_end_ = offset + 4 + in.length();
  symbols_ = in.Be32();
  if (symbols_ > in.left()) in.Fail("there are more than fit in");
  for (uint64_t k = 0; in.ok() && k < symbols_; ++k) {
    if (k % kSymbolStep == 0) every_32nd_.push_back(in.position());
    in.Skip(in.Uvarint());
  }
  return in.Finish();
}

Status TsdbIndex::ReadMetrics(uint64_t offset) {
  FW_ASSIGN_OR_RETURN(SectionReader in, SectionReader::Open(file_.get(), offset));
  const uint32_t count = in.Be32();
  for (uint32_t k = 0; in.ok() && k < count; ++k) {
    if (in.Byte() != 2) in.Fail("an entry is no pair of label and value");
    const std::string name = in.Text(in.Uvarint(), kMaxSymbolBytes);
    if (name > kNameLabel) break;  // they are sorted
    const uint64_t bytes = in.Uvarint();
    if (name != kNameLabel) {
      in.Skip(bytes);
      in.Uvarint();
      continue;
    }
    std::string metric = in.Text(bytes, kMaxSymbolBytes);
    const uint64_t at = in.Uvarint();
    if (!metrics_.empty() && metric <= metrics_.back().first) in.Fail("it is not sorted");
    if (metrics_.size() == kMaxMetricNames) in.Fail("there are more than a million metrics");
    if (in.ok()) metrics_.emplace_back(std::move(metric), at);
  }
  return in.Finish();
}

StatusOr<std::vector<uint32_t>> TsdbIndex::SeriesOf(std::string_view metric) const {
  std::vector<uint32_t> numbers;
  const auto at = std::ranges::lower_bound(
      metrics_, metric, {}, [](const auto& one) { return std::string_view(one.first); });
  if (at == metrics_.end() || at->first != metric) return numbers;
  auto opened = SectionReader::Open(file_.get(), at->second);
  if (!opened.ok()) return Annotate(opened.status(), "postings");
  SectionReader& in = *opened;
  const uint32_t count = in.Be32();
  if (in.left() / 4 != count || in.left() % 4 != 0) in.Fail("they are not as many as they say");
  if (in.ok()) numbers.reserve(count);
  for (uint32_t k = 0; in.ok() && k < count; ++k) {
    const uint32_t number = in.Be32();
    if (!numbers.empty() && number <= numbers.back()) in.Fail("they are not sorted");
    numbers.push_back(number);
  }
  FW_RETURN_IF_ERROR(Annotate(in.Finish(), "postings"));
  return numbers;
}

StatusOr<TsdbIndex::Entry> TsdbIndex::ReadSeries(uint32_t number) {
  const uint64_t at = uint64_t{number} * 16, size = file_->size();
  if (at < series_begin_ || at >= size) return DataLoss("a series is outside of it");
  std::string bytes(std::min<uint64_t>(kUsualSeriesBytes, size - at), '\0');
  FW_RETURN_IF_ERROR(file_->Read(at, bytes.size(), bytes.data()));
  ByteReader head(bytes);
  const uint64_t length = head.Uvarint(), begin = head.at();
  if (!head.ok() || length > kMaxSeriesBytes || begin + length + 4 > size - at)
    return DataLoss("a series goes on beyond its end, or is too long");
  if (begin + length + 4 > bytes.size()) {
    bytes.resize(begin + length + 4);
    FW_RETURN_IF_ERROR(file_->Read(at, bytes.size(), bytes.data()));
  }
  const std::string_view body = std::string_view(bytes).substr(begin, length);
  if (!IsChecksum(Crc32c(body), bytes.data() + begin + length))
    return DataLoss("the checksum of a series is wrong");
  ByteReader in(body);
  Entry entry;
  const uint64_t labels = in.Uvarint();
  entry.too_many_labels = labels > telemetry::kMaxWireLabels + 1;  // and the name
  for (uint64_t k = 0; in.ok() && k < labels; ++k) {
    const uint64_t name = in.Uvarint(), value = in.Uvarint();
    if (!in.ok() || entry.too_many_labels) continue;
    auto& label = entry.labels.emplace_back();
    FW_ASSIGN_OR_RETURN(label.first, Symbol(name));
    FW_ASSIGN_OR_RETURN(label.second, Symbol(value));
  }
  const uint64_t chunks = in.Uvarint();
  if (!in.ok() || chunks > body.size())
    return DataLoss("a series ends before its labels and chunks do");
  entry.chunks = {.at = at + begin + in.at(),
                  .end = at + begin + length,
                  .left = static_cast<uint32_t>(chunks)};
  return entry;
}

size_t TsdbIndex::TakePlace(std::string_view bytes, ChunkCursor* cursor) {
  ByteReader in(bytes);
  ChunkPlace place;
  uint64_t span = 0;
  bool wrong = false;
  if (cursor->first) {
    place.min_ms = in.Varint();
    span = in.Uvarint();
    place.ref = in.Uvarint();
  } else {
    const uint64_t gap = in.Uvarint();
    span = in.Uvarint();
    place.ref = cursor->last.ref + static_cast<uint64_t>(in.Varint());
    wrong = gap > std::numeric_limits<int64_t>::max() ||
            __builtin_add_overflow(cursor->last.max_ms, static_cast<int64_t>(gap), &place.min_ms);
  }
  wrong = wrong || span > std::numeric_limits<int64_t>::max() ||
          __builtin_add_overflow(place.min_ms, static_cast<int64_t>(span), &place.max_ms);
  if (!in.ok() || wrong) return 0;
  cursor->last = place;
  cursor->first = false;
  cursor->at += in.at();
  --cursor->left;
  return in.at();
}

StatusOr<uint32_t> TsdbIndex::Symbol(uint64_t number) {
  if (number >= symbols_) return DataLoss("a label's symbol is not there");
  const auto [known, fresh] =
      known_.try_emplace(static_cast<uint32_t>(number), static_cast<uint32_t>(texts_.size()));
  if (!fresh) return known->second;
  constexpr size_t kPiece = 2048;  // of 32 symbols it is mostly enough
  const uint64_t begin = every_32nd_[number / kSymbolStep];
  SectionReader in(file_.get(), begin, symbols_end_ - begin, kPiece);
  for (uint64_t k = 0; in.ok() && k < number % kSymbolStep; ++k) in.Skip(in.Uvarint());
  std::string text = in.Text(in.Uvarint(), kMaxSymbolBytes);
  text_bytes_ += text.size();
  if (text_bytes_ > kMaxSymbolsBytes) in.Fail("its labels have more than 128 MiB");
  if (!in.ok()) {
    known_.erase(known);
    return in.status();
  }
  texts_.push_back(std::move(text));
  return static_cast<uint32_t>(texts_.size() - 1);
}

}  // namespace flopwatch::history
