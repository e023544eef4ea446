// One list of attempts out of several sources, by hand: what Slurm's books disagree about.
#include "jobs/slurm/attempts.h"

#include <gmock/gmock.h>

#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Books Sacct(std::string_view rows) {
  return ReadOk(
      "Cluster|JobIDRaw|JobID|State|Start|End|ElapsedRaw|AllocTRES|NodeList\n" + std::string(rows),
      ReadOptions{});
}
Micros S(int64_t seconds) { return seconds * kMicrosPerSecond; }

// "id state gpus held suspended", '-' for what is not computable.
std::vector<std::string> Shown(const AttemptList& list) {
  std::vector<std::string> out;
  const auto number = [](const std::optional<int64_t>& n) {
    return n ? fmt::format("{}", *n) : std::string("-");
  };
  for (const Attempt& a : list.attempts) {
    out.push_back(fmt::format("{} {} {} {} {}", a.job.id, JobStateName(a.job.state), number(a.gpus),
                              number(a.held_gpu_seconds), number(a.suspended_gpu_seconds)));
  }
  return out;
}

TEST(Attempts, RequeuedOnesAreApart) {
  const AttemptList list =
      MergeAttempts({{Sacct("c|7|7|PREEMPTED|100|160|60|gres/gpu=8|n1\n"
                            "c|7|7|REQUEUED|200|230|30|gres/gpu=8|n2\n"
                            "c|7|7|NODE_FAIL|300|310|10|gres/gpu=8|n1\n"
                            "c|7|7|COMPLETED|400|500|100|gres/gpu=8|n1\n"
                            "c|8|8|PENDING|Unknown|Unknown|0||\n"
                            "c|9|9|CANCELLED by 0|None|50|0||None assigned\n")}},
                    std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("7 PREEMPTED 8 480 0", "7 REQUEUED 8 240 0",
                                       "7 NODE_FAIL 8 80 0", "7 COMPLETED 8 800 0"));
  EXPECT_EQ(list.counts.waiting, 1u);
  EXPECT_EQ(list.counts.never_started, 1u);
}

TEST(Attempts, TheArraysOwnIdIsItsLastTasks) {
  const AttemptList list = MergeAttempts({{Sacct("c|2|2_[0-1]|PENDING|Unknown|Unknown|0||\n"
                                                 "c|10|2_0|COMPLETED|100|110|10|gres/gpu=1|n\n"
                                                 "c|2|2_1|COMPLETED|200|220|20|gres/gpu=1|n\n")}},
                                         std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("2_0 COMPLETED 1 10 0", "2_1 COMPLETED 1 20 0"));
}

// sacct without JobIDRaw shows "2_5"; squeue tells that this is raw job 10: one attempt, not two.
TEST(Attempts, ShownIdOfOneSourceIsTheRawIdOfAnother) {
  const Books shown =
      ReadOk("Cluster|JobID|State|Start|End|AllocTRES\nc|2_5|COMPLETED|100|110|gres/gpu=1\n",
             ReadOptions{});
  const Books raw = Sacct("c|10|2_5|RUNNING|100|Unknown|5|gres/gpu=1|n\n");
  const AttemptList list = MergeAttempts({{shown, raw}}, std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("2_5 COMPLETED 1 10 -"));
  EXPECT_EQ(list.attempts[0].job.raw_id, 10);
}

TEST(Attempts, SuspendedTimeIsToldApart) {
  const AttemptList list =
      MergeAttempts({{Sacct("c|7|7|COMPLETED|100|400|120|gres/gpu=2|n\n")}}, std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("7 COMPLETED 2 600 360"));
}

TEST(Attempts, RunningUntilTheLook) {
  const Books books = Sacct("c|7|7|RUNNING|100|Unknown|50|gres/gpu=2|n\n");
  AttemptList list = MergeAttempts({{books}}, S(999));
  EXPECT_THAT(Shown(list), ElementsAre("7 RUNNING 2 100 -"));  // the record's own look counts
  EXPECT_TRUE(list.attempts[0].running);
  const Books no_elapsed =
      ReadOk("JobID|State|Start|End|AllocTRES\n7|RUNNING|100|Unknown|gres/gpu=2\n", ReadOptions{});
  EXPECT_THAT(Shown(MergeAttempts({{no_elapsed}}, S(400))), ElementsAre("7 RUNNING 2 600 -"));
  list = MergeAttempts({{no_elapsed}}, std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("7 RUNNING 2 - -"));
  EXPECT_EQ(NoGpuTimeName(list.attempts[0].no_gpu_time), "no_end");
}

