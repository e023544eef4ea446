#include "simulate/truth_incidents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "simulate/application.h"

namespace flopwatch::simulate {
namespace {

// A healthy job's gap is at most an hour (activity_build.cc), after two minutes of start at most.
constexpr int32_t kLongestHealthyGap = 3720;
constexpr double kLeastSlow = 1.01;
constexpr double kThrottleSlow = 1 / .7;

bool HasOwnGpus(const Job& job) {
  return job.kind == JobKind::kSingle || job.kind == JobKind::kSynchronous ||
         job.kind == JobKind::kIndependent;
}

std::string HostNameOf(const Fleet::Model& m, int32_t host) {
  const Host& h = m.plan.hosts[host];
  return fmt::format("{}-r{:02}-n{:03}", m.Cluster(h).name, h.rack, h.number);
}

}  // namespace

IncidentTruth::IncidentTruth(const Fleet::Model& m, int32_t from, int32_t to)
    : m_(m), from_(from), to_(to), stints_(m.plan.jobs.size()) {
  for (const Stint& s : m.activity->AllStints())
    if (HasOwnGpus(m.plan.jobs[s.job])) stints_[s.job].push_back(&s);
}

Micros IncidentTruth::At(int32_t second) const {
  return m_.options.start + second * kMicrosPerSecond;
}

void IncidentTruth::Add(int32_t job, JobTruth* out) const {
  if (stints_[job].empty()) return;
  AddSlow(job, out);
  AddIdle(job, out);
}

void IncidentTruth::AddSlow(int32_t job, JobTruth* out) const {
  const Job& j = m_.plan.jobs[job];
  if (j.kind != JobKind::kSynchronous || j.gpus < 2) return;
  const int32_t index = m_.activity->PlantedIn(job);
  const PlantedIncident* planted = index >= 0 ? &m_.activity->planted()[index] : nullptr;
  double slowest = 1;  // of the GPUs that a planted incident befell, by themselves
  if (planted != nullptr)
    for (int32_t lane : planted->lanes)
      slowest = std::max<double>(slowest, m_.activity->Traits(m_.activity->GpuOf(lane)).slow());
  const auto add = [&](const Stint& s, int32_t from, int32_t to, std::string_view kind,
                       double factor, bool is_planted) {
    from = std::max(from, from_);
    to = std::min(to, to_);
    if (from >= to || factor < kLeastSlow) return;
    const int32_t gpu = m_.activity->GpuOf(s.lane);
    out->slow.push_back({m_.Uuid(gpu, m_.Generation(gpu, s.from)),
                         HostNameOf(m_, m_.activity->HostOf(s.lane)), kind, At(from), At(to),
                         factor, is_planted});
  };
  const std::vector<const Stint*>& list = stints_[job];
  for (size_t i = 0; i < list.size();) {
    size_t end = i + 1;
    while (end < list.size() && list[end]->lane == list[i]->lane) ++end;
    const Stint& first = *list[i];
    const GpuTraits& traits = m_.activity->Traits(m_.activity->GpuOf(first.lane));
    if (!first.unused)
      add(first, first.from, list[end - 1]->to,
          traits.stall_factor > traits.clock_factor ? "stall" : "clock", traits.slow(), false);
    for (; i < end; ++i) {
      const Stint& s = *list[i];
      const Effect* effect = m_.activity->EffectOf(s);
      if (s.throttled) add(s, s.from, s.to, "thermal", kThrottleSlow * traits.slow(), false);
      // A slow host slows all its GPUs by one factor; the event has that of the slowest.
      if (effect != nullptr && effect->slow && planted != nullptr)
        add(s, s.from, s.to, IncidentShortName(effect->kind),
            planted->size / slowest * std::max(1.f, traits.slow()), true);
    }
  }
}

std::vector<IncidentTruth::Piece> IncidentTruth::PiecesOn(
    const std::vector<const Stint*>& stints) const {
  std::vector<Piece> out;
  const auto add = [&](int64_t from, int64_t to, PhaseKind kind, bool stopped) {
    if (from >= to) return;
    if (!out.empty() && out.back().to == from && out.back().kind == kind &&
        out.back().stopped == stopped)
      out.back().to = static_cast<int32_t>(to);
    else
      out.push_back({static_cast<int32_t>(from), static_cast<int32_t>(to), kind, stopped});
  };
  for (const Stint* s : stints) {
    if (s->idle()) {
      add(s->from, s->to, PhaseKind::kGap, true);
      continue;
    }
    const auto phases = m_.activity->PhasesOf(*s);
    const int32_t length = m_.activity->ProgramLength(*s);
    int64_t base = static_cast<int64_t>(s->from) - s->offset % length;
    for (; base < s->to && length > 0; base += length)
      for (size_t i = 0; i < phases.size(); ++i) {
        const int64_t end = base + (i + 1 < phases.size() ? phases[i + 1].start : length);
        add(std::max<int64_t>(s->from, base + phases[i].start), std::min<int64_t>(s->to, end),
            phases[i].kind, false);
      }
  }
  return out;
}

void IncidentTruth::Tell(std::string_view state, int32_t from, int32_t to, int32_t gpus,
                         const std::vector<int32_t>& lanes, bool planted, JobTruth* out) const {
  from = std::max(from, from_);
  to = std::min(to, to_);
  if (from >= to || gpus <= 0) return;
  IdleTruth t{state, At(from), At(to), gpus, {}, planted};
  for (int32_t lane : lanes) {
    const int32_t gpu = m_.activity->GpuOf(lane);
    t.which.push_back(m_.Uuid(gpu, m_.Generation(gpu, from)));
  }
  out->idle.push_back(std::move(t));
}

// `lane` < 0: what all ranks of a job do alike.
void IncidentTruth::AddStretches(int32_t job, const std::vector<Piece>& pieces, int32_t gpus,
                                 int32_t lane, JobTruth* out) const {
  if (pieces.empty()) return;
  const Job& j = m_.plan.jobs[job];
  const int32_t index = m_.activity->PlantedIn(job);
  const PlantedIncident* planted = index >= 0 ? &m_.activity->planted()[index] : nullptr;
  const bool idle = planted != nullptr && GroupOf(planted->kind) == IncidentGroup::kIdle &&
                    planted->kind != IncidentKind::kIdleUnusedGpu;
  const std::vector<int32_t> which = lane < 0 ? std::vector<int32_t>{} : std::vector{lane};
  const bool never = std::ranges::all_of(
      pieces, [](const Piece& p) { return p.kind == PhaseKind::kGap || p.stopped; });
  if (idle)
    Tell(IncidentShortName(planted->kind), planted->from, planted->to, gpus, which, true, out);
  for (const Piece& p : pieces) {
    if (p.stopped || (p.kind != PhaseKind::kGap && p.kind != PhaseKind::kHang)) continue;
    if (idle && p.from < planted->to && planted->from < p.to) continue;
    if (p.kind == PhaseKind::kHang) {
      Tell("hung", p.from, p.to, gpus, which, false, out);
      continue;
    }
    const bool begins = p.from == pieces.front().from && j.start >= 0,
               ends = p.to == pieces.back().to && j.end <= m_.plan.horizon;
    if (!never && p.to - p.from <= kLongestHealthyGap) continue;
    Tell(never    ? "no_work"
         : begins ? "startup"
         : ends   ? "after_last_output"
                  : "no_work",
         p.from, p.to, gpus, which, false, out);
  }
}

void IncidentTruth::AddIdle(int32_t job, JobTruth* out) const {
  const Job& j = m_.plan.jobs[job];
  const int32_t index = m_.activity->PlantedIn(job);
  const bool planted_unused =
      index >= 0 && m_.activity->planted()[index].kind == IncidentKind::kIdleUnusedGpu;
  std::map<int32_t, std::vector<const Stint*>> by_lane;
  for (const Stint* s : stints_[job]) by_lane[s->lane].push_back(s);
  std::vector<int32_t> unused;
  const std::vector<const Stint*>* used = nullptr;
  int32_t gpus = 0, from = m_.plan.horizon, to = 0;
  for (const auto& [lane, stints] : by_lane) {
    if (stints.front()->unused) {
      unused.push_back(lane);
      from = std::min(from, stints.front()->from);
      to = std::max(to, stints.back()->to);
      continue;
    }
    ++gpus;
    used = &stints;
    if (j.kind == JobKind::kIndependent) AddStretches(job, PiecesOn(stints), 1, lane, out);
  }
  if (!unused.empty())
    Tell("unused_gpu", from, to, static_cast<int32_t>(unused.size()), unused, planted_unused, out);
  if (used != nullptr && j.kind != JobKind::kIndependent)
    AddStretches(job, PiecesOn(*used), gpus, -1, out);
}

void TellPlanted(const Fleet::Model& m, int32_t index, EventTruth* out) {
  const PlantedIncident& p = m.activity->planted()[index];
  out->planted = true;
  out->kind = IncidentName(p.kind);
  for (int32_t lane : p.lanes) {
    const int32_t gpu = m.activity->GpuOf(lane);
    out->gpus.push_back(m.Uuid(gpu, m.Generation(gpu, p.from)));
  }
  const IncidentGroup group = GroupOf(p.kind);
  if (group == IncidentGroup::kRegression || group == IncidentGroup::kChange)
    out->entity = m.demand->workflows()[p.workflow].name;
  else if (group == IncidentGroup::kFleet)
    out->entity = "fleet";
  else if (p.kind == IncidentKind::kStragglerHost || p.kind == IncidentKind::kPowerBrake)
    out->entity = out->node;
  else
    out->entity = out->gpus.size() == 1 &&
                          (group == IncidentGroup::kStraggler || group == IncidentGroup::kBoard)
                      ? out->gpus[0]
                      : out->job;
  out->sign = p.sign;
  out->run = p.run;
  out->runs_before = p.runs_before;
  out->runs_after = p.runs_after;
  out->scatter = p.scatter;
  if (p.run > 0) {
    std::string commit = CommitOf(m, p.workflow, p.run);
    if (commit != CommitOf(m, p.workflow, p.run - 1)) out->commit = std::move(commit);
  }
}

void WriteIncidentTruth(const JobTruth& job, JsonWriter* w) {
  if (!job.slow.empty()) {
    w->Key("gpus_slow").BeginArray();
    for (const SlowGpuTruth& s : job.slow) {
      w->BeginObject().Field("gpu", s.gpu).Field("node", s.node).Field("kind", s.kind);
      w->Field("factor", s.factor).Field("start", FormatTime(s.from));
      w->Field("end", FormatTime(s.to)).Field("planted", s.planted).EndObject();
    }
    w->EndArray();
  }
  if (job.idle.empty()) return;
  std::map<std::string_view, int64_t> seconds;
  w->Key("idle").BeginArray();
  for (const IdleTruth& s : job.idle) {
    seconds[s.state] += (s.to - s.from) / kMicrosPerSecond * s.gpus;
    w->BeginObject().Field("state", s.state).Field("start", FormatTime(s.from));
    w->Field("end", FormatTime(s.to)).Field("gpus", s.gpus).Field("planted", s.planted);
    if (!s.which.empty()) {
      w->Key("which").BeginArray();
      for (const std::string& gpu : s.which) w->Value(gpu);
      w->EndArray();
    }
    w->EndObject();
  }
  w->EndArray();
  w->Key("idle_s").BeginObject();
  for (const auto& [state, s] : seconds) w->Field(state, s);
  w->EndObject();
}

void WritePlanted(const EventTruth& event, JsonWriter* w) {
  w->Field("planted", true);
  if (!event.gpus.empty()) {
    w->Key("gpus").BeginArray();
    for (const std::string& gpu : event.gpus) w->Value(gpu);
    w->EndArray();
  }
  if (!event.sign.empty()) w->Field("sign", event.sign);
  if (event.run == 0) return;
  w->Field("run", event.run).Field("runs_before", event.runs_before);
  if (!event.commit.empty()) w->Field("commit", event.commit);
  w->Field("runs_after", event.runs_after).Field("scatter", event.scatter);
}

}  // namespace flopwatch::simulate
