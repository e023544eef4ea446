// Every captured file of ../shared/data/slurm: what real Slurms from 20.11 to 25.05 wrote is read
// without one refusal that is not named here, and equals what was computed from it independently
// (expected.csv, expected_allocations.csv, accounting-logs.expected.json).
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "helpers.h"
#include "jobs/slurm/job_id.h"

namespace flopwatch::slurm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Headerless sacct files and the --format their projects document: hb-jobinfo's README, CEEMS'
// collector, XDMoD's ingestor; of the comment sample that of sacct_X_P.txt's columns it has.
ReadOptions FieldsOf(std::string_view path) {
  ReadOptions options = InUtc();
  const auto fields = [&](std::string_view list) {
    options.fields =
        std::vector<std::string>(absl::StrSplit(absl::string_view(list.data(), list.size()), ','));
  };
  if (path == "hb-jobinfo/sacct.txt") {
    fields(
        "JobID,JobName,User,Partition,NodeList,NNodes,NCPUs,NTasks,State,Submit,Start,End,"
        "Timelimit,Elapsed,TotalCPU,CPUTime,UserCPU,SystemCPU,ReqMem,MaxRSS,MaxVMSize,ReqTRES,"
        "AllocTRES,TRESUsageInMax,TRESUsageInTot,TRESUsageOutTot,MaxDiskRead,MaxDiskWrite,"
        "MaxRSSNode,MaxRSSTask,MaxVMSizeNode,MaxVMSizeTask,MaxDiskReadNode,MaxDiskReadTask,"
        "MaxDiskWriteNode,MaxDiskWriteTask,Comment");
  } else if (path == "ceems/sacct_rows.txt") {
    fields(
        "JobID,Partition,QOS,Account,Group,GID,User,UID,Submit,Start,End,Elapsed,ElapsedRaw,"
        "ExitCode,State,AllocTRES,NodeList,JobName,WorkDir");
  } else if (path.starts_with("xdmod/non-ended") || path == "xdmod/accounting-logs.log" ||
             path.starts_with("xdmod/accounting-logs-with") || path.starts_with("xdmod/utf8")) {
    fields(
        "JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,GID,User,UID,Submit,Eligible,Start,"
        "End,Elapsed,ExitCode,State,NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,"
        "NodeList,JobName");
  } else if (path == "live-22.05/sacct_X_P_with_comment.txt") {
    options = LaterJobsOfLiveCluster();
  }
  return options;
}

struct Captured {
  std::string_view path, kind;
  size_t jobs = 0, nodes = 0, map = 0;
  std::string_view refused = "", noted = "";
  uint64_t steps = 0;
};

