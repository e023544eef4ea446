#include "uploads/worker.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/confine.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/time.h"

namespace flopwatch::uploads {
namespace {

constexpr Micros kLongest = kMicrosPerHour;  // of one analysis, as of its processor time
// Beyond what an analysis may take: the program itself, stacks, and what is freed but not given
// back.
constexpr uint64_t kMemoryBeside = uint64_t{256} << 20;
constexpr std::string_view kProgress = "progress: ";

std::string JobOf(const TraceWork& work, const std::string& catalog_overrides) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("paths").BeginArray();
  for (const std::string& path : work.paths) json.Value(path);
  json.EndArray()
      .Field("results", work.results)
      .Field("max_events", work.limits.max_events)
      .Field("max_text_bytes", work.limits.max_text_bytes)
      .Field("max_names", work.limits.max_names)
      .Field("max_name_bytes", work.limits.max_name_bytes)
      .Field("max_memory_bytes", work.limits.max_memory_bytes)
      .Field("threads", work.threads)
      .Field("written", work.written)
      .Field("catalog_overrides", catalog_overrides)
      .Field("parent", static_cast<int64_t>(::getpid()))
      .EndObject();
  return out;
}

Status Work(std::string_view job) {
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(job, {.what = "the job of a worker"}));
  const auto number = [&](std::string_view key) {
    return static_cast<uint64_t>(json[key].integer_or(0));
  };
  TraceWork work;
  for (const Json& path : json["paths"].array()) work.paths.push_back(path.text());
  work.results = json["results"].text();
  work.limits = {.max_events = number("max_events"),
                 .max_text_bytes = number("max_text_bytes"),
                 .max_names = number("max_names"),
                 .max_name_bytes = number("max_name_bytes"),
                 .max_memory_bytes = number("max_memory_bytes")};
  work.threads = static_cast<int>(json["threads"].integer_or(1));
  work.written = json["written"].text();
  FW_RETURN_IF_ERROR(Confine({.max_memory_bytes = work.limits.max_memory_bytes + kMemoryBeside,
                              .max_cpu = kLongest,
                              .max_file_bytes = kMaxTraceAnswerBytes,
                              .parent = json["parent"].integer_or(0)}));
  trace::WorkGuard guard(GuardLimits(work.limits));
  work.guard = &guard;
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog,
                      hardware::Catalog::WithOverrides(json["catalog_overrides"].text()));
  work.catalog = &catalog;
  work.progress = [](std::string_view what) {
    // One write, so that lines of two threads do not mix.
    const std::string line = fmt::format("{}{}\n", kProgress, what);
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
  // A trace that cannot be analysed is an answer, and written down.
  if (const auto summary = AnalyseTrace(work); !summary.ok())
    return ReadTraceSummary(work.results, work.paths.size()).status();
  return absl::OkStatus();
}

}  // namespace

StatusOr<TraceSummary> AnalyseTraceInWorker(const std::vector<std::string>& program,
                                            const std::string& catalog_overrides,
                                            const TraceWork& work, std::stop_token stop) {
  ProgramLimits limits;
  limits.name = "the analysis of this trace";
  limits.longest = kLongest;
  limits.input = JobOf(work, catalog_overrides);
  limits.on_error_line = [&work](std::string_view line) {
    if (line.starts_with(kProgress) && work.progress)
      work.progress(Printable(line.substr(kProgress.size())));
  };
  const StatusOr<ProgramOutput> ended = RunProgram(program, {}, limits, stop);
  if (stop.stop_requested()) return Cancelled("the server stops");
  Status why = ended.status();
  if (why.ok()) {
    StatusOr<TraceSummary> summary = ReadTraceSummary(work.results, work.paths.size());
    if (summary.ok() && summary->error.empty()) return summary;
    if (summary.ok()) return InvalidArgument("{}", summary->error);
    why = summary.status();
  }
  why = Status(why.code(),
               fmt::format("{}; the server and other traces are unharmed: run \"flopwatch trace "
                           "report\" on the files to see more",
                           MessageOf(why)));
  FW_RETURN_IF_ERROR(WriteTraceFailure(work, why));
  return why;
}

int RunTraceWorker(std::string_view job) {
  const Status done = Work(job);
  if (!done.ok()) fmt::print(stderr, "{}\n", MessageOf(done));
  return done.ok() ? 0 : 1;
}

}  // namespace flopwatch::uploads