// squeue saw attempt one running; sacct without -D drops earlier attempts and knows only the later.
TEST(Attempts, EndThatNobodyWroteDown) {
  const Books earlier = Sacct("c|7|7|RUNNING|100|Unknown|50|gres/gpu=2|n\n");
  const Books later = Sacct("c|7|7|COMPLETED|200|210|10|gres/gpu=2|n\n");
  const AttemptList list = MergeAttempts({{earlier, later}}, std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("7 RUNNING 2 100 -", "7 COMPLETED 2 20 0"));
  EXPECT_TRUE(list.attempts[0].end_unseen);
  EXPECT_FALSE(list.attempts[0].running);
  const Books no_elapsed =
      ReadOk("Cluster|JobID|State|Start|End|AllocTRES\nc|7|RUNNING|100|Unknown|gres/gpu=2\n",
             ReadOptions{});
  // Never beyond the next attempt's start.
  EXPECT_THAT(Shown(MergeAttempts({{no_elapsed, later}}, S(9999))),
              ElementsAre("7 RUNNING 2 200 -", "7 COMPLETED 2 20 0"));
}

TEST(Attempts, SourcesCompleteEachOther) {
  const Books squeue = ReadOk(
      R"j({"jobs":[{"job_id":7,"cluster":"c","job_state":"RUNNING","start_time":100,)j"
      R"j("end_time":9000,"nodes":"n[1-2]","comment":"run=1","tres_alloc_str":"gres/gpu=3",)j"
      R"j("gres_detail":["gpu:2(IDX:0,4)","gpu:1(IDX:7)"]}]})j",
      ReadOptions{});
  const Books sacct = Sacct("c|7|7|FAILED|100|130|30|gres/gpu=3|n[1-2]\n");
  for (const std::vector<Books>& books :
       {std::vector<Books>{squeue, sacct}, std::vector<Books>{sacct, squeue}}) {
    const AttemptList list = MergeAttempts(books, std::nullopt);
    EXPECT_THAT(Shown(list), ElementsAre("7 FAILED 3 90 0"));
    EXPECT_EQ(list.counts.same_attempt, 1u);
    EXPECT_EQ(list.attempts[0].job.comment, "run=1");
    EXPECT_EQ(list.attempts[0].job.node_gpus,
              (std::vector<NodeGpus>{{"n1", {0, 4}, 2}, {"n2", {7}, 1}}));
    EXPECT_THAT(list.attempts[0].sources, SizeIs(2));
  }
}

// scontrol does not name its cluster; with one cluster in all other files it is that one.
TEST(Attempts, ClusterOfScontrol) {
  const Books scontrol = ReadOk(
      "JobId=7 JobName=x\n   JobState=RUNNING Reason=None\n   RunTime=00:00:10\n"
      "   StartTime=100 EndTime=900\n   NodeList=n1\n   TRES=gres/gpu=1\n"
      "     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:5)\n",
      ReadOptions{});
  const Books one = Sacct("c|7|7|COMPLETED|100|160|60|gres/gpu=1|n1\n");
  AttemptList list = MergeAttempts({{scontrol, one}}, std::nullopt);
  ASSERT_THAT(list.attempts, SizeIs(1));
  EXPECT_EQ(list.attempts[0].job.cluster, "c");
  EXPECT_EQ(list.attempts[0].job.node_gpus, (std::vector<NodeGpus>{{"n1", {5}, 1}}));
  const Books two = Sacct(
      "c|7|7|COMPLETED|100|160|60|gres/gpu=1|n1\n"
      "d|7|7|COMPLETED|100|160|60|gres/gpu=1|n1\n");
  list = MergeAttempts({{scontrol, two}}, std::nullopt);
  EXPECT_THAT(list.attempts, SizeIs(3));
  EXPECT_THAT(list.notes, ElementsAre(HasSubstr("name the cluster")));
}

TEST(Attempts, JobsWithoutGpusAreLeftOutAndCounted) {
  const AttemptList list = MergeAttempts({{Sacct("c|7|7|COMPLETED|100|110|10|cpu=4|n\n"
                                                 "c|8|8|COMPLETED|100|110|10|gres/gpu=0|n\n"
                                                 "c|9|9|COMPLETED|100|110|10|gres/gpu=1|n\n")}},
                                         std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("9 COMPLETED 1 10 0"));
  EXPECT_EQ(list.counts.without_gpus, 2u);
  EXPECT_THAT(list.notes, IsEmpty());
  // Accounting that does not track GPUs makes all jobs look so: said.
  EXPECT_THAT(MergeAttempts({{Sacct("c|7|7|COMPLETED|100|110|10|cpu=4|n\n")}}, std::nullopt).notes,
              ElementsAre(HasSubstr("AccountingStorageTRES")));
}

