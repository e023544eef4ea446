#include "jobs/slurm/attempts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/lookup.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

// A prolog runs before the start that the books have, or up to a minute after (measured: +0.05 to
// +1.00 s; slow prologs are waited for).
constexpr Micros kPrologSlack = kMicrosPerMinute;

constexpr std::pair<NoGpuTime, std::string_view> kNoGpuTimeNames[] = {
    {NoGpuTime::kOnlyShards, "only_shards"},
    {NoGpuTime::kOnlyRequested, "only_requested"},
    {NoGpuTime::kNoEnd, "no_end"},
    {NoGpuTime::kUnknownState, "unknown_state"},
};

struct AttemptKey {
  std::string cluster;
  std::string job;  // raw id, or the shown one where no source told the raw one
  Micros start = 0;
  bool operator<(const AttemptKey& o) const {
    return std::tie(cluster, job, start) < std::tie(o.cluster, o.job, o.start);
  }
};

// Of two records of one attempt the one that knows more of its state: an end beats none, then the
// later look; among equals the accounting database beats the controller.
bool KnowsMore(const JobRecord& a, const JobRecord& b) {
  const auto rank = [](const JobRecord& r) {
    const bool accounting = r.source == JobSource::kSacctText || r.source == JobSource::kSacctJson;
    return std::tuple(PhaseOf(r.state), r.as_of.value_or(0), accounting);
  };
  return rank(a) > rank(b);
}

template <typename T>
void FillOptional(const std::optional<T>& from, std::optional<T>* to) {
  if (!to->has_value()) *to = from;
}
void FillText(const std::string& from, std::string* to) {
  if (to->empty()) *to = from;
}

// Fills what `to` lacks from `from`.
void FillFrom(const JobRecord& from, JobRecord* to) {
  FillOptional(from.raw_id, &to->raw_id);
  FillOptional(from.het_leader, &to->het_leader);
  for (const auto member : {&JobRecord::cluster, &JobRecord::account, &JobRecord::user,
                            &JobRecord::partition, &JobRecord::qos, &JobRecord::name,
                            &JobRecord::comment, &JobRecord::wckey, &JobRecord::reservation})
    FillText(from.*member, &(to->*member));
  FillOptional(from.exit_code, &to->exit_code);
  FillOptional(from.exit_signal, &to->exit_signal);
  FillOptional(from.submit, &to->submit);
  FillOptional(from.eligible, &to->eligible);
  FillOptional(from.restarts, &to->restarts);
  // The end of another source would not fit this one's elapsed and suspended time.
  if (PhaseOf(to->state) == JobPhase::kEnded) FillOptional(from.end, &to->end);
  if (PhaseOf(from.state) == PhaseOf(to->state)) FillOptional(from.suspended_s, &to->suspended_s);
  if (to->allocated.names_no_gpu()) to->allocated = from.allocated;
  if (to->requested.names_no_gpu()) to->requested = from.requested;
  if (to->nodes.empty()) to->nodes = from.nodes;
  if (to->node_gpus.empty()) to->node_gpus = from.node_gpus;
  // A shown id that tells array and task is better than a bare number.
  if (to->id.find_first_of("_+") == std::string::npos && !from.id.empty()) to->id = from.id;
  to->ambiguous_time = to->ambiguous_time && from.ambiguous_time;
}

void MergeRecord(JobRecord job, Attempt* attempt) {
  if (std::find(attempt->sources.begin(), attempt->sources.end(), job.source) ==
      attempt->sources.end())
    attempt->sources.push_back(job.source);
  if (KnowsMore(job, attempt->job)) std::swap(job, attempt->job);
  FillFrom(job, &attempt->job);
}

// GPUs of an attempt: what the controller allocated, else what is known of all its nodes.
std::optional<int64_t> GpusOf(const JobRecord& job) {
  if (job.allocated.gpus) return job.allocated.gpus;
  int64_t sum = 0;
  bool all = !job.node_gpus.empty() && job.node_gpus.size() >= job.nodes.size();
  for (const NodeGpus& on : job.node_gpus) {
    if (!on.count && on.gpus.empty()) all = false;
    sum += on.count.value_or(static_cast<int64_t>(on.gpus.size()));
  }
  return all ? std::optional(sum) : std::nullopt;
}

