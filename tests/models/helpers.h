// Models of the shared data, and small ones written here so that a fresh clone tests alone.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "data.h"
#include "models/flops.h"
#include "models/read.h"

namespace flopwatch::models {

inline std::vector<std::vector<std::string>> Csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> fields;
    if (!line.empty() && SplitCsv(line, &fields)) rows.push_back(fields);
  }
  return rows;
}

inline Model SharedModel(const std::string& name) {
  auto model =
      ReadModel(testing_data::ReadFile(testing_data::SharedData() / ("models/" + name + ".json")),
                name + ".json");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

inline Model Read(std::string_view text) {
  auto model = ReadModel(text, "test.json");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

inline std::string ReadError(std::string_view text) {
  const auto model = ReadModel(text, "c.json");
  EXPECT_FALSE(model.ok());
  return model.ok() ? "" : std::string(model.status().message());
}

// Training FLOPs over the whole workload.
inline Int Training(std::string_view convention, const Model& model, const Workload& workload) {
  const auto found = FindConvention(convention);
  EXPECT_TRUE(found.ok()) << found.status();
  const auto count = (*found)->evaluate(model, workload);
  EXPECT_TRUE(count.ok()) << count.status();
  return count.ok() ? count->Training() : Int{-1};
}

inline int64_t PerToken(std::string_view convention, const Model& model, int64_t length) {
  const auto found = FindConvention(convention);
  EXPECT_TRUE(found.ok()) << found.status();
  const auto count = (*found)->evaluate(model, Workload::Sequence(length));
  EXPECT_TRUE(count.ok()) << count.status();
  return count.ok() ? count->TrainingPerToken().value_or(-1) : -1;
}

}  // namespace flopwatch::models
