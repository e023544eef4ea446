// Short ways to write observations and to read answers in the tests of jobs/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/job_index.h"

namespace flopwatch::jobs {

// Times in the tests are seconds after this one (2026-11-01T00:00:00Z).
inline constexpr Micros kEpoch = 1'793'491'200 * kMicrosPerSecond;
inline Micros At(double seconds) { return kEpoch + static_cast<Micros>(seconds * 1e6); }
inline constexpr Micros Sec(int64_t s) { return s * kMicrosPerSecond; }

inline telemetry::OwnerLabels Slurm(std::string job, std::string user = "") {
  telemetry::OwnerLabels o;
  o.hpc_job = std::move(job);
  o.user = std::move(user);
  return o;
}
inline telemetry::OwnerLabels Pod(std::string ns, std::string pod) {
  telemetry::OwnerLabels o;
  o.ns = std::move(ns);
  o.pod = std::move(pod);
  return o;
}

inline int32_t Show(JobIndex& index, int32_t entity, double at, double span,
                    const std::vector<telemetry::OwnerLabels>& owners, bool of_the_past = false) {
  std::vector<const telemetry::OwnerLabels*> pointers;
  for (const auto& o : owners) pointers.push_back(&o);
  return index.Observe(
      entity, At(at), static_cast<Micros>(span * 1e6), pointers, [](size_t) { return true; },
      of_the_past);
}

inline std::vector<std::string> KeysOf(const JobIndex& index, int32_t set) {
  std::vector<std::string> keys;
  for (const int32_t id : index.SetMembers(set)) keys.push_back(index.job(id)->key);
  return keys;
}

// Job key -> GPU-seconds in [from, to) seconds.
inline std::map<std::string, double> GpuSecondsOf(const JobIndex& index, double from, double to) {
  std::map<std::string, double> out;
  for (const GpuSeconds& g : index.GpuSecondsByJob(At(from), At(to)))
    out[index.job(g.job)->key] = g.gpu_seconds;
  return out;
}

// "entity job from-to [rank]" with times in seconds, "…" for an open end.
inline std::vector<std::string> Lines(const JobIndex& index, double from = 0, double to = 1e6) {
  std::vector<std::string> out;
  for (const IntervalRecord& r : index.Intervals(At(from), At(to))) {
    std::string line =
        std::to_string(r.entity) + " " + index.job(r.job)->key + " " +
        std::to_string((r.from - kEpoch) / kMicrosPerSecond) + "-" +
        (r.to == kOpenEnd ? "…" : std::to_string((r.to - kEpoch) / kMicrosPerSecond));
    if (r.rank >= 0) line += " rank " + std::to_string(r.rank);
    out.push_back(line);
  }
  return out;
}

inline telemetry::EntityKey Gpu(std::string uuid, int32_t instance = -1) {
  return {instance < 0 ? telemetry::EntityKind::kGpu : telemetry::EntityKind::kGpuInstance,
          std::move(uuid), instance};
}
inline telemetry::EntityLabels Slot(std::string node, int32_t index) {
  telemetry::EntityLabels labels;
  labels.node = std::move(node);
  labels.index = index;
  return labels;
}
inline StaticAssignment Assign(std::string gpu, std::string job, double from, double to,
                               int32_t rank = -1) {
  StaticAssignment a;
  a.gpu = std::move(gpu);
  a.job = std::move(job);
  a.rank = rank;
  a.from = At(from);
  a.to = to < 0 ? kOpenEnd : At(to);
  return a;
}

}  // namespace flopwatch::jobs
