// What Slurm would have said of a fleet, read by a reader of its own (scheduler_reader.h), against
// the truth to the second.
#include "simulate/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "data.h"
#include "make_fleet.h"
#include "scheduler_reader.h"
#include "simulate/application.h"
#include "simulate/fleet_model.h"
#include "simulate/hostlist.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

using reader::Allocation;

// A fleet with its books on disk.
struct Books {
  std::unique_ptr<Fleet> fleet;
  std::string directory;
  Truth truth;
  int64_t from = 0, to = 0;  // seconds since 1970
  std::vector<Allocation> sacct;

  ~Books() {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  std::string Text(std::string_view name) const {
    return testing_data::ReadFile(fmt::format("{}/{}", directory, name));
  }
};

std::unique_ptr<Books> BooksOf(const FleetOptions& o, SlurmVersion version = SlurmVersion::k2505) {
  static int made = 0;
  auto b = std::make_unique<Books>();
  b->fleet = Make(o);
  b->directory = fmt::format("{}/scheduler-{}-{}", ::testing::TempDir(), getpid(), ++made);
  SchedulerOptions options;
  options.directory = b->directory;
  options.version = version;
  const auto written = WriteScheduler(*b->fleet, options);
  EXPECT_TRUE(written.ok()) << written.status();
  b->truth = b->fleet->TruthOf(o.start, o.start + o.duration, true);
  b->from = o.start / kMicrosPerSecond;
  b->to = (o.start + o.duration) / kMicrosPerSecond;
  b->sacct = reader::Sacct(b->directory, b->to);
  EXPECT_EQ(written->attempts, b->sacct.size());
  return b;
}

struct Case {
  Preset preset;
  Faults faults;
  uint64_t seed;
};
void PrintTo(const Case& c, std::ostream* os) {
  *os << PresetName(c.preset) << "-" << FaultsName(c.faults) << "-" << c.seed;
}

class SchedulerBooks : public ::testing::TestWithParam<Case> {
 protected:
  SchedulerBooks()
      : books_(BooksOf(Options(GetParam().preset, 400, 72, GetParam().faults, GetParam().seed))) {}
  bool faulty() const { return GetParam().faults == Faults::kScheduler; }
  std::unique_ptr<Books> books_;
};
INSTANTIATE_TEST_SUITE_P(Fleets, SchedulerBooks,
                         ::testing::Values(Case{Preset::kResearch, Faults::kNone, 1},
                                           Case{Preset::kLlm, Faults::kNone, 2},
                                           Case{Preset::kSeren, Faults::kNone, 3},
                                           Case{Preset::kResearch, Faults::kAll, 4},
                                           Case{Preset::kResearch, Faults::kScheduler, 5},
                                           Case{Preset::kLlm, Faults::kScheduler, 6},
                                           Case{Preset::kSeren, Faults::kScheduler, 7}));

// TRES x elapsed, by job and by account.
TEST_P(SchedulerBooks, TresTimesElapsedIsTheTruth) {
  const SchedulerTruth& truth = *books_->truth.scheduler;
  std::map<std::pair<std::string, int64_t>, const AttemptTruth*> attempts;
  for (const AttemptTruth& t : truth.attempts) attempts[{t.key, t.submit}] = &t;
  ASSERT_EQ(attempts.size(), truth.attempts.size());
  std::map<std::string, int64_t> held, of_account, mig, shard;
  for (const Allocation& a : books_->sacct) {
    ASSERT_TRUE(attempts.contains({a.id, a.submit})) << a.id;
    const AttemptTruth& t = *attempts.at({a.id, a.submit});
    EXPECT_EQ(a.end - a.start, a.elapsed + a.suspended) << a.id;
    EXPECT_EQ(a.elapsed, t.elapsed_s) << a.id;
    EXPECT_EQ(a.suspended, t.total_suspended_s) << a.id;
    EXPECT_EQ(a.state, t.state);
    if (a.start == 0) continue;
    EXPECT_EQ(a.gpus + a.shards, t.gpus);
    if (a.start >= books_->from) {  // of others sacct does not say when they were suspended
      EXPECT_EQ(a.elapsed, t.running_s) << a.id;
      EXPECT_EQ(a.suspended, t.suspended_s) << a.id;
    }
    const int64_t seconds =
        std::min(a.end, books_->to) - std::max(std::min(a.end, books_->from), a.start);
    const int64_t within = std::min(seconds, std::max<int64_t>(0, a.end - books_->from));
    EXPECT_EQ(within, t.running_s + t.suspended_s) << a.id;
    (a.shards > 0 ? shard
     : a.mig      ? mig
                  : of_account)[a.cluster + "/" + a.account] += within * std::max(a.gpus, a.shards);
    if (!a.mig) held[a.cluster] += within * a.gpus;
  }
  for (const BooksTruth& c : truth.clusters) {
    EXPECT_EQ(held[c.cluster], c.usage.allocated_gpu_s()) << c.cluster;
    for (const UsageTruth& account : c.accounts) {
      const std::string key = c.cluster + "/" + account.name;
      EXPECT_EQ(of_account[key], account.allocated_gpu_s()) << key;
      EXPECT_EQ(mig[key], account.mig_s) << key;
      EXPECT_EQ(shard[key], account.shard_s) << key;
      of_account.erase(key), mig.erase(key), shard.erase(key);
    }
  }
  for (const auto* rest : {&of_account, &mig, &shard})
    for (const auto& [key, seconds] : *rest) EXPECT_EQ(seconds, 0) << key;
}

// The books' levels are those of the truth's clusters, and every sum closes.
TEST_P(SchedulerBooks, SumsCloseAndAgreeWithTheLevels) {
  for (const BooksTruth& b : books_->truth.scheduler->clusters) {
    const auto c = std::ranges::find_if(books_->truth.clusters, [&](const ClusterTruth& t) {
      return t.cluster == b.cluster && !t.mig;
    });
    ASSERT_NE(c, books_->truth.clusters.end());
    const StateSeconds& s = b.gpu_s;
    EXPECT_EQ(b.gpus, c->gpus);
    EXPECT_EQ(s.deployed * kMicrosPerSecond, c->deployed_us);
    EXPECT_EQ(s.schedulable * kMicrosPerSecond, c->schedulable_us);
    EXPECT_EQ(s.busy * kMicrosPerSecond, c->provisioned_on_busy_us);
    EXPECT_EQ(s.draining * kMicrosPerSecond, c->draining_us);
    EXPECT_EQ(s.absent + s.deployed, b.gpus * (books_->to - books_->from));
    EXPECT_EQ(s.schedulable + s.draining + s.drained + s.down + s.maintenance, s.deployed);
    EXPECT_LE(s.reserved, s.schedulable);
    EXPECT_LE(s.busy, s.schedulable);
    EXPECT_LE(b.on_schedulable_gpu_s, s.busy);
    EXPECT_LE(b.on_draining_gpu_s, s.draining);
    EXPECT_EQ(b.on_closed_gpu_s, 0);
    const int64_t all = b.usage.allocated_gpu_s();
    EXPECT_EQ(all, b.on_schedulable_gpu_s + b.on_draining_gpu_s + b.on_closed_gpu_s);
    // A shared GPU is allocated while one shard of it is: at least half of the shards' time.
    const int64_t shared =
        (c->work.allocated_us + c->draining.allocated_us) / kMicrosPerSecond - all;
    EXPECT_LE(shared, b.usage.shard_s);
    EXPECT_GE(2 * shared, b.usage.shard_s);
    int64_t accounts = 0, partitions = 0, nodes = 0, suspended = 0;
    for (const UsageTruth& u : b.accounts) accounts += u.allocated_gpu_s();
    for (const UsageTruth& u : b.partitions) partitions += u.allocated_gpu_s();
    StateSeconds gpu_s;
    for (const NodeTruth& n : b.nodes) {
      nodes += n.usage.allocated_gpu_s();
      suspended += n.usage.suspended_gpu_s;
      gpu_s += n.node_s * n.gpus;
    }
    EXPECT_EQ(accounts, all);
    EXPECT_EQ(partitions, all);
    EXPECT_EQ(nodes, all);
    EXPECT_EQ(suspended, b.usage.suspended_gpu_s);
    EXPECT_EQ(gpu_s.schedulable, s.schedulable);
    EXPECT_EQ(suspended > 0, faulty()) << b.cluster;
  }
}

// The attempts' GPU time is that of the work on the GPUs, which is summed up elsewhere.
TEST_P(SchedulerBooks, AttemptsHoldWhatTheirGpusWereHeldFor) {
  std::map<std::pair<std::string, int32_t>, int64_t> held;
  for (const JobTruth& j : books_->truth.jobs)
    held[{j.key, j.attempt}] = j.work.allocated_us / kMicrosPerSecond;
  size_t compared = 0;
  for (const AttemptTruth& a : books_->truth.scheduler->attempts) {
    if (a.hold == "shard") continue;  // its GPU is another job's too
    const auto j = held.find({a.key, a.attempt});
    const int64_t truth = j != held.end() ? j->second : 0;
    EXPECT_EQ((a.running_s + a.suspended_s) * a.gpus, truth) << a.key << " " << a.attempt;
    compared += truth > 0 ? 1 : 0;
  }
  EXPECT_GT(compared, 500u);
}

TEST_P(SchedulerBooks, EventsAreTheNodeStates) {
  using Event = std::tuple<std::string, std::string, std::string, std::string, int64_t, int64_t>;
  std::multiset<Event> said, true_ones;
  std::map<std::string, int64_t> registered;
  for (const reader::Row& row : reader::Table(books_->directory + "/events.txt", '|')) {
    const int64_t end = row.at("TimeEnd") == "Unknown" ? books_->to : std::stoll(row.at("TimeEnd"));
    const int64_t start = std::stoll(row.at("TimeStart"));
    if (row.at("NodeName").empty()) {  // the cluster's own: its nodes changed
      EXPECT_EQ(row.at("Reason"), "Cluster Registered TRES");
      registered[row.at("Cluster")] += end - start;
      continue;
    }
    said.insert(
        {row.at("NodeName"), row.at("State"), row.at("Reason"), row.at("User"), start, end});
  }
  std::map<std::string, int64_t> kinds;
  for (const BooksTruth& b : books_->truth.scheduler->clusters) {
    EXPECT_EQ(registered[b.cluster], books_->to - books_->from);
    for (const NodeTruth& n : b.nodes)
      for (const NodeStateTruth& s : n.states) {
        ++kinds[s.state];
        if (s.state == "ABSENT" || s.state == "DRAINING" || s.state == "RESERVED") continue;
        true_ones.insert({n.node, s.state, s.reason, s.user, s.from, s.to});
      }
  }
  EXPECT_EQ(said, true_ones);
  if (GetParam().faults == Faults::kNone) {
    EXPECT_TRUE(kinds.empty());
  }
  if (faulty()) {
    EXPECT_GT(kinds["MAINT"], 0);
    EXPECT_GT(kinds["RESERVED"], 0);
  } else {
    EXPECT_EQ(kinds["MAINT"] + kinds["RESERVED"], 0);
  }
}

TEST_P(SchedulerBooks, RequeuedAttemptsAreRowsOfTheirOwn) {
  std::map<std::string, std::vector<const Allocation*>> by_id;
  std::map<std::string, int> states;
  for (const Allocation& a : books_->sacct) {
    by_id[a.id].push_back(&a);
    ++states[a.state];
  }
  int requeued = 0;
  for (const auto& [id, rows] : by_id) {
    for (size_t i = 0; i + 1 < rows.size(); ++i, ++requeued) {
      const Allocation &a = *rows[i], &next = *rows[i + 1];
      EXPECT_TRUE(a.state == "NODE_FAIL" || a.state == "PREEMPTED" || a.state == "REQUEUED")
          << id << " " << a.state;
      EXPECT_EQ(next.submit, a.end) << id;
      EXPECT_EQ(next.account, a.account);
      if (next.start > 0) {
        EXPECT_GE(next.start, a.end + 121) << id;
      }
    }
    EXPECT_NE(rows.back()->state, "REQUEUED") << id;
  }
  EXPECT_EQ(requeued > 0, faulty());
  for (const char* state : {"REQUEUED", "PREEMPTED", "TIMEOUT"})
    EXPECT_EQ(states[state] > 0, faulty()) << state;
}

TEST_P(SchedulerBooks, NoGpuIsHeldByTwoJobs) {
  std::map<std::pair<std::string, int64_t>, const Allocation*> by_start;
  for (const Allocation& a : books_->sacct)
    if (a.start != 0) by_start[{a.id, a.start}] = &a;
  struct Hold {
    int64_t from, to;
    std::string id;
  };
  std::map<std::string, std::vector<Hold>> whole, shared;
  std::map<const Allocation*, int64_t> gpus;
  std::map<std::string, std::string> slots;  // GPU and its slot
  for (const reader::Row& row : reader::Table(books_->directory + "/gpu_map.csv", ',')) {
    const auto held = by_start.find({row.at("job_id_raw"), std::stoll(row.at("start"))});
    ASSERT_NE(held, by_start.end()) << row.at("job_id_raw");
    const Allocation& a = *held->second;
    EXPECT_NE(std::ranges::find(a.nodes, row.at("node")), a.nodes.end()) << a.id;
    ++gpus[&a];
    const bool is_shared = row.at("shared") == "shard";
    EXPECT_EQ(is_shared, a.shards > 0);
    EXPECT_EQ(row.at("shared") == "mig", a.mig);
    (is_shared ? shared : whole)[row.at("uuid")].push_back({a.start, a.end, a.id});
    const std::string slot = row.at("node") + ":" + row.at("gpu");
    EXPECT_EQ(slots.try_emplace(row.at("uuid"), slot).first->second, slot);
  }
  EXPECT_EQ(gpus.size(), by_start.size());
  for (const auto& [a, n] : gpus) EXPECT_EQ(n, a->gpus + a->shards) << a->id;
  const auto check = [](std::vector<Hold>& holds, size_t most) {
    std::ranges::sort(holds, {}, &Hold::from);
    for (size_t i = most; i < holds.size(); ++i)
      EXPECT_GE(holds[i].from, holds[i - most].to) << holds[i].id << " " << holds[i - most].id;
  };
  for (auto& [uuid, holds] : whole) check(holds, 1);
  for (auto& [uuid, holds] : shared) {
    EXPECT_FALSE(whole.contains(uuid)) << uuid;
    // Two at once, never three: of any three neighbours the first is over when the third begins.
    std::vector<std::pair<int64_t, int>> steps;
    for (const Hold& h : holds) steps.insert(steps.end(), {{h.from, 1}, {h.to, -1}});
    std::ranges::sort(steps);
    int now = 0;
    for (const auto& [at, step] : steps) EXPECT_LE(now += step, 2);
  }
}

TEST_P(SchedulerBooks, NothingRunsOnClosedNodes) {
  // Without the scheduler's own events, interactive sessions do not heed their node.
  const bool sessions = GetParam().faults != Faults::kAll;
  std::map<std::string, std::vector<NodeStateTruth>> closed;
  for (const BooksTruth& b : books_->truth.scheduler->clusters)
    for (const NodeTruth& n : b.nodes)
      for (const NodeStateTruth& s : n.states)
        if (s.state != "RESERVED" && s.state != "DRAINING") closed[n.node].push_back(s);
  for (const Allocation& a : books_->sacct)
    for (const std::string& node : a.nodes)
      for (const NodeStateTruth& s :
           sessions || a.partition != "interactive" ? closed[node] : std::vector<NodeStateTruth>{})
        EXPECT_TRUE(a.end <= s.from || a.start >= s.to) << a.id << " on " << node << " " << s.state;
}

TEST_P(SchedulerBooks, ReservationsHoldTheJobsOfTheirAccount) {
  std::map<std::string, reader::Row> reservations;
  for (const reader::Row& row : reader::Table(books_->directory + "/resv.txt", '|'))
    reservations[row.at("Name")] = row;
  std::map<std::string, std::string> accounts;  // by cluster and association
  for (const reader::Row& row : reader::Table(books_->directory + "/assoc.txt", '|'))
    accounts[row.at("Cluster") + row.at("ID")] = row.at("Account");
  EXPECT_EQ(!reservations.empty(), faulty());
  for (const Allocation& a : books_->sacct) {
    if (a.reservation.empty()) continue;
    const reader::Row& r = reservations.at(a.reservation);
    EXPECT_EQ(accounts.at(r.at("Cluster") + r.at("Assocs")), a.account);
    EXPECT_GE(a.start, std::stoll(r.at("TimeStart")));
    EXPECT_LT(a.start, std::stoll(r.at("TimeEnd")));
    const std::vector<std::string> nodes = reader::Hosts(r.at("NodeNames"));
    for (const std::string& node : a.nodes)
      EXPECT_NE(std::ranges::find(nodes, node), nodes.end()) << a.id;
  }
  // While it lasts, no other job starts there.
  for (const auto& [name, r] : reservations) {
    const std::vector<std::string> nodes = reader::Hosts(r.at("NodeNames"));
    for (const Allocation& a : books_->sacct) {
      if (a.start < std::stoll(r.at("TimeStart")) || a.start >= std::stoll(r.at("TimeEnd")) ||
          a.reservation == name || a.partition == "interactive" || a.cluster != r.at("Cluster"))
        continue;
      for (const std::string& node : a.nodes)
        EXPECT_EQ(std::ranges::find(nodes, node), nodes.end()) << a.id << " in " << name;
    }
  }
}

// scontrol's indices, squeue's, and those of the prolog are the same GPUs.
TEST_P(SchedulerBooks, LiveIndicesAreThePrologs) {
  std::map<std::string, std::set<std::string>> prolog, squeue;  // "job node" -> GPUs
  std::set<std::pair<std::string, int64_t>> running;
  for (const Allocation& a : books_->sacct)
    if (a.running && a.gpus > 0 && !a.mig) running.insert({a.id, a.start});
  for (const reader::Row& row : reader::Table(books_->directory + "/gpu_map.csv", ','))
    if (running.contains({row.at("job_id_raw"), std::stoll(row.at("start"))}))
      prolog[row.at("job_id_raw") + " " + row.at("node")].insert(row.at("gpu"));
  EXPECT_FALSE(prolog.empty());
  const auto indices = [](const std::string& gres) {
    std::set<std::string> out;
    const size_t at = gres.find("(IDX:") + 5;
    for (const std::string& g : reader::Hosts("[" + gres.substr(at, gres.find(')') - at) + "]"))
      out.insert(g);
    return out;
  };
  const boost::json::value queue = boost::json::parse(books_->Text("squeue.json"));
  size_t jobs = 0;
  for (const auto& job : queue.at("jobs").as_array()) {
    ++jobs;
    const std::string gres(job.at("tres_alloc_str").as_string());
    if (gres.find("gres/gpu=") == std::string::npos || gres.find('_') != std::string::npos)
      continue;
    const auto nodes = reader::Hosts(std::string(job.at("nodes").as_string()));
    ASSERT_EQ(nodes.size(), job.at("gres_detail").as_array().size());
    for (size_t i = 0; i < nodes.size(); ++i)
      squeue[fmt::format("{} {}", job.at("job_id").as_int64(), nodes[i])] =
          indices(std::string(job.at("gres_detail").as_array()[i].as_string()));
  }
  EXPECT_EQ(squeue, prolog);
  std::map<std::string, std::set<std::string>> scontrol;
  std::istringstream text(books_->Text("scontrol_job.txt"));
  std::string line, id;
  size_t shown = 0;
  while (std::getline(text, line)) {
    if (line.starts_with("JobId=")) id = line.substr(6, line.find(' ') - 6), ++shown;
    const size_t nodes = line.find("     Nodes="), gres = line.find("GRES=gpu:");
    if (nodes != 0 || gres == std::string::npos || line.find('_', gres) != std::string::npos)
      continue;
    for (const std::string& node : reader::Hosts(line.substr(11, line.find(' ', 11) - 11)))
      scontrol[id + " " + node] = indices(line.substr(gres));
  }
  EXPECT_EQ(scontrol, prolog);
  EXPECT_EQ(shown, jobs);
}

// --- single fleets ---

FleetOptions Faulty(uint64_t seed) {
  return Options(Preset::kResearch, 300, 60, Faults::kScheduler, seed);
}

constexpr std::string_view kFiles[] = {"sacct.txt",        "sacct.json",        "events.txt",
                                       "resv.txt",         "assoc.txt",         "gpu_map.csv",
                                       "scontrol_job.txt", "scontrol_node.txt", "squeue.json"};

TEST(Scheduler, SameSeedSameBooks) {
  const auto a = BooksOf(Faulty(11)), b = BooksOf(Faulty(11)), c = BooksOf(Faulty(12));
  for (std::string_view name : kFiles) {
    EXPECT_FALSE(a->Text(name).empty()) << name;
    EXPECT_EQ(a->Text(name), b->Text(name)) << name;
    if (name != "assoc.txt") {
      EXPECT_NE(a->Text(name), c->Text(name)) << name;
    }
  }
  EXPECT_EQ(TruthJson(a->truth), TruthJson(b->truth));
}

TEST(Scheduler, LongerFleetHasTheSamePast) {
  FleetOptions longer = Faulty(13);
  longer.duration += 24 * kMicrosPerHour;
  const auto a = BooksOf(Faulty(13)), b = BooksOf(longer);
  std::set<reader::Row> later;
  for (const reader::Row& row : reader::Table(b->directory + "/sacct.txt", '|')) later.insert(row);
  size_t over = 0;
  for (const reader::Row& row : reader::Table(a->directory + "/sacct.txt", '|')) {
    if (row.at("End") == "Unknown") continue;
    ++over;
    EXPECT_TRUE(later.contains(row)) << row.at("JobIDRaw");
  }
  EXPECT_GT(over, 500u);
}

// The moment of asking may lie before the end: the same as a fleet that ends there.
TEST(Scheduler, AskedEarlierIsAFleetThatEndsThere) {
  FleetOptions longer = Faulty(14);
  longer.duration += 24 * kMicrosPerHour;
  const auto a = BooksOf(Faulty(14));
  const auto b = BooksOf(longer);
  SchedulerOptions options;
  options.directory = b->directory;
  options.until = a->fleet->options().start + a->fleet->options().duration;
  ASSERT_TRUE(WriteScheduler(*b->fleet, options).ok());
  for (std::string_view name : {"sacct.txt", "sacct.json", "gpu_map.csv", "squeue.json"})
    EXPECT_EQ(a->Text(name), b->Text(name)) << name;
}

TEST(Scheduler, SuspendedJobsHoldTheirGpusAndDoNothing) {
  const auto f = Make(Options(Preset::kLlm, 600, 72, Faults::kScheduler, 5, 100));
  const Fleet::Model& m = f->model();
  int looked = 0, resumed = 0;
  for (const Stint& s : m.activity->AllStints()) {
    if (!s.suspended) continue;
    const auto& job = m.plan.jobs[s.job];
    EXPECT_GE(s.from, job.suspend_from);
    EXPECT_LE(s.to, job.suspend_to);
    const Totals work = m.activity->At(s.lane, s.to) - m.activity->At(s.lane, s.from);
    EXPECT_EQ(work.tensor_cycles, 0);
    EXPECT_EQ(work.util_us, 0);
    EXPECT_EQ(work.sm_us, 0);
    if (s.to - s.from > 60) {
      Values v;
      ReadLane(m, s.lane, s.to - 5, 10, &v);
      EXPECT_EQ(v[kSmPpm], 0);
      EXPECT_EQ(v[kUtilPct], 0);
      EXPECT_EQ(v[kFbUsed] > 0, !s.unused);  // its memory stays
    }
    // It goes on where it stopped.
    if (const Stint* after = m.activity->Holder(s.lane, s.to);
        after != nullptr && after->job == s.job) {
      EXPECT_EQ(after->offset, s.offset + (s.from - std::max(0, job.start)));
      ++resumed;
    }
    ++looked;
  }
  EXPECT_GT(looked, 10);
  EXPECT_GT(resumed, 5);
  int silent = 0;
  for (const Application& a : Applications(*f)) {
    const auto& job = m.plan.jobs[a.job];
    const Micros from = f->options().start + job.suspend_from * kMicrosPerSecond,
                 to = f->options().start + job.suspend_to * kMicrosPerSecond;
    if (job.suspend_from >= m.plan.horizon) continue;
    for (const auto& sample : SamplesOf(*f, a, 0, f->options().start + f->options().duration))
      EXPECT_TRUE(sample.ts <= from || sample.ts >= to);
    ++silent;
  }
  EXPECT_GT(silent, 0);
}

TEST(Scheduler, OccupancyIsTheJobsOwnAndBelowSmActive) {
  const auto f = Make(Options(Preset::kSeren, 400, 6, Faults::kNone, 1, 100));
  const Fleet::Model& m = f->model();
  std::map<int32_t, std::set<int64_t>> percent;  // of SM activity, by job
  for (int32_t lane = 0; lane < m.plan.lanes; ++lane)
    for (int32_t t = 600; t < m.plan.horizon; t += 1800) {
      Values v;
      ReadLane(m, lane, t, 10, &v);
      EXPECT_LE(v[kOccupancyPpm], v[kSmPpm]);
      const Stint* holder = m.activity->Holder(lane, t);
      if (holder != nullptr && v[kSmPpm] > 200'000)
        percent[holder->job].insert((v[kOccupancyPpm] * 100 + v[kSmPpm] / 2) / v[kSmPpm]);
    }
  std::set<int64_t> levels;
  for (const auto& [job, seen] : percent) {
    EXPECT_EQ(seen.size(), 1u) << job;
    levels.insert(seen.begin(), seen.end());
  }
  EXPECT_GT(levels.size(), 8u);
}

TEST(Scheduler, NoClusterUnderSlurmHasNoBooks) {
  const auto f = Make(Preset::kServing, 64, 1, Faults::kNone);
  const auto status = WriteScheduler(*f, {.directory = ::testing::TempDir()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("research, llm or seren"), std::string::npos) << status;
}

// --- shapes ---

TEST(Scheduler, JsonSaysWhatTheTextSays) {
  for (const SlurmVersion version : {SlurmVersion::k2205, SlurmVersion::k2505}) {
    const bool wrapped = version == SlurmVersion::k2505;
    const auto b = BooksOf(Faulty(15), version);
    const boost::json::value json = boost::json::parse(b->Text("sacct.json"));
    const auto& jobs = json.at("jobs").as_array();
    ASSERT_EQ(jobs.size(), b->sacct.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      const Allocation& a = b->sacct[i];
      const auto& time = jobs[i].at("time");
      EXPECT_EQ(std::to_string(jobs[i].at("job_id").as_int64()), a.id);
      EXPECT_EQ(time.at("elapsed").as_int64(), a.elapsed);
      EXPECT_EQ(time.at("suspended").as_int64(), a.suspended);
      EXPECT_EQ(time.at("start").as_int64(), a.start);
      EXPECT_EQ(time.at("submission").as_int64(), a.submit);
      const auto& state = jobs[i].at("state").at("current");
      EXPECT_EQ(wrapped ? state.as_array()[0].as_string() : state.as_string(), a.state);
      int64_t gpus = 0;
      for (const auto& t : jobs[i].at("tres").at("allocated").as_array())
        if (t.at("name").is_string() && t.at("name").as_string() == "gpu")
          gpus += t.at("count").as_int64();
      EXPECT_EQ(gpus, a.gpus);
      EXPECT_EQ(time.at("limit").is_object(), wrapped);
    }
  }
}

// Whatever is written is of the same kind under the same name in what a real Slurm wrote.
void ExpectShape(const boost::json::value& ours, const boost::json::value& theirs,
                 const std::string& where) {
  if (ours.is_null() || theirs.is_null()) return;
  if (where.ends_with("reservation.name")) return;  // 22.05 writes the number 0 for none
  EXPECT_EQ(ours.is_number(), theirs.is_number()) << where;
  EXPECT_EQ(ours.is_string(), theirs.is_string()) << where;
  ASSERT_EQ(ours.is_object(), theirs.is_object()) << where;
  ASSERT_EQ(ours.is_array(), theirs.is_array()) << where;
  if (ours.is_array() && !ours.as_array().empty() && !theirs.as_array().empty())
    ExpectShape(ours.as_array()[0], theirs.as_array()[0], where + "[]");
  if (!ours.is_object()) return;
  for (const auto& [key, value] : ours.as_object()) {
    const auto* other = theirs.as_object().if_contains(key);
    EXPECT_NE(other, nullptr) << where << "." << std::string(key);
    if (other != nullptr) ExpectShape(value, *other, where + "." + std::string(key));
  }
}

TEST(Scheduler, JsonHasTheShapeOfRealOnes) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/sacct.json");
  const auto real = [](const char* name) {
    return boost::json::parse(testing_data::ReadFile(testing_data::SharedData() / "slurm" / name));
  };
  const auto old = BooksOf(Faulty(16), SlurmVersion::k2205), now = BooksOf(Faulty(16));
  const auto first = [](const Books& b, const char* file) {
    return boost::json::parse(b.Text(file)).at("jobs").as_array()[0];
  };
  ExpectShape(first(*old, "sacct.json"), real("live-22.05/sacct.json").at("jobs").as_array()[0],
              "22.05");
  ExpectShape(first(*old, "squeue.json"),
              real("live-22.05/squeue_running.json").at("jobs").as_array()[0], "22.05 squeue");
  ExpectShape(first(*now, "sacct.json"),
              real("sarc-sacct-json/raisin_1721779200.json").at("jobs").as_array()[0], "25.05");
}

TEST(Scheduler, TextHasTheKeysOfRealOnes) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/scontrol_show_job_d.txt");
  // "Key=" at the beginning of a word.
  const auto keys = [](const std::string& text) {
    std::set<std::string> out;
    std::istringstream in(text);
    for (std::string word; in >> word;)
      if (const size_t at = word.find('='); at != std::string::npos && at > 0)
        out.insert(word.substr(0, at));
    return out;
  };
  const auto b = BooksOf(Faulty(17));
  const auto compare = [&](const char* ours, const char* theirs, std::set<std::string> also) {
    also.merge(keys(testing_data::ReadFile(testing_data::SharedData() / "slurm" / theirs)));
    for (const std::string& key : keys(b->Text(ours))) {
      if (key == "Comment") continue;  // its text has a key of its own
      EXPECT_TRUE(also.contains(key)) << ours << ": " << key;
    }
  };
  compare("scontrol_job.txt", "live-22.05/scontrol_show_job_d.txt", {"Reservation"});
  compare("scontrol_node.txt", "live-22.05/scontrol_show_node_d.txt", {"Reason"});
}

TEST(Scheduler, HostlistsAreSlurms) {
  const auto compress = [](const std::string& names) {
    return CompressHostlist(reader::Split(names, ','));
  };
  EXPECT_EQ(compress("login"), "login");
  EXPECT_EQ(compress("a1,a2,a3,a5"), "a[1-3,5]");
  EXPECT_EQ(compress("a-r00-n014,a-r00-n015,a-r01-n016"), "a-r00-n[014-015],a-r01-n016");
  EXPECT_EQ(compress("n099,n100,n999,n1000"), "n[099-100,999-1000]");
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/hostlist_compress_cases.tsv");
  std::istringstream cases(testing_data::ReadFile(testing_data::SharedData() /
                                                  "slurm/live-22.05/hostlist_compress_cases.tsv"));
  for (std::string line; std::getline(cases, line);) {
    const std::vector<std::string> cells = reader::Split(line, '\t');
    EXPECT_EQ(compress(cells[0]), cells[1]);
  }
}

}  // namespace
}  // namespace flopwatch::simulate
