// What befalls whole jobs, hosts and fleets: the truth says it and the counters show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "make_fleet.h"
#include "simulate/application.h"
#include "simulate/fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/incidents.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

using enum IncidentKind;
using ::testing::HasSubstr;

std::unique_ptr<Fleet> WithWhole(std::initializer_list<IncidentKind> kinds, int n) {
  FleetOptions o = Options(Preset::kLlm, 1000, 24, Faults::kNone, 3);
  for (const IncidentKind k : kinds) o.incidents[k] = n;
  return Make(o);
}

// Means of the busy time of a lane, and the bits of the clock's reasons that were seen.
struct Clocks {
  double clock = 0, tensor = 0, power = 0;
  int64_t reasons = 0;
  int n = 0;
};
Clocks ClocksOver(const Fleet& f, int32_t lane, int32_t from, int32_t to) {
  const Fleet::Model& m = f.model();
  Clocks out;
  Values v;
  for (int32_t t = from + 10; t < to; t += 10) {
    const Stint* s = m.activity->Holder(lane, t);
    if (s == nullptr || s->idle() || m.activity->PhaseAt(*s, t).kind != PhaseKind::kBusy ||
        m.activity->PhaseAt(*s, t - 10).kind != PhaseKind::kBusy)
      continue;
    ReadLane(m, lane, t, 10, &v);
    ++out.n;
    out.clock += v[kSmClock];
    out.tensor += static_cast<double>(v[kTensorPpm]) / 1e6;
    out.power += static_cast<double>(v[kPowerMw]) / 1e3;
    out.reasons |= v[kClockReasons];
  }
  if (out.n > 0)
    for (double* x : {&out.clock, &out.tensor, &out.power}) *x /= out.n;
  return out;
}

const EventTruth& EventOf(const Truth& t, const Fleet& f, const PlantedIncident& p) {
  const auto is = [&](const EventTruth& e) {
    return e.planted && e.kind == IncidentName(p.kind) && e.job == f.model().JobKey(p.job);
  };
  const auto at = std::ranges::find_if(t.events, is);
  EXPECT_NE(at, t.events.end());
  return *at;
}

TEST(WholeIncidents, APowerBrakeHoldsDownTheGpusOfOneHostForAWhile) {
  const auto f = WithWhole({kPowerBrake}, 12);
  const Truth truth = f->TruthOf();
  ASSERT_EQ(f->Planted()[kPowerBrake], 12);
  int both = 0;
  for (const PlantedIncident& p : f->model().activity->planted()) {
    SCOPED_TRACE(f->model().JobKey(p.job));
    EXPECT_EQ(EventOf(truth, *f, p).entity, EventOf(truth, *f, p).node);
    EXPECT_EQ(EventOf(truth, *f, p).gpus.size(), p.lanes.size());
    const auto& job = f->model().plan.jobs[p.job];
    for (const int32_t lane : p.lanes) {
      const Clocks before = ClocksOver(*f, lane, std::max(0, job.start), p.from),
                   during = ClocksOver(*f, lane, p.from, p.to);
      EXPECT_EQ(before.reasons & 0x88, 0);
      EXPECT_EQ(during.reasons & 0x80, 0x80);
      both += (during.reasons & 0x8) != 0;
      EXPECT_NEAR(during.clock / before.clock, p.size, .03);
      EXPECT_NEAR(during.tensor / before.tensor, 1, .1);  // of fewer cycles
      EXPECT_LT(during.power, before.power);
    }
  }
  EXPECT_GT(both, 0);
}

TEST(WholeIncidents, AClockThatIsStuckIsSoForAllOfTheJob) {
  const auto f = WithWhole({kClockStuck}, 12);
  const Truth truth = f->TruthOf();
  ASSERT_EQ(f->Planted()[kClockStuck], 12);
  for (const PlantedIncident& p : f->model().activity->planted()) {
    SCOPED_TRACE(f->model().JobKey(p.job));
    EXPECT_EQ(EventOf(truth, *f, p).entity, f->model().JobKey(p.job));
    for (const int32_t lane : p.lanes) {
      const Clocks c = ClocksOver(*f, lane, p.from, p.to);
      ASSERT_GT(c.n, 0);
      // Clocks of jobs are between .72 of the highest and all of it (JobClockMhz).
      const double share = c.clock / f->model().activity->ModelOf(lane).tensor_max_mhz;
      EXPECT_LT(share, 1.05 * p.size);  // boards of a model differ
      EXPECT_GT(share, .6 * p.size);
      EXPECT_EQ(c.reasons & 0xc8, 0);  // 0x20 comes on warm boards by itself
    }
  }
}

