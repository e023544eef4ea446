#include "query/books.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "jobs/hostlist.h"

namespace flopwatch::query {
namespace {

using fleet::Host;
using fleet::HostSpan;
using store::Window;

HostSpan SpanOf(Window w) { return {w.from, w.to}; }

// Times in which somebody waited for GPUs, by partition; "" = whoever names none.
using Queues = absl::flat_hash_map<std::string, std::vector<HostSpan>>;

// What attempts say of hosts.
struct AttemptHosts {
  Queues queues;
  // By node, of attempts whose GPUs nobody names. Of those that hold GPUs by name for `unseen`
  // hosts alone: it counts where none of a host's was ever seen.
  absl::flat_hash_map<std::string, std::vector<Host::Count>> counts;
  // Of attempts that name no node, by partition: a pool that is one line of a list of hosts.
  absl::flat_hash_map<std::string, std::vector<Host::Count>> pooled;
};

// Whether intervals of the job are known: of GPUs that no exporter has named yet there are none,
// and then the number alone counts.
bool IsOnGpus(const Memory& memory, const jobs::AttemptRecord& a) {
  const auto job = memory.jobs().FindJobOf(a.cluster, a.job);
  return job.has_value() && memory.jobs().GpusEver(job->id) > 0;
}

// `unseen`: the hosts none of whose GPUs was ever seen.
AttemptHosts AttemptHostsIn(const Memory& memory, Window window,
                            const absl::flat_hash_set<std::string>& unseen) {
  AttemptHosts out;
  memory.books().ForEachAttempt(window.from, window.to, [&](const jobs::AttemptRecord& a) {
    const Micros waits_from = a.eligible > 0 ? a.eligible : a.submit;
    const Micros waits_to = a.start > 0 ? a.start : a.end;
    if (waits_from > 0 && waits_from < waits_to) {
      std::string_view rest = a.partition;
      do {
        const size_t comma = rest.find(',');
        out.queues[std::string(rest.substr(0, comma))].push_back({waits_from, waits_to});
        rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
      } while (!rest.empty());
    }
    if (a.start == 0 || a.gpus <= 0) return;
    const bool named = a.placed && !a.nodes.empty() && IsOnGpus(memory, a);
    if (named && unseen.empty()) return;
    const auto nodes = jobs::ExpandHostlist(a.nodes);
    if (!nodes.ok() || nodes->empty()) {
      out.pooled[a.partition].push_back({{a.start, a.end}, static_cast<double>(a.gpus)});
      return;
    }
    // Nobody says how they are divided; schedulers give as many on each node.
    const double each = static_cast<double>(a.gpus) / static_cast<double>(nodes->size());
    for (const std::string& node : *nodes)
      if (!named || unseen.contains(node)) out.counts[node].push_back({{a.start, a.end}, each});
  });
  for (auto& [partition, spans] : out.queues) Unite(&spans);
  return out;
}

class HostGatherer {
 public:
  HostGatherer(const Memory& memory, Window window, const HardwareFilter& filter,
               const fleet::Prices& prices, const jobs::OwnedTimes* held)
      : memory_(memory),
        window_(window),
        filter_(filter),
        prices_(prices),
        held_(held),
        lookup_(&prices, &memory.catalog()) {}

  Hosts Gather() {
    Boards();
    Holds();
    States();
    absl::flat_hash_set<std::string> unseen;
    for (const auto& [name, of] : nodes_)
      if (of.boards.empty()) unseen.insert(name);
    attempts_ = AttemptHostsIn(memory_, window_, unseen);
    out_.any_owner = memory_.jobs().stats().jobs > 0 || memory_.books().any_attempts();
    for (const auto& [name, of] : nodes_) ++hosts_of_[of.partitions];
    for (auto& [name, of] : nodes_) Finish(name, &of);
    out_.from = !listed_any_ ? fleet::DeployedFrom::kSeen
                : out_.not_listed > 0 || (scheduler_any_ && inventory_any_)
                    ? fleet::DeployedFrom::kSeveral
                : scheduler_any_ ? fleet::DeployedFrom::kScheduler
                                 : fleet::DeployedFrom::kInventory;
    return std::move(out_);
  }

 private:
  struct Node {
    Host host;
    std::vector<int32_t> boards;  // their entities, in the order of host.boards
    std::string model, partitions, cluster;
    bool listed = false, scheduler = false;
  };

