// All analyses of loaded traces: CPU time of each, alone and in order (what several share counts
// for the first that asks), and the wall time of all of them together on two threads. Load beside
// it in the same run.
//   build with -DFLOPWATCH_BENCH=ON, then: bin/bench_trace_analyses [--hta] PATH...   (bench_trace
//   writes a file of 376 MB)
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

struct Clock {
  std::chrono::steady_clock::time_point wall = std::chrono::steady_clock::now();
  double cpu = Cpu();
  static double Cpu() {
    rusage u;
    getrusage(RUSAGE_SELF, &u);
    return Seconds(u.ru_utime) + Seconds(u.ru_stime);
  }
  void Print(std::string_view what, std::string_view note = {}) const {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - wall;
    rusage u;
    getrusage(RUSAGE_SELF, &u);
    std::printf("%-34.*s %8.1f ms CPU %8.1f ms wall %7ld MiB peak  %.*s\n",
                static_cast<int>(what.size()), what.data(), (Cpu() - cpu) * 1e3, took.count() * 1e3,
                u.ru_maxrss / 1024, static_cast<int>(note.size()), note.data());
  }
};

int Main(int argc, char** argv) {
  AnalysisOptions options;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--hta") {
      options.hta = true;
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  const Clock load;
  LoadOptions load_options;
  load_options.threads = 2;
  StatusOr<Loaded> loaded = Load(paths, load_options);
  if (!loaded.ok()) {
    std::printf("%s\n", std::string(loaded.status().message()).c_str());
    return 1;
  }
  load.Print("load");
  std::vector<const Analysis*> all;
  for (const Analysis& analysis : Analyses()) all.push_back(&analysis);
  {
    const Clock total;
    const AnalysisInput input(loaded->set, options);
    for (const Analysis* analysis : all) {
      const Clock one;
      const StatusOr<AnalysisTables> result = analysis->run(input);
      one.Print(analysis->name,
                result.ok() ? std::string() : std::string(result.status().message()));
    }
    total.Print("all, one after the other");
  }
  const Clock together;
  const AnalysisInput input(loaded->set, options);
  RunAnalyses(input, all);
  together.Print("all, two threads");
  return 0;
}

}  // namespace
}  // namespace flopwatch::trace

int main(int argc, char** argv) { return flopwatch::trace::Main(argc, argv); }
