// Remote read and chunks. The first byte picks what the rest is: 0 a streamed body as it is, 1 the
// payload of a frame (length and checksum are put before it), 2 what the snappy block of an answer
// with samples holds, 3 an XOR chunk, 4 an XOR2 chunk. No crash; series have names and samples, not
// too many of either; and a body in pieces says what the whole one says.
#include "telemetry/remote_read.h"

#include <snappy.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "telemetry/chunk_decoder.h"

using namespace flopwatch;             // NOLINT
using namespace flopwatch::telemetry;  // NOLINT

namespace {

std::string TextOfPart(const ReadSeries& series) {
  if (series.name.empty() || series.labels.size() > kMaxWireLabels || series.samples.empty() ||
      series.samples.size() > 131'072) {
    std::abort();
  }
  std::string text;
  AppendSeries(series, &text);
  for (const ChunkSample& s : series.samples)
    text += std::to_string(s.millis) += s.stale ? '!' : ' ';
  return text;
}

std::string Streamed(std::string_view body, size_t piece) {
  std::string text;
  ReadStream stream([&](const ReadSeries& series) { text += TextOfPart(series); });
  for (size_t at = 0; at < body.size(); at += piece)
    stream.Feed(body.substr(at, piece)).IgnoreError();
  text += stream.Finish().ok() ? "fine" : "failed";
  return text;
}

std::string Framed(std::string_view payload) {
  std::string frame;
  size_t length = payload.size();
  for (; length >= 0x80; length >>= 7) frame += static_cast<char>(0x80 | (length & 0x7f));
  frame += static_cast<char>(length);
  const uint32_t crc = Crc32c(payload);
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(crc >> shift);
  return frame.append(payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int what = data[0] % 5;
  if (what <= 1) {
    if (what == 1) body = Framed(body);
    const std::string whole = Streamed(body, body.size() + 1);
    if (Streamed(body, 7) != whole || Streamed(body, 1) != whole) std::abort();
  } else if (what == 2) {
    std::string packed;
    snappy::Compress(body.data(), body.size(), &packed);
    ReadStats stats;
    DecodeReadResponse(
        packed, 1 << 20, [](const ReadSeries& series) { TextOfPart(series); }, &stats)
        .IgnoreError();
  } else {
    std::vector<ChunkSample> samples;
    DecodeChunk(what == 3 ? kChunkXor : kChunkXor2, body, &samples).IgnoreError();
    if (samples.size() > 65'535) std::abort();
  }
  return 0;
}
