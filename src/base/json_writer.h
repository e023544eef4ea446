// Appends JSON to a string, fast enough for live endpoints (no tree is built). NaN and infinity
// become null, because a number that cannot be computed must not look like one. The caller keeps
// the nesting right; debug builds assert it.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flopwatch {

class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view name);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(const std::string& text) { return Value(std::string_view(text)); }
  JsonWriter& Value(double number);  // shortest form that reads back to the same double
  template <std::integral T>
  JsonWriter& Value(T number) {
    if constexpr (std::same_as<T, bool>) {
      return Bool(number);
    } else if constexpr (std::is_signed_v<T>) {
      return Int(number);
    } else {
      return Unsigned(number);
    }
  }
  JsonWriter& Null();
  template <typename T>
  JsonWriter& Value(const std::optional<T>& v) {
    return v.has_value() ? Value(*v) : Null();
  }
  // Key and value in one call.
  template <typename T>
  JsonWriter& Field(std::string_view name, const T& v) {
    return Key(name).Value(v);
  }
  // The same of a text that is null when empty: what is not known is never "".
  JsonWriter& TextField(std::string_view name, std::string_view text) {
    return text.empty() ? Key(name).Null() : Key(name).Value(text);
  }
  // Already serialised JSON, copied as it is.
  JsonWriter& Raw(std::string_view json);

 private:
  JsonWriter& Bool(bool b);
  JsonWriter& Int(int64_t v);
  JsonWriter& Unsigned(uint64_t v);
  void Separate();

  std::string* out_;
  bool need_comma_ = false;
};

// A JSON string literal with its quotes; each part that is no UTF-8 becomes U+FFFD, and
// what acts on a terminal is escaped, so that the output is
// always valid JSON.
void AppendJsonString(std::string* out, std::string_view text);

}  // namespace flopwatch
