#include "api/openapi_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

namespace flopwatch::test {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

constexpr size_t kWidth = 120;  // what fits into a line of so many columns stands in one

// The forms that base/time.h reads.
constexpr char kDurationPattern[] = R"(([0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d|w|y))+)";
const std::string kTimePattern =
    fmt::format(R"(^(now|(now)?-{}|[0-9]{{1,10}}(\.[0-9]{{1,6}})?|{}([Tt ]{}(Z|z|[+-]{})?)?)$)",
                kDurationPattern, "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
                R"(([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?)",
                "([01][0-9]|2[0-3]):[0-5][0-9]");

std::string OneLine(const value& v) {
  std::string out;
  if (const object* o = v.if_object()) {
    for (const auto& [key, member] : *o) {
      out += out.empty() ? "{" : ", ";
      out += boost::json::serialize(key) + ": " + OneLine(member);
    }
    return out.empty() ? "{}" : out + "}";
  }
  if (const array* a = v.if_array()) {
    for (const value& item : *a) out += (out.empty() ? "[" : ", ") + OneLine(item);
    return out.empty() ? "[]" : out + "]";
  }
  return boost::json::serialize(v);
}

// `column`: where its first character stands.
std::string Pretty(const value& v, size_t indent, size_t column) {
  std::string one = OneLine(v);
  if (column + one.size() + 1 <= kWidth || !(v.is_object() || v.is_array())) return one;
  const std::string pad(indent + 2, ' ');
  std::string out;
  const auto add = [&](const std::string& label, const value& member) {
    out += fmt::format("{}\n{}{}{}", out.empty() ? "" : ",", pad, label,
                       Pretty(member, indent + 2, pad.size() + label.size()));
  };
  if (const object* o = v.if_object()) {
    for (const auto& [key, member] : *o) add(boost::json::serialize(key) + ": ", member);
    return fmt::format("{{{}\n{}}}", out, std::string(indent, ' '));
  }
  for (const value& item : v.as_array()) add("", item);
  return fmt::format("[{}\n{}]", out, std::string(indent, ' '));
}

value Text(std::string_view text) {
  return value(boost::json::string_view(text.data(), text.size()));
}

value SchemaOf(std::string_view schema) {
  if (schema.starts_with('{')) return boost::json::parse({schema.data(), schema.size()});
  return object{{"$ref", Text(fmt::format("#/components/schemas/{}", schema))}};
}

value ContentOf(const std::vector<api::Media>& content) {
  object out;
  for (const api::Media& m : content)
    out[std::string(m.type)] = object{{"schema", SchemaOf(m.schema)}};
  return out;
}

value SchemaOf(const api::Parameter& p) {
  object schema;
  switch (p.kind) {
    case api::Kind::kInteger:
      schema["type"] = "integer";
      if (p.min) schema["minimum"] = *p.min;
      if (p.max) schema["maximum"] = *p.max;
      if (p.fallback) schema["default"] = *p.fallback;
      break;
    case api::Kind::kBoolean:
      schema["type"] = "boolean";
      schema["default"] = false;
      break;
    case api::Kind::kOneOf: {
      schema["type"] = "string";
      array values;
      for (const std::string_view v : p.values) values.push_back(Text(v));
      schema["enum"] = std::move(values);
      if (p.has_default) schema["default"] = Text(p.values[0]);
      break;
    }
    case api::Kind::kTime:
      schema["type"] = "string";
      schema["pattern"] = kTimePattern;
      break;
    case api::Kind::kDuration:
      schema["type"] = "string";
      schema["pattern"] = fmt::format("^({}|[0-9]{{1,9}})$", kDurationPattern);
      break;
    case api::Kind::kPathName:
    case api::Kind::kText:
      schema["type"] = "string";
      if (p.required) schema["minLength"] = 1;
      if (p.max_length) schema["maxLength"] = *p.max_length;
      if (!p.text_fallback.empty()) schema["default"] = Text(p.text_fallback);
      break;
  }
  return schema;
}

value OperationOf(const api::Route& route) {
  object out{{"operationId", Text(route.operation)}, {"summary", Text(route.summary)}};
  array parameters;
  for (const api::Parameter* p : route.parameters) {
    const bool in_path = p->kind == api::Kind::kPathName;
    parameters.push_back(object{{"name", Text(p->name)},
                                {"in", in_path ? "path" : "query"},
                                {"required", in_path || p->required},
                                {"description", Text(p->help)},
                                {"schema", SchemaOf(*p)}});
  }
  if (!parameters.empty()) out["parameters"] = std::move(parameters);
  if (!route.body.empty()) {
    object body{{"required", route.body_required}};
    if (!route.body_help.empty()) body["description"] = Text(route.body_help);
    body["content"] = ContentOf(route.body);
    out["requestBody"] = std::move(body);
  }
  object responses;
  for (const api::Answer& answer : route.answers) {
    object response{{"description", Text(answer.help)}};
    if (!answer.content.empty()) response["content"] = ContentOf(answer.content);
    responses[std::to_string(answer.status)] = std::move(response);
  }
  out["responses"] = std::move(responses);
  return out;
}

}  // namespace

std::string OpenApiOf(const std::vector<api::Endpoint>& endpoints, std::string_view committed) {
  object paths;
  for (const api::Endpoint& endpoint : endpoints) {
    value& methods = paths[std::string(endpoint.route.path)];
    if (!methods.is_object()) methods = object();
    std::string method(endpoint.route.method);
    std::transform(method.begin(), method.end(), method.begin(), ::tolower);
    methods.as_object()[method] = OperationOf(endpoint.route);
  }
  constexpr std::string_view kPaths = "  \"paths\": ", kRest = ",\n  \"components\": ";
  const size_t begin = committed.find(kPaths), end = committed.find(kRest);
  if (begin == std::string_view::npos || end == std::string_view::npos)
    return "docs/openapi.json has no paths and components";
  return fmt::format("{}{}{}", committed.substr(0, begin + kPaths.size()),
                     Pretty(paths, 2, kPaths.size()), committed.substr(end));
}

}  // namespace flopwatch::test
