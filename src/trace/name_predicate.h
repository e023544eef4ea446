// Questions about names, asked once a name: a trace has millions of rows and a few thousand names.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "trace/string_pool.h"

namespace flopwatch::trace {

// A predicate of names with its answers kept by NameId.
class NamePredicate {
 public:
  NamePredicate(const StringPool& names, bool (*test)(std::string_view))
      : names_(names), test_(test), known_(names.size(), 0) {}
  bool operator()(NameId id) {
    uint8_t& k = known_[id];
    if (k == 0) k = test_(names_.Text(id)) ? 2 : 1;
    return k == 2;
  }

 private:
  const StringPool& names_;
  bool (*test_)(std::string_view);
  std::vector<uint8_t> known_;
};

// Tells of every name of the pool, by NameId, whether it has `part` in it.
std::vector<bool> NamesWith(const StringPool& names, std::string_view part);

// Whether `text` has one of the parts in it, without regard to case.
bool HasAny(std::string_view text, std::initializer_list<std::string_view> lower_case_parts);

}  // namespace flopwatch::trace
