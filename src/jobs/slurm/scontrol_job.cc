// scontrol show job -d, in paragraphs or -o, and jobcomp/filetxt, which has the same form. With -d
// a running job says which GPUs it has on each node.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/listed.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"
#include "jobs/slurm/scontrol_text.h"

namespace flopwatch::slurm {
namespace {

constexpr ScontrolKey kJobKeys[] = {
    {"JobId"},
    {"ArrayJobId"},
    {"ArrayTaskId"},
    {"ArrayTaskThrottle"},
    {"HetJobId"},
    {"HetJobOffset"},
    {"HetJobIdSet"},
    {"JobName", true},
    {"Name", true},  // jobcomp/filetxt
    {"UserId"},
    {"GroupId"},
    {"MCS_label"},
    {"Priority"},
    {"Account"},
    {"QOS"},
    {"WCKey"},
    {"WcKey"},
    {"JobState"},
    {"Reason"},
    {"Dependency"},
    {"Requeue"},
    {"Restarts"},
    {"ExitCode"},
    {"DerivedExitCode"},
    {"RunTime"},
    {"TimeLimit"},
    {"SubmitTime"},
    {"EligibleTime"},
    {"AccrueTime"},
    {"StartTime"},
    {"EndTime"},
    {"Deadline"},
    {"SuspendTime"},
    {"SecsPreSuspend"},
    {"Partition"},
    {"AllocNode:Sid"},
    {"ReqNodeList"},
    {"ExcNodeList"},
    {"NodeList"},
    {"SchedNodeList"},
    {"NumNodes"},
    {"NodeCnt"},
    {"ProcCnt"},
    {"TRES"},
    {"Tres"},
    {"ReqTRES"},
    {"AllocTRES"},
    {"JOB_GRES"},
    {"Nodes", false, true},
    {"CPU_IDs", false, true},
    {"Mem", false, true},
    {"GRES", false, true},
    {"Reservation"},
    {"ReservationName"},
    {"Cluster"},
    {"Features"},
    {"Network"},
    {"Command", true},
    {"WorkDir", true},
    {"Comment", true},
    {"AdminComment", true},
    {"SystemComment", true},
    {"Extra", true},
    {"SubmitLine", true},
    {"StdErr", true},
    {"StdIn", true},
    {"StdOut", true},
    {"Power", true},
    {"TresPerNode"},
    {"TresPerJob"},
};

// "Nodes=gpu[001-002] CPU_IDs=… GRES=gpu:h100:8(IDX:0-7)": a line for nodes that have the same.
void SetScontrolGres(const ScontrolRecord& r, RecordWriter* w, JobRecord* job) {
  std::string_view nodes;
  for (const auto& [key, value] : r.fields) {
    if (key == "Nodes") nodes = value;
    if (key != "GRES" || value.empty() || nodes.empty()) continue;
    std::vector<std::string> names;
    std::vector<Gres> gres;
    w->SetHosts(nodes, &names);
    w->SetGres(value, &gres);
    if (w->failed()) return;
    const std::vector<int32_t> gpus = GpuIndices(gres);
    const std::optional<int64_t> count = GpuCount(gres);
    if (gpus.empty() && count.value_or(0) == 0) continue;
    for (std::string& name : names) job->node_gpus.push_back({std::move(name), gpus, count});
  }
}

void SetScontrolSuspended(const ScontrolRecord& r, RecordWriter* w, const TimeReading& start,
                          JobRecord* job) {
  if (!r.Has("SuspendTime")) return;
  TimeReading changed;
  w->SetTime(r["SuspendTime"], &changed);
  if (!changed.at) {
    job->suspended_s = 0;
    return;
  }
  std::optional<int64_t> ran;
  w->SetCount(r["SecsPreSuspend"], &ran);
  // While it is suspended, the time since is not known from here.
  if (!ran || !start.at || job->state == JobState::kSuspended) return;
  const int64_t suspended = (*changed.at - *start.at) / kMicrosPerSecond - *ran;
  if (suspended >= 0) job->suspended_s = suspended;
}

void SetScontrolId(const ScontrolRecord& r, RecordWriter* w, JobRecord* job) {
  w->SetCount(r["JobId"], &job->raw_id);
  if (job->raw_id.value_or(0) <= 0) w->Fail("no_job_id", "JobId is no number");
  const std::string_view array = r["ArrayJobId"], task = r["ArrayTaskId"];
  const bool one = !task.empty() && task.find_first_not_of("0123456789") == std::string_view::npos;
  std::string shown = fmt::format("{}", job->raw_id.value_or(0));
  if (!array.empty() && !task.empty())
    shown = one ? fmt::format("{}_{}", array, task) : fmt::format("{}_[{}]", array, task);
  if (r.Has("HetJobId")) {
    w->SetCount(r["HetJobId"], &job->het_leader);
    shown = fmt::format("{}+{}", r["HetJobId"], r["HetJobOffset"]);
  }
  w->SetText(shown, &job->id);
}

void ReadScontrolJob(const ScontrolRecord& r, RecordWriter* w) {
  JobRecord job;
  const bool completion = r.Has("ProcCnt");
  job.source = completion ? JobSource::kJobCompletion : JobSource::kScontrol;
  if (r.too_long) w->Fail("record_too_long", "more fields than a record can have");
  if (!r.twice.empty()) {
    w->Fail("key_twice", fmt::format("{}= comes twice: a name or comment has it in its text, and "
                                     "where that ends is not known; use squeue --json",
                                     r.twice));
  }
  SetScontrolId(r, w, &job);
  w->SetText(r[completion ? "Name" : "JobName"], &job.name);
  const std::string_view user = r["UserId"];
  w->SetText(user.substr(0, user.rfind('(')), &job.user);
  w->SetText(r["Account"], &job.account);
  w->SetText(r["QOS"], &job.qos);
  w->SetText(r["Partition"], &job.partition);
  w->SetText(r["Cluster"], &job.cluster);
  const std::string_view wckey = r[completion ? "WcKey" : "WCKey"];
  w->SetText(wckey.starts_with('*') ? wckey.substr(1) : wckey, &job.wckey);
  w->SetText(r[completion ? "ReservationName" : "Reservation"], &job.reservation);
  w->SetText(r["Comment"], &job.comment, kMaxCommentBytes);
  w->SetState(r["JobState"], &job);
  // The completion plugin is called when an attempt ends: one that is pending then was requeued.
  if (completion && job.state == JobState::kPending) job.state = JobState::kRequeued;
  if (PhaseOf(job.state) == JobPhase::kEnded) w->SetExit(r["ExitCode"], &job);
  w->SetCount(r["Restarts"], &job.restarts);
  w->SetDuration(r["RunTime"], &job.elapsed_s);
  TimeDraft times;
  w->SetTime(r["SubmitTime"], &times.submit);
  w->SetTime(r["EligibleTime"], &times.eligible);
  w->SetTime(r["StartTime"], &times.start);
  w->SetTime(r["EndTime"], &times.end);
  SetScontrolSuspended(r, w, times.start, &job);
  const std::string_view tres = r[completion ? "Tres" : "TRES"];
  if (PhaseOf(job.state) == JobPhase::kWaiting || completion)  // jobcomp writes what was asked for
    w->SetTres(tres, &job.requested);
  else
    w->SetTres(tres, &job.allocated);
  if (r.Has("AllocTRES")) w->SetTres(r["AllocTRES"], &job.allocated);
  if (r.Has("ReqTRES")) w->SetTres(r["ReqTRES"], &job.requested);
  w->SetHosts(r["NodeList"], &job.nodes);
  if (!w->failed()) SetScontrolGres(r, w, &job);
  w->AddJob(std::move(job), times);
}

// 0 where it has none that can be read.
int64_t IdOfRecord(const ScontrolRecord& r) {
  const std::string_view text = r["JobId"];
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id > 0 ? id : 0;
}

Status ReadScontrolJobs(const ReadInput& input, const ReadOptions& options, Books* books) {
  RecordWriter writer(options, books);
  ReadScontrol(
      input.text, kJobKeys,
      [&](const ScontrolRecord& record) {
        writer.Begin(fmt::format("line {}", record.line));
        const size_t before = books->jobs.size();
        ReadScontrolJob(record, &writer);
        ListedJob& listed = books->listed.emplace_back();
        listed.place = writer.place();
        listed.raw_id = IdOfRecord(record);
        if (books->jobs.size() > before) listed.at = before;
      },
      [&](int line, std::string_view text) {
        CountLoss("stray_line", fmt::format("line {}", line),
                  fmt::format("'{}' belongs to no record", Printable(text, 60)), &books->refused);
      });
  RefuseTwice(books);
  return writer.fatal();
}

bool RecognisesScontrolJob(const ReadInput& input, const ReadOptions&) {
  return !input.is_json && BeginsWithKey(input.text, "JobId");
}

}  // namespace

const Reader kScontrolJobReader = {"scontrol jobs",
                                   "scontrol show job -d, also -o, jobcomp/filetxt",
                                   RecognisesScontrolJob, ReadScontrolJobs};

}  // namespace flopwatch::slurm
