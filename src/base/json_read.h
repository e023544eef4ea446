// JSON from the API or from a file as a read-only tree that forgives: a missing member, or one of
// another kind, reads as absent, because a view must show what there is. A reader that must not
// forgive asks is_null() / the variant first (models/fields.h does). Size and depth are bounded
// before a tree is built; the parsing library stays in json_read.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace flopwatch {

inline constexpr size_t kMaxJsonBytes = 256u << 20;
inline constexpr int kMaxJsonDepth = 32;

struct JsonLimits {
  size_t max_bytes = kMaxJsonBytes;
  int max_depth = kMaxJsonDepth;
  std::string_view what = "the answer";  // named in errors: "cannot read the answer as JSON: ..."
  // Python writes Infinity, -Infinity and NaN, which JSON does not have; with this they read as
  // null (absent).
  bool python_constants = false;
  bool python_constants_as_text = false;  // or as the texts "NaN", "Infinity", "-Infinity"
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in document order

  // These are out of line: inline ones would ask for Object's members while pair<string, Json> is
  // still being made.
  Json();
  ~Json();
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;

  // DataLoss for text that is no JSON (with line and column) or nested too deep, OutOfRange for too
  // much of it. Of two members of one name the last counts, as in every JSON reader of the field.
  static StatusOr<Json> Parse(std::string_view text, const JsonLimits& limits = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }

  const Json& operator[](std::string_view key) const;  // null when absent
  std::optional<double> number() const;                // integers too
  std::optional<int64_t> integer() const;              // whole numbers in range
  bool boolean() const;                                // false when absent
  std::string text() const;                            // "" when absent
  const Array& array() const;                          // empty when absent
  const Object& object() const;

  double number_or(double fallback) const { return number().value_or(fallback); }
  int64_t integer_or(int64_t fallback) const { return integer().value_or(fallback); }

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace flopwatch
