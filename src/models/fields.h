// Strict reading of a configuration's fields: a value of the wrong kind or size is an error that
// names the field; the first one is kept, so that a reader can be written straight down and asks
// status() once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "base/status.h"
#include "models/model.h"

namespace flopwatch::models {

class Fields {
 public:
  // `where` prefixes names in errors ("config.json: ", "config.json: text_config."). The object
  // must outlive this.
  // `defaults` are the values that the class of the configuration takes for absent fields; they
  // must outlive this too. A field that is written as null is not absent: it stays without a value.
  Fields(const Json& object, std::string where, const Json* defaults = nullptr)
      : object_(&object), defaults_(defaults), where_(std::move(where)) {}

  using Names =
      std::initializer_list<std::string_view>;  // spellings of one field; the first present counts

  bool Has(Names names) const { return Find(names).second != nullptr; }
  // A whole number of 1..max; absent (or null) is an error.
  int64_t Size(Names names, int64_t max = kMaxWidth);
  // The same with a value for absent; `min` 0 lets an explicit 0 mean "none".
  int64_t SizeOr(Names names, int64_t fallback, int64_t max = kMaxWidth, int64_t min = 1);
  int64_t CountOr(Names names, int64_t fallback, int64_t max = kMaxCount) {
    return SizeOr(names, fallback, max, 0);
  }
  bool FlagOr(Names names, bool fallback);
  std::string TextOr(Names names, std::string_view fallback);
  // A list of whole numbers in 0..max, of text; empty if absent, an error beyond kMaxLayers.
  std::vector<int64_t> Integers(Names names, int64_t max);
  std::vector<std::string> Texts(Names names);
  // Whether the config itself has the field, as a value or as null.
  bool Written(std::string_view name) const;
  const Json* Raw(Names names) const { return Find(names).second; }

  // Records an error about a field: "config.json: num_heads: `why`".
  void Fail(std::string_view field, std::string_view why);
  // Takes over the error of fields inside of one of these.
  void Take(const Status& inner) {
    if (status_.ok()) status_ = inner;
  }
  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }
  // What was read from the defaults, as "vocab_size 32000", in the order of reading; zeros, ones
  // and "false", which only say that something is not there, are left out.
  const std::vector<std::string>& defaulted() const { return defaulted_; }

 private:
  std::pair<std::string_view, const Json*> Find(Names names) const;

  const Json* object_;
  const Json* defaults_;
  std::string where_;
  Status status_;
  mutable std::vector<std::string> defaulted_;
};

}  // namespace flopwatch::models
