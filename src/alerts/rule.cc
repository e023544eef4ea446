#include "alerts/rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "base/toml.h"

namespace flopwatch::alerts {
namespace {

struct Shipped {
  std::string_view name, text;
};
// Made of rules/*.toml when this is built.
constexpr Shipped kShipped[] = {
#include "alerts/shipped_rules.inc"
};

constexpr size_t kMostRules = 500;
constexpr Micros kLongestHold = 7 * kMicrosPerDay;

constexpr std::string_view kKeys[] = {"scope",       "when",         "while",     "for",
                                      "keep_firing", "keep_unknown", "group",     "severity",
                                      "owner",       "value",        "threshold", "summary",
                                      "action",      "source",       "enabled",   "inhibited_by"};
constexpr std::string_view kOwners[] = {"operator", "user"};

// What a rule's table says, on top of what is there.
class RuleReader {
 public:
  RuleReader(const toml::table& table, Rule* rule) : table_(table), rule_(*rule) {}

  // An error leaves the place in where().
  Status Read() {
    FW_RETURN_IF_ERROR(OnlyKnownKeys());
    FW_RETURN_IF_ERROR(OneOf("scope", kScopeNames, &rule_.scope));
    FW_RETURN_IF_ERROR(OneOf("severity", kSeverityNames, &rule_.severity));
    if (table_.contains("scope") && !table_.contains("group"))
      rule_.group = rule_.scope == Scope::kGpu ? Grouping::kJob : Grouping::kSubject;
    FW_RETURN_IF_ERROR(OneOf("group", kGroupingNames, &rule_.group));
    FW_RETURN_IF_ERROR(Duration("for", 0, &rule_.hold));
    FW_RETURN_IF_ERROR(Duration("keep_firing", 0, &rule_.keep_firing));
    FW_RETURN_IF_ERROR(Duration("keep_unknown", kMicrosPerMinute, &rule_.keep_unknown));
    FW_RETURN_IF_ERROR(Parsed("when", Expression::Kind::kCondition, &rule_.when));
    FW_RETURN_IF_ERROR(While());
    FW_RETURN_IF_ERROR(Parsed("value", Expression::Kind::kNumber, &rule_.value));
    FW_RETURN_IF_ERROR(Parsed("threshold", Expression::Kind::kNumber, &rule_.threshold));
    FW_RETURN_IF_ERROR(Text("summary", &rule_.summary));
    FW_RETURN_IF_ERROR(Text("action", &rule_.action));
    FW_RETURN_IF_ERROR(Text("source", &rule_.source));
    FW_RETURN_IF_ERROR(Text("owner", &rule_.owner));
    if (std::ranges::find(kOwners, rule_.owner) == std::end(kOwners))
      return Fail("owner", "must be \"operator\" or \"user\"");
    FW_RETURN_IF_ERROR(Enabled());
    FW_RETURN_IF_ERROR(Names());
    return Complete();
  }
  const toml::source_region& where() const { return where_; }

