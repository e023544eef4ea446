// What goes wrong between a GPU and the reader (docs/simulate.md, --faults telemetry). Every
// question is a hash of host, tick and purpose: no state, any order. Rates are assumptions; no
// public data set gives them.
#pragma once

#include <cstdint>

namespace flopwatch::simulate {

class TelemetryFaults {
 public:
  TelemetryFaults() = default;
  TelemetryFaults(uint64_t seed, bool enabled) : seed_(seed), enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  int JitterMs(int host, int64_t tick) const;  // collection up to 2 s early or late
  int SkewMs(int host) const;  // the host's clock, up to 2 s; of timestamps it writes itself
  bool Lost(int host, int64_t tick) const;  // 0.5 % of scrapes
  bool Silent(int host, int32_t t)
      const;  // 0.1 % of hosts, minutes to two hours; and exporter restarts of 20-60 s
  // The tick whose text is really given: an exporter that has nothing new repeats the last one, one
  // that is late swaps two.
  int64_t Shown(int host, int64_t tick) const;
  bool TensorMissing(int32_t gpu) const;          // the profiling module does not run: 1 % of GPUs
  bool TensorDead(int32_t gpu, int32_t t) const;  // counter stuck at 0 for hours: 0.2 % of GPUs
  // The field of this GPU that has no value at this tick, -1 = none (1 % of the GPU's scrapes).
  // *sentinel: the exporter writes DCGM's "no value" number instead of leaving the line out.
  int BlankField(int32_t gpu, int fields, int64_t tick, bool* sentinel) const;
  // Seconds that a finished job's id stays in the exporter's job map of this host.
  int32_t StaleMapSeconds(int host, int32_t job) const;

 private:
  uint64_t seed_ = 0;
  bool enabled_ = false;
};

}  // namespace flopwatch::simulate
