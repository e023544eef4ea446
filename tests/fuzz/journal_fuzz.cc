// With 'f' as the first byte the input says which flushes a journal has and which of its bits are
// flipped: every flush that is as it was written is read, once and in order, no other is, and the
// bytes of what is missing add up. With 'd' it is the payload of a flush: whatever it is, decoding
// ends, and what it gives can be written and read again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "fuzz/require.h"
#include "store/duckdb/journal.h"
#include "store/duckdb/staged.h"

using namespace flopwatch;               // NOLINT: a program of its own
using namespace flopwatch::store::duck;  // NOLINT

namespace {

constexpr size_t kMaxFlushes = 12, kMaxFlips = 16, kHeaderBytes = 32;

struct Flush {
  std::string bytes;    // in the file, with what fills its last block
  std::string payload;  // all of it
  Micros arrival = 0;
};

// Flushes of several sizes, as the journal itself writes them: less than a block, a whole one,
// several, and one that was carried over.
const std::vector<Flush>& Flushes() {
  static const std::vector<Flush>* const flushes = [] {
    auto* out = new std::vector<Flush>;
    std::string folder = "/tmp/flopwatch-fuzz-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    std::filesystem::create_directory(folder + "/hot");
    uint64_t generation = 0;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{4063}, size_t{4064},
                              size_t{4065}, size_t{9000}, size_t{30000}}) {
      Flush flush{.payload = {}, .arrival = static_cast<Micros>(1000 + size)};
      for (size_t k = 0; k < size; ++k) flush.payload += static_cast<char>((k * 131 + size) % 251);
      auto journal = Journal::Create(folder, ++generation);
      const bool carried = size == 1000;
      if (!journal.ok()) std::abort();
      const Status written = carried ? (*journal)->AppendCarried(flush.arrival, flush.payload, 7)
                                     : (*journal)->Append(flush.arrival, flush.payload);
      if (!written.ok()) std::abort();
      flush.bytes = ReadFile(JournalPath(folder, generation), 1 << 20).value();
      out->push_back(std::move(flush));
    }
    std::filesystem::remove_all(folder);
    return out;
  }();
  return *flushes;
}

void ReadBack(std::string_view script) {
  const auto take = [&]() -> size_t {
    if (script.empty()) return 0;
    const auto byte = static_cast<unsigned char>(script.front());
    script.remove_prefix(1);
    return byte;
  };
  std::string file;
  struct Written {
    const Flush* flush;
    size_t at, size;  // of header and payload
  };
  std::vector<Written> written;
  for (size_t left = take() % (kMaxFlushes + 1); left > 0; --left) {
    const Flush& flush = Flushes()[take() % Flushes().size()];
    const size_t carried = flush.payload.size() == 1000 ? sizeof(uint64_t) : 0;
    written.push_back({&flush, file.size(), kHeaderBytes + carried + flush.payload.size()});
    file += flush.bytes;
  }
  file.resize(file.size() - take() % (file.size() / 8 + 1));  // a torn end
  std::string damaged = file;
  for (size_t left = std::min(script.size() / 3, kMaxFlips); left > 0 && !damaged.empty(); --left) {
    const size_t at = (take() << 8 | take()) * 8 % damaged.size() + take() % 8;
    if (at < damaged.size()) damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
  }
  const int fd = ::memfd_create("journal", 0);
  if (fd < 0 || ::write(fd, damaged.data(), damaged.size()) != static_cast<ssize_t>(damaged.size()))
    std::abort();
  size_t next = 0, whole = 0;
  const auto gaps = ReadJournal(
      "/proc/self/fd/" + std::to_string(fd),
      [&](Micros arrival, std::string_view payload, uint64_t from) -> Status {
        // Those that are passed over must have been changed, or be cut.
        for (;; ++next) {
          Require(next < written.size(), "a flush that was written");
          const Written& w = written[next];
          const bool sound = w.at + w.size <= damaged.size() &&
                             damaged.compare(w.at, w.size, w.flush->bytes, 0, w.size) == 0;
          if (sound) break;
        }
        const Written& w = written[next++];
        Require(payload == w.flush->payload && arrival == w.flush->arrival, "as it was written");
        Require((from != 0) == (w.flush->payload.size() == 1000), "carried over or not");
        whole += std::min(w.flush->bytes.size(), damaged.size() - w.at);
        return absl::OkStatus();
      });
  ::close(fd);
  Require(gaps.ok(), "a file that can be read");
  for (; next < written.size(); ++next) {
    const Written& w = written[next];
    Require(w.at + w.size > damaged.size() ||
                damaged.compare(w.at, w.size, w.flush->bytes, 0, w.size) != 0,
            "every flush that is whole");
  }
  Require(gaps->tail_bytes + gaps->damaged_bytes + whole == damaged.size(), "all bytes told of");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'f') {
    ReadBack(rest);
  } else if (data[0] == 'd') {
    const StatusOr<StagedRows> rows = StagedRows::Decode(rest);
    if (!rows.ok()) return 0;
    const StatusOr<StagedRows> again = StagedRows::Decode(rows->Encode());
    Require(again.ok() && again->rows() == rows->rows(), "written and read again");
  }
  return 0;
}
