// flopwatch's own files of targets, in TOML.
#include <fmt/format.h>

#include "base/text.h"
#include "base/toml.h"
#include "discovery/file_source.h"

namespace flopwatch::discovery {
namespace {

StatusOr<std::vector<std::string>> TomlStrings(const toml::node& node, std::string_view what) {
  const toml::array* const list = node.as_array();
  std::vector<std::string> out;
  if (list == nullptr)
    return InvalidArgument("line {}: {} must be a list of strings", node.source().begin.line, what);
  for (const toml::node& item : *list) {
    const auto text = item.value<std::string>();
    if (!text)
      return InvalidArgument("line {}: {} must hold strings", item.source().begin.line, what);
    out.push_back(*text);
  }
  return out;
}

Status AppendTomlGroup(const toml::table& group, size_t max_targets,
                       std::vector<ScrapeTarget>* out) {
  Labels labels;
  std::vector<std::string> targets;
  for (const auto& [key, node] : group) {
    const std::string name(key.str());
    const auto line = node.source().begin.line;
    if (name == "targets") {
      FW_ASSIGN_OR_RETURN(targets, TomlStrings(node, "targets"));
    } else if (name == "scheme" || name == "path") {
      const auto text = node.value<std::string>();
      if (!text) return InvalidArgument("line {}: {} must be a string", line, name);
      labels.emplace_back(name == "scheme" ? "__scheme__" : "__metrics_path__", *text);
    } else if (name == "labels" && node.is_table()) {
      for (const auto& [label, value] : *node.as_table()) {
        const auto text = value.value<std::string>();
        if (!text)
          return InvalidArgument("line {}: label {} must be a string", line,
                                 std::string(label.str()));
        labels.emplace_back(std::string(label.str()), *text);
      }
    } else {
      const std::string_view near = Nearest(name, {"targets", "scheme", "path", "labels"});
      return Advise(
          InvalidArgument("line {}: unknown key '{}' in [[group]]", line, Printable(name)),
          near.empty() ? "" : fmt::format("did you mean '{}'?", near));
    }
  }
  return AppendAddresses(targets, labels, max_targets, out);
}

class TargetFile final : public FileSource {
 public:
  TargetFile(const DiscoveryOptions& options, std::string path)
      : FileSource("file", std::move(path), options) {}
  bool must_start() const override { return true; }

 protected:
  StatusOr<std::vector<ScrapeTarget>> Parse(const std::string&, std::string_view text,
                                            size_t max_targets) const override {
    return ParseTargetsToml(text, max_targets);
  }
};

}  // namespace

StatusOr<std::vector<ScrapeTarget>> ParseTargetsToml(std::string_view text, size_t max_targets) {
  const toml::parse_result parsed = ParseToml(text);
  if (!parsed) {
    return InvalidArgument("line {}: {}", parsed.error().source().begin.line,
                           std::string(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  std::vector<ScrapeTarget> out;
  const toml::table* const scrape = root["scrape"].as_table();
  for (const toml::node* const list :
       {root.get("targets"), scrape == nullptr ? nullptr : scrape->get("targets")}) {
    if (list == nullptr) continue;
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TomlStrings(*list, "targets"));
    FW_RETURN_IF_ERROR(AppendAddresses(texts, {}, max_targets, &out));
  }
  if (const toml::node* const groups = root.get("group")) {
    if (!groups->is_array_of_tables())
      return InvalidArgument("line {}: write groups as [[group]]", groups->source().begin.line);
    for (const toml::node& group : *groups->as_array())
      FW_RETURN_IF_ERROR(AppendTomlGroup(*group.as_table(), max_targets, &out));
  }
  if (scrape == nullptr) {  // the configuration file has keys of its own; a target file only these
    for (const auto& [key, node] : root) {
      if (key.str() == "targets" || key.str() == "group") continue;
      return InvalidArgument(
          "line {}: unknown key '{}'; expected targets = [\"host:9400\"] or [[group]]",
          node.source().begin.line, Printable(std::string(key.str())));
    }
  }
  return out;
}

std::unique_ptr<TargetSource> TargetFileSource(const DiscoveryOptions& options, std::string path) {
  return std::make_unique<TargetFile>(options, std::move(path));
}

}  // namespace flopwatch::discovery
