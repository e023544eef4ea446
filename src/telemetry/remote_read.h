// Prometheus' remote read: the request, and both forms of its answer. Streamed chunks are what
// costs the server least; plain samples are what older ones send. No networking here: bodies in,
// series out. Everything is hostile: frames, unpacked sizes and labels are bounded, and no more
// than about 130,000 samples are held at once, whatever a frame says. Sources:
// prometheus/prometheus prompb/remote.proto, types.proto; storage/remote/chunked.go, codec.go.
//
//   POST /api/v1/read                            Content-Type: application/x-protobuf
//   X-Prometheus-Remote-Read-Version: 0.1.0      Content-Encoding: snappy
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "telemetry/chunk_decoder.h"
#include "telemetry/metric_series.h"

namespace flopwatch::telemetry {

struct ReadMatcher {
  enum class Type : uint8_t { kEqual = 0, kNotEqual = 1, kRegex = 2, kNotRegex = 3 };
  Type type = Type::kEqual;
  std::string name, value;  // "__name__" for the metric; expressions are anchored by the server
};

struct ReadQuery {
  int64_t start_millis = 0, end_millis = 0;  // Unix time, both inclusive
  std::vector<ReadMatcher> matchers;         // all must hold
};

// The body to send: one query; streamed chunks wanted, else samples.
std::string EncodeReadRequest(const ReadQuery& query);

// What an answer is, by its Content-Type.
enum class ReadForm : uint8_t { kStreamed, kSamples, kOther };
ReadForm ReadFormOf(std::string_view content_type);

// Some samples of one series, in the order sent. The same series may come again, in this frame or
// in later ones, and samples outside of what was asked may be among them: servers other than
// Prometheus do not cut their chunks at the window. Views are valid during the callback that gets
// it.
struct ReadSeries : SeriesLabels {
  std::vector<ChunkSample> samples;  // never empty
};

struct ReadStats {
  uint64_t frames = 0;
  uint64_t parts = 0;    // calls with a ReadSeries
  uint64_t samples = 0;  // with the markers
  uint64_t stale_markers = 0;
  // Left out: series with more than kMaxWireLabels labels or without a name (once for each frame
  // they are in); samples of histograms in the form of samples; chunks that are not decoded, by
  // their encoding (ChunkEncodingName).
  uint64_t too_many_labels = 0, unnamed_series = 0;
  uint64_t histograms = 0;
  std::map<uint32_t, uint64_t> other_chunks;
};

// A frame aims at 1 MiB and may exceed it by a chunk; the rest is for servers told to send more.
inline constexpr uint64_t kMaxReadFrame = 64 << 20;

// The streamed form (ReadForm::kStreamed), which is fed to it as it comes. Not for several threads.
//
// A server cannot change its answer once it has begun: an error then stands as plain text where the
// next frame would, or the stream is cut. Both are errors here, with the server's words. A window
// is whole only when Feed() and Finish() were fine *and* the transfer itself ended as it should: a
// cut between two frames looks like an end.
class ReadStream {
 public:
  using Give = std::function<void(const ReadSeries&)>;

  explicit ReadStream(Give give) : give_(std::move(give)) {}

  // InvalidArgument: a frame that is damaged, cut or no frame at all; ResourceExhausted: one longer
  // than kMaxReadFrame. After an error it stays the answer of every call. What was given before
  // stands, of the frame with the error too.
  Status Feed(std::string_view piece);
  // At the end of the body.
  Status Finish();

  const ReadStats& stats() const { return stats_; }

 private:
  // Where the first frame of `bytes` ends, payload from `payload` on; `size` 0 while its header is
  // not whole.
  struct Frame {
    uint64_t payload = 0, size = 0;
    uint32_t crc = 0;
  };
  Status ReadHeader(std::string_view bytes, Frame* frame) const;
  // Checks and gives a whole frame; `after` is what has come behind it.
  Status Take(const Frame& frame, std::string_view bytes, std::string_view after);
  // Where no good frame stands: `frame` and `after` may be the server's words.
  Status Fail(Status status, std::string_view frame = {}, std::string_view after = {});

  Give give_;
  ReadStats stats_;
  ReadSeries series_;  // used again
  std::string held_;   // the beginning of a frame that is not whole yet
  Frame held_frame_;
  Status status_;
};

// The form of samples (ReadForm::kSamples): the whole body, a snappy block. InvalidArgument: not
// snappy, not protobuf; ResourceExhausted: more than `max_bytes` come out. What was given before an
// error stands.
Status DecodeReadResponse(std::string_view body, uint64_t max_bytes,
                          absl::FunctionRef<void(const ReadSeries&)> give, ReadStats* stats);

}  // namespace flopwatch::telemetry
