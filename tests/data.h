// Where tests find the real data (../shared/data, overridden by FLOPWATCH_DATA), and how they skip
// without it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace flopwatch::testing_data {

inline std::filesystem::path SharedData() {
  const char* override_path = std::getenv("FLOPWATCH_DATA");
  return override_path != nullptr ? override_path : FLOPWATCH_SHARED_DATA;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace flopwatch::testing_data

#define FLOPWATCH_REQUIRE_DATA(relative)                                            \
  if (!std::filesystem::exists(flopwatch::testing_data::SharedData() / (relative))) \
  GTEST_SKIP() << "real data not present: "                                         \
               << (flopwatch::testing_data::SharedData() / (relative))              \
               << " (set FLOPWATCH_DATA to where it is)"
