// A scheduler that is asked again and again, at a simulated clock: what is known after each look is
// what the cluster was, and nothing else.
#include "discovery/slurm_polls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fake_slurm.h"

namespace flopwatch::discovery {
namespace {

using test::FakeSlurm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SlurmPollsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int32_t n = 1; n <= 2; ++n) {
      for (int32_t k = 0; k < 8; ++k) {
        telemetry::EntityLabels labels;
        labels.node = fmt::format("gpu00{}", n);
        labels.device = fmt::format("nvidia{}", k);
        telemetry::EntityKey key;
        key.uuid = fmt::format("GPU-{}-{}", n, k);
        index_->BindEntity(n * 10 + k, key, labels);
      }
    }
    Make();
  }
  void Make() {
    polls_ = std::make_unique<SlurmPolls>(
        SlurmOptions(), books_.get(), index_.get(),
        [this](const std::vector<std::string>& argv) { return slurm_.Run(argv); },
        PollClocks{[this] { return slurm_.Clock(); }, [this] { return slurm_.Clock(); }},
        [this](const std::vector<slurm::Block>& blocks) { blocks_.push_back(blocks); });
  }
  // The server ends and begins again: only what the store has is known.
  void Restart() {
    polls_.reset();
    const jobs::BookChanges stored = books_->TakeChanges();
    const jobs::Changes intervals = index_->TakeChanges(true);
    books_ = std::make_unique<jobs::Books>();
    books_->Load(stored.attempts, stored.nodes);
    index_ = std::make_unique<jobs::JobIndex>();
    index_->Load(intervals.jobs, intervals.intervals, intervals.sets, slurm_.Clock());
    SetUp();
  }
  // Lets `seconds` pass, with everything that is due in them.
  void Pass(int64_t seconds) {
    const int64_t end = slurm_.now + seconds;
    for (;;) {
      const int64_t wait = (polls_->Step() + kMicrosPerSecond - 1) / kMicrosPerSecond;
      if (slurm_.now + wait >= end) break;
      slurm_.now += wait;
    }
    slurm_.now = end;
  }
  int64_t Since(Micros t) const { return t == jobs::kOpenEnd ? -1 : t / kMicrosPerSecond - kBegin; }
  // "1 train RUNNING 0-open placed", by job and start; seconds since the beginning.
  std::vector<std::string> Attempts() const {
    std::vector<std::string> out;
    books_->ForEachAttempt(0, jobs::kOpenEnd, [&](const jobs::AttemptRecord& a) {
      out.push_back(fmt::format("{} {} {}-{}{}", a.job, a.state,
                                a.start == 0 ? "waits" : fmt::format("{}", Since(a.start)),
                                a.end == jobs::kOpenEnd ? "…" : fmt::format("{}", Since(a.end)),
                                a.placed ? " placed" : ""));
    });
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<std::string> Nodes(const std::string& node) const {
    std::vector<std::pair<Micros, std::string>> out;
    books_->ForEachNode(0, jobs::kOpenEnd, [&](const jobs::NodeRecord& n) {
      if (n.node != node) return;
      out.emplace_back(n.from,
                       fmt::format("{}-{} {}{}", Since(n.from),
                                   n.to == jobs::kOpenEnd ? "…" : fmt::format("{}", Since(n.to)),
                                   jobs::kServiceNames[static_cast<size_t>(n.service)],
                                   n.reason.empty() ? "" : " " + n.reason));
    });
    std::sort(out.begin(), out.end());
    std::vector<std::string> texts;
    for (auto& [from, text] : out) texts.push_back(std::move(text));
    return texts;
  }
  // Of one GPU: "1 0-600".
  std::vector<std::string> OnGpu(int32_t entity) const {
    std::vector<std::string> out;
    for (const jobs::IntervalRecord& i : index_->EntityIntervals(entity, 0, jobs::kOpenEnd))
      out.push_back(fmt::format("{} {}-{}", index_->job(i.job)->key, Since(i.from),
                                i.to == jobs::kOpenEnd ? "…" : fmt::format("{}", Since(i.to))));
    return out;
  }
  test::FakeJob& Job(int64_t id) {
    return *std::find_if(slurm_.jobs.begin(), slurm_.jobs.end(),
                         [&](const test::FakeJob& j) { return j.id == id; });
  }
  // The controller and accounting learn that it ended now.
  void End(int64_t id, const std::string& state = "COMPLETED") {
    Job(id).state = state;
    Job(id).end = slurm_.now;
  }
  // The controller forgets it (MinJobAge); accounting keeps it.
  void Forget(int64_t id) {
    if (Job(id).end > 0) slurm_.accounting.push_back(Job(id));
    std::erase_if(slurm_.jobs, [&](const test::FakeJob& j) { return j.id == id; });
  }

  std::vector<std::vector<slurm::Block>> blocks_;  // as they were told
  static constexpr int64_t kBegin = 1'800'000'000;
  FakeSlurm slurm_;
  std::unique_ptr<jobs::Books> books_ = std::make_unique<jobs::Books>();
  std::unique_ptr<jobs::JobIndex> index_ = std::make_unique<jobs::JobIndex>();
  std::unique_ptr<SlurmPolls> polls_;
};

