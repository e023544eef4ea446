#include <fmt/format.h>

#include "base/text.h"
#include "base/toml.h"
#include "cli/config.h"

namespace flopwatch::cli {
namespace {

Status Refuse(std::string_view file, const toml::node& node, std::string_view key,
              std::string_view why) {
  return InvalidArgument(
      "cannot use the configuration file: {}:{}: {}: {}; docs/config.md lists the keys", file,
      node.source().begin.line, Printable(key, 80), why);
}

// The text of a scalar as the key table understands it; nullopt for dates, floats and tables.
std::optional<std::string> Scalar(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return fmt::format("{}", i->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  return std::nullopt;
}

}  // namespace

StatusOr<std::vector<FileEntry>> ParseConfigFile(std::string_view text,
                                                 std::string_view file_name) {
  const toml::parse_result parsed = ParseToml(text, file_name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return InvalidArgument("cannot use the configuration file: {}:{}:{}: {}; it must be TOML",
                           file_name, error.source().begin.line, error.source().begin.column,
                           Printable(error.description()));
  }
  std::vector<FileEntry> out;
  for (const auto& [section, node] : parsed.table()) {
    const std::string section_name(section.str());
    // hardware::Catalog::WithOverrides and fleet::Prices::Parse read these.
    if (section_name == "accelerator" || section_name == "prices") continue;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      // A key without a section: let the key table say that it does not know it.
      out.push_back({section_name, {}, false, static_cast<int>(node.source().begin.line)});
      continue;
    }
    for (const auto& [name, value] : *table) {
      FileEntry entry;
      entry.key = section_name + "." + std::string(name.str());
      entry.line = static_cast<int>(value.source().begin.line);
      if (const toml::array* array = value.as_array()) {
        entry.is_list = true;
        for (const toml::node& element : *array) {
          const auto item = Scalar(element);
          if (!item) return Refuse(file_name, element, entry.key, "a list of strings is expected");
          entry.items.push_back(*item);
        }
      } else if (const auto item = Scalar(value)) {
        entry.items = {*item};
      } else {
        return Refuse(file_name, value, entry.key,
                      "a string, whole number, boolean or list is expected");
      }
      out.push_back(std::move(entry));
    }
    // Whoever writes such a section wants it; there is nothing else that it must say.
    if (section_name == "slurm" && !table->contains("enabled"))
      out.push_back({"slurm.enabled", {"true"}, false, static_cast<int>(node.source().begin.line)});
  }
  return out;
}

}  // namespace flopwatch::cli
