// Questions about names, asked once a name: a trace has millions of rows and a few thousand names.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/string_pool.h"

namespace flopwatch::trace {

// What each name is, kept by NameId. Kind is an enum or bool.
template <typename Kind>
class NameKinds {
 public:
  explicit NameKinds(const StringPool& names) : names_(names), known_(names.size()) {}
  // The first question about a name asks `judge`, with its text; later ones get that answer.
  template <typename Judge>  // Kind(std::string_view)
  Kind Of(NameId id, const Judge& judge) {
    std::optional<Kind>& kind = known_[id];
    if (!kind) kind = judge(names_.Text(id));
    return *kind;
  }

 private:
  const StringPool& names_;
  std::vector<std::optional<Kind>> known_;
};

// A predicate of names with its answers kept by NameId.
class NamePredicate {
 public:
  NamePredicate(const StringPool& names, bool (*test)(std::string_view))
      : test_(test), kinds_(names) {}
  bool operator()(NameId id) { return kinds_.Of(id, test_); }

 private:
  bool (*test_)(std::string_view);
  NameKinds<bool> kinds_;
};

// Tells of every name of the pool, by NameId, whether it has `part` in it.
std::vector<bool> NamesWith(const StringPool& names, std::string_view part);

// Whether `text` has one of the parts in it, without regard to case.
bool HasAny(std::string_view text, std::initializer_list<std::string_view> lower_case_parts);

}  // namespace flopwatch::trace
