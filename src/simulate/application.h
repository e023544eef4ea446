// The applications of a simulated fleet: what each training job that reports says, and when.
//
// Claims and samples are consistent: MFU x peak x GPUs = tokens/s x FLOPs a token as the
// application counts them. A sample stands for the time since the one before it, as a training
// loop's clock has it, so a pause for a checkpoint lowers it, and in a long one come reports of no
// progress; over any part of a job its MFU is the OFU times the job's own ratio. docs/simulate.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "simulate/application_model.h"
#include "simulate/fleet.h"
#include "telemetry/application.h"

namespace flopwatch::simulate {

struct Application {
  int32_t job = 0;                    // of the plan
  int32_t lane = 0;                   // of its first GPU
  telemetry::ApplicationClaim claim;  // id not given
  const Counted* model = nullptr;
  Miscount miscount = Miscount::kNone;
  double inflation = 1;         // reported / counted right, at the OFU there is
  double per_ofu = 1;           // MFU / OFU
  bool full_recompute = false;  // whether or not the claim says so
  int32_t from = 0, to = 0;     // of the job within the window, seconds
  int64_t log_every = 1;        // steps a sample
  double step_cycles = 0;       // tensor-active cycles (of one SM) a step
  int64_t first_step = 0;       // done before the window began
};

// The applications of every job that reports, by job. A longer fleet has the same ones and claims.
// The commit of the training code that a run of a workflow reports: another one every few runs, and
// of half of the planted regressions that are not of the clock one from their first run on. "": its
// jobs report nothing.
std::string CommitOf(const Fleet::Model& m, int32_t workflow, int32_t run);

std::vector<Application> Applications(const Fleet& fleet);
// The samples with `from` < ts <= `to`, in order.
std::vector<telemetry::ApplicationSample> SamplesOf(const Fleet& fleet,
                                                    const Application& application, Micros from,
                                                    Micros to);
// The newest sample at or before `now`; none before the first and after the job.
std::optional<telemetry::ApplicationSample> LastSampleOf(const Fleet& fleet,
                                                         const Application& application,
                                                         Micros now);

// The newest sample of every job that is running, as metrics (docs/application.md). Replaces *out.
// With the time of each sample in milliseconds: a scrape more often than a job reports must not
// make two reports of one.
void RenderApplications(const Fleet& fleet, const std::vector<Application>& applications,
                        Micros now, std::string* out);

}  // namespace flopwatch::simulate
