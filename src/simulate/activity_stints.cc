// Who holds which lane when, with the totals of the lane before.
#include <algorithm>
#include <tuple>

#include "simulate/activity_builder.h"
#include "simulate/random.h"

namespace flopwatch::simulate {

void ActivityBuilder::Accumulate(const Program& program) {
  ProgramTotals sum;
  for (int32_t i = 0; i < program.phases; ++i) {
    Phase& p = a_.phases_[program.first_phase + i];
    if (p.kind == PhaseKind::kGap) p.rates = {};
    p.before = sum;
    int64_t s = PhaseLength(program, i);
    sum.tensor_cycles += s * p.rates.tensor_hz;
    sum.util_us += s * p.rates.util_ppm;
    sum.sm_us += s * p.rates.sm_ppm;
    sum.energy_mj += s * p.rates.power_mw;
    if (p.kind != PhaseKind::kGap) sum.busy_s += s;
  }
}

void ActivityBuilder::MakeStints() {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = plan_.jobs[j];
    const JobInfo& info = jobs_[j];
    if (info.program < 0) continue;
    const GpuModel& model = Model(job);
    const Program& program = a_.programs_[info.program];
    double clock = job_clock_[j] > 0 ? job_clock_[j] : model.boost_mhz;
    bool stalled =
        job.kind == JobKind::kSynchronous && info.slowest_gpu >= 0 && info.slowest >= 1.05 &&
        a_.traits_[info.slowest_gpu].stall_factor > a_.traits_[info.slowest_gpu].clock_factor;
    for (int i = 0; i < info.placements; ++i) {
      Stint s;
      s.lane = LaneOf(info, i);
      s.from = info.from;
      s.to = info.to;
      s.job = static_cast<int32_t>(j);
      s.program = info.program;
      s.rank = i;
      s.unused = i >= info.placements - info.unused;
      const GpuTraits& traits = a_.traits_[a_.GpuOf(s.lane)];
      s.clock_mhz = static_cast<uint16_t>(GpuClockMhz(model, clock, traits.clock_factor));
      s.offset = job.kind == JobKind::kService ? info.program_offset + info.from : 0;
      if (job.kind == JobKind::kIndependent || job.kind == JobKind::kSingle) {
        // Works at its own pace. Independent ranks also start at different points of the program.
        s.scale = static_cast<uint32_t>(65536 / std::max(1.f, traits.slow()));
        if (job.kind == JobKind::kIndependent)
          s.offset = static_cast<int32_t>(Below(Key(seed_, Purpose::kPhase, j, 1000 + i),
                                                std::min(kRankSpread, program.length)));
      }
      if (stalled) {
        // Peers of a stalling GPU wait in the collective: busy to every counter but power.
        s.stalls = a_.GpuOf(s.lane) == info.slowest_gpu;
        s.power_scale = s.stalls ? 1024 : 900;
      }
      if (planting_ != nullptr) s.power_scale = OwnPower(s.power_scale, s.lane, s.job);
      AddStint(s, static_cast<int32_t>(j));
    }
    if (job.kind == JobKind::kSynchronous && job.gpus >= 8 && info.slowest >= 1.05)
      a_.events_.push_back({stalled ? TruthKind::kSlowStall : TruthKind::kSlowClock, info.from,
                            info.to, static_cast<int32_t>(j), job.workflow, info.slowest_gpu,
                            a_.host_of_gpu_[info.slowest_gpu], info.slowest});
  }
  auto& all = a_.stints_;
  std::ranges::stable_sort(all, [](const Stint& x, const Stint& y) {
    return std::tie(x.lane, x.from) < std::tie(y.lane, y.from);
  });
  SplitShared();
  all.shrink_to_fit();
  a_.lane_begin_.assign(plan_.lanes + 1, 0);
  for (const Stint& s : all) ++a_.lane_begin_[s.lane + 1];
  for (int32_t l = 0; l < plan_.lanes; ++l) a_.lane_begin_[l + 1] += a_.lane_begin_[l];
  for (int32_t l = 0; l < plan_.lanes; ++l) {
    Totals sum;
    int32_t end = 0;
    int64_t idle_hz = static_cast<int64_t>(a_.ModelOf(l).idle_mhz) * 1'000'000;
    for (int32_t i = a_.lane_begin_[l]; i < a_.lane_begin_[l + 1]; ++i) {
      Stint& s = all[i];
      sum.clock_cycles += (s.from - end) * idle_hz;
      s.before = sum;
      sum += a_.AtStint(s, s.to);
      end = s.to;
    }
  }
}

