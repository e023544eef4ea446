// A simulated GPU fleet with exact truth: what its exporters would say at any moment, who ran what
// where, and what really happened. Reproducible from one seed; after construction everything is
// const and any host, time and thread is independent of every other. A longer duration has the same
// past (all presets but seren). docs/simulate.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "jobs/job_index.h"
#include "simulate/counter_lies.h"
#include "simulate/incidents.h"
#include "simulate/model.h"

namespace flopwatch::simulate {

struct Truth;

struct FleetOptions {
  int gpus = 256;
  Preset preset = Preset::kLlm;
  uint64_t seed = 1;
  Micros start = 1'772'409'600'000'000;  // 2026-03-02T00:00:00Z, a Monday; whole seconds
  Micros duration = 24 * kMicrosPerHour;
  Micros interval = 10 * kMicrosPerSecond;  // the exporters' collect interval; at least 10 ms
  int fields = 20;  // 20: dcgm-exporter's default set and SM activity; 100: nearly all
  Faults faults = Faults::kAll;
  // The last cluster lives in US Pacific time (local_time.h): its users' day, and the timestamps
  // its exporters write themselves, without a zone.
  bool local_time = false;
  // What is planted on top. With any, exporters also have the fields by which it shows, and more
  // varies by itself (docs/simulate.md, Incidents); without, a fleet is what it always was.
  IncidentCounts incidents;
  // Counters that are not what they say (docs/simulate.md, Counters that lie), and jobs that use
  // no tensor core at full power: FP64, FP32 and integer codes, and those bound by memory.
  CounterLieCounts counters;
  bool odd_jobs = false;
  bool amd = false;  // every GPU is an MI300X under AMD's exporter
};
inline constexpr int kMaxGpus = 1'000'000;
inline constexpr Micros kMaxDuration = 366 * kMicrosPerDay;

enum class Answer : uint8_t {
  kOk,
  kNone,  // the host is down or the exporter does not answer at that moment
};

enum class Stamps : uint8_t {
  kNone,      // like dcgm-exporter: the time of a sample is the time of the scrape
  kExplicit,  // milliseconds after each value, for replay faster or slower than time
};

class Fleet {
 public:
  static StatusOr<std::unique_ptr<Fleet>> Create(const FleetOptions& options);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  const FleetOptions& options() const;
  int hosts() const;
  // "alder-r02-n017"; stable for a seed and size.
  std::string HostName(int host) const;
  int FindHost(std::string_view name) const;  // -1 = no such host
  int HostGpus(int host) const;
  std::string_view ClusterName(int host) const;

  // The exporter of a host collects at ticks 0, 1, ... ticks()-1, each host with its own phase.
  int64_t Ticks(int host) const;
  Micros TickTime(int host, int64_t tick) const;
  // The last tick at or before `now`; -1 before the first.
  int64_t TickAt(int host, Micros now) const;
  // Replaces *out by the exposition text of that tick. On kNone *out is empty.
  Answer RenderHost(int host, int64_t tick, Stamps stamps, std::string* out) const;

  // Who owned which GPU when: the static source of jobs/ (a GPU is named by UUID, or
  // UUID/INSTANCE). Jobs that outlive the window have an open end.
  std::vector<jobs::StaticAssignment> Assignments() const;
  std::string AssignmentsCsv() const;

  // What really happened in [from, to), clipped to the fleet's window and rounded to whole seconds.
  // `scheduler`: with what the books of its clusters under Slurm should come to.
  Truth TruthOf(Micros from, Micros to, bool scheduler = false) const;
  Truth TruthOf() const;
  // How many of each kind could be planted in the whole of it.
  IncidentCounts Planted() const;

  // The GPUs whose counters lie, in order; a UUID is that of their first device.
  std::vector<PlantedLie> Lies() const;
  std::string UuidOf(int32_t gpu) const;

  // Bytes held by the fleet, without the allocator's own.
  size_t memory_bytes() const;

  // The model behind it, for tests and benches of the generator itself.
  struct Model;
  const Model& model() const { return *model_; }

 private:
  explicit Fleet(std::unique_ptr<Model> model);
  std::unique_ptr<Model> model_;
};

}  // namespace flopwatch::simulate
