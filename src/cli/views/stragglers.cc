#include "cli/views/stragglers.h"

#include <fmt/format.h>

#include "cli/views/columns.h"
#include "cli/views/style.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

using enum ColumnFormat;

std::string EvidenceText(const Json& evidence) {
  std::string out;
  for (const Json& e : evidence.array()) out += (out.empty() ? "" : ", ") + e["text"].text();
  return out;
}

std::string_view ReasonText(std::string_view reason) {
  if (reason == "few_gpus") return "fewer than two GPUs with tensor work";
  if (reason == "short_work") return "too little tensor work";
  if (reason == "no_counters") return "no tensor activity or no SM clock";
  if (reason == "independent") return "ranks that do not step together";
  return reason;
}

}  // namespace

std::string JudgedLine(const Json& answer) {
  std::string out = fmt::format(
      "judged {} jobs ({} GPUs), {}", Count(answer["jobs_judged"].integer_or(0)),
      Count(answer["gpus_judged"].integer_or(0)), WindowView::From(answer["window"]).Text());
  int64_t not_judged = 0;
  std::string why;
  for (const Json& n : answer["jobs_not_judged"].array()) {
    not_judged += n["jobs"].integer_or(0);
    why += fmt::format("{}{} {}", why.empty() ? "" : ", ", Count(n["jobs"].integer_or(0)),
                       ReasonText(n["reason"].text()));
  }
  if (not_judged > 0) out += fmt::format("; {} not: {}", Count(not_judged), why);
  return out;
}

Table StragglersTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(
      Column{"job", "job"}, Column{"node", "node"}, Column{"index", "gpu"}, Column{"kind", "kind"},
      Column{"deficit", "slower", kPercent}, Column{"confidence", "confidence", kPercent},
      Column{"seen_in_jobs", "in jobs", kCount}, Column{"evidence", "evidence"},
      Column{"user", "user"}, Column{"workflow", "workflow"}, Column{"gpu", "uuid"},
      Column{"model", "model"}, Column{"node_seen_in_jobs", "node in jobs", kCount},
      Column{"deficit_reason", "why no figure"}, Column{"seen_from", "seen from"},
      Column{"seen_to", "to"});
  for (const Json& row : answer["rows"].array()) {
    t.rows.push_back({TextCell(row["job"]), TextCell(row["node"]), IntegerCell(row["index"]),
                      TextCell(row["kind"]), NumberCell(row["deficit"]),
                      NumberCell(row["confidence"]), IntegerCell(row["seen_in_jobs"]),
                      TextCell(EvidenceText(row["evidence"])), TextCell(row["user"]),
                      TextCell(row["workflow"]), TextCell(row["gpu"]), TextCell(row["model"]),
                      IntegerCell(row["node_seen_in_jobs"]), TextCell(row["deficit_reason"]),
                      TextCell(row["seen"]["from"]), TextCell(row["seen"]["to"])});
  }
  t.notes.push_back(JudgedLine(answer));
  if (const size_t signs = answer["early_signs"].array().size(); signs > 0) {
    t.notes.push_back(fmt::format(
        "{} GPUs that are not named repeated transfers (early signs; --signs lists them)", signs));
  }
  for (const Json& note : answer["notes"].array()) t.notes.push_back(note.text());
  return t;
}

Table EarlySignsTable(const Json& answer) {
  Table t;
  t.columns =
      ColumnsOf(Column{"node", "node"}, Column{"index", "gpu"}, Column{"measure", "what grew"},
                Column{"growth", "by", kCount}, Column{"gpu", "uuid"}, Column{"model", "model"});
  for (const Json& g : answer["early_signs"].array()) {
    t.rows.push_back({TextCell(g["node"]), IntegerCell(g["index"]), TextCell(g["measure"]),
                      NumberCell(g["growth"]), TextCell(g["gpu"]), TextCell(g["model"])});
  }
  t.notes.push_back(
      fmt::format("{} early signs, {}: transfers that had to be repeated; by themselves they hold "
                  "no job back",
                  t.rows.size(), WindowView::From(answer["window"]).Text()));
  return t;
}

}  // namespace flopwatch::cli
