// `calc mfu`: a model's FLOPs under conventions, and what throughput makes of them, as text, tables
// and JSON. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/table.h"
#include "cli/views/style.h"
#include "efficiency/mfu.h"
#include "models/flops.h"
#include "models/miscounts.h"
#include "models/training.h"

namespace flopwatch::cli {

// One convention's answer. FLOPs are of one token.
struct MfuRow {
  const models::Convention* convention = nullptr;
  struct Term {
    std::string name;
    int64_t forward = 0, training = 0;  // rounded so that they add up to the totals
  };
  std::vector<Term> terms;
  int64_t forward = 0, training = 0;
  int64_t hardware = 0;  // with what is computed again
  std::optional<double> ratio_to_exact;
  std::optional<double> mfu, hfu, tflops_per_gpu;
  std::optional<efficiency::BandVerdict> band;
};

struct MfuAnswer {
  models::Model model;
  models::Parameters params;
  std::optional<int64_t> seq_len;  // absent for packed sequences of several lengths
  models::Workload workload;
  models::Recompute recompute = models::Recompute::kNone;
  std::vector<MfuRow> rows;
  std::vector<std::string> without;  // conventions that do not apply, each with the reason
  std::optional<double> peak_tflops;
  std::string peak_text;              // device, precision or mix, source
  std::vector<std::string> cautions;  // about the peak
};

// The terms of a convention at one token, rounded cumulatively: their sums are exactly the totals.
StatusOr<MfuRow> MfuRowOf(const models::Convention& convention, const models::Count& count,
                          models::Recompute recompute);

std::string MfuText(const MfuAnswer& answer, const ViewOptions& v);  // one convention: its terms
std::string MfuComparison(const MfuAnswer& answer, const ViewOptions& v);  // several: one line each
std::string MfuJson(const MfuAnswer& answer, bool lines);
Table MfuTable(const MfuAnswer& answer);        // one row a convention
Table MfuTerms(const MfuAnswer& answer);        // one row a term
Table LayersTable(const models::Model& model);  // runs of equal layers as they were read
Table ConventionsTable();
// Published mistakes applied to the model, as factors on the exact count.
Table MiscountsTable(const std::string& model, int64_t exact,
                     const std::vector<models::Candidate>& candidates);

}  // namespace flopwatch::cli
