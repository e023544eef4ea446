#include "models/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace flopwatch::models {
namespace {

std::string Shown(const Json& value) {
  if (const auto i = value.integer()) return fmt::format("{}", *i);
  if (const auto d = value.number()) return fmt::format("{}", *d);
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (std::holds_alternative<bool>(value.value_)) return value.boolean() ? "true" : "false";
  return "\"" + Printable(value.text(), 40) + "\"";
}

bool Named(const Json& object, std::string_view name) {
  const auto& fields = object.object();
  return std::any_of(fields.begin(), fields.end(),
                     [&](const auto& field) { return field.first == name; });
}

}  // namespace

std::pair<std::string_view, const Json*> Fields::Find(Names names) const {
  bool written_as_null = false;
  for (const std::string_view name : names) {
    const Json& value = (*object_)[name];
    if (!value.is_null()) return {name, &value};
    written_as_null = written_as_null || Named(*object_, name);
  }
  if (defaults_ == nullptr || written_as_null) return {*names.begin(), nullptr};
  for (const std::string_view name : names) {
    const Json& value = (*defaults_)[name];
    if (value.is_null()) continue;
    std::string shown = fmt::format("{} {}", name, Shown(value));
    const bool says_absence = value.integer().value_or(2) < 2 ||
                              (std::holds_alternative<bool>(value.value_) && !value.boolean());
    if (!says_absence && std::find(defaulted_.begin(), defaulted_.end(), shown) == defaulted_.end())
      defaulted_.push_back(std::move(shown));
    return {name, &value};
  }
  return {*names.begin(), nullptr};
}

bool Fields::Written(std::string_view name) const { return Named(*object_, name); }

void Fields::Fail(std::string_view field, std::string_view why) {
  if (status_.ok()) status_ = InvalidArgument("{}{}: {}", where_, field, why);
}

int64_t Fields::Size(Names names, int64_t max) {
  if (!Has(names)) {
    std::string others;
    for (const std::string_view name : names) {
      if (name != *names.begin()) others += fmt::format("{}{}", others.empty() ? "" : ", ", name);
    }
    Fail(*names.begin(),
         others.empty() ? "missing" : fmt::format("missing (also read: {})", others));
    return 1;
  }
  return SizeOr(names, 1, max);
}

int64_t Fields::SizeOr(Names names, int64_t fallback, int64_t max, int64_t min) {
  const auto [name, value] = Find(names);
  if (value == nullptr) return fallback;
  const auto number = value->integer();
  if (!number || *number < min || *number > max) {
    Fail(name, fmt::format("{} is not a whole number from {} to {}", Shown(*value), min, max));
    return std::max<int64_t>(min, 1);
  }
  return *number;
}

bool Fields::FlagOr(Names names, bool fallback) {
  const auto [name, value] = Find(names);
  if (value == nullptr) return fallback;
  if (!std::holds_alternative<bool>(value->value_)) {
    Fail(name, fmt::format("{} is not true or false", Shown(*value)));
    return fallback;
  }
  return value->boolean();
}

std::string Fields::TextOr(Names names, std::string_view fallback) {
  const auto [name, value] = Find(names);
  if (value == nullptr) return std::string(fallback);
  if (!std::holds_alternative<std::string>(value->value_)) {
    Fail(name, fmt::format("{} is not text", Shown(*value)));
    return std::string(fallback);
  }
  return value->text();
}

std::vector<int64_t> Fields::Integers(Names names, int64_t max) {
  const auto [name, value] = Find(names);
  std::vector<int64_t> out;
  if (value == nullptr) return out;
  if (!value->is_array() || value->array().size() > kMaxLayers) {
    Fail(name, fmt::format("expected a list of at most {} whole numbers", kMaxLayers));
    return out;
  }
  for (const Json& element : value->array()) {
    const auto number = element.integer();
    if (!number || *number < 0 || *number > max) {
      Fail(name,
           fmt::format("{} in the list is not a whole number from 0 to {}", Shown(element), max));
      return {};
    }
    out.push_back(*number);
  }
  return out;
}

std::vector<std::string> Fields::Texts(Names names) {
  const auto [name, value] = Find(names);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (!value->is_array() || value->array().size() > kMaxLayers) {
    Fail(name, fmt::format("expected a list of at most {} names", kMaxLayers));
    return out;
  }
  for (const Json& element : value->array()) {
    if (!std::holds_alternative<std::string>(element.value_)) {
      Fail(name, fmt::format("{} in the list is not text", Shown(element)));
      return {};
    }
    out.push_back(element.text());
  }
  return out;
}

}  // namespace flopwatch::models