TEST_F(SlurmPollsTest, ALookIsTwoCommandsHoweverManyJobs) {
  for (int64_t k = 1; k <= 200; ++k) slurm_.jobs.push_back({.id = k, .start = kBegin});
  Pass(1);
  const auto before = slurm_.calls;
  Pass(600);
  EXPECT_EQ(slurm_.calls["show job"] - before.at("show job"), 20);
  EXPECT_EQ(slurm_.calls["show node"] - before.at("show node"), 20);
  EXPECT_EQ(slurm_.calls["show config"], 1);
  EXPECT_EQ(slurm_.calls["sacct"], 14) << "a day at a time, once";
  const SchedulerHealth health = polls_->health();
  EXPECT_EQ(health.cluster, "ofu");
  EXPECT_EQ(health.told.attempts, 200u);
  EXPECT_EQ(health.told.nodes, 2u);
  EXPECT_EQ(health.error, "");
  EXPECT_EQ(health.accounting_waiting, 0u);
}

TEST_F(SlurmPollsTest, BlocksOfTheTopologyAreToldHourly) {
  slurm_.talks["show topology"] = "BlockName=b1 BlockIndex=0 Nodes=gpu[001-002] BlockSize=2\n";
  Pass(3 * 3600 + 60);
  ASSERT_EQ(blocks_.size(), 4u);
  ASSERT_EQ(blocks_[0].size(), 1u);
  EXPECT_THAT(blocks_[0][0].nodes, ElementsAre("gpu001", "gpu002"));
  // What cannot be read changes nothing, and looks go on.
  slurm_.talks["show topology"] = "BlockName=b1 Nodes=gpu[001-\n";
  Pass(3600);
  slurm_.talks.erase("show topology");
  slurm_.failures["show topology"] = Unavailable("no");
  const auto looks = polls_->health().looks;
  Pass(3600);
  EXPECT_EQ(blocks_.size(), 4u);
  EXPECT_GT(polls_->health().looks, looks + 100);
  EXPECT_EQ(polls_->health().error, "");
}

TEST_F(SlurmPollsTest, AJobThatRunsAndEndsIsOnItsGpusUntilItsEnd) {
  slurm_.jobs = {{.id = 1, .idx = "2-3", .start = kBegin, .gpus = 2}};
  Pass(300);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed"));
  EXPECT_THAT(OnGpu(12), ElementsAre("1 0-…"));
  EXPECT_THAT(OnGpu(14), IsEmpty());
  slurm_.now += 7;
  End(1);  // scontrol does not name its GPUs any more
  Pass(60);
  EXPECT_THAT(Attempts(), ElementsAre("1 COMPLETED 0-307 placed"));
  EXPECT_THAT(OnGpu(12), ElementsAre("1 0-307"));
}

