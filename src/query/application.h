// What a job's application said of itself over a window, and the MFU that comes of it. The one
// place where an MFU gets its peak.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/accelerator.h"
#include "store/store.h"
#include "telemetry/application.h"

namespace flopwatch::query {

// An MFU as it can be answered for one claim.
struct ReportedMfu {
  std::optional<double> value;
  // "reported": the application's own; "throughput": its TFLOP/s a GPU over the peak; "" = none.
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

}  // namespace flopwatch::query
