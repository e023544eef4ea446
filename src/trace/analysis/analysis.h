// Every analysis is a pure function from a TraceSet to tables, in one file, registered in
// registry.cc. The numbers of the terminal, the report, JSON and the API come from here and nowhere
// else.
//
// Two modes. The default has the definitions of docs/traces.md: GPU work by category, nanosecond
// integers, all steps. `hta` selects events as HolisticTraceAnalysis 0.6 does (its rows, its kernel
// types, the last step dropped), with its column names, so that numbers can be compared; its
// defects that are not repeated are listed in docs/traces.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/table.h"
#include "trace/event_table.h"
#include "trace/kernel_class.h"
#include "trace/work_guard.h"

namespace flopwatch::trace {

struct AnalysisOptions {
  bool hta = false;
  int threads = 2;
  std::vector<std::string> communication_names = {};  // IsCommunicationKernel's `more`
  std::string annotation =
      {};  // analyses of one annotation's instances (critical path); "" = whole trace
  int instance = 0;
  std::optional<int32_t> rank = {};            // analyses of one rank; default the first
  std::string operator_name = "aten::linear";  // frequent kernel sequences
  int min_pattern = 2;                         // kernels in a sequence, at least
  // Once it has ended nothing new begins, and what was made so far is no answer. Null: never.
  const WorkGuard* guard = nullptr;
  bool ended() const { return guard != nullptr && guard->ended(); }
};

struct HtaRows;  // analysis/hta.h

// The GPU work of one stream of one device.
struct GpuStream {
  int64_t device = kUnknown;  // as the trace numbers it; kUnknown = not given
  int32_t stream = kNoStream;
  TableVector<Row> rows;  // by start time
};

// What several analyses need of one rank, computed once, on first use. Safe from several threads.
// Everything follows the definitions of the default mode except hta().
class RankView {
 public:
  RankView(const TraceSet& set, const RankTrace& rank, const AnalysisOptions& options);
  ~RankView();
  RankView(const RankView&) = delete;

  const TraceSet& set() const { return set_; }
  const RankTrace& rank() const { return rank_; }
  const EventTable& events() const { return rank_.events; }
  const AnalysisOptions& options() const { return options_; }

  const TableVector<KernelClass>& classes() const;    // one a row
  const TableVector<Row>& gpu_rows() const;           // GPU work by start time
  const std::vector<GpuStream>& gpu_streams() const;  // the same by device and stream
  const TableVector<Row>& parents_first()
      const;  // all rows, each after EventTable::parent; a thread's in the order entered
  const IntervalSet& busy() const;               // all GPU work
  const IntervalSet& busy(KernelClass c) const;  // of one class; kNone = the empty set
  // Of the classes that compute: kCompute and kFused, which hides its own communication.
  const IntervalSet& computing() const;
  const IntervalSet& exposed_communication() const;  // communication that no compute hides
  Interval gpu_span() const;   // first start to last end of GPU work; {0, 0} without any
  const HtaRows& hta() const;  // the rows that HTA looks at

 private:
  struct Lazy;
  const TraceSet& set_;
  const RankTrace& rank_;
  const AnalysisOptions& options_;
  std::unique_ptr<Lazy> lazy_;
};

struct Collectives;

// The whole question. Views are in the order of set.ranks; `set` outlives it.
class AnalysisInput {
 public:
  AnalysisInput(const TraceSet& set, AnalysisOptions options);
  ~AnalysisInput();
  AnalysisInput(const AnalysisInput&) = delete;
  AnalysisInput& operator=(const AnalysisInput&) = delete;
  const TraceSet& set() const { return set_; }
  const AnalysisOptions& options() const { return options_; }
  std::span<const std::unique_ptr<RankView>> ranks() const { return views_; }
  // The collectives of all ranks, matched once, on first use (collectives.h). Safe from several
  // threads.
  const Collectives& collectives() const;

 private:
  struct Lazy;
  const TraceSet& set_;
  AnalysisOptions options_;
  std::vector<std::unique_ptr<RankView>> views_;
  std::unique_ptr<Lazy> lazy_;
};

// Tables of one analysis. Most have one, named ""; others have named parts (gpu_kernel_breakdown:
// "kernel_type", "kernels").
struct AnalysisTables {
  struct Part {
    std::string name;
    Table table;
  };
  std::vector<Part> parts;
};

struct Analysis {
  std::string_view name;    // "temporal_breakdown": stable, as in -o json
  std::string_view title;   // one line for people
  bool many_ranks = false;  // needs two ranks to say anything
  // FailedPrecondition("not computable: ...") where the trace lacks what it needs.
  StatusOr<AnalysisTables> (*ours)(const AnalysisInput& input);
  // HTA's definition, in NAME_hta.cc beside ours; nullptr where the two are one.
  StatusOr<AnalysisTables> (*as_hta)(const AnalysisInput& input) = nullptr;

  StatusOr<AnalysisTables> run(const AnalysisInput& input) const {
    if (input.options().ended()) return input.options().guard->status();
    return input.options().hta && as_hta != nullptr ? as_hta(input) : ours(input);
  }
};

std::span<const Analysis> Analyses();
// InvalidArgument with the nearest name and all there are. A name may carry an argument after a
// colon ("frequent_patterns:aten::linear"), which the caller puts into the options.
StatusOr<const Analysis*> FindAnalysis(std::string_view name);

// Several analyses of one question, on options.threads threads; results in the order asked.
struct AnalysisRun {
  const Analysis* analysis = nullptr;
  StatusOr<AnalysisTables> result = Unknown("not run");
};
std::vector<AnalysisRun> RunAnalyses(const AnalysisInput& input,
                                     std::span<const Analysis* const> analyses);

}  // namespace flopwatch::trace
