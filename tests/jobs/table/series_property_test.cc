// Random series of pools, judged minute by minute: joined into records they say the same of every
// minute, and the summary adds up to what the minutes add up to.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "helpers.h"

namespace flopwatch::table {
namespace {

constexpr char kSeriesMap[] = R"(
time_zone = "UTC"
step = "1m"
[pool]
pool = "p"
time = "t"
capacity = "cap"
running = "run"
waiting = "wait"
)";
constexpr Micros kBegin = 1'767'225'600 * kMicrosPerSecond;  // 2026-01-01

struct Said {
  int capacity = 0, running = 0, waiting = 0;
  bool operator==(const Said&) const = default;
};
using Minutes = std::map<std::pair<std::string, int>, Said>;

RC_GTEST_PROP(PoolSeries, RecordsSayOfEveryMinuteWhatItsRowSaid, ()) {
  Minutes rows;
  std::vector<std::string> lines;
  const int n = *rc::gen::inRange(1, 60);
  for (int k = 0; k < n; ++k) {
    const std::string pool = *rc::gen::element<std::string>("a", "b");
    const int minute = *rc::gen::inRange(0, 90);
    const Said said{*rc::gen::inRange(0, 3) * 4, *rc::gen::inRange(0, 4), *rc::gen::inRange(0, 2)};
    if (!rows.emplace(std::pair(pool, minute), said).second) continue;
    lines.push_back(fmt::format("2026-01-01 {:02}:{:02}:00,{},{},{},{}\n", minute / 60, minute % 60,
                                pool, said.capacity, said.running, said.waiting));
  }
  std::string text = "t,p,cap,run,wait\n";
  for (const std::string& line : lines) text += line;
  const auto books = ReadTable(kSeriesMap, text);
  RC_ASSERT(books.ok());
  RC_ASSERT(books->refused.empty());

  Minutes seen;
  const auto spread = [&](const std::string& pool, Micros from, Micros to, auto add) {
    for (Micros t = from; t < to; t += kMicrosPerMinute)
      add(&seen[{pool, static_cast<int>((t - kBegin) / kMicrosPerMinute)}]);
  };
  for (const jobs::NodeRecord& r : books->pools)
    spread(r.node, r.from, r.to, [&](Said* s) { s->capacity += static_cast<int>(r.gpus); });
  for (const jobs::AttemptRecord& a : books->attempts)
    spread(a.partition, a.start > 0 ? a.start : a.submit, a.end,
           [&](Said* s) { (a.start > 0 ? s->running : s->waiting) += static_cast<int>(a.gpus); });
  RC_ASSERT(seen == rows);

  double capacity = 0, running = 0, both = 0;
  for (const auto& [at, said] : rows) {
    capacity += said.capacity;
    running += said.running;
    both += said.waiting > 0 && said.running < said.capacity ? 1 : 0;
  }
  SummaryOptions options;
  options.rows = RowKind::kPools;
  const auto s = *Summarise(books->attempts, books->pools, options);
  RC_ASSERT(std::abs(ValueOf(s, "gpu_hours_allocated") - running / 60) < 1e-9);
  RC_ASSERT(std::abs(ValueOf(s, "gpu_hours_of_capacity") - capacity / 60) < 1e-9);
  RC_ASSERT(std::abs(ValueOf(s, "share_of_time_with_queue_beside_idle_gpus") -
                     both / static_cast<double>(rows.size())) < 1e-9);
}

RC_GTEST_PROP(CsvText, QuotedCellsComeBack, (const std::vector<std::string>& cells)) {
  RC_PRE(!cells.empty());
  std::string text = "\"h\",\"x\"\n";
  for (const std::string& cell : cells) {
    std::string quoted;
    for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
    text += "\"" + quoted + "\",1\n";
  }
  std::vector<std::string> back;
  const std::vector<std::string> columns = {"h"};
  RC_ASSERT(ReadRows(
                text, {}, columns,
                [&](const Row& row) { back.emplace_back(row.cells[0].value_or("")); },
                [&](const RowFault& fault) { back.emplace_back(fault.reason); })
                .ok());
  RC_ASSERT(back == cells);
}

}  // namespace
}  // namespace flopwatch::table
