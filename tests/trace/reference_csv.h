// What the reference tool wrote for a trace, as CSV, and comparing a value with it.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/table.h"
#include "base/text.h"
#include "data.h"
#include "trace/import/load.h"

namespace flopwatch::trace {

using Rows = std::vector<std::vector<std::string>>;

inline Rows ReadCsv(const std::filesystem::path& path) {
  Rows rows;
  std::istringstream in(testing_data::ReadFile(path));
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) SplitCsv(line, &rows.emplace_back());
  }
  return rows;
}

inline std::string TextOf(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) {
    char buffer[64];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, *number).ptr};
  }
  return "";
}

inline bool SameValue(const std::string& a, const std::string& b) {
  if (a == b) return true;
  double x = 0, y = 0;
  const auto whole = [](const std::string& text, double* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size();
  };
  return whole(a, &x) && whole(b, &y) && x == y;
}

inline TraceSet LoadSet(const std::string& relative) {
  auto loaded = Load({(testing_data::SharedData() / relative).string()});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? std::move(loaded->set) : TraceSet();
}

}  // namespace flopwatch::trace