  void Boards() {
    absl::flat_hash_map<int32_t, Window> there;
    for (const GpuPeriod& gpu : memory_.Gpus()) {
      const Window w = {std::max(gpu.from, window_.from), std::min(gpu.to, window_.to)};
      if (w.from < w.to) there[gpu.entity] = w;
    }
    std::vector<std::pair<int32_t, int32_t>> instances;  // and their board
    // Neighbours are of one host.
    std::string last_name;
    Node* last = nullptr;
    memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
      if (e.parent != 0) instances.emplace_back(e.id, e.parent);
      const auto w = there.find(e.id);
      if (w == there.end()) return;
      if (std::string name = HostOf(e); last == nullptr || name != last_name) {
        last = &nodes_[name];
        last_name = std::move(name);
      }
      Node& node = *last;
      board_at_[e.id] = {&node, node.host.boards.size()};
      node.boards.push_back(e.id);
      node.host.boards.push_back({.there = SpanOf(w->second), .held = {}});
      if (node.model.empty()) node.model = e.labels.model;
    });
    for (const auto& [instance, parent] : instances) {
      const auto board = board_at_.find(parent);
      if (board == board_at_.end()) continue;
      const double share = memory_.registry().Fraction(instance);
      board->second.Get().instances += share;
      instance_of_[instance] = {parent, share};
    }
  }

  void Holds() {
    memory_.ForEachOwned(
        window_, held_,
        [&](absl::Span<const int32_t> entities, absl::Span<const jobs::OwnedStretch> stretches) {
          const auto held = std::make_shared<std::vector<HostSpan>>();
          for (const jobs::OwnedStretch& s : stretches) {
            if (!held->empty() && held->back().to == s.from) {
              held->back().to = s.to;
            } else {
              held->push_back({s.from, s.to});
            }
          }
          for (const int32_t entity : entities) {
            const auto instance = instance_of_.find(entity);
            const bool part = instance != instance_of_.end();
            const auto at = board_at_.find(part ? instance->second.first : entity);
            if (at == board_at_.end()) continue;
            Host::Board& board = at->second.Get();
            // A job of the whole board beside instances holds what these do.
            const double weight = part ? instance->second.second : board.instances > 0 ? 0 : 1;
            board.held.push_back({held, weight});
          }
        });
  }

  void States() {
    const auto add = [&](bool scheduler) {
      return [this, scheduler](const jobs::NodeRecord& n) {
        Node& node = nodes_[n.node];
        if (node.scheduler && !scheduler) return;  // the scheduler's list is the better one
        node.listed = true;
        node.scheduler = scheduler;
        node.partitions = n.partitions;
        node.cluster = n.cluster;
        // The scheduler's words where it gives no reason.
        node.host.states.push_back({{n.from, n.to},
                                    static_cast<double>(n.gpus),
                                    n.service,
                                    n.reason.empty() ? n.state : n.reason});
      };
    };
    memory_.books().ForEachNode(window_.from, window_.to, add(true));
    for (const jobs::NodeRecord& n : memory_.inventory()) add(false)(n);
  }

  void Finish(const std::string& name, Node* node) {
    if (!filter_.partition.empty() && !jobs::ListHas(node->partitions, filter_.partition)) return;
    if (!filter_.cluster.empty() && node->cluster != filter_.cluster) return;
    if (!filter_.model.empty() && node->model != filter_.model) return;
    if (node->listed) {
      listed_any_ = true;
      scheduler_any_ |= node->scheduler;
      inventory_any_ |= !node->scheduler;
      const bool has_gpus =
          std::ranges::any_of(node->host.states, [](const Host::State& s) { return s.gpus != 0; });
      if (!has_gpus && node->boards.empty()) return;
      out_.never_seen += node->boards.empty() ? 1 : 0;
    } else {
      unlisted_ += static_cast<int64_t>(node->boards.size());
    }
    out_.any_states |= node->scheduler;
    out_.not_listed = listed_any_ ? unlisted_ : 0;
    std::ranges::sort(node->host.states, {}, [](const Host::State& s) { return s.time.from; });
    if (const auto it = attempts_.counts.find(name); it != attempts_.counts.end())
      node->host.counts = std::move(it->second);
    const auto pool = attempts_.pooled.find(node->partitions);
    if (pool != attempts_.pooled.end() && hosts_of_[node->partitions] == 1)
      node->host.counts.insert(node->host.counts.end(), pool->second.begin(), pool->second.end());
    node->host.queued = QueueOf(node->partitions);
    if (!prices_.empty())
      node->host.price = &lookup_.Of(node->model, node->cluster, node->partitions);
    out_.hosts.emplace_back(name, std::move(node->host));
  }

  // When somebody waited for hosts of these partitions.
  std::shared_ptr<const std::vector<HostSpan>> QueueOf(const std::string& partitions) {
    const auto [it, fresh] = queue_of_.try_emplace(partitions);
    if (!fresh) return it->second;
    std::vector<HostSpan> all;
    for (const auto& [partition, spans] : attempts_.queues) {
      if (partition.empty() || partitions.empty() || jobs::ListHas(partitions, partition))
        all.insert(all.end(), spans.begin(), spans.end());
    }
    Unite(&all);
    return it->second = std::make_shared<const std::vector<HostSpan>>(std::move(all));
  }