TEST(Attempts, NotComputableSaysWhy) {
  const AttemptList list = MergeAttempts(
      {{Sacct("c|7|7|COMPLETED|100|110|10|gres/shard=3|n\n"
              "c|8|8|HIBERNATING|101|110|10|gres/gpu=2|n\n"),
        ReadOk("JobID|State|Start|End|ReqTRES\n9|COMPLETED|102|110|gres/gpu=1\n", ReadOptions{})}},
      std::nullopt);
  EXPECT_THAT(Shown(list),
              ElementsAre("7 COMPLETED - - -", "8 UNKNOWN 2 - -", "9 COMPLETED - - -"));
  EXPECT_EQ(list.attempts[0].no_gpu_time, NoGpuTime::kOnlyShards);
  EXPECT_EQ(list.attempts[1].no_gpu_time, NoGpuTime::kUnknownState);
  EXPECT_EQ(list.attempts[2].no_gpu_time, NoGpuTime::kOnlyRequested);
}

Books Prolog(std::string_view rows) {
  return ReadOk("cluster,time,job,node,gpus\n" + std::string(rows), ReadOptions{});
}

TEST(Attempts, PrologLinesFindTheirAttempt) {
  const Books sacct = Sacct(
      "c|7|7|REQUEUED|1000|1100|100|gres/gpu=2|n1\n"
      "c|7|7|COMPLETED|1200|1300|100|gres/gpu=2|n1\n"
      "c|8|8|COMPLETED|1000|1100|100|gres/gpu=1|n2\n");
  const Books prolog = Prolog(
      "c,1000,7,n1,\"0,1\"\n"  // the first attempt
      "c,1201,7,n1,\"2,3\"\n"  // the second
      "c,,7,n1,\"4,5\"\n"      // which?
      "c,,8,n2,6\n"            // the only one
      "c,1000,8,n9,6\n"        // not its node
      "c,5000,8,n2,6\n"        // not its time
      "c,1000,99,n1,6\n");     // not known
  const AttemptList list = MergeAttempts({{sacct, prolog}}, std::nullopt);
  ASSERT_THAT(list.attempts, SizeIs(3));
  EXPECT_EQ(list.attempts[0].job.node_gpus, (std::vector<NodeGpus>{{"n1", {0, 1}, {}}}));
  EXPECT_EQ(list.attempts[1].job.node_gpus, (std::vector<NodeGpus>{{"n2", {6}, {}}}));
  EXPECT_EQ(list.attempts[2].job.node_gpus, (std::vector<NodeGpus>{{"n1", {2, 3}, {}}}));
  EXPECT_TRUE(list.attempts[2].from_prolog);
  EXPECT_EQ(list.counts.map_lines_placed, 3u);
  EXPECT_EQ(list.counts.map_lines_ambiguous, 1u);
  EXPECT_EQ(list.counts.map_lines_unplaced, 3u);
}

// As a real Slurm 22.05 with a short credential lifetime wrote it: the second attempt is back
// within the slack that a slow prolog is granted.
TEST(Attempts, AJobThatIsBackWithinSecondsHasTheGpusOfEachAttempt) {
  const AttemptList list =
      MergeAttempts({{Sacct("live|24|24|REQUEUED|1795558566|1795558570|4|gres/gpu=2|gpu003\n"
                            "live|24|24|COMPLETED|1795558577|1795558583|6|gres/gpu=2|gpu003\n"),
                      Prolog("live,1795558566,24,gpu003,\"2,3\"\n"
                             "live,1795558576,24,gpu003,0\n"  // a node whose clock is behind
                             "live,1795558577,24,gpu003,1\n")}},
                    std::nullopt);
  ASSERT_THAT(list.attempts, SizeIs(2));
  EXPECT_EQ(list.attempts[0].job.node_gpus, (std::vector<NodeGpus>{{"gpu003", {2, 3}, {}}}));
  EXPECT_EQ(list.attempts[1].job.node_gpus, (std::vector<NodeGpus>{{"gpu003", {0, 1}, {}}}));
}

