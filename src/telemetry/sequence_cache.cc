#include "telemetry/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"

namespace flopwatch::telemetry {
namespace {

// Groups in another order touch the cache at random.
template <typename T>
void Prefetch(const std::vector<T>& values) {
  constexpr size_t kAtMost = 64 << 10;
  PrefetchToRead(values.data(), std::min(values.size() * sizeof(T), kAtMost));
}

}  // namespace

void SequenceCache::NameTable::Reset(size_t groups) {
  size_t size = 8;
  while (size < 2 * groups + 2) size *= 2;
  entries_.assign(size, kNoGroup);
  entries_.shrink_to_fit();
}

void SequenceCache::NameTable::Prefetch() const { telemetry::Prefetch(entries_); }

uint32_t* SequenceCache::NameTable::Find(uint64_t name_hash, const std::vector<Group>& groups) {
  const size_t mask = entries_.size() - 1;
  size_t i = name_hash & mask;
  while (entries_[i] != kNoGroup && groups[entries_[i]].name_hash != name_hash) i = (i + 1) & mask;
  return &entries_[i];
}

SequenceCache::SequenceCache(size_t max_series, const std::vector<std::string_view>* texts)
    : max_series_(max_series), series_(1), texts_(texts) {
  names_.Reset(0);
}

void SequenceCache::BeginScrape() {
  Prefetch(groups_);
  Prefetch(series_);
  names_.Prefetch();
  static thread_local std::vector<Run> order;
  static thread_local std::vector<Learned> learned;
  order_ = &order;
  learned_ = &learned;
  order.clear();
  learned.clear();
  for (Group& g : groups_) g.cursor = g.begin;
  group_ = left_ = kNoGroup;
  lines_ = 0;
  at_ = run_begin_ = guard();
  end_ = at_ + 1;
  if (!groups_.empty()) Enter(0);
}

void SequenceCache::CloseRun() {
  if (at_ == run_begin_) return;
  order_->push_back({run_begin_, at_});
  lines_ += at_ - run_begin_;
  run_begin_ = at_;
}

void SequenceCache::MoveTo(uint32_t index) {
  if (index == at_) return;  // the run goes on, as between groups that follow one another
  CloseRun();
  at_ = run_begin_ = index;
}

void SequenceCache::Enter(uint32_t group) {
  group_ = group;
  Group& g = groups_[group];
  if (g.cursor == g.end)
    g.cursor = g.begin;  // read to its end before: lines that come again start over
  MoveTo(g.cursor);
  end_ = g.end;
  name_hash_ = g.name_hash;
}

// The guard lies behind every group and matches nothing, so Advance() never runs past a group.
void SequenceCache::LeaveGroup() {
  left_ = group_;
  groups_[group_].cursor = end_;
  Enter(groups_[group_].next);
}

bool SequenceCache::ExpectGroupOf(std::string_view metric_name) {
  const uint64_t hash = HashBytes(metric_name);
  if (group_ != kNoGroup && groups_[group_].name_hash == hash) return false;
  const uint32_t found = *names_.Find(hash, groups_);
  if (found == kNoGroup) return false;
  if (group_ != kNoGroup) {
    // Nothing read here since the last group ended: that group has a new follower.
    if (left_ != kNoGroup && at_ == groups_[group_].cursor) groups_[left_].next = found;
    groups_[group_].cursor = at_;
  }
  left_ = kNoGroup;
  Enter(found);
  return true;
}

bool SequenceCache::ExpectPrefix(std::string_view prefix) {
  if (group_ == kNoGroup) return false;
  const Group& g = groups_[group_];
  const uint64_t hash = HashBytes(prefix);
  const auto is = [&](uint32_t i) {
    return series_[i].hash == hash && series_[i].prefix_length == prefix.size();
  };
  const uint32_t ahead = std::min(g.end, at_ + kSearchWindow);
  for (uint32_t i = at_; i < ahead; ++i) {
    if (is(i)) {
      MoveTo(i);
      return true;
    }
  }
  const uint32_t behind = at_ - std::min(at_ - g.begin, kSearchWindow);
  for (uint32_t i = behind; i < at_; ++i) {
    if (is(i)) {
      MoveTo(i);
      return true;
    }
  }
  return false;
}

void SequenceCache::Learn(const Series& series, std::string_view metric_name) {
  CloseRun();
  if (lines_ >= max_series_) return;
  const auto index = static_cast<uint32_t>(learned_->size());
  if (order_->empty() || !order_->back().learned) order_->push_back({index, index, true});
  ++order_->back().end;
  ++lines_;
  learned_->push_back({series, HashBytes(metric_name)});
}

void SequenceCache::EndScrape(absl::FunctionRef<bool(const Series&)> keep) {
  if (learned_->empty()) return;
  CloseRun();
  std::vector<Group> groups;
  NameTable names;
  names.Reset(std::min(lines_, groups_.size() + learned_->size()));
  // The first pass finds the groups in the order in which they appeared, and their sizes; the
  // second puts the series into them.
  struct Placed {
    Series series;
    uint32_t group;
  };
  std::vector<Placed> placed;
  placed.reserve(lines_);
  std::vector<bool> taken(series_.size(), false);
  const auto place = [&](const Series& series, uint64_t name_hash) {
    if (!keep(series)) return;
    uint32_t* group = names.Find(name_hash, groups);
    if (*group == kNoGroup) {
      *group = static_cast<uint32_t>(groups.size());
      groups.push_back({.name_hash = name_hash});
    }
    ++groups[*group].end;
    placed.push_back({series, *group});
  };
  uint32_t old_group = 0;
  for (const Run& run : *order_) {
    for (uint32_t i = run.begin; i < run.end; ++i) {
      if (run.learned) {
        place((*learned_)[i].series, (*learned_)[i].name_hash);
        continue;
      }
      if (taken[i]) continue;  // the line came twice
      taken[i] = true;
      if (i < groups_[old_group].begin || i >= groups_[old_group].end) {
        const auto after =
            std::upper_bound(groups_.begin(), groups_.end(), i,
                             [](uint32_t at, const Group& g) { return at < g.begin; });
        old_group = static_cast<uint32_t>(after - groups_.begin() - 1);
      }
      place(series_[i], groups_[old_group].name_hash);
    }
  }
  uint32_t begin = 0;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const uint32_t count = groups[g].end;
    groups[g].begin = groups[g].cursor = begin;
    groups[g].end = begin += count;
    groups[g].next = g + 1 < groups.size() ? g + 1 : 0;
  }
  std::vector<Series> sorted(placed.size() + 1);
  for (const Placed& p : placed) sorted[groups[p.group].cursor++] = p.series;
  series_ = std::move(sorted);
  groups_.assign(groups.begin(), groups.end());
  groups_.shrink_to_fit();
  names_.Reset(groups_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) *names_.Find(groups_[g].name_hash, groups_) = g;
}

void SequenceCache::Clear() {
  if (groups_.empty()) return;
  groups_.clear();
  series_.assign(1, Series());
  names_.Reset(0);
}

size_t SequenceCache::bytes() const {
  return series_.capacity() * sizeof(Series) + groups_.capacity() * sizeof(Group) + names_.bytes();
}

}  // namespace flopwatch::telemetry
