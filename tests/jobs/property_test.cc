// Properties over random histories, judged by a model that counts seconds on a grid instead of
// sweeping intervals.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

constexpr int kHorizon = 3000;  // seconds
constexpr int kEntities = 3;
constexpr int kStillRunning = kHorizon + 500;  // an assignment without an end
const std::vector<std::string> kKeys = {"a", "b", "c"};

struct Sample {
  int32_t entity = 0;
  int ts = 0, span = 0;
  std::vector<std::string> jobs;
};
struct Fixed {
  int32_t entity = 0;
  std::string job;
  int from = 0, to = 0;
};

std::vector<Sample> Samples() {
  std::vector<Sample> out;
  for (int32_t entity = 1; entity <= kEntities; ++entity) {
    int t = *rc::gen::inRange(1, 200);
    while (t < kHorizon) {
      Sample s;
      s.entity = entity;
      const int step =
          *rc::gen::weightedElement<int>({{8, 10}, {4, 30}, {2, 60}, {1, 155}, {1, 170}, {1, 400}});
      t += step;
      s.ts = t;
      s.span = step > 90 ? 0 : step;
      s.jobs = *rc::gen::weightedElement<std::vector<std::string>>(
          {{4, {"a"}}, {3, {"b"}}, {2, {}}, {2, {"a", "b"}}, {1, {"a", "b", "c"}}});
      out.push_back(s);
    }
  }
  return out;
}

std::vector<Fixed> Fixeds() {
  std::vector<Fixed> out;
  const int n = *rc::gen::inRange(0, 5);
  for (int k = 0; k < n; ++k) {
    Fixed f;
    f.entity = *rc::gen::inRange(1, kEntities + 1);
    f.job = *rc::gen::elementOf(kKeys);
    f.from = *rc::gen::inRange(0, kHorizon - 1);
    f.to = *rc::gen::weightedOneOf<int>(
        {{3, rc::gen::inRange(f.from + 1, kHorizon)}, {1, rc::gen::just(kStillRunning)}});
    out.push_back(f);
  }
  return out;
}

// owners[entity][second] = jobs that own it.
using Grid = std::vector<std::vector<std::set<std::string>>>;

Grid Model(const std::vector<Sample>& samples, const std::vector<Fixed>& fixeds) {
  Grid labels(kEntities + 1, std::vector<std::set<std::string>>(kStillRunning));
  Grid fixed = labels;
  for (int32_t entity = 1; entity <= kEntities; ++entity) {
    for (const std::string& key : kKeys) {
      // Spans of this job in order of time; a gap of at most 150 s is filled.
      std::vector<std::pair<int, int>> spans;
      for (const Sample& s : samples) {
        if (s.entity == entity && std::count(s.jobs.begin(), s.jobs.end(), key) > 0)
          spans.emplace_back(s.ts - s.span, s.ts);
      }
      std::sort(spans.begin(), spans.end());
      for (size_t k = 0; k < spans.size(); ++k) {
        const bool near = k > 0 && spans[k].first - spans[k - 1].second <= 150;
        for (int t = near ? std::min(spans[k].first, spans[k - 1].second) : spans[k].first;
             t < spans[k].second; ++t) {
          labels[entity][t].insert(key);
        }
      }
    }
  }
  // Labels count only within the time the static file gives their job, whatever the GPU.
  std::map<std::string, std::pair<int, int>> runs;
  for (const Fixed& f : fixeds) {
    auto& run = runs.try_emplace(f.job, f.from, f.to).first->second;
    run = {std::min(run.first, f.from), std::max(run.second, f.to)};
    for (int t = f.from; t < f.to; ++t) fixed[f.entity][t].insert(f.job);
  }
  for (int32_t entity = 1; entity <= kEntities; ++entity) {
    for (size_t t = 0; t < labels[entity].size(); ++t) {
      for (const auto& [job, run] : runs) {
        if (static_cast<int>(t) < run.first || static_cast<int>(t) >= run.second)
          labels[entity][t].erase(job);
      }
      if (!fixed[entity][t].empty()) labels[entity][t] = fixed[entity][t];
    }
  }
  return labels;
}

