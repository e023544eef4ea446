#include "ingest/live.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "base/prefetch.h"
#include "efficiency/accounting.h"
#include "ingest/chunked_table.h"
#include "ingest/registry.h"

namespace flopwatch::ingest {
namespace {

using efficiency::ToUsage;
using store::UsageSums;

constexpr Micros kFineSlot = 10 * kMicrosPerSecond;
constexpr Micros kCoarseSlot = kMicrosPerMinute;
constexpr int kShards = 16;
constexpr size_t kTidySets = 4096;  // fewer sets of jobs are not worth looking for those in use

// The sums of one slot: totals since start, so that a window is end minus start. A double holds a
// year of 100k GPU-seconds a second to better than a millisecond.
using Sums = efficiency::PerSum<double>;

// What one row adds.
Sums Contribution(const LiveRow& row) {
  const GpuNow& now = row.now;
  const efficiency::StampedRow stamped = {.flags = now.flags,
                                          .span = row.span_s,
                                          .fraction = row.fraction,
                                          .work = now.ofu,
                                          .tensor_active = now.tensor_active,
                                          .sm_clock_mhz = now.sm_clock_mhz,
                                          .sm_active = now.sm_active,
                                          .sm_occupancy = now.sm_occupancy,
                                          .gpu_util = now.gpu_util,
                                          .power_w = now.power_w};
  Sums sums{};
  efficiency::Account(stamped, efficiency::Work::kOfu, efficiency::CountedFor::kFleet,
                      [&](efficiency::UsageSum sum, double v) { sums[sum] = v; });  // each once
  return sums;
}

template <typename To, typename From>
void AddTo(To* total, const From& delta) {
  for (size_t i = 0; i < delta.size(); ++i)
    (*total)[i] += static_cast<typename To::value_type>(delta[i]);
}

// Totals at the end of each of the last N slots.
template <int N, Micros kSlot>
class Ring {
 public:
  static int64_t SlotOf(Micros t) { return FloorTo(t, kSlot) / kSlot; }

  void Add(Micros ts, const Sums& delta) {
    const int64_t slot = SlotOf(ts);
    if (last_ == kNever) {
      first_ = last_ = slot;
    } else if (slot > last_) {
      const Sums total = At(last_);
      const int64_t from = std::max(last_ + 1, slot - N + 1);
      for (int64_t s = from; s <= slot; ++s) slots_[Index(s)] = total;
      last_ = slot;
    }
    // A late row changes every total from its slot on; one older than the ring takes the oldest.
    for (int64_t s = std::max(slot, last_ - N + 1); s <= last_; ++s)
      AddTo(&slots_[Index(s)], delta);
    first_ = std::min(first_, slot);
  }

  // Sums of slots (base, end].
  Sums Difference(int64_t base, int64_t end) const {
    Sums out{};
    if (last_ == kNever || last_ <= base || end < first_) return out;
    out = At(std::min(end, last_));
    if (base >= first_) {
      const Sums& start = At(std::max(base, last_ - N + 1));
      for (size_t i = 0; i < out.size(); ++i) out[i] -= start[i];
    }
    return out;
  }
  void Prefetch(int64_t base) const {
    if (last_ == kNever || last_ <= base) return;
    PrefetchToRead(&At(last_), sizeof(Sums));
    if (base >= first_) PrefetchToRead(&At(std::max(base, last_ - N + 1)), sizeof(Sums));
  }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  static size_t Index(int64_t slot) { return static_cast<size_t>(((slot % N) + N) % N); }
  const Sums& At(int64_t slot) const { return slots_[Index(slot)]; }

  int64_t first_ = kNever, last_ = kNever;
  std::array<Sums, N> slots_{};
};

class Accumulator {
 public:
  void Add(Micros ts, const Sums& delta) {
    fine_.Add(ts, delta);
    coarse_.Add(ts, delta);
    first_ = first_ == 0 ? ts : std::min(first_, ts);
    last_ = std::max(last_, ts);
  }
  // Forgets all but that there was something by `now`.
  void StepBack(Micros now) {
    *this = Accumulator();
    last_ = now;
  }
  // Sums from `start` (a slot boundary of the tier) on.
  UsageSums Since(Micros start, bool fine) const {
    constexpr int64_t kEnd = INT64_MAX;
    UsageSums u = ToUsage(fine ? fine_.Difference(start / kFineSlot - 1, kEnd)
                               : coarse_.Difference(start / kCoarseSlot - 1, kEnd));
    if (u.ofu.samples > 0) {
      u.first_ts = std::max(first_, start);
      u.last_ts = last_;
    }
    return u;
  }
  void Prefetch(Micros start, bool fine) const {
    fine ? fine_.Prefetch(start / kFineSlot - 1) : coarse_.Prefetch(start / kCoarseSlot - 1);
  }
  // Sums of the minute that starts at `start`.
  UsageSums Minute(Micros start) const {
    const int64_t slot = start / kCoarseSlot;
    return ToUsage(coarse_.Difference(slot - 1, slot));
  }
  Micros last() const { return last_; }

