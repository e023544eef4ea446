// The list of groups of Prometheus' file_sd and http_sd, from JSON or YAML: two ways into one tree,
// and one reader of it.
#include <fmt/format.h>

#include <functional>

#include "base/json_read.h"
#include "base/text.h"
#include "discovery/discovery.h"
#include "discovery/target.h"
#include "discovery/yaml.h"

namespace flopwatch::discovery {
namespace {

constexpr size_t kMaxLabels = 64;
constexpr int kMaxDepth = 8;

const std::string* TextOf(const Json& value) { return std::get_if<std::string>(&value.value_); }

StatusOr<Labels> LabelsOf(const Json& value) {
  Labels out;
  if (value.is_null()) return out;
  if (!value.is_object()) return InvalidArgument("\"labels\" is not an object");
  if (value.object().size() > kMaxLabels) return InvalidArgument("more than {} labels", kMaxLabels);
  for (const auto& [name, label] : value.object()) {
    if (TextOf(label) == nullptr) return InvalidArgument("a label value is not a string");
    out.emplace_back(name, *TextOf(label));
  }
  return out;
}

Status AppendGroup(const Json& group, size_t max_targets, std::vector<ScrapeTarget>* out) {
  if (!group.is_object()) return InvalidArgument("not an object");
  for (const auto& [key, value] : group.object()) {
    if (key != "targets" && key != "labels")
      return InvalidArgument("unknown key '{}'", Printable(key));
  }
  FW_ASSIGN_OR_RETURN(const Labels labels, LabelsOf(group["labels"]));
  const Json& targets = group["targets"];
  if (!targets.is_array() && !targets.is_null())
    return InvalidArgument("\"targets\" is not a list");
  for (const Json& address : targets.array()) {
    if (TextOf(address) == nullptr) return InvalidArgument("a target is not a string");
    if (out->size() >= max_targets) return ResourceExhausted("more than {} targets", max_targets);
    FW_ASSIGN_OR_RETURN(ScrapeTarget target, MakeTarget(*TextOf(address), labels, 0));
    out->push_back(std::move(target));
  }
  return absl::OkStatus();
}

// `place` names an element for errors.
StatusOr<std::vector<ScrapeTarget>> TargetsOf(const Json& root, size_t max_targets,
                                              const std::function<std::string(size_t)>& place) {
  std::vector<ScrapeTarget> out;
  for (size_t k = 0; k < root.array().size(); ++k) {
    if (const Status s = AppendGroup(root.array()[k], max_targets, &out); !s.ok())
      return Annotate(s, place(k));
  }
  return out;
}

}  // namespace

StatusOr<std::vector<ScrapeTarget>> ParseSdJson(std::string_view text, size_t max_targets) {
  auto root = Json::Parse(text, {.max_depth = kMaxDepth, .what = "the list"});
  if (!root.ok())
    return InvalidArgument("not valid JSON: {}", std::string(root.status().message()));
  if (!root->is_array())
    return absl::InvalidArgumentError("expected a JSON list of {\"targets\":[…],\"labels\":{…}}");
  return TargetsOf(*root, max_targets, [](size_t k) { return fmt::format("element {}", k); });
}

StatusOr<std::vector<ScrapeTarget>> ParseSdYaml(std::string_view text, size_t max_targets) {
  FW_ASSIGN_OR_RETURN(const YamlList list,
                      ReadYamlList(text, {.max_nodes = 64 + 2 * (kMaxLabels + 2) * max_targets}));
  return TargetsOf(list.items, max_targets,
                   [&](size_t k) { return fmt::format("line {}", list.lines[k]); });
}

}  // namespace flopwatch::discovery
