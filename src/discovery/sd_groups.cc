// The list of groups of Prometheus' file_sd and http_sd, from JSON or YAML: two ways into one tree,
// and one reader of it.
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_read.h"
#include "base/text.h"
#include "discovery/discovery.h"
#include "discovery/target.h"
#include "discovery/yaml.h"

namespace flopwatch::discovery {
namespace {

constexpr size_t kMaxLabels = 64;
constexpr int kMaxDepth = 8;

// The way to a value: the group's index, then that of a member of it, then of an element of that.
using Way = std::vector<size_t>;
// Names the value at the end of a way, for errors.
using Namer = std::function<std::string(const Way&)>;

const std::string* TextOf(const Json& value) { return std::get_if<std::string>(&value.value_); }

Status UnknownKey(std::string_view key) {
  const std::string_view near = Nearest(key, {"targets", "labels"});
  return Advise(InvalidArgument("unknown key '{}'", Printable(key)),
                near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

// Turns the list of groups into targets. The way is always that to the value being read, so an
// error is where the reader stopped.
class GroupsReader {
 public:
  GroupsReader(size_t max_targets, Namer name)
      : max_targets_(max_targets), name_(std::move(name)) {}

  StatusOr<std::vector<ScrapeTarget>> Read(const Json& root) {
    for (size_t k = 0; k < root.array().size(); ++k) {
      way_ = {k};
      if (const Status s = ReadGroup(root.array()[k]); !s.ok()) return Annotate(s, name_(way_));
    }
    return std::move(out_);
  }

 private:
  // Labels may stand behind the targets that they belong to, so members are found first.
  Status ReadGroup(const Json& group) {
    if (!group.is_object()) return InvalidArgument("not an object");
    constexpr size_t kAbsent = ~size_t{0};
    size_t targets = kAbsent, labels = kAbsent;
    const Json::Object& members = group.object();
    for (size_t k = 0; k < members.size(); ++k) {
      if (members[k].first == "targets") {
        targets = k;
      } else if (members[k].first == "labels") {
        labels = k;
      } else {
        way_.push_back(k);
        return UnknownKey(members[k].first);
      }
    }
    Labels read;
    if (labels != kAbsent) {
      way_.push_back(labels);
      FW_ASSIGN_OR_RETURN(read, ReadLabels(members[labels].second));
      way_.pop_back();
    }
    if (targets == kAbsent) return absl::OkStatus();
    way_.push_back(targets);
    return ReadTargets(members[targets].second, read);
  }

  StatusOr<Labels> ReadLabels(const Json& value) {
    Labels out;
    if (value.is_null()) return out;
    if (!value.is_object()) return InvalidArgument("\"labels\" is not an object");
    if (value.object().size() > kMaxLabels)
      return InvalidArgument("more than {} labels", kMaxLabels);
    way_.push_back(0);
    for (const auto& [name, label] : value.object()) {
      if (TextOf(label) == nullptr) return InvalidArgument("a label value is not a string");
      out.emplace_back(name, *TextOf(label));
      ++way_.back();
    }
    way_.pop_back();
    return out;
  }

  Status ReadTargets(const Json& value, const Labels& labels) {
    if (!value.is_array() && !value.is_null()) return InvalidArgument("\"targets\" is not a list");
    way_.push_back(0);
    for (const Json& address : value.array()) {
      if (TextOf(address) == nullptr) return InvalidArgument("a target is not a string");
      if (out_.size() >= max_targets_)
        return ResourceExhausted("more than {} targets", max_targets_);
      FW_ASSIGN_OR_RETURN(ScrapeTarget target, MakeTarget(*TextOf(address), labels, 0));
      out_.push_back(std::move(target));
      ++way_.back();
    }
    return absl::OkStatus();
  }

  const size_t max_targets_;
  const Namer name_;
  Way way_;
  std::vector<ScrapeTarget> out_;
};

// The line of the value at the end of a way.
int LineAt(const std::vector<YamlLines>& items, const Way& way) {
  const YamlLines* at = &items[way[0]];
  for (size_t k = 1; k < way.size(); ++k) at = &at->inner[way[k]];
  return at->line;
}

}  // namespace

StatusOr<std::vector<ScrapeTarget>> ParseSdJson(std::string_view text, size_t max_targets) {
  auto root = Json::Parse(text, {.max_depth = kMaxDepth, .what = "the list"});
  if (!root.ok())
    return Annotate(WithCode(root.status(), absl::StatusCode::kInvalidArgument), "not valid JSON");
  if (!root->is_array())
    return InvalidArgument("expected a JSON list of {{\"targets\":[…],\"labels\":{{…}}}}");
  return GroupsReader(max_targets, [](const Way& way) { return fmt::format("element {}", way[0]); })
      .Read(*root);
}

StatusOr<std::vector<ScrapeTarget>> ParseSdYaml(std::string_view text, size_t max_targets) {
  FW_ASSIGN_OR_RETURN(const YamlList list,
                      ReadYamlList(text, {.max_nodes = 64 + 2 * (kMaxLabels + 2) * max_targets}));
  return GroupsReader(
             max_targets,
             [&](const Way& way) { return fmt::format("line {}", LineAt(list.lines, way)); })
      .Read(list.items);
}

}  // namespace flopwatch::discovery