void Feed(JobIndex& index, const std::vector<Sample>& samples) {
  for (const Sample& s : samples) {
    std::vector<telemetry::OwnerLabels> owners;
    for (const std::string& job : s.jobs) owners.push_back(Slurm(job));
    Show(index, s.entity, s.ts, s.span, owners);
  }
}

void Bind(JobIndex& index, const std::vector<Fixed>& fixeds) {
  for (int32_t entity = 1; entity <= kEntities; ++entity)
    index.BindEntity(entity, Gpu("G" + std::to_string(entity)), {});
  std::vector<StaticAssignment> all;
  for (const Fixed& f : fixeds) {
    all.push_back(
        Assign("G" + std::to_string(f.entity), f.job, f.from, f.to == kStillRunning ? -1 : f.to));
  }
  index.SetStatic(all);
}

void CheckAgainst(const JobIndex& index, const Grid& grid, int from, int to) {
  std::map<std::string, double> expected;
  double owned = 0;
  for (const auto& entity : grid) {
    for (int t = from; t < to && t < static_cast<int>(entity.size()); ++t) {
      for (const std::string& job : entity[t])
        expected[job] += 1.0 / static_cast<double>(entity[t].size());
      owned += entity[t].empty() ? 0 : 1;
    }
  }
  const auto actual = GpuSecondsOf(index, from, to);
  double sum = 0;
  for (const auto& [job, seconds] : actual) {
    RC_ASSERT(std::abs(seconds - expected[job]) < 1e-6);
    sum += seconds;
  }
  RC_ASSERT(actual.size() == expected.size());
  RC_ASSERT(std::abs(sum - owned) < 1e-6);  // every owned GPU-second once
  for (int32_t entity = 1; entity <= kEntities; ++entity) {
    const int t = *rc::gen::inRange(1, kHorizon);
    const auto keys = KeysOf(index, index.Lookup(entity, At(t)));
    RC_ASSERT(std::set<std::string>(keys.begin(), keys.end()) == grid[entity][t - 1]);
  }
}

RC_GTEST_PROP(JobIndexProperty, GpuSecondsAreTheGridsCount, ()) {
  const auto samples = Samples();
  const auto fixeds = Fixeds();
  JobIndex index;
  const bool fixed_first = *rc::gen::arbitrary<bool>();
  if (fixed_first) Bind(index, fixeds);
  Feed(index, samples);
  if (!fixed_first) Bind(index, fixeds);
  const Grid grid = Model(samples, fixeds);
  const int from = *rc::gen::inRange(0, kHorizon);
  const int to = *rc::gen::inRange(from, kHorizon + 400);
  CheckAgainst(index, grid, 0, kHorizon + 400);
  CheckAgainst(index, grid, from, to);
  // Any split of a window adds up.
  const int middle = *rc::gen::inRange(from, to + 1);
  auto left = GpuSecondsOf(index, from, middle);
  for (const auto& [job, s] : GpuSecondsOf(index, middle, to)) left[job] += s;
  for (const auto& [job, s] : GpuSecondsOf(index, from, to))
    RC_ASSERT(std::abs(left[job] - s) < 1e-6);
}

// Windows near the newest sample, asked while samples come in: what the live pages do.
RC_GTEST_PROP(JobIndexProperty, LiveWindowsAreTheGridsCount, ()) {
  auto samples = Samples();
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& a, const Sample& b) { return a.ts < b.ts; });
  const auto fixeds = Fixeds();
  JobIndex index;
  Bind(index, fixeds);
  std::vector<Sample> fed;
  for (const Sample& sample : samples) {
    Feed(index, {sample});
    fed.push_back(sample);
    if (*rc::gen::weightedElement<int>({{9, 0}, {1, 1}}) == 0) continue;
    const int from = std::max(0, sample.ts - *rc::gen::inRange(0, 400));
    CheckAgainst(index, Model(fed, fixeds), from, sample.ts + 1);
  }
}