// Counts are those of grep, awk and a JSON reader of another language.
constexpr Captured kCaptured[] = {
    {"live-22.05/sacct_X_P.txt", "sacct text", 14},
    {"live-22.05/sacct_X_P_epoch.txt", "sacct text", 14},
    {"live-22.05/sacct_X_P_with_comment.txt", "sacct text", 5},
    {"live-22.05/sacct_steps_P.txt", "sacct text", 14, 0, 0, "", "", 26},
    {"live-22.05/sacct.json", "sacct JSON", 14},
    {"live-22.05/rest_dbv0038_jobs.json", "sacct JSON", 14},
    {"live-22.05/squeue_running.json", "squeue JSON", 14},
    {"live-22.05/rest_v0038_jobs.json", "squeue JSON", 14},
    {"live-22.05/scontrol_show_job_d.txt", "scontrol jobs", 14},
    {"live-22.05/jobcomp_filetxt.txt", "scontrol jobs", 14},
    {"live-22.05/scontrol_show_node_d.txt", "scontrol nodes", 0, 4},
    {"live-22.05/scontrol_show_node_o.txt", "scontrol nodes", 0, 4},
    {"live-22.05/sinfo.json", "node JSON", 0, 4},
    {"live-22.05/sinfo_drain.json", "node JSON", 0, 4},
    {"live-22.05/rest_v0038_nodes.json", "node JSON", 0, 4},
    {"live-22.05/expected_allocations.csv", "prolog", 0, 0, 25},
    {"live-22.05/env/prolog.1.gpu001.env", "prolog", 0, 0, 1},
    {"live-22.05/env/prolog.3.gpu003.env", "prolog", 0, 0, 1},
    {"live-22.05/env/epilog.4.gpu003.env", "prolog", 0, 0, 1},
    {"sarc-sacct-json/fromage_1706227200.json", "sacct JSON", 9},
    {"sarc-sacct-json/mila_1706227200.json", "sacct JSON", 7},
    {"sarc-sacct-json/mila_1714003200.json", "sacct JSON", 8},
    {"sarc-sacct-json/raisin_1714003200.json", "sacct JSON", 3},
    {"sarc-sacct-json/raisin_1721779200.json", "sacct JSON", 5},
    {"sarc-sacct-json/raisin_base_job.json", "sacct JSON", 1},
    {"sarc-sacct-json/raisin_no_prometheus_1711411200.json", "sacct JSON", 8},
    {"clockwork/sacct_1", "sacct JSON", 2},
    {"clockwork/sacct_2", "sacct JSON", 2},
    {"clockwork/scontrol_job_2", "scontrol jobs", 2},
    {"clockwork/small_scontrol_job", "scontrol jobs", 1},
    {"clockwork/scontrol_node_2", "scontrol nodes", 0, 2},
    {"clockwork/scontrol_node_3", "scontrol nodes", 0, 5},
    {"clockwork/small_scontrol_node", "scontrol nodes", 0, 1},
    {"clockwork/sinfo_1", "node JSON", 0, 2},
    {"clockwork/sinfo_2", "node JSON", 0, 2},
    {"hb-jobinfo/sacct.txt", "sacct text", 100, 0, 0, "", "", 142},
    // scontrol show -o node asked for two fields: no state.
    {"hb-jobinfo/scontrol.txt", "scontrol nodes", 0, 183, 0, "", "unknown_node_state 183"},
    {"prometheus-slurm-exporter/squeue_out.json", "squeue JSON", 2},
    {"prometheus-slurm-exporter/sinfo_out.json", "node JSON", 0, 4},
    {"ceems/sacct_rows.txt", "sacct text", 12},
    {"ceems/gpujobmap/0", "GPU map", 0, 0, 1},
    {"ceems/gpujobmap/1", "GPU map", 0, 0, 1},
    {"ceems/gpujobmap/2", "GPU map", 0, 0, 1},
    {"ceems/gpujobmap/3", "GPU map", 0, 0, 1},
    {"xdmod/accounting-logs.log", "sacct text", 4},
    {"xdmod/accounting-logs-with-job-arrays.log", "sacct text", 6},
    {"xdmod/non-ended-job-state.log", "sacct text", 2},
    {"xdmod/utf8-multibyte-chars.log", "sacct text", 1},
};

// What lies there and is not for this room, and what a person who gives it is told.
constexpr std::pair<std::string_view, std::string_view> kNotRead[] = {
    {"live-22.05/squeue_running.txt", "columns of fixed width"},
    {"live-22.05/sinfo_N_drain.txt", "of sinfo its JSON is read"},
    {"live-22.05/env/batch.1.gpu001.env", "the environment of a job's task"},
    {"live-22.05/env/srun_tasks.1.env", "not recognised"},  // several tasks' environments
    {"clockwork/nodes.json", "JSON without a list"},        // its own database
    {"prometheus-slurm-exporter/squeue_fallback.txt", "cannot read it"},  // its own format
    {"prometheus-slurm-exporter/sinfo_fallback.txt", "cannot read it"},
    {"hb-jobinfo/squeue.txt", "without its header"},
    {"hb-jobinfo/sstat.txt", "without its header"},
    {"ceems/slurmjobprops/1009248", "not recognised"},
    {"xdmod/accounting-logs.expected.json", "JSON without a list"},
    {"ceems/k8s/pods-metadata.json", "JSON without a list"},
};

