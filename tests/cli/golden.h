// Golden text: an input in tests/golden/cli, the view, the expected text beside it.
// FLOPWATCH_UPDATE_GOLDEN=1 writes the text instead of comparing; the diff is then reviewed like
// code.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json_read.h"

namespace flopwatch::cli {

inline std::filesystem::path SourcePath(const std::string& relative) {
  return std::filesystem::path(FLOPWATCH_SOURCE_DIR) / relative;
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool UpdateGolden() {
  const char* update = std::getenv("FLOPWATCH_UPDATE_GOLDEN");
  return update != nullptr && std::string(update) == "1";
}

inline std::string CannedText(const std::string& name) {
  return ReadText(SourcePath("tests/golden/cli/" + name));
}

inline Json Canned(const std::string& name) {
  auto json = Json::Parse(CannedText(name));
  EXPECT_TRUE(json.ok()) << name << ": " << json.status();
  return json.ok() ? *std::move(json) : Json();
}

inline void ExpectGolden(const std::string& name, const std::string& actual) {
  const auto path = SourcePath("tests/golden/cli/" + name);
  if (UpdateGolden()) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(path))
      << path << " is missing: FLOPWATCH_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(actual, ReadText(path))
      << "differs from " << path << "; if that is meant, FLOPWATCH_UPDATE_GOLDEN=1 writes it";
}

}  // namespace flopwatch::cli