TEST_F(SlurmPollsTest, ARequeuedJobIsTwoAttempts) {
  slurm_.jobs = {{.id = 1, .start = kBegin}};
  Pass(95);
  // Requeued at 100: the controller shows the same id, waiting; accounting has the first attempt.
  slurm_.now += 5;
  test::FakeJob first = Job(1);
  first.state = "REQUEUED";
  first.end = slurm_.now;
  slurm_.accounting.push_back(first);
  slurm_.jobs = {{.id = 1, .state = "PENDING"}};
  Pass(50);
  // The first was seen last at 90.
  EXPECT_THAT(OnGpu(10), ElementsAre("1 0-90"));
  slurm_.jobs = {{.id = 1, .node = "gpu002", .start = slurm_.now}};
  Pass(60);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-90 placed", "1 RUNNING 150-… placed"));
  Pass(3600);
  EXPECT_THAT(Attempts(), ElementsAre("1 REQUEUED 0-100 placed", "1 RUNNING 150-… placed"));
  EXPECT_THAT(OnGpu(10), ElementsAre("1 0-100"));
  EXPECT_THAT(OnGpu(20), ElementsAre("1 150-…"));
}

TEST_F(SlurmPollsTest, AJobBetweenTwoLooksComesFromAccounting) {
  Pass(60);
  slurm_.accounting.push_back(
      {.id = 9, .state = "COMPLETED", .start = kBegin + 62, .end = kBegin + 70});
  Pass(600);
  EXPECT_THAT(Attempts(), IsEmpty()) << "no look saw it";
  Pass(3600);
  EXPECT_THAT(Attempts(), ElementsAre("9 COMPLETED 62-70"));
}

TEST_F(SlurmPollsTest, AVanishedJobEndsWhenItWasLastSeen) {
  slurm_.failures["sacct"] =
      Unavailable("sacct exited with 1: Slurm accounting storage is disabled");
  slurm_.jobs = {{.id = 1, .start = kBegin}, {.id = 2, .node = "gpu002", .start = kBegin}};
  Pass(100);
  std::erase_if(slurm_.jobs, [](const test::FakeJob& j) { return j.id == 1; });
  Pass(100);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-90 placed", "2 RUNNING 0-… placed"));
  EXPECT_THAT(OnGpu(10), ElementsAre("1 0-90"));
  EXPECT_EQ(polls_->health().vanished, 1u);
  EXPECT_TRUE(polls_->health().no_accounting);
  EXPECT_EQ(polls_->health().accounting_error, "") << "a site without it is no error";
  EXPECT_EQ(polls_->health().accounting_failures, 0u);
}

TEST_F(SlurmPollsTest, ANodeThatDrainsAndComesBack) {
  slurm_.failures["sacct"] = NotFound("no sacct");
  Pass(60);
  slurm_.nodes[0].state = "MIXED+DRAIN";
  slurm_.nodes[0].reason = "xid79 fallen off State=bus [root@1800000059]";
  Pass(120);
  slurm_.nodes[0].state = "MIXED";
  slurm_.nodes[0].reason = "";
  Pass(120);
  std::erase_if(slurm_.nodes, [](const test::FakeNode& n) { return n.name == "gpu002"; });
  Pass(120);
  EXPECT_THAT(Nodes("gpu001"),
              ElementsAre("0-60 in_service", "60-180 drained xid79 fallen off State=bus",
                          "180-… in_service"));
  EXPECT_THAT(Nodes("gpu002"), ElementsAre("0-300 in_service"));
}

TEST_F(SlurmPollsTest, WhatWasBeforeTheFirstLookComesFromAccountingAndEvents) {
  slurm_.accounting = {
      {.id = 5, .state = "COMPLETED", .start = kBegin - 9000, .end = kBegin - 4000, .gpus = 8},
      {.id = 6, .state = "RUNNING", .start = kBegin - 99999, .end = 0}};  // its end was missed
  slurm_.events =
      fmt::format("ofu|gpu001|{}|{}|DOWN*|root|not responding\n", kBegin - 3000, kBegin - 1000);
  Pass(600);
  EXPECT_THAT(Attempts(), ElementsAre("5 COMPLETED -9000--4000"));
  EXPECT_THAT(Nodes("gpu001"),
              ElementsAre("-9000--3000 in_service", "-3000--1000 down not responding",
                          "-1000-0 in_service", "0-… in_service"));
  // A node that comes later was not there before.
  slurm_.nodes.push_back({"gpu003", "IDLE", ""});
  Pass(7200);
  EXPECT_THAT(Nodes("gpu003"), ElementsAre("600-… in_service"));
  EXPECT_EQ(slurm_.calls["show event"], 1);
}

