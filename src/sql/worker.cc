#include "sql/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/confine.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/subprocess.h"
#include "sql/answer.h"

namespace flopwatch::sql {
namespace {

// To start, to open the copy, and to plan what no timer ends.
constexpr Micros kBesideTheQuery = 10 * kMicrosPerSecond;
// Codes of absl::Status are 1 to 16; others are of a process that ended otherwise.
constexpr int kLastCode = 16;

StatusOr<std::string> Answer(std::string_view job) {
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(job, {.what = "the job of a worker"}));
  const auto number = [&](std::string_view key) { return json[key].integer_or(0); };
  const auto memory_mb = static_cast<uint64_t>(number("memory_mb"));
  const auto threads = static_cast<int>(number("threads"));
  const Micros timeout = number("timeout_us");
  // Of files it needs none: one byte is the least that is a limit.
  FW_RETURN_IF_ERROR(Confine({.max_memory_bytes = memory_mb << 20,
                              .max_cpu = threads * (timeout + kBesideTheQuery),
                              .max_file_bytes = 1,
                              .parent = number("parent")}));
  FW_ASSIGN_OR_RETURN(const auto store,
                      store::OpenDuckDbStore({.directory = json["directory"].text(),
                                              .read_only = true,
                                              .memory_limit_mb = memory_mb * 2 / 3,
                                              .threads = threads}));
  const std::string sql = json["sql"].text();
  FW_ASSIGN_OR_RETURN(const store::QueryResult result,
                      store->UserSql(sql, {.max_rows = static_cast<uint64_t>(number("max_rows")),
                                           .max_bytes = static_cast<uint64_t>(number("max_bytes")),
                                           .timeout = timeout}));
  return AnswerJson(result, number("as_of"));
}

}  // namespace

StatusOr<std::string> AskWorker(const std::vector<std::string>& program,
                                const std::string& directory, Micros as_of,
                                const Question& question, const WorkerLimits& limits,
                                std::stop_token stop) {
  ProgramLimits of;
  JsonWriter(&of.input)
      .BeginObject()
      .Field("directory", directory)
      .Field("as_of", as_of)
      .Field("sql", question.text)
      .Field("max_rows", question.max_rows)
      .Field("max_bytes", limits.max_bytes)
      .Field("memory_mb", limits.memory_mb)
      .Field("threads", limits.threads)
      .Field("timeout_us", limits.timeout)
      .Field("parent", static_cast<int64_t>(::getpid()))
      .EndObject();
  of.name = "the query";
  of.longest = limits.timeout + kBesideTheQuery;
  of.max_output = limits.max_json_bytes;
  of.any_exit = true;
  of.grace = 0;  // it has nothing to tidy up
  StatusOr<ProgramOutput> ended = RunProgram(program, {}, of, stop);
  if (!ended.ok()) {
    if (absl::IsUnavailable(ended.status()))
      return Internal("{}; ask for less, or in parts", MessageOf(ended.status()));
    return ended.status();
  }
  if (ended->exit_code == 0) return std::move(ended->out);
  if (ended->exit_code > kLastCode) {
    return Internal("the query ended with exit code {}; ask for less, or in parts",
                    ended->exit_code);
  }
  return Status(static_cast<absl::StatusCode>(ended->exit_code), ended->out);
}

int RunSqlWorker(std::string_view job) {
  Status why;
  try {
    const StatusOr<std::string> answer = Answer(job);
    if (answer.ok()) {
      const bool written = std::fwrite(answer->data(), 1, answer->size(), stdout) == answer->size();
      // What is taken apart at the end is of no use to anybody.
      std::fflush(stdout);
      std::_Exit(written ? 0 : 1 + kLastCode);
    }
    why = answer.status();
  } catch (const std::exception& e) {
    why = ResourceExhausted(
        "the query needs more memory than one may take ({}); group or filter "
        "more",
        e.what());
  }
  const std::string message(why.message());
  std::fwrite(message.data(), 1, message.size(), stdout);
  std::fflush(stdout);
  std::_Exit(static_cast<int>(why.code()));
}

}  // namespace flopwatch::sql
