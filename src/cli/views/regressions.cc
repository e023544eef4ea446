#include "cli/views/regressions.h"

#include <fmt/format.h>

#include "base/time.h"
#include "cli/views/columns.h"
#include "cli/views/style.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

Cell MomentCell(const Json& v) {
  const auto at = TimeOf(v.text());
  return at ? Cell(*at) : Cell();
}

// "12 workflows without a verdict: 11 of fewer than six runs, 1 with too few runs that could be
// measured"; "" where there are none.
std::string WithoutVerdict(const Json& answer) {
  const int64_t few = answer["without_verdict"]["too_few_runs"].integer_or(0),
                not_measured = answer["without_verdict"]["not_measured"].integer_or(0);
  if (few + not_measured == 0) return "";
  std::string out = fmt::format("{} workflows without a verdict:", Count(few + not_measured));
  if (few > 0) out += fmt::format(" {} have fewer than six runs of one setting", Count(few));
  if (not_measured > 0) {
    out += fmt::format("{} {} have too few runs whose OFU is known", few > 0 ? "," : "",
                       Count(not_measured));
  }
  return out;
}

std::string WindowText(const Json& answer) { return WindowView::From(answer["window"]).Text(); }

// A figure as a person reads it; machines have `a` and `b`.
std::string FigureText(const Json& v, std::string_view unit) {
  const auto n = v.number();
  if (!n) return "-";
  const ColumnFormat format = unit == "ratio"         ? ColumnFormat::kPercent
                              : unit == "w"           ? ColumnFormat::kWatts
                              : unit == "gpu_seconds" ? ColumnFormat::kGpuHours
                                                      : ColumnFormat::kPlain;
  if (unit == "mhz") return fmt::format("{:.0f} MHz", *n);
  if (unit == "number") return fmt::format("{:.6g}", *n);
  return HumanCell(Cell(*n), format);
}

std::string SideText(const Json& side) {
  std::string out = side["kind"].text() == "job" ? fmt::format("job {}", side["name"].text())
                                                 : WindowView::From(side["window"]).Text();
  const int64_t runs = side["runs"].integer_or(0);
  if (side["kind"].text() == "job") {
    if (!side["workflow"].text().empty()) out += fmt::format(" of {}", side["workflow"].text());
    out += ", " + WindowView::From(side["window"]).Text();
  } else {
    out += fmt::format(", {} runs", Count(runs));
  }
  return out;
}

}  // namespace

std::string NothingGotWorse(const Json& answer) {
  const int64_t judged = answer["workflows_judged"].integer_or(0);
  if (answer["workflows"].integer_or(0) == 0) {
    const int64_t unnamed = answer["jobs_without_workflow"].integer_or(0);
    return fmt::format(
        "No job of {} ran in {}{}.",
        unnamed > 0 ? "a workflow that was asked for" : "such a workflow", WindowText(answer),
        unnamed > 0 ? fmt::format("; {} jobs name no workflow", Count(unnamed)) : "");
  }
  std::string out =
      judged == 0
          ? fmt::format("No workflow has enough runs to be judged in {}.", WindowText(answer))
          : fmt::format("Nothing got worse: {} workflows with {} runs are as they were, {}.",
                        Count(judged), Count(answer["runs_judged"].integer_or(0)),
                        WindowText(answer));
  if (const std::string without = WithoutVerdict(answer); !without.empty())
    out += " " + without + ".";
  return out;
}

Table CompareTable(const Json& answer) {
  using enum ColumnFormat;
  Table t;
  t.columns = ColumnsOf(Column{"what", "what"}, Column{"a_text", "a"}, Column{"b_text", "b"},
                        Column{"change", "change", kPercent},
                        Column{"scatter", "scatter of a run", kPercent},
                        Column{"verdict", "verdict"}, Column{"scatter_runs", "of runs"},
                        Column{"a", "a raw"}, Column{"b", "b raw"}, Column{"unit", "unit"});
  for (const Json& f : answer["figures"].array()) {
    if (!f["a"].number() && !f["b"].number()) continue;
    const Json& unusual = f["unusual"];
    const std::string unit(f["unit"].text());
    AddRow(&t, TextCell(f["figure"]), FigureText(f["a"], unit), FigureText(f["b"], unit),
           NumberCell(f["change"]), NumberCell(f["scatter"]),
           TextCell(unusual.is_null()   ? ""
                    : unusual.boolean() ? "unusual"
                                        : "as runs scatter"),
           IntegerCell(f["scatter_runs"]), NumberCell(f["a"]), NumberCell(f["b"]),
           TextCell(f["unit"]));
  }
  for (const Json& d : answer["differences"].array()) {
    AddRow(&t, TextCell(d["what"]), TextCell(d["a"]), TextCell(d["b"]), Cell(), Cell(),
           TextCell("different"), Cell(), Cell(), Cell(), TextCell("text"));
  }
  t.notes.push_back("a: " + SideText(answer["a"]));
  t.notes.push_back("b: " + SideText(answer["b"]));
  for (const Json& n : answer["notes"].array()) t.notes.emplace_back(n.text());
  return t;
}

Table RegressionsTable(const Json& answer) {
  using enum ColumnFormat;
  Table t;
  t.columns = ColumnsOf(
      Column{"workflow", "workflow"}, Column{"run", "began at run"}, Column{"from", "from", kTime},
      Column{"cause", "cause"}, Column{"metric", "metric"}, Column{"before", "before", kPercent},
      Column{"after", "after", kPercent}, Column{"change", "change", kPercent},
      Column{"lost_gpu_seconds", "lost gpu time", kGpuHours},
      Column{"scatter", "scatter", kPercent}, Column{"confidence", "confidence", kPercent},
      Column{"kind", "kind"}, Column{"job", "within run"}, Column{"user", "user"},
      Column{"measured_before", "before n"}, Column{"measured_after", "after n"},
      Column{"evidence", "evidence"});
  for (const Json& row : answer["rows"].array()) {
    AddRow(&t, TextCell(row["workflow"]), TextCell(row["run"]), MomentCell(row["from"]),
           TextCell(row["cause"]), TextCell(row["metric"]), NumberCell(row["before"]),
           NumberCell(row["after"]), NumberCell(row["change"]), NumberCell(row["lost_gpu_seconds"]),
           NumberCell(row["scatter"]), NumberCell(row["confidence"]), TextCell(row["kind"]),
           TextCell(row["job"]), TextCell(row["user"]), IntegerCell(row["measured_before"]),
           IntegerCell(row["measured_after"]), TextCell(row["evidence"]));
  }
  t.notes.push_back(fmt::format("{}; {} of {} workflows judged, {} runs", WindowText(answer),
                                Count(answer["workflows_judged"].integer_or(0)),
                                Count(answer["workflows"].integer_or(0)),
                                Count(answer["runs_judged"].integer_or(0))));
  if (std::string without = WithoutVerdict(answer); !without.empty())
    t.notes.push_back(std::move(without));
  return t;
}

}  // namespace flopwatch::cli
