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

// Where a value lies in its text. A member of a mapping lies where its key does; an element that is
// left out ("- " alone) where what follows it begins, because the parser says no more.
struct YamlLines {
  int line = 1;                  // the line that the value begins in, from 1
  std::vector<YamlLines> inner;  // those of its elements or members, in their order
};

struct YamlList {
  Json items;                    // an array; of several documents the lists one after the other
  std::vector<YamlLines> lines;  // of each item
};

// InvalidArgument names the line. A document that is no list is an error, an empty one is empty.
StatusOr<YamlList> ReadYamlList(std::string_view text, const YamlLimits& limits = {});

}  // namespace flopwatch::discovery
