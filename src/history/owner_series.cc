#include "history/owner_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "ingest/origin.h"
#include "jobs/job_index.h"

namespace flopwatch::history {
namespace {

using telemetry::MetricSeries;
using telemetry::OwnerLabels;

// Where a series has one point, and the longest step that is believed: what is looked at more
// seldom says nothing of the time between.
constexpr Micros kUsualStep = 60 * kMicrosPerSecond, kLongestStep = 150 * kMicrosPerSecond;
constexpr double kLargestId = 9e15;  // whole numbers up to here are exact
constexpr double kMostGpus = 1024;   // of a node

// GPUs as Kubernetes calls them: nvidia.com/gpu, amd.com/gpu, and others' with the same end.
constexpr std::string_view kGpuResources = ".*_com_gpu";

// The first of these labels that is there.
std::string_view First(const MetricSeries& series, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (const std::string_view value = series.Label(key); !value.empty()) return value;
  return {};
}

std::string NodeOf(const MetricSeries& series) {
  const std::string_view node =
      First(series, {"hostname", "Hostname", "exported_hostname", "nodename"});
  return std::string(node.empty() ? ingest::HostOfInstance(series.Label("instance")) : node);
}

std::string IndexOn(std::string_view node, int64_t index) {
  return fmt::format("{}\n{}", node, index);
}

std::optional<int32_t> SmallInt(std::string_view text) {
  int32_t value = 0;
  if (text.empty() || text.size() > 4) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

Micros StepOf(const std::vector<telemetry::MetricPoint>& points) {
  std::vector<Micros> steps;
  for (size_t k = 1; k < points.size(); ++k)
    if (points[k].ts > points[k - 1].ts) steps.push_back(points[k].ts - points[k - 1].ts);
  if (steps.empty()) return 0;
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return std::min(*middle, kLongestStep);
}

}  // namespace

struct OwnerSeries::Metric {
  enum class Says : uint8_t {
    kAlways,     // whoever its labels name has the GPU
    kWhereSet,   // the same where its value is not 0
    kId,         // its value is the job's id; 0: nobody
    kRequested,  // its value is how many GPUs the pod asks for
    kRunning,    // 1 while the pod runs
    kCapacity,   // its value is how many GPUs the node has
  };
  std::string_view name;
  Says says;
  By by = By::kNode;
  std::string_view job, gpu, user;  // labels
  // Where this label has a value, the series is of a part of a GPU.
  std::string_view part = "";
  // Without `gpu` the job has the node, unless this label is there: then the exporter would have
  // named its GPUs, and it has none. Empty: without `gpu` it says nothing.
  std::string_view node_unless = "";
};

const std::vector<OwnerSeries::Metric>& OwnerSeries::Metrics() {
  using enum Metric::Says;
  static const std::vector<Metric> kMetrics = {
      // slurm-job-exporter (github.com/guilbaults/slurm-job-exporter): `gpu` is NVML's index.
      {"slurm_job_utilization_gpu", kAlways, By::kIndex, "slurmjobid", "gpu", "user"},
      {"slurm_job_memory_usage_gpu", kAlways, By::kIndex, "slurmjobid", "gpu", "user"},
      // jobstats' GPU exporter (github.com/plazonic/nvidia_gpu_prometheus_exporter).
      {"nvidia_gpu_jobId", kId, By::kUuid, "", "uuid", ""},
      // CEEMS (github.com/mahendrapaipuri/ceems): `uuid` is the unit's, a job's id on Slurm;
      // `gpuiid` that of an instance.
      {"ceems_compute_unit_gpu_index_flag", kWhereSet, By::kUuid, "uuid", "gpuuuid", "user",
       "gpuiid"},
      // Omnistat (github.com/ROCm/omnistat): `jobid` is empty on idle nodes. Versions that know
      // cards write the account too; those before have one job a node.
      {"rmsjob_info", kWhereSet, By::kIndex, "jobid", "card", "user", "", "account"},
      // kube-state-metrics: pods that have all GPUs of their node. Of others it is not said which
      // GPUs are theirs (PodHeld).
      {"kube_pod_container_resource_requests", kRequested, By::kNode, "", "", ""},
      {"kube_pod_status_phase", kRunning, By::kNode, "", "", ""},
      {"kube_node_status_capacity", kCapacity, By::kNode, "", "", ""},
  };
  return kMetrics;
}

const OwnerSeries::Metric* OwnerSeries::Find(std::string_view name) {
  const auto it = std::ranges::find(Metrics(), name, &Metric::name);
  return it == Metrics().end() ? nullptr : &*it;
}

bool IsOwnerMetric(std::string_view metric) { return OwnerSeries::Find(metric) != nullptr; }

std::vector<telemetry::ReadMatcher> OwnerMatchers(std::string_view metric) {
  using Type = telemetry::ReadMatcher::Type;
  const OwnerSeries::Metric* const m = OwnerSeries::Find(metric);
  if (m == nullptr) return {};
  if (m->says == OwnerSeries::Metric::Says::kRunning)
    return {{.type = Type::kEqual, .name = "phase", .value = "Running"}};
  if (m->says == OwnerSeries::Metric::Says::kRequested ||
      m->says == OwnerSeries::Metric::Says::kCapacity)
    return {{.type = Type::kRegex, .name = "resource", .value = std::string(kGpuResources)}};
  return {};
}

uint32_t OwnerSeries::NumberOf(OwnerLabels owner) {
  const auto [it, fresh] = number_of_.try_emplace({owner.hpc_job, owner.ns, owner.pod, owner.user},
                                                  static_cast<uint32_t>(owners_.size()));
  if (fresh) owners_.push_back(std::move(owner));
  return it->second;
}

bool OwnerSeries::Add(const MetricSeries& series) {
  const Metric* const metric = Find(series.name);
  if (metric == nullptr) return false;
  switch (metric->says) {
    case Metric::Says::kRequested:
    case Metric::Says::kRunning:
      AddPod(*metric, series);
      break;
    case Metric::Says::kCapacity:
      AddCapacity(series);
      break;
    default:
      AddLooks(*metric, series);
      break;
  }
  return true;
}

void OwnerSeries::AddLooks(const Metric& metric, const MetricSeries& series) {
  const std::string_view gpu = metric.gpu.empty() ? "" : series.Label(metric.gpu);
  if (!metric.part.empty() && !series.Label(metric.part).empty()) return;
  Place place{metric.by, gpu};
  if (metric.by == By::kIndex) {
    const auto index = SmallInt(gpu);
    if (!index.has_value() && !gpu.empty()) return;  // of an instance
    if (gpu.empty() && (metric.node_unless.empty() || !series.Label(metric.node_unless).empty()))
      return;
    place = index.has_value() ? Place{By::kIndex, IndexOn(NodeOf(series), *index)}
                              : Place{By::kNode, NodeOf(series)};
  }
  if (place.second.empty()) return;
  OwnerLabels owner;
  if (!metric.job.empty()) owner.hpc_job = series.Label(metric.job);
  if (!metric.user.empty()) owner.user = series.Label(metric.user);
  const bool by_value = metric.says == Metric::Says::kId;
  if (!by_value && owner.hpc_job.empty()) return;
  std::vector<Look> looks;
  std::optional<uint32_t> number;
  double last = 0;
  for (const telemetry::MetricPoint& p : series.points) {
    Look look{.ts = p.ts, .anybody = metric.says == Metric::Says::kAlways || p.value > 0};
    if (by_value && look.anybody) {
      if (!(p.value < kLargestId) || p.value != std::floor(p.value)) continue;
      if (!number.has_value() || p.value != last) {
        owner.hpc_job = fmt::format("{}", static_cast<int64_t>(last = p.value));
        number = NumberOf(owner);
      }
    }
    if (look.anybody && !number.has_value()) number = NumberOf(owner);
    // That one job has not got it, does not say that no other has.
    if (!look.anybody && !by_value) continue;
    if (look.anybody) look.held.owner = *number;
    looks.push_back(look);
  }
  Timeline& line = lines_[place];
  line.step = std::max(line.step, StepOf(series.points));
  line.looks.insert(line.looks.end(), looks.begin(), looks.end());
}

void OwnerSeries::AddPod(const Metric& metric, const MetricSeries& series) {
  // Where the scraper's own labels stand in their place, the pod's are put aside.
  const bool renamed = !series.Label("exported_pod").empty();
  OwnerLabels owner;
  owner.pod = series.Label(renamed ? "exported_pod" : "pod");
  owner.ns = series.Label(renamed ? "exported_namespace" : "namespace");
  if (owner.pod.empty() || owner.ns.empty()) return;
  Pod& pod = pods_[fmt::format("{}\n{}\n{}", owner.ns, owner.pod, series.Label("uid"))];
  pod.owner = NumberOf(std::move(owner));
  const bool requested = metric.says == Metric::Says::kRequested;
  if (requested) {
    const std::string_view node = First(series, {"exported_node", "node"});
    if (node.empty()) return;  // it waits
    pod.node = node;
  }
  const std::string_view container = First(series, {"exported_container", "container"});
  for (const telemetry::MetricPoint& p : series.points) {
    if (requested) {
      pod.gpus[p.ts][std::string(container)] = p.value;
    } else {
      pod.running[p.ts] = p.value;
    }
  }
}

void OwnerSeries::AddCapacity(const MetricSeries& series) {
  const std::string node(First(series, {"exported_node", "node"}));
  if (node.empty()) return;
  for (const telemetry::MetricPoint& p : series.points) {
    if (!(p.value >= 0 && p.value <= kMostGpus)) continue;
    int32_t& most = capacity_[node];
    most = std::max(most, static_cast<int32_t>(p.value));
  }
}

void OwnerSeries::PlacePods() {
  for (const auto& [key, pod] : pods_) {
    std::vector<telemetry::MetricPoint> points;
    for (const auto& [ts, containers] : pod.gpus) {
      telemetry::MetricPoint& all = points.emplace_back();
      all.ts = ts;
      for (const auto& [container, gpus] : containers) all.value += gpus;
    }
    Timeline* line = nullptr;
    const Micros step = StepOf(points);
    for (const telemetry::MetricPoint& p : points) {
      // Both series come of one scrape.
      const auto running = pod.running.find(p.ts);
      if (running == pod.running.end() || running->second <= 0 || !(p.value >= 1)) continue;
      if (line == nullptr) line = &lines_[{By::kNode, pod.node}];
      line->step = std::max(line->step, step);
      const auto gpus = static_cast<int32_t>(std::min(p.value, kMostGpus));
      line->looks.push_back(
          {.ts = p.ts, .anybody = true, .held = {.owner = pod.owner, .gpus = gpus}});
      Follow(key, pod, gpus, p.ts, step);
    }
  }
}

void OwnerSeries::Follow(const std::string& key, const Pod& pod, int32_t gpus, Micros at,
                         Micros step) {
  PodRun& run = runs_[key];
  if (at <= run.last) return;  // the end of the window before
  const bool goes_on = run.last > 0 && run.held.gpus == gpus && run.held.node == pod.node &&
                       at - run.last <= std::max(jobs::kMaxGap, 2 * run.step);
  if (!goes_on) {
    if (run.last > 0) ended_.push_back(std::move(run));
    const OwnerLabels& owner = owners_[pod.owner];
    run = {.held = {.ns = owner.ns, .pod = owner.pod, .node = pod.node, .gpus = gpus},
           .last = at,
           .step = step > 0 ? step : kUsualStep,
           .is_new = true};
    run.held.from = at - run.step / 2;
  }
  run.last = at;
  run.is_new = true;
}

void OwnerSeries::SeeNode(const GpuPlace& place, int32_t gpus) {
  for (const std::string& name : {place.node, place.host}) {
    if (name.empty()) continue;
    SeenNode& node = seen_nodes_[name];
    node.name = place.node.empty() ? place.host : place.node;
    node.gpus = std::max(node.gpus, gpus);
  }
}

std::vector<PodHeld> OwnerSeries::TakePods() {
  std::vector<PodHeld> out;
  const auto give = [&](PodRun* run) {
    if (!std::exchange(run->is_new, false)) return;
    PodHeld held = run->held;
    held.to = run->last + run->step / 2;
    int32_t there = 0;
    if (const auto capacity = capacity_.find(held.node); capacity != capacity_.end())
      there = capacity->second;
    if (const auto seen = seen_nodes_.find(held.node); seen != seen_nodes_.end()) {
      there = std::max(there, seen->second.gpus);
      held.node = seen->second.name;
      if (held.gpus >= there) return;  // each of its GPUs says whose it is (At())
    }
    out.push_back(std::move(held));
  };
  for (PodRun& run : ended_) give(&run);
  ended_.clear();
  Micros newest = 0;
  for (const auto& [key, run] : runs_) newest = std::max(newest, run.last);
  for (auto it = runs_.begin(); it != runs_.end();) {
    give(&it->second);
    const Micros gap = std::max(jobs::kMaxGap, 2 * it->second.step);
    it = newest - it->second.last > gap ? runs_.erase(it) : std::next(it);
  }
  seen_nodes_.clear();
  return out;
}

void OwnerSeries::Clear() {
  lines_ = kept_;
  pods_.clear();
}

void OwnerSeries::Prepare() {
  PlacePods();
  pods_.clear();
  for (auto& [place, line] : lines_) {
    if (line.step == 0) line.step = kUsualStep;
    std::ranges::stable_sort(line.looks, {}, &Look::ts);
  }
}

void OwnerSeries::Settle() {
  kept_.clear();
  for (auto& [place, line] : lines_) {
    if (line.looks.empty()) continue;
    const Micros from = line.looks.back().ts - line.step;
    const auto first = std::ranges::lower_bound(line.looks, from, {}, &Look::ts);
    kept_[place] = {.looks = {first, line.looks.end()}, .step = line.step};
  }
  // Of owners only those that are kept: there may be a million jobs in a year.
  const std::vector<OwnerLabels> owners = std::exchange(owners_, {});
  number_of_.clear();
  for (auto& [place, line] : kept_)
    for (Look& look : line.looks)
      if (look.anybody) look.held.owner = NumberOf(owners[look.held.owner]);
  lines_ = kept_;
}

const std::vector<const OwnerLabels*>& OwnerSeries::At(const GpuPlace& gpu, Micros ts) {
  answer_.clear();
  std::vector<Place> places;
  if (!gpu.uuid.empty()) places.push_back({By::kUuid, gpu.uuid});
  for (const std::string& node : {gpu.node, gpu.host})
    if (gpu.index >= 0 && !node.empty()) places.push_back({By::kIndex, IndexOn(node, gpu.index)});
  for (const std::string& node : {gpu.node, gpu.host})
    if (!node.empty()) places.push_back({By::kNode, node});
  for (const Place& place : places) {
    const auto at = lines_.find(place);
    if (at == lines_.end()) continue;
    const std::vector<Look>& looks = at->second.looks;
    const Micros step = at->second.step;
    const auto after = std::ranges::upper_bound(looks, ts, {}, &Look::ts);
    const Micros to_next = after == looks.end() ? kLongestStep * 2 : after->ts - ts;
    const Micros to_last = after == looks.begin() ? kLongestStep * 2 : ts - std::prev(after)->ts;
    const bool last_counts = to_last <= step, next_counts = to_next <= step / 2;
    if (!last_counts && !next_counts) continue;
    const Micros when =
        last_counts && (!next_counts || to_last <= to_next) ? ts - to_last : ts + to_next;
    const auto [first, end] = std::ranges::equal_range(looks, when, {}, &Look::ts);
    int32_t there = gpu.gpus_of_node;
    if (place.first == By::kNode) {
      const auto capacity = capacity_.find(place.second);
      if (capacity != capacity_.end() && there > 0) there = std::max(there, capacity->second);
    }
    // Of several that are said to have the whole node, none has.
    const auto whole = [](const Look& look) { return look.anybody && look.held.gpus == 0; };
    const auto other = std::ranges::adjacent_find(
        first, end, [](const Look& a, const Look& b) { return a.held.owner != b.held.owner; });
    if (place.first == By::kNode && other != end && std::any_of(first, end, whole)) return answer_;
    for (auto look = first; look != end; ++look) {
      if (!look->anybody) continue;
      const bool all = look->held.gpus == 0 || (there > 0 && look->held.gpus >= there);
      if (place.first == By::kNode && !all) continue;
      const OwnerLabels* const owner = &owners_[look->held.owner];
      if (std::ranges::find(answer_, owner) == answer_.end()) answer_.push_back(owner);
    }
    return answer_;
  }
  return answer_;
}

}  // namespace flopwatch::history
