#include "simulate/truth.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/json_writer.h"
#include "simulate/application.h"
#include "simulate/fleet_model.h"
#include "simulate/local_time.h"
#include "simulate/truth_incidents.h"
#include "simulate/truth_scheduler.h"
#include "simulate/truth_spans.h"

namespace flopwatch::simulate {
namespace {

// Work of a stint within [from, to).
WorkCounters Work(const Activity& activity, const Stint& stint, int32_t from, int32_t to,
                  int tensor_max_mhz) {
  WorkCounters w;
  from = std::max(from, stint.from);
  to = std::min(to, stint.to);
  if (from >= to) return w;
  Totals t = activity.AtStint(stint, to) - activity.AtStint(stint, from);
  w.allocated_us = static_cast<int64_t>(to - from) * kMicrosPerSecond;
  w.gpu_busy_us = t.util_us;
  w.sm_active_us = t.sm_us;
  w.tensor_active_us = t.tensor_us;
  w.tensor_cycles = t.tensor_cycles;
  w.peak_cycles = static_cast<Int128>(w.allocated_us) * tensor_max_mhz;
  w.energy_mj = t.energy_mj;
  return w;
}

// Every counter after `change(&counter)`.
template <typename Change>
WorkCounters Each(WorkCounters w, Change&& change) {
  for (int64_t* c : {&w.allocated_us, &w.gpu_busy_us, &w.sm_active_us, &w.tensor_active_us})
    change(c);
  for (Int128* c : {&w.tensor_cycles, &w.peak_cycles}) change(c);
  change(&w.energy_mj);
  return w;
}
WorkCounters Times(const WorkCounters& w, int64_t n) {
  return Each(w, [n](auto* c) { *c *= n; });
}
// The second owner's half of a shared GPU; the first has the rest, so that the two add up exactly.
WorkCounters Half(const WorkCounters& w) {
  return Each(w, [](auto* c) { *c /= 2; });
}
WorkCounters Minus(const WorkCounters& a, const WorkCounters& b) {
  WorkCounters w = a;
  w += Times(b, -1);
  return w;
}

// What was asked for, in seconds of the fleet.
struct TruthWindow {
  Micros origin;
  int32_t from, to;
  Micros At(int32_t t) const { return origin + Micros{t} * kMicrosPerSecond; }
};

// Sums over the hosts, by cluster (its GPUs that are whole, and those in instances) and by job.
struct HostSums {
  std::vector<ClusterTruth> whole, mig;
  std::vector<WorkCounters> by_job;
};

HostSums EmptySums(const Fleet::Model& m) {
  HostSums sums;
  sums.by_job.resize(m.plan.jobs.size());
  for (const ClusterSpec& c : m.spec.clusters) {
    ClusterTruth part;
    part.cluster = c.name;
    part.model = c.model->name;
    part.tensor_max_mhz = c.model->tensor_max_mhz;
    part.sms_per_gpu = c.model->sms;
    sums.whole.push_back(part);
    part.mig = true;
    sums.mig.push_back(part);
  }
  return sums;
}

// The times when a host could not be used, within the window.
struct HostGaps {
  std::vector<Span> absent, drains, unusable;
};

HostGaps GapsOf(const Plan& plan, int32_t host, const TruthWindow& window) {
  HostGaps gaps;
  for (const HostPeriod& p : std::ranges::equal_range(plan.periods, host, {}, &HostPeriod::host)) {
    const Span s{std::max(window.from, p.from), std::min(window.to, p.to)};
    if (s.from >= s.to) continue;
    gaps.unusable.push_back(s);
    if (p.condition == HostCondition::kNotDeployed) gaps.absent.push_back(s);
    if (p.condition == HostCondition::kDraining) gaps.drains.push_back(s);
  }
  return gaps;
}

std::vector<int32_t> LanesOf(const Plan& plan, const Host& host) {
  std::vector<int32_t> lanes;
  for (int g = host.mig_gpus; g < host.gpus; ++g) lanes.push_back(host.first_gpu + g);
  for (int g = 0; g < host.mig_gpus; ++g) {
    const Plan::MigGpu& gpu = plan.MigOfGpu(host.first_gpu + g);
    for (size_t i = 0; i < gpu.layout.size(); ++i)
      lanes.push_back(gpu.first_lane + static_cast<int32_t>(i));
  }
  return lanes;
}

// Adds a stint's work, with that on a draining host apart, to the cluster and to the jobs.
void AddStint(const Fleet::Model& m, const Stint& s, const TruthWindow& window,
              const std::vector<Span>& drains, int16_t cluster, HostSums* sums) {
  const int clock = m.spec.clusters[cluster].model->tensor_max_mhz;
  WorkCounters all = Work(*m.activity, s, window.from, window.to, clock), drained;
  for (const Span& d : drains) drained += Work(*m.activity, s, d.from, d.to, clock);
  const MigProfile* profile = m.activity->MigOf(s.lane);
  ClusterTruth& part = profile != nullptr ? sums->mig[cluster] : sums->whole[cluster];
  const int64_t unit = profile != nullptr ? profile->sms : 1;
  part.work += Times(Minus(all, drained), unit);
  part.draining += Times(drained, unit);
  if (s.job2 >= 0) {
    const WorkCounters half = Half(all);
    sums->by_job[s.job2] += half;
    all = Minus(all, half);
  }
  sums->by_job[s.job] += all;
}

void AddHost(const Fleet::Model& m, int32_t index, const TruthWindow& window, HostSums* sums) {
  const int32_t a = window.from, b = window.to;
  const Host& host = m.plan.hosts[index];
  const HostGaps gaps = GapsOf(m.plan, index, window);
  std::vector<Span> held;
  for (const int32_t lane : LanesOf(m.plan, host)) {
    for (const Stint& s : m.activity->Stints(lane)) {
      if (s.to <= a || s.from >= b) continue;
      held.push_back({std::max(a, s.from), std::min(b, s.to)});
      AddStint(m, s, window, gaps.drains, host.cluster, sums);
    }
  }
  const int64_t busy = BusySeconds(std::move(held), gaps.unusable, a);
  const auto add = [&](ClusterTruth* part, int32_t gpus, int64_t unit) {
    part->gpus += gpus;
    unit *= gpus * kMicrosPerSecond;
    part->deployed_us += (b - a - LengthWithin(gaps.absent, a, b)) * unit;
    part->schedulable_us += (b - a - LengthWithin(gaps.unusable, a, b)) * unit;
    part->provisioned_on_busy_us += busy * unit;
    part->draining_us += LengthWithin(gaps.drains, a, b) * unit;
  };
  add(&sums->whole[host.cluster], host.gpus - host.mig_gpus, 1);
  add(&sums->mig[host.cluster], host.mig_gpus, m.Cluster(host).model->sms);
}

// `sms` of the instance it runs on; 0: on whole GPUs. `said`: nullptr where it reports nothing.
JobTruth TruthOfJob(const Fleet::Model& m, int32_t index, const TruthWindow& window, int32_t sms,
                    const Application* said) {
  const Job& job = m.plan.jobs[index];
  const Workflow& workflow = m.demand->workflows()[job.workflow];
  const ClusterSpec& cluster = m.spec.clusters[job.cluster];
  JobTruth t;
  t.key = m.JobKey(index);
  t.name = m.JobName(index);
  t.user = m.demand->users()[workflow.user].name;
  t.workflow = workflow.name;
  t.cluster = cluster.name;
  t.model = cluster.model->name;
  t.state = JobStateName(job.state);
  if (m.kubernetes(index)) {
    t.pods.push_back(m.PodName(index, 0));
    for (int r = cluster.gpus_per_host; r < job.gpus; r += cluster.gpus_per_host)
      t.pods.push_back(m.PodName(index, r));
  }
  t.gpus = job.gpus;
  t.run = job.run;
  t.attempt = job.attempt;
  t.start = window.At(job.start);
  t.end = job.end <= m.plan.horizon ? window.At(job.end) : 0;
  t.mig = sms > 0;
  t.sms = sms;
  t.gpu_sms = cluster.model->sms;
  t.tensor_max_mhz = cluster.model->tensor_max_mhz;
  t.reported_mfu = m.activity->reported_mfu(index);
  if (said == nullptr) return t;
  t.app_model = said->model->name;
  t.convention = said->claim.convention;
  t.miscount = MiscountName(said->miscount);
  t.inflation = said->inflation;
  t.full_recompute = said->full_recompute;
  t.counted_flops = said->model->counted;
  t.exact_flops = said->model->exact;
  t.app_gpus = static_cast<int32_t>(*said->claim.gpus);
  return t;
}

// Jobs, and from those on whole GPUs the users, the workflows and the fleet.
void AddJobs(const Fleet& fleet, const TruthWindow& window, const std::vector<WorkCounters>& work,
             Truth* out) {
  const Fleet::Model& m = fleet.model();
  Int128 common = 1;  // the least common multiple of the tensor clocks
  for (const ClusterSpec& c : m.spec.clusters) {
    const int64_t clock = c.model->tensor_max_mhz;
    common = common / std::gcd(static_cast<int64_t>(common % clock), clock) * clock;
  }
  std::vector<int32_t> mig_sms(work.size(), 0);
  for (const Stint& s : m.activity->AllStints())
    if (const MigProfile* profile = m.activity->MigOf(s.lane)) mig_sms[s.job] = profile->sms;
  std::map<int32_t, Application> applications;
  for (Application& x : Applications(fleet)) applications.emplace(x.job, std::move(x));
  std::map<int32_t, GroupTruth> users, workflows;
  std::optional<IncidentTruth> incidents;
  if (m.planting.any()) incidents.emplace(m, window.from, window.to);
  for (size_t j = 0; j < work.size(); ++j) {
    if (work[j].allocated_us == 0) continue;
    const int32_t index = static_cast<int32_t>(j), workflow = m.plan.jobs[j].workflow;
    const auto said = applications.find(index);
    JobTruth t = TruthOfJob(m, index, window, mig_sms[j],
                            said != applications.end() ? &said->second : nullptr);
    t.work = work[j];
    if (incidents) incidents->Add(index, &t);
    const auto add = [&](GroupTruth* g, std::string_view name) {
      g->name = name;
      ++g->jobs;
      g->work += t.work;
      g->ofu_numerator += t.work.tensor_cycles * (common / t.tensor_max_mhz);
      g->ofu_denominator += common * t.work.allocated_us;
    };
    if (!t.mig) {
      add(&users[m.demand->workflows()[workflow].user], t.user);
      add(&workflows[workflow], t.workflow);
      add(&out->fleet, "fleet");
    }
    out->jobs.push_back(std::move(t));
  }
  for (auto& [id, g] : users) out->users.push_back(std::move(g));
  for (auto& [id, g] : workflows) out->workflows.push_back(std::move(g));
}

// Clocks change at full hours.
void AddClockChanges(const ClusterSpec& cluster, Truth* out) {
  const Micros first = FloorTo(out->from + kMicrosPerHour - 1, kMicrosPerHour);
  for (Micros at = first; at < out->to; at += kMicrosPerHour) {
    const int by = LocalOffsetSeconds(at) - LocalOffsetSeconds(at - 1);
    if (by == 0) continue;
    EventTruth t;
    t.kind = TruthKindName(TruthKind::kClockChange);
    t.entity = cluster.name;
    t.start = t.end = at;
    t.size = by;
    out->events.push_back(std::move(t));
  }
}

EventTruth TruthOfEvent(const Fleet& fleet, const TruthEvent& e, const TruthWindow& window) {
  const Fleet::Model& m = fleet.model();
  EventTruth t;
  if (e.job >= 0) t.job = m.JobKey(e.job);
  if (e.host >= 0) t.node = fleet.HostName(e.host);
  t.start = window.At(e.from);
  t.end = window.At(e.to);
  t.size = e.size;
  if (e.planted >= 0) {
    TellPlanted(m, e.planted, &t);
    return t;
  }
  t.kind = TruthKindName(e.kind);
  using enum TruthKind;
  if (e.kind == kRegression || e.kind == kPrecisionChange)
    t.entity = m.demand->workflows()[e.workflow].name;
  else if (e.kind == kMaintenance || e.kind == kReservation)
    t.entity = m.plan.reservations[e.reservation].name;
  else if (e.job >= 0 && e.gpu < 0)  // what befalls a job as a whole
    t.entity = t.job;
  else
    t.entity = e.kind == kNodeDown ? t.node : m.Uuid(e.gpu, m.Generation(e.gpu, e.from));
  return t;
}

}  // namespace

WorkCounters& WorkCounters::operator+=(const WorkCounters& o) {
  allocated_us += o.allocated_us;
  gpu_busy_us += o.gpu_busy_us;
  sm_active_us += o.sm_active_us;
  tensor_active_us += o.tensor_active_us;
  tensor_cycles += o.tensor_cycles;
  peak_cycles += o.peak_cycles;
  energy_mj += o.energy_mj;
  return *this;
}

Truth Fleet::TruthOf() const {
  return TruthOf(options().start, options().start + options().duration);
}

Truth Fleet::TruthOf(Micros window_from, Micros window_to, bool scheduler) const {
  const Model& m = *model_;
  const Micros origin = m.options.start;
  const auto second = [&](Micros t) {
    return static_cast<int32_t>(std::clamp<Micros>(
        FloorTo(t - origin, kMicrosPerSecond) / kMicrosPerSecond, 0, m.plan.horizon));
  };
  const int32_t from = second(window_from);
  const TruthWindow window{origin, from, std::max(from, second(window_to))};
  Truth out;
  out.from = window.At(window.from);
  out.to = window.At(window.to);
  out.seed = m.options.seed;
  out.preset = PresetName(m.options.preset);
  out.faults = FaultsName(m.options.faults);

  HostSums sums = EmptySums(m);
  for (size_t h = 0; h < m.plan.hosts.size(); ++h)
    AddHost(m, static_cast<int32_t>(h), window, &sums);
  for (size_t c = 0; c < sums.whole.size(); ++c) {
    out.clusters.push_back(std::move(sums.whole[c]));
    if (sums.mig[c].gpus > 0) out.clusters.push_back(std::move(sums.mig[c]));
  }
  AddJobs(*this, window, sums.by_job, &out);
  for (const ClusterSpec& c : m.spec.clusters)
    if (c.local_time) AddClockChanges(c, &out);
  for (const auto& [gpu, lie] : m.lies) {
    EventTruth t;
    t.kind = "counter_lie";
    t.entity = m.Uuid(gpu, 0);
    t.node = HostName(m.activity->HostOf(gpu));
    t.start = m.options.start + Micros{lie.from} * kMicrosPerSecond;
    t.size = lie.shows_s;
    t.planted = true;
    t.sign = CounterLieName(lie.lie);
    out.events.push_back(std::move(t));
  }
  for (const TruthEvent& e : m.activity->events())
    if (e.from < window.to && std::max(e.to, e.from + 1) > window.from)
      out.events.push_back(TruthOfEvent(*this, e, window));
  const IncidentCounts planted = Planted();
  for (size_t k = 0; k < kIncidentKinds; ++k)
    if (m.options.incidents.n[k] > 0)
      out.planted.push_back(
          {IncidentName(static_cast<IncidentKind>(k)), m.options.incidents.n[k], planted.n[k]});
  if (scheduler) out.scheduler = SchedulerTruthOf(*this, window.from, window.to);
  return out;
}

std::string ToString(Int128 v) {
  if (v < 0) return "-" + ToString(-v);
  std::string s;
  do {
    s.insert(s.begin(), static_cast<char>('0' + static_cast<int>(v % 10)));
    v /= 10;
  } while (v > 0);
  return s;
}

namespace {

void Write(JsonWriter& w, const WorkCounters& c, bool peak) {
  w.Key("work").BeginObject();
  w.Field("allocated_us", c.allocated_us).Field("gpu_busy_us", c.gpu_busy_us);
  w.Field("sm_active_us", c.sm_active_us);
  w.Field("tensor_active_us", c.tensor_active_us);
  w.Key("tensor_cycles").Raw(ToString(c.tensor_cycles));
  if (peak) w.Key("peak_cycles").Raw(ToString(c.peak_cycles));
  w.Field("energy_above_idle_mj", c.energy_mj).EndObject();
  if (peak && c.peak_cycles > 0)
    w.Field("ofu", static_cast<double>(c.tensor_cycles) / static_cast<double>(c.peak_cycles));
}

void Write(JsonWriter& w, const GroupTruth& g) {
  w.BeginObject().Field("name", g.name).Field("jobs", g.jobs);
  // Cycles of different models do not compare: the OFU is the fraction below.
  Write(w, g.work, false);
  w.Key("ofu_numerator").Raw(ToString(g.ofu_numerator));
  w.Key("ofu_denominator").Raw(ToString(g.ofu_denominator));
  if (g.ofu_denominator > 0)
    w.Field("ofu", static_cast<double>(g.ofu_numerator) / static_cast<double>(g.ofu_denominator));
  w.EndObject();
}

void Write(JsonWriter& w, const ClusterTruth& c) {
  w.BeginObject().Field("cluster", c.cluster).Field("model", c.model).Field("mig", c.mig);
  w.Field("gpus", c.gpus);
  w.Field("unit", c.mig ? "sm_us" : "gpu_us").Field("sms_per_gpu", c.sms_per_gpu);
  w.Field("tensor_max_mhz", c.tensor_max_mhz);
  w.Field("deployed_us", c.deployed_us).Field("schedulable_us", c.schedulable_us);
  w.Field("provisioned_on_busy_us", c.provisioned_on_busy_us);
  Write(w, c.work, true);
  w.Key("draining").BeginObject().Field("provisioned_us", c.draining_us);
  Write(w, c.draining, true);
  w.EndObject().EndObject();
}

void Write(JsonWriter& w, const JobTruth& j) {
  w.BeginObject().Field("key", j.key).Field("name", j.name).Field("user", j.user);
  w.Field("workflow", j.workflow).Field("cluster", j.cluster).Field("model", j.model);
  w.Field("state", j.state).Field("gpus", j.gpus).Field("run", j.run);
  if (j.attempt > 0) w.Field("attempt", j.attempt);
  w.Field("start", FormatTime(j.start)).TextField("end", j.end != 0 ? FormatTime(j.end) : "");
  if (!j.pods.empty()) {
    w.Key("pods").BeginArray();
    for (const std::string& pod : j.pods) w.Value(pod);
    w.EndArray();
  }
  w.Field("mig", j.mig);
  if (j.mig) w.Field("instance_sms", j.sms).Field("gpu_sms", j.gpu_sms);
  w.Field("tensor_max_mhz", j.tensor_max_mhz);
  Write(w, j.work, true);
  if (j.reported_mfu > 0) w.Field("reported_mfu", j.reported_mfu);
  if (!j.app_model.empty()) {
    w.Key("application").BeginObject().Field("model", j.app_model);
    w.Field("convention", j.convention).Field("inflated", !j.miscount.empty());
    w.TextField("cause", j.miscount).Field("inflation", j.inflation);
    w.Field("full_recompute", j.full_recompute).Field("gpus", j.app_gpus);
    w.Field("counted_flops_per_token", j.counted_flops);
    w.Field("exact_flops_per_token", j.exact_flops).EndObject();
  }
  WriteIncidentTruth(j, &w);
  w.EndObject();
}

void Write(JsonWriter& w, const EventTruth& e) {
  w.BeginObject().Field("kind", e.kind).Field("entity", e.entity);
  if (!e.job.empty()) w.Field("job", e.job);
  if (!e.node.empty()) w.Field("node", e.node);
  w.Field("start", FormatTime(e.start)).Field("end", FormatTime(e.end)).Field("size", e.size);
  if (e.planted) WritePlanted(e, &w);
  w.EndObject();
}

}  // namespace

std::string TruthJson(const Truth& t) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject();
  w.Key("window").BeginObject().Field("from", FormatTime(t.from)).Field("to", FormatTime(t.to));
  w.EndObject();
  w.Field("seed", t.seed).Field("preset", t.preset).Field("faults", t.faults);
  w.Key("fleet");
  Write(w, t.fleet);
  const auto list = [&](std::string_view name, const auto& entries) {
    w.Key(name).BeginArray();
    for (const auto& e : entries) Write(w, e);
    w.EndArray();
  };
  list("clusters", t.clusters);
  list("jobs", t.jobs);
  list("users", t.users);
  list("workflows", t.workflows);
  list("events", t.events);
  if (!t.planted.empty()) {
    w.Key("planted").BeginObject();
    for (const Truth::PlantedCount& p : t.planted) w.Field(p.kind, p.planted);
    w.EndObject();
    w.Key("asked").BeginObject();
    for (const Truth::PlantedCount& p : t.planted) w.Field(p.kind, p.asked);
    w.EndObject();
  }
  if (t.scheduler) WriteSchedulerTruth(*t.scheduler, &w);
  w.EndObject();
  out += '\n';
  return out;
}

}  // namespace flopwatch::simulate
