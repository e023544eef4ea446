// MFU against OFU from the store: what a job's application reported, and what its GPUs did in
// exactly that time.
//
// A job's training window goes from the beginning of what its first application sample in the asked
// time stands for to its last one. The OFU is that of the same window: of one job from raw rows cut
// at its ends where that is cheap (kExactWindow), else from whole minutes inside it; of many jobs
// from minutes in one question, unless exact is asked for. Several claims of one job (a restart
// with another configuration, two sources) are not mixed: the one with the most time behind it
// stands for the job.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "fleet/divergence/diagnose.h"
#include "fleet/divergence/evidence.h"
#include "fleet/divergence/model.h"
#include "query/query.h"

namespace flopwatch::query {

// One job's claim, judged, and where its numbers come from.
struct JobDivergence {
  fleet::JobEvidence evidence;
  fleet::Diagnosis diagnosis;
  std::optional<store::Window> window;  // of both MFU and OFU
  // "raw": rows cut at the window's ends. "rollup": whole minutes inside it. "" = given by hand.
  std::string ofu_source;
  std::string claim_source;  // "megatron", "api", ...; "" = given by hand
  std::string mfu_basis;     // "mfu", "tflops_per_gpu", "tokens_per_s"
  std::string precision;     // as claimed
  // 95 % half-width of the OFU over the job's own minutes, of a question about one job. It is shown
  // and not judged by: the application spent the same minutes.
  std::optional<double> ofu_ci95;
  std::string model_note;  // why the model's configuration could not be used
  std::optional<int64_t> seq_len;
  int64_t samples = 0;       // of the claim
  int64_t other_claims = 0;  // of the job in the window, with less time behind them
};

struct DivergenceQuestion {
  store::Window window;
  std::optional<std::string> job;  // its key; absent = all with a claim
  bool exact = false;
  // Whole minutes alone, of short windows too: for who asks often and is content with them.
  bool minutes_only = false;
  fleet::Thresholds thresholds;
};

// What a claim's model costs. Configurations repeat: a job that restarts, a campaign of equal jobs.
class ModelCache {
 public:
  // nullopt: there is no configuration; *note says why one that is there cannot be used.
  std::optional<fleet::ModelFlops> Of(const telemetry::ApplicationClaim& claim, int64_t seq_len,
                                      std::string* note);

 private:
  std::map<std::tuple<std::string, int64_t, std::string>, StatusOr<fleet::ModelFlops>> known_;
};

// What is asked of the store again and again where the past is judged moment by moment; store.h
// says what each means (UsageByJobWindows() for Usage(), ApplicationByClaim() for Said(),
// UsageByGpu() for Gpus()).
class DivergenceReads {
 public:
  virtual ~DivergenceReads() = default;
  virtual StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() = 0;
  virtual StatusOr<std::vector<store::ApplicationUsage>> Said(store::Window w,
                                                              absl::Span<const int32_t> claims) = 0;
  virtual StatusOr<std::vector<store::JobUsage>> Usage(absl::Span<const store::JobWindow> windows,
                                                       bool exact) = 0;
  virtual StatusOr<std::vector<store::GpuUsage>> Gpus(store::Window w, int32_t job) = 0;
  ModelCache models;  // for as long as this is there
};

// Jobs are in the order of their keys. A question about one job gives exactly one, also where
// nothing was reported: its diagnosis says so. `reads`: who answers in the store's place; null = it
// does itself.
StatusOr<std::vector<JobDivergence>> GatherDivergence(const Query& query,
                                                      const DivergenceQuestion& question,
                                                      DivergenceReads* reads = nullptr);

}  // namespace flopwatch::query
