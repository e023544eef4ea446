#include "simulate/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr char kHex[] = "0123456789abcdef";

// Phase of a host's collection within the interval: exporters are not started at the same moment.
int64_t PhaseMs(const Fleet::Model& m, int host, int64_t interval_ms) {
  int64_t steps = std::max<int64_t>(1, interval_ms / 1000);
  return static_cast<int64_t>(
             Below(Key(m.options.seed, Purpose::kHost, host), static_cast<uint32_t>(steps))) *
         1000;
}

}  // namespace

int Fleet::Model::Generation(int32_t gpu, int32_t t) const {
  if (plan.swaps.empty()) return 0;
  auto it = std::ranges::lower_bound(plan.swaps, gpu, {}, &GpuSwap::gpu);
  int n = 0;
  for (; it != plan.swaps.end() && it->gpu == gpu && it->at <= t; ++it) ++n;
  return n;
}

void Fleet::Model::WriteUuid(int32_t gpu, int generation, char* out) const {
  uint64_t h[2];
  h[0] = Key(options.seed, Purpose::kUuid, gpu, generation);
  h[1] = Mix(h[0] + 1);
  std::memcpy(out, "GPU-", 4);
  out += 4;
  for (int byte = 0; byte < 16; ++byte) {
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) *out++ = '-';
    uint8_t b = static_cast<uint8_t>(h[byte >> 3] >> (byte & 7) * 8);
    *out++ = kHex[b >> 4];
    *out++ = kHex[b & 15];
  }
}

std::string Fleet::Model::Uuid(int32_t gpu, int generation) const {
  std::string s(kUuidBytes, ' ');
  WriteUuid(gpu, generation, s.data());
  return s;
}

bool Fleet::Model::kubernetes(int32_t job) const {
  return spec.clusters[plan.jobs[job].cluster].scheduler == Scheduler::kKubernetes;
}

std::string_view Fleet::Model::Namespace(int32_t job) const {
  return demand->users()[demand->workflows()[plan.jobs[job].workflow].user].team;
}

std::string Fleet::Model::JobName(int32_t job) const {
  const Job& j = plan.jobs[job];
  return fmt::format("{}-r{}", demand->workflows()[j.workflow].name, j.run);
}

std::string Fleet::Model::PodName(int32_t job, int32_t rank) const {
  const Job& j = plan.jobs[job];
  const std::string& name = demand->workflows()[j.workflow].name;
  if (j.kind == JobKind::kService) {
    uint64_t h = Key(options.seed, Purpose::kService, job, 9);
    return fmt::format("{}-{:x}-{:05x}", name, demand->workflows()[j.workflow].key & 0xfffffff,
                       h & 0xfffff);
  }
  return fmt::format("{}-r{}-worker-{}", name, j.run,
                     rank / spec.clusters[j.cluster].gpus_per_host);
}

std::string Fleet::Model::JobKey(int32_t job) const {
  if (!kubernetes(job)) return fmt::format("{}", plan.jobs[job].number);
  if (plan.jobs[job].kind == JobKind::kService)
    return fmt::format("{}/{}", Namespace(job), PodName(job, 0));
  return fmt::format("{}/{}", Namespace(job), JobName(job));
}

Fleet::Fleet(std::unique_ptr<Model> model) : model_(std::move(model)) {}
Fleet::~Fleet() = default;

