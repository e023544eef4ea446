// Series of a window put back together into the scrapes that they came from, so that what decides
// about names, units, identities and jobs is the code that reads scrapes (telemetry/exposition.h).
//
// An exporter is its `job` and `instance`. Labels that say which Prometheus asked (replicas of an
// HA pair) are taken off: of replicas the one with most scrapes in the window speaks, and the
// others where it was silent for longer than it ever is between two scrapes. Samples of one
// exporter at most kJoin apart are one scrape, unless a series would be in it twice. Whose a GPU
// was other exporters may say (owner_series.h): it is written as labels of one more line. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/time.h"
#include "history/owner_series.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {

// Or half of the time between two of a series' samples, where that is less.
inline constexpr Micros kJoin = kMicrosPerSecond;

class Scrapes {
 public:
  // `replica_labels`: besides those that are usual.
  explicit Scrapes(std::vector<std::string> replica_labels = {});
  // More of them; before the first series.
  void AddReplicaLabels(const std::vector<std::string>& labels) {
    replica_labels_.insert(replica_labels_.end(), labels.begin(), labels.end());
  }

  void Add(const telemetry::MetricSeries& series);
  uint64_t samples() const { return samples_; }
  // Series whose exporter cannot be named, because no label says it.
  uint64_t unnamed() const { return unnamed_; }

  // Forgets what was added since the last Drain().
  void Clear();

  struct Scrape {
    std::string_view name, node;  // of the exporter, as ingest::Origin
    Micros ts = 0;
    std::string_view body;  // exposition text, without times
  };
  // Calls f with every scrape, in order of time, and forgets them. What is added next is of a later
  // window.
  void Drain(absl::FunctionRef<void(const Scrape&)> f);
  // Pods of that window whose GPUs nobody names; once.
  std::vector<PodHeld> TakePods() { return std::exchange(pods_, {}); }

 private:
  struct Series {
    std::string text;  // name, labels and a blank, as in exposition text
    std::vector<telemetry::MetricPoint> points;
    size_t next = 0;            // of Write()
    bool unit_in_text = false;  // telemetry::PercentOrRatio
    int32_t gpu = -1;           // in Stream::gpus
  };
  // What one replica saw of an exporter.
  // A whole GPU that a stream speaks of, where its own labels name no owner.
  struct Gpu {
    GpuPlace place;
    // Of the scrape that is being written.
    const std::string* text = nullptr;
    double value = 0;
  };
  struct Stream {
    std::map<std::string, size_t> place;  // by text
    std::vector<Series> series;
    std::vector<Gpu> gpus;  // Series::gpu is a place in it
  };
  struct Exporter {
    std::string name, node;
    std::map<std::string, Stream> streams;  // by replica
    std::string speaker;                    // the replica that spoke last
    Micros spoke = 0, usual = 0;            // when, and the time between two scrapes
    telemetry::PercentOrRatio unit;
  };
  struct Moment {  // the samples of one scrape
    Micros from = 0, to = 0;
  };
  static std::vector<Moment> MomentsOf(Stream* stream);
  bool IsReplicaLabel(std::string_view label) const;
  // The scrapes of all replicas that speak, in order of time.
  static std::vector<std::pair<Moment, Stream*>> Spoken(Exporter* exporter);
  void FindGpus(const Exporter& exporter, Stream* stream);
  void WriteOwners(Stream* stream, Micros ts);
  void Write(const Exporter& exporter, const Moment& moment, Stream* stream,
             absl::FunctionRef<void(const Scrape&)> f);

  std::vector<std::string> replica_labels_;
  std::map<std::pair<std::string, std::string>, Exporter> exporters_;  // by job and instance
  OwnerSeries owners_;
  std::vector<PodHeld> pods_;
  uint64_t samples_ = 0, unnamed_ = 0;
  std::string body_;  // of Write(), used again
};

}  // namespace flopwatch::history
