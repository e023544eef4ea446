// A replay of the shipped rules beside the read of its rows: what looking back costs over reading.
//
//   flopwatch simulate fleet --gpus 1000 --hours 24 --start 2026-11-20 --into D
//   bench_replay D 2026-11-20 2026-11-21 [REPEAT]
//
// The plain read visits the same rows and columns, in whatever order files have them, and adds them
// up. CPU of the process, the threads of the store included, and time: a replay reads ahead.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "alerts/replay.h"
#include "alerts/stored_rows.h"
#include "base/time.h"
#include "measure.h"
#include "query/query.h"
#include "store/store.h"

namespace flopwatch {
namespace {

struct Took {
  double cpu = 1e9, time = 1e9;  // seconds
};
template <typename F>
Took LeastOf(int repeat, F&& f) {
  Took took;
  for (int k = 0; k < repeat; ++k) {
    const double cpu = CpuSeconds();
    const Micros begun = Now();
    f();
    took.cpu = std::min(took.cpu, CpuSeconds() - cpu);
    took.time = std::min(took.time, ToSeconds(Now() - begun));
  }
  return took;
}

void Run(const std::string& directory, store::Window window, int repeat) {
  const auto store = Check(store::OpenDuckDbStore({.directory = directory, .read_only = true}));
  query::MemorySources sources;
  sources.store_stats = [&] { return store->stats(); };
  const query::Memory memory(std::move(sources), store->LoadDimensions());
  const query::Query query(&memory, store.get());
  uint64_t rows = 0;
  double sum = 0;
  const Took read = LeastOf(repeat, [&] {
    rows = 0;
    Check(store->VisitGpuRows(window, alerts::StoredRows::Columns(), store::RowOrder::kAny,
                              [&](const store::GpuRows& r) {
                                rows += r.count;
                                for (const auto* column : r.values)
                                  for (size_t k = 0; k < r.count; ++k)
                                    if (!std::isnan(column[k])) sum += column[k];
                                return absl::OkStatus();
                              }));
  });
  const auto replay = [&](std::vector<alerts::Rule> rules) {
    alerts::ReplayOptions options;
    options.rules = std::move(rules);
    options.window = window;
    alerts::Replayed out;
    const Took took = LeastOf(repeat, [&] { out = Check(alerts::Replay(query, options)); });
    fmt::print(
        "{} rules, {} rows with those before the window, {} rounds, {} alerts: {:.2f} CPU-s, "
        "{:.1f} times the read; {:.2f} s, {:.1f} times\n",
        options.rules.size(), out.rows, out.rounds, out.alerts.size(), took.cpu,
        took.cpu / read.cpu, took.time, took.time / read.time);
  };
  fmt::print("{} rows read in {:.2f} CPU-s, {:.2f} s ({:.3g})\n", rows, read.cpu, read.time, sum);
  std::vector<alerts::Rule> rules = alerts::ShippedRules(), live;
  std::ranges::copy_if(rules, std::back_inserter(live), [](const alerts::Rule& rule) {
    return rule.name != "job_mfu_divergence" && rule.name != "job_ofu_below_history";
  });
  replay(std::move(live));
  replay(std::move(rules));
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  using namespace flopwatch;
  if (argc < 4) {
    fmt::print(stderr, "bench_replay DIRECTORY FROM TO [REPEAT]\n");
    return 2;
  }
  const Micros now = Now();
  Run(argv[1], {Check(ParseTime(argv[2], now)), Check(ParseTime(argv[3], now))},
      argc > 4 ? std::atoi(argv[4]) : 3);
}
