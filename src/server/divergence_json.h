// The divergence objects of the API; `flopwatch divergence` with numbers given by hand writes the
// same.
#ifndef FLOPWATCH_SERVER_DIVERGENCE_JSON_H_
#define FLOPWATCH_SERVER_DIVERGENCE_JSON_H_

#include <optional>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "fleet/divergence/diagnose.h"
#include "fleet/divergence/evidence.h"
#include "fleet/divergence/set.h"
#include "store/store.h"

namespace flopwatch::server {

// One job's claim, judged, and where its numbers come from.
struct JobDivergence {
  fleet::JobEvidence evidence;
  fleet::Diagnosis diagnosis;
  std::optional<store::Window> window;  // of both MFU and OFU
  // "raw": rows cut at the window's ends. "rollup": whole minutes inside the window. "" = given by
  // hand.
  std::string ofu_source;
  std::string claim_source;  // "megatron", "api", ...; "" = given by hand
  std::string mfu_basis;     // "mfu", "tflops_per_gpu", "tokens_per_s"
  std::string precision;     // as claimed
  std::string model_note;    // why the model's configuration could not be used
  std::optional<int64_t> seq_len;
  int64_t samples = 0;       // of the claim
  int64_t other_claims = 0;  // of the job in the window, with less time behind them
};

// Everything, as GET /api/v1/jobs/{job}/divergence has it.
void WriteDivergence(JsonWriter& json, const JobDivergence& job);
// A row of GET /api/v1/divergence.
void WriteDivergenceRow(JsonWriter& json, const JobDivergence& job);
void WriteSetStatistics(JsonWriter& json, const fleet::SetStatistics& statistics);

}  // namespace flopwatch::server

#endif  // FLOPWATCH_SERVER_DIVERGENCE_JSON_H_