bool NamesGpus(const JobRecord& job) {
  const auto holds = [](const Tres& tres) {
    return tres.gpus.value_or(0) > 0 || tres.shards.value_or(0) > 0 || tres.mps.value_or(0) > 0;
  };
  // What was asked for counts only where the source does not say what was given.
  if (holds(job.allocated) || !job.node_gpus.empty()) return true;
  return job.allocated == Tres{} && holds(job.requested);
}

class AttemptMerger {
 public:
  explicit AttemptMerger(std::optional<Micros> as_of) : as_of_(as_of) {}

  AttemptList Merge(absl::Span<const Books> books) {
    for (const Books& b : books)
      for (const JobRecord& job : b.jobs)
        if (!job.cluster.empty()) clusters_.insert(job.cluster);
    for (const Books& b : books)
      for (const JobRecord& job : b.jobs)
        if (job.raw_id && job.id.find_first_of("_+") != std::string::npos)
          raw_ids_.try_emplace({ClusterOf(job.cluster), job.id}, *job.raw_id);
    for (const bool completing : {false, true})
      for (const Books& b : books)
        for (const JobRecord& job : b.jobs)
          if (SeenCompleting(job) == completing) AddRecord(job);
    IndexPlaces(books);
    for (const Books& b : books)
      for (const GpuMapLine& line : b.gpu_map) PutOnGpus(line);
    MarkUnseenEnds();
    Collect();
    Notes();
    return std::move(out_);
  }

 private:
  // scontrol does not name its cluster: where all others name one and the same, it is that.
  std::string ClusterOf(const std::string& cluster) const {
    return cluster.empty() && clusters_.size() == 1 ? *clusters_.begin() : cluster;
  }

  // The raw id; of a source that shows "2_5" alone the one that another source tells of it.
  std::string JobKeyOf(const JobRecord& job) const {
    if (job.raw_id) return fmt::format("{}", *job.raw_id);
    const auto it = raw_ids_.find({ClusterOf(job.cluster), job.id});
    return it == raw_ids_.end() ? job.id : fmt::format("{}", it->second);
  }

  void AddRecord(const JobRecord& job) {
    AttemptCounts& counts = out_.counts;
    ++counts.records;
    any_gpu_ |= NamesGpus(job) || NamesGpusAsked(job);
    if (!job.start || CancelledWhileWaiting(job)) {
      const JobPhase phase = PhaseOf(job.state);
      ++(phase == JobPhase::kWaiting ? counts.waiting
         : phase == JobPhase::kEnded ? counts.never_started
                                     : counts.no_start);
      return;
    }
    const AttemptKey key{ClusterOf(job.cluster), JobKeyOf(job), *job.start};
    if (SeenCompleting(job) && !attempts_.contains(key)) {
      ++counts.waiting;
      return;
    }
    const auto [it, fresh] = attempts_.try_emplace(key);
    Attempt& attempt = it->second;
    if (fresh) {
      attempt.job = job;
      attempt.job.cluster = key.cluster;
      attempt.sources = {job.source};
      return;
    }
    ++counts.same_attempt;
    MergeRecord(job, &attempt);
    attempt.job.cluster = key.cluster;
  }
  static bool IsController(const JobRecord& job) {
    return job.source == JobSource::kSqueueJson || job.source == JobSource::kScontrol;
  }
  // The controller gives a job that was cancelled before it ran the time of that as start and end.
  static bool CancelledWhileWaiting(const JobRecord& job) {
    return IsController(job) && PhaseOf(job.state) == JobPhase::kEnded && job.end == job.start &&
           job.nodes.empty();
  }
  // While the nodes of a requeued job clean up, the controller shows it COMPLETING with a start of
  // this very second, another one at each look, and an end by its time limit. So such a record only
  // adds to an attempt that another one tells of; one that did end is COMPLETED at the next look.
  static bool SeenCompleting(const JobRecord& job) {
    return IsController(job) && job.state == JobState::kCompleting;
  }
  static bool NamesGpusAsked(const JobRecord& job) { return !job.requested.names_no_gpu(); }

