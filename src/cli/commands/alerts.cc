// flopwatch alerts: what needs somebody, the rules, silences, and what the rules say of the past.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/commands/site_rules.h"
#include "cli/views/style.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

struct AlertsOptions {
  bool all = false, pending = false, quantities = false;
  std::string rule, job, node, test, rules_file;
  WindowOptions window;
  std::vector<std::string> matchers;
  int64_t every_s = 15;
  std::string length, until, owner, comment, weekly, silence;
};

std::string Joined(const Json& list, std::string_view many) {
  const Json::Array& all = list.array();
  if (all.size() == 1) return all[0].text();
  return all.empty() ? "" : fmt::format("{} {}", all.size(), many);
}

Cell MomentOf(const Json& text) {
  const auto time = TimeOf(text.text());
  return time.has_value() ? Cell(*time) : Cell();
}
Cell TextOrNone(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

Table AlertTable(const Json& alerts) {
  Table table;
  table.columns = {{"severity"},
                   {"state"},
                   {"since", "", ColumnFormat::kTime},
                   {"until", "", ColumnFormat::kTime},
                   {"rule"},
                   {"job"},
                   {"nodes"},
                   {"gpus"},
                   {"summary"},
                   {"told"},
                   {"id"}};
  for (const Json& a : alerts.array()) {
    const Json& subject = a["subject"];
    const std::string silenced = a["silenced_by"].text(), inhibited = a["inhibited_by"].text();
    const std::string told = !silenced.empty()    ? "silenced by " + silenced
                             : !inhibited.empty() ? "behind " + inhibited
                                                  : "yes";
    table.rows.push_back(
        {a["severity"].text(), a["state"].text(), MomentOf(a["since"]), MomentOf(a["until"]),
         a["rule"].text(), TextOrNone(Joined(subject["jobs"], "jobs")),
         TextOrNone(Joined(subject["nodes"], "nodes")), TextOrNone(Joined(subject["gpus"], "GPUs")),
         a["summary"].text(), told, a["id"].text()});
  }
  return table;
}

// For people: a line of what, and below it what to do.
std::string AlertLines(const Json& alerts) {
  std::string out;
  for (const Json& a : alerts.array()) {
    const std::string silenced = a["silenced_by"].text(), inhibited = a["inhibited_by"].text();
    out +=
        fmt::format("{:<7} {:<8} since {}{}\n", a["severity"].text(), a["state"].text(),
                    a["since"].text(), a["until"].is_null() ? "" : ", until " + a["until"].text());
    out += "  " + a["summary"].text() + "\n";
    if (a["state"].text() == "firing" && !a["action"].is_null())
      out += Wrap(a["action"].text(), 96, "    ", "    ");
    for (const Json& mark : a["marks"].array())
      out += Wrap(fmt::format("{} by {} at {}: {}", mark["did"].text(), mark["by"].text(),
                              mark["ts"].text(), mark["text"].text()),
                  96, "    ", "    ");
    std::string last = a["rule"].text() + ", " + a["id"].text();
    if (!a["owner"].is_null()) last += ", for the " + a["owner"].text();
    if (!silenced.empty()) last += ", silenced by " + silenced;
    if (!inhibited.empty()) last += ", not told: it is behind " + inhibited;
    if (!a["ended"].is_null()) last += ", ended: " + a["ended"].text();
    out += "    (" + last + ")\n";
  }
  return out;
}

// A JSON array for scripts, lines for people, a table for the rest.
Status WriteAlerts(Context& context, const std::string& body, const Json& answer,
                   std::string_view none) {
  const Json& alerts = answer["alerts"];
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    // As it stands in the answer, so that numbers keep every digit.
    const size_t begin = body.find("\"alerts\":[");
    const size_t end = body.rfind(answer["engine"].is_null() ? "]}" : "],\"engine\":");
    if (begin == std::string::npos || end == std::string::npos)
      return DataLoss("the answer has no alerts");
    context.Out(body.substr(begin + 9, end - begin - 8) + "\n");
    return absl::OkStatus();
  }
  if (!context.for_people() || context.picks_columns()) return context.Write(AlertTable(alerts));
  if (alerts.array().empty()) {
    context.Say(none);
  } else {
    context.Out(AlertLines(alerts));
  }
  return absl::OkStatus();
}

