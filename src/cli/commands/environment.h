// Names of the environment variables of this process.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

namespace flopwatch::cli {

inline std::vector<std::string> EnvironmentNames() {
  std::vector<std::string> out;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry(*e);
    out.emplace_back(entry.substr(0, entry.find('=')));
  }
  return out;
}

}  // namespace flopwatch::cli
