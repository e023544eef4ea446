#include "trace/analysis/collectives.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trace/analysis/collective_clocks.h"

namespace flopwatch::trace {
namespace {

constexpr int kMaxOpDepth =
    16;  // from a kernel's operator up to the record_param_comms that encloses it
constexpr size_t kMaxGroupMembers = 1 << 20;

// "[0, 1, 2]"; empty where the list is cut short ("...") or no list.
std::vector<int32_t> ParseRanks(std::string_view text) {
  std::vector<int32_t> out;
  if (text.empty() || text.find("...") != std::string_view::npos) return out;
  for (const char *at = text.data(), *end = text.data() + text.size(); at < end;) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    int32_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || out.size() >= kMaxGroupMembers) return {};
    out.push_back(value);
    at = stop;
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// A communication row before it is matched.
struct Entry {
  uint32_t group = 0;
  int64_t place = 0;  // sequence number, or step
  uint32_t sub =
      0;  // what orders are counted within: the name, the pair of a send and its recv, or 0
  uint32_t occurrence = 0;
  uint32_t rank = 0;
  Row row = kNoRow;
  const CollectiveDetail* detail = nullptr;
  CollectiveKind kind = CollectiveKind::kUnknown;

  auto key() const { return std::tie(group, place, sub, occurrence); }
};

const CollectiveDetail* DetailOf(const RankTrace& rank, Row r) {
  if (const CollectiveDetail* own = rank.CollectiveOf(r)) return own;
  Row op = rank.events.op[r];
  for (int depth = 0; op != kNoRow && depth < kMaxOpDepth; op = rank.events.parent[op], ++depth)
    if (const CollectiveDetail* of_op = rank.CollectiveOf(op)) return of_op;
  return nullptr;
}

class Matcher {
 public:
  explicit Matcher(const AnalysisInput& input) : input_(input), set_(input.set()) {
    for (const RankTrace& rank : set_.ranks) {
      loaded_.insert(rank.rank);
      for (const ProcessGroup& group : rank.process_groups)
        if (!group.ranks.empty()) configured_.try_emplace(group.name, &group);
    }
  }

  Collectives Run() {
    out_.clocks.resize(set_.ranks.size());
    StepsInCommon();
    Collect();
    AssignGroups();
    AssignPlaces();
    Match();
    JudgePointToPoint(paired_, &out_);
    AlignClocks(&out_);
    Measure();
    return std::move(out_);
  }

 private:
  const AnalysisInput& input_;
  const TraceSet& set_;
  Collectives out_;
  std::vector<Entry> entries_;
  absl::flat_hash_set<int32_t> loaded_;
  absl::flat_hash_map<std::string_view, const ProcessGroup*>
      configured_;  // by name; the header's list
  bool by_step_ = false;
  // `unnamed_` says of places without group metadata whether counting by name gives equal counts
  // where counting by order does not.
  std::vector<bool> unnamed_;  // one a group
  std::vector<bool> paired_;   // one a collective: a send with its recv

  // Steps tell where a rank is only if the ranks number them alike.
  void StepsInCommon() {
    std::map<int64_t, size_t> seen;
    for (const RankTrace& rank : set_.ranks) {
      if (rank.steps.empty()) return;
      for (const Step& step : rank.steps) ++seen[step.number];
    }
    by_step_ =
        std::ranges::any_of(seen, [&](const auto& s) { return s.second == set_.ranks.size(); });
  }

  int64_t StepOf(const RankTrace& rank, Row r) const {
    const EventTable& e = rank.events;
    if (e.step[r] != kNoStep) return rank.steps[static_cast<size_t>(e.step[r])].number;
    // Launched between steps, or by a call that is not in the trace: after the last step that had
    // begun.
    const Nanos at = e.launch[r] == kNoRow ? e.ts[r] : e.ts[e.launch[r]];
    const auto next = std::ranges::upper_bound(rank.steps, at, {}, &Step::begin);
    return next == rank.steps.begin() ? rank.steps.front().number - 1 : (next - 1)->number;
  }