// What a real Slurm 22.05 showed of job 1 while the epilog of its requeued attempt ran: a start
// that moves with the clock. sacct has an attempt from 926 to 928.
TEST(Attempts, ARequeuedJobThatIsCompletingHasNotStartedAgain) {
  const auto look = [](int now) {
    return ReadOk(fmt::format(R"({{"jobs":[{{"job_id":1,"job_state":"COMPLETING","cluster":"live",
        "start_time":1795560{0},"end_time":1795561{0},"nodes":"gpu001","gres_detail":[],
        "tres_alloc_str":"cpu=1,gres/gpu=8","restart_cnt":1}}]}})",
                              now),
                  ReadOptions{});
  };
  const Books sacct = Sacct("live|1|1|REQUEUED|1795560926|1795560928|2|gres/gpu=8|gpu001\n");
  const AttemptList list = MergeAttempts({{look(928), look(929), sacct}}, std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("1 REQUEUED 8 16 0"));
  EXPECT_THAT(MergeAttempts({{look(928)}}, std::nullopt).attempts, SizeIs(0));
}

// What squeue 22.05 wrote, with exit code 0, while no slurmctld ran.
TEST(Attempts, AControllerThatIsAwayIsNotOneWithoutJobs) {
  EXPECT_THAT(ErrorOf(R"({"meta":{},"errors":[{"description":"Failed while looking for jobs",
                      "error_number":-1,"error":"Unspecified error",
                      "source":"slurm_load_jobs"}],"jobs":[]})",
                      ReadOptions{}),
              HasSubstr("Slurm could not answer: Failed while looking for jobs"));
}

// What a real Slurm 22.05 showed of a held job after scancel.
TEST(Attempts, AJobCancelledWhileItWaitedNeverStarted) {
  const Books text = ReadOk(
      "JobId=16 JobName=never UserId=man(6) Account=research JobState=CANCELLED "
      "RunTime=00:00:00 SubmitTime=1795559503 EligibleTime=Unknown StartTime=1795559503 "
      "EndTime=1795559503 Partition=batch NodeList= NumNodes=1 "
      "TRES=cpu=1,mem=100M,node=1,billing=1,gres/gpu=1 TresPerNode=gres:gpu:1\n",
      ReadOptions{});
  const Books json = ReadOk(
      R"({"jobs":[{"job_id":16,"job_state":"CANCELLED","name":"never","start_time":1795559503,
          "end_time":1795559503,"submit_time":1795559503,"nodes":"","tres_alloc_str":"",
          "tres_req_str":"cpu=1,mem=100M,node=1,billing=1,gres/gpu=1"}]})",
      ReadOptions{});
  const AttemptList list = MergeAttempts({{text, json}}, std::nullopt);
  EXPECT_THAT(list.attempts, SizeIs(0));
  EXPECT_EQ(list.counts.never_started, 2u);
}

// Tasks of a heterogeneous job's second component carry the leader's id; the node says which.
TEST(Attempts, ComponentsOfHeterogeneousJobs) {
  const AttemptList list = MergeAttempts({{Sacct("c|8|8+0|COMPLETED|1000|1100|100|gres/gpu=1|n1\n"
                                                 "c|9|8+1|COMPLETED|1000|1100|100|gres/gpu=2|n2\n"),
                                           Prolog("c,,8,n1,7\nc,,8,n2,\"0,1\"\n")}},
                                         std::nullopt);
  ASSERT_THAT(list.attempts, SizeIs(2));
  EXPECT_EQ(list.attempts[0].job.node_gpus, (std::vector<NodeGpus>{{"n1", {7}, {}}}));
  EXPECT_EQ(list.attempts[1].job.node_gpus, (std::vector<NodeGpus>{{"n2", {0, 1}, {}}}));
}

TEST(Attempts, AnExclusiveJobHasWhatItWasGiven) {
  const AttemptList list = MergeAttempts(
      {{ReadOk("JobID|State|Start|End|ReqTRES|AllocTRES\n7|COMPLETED|0|10|gres/gpu=1|gres/gpu=4\n"
               "8|COMPLETED|100|110|gres/gpu=1|gres/gpu=4\n",
               ReadOptions{})}},
      std::nullopt);
  EXPECT_THAT(Shown(list), ElementsAre("8 COMPLETED 4 40 -"));  // 7 has no start: never started
  EXPECT_EQ(list.counts.never_started, 1u);
}

}  // namespace
}  // namespace flopwatch::slurm
