// Short ways to read small texts in the tests of jobs/slurm.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "data.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "jobs/slurm/attempts.h"
#include "jobs/slurm/read.h"

namespace flopwatch::slurm {

inline TimeZone Zone(std::string_view name) {
  const StatusOr<TimeZone> zone = TimeZone::Load(name);
  EXPECT_TRUE(zone.ok()) << zone.status();
  return zone.ok() ? *zone : TimeZone();
}

inline ReadOptions InUtc() {
  ReadOptions options;
  options.time_zone = Zone("UTC");
  return options;
}

inline Books ReadOk(std::string_view text, const ReadOptions& options = InUtc(),
                    std::string_view file_name = "file") {
  StatusOr<Books> books = ReadBooks(text, file_name, options);
  EXPECT_TRUE(books.ok()) << books.status();
  return books.ok() ? *std::move(books) : Books{};
}

inline std::string ErrorOf(std::string_view text, const ReadOptions& options = InUtc(),
                           std::string_view file_name = "file") {
  const StatusOr<Books> books = ReadBooks(text, file_name, options);
  return books.ok() ? "" : std::string(books.status().message());
}

// "bad_time 2, short_record 1"; "" where nothing is counted.
inline std::string Counts(const LossCounts& counts) {
  std::string out;
  for (const auto& [reason, loss] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", reason, loss.count);
  return out;
}

inline int64_t Seconds(const std::optional<Micros>& t) { return t ? *t / kMicrosPerSecond : -1; }

inline std::filesystem::path SlurmData(std::string_view relative) {
  return testing_data::SharedData() / "slurm" / relative;
}
inline Books ReadCaptured(std::string_view relative, const ReadOptions& options = InUtc()) {
  return ReadOk(testing_data::ReadFile(SlurmData(relative)), options, std::string(relative));
}

// sacct was asked without a header for the live cluster's later jobs, 15 to 19.
inline ReadOptions LaterJobsOfLiveCluster() {
  ReadOptions options = InUtc();
  options.fields =
      std::vector<std::string>{"JobIDRaw", "JobID", "JobName", "User",      "State",    "ExitCode",
                               "Submit",   "Start", "End",     "AllocTRES", "NodeList", "Comment"};
  return options;
}

// All 19 jobs of the capture: sacct after the end, squeue while they ran, prologs.
inline std::vector<Books> LiveCluster() {
  ReadOptions later = LaterJobsOfLiveCluster();
  later.cluster = "ofu";
  return {ReadCaptured("live-22.05/sacct_X_P.txt"),
          ReadCaptured("live-22.05/sacct_X_P_with_comment.txt", later),
          ReadCaptured("live-22.05/squeue_running.json"),
          ReadCaptured("live-22.05/scontrol_show_job_d.txt"),
          ReadCaptured("live-22.05/sacct.json"),
          ReadCaptured("live-22.05/expected_allocations.csv")};
}
// 02:50:40, twenty seconds into 18 and 19.
constexpr Micros kLiveClusterAsOf = 1795229440 * kMicrosPerSecond;

}  // namespace flopwatch::slurm