  const Memory& memory_;
  const Window window_;
  const HardwareFilter& filter_;
  const fleet::Prices& prices_;
  const jobs::OwnedTimes* held_;
  fleet::PriceLookup lookup_;
  // A host's boards are still being added, so by their place.
  struct BoardAt {
    Node* node;
    size_t at;
    Host::Board& Get() const { return node->host.boards[at]; }
  };
  absl::node_hash_map<std::string, Node> nodes_;
  absl::flat_hash_map<int32_t, BoardAt> board_at_;
  absl::flat_hash_map<int32_t, std::pair<int32_t, double>> instance_of_;
  AttemptHosts attempts_;
  absl::flat_hash_map<std::string, std::shared_ptr<const std::vector<HostSpan>>> queue_of_;
  absl::flat_hash_map<std::string, int64_t> hosts_of_;  // by their list of partitions
  bool listed_any_ = false, scheduler_any_ = false, inventory_any_ = false;
  int64_t unlisted_ = 0;
  Hosts out_;
};

}  // namespace

AttemptsByJob AttemptsIn(const Memory& memory, Window window) {
  std::vector<jobs::AttemptRecord> told;
  memory.books().ForEachAttempt(window.from, window.to, [&](const jobs::AttemptRecord& a) {
    if (a.start > 0 && a.start < window.to) told.push_back(a);
  });
  // Those of a job together, jobs with the same id beside each other.
  std::vector<uint32_t> order(told.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return std::tie(told[a].job, told[a].cluster, a) < std::tie(told[b].job, told[b].cluster, b);
  });
  AttemptsByJob out;
  out.jobs.reserve(told.size());
  std::string id, id_before;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const std::string cluster = told[order[begin]].cluster;
    id_before = std::exchange(id, told[order[begin]].job);
    while (end < order.size() && told[order[end]].job == id && told[order[end]].cluster == cluster)
      ++end;
    const auto move_to = [&](std::vector<jobs::AttemptRecord>* own) {
      own->reserve(own->size() + end - begin);
      for (size_t k = begin; k < end; ++k) own->push_back(std::move(told[order[k]]));
    };
    const auto known = memory.jobs().FindJobOf(cluster, id);
    if (known.has_value()) {
      const auto [at, fresh] = out.by_id.try_emplace(known->id, out.jobs.size());
      if (fresh) out.jobs.push_back({.record = *known, .attempts = {}});
      move_to(&out.jobs[at->second].attempts);
      continue;
    }
    const bool shared =
        (begin > 0 && id_before == id) || (end < order.size() && told[order[end]].job == id) ||
        memory.jobs().FindJob(id).has_value() || !memory.jobs().KeysOfId(id).empty();
    JobAttempts& own = out.jobs.emplace_back();
    own.record.key = shared && !cluster.empty() ? jobs::KeyOfCluster(cluster, id) : id;
    own.record.cluster = cluster;
    move_to(&own.attempts);
  }
  for (size_t k = 0; k < out.jobs.size(); ++k) {
    JobAttempts& job = out.jobs[k];
    out.by_key.emplace(job.record.key, k);
    std::ranges::sort(job.attempts, {}, [](const jobs::AttemptRecord& a) { return a.start; });
  }
  return out;
}

const jobs::AttemptRecord* AttemptAt(const std::vector<jobs::AttemptRecord>* attempts, Micros at) {
  if (attempts == nullptr || attempts->empty()) return nullptr;
  for (const jobs::AttemptRecord& a : *attempts)
    if (a.start <= at && at < a.end) return &a;
  return &attempts->back();
}

const std::string& NodeModels::On(const std::string& nodes) {
  if (model_.empty()) {
    memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
      if (!e.labels.model.empty()) model_.try_emplace(e.labels.node, e.labels.model);
    });
    model_.try_emplace("", "");
  }
  const auto names = jobs::ExpandHostlist(nodes);
  const auto it = model_.find(names.ok() && !names->empty() ? names->front() : "");
  return it == model_.end() ? model_[""] : it->second;
}

double HeldSeconds(const jobs::AttemptRecord& a, Window window) {
  if (a.start == 0 || a.gpus <= 0) return 0;
  const Micros overlap = std::min(a.end, window.to) - std::max(a.start, window.from);
  return static_cast<double>(a.gpus) * ToSeconds(std::max<Micros>(0, overlap));
}

std::string HostOf(const store::EntityRecord& gpu) {
  return gpu.labels.node.empty() ? "GPU " + gpu.key.uuid : gpu.labels.node;
}

Hosts HostsIn(const Memory& memory, Window window, const HardwareFilter& filter,
              const fleet::Prices& prices, const jobs::OwnedTimes* held) {
  return HostGatherer(memory, window, filter, prices, held).Gather();
}

}  // namespace flopwatch::query
