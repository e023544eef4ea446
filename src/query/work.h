// The energy that executed arithmetic took: kWh for 10^18 FLOPs, whatever the models of the GPUs.
// Executed is OFU x time x the dense BF16 peak of the model (FP16 where a part has no BF16): what
// the tensor pipe did, counted as if it had all been BF16, and not what an application asked for.
// Energy is the whole board's over the same time, idle time of the job included.
#pragma once

#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "hardware/accelerator.h"
#include "query/usage.h"

namespace flopwatch::query {

// Seconds of OFU without power may be this part of the work, seconds of power without OFU this part
// of the time. Where there are more, FLOPs and joules would be of different time and no ratio.
inline constexpr double kWorkError = 0.01;

struct WorkAndEnergy {
  double eflop = 0, energy_j = 0;
  double gpu_seconds = 0;  // the time both are of: what was added and could be counted

  // Of GPUs of one peak (TFLOP/s; null = no one peak is known). Adds nothing where OFU or power is
  // not known, or where they are not of the same time (kWorkError).
  void Add(const store::UsageSums& sums, std::optional<double> peak_tflops);
  WorkAndEnergy& operator+=(const WorkAndEnergy& o);
  // Null where no arithmetic was done, or none could be counted.
  std::optional<double> KwhPerEflop() const;
};

// Dense BF16 peaks by the names that GPUs report, each looked up once. Not thread-safe.
class Peaks {
 public:
  explicit Peaks(const hardware::Catalog* catalog) : catalog_(*catalog) {}  // outlives this
  // TFLOP/s of one GPU. Null where a model is not in the table, where there is none, or where
  // several have different peaks: their shares of the work are not known.
  std::optional<double> Of(absl::Span<const std::string> models);

 private:
  const hardware::Catalog& catalog_;
  absl::flat_hash_map<std::string, std::optional<double>> known_;
};

}  // namespace flopwatch::query
