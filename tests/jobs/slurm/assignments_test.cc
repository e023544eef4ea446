// Which GPUs attempts held, as far as it is known, and the file that `serve` reads it from.
#include "jobs/slurm/assignments.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "base/text.h"
#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Lines(const AssignmentList& list) {
  std::vector<std::string> out;
  for (const jobs::StaticAssignment& a : list.assignments)
    out.push_back(
        fmt::format("{} {} {}-{}", a.gpu, a.job, a.from / kMicrosPerSecond,
                    a.to == jobs::kOpenEnd ? "" : fmt::format("{}", a.to / kMicrosPerSecond)));
  return out;
}

constexpr std::string_view kSacct =
    "JobIDRaw|Cluster|User|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
    "7|c|ann|COMPLETED|1000|1600|600|gres/gpu=2|n1|train\n"
    "8|c|bob|COMPLETED|1000|1300|300|gres/gpu=8|n[1-2]|sweep\n";
constexpr std::string_view kNodes =
    "NodeName=n1 Gres=gpu:h100:4 State=IDLE\n\nNodeName=n2 Gres=gpu:h100:4 State=IDLE\n";

TEST(AssignmentsTest, AccountingAloneDoesNotSayWhichGpus) {
  const std::vector<Books> books = {ReadOk(kSacct)};
  const AssignmentList list = AssignmentsOf(MergeAttempts(books, {}), books);
  EXPECT_TRUE(list.assignments.empty());
  EXPECT_EQ(list.not_placed, 2u);
  EXPECT_EQ(list.not_placed_gpu_seconds, 2 * 600 + 8 * 300);
}

TEST(AssignmentsTest, AllGpusOfItsNodesAreThese) {
  const std::vector<Books> books = {ReadOk(kSacct), ReadOk(kNodes)};
  const AssignmentList list = AssignmentsOf(MergeAttempts(books, {}), books);
  EXPECT_THAT(Lines(list), ElementsAre("n1:nvidia0 8 1000-1300", "n1:nvidia1 8 1000-1300",
                                       "n1:nvidia2 8 1000-1300", "n1:nvidia3 8 1000-1300",
                                       "n2:nvidia0 8 1000-1300", "n2:nvidia1 8 1000-1300",
                                       "n2:nvidia2 8 1000-1300", "n2:nvidia3 8 1000-1300"));
  EXPECT_EQ(list.not_placed, 1u);
  EXPECT_EQ(list.gpu_seconds, 8 * 300);
}

// Slurm gives instances indices of their own, and counts them as GPUs of the node.
TEST(AssignmentsTest, AnInstanceIsNoGpu) {
  const std::vector<Books> books = {
      ReadOk("JobIDRaw|Cluster|User|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
             "7|c|ann|COMPLETED|1000|1600|600|gres/gpu:a100_2g.20gb=1,gres/gpu=1|n1|nb\n"
             "8|c|bob|COMPLETED|1000|1600|600|gres/gpu=3|n1|train\n"
             "9|c|bob|COMPLETED|2000|2600|600|gres/gpu:a100=1,gres/gpu=1|n1|train\n"),
      ReadOk("NodeName=n1 Gres=gpu:a100:1,gpu:a100_2g.20gb:2 State=IDLE\n"),
      ReadOk("job,node,gpus\n7,n1,1\n9,n1,0\n")};
  const AssignmentList list = AssignmentsOf(MergeAttempts(books, {}), books);
  EXPECT_THAT(Lines(list), ElementsAre("n1:nvidia0 9 2000-2600"));
  EXPECT_EQ(list.on_instances, 1u);
  EXPECT_EQ(list.not_placed, 1u);
}

