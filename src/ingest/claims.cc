#include "ingest/claims.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"

namespace flopwatch::ingest {
namespace {

// "GPU001.cluster.local" and "gpu001" are one node.
std::string ShortName(std::string_view node) {
  return absl::AsciiStrToLower(std::string(node.substr(0, node.find('.'))));
}

bool SaysNothing(std::string_view address) {
  // IPv6 and IPv4 addresses and what every host calls itself say nothing.
  return address.empty() || address.find(':') != std::string_view::npos ||
         address.find_first_not_of("0123456789.") == std::string_view::npos ||
         ShortName(address) == "localhost";
}

}  // namespace

Evidence EvidenceOf(std::string_view named, std::string_view address, bool pushed) {
  if (named.empty() || SaysNothing(address)) return Evidence::kNone;
  if (ShortName(named) != ShortName(address)) return Evidence::kContradicts;
  return pushed ? Evidence::kNone : Evidence::kMatches;
}

uint64_t NodeHash(std::string_view node) {
  // A node known by address only is itself, dots and all.
  const std::string name = SaysNothing(node) ? std::string(node) : ShortName(node);
  return std::max<uint64_t>(1, absl::HashOf(name));
}

bool Claims::SetBack(const Ownership& o, Micros ts, const Timing& timing) {
  const Micros latest = timing.now + kClockStep;
  return timing.now != 0 && o.last_ts > latest && ts <= latest;
}

bool Claims::Reports(const Ownership& o, Micros ts, const Timing& timing) {
  // Two rows may come close together after a hold-up: nobody has to be faster than asked.
  const Micros interval = std::max(o.interval_ms * kMicrosPerMilli, timing.nominal_interval);
  return o.last_ts != 0 && ts - o.last_ts <= interval * 5 / 2;
}

bool Claims::Stronger(const Claim& claim, const Ownership& than) {
  if (claim.evidence != than.evidence) return claim.evidence > than.evidence;
  return claim.node == than.home && than.node != than.home;
}

// Notes a row of `claim`, which holds the GPU from here on. Its interval is the gap to its own last
// row, also if another source held the GPU in between. The gap to the row of another says nothing:
// after a short one, the new holder would seem silent before its second row, and the loser would
// win every time.
void Claims::Hold(Ownership* o, const Claim& claim, Micros ts, const Timing& timing) {
  if (o->source != claim.source) {
    std::swap(o->source, o->before);
    std::swap(o->own_ts, o->before_ts);
    if (o->source != claim.source) o->own_ts = 0;
    o->source = claim.source;
    o->interval_ms = 0;
  }
  const Micros gap = ts - o->own_ts;
  if (o->own_ts != 0 && gap > 0 && gap <= timing.max_span)
    o->interval_ms = static_cast<int32_t>(gap / kMicrosPerMilli);
  o->own_ts = ts;
  o->node = claim.node;
  o->evidence = claim.evidence;
}

Claims::Verdict Claims::Admit(const Claim& claim, Micros ts, bool own_timestamp,
                              const Timing& timing) {
  return owners_.With(claim.entity, [&](Ownership& o) -> Verdict {
    const bool set_back = SetBack(o, ts, timing);
    const bool earlier = o.last_ts != 0 && ts < o.last_ts;
    if (set_back) {
      o.last_ts = ts;
      o.uncontested_since = std::min(o.uncontested_since, ts);
    }
    const Micros gap = ts - o.last_ts;
    const bool mine = o.source == claim.source;
    Verdict verdict;
    if (!mine && Reports(o, ts, timing)) {
      const Outcome odds = o.node == claim.node ? Outcome::kDuplicate : Outcome::kConflict;
      verdict.rival = o.source;
      o.uncontested_since = std::max(ts, o.last_ts);
      if (!Stronger(claim, o)) {
        verdict.outcome = odds;
        return verdict;
      }
      // That time is counted already.
      if (gap <= 0) {
        Hold(&o, claim, ts, timing);
        verdict.outcome = odds;
        return verdict;
      }
    } else if (mine && o.last_ts != 0 && gap <= 0 && !set_back) {
      if (own_timestamp || -gap <= timing.max_span) {
        verdict.outcome = Outcome::kStale;
        return verdict;
      }
    }
    if (o.last_ts != 0 && gap > 0 && gap <= timing.max_span) verdict.previous = o.last_ts;
    verdict.set_back = earlier;
    if (!mine || o.uncontested_since == 0) o.uncontested_since = ts;
    Hold(&o, claim, ts, timing);
    o.last_ts = ts;
    if (o.home == 0 || ts - o.uncontested_since > kSettled) o.home = claim.node;
    return verdict;
  });
}

bool Claims::MayDescribe(const Claim& claim, Micros ts, const Timing& timing) const {
  const Ownership o = owners_.At(claim.entity);
  return o.source == claim.source || !Reports(o, ts, timing) || Stronger(claim, o);
}

void Claims::SetHome(int32_t entity, uint64_t node) {
  owners_.With(entity, [&](Ownership& o) {
    if (o.home == 0) o.home = node;
  });
}

void Claims::Know(uint32_t source, std::string name) {
  MutexLock lock(mutex_);
  names_[source] = std::move(name);
}

void Claims::Forget(uint32_t source) {
  MutexLock lock(mutex_);
  names_.erase(source);
  ForgetConflicts(
      [&](const auto& c) { return c.first.second == source || c.second.holder == source; });
}

template <typename F>
void Claims::ForgetConflicts(F&& over) {
  absl::erase_if(conflicts_, [&](const auto& c) FW_REQUIRES(mutex_) {
    if (!over(c)) return false;
    const auto of = conflicts_of_.find(c.first.second);
    if (--of->second == 0) conflicts_of_.erase(of);
    return true;
  });
}

void Claims::Note(const Claim& refused, uint32_t holder, Outcome outcome, Micros now) {
  MutexLock lock(mutex_);
  const std::pair key(refused.entity, refused.source);
  auto it = conflicts_.find(key);
  if (it == conflicts_.end()) {
    const auto full = [&]() FW_REQUIRES(mutex_) {
      const auto of = conflicts_of_.find(refused.source);
      return conflicts_.size() >= kMaxConflicts ||
             (of != conflicts_of_.end() && of->second >= kMaxConflictsOfSource);
    };
    // Old conflicts go once a second, or every row of who has too many would look through them all.
    if (full() && std::abs(now - last_forgotten_) >= kMicrosPerSecond) {
      last_forgotten_ = now;
      ForgetConflicts([&](const auto& c) { return c.second.last < now - kRemembered; });
    }
    if (full()) return;
    it = conflicts_.emplace(key, Conflict{.since = now}).first;
    ++conflicts_of_[refused.source];
  }
  it->second.outcome = outcome;
  it->second.holder = holder;
  it->second.last = now;
  ++it->second.refused;
}

std::vector<TargetConflict> Claims::Of(uint32_t source, const Registry& registry,
                                       Micros now) const {
  std::vector<std::pair<int32_t, TargetConflict>> found;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, c] : conflicts_) {
      const bool holds = c.holder == source;
      if ((!holds && key.second != source) || c.last < now - kRemembered) continue;
      const auto other = names_.find(holds ? key.second : c.holder);
      found.emplace_back(
          key.first, TargetConflict{.other = other == names_.end() ? std::string() : other->second,
                                    .kind = c.outcome == Outcome::kDuplicate ? "duplicate_exporter"
                                                                             : "uuid_conflict",
                                    .holds = holds,
                                    .since = c.since,
                                    .last = c.last,
                                    .refused = c.refused});
    }
  }
  std::vector<TargetConflict> out;
  for (auto& [entity, conflict] : found) {
    const auto e = registry.entity(entity);
    if (!e.has_value()) continue;
    conflict.gpu = e->key.uuid;
    conflict.gpu_instance = e->key.gpu_instance;
    out.push_back(std::move(conflict));
  }
  std::sort(out.begin(), out.end(), [](const TargetConflict& a, const TargetConflict& b) {
    return std::tie(a.gpu, a.gpu_instance, a.other) < std::tie(b.gpu, b.gpu_instance, b.other);
  });
  return out;
}

std::vector<std::pair<std::string, uint64_t>> Claims::BySource(Micros now) const {
  std::map<std::string, std::set<int32_t>> gpus;
  MutexLock lock(mutex_);
  for (const auto& [key, c] : conflicts_) {
    if (c.last < now - kRemembered) continue;
    for (const uint32_t source : {key.second, c.holder}) {
      if (const auto it = names_.find(source); it != names_.end())
        gpus[it->second].insert(key.first);
    }
  }
  std::vector<std::pair<std::string, uint64_t>> out;
  for (const auto& [name, entities] : gpus) out.emplace_back(name, entities.size());
  return out;
}

std::pair<size_t, size_t> Claims::Count(Micros now) const {
  std::set<int32_t> conflicts, duplicates;
  MutexLock lock(mutex_);
  for (const auto& [key, c] : conflicts_) {
    if (c.last < now - kRemembered) continue;
    (c.outcome == Outcome::kDuplicate ? duplicates : conflicts).insert(key.first);
  }
  return {conflicts.size(), duplicates.size()};
}

}  // namespace flopwatch::ingest
