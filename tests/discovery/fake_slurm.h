// A cluster that runs no job and knows what runs: what scontrol, sacct and sacctmgr would print of
// it, in the form of 22.05 (../shared/data/slurm/live-22.05), at a clock that the test moves.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/time.h"

namespace flopwatch::test {

struct FakeJob {
  int64_t id = 0;
  std::string state = "RUNNING", node = "gpu001", idx = "0-3", name = "train", account = "research";
  int64_t start = 0, end = 0;  // seconds; 0 = not yet
  int gpus = 4;
};
struct FakeNode {
  std::string name, state = "IDLE", reason = "";
};

class FakeSlurm {
 public:
  int64_t now = 1'800'000'000;      // seconds
  std::vector<FakeJob> jobs;        // that the controller remembers
  std::vector<FakeJob> accounting;  // rows of sacct; those of jobs that run are written too
  std::vector<FakeNode> nodes = {{"gpu001"}, {"gpu002"}};
  std::string events;                        // lines of sacctmgr
  std::map<std::string, Status> failures;    // by the command's words: "sacct", "show job"
  std::map<std::string, std::string> talks;  // the same: what it prints instead
  std::map<std::string, int> calls;          // by the last words
  std::vector<std::vector<std::string>> asked;

  Micros Clock() const { return now * kMicrosPerSecond; }

  StatusOr<ProgramOutput> Run(const std::vector<std::string>& argv) {
    asked.push_back(argv);
    const std::string what = WhatOf(argv);
    ++calls[what];
    if (const auto it = failures.find(what); it != failures.end()) return it->second;
    ProgramOutput out;
    if (const auto it = talks.find(what); it != talks.end()) {
      out.out = it->second;
    } else if (what == "show config") {
      out.out =
          "Configuration data as of 2026-11-21T02:41:03\nAccountingStorageBackupHost = "
          "(null)\nClusterName             = ofu\nCommunicationParameters = (null)\n";
    } else if (what == "show job") {
      for (const FakeJob& job : jobs) out.out += JobText(job);
      if (jobs.empty()) out.out = "No jobs in the system\n";
    } else if (what == "show node") {
      for (const FakeNode& node : nodes) out.out += NodeText(node);
    } else if (what == "squeue") {
      for (const FakeJob& job : jobs) out.out += fmt::format("{}\n", job.id);
    } else if (what == "sacct") {
      out.out = SacctText(argv);
    } else if (what == "show event") {
      out.out = "Cluster|NodeName|TimeStart|TimeEnd|State|User|Reason\n" + events;
    }
    return out;
  }

  static std::string WhatOf(const std::vector<std::string>& argv) {
    if (argv[0] == "sacct" || argv[0] == "squeue") return argv[0];
    const auto show = std::find(argv.begin(), argv.end(), "show");
    return "show " + (show == argv.end() ? "" : *(show + 1));
  }

 private:
  static std::string Time(int64_t seconds) {
    return seconds == 0 ? "Unknown" : fmt::format("{}", seconds);
  }
  std::string JobText(const FakeJob& job) const {
    const bool runs = job.state == "RUNNING", waits = job.state == "PENDING";
    const int64_t ran = job.start == 0 ? 0 : (job.end > 0 ? job.end : now) - job.start;
    return fmt::format(
        "JobId={} JobName={}\n   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A\n"
        "   Priority=1 Nice=0 Account={} QOS=normal\n   JobState={} Reason=None Dependency=(null)\n"
        "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
        "   RunTime={:02}:{:02}:{:02} TimeLimit=10:00:00 TimeMin=N/A\n"
        "   SubmitTime={} EligibleTime={}\n   StartTime={} EndTime={} Deadline=N/A\n"
        "   SuspendTime=None SecsPreSuspend=0\n   Partition=batch AllocNode:Sid=localhost:1\n"
        "   NodeList={}\n   NumNodes=1 NumCPUs=8\n   TRES=cpu=8,node=1,billing=8,gres/gpu={}\n"
        "   JOB_GRES=gpu:{}\n     Nodes={} CPU_IDs=0-3 Mem=1000 GRES={}\n   WorkDir=/tmp\n\n",
        job.id, job.name, job.account, job.state, ran / 3600, ran / 60 % 60, ran % 60,
        1'799'000'000, 1'799'000'000, Time(job.start), Time(job.end), waits ? "(null)" : job.node,
        job.gpus, job.gpus, job.node, runs ? fmt::format("gpu:{}(IDX:{})", job.gpus, job.idx) : "");
  }
  static std::string NodeText(const FakeNode& node) {
    return fmt::format(
               "NodeName={} Arch=x86_64 CoresPerSocket=32\n   Gres=gpu:8\n   GresUsed=gpu:0\n"
               "   State={} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
               "   Partitions=batch\n   CfgTRES=cpu=64,mem=500000M,billing=64,gres/gpu=8\n"
               "   AllocTRES=\n",
               node.name, node.state) +
           (node.reason.empty() ? "" : "   Reason=" + node.reason + "\n") + "\n";
  }
  static int64_t SecondsOf(const std::vector<std::string>& argv, std::string_view option) {
    const auto at = std::find(argv.begin(), argv.end(), option);
    return ParseTime(*(at + 1) + "Z", 0).value() / kMicrosPerSecond;
  }
  std::string SacctText(const std::vector<std::string>& argv) const {
    const int64_t from = SecondsOf(argv, "-S"), to = SecondsOf(argv, "-E");
    std::string out =
        "JobIDRaw|JobID|Cluster|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|"
        "End|ElapsedRaw|Suspended|ReqTRES|AllocTRES|NodeList|Reservation|WCKey|Comment|JobName\n";
    for (const auto* list : {&accounting, &jobs}) {
      for (const FakeJob& job : *list) {
        if (job.start > to || (job.end > 0 && job.end < from)) continue;
        out += fmt::format(
            "{}|{}|ofu|alice|{}|batch|normal|{}|0:0|1799000000|1799000000|{}|{}|{}|00:00:00|"
            "gres/gpu={}|gres/gpu={}|{}||||{}\n",
            job.id, job.id, job.account, job.state, Time(job.start), Time(job.end),
            job.start == 0 ? 0 : (job.end > 0 ? job.end : now) - job.start, job.gpus, job.gpus,
            job.node, job.name);
      }
    }
    std::string delimiter = "|", with_delimiter;
    for (const std::string& arg : argv)
      if (arg.starts_with("--delimiter=")) delimiter = arg.substr(12);
    for (const char c : out) with_delimiter += c == '|' ? delimiter : std::string(1, c);
    return with_delimiter;
  }
};

}  // namespace flopwatch::test
