// What one GPU (or MIG instance) did while one job held it: rows in order of time, folded into runs
// of one sign. No row is kept, so that a track takes a few hundred bytes whatever the length of the
// job; runs that are too short for any state (rules.h) are in sums alone. Pure; one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/time.h"

namespace flopwatch::fleet {

// What the counters of a GPU show over (from, to]. NaN = absent: blank, not exported, or known to
// be wrong (a dead tensor counter).
struct IdleReading {
  Micros from = 0, to = 0;
  double gr_active = std::numeric_limits<double>::quiet_NaN();
  double gpu_util = std::numeric_limits<double>::quiet_NaN();
  double sm_active = std::numeric_limits<double>::quiet_NaN();
  double tensor_active = std::numeric_limits<double>::quiet_NaN();
  double power_w = std::numeric_limits<double>::quiet_NaN();
  double memory_mib = std::numeric_limits<double>::quiet_NaN();  // in use
  // The highest of what says whether anything ran: quiet is what all of them call quiet.
  double Duty() const;
};

enum class IdleSign : uint8_t {
  kNone,      // nothing can be said of it
  kQuiet,     // nothing runs
  kNoTensor,  // kernels run, the tensor pipe does not
  kBlind,     // kernels run; of the tensor pipe nothing is known
  kWork,      // the tensor pipe runs
};

// A mean over the time in which it was measured.
struct IdleMean {
  double sum = 0, seconds = 0;
  void Add(double value, double s) {
    if (std::isnan(value)) return;
    sum += value * s;
    seconds += s;
  }
  IdleMean& operator+=(const IdleMean& o) {
    sum += o.sum;
    seconds += o.seconds;
    return *this;
  }
  double Mean() const {
    return seconds > 0 ? sum / seconds : std::numeric_limits<double>::quiet_NaN();
  }
};

struct IdleRun {
  IdleSign sign = IdleSign::kNone;
  Micros from = 0, to = 0;
  double covered_s = 0;  // of it, with a row
  double gpu_s = 0;      // the same in GPU-seconds that are the job's
  double memory_max_mib = std::numeric_limits<double>::quiet_NaN();
  bool follows = false;  // quiet, and so is the run before: a process came or went between them
  IdleMean duty, sm_active, power_w;
};

class IdleTrack {
 public:
  // The job holds the GPU over [from, to); `to` is when it left it, or jobs::kOpenEnd.
  // Sums are of the part in [sums_from, sums_to), runs are whole.
  IdleTrack(Micros from, Micros to, Micros sums_from, Micros sums_to)
      : from_(from), to_(to), sums_from_(sums_from), sums_to_(sums_to) {}

  // It holds it until then, too; before the first row.
  void ProlongTo(Micros to) { to_ = std::max(to_, to); }
  // The next row. `share`: GPUs of this GPU's time that are the job's (shared GPUs divided, an
  // instance by its share of the board). `power_limit_w`: of the board; 0 = not known.
  void Add(const IdleReading& row, double share, double power_limit_w);
  // No rows come any more.
  void Finish();

  Micros from() const { return from_; }
  Micros to() const { return to_; }
  const std::vector<IdleRun>& runs() const { return runs_; }  // in order of time
  double observed_s() const { return observed_s_; }           // GPU-seconds that rows speak for
  double quiet_s() const { return quiet_s_; }                 // of these, in which nothing ran
  // Seconds of all rows, whole ones of the GPU, also outside of what the sums are of.
  double all_s() const { return all_s_; }
  double all_quiet_s() const { return all_quiet_s_; }
  double contradicted_s() const { return contradicted_s_; }  // at a power that says otherwise
  // Ends of what ran, and of what ran on the tensor pipe; 0 = nothing did.
  Micros first_active() const { return first_active_; }
  Micros last_active() const { return last_active_; }
  Micros first_tensor() const { return first_tensor_; }
  Micros last_tensor() const { return last_tensor_; }
  // Where the tensor pipe ran.
  const IdleMean& work_tensor() const { return work_tensor_; }
  const IdleMean& work_power() const { return work_power_; }
  const IdleMean& work_sm() const { return work_sm_; }
  // The least memory in use while anything ran; NaN = not known.
  double least_memory_at_work_mib() const { return least_memory_at_work_mib_; }

 private:
  struct Row {
    IdleSign sign = IdleSign::kNone;
    double duty = 0, tensor = 0, memory = 0;
    Micros length = 0;
    double share = 1;
  };
  // A run being made, with the rows at its ends.
  struct Making {
    IdleRun run;
    Row first, last, before_last;
    int rows = 0;
    double memory_last = std::numeric_limits<double>::quiet_NaN();
    bool empty() const { return rows == 0; }
  };

  IdleSign SignOf(const IdleReading& row, double duty, double power_limit_w) const;
  void Take(const IdleReading& reading, const Row& row, Making* into);
  bool GoesOn(const Making& run, const Row& row) const;
  static bool IsBlip(const Making& run);
  // Moves the border between two runs to where it lies within the row that saw both.
  void PlaceBorder(Making* before, Making* after, const Row& second);
  // `after`: the run that adjoins it, if any.
  void Close(const Making& run, const Making& after);
  void Break();

  double SummedSeconds(Micros from, Micros to) const {
    return ToSeconds(std::max<Micros>(0, std::min(to, sums_to_) - std::max(from, sums_from_)));
  }

  Micros from_, to_, sums_from_, sums_to_;
  Making now_, next_;
  Micros seen_to_ = 0;
  Micros closed_quiet_to_ = 0;  // of the run that was closed last, where it is quiet
  Micros lead_from_ = 0;        // of a row at the edge of the job whose sign is another job's
  std::vector<IdleRun> runs_;
  double observed_s_ = 0, quiet_s_ = 0, contradicted_s_ = 0, all_s_ = 0, all_quiet_s_ = 0;
  Micros first_active_ = 0, last_active_ = 0, first_tensor_ = 0, last_tensor_ = 0;
  IdleMean work_tensor_, work_power_, work_sm_;
  double least_memory_at_work_mib_ = std::numeric_limits<double>::quiet_NaN();
  bool has_tensor_ = false;
};

}  // namespace flopwatch::fleet
