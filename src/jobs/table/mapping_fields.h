// The fields of each kind of row: what they are called in a mapping file, and which keys say how
// their text is read.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "base/status.h"
#include "base/toml.h"
#include "jobs/table/mapping.h"

namespace flopwatch::table {

enum class FieldKind : uint8_t { kText, kTime, kDuration, kCount, kNodes, kGpuList, kShare, kPart };

struct FieldRow {
  std::string_view name;
  What what;
  FieldKind kind;
  bool required = false;
};

absl::Span<const FieldRow> FieldsOf(RowKind rows);
std::string_view SectionOf(RowKind rows);

// "column", or a table with one of column, value, row, file_name and what its kind allows.
StatusOr<Field> ParseField(const toml::node& node, const FieldRow& row);
// A text of at most kMaxMappingText bytes without control characters.
StatusOr<std::string> MappingText(const toml::node& node);
// One text, or a list of them.
StatusOr<std::vector<std::string>> MappingTexts(const toml::node& node);

}  // namespace flopwatch::table
