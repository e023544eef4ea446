// Runs many analyses over one set, on several threads where there are several, and writes their
// tables as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

// One question: an analysis, and the argument that stood behind its name
// ("frequent_patterns:aten::linear").
struct AnalysisRequest {
  const Analysis* analysis = nullptr;
  std::string key;  // as it is written in answers: the name, with its argument where one was given
  std::string argument;  // "" = the default of AnalysisOptions
};

// Names as users write them, separated by commas: "temporal_breakdown,idle_time_breakdown", "all".
// An argument follows a colon and is for frequent_patterns alone (the operator's name). NotFound
// with what was probably meant. `all` in hta mode gives frequent_patterns its argument in the key,
// as HTA's users know it.
StatusOr<std::vector<AnalysisRequest>> ParseAnalyses(std::string_view names,
                                                     const AnalysisOptions& options);

struct AnalysisAnswer {
  std::string key, title;
  StatusOr<AnalysisTables> tables;
};

// Answers are in the order of the requests. An analysis that fails leaves the others alone. `input`
// is shared by all of them, so what several need is computed once.
std::vector<AnalysisAnswer> RunAnalyses(const AnalysisInput& input,
                                        std::span<const AnalysisRequest> requests, int threads);

// {"columns": [...], "rows": [[...]]}, and "notes" where there are.
void WriteTableJson(JsonWriter& json, const Table& table);
// One analysis: its first part's columns and rows, and under its name each named part the same way;
// {"error": "not computable: ..."} for a failed one.
void WriteAnalysisJson(JsonWriter& json, std::string_view key,
                       const StatusOr<AnalysisTables>& tables);
// The answers as {"analyses": {KEY: ...}}.
std::string AnalysesJson(std::span<const AnalysisAnswer> answers);

}  // namespace flopwatch::trace