// A throttled GPU's stint is cut where its clock changes, a suspended job's where it stops and goes
// on; no job is both.
void ActivityBuilder::AddStint(const Stint& s, int32_t job) {
  const Job& j = plan_.jobs[job];
  if (const int32_t held = j.Suspended(s.from, s.to); held > 0) {
    Stint before = s, during = s, after = s;
    before.to = during.from = std::max(s.from, j.suspend_from);
    during.to = after.from = std::min(s.to, j.suspend_to);
    during.suspended = true;
    after.offset += before.to - before.from;
    for (const Stint& piece : {before, during, after})
      if (piece.from < piece.to) a_.stints_.push_back(piece);
    return;
  }
  if (const auto planted = cuts_.find(job); planted != cuts_.end())
    return AddPlanted(s, planted->second);
  std::vector<Throttle> cuts;
  for (auto [it, end] = throttles_.equal_range(job); it != end; ++it)
    if (it->second.lane == s.lane) cuts.push_back(it->second);
  std::ranges::sort(cuts, {}, &Throttle::from);
  Stint rest = s;
  auto emit = [&](int32_t to, int percent) {
    if (to <= rest.from) return;
    Stint piece = rest;
    piece.to = to;
    piece.clock_mhz = static_cast<uint16_t>(s.clock_mhz * percent / 100);
    piece.throttled = percent < 100;
    a_.stints_.push_back(piece);
    rest.offset += to - rest.from;
    rest.from = to;
  };
  for (const Throttle& t : cuts) {
    emit(t.from, 100);
    emit(t.to, kThrottlePercent);
  }
  emit(s.to, 100);
}

// A stint is cut where an incident begins and ends.
void ActivityBuilder::AddPlanted(const Stint& s, const Cut& cut) {
  const bool slow = std::ranges::binary_search(cut.lanes, s.lane);
  const int32_t from = std::clamp(cut.from, s.from, s.to), to = std::clamp(cut.to, s.from, s.to);
  const auto piece = [&](int32_t begin, int32_t end, int32_t effect) {
    if (begin >= end) return;
    Stint p = s;
    p.from = begin;
    p.to = end;
    p.offset = s.offset + (begin - s.from);
    p.effect = effect;
    if (effect >= 0) {
      const Effect& e = a_.effects_[effect];
      p.clock_mhz = static_cast<uint16_t>(s.clock_mhz * e.clock / Effect::kOne);
      p.power_scale = static_cast<uint16_t>(s.power_scale * e.power / Effect::kOne);
    }
    a_.stints_.push_back(p);
  };
  piece(s.from, from, -1);
  piece(from, to, slow ? cut.slow : cut.others);
  piece(to, s.to, -1);
}

// GPUs of one model differ in power at the same work, and a little from job to job.
uint16_t ActivityBuilder::OwnPower(uint16_t scale, int32_t lane, int32_t job) const {
  const double gpu = Normal(Key(seed_, Purpose::kIncident, a_.GpuOf(lane), 1ull << 32));
  const double run = Normal(Key(seed_, Purpose::kIncident, lane, (2ull << 32) + job));
  const double factor = 1 + .025 * std::clamp(gpu, -2.5, 2.5) + .006 * std::clamp(run, -2.5, 2.5);
  return static_cast<uint16_t>(scale * factor);
}

// Two sessions on one GPU overlap: where they do, the first one's program runs and both own the
// GPU.
void ActivityBuilder::SplitShared() {
  auto& all = a_.stints_;
  std::vector<Stint> out;
  out.reserve(all.size());
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    bool overlap = false;
    for (int32_t to = all[i].to; end < all.size() && all[end].lane == all[i].lane; ++end) {
      overlap |= all[end].from < to;
      to = std::max(to, all[end].to);
    }
    if (!overlap) {
      out.insert(out.end(), all.begin() + i, all.begin() + end);
    } else {
      std::vector<int32_t> cuts;
      for (size_t k = i; k < end; ++k) cuts.insert(cuts.end(), {all[k].from, all[k].to});
      std::ranges::sort(cuts);
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        const Stint *first = nullptr, *second = nullptr;
        for (size_t k = i; k < end; ++k)
          if (all[k].from <= cuts[c] && all[k].to >= cuts[c + 1])
            (first == nullptr ? first : second) = &all[k];
        if (first == nullptr) continue;
        Stint piece = *first;
        piece.offset += cuts[c] - piece.from;
        piece.from = cuts[c];
        piece.to = cuts[c + 1];
        piece.job2 = second != nullptr ? second->job : -1;
        out.push_back(piece);
      }
    }
    i = end;
  }
  all = std::move(out);
}

}  // namespace flopwatch::simulate
