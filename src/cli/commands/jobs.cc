// flopwatch jobs: the jobs of a window, ranked; flopwatch job ID: one of them on a card.

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "base/json_read.h"
#include "cli/api_client.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/job_card.h"
#include "cli/views/lists.h"

namespace flopwatch::cli {
namespace {

struct JobsOptions {
  WindowOptions window;
  PageOptions page{.sort = "gpu_seconds", .limit = 50};
  std::string user, workflow, search, cluster, partition, model, account;
  bool running = false, exact = false;
};

constexpr ShortName kShortNames[] = {{"lost", "lost_gpu_seconds"},
                                     {"time", "gpu_seconds"},
                                     {"duty", "gpu_util"},
                                     {"power", "power_w"}};

Status RunJobs(Context& context, const JobsOptions& o) {
  QueryString query("/api/v1/jobs");
  query.Add("from", o.window.from)
      .Add("to", o.window.to)
      .Add("user", o.user)
      .Add("workflow", o.workflow)
      .Add("q", o.search);
  query.Add("cluster", o.cluster).Add("partition", o.partition).Add("model", o.model);
  query.Add("account", o.account);
  o.page.AddTo(&query, kShortNames);
  query.Add("running", o.running ? "true" : "").Add("exact", o.exact ? "true" : "");
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  Table table = JobsTable(answer);
  if (table.rows.empty() && context.for_people()) {
    context.Say(table.notes.empty() ? "no jobs" : table.notes[0]);
    context.Say(
        "No job used a GPU in this window. Jobs come from hpc_job or pod labels on the metrics, or "
        "from jobs.static_file.");
    return absl::OkStatus();
  }
  return context.Write(table, kWhyNoOfu);
}

struct JobOptions {
  WindowOptions window;
  std::string job, step;
  int gpus = 8;
  bool exact = false;
};

Status RunJob(Context& context, const JobOptions& o) {
  QueryString query("/api/v1/jobs/" + net::PercentEncode(o.job));
  query.Add("from", o.window.from)
      .Add("to", o.window.to)
      .Add("step", o.step)
      .Add("exact", o.exact ? "true" : "");
  auto body = context.ApiGet(query.text());
  if (absl::IsNotFound(body.status()) &&
      absl::StrContains(body.status().message(), "/application")) {
    // Nothing but what it reports is known of it.
    FW_ASSIGN_OR_RETURN(
        const std::string said,
        context.ApiGet("/api/v1/jobs/" + net::PercentEncode(o.job) + "/application"));
    FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(said));
    if (!context.for_people()) return context.Write(ApplicationTable(answer));
    context.Out(ApplicationCard(answer, context.view()));
    return absl::OkStatus();
  }
  FW_RETURN_IF_ERROR(ForCommandLine(body.status()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(*body));
  if (context.for_people()) {
    JobCardOptions card;
    card.view = context.view();
    card.whole_life = o.window.from.empty() && o.window.to.empty();
    card.max_gpus = o.gpus == 0 ? SIZE_MAX : static_cast<size_t>(o.gpus);
    context.Out(JobCard(answer, card));
    return absl::OkStatus();
  }
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    context.Out(JobDocument(answer));
    return absl::OkStatus();
  }
  return context.Write(JobGpusTable(answer), kWhyNoOfu);
}

}  // namespace

Args AddJobs(Args app, Run* run) {
  Args sub = app.Command("jobs", "Jobs of a window, ranked by GPU-hours, OFU or hours lost");
  auto o = std::make_shared<JobsOptions>();
  AddWindowOptions(sub, &o->window, "-1h");
  sub.Option("--user NAME", o->user, "Jobs of this user alone");
  sub.Option("--workflow NAME", o->workflow, "Jobs of this workflow alone");
  sub.Option("--cluster NAME", o->cluster, "Jobs that held GPUs of this cluster's hosts");
  sub.Option("--partition NAME", o->partition, "Jobs that held GPUs of this partition's hosts");
  sub.Option("--model NAME", o->model, "Jobs that held GPUs of hosts of this model");
  sub.Option("--account NAME", o->account, "Jobs of this account, as the scheduler names it");
  sub.Option("--search TEXT", o->search, "Jobs with this text in id, name, user or workflow");
  sub.Flag("--running", o->running, "Jobs that run now alone");
  AddPageOptions(
      sub, &o->page, "jobs",
      "gpu_seconds, ofu, lost (hours), coverage, duty, power, gpus, job, user, or a loss "
      "of \"flopwatch sankey\": unmeasured, allocated_idle, sm_idle, tensor_idle, "
      "below_full_clock; largest first, :asc turns it round",
      {"gpu_seconds", "ofu", "lost", "coverage", "duty", "power", "gpus", "job", "user",
       "unmeasured", "allocated_idle", "sm_idle", "tensor_idle", "below_full_clock"});
  sub.Flag("--exact", o->exact,
           "Join every sample with the interval table, for jobs named late; reads raw samples");
  sub.Footer(
      "Examples:\n"
      "  flopwatch jobs --sort lost                     who loses most, in the last hour\n"
      "  flopwatch jobs --sort ofu:asc --running        the worst of those that run\n"
      "  flopwatch jobs --user alice --from -7d\n"
      "  flopwatch jobs --from -1d --json job,ofu,lost_gpu_seconds");
  *run = [o](Context& context) { return RunJobs(context, *o); };
  return sub;
}

Args AddJob(Args app, Run* run) {
  Args sub =
      app.Command("job", "One job on a card: OFU, where its GPU-hours went, its GPUs, what to do");
  auto o = std::make_shared<JobOptions>();
  sub.Option("job ID", o->job, "Job id, or namespace/pod").Required();
  AddWindowOptions(sub, &o->window, "an hour before the end; without either, the job's life");
  sub.Option("--step DURATION", o->step, "Step of the series: 1m, 10m, 1h");
  sub.Option("--gpus N", o->gpus, "Lines of single GPUs on the card, lowest OFU first; 0 = all")
      .NotNegative()
      .ShowDefault();
  sub.Flag("--exact", o->exact, "Join every sample with the interval table; reads raw samples");
  sub.Footer(
      "Examples:\n"
      "  flopwatch job 2115078\n"
      "  flopwatch job team-a/train-0 --from -1d\n"
      "  flopwatch job 2115078 -o csv > gpus.csv        one row a GPU\n"
      "  flopwatch job 2115078 -o json                  job, usage, notes, mfu and gpus, one "
      "object\n"
      "  flopwatch job 2115078 -o table | mail -s \"your job\" alice");
  *run = [o](Context& context) { return RunJob(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
