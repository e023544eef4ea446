#include "fleet/divergence/model.h"

#include <string>

#include "absl/strings/ascii.h"
#include "models/flops.h"
#include "models/miscounts.h"

namespace flopwatch::fleet {
namespace {

// "megatron" of "megatron_2023_11".
std::string_view FrameworkOf(std::string_view convention) {
  return convention.substr(0, convention.find('_'));
}

// Whether the claim's own framework is known to have counted so; where no convention is named, the
// mistakes that were found in production (OFU paper, V-C) and the commonest one of MoE models.
bool FitsClaim(const models::Candidate& c, std::string_view convention) {
  if (convention.empty()) {
    return c.id == "latent_moe_full_width" || c.id == "hybrid_as_dense" ||
           c.id == "hybrid_as_moe" || c.id == "all_experts";
  }
  const std::string framework(FrameworkOf(convention));
  if (!c.error) return FrameworkOf(c.id) == framework;
  const std::string source = absl::AsciiStrToLower(c.source);
  return source.find(framework) != std::string::npos;
}

// Conventions that are there to recognise old or wrong numbers.
bool IsOldFormula(std::string_view id) {
  return id == "torchtitan_hf" || id == "maxtext_before_1988" || id == "verl_before_4959" ||
         id == "megatron_2023_11";
}

}  // namespace

StatusOr<ModelFlops> FlopsOf(const models::Model& model, int64_t seq_len,
                             std::string_view convention) {
  ModelFlops out;
  out.name = model.name;
  out.seq_len = seq_len > 0 ? seq_len : model.natural_length;
  if (out.seq_len <= 0) {
    return FailedPrecondition("the sequence length is not known, and FLOPs a token depend on it");
  }
  if (out.seq_len > models::kMaxTokens) {
    return InvalidArgument("a sequence of {} tokens is too long", out.seq_len);
  }
  const models::Workload workload = models::Workload::Sequence(out.seq_len);
  FW_ASSIGN_OR_RETURN(const models::Reference exact, models::ExactReference(model, workload));
  if (exact.training_flops_per_token <= 0) {
    return FailedPrecondition("the model has no FLOPs to count");
  }
  out.exact = static_cast<double>(exact.training_flops_per_token);
  out.attention_core = static_cast<double>(exact.attention_core_training);
  if (convention == exact.convention) out.counted = out.exact;
  FW_ASSIGN_OR_RETURN(const std::vector<models::Candidate> candidates,
                      models::Candidates(model, workload));
  for (const models::Candidate& c : candidates) {
    if (c.training_flops_per_token <= 0) continue;
    const auto flops = static_cast<double>(c.training_flops_per_token);
    if (!c.error && c.id == convention) {
      out.counted = flops;
      continue;
    }
    if (!c.error && c.id == exact.convention) continue;
    const bool error = c.error || IsOldFormula(c.id);
    out.others.push_back({.id = c.id,
                          .title = error ? c.description : c.id,
                          .flops = flops,
                          .error = error,
                          .fits_claim = FitsClaim(c, convention),
                          .source = c.source,
                          .advice = error ? "put the FLOPs formula right (" + c.source + ")"
                                          : "say the convention with the MFU"});
  }
  return out;
}

}  // namespace flopwatch::fleet
