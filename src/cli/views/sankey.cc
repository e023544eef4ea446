#include "cli/views/sankey.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/views/columns.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

constexpr int kName = 27, kNumber = 11;

struct Line {
  bool is_loss = false;
  const Json* row = nullptr;
};

// Levels with the losses before each.
std::vector<Line> LinesOf(const Json& sankey) {
  std::vector<Line> lines;
  for (const Json& level : sankey["levels"].array()) {
    for (const Json& loss : sankey["losses"].array())
      if (loss["before"].text() == level["name"].text()) lines.push_back({true, &loss});
    lines.push_back({false, &level});
  }
  return lines;
}

// What is left of the deployed time, and behind it what a loss took off.
std::string WaterfallBar(const ViewOptions& v, int width, double left, double lost) {
  if (lost <= 0) return Bar(v, left, width);
  const int before = std::clamp(static_cast<int>(left * width + 0.5), 0, width);
  int taken = std::clamp(static_cast<int>((left + lost) * width + 0.5), 0, width) - before;
  taken = std::clamp(taken, 1, std::max(1, width - before));
  return std::string(static_cast<size_t>(std::min(before, width - 1)), ' ') +
         Bar(v, 1.0, taken, Tone::kLost);
}

}  // namespace

std::string SankeyCard(const Json& sankey, const ViewOptions& v) {
  const double deployed = sankey["deployed_gpu_seconds"].number_or(0);
  const WindowView window = WindowView::From(sankey["window"]);
  std::string out = Paint(v, Tone::kBold, "Where GPU time went") + "   " + window.Text() + ", " +
                    window.source + "\n";
  const auto compound = sankey["compound"].number();
  out += fmt::format("{} GPU-hours deployed; OFU over all of them {}\n\n", GpuHours(deployed),
                     compound ? Percent(compound) : std::string("not computable"));
  // A column of money where any is known.
  const std::vector<Json>& losses = sankey["losses"].array();
  const bool priced =
      sankey["deployed_money"].number().has_value() ||
      std::ranges::any_of(losses, [](const Json& l) { return l["money"].number().has_value(); });
  const std::string& currency = sankey["currency"].text();
  const auto money = [&](const Json& amount, bool loss) {
    if (!priced) return std::string();
    const auto known = amount.number();
    return PadLeft(known ? fmt::format("{:.2f}", *known) : loss ? "-" : "", kNumber + 2);
  };
  const int bar =
      std::clamp(v.width - kName - 3 * kNumber - (priced ? kNumber + 2 : 0) - 2, 10, 50);
  out += Paint(v, Tone::kDim,
               PadRight("", kName) + PadLeft("GPU-h", kNumber) + PadLeft("of all", kNumber) +
                   PadLeft("of above", kNumber) +
                   (priced ? PadLeft(currency.empty() ? "money" : currency, kNumber + 2) : "")) +
         "\n";
  double left = 1;
  for (const Line& line : LinesOf(sankey)) {
    const Json& row = *line.row;
    const auto seconds = row["gpu_seconds"].number();
    const std::string name = (line.is_loss ? "  - " : "") + row["title"].text();
    if (!seconds) {
      out += Paint(v, Tone::kDim, PadRight(name, kName) + PadLeft("-", kNumber)) + "\n";
      continue;
    }
    const double share = row["of_deployed"].number_or(0);
    if (line.is_loss) left -= share;
    const Tone tone = line.is_loss ? Tone::kLost : Tone::kPlain;
    out += Paint(v, tone, PadRight(name, kName)) + PadLeft(GpuHours(*seconds), kNumber) +
           PadLeft(Percent(row["of_deployed"].number()), kNumber) +
           PadLeft(line.is_loss ? "" : Percent(row["of_previous"].number()), kNumber) +
           (row["name"].text() == "deployed" ? money(sankey["deployed_money"], false)
                                             : money(row["money"], line.is_loss)) +
           "  " +
           (line.is_loss ? WaterfallBar(v, bar, std::max(0.0, left), share)
                         : WaterfallBar(v, bar, share, 0)) +
           "\n";
  }
  for (const Json& level : sankey["levels"].array()) {
    if (level["reason"].text().empty()) continue;
    out += "\n" + Wrap(level["title"].text() + " is not known: " + level["reason"].text(), v.width,
                       "", "  ");
  }
  for (const Json& note : sankey["notes"].array())
    out += "\n" + Paint(v, Tone::kDim, Wrap(note.text(), v.width, "", ""));
  return out.ends_with('\n') ? out : out + "\n";
}

Table SankeyTable(const Json& sankey) {
  Table table;
  table.columns = ColumnsOf(Column{"kind"}, Column{"name"}, Column{"title"},
                            Column{"gpu_seconds", "GPU-h", ColumnFormat::kGpuHours},
                            Column{"of_deployed", "of deployed", ColumnFormat::kPercent},
                            Column{"of_previous", "of above", ColumnFormat::kPercent},
                            Column{"coverage", "coverage", ColumnFormat::kPercent},
                            Column{"money", "money", ColumnFormat::kMoney});
  for (const Line& line : LinesOf(sankey)) {
    const Json& row = *line.row;
    AddRow(&table, Cell(std::string(line.is_loss ? "loss" : "level")), TextCell(row["name"]),
           TextCell(row["title"]), NumberCell(row["gpu_seconds"]), NumberCell(row["of_deployed"]),
           NumberCell(row["of_previous"]), NumberCell(row["coverage"]), NumberCell(row["money"]));
  }
  for (const Json& note : sankey["notes"].array()) table.notes.push_back(note.text());
  return table;
}

Table SankeyHostsTable(const Json& answer) {
  Table table;
  table.columns = ColumnsOf(
      Column{"node", "node"}, Column{"gpu_seconds", "GPU-h lost", ColumnFormat::kGpuHours},
      Column{"of_loss", "of the loss", ColumnFormat::kPercent},
      Column{"deployed_gpu_seconds", "deployed", ColumnFormat::kGpuHours},
      Column{"allocated_gpu_seconds", "held", ColumnFormat::kGpuHours},
      Column{"money", "money", ColumnFormat::kMoney}, Column{"reason", "reason"});
  for (const Json& row : answer["nodes"].array()) {
    const std::vector<Json>& reasons = row["reasons"].array();
    AddRow(&table, TextCell(row["node"]), NumberCell(row["gpu_seconds"]),
           NumberCell(row["of_loss"]), NumberCell(row["deployed_gpu_seconds"]),
           NumberCell(row["allocated_gpu_seconds"]), NumberCell(row["money"]),
           reasons.empty() ? Cell() : TextCell(reasons.front()["reason"]));
  }
  table.notes.push_back(
      fmt::format("{} of {} hosts, {} GPU-hours of '{}', {}", table.rows.size(),
                  answer["nodes_total"].integer_or(0), GpuHours(answer["gpu_seconds"].number_or(0)),
                  answer["loss"].text(), WindowView::From(answer["window"]).Text()));
  return table;
}

}  // namespace flopwatch::cli