RC_GTEST_PROP(JobIndexProperty, IntervalsOfOneJobAreThoseAmongAll, ()) {
  JobIndex index;
  Bind(index, Fixeds());
  Feed(index, Samples());
  const int from = *rc::gen::inRange(0, kHorizon);
  const int to = *rc::gen::inRange(from, kHorizon + 400);
  std::vector<IntervalRecord> joined;
  for (const JobRecord& job : index.AllJobs()) {
    const auto of_job = index.Intervals(At(from), At(to), job.id);
    joined.insert(joined.end(), of_job.begin(), of_job.end());
  }
  const auto less = [](const IntervalRecord& a, const IntervalRecord& b) {
    return std::tie(a.entity, a.from, a.id) < std::tie(b.entity, b.from, b.id);
  };
  std::sort(joined.begin(), joined.end(), less);
  std::vector<IntervalRecord> of_entities;
  for (int32_t entity = 1; entity <= kEntities; ++entity) {
    auto own = index.EntityIntervals(entity, At(from), At(to));
    std::sort(own.begin(), own.end(), less);
    of_entities.insert(of_entities.end(), own.begin(), own.end());
  }
  RC_ASSERT(of_entities == joined);
  RC_ASSERT(joined == index.Intervals(At(from), At(to)));
}

// Ids that lie beside each other, and at both sides of where the index keeps entities apart.
const std::vector<int32_t> kIds = {1,   2,   3,    4,    62,   63,   64,   65,
                                   127, 128, 4094, 4095, 4096, 4097, 4160, 9000};

// Who owned what: the same, said by entity or by neighbours that are alike.
RC_GTEST_PROP(JobIndexProperty, OwnedByNeighboursIsOwnedByEach, ()) {
  JobIndex index;
  // Few histories, so that neighbours are alike more often than not.
  const std::vector<std::vector<Sample>> histories = {Samples(), Samples()};
  for (const int32_t id : kIds) {
    const auto history = *rc::gen::inRange<size_t>(0, histories.size() + 1);
    if (history == histories.size()) continue;  // nobody's
    const int32_t like = *rc::gen::inRange(1, kEntities);
    for (Sample s : histories[history]) {
      if (s.entity != like) continue;
      s.entity = id;
      Feed(index, {s});
    }
  }
  Bind(index, Fixeds());
  const int from = *rc::gen::inRange(0, kHorizon);
  const int to = *rc::gen::inRange(from, kHorizon + 400);
  using Seconds = std::map<std::pair<int32_t, int32_t>, std::set<Micros>>;  // by entity and job
  const auto add = [](int32_t entity, int32_t job, Micros begin, Micros end, Seconds* out) {
    for (Micros t = begin; t < end; t += kMicrosPerSecond) (*out)[{entity, job}].insert(t);
  };
  Seconds of_each, of_neighbours;
  for (const IntervalRecord& i : index.Intervals(At(from), At(to)))
    add(i.entity, i.job, std::max(i.from, At(from)), std::min(i.to, At(to)), &of_each);
  std::set<int32_t> seen;
  index.ForEachOwned(
      At(from), At(to),
      [&](absl::Span<const int32_t> entities, absl::Span<const OwnedStretch> stretches) {
        Micros last = At(from);
        for (const OwnedStretch& s : stretches) {
          RC_ASSERT(s.from >= last && s.to > s.from && s.to <= At(to));
          last = s.to;
          RC_ASSERT(!s.jobs.empty() && std::is_sorted(s.jobs.begin(), s.jobs.end()));
          for (const int32_t entity : entities)
            for (const int32_t job : s.jobs) add(entity, job, s.from, s.to, &of_neighbours);
        }
        for (const int32_t entity : entities) RC_ASSERT(seen.insert(entity).second);
      });
  RC_ASSERT(of_each == of_neighbours);
  const OwnedTimes kept = index.Owned(At(from), At(to), 1'000'000).value();
  const size_t stretches = kept.stretches();
  RC_ASSERT(stretches == 0 || !index.Owned(At(from), At(to), stretches - 1).has_value());
  RC_ASSERT(index.Owned(At(from), At(to), stretches).has_value());
  Seconds of_kept;
  kept.ForEach([&](absl::Span<const int32_t> entities, absl::Span<const OwnedStretch> stretches) {
    for (const OwnedStretch& s : stretches)
      for (const int32_t entity : entities)
        for (const int32_t job : s.jobs) add(entity, job, s.from, s.to, &of_kept);
  });
  RC_ASSERT(of_each == of_kept);
  const auto seconds = index.GpuSecondsByJob(At(from), At(to)), of_it = kept.SecondsByJob();
  RC_ASSERT(seconds.size() == of_it.size());
  for (size_t k = 0; k < of_it.size(); ++k) {
    RC_ASSERT(seconds[k].job == of_it[k].job);
    RC_ASSERT(std::abs(seconds[k].gpu_seconds - of_it[k].gpu_seconds) < 1e-6);
  }
}

