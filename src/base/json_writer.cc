#include "base/json_writer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/lookup.h"

namespace flopwatch {

size_t Utf8Length(std::string_view s, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned char c = byte(i);
  size_t n = 0;
  uint32_t cp = 0;
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) n = 2, cp = c & 0x1F;
  if (c >= 0xE0 && c <= 0xEF) n = 3, cp = c & 0x0F;
  if (c >= 0xF0 && c <= 0xF4) n = 4, cp = c & 0x07;
  if (n == 0 || i + n > s.size()) return 0;
  for (size_t k = 1; k < n; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
    cp = (cp << 6) | (byte(i + k) & 0x3F);
  }
  if (n == 3 && (cp < 0x800 || (cp >= 0xD800 && cp <= 0xDFFF))) return 0;
  if (n == 4 && (cp < 0x10000 || cp > 0x10FFFF)) return 0;
  return n;
}

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      out->push_back(static_cast<char>(c));
      ++i;
      continue;
    }
    if (c < 0x20 || c == '"' || c == '\\') {
      static constexpr std::pair<unsigned char, std::string_view> kEscapes[] = {
          {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
      const std::string_view escape = ValueOf(kEscapes, c, std::string_view());
      *out += escape.empty() ? fmt::format("\\u{:04x}", c) : std::string(escape);
      ++i;
      continue;
    }
    const size_t n = Utf8Length(text, i);
    if (n == 0) {
      *out += "\xEF\xBF\xBD";
      ++i;
    } else {
      out->append(text, i, n);
      i += n;
    }
  }
  out->push_back('"');
}

void JsonWriter::Separate() {
  if (need_comma_) out_->push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_->push_back('{');
  need_comma_ = false;
  return *this;
}
JsonWriter& JsonWriter::EndObject() {
  out_->push_back('}');
  need_comma_ = true;
  return *this;
}
JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_->push_back('[');
  need_comma_ = false;
  return *this;
}
JsonWriter& JsonWriter::EndArray() {
  out_->push_back(']');
  need_comma_ = true;
  return *this;
}
JsonWriter& JsonWriter::Key(std::string_view name) {
  Separate();
  AppendJsonString(out_, name);
  out_->push_back(':');
  need_comma_ = false;
  return *this;
}
JsonWriter& JsonWriter::Value(std::string_view text) {
  Separate();
  AppendJsonString(out_, text);
  return *this;
}
JsonWriter& JsonWriter::Value(double number) {
  if (!std::isfinite(number)) return Null();
  Separate();
  char buffer[32];
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, number);
  out_->append(buffer, end);
  return *this;
}
JsonWriter& JsonWriter::Bool(bool b) {
  Separate();
  *out_ += b ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::Int(int64_t v) {
  Separate();
  char buffer[24];
  out_->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  return *this;
}
JsonWriter& JsonWriter::Unsigned(uint64_t v) {
  Separate();
  char buffer[24];
  out_->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  return *this;
}
JsonWriter& JsonWriter::Null() {
  Separate();
  *out_ += "null";
  return *this;
}
JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_->append(json);
  return *this;
}

}  // namespace flopwatch