  void Collect() {
    std::vector<CollectiveKind> kind_of_name(set_.names.size(), CollectiveKind::kUnknown);
    std::vector<bool> judged(set_.names.size(), false);
    const auto kind_of = [&](NameId name) {
      if (!judged[name]) {
        judged[name] = true;
        kind_of_name[name] = CollectiveKindOf(set_.names.Text(name));
      }
      return kind_of_name[name];
    };
    for (uint32_t i = 0; i < set_.ranks.size(); ++i) {
      const RankTrace& rank = set_.ranks[i];
      const EventTable& e = rank.events;
      const TableVector<KernelClass>& classes = input_.ranks()[i]->classes();
      bool whole = false;  // Ascend: the span of the whole collective, not its tasks
      for (const Category c : e.category) whole |= c == Category::kGpuCollective;
      for (Row r = 0; r < e.size(); ++r) {
        const bool device_side =
            whole ? e.category[r] == Category::kGpuCollective
                  : e.category[r] == Category::kKernel && classes[r] == KernelClass::kCommunication;
        if (!device_side) continue;
        Entry entry{.rank = i, .row = r, .detail = DetailOf(rank, r)};
        if (entry.detail != nullptr) entry.kind = kind_of(entry.detail->collective);
        if (entry.kind == CollectiveKind::kUnknown) entry.kind = kind_of(e.name[r]);
        entries_.push_back(entry);
      }
    }
    out_.rows = static_cast<int64_t>(entries_.size());
  }

  std::string_view Text(NameId id) const { return set_.names.Text(id); }

  // A process group is its members and its name. Some writers number groups on each rank for
  // itself: where no name of a member list is on two ranks, the members alone decide.
  void AssignGroups() {
    using Key = std::pair<std::string_view, std::string_view>;  // members as written, name
    std::map<Key, std::set<uint32_t>> ranks_of;
    std::map<std::string_view, std::pair<size_t, std::set<uint32_t>>>
        of_members;  // most ranks of one name; all its ranks
    // Text ids come first: that takes one look-up a distinct pair, not a row.
    absl::flat_hash_map<uint64_t, std::set<uint32_t>> seen;
    for (const Entry& entry : entries_) {
      if (entry.detail == nullptr) continue;
      seen[uint64_t{entry.detail->group_ranks} << 32 | entry.detail->group_name].insert(entry.rank);
    }
    for (const auto& [ids, ranks] : seen) {
      const Key key{Text(static_cast<NameId>(ids >> 32)), Text(static_cast<NameId>(ids))};
      ranks_of[key].insert(ranks.begin(), ranks.end());
    }
    for (const auto& [key, ranks] : ranks_of) {
      auto& [most, all] = of_members[key.first];
      most = std::max(most, ranks.size());
      all.insert(ranks.begin(), ranks.end());
    }
    std::map<Key, uint32_t> groups;
    absl::flat_hash_map<uint64_t, uint32_t> group_of_ids;
    const auto group_of = [&](const CollectiveDetail& d) {
      const uint64_t ids = uint64_t{d.group_ranks} << 32 | d.group_name;
      const auto known = group_of_ids.find(ids);
      if (known != group_of_ids.end()) return known->second;
      Key key{Text(d.group_ranks), Text(d.group_name)};
      const auto& [most, all] = of_members[key.first];
      if (!key.first.empty() && most < 2 && all.size() > 1) key.second = {};
      const auto [it, added] = groups.try_emplace(key, static_cast<uint32_t>(out_.groups.size()));
      if (added) out_.groups.push_back(GroupOf(d));
      group_of_ids[ids] = it->second;
      return it->second;
    };
    std::vector<size_t> unnamed;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const CollectiveDetail* d = entries_[i].detail;
      // Without a name, members or a communicator the metadata does not say which group it is.
      if (d != nullptr && (d->group_name != kNoName || d->group_ranks != kNoName))
        entries_[i].group = group_of(*d);
      else
        unnamed.push_back(i);
    }
    unnamed_.assign(out_.groups.size(), false);
    GroupByStream(unnamed);
  }

