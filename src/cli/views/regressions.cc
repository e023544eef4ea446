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

std::string WindowText(const Json& answer) {
  return WindowView::From(answer["window"]).Text();
}

}  // namespace

std::string NothingGotWorse(const Json& answer) {
  const int64_t judged = answer["workflows_judged"].integer_or(0);
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
           NumberCell(row["after"]), NumberCell(row["change"]),
           NumberCell(row["lost_gpu_seconds"]), NumberCell(row["scatter"]),
           NumberCell(row["confidence"]), TextCell(row["kind"]), TextCell(row["job"]),
           TextCell(row["user"]), IntegerCell(row["measured_before"]),
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
