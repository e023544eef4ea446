// The YAML in which people write Prometheus file_sd files: a list of mappings with block or flow
// lists and mappings of plain or quoted scalars. Everything else in YAML (anchors, tags, block
// scalars, flow over several lines) is refused by line, so that nothing is misread.
#ifndef FLOPWATCH_DISCOVERY_SD_YAML_H_
#define FLOPWATCH_DISCOVERY_SD_YAML_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace flopwatch::discovery {

// One element of a file_sd list.
struct SdGroup {
  std::vector<std::string> targets;
  std::vector<std::pair<std::string, std::string>> labels;
};

inline std::string_view Strip(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r'))
    s.remove_suffix(1);
  return s;
}

class SdYaml {
 public:
  explicit SdYaml(std::string_view text) : text_(text) {}

  StatusOr<std::vector<SdGroup>> Parse() {
    while (!text_.empty()) {
      ++line_;
      std::string_view line = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(std::min(line.size() + 1, text_.size()));
      line = WithoutComment(line);
      if (Strip(line).empty() || line == "---" || line == "...") continue;
      const size_t indent = line.find_first_not_of(' ');
      if (line[indent] == '\t') return Bad("tabs do not indent in YAML");
      FW_RETURN_IF_ERROR(Line(indent, Strip(line)));
    }
    return std::move(groups_);
  }

 private:
  enum class Section { kNone, kTargets, kLabels };

  Status Bad(std::string_view why) const {
    return absl::InvalidArgumentError(fmt::format(
        "line {}: {} (only the simple form of file_sd is read; JSON always works)", line_, why));
  }

  static std::string_view WithoutComment(std::string_view line) {
    char quote = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (quote != 0) {
        if (line[i] == '\\' && quote == '"')
          ++i;
        else if (line[i] == quote)
          quote = 0;
      } else if ((line[i] == '"' || line[i] == '\'') &&
                 (i == 0 ||
                  std::string_view(" [{,:-").find(line[i - 1]) != std::string_view::npos)) {
        quote = line[i];
      } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
        return line.substr(0, i);
      }
    }
    return line;
  }

  Status Line(size_t indent, std::string_view text) {
    if (text == "-" || text.starts_with("- ")) {
      const std::string_view item = Strip(text.substr(1));
      if (section_ == Section::kTargets && !groups_.empty() && indent >= key_indent_) {
        FW_ASSIGN_OR_RETURN(std::string value, Scalar(item));
        groups_.back().targets.push_back(std::move(value));
        return absl::OkStatus();
      }
      if (!groups_.empty() && indent != top_indent_) return Bad("a list here is not understood");
      top_indent_ = indent;
      groups_.emplace_back();
      section_ = Section::kNone;
      group_indent_ = item.empty() ? 0 : indent + (text.size() - item.size());
      return item.empty() ? absl::OkStatus() : Key(group_indent_, item);
    }
    if (section_ == Section::kTargets && indent >= key_indent_ && text.front() == '[')
      return Flow(text, '[', ']');
    if (text == "[]" && groups_.empty()) return absl::OkStatus();
    if (groups_.empty()) return Bad("expected a list of {targets, labels}");
    return Key(indent, text);
  }

  Status Key(size_t indent, std::string_view text) {
    std::string_view rest;
    FW_ASSIGN_OR_RETURN(const std::string key, KeyOf(text, &rest));
    if (section_ == Section::kLabels && indent > key_indent_) {
      FW_ASSIGN_OR_RETURN(std::string value, Scalar(rest));
      groups_.back().labels.emplace_back(key, std::move(value));
      return absl::OkStatus();
    }
    if (group_indent_ == 0) group_indent_ = indent;
    if (indent != group_indent_)
      return Bad("the indentation fits neither the group nor its labels");
    key_indent_ = indent;
    if (key == "targets") {
      section_ = Section::kTargets;
      return rest.empty() ? absl::OkStatus() : Flow(rest, '[', ']');
    }
    if (key == "labels") {
      section_ = Section::kLabels;
      return rest.empty() ? absl::OkStatus() : Flow(rest, '{', '}');
    }
    return Bad(fmt::format("unknown key '{}'", Printable(key)));
  }

  // [a, "b"] or {k: v, "l": 'w'} on one line.
  Status Flow(std::string_view text, char open, char close) {
    if (text.size() < 2 || text.front() != open || text.back() != close)
      return Bad(fmt::format("expected {}…{} on one line", open, close));
    text = Strip(text.substr(1, text.size() - 2));
    while (!text.empty()) {
      size_t end = 0;
      for (char quote = 0; end < text.size() && (quote != 0 || text[end] != ','); ++end) {
        if (quote == 0 && (text[end] == '"' || text[end] == '\''))
          quote = text[end];
        else if (text[end] == quote)
          quote = 0;
      }
      const std::string_view item = Strip(text.substr(0, end));
      text = Strip(text.substr(std::min(end + 1, text.size())));
      if (open == '[') {
        FW_ASSIGN_OR_RETURN(std::string value, Scalar(item));
        groups_.back().targets.push_back(std::move(value));
      } else {
        std::string_view rest;
        FW_ASSIGN_OR_RETURN(std::string key, KeyOf(item, &rest));
        FW_ASSIGN_OR_RETURN(std::string value, Scalar(rest));
        groups_.back().labels.emplace_back(std::move(key), std::move(value));
      }
    }
    section_ = Section::kNone;
    return absl::OkStatus();
  }

  StatusOr<std::string> KeyOf(std::string_view text, std::string_view* rest) const {
    size_t colon = std::string_view::npos;
    if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
      const size_t end = text.find(text[0], 1);
      if (end != std::string_view::npos) colon = text.find(':', end);
    } else {
      colon = text.ends_with(':') && text.find(": ") == std::string_view::npos ? text.size() - 1
                                                                               : text.find(": ");
    }
    if (colon == std::string_view::npos)
      return Bad(fmt::format("'{}' has no 'key: value'", Printable(text)));
    *rest = Strip(text.substr(colon + 1));
    return Scalar(Strip(text.substr(0, colon)));
  }

  StatusOr<std::string> Scalar(std::string_view text) const {
    if (text.empty()) return Bad("a value is missing");
    const char quote = text.front();
    if (quote == '"' || quote == '\'') {
      std::string out;
      for (size_t i = 1; i < text.size(); ++i) {
        if (text[i] == quote && quote == '\'' && i + 1 < text.size() && text[i + 1] == '\'') {
          ++i;
        } else if (text[i] == '\\' && quote == '"') {
          if (++i >= text.size() || (text[i] != '"' && text[i] != '\\'))
            return Bad("only \\\" and \\\\ are understood as escapes");
        } else if (text[i] == quote) {
          return i + 1 == text.size() ? StatusOr<std::string>(out)
                                      : Bad("text follows a quoted value");
        }
        out += text[i];
      }
      return Bad("a quote is left open");
    }
    if (std::string_view("&*!|>%@`{}[],").find(quote) != std::string_view::npos ||
        text.starts_with("- ") || text.find(": ") != std::string_view::npos ||
        text.ends_with(':')) {
      return Bad(fmt::format("'{}' is not a plain value", Printable(text)));
    }
    return std::string(text);
  }

  std::string_view text_;
  size_t line_ = 0, top_indent_ = 0, group_indent_ = 0, key_indent_ = 0;
  Section section_ = Section::kNone;
  std::vector<SdGroup> groups_;
};

}  // namespace flopwatch::discovery

#endif  // FLOPWATCH_DISCOVERY_SD_YAML_H_
