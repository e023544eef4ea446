// A fleet for a test, or a failed test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "simulate/fleet.h"

namespace flopwatch::simulate {

inline FleetOptions Options(Preset preset, int gpus, double hours, Faults faults, uint64_t seed = 1,
                            int fields = 20) {
  FleetOptions o;
  o.preset = preset;
  o.gpus = gpus;
  o.duration = static_cast<Micros>(hours * kMicrosPerHour);
  o.faults = faults;
  o.seed = seed;
  o.fields = fields;
  return o;
}

inline std::unique_ptr<Fleet> Make(const FleetOptions& o) {
  auto f = Fleet::Create(o);
  EXPECT_TRUE(f.ok()) << f.status();
  return f.ok() ? std::move(*f) : nullptr;
}

inline std::unique_ptr<Fleet> Make(Preset preset, int gpus, double hours, Faults faults,
                                   uint64_t seed = 1) {
  return Make(Options(preset, gpus, hours, faults, seed));
}

}  // namespace flopwatch::simulate
