// What incidents do to the phases of a job and to the counters of its GPUs.
//
// A synchronous job takes `ratio` times as long for a step when one of its GPUs is slow: all ranks
// do 1 / ratio of the tensor cycles a second and wait for the rest of the time. Waiting in a
// collective keeps the SMs active at low power; waiting for the own host's data does not.
#include <algorithm>
#include <cmath>

#include "simulate/activity_builder.h"

namespace flopwatch::simulate {
namespace {

constexpr double kSpinSm = .9;        // SM activity while waiting in a collective
constexpr double kSpinPower = .17;    // of the board's power above idle: 90 to 120 W of 400
constexpr double kStalledPower = .7;  // of a GPU's own, while it retries

uint16_t Factor(double v) {
  return static_cast<uint16_t>(std::lround(std::clamp(v, 0.0, 60.0) * Effect::kOne));
}

uint32_t Part(double v) { return static_cast<uint32_t>(std::lround(std::clamp(v, 0.0, 1e6))); }

bool IsWork(PhaseKind kind) { return kind == PhaseKind::kBusy || kind == PhaseKind::kEvaluation; }

// A phase, or means over some, in which all wait for a part of the time.
struct Mixed {
  double sm, util, power_mw;
};
Mixed Waiting(double sm_ppm, double util_ppm, double power_mw, double work, double spin_mw) {
  const double wait = 1 - work;
  return {sm_ppm * work + kSpinSm * 1e6 * wait, util_ppm * work + 1e6 * wait,
          power_mw * work + std::min(spin_mw, .6 * power_mw) * wait};
}

}  // namespace

double ActivityBuilder::SpinMw(const GpuModel& model) const {
  return kSpinPower * (model.tdp_w - model.idle_w) * 1000;
}

int32_t ActivityBuilder::AddEffect(const Effect& effect) {
  a_.effects_.push_back(effect);
  return static_cast<int32_t>(a_.effects_.size()) - 1;
}

template <typename Change>
void ActivityBuilder::Rewrite(int32_t job, std::span<const Times> times, Change&& change) {
  Program& program = a_.programs_[jobs_[job].program];
  const int32_t origin = jobs_[job].from;
  std::vector<Phase> out;
  size_t next = 0;
  for (int32_t i = 0; i < program.phases; ++i) {
    const Phase phase = a_.phases_[program.first_phase + i];
    const int32_t end = phase.start + PhaseLength(program, i);
    for (int32_t at = phase.start; at < end;) {
      while (next < times.size() && times[next].to - origin <= at) ++next;
      const bool any = next < times.size();
      const int32_t from = any ? times[next].from - origin : end,
                    to = any ? times[next].to - origin : end;
      Phase p = phase;
      p.start = at;
      if (at >= from) change(&p);
      out.push_back(p);
      at = std::min(end, at >= from ? to : from);
    }
  }
  program.first_phase = static_cast<int32_t>(a_.phases_.size());
  program.phases = static_cast<int32_t>(out.size());
  a_.phases_.insert(a_.phases_.end(), out.begin(), out.end());
}

// A quarter of the workflows evaluate at a rhythm of their own.
void ActivityBuilder::AddEvaluations() {
  for (size_t k = 0; k < jobs_.size(); ++k) {
    const auto j = static_cast<int32_t>(k);
    const Job& job = plan_.jobs[k];
    const JobInfo& info = jobs_[k];
    if (job.kind != JobKind::kSynchronous && job.kind != JobKind::kSingle) continue;
    Draws draws(Key(seed_, Purpose::kIncident, workflows_[job.workflow].key, 15ull << 40));
    if (draws.Unit() > .25 || info.program < 0) continue;
    const bool recurring = IsRecurring(job);
    const int32_t every = recurring ? 600 + static_cast<int32_t>(draws.Below(400))
                                    : 2400 + static_cast<int32_t>(draws.Below(3600));
    const int32_t length = recurring ? 30 + static_cast<int32_t>(draws.Below(40))
                                     : 100 + static_cast<int32_t>(draws.Below(300));
    std::vector<Times> times;
    for (int32_t t = std::max(job.start, info.from - every) + every; t + length < info.to;
         t += every)
      if (t >= info.from) times.push_back({t, t + length});
    Rewrite(j, times, [](Phase* p) {
      if (p->kind != PhaseKind::kBusy) return;
      p->kind = PhaseKind::kEvaluation;
      p->rates.tensor_hz = static_cast<uint32_t>(p->rates.tensor_hz * .35);
      p->rates.sm_ppm = static_cast<uint32_t>(p->rates.sm_ppm * .7);
      p->rates.util_ppm = static_cast<uint32_t>(p->rates.util_ppm * .9);
      p->rates.power_mw = static_cast<uint32_t>(p->rates.power_mw * .5);
    });
  }
}

ActivityBuilder::Usual ActivityBuilder::UsualOf(int32_t job, int32_t from, int32_t to) const {
  const JobInfo& info = jobs_[job];
  const Program& program = a_.programs_[info.program];
  Usual u;
  for (int32_t i = 0; i < program.phases; ++i) {
    const Phase& p = a_.phases_[program.first_phase + i];
    const int32_t begin = std::max(p.start, from - info.from),
                  end = std::min(p.start + PhaseLength(program, i), to - info.from);
    if (begin >= end || p.kind != PhaseKind::kBusy || p.rates.tensor_hz == 0) continue;
    const double s = end - begin;
    u.busy_s += end - begin;
    u.sm += s * p.rates.sm_ppm;
    u.util += s * p.rates.util_ppm;
    u.power_mw += s * p.rates.power_mw;
    u.tensor_hz += s * p.rates.tensor_hz;
    u.most_sm = std::max<double>(u.most_sm, p.rates.sm_ppm);
  }
  if (u.busy_s > 0)
    for (double* v : {&u.sm, &u.util, &u.power_mw, &u.tensor_hz}) *v /= u.busy_s;
  return u;
}

void ActivityBuilder::SlowDown(int32_t job, const Cut& cut, double ratio) {
  const double work = 1 / ratio, spin = SpinMw(Model(plan_.jobs[job]));
  const Times times[] = {{cut.from, cut.to}};
  Rewrite(job, times, [&](Phase* p) {
    if (!IsWork(p->kind)) return;
    const Mixed m = Waiting(p->rates.sm_ppm, p->rates.util_ppm, p->rates.power_mw, work, spin);
    p->rates.tensor_hz = static_cast<uint32_t>(p->rates.tensor_hz * work);
    p->rates.sm_ppm = std::max(Part(m.sm), p->rates.sm_ppm);
    p->rates.util_ppm = Part(m.util);
    p->rates.power_mw = static_cast<uint32_t>(m.power_mw);
  });
}

void ActivityBuilder::SlowEffects(IncidentKind kind, int32_t job, double factor, double ratio,
                                  Draws* draws, Cut* cut, std::string_view* sign) {
  using enum IncidentKind;
  const GpuModel& model = Model(plan_.jobs[job]);
  const Usual u = UsualOf(job, cut->from, cut->to);
  const double work = 1 / ratio, wait = 1 - work;
  Mixed peers = Waiting(u.sm, u.util, u.power_mw, work, SpinMw(model));
  peers.sm = std::max(peers.sm, u.sm);
  const double most = std::max(u.most_sm, peers.sm);
  Effect others, slow;
  others.kind = slow.kind = kind;
  others.dram = others.nvlink = others.pcie = Factor(work * u.sm / peers.sm);
  slow.slow = true;
  double sm = peers.sm, power = peers.power_mw;
  *sign = IncidentShortName(kind);
  const double which = draws->Unit();
  if (kind == kStragglerClock || kind == kStragglerPowerCap || kind == kStragglerThermal) {
    // Works all the time. At a lower clock the voltage falls too.
    const float own = a_.traits_[a_.GpuOf(cut->lanes.front())].clock_factor;
    const double clock = GpuClockMhz(model, job_clock_[job], own) / factor;
    sm = std::min(.98e6, std::max(u.sm, 1.04 * u.tensor_hz * work / clock));
    slow.clock = Factor(1 / factor);
    power = u.power_mw * std::pow(factor, kind == kStragglerPowerCap ? -2
                                          : kind == kStragglerClock  ? -1.5
                                                                     : -1.2);
    slow.util = Factor(std::min(1.0, u.util / peers.util));
  }
  if (kind == kStragglerClock) {
    slow.reasons = which < .5 ? 0x2 : 0;
  } else if (kind == kStragglerPowerCap) {
    slow.reasons = 0x4;
    const int32_t lane = cut->lanes.front();
    const double dynamic = power * OwnPower(1024, lane, job) / 1024;
    slow.limit_mw = static_cast<int32_t>((a_.traits_[lane].idle_mw + .985 * dynamic) / 5000) * 5000;
  } else if (kind == kStragglerThermal) {
    slow.reasons = which < .5 ? 0x20 : 0x48;
    slow.degrees = static_cast<int16_t>(27 + draws->Below(8));
  } else if (kind == kStragglerStall) {
    power = u.power_mw * (work + kStalledPower * wait);
    const bool silent = which > .93 && ratio >= 1.2, both = which > .8;
    if (silent) {
      *sign = "power";
    } else {
      *sign = both ? "replays_and_ecc" : which < .55 ? "replays" : "ecc";
      if (both || which < .55)
        slow.replays = static_cast<int32_t>(200 * std::pow(18, draws->Unit()));
      if (both || which >= .55) slow.ecc = static_cast<int32_t>(100 * std::pow(12, draws->Unit()));
    }
  } else if (kind == kStragglerLink) {
    *sign = which < .4 ? "errors" : which < .7 ? "bandwidth" : "errors_and_bandwidth";
    if (which < .4 || which >= .7) {
      slow.link_errors = static_cast<int32_t>(120 * std::pow(25, draws->Unit()));
      slow.link_recoveries = 1 + static_cast<int32_t>(draws->Below(12));
    }
  } else if (kind == kStragglerHost) {
    sm = u.sm * work;
    slow.util = Factor(std::min(1.0, u.util * work / peers.util));
    power = u.power_mw * (work + .04 * wait);
  }
  slow.sm = Factor(std::min(sm / peers.sm, .99e6 / most));
  slow.power = Factor(power / peers.power_mw);
  slow.dram = slow.nvlink = slow.pcie = Factor(work * u.sm / sm);
  if (kind == kStragglerLink && which >= .4) {
    // What its links do not carry goes another way.
    slow.nvlink = Factor(work * u.sm / sm * (.25 + .35 * draws->Unit()));
    slow.pcie = Factor(work * u.sm / sm * (1.5 + 1.5 * draws->Unit()));
  } else if (kind == kStragglerHost) {
    slow.pcie = Factor(work * u.sm / sm * (.45 + .35 * draws->Unit()));
  }
  cut->slow = AddEffect(slow);
  cut->others = AddEffect(others);
}

void ActivityBuilder::HoldIdle(IncidentKind kind, int32_t job, int32_t from, int32_t to,
                               uint64_t key) {
  using enum IncidentKind;
  const GpuModel& model = Model(plan_.jobs[job]);
  Draws draws(key);
  if (kind == kIdleBarrier || kind == kHung) {
    const double sm = .82 + .14 * draws.Unit();
    const Times times[] = {{from, to}};
    const double watts = (88 + 34 * draws.Unit()) * model.tdp_w / 400.0;
    Rewrite(job, times, [&](Phase* p) {
      p->kind = PhaseKind::kHang;
      p->rates = {0, 1'000'000, Part(sm * 1e6),
                  static_cast<uint32_t>(std::max(10.0, watts - model.idle_w) * 1000)};
    });
    return;
  }
  const auto hold = [&](int32_t begin, int32_t end, HeldMemory memory) {
    const Times times[] = {{begin, end}};
    Rewrite(job, times, [&](Phase* p) {
      p->kind = PhaseKind::kGap;
      p->memory = memory;
    });
  };
  if (kind == kIdleStartup || kind == kRestart) {
    // An image is fetched and data are staged, then a process is there and prepares.
    const int32_t process = from + static_cast<int32_t>((to - from) * (.15 + .7 * draws.Unit()));
    hold(from, process, HeldMemory::kNone);
    hold(process, to, HeldMemory::kContext);
    return;
  }
  hold(from, to, kind == kIdleNoProcess ? HeldMemory::kNone : HeldMemory::kAll);
}

void ActivityBuilder::Lose(Family family, int32_t job, int32_t from, int32_t to, double size,
                           uint64_t key, Effect* effect) {
  const GpuModel& model = Model(plan_.jobs[job]);
  const Usual u = UsualOf(job, from, to);
  const double r = size, lost = 1 - size, spin = SpinMw(model);
  Draws draws(key);
  const double way = draws.Unit(), more = draws.Unit();
  double sm = u.sm;  // after the change
  const Times times[] = {{from, to}};
  Rewrite(job, times, [&](Phase* p) {
    if (!IsWork(p->kind)) return;
    Rates& x = p->rates;
    x.tensor_hz = static_cast<uint32_t>(x.tensor_hz * r);
    double power = 1;
    switch (family) {
      case Family::kTensor:
        power = .3 + .7 * r;
        x.sm_ppm = Part(x.sm_ppm * (1 - .1 * lost));
        break;
      case Family::kClock:
        power = std::pow(r, 1.6);
        break;
      case Family::kDuty:
        power = .05 + .95 * r;
        x.sm_ppm = Part(x.sm_ppm * r);
        x.util_ppm = Part(x.util_ppm * r);
        break;
      case Family::kMemory:
        power = .5 + .5 * r;
        x.sm_ppm = Part(x.sm_ppm * (1 + .03 * lost));
        break;
      case Family::kNetwork: {
        const Mixed m = Waiting(x.sm_ppm, x.util_ppm, x.power_mw, r, spin);
        x.sm_ppm = std::max(x.sm_ppm, Part(m.sm));
        x.util_ppm = Part(m.util);
        power = x.power_mw > 0 ? m.power_mw / x.power_mw : 1;
        break;
      }
    }
    x.power_mw = static_cast<uint32_t>(x.power_mw * power);
  });
  if (u.busy_s > 0) sm = UsualOf(job, from, to).sm;
  const double shown = sm > 0 ? u.sm / sm : 1;  // what follows the SMs, as it was
  effect->dram = effect->nvlink = effect->pcie = Factor(r * shown);
  if (family == Family::kClock) {
    effect->clock = Factor(r);
    if (way < .5) {
      effect->reasons = 0x2;  // application clocks
    } else {
      effect->reasons = 0x4;
      effect->limit_mw = static_cast<int32_t>(
                             (model.idle_w * 1000 + 1.04 * u.power_mw * std::pow(r, 1.6)) / 5000) *
                         5000;
    }
  } else if (family == Family::kMemory) {
    effect->dram = Factor(shown * (1 + (.9 + .8 * more) * lost));
  } else if (family == Family::kNetwork) {
    // A slower fabric, or more to send with every step.
    effect->nvlink = Factor(shown * (way < .5 ? r : 1 + (.5 + more) * lost));
  }
}

}  // namespace flopwatch::simulate