Status List(Context& context, const AlertsOptions& o) {
  QueryString query("/api/v1/alerts");
  query.Add("state", o.pending ? "pending"
                     : o.all   ? "all"
                               : "open")
      .Add("rule", o.rule)
      .Add("job", o.job);
  query.Add("node", o.node);
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  for (const Json& r : answer["engine"]["receivers"].array()) {
    if (!r["last_error"].is_null())
      context.Say(fmt::format("receiver {}: {} ({} wait)", r["name"].text(), r["last_error"].text(),
                              r["queued"].integer_or(0)));
  }
  return WriteAlerts(
      context, body, answer,
      fmt::format("nothing {}; {} rounds, the last at {}", o.pending ? "waits to fire" : "fires",
                  answer["engine"]["rounds"].integer_or(0), answer["engine"]["last_round"].text()));
}

Status Rules(Context& context, const AlertsOptions& o) {
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet("/api/v1/alerts/rules"));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  Table table;
  if (o.quantities) {
    table.columns = {{"scope"}, {"name"}, {"unit"}, {"help"}};
    for (const Json& q : answer["quantities"].array())
      table.rows.push_back(
          {q["scope"].text(), q["name"].text(), q["unit"].text(), q["help"].text()});
    return context.Write(table);
  }
  table.columns = {{"rule"},  {"on"},  {"severity"}, {"for_s", "for", ColumnFormat::kSeconds},
                   {"owner"}, {"when"}};
  for (const Json& r : answer["rules"].array()) {
    std::string when = r["when"].text();
    if (!r["while"].is_null()) when += ", while " + r["while"].text();
    table.rows.push_back({r["rule"].text(), r["enabled"].boolean(), r["severity"].text(),
                          r["for_s"].number_or(0), r["owner"].text(), std::move(when)});
  }
  return context.Write(table);
}

Status Test(Context& context, const AlertsOptions& o) {
  if (!o.rules_file.empty()) context.SetFlag("alerts.rules_file", {o.rules_file}, "--alert-rules");
  FW_ASSIGN_OR_RETURN(const std::string file, context.Config("alerts.rules_file"));
  std::string rules;
  if (!file.empty()) {
    FW_RETURN_IF_ERROR(SiteRules(context).status());  // its errors name the file
    FW_ASSIGN_OR_RETURN(rules, ReadFile(file, 1 << 20));
  }
  std::string request;
  JsonWriter(&request).BeginObject().Field("rules", rules).EndObject();
  QueryString query("/api/v1/alerts/replay");
  query.Add("from", o.window.from.empty() ? "-1d" : o.window.from).Add("to", o.window.to);
  if (o.test != "all") query.Add("rule", o.test);
  query.Add("every_s", std::to_string(o.every_s));
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiPost(query.text(), request));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  context.Say(fmt::format("{} to {}: {} rows in {} rounds, {} alerts", answer["from"].text(),
                          answer["to"].text(), answer["rows"].integer_or(0),
                          answer["rounds"].integer_or(0), answer["alerts"].array().size()));
  return WriteAlerts(context, body, answer, "nothing would have fired");
}

Status Silence(Context& context, const AlertsOptions& o) {
  std::string request;
  JsonWriter json(&request);
  json.BeginObject().Key("matchers").BeginArray();
  for (const std::string& matcher : o.matchers) json.Value(matcher);
  json.EndArray().Field("owner", o.owner).Field("comment", o.comment).Field("weekly", o.weekly);
  json.Field("for", o.until.empty() && o.length.empty() ? "2h" : o.length).Field("until", o.until);
  json.EndObject();
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiPost("/api/v1/silences", request));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  context.Say(fmt::format("silence {} until {}; `flopwatch alerts unsilence {}` ends it",
                          answer["id"].text(), answer["until"].text(), answer["id"].text()));
  return absl::OkStatus();
}