// Two clusters number their jobs alike; the node says which one a line means.
TEST(AssignmentsTest, APrologThatDoesNotNameItsCluster) {
  const std::vector<Books> books = {
      ReadOk("JobIDRaw|Cluster|User|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
             "7|a|ann|COMPLETED|1000|1600|600|gres/gpu=1|n1|x\n"
             "7|b|bob|COMPLETED|1000|1300|300|gres/gpu=1|n2|y\n"
             "8|a|ann|COMPLETED|1000|1600|600|gres/gpu=1|n3|x\n"
             "8|b|bob|COMPLETED|1000|1300|300|gres/gpu=1|n3|y\n"),
      ReadOk("job_id_raw,start,node,gpu,uuid,shared\n7,1000,n2,5,GPU-x,\n8,1000,n3,0,GPU-y,\n")};
  const AttemptList attempts = MergeAttempts(books, {});
  EXPECT_EQ(attempts.counts.map_lines_placed, 1u);
  EXPECT_EQ(attempts.counts.map_lines_ambiguous, 1u);
  const AssignmentList list = AssignmentsOf(attempts, books);
  EXPECT_THAT(Lines(list), ElementsAre("n2:nvidia5 7 1000-1300"));
  EXPECT_EQ(list.assignments[0].cluster, "b");
}

// In a file for a server there are no clusters: an id that two of them have is written out.
TEST(AssignmentsTest, AFileNamesTheClusterWhereItMust) {
  const std::vector<Books> books = {
      ReadOk("JobIDRaw|Cluster|User|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
             "7|a|ann|COMPLETED|1000|1600|600|gres/gpu=1|n1|x\n"
             "7|b|bob|COMPLETED|1000|1300|300|gres/gpu=1|n2|y\n"
             "8|a|ann|COMPLETED|1000|1600|600|gres/gpu=1|n3|x\n"),
      ReadOk("job,node,gpus\n7,n1,0\n7,n2,0\n8,n3,0\n")};
  const std::string csv =
      AssignmentsCsv(AssignmentsOf(MergeAttempts(books, {}), books).assignments);
  EXPECT_THAT(csv, HasSubstr(",a:7,ann"));
  EXPECT_THAT(csv, HasSubstr(",b:7,bob"));
  EXPECT_THAT(csv, HasSubstr(",8,ann"));
}

TEST(AssignmentsTest, TheFileIsReadAsItWasMeant) {
  jobs::StaticAssignment a{.gpu = "n1:nvidia3",
                           .job = "7",
                           .name = "say \"a,b\"\n# x",
                           .user = "ann",
                           .workflow = " =1+1",
                           .from = 1000 * kMicrosPerSecond,
                           .to = 1600 * kMicrosPerSecond};
  jobs::StaticAssignment open = a;
  open.to = jobs::kOpenEnd;
  const auto read =
      jobs::ParseStaticFile(AssignmentsCsv(std::vector{a, open}), "jobs.csv", /*now=*/0);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].gpu, a.gpu);
  EXPECT_EQ((*read)[0].from, a.from);
  EXPECT_EQ((*read)[0].to, a.to);
  EXPECT_EQ((*read)[1].to, jobs::kOpenEnd);
  EXPECT_THAT((*read)[0].name, HasSubstr("say \"a,b\""));
}

// The 19 jobs of a real Slurm: what each prolog saw is what comes out.
TEST(AssignmentsTest, EveryJobOfTheLiveClusterHasItsGpus) {
  const auto path = SlurmData("live-22.05/expected_allocations.csv");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no real Slurm data here";
  std::set<std::string> wanted;  // "node:nvidiaN job"
  std::istringstream lines(testing_data::ReadFile(path));
  std::string line;
  std::getline(lines, line);
  ASSERT_THAT(line, HasSubstr("job_id_raw"));
  std::vector<std::string> header, cells;
  ASSERT_TRUE(SplitCsv(line, &header));
  while (std::getline(lines, line)) {
    ASSERT_TRUE(SplitCsv(line, &cells));
    std::istringstream gpus(cells[2]);
    std::string gpu;
    while (std::getline(gpus, gpu, ','))
      wanted.insert(fmt::format("{}:nvidia{} {}", cells[1], gpu, cells[0]));
  }
  // 16 failed in the second it began: its prolog ran, and it held no GPU for a second.
  std::erase_if(wanted, [](const std::string& of) { return of.ends_with(" 16"); });
  const std::vector<Books> books = LiveCluster();
  const AssignmentList list = AssignmentsOf(MergeAttempts(books, kLiveClusterAsOf), books);
  std::set<std::string> seen;
  for (const jobs::StaticAssignment& a : list.assignments) seen.insert(a.gpu + " " + a.job);
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ(list.not_placed, 0u);
}

}  // namespace
}  // namespace flopwatch::slurm
