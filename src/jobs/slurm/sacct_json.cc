// sacct --json and slurmrestd's /slurmdb/…/jobs: all attempts of a job, each a member of "jobs",
// with its steps inside (which are not read).
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/json_jobs.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

void SetJsonTres(const Json& list, RecordWriter* w, Tres* out) {
  StatusOr<Tres> tres = ParseTresJson(list);
  if (!tres.ok()) return w->Fail("bad_tres", tres.status());
  *out = *std::move(tres);
}

void ReadSacctJob(const Json& j, const Json&, RecordWriter* w) {
  JobRecord job;
  job.source = JobSource::kSacctJson;
  job.raw_id = JsonCount(j["job_id"]);
  const Json& array = j["array"];
  const Json& het = j["het"];
  if (job.raw_id.value_or(0) <= 0) {
    w->Fail("no_job_id", "job_id is no number");
  } else {
    const std::optional<int64_t> leader = JsonCount(het["job_id"]);
    if (leader.value_or(0) > 0) job.het_leader = leader;
    w->SetText(ShownId(*job.raw_id, JsonCount(array["job_id"]), JsonCount(array["task_id"]),
                       array["task"].text(), leader, JsonCount(het["job_offset"])),
               &job.id);
  }
  w->SetText(j["name"].text(), &job.name);
  w->SetText(j["user"].text(), &job.user);
  if (job.user.empty()) w->SetText(j["association"]["user"].text(), &job.user);
  w->SetText(j["account"].text(), &job.account);
  w->SetText(j["cluster"].text(), &job.cluster);
  w->SetText(j["partition"].text(), &job.partition);
  w->SetText(j["qos"].text(), &job.qos);
  w->SetText(JsonText(j["reservation"]), &job.reservation);
  const std::string wckey = JsonText(j["wckey"]);
  w->SetText(wckey.starts_with('*') ? wckey.substr(1) : wckey, &job.wckey);
  w->SetText(j["comment"]["job"].text(), &job.comment, kMaxCommentBytes);
  w->SetState(JsonWords(j["state"]["current"]), &job);
  SetJsonExit(j["exit_code"], &job);
  const Json& time = j["time"];
  job.elapsed_s = JsonCount(time["elapsed"]);
  job.suspended_s = JsonCount(time["suspended"]);
  job.restarts = JsonCount(j["restart_cnt"]);
  SetJsonTres(j["tres"]["allocated"], w, &job.allocated);
  SetJsonTres(j["tres"]["requested"], w, &job.requested);
  w->SetHosts(j["nodes"].text(), &job.nodes);
  w->AddJob(std::move(job), {JsonTime(time["submission"]), JsonTime(time["eligible"]),
                             JsonTime(time["start"]), JsonTime(time["end"])});
}

Status ReadSacctJson(const ReadInput& input, const ReadOptions& options, Books* books) {
  RecordWriter writer(options, books);
  return ForEachMember(input.json, "jobs", &writer, ReadSacctJob);
}

// An empty list says which by its plugin, where it says it: openapi/dbv0.0.38, accounting_storage.
bool RecognisesSacctJson(const ReadInput& input, const ReadOptions&) {
  const Json& jobs = input.json["jobs"];
  if (!jobs.is_array()) return false;
  if (jobs.array().empty()) {
    const Json& plugin = input.json["meta"]["plugin"];
    return plugin["type"].text().find("/dbv") != std::string::npos ||
           !plugin["accounting_storage"].is_null();
  }
  const Json& first = jobs.array().front();
  return first["time"].is_object() || first["tres"].is_object();
}

}  // namespace

const Reader kSacctJsonReader = {"sacct JSON", "sacct --json, slurmrestd slurmdb jobs",
                                 RecognisesSacctJson, ReadSacctJson};

}  // namespace flopwatch::slurm
