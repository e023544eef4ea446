#include "telemetry/sequence_cache.h"

#include <algorithm>
#include <utility>

namespace flopwatch::telemetry {
namespace {

// Between two scrapes of a target thousands of others pass: its cache is cold, and groups in
// another order touch it at random. Asking for all of it first turns a chain of misses into one
// stream.
void Prefetch(const void* data, size_t bytes) {
  constexpr size_t kAtMost = 64 << 10;
  const char* p = static_cast<const char*>(data);
  for (size_t at = 0; at < std::min(bytes, kAtMost); at += 64) __builtin_prefetch(p + at);
}

}  // namespace

void SequenceCache::NameTable::Reset(size_t groups) {
  size_t size = 8;
  while (size < 2 * groups + 2) size *= 2;
  entries_.assign(size, kNoGroup);
  entries_.shrink_to_fit();
}

void SequenceCache::NameTable::Prefetch() const {
  telemetry::Prefetch(entries_.data(), entries_.size() * sizeof(uint32_t));
}

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
  Prefetch(groups_.data(), groups_.size() * sizeof(Group));
  Prefetch(series_.data(), series_.size() * sizeof(Series));
  names_.Prefetch();
  static thread_local std::vector<uint32_t> order;
  static thread_local std::vector<Learned> learned;
  order_ = &order;
  learned_ = &learned;
  order.clear();
  learned.clear();
  for (Group& g : groups_) g.cursor = g.begin;
  group_ = left_ = kNoGroup;
  at_ = guard();
  end_ = at_ + 1;
  if (!groups_.empty()) Enter(0);
}

void SequenceCache::Enter(uint32_t group) {
  group_ = group;
  Group& g = groups_[group];
  if (g.cursor == g.end)
    g.cursor = g.begin;  // read to its end before: lines that come again start over
  at_ = g.cursor;
  end_ = g.end;
  name_hash_ = g.name_hash;
}

// The guard lies behind every group and matches nothing, so Advance() never reaches the end without
// a group.
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
      at_ = i;
      return true;
    }
  }
  const uint32_t behind = at_ - std::min(at_ - g.begin, kSearchWindow);
  for (uint32_t i = behind; i < at_; ++i) {
    if (is(i)) {
      at_ = i;
      return true;
    }
  }
  return false;
}

void SequenceCache::Learn(const Series& series, std::string_view metric_name) {
  if (order_->size() >= max_series_) return;
  order_->push_back(kLearnedBit | static_cast<uint32_t>(learned_->size()));
  learned_->push_back({series, HashBytes(metric_name)});
}

void SequenceCache::EndScrape(absl::FunctionRef<bool(const Series&)> keep) {
  if (learned_->empty()) return;
  std::vector<Group> groups;
  NameTable names;
  names.Reset(std::min(order_->size(), groups_.size() + learned_->size()));
  // First pass: the groups in the order in which they appeared, and their sizes. Second pass: the
  // series into them.
  struct Placed {
    Series series;
    uint32_t group;
  };
  std::vector<Placed> placed;
  placed.reserve(order_->size());
  std::vector<bool> taken(series_.size(), false);
  uint32_t old_group = 0;
  for (const uint32_t entry : *order_) {
    Series series;
    uint64_t name_hash;
    if (entry & kLearnedBit) {
      const Learned& l = (*learned_)[entry & ~kLearnedBit];
      series = l.series;
      name_hash = l.name_hash;
    } else {
      if (taken[entry]) continue;  // the line came twice
      taken[entry] = true;
      series = series_[entry];
      if (entry < groups_[old_group].begin || entry >= groups_[old_group].end) {
        const auto after = std::upper_bound(groups_.begin(), groups_.end(), entry,
                                            [](uint32_t i, const Group& g) { return i < g.begin; });
        old_group = static_cast<uint32_t>(after - groups_.begin() - 1);
      }
      name_hash = groups_[old_group].name_hash;
    }
    if (!keep(series)) continue;
    uint32_t* group = names.Find(name_hash, groups);
    if (*group == kNoGroup) {
      *group = static_cast<uint32_t>(groups.size());
      groups.push_back({.name_hash = name_hash});
    }
    ++groups[*group].end;
    placed.push_back({series, *group});
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

size_t SequenceCache::bytes() const {
  return series_.capacity() * sizeof(Series) + groups_.capacity() * sizeof(Group) + names_.bytes();
}

}  // namespace flopwatch::telemetry
