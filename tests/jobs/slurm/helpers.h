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

}  // namespace flopwatch::slurm