TEST(Captured, EveryFileIsRead) {
  FLOPWATCH_REQUIRE_DATA("slurm/README.md");
  for (const Captured& c : kCaptured) {
    SCOPED_TRACE(c.path);
    const Books books = ReadCaptured(c.path, FieldsOf(c.path));
    EXPECT_EQ(books.kind, c.kind);
    EXPECT_THAT(books.jobs, SizeIs(c.jobs));
    EXPECT_THAT(books.nodes, SizeIs(c.nodes));
    EXPECT_THAT(books.gpu_map, SizeIs(c.map));
    EXPECT_EQ(Counts(books.refused), c.refused);
    EXPECT_EQ(Counts(books.noted), c.noted);
    EXPECT_EQ(books.steps_left_out, c.steps);
    for (const JobRecord& job : books.jobs) {
      EXPECT_NE(job.state, JobState::kUnknown) << job.state_text;
      EXPECT_NE(job.user, "");
    }
  }
}

TEST(Captured, WhatIsNotReadSaysWhy) {
  FLOPWATCH_REQUIRE_DATA("slurm/README.md");
  for (const auto& [path, why] : kNotRead)
    EXPECT_THAT(ErrorOf(testing_data::ReadFile(SlurmData(path)), InUtc(), path), HasSubstr(why))
        << path;
}

std::vector<std::vector<std::string>> CsvRows(std::string_view relative) {
  std::ifstream in(SlurmData(relative));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) EXPECT_TRUE(SplitCsv(line, &rows.emplace_back()));
  return rows;
}

std::string Typed(const Tres& tres) {
  std::string out;
  for (const TypedCount& t : tres.gpu_types)
    out += fmt::format("{}gpu:{}={}", out.empty() ? "" : ";", t.type, t.count);
  return out;
}

// 25.05: file,job_id,array_task_id,user,cluster,state,nodes,submit,start,end,elapsed,gpus,typed.
TEST(Captured, SarcEqualsItsExpectedCsv) {
  FLOPWATCH_REQUIRE_DATA("slurm/sarc-sacct-json/expected.csv");
  std::map<std::string, Books> files;
  const auto rows = CsvRows("sarc-sacct-json/expected.csv");
  EXPECT_THAT(rows, SizeIs(41));
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 13u);
    SCOPED_TRACE(row[0] + " " + row[1]);
    if (!files.contains(row[0]))
      files[row[0]] = ReadCaptured("sarc-sacct-json/" + row[0], ReadOptions{});
    const auto& jobs = files[row[0]].jobs;
    const auto job =
        std::find_if(jobs.begin(), jobs.end(), [&](const JobRecord& j) { return j.id == row[1]; });
    ASSERT_NE(job, jobs.end());
    const auto seconds = [](const std::string& text) {
      return text == "0" ? -1 : std::stoll(text);
    };
    EXPECT_EQ(job->user, row[3]);
    EXPECT_EQ(job->cluster, row[4]);
    EXPECT_EQ(job->state_text, row[5]);
    EXPECT_EQ(jobs::CompressHostlist(job->nodes), row[6] == "None assigned" ? "" : row[6]);
    EXPECT_EQ(Seconds(job->submit), seconds(row[7]));
    EXPECT_EQ(Seconds(job->start), seconds(row[8]));
    EXPECT_EQ(Seconds(job->end), seconds(row[9]));
    EXPECT_EQ(job->elapsed_s, std::stoll(row[10]));
    EXPECT_EQ(job->allocated.gpus.value_or(0), std::stoll(row[11]));
    EXPECT_EQ(Typed(job->allocated), row[12]);
    // The file's name is the time of the look.
    if (job->state == JobState::kRunning) {
      const size_t digits = row[0].find_last_of('_') + 1;
      EXPECT_EQ(Seconds(job->as_of), std::stoll(row[0].substr(digits)));
    }
  }
}

