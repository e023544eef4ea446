// Runs of a simulated fleet's workflows as the store would have given them, from the fleet's own
// integrals: weeks of telemetry of many fleets are too much for a test. A minute counts where
// kernels ran; readings of the clock have their noise (sd 30 MHz a sample, one every 30 s).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fleet/regressions/regressions.h"
#include "simulate/application.h"
#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {

struct FleetRuns {
  std::vector<fleet::WorkflowRuns> workflows;
  std::vector<int32_t> ids;                // of the workflows, in the demand model
  std::vector<std::vector<int32_t>> jobs;  // of their runs, in Plan::jobs
};

namespace regression_runs {

inline constexpr int kMinute = 60, kStep = 300;  // seconds
inline constexpr double kWorkDuty = .1;          // as query::kWorkDuty

// What all GPUs of a job did in each minute, by second of its begin.
struct Minutes {
  int32_t from = 0;
  std::vector<Totals> totals;
  std::vector<int32_t> gpu_s;  // that it held
  double gpus = 0;
  double max_mhz = 0, idle_mw = 0;
};

inline void AddStint(const Fleet::Model& m, const Stint& s, Minutes* out) {
  const int32_t first = s.from / kMinute, last = (s.to - 1) / kMinute;
  if (out->totals.empty()) {
    out->from = first;
    out->max_mhz = m.activity->ModelOf(s.lane).tensor_max_mhz;
  }
  if (first < out->from) {
    out->totals.insert(out->totals.begin(), static_cast<size_t>(out->from - first), Totals());
    out->gpu_s.insert(out->gpu_s.begin(), static_cast<size_t>(out->from - first), 0);
    out->from = first;
  }
  const auto needed = static_cast<size_t>(last - out->from + 1);
  if (out->totals.size() < needed) {
    out->totals.resize(needed);
    out->gpu_s.resize(needed);
  }
  Totals before = m.activity->AtStint(s, s.from);
  for (int32_t k = first; k <= last; ++k) {
    const int32_t to = std::min(s.to, (k + 1) * kMinute);
    const Totals now = m.activity->AtStint(s, to);
    out->totals[static_cast<size_t>(k - out->from)] += now - before;
    out->gpu_s[static_cast<size_t>(k - out->from)] += to - std::max(s.from, k * kMinute);
    before = now;
  }
}

inline fleet::WorkflowRun RunOf(const Fleet::Model& m, int32_t j, const Minutes& minutes) {
  const auto& job = m.plan.jobs[j];
  fleet::WorkflowRun run;
  run.job = m.JobKey(j);
  run.step = kStep * kMicrosPerSecond;
  const auto at = [&](int32_t s) { return m.options.start + s * kMicrosPerSecond; };
  run.from = at(std::max(job.start, 0));
  run.to = at(std::min(job.end, m.plan.horizon));
  run.setting.gpus = job.gpus;
  run.setting.gpu_model = m.spec.clusters[job.cluster].model->name;
  int32_t last = -1;
  for (size_t k = 0; k < minutes.totals.size(); ++k) {
    const Totals& t = minutes.totals[k];
    const double gpu_s = minutes.gpu_s[k];
    run.gpu_seconds += gpu_s;
    const double duty_s = static_cast<double>(t.util_us) / 1e6;
    if (!(gpu_s > 0) || duty_s < kWorkDuty * gpu_s) continue;
    const int32_t minute = minutes.from + static_cast<int32_t>(k);
    if (const int32_t step = minute * kMinute / kStep; step != last) {
      run.steps.push_back({at(step * kStep), {}});
      last = step;
    }
    // Two samples of each GPU a minute.
    const double noise = 30.0 / 1350 / std::sqrt(gpu_s / 30);
    const double read =
        1 + noise * Normal(Key(m.options.seed, Purpose::kTelemetryTick, j, 1000 + minute));
    fleet::WorkSums s;
    s.busy_s = s.ofu_span_s = s.duty_span_s = s.sm_span_s = s.tensor_span_s = s.clock_span_s =
        s.power_span_s = gpu_s;
    s.ofu_s = static_cast<double>(t.tensor_cycles) / (minutes.max_mhz * 1e6) * read;
    s.duty_s = duty_s;
    s.sm_s = static_cast<double>(t.sm_us) / 1e6;
    s.tensor_s = static_cast<double>(t.tensor_us) / 1e6;
    s.clock_mhz_s = static_cast<double>(t.clock_cycles) / 1e6 * read;
    s.power_j = static_cast<double>(t.energy_mj) / 1e3 + 60 * gpu_s;
    run.steps.back().sums += s;
  }
  return run;
}

}  // namespace regression_runs

