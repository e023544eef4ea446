// The candidate set: what is known to make an MFU disagree with the OFU, one row each
// (docs/divergence.md, Causes). A row says for which jobs it can be the cause at all, and what it
// does to the number: reported MFU = factor x right MFU (recompute: OFU = factor x what it would
// be). A new cause is one row of causes.cc and one case of tests/fleet/diagnose_test.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fleet/divergence/evidence.h"
#include "fleet/divergence/expectation.h"
#include "fleet/divergence/peak.h"

namespace flopwatch::fleet {

// How much must be assumed for it. The order is the order of preference among causes that explain a
// ratio equally well: fewer and better supported assumptions first.
enum class Standing : uint8_t {
  kSeen,      // the claim itself shows it (a wrong peak, a declared setting)
  kLikely,    // its precondition is known to be met (the model is a latent MoE)
  kPossible,  // common, and nothing known speaks against it
  kRemote,    // needs something nothing points to
  kOpen,      // no definite ratio: known only to be possible
};
std::string_view StandingName(Standing s);
int CostOf(Standing s);  // 0, 1, 2, 4, 6

// Shown by the claim: the difference is put right before anything else is asked.
inline constexpr std::string_view kWrongPeak = "wrong_peak";

// Causes of one group exclude each other.
enum class CauseGroup : uint8_t { kFlops, kPeak, kFactor, kHardware };

struct Cause {
  std::string id, title, advice, source;
  CauseGroup group = CauseGroup::kFlops;
  Standing standing = Standing::kPossible;
  Range mfu_factor;   // of the reported MFU
  Range ofu_factor;   // of OFU / MFU beyond the expectation (recompute)
  bool error = true;  // false: a difference in meaning (recompute outside MFU, another convention)
  bool from_model = false;  // the factor was computed from this job's model, not taken from a case
};

inline bool IsRecompute(const Cause& c) { return c.ofu_factor.high > 1; }

// All that can be the cause for this job. Deterministic order.
std::vector<Cause> CausesFor(const JobEvidence& job, const PeakReview& peak);

}  // namespace flopwatch::fleet
