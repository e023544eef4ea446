// What the ledger says in sentences: the evidence of a row, and a notice that may be sent to
// whoever holds the GPUs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "fleet/idle/states.h"

namespace flopwatch::fleet {

// A job's time in one state, as its GPUs' stretches add up.
struct IdleHeld {
  IdleState state = IdleState::kNoWork;
  int64_t gpus = 0;       // distinct ones in that state
  int64_t stretches = 0;  // of one GPU each
  double gpu_s = 0;
  Micros since = 0, until = 0;
  bool began_before = false, goes_on = false;
  // Means over these stretches; NaN = not measured.
  double duty = 0, sm_active = 0, power_w = 0, work_power_w = 0, memory_mib = 0;
};

// "32 GPUs, full duty without tensor work at 190 W (its work takes 520 W); no work came after".
std::string IdleEvidence(const IdleHeld& held);

struct IdleNotice {
  std::string job, name, user, account, workflow;
  std::vector<std::string> nodes;  // some of them
  int64_t nodes_total = 0;
  std::string currency;
  struct Line {
    IdleHeld held;
    bool priced = false;
    double money = 0;
  };
  std::vector<Line> lines;  // most GPU time first
};
// A mail: the first line is its subject. Addressed to nobody by name where the user is not known.
std::string IdleNoticeText(const IdleNotice& notice);

}  // namespace flopwatch::fleet
