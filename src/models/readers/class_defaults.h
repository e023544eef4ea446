// What the configuration classes take for fields that a config.json leaves out, and how composite
// classes (vision, audio, speech) nest their language model. Facts of published code, one row each,
// in class_defaults.cc. Private to the room.
#pragma once

#include <span>
#include <string_view>

#include "base/json_read.h"

namespace flopwatch::models {

struct ClassDefaults {
  std::string_view type;    // model_type
  std::string_view when;    // the row counts only where this field is there; empty: else
  std::string_view name;    // the class
  std::string_view source;  // where the class is written
  std::string_view json;    // what it takes for a field that is absent; no value, no entry
};

// The class that reads this config; two classes share the names mamba2 and mpt. Null where no
// source is known: then an absent size is an error.
const ClassDefaults* FindClassDefaults(std::string_view type, const Json& config);

struct Composite {
  std::string_view type;    // model_type of the outer class
  std::string_view key;     // the field it keeps the language model (or the next class) in
  std::string_view nested;  // model_type of that field's object where it names none
  bool flat = false;        // the class takes the fields of the language model beside it too
};
const Composite* FindComposite(std::string_view type);
std::span<const Composite> Composites();

}  // namespace flopwatch::models
