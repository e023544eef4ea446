// What applications report, to and from JSON: the body of POST /api/v1/jobs/ID/mfu, and the
// answers. One place where an MFU gets its peak.
#pragma once

#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "hardware/accelerator.h"
#include "ingest/application.h"
#include "query/application.h"
#include "telemetry/application.h"

namespace flopwatch::api {

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
void WriteOutcome(JsonWriter& json, const ingest::ApplicationOutcome& outcome);  // an object

// --- out ---

// The short object of a job's answer; null and `reason` beside it where nothing was reported.
void WriteApplicationSummary(JsonWriter& json, const std::vector<query::ClaimUsage>& claims,
                             const hardware::Catalog* catalog, std::string_view gpu_seen);
void WriteClaim(JsonWriter& json, const query::ClaimUsage& usage, const hardware::Catalog* catalog,
                std::string_view gpu_seen);
// Steps of `step` from `from` on; only those with a sample.
void WriteApplicationSeries(JsonWriter& json, const std::vector<query::ClaimUsage>& claims,
                            const std::vector<store::ApplicationPoint>& points, Micros step,
                            const hardware::Catalog* catalog, std::string_view gpu_seen);

}  // namespace flopwatch::api
