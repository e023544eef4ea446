// flopwatch stragglers: GPUs that hold their synchronous jobs back, from counters alone.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/json_read.h"
#include "base/json_writer.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/stragglers.h"

namespace flopwatch::cli {
namespace {

struct StragglersOfFleet {
  WindowOptions window;
  std::string job;
  int limit = 1000;
  bool signs = false;
};

// The rows as a script reads them: the fields of the answer, evidence as a list.
void WriteRow(JsonWriter& json, const Json& row) {
  json.BeginObject();
  for (const std::string_view text : {"job", "gpu", "node", "kind"})
    json.TextField(text, row[text].text());
  json.Field("deficit", row["deficit"].number()).Field("confidence", row["confidence"].number());
  json.Key("evidence").BeginArray();
  for (const Json& e : row["evidence"].array()) {
    json.BeginObject().Field("measure", e["measure"].text()).Field("value", e["value"].number());
    json.Field("peers", e["peers"].number()).Field("text", e["text"].text()).EndObject();
  }
  json.EndArray().Field("seen_in_jobs", row["seen_in_jobs"].integer_or(0));
  json.Field("node_seen_in_jobs", row["node_seen_in_jobs"].integer_or(0));
  json.TextField("deficit_reason", row["deficit_reason"].text());
  json.TextField("seen_from", row["seen"]["from"].text());
  json.TextField("seen_to", row["seen"]["to"].text());
  json.TextField("user", row["user"].text()).TextField("workflow", row["workflow"].text());
  json.EndObject();
}

Status RunStragglersOfFleet(Context& context, const StragglersOfFleet& o) {
  QueryString query("/api/v1/stragglers");
  query.Add("from", o.window.from).Add("to", o.window.to).Add("job", o.job);
  query.Add("limit", std::to_string(o.limit));
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (o.signs) return context.Write(EarlySignsTable(answer));
  if (answer["rows_total"].integer_or(0) > static_cast<int64_t>(answer["rows"].array().size()))
    context.SetExitCode(ExitCode::kPartial);
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    std::string text;
    JsonWriter json(&text);
    json.BeginArray();
    for (const Json& row : answer["rows"].array()) WriteRow(json, row);
    json.EndArray();
    context.Out(text + "\n");
    return absl::OkStatus();
  }
  const Table table = StragglersTable(answer);
  if (table.rows.empty() && context.for_people()) {
    context.Say(fmt::format("{}: {}.",
                            answer["jobs_judged"].integer_or(0) > 0 ? "No GPU holds its job back"
                                                                    : "No job could be judged",
                            JudgedLine(answer)));
    return absl::OkStatus();
  }
  static constexpr BelowText kBelow[] = {kEvidence[0], {"deficit_reason", "no figure: "}};
  return context.Write(table, kBelow);
}

}  // namespace

Args AddStragglers(Args app, Run* run) {
  Args sub =
      app.Command("stragglers", "GPUs that hold their jobs back, by counters alone, and why");
  auto o = std::make_shared<StragglersOfFleet>();
  AddWindowOptions(sub, &o->window, "-1h");
  sub.Option("--job ID", o->job, "Stragglers of one job");
  sub.Option("--limit N", o->limit, "At most so many").Range(1, 10'000).ShowDefault();
  sub.Flag(
      "--signs", o->signs,
      "Instead: GPUs that are not named and whose PCIe or NVLink transfers had to be repeated");
  sub.Footer(
      "OFU is the same on every rank of a synchronous job, so it cannot name the GPU that the "
      "others "
      "wait for;\nclock, tensor activity, power and links beside those of its peers can "
      "(docs/stragglers.md).\n\"flopwatch trace stragglers\" reads profiler traces instead: fewer "
      "jobs, and every collective.\n\n"
      "Examples:\n"
      "  flopwatch stragglers                              the last hour\n"
      "  flopwatch stragglers --from -1d --job 2115078\n"
      "  flopwatch stragglers -o json | jq -r '.[] | [.node, .gpu, .kind, .deficit] | @tsv'");
  *run = [o](Context& context) { return RunStragglersOfFleet(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
