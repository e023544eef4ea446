// The canonical fields and their spellings, as data. docs/fields.md is the same table for people; a
// test compares them.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "telemetry/field.h"

namespace flopwatch::telemetry {

struct CanonicalRow {
  CanonicalField id;
  std::string_view column;
  std::string_view unit;
  FieldKind kind;
  StorageType storage;
  double stored_per_unit;
  bool board_level;
  double max_valid;
  std::string_view help;
};

struct SpellingRow {
  CanonicalField id;
  std::string_view name;  // as the exporter writes it
  double factor = 1;
  double divisor = 1;
  bool mean = false;
  bool by_xid = false;
  bool percent_if_integer = false;
  bool amd = false;  // also found with the prefix "amd_"
};

absl::Span<const CanonicalRow> CanonicalRows();
// Grouped by field, preferred spelling first: a spelling's rank is its place in its group.
absl::Span<const SpellingRow> SpellingRows();

}  // namespace flopwatch::telemetry
