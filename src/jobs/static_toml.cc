// Static job assignments from TOML: [[assignment]] tables.

#include <sstream>

#include "base/text.h"
#include "base/toml.h"
#include "fmt/format.h"
#include "jobs/static_fields.h"

namespace flopwatch::jobs {
namespace {

// A value as the text the CSV reader would have got.
StatusOr<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (node.is_date_time() || node.is_date()) {
    std::ostringstream text;  // RFC 3339; without an offset it is read as UTC, like everywhere
    if (const auto* dt = node.as_date_time()) {
      text << dt->get();
    } else {
      text << node.as_date()->get();
    }
    return text.str();
  }
  return InvalidArgument("must be a string, a whole number or a date-time");
}

}  // namespace

StatusOr<std::vector<StaticAssignment>> ParseStaticToml(std::string_view text,
                                                        std::string_view file_name, Micros now) {
  const auto fail = [&](const toml::source_region& where, std::string_view why) {
    return InvalidArgument("{}:{}: {}", file_name, where.begin.line, why);
  };
  const toml::parse_result parsed = ParseToml(text);
  if (!parsed) return fail(parsed.error().source(), Printable(parsed.error().description()));
  std::vector<StaticAssignment> out;
  for (const auto& [key, node] : parsed.table()) {
    if (key.str() != "assignment" || !node.is_array_of_tables()) {
      return fail(node.source(),
                  fmt::format("'{}' is not known here; expected [[assignment]] tables",
                              Printable(key.str())));
    }
    for (const toml::node& element : *node.as_array()) {
      if (out.size() >= Limits{}.max_static_lines) {
        return ResourceExhausted("{}: more than {} assignments; give only the time that is needed",
                                 file_name, Limits{}.max_static_lines);
      }
      StaticAssignment a;
      for (const auto& [name, value] : *element.as_table()) {
        const StatusOr<StaticField> field = StaticFieldNamed(name.str());
        if (!field.ok()) return fail(name.source(), MessageOf(field.status()));
        const StatusOr<std::string> text_of = TextOf(value);
        if (!text_of.ok())
          return fail(value.source(),
                      fmt::format("{}: {}", name.str(), MessageOf(text_of.status())));
        const Status status = SetStaticField(*field, *text_of, now, &a);
        if (!status.ok()) return fail(value.source(), MessageOf(status));
      }
      const Status status = CheckStaticAssignment(a);
      if (!status.ok()) return fail(element.source(), MessageOf(status));
      out.push_back(std::move(a));
    }
  }
  return out;
}

}  // namespace flopwatch::jobs
