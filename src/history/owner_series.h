// Series of other exporters that say whose a GPU was: those of Slurm's job exporters and of
// kube-state-metrics. A row a metric in owner_series.cc; docs/history.md has the list.
//
// They become labels of the GPU's own samples (telemetry::OwnerLabels), as if the GPU's exporter
// had written them: what labels say of a job is decided in one place (jobs/job_index.h). Looks of
// the two exporters are at times of their own: a sample of a GPU is that of whom the nearest look
// shows, at most a step before it or half a step after it.
//
// Of a pod that has a part of its node's GPUs nobody says which these are: such a pod is an attempt
// in the books instead (PodHeld), with the number of its GPUs.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time.h"
#include "telemetry/metric_series.h"
#include "telemetry/remote_read.h"
#include "telemetry/sample.h"

namespace flopwatch::history {

// Whether the metric is one of theirs.
bool IsOwnerMetric(std::string_view metric);
// What of it is wanted; empty: all.
std::vector<telemetry::ReadMatcher> OwnerMatchers(std::string_view metric);

// A whole GPU as its own exporter names it. What is not known is empty, or below 0.
struct GpuPlace {
  std::string uuid, node, host;  // host: that of the exporter's address
  int32_t index = -1;
  // How many are seen on its node, for series that say how many GPUs of a node somebody has and not
  // which; 0: not known.
  int32_t gpus_of_node = 0;
};

// A pod that held GPUs of its node, and not all of them, or of a node of which no GPU is seen.
struct PodHeld {
  std::string ns, pod, node;  // node: as GPUs on it name it, where any are seen
  int32_t gpus = 0;
  Micros from = 0, to = 0;  // half a step around the looks at it
};

class OwnerSeries {
 public:
  // False: it is none of theirs.
  bool Add(const telemetry::MetricSeries& series);
  // Forgets what was added since the last Settle().
  void Clear();
  // Everything of the window was added: At() may be asked.
  void Prepare();
  // The window is over; its end is what the next one begins with.
  void Settle();

  // Nobody is named: nothing to ask for.
  bool empty() const { return lines_.empty(); }
  // So many whole GPUs are seen on a node, as `place` calls it; between Prepare() and TakePods().
  void SeeNode(const GpuPlace& place, int32_t gpus);
  // Those that this window showed, with the time since they began, also in windows before.
  std::vector<PodHeld> TakePods();
  // Who had it, each once; none: nobody, or not known. Valid until the next call.
  const std::vector<const telemetry::OwnerLabels*>& At(const GpuPlace& gpu, Micros ts);

 private:
  // How a series names the GPU; the first that says something counts.
  enum class By : uint8_t { kUuid, kIndex, kNode };
  using Place = std::pair<By, std::string>;
  struct Held {
    uint32_t owner = 0;  // in owners_
    int32_t gpus = 0;    // of a node, so many; 0: all of the place
    auto operator<=>(const Held&) const = default;
  };
  struct Look {
    Micros ts = 0;
    bool anybody = false;  // else it was seen to be nobody's
    Held held;
  };
  struct Timeline {
    std::vector<Look> looks;  // by time; several of a time where it is shared
    Micros step = 0;          // the usual time between two
  };
  struct Pod {  // what kube-state-metrics' series say of one
    std::string node;
    uint32_t owner = 0;
    std::map<Micros, std::map<std::string, double>> gpus;  // of each container
    std::map<Micros, double> running;
  };
  // A pod while it runs with the same number of GPUs.
  struct PodRun {
    PodHeld held;
    Micros last = 0, step = 0;  // of looks
    bool is_new = false;        // this window showed something of it
  };
  struct Metric;
  static const std::vector<Metric>& Metrics();
  static const Metric* Find(std::string_view name);

  void AddLooks(const Metric& metric, const telemetry::MetricSeries& series);
  void AddPod(const Metric& metric, const telemetry::MetricSeries& series);
  void AddCapacity(const telemetry::MetricSeries& series);
  void PlacePods();
  void Follow(const std::string& key, const Pod& pod, int32_t gpus, Micros at, Micros step);
  void Extend(const Place& place, std::vector<Look> looks);
  uint32_t NumberOf(telemetry::OwnerLabels owner);

  std::map<Place, Timeline> lines_;  // of this window, and the end of the last one
  std::map<Place, Timeline> kept_;   // the end of the last one
  std::map<std::string, Pod> pods_;
  std::map<std::string, int32_t> capacity_;  // GPUs of nodes
  std::map<std::string, PodRun> runs_;       // as pods_
  std::vector<PodRun> ended_;                // whose pod went on otherwise
  struct SeenNode {
    std::string name;
    int32_t gpus = 0;
  };
  std::map<std::string, SeenNode> seen_nodes_;  // by node and by host
  std::vector<telemetry::OwnerLabels> owners_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, uint32_t> number_of_;
  std::vector<const telemetry::OwnerLabels*> answer_;

  friend bool IsOwnerMetric(std::string_view);
  friend std::vector<telemetry::ReadMatcher> OwnerMatchers(std::string_view);
};

}  // namespace flopwatch::history
