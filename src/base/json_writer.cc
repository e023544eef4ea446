#include "base/json_writer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/lookup.h"
#include "base/text.h"

namespace flopwatch {

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      out->push_back(static_cast<char>(c));
      ++i;
      continue;
    }
    if (c < 0x80) {
      static constexpr std::pair<unsigned char, std::string_view> kEscapes[] = {
          {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
      const std::string_view escape = ValueOf(kEscapes, c, std::string_view());
      *out += escape.empty() ? fmt::format("\\u{:04x}", c) : std::string(escape);
      ++i;
      continue;
    }
    const Utf8Part part = ReadUtf8(text, i);
    if (part.valid && ActsOnDisplay(part.code)) {
      *out += fmt::format("\\u{:04x}", static_cast<uint32_t>(part.code));
    } else if (part.valid) {
      out->append(text, i, part.bytes);
    } else {
      *out += "\xEF\xBF\xBD";
    }
    i += part.bytes;
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