TEST_F(SlurmPollsTest, TheControllerIsAway) {
  slurm_.jobs = {{.id = 1, .start = kBegin}};
  Pass(100);
  const int sacct = slurm_.calls["sacct"];
  slurm_.failures["show job"] = Unavailable(
      "scontrol exited with 1: slurm_load_jobs error: Unable to contact slurm controller");
  slurm_.failures["show node"] = slurm_.failures["show job"];
  Pass(900);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed")) << "the last known state";
  EXPECT_THAT(Nodes("gpu001"), ElementsAre("0-… in_service"));
  SchedulerHealth health = polls_->health();
  EXPECT_EQ(Since(health.last_look), 90);
  EXPECT_THAT(health.error, HasSubstr("Unable to contact"));
  EXPECT_EQ(health.failures, 30u);
  // It comes back; the job ended at 400, another came and went, and the controller forgot both.
  slurm_.failures.clear();
  Job(1).state = "COMPLETED";
  Job(1).end = kBegin + 400;
  Forget(1);
  slurm_.accounting.push_back(
      {.id = 2, .state = "FAILED", .start = kBegin + 500, .end = kBegin + 600});
  Pass(60);
  EXPECT_EQ(polls_->health().error, "");
  EXPECT_GT(slurm_.calls["sacct"], sacct) << "asked at once, not in an hour";
  EXPECT_THAT(Attempts(), ElementsAre("1 COMPLETED 0-400 placed", "2 FAILED 500-600"));
  EXPECT_THAT(OnGpu(10), ElementsAre("1 0-400"));
}

TEST_F(SlurmPollsTest, NonsenseChangesNothing) {
  slurm_.jobs = {{.id = 1, .start = kBegin}};
  Pass(100);
  const std::vector<std::string> attempts = Attempts(), nodes = Nodes("gpu001");
  const auto still = [&](const std::string& what, const std::string& text) {
    slurm_.talks = {{what, text}};
    Pass(60);
    EXPECT_EQ(Attempts(), attempts) << text;
    EXPECT_EQ(Nodes("gpu001"), nodes) << text;
    EXPECT_NE(polls_->health().error, "") << text;
    slurm_.talks.clear();
    Pass(60);
    EXPECT_EQ(polls_->health().error, "");
  };
  still("show job", "");
  still("show job", "<html>502 Bad Gateway</html>");
  still("show job", std::string("\xff\xfe\x00\x01", 4));
  still("show job", "JobId=oops JobName=x\n   JobState=RUNNING\n");
  still("show job", "NodeName=gpu001 Arch=x86_64\n   State=IDLE\n");
  still("show node", "");
  still("show node", "No nodes in the system\n");
  still("show node", "NodeName=\n");
}

TEST_F(SlurmPollsTest, OneUnreadableRecordEndsNothing) {
  slurm_.jobs = {{.id = 1, .start = kBegin}, {.id = 2, .node = "gpu002", .start = kBegin}};
  Pass(100);
  Job(2).name = "x\n   JobState=COMPLETED";  // a user's name with a line feed
  slurm_.nodes[1].state = "IDLE\n   State=DOWN";
  Pass(120);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed", "2 RUNNING 0-… placed"));
  EXPECT_THAT(Nodes("gpu002"), ElementsAre("0-… in_service"));
  EXPECT_EQ(polls_->health().refused, (std::map<std::string, uint64_t>{{"key_twice", 2}}));
  EXPECT_EQ(polls_->health().error, "") << "the others are known";
}

// One user's record cannot be read, for ever; what others' jobs do is seen all the same.
TEST_F(SlurmPollsTest, AnUnreadableRecordKeepsNoOtherJobOpen) {
  slurm_.failures["sacct"] = NotFound("no sacct");
  slurm_.jobs = {{.id = 1, .start = kBegin}, {.id = 2, .node = "gpu002", .start = kBegin}};
  Pass(100);
  Job(2).name = "x\n   JobState=COMPLETED";
  std::erase_if(slurm_.jobs, [](const test::FakeJob& j) { return j.id == 1; });
  Pass(120);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-90 placed", "2 RUNNING 0-… placed"));
  EXPECT_EQ(polls_->health().error, "");
  slurm_.jobs.clear();
  Pass(120);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-90 placed", "2 RUNNING 0-90 placed"));
}