TEST(WholeIncidents, ARestartGoesOnFromACheckpoint) {
  const auto f = WithWhole({kRestart}, 24);
  const Fleet::Model& m = f->model();
  ASSERT_EQ(f->Planted()[kRestart], 24);
  const std::vector<Application> applications = Applications(*f);
  int reporting = 0, back = 0;
  for (const PlantedIncident& p : m.activity->planted()) {
    SCOPED_TRACE(m.JobKey(p.job));
    EXPECT_GE(p.to - p.from, 120);
    EXPECT_LE(p.to - p.from, 600);
    for (const Stint& s : m.activity->AllStints()) {
      if (s.job != p.job || s.from > p.from || s.to < p.to) continue;
      Values v;
      ReadLane(m, s.lane, p.from + 10, 10, &v);
      EXPECT_EQ(v[kFbUsed], 0);  // no process
      EXPECT_EQ(m.activity->PhaseAt(s, p.from - 1).kind, PhaseKind::kBusy);
      EXPECT_EQ(m.activity->PhaseAt(s, p.to).kind, PhaseKind::kBusy);
    }
    const auto app = std::ranges::find(applications, p.job, &Application::job);
    if (app == applications.end()) continue;
    ++reporting;
    const auto at = [&](int32_t s) { return f->options().start + s * kMicrosPerSecond; };
    int64_t last = -1;
    int returns = 0;
    for (const auto& sample : SamplesOf(*f, *app, 0, at(m.plan.horizon))) {
      EXPECT_FALSE(sample.ts > at(p.from) && sample.ts <= at(p.to)) << "nobody is there to report";
      if (sample.step <= last) {
        ++returns;
        EXPECT_GT(sample.ts, at(p.to));
        // At most what fits between two checkpoints, and what was not reported yet.
        EXPECT_LE(static_cast<double>((last - *sample.step) / app->log_every) * 30, p.size + 120);
      }
      // Its span does not reach into the pause.
      if (sample.ts > at(p.to)) EXPECT_GE(sample.ts - sample.span_ms * kMicrosPerMilli, at(p.to));
      last = *sample.step;
    }
    EXPECT_LE(returns, 1);
    back += returns;
  }
  EXPECT_GT(reporting, 5);
  EXPECT_GT(back, reporting / 2);
  EXPECT_THAT(TruthJson(f->TruthOf()), ::testing::Not(HasSubstr("\"state\":\"restart\"")));
}

TEST(WholeIncidents, ADropOfTheFleetMeetsAllThatTrainsAtOnce) {
  const auto f = WithWhole({kFleetDrop}, 1);
  const Fleet::Model& m = f->model();
  ASSERT_EQ(m.activity->planted().size(), 1u);
  const PlantedIncident& p = m.activity->planted()[0];
  const auto cycles = [&](int32_t from, int32_t to) {
    double sum = 0;
    for (int32_t lane = 0; lane < m.plan.gpus; ++lane)
      sum += static_cast<double>(
          (m.activity->At(lane, to) - m.activity->At(lane, from)).tensor_cycles);
    return sum / (to - from);
  };
  const double during = cycles(p.from, p.to), usual = cycles(p.from - 3600, p.from);
  EXPECT_GT(during / usual, .8 * p.size);
  EXPECT_LT(during / usual, p.size + .2);
  EXPECT_NEAR(cycles(p.to, p.to + 3600) / usual, 1, .3);
  const Truth truth = f->TruthOf();
  EXPECT_EQ(truth.events.size(), 1 + std::ranges::count_if(truth.events, [](const EventTruth& e) {
                                   return !e.planted;
                                 }));
  const auto at = std::ranges::find_if(truth.events, [](const auto& e) { return e.planted; });
  EXPECT_EQ(at->entity, "fleet");
}

// A row waits for its reset until the job has ended, where the exporter says so at all.
TEST(WholeIncidents, ARemappedRowWaitsForTheReset) {
  const auto f = WithWhole({kRowRemap}, 24);
  const Fleet::Model& m = f->model();
  int told = 0;
  for (const PlantedIncident& p : m.activity->planted()) {
    const int32_t lane = p.lanes.front();
    const auto pending = [&](int32_t t) {
      Values v;
      ReadLane(m, lane, t, 10, &v);
      return v[kRowRemapPending];
    };
    if (p.sign != "pending") {
      EXPECT_EQ(pending(p.from + 10), -1);
      continue;
    }
    ++told;
    EXPECT_EQ(pending(p.from - 10), 0);
    EXPECT_EQ(pending(p.from + 10), 1);
    EXPECT_EQ(pending(p.to - 10), 1);
    if (p.to < m.plan.horizon) EXPECT_EQ(pending(p.to), 0);
  }
  EXPECT_GT(told, 4);
  EXPECT_LT(told, 20);
  std::string with, without;
  for (int h = 0; h < f->hosts(); ++h) {
    std::string body;
    ASSERT_EQ(f->RenderHost(h, 600, Stamps::kNone, &body), Answer::kOk);
    const bool has = body.find("DCGM_FI_DEV_ROW_REMAP_PENDING{") != std::string::npos;
    if (m.plan.hosts[h].mig_gpus == 0) EXPECT_EQ(has, Activity::SaysRemapPending(h)) << h;
  }
}

}  // namespace
}  // namespace flopwatch::simulate