 private:
  Micros first_ = 0, last_ = 0;
  Ring<kFineWindow / kFineSlot + 6, kFineSlot>
      fine_;  // six slots deeper than the window: room for late rows
  Ring<kLongestWindow / kCoarseSlot + 3, kCoarseSlot> coarse_;
};

// One GPU by slots of kGpuSlot, while it keeps its job set. Single precision: there are a hundred
// thousand of them, and a slot holds five minutes.
class GpuHistory {
 public:
  void Add(const LiveRow& row, const Sums& delta) {
    const Micros ts = row.now.ts;
    if (since_ == 0 || row.now.job_set != job_set_) {
      if (since_ != 0 && ts < last_) return;  // a late row of an earlier owner
      *this = GpuHistory();
      job_set_ = row.now.job_set;
      const bool frozen = (row.now.flags & efficiency::kFrozen) != 0;
      since_ = frozen ? ts : ts - static_cast<Micros>(row.span_s * kMicrosPerSecond);
      last_slot_ = ts / kGpuSlot;
    }
    const int64_t slot = ts / kGpuSlot;
    for (int64_t s = std::max(last_slot_ + 1, slot - kSlots + 1); s <= slot; ++s)
      slots_[s % kSlots] = {};
    last_slot_ = std::max(last_slot_, slot);
    if (slot <= last_slot_ - kSlots) return;  // older than what is kept
    last_ = std::max(last_, ts);
    // The slots are in the entity's own seconds: the row's are its share of the GPU.
    const bool whole = row.fraction == 1 || row.fraction <= 0;
    AddTo(&slots_[slot % kSlots], whole ? delta : efficiency::OfGpu(delta, 1 / row.fraction));
  }
  std::optional<LiveState::GpuWindow> Since(int32_t job_set, Micros from) const {
    if (since_ == 0 || job_set != job_set_) return std::nullopt;
    Sums total{};
    for (int64_t s =
             std::max(FloorTo(from + kGpuSlot - 1, kGpuSlot) / kGpuSlot, last_slot_ - kSlots + 1);
         s <= last_slot_; ++s)
      AddTo(&total, slots_[s % kSlots]);
    LiveState::GpuWindow out{.since = since_, .sums = ToUsage(total)};
    if (out.sums.ofu.samples > 0) {
      out.sums.first_ts = std::max(since_, FloorTo(from + kGpuSlot - 1, kGpuSlot));
      out.sums.last_ts = last_;
    }
    return out;
  }

  // Forgets what it has of a time after `now`; whose the GPU is stays, since now at the latest.
  void StepBack(Micros now) {
    if (since_ == 0 || last_ <= now) return;
    since_ = std::min(since_, now);
    last_ = now;
    last_slot_ = now / kGpuSlot;
    slots_ = {};
  }
  Micros last() const { return last_; }

  // Where a row writes.
  static constexpr size_t kHeadBytes = 32, kSlotBytes = sizeof(efficiency::PerSum<float>);
  static size_t OffsetOf(Micros ts) {
    return kHeadBytes + static_cast<size_t>(FloorTo(ts, kGpuSlot) / kGpuSlot % kSlots) * kSlotBytes;
  }

