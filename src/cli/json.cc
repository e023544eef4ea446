#include "cli/json.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>

namespace flopwatch::cli {
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
      out.value_ = static_cast<double>(v.get_uint64());  // larger than int64: only a double holds it
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
      for (const auto& e : v.get_object()) object.emplace_back(std::string(e.key()), Convert(e.value()));
      out.value_ = std::move(object);
      break;
    }
  }
  return out;
}

const Json kNull;

}  // namespace

StatusOr<Json> Json::Parse(std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    return absl::OutOfRangeError(fmt::format("cannot read an answer of {} bytes: the limit is {}; ask for less", text.size(),
                                             kMaxJsonBytes));
  }
  boost::json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  boost::json::error_code error;
  boost::json::monotonic_resource arena;
  const boost::json::value v = boost::json::parse({text.data(), text.size()}, error, &arena, options);
  if (error) return absl::DataLossError(fmt::format("cannot read the answer as JSON: {}", error.message()));
  return Convert(v);
}

const Json& Json::operator[](std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&value_)) {
    for (const auto& [name, value] : *object) {
      if (name == key) return value;
    }
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

}  // namespace flopwatch::cli