Status WriteSilences(Context& context, const std::string& body) {
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  Table table;
  table.columns = {{"id"},
                   {"matchers"},
                   {"from", "", ColumnFormat::kTime},
                   {"until", "", ColumnFormat::kTime},
                   {"weekly"},
                   {"owner"},
                   {"comment"}};
  for (const Json& s : answer["silences"].array()) {
    std::string matchers;
    for (const Json& m : s["matchers"].array())
      matchers += (matchers.empty() ? "" : " ") + m.text();
    table.rows.push_back({s["id"].text(), matchers, MomentOf(s["from"]), MomentOf(s["until"]),
                          TextOrNone(s["weekly"].text()), s["owner"].text(),
                          TextOrNone(s["comment"].text())});
  }
  return context.Write(table);
}

}  // namespace

Args AddAlerts(Args app, Run* run) {
  Args alerts = app.Command("alerts", "What needs somebody now, why, and what to do");
  auto o = std::make_shared<AlertsOptions>();
  const auto all = alerts.Flag("--all", o->all, "Those that were resolved as well");
  alerts.Flag("--pending", o->pending, "Those whose condition holds and that do not fire yet")
      .Excludes(all);
  alerts.Option("--rule RULE", o->rule, "Only of this rule");
  alerts.Option("--job JOB", o->job, "Only of this job");
  alerts.Option("--node NODE", o->node, "Only of this node");
  alerts.Footer(
      "Examples:\n"
      "  flopwatch alerts                                     what fires\n"
      "  flopwatch alerts --all --job 4711 -o json            also what was resolved, for scripts\n"
      "  flopwatch alerts test all --from -1d                 what the rules say of the last day\n"
      "  flopwatch alerts silence job=4711 --for 4h --owner ann --comment 'waits for data'\n"
      "Rules, receivers and what recovery services read: docs/alerts.md.");
  Args rules = alerts.Command("rules", "The rules that are on, and what they may name");
  rules.Flag("--quantities", o->quantities, "What a rule's condition may name, instead");
  Args test = alerts.Command("test", "The rules over what is stored: what would have fired");
  test.Option("RULE", o->test, "A rule's name, or all").Required();
  test.Option("--alert-rules FILE", o->rules_file, "With the rules of this TOML file");
  test.Option("--every SECONDS", o->every_s, "Seconds between two rounds (default 15)")
      .Range(1, 3600);
  AddWindowOptions(test, &o->window, "-1d");
  Args silence = alerts.Command("silence", "Nobody is told of some alerts for a while");
  silence.Option("MATCH", o->matchers, "LABEL=PATTERN or LABEL!=PATTERN; * is any text").Required();
  silence.Option("--for DURATION", o->length, "So long (default 2h)");
  silence.Option("--until TIME", o->until, "Until then, instead");
  silence.Option("--weekly TIMES", o->weekly, "Only then: 'Sat 22:00-Sun 06:00', UTC");
  silence.Option("--owner NAME", o->owner, "Who is asked about it").Required();
  silence.Option("--comment TEXT", o->comment, "Why");
  Args silences = alerts.Command("silences", "The silences that there are");
  Args unsilence = alerts.Command("unsilence", "End a silence");
  unsilence.Option("ID", o->silence, "Its id").Required();
  *run = [o, rules, test, silence, silences, unsilence](Context& context) -> Status {
    if (rules.parsed()) return Rules(context, *o);
    if (test.parsed()) return Test(context, *o);
    if (silence.parsed()) return Silence(context, *o);
    if (silences.parsed()) {
      FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet("/api/v1/silences"));
      return WriteSilences(context, body);
    }
    if (unsilence.parsed()) {
      FW_ASSIGN_OR_RETURN(
          const std::string body,
          context.ApiPost("/api/v1/silences/" + net::PercentEncode(o->silence) + "/end", "{}"));
      return WriteSilences(context, body);
    }
    return List(context, *o);
  };
  return alerts;
}

}  // namespace flopwatch::cli