  CollectiveGroup GroupOf(const CollectiveDetail& d) const {
    CollectiveGroup group;
    group.name = Text(d.group_name);
    group.description = Text(d.group_description);
    group.ranks = ParseRanks(Text(d.group_ranks));
    group.size = d.group_size;
    if (const auto known = configured_.find(group.name);
        group.ranks.empty() && known != configured_.end()) {
      const std::vector<int32_t>& ranks = known->second->ranks;
      if (group.size == kUnknown || group.size == static_cast<int64_t>(ranks.size()))
        group.ranks = ranks;
    }
    if (group.size == kUnknown && !group.ranks.empty())
      group.size = static_cast<int64_t>(group.ranks.size());
    FindNotLoaded(&group);
    return group;
  }

  void FindNotLoaded(CollectiveGroup* group) const {
    for (const int32_t member : group->ranks)
      if (!loaded_.contains(member)) group->not_loaded.push_back(member);
  }

  // No metadata (before 2024): a communicator has a stream of its own. Ranks usually give it the
  // same number; where they do not, the streams by first use; where they do not even have equally
  // many, all communication of a rank in its order.
  void GroupByStream(const std::vector<size_t>& unnamed) {
    if (unnamed.empty()) return;
    std::map<uint32_t, std::map<int32_t, int32_t>>
        by_use;  // rank -> stream -> its place by first use
    std::map<uint32_t, std::map<int32_t, int64_t>> counts;
    for (const size_t i : unnamed) {
      const Entry& entry = entries_[i];
      const int32_t stream = set_.ranks[entry.rank].events.stream[entry.row];
      if (counts[entry.rank][stream]++ == 0)
        by_use[entry.rank].emplace(stream, static_cast<int32_t>(by_use[entry.rank].size()));
    }
    const bool same_streams = std::ranges::all_of(
        counts, [&](const auto& c) { return c.second == counts.begin()->second; });
    const bool as_many = std::ranges::all_of(
        by_use, [&](const auto& u) { return u.second.size() == by_use.begin()->second.size(); });
    std::map<int32_t, uint32_t> groups;
    int64_t world = kUnknown;
    for (const RankTrace& rank : set_.ranks) world = std::max(world, rank.world_size);
    for (const size_t i : unnamed) {
      Entry& entry = entries_[i];
      int32_t which = set_.ranks[entry.rank].events.stream[entry.row];
      if (!same_streams && as_many) {
        which = by_use[entry.rank][which];
      } else if (!same_streams) {
        which = 0;
      }
      const auto [it, added] = groups.try_emplace(which, static_cast<uint32_t>(out_.groups.size()));
      if (added) {
        CollectiveGroup group;
        group.name = same_streams ? fmt::format("stream {}", which)
                     : as_many    ? fmt::format("stream #{} of each rank", which + 1)
                                  : "all streams of each rank";
        group.size = world;
        out_.groups.push_back(std::move(group));
        unnamed_.push_back(true);
      }
      entry.group = it->second;
    }
  }