 private:
  static constexpr int64_t kSlots = kLongestWindow / kGpuSlot + 1;
  int32_t job_set_ = 0;
  Micros since_ = 0, last_ = 0;  // since_ 0 = no row yet
  int64_t last_slot_ = 0;
  std::array<efficiency::PerSum<float>, kSlots> slots_{};
};
static_assert(sizeof(GpuHistory) >=
              GpuHistory::kHeadBytes + (kLongestWindow / kGpuSlot + 1) * GpuHistory::kSlotBytes);

struct FleetShard {
  mutable Mutex mutex;
  absl::flat_hash_map<int32_t, std::unique_ptr<Accumulator>> by_model FW_GUARDED_BY(mutex);
};

// Who has the job outlives its sums: a GPU that comes back after hours of silence, with the job it
// had, is counted already.
struct JobWindow {
  int32_t gpus = 0;                   // entities whose latest row names the job
  std::unique_ptr<Accumulator> sums;  // null once the job had no row for an hour
};
struct JobShard {
  mutable Mutex mutex;
  absl::flat_hash_map<int32_t, JobWindow> jobs FW_GUARDED_BY(mutex);
};

}  // namespace

struct LiveState::Impl {
  explicit Impl(int32_t last_entity)
      : gpus(last_entity), history(last_entity), gpu_seen(last_entity) {}

  ChunkedTable<GpuNow> gpus;
  ChunkedTable<GpuHistory> history;
  ChunkedTable<Micros> gpu_seen;  // latest rows of whole GPUs: counted often
  std::array<FleetShard, kShards> fleet;
  std::array<JobShard, kShards> jobs;
  struct KnownSet {
    std::vector<int32_t> members;
    bool unnamed = false;  // by any latest row, when ForgetSets() looked last
  };
  mutable SharedMutex sets_mutex;
  // `sets` has the members of the job sets seen here.
  absl::flat_hash_map<int32_t, KnownSet> sets FW_GUARDED_BY(sets_mutex);
  size_t tidy_sets_at FW_GUARDED_BY(sets_mutex) = kTidySets;
  std::atomic<Micros> newest{0}, oldest{0};
  Mutex stepping;  // held while windows begin anew; before the others

  JobShard& ShardOf(int32_t job) { return jobs[static_cast<uint32_t>(job) % kShards]; }

  void LearnSet(int32_t set, absl::Span<const int32_t> members) {
    if (set == 0) return;
    {
      ReaderLock lock(sets_mutex);
      if (sets.contains(set)) return;
    }
    WriterLock lock(sets_mutex);
    sets.emplace(set, KnownSet{{members.begin(), members.end()}});
  }

  // Sets that no latest row names are asked for no more. Two looks at least a minute apart have to
  // find that: a row that is being noted asks for the set that it replaces. A row that comes
  // between looking and erasing learns its own set when it has been noted.
  void ForgetSets() {
    WriterLock lock(sets_mutex);
    if (sets.size() < tidy_sets_at) return;
    absl::flat_hash_set<int32_t> named;
    gpus.ForEach([&](const GpuNow& g) {
      if (g.job_set != 0) named.insert(g.job_set);
    });
    absl::erase_if(sets, [&](auto& entry) {
      const bool unnamed = !named.contains(entry.first);
      return std::exchange(entry.second.unnamed, unnamed) && unnamed;
    });
    if (sets.capacity() > 8 * sets.size()) sets.rehash(0);
    tidy_sets_at = std::max(kTidySets, 2 * named.size());
  }

  std::vector<int32_t> Members(int32_t set) const {
    ReaderLock lock(sets_mutex);
    const auto it = sets.find(set);
    return it == sets.end() ? std::vector<int32_t>{} : it->second.members;
  }

  void CountGpu(int32_t job, int32_t by) {
    JobShard& shard = ShardOf(job);
    MutexLock lock(shard.mutex);
    const auto it = shard.jobs.try_emplace(job).first;
    it->second.gpus += by;
    if (it->second.gpus == 0 && it->second.sums == nullptr) shard.jobs.erase(it);
  }

  void AddToJob(int32_t job, Micros ts, const Sums& delta) {
    JobShard& shard = ShardOf(job);
    MutexLock lock(shard.mutex);
    auto& sums = shard.jobs[job].sums;
    if (sums == nullptr) sums = std::make_unique<Accumulator>();
    sums->Add(ts, delta);
  }

