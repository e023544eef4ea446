// A diagnosis as sentences, so that the terminal, the page and a report say the same.
#pragma once

#include <string>
#include <vector>

#include "fleet/divergence/diagnose.h"

namespace flopwatch::fleet {

struct DivergenceWords {
  std::string headline;               // one sentence
  std::vector<std::string> findings;  // what is known, first things first
  std::vector<std::string> actions;   // what to do
};
DivergenceWords Describe(const JobEvidence& job, const Diagnosis& diagnosis);

// "latent MoE counted at full width + full activation recompute, which MFU leaves out".
std::string TitleOf(const Explanation& explanation);

}  // namespace flopwatch::fleet
