// flopwatch usage: allocated GPU time, its efficiency and what it cost, by user, workflow and so
// on; a month of it is the chargeback.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string>

#include "base/json_read.h"
#include "base/text.h"
#include "base/time_zone.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/lists.h"

namespace flopwatch::cli {
namespace {

struct UsageOptions {
  WindowOptions window;
  std::string by, month, time_zone, step, compare;
  bool exact = false;
};

// The first day of "2026-11"; nullopt where the text is no month.
std::optional<absl::CivilMonth> MonthOf(std::string_view text) {
  int year = 0, month = 0;
  if (text.size() != 7 || text[4] != '-' ||
      text.find_first_not_of("0123456789-") != std::string_view::npos)
    return std::nullopt;
  std::from_chars(text.data(), text.data() + 4, year);
  std::from_chars(text.data() + 5, text.data() + 7, month);
  if (year < 1970 || month < 1 || month > 12) return std::nullopt;
  return absl::CivilMonth(year, month);
}

// When the month begins by the site's clock, which in some zones skips that midnight.
StatusOr<Micros> BeginOf(absl::CivilMonth month, const TimeZone& zone) {
  const absl::CivilSecond midnight(month);
  StatusOr<TimeReading> reading = zone.Read(midnight);
  if (!reading.ok()) reading = zone.Read(midnight + 3600);
  FW_RETURN_IF_ERROR(reading.status());
  return *reading->at;
}

Status SetMonth(const UsageOptions& o, const std::string& site_zone, WindowOptions* window) {
  if (!o.window.from.empty() || !o.window.to.empty()) {
    return InvalidArgument(
        "usage: --month is a window of its own; leave out --from and --to, or the month");
  }
  const auto zone = TimeZone::Load(site_zone.empty() ? "UTC" : site_zone);
  if (!zone.ok())
    return InvalidArgument("{}: {}", o.time_zone.empty() ? "server.time_zone" : "--time-zone",
                           MessageOf(zone.status()));
  const absl::CivilMonth month = *MonthOf(o.month);
  FW_ASSIGN_OR_RETURN(const Micros from, BeginOf(month, *zone));
  FW_ASSIGN_OR_RETURN(const Micros to, BeginOf(month + 1, *zone));
  *window = {FormatTime(from), FormatTime(to)};
  return absl::OkStatus();
}

// Where the window to compare with begins.
StatusOr<std::string> CompareFrom(const std::string& text, const WindowOptions& window) {
  if (text != "previous") return text;
  const Micros now = Now();
  FW_ASSIGN_OR_RETURN(const Micros to, window.to.empty() ? now : ParseTime(window.to, now));
  FW_ASSIGN_OR_RETURN(const Micros from, ParseTime(window.from, now));
  return FormatTime(from - (to - from));
}

Status RunUsage(Context& context, const UsageOptions& o) {
  WindowOptions window = o.window;
  if (!o.month.empty()) {
    std::string zone = o.time_zone;
    if (zone.empty()) {
      FW_ASSIGN_OR_RETURN(zone, context.Config("server.time_zone"));
    }
    FW_RETURN_IF_ERROR(SetMonth(o, zone, &window));
  } else if (!o.time_zone.empty()) {
    return InvalidArgument("usage: --time-zone says where a --month begins and ends");
  } else if (window.from.empty()) {
    window.from = window.to.empty() ? "-1d" : "";
  }
  QueryString query("/api/v1/usage");
  query.Add("by", o.by).Add("from", window.from).Add("to", window.to);
  query.Add("exact", o.exact ? "true" : "").Add("step", o.step);
  if (!o.compare.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string from, CompareFrom(o.compare, window));
    query.Add("compare_from", from);
  }
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (answer["rows_total"].integer_or(0) == 0 && context.for_people()) {
    context.Say("No job held a GPU in this window. \"flopwatch sankey\" shows what the GPUs did.");
    return absl::OkStatus();
  }
  const Table table = !o.step.empty()      ? UsageStepsTable(answer)
                      : !o.compare.empty() ? UsageComparedTable(answer)
                                           : UsageByTable(answer);
  if (answer["rows_total"].integer_or(0) > static_cast<int64_t>(table.rows.size()))
    context.SetExitCode(ExitCode::kPartial);
  return context.Write(table, kWhyNoOfu);
}

}  // namespace

Args AddUsage(Args app, Run* run) {
  Args sub = app.Command("usage", "GPU time, efficiency and cost by user, account, node and so on");
  auto o = std::make_shared<UsageOptions>();
  o->by = "user";
  sub.Option("--by WHAT", o->by, "A row for each; size is that of the job in GPUs")
      .OneOf({"user", "account", "workflow", "job", "model", "cluster", "partition", "qos", "node",
              "gpu", "state", "size"})
      .ShowDefault();
  AddWindowOptions(sub, &o->window, "-1d");
  sub.Option("--month YYYY-MM", o->month, "A calendar month instead of --from and --to")
      .Check([](const std::string& text) {
        return MonthOf(text) ? std::string() : std::string("a month such as 2026-11 is expected");
      });
  sub.Option("--time-zone ZONE", o->time_zone,
             "Whose midnight the month begins and ends at: Europe/Berlin, +02:00 (default: "
             "server.time_zone, else UTC)");
  const Arg step = sub.Option("--step TIME", o->step,
                              "How each row went on: a line for every hour, day (1d), …");
  sub.Option(
         "--compare TIME", o->compare,
         "Beside a window as long that begins then, with what changed; \"previous\": just before")
      .Excludes(step);
  sub.Flag("--exact", o->exact,
           "Join raw samples with the job intervals instead of trusting the job stamped on them");
  sub.Footer(
      "Rows add up to all the GPU time that jobs held; time whose user is not known is a row "
      "without a name.\nCosts need prices in the configuration file (docs/usage.md).\n\n"
      "Examples:\n"
      "  flopwatch usage                                   the last day by user\n"
      "  flopwatch usage --by workflow --from -7d --sort lost_gpu_seconds\n"
      "  flopwatch usage --month 2026-11 --time-zone Europe/Berlin -o csv > november.csv\n"
      "  flopwatch usage --by account --from -30d --step 1d -o csv\n"
      "  flopwatch usage --by partition --from -7d --compare previous\n"
      "  flopwatch usage --by model -o json");
  *run = [o](Context& context) { return RunUsage(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
