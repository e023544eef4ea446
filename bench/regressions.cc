// The regression scan beside a plain scan of the same columns: what judging costs over reading.
//
//   flopwatch simulate fleet --gpus 2000 --hours 336 --interval 60s --preset research --into D
//   bench_regressions D [HOURS] [REPEAT]
//
// The plain scan is DuckDB as it comes, which adds up every column of the minutes of jobs in the
// same files, on as many threads; by job it is what any answer by job costs.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "measure.h"
#include "query/regressions.h"
#include "scanner.h"
#include "store/store.h"

namespace flopwatch {
namespace {

template <typename F>
double Seconds(int repeat, F&& f) {
  return Least(
      repeat, [] { return ToSeconds(MonotonicNow()); }, f);
}

void Run(const std::string& directory, int hours, int repeat) {
  const auto store = Check(store::OpenDuckDbStore({.directory = directory, .read_only = true}));
  query::MemorySources sources;
  sources.store_stats = [&] { return store->stats(); };
  const query::Memory memory(std::move(sources), store->LoadDimensions());
  const query::Query query(&memory, store.get());
  const Micros to = memory.now();
  const store::Window window = {to - hours * kMicrosPerHour, to};
  Scanner scanner(directory, 2);
  const double plain =
      Seconds(repeat, [&] { scanner.Run(scanner.SumsOf("job_minute", false, window.from)); });
  const double by_job =
      Seconds(repeat, [&] { scanner.Run(scanner.SumsOf("job_minute", true, window.from)); });
  size_t points = 0;
  const double steps = Seconds(repeat, [&] {
    points = Check(store->UsageByJobSteps(window, 5 * kMicrosPerMinute, query::kWorkDuty)).size();
  });
  query::RegressionAnswer answer;
  const double all = Seconds(repeat, [&] {
    answer = Check(query::FindRegressions(query, {.window = window, .filter = {}, .options = {}}));
  });
  const double judged =
      Seconds(repeat, [&] { answer.judgement = fleet::JudgeWorkflows(answer.set.workflows, {}); });
  fmt::print(
      "{} runs of {} workflows in {} h, {} points, {} findings\n"
      "plain scan {:.3f} s; by job {:.3f} s; steps of jobs {:.3f} s; judging {:.3f} s; all {:.3f} "
      "s\n"
      "the whole scan is {:.1f} times the plain one, {:.1f} times the one by job\n",
      answer.judgement.runs, answer.judgement.workflows, hours, points,
      answer.judgement.findings.size(), plain, by_job, steps, judged, all, all / plain,
      all / by_job);
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "bench_regressions DIRECTORY [HOURS] [REPEAT]\n");
    return 2;
  }
  flopwatch::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 336, argc > 3 ? std::atoi(argv[3]) : 3);
}
