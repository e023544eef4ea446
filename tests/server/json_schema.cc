#include "json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace flopwatch::server {
namespace {

using boost::json::object;
using boost::json::value;

std::string TypeOf(const value& v) {
  switch (v.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
      return "integer";
    case boost::json::kind::double_:
      return "number";
    case boost::json::kind::string:
      return "string";
    case boost::json::kind::array:
      return "array";
    case boost::json::kind::object:
      return "object";
  }
  return "";
}

bool Fits(const std::string& type, std::string_view wanted) {
  return type == wanted || (type == "integer" && wanted == "number");
}

bool IsTime(std::string_view s) {  // RFC 3339 in UTC
  return s.size() >= 20 && s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[13] == ':' &&
         s[16] == ':' && s.back() == 'Z';
}

}  // namespace

std::string SchemaCheck::Check(const value& v, const value& schema_value,
                               const std::string& at) const {
  const object& schema = schema_value.as_object();
  static const std::set<std::string_view> kKnown = {
      "$ref",     "type",   "description", "properties",
      "required", "items",  "oneOf",       "additionalProperties",
      "enum",     "format", "minimum",     "maximum",
      "default"};
  for (const auto& [key, unused] : schema) {
    if (!kKnown.contains(std::string_view(key.data(), key.size())))
      return fmt::format("{}: keyword {} is not checked", at, std::string(key));
  }
  if (const value* ref = schema.if_contains("$ref")) {
    const std::string pointer(ref->as_string().c_str() + 1);  // without '#'
    return Check(v, document_.at_pointer(pointer), at);
  }
  if (const value* options = schema.if_contains("oneOf")) {
    std::string errors;
    int fitting = 0;
    for (const value& option : options->as_array()) {
      const std::string error = Check(v, option, at);
      fitting += error.empty();
      if (!error.empty()) errors += error + "; ";
    }
    return fitting == 1 ? "" : fmt::format("{}: {} of oneOf fit ({})", at, fitting, errors);
  }
  const std::string type = TypeOf(v);
  if (const value* wanted = schema.if_contains("type")) {
    bool fits = false;
    if (wanted->is_string()) fits = Fits(type, wanted->as_string());
    if (wanted->is_array()) {
      for (const value& w : wanted->as_array()) fits |= Fits(type, w.as_string());
    }
    if (!fits)
      return fmt::format("{}: {} is not {}", at, boost::json::serialize(v),
                         boost::json::serialize(*wanted));
  }
  if (const value* allowed = schema.if_contains("enum")) {
    const auto& list = allowed->as_array();
    if (std::find(list.begin(), list.end(), v) == list.end()) {
      return fmt::format("{}: {} is none of {}", at, boost::json::serialize(v),
                         boost::json::serialize(*allowed));
    }
  }
  if (const value* format = schema.if_contains("format"); format != nullptr && v.is_string()) {
    if (*format != "date-time" || !IsTime(v.as_string())) {
      return fmt::format("{}: {} is not in format {}", at, boost::json::serialize(v),
                         boost::json::serialize(*format));
    }
  }
  if (v.is_array()) {
    if (const value* items = schema.if_contains("items")) {
      size_t k = 0;
      for (const value& item : v.as_array()) {
        std::string error = Check(item, *items, fmt::format("{}[{}]", at, k++));
        if (!error.empty()) return error;
      }
    }
  }
  if (v.is_object()) {
    const object& o = v.as_object();
    if (const value* required = schema.if_contains("required")) {
      for (const value& name : required->as_array()) {
        if (!o.contains(name.as_string()))
          return fmt::format("{}: {} is missing", at, std::string(name.as_string()));
      }
    }
    const value* properties = schema.if_contains("properties");
    const value* additional = schema.if_contains("additionalProperties");
    for (const auto& [key, member] : o) {
      const std::string name(key);
      const value* known =
          properties == nullptr ? nullptr : properties->as_object().if_contains(key);
      std::string error;
      if (known != nullptr) {
        error = Check(member, *known, at + "." + name);
      } else if (additional != nullptr && additional->is_bool() && !additional->as_bool()) {
        error = fmt::format("{}: {} is not in the schema", at, name);
      } else if (additional != nullptr && additional->is_object()) {
        error = Check(member, *additional, at + "." + name);
      }
      if (!error.empty()) return error;
    }
  }
  return "";
}

}  // namespace flopwatch::server