// What a whole record looks like that is written into a name, up to the name of the next one.
std::string Forged(int64_t victim, const std::string& user, const std::string& idx) {
  return fmt::format(
      "x\n   UserId={0}(1) GroupId={0}(1)\n   Account=gold QOS=normal\n   JobState=RUNNING "
      "Reason=None\n   RunTime=00:01:00\n   SubmitTime=1799000000 EligibleTime=1799000000\n"
      "   StartTime=1800000000 EndTime=1800009999\n   Partition=batch AllocNode:Sid=h:1\n"
      "   NodeList=gpu001\n   TRES=cpu=1,gres/gpu=1\n     Nodes=gpu001 CPU_IDs=0 Mem=1 "
      "GRES=gpu:1(IDX:{1})\n   WorkDir=/tmp\n\nJobId={2} JobName=y",
      user, idx, victim);
}

TEST_F(SlurmPollsTest, AForgedRecordChargesNobody) {
  slurm_.jobs = {{.id = 1, .node = "gpu002", .start = kBegin},
                 {.id = 2, .idx = "0-3", .account = "evil", .start = kBegin}};
  Job(2).name = Forged(99, "alice", "7");  // 99 would get job 2's GPUs
  Pass(100);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed"));
  EXPECT_THAT(OnGpu(10), IsEmpty()) << "what its GPUs are cannot be told";
  EXPECT_EQ(polls_->health().refused,
            (std::map<std::string, uint64_t>{{"not_listed", 1}, {"before_forged", 1}}));
  // The victim's own record is there: which of the two is true cannot be told. The record before
  // each is doubted with it, and stays what it was.
  Job(2).name = Forged(1, "alice", "7");
  Pass(100);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed"));
  EXPECT_EQ(polls_->health().refused,
            (std::map<std::string, uint64_t>{{"job_twice", 2}, {"before_forged", 1}}));
  // An honest name again: all are known.
  Job(2).name = "honest";
  Pass(100);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed", "2 RUNNING 0-… placed"));
  EXPECT_EQ(polls_->health().refused, (std::map<std::string, uint64_t>()));
}

TEST_F(SlurmPollsTest, AnIdThatIsGoneIsNobodysToForge) {
  slurm_.jobs = {{.id = 1, .node = "gpu002", .start = kBegin}, {.id = 2, .start = kBegin}};
  Pass(100);
  End(1);
  Pass(60);
  Forget(1);
  Pass(60);
  Job(2).name = Forged(1, "alice", "7");
  Pass(60);
  EXPECT_THAT(Attempts(), ElementsAre("1 COMPLETED 0-100 placed", "2 RUNNING 0-… placed"));
  EXPECT_EQ(polls_->health().refused.count("not_listed"), 1u);
}

TEST_F(SlurmPollsTest, IdsAreAskedForWhenThereAreNewOnesAlone) {
  slurm_.jobs = {{.id = 1, .start = kBegin}};
  Pass(300);
  EXPECT_EQ(slurm_.calls["squeue"], 1);
  slurm_.jobs.push_back({.id = 2, .node = "gpu002", .start = kBegin + 300});
  Pass(300);
  EXPECT_EQ(slurm_.calls["squeue"], 2);
  // A squeue that fails is a look that fails; where there is none, looks go on as they are.
  slurm_.failures["squeue"] = Unavailable("slurm_load_jobs error");
  slurm_.jobs.push_back({.id = 3, .node = "gpu002", .idx = "4-7", .start = kBegin + 600});
  Pass(60);
  EXPECT_THAT(polls_->health().error, HasSubstr("slurm_load_jobs"));
  EXPECT_EQ(Attempts().size(), 2u);
  slurm_.failures["squeue"] = NotFound("cannot run squeue: there is no such program");
  Pass(60);
  EXPECT_EQ(polls_->health().error, "");
  EXPECT_EQ(Attempts().size(), 3u);
}

