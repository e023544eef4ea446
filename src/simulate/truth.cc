#include "simulate/truth.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/json_writer.h"
#include "simulate/application.h"
#include "simulate/fleet_model.h"
#include "simulate/local_time.h"

namespace flopwatch::simulate {
namespace {

struct Span {
  int32_t from, to;
};

int64_t LengthWithin(const std::vector<Span>& spans, int32_t from, int32_t to) {
  int64_t sum = 0;
  for (const Span& s : spans) sum += std::max(0, std::min(to, s.to) - std::max(from, s.from));
  return sum;
}

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

WorkCounters Times(WorkCounters w, int64_t n) {
  w.allocated_us *= n;
  w.gpu_busy_us *= n;
  w.sm_active_us *= n;
  w.tensor_active_us *= n;
  w.tensor_cycles *= n;
  w.peak_cycles *= n;
  w.energy_mj *= n;
  return w;
}

// The second owner's half of a shared GPU; the first has the rest, so that the two add up exactly.
WorkCounters Half(const WorkCounters& w) {
  WorkCounters h = w;
  h.allocated_us /= 2;
  h.gpu_busy_us /= 2;
  h.sm_active_us /= 2;
  h.tensor_active_us /= 2;
  h.tensor_cycles /= 2;
  h.peak_cycles /= 2;
  h.energy_mj /= 2;
  return h;
}
WorkCounters Minus(const WorkCounters& a, const WorkCounters& b) {
  WorkCounters w = a;
  w += Times(b, -1);
  return w;
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

Truth Fleet::TruthOf(Micros window_from, Micros window_to) const {
  const Model& m = *model_;
  const Activity& activity = *m.activity;
  const Micros origin = m.options.start;
  auto second = [&](Micros t) {
    return static_cast<int32_t>(std::clamp<Micros>(
        FloorTo(t - origin, kMicrosPerSecond) / kMicrosPerSecond, 0, m.plan.horizon));
  };
  auto micros = [&](int32_t t) { return origin + static_cast<Micros>(t) * kMicrosPerSecond; };
  const int32_t a = second(window_from), b = std::max(a, second(window_to));
  Truth out;
  out.from = micros(a);
  out.to = micros(b);
  out.seed = m.options.seed;
  out.preset = PresetName(m.options.preset);
  out.faults = FaultsName(m.options.faults);

  Int128 common = 1;
  for (const ClusterSpec& c : m.spec.clusters) {
    int64_t clock = c.model->tensor_max_mhz;
    common = common / std::gcd(static_cast<int64_t>(common % clock), clock) * clock;
  }

  std::vector<WorkCounters> by_job(m.plan.jobs.size());
  std::vector<ClusterTruth> whole(m.spec.clusters.size()), mig(m.spec.clusters.size());
  for (size_t c = 0; c < m.spec.clusters.size(); ++c) {
    for (auto* part : {&whole[c], &mig[c]}) {
      part->cluster = m.spec.clusters[c].name;
      part->model = m.spec.clusters[c].model->name;
      part->tensor_max_mhz = m.spec.clusters[c].model->tensor_max_mhz;
      part->sms_per_gpu = m.spec.clusters[c].model->sms;
      part->mig = part == &mig[c];
    }
  }
  auto period = m.plan.periods.begin();
  for (size_t h = 0; h < m.plan.hosts.size(); ++h) {
    const Host& host = m.plan.hosts[h];
    const GpuModel& model = *m.spec.clusters[host.cluster].model;
    ClusterTruth& w = whole[host.cluster];
    ClusterTruth& p = mig[host.cluster];
    const int whole_gpus = host.gpus - host.mig_gpus;
    w.gpus += whole_gpus;
    p.gpus += host.mig_gpus;
    std::vector<Span> absent, drains, unusable;
    for (; period != m.plan.periods.end() && period->host == static_cast<int32_t>(h); ++period) {
      Span s{std::max(a, period->from), std::min(b, period->to)};
      if (s.from >= s.to) continue;
      unusable.push_back(s);
      if (period->condition == HostCondition::kNotDeployed) absent.push_back(s);
      if (period->condition == HostCondition::kDraining) drains.push_back(s);
    }
    std::vector<int32_t> lanes;
    for (int g = host.mig_gpus; g < host.gpus; ++g) lanes.push_back(host.first_gpu + g);
    for (int g = 0; g < host.mig_gpus; ++g) {
      const Plan::MigGpu& mig_gpu = m.plan.MigOfGpu(host.first_gpu + g);
      for (size_t i = 0; i < mig_gpu.layout.size(); ++i)
        lanes.push_back(mig_gpu.first_lane + static_cast<int32_t>(i));
    }
    std::vector<Span> held;
    for (int32_t lane : lanes) {
      const MigProfile* profile = activity.MigOf(lane);
      for (const Stint& s : activity.Stints(lane)) {
        if (s.to <= a || s.from >= b) continue;
        held.push_back({std::max(a, s.from), std::min(b, s.to)});
        WorkCounters all = Work(activity, s, a, b, model.tensor_max_mhz), drained;
        for (const Span& d : drains)
          drained += Work(activity, s, d.from, d.to, model.tensor_max_mhz);
        ClusterTruth& part = profile != nullptr ? p : w;
        int64_t unit = profile != nullptr ? profile->sms : 1;
        part.work += Times(Minus(all, drained), unit);
        part.draining += Times(drained, unit);
        if (s.job2 >= 0) {
          WorkCounters half = Half(all);
          by_job[s.job2] += half;
          all = Minus(all, half);
        }
        by_job[s.job] += all;
      }
    }
    // Seconds with at least one job, on a host that takes jobs.
    std::ranges::sort(held, {}, &Span::from);
    int64_t busy = 0;
    int32_t end = a;
    for (const Span& s : held) {
      int32_t from = std::max(end, s.from);
      if (from >= s.to) continue;
      busy += s.to - from - LengthWithin(unusable, from, s.to);
      end = s.to;
    }
    int64_t window = b - a, deployed = window - LengthWithin(absent, a, b),
            usable = window - LengthWithin(unusable, a, b);
    int64_t draining = LengthWithin(drains, a, b);
    auto add = [&](ClusterTruth* part, int64_t unit) {
      part->deployed_us += deployed * unit * kMicrosPerSecond;
      part->schedulable_us += usable * unit * kMicrosPerSecond;
      part->provisioned_on_busy_us += busy * unit * kMicrosPerSecond;
      part->draining_us += draining * unit * kMicrosPerSecond;
    };
    add(&w, whole_gpus);
    if (host.mig_gpus > 0) add(&p, int64_t{host.mig_gpus} * model.sms);
  }
  for (size_t c = 0; c < whole.size(); ++c) {
    out.clusters.push_back(whole[c]);
    if (mig[c].gpus > 0) out.clusters.push_back(mig[c]);
  }

  std::vector<int32_t> mig_sms(m.plan.jobs.size(), 0);
  for (const Stint& s : activity.AllStints())
    if (const MigProfile* profile = activity.MigOf(s.lane)) mig_sms[s.job] = profile->sms;
  std::map<int32_t, Application> applications;
  for (Application& x : Applications(*this)) {
    const int32_t job = x.job;
    applications.emplace(job, std::move(x));
  }
  std::map<int32_t, GroupTruth> users, workflows;
  for (size_t j = 0; j < m.plan.jobs.size(); ++j) {
    const Job& job = m.plan.jobs[j];
    if (by_job[j].allocated_us == 0) continue;
    const Workflow& workflow = m.demand->workflows()[job.workflow];
    const ClusterSpec& cluster = m.spec.clusters[job.cluster];
    int32_t index = static_cast<int32_t>(j);
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
    t.start = micros(job.start);
    t.end = job.end <= m.plan.horizon ? micros(job.end) : 0;
    t.mig = mig_sms[j] > 0;
    t.sms = mig_sms[j];
    t.gpu_sms = cluster.model->sms;
    t.tensor_max_mhz = cluster.model->tensor_max_mhz;
    t.work = by_job[j];
    t.reported_mfu = activity.reported_mfu(index);
    if (const auto said = applications.find(index); said != applications.end()) {
      const Application& x = said->second;
      t.app_model = x.model->name;
      t.convention = x.claim.convention;
      t.miscount = MiscountName(x.miscount);
      t.inflation = x.inflation;
      t.full_recompute = x.full_recompute;
      t.counted_flops = x.model->counted;
      t.exact_flops = x.model->exact;
      t.app_gpus = static_cast<int32_t>(*x.claim.gpus);
    }
    if (!t.mig) {
      auto add = [&](GroupTruth* g, std::string_view name) {
        g->name = name;
        ++g->jobs;
        g->work += t.work;
        g->ofu_numerator += t.work.tensor_cycles * (common / t.tensor_max_mhz);
        g->ofu_denominator += common * t.work.allocated_us;
      };
      add(&users[workflow.user], t.user);
      add(&workflows[job.workflow], t.workflow);
      add(&out.fleet, "fleet");
    }
    out.jobs.push_back(std::move(t));
  }
  for (auto& [id, g] : users) out.users.push_back(std::move(g));
  for (auto& [id, g] : workflows) out.workflows.push_back(std::move(g));

  // Clocks change at full hours.
  for (const ClusterSpec& c : m.spec.clusters) {
    if (!c.local_time) continue;
    const Micros first = FloorTo(out.from + kMicrosPerHour - 1, kMicrosPerHour);
    for (Micros at = first; at < out.to; at += kMicrosPerHour) {
      const int by = LocalOffsetSeconds(at) - LocalOffsetSeconds(at - 1);
      if (by == 0) continue;
      EventTruth t;
      t.kind = TruthKindName(TruthKind::kClockChange);
      t.entity = c.name;
      t.start = t.end = at;
      t.size = by;
      out.events.push_back(std::move(t));
    }
  }
  for (const TruthEvent& e : activity.events()) {
    if (e.from >= b || std::max(e.to, e.from + 1) <= a) continue;
    EventTruth t;
    t.kind = TruthKindName(e.kind);
    if (e.job >= 0) t.job = m.JobKey(e.job);
    if (e.host >= 0) t.node = HostName(e.host);
    using enum TruthKind;
    if (e.kind == kRegression || e.kind == kPrecisionChange)
      t.entity = m.demand->workflows()[e.workflow].name;
    else if (e.kind == kHang || e.kind == kInflatedMfu || e.kind == kIdleGpus)
      t.entity = t.job;
    else
      t.entity = e.kind == kNodeDown ? t.node : m.Uuid(e.gpu, m.Generation(e.gpu, e.from));
    t.start = micros(e.from);
    t.end = micros(e.to);
    t.size = e.size;
    out.events.push_back(std::move(t));
  }
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
  w.Key("clusters").BeginArray();
  for (const ClusterTruth& c : t.clusters) {
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
  w.EndArray().Key("jobs").BeginArray();
  for (const JobTruth& j : t.jobs) {
    w.BeginObject().Field("key", j.key).Field("name", j.name).Field("user", j.user);
    w.Field("workflow", j.workflow);
    w.Field("cluster", j.cluster).Field("model", j.model).Field("state", j.state);
    w.Field("gpus", j.gpus).Field("run", j.run);
    w.Field("start", FormatTime(j.start));
    w.TextField("end", j.end != 0 ? FormatTime(j.end) : "");
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
      w.Field("convention", j.convention);
      w.Field("inflated", !j.miscount.empty());
      w.TextField("cause", j.miscount);
      w.Field("inflation", j.inflation).Field("full_recompute", j.full_recompute);
      w.Field("gpus", j.app_gpus);
      w.Field("counted_flops_per_token", j.counted_flops);
      w.Field("exact_flops_per_token", j.exact_flops).EndObject();
    }
    w.EndObject();
  }
  w.EndArray().Key("users").BeginArray();
  for (const GroupTruth& g : t.users) Write(w, g);
  w.EndArray().Key("workflows").BeginArray();
  for (const GroupTruth& g : t.workflows) Write(w, g);
  w.EndArray().Key("events").BeginArray();
  for (const EventTruth& e : t.events) {
    w.BeginObject().Field("kind", e.kind).Field("entity", e.entity);
    if (!e.job.empty()) w.Field("job", e.job);
    if (!e.node.empty()) w.Field("node", e.node);
    w.Field("start", FormatTime(e.start)).Field("end", FormatTime(e.end)).Field("size", e.size);
    w.EndObject();
  }
  w.EndArray().EndObject();
  out += '\n';
  return out;
}

}  // namespace flopwatch::simulate