  // Finds where in its group a row stands.
  void AssignPlaces() {
    std::vector<bool> has_sequence(out_.groups.size(), true);
    for (const Entry& entry : entries_) {
      if (entry.kind == CollectiveKind::kPointToPoint) continue;
      if (entry.detail == nullptr || entry.detail->sequence == kUnknown)
        has_sequence[entry.group] = false;
    }
    absl::flat_hash_map<uint64_t, uint32_t> pairs;
    int64_t by_sequence = 0, by_name = 0, by_order = 0;
    const std::vector<bool> count_names = NamesNeeded();
    for (Entry& entry : entries_) {
      const RankTrace& rank = set_.ranks[entry.rank];
      const CollectiveDetail* d = entry.detail;
      const int64_t step = by_step_ ? StepOf(rank, entry.row) : 0;
      if (entry.kind == CollectiveKind::kPointToPoint && d != nullptr &&
          (d->source_rank >= 0 || d->destination_rank >= 0)) {
        // A send and its recv: from whom to whom. The numbers a process group gives point-to-point
        // calls count on each side alone, so order decides.
        const std::string_view operation = Text(d->collective);
        const bool sends = operation.find("send") != std::string_view::npos ||
                           operation.find("Send") != std::string_view::npos;
        const int32_t from = sends ? rank.rank : d->source_rank,
                      to = sends ? d->destination_rank : rank.rank;
        const uint64_t pair =
            uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
        entry.place = step;
        entry.sub = 0x80000000u |
                    pairs.try_emplace(pair, static_cast<uint32_t>(pairs.size())).first->second;
        ++by_name;
      } else if (has_sequence[entry.group] && d != nullptr && d->sequence != kUnknown) {
        entry.place = d->sequence;
        entry.sub = entry.kind == CollectiveKind::kPointToPoint ? 1 : 0;
        ++by_sequence;
      } else {
        entry.place = step;
        const bool names = !unnamed_[entry.group] || count_names[entry.group];
        entry.sub = !names                                     ? 0
                    : d != nullptr && d->collective != kNoName ? d->collective
                                                               : rank.events.name[entry.row];
        ++(names ? by_name : by_order);
      }
    }
    const auto add = [&](int64_t count, std::string_view how) {
      if (count > 0)
        out_.matched_by += fmt::format("{}{}", out_.matched_by.empty() ? "" : "; ", how);
    };
    add(by_sequence, "process group and sequence number");
    add(by_name, by_step_ ? "process group, name and order within the step"
                          : "process group, name and order");
    add(by_order, by_step_ ? "order on the stream within the step" : "order on the stream");

    const auto in_rank = [](const Entry& a, const Entry& b) {
      return std::tie(a.group, a.place, a.sub, a.rank, a.row) <
             std::tie(b.group, b.place, b.sub, b.rank, b.row);
    };
    std::ranges::sort(entries_, in_rank);
    for (size_t i = 1; i < entries_.size(); ++i) {
      const Entry& before = entries_[i - 1];
      Entry& entry = entries_[i];
      const bool same = std::tie(before.group, before.place, before.sub, before.rank) ==
                        std::tie(entry.group, entry.place, entry.sub, entry.rank);
      entry.occurrence = same ? before.occurrence + 1 : 0;
    }
    std::ranges::stable_sort(entries_,
                             [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
  }

  // Groups known by their stream alone whose ranks have the same operations in different orders:
  // counted name by name.
  std::vector<bool> NamesNeeded() const {
    std::vector<bool> needed(out_.groups.size(), false);
    struct Order {
      uint64_t sequence = 0;                     // hash of the kinds in order
      std::map<CollectiveKind, int64_t> counts;  // of each kind
    };
    std::map<std::pair<uint32_t, uint32_t>, Order> orders;  // group, rank
    for (const Entry& entry : entries_) {
      if (!unnamed_[entry.group]) continue;
      Order& order = orders[{entry.group, entry.rank}];
      order.sequence = order.sequence * 1099511628211u + static_cast<uint64_t>(entry.kind) + 1;
      ++order.counts[entry.kind];
    }
    std::map<uint32_t, std::pair<bool, bool>> differ;  // group -> order, counts
    std::map<uint32_t, const Order*> first;
    for (const auto& [key, order] : orders) {
      const auto [it, added] = first.try_emplace(key.first, &order);
      if (added) continue;
      differ[key.first].first |= it->second->sequence != order.sequence;
      differ[key.first].second |= it->second->counts != order.counts;
    }
    for (const auto& [group, d] : differ) needed[group] = d.first && !d.second;
    return needed;
  }

  void Match() {
    for (size_t i = 0; i < entries_.size();) {
      size_t j = i + 1;
      while (j < entries_.size() && entries_[j].key() == entries_[i].key()) ++j;
      if (j - i >= 2) AddCollective({entries_.data() + i, j - i});
      i = j;
    }
  }

  void AddCollective(std::span<const Entry> entries) {
    const Entry& head = entries.front();
    const RankTrace& rank = set_.ranks[head.rank];
    Collective c{.group = head.group,
                 .kind = head.kind,
                 .first_part = static_cast<uint32_t>(out_.parts.size()),
                 .parts = static_cast<uint32_t>(entries.size())};
    c.name = head.detail != nullptr && head.detail->collective != kNoName
                 ? head.detail->collective
                 : rank.events.name[head.row];
    if (head.detail != nullptr) c.sequence = head.detail->sequence;
    const int32_t step = rank.events.step[head.row];
    if (step != kNoStep) c.step = rank.steps[static_cast<size_t>(step)].number;
    for (const Entry& entry : entries) {
      const EventTable& e = set_.ranks[entry.rank].events;
      out_.parts.push_back({.rank = entry.rank,
                            .row = entry.row,
                            .begin = e.ts[entry.row],
                            .end = e.end(entry.row)});
      c.names_differ |= entry.kind != c.kind;
      c.bytes = std::max(c.bytes, BytesOf(entry.detail));
    }
    const CollectiveGroup& group = out_.groups[c.group];
    const int64_t expected =
        c.kind == CollectiveKind::kPointToPoint && head.sub >= 0x80000000u ? 2 : group.size;
    c.ranks_missing = expected == kUnknown ? kUnknown : std::max<int64_t>(0, expected - c.parts);
    using enum CollectiveKind;
    if (c.kind == kAllReduce || c.kind == kReduceScatter || c.kind == kAllGather ||
        c.kind == kAllToAll || c.kind == kBarrier)
      c.synchronising = !c.names_differ;
    out_.matched_rows += c.parts;
    out_.all.push_back(c);
    paired_.push_back(head.detail != nullptr &&
                      (head.detail->source_rank >= 0 || head.detail->destination_rank >= 0));
  }

  static int64_t BytesOf(const CollectiveDetail* d) { return d == nullptr ? kUnknown : d->bytes; }

  void Measure() {
    for (Collective& c : out_.all) {
      const std::span<CollectivePart> parts = {out_.parts.data() + c.first_part, c.parts};
      c.first_arrival = c.last_arrival = parts.front().begin;
      c.first_end = c.last_end = parts.front().end;
      c.min_duration = c.max_duration = parts.front().end - parts.front().begin;
      c.first_rank = c.last_rank = parts.front().rank;
      for (const CollectivePart& part : parts) {
        if (part.begin < c.first_arrival) c.first_rank = part.rank;
        if (part.begin > c.last_arrival) c.last_rank = part.rank;
        c.first_arrival = std::min(c.first_arrival, part.begin);
        c.last_arrival = std::max(c.last_arrival, part.begin);
        c.first_end = std::min(c.first_end, part.end);
        c.last_end = std::max(c.last_end, part.end);
        c.min_duration = std::min(c.min_duration, part.end - part.begin);
        c.max_duration = std::max(c.max_duration, part.end - part.begin);
      }
      // Nobody waits longer than its own kernel runs, whatever the clocks say.
      for (CollectivePart& part : parts)
        part.wait = std::min(c.last_arrival - part.begin, part.end - part.begin);
      if (c.bytes == kUnknown) {
        for (const CollectivePart& part : parts) {
          const CollectiveDetail* d = DetailOf(set_.ranks[part.rank], part.row);
          if (d != nullptr && MessageBytes(set_.names, *d) > 0)
            c.bytes = std::max(c.bytes, MessageBytes(set_.names, *d));
        }
      }
    }
    std::ranges::stable_sort(out_.all, {}, &Collective::first_arrival);
    const int64_t differ =
        std::ranges::count_if(out_.all, [](const Collective& c) { return c.names_differ; });
    if (differ > 0) {
      out_.notes.push_back(
          fmt::format("{} of {} collectives have different operations on different ranks: they are "
                      "shown but nobody is blamed (some ranks may have started profiling later)",
                      differ, out_.all.size()));
    }
    if (out_.matched_rows < out_.rows && set_.ranks.size() > 1)
      out_.notes.push_back(
          fmt::format("{} of {} communication kernels have no counterpart on a loaded rank",
                      out_.rows - out_.matched_rows, out_.rows));
    std::set<int32_t> missing;
    for (const CollectiveGroup& group : out_.groups)
      missing.insert(group.not_loaded.begin(), group.not_loaded.end());
    if (!missing.empty()) {
      out_.notes.push_back(
          fmt::format("{} ranks of the groups seen here are not loaded (first: rank {}): the last "
                      "to arrive may be one of them",
                      missing.size(), *missing.begin()));
    }
    if (!out_.one_clock)
      out_.notes.push_back(
          "the ranks' clocks differ; times are aligned on the ends of collectives");
  }
};

}  // namespace

Collectives MatchCollectives(const AnalysisInput& input) { return Matcher(input).Run(); }

}  // namespace flopwatch::trace