  // Adds what rows with this one's time, jobs and model come to.
  void AddToSums(const LiveRow& row, const Sums& delta) {
    const GpuNow& now = row.now;
    if (row.jobs.empty()) {
      AddToJob(0, now.ts, delta);
    } else if (row.jobs.size() == 1) {
      AddToJob(row.jobs[0], now.ts, delta);
    } else {
      const Sums part = efficiency::OfJob(delta, 1.0 / static_cast<double>(row.jobs.size()));
      for (int32_t job : row.jobs) AddToJob(job, now.ts, part);
    }
    FleetShard& shard = fleet[static_cast<uint32_t>(now.entity) % kShards];
    MutexLock lock(shard.mutex);
    auto& accumulator = shard.by_model[now.model];
    if (accumulator == nullptr) accumulator = std::make_unique<Accumulator>();
    accumulator->Add(now.ts, delta);
  }

  void AddToHistory(const LiveRow& row, const Sums& delta) {
    history.With(row.now.entity, [&](GpuHistory& h) { h.Add(row, delta); });
  }

  // Keeps the latest row of the entity, and counts who has it.
  void NoteLatest(const LiveRow& row) {
    const GpuNow& now = row.now;
    bool first = false;
    const int32_t old_set = gpus.With(now.entity, [&](GpuNow& known) {
      first = known.ts == 0;
      const int32_t set = known.job_set;
      // What counts of a GPU goes on in time (claims.h), unless a clock was set back.
      if (now.ts >= known.ts || now.ts < known.ts - kClockStep) known = now;
      return set;
    });
    if (!now.instance)
      gpu_seen.With(now.entity, [&](Micros& seen) { seen = std::max(seen, now.ts); });
    if ((!first && old_set == now.job_set) || (now.flags & efficiency::kMigParent) != 0) return;
    const auto count = [&](absl::Span<const int32_t> jobs, int32_t by) {
      if (jobs.empty()) CountGpu(0, by);
      for (int32_t job : jobs) CountGpu(job, by);
    };
    LearnSet(now.job_set, row.jobs);  // it may have been forgotten since the first time
    if (!first) count(Members(old_set), -1);
    count(row.jobs, 1);
  }

  struct Start {
    Micros at = 0;
    bool fine = false;
  };
  Start StartOf(Micros from) const {
    const Micros newest = this->newest;
    const bool fine = from > FloorTo(newest, kFineSlot) - kFineWindow;
    const Micros slot = fine ? kFineSlot : kCoarseSlot;
    from = std::max(from, FloorTo(newest, slot) - kLongestWindow + 1);
    return {std::max<Micros>(0, FloorTo(from + slot - 1, slot)), fine};
  }
};

LiveState::LiveState(int32_t last_entity) : impl_(std::make_unique<Impl>(last_entity)) {}
LiveState::~LiveState() = default;

void LiveState::Update(absl::Span<const LiveRow> rows) {
  const auto known = [this](const LiveRow& row) {
    return row.now.entity >= 1 && impl_->gpus.Has(row.now.entity);
  };
  const auto together = [](const LiveRow& a, const LiveRow& b) {
    return a.now.ts == b.now.ts && a.now.job_set == b.now.job_set && a.now.model == b.now.model &&
           a.jobs == b.jobs;
  };
  Micros latest = 0, earliest = 0;
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    const LiveRow& head = rows[begin];
    end = begin + 1;
    if (!known(head)) continue;
    impl_->LearnSet(head.now.job_set, head.jobs);
    Sums total = Contribution(head);
    impl_->AddToHistory(head, total);
    for (; end < rows.size() && known(rows[end]) && together(head, rows[end]); ++end) {
      const Sums delta = Contribution(rows[end]);
      impl_->AddToHistory(rows[end], delta);
      AddTo(&total, delta);
    }
    impl_->AddToSums(head, total);
    for (const LiveRow& row : rows.subspan(begin, end - begin)) impl_->NoteLatest(row);
    latest = std::max(latest, head.now.ts);
    earliest = earliest == 0 ? head.now.ts : std::min(earliest, head.now.ts);
  }
  if (earliest == 0) return;
  Micros newest = impl_->newest.load(std::memory_order_relaxed);
  while (newest < latest && !impl_->newest.compare_exchange_weak(newest, latest)) {
  }
  Micros oldest = impl_->oldest.load(std::memory_order_relaxed);
  while ((oldest == 0 || earliest < oldest) &&
         !impl_->oldest.compare_exchange_weak(oldest, earliest)) {
  }
}

