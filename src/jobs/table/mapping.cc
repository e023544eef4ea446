#include "jobs/table/mapping.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/toml.h"
#include "jobs/table/mapping_fields.h"

namespace flopwatch::table {
namespace {

constexpr std::string_view kTopKeys[] = {"format", "delimiter", "time_zone", "null", "step",
                                         "where",  "attempt",   "pool",      "host"};
constexpr RowKind kRowKinds[] = {RowKind::kAttempts, RowKind::kPools, RowKind::kHosts};
constexpr size_t kMaxDelimiterBytes = 8;

class MappingParser {
 public:
  MappingParser(std::string_view name, Mapping* mapping) : name_(name), mapping_(mapping) {}

  Status Run(const toml::table& top) {
    for (const auto& [key, node] : top)
      FW_RETURN_IF_ERROR(At(node, key.str(), Top(key.str(), node)));
    if (sections_ != 1)
      return InvalidArgument(
          "{}: needs one of [attempt], [pool] and [host], which says what a row is", name_);
    return Check(top);
  }

 private:
  Status At(const toml::node& node, std::string_view key, const Status& status) const {
    if (status.ok()) return status;
    const std::string_view why = MessageOf(status);
    if (why.starts_with(name_)) return status;  // it has its place already
    return InvalidArgument("{}:{}: {}: {}", name_, node.source().begin.line, Printable(key, 60),
                           why);
  }

  Status Top(std::string_view key, const toml::node& node) {
    for (const RowKind rows : kRowKinds)
      if (key == SectionOf(rows)) return Section(rows, node);
    if (key == "where") return Where(node);
    if (key == "null") {
      FW_ASSIGN_OR_RETURN(const std::vector<std::string> words, MappingTexts(node));
      mapping_->null.insert(words.begin(), words.end());
      return absl::OkStatus();
    }
    if (std::find(std::begin(kTopKeys), std::end(kTopKeys), key) == std::end(kTopKeys)) {
      const std::string_view near = Nearest(key, {std::begin(kTopKeys), std::end(kTopKeys)});
      return Advise(InvalidArgument("is not known here"),
                    near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    FW_ASSIGN_OR_RETURN(const std::string text, MappingText(node));
    if (key == "format") {
      if (text != "csv" && text != "jsonl")
        return InvalidArgument("is \"csv\" (with a header) or \"jsonl\" (an object a line)");
      mapping_->json_lines = text == "jsonl";
    } else if (key == "delimiter") {
      if (text.empty() || text.size() > kMaxDelimiterBytes ||
          text.find_first_of("\"\n\r") != std::string::npos)
        return InvalidArgument("is one to {} bytes, no quote and no end of a line",
                               kMaxDelimiterBytes);
      mapping_->delimiter = text;
    } else if (key == "time_zone") {
      FW_ASSIGN_OR_RETURN(mapping_->time_zone, TimeZone::Load(text));
    } else {
      FW_ASSIGN_OR_RETURN(mapping_->step, ParseDuration(text));
      if (mapping_->step < kMicrosPerSecond || mapping_->step > 31 * kMicrosPerDay)
        return InvalidArgument("is from 1s to 31d");
    }
    return absl::OkStatus();
  }

  Status Where(const toml::node& node) {
    const toml::table* const table = node.as_table();
    if (table == nullptr || table->size() > kWhats)
      return InvalidArgument("is a table, [where], of at most {} columns", kWhats);
    for (const auto& [column, value] : *table) {
      Filter filter;
      filter.column = std::string(column.str());
      const toml::node* values = &value;
      if (const toml::table* const keys = value.as_table()) {
        filter.but = true;
        values = keys->get("not");
        if (keys->size() != 1 || values == nullptr)
          return InvalidArgument("{}: write a text, a list, or {{ not = [...] }}",
                                 Printable(column.str(), 60));
      }
      auto texts = MappingTexts(*values);
      if (!texts.ok()) return Annotate(texts.status(), Printable(column.str(), 60));
      filter.values.insert(texts->begin(), texts->end());
      mapping_->where.push_back(std::move(filter));
    }
    return absl::OkStatus();
  }

  Status Section(RowKind rows, const toml::node& node) {
    ++sections_;
    mapping_->rows = rows;
    const toml::table* const table = node.as_table();
    if (table == nullptr) return InvalidArgument("must be a table, [{}]", SectionOf(rows));
    const absl::Span<const FieldRow> known = FieldsOf(rows);
    for (const auto& [key, value] : *table) {
      const std::string_view name = key.str();
      const auto* const row = std::find_if(known.begin(), known.end(),
                                           [&](const FieldRow& f) { return f.name == name; });
      if (row == known.end()) {
        std::vector<std::string_view> names;
        for (const FieldRow& f : known) names.push_back(f.name);
        const std::string_view near = Nearest(name, names);
        return At(value, name,
                  Advise(InvalidArgument("is not known in [{}]", SectionOf(rows)),
                         near.empty() ? "" : fmt::format("did you mean {}?", near)));
      }
      auto field = ParseField(value, *row);
      if (!field.ok()) return At(value, name, field.status());
      (*mapping_)[row->what] = *std::move(field);
    }
    return absl::OkStatus();
  }

  Status Check(const toml::table& top) const {
    const std::string_view section = SectionOf(mapping_->rows);
    const int line = top.get(section)->source().begin.line;
    for (const FieldRow& row : FieldsOf(mapping_->rows)) {
      const Field& field = (*mapping_)[row.what];
      if (row.required && !field.given())
        return InvalidArgument("{}:{}: [{}] needs {}", name_, line, section, row.name);
      // The rows of one file would otherwise all have one time.
      const bool counted = row.kind != FieldKind::kText;
      if (counted && field.given() && field.from != Field::From::kColumn &&
          field.from != Field::From::kValue)
        return InvalidArgument("{}:{}: {}: comes from a column", name_, line, row.name);
    }
    const bool end = (*mapping_)[What::kEnd].given(), takes = (*mapping_)[What::kDuration].given();
    if (mapping_->rows == RowKind::kAttempts && end == takes)
      return InvalidArgument("{}:{}: [attempt] needs one of end and duration", name_, line);
    if (mapping_->rows == RowKind::kAttempts && mapping_->step != 0)
      return InvalidArgument("{}: step is of series, [pool] and [host]", name_);
    return absl::OkStatus();
  }

  const std::string name_;
  Mapping* const mapping_;
  int sections_ = 0;
};

}  // namespace

StatusOr<Mapping> ParseMapping(std::string_view text, std::string_view name) {
  if (text.size() > kMaxMappingBytes)
    return InvalidArgument("{}: a mapping file has at most {} bytes", Printable(name),
                           kMaxMappingBytes);
  const toml::parse_result parsed = ParseToml(WithoutByteOrderMark(text));
  if (!parsed)
    return InvalidArgument("{}:{}: {}; a mapping file is TOML", Printable(name),
                           parsed.error().source().begin.line,
                           Printable(parsed.error().description()));
  Mapping mapping;
  FW_RETURN_IF_ERROR(MappingParser(Printable(name), &mapping).Run(parsed.table()));
  mapping.null.insert("");
  return mapping;
}

}  // namespace flopwatch::table
