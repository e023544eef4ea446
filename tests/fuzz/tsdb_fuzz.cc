// One block of Prometheus' data folder: 2 bytes length of the index, 2 of the tombstones, these
// two, and what is left is the file of chunks. No crash; series have names, their samples are of
// the window and in order, and two halves of a window have what the whole one has. In a fuzzer's
// build any checksum is right (IsChecksum); the corpus has right ones.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "history/tsdb_block.h"

using namespace flopwatch;           // NOLINT
using namespace flopwatch::history;  // NOLINT

namespace {

constexpr int64_t kEnd = 10'000'000;  // ms; within what times of microseconds can be

std::unique_ptr<Block> OpenedBlock(std::string_view index, std::string_view tombstones,
                                   std::string_view chunks) {
  BlockMeta meta;
  meta.ulid = "01AAAAAAAAAAAAAAAAAAAAAAAA";
  meta.max_ms = kEnd;
  BlockFiles files;
  files.index = std::make_unique<MemoryFile>(std::string(index));
  files.tombstones = tombstones;
  files.chunks = [chunks =
                      std::string(chunks)](uint32_t number) -> StatusOr<std::unique_ptr<ByteFile>> {
    if (number != 1) return absl::NotFoundError("it is not there");
    return std::make_unique<MemoryFile>(chunks);
  };
  auto block = Block::Open(std::move(meta), std::move(files));
  return block.ok() ? *std::move(block) : nullptr;
}

struct Got {
  std::map<std::string, uint64_t> samples;  // by labels; a hostile index has two of a name
  bool whole = true;                        // nothing was damaged
};

void ReadInto(Block* block, int64_t from, int64_t to, Got* got) {
  const Status status = block->Read(
      {.metric = "a", .matchers = {}}, from, to,
      [&](const telemetry::MetricSeries& series) {
        if (series.name != "a" || series.points.empty()) std::abort();
        std::string labels;
        telemetry::AppendSeries(series, &labels);
        got->samples[labels] += series.points.size();
        Micros before = from * kMicrosPerMilli;
        for (const telemetry::MetricPoint& p : series.points) {
          if (p.ts < before || p.ts <= from * kMicrosPerMilli || p.ts > to * kMicrosPerMilli)
            std::abort();
          before = p.ts;
        }
      },
      [&](int64_t, int64_t, std::string_view) { got->whole = false; });
  got->whole &= status.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 4, size - 4);
  const auto take = [&rest](size_t bytes) {
    const std::string_view part = rest.substr(0, bytes);
    rest.remove_prefix(part.size());
    return part;
  };
  const std::string_view index = take(size_t{data[0]} << 8 | data[1]);
  const std::string_view tombstones = take(size_t{data[2]} << 8 | data[3]);
  Got at_once, in_halves;
  if (const auto block = OpenedBlock(index, tombstones, rest))
    ReadInto(block.get(), -1, kEnd + 1, &at_once);
  if (const auto block = OpenedBlock(index, tombstones, rest)) {
    for (const int64_t from : {int64_t{-1}, kEnd / 2})
      ReadInto(block.get(), from, from + kEnd / 2 + 1, &in_halves);
  }
  if (at_once.whole && in_halves.whole && at_once.samples != in_halves.samples) std::abort();
  return 0;
}