StatusOr<std::unique_ptr<Fleet>> Fleet::Create(const FleetOptions& o) {
  if (o.gpus < 1 || o.gpus > kMaxGpus)
    return InvalidArgument("a fleet has 1 to {} GPUs, not {}", kMaxGpus, o.gpus);
  if (o.duration < kMicrosPerSecond || o.duration > kMaxDuration)
    return InvalidArgument("a fleet lives for 1 s to {} days, not {}", kMaxDuration / kMicrosPerDay,
                           FormatDuration(o.duration));
  if (o.interval < 10 * kMicrosPerMilli || o.interval > kMicrosPerHour)
    return InvalidArgument("the collect interval lies between 10 ms and 1 h; it is {}",
                           FormatDuration(o.interval));
  if (o.fields != 20 && o.fields != 100)
    return InvalidArgument("an exporter has 20 or 100 fields, not {}", o.fields);
  auto m = std::make_unique<Model>();
  m->options = o;
  m->options.start = FloorTo(o.start, kMicrosPerSecond);
  m->spec = MakePreset(o.preset, o.gpus);
  m->spec.clusters.back().local_time = o.local_time;
  if (o.amd) {
    for (ClusterSpec& cluster : m->spec.clusters) cluster.model = &Mi300x();
    m->spec.mig_host_share = 0;
  }
  m->demand = std::make_unique<DemandModel>(&m->spec, o.seed, m->options.start, o.gpus);
  FailureOptions failures;
  failures.enabled = o.faults >= Faults::kAll;
  failures.scheduler = o.faults == Faults::kScheduler;
  const auto horizon = static_cast<int32_t>(o.duration / kMicrosPerSecond);
  m->planting = MakePlanting(o.incidents, m->spec, o.seed, o.gpus, horizon, m->demand.get());
  m->planting.odd_jobs = o.odd_jobs;
  m->plan =
      BuildPlan(m->spec, m->demand.get(), o.seed, o.gpus, horizon, failures, m->planting.requests);
  m->activity = std::make_unique<Activity>(&m->spec, &m->plan, &m->demand->workflows(), o.seed,
                                           failures.enabled, &m->planting);
  m->faults = TelemetryFaults(o.seed, o.faults != Faults::kNone);
  for (size_t c = 0; c < m->spec.clusters.size(); ++c) {
    // Sites differ: 15 s and 57 s beside the given interval.
    int64_t ms = o.interval / kMicrosPerMilli;
    if (m->faults.enabled() && c == 1) ms = std::max<int64_t>(ms, 15'000);
    if (m->faults.enabled() && c == 2) ms = std::max<int64_t>(ms, 57'000);
    m->cluster_interval_ms.push_back(ms);
  }
  PlantCounterLies(m.get());
  return std::unique_ptr<Fleet>(new Fleet(std::move(m)));
}

const FleetOptions& Fleet::options() const { return model_->options; }
int Fleet::hosts() const { return static_cast<int>(model_->plan.hosts.size()); }
int Fleet::HostGpus(int host) const { return model_->plan.hosts[host].gpus; }
std::string_view Fleet::ClusterName(int host) const {
  return model_->Cluster(model_->plan.hosts[host]).name;
}

std::string Fleet::HostName(int host) const {
  const Host& h = model_->plan.hosts[host];
  return fmt::format("{}-r{:02}-n{:03}", ClusterName(host), h.rack, h.number);
}

int Fleet::FindHost(std::string_view name) const {
  size_t dash = name.rfind("-n");
  if (dash == std::string_view::npos) return -1;
  int number = -1;
  auto [end, error] = std::from_chars(name.data() + dash + 2, name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number < 0) return -1;
  for (size_t c = 0; c < model_->spec.clusters.size(); ++c) {
    int first = model_->plan.cluster_first_host[c],
        count = model_->plan.cluster_first_host[c + 1] - first;
    if (number < count && HostName(first + number) == name) return first + number;
  }
  return -1;
}

int64_t Fleet::Ticks(int host) const {
  int64_t interval = model_->cluster_interval_ms[model_->plan.hosts[host].cluster];
  int64_t left = model_->options.duration / kMicrosPerMilli - PhaseMs(*model_, host, interval);
  return std::max<int64_t>(0, left / interval);
}

Micros Fleet::TickTime(int host, int64_t tick) const {
  int64_t interval = model_->cluster_interval_ms[model_->plan.hosts[host].cluster];
  int64_t ms = PhaseMs(*model_, host, interval) + (tick + 1) * interval;
  // The jitter is never so much that two ticks change places, or beyond the window.
  int64_t jitter =
      std::clamp<int64_t>(model_->faults.JitterMs(host, tick), -interval / 5, interval / 5);
  ms = std::min(ms + jitter, model_->options.duration / kMicrosPerMilli);
  return model_->options.start + ms * kMicrosPerMilli;
}

int64_t Fleet::TickAt(int host, Micros now) const {
  int64_t interval = model_->cluster_interval_ms[model_->plan.hosts[host].cluster];
  int64_t ms = (now - model_->options.start) / kMicrosPerMilli - PhaseMs(*model_, host, interval);
  if (ms < interval) return -1;
  return std::min(ms / interval - 1, Ticks(host) - 1);
}

namespace {

// Where a Kubernetes job has several pods they are one job here: the scheduler's view.
struct AssignmentWriter {
  const Fleet::Model& m;
  template <typename F>
  void Each(F&& emit) const {
    for (const Placement& p : m.plan.placements) {
      const Job& j = m.plan.jobs[p.job];
      if (j.start == kNever || j.start >= m.plan.horizon) continue;
      int32_t gpu = m.activity->GpuOf(p.lane);
      int generation = m.Generation(gpu, j.start);
      emit(p, j, gpu, generation);
    }
  }
};

}  // namespace

std::vector<jobs::StaticAssignment> Fleet::Assignments() const {
  const Model& m = *model_;
  std::vector<jobs::StaticAssignment> out;
  AssignmentWriter{m}.Each([&](const Placement& p, const Job& j, int32_t gpu, int generation) {
    jobs::StaticAssignment a;
    a.gpu = m.Uuid(gpu, generation);
    if (const MigProfile* mig = m.activity->MigOf(p.lane))
      a.gpu += fmt::format("/{}", mig->instance);
    a.job = m.JobKey(p.job);
    a.name = m.JobName(p.job);
    const Workflow& w = m.demand->workflows()[j.workflow];
    a.user = m.demand->users()[w.user].name;
    a.workflow = w.name;
    a.rank = p.rank;
    a.from = m.options.start + j.start * kMicrosPerSecond;
    a.to = j.end > m.plan.horizon ? jobs::kOpenEnd : m.options.start + j.end * kMicrosPerSecond;
    out.push_back(std::move(a));
  });
  return out;
}

std::string Fleet::AssignmentsCsv() const {
  const Model& m = *model_;
  std::string out = "gpu,from,to,job,rank,user,workflow,name\n";
  AssignmentWriter{m}.Each([&](const Placement& p, const Job& j, int32_t gpu, int generation) {
    const Workflow& w = m.demand->workflows()[j.workflow];
    int64_t start = m.options.start / kMicrosPerSecond;
    out += m.Uuid(gpu, generation);
    if (const MigProfile* mig = m.activity->MigOf(p.lane)) out += fmt::format("/{}", mig->instance);
    out += fmt::format(",{},", start + j.start);
    if (j.end <= m.plan.horizon) out += fmt::format("{}", start + j.end);
    out += fmt::format(",{},{},{},{},{}\n", m.JobKey(p.job), p.rank, m.demand->users()[w.user].name,
                       w.name, m.JobName(p.job));
  });
  return out;
}

std::vector<PlantedLie> Fleet::Lies() const {
  std::vector<PlantedLie> lies;
  for (const auto& [gpu, lie] : model_->lies) lies.push_back(lie);
  return lies;
}

std::string Fleet::UuidOf(int32_t gpu) const { return model_->Uuid(gpu, 0); }

IncidentCounts Fleet::Planted() const {
  IncidentCounts out;
  for (const PlantedIncident& p : model_->activity->planted()) {
    const bool of_workflow = p.run > 0;
    if (!of_workflow || (p.runs_before >= kRunsBefore && p.runs_after >= kRunsAfter)) ++out[p.kind];
  }
  return out;
}

size_t Fleet::memory_bytes() const {
  const Plan& p = model_->plan;
  return model_->activity->memory_bytes() + p.hosts.capacity() * sizeof(Host) +
         p.jobs.capacity() * sizeof(Job) + p.placements.capacity() * sizeof(Placement) +
         p.periods.capacity() * sizeof(HostPeriod) +
         model_->demand->workflows().capacity() * sizeof(Workflow);
}

}  // namespace flopwatch::simulate
