#include "query/application.h"

namespace flopwatch::query {

using telemetry::ApplicationClaim;
using enum telemetry::ApplicationField;

ReportedMfu MfuOf(const ApplicationClaim& claim, const store::ApplicationSums& sums,
                  const hardware::Catalog* catalog, std::string_view gpu_seen) {
  ReportedMfu mfu;
  std::string no_peak;
  if (claim.peak_tflops.has_value()) {
    mfu.peak_tflops = claim.peak_tflops;
    mfu.peak_source = "claim";
  } else {
    const std::string gpu = !claim.gpu.empty() ? claim.gpu : std::string(gpu_seen);
    const auto precision = hardware::ParsePrecision(claim.precision);
    if (claim.precision.empty()) {
      no_peak = "precision_unknown";
    } else if (!precision.ok()) {
      no_peak = "precision_without_peak";
    } else if (gpu.empty()) {
      no_peak = "gpu_unknown";
    } else if (catalog == nullptr) {
      no_peak = "gpu_not_in_hardware_table";
    } else {
      const auto device = catalog->Find(gpu);
      const auto peak = device.ok() ? hardware::PeakOf(**device, *precision)
                                    : StatusOr<hardware::Peak>(device.status());
      if (peak.ok()) {
        mfu.peak_tflops = peak->tflops;
        mfu.peak_source = "hardware_table";
      } else {
        no_peak = device.ok() ? "no_peak_for_precision" : "gpu_not_in_hardware_table";
      }
    }
  }
  if (const auto reported = sums.Mean(kMfu)) {
    mfu.value = reported;
    mfu.source = "reported";
    // What it was divided by is the application's secret unless it says so.
    if (!claim.peak_tflops.has_value()) {
      mfu.peak_tflops.reset();
      mfu.peak_source = "";
    }
    return mfu;
  }
  const auto tflops = sums.Mean(kTflopsPerGpu);
  if (tflops.has_value() && mfu.peak_tflops.has_value()) {
    mfu.value = *tflops / *mfu.peak_tflops;
    mfu.source = "throughput";
  } else if (tflops.has_value()) {
    mfu.reason = no_peak;
  } else if (sums.Last(kMfu).has_value() || sums.Last(kTflopsPerGpu).has_value()) {
    mfu.reason = "span_unknown";  // one sample, and nobody knows for how long it stands
  } else {
    mfu.reason = "not_reported";
  }
  return mfu;
}

const ClaimUsage* MainClaim(const std::vector<ClaimUsage>& claims) {
  const ClaimUsage* best = nullptr;
  for (const ClaimUsage& c : claims)
    if (c.sums.samples > 0 && (best == nullptr || c.sums.span_s >= best->sums.span_s)) best = &c;
  return best;
}

}  // namespace flopwatch::query
