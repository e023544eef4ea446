// flopwatch jobs: the jobs of a window, ranked; flopwatch job ID: one of them on a card.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_replace.h"
#include "cli/commands/commands.h"
#include "cli/commands/query_string.h"
#include "cli/json.h"
#include "cli/views/job_card.h"
#include "cli/views/lists.h"

namespace flopwatch::cli {
namespace {

struct JobsOptions {
  std::string from, to, user, workflow, search, sort = "gpu_seconds";
  int limit = 50, offset = 0;
  bool running = false, exact = false;
};

// Short names people type, next to the field names themselves.
std::string SortField(const std::string& name) {
  if (name == "lost") return "lost_gpu_seconds";
  if (name == "time") return "gpu_seconds";
  if (name == "duty") return "gpu_util";
  if (name == "power") return "power_w";
  return name;
}

Status RunJobs(Context& context, const JobsOptions& o) {
  std::string sort = o.sort, order;
  if (sort.starts_with('-')) sort.erase(0, 1), order = "desc";
  if (sort.ends_with(":asc")) sort.resize(sort.size() - 4), order = "asc";
  if (sort.ends_with(":desc")) sort.resize(sort.size() - 5), order = "desc";
  QueryString query("/api/v1/jobs");
  query.Add("from", o.from).Add("to", o.to).Add("user", o.user).Add("workflow", o.workflow).Add("q", o.search);
  query.Add("sort", SortField(sort)).Add("order", order);
  query.Add("limit", std::to_string(o.limit)).Add("offset", o.offset > 0 ? std::to_string(o.offset) : "");
  query.Add("running", o.running ? "true" : "").Add("exact", o.exact ? "true" : "");
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  Table table = JobsTable(answer);
  if (table.rows.empty() && context.for_people()) {
    context.Say(table.notes.empty() ? "no jobs" : table.notes[0]);
    context.Say("No job used a GPU in this window. Jobs come from hpc_job or pod labels on the metrics, or from jobs.static_file.");
    return absl::OkStatus();
  }
  return context.Write(table);
}

struct JobOptions {
  std::string job, from, to, step;
  int gpus = 8;
  bool exact = false;
};

Status RunJob(Context& context, const JobOptions& o) {
  QueryString query("/api/v1/jobs/" + net::PercentEncode(o.job));
  query.Add("from", o.from).Add("to", o.to).Add("step", o.step).Add("exact", o.exact ? "true" : "");
  auto body = context.ApiGet(query.text());
  if (absl::IsNotFound(body.status())) {
    // The API points to its own paths; here the command is at hand.
    return absl::NotFoundError(absl::StrReplaceAll(body.status().message(), {{"/api/v1/jobs lists", "\"flopwatch jobs\" lists"}}));
  }
  FW_RETURN_IF_ERROR(body.status());
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(*body));
  if (context.for_people()) {
    JobCardOptions card;
    card.view.color = context.color();
    card.view.ascii = context.ascii();
    card.view.width = context.width() > 0 ? context.width() : 100;
    card.max_gpus = o.gpus == 0 ? SIZE_MAX : static_cast<size_t>(o.gpus);
    context.Out(JobCard(answer, card));
    return absl::OkStatus();
  }
  return context.Write(JobGpusTable(answer));
}

}  // namespace

CLI::App* AddJobs(CLI::App& app, Run* run) {
  CLI::App* sub = app.add_subcommand("jobs", "Jobs of a window, ranked by GPU-hours, OFU or hours lost");
  auto o = std::make_shared<JobsOptions>();
  sub->add_option("--from", o->from, "Start of the window: -1h, 2026-11-20, RFC 3339 (default -1h)")->type_name("TIME");
  sub->add_option("--to", o->to, "End of the window (default now)")->type_name("TIME");
  sub->add_option("--user", o->user, "Jobs of this user alone")->type_name("NAME");
  sub->add_option("--workflow", o->workflow, "Jobs of this workflow alone")->type_name("NAME");
  sub->add_option("--search", o->search, "Jobs with this text in id, name, user or workflow")->type_name("TEXT");
  sub->add_flag("--running", o->running, "Jobs that run now alone");
  sub->add_option("--sort", o->sort,
                  "gpu_seconds, ofu, lost (hours), coverage, duty, power, gpus, job or user; largest first, :asc turns it round")
      ->type_name("FIELD")
      ->capture_default_str();
  sub->add_option("--limit", o->limit, "At most so many jobs")->type_name("N")->check(CLI::Range(1, 10'000))->capture_default_str();
  sub->add_option("--offset", o->offset, "Leave out the first so many")->type_name("N")->check(CLI::NonNegativeNumber);
  sub->add_flag("--exact", o->exact, "Join every sample with the interval table, for jobs named late; reads raw samples");
  sub->footer(
      "Examples:\n"
      "  flopwatch jobs --sort lost                     who loses most, in the last hour\n"
      "  flopwatch jobs --sort ofu:asc --running        the worst of those that run\n"
      "  flopwatch jobs --user alice --from -7d\n"
      "  flopwatch jobs --from -1d --json job,ofu,lost_gpu_seconds");
  *run = [o](Context& context) { return RunJobs(context, *o); };
  return sub;
}

CLI::App* AddJob(CLI::App& app, Run* run) {
  CLI::App* sub = app.add_subcommand("job", "One job on a card: OFU, where its GPU-hours went, its GPUs, what to do");
  auto o = std::make_shared<JobOptions>();
  sub->add_option("job", o->job, "Job id, or namespace/pod")->required()->type_name("ID");
  sub->add_option("--from", o->from, "Start of the window (default -1h)")->type_name("TIME");
  sub->add_option("--to", o->to, "End of the window (default now)")->type_name("TIME");
  sub->add_option("--step", o->step, "Step of the series: 1m, 10m, 1h")->type_name("DURATION");
  sub->add_option("--gpus", o->gpus, "Lines of single GPUs on the card, lowest OFU first; 0 = all")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_flag("--exact", o->exact, "Join every sample with the interval table; reads raw samples");
  sub->footer(
      "Examples:\n"
      "  flopwatch job 2115078\n"
      "  flopwatch job team-a/train-0 --from -1d\n"
      "  flopwatch job 2115078 -o csv > gpus.csv        one row a GPU\n"
      "  flopwatch job 2115078 -o table | mail -s \"your job\" alice");
  *run = [o](Context& context) { return RunJob(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
