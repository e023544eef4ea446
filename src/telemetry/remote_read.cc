#include "telemetry/remote_read.h"

#include <snappy.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/crc32c.h"
#include "base/text.h"
#include "telemetry/protobuf.h"
#include "telemetry/snappy_block.h"
#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

// Given in parts of about so many: a chunk adds at most 65,535.
constexpr size_t kSamplesOfAPart = 64 << 10;
constexpr size_t kMaxWords = 300;
constexpr auto kBytesField = protozero::pbf_wire_type::length_delimited;

// One answer being taken apart. It throws protozero::exception.
class ReadParser {
 public:
  ReadParser(ReadSeries* series, ReadStats* stats, absl::FunctionRef<void(const ReadSeries&)> give)
      : series_(*series), stats_(*stats), give_(give) {}

  // prometheus.ChunkedReadResponse {1 ChunkedSeries, 2 index of the query}
  Status Chunked(protozero::pbf_reader response) {
    while (response.next()) {
      if (IsField(response, 1, kBytesField)) {
        FW_RETURN_IF_ERROR(ChunkedSeries(response.get_message()));
      } else if (IsField(response, 2, protozero::pbf_wire_type::varint)) {
        const int64_t query = response.get_int64();
        if (query != 0) return InvalidArgument("it answers query {}, but one was asked", query + 1);
      } else {
        response.skip();
      }
    }
    return absl::OkStatus();
  }

  // prometheus.ReadResponse {1 QueryResult {1 TimeSeries}}
  void Samples(protozero::pbf_reader response) {
    while (response.next(1, kBytesField)) {
      protozero::pbf_reader result = response.get_message();
      while (result.next(1, kBytesField)) TimeSeries(result.get_message());
    }
  }

 private:
  // {1 Label, 2 Chunk}. Labels are read first: nothing but habit puts them before the chunks.
  Status ChunkedSeries(protozero::pbf_reader series) {
    if (!Labels(series)) return absl::OkStatus();
    while (series.next(2, kBytesField)) FW_RETURN_IF_ERROR(Chunk(series.get_message()));
    GiveAll();
    return absl::OkStatus();
  }

  // {1 first ms, 2 last ms, 3 encoding, 4 data}
  Status Chunk(protozero::pbf_reader chunk) {
    uint32_t encoding = 0;
    std::string_view data;
    while (chunk.next()) {
      if (IsField(chunk, 3, protozero::pbf_wire_type::varint)) {
        encoding = chunk.get_uint32();
      } else if (IsField(chunk, 4, kBytesField)) {
        data = TextOf(chunk.get_view());
      } else {
        chunk.skip();
      }
    }
    if (encoding != kChunkXor && encoding != kChunkXor2) {
      // Encodings are few; what a liar makes up is counted together.
      ++stats_.other_chunks[std::min<uint32_t>(encoding, 256)];
      return absl::OkStatus();
    }
    const Status status = DecodeChunk(encoding, data, &series_.samples);
    if (!status.ok()) {
      GiveAll();
      return Annotate(status, fmt::format("series {}", Name()));
    }
    if (series_.samples.size() >= kSamplesOfAPart) GiveAll();
    return absl::OkStatus();
  }

  // {1 Label, 2 Sample, 4 Histogram}
  void TimeSeries(protozero::pbf_reader series) {
    if (!Labels(series)) return;
    while (series.next()) {
      if (IsField(series, 2, kBytesField)) {
        const auto [millis, value] = ReadWireSample(series.get_message());
        series_.samples.push_back({millis, value, IsStaleMarker(value)});
        if (series_.samples.size() >= kSamplesOfAPart) GiveAll();
      } else {
        if (IsField(series, 4, kBytesField)) ++stats_.histograms;
        series.skip();
      }
    }
    GiveAll();
  }

  // False: the series is left out, and counted.
  bool Labels(protozero::pbf_reader series) {
    series_.Clear();
    series_.samples.clear();
    while (series.next(1, kBytesField)) {
      const auto [name, value] = ReadWireLabel(series.get_message());
      series_.Add(name, value);
      if (series_.labels.size() > kMaxWireLabels) {
        ++stats_.too_many_labels;
        return false;
      }
    }
    if (!series_.name.empty()) return true;
    ++stats_.unnamed_series;
    return false;
  }

  void GiveAll() {
    if (series_.samples.empty()) return;
    ++stats_.parts;
    stats_.samples += series_.samples.size();
    for (const ChunkSample& sample : series_.samples) stats_.stale_markers += sample.stale;
    give_(series_);
    series_.samples.clear();
  }

  std::string Name() const {
    std::string name;
    AppendSeries(series_, &name);
    return Printable(name);
  }

  ReadSeries& series_;
  ReadStats& stats_;
  absl::FunctionRef<void(const ReadSeries&)> give_;
};

// The line that stands where a frame should, or "" where those are no words. A frame of less than
// 128 bytes may begin with letters too, but its payload does with the byte of a line feed, five
// bytes on.
std::string_view WordsIn(std::string_view bytes) {
  constexpr size_t kFewest = 8;
  const std::string_view line = CutUtf8(bytes.substr(0, bytes.find('\n')), kMaxWords);
  return line.size() >= kFewest && IsUtf8(line) && !HasControl(line) ? line : std::string_view();
}

}  // namespace