// What raw rows of a run's GPUs say of DRAM and links: a reading a minute of the step.
inline fleet::LinkReading LinksOf(const Fleet::Model& m, int32_t job, Micros from,
                                  int minutes = 5) {
  fleet::LinkReading out;
  const auto first = static_cast<int32_t>((from - m.options.start) / kMicrosPerSecond);
  double dram = 0, nvlink = 0, pcie = 0, n = 0;
  for (const Stint& s : m.activity->AllStints()) {
    if (s.job != job || s.rank >= 8) continue;
    for (int32_t t = first + 60; t <= first + 60 * minutes; t += 60) {
      if (t < s.from + 60 || t > s.to) continue;
      Values v{};
      ReadLane(m, s.lane, t, 60, &v);
      dram += static_cast<double>(v[kDramPpm]) / 1e6;
      nvlink += static_cast<double>(v[kNvlinkTx] + v[kNvlinkRx]);
      pcie += static_cast<double>(v[kPcieTx] + v[kPcieRx]);
      ++n;
    }
  }
  if (n > 0) out = {dram / n, nvlink / n, pcie / n};
  return out;
}

// As query/regressions.cc does.
inline void AddLinks(const Fleet::Model& m, const FleetRuns& runs, fleet::Regression* f) {
  const auto& list = runs.workflows[f->workflow].runs;
  const auto reading = [&](size_t k, Micros from, Micros to,
                           std::vector<fleet::LinkReading>* into) {
    std::vector<Micros> steps;
    for (const fleet::RunStep& s : list[k].steps)
      if (s.at >= from && s.at < to) steps.push_back(s.at);
    if (!steps.empty())
      into->push_back(LinksOf(m, runs.jobs[f->workflow][k], steps[steps.size() / 2]));
  };
  std::vector<fleet::LinkReading> before, after;
  if (f->within_run) {
    reading(f->at, 0, f->from, &before);
    reading(f->at, f->from, list[f->at].to, &after);
  } else {
    for (size_t k = f->at; k-- > f->first && before.size() < 3;) reading(k, 0, list[k].to, &before);
    for (size_t k = f->at; k < f->end && after.size() < 3; ++k) reading(k, 0, list[k].to, &after);
  }
  fleet::NameWithLinks(before, after, f);
}

// Interactive sessions and services are workflows as others are.
inline FleetRuns RunsOf(const Fleet& f) {
  using namespace regression_runs;
  const Fleet::Model& m = f.model();
  std::vector<Minutes> minutes(m.plan.jobs.size());
  for (const Stint& s : m.activity->AllStints()) AddStint(m, s, &minutes[s.job]);
  std::map<int32_t, std::vector<int32_t>> by_workflow;
  for (size_t j = 0; j < minutes.size(); ++j)
    if (!minutes[j].totals.empty())
      by_workflow[m.plan.jobs[j].workflow].push_back(static_cast<int32_t>(j));
  std::map<int32_t, telemetry::ApplicationClaim> claims;
  for (const Application& a : Applications(f)) claims[a.job] = a.claim;
  FleetRuns out;
  for (auto& [workflow, jobs] : by_workflow) {
    std::ranges::stable_sort(jobs, {}, [&](int32_t j) { return m.plan.jobs[j].start; });
    fleet::WorkflowRuns& w = out.workflows.emplace_back();
    w.name = m.demand->workflows()[workflow].name;
    out.ids.push_back(workflow);
    for (const int32_t j : jobs) {
      fleet::WorkflowRun& run = w.runs.emplace_back(RunOf(m, j, minutes[j]));
      if (const auto c = claims.find(j); c != claims.end()) {
        run.setting.model = c->second.model_config;
        run.setting.precision = c->second.precision;
      }
    }
    out.jobs.push_back(std::move(jobs));
  }
  return out;
}

}  // namespace flopwatch::simulate
