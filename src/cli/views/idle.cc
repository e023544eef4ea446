#include "cli/views/idle.h"

#include <fmt/format.h>

#include "cli/views/columns.h"
#include "cli/views/style.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

std::string IdleMoney(const Json& answer, const Json& of) {
  const auto money = of["money"].number();
  if (!money) return "";
  const std::string currency = answer["currency"].text();
  return fmt::format(", {:.2f}{}{}", *money, currency.empty() ? "" : " ", currency);
}

std::string IdleOfHeld(const Json& answer, std::string_view figure) {
  const double held = answer["held_gpu_seconds"].number_or(0);
  return held > 0 ? Percent(answer[figure].number_or(0) / held) : "-";
}

Cell IdleTime(const Json& v) {
  const auto at = TimeOf(v.text());
  return at ? Cell(*at) : Cell();
}

}  // namespace

Table IdleTable(const Json& answer) {
  using enum ColumnFormat;
  const std::string currency = answer["currency"].text();
  Table t;
  t.columns = ColumnsOf(Column{"job", "job"}, Column{"user", "user"}, Column{"state", "state"},
                        Column{"gpu_seconds", "gpu time", kGpuHours},
                        Column{"money", currency.empty() ? "money" : currency, kMoney},
                        Column{"since", "since", kTime}, Column{"evidence", "evidence"},
                        Column{"gpus", "gpus", kCount}, Column{"until", "until", kTime},
                        Column{"began_before", "began before"},
                        Column{"coverage", "coverage", kPercent}, Column{"account", "account"},
                        Column{"name", "name"}, Column{"workflow", "workflow"},
                        Column{"cluster", "cluster"}, Column{"nodes", "nodes"});
  for (const Json& row : answer["rows"].array()) {
    t.rows.push_back({TextCell(row["job"]), TextCell(row["user"]), TextCell(row["state"]),
                      NumberCell(row["gpu_seconds"]), NumberCell(row["money"]),
                      IdleTime(row["since"]), TextCell(row["evidence"]), IntegerCell(row["gpus"]),
                      IdleTime(row["until"]), row["began_before"].boolean(),
                      NumberCell(row["coverage"]), TextCell(row["account"]), TextCell(row["name"]),
                      TextCell(row["workflow"]), TextCell(row["cluster"]),
                      TextCell(JoinTexts(row["nodes"], ","))});
  }
  t.notes.push_back(fmt::format(
      "{} GPU-hours held idle ({} of {} held){}, {}; samples speak for {} of what was held",
      GpuHours(answer["gpu_seconds"].number_or(0)), IdleOfHeld(answer, "gpu_seconds"),
      GpuHours(answer["held_gpu_seconds"].number_or(0)), IdleMoney(answer, answer),
      WindowView::From(answer["window"]).Text(), Percent(answer["coverage"].number())));
  for (const Json& total : answer["totals"].array()) {
    if (total["gpu_seconds"].number_or(0) <= 0) continue;
    t.notes.push_back(fmt::format("{}: {} GPU-hours of {} jobs{}", total["state"].text(),
                                  GpuHours(total["gpu_seconds"].number_or(0)),
                                  total["jobs"].integer_or(0), IdleMoney(answer, total)));
  }
  t.notes.push_back(fmt::format("pauses too short to be called idle: {} GPU-hours ({} of held)",
                                GpuHours(answer["pauses_gpu_seconds"].number_or(0)),
                                IdleOfHeld(answer, "pauses_gpu_seconds")));
  const Json& stranded = answer["stranded"];
  if (stranded["gpu_seconds"].number_or(0) > 0) {
    t.notes.push_back(
        fmt::format("stranded, held by nobody on hosts where others were held: {} GPU-hours{}, {} "
                    "of them while "
                    "somebody waited",
                    GpuHours(stranded["gpu_seconds"].number_or(0)), IdleMoney(answer, stranded),
                    GpuHours(stranded["queued_gpu_seconds"].number_or(0))));
  }
  for (const Json& note : answer["notes"].array()) t.notes.push_back(note.text());
  return t;
}

std::string NothingIdle(const Json& answer) {
  const double held = answer["held_gpu_seconds"].number_or(0);
  const std::string window = WindowView::From(answer["window"]).Text();
  if (held <= 0) return fmt::format("No job held a GPU, {}.", window);
  return fmt::format("No job held a GPU idle: {} GPU-hours held, {}; samples speak for {}.",
                     GpuHours(held), window, Percent(answer["coverage"].number()));
}

}  // namespace flopwatch::cli
