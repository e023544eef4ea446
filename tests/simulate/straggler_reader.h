// What exporters say of a simulated fleet, added up by GPU and job as query/stragglers.cc does it
// from a store's rows, but read from the generator itself: a store of ten fleets of 10,000 GPUs is
// too much for a test. Telemetry faults are in it: lost scrapes, silent hosts, blank fields, tensor
// counters that are missing or dead.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "fleet/stragglers/find.h"
#include "simulate/fleet_model.h"

namespace flopwatch::simulate {

struct StragglerInput {
  static constexpr int kParts = 4;
  std::deque<std::array<fleet::GpuWork, kParts>> works;
  std::vector<fleet::StragglerJob> jobs;
  std::vector<int32_t> ids;  // index into Plan::jobs, of each

  // As StragglersIn() does it; afterwards the first part of each is the whole.
  fleet::StragglersFound Find() {
    std::vector<fleet::StragglersFound> parts;
    for (int part = 0; part < kParts; ++part) {
      for (fleet::StragglerJob& job : jobs)
        for (fleet::StragglerRank& r : job.ranks) r.work += part == 0 ? 0 : 1;
      parts.push_back(fleet::FindStragglers(jobs, fleet::kPartLimits));
    }
    for (auto& work : works)
      for (int part = 1; part < kParts; ++part) work[0] += work[part];
    for (fleet::StragglerJob& job : jobs)
      for (fleet::StragglerRank& r : job.ranks) r.work -= kParts - 1;
    fleet::StragglersFound whole = fleet::FindStragglers(jobs);
    fleet::AddEpisodes(parts, &whole);
    return whole;
  }
};

class StragglerReader {
 public:
  // Seconds of the fleet's window.
  StragglerReader(const Fleet& f, int32_t from, int32_t to)
      : f_(f), m_(f.model()), from_(from), to_(to) {}

  StragglerInput Read() && {
    for (int h = 0; h < f_.hosts(); ++h) ReadHost(h);
    for (auto& [key, at] : slots_) {
      const auto [job, gpu] = key;
      if (in_.ids.empty() || in_.ids.back() != job) {
        in_.ids.push_back(job);
        in_.jobs.emplace_back();
      }
      const int32_t host = m_.activity->HostOf(gpu);
      in_.jobs.back().ranks.push_back({gpu, host, host, in_.works[at].data()});
    }
    return std::move(in_);
  }

 private:
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  int32_t SecondOf(int h, int64_t tick) const {
    return static_cast<int32_t>((f_.TickTime(h, tick) - m_.options.start) / kMicrosPerSecond);
  }
  bool Heard(int h, int64_t tick, int32_t t) const {
    if (m_.faults.Lost(h, tick) || m_.faults.Silent(h, t)) return false;
    return std::ranges::none_of(m_.plan.periods, [&](const HostPeriod& p) {
      return p.host == h && p.from <= t && t < p.to && !Answers(p.condition);
    });
  }

  void ReadHost(int h) {
    const Host& host = m_.plan.hosts[h];
    const auto interval = static_cast<int32_t>(m_.cluster_interval_ms[host.cluster] / 1000);
    int32_t last = -1;
    for (int64_t tick = 0; tick < f_.Ticks(h); ++tick) {
      const int32_t t = std::max(1, SecondOf(h, tick));
      if (t <= from_ || t > to_ || !Heard(h, tick, t)) continue;
      const int32_t span = last < 0 || t - last > 3 * interval ? 0 : t - last;
      last = t;
      for (int g = host.mig_gpus; g < host.gpus; ++g)
        ReadGpu(host.first_gpu + g, tick, t, std::clamp(interval, 1, t), span);
    }
  }

  void ReadGpu(int32_t gpu, int64_t tick, int32_t t, int32_t window, int32_t span) {
    const Stint* holder = m_.activity->Holder(gpu, t);
    if (holder == nullptr || holder->job2 >= 0) return;
    Values raw{};
    ReadLane(m_, gpu, t, window, &raw);
    std::array<double, fleet::kWorkFieldCount> v;
    v.fill(kNaN);
    v[fleet::kWorkTensor] = raw[kTensorPpm] / 1e6;
    v[fleet::kWorkSm] = raw[kSmPpm] / 1e6;
    v[fleet::kWorkClock] = static_cast<double>(raw[kSmClock]);
    v[fleet::kWorkPower] = raw[kPowerMw] / 1e3;
    v[fleet::kWorkTemp] = static_cast<double>(raw[kGpuTemp]);
    v[fleet::kWorkSmActive] = v[fleet::kWorkSm];
    v[fleet::kWorkDuty] = raw[kUtilPct] / 1e2;
    v[fleet::kWorkDram] = raw[kDramPpm] / 1e6;
    v[fleet::kWorkPcieTx] = static_cast<double>(raw[kPcieTx]);
    v[fleet::kWorkPcieRx] = static_cast<double>(raw[kPcieRx]);
    v[fleet::kWorkReplays] = static_cast<double>(raw[kPcieReplay]);
    if (m_.options.fields > 20 || m_.planting.any()) {
      v[fleet::kWorkPowerLimit] = raw[kPowerLimitMw] / 1e3;
      v[fleet::kWorkNvlinkTx] = static_cast<double>(raw[kNvlinkTx]);
      v[fleet::kWorkNvlinkRx] = static_cast<double>(raw[kNvlinkRx]);
      v[fleet::kWorkReasons] = static_cast<double>(raw[kClockReasons]);
      v[fleet::kWorkEccSbe] = static_cast<double>(raw[kEccSbe]);
      v[fleet::kWorkNvlinkErrors] = static_cast<double>(raw[kLinkErrors]);
      v[fleet::kWorkNvlinkRecoveries] = static_cast<double>(raw[kLinkRecoveries]);
    }
    if (m_.options.fields > 20) {
      v[fleet::kWorkPowerViolation] = static_cast<double>(raw[kPowerViolation]);
      v[fleet::kWorkThermalViolation] = static_cast<double>(raw[kThermalViolation]);
    }
    bool usable = !m_.faults.TensorMissing(gpu) && !m_.faults.TensorDead(gpu, t), sentinel = false;
    const std::span<const FieldDef> fields = Fields(m_.options.fields, m_.planting.any());
    const int blank = m_.faults.BlankField(gpu, static_cast<int>(fields.size()), tick, &sentinel);
    if (blank >= 0) {
      const Value field = fields[static_cast<size_t>(blank)].value;
      if (field == kTensorPpm) usable = false;
      if (field == kSmPpm) v[fleet::kWorkSm] = kNaN;
      if (field == kSmClock) v[fleet::kWorkClock] = kNaN;
      if (field == kPowerMw) v[fleet::kWorkPower] = kNaN;
    }
    const auto [it, fresh] = slots_.try_emplace({holder->job, gpu}, in_.works.size());
    if (fresh) in_.works.emplace_back();
    const int part = std::min(StragglerInput::kParts - 1,
                              (t - from_ - 1) * StragglerInput::kParts / (to_ - from_));
    in_.works[it->second][static_cast<size_t>(part)].Add(t * kMicrosPerSecond, span, usable, v);
  }

  const Fleet& f_;
  const Fleet::Model& m_;
  const int32_t from_, to_;
  StragglerInput in_;
  std::map<std::pair<int32_t, int32_t>, size_t> slots_;  // (job, GPU)
};

}  // namespace flopwatch::simulate