// XDMoD's own reading of its log: times in UTC, GPUs, elapsed.
TEST(Captured, XdmodEqualsItsExpectedJson) {
  FLOPWATCH_REQUIRE_DATA("slurm/xdmod/accounting-logs.expected.json");
  const auto expected =
      Json::Parse(testing_data::ReadFile(SlurmData("xdmod/accounting-logs.expected.json")));
  ASSERT_TRUE(expected.ok());
  const Books books =
      ReadCaptured("xdmod/accounting-logs.log", FieldsOf("xdmod/accounting-logs.log"));
  ASSERT_THAT(books.jobs, SizeIs(expected->array().size()));
  for (size_t k = 0; k < books.jobs.size(); ++k) {
    const JobRecord& job = books.jobs[k];
    const Json& want = expected->array()[k];
    EXPECT_EQ(job.id, want["job_id"].text());
    EXPECT_EQ(job.user, want["user_name"].text());
    EXPECT_EQ(job.account, want["account_name"].text());
    EXPECT_EQ(job.name, want["job_name"].text());
    EXPECT_EQ(job.state_text, want["state"].text());
    EXPECT_EQ(Seconds(job.submit), want["submit_time"].integer());
    EXPECT_EQ(Seconds(job.eligible), want["eligible_time"].integer_or(-1));
    EXPECT_EQ(Seconds(job.start), want["start_time"].integer());
    EXPECT_EQ(Seconds(job.end), want["end_time"].integer());
    EXPECT_EQ(job.elapsed_s, want["elapsed"].integer());
    EXPECT_EQ(job.allocated.gpus.value_or(0), want["ngpus"].integer());
    const auto nodes = jobs::ExpandHostlist(want["node_list"].text());
    ASSERT_TRUE(nodes.ok());
    EXPECT_EQ(job.nodes, *nodes);
  }
  // The reading ends with RUNNING and PENDING that the log gives an end for: not theirs.
  const Books open =
      ReadCaptured("xdmod/non-ended-job-state.log", FieldsOf("xdmod/non-ended-job-state.log"));
  for (const JobRecord& job : open.jobs) EXPECT_EQ(job.end, std::nullopt) << job.id;
  EXPECT_EQ(
      ReadCaptured("xdmod/utf8-multibyte-chars.log", FieldsOf("xdmod/utf8-multibyte-chars.log"))
          .jobs.at(0)
          .name,
      "aàb");
}

// What one line of a record says, for comparing sources.
std::string Line(const JobRecord& j) {
  return fmt::format("{} {} {} {} {} {} {} {}-{} gpus={} {}", j.raw_id.value_or(-1), j.id, j.user,
                     j.account, j.name, JobStateName(j.state), jobs::CompressHostlist(j.nodes),
                     Seconds(j.start), Seconds(j.end), j.allocated.gpus.value_or(-1),
                     Typed(j.allocated));
}
std::set<std::string> Lines(const Books& books) {
  std::set<std::string> out;
  for (const JobRecord& job : books.jobs) out.insert(Line(job));
  return out;
}

// Text with local times, text with epochs, with steps, and JSON: the same 14 jobs.
TEST(Captured, SacctSaysTheSameInEveryForm) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/sacct.json");
  const std::set<std::string> json = Lines(ReadCaptured("live-22.05/sacct.json", ReadOptions{}));
  EXPECT_THAT(json, SizeIs(14));
  EXPECT_EQ(Lines(ReadCaptured("live-22.05/sacct_X_P.txt")), json);
  EXPECT_EQ(Lines(ReadCaptured("live-22.05/sacct_X_P_epoch.txt", ReadOptions{})), json);
  EXPECT_EQ(Lines(ReadCaptured("live-22.05/sacct_steps_P.txt")), json);
}

