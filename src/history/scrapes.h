// Series of a window put back together into the scrapes that they came from, so that what decides
// about names, units, identities and jobs is the code that reads scrapes (telemetry/exposition.h).
//
// An exporter is its `job` and `instance`. Labels that say which Prometheus asked (replicas of an
// HA pair) are taken off: of replicas the one with most scrapes in the window speaks, and the
// others where it was silent for longer than it ever is between two scrapes. Samples of one
// exporter at most kJoin apart are one scrape, unless a series would be in it twice. Whose a GPU
// was other exporters may say (owner_series.h): that is one more sample, with the labels that say
// it. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "history/owner_series.h"
#include "telemetry/exposition.h"
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
  // What is held of them, about: those of a fleet of 10,000 GPUs have more bytes of names than of
  // numbers.
  uint64_t bytes() const { return bytes_ + owner_bytes_; }
  // Series whose exporter cannot be named, because no label says it.
  uint64_t unnamed() const { return unnamed_; }

  // Forgets what was added since the last Drain().
  void Clear();

  struct Scrape {
    std::string_view name, node;  // of the exporter, as ingest::Origin
    Micros ts = 0;
    absl::Span<const telemetry::SeriesSample> samples;
  };
  // Calls f with every scrape, in order of time, and forgets them. What is added next is of a later
  // window; with `more`, of this one again, and by other exporters: what was added of owners stays.
  void Drain(absl::FunctionRef<void(const Scrape&)> f, bool more = false);
  // Pods of that window whose GPUs nobody names; once, after all of it.
  std::vector<PodHeld> TakePods() { return std::exchange(pods_, {}); }

 private:
  struct Series {
    std::string_view name, labels;  // in names_ and in the stream's
    std::vector<telemetry::MetricPoint> points;
    telemetry::SeriesMemo memo;
    uint32_t next = 0;          // of LayOut()
    int32_t gpu = -1;           // in Stream::gpus
    bool unit_in_text = false;  // telemetry::PercentOrRatio
  };
  // A series with an owner's labels.
  struct Owned {
    std::string_view name;
    std::string labels;
    telemetry::SeriesMemo memo;
  };
  // A whole GPU that a stream speaks of, where its own labels name no owner.
  struct Gpu {
    GpuPlace place;
    std::vector<std::unique_ptr<Owned>> owned;  // as they were needed last
    // Of the scrape that is being written.
    const Series* series = nullptr;
    double value = 0;
  };
  struct Moment {  // the samples of one scrape
    Micros from = 0, to = 0;
  };
  // What one replica saw of an exporter.
  struct Stream {
    // As SeriesSample has them. All metrics of a GPU share one.
    std::unordered_set<std::string> labels;
    absl::flat_hash_map<std::pair<const char*, const char*>, uint32_t> place;  // by name and labels
    std::vector<Series> series;
    std::vector<Gpu> gpus;       // Series::gpu is a place in it
    std::vector<Moment> spoken;  // of which it speaks, in order of time
    // Of the next few moments of these, all series' of one together.
    std::vector<double> values;
  };
  struct Exporter {
    std::string name, node;
    std::map<std::string, Stream> streams;  // by replica
    std::string speaker;                    // the replica that spoke last
    Micros spoke = 0, usual = 0;            // when, and the time between two scrapes
    telemetry::PercentOrRatio unit;
  };
  // What labels say.
  struct Labels {
    Exporter* exporter = nullptr;  // null: none that can be named
    Stream* stream = nullptr;
    std::string_view text;  // in stream->labels
  };
  Labels Read(const telemetry::MetricSeries& series, bool plain);
  // Of a name that is no plain word, which stands among the labels, `plain_name` is empty.
  Series* Find(const Labels& labels, std::string_view plain_name);
  static std::vector<Moment> MomentsOf(Stream* stream);
  bool IsReplicaLabel(std::string_view label) const;
  // Which of its replicas speaks when.
  static void FindSpoken(Exporter* exporter);
  static void LayOut(size_t first, Stream* stream);
  void FindGpus(const Exporter& exporter, Stream* stream);
  void WriteOwners(Gpu* gpu, Micros ts);
  void Write(const Exporter& exporter, size_t moment, Stream* stream,
             absl::FunctionRef<void(const Scrape&)> f);

  std::vector<std::string> replica_labels_;
  std::unordered_set<std::string> names_;
  std::map<std::pair<std::string, std::string>, Exporter> exporters_;  // by job and instance
  absl::flat_hash_map<std::string, Labels> known_;  // by labels as they come, with the replica's
  std::string key_;                                 // of Add(), used again
  OwnerSeries owners_;
  std::vector<PodHeld> pods_;
  uint64_t samples_ = 0, bytes_ = 0, owner_bytes_ = 0, unnamed_ = 0;
  bool again_ = false;  // what is added is of the window that owners_ is of
  std::vector<telemetry::SeriesSample> written_;  // of Write(), used again
};

}  // namespace flopwatch::history
