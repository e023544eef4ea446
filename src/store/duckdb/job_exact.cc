#include "store/duckdb/job_exact.h"

#include <limits>
#include <utility>

#include "jobs/interval_list.h"

namespace flopwatch::store::duck {

JobExact::JobExact(Window window, std::vector<jobs::IntervalRecord> intervals,
                   const absl::flat_hash_map<int32_t, double>& weights)
    : window_(window) {
  IdOf({0});
  int32_t largest = 0;
  for (const auto& v : intervals) largest = std::max(largest, v.entity);
  for (const auto& [entity, weight] : weights) largest = std::max(largest, entity);
  gpus_.resize(static_cast<size_t>(largest) + 2);
  for (const auto& [entity, weight] : weights)
    if (entity >= 0) gpus_[static_cast<size_t>(entity)].fraction = weight;
  std::sort(intervals.begin(), intervals.end(),
            [](const auto& a, const auto& b) { return a.entity < b.entity; });
  jobs::SweepScratch scratch;
  for (size_t at = 0; at < intervals.size();) {
    size_t end = at + 1;
    while (end < intervals.size() && intervals[end].entity == intervals[at].entity) ++end;
    if (intervals[at].entity < 0) {
      at = end;
      continue;
    }
    Gpu& gpu = gpus_[static_cast<size_t>(intervals[at].entity)];
    const jobs::IntervalRecord& first = intervals[at];
    if (end == at + 1 && first.from <= window.from && first.to >= window.to) {
      gpu.owners = IdOf({first.job});
      at = end;
      continue;
    }
    jobs::IntervalList list;
    for (; at < end; ++at) {
      const auto& v = intervals[at];
      list.Insert({.id = v.id, .from = v.from, .to = v.to, .job = v.job, .source = v.source});
    }
    gpu.begin = static_cast<uint32_t>(stretches_.size());
    Micros covered = window.from;
    list.Sweep(window.from, window.to, {}, &scratch, [&](const jobs::Stretch& s) {
      if (s.from > covered) stretches_.push_back({covered, s.from, 0});
      std::vector<int32_t> jobs;
      for (const jobs::Interval* owner : s.owners) jobs.push_back(owner->job);
      const OwnersId owners = IdOf(std::move(jobs));
      // A rank changed, or a source: the owners go on.
      if (stretches_.size() > gpu.begin && stretches_.back().to == s.from &&
          stretches_.back().owners == owners) {
        stretches_.back().to = s.to;
      } else {
        stretches_.push_back({s.from, s.to, owners});
      }
      covered = s.to;
    });
    if (covered < window.to) stretches_.push_back({covered, window.to, 0});
    gpu.count = static_cast<uint32_t>(stretches_.size()) - gpu.begin;
    if (gpu.count == 1) {
      gpu.owners = stretches_.back().owners;
      stretches_.pop_back();
      gpu.count = 0;
    }
  }
  plain_.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_)
    plain_.push_back(gpu.count == 0 && gpu.fraction == 1 ? gpu.owners : kNotPlain);
  plain_.back() = kNotPlain;
}

JobExact::OwnersId JobExact::IdOf(std::vector<int32_t> jobs) {
  const auto [it, added] = ids_.emplace(std::move(jobs), static_cast<OwnersId>(owners_.size()));
  if (added) owners_.push_back(it->first);
  return it->second;
}

JobExact::Part* JobExact::OwnPart() {
  MutexLock lock(mutex_);
  std::unique_ptr<Part>& part = parts_[std::this_thread::get_id()];
  if (part == nullptr) {
    part = std::make_unique<Part>();
    part->last.resize(owners_.size());
    part->seen.resize(gpus_.size());
  }
  return part.get();
}

RawState* JobExact::Part::Of(OwnersId owners, int32_t model) {
  Slot& slot = last[owners];
  if (slot.model == model) return slot.state;
  std::unique_ptr<RawState>& state = sums[(uint64_t{owners} << 32) | static_cast<uint32_t>(model)];
  if (state == nullptr) state = std::make_unique<RawState>();
  slot = {model, state.get()};
  return slot.state;
}

