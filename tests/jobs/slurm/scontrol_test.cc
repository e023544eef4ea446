// scontrol's text, by hand: what a name can do to it, several GRES lines, -o.
#include <gmock/gmock.h>

#include "fmt/format.h"
#include "helpers.h"
#include "jobs/slurm/listed.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kBody =
    "   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A\n"
    "   Priority=1 Nice=0 Account=research QOS=normal WCKey=*llm\n"
    "   JobState=RUNNING Reason=None Dependency=(null)\n"
    "   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
    "   RunTime=00:01:40 TimeLimit=00:30:00 TimeMin=N/A\n"
    "   SubmitTime=900 EligibleTime=900\n"
    "   StartTime=1000 EndTime=2800 Deadline=N/A\n"
    "   SuspendTime=None SecsPreSuspend=0 LastSchedEval=1000 Scheduler=Main\n"
    "   Partition=batch AllocNode:Sid=localhost:18068\n"
    "   ReqNodeList=(null) ExcNodeList=(null)\n"
    "   NodeList=gpu[001-003]\n"
    "   NumNodes=3 NumCPUs=16 NumTasks=16 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n"
    "   TRES=cpu=16,node=3,gres/gpu=5,gres/gpu:h100=5\n"
    "   JOB_GRES=gpu:h100:5\n"
    "     Nodes=gpu[001-002] CPU_IDs=0-3 Mem=1000 GRES=gpu:h100:2(IDX:0,7)\n"
    "     Nodes=gpu003 CPU_IDs=0-3 Mem=1000 GRES=gpu:h100:1(IDX:4)\n"
    "   SubmitLine=sbatch --wrap NodeList=gpu009 JobState=FAILED\n"
    "   Comment=workflow=pretrain;run=17 StartTime=5\n";

// A name with "State=" in it makes the first line look like one of -o: not trusted.
TEST(ScontrolJob, NameThatLooksLikeOneLine) {
  const Books books = ReadOk(
      "JobId=7 ArrayJobId=2 ArrayTaskId=5 JobName=my job JobState=x\n" + std::string(kBody) + "\n",
      ReadOptions{});
  EXPECT_EQ(books.kind, "scontrol jobs");
  EXPECT_EQ(Counts(books.refused), "key_twice 1");
}

TEST(ScontrolJob, IndicesNodeByNode) {
  const Books books =
      ReadOk("JobId=7 ArrayJobId=2 ArrayTaskId=5 JobName=my job\n" + std::string(kBody) + "\n",
             ReadOptions{});
  EXPECT_EQ(Counts(books.refused), "");
  ASSERT_THAT(books.jobs, SizeIs(1));
  const JobRecord& job = books.jobs[0];
  EXPECT_EQ(job.id, "2_5");
  EXPECT_EQ(job.raw_id, 7);
  EXPECT_EQ(job.name, "my job");
  EXPECT_EQ(job.user, "alice");
  EXPECT_EQ(job.account, "research");
  EXPECT_EQ(job.wckey, "llm");
  EXPECT_EQ(job.restarts, 2);
  EXPECT_EQ(job.comment, "workflow=pretrain;run=17 StartTime=5");
  EXPECT_EQ(Seconds(job.start), 1000);
  EXPECT_EQ(job.end, std::nullopt);  // a running job's is its limit
  EXPECT_EQ(job.exit_code, std::nullopt);
  EXPECT_EQ(Seconds(job.as_of), 1100);
  EXPECT_EQ(job.allocated.gpus, 5);
  EXPECT_EQ(job.node_gpus, (std::vector<NodeGpus>{
                               {"gpu001", {0, 7}, 2}, {"gpu002", {0, 7}, 2}, {"gpu003", {4}, 1}}));
}

// A raw newline in a job's name begins a line; what it forges comes twice.
TEST(ScontrolJob, ForgedByANewlineInTheName) {
  const Books forged = ReadOk(
      "JobId=7 JobName=x\n   UserId=root(0) Account=gold\n" + std::string(kBody), ReadOptions{});
  EXPECT_THAT(forged.jobs, IsEmpty());
  EXPECT_EQ(Counts(forged.refused), "key_twice 1");
  EXPECT_THAT(forged.refused.at("key_twice").examples[0], HasSubstr("use squeue --json"));
}

