#include "base/json_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.h"

namespace flopwatch {
namespace {

Json Convert(const boost::json::value& v) {
  Json out;
  switch (v.kind()) {
    case boost::json::kind::null:
      break;
    case boost::json::kind::bool_:
      out.value_ = v.get_bool();
      break;
    case boost::json::kind::int64:
      out.value_ = v.get_int64();
      break;
    case boost::json::kind::uint64:
      out.value_ =
          static_cast<double>(v.get_uint64());  // larger than int64: only a double holds it
      break;
    case boost::json::kind::double_:
      out.value_ = v.get_double();
      break;
    case boost::json::kind::string:
      out.value_ = std::string(v.get_string().data(), v.get_string().size());
      break;
    case boost::json::kind::array: {
      Json::Array array;
      array.reserve(v.get_array().size());
      for (const auto& e : v.get_array()) array.push_back(Convert(e));
      out.value_ = std::move(array);
      break;
    }
    case boost::json::kind::object: {
      Json::Object object;
      object.reserve(v.get_object().size());
      for (const auto& e : v.get_object())
        object.emplace_back(std::string(e.key()), Convert(e.value()));
      out.value_ = std::move(object);
      break;
    }
  }
  return out;
}

const Json kNull;

// Infinity, -Infinity and NaN outside of strings become null, or these words as text.
std::string WithoutPythonConstants(std::string_view text, bool as_text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!in_string && (c == 'I' || c == 'N' || c == '-')) {
      bool found = false;
      for (const std::string_view constant : {"-Infinity", "Infinity", "NaN"}) {
        if (text.substr(i, constant.size()) != constant) continue;
        if (as_text) {
          out.append("\"").append(constant).append("\"");
        } else {
          out += "null";
        }
        i += constant.size() - 1;
        found = true;
        break;
      }
      if (found) continue;
    }
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    out += c;
  }
  return out;
}

// "line 3, column 14" of a byte offset.
std::string PositionOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t start = before.rfind('\n');
  return fmt::format("line {}, column {}", line,
                     before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1);
}

}  // namespace

Json::Json() = default;
Json::~Json() = default;
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;

StatusOr<Json> Json::Parse(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return OutOfRange("cannot read {} of {} bytes: the limit is {}", limits.what, text.size(),
                      limits.max_bytes);
  }
  text = WithoutByteOrderMark(text);
  std::string rewritten;
  if (limits.python_constants || limits.python_constants_as_text) {
    rewritten = WithoutPythonConstants(text, limits.python_constants_as_text);
    text = rewritten;
  }
  boost::json::parse_options options;
  options.max_depth = static_cast<size_t>(limits.max_depth);
  boost::json::monotonic_resource arena;
  boost::json::parser parser(&arena, options);
  boost::json::error_code error;
  const size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && text.find_first_not_of(" \t\r\n", read) != std::string_view::npos)
    error = boost::json::error::extra_data;
  if (error) {
    const std::string why = error == boost::json::error::too_deep
                                ? fmt::format("nested deeper than {} levels", limits.max_depth)
                                : error.message();
    return DataLoss("cannot read {} as JSON: {} at {}", limits.what, why, PositionOf(text, read));
  }
  return Convert(parser.release());
}

const Json& Json::operator[](std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&value_)) {
    for (const auto& [name, value] : *object)
      if (name == key) return value;
  }
  return kNull;
}

std::optional<double> Json::number() const {
  if (const auto* i = std::get_if<int64_t>(&value_)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&value_)) return *d;
  return std::nullopt;
}

std::optional<int64_t> Json::integer() const {
  if (const auto* i = std::get_if<int64_t>(&value_)) return *i;
  const auto* d = std::get_if<double>(&value_);
  if (d != nullptr && std::abs(*d) < 9e18 && std::floor(*d) == *d) return static_cast<int64_t>(*d);
  return std::nullopt;
}

bool Json::boolean() const {
  const auto* b = std::get_if<bool>(&value_);
  return b != nullptr && *b;
}

std::string Json::text() const {
  const auto* s = std::get_if<std::string>(&value_);
  return s != nullptr ? *s : std::string();
}

const Json::Array& Json::array() const {
  static const Array kEmpty;
  const auto* a = std::get_if<Array>(&value_);
  return a != nullptr ? *a : kEmpty;
}

const Json::Object& Json::object() const {
  static const Object kEmpty;
  const auto* o = std::get_if<Object>(&value_);
  return o != nullptr ? *o : kEmpty;
}

}  // namespace flopwatch
