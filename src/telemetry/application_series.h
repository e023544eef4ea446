// Metrics that say what a training job reports: which names and labels count, one reading for
// scraped text, remote write and OTLP.
//
// Names: flopwatch_app_NAME with any NAME of application_keys.h; and, because they can mean nothing
// else, NAMEs led by "train_", "training_" or "trainer_", and those of an MFU or HFU.
// flopwatch_app_step gives the step. Job: the first of these labels that is there: flopwatch_job,
// job_id, hpc_job, slurm_job_id, slurm_jobid, training_job; else namespace and pod, also
// exported_namespace and exported_pod, or k8s.namespace.name and k8s.pod.name. The label `job` is
// the scrape configuration's name once a Prometheus has touched the series: it counts only for
// flopwatch_app_ names that come straight from a program. Claim: labels named as in SetClaimField
// (convention, peak_tflops, gpu_model, precision, world_size, ...). Rank: rank, global_rank.
#pragma once

#include <string>
#include <string_view>

#include "telemetry/application.h"
#include "telemetry/application_keys.h"

namespace flopwatch::telemetry {

struct ApplicationSeries {
  ApplicationKey key;
  bool is_step = false;    // the value is the step's number
  ApplicationClaim claim;  // without source and id
  // Who says it: several ranks of a job may report the same. The lowest rank, then name, counts.
  int rank = -1;  // -1 = not said
  std::string speaker;
};

enum class SeriesMeaning : uint8_t { kOther, kApplication, kNoJob, kBadClaim };
// `labels` is the text between the braces. kNoJob: a flopwatch_app_ name without a job.
SeriesMeaning ReadApplicationSeries(std::string_view name, std::string_view labels,
                                    bool job_label_counts, ApplicationSeries* out);
// Cheap: whether the name can be one at all.
bool MayBeApplicationName(std::string_view name);
// Whether the name can be that of a quantity whose NaN and infinities are kept (MayBeNotFinite).
// Prometheus' staleness marker is no such NaN: it says that there is no value (IsStaleMarker).
bool MayBeNotFiniteName(std::string_view name);

}  // namespace flopwatch::telemetry