void LiveState::StepBack(Micros now) {
  const MutexLock stepping(impl_->stepping);
  if (newest() <= now + kClockStep) return;  // another thread has done it
  for (FleetShard& shard : impl_->fleet) {
    MutexLock lock(shard.mutex);
    for (auto& [model, accumulator] : shard.by_model) accumulator->StepBack(now);
  }
  for (JobShard& shard : impl_->jobs) {
    MutexLock lock(shard.mutex);
    // The number of GPUs that have the job stays true, so only the sums go back.
    for (auto& [job, window] : shard.jobs) {
      if (window.sums != nullptr) window.sums->StepBack(now);
    }
  }
  std::vector<int32_t> ahead;
  impl_->gpus.ForEach([&](const GpuNow& g) {
    if (g.ts > now) ahead.push_back(g.entity);
  });
  for (const int32_t entity : ahead) {
    impl_->gpus.With(entity, [&](GpuNow& known) { known.ts = std::min(known.ts, now); });
    impl_->gpu_seen.With(entity, [&](Micros& seen) { seen = std::min(seen, now); });
    impl_->history.With(entity, [&](GpuHistory& h) { h.StepBack(now); });
  }
  impl_->oldest = 0;
  impl_->newest = 0;
}

void LiveState::Prefetch(int32_t entity, Micros ts) const {
  if (ts <= 0) return;
  impl_->gpus.Prefetch(entity, sizeof(GpuNow));
  impl_->history.Prefetch(entity, GpuHistory::kHeadBytes);
  impl_->history.Prefetch(entity, GpuHistory::kSlotBytes, GpuHistory::OffsetOf(ts));
}

void LiveState::Revise(const LiveRow& before, const LiveRow& after) {
  const GpuNow& now = after.now;
  if (now.entity < 1 || !impl_->gpus.Has(now.entity)) return;
  Sums delta = Contribution(after);
  const Sums old = Contribution(before);
  for (size_t k = 0; k < delta.size(); ++k) delta[k] -= old[k];
  impl_->AddToSums(after, delta);
  impl_->AddToHistory(after, delta);
  impl_->gpus.With(now.entity, [&](GpuNow& known) {
    if (known.ts == now.ts) known = now;
  });
}

void LiveState::ForEachGpu(int32_t job, absl::FunctionRef<void(const GpuNow&)> visit) const {
  absl::flat_hash_set<int32_t> wanted_sets;
  if (job != 0) {
    ReaderLock lock(impl_->sets_mutex);
    for (const auto& [set, known] : impl_->sets) {
      const std::vector<int32_t>& members = known.members;
      if (std::find(members.begin(), members.end(), job) != members.end()) wanted_sets.insert(set);
    }
    if (wanted_sets.empty()) return;
  }
  impl_->gpus.ForEach([&, all = job == 0](const GpuNow& g) {
    if (g.ts != 0 && (all || wanted_sets.contains(g.job_set))) visit(g);
  });
}

void LiveState::ForEachGpuPiece(absl::FunctionRef<void(absl::Span<GpuNow>)> visit) const {
  std::vector<GpuNow> room;
  impl_->gpus.ForEachCopied(
      &room, [](const GpuNow& g) { return g.ts != 0; }, visit);
}

std::vector<GpuNow> LiveState::Gpus(int32_t job) const {
  std::vector<GpuNow> out;
  ForEachGpu(job, [&](const GpuNow& g) { out.push_back(g); });
  return out;
}

GpuNow LiveState::Gpu(int32_t entity) const { return impl_->gpus.At(entity); }

std::optional<LiveState::GpuWindow> LiveState::GpuSince(int32_t entity, int32_t job_set,
                                                        Micros from) const {
  return impl_->history.Read(entity, [&](const GpuHistory& h) { return h.Since(job_set, from); });
}

int32_t LiveState::GpusReporting(Micros since) const {
  int32_t count = 0;
  impl_->gpu_seen.ForEach([&](Micros seen) { count += seen != 0 && seen > since; });
  return count;
}

UsageSums LiveState::FleetSince(Micros from) const {
  UsageSums total;
  for (const auto& [model, sums] : ModelsSince(from)) total += sums;
  total.gpus = GpusReporting(Align(from) - 1);
  return total;
}