TEST(Captured, SqueueScontrolAndRestSayTheSame) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/squeue_running.json");
  const Books squeue = ReadCaptured("live-22.05/squeue_running.json", ReadOptions{});
  const Books rest = ReadCaptured("live-22.05/rest_v0038_jobs.json", ReadOptions{});
  const Books scontrol = ReadCaptured("live-22.05/scontrol_show_job_d.txt");
  EXPECT_EQ(Lines(scontrol), Lines(squeue));
  // slurmrestd was asked a moment later: 2_3, 2_4 and 2_5 had ended by then.
  const std::set<int64_t> ended = {13, 14, 2};
  for (size_t k = 0; k < squeue.jobs.size(); ++k) {
    for (const Books* other : {&rest, &scontrol}) {
      if (other == &rest && ended.contains(*squeue.jobs[k].raw_id)) continue;
      const auto same =
          std::find_if(other->jobs.begin(), other->jobs.end(),
                       [&](const JobRecord& j) { return j.raw_id == squeue.jobs[k].raw_id; });
      ASSERT_NE(same, other->jobs.end());
      EXPECT_EQ(Line(*same), Line(squeue.jobs[k]));
      EXPECT_EQ(same->node_gpus, squeue.jobs[k].node_gpus) << squeue.jobs[k].id;
    }
  }
  // A pending job's start and end are forecasts.
  const auto pending = std::find_if(squeue.jobs.begin(), squeue.jobs.end(),
                                    [](const JobRecord& j) { return j.raw_id == 5; });
  ASSERT_NE(pending, squeue.jobs.end());
  EXPECT_EQ(pending->start, std::nullopt);
  EXPECT_THAT(pending->nodes, IsEmpty());
  EXPECT_EQ(pending->requested.gpus, 8);
  // Asked of the database while they ran, 22.05 says the time of asking is the end.
  const Books database = ReadCaptured("live-22.05/rest_dbv0038_jobs.json", ReadOptions{});
  for (const JobRecord& job : database.jobs) {
    if (job.state != JobState::kRunning) continue;
    EXPECT_EQ(job.end, std::nullopt);
    EXPECT_EQ(Seconds(job.as_of), 1795228905);
  }
}

// What each of the 19 jobs' prologs saw: job -> node -> GPU indices.
using Allocations = std::map<int64_t, std::map<std::string, std::vector<int32_t>>>;
Allocations Expected() {
  Allocations out;
  for (const auto& row : CsvRows("live-22.05/expected_allocations.csv"))
    out[std::stoll(row[0])][row[1]] = *ParseGpuIndices(row[2]);
  return out;
}

TEST(Captured, IndicesAreThoseThePrologsSaw) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/expected_allocations.csv");
  const Allocations expected = Expected();
  EXPECT_THAT(expected, SizeIs(19));
  size_t running = 0;
  for (const char* file : {"live-22.05/squeue_running.json", "live-22.05/scontrol_show_job_d.txt",
                           "live-22.05/rest_v0038_jobs.json"}) {
    for (const JobRecord& job : ReadCaptured(file).jobs) {
      if (PhaseOf(job.state) != JobPhase::kHolding) {
        EXPECT_THAT(job.node_gpus, IsEmpty()) << "indices vanish at the end";
        continue;
      }
      ++running;
      std::map<std::string, std::vector<int32_t>> seen;
      for (const NodeGpus& on : job.node_gpus) seen[on.node] = on.gpus;
      EXPECT_EQ(seen, expected.at(*job.raw_id)) << file << " " << job.id;
    }
  }
  EXPECT_EQ(running, 8u + 8u + 5u);  // three had ended when slurmrestd was asked
  for (const char* file :
       {"live-22.05/env/prolog.1.gpu001.env", "live-22.05/env/prolog.3.gpu003.env",
        "live-22.05/env/epilog.4.gpu003.env"}) {
    const GpuMapLine line = ReadCaptured(file).gpu_map.at(0);
    EXPECT_EQ(line.gpus, expected.at(line.job).at(line.node)) << file;
    EXPECT_EQ(line.cluster, "ofu");
  }
}

