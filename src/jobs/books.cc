#include "jobs/books.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "jobs/gpu_list.h"
#include "jobs/text_pool.h"

namespace flopwatch::jobs {

inline constexpr std::array<std::string AttemptRecord::*, 12> kAttemptTexts = {
    &AttemptRecord::cluster,     &AttemptRecord::job,      &AttemptRecord::name,
    &AttemptRecord::user,        &AttemptRecord::account,  &AttemptRecord::partition,
    &AttemptRecord::qos,         &AttemptRecord::workflow, &AttemptRecord::state,
    &AttemptRecord::reservation, &AttemptRecord::nodes,    &AttemptRecord::gpu_list};
inline constexpr std::array<std::string NodeRecord::*, 5> kNodeTexts = {
    &NodeRecord::cluster, &NodeRecord::node, &NodeRecord::state, &NodeRecord::reason,
    &NodeRecord::partitions};

struct PackedAttempt : Packed<AttemptRecord, AttemptNumbers, kAttemptTexts> {
  Micros stored_seen = 0;
  bool dirty = false;
};
struct PackedNode : Packed<NodeRecord, NodeNumbers, kNodeTexts> {
  bool dirty = false;
};

// By the places of its texts in the pool.
using AttemptKey = std::tuple<const std::string*, const std::string*, Micros>;
using NodeKey = std::pair<const std::string*, const std::string*>;

namespace {

// How far the stored time of the last sight of an open attempt may be behind: it is told with every
// look, and wanted only where the attempt is not seen again.
constexpr Micros kStoredSeenBehind = 10 * kMicrosPerMinute;

// When an attempt began to hold, or to wait.
Micros BeginOf(const AttemptNumbers& a) {
  return a.start > 0 ? a.start : a.eligible > 0 ? a.eligible : a.submit;
}

bool Overlaps(Micros from, Micros to, Micros window_from, Micros window_to) {
  return from < window_to && to > window_from;
}

}  // namespace

bool ListHas(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

struct Books::Impl {
  explicit Impl(const BookLimits& l) : limits(l) {}

  const BookLimits limits;
  mutable Mutex mutex;
  TextPool pool FW_GUARDED_BY(mutex);
  std::vector<PackedAttempt> attempts FW_GUARDED_BY(mutex);
  absl::flat_hash_map<AttemptKey, size_t> attempt_at FW_GUARDED_BY(mutex);
  absl::flat_hash_set<size_t> open FW_GUARDED_BY(mutex);  // attempts without an end
  std::vector<PackedNode> nodes FW_GUARDED_BY(mutex);
  // Of each node the first record and the one that is open now.
  struct NodeLife {
    size_t first = 0;
    std::optional<size_t> now;
  };
  absl::flat_hash_map<NodeKey, NodeLife> node_at FW_GUARDED_BY(mutex);
  std::vector<size_t> dirty_attempts FW_GUARDED_BY(mutex), dirty_nodes FW_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string, Micros> looks FW_GUARDED_BY(mutex);  // by cluster
  int64_t last_attempt FW_GUARDED_BY(mutex) = 0, last_node FW_GUARDED_BY(mutex) = 0;
  uint64_t refused FW_GUARDED_BY(mutex) = 0;

  void MarkDirty(size_t at) FW_REQUIRES(mutex) {
    if (std::exchange(attempts[at].dirty, true)) return;
    dirty_attempts.push_back(at);
  }
  void MarkNodeDirty(size_t at) FW_REQUIRES(mutex) {
    if (std::exchange(nodes[at].dirty, true)) return;
    dirty_nodes.push_back(at);
  }

  bool Acceptable(const AttemptRecord& a) const FW_REQUIRES(mutex) {
    if (a.job.empty() || a.nodes.size() > limits.max_list_bytes) return false;
    if (a.gpu_list.size() > limits.max_list_bytes) return false;
    if (!(a.duty <= 1) || a.start < 0 || a.end < a.start || a.suspended_s < 0) return false;
    return std::ranges::all_of(kAttemptTexts, [&](auto text) FW_REQUIRES(mutex) {
      return text == &AttemptRecord::nodes || text == &AttemptRecord::gpu_list ||
             (a.*text).size() <= limits.max_text_bytes;
    });
  }
  bool Acceptable(const NodeRecord& n) const FW_REQUIRES(mutex) {
    return !n.node.empty() && n.partitions.size() <= limits.max_list_bytes &&
           n.node.size() <= limits.max_text_bytes && n.state.size() <= limits.max_text_bytes &&
           n.reason.size() <= limits.max_text_bytes;
  }

  AttemptKey KeyOf(const PackedAttempt& a) const { return {a.texts[0], a.texts[1], a.start}; }
  // Where the attempt that `told` is about is; one that waits counts where `told` says it started.
  std::optional<size_t> FindAttempt(const AttemptRecord& told) FW_REQUIRES(mutex);
  // Adds the record, which has its id or gets one.
  void AddAttempt(AttemptRecord record, bool stored) FW_REQUIRES(mutex);
  void AddNode(NodeRecord record, bool stored) FW_REQUIRES(mutex);
  void Replace(size_t at, const AttemptRecord& record) FW_REQUIRES(mutex);
  void TellOne(const AttemptRecord& told) FW_REQUIRES(mutex);
  void TellNode(Micros at, NodeRecord told) FW_REQUIRES(mutex);
  void CloseNode(NodeLife& life, Micros at) FW_REQUIRES(mutex);
  void FillBefore(Micros since, const NodeRecord& first, std::vector<NodeRecord> out)
      FW_REQUIRES(mutex);
};

Books::Books(const BookLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
Books::~Books() = default;

std::optional<size_t> Books::Impl::FindAttempt(const AttemptRecord& told) {
  const std::string* const cluster = pool.Find(told.cluster);
  const std::string* const job = pool.Find(told.job);
  if (cluster == nullptr || job == nullptr) return std::nullopt;
  if (const auto it = attempt_at.find({cluster, job, told.start}); it != attempt_at.end())
    return it->second;
  if (told.start == 0) return std::nullopt;
  const auto waiting = attempt_at.find({cluster, job, 0});
  if (waiting == attempt_at.end() || attempts[waiting->second].end != kOpenEnd ||
      told.start < BeginOf(attempts[waiting->second]))
    return std::nullopt;
  return waiting->second;
}

void Books::Impl::AddAttempt(AttemptRecord record, bool stored) {
  if (attempts.size() >= limits.max_attempts) {
    ++refused;
    return;
  }
  if (record.id == 0) record.id = ++last_attempt;
  last_attempt = std::max(last_attempt, record.id);
  const size_t at = attempts.size();
  PackedAttempt& a = attempts.emplace_back();
  static_cast<Packed<AttemptRecord, AttemptNumbers, kAttemptTexts>&>(a) =
      PackedAttempt::Of(record, &pool);
  attempt_at[KeyOf(a)] = at;
  if (a.end == kOpenEnd) open.insert(at);
  a.stored_seen = a.seen;
  if (!stored) MarkDirty(at);
}

void Books::Impl::Replace(size_t at, const AttemptRecord& record) {
  PackedAttempt& a = attempts[at];
  attempt_at.erase(KeyOf(a));
  auto packed = PackedAttempt::Of(record, &pool);
  a.Drop(&pool);
  static_cast<Packed<AttemptRecord, AttemptNumbers, kAttemptTexts>&>(a) = packed;
  attempt_at[KeyOf(a)] = at;
  if (a.end == kOpenEnd) {
    open.insert(at);
  } else {
    open.erase(at);
  }
}

void Books::Impl::TellOne(const AttemptRecord& told) {
  if (!Acceptable(told)) {
    ++refused;
    return;
  }
  const std::optional<size_t> at = FindAttempt(told);
  if (!at.has_value()) {
    AddAttempt(told, false);
    return;
  }
  const AttemptRecord before = attempts[*at].Full();
  AttemptRecord now = before;
  for (const auto text : kAttemptTexts)
    if (!(told.*text).empty()) now.*text = told.*text;
  // A list of some of its GPUs takes none of the whole list away.
  if (before.placed && !told.placed && !before.gpu_list.empty()) now.gpu_list = before.gpu_list;
  now.submit = told.submit > 0 ? told.submit : now.submit;
  now.eligible = told.eligible > 0 ? told.eligible : now.eligible;
  now.start = told.start;
  now.gpus = told.gpus >= 0 ? told.gpus : now.gpus;
  now.duty = told.duty >= 0 ? told.duty : now.duty;
  now.suspended_s = std::max(now.suspended_s, told.suspended_s);
  now.placed |= told.placed;
  now.seen = std::max(now.seen, told.seen);
  // A source that looked before the end was known does not know it yet.
  const bool stale = told.end == kOpenEnd && before.end != kOpenEnd && told.seen <= before.end;
  if (stale) {
    now.state = before.state;
  } else {
    now.end = told.end;
  }
  const bool seen_later = now.seen - attempts[*at].stored_seen >= kStoredSeenBehind;
  AttemptRecord same = now;
  same.seen = before.seen;
  if (same == before && !seen_later) {
    attempts[*at].seen = now.seen;
    return;
  }
  Replace(*at, now);
  MarkDirty(*at);
}

void Books::Load(absl::Span<const AttemptRecord> attempts, absl::Span<const NodeRecord> nodes) {
  const MutexLock lock(impl_->mutex);
  for (const AttemptRecord& a : attempts) impl_->AddAttempt(a, true);
  std::vector<const NodeRecord*> by_time;
  by_time.reserve(nodes.size());
  for (const NodeRecord& n : nodes) by_time.push_back(&n);
  std::ranges::sort(by_time, {}, [](const NodeRecord* n) { return std::pair(n->from, n->id); });
  for (const NodeRecord* n : by_time) impl_->AddNode(*n, true);
}

void Books::Tell(absl::Span<const AttemptRecord> attempts) {
  const MutexLock lock(impl_->mutex);
  for (const AttemptRecord& told : attempts) impl_->TellOne(told);
}

std::vector<AttemptRecord> Books::TellAllOpen(std::string_view cluster, Micros at,
                                              absl::Span<const AttemptRecord> open,
                                              absl::Span<const std::string> unread) {
  const MutexLock lock(impl_->mutex);
  absl::flat_hash_set<size_t> told;
  for (const AttemptRecord& a : open) {
    impl_->TellOne(a);
    if (const auto place = impl_->FindAttempt(a)) told.insert(*place);
  }
  impl_->looks[std::string(cluster)] = at;
  const absl::flat_hash_set<std::string_view> stay(unread.begin(), unread.end());
  std::vector<size_t> gone;
  for (const size_t place : impl_->open) {
    const PackedAttempt& a = impl_->attempts[place];
    if (!told.contains(place) && *a.texts[0] == cluster && !stay.contains(*a.texts[1]))
      gone.push_back(place);
  }
  std::vector<AttemptRecord> ended;
  for (const size_t place : gone) {
    PackedAttempt& a = impl_->attempts[place];
    if (a.seen > at) continue;  // something that looked later knows better
    a.end = std::max({a.seen, a.start, BeginOf(a)});
    impl_->open.erase(place);
    impl_->MarkDirty(place);
    ended.push_back(a.Full());
  }
  return ended;
}

void Books::Impl::AddNode(NodeRecord record, bool stored) {
  if (nodes.size() >= limits.max_nodes) {
    ++refused;
    return;
  }
  if (record.id == 0) record.id = ++last_node;
  last_node = std::max(last_node, record.id);
  const size_t at = nodes.size();
  PackedNode& n = nodes.emplace_back();
  static_cast<Packed<NodeRecord, NodeNumbers, kNodeTexts>&>(n) = PackedNode::Of(record, &pool);
  const auto [it, fresh] = node_at.try_emplace({n.texts[0], n.texts[1]});
  if (fresh || n.from < nodes[it->second.first].from) it->second.first = at;
  if (n.to == kOpenEnd) it->second.now = at;
  if (!stored) MarkNodeDirty(at);
}

void Books::Impl::CloseNode(NodeLife& life, Micros at) {
  if (!life.now.has_value() || at < nodes[*life.now].from) return;
  nodes[*life.now].to = at;
  MarkNodeDirty(*life.now);
  life.now.reset();
}

void Books::Impl::TellNode(Micros at, NodeRecord told) {
  if (!Acceptable(told)) {
    ++refused;
    return;
  }
  // What runs on a node that takes work changes all the time and is not the node's.
  if (told.service == Service::kInService) told.state.clear();
  told.id = 0;
  told.from = at;
  told.to = kOpenEnd;
  const std::string* const cluster = pool.Find(told.cluster);
  const std::string* const name = pool.Find(told.node);
  const auto life =
      cluster == nullptr || name == nullptr ? node_at.end() : node_at.find({cluster, name});
  if (life != node_at.end() && life->second.now.has_value()) {
    NodeRecord now = nodes[*life->second.now].Full();
    if (at <= now.from) return;  // a look from before that
    if (told.gpus < 0) told.gpus = now.gpus;
    now.id = 0;
    now.from = at;
    if (now == told) return;
    CloseNode(life->second, at);
  }
  AddNode(std::move(told), false);
}

void Books::TellNodes(std::string_view cluster, Micros at, absl::Span<const NodeRecord> nodes,
                      bool all) {
  const MutexLock lock(impl_->mutex);
  absl::flat_hash_set<std::string_view> there;
  for (const NodeRecord& told : nodes) {
    there.insert(told.node);
    NodeRecord own = told;
    own.cluster = std::string(cluster);
    impl_->TellNode(at, std::move(own));
  }
  for (auto& [key, life] : impl_->node_at)
    if (all && *key.first == cluster && !there.contains(*key.second)) impl_->CloseNode(life, at);
  Micros& look = impl_->looks[std::string(cluster)];
  look = std::max(look, at);
}

void Books::Impl::FillBefore(Micros since, const NodeRecord& first, std::vector<NodeRecord> out) {
  std::ranges::sort(out, {}, &NodeRecord::from);
  Micros done = since;
  const auto add = [&](NodeRecord record, Micros from, Micros to) FW_REQUIRES(mutex) {
    if (from >= to) return;
    record.id = 0;
    record.from = from;
    record.to = to;
    record.gpus = first.gpus;
    record.partitions = first.partitions;
    AddNode(std::move(record), false);
  };
  NodeRecord in_service = first;
  in_service.service = Service::kInService;
  in_service.state.clear();
  in_service.reason.clear();
  for (const NodeRecord& o : out) {
    const Micros to = std::min(o.to, first.from), from = std::clamp(o.from, done, first.from);
    if (to <= done) continue;
    add(in_service, done, from);
    add(o, from, to);
    done = std::max(done, to);
  }
  add(in_service, done, first.from);
}

void Books::TellNodesBefore(std::string_view cluster, Micros since,
                            absl::Span<const NodeRecord> out_of_service) {
  const MutexLock lock(impl_->mutex);
  absl::flat_hash_map<std::string, std::vector<NodeRecord>> out;
  for (const NodeRecord& told : out_of_service) {
    if (!impl_->Acceptable(told) || told.to <= told.from) {
      ++impl_->refused;
      continue;
    }
    NodeRecord own = told;
    own.cluster = std::string(cluster);
    out[own.node].push_back(std::move(own));
  }
  std::vector<NodeRecord> firsts;
  for (const auto& [key, life] : impl_->node_at) {
    const PackedNode& first = impl_->nodes[life.first];
    if (*key.first == cluster && first.from > since) firsts.push_back(first.Full());
  }
  std::ranges::sort(firsts, {}, &NodeRecord::node);  // ids are given in a repeatable order
  for (const NodeRecord& first : firsts) {
    const auto it = out.find(first.node);
    impl_->FillBefore(since, first,
                      it == out.end() ? std::vector<NodeRecord>() : std::move(it->second));
  }
}

void Books::TellPastNodes(absl::Span<const NodeRecord> past) {
  const MutexLock lock(impl_->mutex);
  absl::flat_hash_map<std::pair<std::string, std::string>, std::map<Micros, size_t>> known;
  for (const NodeRecord& told : past) known.try_emplace({told.cluster, told.node});
  for (size_t at = 0; at < impl_->nodes.size(); ++at) {
    const PackedNode& n = impl_->nodes[at];
    const auto it = known.find({*n.texts[0], *n.texts[1]});
    if (it != known.end()) it->second[n.from] = at;
  }
  for (const NodeRecord& told : past) {
    std::map<Micros, size_t>& own = known[{told.cluster, told.node}];
    const auto next = own.upper_bound(told.from);
    const auto same = own.find(told.from);
    const auto before = own.lower_bound(told.from);
    const bool free =
        impl_->Acceptable(told) && told.from < told.to && told.to != kOpenEnd &&
        (next == own.end() || next->first >= told.to) &&
        (before == own.begin() || impl_->nodes[std::prev(before)->second].to <= told.from);
    if (!free) {
      ++impl_->refused;
      continue;
    }
    NodeRecord record = told;
    record.id = 0;
    if (same == own.end()) {
      const size_t at = impl_->nodes.size();
      impl_->AddNode(std::move(record), false);
      if (impl_->nodes.size() > at) own[told.from] = at;
      continue;
    }
    PackedNode& n = impl_->nodes[same->second];
    record.id = n.id;
    if (n.Full() == record) continue;
    const auto life = impl_->node_at.find({n.texts[0], n.texts[1]});
    if (life->second.now == same->second) life->second.now.reset();
    const auto packed = PackedNode::Of(record, &impl_->pool);
    n.Drop(&impl_->pool);
    static_cast<Packed<NodeRecord, NodeNumbers, kNodeTexts>&>(n) = packed;
    impl_->MarkNodeDirty(same->second);
  }
}

void Books::ForEachAttempt(Micros from, Micros to,
                           absl::FunctionRef<void(const AttemptRecord&)> visit) const {
  const MutexLock lock(impl_->mutex);
  for (const PackedAttempt& a : impl_->attempts) {
    const Micros begin = BeginOf(a);
    if (begin > 0 && Overlaps(begin, a.end, from, to)) visit(a.Full());
  }
}

void Books::ForEachNode(Micros from, Micros to,
                        absl::FunctionRef<void(const NodeRecord&)> visit) const {
  const MutexLock lock(impl_->mutex);
  for (const PackedNode& n : impl_->nodes)
    if (Overlaps(n.from, n.to, from, to)) visit(n.Full());
}

Micros Books::LastLook() const {
  const MutexLock lock(impl_->mutex);
  Micros oldest = 0;
  for (const auto& [cluster, at] : impl_->looks) oldest = oldest == 0 ? at : std::min(oldest, at);
  return oldest;
}

bool Books::any_nodes() const {
  const MutexLock lock(impl_->mutex);
  return !impl_->nodes.empty();
}

bool Books::any_attempts() const {
  const MutexLock lock(impl_->mutex);
  return !impl_->attempts.empty();
}

BookChanges Books::TakeChanges() {
  const MutexLock lock(impl_->mutex);
  BookChanges changes;
  changes.attempts.reserve(impl_->dirty_attempts.size());
  for (const size_t at : std::exchange(impl_->dirty_attempts, {})) {
    PackedAttempt& a = impl_->attempts[at];
    a.dirty = false;
    a.stored_seen = a.seen;
    changes.attempts.push_back(a.Full());
  }
  for (const size_t at : std::exchange(impl_->dirty_nodes, {})) {
    impl_->nodes[at].dirty = false;
    changes.nodes.push_back(impl_->nodes[at].Full());
  }
  return changes;
}

size_t Books::DropBefore(Micros horizon) {
  const MutexLock lock(impl_->mutex);
  // What is not stored yet stays until it is: places are of the tables as they are.
  if (!impl_->dirty_attempts.empty() || !impl_->dirty_nodes.empty()) return 0;
  const size_t before = impl_->attempts.size() + impl_->nodes.size();
  std::erase_if(impl_->attempts, [&](PackedAttempt& a) FW_REQUIRES(impl_->mutex) {
    if (a.end >= horizon) return false;
    a.Drop(&impl_->pool);
    return true;
  });
  std::erase_if(impl_->nodes, [&](PackedNode& n) FW_REQUIRES(impl_->mutex) {
    if (n.to >= horizon) return false;
    n.Drop(&impl_->pool);
    return true;
  });
  const size_t dropped = before - impl_->attempts.size() - impl_->nodes.size();
  if (dropped == 0) return 0;
  impl_->attempt_at.clear();
  impl_->open.clear();
  for (size_t at = 0; at < impl_->attempts.size(); ++at) {
    impl_->attempt_at[impl_->KeyOf(impl_->attempts[at])] = at;
    if (impl_->attempts[at].end == kOpenEnd) impl_->open.insert(at);
  }
  impl_->node_at.clear();
  for (size_t at = 0; at < impl_->nodes.size(); ++at) {
    const PackedNode& n = impl_->nodes[at];
    const auto [it, fresh] = impl_->node_at.try_emplace({n.texts[0], n.texts[1]});
    if (fresh || n.from < impl_->nodes[it->second.first].from) it->second.first = at;
    if (n.to == kOpenEnd) it->second.now = at;
  }
  return dropped;
}

void RemindIndex(const Books& books, JobIndex* index) {
  std::map<std::string, std::vector<std::string>> nodes;
  books.ForEachNode(kOpenEnd - 1, kOpenEnd, [&](const NodeRecord& n) {
    if (!n.cluster.empty()) nodes[n.cluster].push_back(n.node);
  });
  for (const auto& [cluster, of] : nodes) index->NameNodes(cluster, of);
  std::vector<StaticAssignment> ran;
  books.ForEachAttempt(0, kOpenEnd, [&](const AttemptRecord& a) {
    if (a.start == 0) return;
    StaticAssignment& time = ran.emplace_back();
    time.job = a.job;
    time.cluster = a.cluster;
    time.from = a.start;
    time.to = a.end;
  });
  index->KnowTimes(ran);
}

void AwaitUnseenGpus(const Books& books, JobIndex* index) {
  constexpr size_t kMaxGpusOfAttempt = 1'000'000;
  std::vector<std::string> gpus;  // of one attempt: of all there may be tens of millions
  books.ForEachAttempt(0, kOpenEnd, [&](const AttemptRecord& a) {
    if (a.start == 0 || a.gpu_list.empty()) return;
    gpus.clear();
    ForEachGpuOf(a.gpu_list, kMaxGpusOfAttempt,
                 [&](const std::string& gpu) { gpus.push_back(gpu); });
    StaticAssignment attempt;
    attempt.job = a.job;
    attempt.name = a.name;
    attempt.user = a.user;
    attempt.workflow = a.workflow;
    attempt.cluster = a.cluster;
    attempt.from = a.start;
    attempt.to = a.end;
    index->Await(std::move(attempt), gpus);
  });
  index->KnowTimes({});
}

BookStats Books::stats() const {
  const MutexLock lock(impl_->mutex);
  return {
      .attempts = impl_->attempts.size(), .nodes = impl_->nodes.size(), .refused = impl_->refused};
}

}  // namespace flopwatch::jobs