// A name in which a whole record is: of a text alone one sees that a job is there twice, and then
// neither is believed, nor the record before, which is cut short.
TEST(ScontrolJob, AJobThatIsThereTwice) {
  const auto record = [](int id) { return fmt::format("JobId={} JobName=x\n{}\n", id, kBody); };
  const Books books =
      ReadOk(record(1) + record(2) + record(3) + record(4) + record(3), ReadOptions{});
  EXPECT_EQ(Counts(books.refused), "before_forged 2, job_twice 2");
  ASSERT_THAT(books.jobs, SizeIs(1));
  EXPECT_EQ(books.jobs[0].raw_id, 1);
  ASSERT_THAT(books.listed, SizeIs(5));
  EXPECT_EQ(books.listed[0].at, 0u);
  EXPECT_EQ(books.listed[4].at, std::nullopt);
  EXPECT_THAT(books.refused.at("job_twice").examples[0], HasSubstr("several looks are in one"));
}

TEST(ScontrolJob, AListOfIdsSaysWhichAreReal) {
  const auto record = [](int id) { return fmt::format("JobId={} JobName=x\n{}\n", id, kBody); };
  Books books = ReadOk(record(1) + record(2) + record(99) + record(98) + record(3), ReadOptions{});
  EXPECT_THAT(books.jobs, SizeIs(5));
  RefuseUnlisted(ReadIdList("1\n 2\n\n3\n").value(), &books);
  EXPECT_EQ(Counts(books.refused), "before_forged 1, not_listed 2");
  ASSERT_THAT(books.jobs, SizeIs(2));
  EXPECT_EQ(books.jobs[0].raw_id, 1);
  EXPECT_EQ(books.jobs[1].raw_id, 3);
  EXPECT_EQ(books.listed[4].at, 1u);
  EXPECT_FALSE(ReadIdList("1\n2_5\n").ok());
  EXPECT_FALSE(ReadIdList("-1").ok());
}

TEST(ScontrolJob, OneLine) {
  const std::string head = "JobId=7 JobName=my job";
  const std::string rest =
      " UserId=alice(1001) GroupId=alice(1001) Account=research JobState=COMPLETED "
      "ExitCode=3:9 RunTime=00:01:40 SubmitTime=900 EligibleTime=900 StartTime=1000 EndTime=1100 "
      "SuspendTime=None SecsPreSuspend=0 Partition=batch NodeList=gpu001 TRES=gres/gpu=2 "
      "OverSubscribe=OK Comment=two words Command=(null)\n";
  const Books books =
      ReadOk(head + rest + "JobId=8 JobName=x JobState=FAILED" + rest, ReadOptions{});
  EXPECT_EQ(Counts(books.refused), "key_twice 1");
  ASSERT_THAT(books.jobs, SizeIs(1));
  EXPECT_EQ(books.jobs[0].name, "my job");
  EXPECT_EQ(books.jobs[0].comment, "two words");
  EXPECT_EQ(books.jobs[0].exit_code, 3);
  EXPECT_EQ(books.jobs[0].exit_signal, 9);
  EXPECT_EQ(Seconds(books.jobs[0].end), 1100);
}

TEST(ScontrolJob, NewerReleasesSayBothTres) {
  const Books books = ReadOk(
      "JobId=7 JobName=x\n   JobState=RUNNING Reason=None\n   StartTime=10 EndTime=20\n"
      "   ReqTRES=cpu=1,gres/gpu=1\n   AllocTRES=cpu=8,gres/gpu=4\n   NodeList=n1\n",
      ReadOptions{});
  ASSERT_THAT(books.jobs, SizeIs(1));
  EXPECT_EQ(books.jobs[0].allocated.gpus, 4);
  EXPECT_EQ(books.jobs[0].requested.gpus, 1);
}

TEST(ScontrolJob, StrayLinesAndBrokenRecords) {
  const Books books = ReadOk(
      "JobId=x JobName=a\n   JobState=RUNNING Reason=None\n"
      "JobId=8 JobName=b\n"
      "JobId=9 JobName=c\n   JobState=RUNNING Reason=None\n   StartTime=sometime EndTime=1\n",
      ReadOptions{});
  EXPECT_EQ(Counts(books.refused), "bad_number 1, bad_time 1, no_state 1");
  EXPECT_THAT(books.jobs, IsEmpty());
}

}  // namespace
}  // namespace flopwatch::slurm
