// One chunk of Prometheus: up to 65,535 samples of a series, packed as its database keeps them and
// as remote read streams them. Decoded here: XOR (1) and XOR2 (4). Everything is hostile: nothing
// is read beyond the end, times cannot overflow. Source of the layouts: prometheus/prometheus
// tsdb/chunkenc/xor.go, xor2.go, varbit.go (3.16).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::telemetry {

// Numbers as in prometheus.Chunk.Encoding and in the files of a data folder; 255 is Thanos' own.
inline constexpr uint8_t kChunkXor = 1, kChunkXor2 = 4;
// "2 (histogram)", "255 (Thanos' downsampled aggregates)", "77 (unknown)".
std::string ChunkEncodingName(uint32_t encoding);

struct ChunkSample {
  int64_t millis = 0;  // Unix time
  double value = 0;    // as it was stored: NaN and infinities too
  // A staleness marker: the series ended here. It is no value; what `value` holds then says
  // nothing.
  bool stale = false;
  bool operator==(const ChunkSample&) const = default;
};

// Appends the chunk's samples in its order, which is by time where a server wrote it. Start times
// (XOR2) are read and left out. Unimplemented: another encoding, by name. InvalidArgument: the
// chunk ends early, goes on after its last sample, has a time beyond int64 or a window of value
// bits that cannot be. What was appended before an error stands. (Up to eight bits at the end are
// padding: a count that is too high by as few samples as fit in there is not noticed; checksums are
// for that.)
Status DecodeChunk(uint32_t encoding, std::string_view data, std::vector<ChunkSample>* samples);

}  // namespace flopwatch::telemetry
