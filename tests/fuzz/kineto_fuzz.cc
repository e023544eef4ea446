// The input is a Kineto file. No crash; every index of the table leads somewhere; and reading it in
// blocks, on threads or in one piece gives the same rows and losses. The first byte picks blocks
// and threads.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/trace_checks.h"
#include "trace/finish.h"
#include "trace/import/importer.h"

using flopwatch::StatusOr;
using namespace flopwatch::trace;  // NOLINT: a program of its own

namespace {

const Importer& Kineto() {
  for (const Importer& importer : Importers()) {
    if (importer.name == "kineto") return importer;
  }
  std::abort();
}

bool Same(const ImportedRank& a, const ImportedRank& b) {
  const EventTable &x = a.trace.events, &y = b.trace.events;
  if (x.ts != y.ts || x.dur != y.dur || x.category != y.category || x.stream != y.stream ||
      x.correlation != y.correlation || x.external_id != y.external_id || x.detail != y.detail) {
    return false;
  }
  for (Row r = 0; r < x.size(); ++r) {
    if (a.names.Text(x.name[r]) != b.names.Text(y.name[r])) return false;
  }
  const auto losses = [](const RankTrace& t) {
    std::string text;
    for (const Loss& loss : t.losses) text += loss.reason + "=" + std::to_string(loss.count) + " ";
    return text;
  };
  if (losses(a.trace) != losses(b.trace)) {
    std::fprintf(stderr, "%s\n%s\n", losses(a.trace).c_str(), losses(b.trace).c_str());
    return false;
  }
  return a.trace.memory.size() == b.trace.memory.size() &&
         a.trace.counters.size() == b.trace.counters.size() &&
         a.trace.range_metrics.size() == b.trace.range_metrics.size() &&
         a.trace.threads.size() == b.trace.threads.size() && a.trace.rank == b.trace.rank &&
         a.trace.devices.size() == b.trace.devices.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int fd = ::memfd_create("kineto", 0);
  if (fd < 0 || ::write(fd, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  ImportOptions options;
  options.threads = 1;
  StatusOr<std::vector<ImportedRank>> whole = Kineto().import({path}, options);
  options.threads = (data[0] & 0xe0) == 0xe0 ? 2 : 1;
  options.block_bytes = 1 + (data[0] & 0x1f) * 9;
  StatusOr<std::vector<ImportedRank>> pieces = Kineto().import({path}, options);
  Require(whole.ok() == pieces.ok(), "blocks decide whether it is a trace");
  if (whole.ok()) {
    Require(whole->size() == 1 && pieces->size() == 1, "one rank");
    CheckRank(whole->front());
    CheckRank(pieces->front());
    Require(Same(whole->front(), pieces->front()), "blocks change the result");
    Finish(whole->front().names, &whole->front().trace);
    CheckRank(whole->front());
  }
  ::close(fd);
  return 0;
}
