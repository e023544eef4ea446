// Stragglers of a whole store beside a plain scan of the same columns (goal: at most three times).
//
//   flopwatch simulate fleet --gpus 100000 --hours 1 --interval 30s --into DIR
//   bench_stragglers DIR [ROUNDS]
//
// The scan visits the same rows and adds every value up, each column once. Of all rounds the least
// counts; the two take turns, so that both meet the same neighbours.
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "measure.h"
#include "query/stragglers.h"
#include "store/store.h"

namespace flopwatch {
namespace {

double PeakRssMb() {
  rusage u;
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss) / 1024;
}

struct Took {
  double cpu = 1e9, wall = 1e9;
  template <typename F>
  void Measure(F&& f) {
    const double cpu_before = CpuSeconds();
    const Micros before = MonotonicNow();
    f();
    cpu = std::min(cpu, CpuSeconds() - cpu_before);
    wall = std::min(wall, static_cast<double>(MonotonicNow() - before) / 1e6);
  }
};

int Run(const std::string& directory, int rounds) {
  store::Options options;
  options.directory = directory;
  options.read_only = true;
  auto store = store::OpenDuckDbStore(options);
  if (!store.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(store.status()));
    return 1;
  }
  query::MemorySources sources;
  const store::StoreStats stats = (*store)->stats();
  sources.clock = [&stats] { return stats.newest_ts; };
  sources.store_stats = [&stats] { return stats; };
  const query::Memory memory(std::move(sources), (*store)->LoadDimensions());
  const query::Query query(&memory, store->get());
  const store::Window window{stats.oldest_ts, stats.newest_ts + 1};
  std::set<std::string_view> once(query::StragglerColumns().begin(),
                                  query::StragglerColumns().end());
  const std::vector<std::string_view> columns(once.begin(), once.end());
  Took scan, whole;
  uint64_t rows = 0;
  double sum = 0;
  query::StragglerAnswer answer;
  for (int round = 0; round < rounds; ++round) {
    scan.Measure([&] {
      rows = 0;
      const Status s = (*store)->VisitGpuRows(window, columns, store::RowOrder::kAny,
                                              [&](const store::GpuRows& r) {
                                                rows += r.count;
                                                for (const double* v : r.values)
                                                  for (size_t i = 0; i < r.count; ++i)
                                                    sum += std::isnan(v[i]) ? 0 : v[i];
                                                return absl::OkStatus();
                                              });
      if (!s.ok()) fmt::print(stderr, "{}\n", MessageOf(s));
    });
    whole.Measure([&] {
      auto found = query::StragglersIn(query, {window, ""});
      if (found.ok())
        answer = *std::move(found);
      else
        fmt::print(stderr, "{}\n", MessageOf(found.status()));
    });
  }
  fmt::print("{} rows, {} columns, {:.1f} h; checksum {:.6g}\n", rows, columns.size(),
             ToSeconds(window.to - window.from) / 3600, sum);
  fmt::print("plain scan    {:8.3f} s CPU {:8.3f} s\n", scan.cpu, scan.wall);
  fmt::print("stragglers    {:8.3f} s CPU {:8.3f} s: {:.2f} times the CPU, {:.2f} the time\n",
             whole.cpu, whole.wall, whole.cpu / scan.cpu, whole.wall / scan.wall);
  fmt::print("{} names in {} jobs of {} GPUs; peak RSS {:.0f} MB\n", answer.rows.size(),
             answer.jobs_judged, answer.gpus_judged, PeakRssMb());
  return 0;
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "bench_stragglers DIR [ROUNDS]\n");
    return 2;
  }
  return flopwatch::Run(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 3);
}
