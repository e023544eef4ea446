// Runs of a workflow as the regression scan reads them (regressions.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace flopwatch::fleet {

// GPU-seconds of work, each sum beside the seconds it is over; they add up.
struct WorkSums {
  double busy_s = 0;                   // GPU-seconds of the minutes in which kernels ran
  double ofu_s = 0, ofu_span_s = 0;    // OFU x s
  double duty_s = 0, duty_span_s = 0;  // a kernel ran
  double sm_s = 0, sm_span_s = 0;      // SM activity x s
  double tensor_s = 0, tensor_span_s = 0;
  double clock_mhz_s = 0, clock_span_s = 0;
  double power_j = 0, power_span_s = 0;
  double occupancy_s = 0, occupancy_span_s = 0;  // of the SMs over elapsed time
  WorkSums& operator+=(const WorkSums& o);

  std::optional<double> Ofu() const;   // over all of the time
  std::optional<double> Duty() const;  // likewise
  // OFU while a kernel ran: OFU / duty. A pause takes nothing from it.
  std::optional<double> BusyOfu() const;
  std::optional<double> SmActive() const;
  std::optional<double> TensorActive() const;
  std::optional<double> ClockMhz() const;
  std::optional<double> PowerW() const;
  std::optional<double> Occupancy() const;
};

// A part of a run.
struct RunStep {
  Micros at = 0;
  WorkSums sums;
};

// What was set for a run. Runs that differ here are not measured against each other: a difference
// between them is named after what was set. "" and 0: not known, which differs from nothing.
struct RunSetting {
  int64_t gpus = 0;
  std::string gpu_model;
  std::string model;      // the application's claim: its model's configuration
  std::string precision;  // likewise: "bf16", or the mix
};

struct WorkflowRun {
  std::string job;
  Micros from = 0, to = 0;
  double gpu_seconds = 0;  // that it held, its pauses included
  RunSetting setting;
  Micros step = 0;             // how long each of these is
  std::vector<RunStep> steps;  // in order of time; of minutes in which kernels ran alone
};

// The logarithm of the OFU while kernels ran over all of a run; nullopt where it did less than so
// many GPU-seconds of work, or none that tensor pipes show.
std::optional<double> LevelOf(const WorkflowRun& run, double least_busy_s);

struct WorkflowRuns {
  std::string name, user;
  std::vector<WorkflowRun> runs;  // in order of their begin
};

}  // namespace flopwatch::fleet
