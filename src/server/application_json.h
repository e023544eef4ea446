// What applications report, to and from JSON: the body of POST /api/v1/jobs/ID/mfu, and the
// answers. One place where an MFU gets its peak.
#ifndef FLOPWATCH_SERVER_APPLICATION_JSON_H_
#define FLOPWATCH_SERVER_APPLICATION_JSON_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "hardware/accelerator.h"
#include "server/application.h"
#include "store/store.h"
#include "telemetry/application.h"

namespace flopwatch::server {

// --- in ---

struct ApplicationReport {
  telemetry::ApplicationClaim claim;
  std::vector<telemetry::ApplicationSample> samples;
};
inline constexpr size_t kMaxReportBytes = 32u << 20;
// One object, a list of them, or {"samples": [...], and the claim's fields for all}. An object has
// "ts" (RFC 3339 or Unix seconds; absent: `now`), "step", "span_s", the fields of
// ApplicationFieldSpec by column, "mfu_percent", "hfu_percent", "tokens_per_s_per_gpu", and the
// claim's fields. InvalidArgument names the field and the object.
StatusOr<std::vector<ApplicationReport>> ParseReports(std::string_view body, std::string_view job,
                                                      Micros now);
void WriteOutcome(JsonWriter& json, const ApplicationOutcome& outcome);  // an object

// --- out ---

// An MFU as it can be answered for one claim.
struct ReportedMfu {
  std::optional<double> value;
  // "reported": the application's own; "throughput": its TFLOP/s a GPU over the peak. "" without a
  // value.
  std::string_view source;
  std::optional<double> peak_tflops;
  // "claim": the application names it; "hardware_table": of the GPU and precision that are claimed
  // or, for the GPU, seen. "" without.
  std::string_view peak_source;
  std::string reason;  // why there is no value
};
// `gpu_seen`: the model telemetry shows for the job's GPUs, "" when it has none or several.
ReportedMfu MfuOf(const telemetry::ApplicationClaim& claim, const store::ApplicationSums& sums,
                  const hardware::Catalog* catalog, std::string_view gpu_seen);

struct ClaimUsage {
  telemetry::ApplicationClaim claim;
  store::ApplicationSums sums;
};
// The one that covers the most time; of equal ones the last. Null where there is none.
const ClaimUsage* MainClaim(const std::vector<ClaimUsage>& claims);

// The short object of a job's answer; null and `reason` beside it where nothing was reported.
void WriteApplicationSummary(JsonWriter& json, const std::vector<ClaimUsage>& claims,
                             const hardware::Catalog* catalog, std::string_view gpu_seen);
void WriteClaim(JsonWriter& json, const ClaimUsage& usage, const hardware::Catalog* catalog,
                std::string_view gpu_seen);
// Steps of `step` from `from` on; only those with a sample.
void WriteApplicationSeries(JsonWriter& json, const std::vector<ClaimUsage>& claims,
                            const std::vector<store::ApplicationPoint>& points, Micros step,
                            const hardware::Catalog* catalog, std::string_view gpu_seen);

}  // namespace flopwatch::server

#endif  // FLOPWATCH_SERVER_APPLICATION_JSON_H_
