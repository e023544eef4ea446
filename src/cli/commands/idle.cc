// flopwatch idle: GPU time that jobs held and did not use, whose it is and since when; and a notice
// to send.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "base/json_read.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/idle.h"

namespace flopwatch::cli {
namespace {

struct IdleOptions {
  WindowOptions window;
  std::string state, user, job, notice;
  double min_hours = 0;
};

Status RunIdle(Context& context, const IdleOptions& o) {
  const std::string from = o.window.from.empty() && o.window.to.empty() ? "-1d" : o.window.from;
  QueryString query("/api/v1/idle");
  query.Add("from", from).Add("to", o.window.to).Add("state", o.state).Add("user", o.user);
  query.Add("job", o.notice.empty() ? o.job : o.notice);
  if (o.min_hours > 0)
    query.Add("min_gpu_seconds", fmt::format("{:.0f}", std::ceil(o.min_hours * 3600)));
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (!o.notice.empty()) {
    const std::string text = answer["notice"].text();
    if (text.empty()) {
      return NotFound(
          "idle: job {} held no GPU idle in this window; there is nothing to write to "
          "anybody. \"flopwatch idle\" lists the jobs that did",
          o.notice);
    }
    context.Out(text);
    return absl::OkStatus();
  }
  if (answer["rows_total"].integer_or(0) == 0 && context.for_people() && o.state.empty() &&
      o.user.empty() && o.job.empty() && o.min_hours <= 0) {
    context.Say(NothingIdle(answer));
    return absl::OkStatus();
  }
  const Table table = IdleTable(answer);
  if (answer["rows_total"].integer_or(0) > static_cast<int64_t>(table.rows.size()))
    context.SetExitCode(ExitCode::kPartial);
  return context.Write(table, kEvidence);
}

}  // namespace

Args AddIdle(Args app, Run* run) {
  Args sub = app.Command("idle", "GPU time that jobs hold and do not use: whose, since when, why");
  auto o = std::make_shared<IdleOptions>();
  sub.Option("--state STATE", o->state, "Only this state")
      .OneOf({"no_process", "no_work", "startup", "barrier", "hung", "after_last_output",
              "unused_gpu"});
  sub.Option("--user USER", o->user, "Only jobs of this user");
  const Arg job = sub.Option("--job JOB", o->job, "Only this job");
  sub.Option("--min-hours HOURS", o->min_hours, "Only rows of at least so many GPU-hours")
      .NotNegative();
  AddWindowOptions(sub, &o->window, "-1d");
  sub.Option("--notice JOB", o->notice, "Print a mail to whoever holds this job, instead")
      .Excludes(job);
  sub.Footer(
      "A row is a job's GPU time in one state. Pauses of healthy jobs, ordinary start-up and time "
      "without samples\nare not in it (docs/idle.md). Money needs prices in the configuration file "
      "(docs/usage.md).\n\n"
      "Examples:\n"
      "  flopwatch idle                                    the last day, most GPU time first\n"
      "  flopwatch idle --state hung --from -2h\n"
      "  flopwatch idle --min-hours 8 --from -7d -o csv > idle.csv\n"
      "  flopwatch idle --notice 2115078 | sendmail alice@example.org");
  *run = [o](Context& context) { return RunIdle(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