std::string EncodeReadRequest(const ReadQuery& query) {
  std::string plain;
  protozero::pbf_writer request(plain);
  {
    protozero::pbf_writer wire(request, 1);
    wire.add_int64(1, query.start_millis);
    wire.add_int64(2, query.end_millis);
    for (const ReadMatcher& matcher : query.matchers) {
      protozero::pbf_writer one(wire, 3);
      one.add_enum(1, static_cast<int32_t>(matcher.type));
      one.add_bytes(2, matcher.name);
      one.add_bytes(3, matcher.value);
    }
  }
  // Accepted forms, the better first: STREAMED_XOR_CHUNKS (any encoding of chunks), SAMPLES.
  request.add_enum(2, 1);
  request.add_enum(2, 0);
  std::string packed;
  snappy::Compress(plain.data(), plain.size(), &packed);
  return packed;
}

ReadForm ReadFormOf(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; \t"));
  if (EqualsIgnoringCase(type, "application/x-streamed-protobuf")) return ReadForm::kStreamed;
  if (EqualsIgnoringCase(type, "application/x-protobuf")) return ReadForm::kSamples;
  return ReadForm::kOther;
}

Status ReadStream::ReadHeader(std::string_view bytes, Frame* frame) const {
  *frame = {};
  uint64_t length = 0;
  size_t at = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (at == bytes.size()) return absl::OkStatus();
    const auto byte = static_cast<uint8_t>(bytes[at++]);
    length |= uint64_t{byte & 0x7fu} << shift;
    // Five groups hold more than any length that is taken.
    if (length > kMaxReadFrame || (shift == 28 && byte >= 0x80)) {
      return ResourceExhausted("it says it has more than {} MiB, and no frame has",
                               kMaxReadFrame >> 20);
    }
    if (byte < 0x80) break;
  }
  if (length == 0) return InvalidArgument("it is empty");
  if (bytes.size() < at + 4) return absl::OkStatus();
  for (int i = 0; i < 4; ++i) frame->crc = frame->crc << 8 | static_cast<uint8_t>(bytes[at++]);
  frame->payload = at;
  frame->size = at + length;
  return absl::OkStatus();
}

Status ReadStream::Take(const Frame& frame, std::string_view bytes, std::string_view after) {
  const std::string_view payload = bytes.substr(frame.payload);
  if (Crc32c(payload) != frame.crc)
    return Fail(InvalidArgument("its checksum is wrong: it was damaged on the way"), bytes, after);
  Status status;
  try {
    ReadParser parser(&series_, &stats_, give_);
    status = parser.Chunked(protozero::pbf_reader(payload.data(), payload.size()));
  } catch (const protozero::exception& e) {
    status = InvalidArgument("it is no prometheus.ChunkedReadResponse: {}", e.what());
  }
  if (!status.ok()) return Fail(std::move(status));
  ++stats_.frames;
  return status;
}

Status ReadStream::Feed(std::string_view piece) {
  while (status_.ok() && !piece.empty()) {
    if (held_.empty()) {  // read where they are
      Frame frame;
      Status status = ReadHeader(piece, &frame);
      if (!status.ok()) return Fail(std::move(status), piece);
      if (frame.size == 0 || frame.size > piece.size()) {
        held_ = piece;
        held_frame_ = frame;
        break;
      }
      const std::string_view bytes = piece.substr(0, frame.size);
      piece.remove_prefix(frame.size);
      FW_RETURN_IF_ERROR(Take(frame, bytes, piece));
      continue;
    }
    // The header byte by byte, which are few; the rest at once.
    const uint64_t wanted = held_frame_.size == 0 ? 1 : held_frame_.size - held_.size();
    const std::string_view more = piece.substr(0, wanted);
    held_ += more;
    piece.remove_prefix(more.size());
    if (held_frame_.size == 0) {
      Status status = ReadHeader(held_, &held_frame_);
      if (!status.ok()) return Fail(std::move(status), held_, piece);
    }
    if (held_frame_.size != 0 && held_.size() == held_frame_.size) {
      FW_RETURN_IF_ERROR(Take(held_frame_, held_, piece));
      held_.clear();
      held_frame_ = {};
    }
  }
  return status_;
}

Status ReadStream::Finish() {
  if (status_.ok() && !held_.empty())
    return Fail(InvalidArgument("the stream ends inside it"), held_);
  return status_;
}

Status ReadStream::Fail(Status status, std::string_view frame, std::string_view after) {
  std::string begun(frame.substr(0, kMaxWords + 1));
  begun += after.substr(0, kMaxWords + 1 - begun.size());
  const std::string_view words = WordsIn(begun);
  if (words.empty()) {
    status_ = Annotate(status, fmt::format("remote read: frame {}", stats_.frames + 1));
  } else {
    status_ = InvalidArgument("remote read: the server broke off after {} frames: \"{}\"",
                              stats_.frames, Printable(words, kMaxWords));
  }
  held_.clear();
  held_.shrink_to_fit();
  return status_;
}

Status DecodeReadResponse(std::string_view body, uint64_t max_bytes,
                          absl::FunctionRef<void(const ReadSeries&)> give, ReadStats* stats) {
  FW_ASSIGN_OR_RETURN(const std::string plain,
                      UnpackSnappy(body, max_bytes, "remote read", "ask for shorter windows"));
  try {
    ReadSeries series;
    ReadParser(&series, stats, give).Samples(protozero::pbf_reader(plain.data(), plain.size()));
    return absl::OkStatus();
  } catch (const protozero::exception& e) {
    return InvalidArgument("remote read: the body is no prometheus.ReadResponse: {}", e.what());
  }
}

}  // namespace flopwatch::telemetry
