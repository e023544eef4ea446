// What every trace command shares: paths and options in, a loaded TraceSet out, with progress on a
// terminal, and what reading lost said once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "trace/analysis/analysis.h"
#include "trace/import/load.h"
#include "trace/losses.h"

namespace flopwatch::cli {

struct TraceInputOptions {
  std::vector<std::string> paths;
  std::vector<int32_t> ranks;  // empty = all
  int threads = 0;             // 0 = the machine's cores
  bool rank_of_name = true;    // trace::LoadOptions::rank_of_name; false to compare with HTA
};
// PATH… (not added where `positional` is false), --rank, --threads.
void AddTraceInput(Args app, TraceInputOptions* options, bool positional = true);

// Options of what is computed: --compat, --communication, --operator, --annotation, --instance.
struct TraceAnalysisOptions {
  std::string compat, annotation;
  std::vector<std::string> communication;
  std::string operator_name = "aten::linear";
  int instance = 0;
  int min_pattern = trace::AnalysisOptions().min_pattern;
};
void AddTraceAnalysisOptions(Args app, TraceAnalysisOptions* options);
trace::AnalysisOptions OptionsOf(const TraceInputOptions& input,
                                 const TraceAnalysisOptions& options);

struct LoadedTrace {
  trace::Loaded loaded;
  trace::LossReport losses;
  const trace::TraceSet& set() const { return loaded.set; }
};
// Reads all paths. What was lost is said on stderr, and makes the exit code kPartial when it is
// more than repairs. `say` = false where the answer itself tells.
StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(Context& context, const TraceInputOptions& options,
                                                 bool say = true);

// Tables one after the other, each under its title: a heading for people, a comment in csv and tsv.
Status WriteTables(Context& context, const std::vector<std::pair<std::string, Table>>& tables);

}  // namespace flopwatch::cli
