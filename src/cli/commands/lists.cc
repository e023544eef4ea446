// flopwatch gpus, targets and sql: one question to the API, one table.

#include <memory>
#include <string>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/lists.h"

namespace flopwatch::cli {
namespace {

struct GpusOptions {
  PageOptions page{.sort = "node", .limit = 200};
  std::string node, job, model;
};

constexpr ShortName kGpuShortNames[] = {{"tensor", "tensor_active"},   {"duty", "gpu_util"},
                                        {"power", "power_w"},          {"memory", "fb_used_mib"},
                                        {"temperature", "gpu_temp_c"}, {"age", "age_s"}};

Status RunGpus(Context& context, const GpusOptions& o) {
  QueryString query("/api/v1/gpus");
  query.Add("node", o.node).Add("job", o.job).Add("model", o.model);
  o.page.AddTo(&query, kGpuShortNames);
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (answer["total"].integer_or(0) == 0 && context.for_people()) {
    context.Say(o.node.empty() && o.job.empty() && o.model.empty()
                    ? "No GPU has reported yet. \"flopwatch targets\" shows what the exporters say."
                    : "No GPU matches. \"flopwatch gpus\" lists all.");
    return absl::OkStatus();
  }
  return context.Write(GpusTable(answer), kWhyNoOfu);
}

struct TargetsOptions {
  std::string state, search;
  int limit = 200, offset = 0;
  bool fail = false;
};

Status RunTargets(Context& context, const TargetsOptions& o) {
  QueryString query("/api/v1/targets");
  query.Add("state", o.state).Add("q", o.search);
  query.Add("limit", std::to_string(o.limit))
      .Add("offset", o.offset > 0 ? std::to_string(o.offset) : "");
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (o.fail && answer["up"].integer_or(0) < answer["total"].integer_or(0))
    context.SetExitCode(ExitCode::kUnhealthy);
  if (answer["total"].integer_or(0) == 0 && context.for_people()) {
    context.Say(
        "No targets. \"flopwatch serve --target HOST:9400\" scrapes one; a stored fleet has none.");
    return absl::OkStatus();
  }
  return context.Write(TargetsTable(answer), kOfTargets);
}

struct SqlOptions {
  std::string query, file;
  int max_rows = 1000;
};

Status RunSql(Context& context, const SqlOptions& o) {
  std::string query = o.query;
  if (!o.file.empty() || query == "-") {
    FW_ASSIGN_OR_RETURN(query, ReadFile(o.file.empty() ? "-" : o.file, kMaxSqlBytes));
  }
  if (query.empty()) {
    return InvalidArgument(
        "sql: there is no query; write flopwatch sql \"SELECT …\", or \"SHOW TABLES\" for what "
        "there is");
  }
  std::string body;
  JsonWriter(&body).BeginObject().Field("query", query).Field("limit", o.max_rows).EndObject();
  FW_ASSIGN_OR_RETURN(const std::string text, context.ApiPost("/api/v1/sql", body));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(text));
  if (answer["truncated"].boolean()) context.SetExitCode(ExitCode::kPartial);
  return context.Write(SqlTable(answer));
}

}  // namespace

Args AddGpus(Args app, Run* run) {
  Args sub = app.Command("gpus", "What every GPU does now");
  auto o = std::make_shared<GpusOptions>();
  sub.Option("--node NAME", o->node, "GPUs of this node alone");
  sub.Option("--job ID", o->job, "GPUs of this job alone");
  sub.Option("--model NAME", o->model, "GPUs of this model alone, as reported");
  AddPageOptions(sub, &o->page, "GPUs",
                 "node, gpu, ofu, tensor, duty, power, memory, temperature or age; :asc and :desc "
                 "turn it round",
                 {"node", "gpu", "ofu", "tensor", "duty", "power", "memory", "temperature", "age"});
  sub.Footer(
      "Examples:\n"
      "  flopwatch gpus --node n042\n"
      "  flopwatch gpus --job 2115078 --sort ofu:asc    the slowest GPUs of a job\n"
      "  flopwatch gpus --limit 10000 -o csv > gpus.csv");
  *run = [o](Context& context) { return RunGpus(context, *o); };
  return sub;
}

Args AddTargets(Args app, Run* run) {
  Args sub = app.Command("targets",
                         "Exporters that are scraped, trouble first, and what was refused of them");
  auto o = std::make_shared<TargetsOptions>();
  sub.Option("--state STATE", o->state, "Targets in this state alone")
      .OneOf({"pending", "up", "down", "back_off"});
  sub.Option("--search TEXT", o->search, "Targets with this text in URL or node");
  sub.Option("--limit N", o->limit, "At most so many targets").Range(1, 10'000).ShowDefault();
  sub.Option("--offset N", o->offset, "Leave out the first so many").NotNegative();
  sub.Flag("--fail", o->fail, "Exit with 3 unless every target is up");
  sub.Footer(
      "Examples:\n"
      "  flopwatch targets\n"
      "  flopwatch targets --state down -o wide\n"
      "  flopwatch targets --fail -q >/dev/null || page-someone");
  *run = [o](Context& context) { return RunTargets(context, *o); };
  return sub;
}

Args AddSql(Args app, Run* run) {
  Args sub = app.Command("sql", "Read-only SQL on samples, rollups, jobs and GPUs");
  auto o = std::make_shared<SqlOptions>();
  sub.Option("query QUERY", o->query, "The query; - reads it from standard input");
  sub.Option("--file FILE", o->file, "Read the query from this file");
  sub.Option("--max-rows N", o->max_rows, "At most so many rows; a cut answer exits with 7")
      .Range(1, 100'000)
      .ShowDefault();
  sub.Footer(
      "Examples:\n"
      "  flopwatch sql \"SHOW TABLES\"\n"
      "  flopwatch sql \"DESCRIBE samples\"\n"
      "  flopwatch sql \"SELECT count(*) FROM samples\" -o csv\n"
      "  flopwatch sql --file weekly.sql --max-rows 100000 -o csv > weekly.csv");
  *run = [o](Context& context) { return RunSql(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