// With a line feed in a name somebody writes rows of sacct, too; he does not know the delimiter.
TEST_F(SlurmPollsTest, NobodyKnowsTheDelimiterOfSacct) {
  slurm_.accounting.push_back({.id = 9,
                               .state = "COMPLETED",
                               .name = "x\n99\x1f"
                                       "99\x1fofu",
                               .start = kBegin - 100,
                               .end = kBegin - 50});
  Pass(100);
  std::set<std::string> delimiters;
  for (const auto& argv : slurm_.asked)
    for (const std::string& arg : argv)
      if (arg.starts_with("--delimiter=")) EXPECT_TRUE(delimiters.insert(arg).second) << arg;
  EXPECT_GE(delimiters.size(), 2u);
  EXPECT_THAT(Attempts(), ElementsAre("9 COMPLETED -100--50"));
}

TEST_F(SlurmPollsTest, ARestartGoesOn) {
  slurm_.jobs = {{.id = 1, .start = kBegin}, {.id = 2, .node = "gpu002", .start = kBegin}};
  slurm_.nodes[0].state = "MIXED+DRAIN";
  Pass(300);
  Restart();
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed", "2 RUNNING 0-… placed"));
  slurm_.now += 600;  // nobody looks
  End(2);
  Forget(2);
  Pass(60);
  EXPECT_THAT(Attempts(), ElementsAre("1 RUNNING 0-… placed", "2 COMPLETED 0-900 placed"));
  EXPECT_THAT(Nodes("gpu001"), ElementsAre("0-… drained")) << "the same record goes on";
  EXPECT_THAT(OnGpu(20), ElementsAre("2 0-900"));
  EXPECT_EQ(slurm_.calls["show event"], 1) << "only where nothing was known of nodes";
}

TEST_F(SlurmPollsTest, AccountingThatIsTooSlowIsAskedForLess) {
  std::vector<int64_t> spans;
  SlurmOptions options;
  options.backfill = 2 * kMicrosPerDay;
  const auto seconds = [](const std::string& text) {
    return ParseTime(text + "Z", 0).value() / kMicrosPerSecond;
  };
  polls_ = std::make_unique<SlurmPolls>(
      options, books_.get(), index_.get(),
      [&](const std::vector<std::string>& argv) -> StatusOr<ProgramOutput> {
        if (argv[0] == "sacct") {
          const int64_t span = seconds(argv.back()) - seconds(argv[argv.size() - 3]);
          if (span > 6 * 3600) return absl::DeadlineExceededError("sacct was ended: too slow");
          spans.push_back(span);
        }
        return slurm_.Run(argv);
      },
      PollClocks{[this] { return slurm_.Clock(); }, [this] { return slurm_.Clock(); }});
  Pass(2 * 3600);
  int64_t sum = 0;
  for (const int64_t span : spans) sum += span;
  EXPECT_GE(sum, 2 * 86400) << "all of it";
  EXPECT_GT(polls_->health().accounting_failures, 0u);
  EXPECT_EQ(polls_->health().accounting_error, "");
}

TEST_F(SlurmPollsTest, ASlowControllerGetsPauses) {
  int looks = 0;
  polls_ = std::make_unique<SlurmPolls>(
      SlurmOptions(), books_.get(), index_.get(),
      [&](const std::vector<std::string>& argv) {
        if (FakeSlurm::WhatOf(argv) == "show job") {
          ++looks;
          slurm_.now += 19;
        }
        if (FakeSlurm::WhatOf(argv) == "show node") slurm_.now += 19;
        return slurm_.Run(argv);
      },
      PollClocks{[this] { return slurm_.Clock(); }, [this] { return slurm_.Clock(); }});
  Pass(680);
  EXPECT_LE(looks, 11) << "38 s of work, then 30 s of rest";
  EXPECT_GE(looks, 9);
}

TEST_F(SlurmPollsTest, TheClusterIsAskedForUntilItIsKnown) {
  slurm_.talks["show config"] = "no such thing\n";
  Pass(100);
  EXPECT_EQ(slurm_.calls["show job"], 0);
  EXPECT_THAT(polls_->health().error, HasSubstr("slurm.cluster"));
  slurm_.talks.clear();
  Pass(60);
  EXPECT_EQ(polls_->health().cluster, "ofu");
}

}  // namespace
}  // namespace flopwatch::discovery