std::vector<std::pair<int32_t, UsageSums>> LiveState::ModelsSince(Micros from) const {
  const Impl::Start start = impl_->StartOf(from);
  absl::flat_hash_map<int32_t, UsageSums> merged;
  for (const FleetShard& shard : impl_->fleet) {
    MutexLock lock(shard.mutex);
    for (const auto& [model, accumulator] : shard.by_model) {
      const UsageSums sums = accumulator->Since(start.at, start.fine);
      if (sums.ofu.samples > 0 || sums.power_span_s > 0) merged[model] += sums;
    }
  }
  std::vector<std::pair<int32_t, UsageSums>> out(merged.begin(), merged.end());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

std::vector<store::JobUsage> LiveState::JobsSince(Micros from) const {
  const Impl::Start start = impl_->StartOf(from);
  std::vector<store::JobUsage> out;
  struct Window {
    int32_t job, gpus;
    const Accumulator* sums;
  };
  std::vector<Window> windows;
  for (const JobShard& shard : impl_->jobs) {
    MutexLock lock(shard.mutex);
    windows.clear();
    for (const auto& [job, w] : shard.jobs)
      if (w.sums != nullptr) windows.push_back({job, w.gpus, w.sums.get()});
    if (out.empty()) out.reserve((windows.size() + 8) * kShards);
    // Every job is a few cache lines somewhere: ask for them before they are needed.
    constexpr size_t kAhead = 8;
    for (size_t k = 0; k < windows.size() + kAhead; ++k) {
      if (k + kAhead < windows.size()) PrefetchToRead(windows[k + kAhead].sums, 1);
      if (k < windows.size()) windows[k].sums->Prefetch(start.at, start.fine);
      if (k < kAhead) continue;
      const Window& w = windows[k - kAhead];
      if (w.sums->last() < start.at) continue;
      store::JobUsage& usage = out.emplace_back();
      usage.job = w.job;
      usage.sums = w.sums->Since(start.at, start.fine);
      usage.sums.gpus = w.gpus;
    }
  }
  return out;
}

UsageSums LiveState::JobSince(int32_t job, Micros from) const {
  const Impl::Start start = impl_->StartOf(from);
  JobShard& shard = impl_->ShardOf(job);
  MutexLock lock(shard.mutex);
  const auto it = shard.jobs.find(job);
  if (it == shard.jobs.end() || it->second.sums == nullptr) return {};
  UsageSums sums = it->second.sums->Since(start.at, start.fine);
  sums.gpus = it->second.gpus;
  return sums;
}

std::vector<store::UsagePoint> LiveState::FleetMinutes(Micros from) const {
  std::vector<store::UsagePoint> out;
  for (Micros at = FloorTo(Align(from), kCoarseSlot); at <= newest(); at += kCoarseSlot) {
    store::UsagePoint point{.ts = at, .sums = {}};
    for (const FleetShard& shard : impl_->fleet) {
      MutexLock lock(shard.mutex);
      for (const auto& [model, accumulator] : shard.by_model) point.sums += accumulator->Minute(at);
    }
    if (point.sums.ofu.samples > 0 || point.sums.power_span_s > 0) out.push_back(std::move(point));
  }
  return out;
}

std::vector<store::UsagePoint> LiveState::JobMinutes(int32_t job, Micros from) const {
  std::vector<store::UsagePoint> out;
  JobShard& shard = impl_->ShardOf(job);
  MutexLock lock(shard.mutex);
  const auto it = shard.jobs.find(job);
  if (it == shard.jobs.end() || it->second.sums == nullptr) return out;
  for (Micros at = FloorTo(Align(from), kCoarseSlot); at <= newest(); at += kCoarseSlot) {
    store::UsagePoint point{.ts = at, .sums = it->second.sums->Minute(at)};
    if (point.sums.ofu.samples > 0) out.push_back(std::move(point));
  }
  return out;
}

Micros LiveState::Align(Micros from) const { return impl_->StartOf(from).at; }

Micros LiveState::newest() const { return impl_->newest; }
Micros LiveState::oldest() const { return impl_->oldest; }

void LiveState::Expire() {
  const Micros limit = impl_->newest - kLongestWindow - kCoarseSlot;
  for (JobShard& shard : impl_->jobs) {
    MutexLock lock(shard.mutex);
    absl::erase_if(shard.jobs, [&](auto& entry) {
      JobWindow& w = entry.second;
      if (w.sums != nullptr && w.sums->last() < limit) w.sums.reset();
      return w.sums == nullptr && w.gpus == 0;
    });
  }
  impl_->ForgetSets();
  impl_->history.Forget([&](const GpuHistory& h) { return h.last() < limit; });
}

}  // namespace flopwatch::ingest