  // Which attempts a prolog's line can mean, by job and node, in order of start. Tasks of a
  // heterogeneous job's later components carry the leader's id: under it they stand too, and the
  // node says which component is meant.
  struct Place {
    Attempt* attempt;
    size_t on;  // in its node_gpus; where the node has no entry yet, kNowhere
  };
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  struct PlacesOfNode {
    std::vector<Place> own, as_component;
  };
  using PlaceKey = std::tuple<std::string, int64_t, std::string>;  // cluster, job, node
  using Places = absl::flat_hash_map<PlaceKey, PlacesOfNode>;

  // Only what the lines name.
  void IndexPlaces(absl::Span<const Books> books) {
    absl::flat_hash_set<int64_t> named;
    for (const Books& b : books)
      for (const GpuMapLine& line : b.gpu_map) named.insert(line.job);
    if (named.empty()) return;
    for (auto& [key, attempt] : attempts_) {
      const JobRecord& job = attempt.job;
      const bool own = job.raw_id && named.contains(*job.raw_id);
      const bool component =
          job.het_leader && job.het_leader != job.raw_id && named.contains(*job.het_leader);
      if (!own && !component) continue;
      absl::flat_hash_map<std::string_view, size_t> on;
      for (size_t k = 0; k < job.node_gpus.size(); ++k) on.emplace(job.node_gpus[k].node, k);
      for (const std::string& node : job.nodes) {
        const auto it = on.find(node);
        const Place place{&attempt, it == on.end() ? kNowhere : it->second};
        if (own) AddPlace(place, &places_[{key.cluster, *job.raw_id, node}].own);
        if (component) AddPlace(place, &places_[{key.cluster, *job.het_leader, node}].as_component);
      }
    }
    for (auto& [key, places] : places_) {  // those of one job are in order of start already
      std::stable_sort(places.as_component.begin(), places.as_component.end(),
                       [](const Place& a, const Place& b) {
                         return *a.attempt->job.start < *b.attempt->job.start;
                       });
    }
  }
  // A node list may name a node twice.
  static void AddPlace(const Place& place, std::vector<Place>* places) {
    if (places->empty() || places->back().attempt != place.attempt) places->push_back(place);
  }

  // The attempt of `places` that ran at `at`, else the nearest one that starts or ended within the
  // slack; without a time the only one. Null where there is none or, with *several, more than one.
  static Place* Choose(std::optional<Micros> at, std::vector<Place>* places, bool* several) {
    *several = !at && places->size() > 1;
    if (places->empty() || *several) return nullptr;
    if (!at) return &places->front();
    const auto after = std::upper_bound(
        places->begin(), places->end(), *at,
        [](Micros t, const Place& place) { return t < *place.attempt->job.start; });
    Place* const before = after == places->begin() ? nullptr : &*std::prev(after);
    Micros to_before = before == nullptr ? kPrologSlack + 1 : 0;
    if (before != nullptr && before->attempt->job.end)
      to_before = std::max<Micros>(0, *at - *before->attempt->job.end);
    if (to_before == 0) return before;
    // A requeued job can be back within the slack: the start that follows is not always the one.
    const Micros to_after =
        after == places->end() ? kPrologSlack + 1 : *after->attempt->job.start - *at;
    if (std::min(to_before, to_after) > kPrologSlack) return nullptr;
    return to_after <= to_before ? &*after : before;
  }

  // A prolog that does not name its cluster means the one that has this job on this node.
  Places::iterator PlacesOf(const GpuMapLine& line, bool* several) {
    auto found = places_.find({ClusterOf(line.cluster), line.job, line.node});
    if (!line.cluster.empty() || found != places_.end()) return found;
    for (const std::string& cluster : clusters_) {
      const auto of = places_.find({cluster, line.job, line.node});
      if (of == places_.end()) continue;
      *several = found != places_.end();
      if (*several) return places_.end();
      found = of;
    }
    return found;
  }

  void PutOnGpus(const GpuMapLine& line) {
    AttemptCounts& counts = out_.counts;
    ++counts.map_lines;
    bool several = false;
    Place* place = nullptr;
    const auto it = PlacesOf(line, &several);
    if (it != places_.end()) {
      place = Choose(line.at, &it->second.own, &several);
      if (place == nullptr && !several) place = Choose(line.at, &it->second.as_component, &several);
    }
    if (place == nullptr) {
      ++(several ? counts.map_lines_ambiguous : counts.map_lines_unplaced);
      return;
    }
    ++counts.map_lines_placed;
    if (line.gpus.empty()) return;  // a job without GPUs has a prolog too
    auto& all = place->attempt->job.node_gpus;
    if (place->on == kNowhere) {
      place->on = all.size();
      all.push_back({line.node, {}, std::nullopt});
    }
    std::vector<int32_t>& gpus = all[place->on].gpus;
    gpus.insert(gpus.end(), line.gpus.begin(), line.gpus.end());
    std::sort(gpus.begin(), gpus.end());
    gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
    place->attempt->from_prolog = true;
  }

