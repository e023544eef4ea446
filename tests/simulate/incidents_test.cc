// What --incidents plants: the truth says it, the counters show it, and nothing else changes.
#include "simulate/incidents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "make_fleet.h"
#include "simulate/application.h"
#include "simulate/backfill.h"
#include "simulate/fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/truth.h"
#include "store/store.h"
#include "telemetry/exposition.h"

namespace flopwatch::simulate {
namespace {

using enum IncidentKind;
using ::testing::HasSubstr;

IncidentCounts AllOf(std::initializer_list<IncidentKind> kinds, int n) {
  IncidentCounts counts;
  for (IncidentKind k : kinds) counts[k] = n;
  return counts;
}

std::unique_ptr<Fleet> MakeWith(const IncidentCounts& counts, Preset preset = Preset::kLlm,
                                int gpus = 1000, double hours = 48, uint64_t seed = 3,
                                Faults faults = Faults::kNone) {
  FleetOptions o = Options(preset, gpus, hours, faults, seed);
  o.incidents = counts;
  return Make(o);
}

TEST(Incidents, AreReadFromKindsAndNumbers) {
  IncidentCounts counts;
  ASSERT_TRUE(ParseIncidents("hung=3,straggler_link=2", &counts).ok());
  ASSERT_TRUE(ParseIncidents("hung=1", &counts).ok());
  EXPECT_EQ(counts[kHung], 4);
  EXPECT_EQ(counts[kStragglerLink], 2);
  const Status near = ParseIncidents("stragler_link=2", &counts);
  EXPECT_THAT(std::string(near.message()), HasSubstr("straggler_link?"));
  for (std::string_view bad :
       {"hung", "hung=", "hung=-1", "hung=x", "hung=1x", "hung=10001", "=4",
        "hung=99999999999999999999", "hung=1@0.3", "drop_duty=1@", "drop_duty=1@0",
        "drop_duty=1@0.9", "drop_duty=1@x", "drop_duty=@0.3", "drop_duty=1@nan"})
    EXPECT_FALSE(ParseIncidents(bad, &counts).ok()) << bad;
  for (size_t k = 0; k < kIncidentKinds; ++k)
    EXPECT_THAT(IncidentList(), HasSubstr(IncidentName(static_cast<IncidentKind>(k))));
}

// Means of what is read of a lane at every tenth second of [from, to).
struct Read {
  double clock = 0, tensor = 0, sm = 0, util = 0, power = 0, fb = 0, nvlink = 0, pcie = 0, dram = 0,
         temperature = 0, limit = 0;
  int64_t replays = 0, ecc = 0, errors = 0, reasons = 0;
  int n = 0;
};
Read Over(const Fleet& f, int32_t lane, int32_t from, int32_t to, bool busy_only) {
  const Fleet::Model& m = f.model();
  Read r;
  Values v, first{}, last{};
  ReadLane(m, lane, from, 10, &first);
  for (int32_t t = from + 10; t < to; t += 10) {
    const Stint* s = m.activity->Holder(lane, t);
    if (s == nullptr) continue;
    if (busy_only && (s->idle() || m.activity->PhaseAt(*s, t).kind != PhaseKind::kBusy ||
                      m.activity->PhaseAt(*s, t - 10).kind != PhaseKind::kBusy))
      continue;
    ReadLane(m, lane, t, 10, &v);
    last = v;
    ++r.n;
    r.clock += v[kSmClock];
    r.tensor += v[kTensorPpm] / 1e6;
    r.sm += v[kSmPpm] / 1e6;
    r.util += v[kUtilPct] / 100.0;
    r.power += v[kPowerMw] / 1e3;
    r.fb += v[kFbUsed];
    r.nvlink += v[kNvlinkTx];
    r.pcie += v[kPcieRx];
    r.dram += v[kDramPpm] / 1e6;
    r.temperature += v[kGpuTemp];
    r.limit += v[kPowerLimitMw] / 1e3;
    r.reasons |= v[kClockReasons];
  }
  if (r.n == 0) return r;
  for (double* x : {&r.clock, &r.tensor, &r.sm, &r.util, &r.power, &r.fb, &r.nvlink, &r.pcie,
                    &r.dram, &r.temperature, &r.limit})
    *x /= r.n;
  r.replays = last[kPcieReplay] - first[kPcieReplay];
  r.ecc = last[kEccSbe] - first[kEccSbe];
  r.errors = last[kLinkErrors] - first[kLinkErrors];
  return r;
}

Read MeanOf(const std::vector<Read>& all) {
  Read r;
  for (const Read& x : all) {
    r.clock += x.clock, r.tensor += x.tensor, r.sm += x.sm, r.util += x.util, r.power += x.power;
    r.nvlink += x.nvlink, r.pcie += x.pcie, r.dram += x.dram, r.temperature += x.temperature;
  }
  const double n = static_cast<double>(all.size());
  for (double* x :
       {&r.clock, &r.tensor, &r.sm, &r.util, &r.power, &r.nvlink, &r.pcie, &r.dram, &r.temperature})
    *x /= n;
  return r;
}

std::vector<int32_t> LanesOfJob(const Fleet& f, int32_t job) {
  std::set<int32_t> lanes;
  for (const Placement& p : f.model().plan.placements)
    if (p.job == job) lanes.insert(p.lane);
  return {lanes.begin(), lanes.end()};
}

// One way for each kind in which the counters tell the slow GPUs from the others of the job.
TEST(Incidents, StragglersShowInTheCountersOfTheirKind) {
  auto f = MakeWith(AllOf({kStragglerClock, kStragglerPowerCap, kStragglerThermal, kStragglerStall,
                           kStragglerLink, kStragglerHost},
                          8));
  const IncidentCounts planted = f->Planted();
  std::map<IncidentKind, int> checked;
  for (const PlantedIncident& p : f->model().activity->planted()) {
    if (p.size < 1.08) continue;
    std::vector<Read> slow, peers;
    for (int32_t lane : LanesOfJob(*f, p.job)) {
      const Read r = Over(*f, lane, p.from, p.to, true);
      ASSERT_GT(r.n, 20);
      (std::ranges::find(p.lanes, lane) != p.lanes.end() ? slow : peers).push_back(r);
    }
    ASSERT_FALSE(slow.empty());
    ASSERT_FALSE(peers.empty());
    const Read s = MeanOf(slow), o = MeanOf(peers);
    SCOPED_TRACE(std::string(IncidentName(p.kind)) + " of job " + f->model().JobKey(p.job) +
                 ", size " + std::to_string(p.size) + ", sign " + std::string(p.sign));
    ++checked[p.kind];
    // The same tensor work on every rank.
    EXPECT_NEAR(s.tensor * s.clock / (o.tensor * o.clock), 1, .02);
    const bool clock =
        p.kind == kStragglerClock || p.kind == kStragglerPowerCap || p.kind == kStragglerThermal;
    if (clock) {
      // Peers' own clocks differ by 1.5 % each.
      EXPECT_NEAR(s.clock / o.clock, 1 / p.size, .04);
      EXPECT_GT(s.tensor, o.tensor);
    } else {
      EXPECT_NEAR(s.clock / o.clock, 1, .05);
    }
    if (p.kind == kStragglerPowerCap) {
      EXPECT_LT(slow[0].limit, peers[0].limit);
      EXPECT_NEAR(slow[0].power, slow[0].limit, .05 * slow[0].limit);
      EXPECT_NE(slow[0].reasons & 4, 0);
    }
    if (p.kind == kStragglerThermal) {
      EXPECT_GT(s.temperature, o.temperature + 12);
      EXPECT_NE(slow[0].reasons & 0x68, 0);
    }
    if (p.kind == kStragglerStall && p.sign != "power") {
      EXPECT_GT(slow[0].replays + slow[0].ecc, 10);
    }
    if (p.kind == kStragglerStall) {
      EXPECT_GT(s.power, o.power * .92);  // GPUs differ by 2.5 %
    }
    if (p.kind == kStragglerLink) {
      EXPECT_TRUE(slow[0].errors > 10 || s.nvlink < .8 * o.nvlink);
    }
    if (p.kind == kStragglerHost) {
      EXPECT_LT(s.sm, o.sm);
      EXPECT_LT(s.util, o.util);
      EXPECT_LT(s.power, o.power * 1.04);
      EXPECT_LT(s.pcie, o.pcie);
    }
  }
  for (IncidentKind k : {kStragglerClock, kStragglerPowerCap, kStragglerThermal, kStragglerStall,
                         kStragglerLink, kStragglerHost}) {
    EXPECT_EQ(planted[k], 8) << IncidentName(k);
    EXPECT_GT(checked[k], 0) << IncidentName(k);
  }
}

// A slow GPU slows its job by its factor over that of the slowest one there is without it.
TEST(Incidents, AStragglerHoldsItsJobUp) {
  auto f = MakeWith(AllOf({kStragglerClock, kStragglerHost, kStragglerLink}, 12));
  const Activity& a = *f->model().activity;
  int checked = 0;
  for (const PlantedIncident& p : a.planted()) {
    const std::vector<int32_t> lanes = LanesOfJob(*f, p.job);
    double own = 1;
    for (int32_t lane : lanes) own = std::max<double>(own, a.Traits(lane).slow());
    const auto rate = [&](int32_t from, int32_t to) {
      double cycles = 0, busy = 0;
      for (int32_t t = from + 5; t + 5 <= to; t += 5) {
        const Stint* s = a.Holder(lanes[0], t);
        if (s == nullptr || a.PhaseAt(*s, t).kind != PhaseKind::kBusy ||
            a.PhaseAt(*s, t - 5).kind != PhaseKind::kBusy)
          continue;
        cycles += static_cast<double>((a.At(lanes[0], t) - a.At(lanes[0], t - 5)).tensor_cycles);
        busy += 5;
      }
      return busy < 900 ? 0 : cycles / busy;
    };
    const auto& job = f->model().plan.jobs[p.job];
    const double during = rate(p.from, p.to), before = rate(std::max(0, job.start), p.from);
    if (during == 0 || before == 0) continue;
    ++checked;
    // Levels of phases differ by up to 2 % either way.
    EXPECT_NEAR(before / during, p.size / own, .05 * p.size) << IncidentName(p.kind);
  }
  EXPECT_GT(checked, 5);
}

TEST(Incidents, TruthNamesEveryGpuThatIsSlow) {
  auto f = MakeWith(AllOf({kStragglerClock, kStragglerStall, kStragglerHost}, 6));
  const Truth t = f->TruthOf();
  std::map<std::string, const JobTruth*> jobs;
  for (const JobTruth& j : t.jobs) jobs[j.key] = &j;
  int events = 0;
  for (const EventTruth& e : t.events) {
    if (!e.planted) continue;
    ++events;
    ASSERT_TRUE(jobs.contains(e.job)) << e.job;
    ASSERT_FALSE(e.gpus.empty());
    double most = 0;
    for (const std::string& gpu : e.gpus) {
      const auto& slow = jobs[e.job]->slow;
      const auto it = std::ranges::find_if(
          slow, [&](const SlowGpuTruth& s) { return s.gpu == gpu && s.planted; });
      ASSERT_NE(it, slow.end()) << e.kind;
      EXPECT_EQ("straggler_" + std::string(it->kind), e.kind);
      EXPECT_EQ(it->from, e.start);
      EXPECT_EQ(it->to, e.end);
      most = std::max(most, it->factor);
    }
    EXPECT_NEAR(most, e.size, 1e-6);
    EXPECT_GE(e.size, 1.02);
    EXPECT_LE(e.size, 1.6);
  }
  EXPECT_EQ(events, 18);
  for (const auto& p : t.planted) EXPECT_EQ(p.planted, p.asked) << p.kind;
}

// What the text shows at every second that the truth gives a state, and around it.
TEST(Incidents, IdleStatesShowFromTheirBeginToTheirEnd) {
  const auto kinds = {kIdleNoProcess, kIdleNoWork,    kIdleStartup,        kIdleBarrier,
                      kHung,          kIdleUnusedGpu, kIdleAfterLastOutput};
  auto f = MakeWith(AllOf(kinds, 10));
  const Fleet::Model& m = f->model();
  const IncidentCounts planted = f->Planted();
  for (IncidentKind k : kinds) EXPECT_EQ(planted[k], 10) << IncidentName(k);
  for (const PlantedIncident& p : m.activity->planted()) {
    SCOPED_TRACE(std::string(IncidentName(p.kind)) + " of job " + m.JobKey(p.job));
    std::vector<int32_t> lanes = p.lanes.empty() ? LanesOfJob(*f, p.job) : p.lanes;
    for (int32_t lane : lanes) {
      const Totals d = m.activity->At(lane, p.to) - m.activity->At(lane, p.from);
      const int64_t us = static_cast<int64_t>(p.to - p.from) * 1'000'000;
      EXPECT_EQ(d.tensor_cycles / 1'000'000'000'000, 0);
      const Read r = Over(*f, lane, p.from + 20, p.to - 20, false);
      EXPECT_NEAR(r.tensor, 0, 1e-6);
      if (p.kind == kIdleBarrier || p.kind == kHung) {
        EXPECT_EQ(d.util_us, us);
        EXPECT_GT(r.sm, .7);
        EXPECT_GT(r.util, .99);
        EXPECT_LT(r.power, .5 * m.activity->ModelOf(lane).tdp_w);
        EXPECT_GT(r.fb, 1000);
        continue;
      }
      EXPECT_LT(d.util_us, 1'000'000);
      EXPECT_LT(r.power, 1.3 * m.activity->ModelOf(lane).idle_w);
      if (p.kind == kIdleNoProcess || p.kind == kIdleUnusedGpu) {
        EXPECT_EQ(r.fb, 0);
      }
      if (p.kind == kIdleNoWork || p.kind == kIdleAfterLastOutput) {
        EXPECT_GT(r.fb, 1000);
      }
    }
    if (p.kind == kIdleUnusedGpu) continue;
    const auto& job = m.plan.jobs[p.job];
    const auto busy = [&](int32_t t) {
      return m.activity->PhaseAt(*m.activity->Holder(lanes[0], t), t).kind == PhaseKind::kBusy;
    };
    if (p.from > std::max(0, job.start)) {
      EXPECT_TRUE(busy(p.from - 1));
    }
    if (p.to < std::min(job.end, m.plan.horizon)) {
      EXPECT_TRUE(busy(p.to));
    }
  }
}

// GPU-seconds of idle states by the truth, against a count second by second of the model.
TEST(Incidents, IdleSecondsAreThoseThatPass) {
  auto f = MakeWith(AllOf({kIdleNoProcess, kIdleNoWork, kIdleStartup, kIdleBarrier, kHung,
                           kIdleUnusedGpu, kIdleAfterLastOutput},
                          6),
                    Preset::kResearch, 500, 48, 4, Faults::kAll);
  const Truth t = f->TruthOf();
  int states = 0, natural = 0;
  std::set<std::string_view> seen;
  for (const JobTruth& j : t.jobs) {
    for (const IdleTruth& s : j.idle) {
      ++states;
      natural += !s.planted;
      seen.insert(s.state);
      EXPECT_LT(s.from, s.to);
      EXPECT_LE(s.gpus, j.gpus);
      EXPECT_GE(s.from, j.start);
      EXPECT_TRUE(j.end == 0 || s.to <= j.end) << j.key;
      EXPECT_TRUE(s.which.empty() || static_cast<int32_t>(s.which.size()) == s.gpus);
    }
    // No GPU is in two states at once: the sum is at most what the job holds.
    int64_t sum = 0;
    for (const IdleTruth& s : j.idle) sum += (s.to - s.from) * s.gpus;
    EXPECT_LE(sum, j.work.allocated_us) << j.key;
    // And what is idle without spinning is not busy.
    int64_t still = 0;
    for (const IdleTruth& s : j.idle)
      if (s.state != "barrier" && s.state != "hung") still += (s.to - s.from) * s.gpus;
    EXPECT_LE(j.work.gpu_busy_us, j.work.allocated_us - still) << j.key;
  }
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_GT(states, 40);
  EXPECT_GT(natural, 0);
  // Windows add up.
  const Micros middle = t.from + 20 * kMicrosPerHour;
  const auto total = [](const Truth& x) {
    int64_t sum = 0;
    for (const JobTruth& j : x.jobs)
      for (const IdleTruth& s : j.idle) sum += (s.to - s.from) * s.gpus;
    return sum;
  };
  EXPECT_EQ(total(f->TruthOf(t.from, middle)) + total(f->TruthOf(middle, t.to)), total(t));
}

// What nobody planted: GPUs that show no duty cycle for longer than a healthy gap, or never, by
// samples of the text's own reader, are those that the truth calls idle.
TEST(Incidents, LongGapsOfTheFleetItselfAreInTheTruth) {
  auto f = MakeWith(AllOf({kIdleNoWork, kIdleStartup}, 3), Preset::kResearch, 300, 36);
  const Fleet::Model& m = f->model();
  const Truth truth = f->TruthOf();
  std::map<std::string, const JobTruth*> jobs;
  for (const JobTruth& j : truth.jobs) jobs[j.key] = &j;
  double total = 0;
  for (size_t i = 0; i < m.plan.jobs.size(); ++i) {
    const auto& job = m.plan.jobs[i];
    const auto index = static_cast<int32_t>(i);
    if (job.kind == JobKind::kSession || !jobs.contains(m.JobKey(index))) continue;
    const int32_t planted = m.activity->PlantedIn(index);
    if (planted >= 0 && GroupOf(m.activity->planted()[planted].kind) == IncidentGroup::kIdle)
      continue;
    const int32_t from = std::max(0, job.start), to = std::min(job.end, m.plan.horizon);
    if (to - from < 120) continue;
    double shown = 0;
    int stretches = 0;
    for (int32_t lane : LanesOfJob(*f, index)) {
      int32_t since = from;
      bool worked = false;
      const auto close = [&](int32_t t) {
        const bool never = !worked && t >= to;
        if (t - since > 3720 || never) shown += t - since, ++stretches;
      };
      Values v;
      for (int32_t t = from + 10; t <= to - 1; t += 10) {
        ReadLane(m, lane, t, 10, &v);
        if (v[kUtilPct] < 2) continue;
        close(t - 10);
        since = t;
        worked = true;
      }
      close(to);
    }
    double idle = 0;
    for (const IdleTruth& s : jobs[m.JobKey(index)]->idle)
      idle += static_cast<double>(s.to - s.from) / 1e6 * s.gpus;
    EXPECT_NEAR(shown, idle, 25 * stretches + 1) << m.JobKey(index);
    total += idle;
  }
  EXPECT_GT(total, 100'000);
}

// Changed runs are those from the first one on, and their OFU is the size times that before.
TEST(Incidents, RegressionsBeginAtTheirRun) {
  auto f = MakeWith(AllOf({kRegressionTensor, kRegressionClock, kRegressionDuty, kRegressionMemory,
                           kRegressionNetwork},
                          10),
                    Preset::kResearch, 1000, 96);
  const IncidentCounts planted = f->Planted();
  for (IncidentKind k : {kRegressionTensor, kRegressionClock, kRegressionDuty, kRegressionMemory,
                         kRegressionNetwork})
    EXPECT_EQ(planted[k], 10) << IncidentName(k);
  const Truth t = f->TruthOf();
  int checked = 0, tight = 0;
  for (const EventTruth& e : t.events) {
    if (!e.planted) continue;
    EXPECT_GE(e.runs_before, 5) << e.entity;
    EXPECT_GE(e.runs_after, 3) << e.entity;
    double before = 0, after = 0;
    int n_before = 0, n_after = 0;
    for (const JobTruth& j : t.jobs) {
      if (j.workflow != e.entity || j.work.allocated_us < 600ll * j.gpus * 1'000'000) continue;
      const double ofu =
          static_cast<double>(j.work.tensor_cycles) / static_cast<double>(j.work.peak_cycles);
      (j.run < e.run ? before : after) += ofu;
      ++(j.run < e.run ? n_before : n_after);
    }
    ASSERT_GT(n_before, 0);
    ASSERT_GT(n_after, 0);
    ++checked;
    const double ratio = (after / n_after) / (before / n_before);
    const double error = e.scatter * std::sqrt(1.0 / n_before + 1.0 / n_after);
    // Runs of the fleet's own workflows differ by more than can be averaged away.
    if (e.entity.starts_with("planted")) {
      ++tight;
      EXPECT_LT(e.scatter, .07);
      EXPECT_NEAR(ratio, e.size, 4 * error * e.size + .01) << e.kind << " " << e.entity;
    }
  }
  EXPECT_EQ(checked, 50);
  EXPECT_GT(tight, 25);
}

// Each family by its own counters, in the middle of a run against the same run before.
TEST(Incidents, DropsShowInTheCountersOfTheirFamily) {
  auto f = MakeWith(AllOf({kDropTensor, kDropClock, kDropDuty, kDropMemory, kDropNetwork}, 12));
  const IncidentCounts planted = f->Planted();
  std::map<IncidentKind, int> checked;
  for (const PlantedIncident& p : f->model().activity->planted()) {
    if (p.size > .9) continue;
    const auto& job = f->model().plan.jobs[p.job];
    const int32_t lane = LanesOfJob(*f, p.job)[0];
    const Read a = Over(*f, lane, std::max(0, job.start), p.from, true),
               b = Over(*f, lane, p.from, p.to, true);
    SCOPED_TRACE(std::string(IncidentName(p.kind)) + " " + std::to_string(p.size));
    ++checked[p.kind];
    // Phases differ by 2 % either way.
    EXPECT_NEAR(b.tensor * b.clock / (a.tensor * a.clock), p.size, .05);
    EXPECT_LT(b.power, a.power);
    EXPECT_NEAR(b.clock / a.clock, p.kind == kDropClock ? p.size : 1, .03);
    // Who waits in a collective is busy to the duty cycle.
    const double duty = p.kind == kDropDuty      ? p.size * a.util
                        : p.kind == kDropNetwork ? p.size * a.util + 1 - p.size
                                                 : a.util;
    EXPECT_NEAR(b.util, duty, .06);
    if (p.kind == kDropNetwork) {
      EXPECT_GT(b.sm, a.sm);
    }
    if (p.kind == kDropMemory && a.dram < .6) {
      EXPECT_GT(b.dram, a.dram * (1 + .5 * (1 - p.size)));
    } else {
      EXPECT_LT(b.dram, a.dram * 1.03);
    }
  }
  for (IncidentKind k : {kDropTensor, kDropClock, kDropDuty, kDropMemory, kDropNetwork}) {
    EXPECT_EQ(planted[k], 12) << IncidentName(k);
    EXPECT_GT(checked[k], 2) << IncidentName(k);
  }
}

// A change that is no regression stands in what the jobs are or say of themselves.
TEST(Incidents, AreAsLargeAsTheyAreAskedFor) {
  IncidentCounts counts;
  ASSERT_TRUE(
      ParseIncidents("drop_tensor=20@0.3,drop_clock=20@0.3,straggler_clock=20@0.2", &counts).ok());
  const auto f = MakeWith(counts);
  std::map<IncidentKind, double> least, most;
  for (const PlantedIncident& p : f->model().activity->planted()) {
    const auto [at, is_new] = least.try_emplace(p.kind, p.size);
    if (!is_new) at->second = std::min(at->second, p.size);
    most[p.kind] = std::max(most[p.kind], p.size);
  }
  EXPECT_LE(most.at(kDropTensor), .7);
  EXPECT_LT(least.at(kDropTensor), .5);
  EXPECT_LE(most.at(kDropClock), .7);
  EXPECT_GE(least.at(kDropClock), .64 - 1e-9);
  // The factor is beside the GPU's own.
  EXPECT_GE(least.at(kStragglerClock), 1.19);
}

// A job ends with its code, and the same code comes again: what the counters of its GPU show.
TEST(Incidents, CodesAreOfTheirMoment) {
  const auto f = MakeWith(AllOf({kXidFatal, kXidAgain}, 12));
  const Fleet::Model& m = f->model();
  std::map<int32_t, int> times;
  int fatal = 0;
  for (const PlantedIncident& p : m.activity->planted()) {
    const int32_t lane = p.lanes.front();
    Values before, after;
    ReadLane(m, lane, p.from - 1, 10, &before);
    ReadLane(m, lane, p.from, 10, &after);
    EXPECT_EQ(after[kXid], static_cast<int64_t>(p.size));
    const Stint* held = m.activity->Holder(lane, p.from);
    ASSERT_NE(held, nullptr);
    EXPECT_EQ(held->job, p.job);
    if (p.kind == kXidFatal) {
      ++fatal;
      EXPECT_EQ(before[kXid], 0);
      const Stint* next = m.activity->Holder(lane, p.from + 20);
      EXPECT_TRUE(next == nullptr || next->job != p.job);
      continue;
    }
    EXPECT_EQ(after[kXidCount], before[kXidCount] + 1);
    EXPECT_EQ(after[kXidCount], ++times[lane]);
  }
  EXPECT_EQ(fatal, 12);
  EXPECT_EQ(times.size(), 12);
  for (const auto& [lane, n] : times) EXPECT_EQ(n, 3);
}

TEST(Incidents, ChangesAreInTheJobsOrTheirClaims) {
  auto f =
      MakeWith(AllOf({kChangeGpus, kChangeModel, kChangePrecision}, 8), Preset::kLlm, 1000, 96);
  const Fleet::Model& m = f->model();
  std::map<int32_t, telemetry::ApplicationClaim> claims;
  for (const Application& a : Applications(*f)) claims[a.job] = a.claim;
  std::map<IncidentKind, int> checked;
  for (const PlantedIncident& p : m.activity->planted()) {
    std::set<std::string> before, after;
    for (size_t j = 0; j < m.plan.jobs.size(); ++j) {
      const auto& job = m.plan.jobs[j];
      const auto claim = claims.find(static_cast<int32_t>(j));
      if (job.workflow != p.workflow || claim == claims.end()) continue;
      (job.run < p.run ? before : after)
          .insert(p.kind == kChangeGpus    ? std::to_string(job.gpus)
                  : p.kind == kChangeModel ? claim->second.model_config
                                           : claim->second.precision);
    }
    ++checked[p.kind];
    SCOPED_TRACE(IncidentName(p.kind));
    ASSERT_EQ(before.size(), 1u);
    // Fewer than 8 GPUs report nothing.
    if (p.kind != kChangeGpus) {
      ASSERT_EQ(after.size(), 1u);
    }
    EXPECT_NE(before, after);
  }
  for (IncidentKind k : {kChangeGpus, kChangeModel, kChangePrecision})
    EXPECT_EQ(checked[k], 8) << IncidentName(k);
}

// From the text through the product into a store: the OFU of jobs to which something happened.
TEST(Incidents, TheStoreAgreesWithTheTruth) {
  const auto directory = std::filesystem::path(::testing::TempDir()) /
                         ("simulate-incidents-" + std::to_string(getpid()));
  FleetOptions o = Options(Preset::kLlm, 160, 12, Faults::kNone, 3);
  o.interval = 30 * kMicrosPerSecond;
  o.incidents = AllOf(
      {kStragglerClock, kStragglerHost, kDropDuty, kIdleBarrier, kIdleUnusedGpu, kIdleNoProcess},
      3);
  auto f = Make(o);
  BackfillOptions options;
  options.directory = directory;
  auto result = WriteHistory(*f, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->refused, 0u);
  store::Options store_options;
  store_options.directory = directory;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::map<std::string, int32_t> ids;
  const auto dimensions = (*store)->LoadDimensions();
  ASSERT_TRUE(dimensions.ok()) << dimensions.status();
  for (const auto& j : dimensions->jobs) ids[j.key] = j.id;
  const Truth truth = f->TruthOf();
  std::map<int32_t, store::JobUsage> usage;
  auto rows = (*store)->UsageByJob({truth.from, truth.to});
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const auto& u : *rows) usage[u.job] = u;
  int compared = 0;
  for (const EventTruth& e : truth.events) {
    if (!e.planted) continue;
    const auto j = std::ranges::find(truth.jobs, e.job, &JobTruth::key);
    ASSERT_NE(j, truth.jobs.end());
    ASSERT_TRUE(usage.contains(ids[e.job])) << e.job;
    const double ofu =
        static_cast<double>(j->work.tensor_cycles) / static_cast<double>(j->work.peak_cycles);
    const double duration = static_cast<double>(j->work.allocated_us) / 1e6 / j->gpus;
    ASSERT_TRUE(usage[ids[e.job]].sums.ofu.Ofu().has_value());
    EXPECT_NEAR(*usage[ids[e.job]].sums.ofu.Ofu(), ofu, 60 / duration * .3 + .01 * ofu + 1e-3)
        << e.kind << " " << e.job;
    ++compared;
  }
  EXPECT_GT(compared, 10);
  store->reset();
  std::filesystem::remove_all(directory);
}

TEST(Incidents, FieldsThatTellThemApartAreInTheText) {
  telemetry::FieldRegistry registry;
  telemetry::ExpositionDecoder decoder(&registry, "");
  std::string body;
  for (const auto& [preset, fields] :
       {std::pair{Preset::kLlm, 20}, {Preset::kResearch, 20}, {Preset::kResearch, 100}}) {
    FleetOptions o = Options(preset, 400, 6, Faults::kNone, 3, fields);
    o.incidents = AllOf({kStragglerLink, kIdleStartup, kRegressionMemory}, 2);
    auto f = Make(o);
    for (int h = 0; h < f->hosts(); ++h) {
      ASSERT_EQ(f->RenderHost(h, 100, Stamps::kExplicit, &body), Answer::kOk);
      const auto& scrape = decoder.Decode(body);
      EXPECT_EQ(scrape.stats.refused_total(), 0u);
      if (f->model().plan.hosts[h].mig_gpus > 0) continue;
      for (const auto& row : scrape.rows)
        for (auto field : {telemetry::kPowerLimitW, telemetry::kClockEventReasons,
                           telemetry::kNvlinkTxBps, telemetry::kNvlinkRxBps, telemetry::kEccSbe,
                           telemetry::kNvlinkErrors, telemetry::kPcieReplays, telemetry::kXid})
          EXPECT_TRUE(row.present.Test(field)) << field;
    }
  }
  EXPECT_THAT(body, HasSubstr("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL{"));
}

TEST(Incidents, CountersNeverFallWithThem) {
  IncidentCounts counts;
  for (size_t k = 0; k < kIncidentKinds; ++k) counts.n[k] = 3;
  FleetOptions o = Options(Preset::kLlm, 400, 36, Faults::kAll, 2, 100);
  o.incidents = counts;
  auto f = Make(o);
  const Fleet::Model& m = f->model();
  for (int32_t lane = 0; lane < m.plan.gpus; ++lane) {
    Values last{}, v;
    for (int32_t t = 600; t < m.plan.horizon; t += 600, last = v) {
      ReadLane(m, lane, t, 10, &v);
      for (const FieldDef& d : Fields(100)) {
        if (d.type != "counter") continue;
        ASSERT_GE(v[d.value], last[d.value]) << d.name << " of " << lane << " at " << t;
      }
      ASSERT_LE(v[kPowerMw], 1.15 * 1'200'000);
      ASSERT_LE(v[kSmPpm], 1'000'000);
    }
  }
}

TEST(Incidents, WhatCannotBePlantedIsNotClaimed) {
  auto f =
      MakeWith(AllOf({kStragglerHost, kRegressionTensor, kIdleBarrier}, 50), Preset::kLlm, 8, 2);
  const Truth t = f->TruthOf();
  ASSERT_EQ(t.planted.size(), 3u);
  std::map<std::string_view, int> events;
  for (const EventTruth& e : t.events) events[e.kind] += e.planted;
  for (const auto& p : t.planted) {
    EXPECT_EQ(p.asked, 50);
    EXPECT_LT(p.planted, 50);
    EXPECT_EQ(events[p.kind], p.planted) << p.kind;
  }
  EXPECT_THAT(TruthJson(t), HasSubstr("\"planted\":{\"straggler_host\":0"));
}

}  // namespace
}  // namespace flopwatch::simulate