 private:
  Status Fail(std::string_view key, std::string_view why) {
    if (const toml::node* node = table_.get(key)) where_ = node->source();
    return InvalidArgument("{} {}", key, why);
  }
  Status OnlyKnownKeys() {
    where_ = table_.source();
    for (const auto& [key, value] : table_) {
      if (std::ranges::find(kKeys, key.str()) != std::end(kKeys)) continue;
      where_ = key.source();
      const std::string_view near =
          Nearest(key.str(), std::vector<std::string_view>(std::begin(kKeys), std::end(kKeys)));
      return Advise(InvalidArgument("a rule has no key \"{}\"", Printable(key.str(), 60)),
                    near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    return absl::OkStatus();
  }
  Status Text(std::string_view key, std::string* out) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return absl::OkStatus();
    if (!node->is_string()) return Fail(key, "must be a text");
    *out = node->as_string()->get();
    return out->size() > 2000 ? Fail(key, "has more than 2000 characters") : absl::OkStatus();
  }
  template <typename E, size_t N>
  Status OneOf(std::string_view key, const std::string_view (&names)[N], E* out) {
    std::string text;
    FW_RETURN_IF_ERROR(Text(key, &text));
    if (!table_.contains(key)) return absl::OkStatus();
    const auto* at = std::ranges::find(names, text);
    if (at == std::end(names))
      return Fail(key, fmt::format("is \"{}\"; it must be one of {}", Printable(text, 40),
                                   fmt::join(names, ", ")));
    *out = static_cast<E>(at - std::begin(names));
    return absl::OkStatus();
  }
  Status Duration(std::string_view key, Micros least, Micros* out) {
    std::string text;
    FW_RETURN_IF_ERROR(Text(key, &text));
    if (!table_.contains(key)) return absl::OkStatus();
    const StatusOr<Micros> read = ParseDuration(text);
    if (!read.ok()) return Fail(key, fmt::format("is no time: {}", MessageOf(read.status())));
    if (*read < least || *read > kLongestHold)
      return Fail(key, fmt::format("is {}; it must be between {} and {}", FormatDuration(*read),
                                   FormatDuration(least), FormatDuration(kLongestHold)));
    *out = *read;
    return absl::OkStatus();
  }
  Status Parsed(std::string_view key, Expression::Kind kind, std::optional<Expression>* out) {
    std::string text;
    FW_RETURN_IF_ERROR(Text(key, &text));
    if (!table_.contains(key)) {
      // Of another kind of subject now: what was said of the first means nothing.
      if (out->has_value() && (*out)->scope() != rule_.scope) out->reset();
      return absl::OkStatus();
    }
    StatusOr<Expression> parsed = Expression::Parse(text, rule_.scope, kind);
    if (!parsed.ok()) return Fail(key, fmt::format("is wrong: {}", MessageOf(parsed.status())));
    *out = *std::move(parsed);
    return absl::OkStatus();
  }
  // Empty takes a shipped rule's away.
  Status While() {
    std::string text;
    FW_RETURN_IF_ERROR(Text("while", &text));
    if (!table_.contains("while") || !text.empty())
      return Parsed("while", Expression::Kind::kCondition, &rule_.while_);
    rule_.while_.reset();
    return absl::OkStatus();
  }
  Status Enabled() {
    const toml::node* node = table_.get("enabled");
    if (node == nullptr) return absl::OkStatus();
    if (!node->is_boolean()) return Fail("enabled", "must be true or false");
    rule_.enabled = node->as_boolean()->get();
    return absl::OkStatus();
  }
  Status Names() {
    const toml::node* node = table_.get("inhibited_by");
    if (node == nullptr) return absl::OkStatus();
    const toml::array* list = node->as_array();
    if (list == nullptr) return Fail("inhibited_by", "must be a list of rules' names");
    rule_.inhibited_by.clear();
    for (const toml::node& name : *list) {
      if (!name.is_string()) return Fail("inhibited_by", "must be a list of rules' names");
      rule_.inhibited_by.push_back(name.as_string()->get());
    }
    return absl::OkStatus();
  }
  Status Complete() {
    where_ = table_.source();
    if (!rule_.when.has_value())
      return InvalidArgument(
          "it has no condition for a {}; write when = \"...\" (`flopwatch alerts rules "
          "--quantities` lists what it may name)",
          ScopeName(rule_.scope));
    if (rule_.summary.empty())
      return InvalidArgument("it has no summary; write what people are to read in one line");
    const bool rack_of_node = rule_.scope == Scope::kNode && rule_.group == Grouping::kRack;
    if (rule_.scope != Scope::kGpu && rule_.group != Grouping::kSubject && !rack_of_node)
      return Fail("group", "is for rules about GPUs alone, and \"rack\" for those about nodes");
    return absl::OkStatus();
  }

  const toml::table& table_;
  Rule& rule_;
  toml::source_region where_;
};

bool IsRuleName(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status InhibitorsExist(const std::vector<Rule>& rules, std::string_view file) {
  std::vector<std::string_view> names;
  for (const Rule& rule : rules) names.push_back(rule.name);
  for (const Rule& rule : rules) {
    for (const std::string& by : rule.inhibited_by) {
      if (std::ranges::find(names, by) != names.end()) continue;
      const std::string_view near = Nearest(by, names);
      return Advise(InvalidArgument("{}: rule {}: inhibited_by names \"{}\", which is no rule",
                                    file, rule.name, Printable(by, 60)),
                    near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status AddRules(std::string_view text, std::string_view file, std::vector<Rule>* rules) {
  const auto fail = [&](const toml::source_region& where, std::string_view why) {
    return InvalidArgument("{}:{}: {}", file, where.begin.line, why);
  };
  const toml::parse_result parsed = ParseToml(text);
  if (!parsed) return fail(parsed.error().source(), Printable(parsed.error().description()));
  std::vector<Rule> all = *rules;
  for (const auto& [key, node] : parsed.table()) {
    if (key.str() != "rules" || !node.is_table())
      return fail(key.source(), fmt::format("\"{}\" is not known here; write [rules.NAME]",
                                            Printable(key.str(), 60)));
    for (const auto& [name, value] : *node.as_table()) {
      if (!value.is_table() || !IsRuleName(name.str()))
        return fail(name.source(),
                    fmt::format("\"{}\" is no rule; write [rules.NAME], with a name of small "
                                "letters, digits and _",
                                Printable(name.str(), 60)));
      auto at = std::ranges::find(all, name.str(), &Rule::name);
      if (at == all.end()) {
        if (all.size() >= kMostRules)
          return fail(name.source(), fmt::format("there are more than {} rules", kMostRules));
        all.push_back({.name = std::string(name.str()), .owner = "operator"});
        at = all.end() - 1;
      }
      RuleReader reader(*value.as_table(), &*at);
      if (const Status read = reader.Read(); !read.ok())
        return fail(reader.where(), fmt::format("rule {}: {}", name.str(), MessageOf(read)));
    }
  }
  FW_RETURN_IF_ERROR(InhibitorsExist(all, file));
  *rules = std::move(all);
  return absl::OkStatus();
}

std::vector<Quantity> EvidenceOf(const Rule& rule) {
  std::vector<Quantity> out = rule.when->quantities();
  if (!rule.while_.has_value()) return out;
  for (const Quantity q : rule.while_->quantities())
    if (std::ranges::find(out, q) == out.end()) out.push_back(q);
  return out;
}

std::string ConditionOf(const Rule& rule) {
  if (!rule.while_.has_value()) return rule.when->text();
  return fmt::format("{}, while {}", rule.when->text(), rule.while_->text());
}

QuantitySet QuantitiesOf(absl::Span<const Rule> rules) {
  QuantitySet out;
  for (const Rule& rule : rules) {
    if (!rule.enabled) continue;
    for (const auto* e : {&rule.when, &rule.while_, &rule.value, &rule.threshold}) {
      if (!e->has_value()) continue;
      for (const Quantity q : (*e)->quantities()) out.set(static_cast<size_t>(q));
    }
  }
  return out;
}

const std::vector<Rule>& ShippedRules() {
  static const std::vector<Rule>* const rules = [] {
    // Together, because they name each other.
    std::string text;
    for (const Shipped& file : kShipped) text += std::string(file.text) + "\n";
    auto* out = new std::vector<Rule>;
    if (const Status read = AddRules(text, "the shipped rules", out); !read.ok())
      LogError("{}", MessageOf(read));  // a test holds that there is none
    for (Rule& rule : *out) rule.shipped = true;
    std::ranges::sort(*out, {}, &Rule::name);
    return out;
  }();
  return *rules;
}

std::string_view ShippedRuleText(std::string_view name) {
  for (const Shipped& file : kShipped)
    if (file.name == name) return file.text;
  return "";
}

}  // namespace flopwatch::alerts
