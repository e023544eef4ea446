// Counter-based random numbers: every draw is a hash of (seed, purpose, entity, time bin), so that
// any host and any time window can be generated alone, in any order and on any thread, and the same
// seed gives the same fleet.
#pragma once

#include <cstdint>

namespace flopwatch::simulate {

// What a draw is for. Values are part of the seed's meaning: append, never renumber.
enum class Purpose : uint32_t {
  kUuid = 1,
  kGpu,
  kHost,
  kCampaign,
  kCampaignTime,
  kSize,
  kDuration,
  kUser,
  kWorkflow,
  kJob,
  kPlacement,
  kFailure,
  kRepair,
  kPrefill,
  kLevel,
  kPhase,
  kNoise,
  kClockNoise,
  kHang,
  kThrottle,
  kStraggler,
  kLane,
  kService,
  kTelemetryHost,
  kTelemetryTick,
  kTelemetryField,
  kRegression,
  kRack,
  kXid,
  kMemory,
  kApplication,
  kTrace,
  kBooks,       // what the scheduler knows of a user, workflow or job
  kScheduler,   // what the scheduler does of its own accord
  kIncident,    // what --incidents plants, and what varies beside it
  kCounterLie,  // what --counters plants
  kOddJob,      // which workflows have no tensor work
};

// The finaliser of splitmix64: full avalanche, about a nanosecond.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x;
}

inline uint64_t Key(uint64_t seed, Purpose purpose, uint64_t entity = 0, uint64_t bin = 0) {
  uint64_t h = Mix(seed + 0x9e3779b97f4a7c15u * static_cast<uint32_t>(purpose));
  h = Mix(h ^ (entity + 1) * 0xd1342543de82ef95u);
  return Mix(h + (bin + 1) * 0x9e3779b97f4a7c15u);
}

// [0, 1) from the upper 53 bits.
inline double Unit(uint64_t h) { return static_cast<double>(h >> 11) * 0x1p-53; }
// 0..n-1 without bias that matters here (n far below 2^32).
inline uint32_t Below(uint64_t h, uint32_t n) {
  return static_cast<uint32_t>(((h >> 32) * n) >> 32);
}

// The p-quantile of the standard normal distribution, 0 < p < 1 (relative error below 1.2e-9).
double InverseNormal(double p);
inline double Normal(uint64_t h) { return InverseNormal(Unit(h) * (1 - 0x1p-40) + 0x1p-41); }

// The next draws of one key, for places that need several.
class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  uint64_t Next() { return Mix(key_ += 0x9e3779b97f4a7c15u); }
  double Unit() { return simulate::Unit(Next()); }
  uint32_t Below(uint32_t n) { return simulate::Below(Next(), n); }
  double Normal() { return simulate::Normal(Next()); }
  double Exponential(double mean);
  // 1, 2, 3, ... with the given mean.
  int Geometric(double mean);
  int Poisson(double mean);
  double LogNormal(double median, double sigma);

 private:
  uint64_t key_;
};

}  // namespace flopwatch::simulate
