// The input is a mapping file, a line of "---", and a table. No crash; what comes out can be told
// to the books; every row is counted once.
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "fuzz/require.h"
#include "jobs/table/reader.h"
#include "jobs/table/summary.h"

using namespace flopwatch::table;

namespace {

void CheckBooks(const TableBooks& books) {
  const TableCounts& c = books.counts;
  Require(c.rows == c.used + c.refused + c.left_out + c.without_gpus, "a row that is nowhere");
  uint64_t refused = 0;
  for (const auto& [reason, loss] : books.refused) refused += loss.count;
  Require(refused == c.refused, "a refusal without a reason");
  for (const auto& a : books.attempts) {
    Require(!a.job.empty() && flopwatch::IsUtf8(a.job) && !flopwatch::HasControl(a.user), "texts");
    Require(a.job.size() <= 1200 && a.user.size() <= 512, "a text that is too long");
    Require(a.start >= 0 && a.submit >= 0 && a.end >= a.start, "ends before it starts");
    Require(a.start > 0 || a.submit > 0 || a.eligible > 0, "no time");
    Require(a.gpus >= -1 && a.duty <= 1 && a.suspended_s >= 0, "numbers");
  }
  for (const auto& n : books.pools)
    Require(!n.node.empty() && n.gpus >= 0 && n.from > 0 && n.from < n.to, "a pool's record");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find("\n---\n");
  if (cut == std::string_view::npos) return 0;
  const auto mapping = ParseMapping(text.substr(0, cut + 1), "map");
  if (!mapping.ok()) {
    Require(!mapping.status().message().empty(), "no reason");
    return 0;
  }
  RowLimits limits;
  limits.max_rows = 1000;
  limits.max_row_bytes = 4096;
  TableReader reader(*mapping, limits);
  if (!reader.Add(text.substr(cut + 5), "earth_vc1_2020.csv").ok()) return 0;
  const auto books = reader.Finish();
  if (!books.ok()) return 0;
  CheckBooks(*books);
  SummaryOptions options;
  options.rows = mapping->rows;
  options.by = mapping->rows == RowKind::kAttempts
                   ? std::vector<std::string>{"user", "size", "hour"}
                   : std::vector<std::string>{"pool", "part"};
  Require(Summarise(books->attempts, books->pools, options).ok(), "no summary");
  return 0;
}