// All 19 jobs of the capture in one list: sacct after the end, squeue while they ran, prologs.
TEST(Captured, AttemptsOfTheLiveCluster) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/expected_allocations.csv");
  const std::vector<Books> books = LiveCluster();
  const AttemptList list = MergeAttempts(books, kLiveClusterAsOf);
  EXPECT_THAT(list.notes, IsEmpty());
  EXPECT_EQ(list.counts.attempts, 18u);
  EXPECT_EQ(list.counts.without_gpus, 1u);  // 6, CPU only
  EXPECT_EQ(list.counts.waiting, 2u);       // 5 in squeue and scontrol
  EXPECT_EQ(list.counts.map_lines, 25u);
  EXPECT_EQ(list.counts.map_lines_placed, 25u);
  Allocations seen;
  std::map<int64_t, int64_t> held;
  for (const Attempt& a : list.attempts) {
    const int64_t id = a.job.raw_id.value();
    int64_t indices = 0;
    for (const NodeGpus& on : a.job.node_gpus) {
      seen[id][on.node] = on.gpus;
      indices += static_cast<int64_t>(on.gpus.size());
    }
    EXPECT_EQ(a.gpus, indices) << id;
    ASSERT_TRUE(a.held_gpu_seconds) << id;
    held[id] = *a.held_gpu_seconds;
  }
  Allocations expected = Expected();
  expected.erase(6);
  EXPECT_EQ(seen, expected);
  // GPUs x ElapsedRaw of sacct_X_P.txt; 15 to 19 by the times in sacct_X_P_with_comment.txt.
  const std::map<int64_t, int64_t> gpu_seconds = {
      {1, 16 * 240}, {2, 20},       {3, 3 * 97}, {4, 2 * 5},   {5, 8 * 60},  {7, 61},
      {8, 40},       {9, 2 * 40},   {10, 20},    {11, 20},     {12, 20},     {13, 20},
      {14, 20},      {15, 24 * 12}, {16, 0},     {17, 2 * 20}, {18, 2 * 20}, {19, 3 * 20}};
  EXPECT_EQ(held, gpu_seconds);
  const auto find = [&](int64_t id) -> const Attempt& {
    return *std::find_if(list.attempts.begin(), list.attempts.end(),
                         [&](const Attempt& a) { return a.job.raw_id == id; });
  };
  EXPECT_EQ(find(2).job.id, "2_5");  // the array's own id is that of its last task
  EXPECT_EQ(find(9).job.id, "8+1");
  EXPECT_EQ(find(1).job.comment, "workflow=pretrain;run=17");  // squeue has it, sacct does not
  EXPECT_EQ(find(15).job.comment, "workflow=pretrain;run=18");
  EXPECT_EQ(find(3).job.state_text, "CANCELLED by 0");
  EXPECT_TRUE(find(18).running);
  EXPECT_FALSE(find(1).running);
}

TEST(Captured, NodesInAndOutOfService) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/sinfo_drain.json");
  const Books drain = ReadCaptured("live-22.05/sinfo_drain.json");
  for (const NodeRecord& node : drain.nodes) {
    const bool drained = node.name == "gpu004";
    EXPECT_EQ(node.state.base, "IDLE") << node.name;
    EXPECT_EQ(node.state.schedulable, drained ? Schedulable::kNo : Schedulable::kYes) << node.name;
    EXPECT_EQ(node.reason, drained ? "xid79 fallen off the bus" : "") << node.name;
    EXPECT_EQ(node.gpus, 8);
    EXPECT_EQ(node.allocated_gpus, 0);
  }
  // While jobs ran, by the indices their prologs saw: gpu003 has 3 to 7 and, until 2_5 ended, 0;
  // gpu004 has 0, 1 and, until 2_3 and 2_4 ended, 2 and 3. It is MIXED+PLANNED.
  std::map<std::string, int64_t> allocated = {
      {"gpu001", 8}, {"gpu002", 8}, {"gpu003", 6}, {"gpu004", 4}};
  for (const char* file :
       {"live-22.05/sinfo.json", "live-22.05/scontrol_show_node_d.txt",
        "live-22.05/scontrol_show_node_o.txt", "live-22.05/rest_v0038_nodes.json"}) {
    if (std::string_view(file).find("rest") != std::string_view::npos)
      allocated = {{"gpu001", 8}, {"gpu002", 8}, {"gpu003", 5}, {"gpu004", 2}};
    for (const NodeRecord& node : ReadCaptured(file).nodes) {
      EXPECT_EQ(node.allocated_gpus, allocated.at(node.name)) << file << node.name;
      EXPECT_EQ(node.gpus, 8);
      EXPECT_EQ(node.state.schedulable, Schedulable::kYes);
    }
  }
  // 21.08: down with NOT_RESPONDING, down with DRAIN; and a node whose Gres is (null) while its
  // configured TRES has eight GPUs.
  for (const NodeRecord& node : ReadCaptured("clockwork/sinfo_1").nodes)
    EXPECT_EQ(node.state.schedulable, Schedulable::kNo) << node.name;
  for (const NodeRecord& node : ReadCaptured("clockwork/scontrol_node_3").nodes)
    EXPECT_EQ(node.gpus, 8) << node.name;
}

}  // namespace
}  // namespace flopwatch::slurm
