#include "jobs/table/mapping_fields.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/text.h"

namespace flopwatch::table {
namespace {

constexpr FieldRow kAttemptFields[] = {
    {"cluster", What::kCluster, FieldKind::kText},
    {"job", What::kJob, FieldKind::kText, true},
    {"name", What::kName, FieldKind::kText},
    {"user", What::kUser, FieldKind::kText},
    {"account", What::kAccount, FieldKind::kText},
    {"partition", What::kPartition, FieldKind::kText},
    {"qos", What::kQos, FieldKind::kText},
    {"workflow", What::kWorkflow, FieldKind::kText},
    {"state", What::kState, FieldKind::kText},
    {"submit", What::kSubmit, FieldKind::kTime},
    {"eligible", What::kEligible, FieldKind::kTime},
    {"start", What::kStart, FieldKind::kTime, true},
    {"end", What::kEnd, FieldKind::kTime},
    {"duration", What::kDuration, FieldKind::kDuration},
    {"suspended", What::kSuspended, FieldKind::kDuration},
    {"gpus", What::kGpus, FieldKind::kCount, true},
    {"nodes", What::kNodes, FieldKind::kNodes},
    {"gpu_list", What::kGpuList, FieldKind::kGpuList},
    {"utilisation", What::kUtilisation, FieldKind::kShare},
};
constexpr FieldRow kPoolFields[] = {
    {"cluster", What::kCluster, FieldKind::kText},
    {"time", What::kTime, FieldKind::kTime, true},
    {"pool", What::kPool, FieldKind::kText, true},
    {"capacity", What::kCapacity, FieldKind::kCount, true},
    {"running", What::kRunning, FieldKind::kCount, true},
    {"waiting", What::kWaiting, FieldKind::kCount},
    {"part", What::kPart, FieldKind::kPart},
};
constexpr FieldRow kHostFields[] = {
    {"cluster", What::kCluster, FieldKind::kText},
    {"time", What::kTime, FieldKind::kTime, true},
    {"pool", What::kPool, FieldKind::kText, true},
    {"total", What::kCapacity, FieldKind::kCount, true},
    {"busy", What::kRunning, FieldKind::kCount, true},
};

constexpr std::pair<std::string_view, Micros> kUnits[] = {
    {"us", 1},
    {"ms", kMicrosPerMilli},
    {"s", kMicrosPerSecond},
    {"min", kMicrosPerMinute},
    {"h", kMicrosPerHour},
    {"d", kMicrosPerDay},
};

struct FieldKeys {
  FieldKind kind;
  std::initializer_list<std::string_view> keys;
};
const FieldKeys kKeys[] = {
    {FieldKind::kText, {"words"}},
    {FieldKind::kTime, {"unit", "origin"}},
    {FieldKind::kDuration, {"unit"}},
    {FieldKind::kCount, {"tres"}},
    {FieldKind::kNodes, {"separator", "strip", "hostlist"}},
    {FieldKind::kGpuList, {}},
    {FieldKind::kShare, {"unit"}},
    {FieldKind::kPart, {"name", "rest"}},
};

std::vector<std::string_view> KeysOf(FieldKind kind) {
  std::vector<std::string_view> keys = {"column", "value", "row", "file_name"};
  for (const FieldKeys& k : kKeys)
    if (k.kind == kind) keys.insert(keys.end(), k.keys.begin(), k.keys.end());
  return keys;
}

StatusOr<Micros> UnitOf(const std::string& text) {
  for (const auto& [name, micros] : kUnits)
    if (name == text) return micros;
  return InvalidArgument("unit '{}' is not known; use us, ms, s, min, h or d", Printable(text, 40));
}

Status SetWords(const toml::node& node, Field* field) {
  const toml::table* const table = node.as_table();
  if (table == nullptr || table->size() > kMaxMappingWords)
    return InvalidArgument("words must be a table of texts, of at most {}", kMaxMappingWords);
  for (const auto& [word, to] : *table) {
    FW_ASSIGN_OR_RETURN(std::string text, MappingText(to));
    field->words.insert_or_assign(std::string(word.str()), std::move(text));
  }
  return absl::OkStatus();
}

Status SetOrigin(const toml::node& node, Field* field) {
  FW_ASSIGN_OR_RETURN(const std::string text, MappingText(node));
  FW_ASSIGN_OR_RETURN(const Micros origin, ParseTime(text, 0));
  field->origin = origin;
  return absl::OkStatus();
}

Status SetFrom(Field::From from, const toml::node& node, Field* field) {
  if (field->given())
    return InvalidArgument("give one of column, value, row and file_name, not two");
  field->from = from;
  if (from == Field::From::kRow) {
    if (node.value<bool>() != true) return InvalidArgument("row must be true");
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(field->text, MappingText(node));
  if (field->text.empty()) return InvalidArgument("must not be empty");
  if (from == Field::From::kFileName &&
      std::count(field->text.begin(), field->text.end(), '*') != 1)
    return InvalidArgument("must have one *, which stands for the text wanted: \"earth_*_2020\"");
  return absl::OkStatus();
}

// "percent" or "ratio" of a share; micros of a time or duration.
Status SetUnit(const toml::node& node, FieldKind kind, Field* field) {
  FW_ASSIGN_OR_RETURN(const std::string text, MappingText(node));
  if (kind == FieldKind::kShare) {
    if (text != "percent" && text != "ratio")
      return InvalidArgument("unit of a utilisation is \"percent\" or \"ratio\"");
    field->scale = text == "percent" ? 0.01 : 1;
    return absl::OkStatus();
  }
  if (text == "text") {
    field->unit = 0;
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(field->unit, UnitOf(text));
  return absl::OkStatus();
}

Status SetKey(std::string_view key, const toml::node& node, FieldKind kind, Field* field) {
  constexpr std::pair<std::string_view, Field::From> kFrom[] = {
      {"column", Field::From::kColumn},
      {"value", Field::From::kValue},
      {"row", Field::From::kRow},
      {"file_name", Field::From::kFileName}};
  for (const auto& [name, from] : kFrom)
    if (key == name) return SetFrom(from, node, field);
  if (key == "words") return SetWords(node, field);
  if (key == "origin") return SetOrigin(node, field);
  if (key == "unit") return SetUnit(node, kind, field);
  if (key == "hostlist") {
    if (!node.is_boolean()) return InvalidArgument("must be true or false");
    field->hostlist = *node.value<bool>();
    return absl::OkStatus();
  }
  if (key == "tres") {
    FW_ASSIGN_OR_RETURN(field->tres, MappingTexts(node));
    if (field->tres.empty()) return InvalidArgument("must name a TRES: \"gres/gpu\", \"1001\"");
    return absl::OkStatus();
  }
  std::string* const to = key == "separator" ? &field->separator
                          : key == "strip"   ? &field->strip
                          : key == "name"    ? &field->part
                                             : &field->rest;
  FW_ASSIGN_OR_RETURN(*to, MappingText(node));
  return absl::OkStatus();
}

}  // namespace

absl::Span<const FieldRow> FieldsOf(RowKind rows) {
  if (rows == RowKind::kAttempts) return kAttemptFields;
  return rows == RowKind::kPools ? absl::Span<const FieldRow>(kPoolFields) : kHostFields;
}

std::string_view SectionOf(RowKind rows) {
  return rows == RowKind::kAttempts ? "attempt" : rows == RowKind::kPools ? "pool" : "host";
}

StatusOr<std::string> MappingText(const toml::node& node) {
  const auto* const text = node.as_string();
  if (text == nullptr) return InvalidArgument("must be a text");
  if (!IsUtf8(text->get()) || text->get().size() > kMaxMappingText)
    return InvalidArgument("must be a text of at most {} bytes", kMaxMappingText);
  return text->get();
}

StatusOr<std::vector<std::string>> MappingTexts(const toml::node& node) {
  std::vector<std::string> out;
  if (node.is_string()) {
    FW_ASSIGN_OR_RETURN(std::string text, MappingText(node));
    out.push_back(std::move(text));
    return out;
  }
  const toml::array* const list = node.as_array();
  if (list == nullptr || list->size() > kMaxMappingWords)
    return InvalidArgument("must be a text or a list of texts, of at most {}", kMaxMappingWords);
  for (const toml::node& element : *list) {
    FW_ASSIGN_OR_RETURN(std::string text, MappingText(element));
    out.push_back(std::move(text));
  }
  return out;
}

StatusOr<Field> ParseField(const toml::node& node, const FieldRow& row) {
  Field field;
  if (row.kind == FieldKind::kDuration) field.unit = kMicrosPerSecond;
  if (row.kind == FieldKind::kNodes) field.separator = ",";
  if (node.is_string()) {
    FW_RETURN_IF_ERROR(SetFrom(Field::From::kColumn, node, &field));
  } else if (const toml::table* const table = node.as_table()) {
    const std::vector<std::string_view> known = KeysOf(row.kind);
    for (const auto& [key, value] : *table) {
      if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
        const std::string_view near = Nearest(key.str(), known);
        return Advise(InvalidArgument("'{}' is not known here", Printable(key.str(), 60)),
                      near.empty() ? "" : fmt::format("did you mean {}?", near));
      }
      FW_RETURN_IF_ERROR(Annotate(SetKey(key.str(), value, row.kind, &field), key.str()));
    }
  } else {
    return InvalidArgument("must be a column's name, or a table that names one");
  }
  if (!field.given()) return InvalidArgument("give one of column, value, row and file_name");
  if (row.kind == FieldKind::kPart && (field.part.empty() || field.rest.empty()))
    return InvalidArgument(
        "needs name and rest: what the jobs of the part, and others, are called");
  return field;
}

}  // namespace flopwatch::table
