// The names -o takes, in the order help and completion show them.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/table.h"

namespace flopwatch::cli {

inline constexpr std::pair<std::string_view, OutputFormat> kOutputFormats[] = {
    {"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide}, {"json", OutputFormat::kJson},
    {"jsonl", OutputFormat::kJsonl}, {"csv", OutputFormat::kCsv},   {"tsv", OutputFormat::kTsv},
    {"md", OutputFormat::kMarkdown}, {"html", OutputFormat::kHtml}, {"yaml", OutputFormat::kYaml}};

inline std::string OutputFormatNames(std::string_view separator) {
  std::string out;
  for (const auto& [name, format] : kOutputFormats)
    out += (out.empty() ? "" : std::string(separator)) + std::string(name);
  return out;
}

// A report is a document: "json", "md", "html" or "text"; "" for a format of tables.
inline std::string_view DocumentFormat(OutputFormat format) {
  static constexpr std::pair<OutputFormat, std::string_view> kDocuments[] = {
      {OutputFormat::kJson, "json"},
      {OutputFormat::kMarkdown, "md"},
      {OutputFormat::kHtml, "html"},
      {OutputFormat::kTable, "text"},
      {OutputFormat::kWide, "text"}};
  for (const auto& [of, name] : kDocuments) {
    if (of == format) return name;
  }
  return "";
}

}  // namespace flopwatch::cli
