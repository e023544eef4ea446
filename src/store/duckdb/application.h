// What applications report: where it lies, and the answers about it. A few rows a step and job, so
// there are no rollups: an answer reads the rows. Kept as long as the hour rollups of jobs it is
// compared with (Options::hour_retention).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/layout.h"
#include "store/store.h"
#include "telemetry/application.h"

namespace flopwatch::store::duck {

// The table is in hot segments, in sealed/ and a view for SQL.
inline constexpr std::string_view kApplicationTable = "application_samples";
// The columns are ts, claim, span_ms and step, then the fields.
inline constexpr size_t kApplicationColumnCount = 4 + telemetry::kApplicationFields;
std::string ApplicationColumns();  // of CREATE TABLE
std::string EmptyApplication();    // a SELECT of them all as NULL
// The view application_samples over rows of these columns and `day`.
std::string ApplicationSelect(std::string_view rows);
std::string ClaimsView();

// The columns of meta.application_claims beside seq.
inline constexpr std::string_view kClaimNames =
    "id, first_seen, job, source, convention, formula_version, gpu, precision, recompute, "
    "model_config, peak_tflops, gpus, seq_len, global_batch, training_flops_per_token, "
    "commit, container_image";
inline constexpr std::string_view kClaimColumns =
    "id INTEGER, first_seen TIMESTAMP, job VARCHAR, source UTINYINT, convention VARCHAR, "
    "formula_version VARCHAR, gpu VARCHAR, precision VARCHAR, recompute VARCHAR, model_config "
    "VARCHAR, peak_tflops DOUBLE, gpus BIGINT, seq_len BIGINT, global_batch BIGINT, "
    "training_flops_per_token DOUBLE, commit VARCHAR, container_image VARCHAR";
// One record into row `r` of an appender of seq and these columns.
void SetClaim(Appender& a, size_t r, const telemetry::ApplicationClaim& claim);
StatusOr<std::vector<telemetry::ApplicationClaim>> LoadClaims(Connection* c);

// One question; use once.
class ApplicationReader {
 public:
  ApplicationReader(Connection* c, const Layout& layout) : c_(c), layout_(layout) {}
  StatusOr<std::vector<ApplicationUsage>> ByClaim(Window w, absl::Span<const int32_t> claims);
  StatusOr<std::vector<ApplicationPoint>> Series(Window w, absl::Span<const int32_t> claims,
                                                 Micros step);
  StatusOr<std::vector<telemetry::ApplicationSample>> Samples(Window w,
                                                              absl::Span<const int32_t> claims,
                                                              uint64_t limit);

 private:
  // The rows of a window as a FROM clause; "" = there are none.
  std::string Rows(Window w, absl::Span<const int32_t> claims) const;

  Connection* c_;
  const Layout& layout_;
};

}  // namespace flopwatch::store::duck
