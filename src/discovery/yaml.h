// A list in YAML as a tree. Aliases, anchors and tags are refused, depth and nodes bounded: a file
// of some hundred bytes must not become gigabytes, and nothing may mean two things. Every scalar is
// text, as Prometheus reads labels ("rack: 7" is "7"). yaml-cpp stays in yaml.cc.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "base/status.h"

namespace flopwatch::discovery {

struct YamlLimits {
  size_t max_depth = 3;  // a list of mappings of lists and mappings
  size_t max_nodes = 1'000'000;
};

struct YamlList {
  Json items;              // an array; of several documents the lists one after the other
  std::vector<int> lines;  // where each item begins, from 1
};

// InvalidArgument names the line. A document that is no list is an error, an empty one is empty.
StatusOr<YamlList> ReadYamlList(std::string_view text, const YamlLimits& limits = {});

}  // namespace flopwatch::discovery
