#include "simulate/telemetry_faults.h"

#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

enum : uint64_t {
  kJitter = 1,
  kSkew,
  kLost,
  kSilent,
  kRestart,
  kRepeat,
  kSwap,
  kMissing,
  kDead,
  kDeadTime,
  kStale
};

uint64_t Of(uint64_t seed, Purpose purpose, uint64_t entity, uint64_t what, uint64_t bin) {
  return Key(seed, purpose, entity * 16 + what, bin);
}

}  // namespace

int TelemetryFaults::JitterMs(int host, int64_t tick) const {
  if (!enabled_) return 0;
  return static_cast<int>(Below(Of(seed_, Purpose::kTelemetryTick, host, kJitter, tick), 4001)) -
         2000;
}

int TelemetryFaults::SkewMs(int host) const {
  if (!enabled_) return 0;
  // Most hosts keep time; one in five is off by up to two seconds.
  uint64_t h = Of(seed_, Purpose::kTelemetryHost, host, kSkew, 0);
  return Unit(h) < .2 ? static_cast<int>(Below(Mix(h), 4001)) - 2000 : 0;
}

bool TelemetryFaults::Lost(int host, int64_t tick) const {
  return enabled_ && Unit(Of(seed_, Purpose::kTelemetryTick, host, kLost, tick)) < .005;
}

bool TelemetryFaults::Silent(int host, int32_t t) const {
  if (!enabled_) return false;
  constexpr int32_t kSilentBin = 2 * 3600, kRestartBin = 24 * 3600;
  uint64_t h = Of(seed_, Purpose::kTelemetryHost, host, kSilent, t / kSilentBin);
  if (Unit(h) < .002) {
    int32_t length = 300 + static_cast<int32_t>(Unit(Mix(h)) * (kSilentBin - 300));
    if (t % kSilentBin < length) return true;
  }
  // The exporter restarts on a third of the days.
  h = Of(seed_, Purpose::kTelemetryHost, host, kRestart, t / kRestartBin);
  if (Unit(h) < .3) {
    int32_t at = static_cast<int32_t>(Unit(Mix(h)) * (kRestartBin - 60)),
            into = t % kRestartBin - at;
    if (into >= 0 && into < 20 + static_cast<int32_t>(h & 31)) return true;
  }
  return false;
}

int64_t TelemetryFaults::Shown(int host, int64_t tick) const {
  if (!enabled_) return tick;
  if (tick > 0 && Unit(Of(seed_, Purpose::kTelemetryTick, host, kRepeat, tick)) < .002)
    return tick - 1;
  if (Unit(Of(seed_, Purpose::kTelemetryTick, host, kSwap, tick >> 1)) < .001) return tick ^ 1;
  return tick;
}

bool TelemetryFaults::TensorMissing(int32_t gpu) const {
  return enabled_ && Unit(Of(seed_, Purpose::kTelemetryHost, gpu, kMissing, 0)) < .01;
}

bool TelemetryFaults::TensorDead(int32_t gpu, int32_t t) const {
  if (!enabled_) return false;
  uint64_t h = Of(seed_, Purpose::kTelemetryHost, gpu, kDead, 0);
  if (Unit(h) >= .002) return false;
  // It lasts from some hour of the day until the exporter is restarted at midnight.
  return t % 86400 >= static_cast<int32_t>(Unit(Mix(h)) * 80000);
}

int TelemetryFaults::BlankField(int32_t gpu, int fields, int64_t tick, bool* sentinel) const {
  if (!enabled_) return -1;
  uint64_t h = Key(seed_, Purpose::kTelemetryField, gpu, tick);
  if (Unit(h) >= .01) return -1;
  *sentinel = (h & 1) != 0;
  return static_cast<int>(Below(Mix(h), fields));
}

int32_t TelemetryFaults::StaleMapSeconds(int host, int32_t job) const {
  if (!enabled_) return 0;
  uint64_t h = Of(seed_, Purpose::kTelemetryHost, host, kStale, job);
  if (Unit(h) >= .01) return 0;  // the epilog crashed
  return 300 + static_cast<int32_t>(Unit(Mix(h)) * 6900);
}

}  // namespace flopwatch::simulate