  void MarkUnseenEnds() {
    for (auto it = attempts_.begin(); it != attempts_.end(); ++it) {
      const auto next = std::next(it);
      if (next == attempts_.end() || next->first.cluster != it->first.cluster ||
          next->first.job != it->first.job)
        continue;
      Attempt& earlier = it->second;
      earlier.end_unseen = PhaseOf(earlier.job.state) == JobPhase::kHolding;
      if (earlier.end_unseen) earlier.until = next->first.start;
    }
  }

  void Count(Attempt* attempt) const {
    const JobRecord& job = attempt->job;
    const JobPhase phase = PhaseOf(job.state);
    attempt->running = !job.end && !attempt->end_unseen && phase == JobPhase::kHolding;
    const std::optional<Micros> latest = std::exchange(attempt->until, job.end);
    if (phase == JobPhase::kHolding) attempt->until = job.as_of ? job.as_of : as_of_;
    if (latest && attempt->until) attempt->until = std::min(*latest, *attempt->until);
    attempt->gpus = GpusOf(job);
    if (!attempt->gpus && (job.allocated.shards || job.allocated.mps)) {
      attempt->no_gpu_time = NoGpuTime::kOnlyShards;
    } else if (!attempt->gpus) {
      attempt->no_gpu_time = NoGpuTime::kOnlyRequested;
    } else if (phase == JobPhase::kUnknown) {
      attempt->no_gpu_time = NoGpuTime::kUnknownState;
    } else if (!attempt->until || *attempt->until < *job.start) {
      attempt->no_gpu_time = NoGpuTime::kNoEnd;
    } else {
      const int64_t seconds = (*attempt->until - *job.start) / kMicrosPerSecond;
      attempt->held_gpu_seconds = *attempt->gpus * seconds;
      if (job.suspended_s)
        attempt->suspended_gpu_seconds = *attempt->gpus * std::min(*job.suspended_s, seconds);
    }
  }

  void Collect() {
    for (auto& [key, attempt] : attempts_) {
      if (!NamesGpus(attempt.job)) {
        ++out_.counts.without_gpus;
        continue;
      }
      std::sort(attempt.job.node_gpus.begin(), attempt.job.node_gpus.end(),
                [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
      Count(&attempt);
      out_.attempts.push_back(std::move(attempt));
    }
    std::stable_sort(
        out_.attempts.begin(), out_.attempts.end(),
        [](const Attempt& a, const Attempt& b) { return *a.job.start < *b.job.start; });
    out_.counts.attempts = out_.attempts.size();
  }

  void Notes() {
    const AttemptCounts& counts = out_.counts;
    if (counts.records > 0 && !any_gpu_) {
      out_.notes.push_back(
          "no record names a GPU: does the cluster's AccountingStorageTRES have gres/gpu? Without "
          "it accounting does not know of GPUs");
    }
    if (clusters_.size() > 1) {
      for (const auto& [key, attempt] : attempts_) {
        if (!key.cluster.empty()) continue;
        out_.notes.push_back(
            "records without a cluster's name stand beside those of several clusters: name the "
            "cluster of each file");
        break;
      }
    }
  }

  const std::optional<Micros> as_of_;
  std::set<std::string> clusters_;
  absl::flat_hash_map<std::pair<std::string, std::string>, int64_t> raw_ids_;  // by shown id
  std::map<AttemptKey, Attempt> attempts_;
  Places places_;
  bool any_gpu_ = false;
  AttemptList out_;
};

}  // namespace

std::string_view NoGpuTimeName(NoGpuTime why) {
  return ValueOf(kNoGpuTimeNames, why, std::string_view());
}

AttemptList MergeAttempts(absl::Span<const Books> books, std::optional<Micros> as_of) {
  return AttemptMerger(as_of).Merge(books);
}

}  // namespace flopwatch::slurm
