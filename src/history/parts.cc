#include "history/parts.h"

#include <algorithm>
#include <utility>

#include "ingest/origin.h"
#include "telemetry/labels.h"

namespace flopwatch::history {
namespace {

constexpr std::string_view kInstance = "instance";
// Proxies before a server take 8 KiB of a URL, and what is not plain becomes three bytes there.
constexpr size_t kMostExpressionBytes = 4096;

void AppendQuoted(std::string_view text, std::string* expression) {
  for (const char c : text) {
    if (std::string_view(R"(\.+*?()|[]{}^$)").find(c) != std::string_view::npos)
      *expression += '\\';
    *expression += c;
  }
}

}  // namespace

size_t Parts::NumberOf(const std::string& name) {
  const auto [at, is_new] = number_of_.try_emplace(name, parent_.size());
  if (is_new) {
    parent_.push_back(at->second);
    series_.push_back(0);
  }
  return at->second;
}

size_t Parts::RootOf(size_t k) const {
  while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
  return k;
}

void Parts::Join(size_t a, size_t b) {
  a = RootOf(a);
  b = RootOf(b);
  parent_[std::max(a, b)] = std::min(a, b);
}

void Parts::SeeInstance(std::string_view instance) {
  const size_t k = NumberOf(std::string("i").append(instance));
  const std::string_view host = ingest::HostOfInstance(instance);
  if (!host.empty()) Join(k, NumberOf(std::string("h").append(host)));
}

void Parts::See(const telemetry::MetricSeries& series) {
  const std::string_view instance = series.Label(kInstance);
  SeeInstance(instance);
  const size_t k = NumberOf(std::string("i").append(instance));
  series_[k] += 1;
  std::string line;
  telemetry::AppendSeries(series, &line);
  line += " 0";
  telemetry::SeriesText text;
  if (telemetry::ParseSeries(line, telemetry::kMaxWireLabels, &text) !=
      telemetry::SeriesError::kNone)
    return;
  const telemetry::LabelFacts facts = telemetry::ReadLabels(
      text, telemetry::DialectOf(text.name), std::string(ingest::HostOfInstance(instance)));
  if (!facts.labels.node.empty()) Join(k, NumberOf("n" + facts.labels.node));
  if (!facts.key.uuid.empty()) Join(k, NumberOf("u" + facts.key.uuid));
}

std::vector<Parts::Group> Parts::Groups() const {
  std::map<size_t, Group> by_root;
  for (const auto& [name, k] : number_of_) {  // in order of names
    if (!name.starts_with('i')) continue;
    Group& group = by_root[RootOf(k)];
    group.instances.push_back(name.substr(1));
    group.series += series_[k];
  }
  std::vector<Group> groups;
  for (auto& [root, group] : by_root) groups.push_back(std::move(group));
  std::ranges::sort(groups, {}, [](const Group& g) { return g.instances.front(); });
  return groups;
}

std::vector<std::vector<Parts::Group>> Parts::Cut(std::vector<Group> groups, size_t n) {
  double all = 0;
  for (const Group& group : groups) all += group.series;
  std::vector<std::vector<Group>> parts;
  double before = 0;
  for (Group& group : groups) {
    const double due = all * static_cast<double>(parts.size()) / static_cast<double>(n);
    // The middle of it says where it belongs.
    if (parts.empty() || (parts.size() < n && before + group.series / 2 >= due))
      parts.emplace_back();
    before += group.series;
    parts.back().push_back(std::move(group));
  }
  return parts;
}

std::vector<telemetry::ReadMatcher> Parts::OneOf(const std::vector<Group>& groups) {
  using Type = telemetry::ReadMatcher::Type;
  std::vector<telemetry::ReadMatcher> out;
  std::string expression;
  const auto give = [&] {
    if (expression.empty()) return;
    out.push_back({.type = Type::kRegex,
                   .name = std::string(kInstance),
                   .value = std::exchange(expression, "")});
  };
  for (const Group& group : groups) {
    for (const std::string& instance : group.instances) {
      if (instance.empty()) {  // a series without the label
        out.push_back({.type = Type::kEqual, .name = std::string(kInstance), .value = ""});
        continue;
      }
      if (!expression.empty()) expression += '|';
      AppendQuoted(instance, &expression);
      if (expression.size() >= kMostExpressionBytes) give();
    }
  }
  give();
  return out;
}

}  // namespace flopwatch::history
