#include "discovery/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <string>
#include <utility>

#include "base/text.h"

namespace flopwatch::discovery {
namespace {

constexpr size_t kYamlDepthLimit = 64;  // where the parser is stopped, whatever may be read

// Stops the parser; never leaves this file.
struct Refused {
  int line;
  std::string why;
};

class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(const YamlLimits& limits) : limits_(limits) {
    out_.items.value_ = Json::Array();
  }

  void OnDocumentStart(const YAML::Mark&) override { levels_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(mark, "", anchor, Json());
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark.line + 1, "aliases are not read"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Json text;
    text.value_ = value;
    Add(mark, tag, anchor, std::move(text));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, false);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, true);
  }
  void OnMapEnd() override { End(); }

  // What was read, when the parser found no error of its own: that one says more.
  YamlList Take() {
    if (too_deep_.line != 0) throw too_deep_;
    return std::move(out_);
  }

 private:
  struct Level {
    bool is_map = false;
    Json value;
    YamlLines lines;
    std::string key;
    int key_line = 0;
    bool has_key = false;
  };

  void Check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refused{mark.line + 1, "anchors are not read"};
    // "?" and "!" are what the parser gives to plain and to quoted values without a tag.
    if (!tag.empty() && tag != "?" && tag != "!") throw Refused{mark.line + 1, "tags are not read"};
    if (++nodes_ > limits_.max_nodes)
      throw Refused{mark.line + 1, fmt::format("more than {} values", limits_.max_nodes)};
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool is_map) {
    Check(mark, tag, anchor);
    if (levels_.empty() && is_map) throw Refused{mark.line + 1, "expected a list"};
    if (levels_.size() >= limits_.max_depth && too_deep_.line == 0)
      too_deep_ = {last_line_, "expected a value, not a list or mapping"};
    if (levels_.size() >= kYamlDepthLimit) throw too_deep_;
    if (!levels_.empty() && levels_.back().is_map && !levels_.back().has_key)
      throw Refused{mark.line + 1, "a key is a list or mapping"};
    Level& level = levels_.emplace_back();
    level.is_map = is_map;
    level.lines.line = mark.line + 1;
    if (is_map) {
      level.value.value_ = Json::Object();
    } else {
      level.value.value_ = Json::Array();
    }
  }

  void End() {
    Json value = std::move(levels_.back().value);
    YamlLines lines = std::move(levels_.back().lines);
    levels_.pop_back();
    if (!levels_.empty()) return Put(std::move(value), std::move(lines));
    auto& all = std::get<Json::Array>(out_.items.value_);
    for (Json& item : std::get<Json::Array>(value.value_)) all.push_back(std::move(item));
    for (YamlLines& of_item : lines.inner) out_.lines.push_back(std::move(of_item));
  }

  void Add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Json value) {
    Check(mark, tag, anchor);
    last_line_ = mark.line + 1;
    if (levels_.empty()) {
      if (!value.is_null()) throw Refused{mark.line + 1, "expected a list"};
      return;  // a document without anything
    }
    Level& level = levels_.back();
    if (level.is_map && !level.has_key) {
      if (value.is_null()) throw Refused{mark.line + 1, "a key is missing"};
      level.key = value.text();
      level.key_line = mark.line + 1;
      level.has_key = true;
      return;
    }
    Put(std::move(value), {.line = mark.line + 1, .inner = {}});
  }

  void Put(Json value, YamlLines lines) {
    Level& level = levels_.back();
    if (!level.is_map) {
      std::get<Json::Array>(level.value.value_).push_back(std::move(value));
      level.lines.inner.push_back(std::move(lines));
      return;
    }
    auto& object = std::get<Json::Object>(level.value.value_);
    level.has_key = false;
    lines.line = level.key_line;
    for (size_t k = 0; k < object.size(); ++k) {
      if (object[k].first != level.key) continue;
      object[k].second = std::move(value);  // of two members of one name the last counts
      level.lines.inner[k] = std::move(lines);
      return;
    }
    object.emplace_back(std::exchange(level.key, {}), std::move(value));
    level.lines.inner.push_back(std::move(lines));
  }

  const YamlLimits limits_;
  YamlList out_;
  std::vector<Level> levels_;
  size_t nodes_ = 0;
  int last_line_ = 1;  // of the last scalar
  Refused too_deep_ = {0, ""};
};

constexpr size_t kShownBytes = 200;

// The parser has several words for a tab in the indentation of a line, none of which names it.
bool HasTabIndent(std::string_view text, int line) {
  for (int k = 0; k < line && text.find('\n') != std::string_view::npos; ++k)
    text.remove_prefix(text.find('\n') + 1);
  const size_t first = text.find_first_not_of(' ');
  return first != std::string_view::npos && text[first] == '\t';
}

}  // namespace

StatusOr<YamlList> ReadYamlList(std::string_view text, const YamlLimits& limits) {
  const auto bad = [](int line, std::string_view why) {
    return InvalidArgument("line {}: {}", line, why);
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(limits);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.Take();
  } catch (const Refused& refused) {
    return bad(refused.line, refused.why);
  } catch (const YAML::Exception& e) {
    const int line = e.mark.is_null() ? 0 : e.mark.line;
    return bad(line + 1, HasTabIndent(text, line) ? "tabs do not indent in YAML"
                                                  : Printable(e.msg, kShownBytes));
  }
}

}  // namespace flopwatch::discovery
