// squeue --json, scontrol show job --json and slurmrestd's /slurm/…/jobs: what the controller knows
// now, with the GPUs' indices while a job runs (gres_detail).
#include <algorithm>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/json_jobs.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

// gres_detail has one text a node, in the order of the node list; empty once the job has ended.
void SetGresDetail(const Json& detail, RecordWriter* w, JobRecord* job) {
  const Json::Array& texts = detail.array();
  if (texts.empty() || w->failed()) return;
  if (texts.size() != job->nodes.size()) {
    w->Note("gres_detail_without_nodes",
            fmt::format("{} texts of resources for {} nodes: which is whose is not known",
                        texts.size(), job->nodes.size()));
    return;
  }
  for (size_t k = 0; k < texts.size(); ++k) {
    std::vector<Gres> gres;
    w->SetGres(texts[k].text(), &gres);
    NodeGpus on{job->nodes[k], GpuIndices(gres), GpuCount(gres)};
    if (!on.gpus.empty() || on.count.value_or(0) > 0) job->node_gpus.push_back(std::move(on));
  }
}

// suspend_time is when the job was last suspended or resumed, and pre_sus_time how long it had run
// by then (job_info.h); the rest until then it was suspended.
void SetSuspended(const Json& j, JobRecord* job, std::optional<Micros> start) {
  const std::optional<Micros> changed = TimeOfSeconds(JsonCount(j["suspend_time"]));
  if (!changed) {
    if (!j["suspend_time"].is_null()) job->suspended_s = 0;
    return;
  }
  const std::optional<int64_t> ran = JsonCount(j["pre_sus_time"]);
  if (!ran || !start || *changed < *start) return;
  int64_t suspended = (*changed - *start) / kMicrosPerSecond - *ran;
  if (suspended < 0) return;
  if (job->state == JobState::kSuspended) {
    if (!job->as_of || *job->as_of < *changed) return;
    suspended += (*job->as_of - *changed) / kMicrosPerSecond;
  }
  job->suspended_s = suspended;
}

void ReadSqueueJob(const Json& j, const Json& document, RecordWriter* w) {
  JobRecord job;
  job.source = JobSource::kSqueueJson;
  job.raw_id = JsonCount(j["job_id"]);
  if (job.raw_id.value_or(0) <= 0) {
    w->Fail("no_job_id", "job_id is no number");
  } else {
    const std::optional<int64_t> leader = JsonCount(j["het_job_id"]);
    if (leader.value_or(0) > 0) job.het_leader = leader;
    std::string tasks = j["array_task_string"].text();
    tasks.resize(std::min(tasks.size(), kMaxNameBytes / 2));
    w->SetText(ShownId(*job.raw_id, JsonCount(j["array_job_id"]), JsonCount(j["array_task_id"]),
                       tasks, leader, JsonCount(j["het_job_offset"])),
               &job.id);
  }
  w->SetText(j["name"].text(), &job.name);
  w->SetText(j["user_name"].text(), &job.user);
  w->SetText(j["account"].text(), &job.account);
  w->SetText(j["cluster"].text(), &job.cluster);
  w->SetText(j["partition"].text(), &job.partition);
  w->SetText(j["qos"].text(), &job.qos);
  w->SetText(j["resv_name"].text(), &job.reservation);
  const std::string wckey = j["wckey"].text();
  w->SetText(wckey.starts_with('*') ? wckey.substr(1) : wckey, &job.wckey);
  w->SetText(j["comment"].text(), &job.comment, kMaxCommentBytes);
  w->SetState(JsonWords(j["job_state"]), &job);
  if (PhaseOf(job.state) == JobPhase::kEnded) SetJsonExit(j["exit_code"], &job);
  job.restarts = JsonCount(j["restart_cnt"]);
  job.as_of = TimeOfSeconds(JsonCount(document["last_update"]));
  const TimeReading start = JsonTime(j["start_time"]);
  SetSuspended(j, &job, start.at);
  w->SetTres(j["tres_alloc_str"].text(), &job.allocated);
  w->SetTres(j["tres_req_str"].text(), &job.requested);
  w->SetHosts(j["nodes"].text(), &job.nodes);
  SetGresDetail(j["gres_detail"], w, &job);
  w->AddJob(std::move(job), {JsonTime(j["submit_time"]), JsonTime(j["eligible_time"]), start,
                             JsonTime(j["end_time"])});
}

Status ReadSqueueJson(const ReadInput& input, const ReadOptions& options, Books* books) {
  RecordWriter writer(options, books);
  return ForEachMember(input.json, "jobs", &writer, ReadSqueueJob);
}

bool RecognisesSqueueJson(const ReadInput& input, const ReadOptions&) {
  const Json& jobs = input.json["jobs"];
  return jobs.is_array() && (jobs.array().empty() || !jobs.array().front()["job_state"].is_null());
}

}  // namespace

const Reader kSqueueJsonReader = {"squeue JSON",
                                  "squeue --json, scontrol show job --json, slurmrestd jobs",
                                  RecognisesSqueueJson, ReadSqueueJson};

}  // namespace flopwatch::slurm
