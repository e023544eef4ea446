// flopwatch calc peak: the dense tensor peak of an accelerator, with its source.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/calc.h"
#include "cli/commands/site_catalog.h"
#include "hardware/accelerator.h"

namespace flopwatch::cli {
namespace {

using hardware::Accelerator;
using hardware::Precision;

struct PeakOptions {
  std::vector<std::string> gpus, precisions;
  bool all = false;
};

constexpr Precision kAllPrecisions[] = {Precision::kFp64, Precision::kTf32, Precision::kFp16,
                                        Precision::kBf16, Precision::kFp8,  Precision::kInt8,
                                        Precision::kFp4};

Status RunPeak(Context& context, const PeakOptions& options) {
  if (options.all == !options.gpus.empty()) {
    return InvalidArgument("calc peak; give --gpu NAME, or --all for every known device");
  }
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  std::vector<const Accelerator*> devices;
  if (options.all) {
    for (const Accelerator& a : catalog.all()) devices.push_back(&a);
  }
  for (const std::string& name : options.gpus) {
    FW_ASSIGN_OR_RETURN(const Accelerator* device, catalog.Find(name));
    devices.push_back(device);
  }
  std::vector<Precision> precisions;
  for (const std::string& name : options.precisions) {
    FW_ASSIGN_OR_RETURN(const Precision precision, hardware::ParsePrecision(name));
    precisions.push_back(precision);
  }
  const bool asked = !precisions.empty();
  if (!asked) precisions.assign(std::begin(kAllPrecisions), std::end(kAllPrecisions));

  Table table;
  table.columns = {{"gpu", "GPU"},        {"precision", "PRECISION"},
                   {"tflops", "TFLOP/S"}, {"clock_mhz", "CLOCK MHZ"},
                   {"sm_count", "SMS"},   {"confidence", "CONFIDENCE"},
                   {"source", "SOURCE"}};
  size_t without = 0;
  for (const Accelerator* device : devices) {
    for (const Precision precision : precisions) {
      const auto peak = hardware::PeakOf(*device, precision);
      if (!peak.ok()) {
        // A device asked for by name must answer; over all devices or precisions the absent count.
        if (asked && !options.all) return peak.status();
        if (asked) ++without;
        continue;
      }
      table.rows.push_back({device->model, std::string(hardware::PrecisionName(precision)),
                            peak->tflops, CellOf(peak->clock_mhz), CellOf(peak->sm_count),
                            std::string(hardware::ConfidenceName(peak->confidence)), peak->source});
    }
    if (!options.all && !device->note.empty())
      table.notes.push_back(device->model + ": " + device->note);
  }
  if (without > 0)
    table.notes.push_back(fmt::format("{} devices have no such tensor peak on record", without));
  return context.Write(table);
}

}  // namespace

Args AddCalcPeak(Args calc, Run* run) {
  auto peak = std::make_shared<PeakOptions>();
  Args peak_app =
      calc.Command("peak", "Dense tensor peak of an accelerator, with its source and confidence");
  peak_app.Option("--gpu NAME", peak->gpus,
                  "Model or reported name, whole: \"H100 SXM\", \"NVIDIA H100 80GB HBM3\"");
  peak_app.Option("--precision P", peak->precisions,
                  "fp64, tf32, fp16, bf16, fp8, int8, fp4 (default: all that are known)");
  peak_app.Flag("--all", peak->all, "Every known accelerator");
  peak_app.Footer(
      "Examples:\n"
      "  flopwatch calc peak --gpu \"H100 SXM\" --precision bf16\n"
      "  flopwatch calc peak --all --precision fp16 -o json");
  *run = [peak](Context& context) { return RunPeak(context, *peak); };
  return peak_app;
}

}  // namespace flopwatch::cli
