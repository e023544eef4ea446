#include "cli/worker.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/file.h"
#include "base/status.h"
#include "sql/worker.h"
#include "uploads/worker.h"

namespace flopwatch::cli {
namespace {

constexpr uint64_t kMaxJobBytes = 16 << 20;

struct Worker {
  std::string_view kind;
  int (*run)(std::string_view job);
};
constexpr Worker kWorkers[] = {{"sql", sql::RunSqlWorker}, {"trace", uploads::RunTraceWorker}};

}  // namespace

std::vector<std::string> WorkerCommand(std::string_view kind) {
  return {"/proc/self/exe", "worker", std::string(kind)};
}

int RunWorker(std::string_view kind) {
  for (const Worker& worker : kWorkers) {
    if (worker.kind != kind) continue;
    const StatusOr<std::string> job = ReadFile("-", kMaxJobBytes);
    if (job.ok()) return worker.run(*job);
    fmt::print(stderr, "{}\n", MessageOf(job.status()));
    return 1;
  }
  fmt::print(stderr, "there is no worker of this kind: the server starts those it needs\n");
  return 2;
}

}  // namespace flopwatch::cli
