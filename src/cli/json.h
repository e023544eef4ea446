// JSON from the API or from a file as a read-only tree that forgives: a missing member, or one of another kind, reads as
// absent, because a view must show what there is. The parsing library stays in json.cc.
#ifndef FLOPWATCH_CLI_JSON_H_
#define FLOPWATCH_CLI_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace flopwatch::cli {

inline constexpr size_t kMaxJsonBytes = 256u << 20;
inline constexpr int kMaxJsonDepth = 32;

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in document order

  static StatusOr<Json> Parse(std::string_view text);

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

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_JSON_H_