RC_GTEST_PROP(JobIndexProperty, OrderOfArrivalDoesNotMatter, ()) {
  const auto samples = Samples();
  auto shuffled = samples;
  const auto keys =
      *rc::gen::container<std::vector<uint32_t>>(samples.size(), rc::gen::arbitrary<uint32_t>());
  std::vector<size_t> order(samples.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tie(keys[a], a) < std::tie(keys[b], b); });
  for (size_t k = 0; k < order.size(); ++k) shuffled[k] = samples[order[k]];
  JobIndex in_order, out_of_order;
  Feed(in_order, samples);
  Feed(out_of_order, shuffled);
  auto a = Lines(in_order), b = Lines(out_of_order);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  RC_ASSERT(a == b);
}

// What the store was told, at whatever moments, gives the same index back.
RC_GTEST_PROP(JobIndexProperty, StoreRoundTrip, ()) {
  const auto samples = Samples();
  const auto fixeds = Fixeds();
  std::map<int32_t, JobRecord> jobs;
  std::map<int64_t, IntervalRecord> intervals;
  std::map<int32_t, JobSetRecord> sets;
  JobIndex index;
  const auto take = [&](bool shutdown) {
    const Changes c = index.TakeChanges(shutdown);
    for (const auto& r : c.jobs) jobs[r.id] = r;
    for (const auto& r : c.intervals) intervals[r.id] = r;
    for (const auto& r : c.sets) sets[r.id] = r;
  };
  const int bind_at = *rc::gen::inRange(0, static_cast<int>(samples.size()));
  for (size_t k = 0; k < samples.size(); ++k) {
    if (static_cast<int>(k) == bind_at) Bind(index, fixeds);
    Feed(index, {samples[k]});
    if (*rc::gen::weightedElement<int>({{9, 0}, {1, 1}}) == 1) take(false);
  }
  take(true);
  std::vector<JobRecord> j;
  std::vector<IntervalRecord> i;
  std::vector<JobSetRecord> s;
  for (const auto& [id, r] : jobs) j.push_back(r);
  for (const auto& [id, r] : intervals) i.push_back(r);
  for (const auto& [id, r] : sets) s.push_back(r);
  JobIndex again;
  again.Load(j, i, s);
  RC_ASSERT(Lines(again) == Lines(index));
  RC_ASSERT(GpuSecondsOf(again, 0, kHorizon + 400) == GpuSecondsOf(index, 0, kHorizon + 400));
}

}  // namespace
}  // namespace flopwatch::jobs