void JobExact::AddSlow(const RawColumns& in, size_t row, int32_t entity, int32_t model,
                       Part* part) const {
  const size_t index = IndexOf(entity);
  const Gpu& gpu = gpus_[index];
  const Micros ts = in.ts[row], begin = ts - in.span_ms.data[row] * kMicrosPerMilli;
  const auto add = [&](const Stretch& s) {
    if (ts <= s.from || begin >= s.to) return false;
    const double ms =
        static_cast<double>(std::min(ts, s.to) - std::max(begin, s.from)) / kMicrosPerMilli;
    AddRow(in, row, ms, gpu.fraction, efficiency::CountedFor::kFleet, part->Of(s.owners, model));
    return true;
  };
  const auto see_with = [&](OwnersId owners) {
    part->seen_with.insert((static_cast<uint64_t>(static_cast<uint32_t>(entity)) << 32) | owners);
  };
  if (gpu.count == 0) {
    if (!add({window_.from, window_.to, gpu.owners})) return;
    index + 1 < gpus_.size() ? void(part->seen[index] = 1) : see_with(gpu.owners);
    return;
  }
  for (uint32_t k = gpu.begin; k < gpu.begin + gpu.count; ++k)
    if (add(stretches_[k])) see_with(stretches_[k].owners);
}

void JobExact::Rows(const RawColumns& in, const int32_t* entity, const int32_t* model) {
  Part* part = OwnPart();
  OwnersId owners[64];
  for (size_t first = 0; first < in.rows; first += 64) {
    const size_t n = std::min<size_t>(64, in.rows - first);
    // Rows that count whole, for one set of owners, and have nothing special about them.
    uint64_t plain = RegularRows(in, first);
    Micros earliest = std::numeric_limits<Micros>::max(),
           latest = std::numeric_limits<Micros>::min();
    int32_t longest = 0;
    for (size_t row = first; row < first + n; ++row) {
      earliest = std::min(earliest, in.ts[row]);
      latest = std::max(latest, in.ts[row]);
      longest = std::max(longest, in.span_ms.data[row]);
    }
    const bool all_inside = earliest - longest * kMicrosPerMilli >= window_.from &&
                            earliest > window_.from && latest < window_.to;
    for (size_t i = 0; i < n; ++i) {
      owners[i] = plain_[IndexOf(entity[first + i])];
      plain &= ~(uint64_t{owners[i] == kNotPlain} << i);
    }
    for (size_t i = 0; i < n && !all_inside; ++i) {
      const Micros ts = in.ts[first + i], begin = ts - in.span_ms.data[first + i] * kMicrosPerMilli;
      const bool inside =
          begin >= window_.from && ts > window_.from && ts <= window_.to && begin < window_.to;
      plain &= ~(uint64_t{!inside} << i);
    }
    for (size_t i = 0; i < n;) {
      const size_t row = first + i;
      if (((plain >> i) & 1) == 0) {
        AddSlow(in, row, entity[row], model[row], part);
        ++i;
        continue;
      }
      size_t end = i;
      do {
        part->seen[static_cast<size_t>(entity[first + end])] = 1;
        ++end;
      } while (end < n && ((plain >> end) & 1) != 0 && owners[end] == owners[i] &&
               model[first + end] == model[row]);
      AddRegular(in, row, first + end, 1, part->Of(owners[i], model[row]));
      i = end;
    }
  }
}

void JobExact::Finish(
    const std::function<void(int32_t job, int32_t model, double share, const RawState&)>& f) {
  MutexLock lock(mutex_);  // nobody is left to wait for; it says that parts_ is read
  all_.last.resize(owners_.size());
  all_.seen.resize(gpus_.size());
  for (const auto& [thread, part] : parts_) {
    for (const auto& [key, state] : part->sums) {
      all_.Of(static_cast<OwnersId>(key >> 32), static_cast<int32_t>(key & 0xffffffff))
          ->Add(*state);
    }
    for (size_t e = 0; e < part->seen.size(); ++e) all_.seen[e] |= part->seen[e];
    all_.seen_with.insert(part->seen_with.begin(), part->seen_with.end());
  }
  parts_.clear();
  for (const auto& [key, state] : all_.sums) {
    const std::vector<int32_t>& owners = owners_[key >> 32];
    for (const int32_t job : owners) {
      f(job, static_cast<int32_t>(key & 0xffffffff), 1.0 / static_cast<double>(owners.size()),
        *state);
    }
  }
}

std::map<int32_t, int32_t> JobExact::Gpus() const {
  std::map<int32_t, int32_t> gpus;
  for (size_t e = 0; e < all_.seen.size(); ++e) {
    if (all_.seen[e] == 0) continue;
    for (const int32_t job : owners_[gpus_[e].owners]) ++gpus[job];
  }
  absl::flat_hash_set<uint64_t>
      counted;  // entity and job: a GPU that a job had alone and then shared is one
  for (const uint64_t key : all_.seen_with) {
    for (const int32_t job : owners_[key & 0xffffffff]) {
      if (counted.insert((key & ~uint64_t{0xffffffff}) | static_cast<uint32_t>(job)).second)
        ++gpus[job];
    }
  }
  return gpus;
}

}  // namespace flopwatch::store::duck
