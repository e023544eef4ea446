#include "trace/analysis/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "trace/parallel.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kWithArgument = "frequent_patterns";

// HTA answers this analysis with an object a rank, not with a table: in its mode both are given.
constexpr std::string_view kByRank = "cuda_kernel_launch_stats";

// {"0": {"n": 261, "launch_delay": {"mean": 60.7, ...}, ...}}: a dot in a column's name opens an
// object.
void WriteByRank(JsonWriter& json, const Table& table) {
  for (const auto& row : table.rows) {
    const auto* rank = row.empty() ? nullptr : std::get_if<int64_t>(&row[0]);
    if (rank == nullptr) return;
    json.Key(fmt::format("{}", *rank)).BeginObject();
    std::string_view open;
    for (size_t c = 1; c < table.columns.size() && c < row.size(); ++c) {
      const std::string_view name = table.columns[c].name;
      const size_t dot = name.find('.');
      const std::string_view group =
          dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
      if (group != open) {
        if (!open.empty()) json.EndObject();
        if (!group.empty()) json.Key(group).BeginObject();
        open = group;
      }
      json.Key(group.empty() ? name : name.substr(dot + 1));
      WriteCell(json, row[c]);
    }
    if (!open.empty()) json.EndObject();
    json.EndObject();
  }
}

std::string WhyNotComputable(const Status& status) {
  std::string message(status.message());
  return message.starts_with("not computable") ? message : "not computable: " + message;
}

}  // namespace

StatusOr<std::vector<AnalysisRequest>> ParseAnalyses(std::string_view names,
                                                     const AnalysisOptions& options) {
  std::vector<AnalysisRequest> out;
  const auto add = [&](const Analysis* analysis, std::string_view argument) {
    std::string key(analysis->name);
    if (!argument.empty()) key += fmt::format(":{}", argument);
    const auto same = [&](const AnalysisRequest& r) { return r.key == key; };
    if (std::ranges::none_of(out, same))
      out.push_back({analysis, std::move(key), std::string(argument)});
  };
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 1, names.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    if (name == "all") {
      for (const Analysis& a : Analyses())
        add(&a,
            options.hta && a.name == kWithArgument ? std::string_view(options.operator_name) : "");
      continue;
    }
    const size_t colon = name.find(':');
    const std::string_view argument = colon == std::string_view::npos ? "" : name.substr(colon + 1);
    FW_ASSIGN_OR_RETURN(const Analysis* analysis, FindAnalysis(name.substr(0, colon)));
    if (colon != std::string_view::npos && (analysis->name != kWithArgument || argument.empty())) {
      return InvalidArgument(
          "cannot run analysis {}: {}; write {}", Printable(name, 80),
          argument.empty() ? "nothing stands behind its colon" : "it takes no argument",
          analysis->name == kWithArgument ? "frequent_patterns:aten::linear" : analysis->name);
    }
    add(analysis, argument);
  }
  if (out.empty())
    return InvalidArgument("no analysis is named; give names separated by commas, or all");
  return out;
}

std::vector<AnalysisAnswer> RunAnalyses(const AnalysisInput& input,
                                        std::span<const AnalysisRequest> requests, int threads) {
  std::vector<std::optional<StatusOr<AnalysisTables>>> results(requests.size());
  ForEachOnThreads(requests.size(), threads, [&](size_t i) {
    const AnalysisRequest& r = requests[i];
    if (r.argument.empty() || r.argument == input.options().operator_name) {
      results[i] = r.analysis->run(input);
    } else {
      AnalysisOptions own = input.options();
      own.operator_name = r.argument;
      results[i] = r.analysis->run(AnalysisInput(input.set(), own));
    }
  });
  std::vector<AnalysisAnswer> out;
  out.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    out.push_back(
        {requests[i].key, std::string(requests[i].analysis->title), *std::move(results[i])});
  return out;
}

void WriteTableJson(JsonWriter& json, const Table& table) {
  json.Key("columns").BeginArray();
  for (const Column& c : table.columns) json.Value(c.name);
  json.EndArray().Key("rows").BeginArray();
  for (const auto& row : table.rows) {
    json.BeginArray();
    for (size_t c = 0; c < table.columns.size(); ++c)
      WriteCell(json, c < row.size() ? row[c] : Cell{});
    json.EndArray();
  }
  json.EndArray();
  if (!table.notes.empty()) {
    json.Key("notes").BeginArray();
    for (const std::string& note : table.notes) json.Value(note);
    json.EndArray();
  }
}

void WriteAnalysisJson(JsonWriter& json, std::string_view key,
                       const StatusOr<AnalysisTables>& tables) {
  json.BeginObject();
  if (!tables.ok()) {
    json.Field("error", WhyNotComputable(tables.status()));
  } else if (!tables->parts.empty()) {
    WriteTableJson(json, tables->parts.front().table);
    for (const AnalysisTables::Part& part : tables->parts) {
      if (part.name.empty()) continue;
      json.Key(part.name).BeginObject();
      WriteTableJson(json, part.table);
      json.EndObject();
    }
    const Table& main = tables->parts.front().table;
    const auto dotted = [](const Column& c) { return c.name.find('.') != std::string::npos; };
    if (key == kByRank && std::ranges::any_of(main.columns, dotted)) WriteByRank(json, main);
  }
  json.EndObject();
}

std::string AnalysesJson(std::span<const AnalysisAnswer> answers) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("analyses").BeginObject();
  for (const AnalysisAnswer& a : answers) {
    json.Key(a.key);
    WriteAnalysisJson(json, a.key, a.tables);
  }
  json.EndObject().EndObject();
  out += '\n';
  return out;
}

}  // namespace flopwatch::trace
