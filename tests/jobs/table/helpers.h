// Short ways to read small tables in the tests of jobs/table.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "jobs/table/reader.h"
#include "jobs/table/summary.h"

namespace flopwatch::table {

inline Mapping MapOf(std::string_view text) {
  StatusOr<Mapping> mapping = ParseMapping(text, "map.toml");
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping{};
}
inline std::string MapError(std::string_view text) {
  const StatusOr<Mapping> mapping = ParseMapping(text, "map.toml");
  return mapping.ok() ? "" : std::string(MessageOf(mapping.status()));
}

inline StatusOr<TableBooks> ReadTable(std::string_view map, std::string_view text,
                                      std::string_view file = "t.csv",
                                      const RowLimits& limits = {}) {
  TableReader reader(MapOf(map), limits);
  if (const Status status = reader.Add(text, file); !status.ok()) return status;
  return reader.Finish();
}
inline TableBooks ReadOk(std::string_view map, std::string_view text,
                         std::string_view file = "t.csv") {
  StatusOr<TableBooks> books = ReadTable(map, text, file);
  EXPECT_TRUE(books.ok()) << books.status();
  return books.ok() ? *std::move(books) : TableBooks{};
}
inline std::string ReadError(std::string_view map, std::string_view text,
                             std::string_view file = "t.csv") {
  const StatusOr<TableBooks> books = ReadTable(map, text, file);
  return books.ok() ? "" : std::string(MessageOf(books.status()));
}

// "bad_time 2, short_row 1"; "" where nothing is counted.
inline std::string Counts(const slurm::LossCounts& counts) {
  std::string out;
  for (const auto& [reason, loss] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", reason, loss.count);
  return out;
}
inline std::string Example(const slurm::LossCounts& counts) {
  return counts.empty() ? "" : counts.begin()->second.examples.front();
}

// "from-to:gpus", in the minutes of the day.
inline std::string Shown(const std::vector<jobs::AttemptRecord>& attempts) {
  std::string out;
  for (const jobs::AttemptRecord& a : attempts) {
    const Micros from = a.start > 0 ? a.start : a.submit;
    out += fmt::format("{}{}{}-{}:{}", out.empty() ? "" : " ", a.start > 0 ? "" : "q",
                       from % kMicrosPerDay / kMicrosPerMinute,
                       a.end % kMicrosPerDay / kMicrosPerMinute, a.gpus);
  }
  return out;
}
inline std::string Shown(const std::vector<jobs::NodeRecord>& nodes) {
  std::string out;
  for (const jobs::NodeRecord& n : nodes)
    out +=
        fmt::format("{}{}-{}:{}", out.empty() ? "" : " ", n.from % kMicrosPerDay / kMicrosPerMinute,
                    n.to % kMicrosPerDay / kMicrosPerMinute, n.gpus);
  return out;
}

// NaN where there is no such statistic or it cannot be computed.
inline double ValueOf(const std::vector<Statistic>& all, std::string_view name,
                      std::string_view by = "", std::string_view group = "") {
  for (const Statistic& s : all)
    if (s.name == name && s.by == by && s.group == group)
      return s.value.value_or(std::numeric_limits<double>::quiet_NaN());
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace flopwatch::table
