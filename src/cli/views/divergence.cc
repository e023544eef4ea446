#include "cli/views/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/views/columns.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

using enum ColumnFormat;

constexpr int kDivergenceLabel = 24;

std::string Ratio(const Json& v) { return v.number() ? fmt::format("{:.2f}", *v.number()) : "-"; }
std::string RatioRange(const Json& low, const Json& high) {
  return low.number() && high.number()
             ? fmt::format("{:.2f} to {:.2f}", *low.number(), *high.number())
             : "-";
}
// Of a divergence two digits matter: the paper's own cases are told apart by them.
std::string Percent2(const Json& v) {
  return v.number() ? fmt::format("{:.2f} %", *v.number() * 100) : "-";
}
std::string Points(const Json& v) {
  return v.number() ? fmt::format("{:+.1f} points", *v.number() * 100) : "-";
}

// Names come from outside: an escape sequence in one must not reach a terminal.
std::string Safe(const Json& v) { return Printable(v.text(), 2000); }

Cell Rounded(const Json& v, double steps) {
  return v.number() ? Cell(std::round(*v.number() * steps) / steps) : Cell();
}

Tone ToneOfVerdict(const std::string& verdict) {
  if (verdict == "agrees") return Tone::kGood;
  if (verdict == "alarm" || verdict == "impossible") return Tone::kBad;
  if (verdict == "differs") return Tone::kLost;
  return Tone::kDim;
}

std::string VerdictWord(const std::string& verdict) {
  if (verdict == "not_computable") return "not computable";
  if (verdict == "scatter") return "within the scatter of jobs of this size";
  return verdict;
}

class Card {
 public:
  Card(const Json& d, const ViewOptions& v) : d_(d), v_(v) {}

  std::string Make() {
    Header();
    if (d_["mfu_claimed"].number() || d_["ofu"].number()) Numbers();
    if (d_["ratio"].number()) Expected();
    List("What is known", d_["findings"]);
    Causes();
    List("What to do", d_["actions"]);
    out_ +=
        "\n" + Paint(v_, Tone::kDim,
                     Wrap("MFU is what the application claims, OFU what the hardware did: MFU "
                          "/ OFU of a healthy job is not 1 "
                          "but the inverse of what is expected above. Alarm beyond 10 points "
                          "or a ratio of 1.25 after that, where jobs of the size do not scatter "
                          "as much. docs/divergence.md has the method.",
                          v_.width, "", ""));
    return out_;
  }

 private:
  void Line(std::string_view label, const std::string& value, const std::string& remark = "") {
    const std::string head = "  " + PadRight(label, kDivergenceLabel) + PadRight(value, 18);
    if (remark.empty()) {
      out_ += head + "\n";
      return;
    }
    const std::string indent(static_cast<size_t>(DisplayWidth(head)) + 2, ' ');
    out_ += head + "  " +
            Paint(v_, Tone::kDim, Wrap(remark, v_.width, indent, indent).substr(indent.size()));
  }
  void Title(std::string_view text) { out_ += "\n" + Paint(v_, Tone::kBold, text) + "\n"; }

  void Header() {
    const std::string job = Safe(d_["job"]), verdict = Safe(d_["verdict"]);
    out_ += Paint(v_, Tone::kBold,
                  job.empty() ? "MFU against OFU" : "Job " + job + ": MFU against OFU");
    out_ += "  " + Paint(v_, ToneOfVerdict(verdict), VerdictWord(verdict)) + "\n";
    out_ += Wrap(Safe(d_["headline"]), v_.width, "  ", "  ");
    std::string where;
    const auto add = [&](const std::string& s) { where += (where.empty() ? "" : " · ") + s; };
    if (!d_["user"].text().empty()) add("user " + Safe(d_["user"]));
    if (d_["gpus"].integer())
      add(fmt::format("{} GPU{}", Count(d_["gpus"].number_or(0)),
                      d_["gpus"].integer_or(0) == 1 ? "" : "s"));
    if (!d_["gpu_models"].array().empty()) add(Printable(JoinTexts(d_["gpu_models"], ", "), 500));
    if (!d_["window"].is_null()) add("training window " + WindowView::From(d_["window"]).Text());
    if (!where.empty()) out_ += Paint(v_, Tone::kDim, Wrap(where, v_.width, "  ", "  "));
    out_ += "\n";
  }

  void Numbers() {
    const Json &claim = d_["claim"], &peak = d_["peak"];
    std::string how =
        claim["convention"].text().empty() ? "convention not said" : Safe(claim["convention"]);
    if (!claim["version"].text().empty()) how += " " + Safe(claim["version"]);
    how += claim["peak_tflops"].number()
               ? fmt::format(", against {:.6g} TFLOP/s", *claim["peak_tflops"].number())
               : ", peak not said";
    if (!claim["precision"].text().empty()) how += ", " + Safe(claim["precision"]);
    if (claim["mfu_basis"].text() == "tflops_per_gpu") how += ", from TFLOP/s a GPU";
    if (claim["mfu_basis"].text() == "tokens_per_s") how += ", from tokens/s";
    Line("MFU as claimed", Percent2(d_["mfu_claimed"]), how);
    if (peak["right_tflops"].number()) {
      Line("MFU, right peak", Percent2(d_["mfu"]),
           fmt::format("against {:.6g} TFLOP/s: {}", *peak["right_tflops"].number(),
                       Safe(peak["right_basis"])));
    }
    std::string ofu = Percent2(d_["ofu"]);
    if (d_["ofu"].number() && d_["ofu_ci95"].number())
      ofu += fmt::format(" ± {:.2f}", *d_["ofu_ci95"].number() * 100);
    std::string seen;
    const auto add = [&](const std::string& s) { seen += (seen.empty() ? "" : ", ") + s; };
    if (d_["window"]["source"].text() == "raw") add("raw samples of exactly that window");
    if (d_["window"]["source"].text() == "rollup") add("whole minutes inside that window");
    if (d_["coverage"].number())
      add(fmt::format("known for {:.0f} % of the GPU time", *d_["coverage"].number() * 100));
    Line("OFU", ofu, seen);
    if (d_["ratio"].number()) {
      Line("MFU / OFU", Ratio(d_["ratio"]),
           fmt::format("{} by timing and sampling (95 %)",
                       RatioRange(d_["ratio_low"], d_["ratio_high"])));
      const Json& e = d_["expected"];
      Line("of a healthy job",
           fmt::format("{:.2f} to {:.2f}", 1 / e["ofu_per_mfu_high"].number_or(1),
                       1 / e["ofu_per_mfu_low"].number_or(1)));
      Line("difference", Points(d_["difference"]), "MFU - OFU");
      Line("after what is expected", Points(d_["difference_expected"]),
           fmt::format("ratio {}", Ratio(d_["ratio_expected"])));
    }
  }

  void Expected() {
    Title("Expected OFU / MFU of a job whose numbers are right");
    for (const Json& f : d_["expected"]["factors"].array()) {
      const bool exact = f["low"].number_or(0) == f["high"].number_or(0);
      Line(Safe(f["name"]),
           exact ? fmt::format("{:.3f}", f["low"].number_or(0)) : RatioRange(f["low"], f["high"]),
           Safe(f["basis"]));
    }
  }

  void List(std::string_view title, const Json& texts) {
    if (texts.array().empty()) return;
    Title(title);
    for (const Json& t : texts.array()) {
      std::string text = Wrap(Safe(t), v_.width, "    ", "    ");
      text.replace(2, 1, v_.ascii ? "*" : "•");
      out_ += text;
    }
  }

  void Causes() {
    if (d_["explanations"].array().empty()) return;
    Title(
        fmt::format("{}, best first, by the MFU / OFU each would give (seen: {})",
                    d_["flagged"].boolean() ? "Causes" : "What would explain it without a mistake",
                    d_["mfu_claimed"].number() && d_["ofu"].number_or(0) > 0
                        ? fmt::format("{:.2f}", *d_["mfu_claimed"].number() / *d_["ofu"].number())
                        : "-"));
    const auto row = [&](std::string_view rank, std::string_view gives, std::string_view fits,
                         std::string_view corrected) {
      return fmt::format("  {}  {}  {}  {}  ", PadLeft(rank, 2), PadRight(gives, 12),
                         PadRight(fits, 4), PadLeft(corrected, 9));
    };
    const std::string indent(static_cast<size_t>(DisplayWidth(row("", "", "", ""))), ' ');
    out_ += Paint(v_, Tone::kDim,
                  row("#", "gives", "fits", "corrected") + "cause (how well supported)\n");
    for (const Json& e : d_["explanations"].array()) {
      std::string text;
      for (const Json& p : e["parts"].array()) {
        text += fmt::format("{}{} ({})", text.empty() ? "" : " + ", Safe(p["title"]),
                            Safe(p["standing"]));
      }
      if (text.empty()) text = Safe(e["title"]);
      const bool fits = e["fits"].boolean();
      const std::string line = Wrap(
          text, v_.width,
          row(std::to_string(e["rank"].integer_or(0)), RatioRange(e["ratio_low"], e["ratio_high"]),
              fits                            ? "yes"
              : e["misfit"].number_or(9) <= 2 ? "near"
                                              : "no",
              Percent2(e["corrected_mfu"])),
          indent);
      out_ += fits || e["misfit"].number_or(9) <= 2 ? line : Paint(v_, Tone::kDim, line);
    }
  }

  const Json& d_;
  const ViewOptions& v_;
  std::string out_;
};

}  // namespace

std::string DivergenceCard(const Json& divergence, const ViewOptions& view) {
  return Card(divergence, view).Make();
}

Table ExplanationsTable(const Json& d) {
  Table t;
  t.columns = ColumnsOf(
      Column{"rank", "#"}, Column{"cause", "cause"}, Column{"fits", "fits"},
      Column{"ratio_low", "from"}, Column{"ratio_high", "to"}, Column{"standing", "standing"},
      Column{"corrected_mfu", "corrected MFU", kPercent}, Column{"corrected_hfu", "HFU", kPercent},
      Column{"residual", "OFU / corrected"}, Column{"ids", "ids"}, Column{"misfit", "misfit"},
      Column{"log_distance", "log distance"}, Column{"cost", "cost"}, Column{"source", "source"});
  for (const Json& e : d["explanations"].array()) {
    std::string ids, standing, source;
    const auto add = [](std::string* to, const std::string& s, std::string_view separator) {
      if (!s.empty()) *to += (to->empty() ? "" : std::string(separator)) + s;
    };
    for (const Json& p : e["parts"].array()) {
      add(&ids, p["id"].text(), "+");
      add(&standing, p["standing"].text(), " + ");
      add(&source, p["source"].text(), "; ");
    }
    t.rows.push_back({IntegerCell(e["rank"]), TextCell(e["title"]), e["fits"].boolean(),
                      Rounded(e["ratio_low"], 1e4), Rounded(e["ratio_high"], 1e4),
                      TextCell(standing), NumberCell(e["corrected_mfu"]),
                      NumberCell(e["corrected_hfu"]), Rounded(e["residual"], 1e4), TextCell(ids),
                      Rounded(e["misfit"], 1e4), Rounded(e["log_distance"], 1e4),
                      IntegerCell(e["cost"]), TextCell(source)});
  }
  if (t.rows.empty()) t.notes.push_back(d["headline"].text());
  return t;
}

std::string DivergenceSummary(const Json& answer, const ViewOptions& v) {
  std::string out = Paint(v, Tone::kBold, "MFU against OFU") + "  " +
                    WindowView::From(answer["window"]).Text() + "\n";
  std::string verdicts;
  for (const auto& [name, n] : answer["verdicts"].object()) {
    verdicts +=
        fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", VerdictWord(name), n.integer_or(0));
  }
  out += Wrap(fmt::format("{} jobs report an MFU or throughput, {} can be compared: {}",
                          Count(answer["jobs_with_claim"].number_or(0)),
                          Count(answer["jobs_compared"].number_or(0)),
                          verdicts.empty() ? "none" : verdicts),
              v.width, "  ", "  ");
  return out;
}

Table DivergenceStatisticsTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(
      Column{"jobs_taken", "jobs"}, Column{"weight", "weighted by"}, Column{"n", "n", kCount},
      Column{"mfu_mean", "MFU", kPercent}, Column{"ofu_mean", "OFU", kPercent},
      Column{"mae", "mean |error|", kPercent},
      Column{"within_10_points", "within 10 points", kPercent},
      Column{"over_20_points", "over 20", kPercent}, Column{"pearson", "Pearson r"},
      Column{"pearson_low", "from"}, Column{"pearson_high", "to"}, Column{"spearman", "Spearman"});
  for (const auto& [member, title] :
       {std::pair("all", "all"), std::pair("without_flagged", "without flagged")}) {
    for (const auto& [weight, name] :
         {std::pair("by_jobs", "jobs"), std::pair("by_gpu_seconds", "GPU-seconds")}) {
      const Json& s = answer[member][weight];
      t.rows.push_back({std::string(title), std::string(name), IntegerCell(s["jobs"]),
                        NumberCell(s["mfu"]["mean"]), NumberCell(s["ofu"]["mean"]),
                        NumberCell(s["mae"]), NumberCell(s["within_10_points"]),
                        NumberCell(s["over_20_points"]), Rounded(s["pearson"]["r"], 1e3),
                        Rounded(s["pearson"]["low"], 1e3), Rounded(s["pearson"]["high"], 1e3),
                        Rounded(s["spearman"], 1e3)});
    }
  }
  return t;
}

Table DivergenceGroupsTable(const Json& answer) {
  Table t;
  const std::string by = answer["group_by"].text();
  t.columns = ColumnsOf(Column{by, by == "gpus" ? "GPUs" : by}, Column{"jobs", "jobs", kCount},
                        Column{"flagged", "flagged", kCount}, Column{"mfu_mean", "MFU", kPercent},
                        Column{"mfu_sd", "sd", kPercent}, Column{"ofu_mean", "OFU", kPercent},
                        Column{"abs_error_mean", "|error|", kPercent},
                        Column{"abs_error_sd", "sd", kPercent},
                        Column{"gpu_seconds", "GPU time", kGpuHours});
  for (const Json& g : answer["groups"].array()) {
    const Json& s = g["by_jobs"];
    t.rows.push_back({TextCell(g["group"]), IntegerCell(s["jobs"]), IntegerCell(g["flagged"]),
                      NumberCell(s["mfu"]["mean"]), NumberCell(s["mfu"]["sd"]),
                      NumberCell(s["ofu"]["mean"]), NumberCell(s["abs_error"]["mean"]),
                      NumberCell(s["abs_error"]["sd"]), NumberCell(s["gpu_seconds"])});
  }
  return t;
}

Table DivergenceJobsTable(const Json& answer) {
  Table t;
  t.columns =
      ColumnsOf(Column{"job", "job"}, Column{"verdict", "verdict"}, Column{"gpus", "GPUs", kCount},
                Column{"mfu", "MFU", kPercent}, Column{"ofu", "OFU", kPercent},
                Column{"ratio", "MFU / OFU"}, Column{"difference_expected", "off", kPercent},
                Column{"headline", "what"}, Column{"user", "user"}, Column{"workflow", "workflow"},
                Column{"mfu_claimed", "MFU claimed", kPercent},
                Column{"ofu_ci95", "OFU ±", kPercent}, Column{"difference", "MFU - OFU", kPercent},
                Column{"ratio_expected", "ratio after expectation"}, Column{"flagged", "flagged"},
                Column{"causes", "causes"}, Column{"corrected_mfu", "corrected MFU", kPercent},
                Column{"convention", "convention"}, Column{"gpu_seconds", "GPU time", kGpuHours},
                Column{"reason", "reason"});
  for (const Json& j : answer["jobs"].array()) {
    const std::string causes = JoinTexts(j["causes"], "+");
    AddRow(&t, TextCell(j["job"]), TextCell(j["verdict"]), IntegerCell(j["gpus"]),
           NumberCell(j["mfu"]), NumberCell(j["ofu"]), Rounded(j["ratio"], 1e4),
           NumberCell(j["difference_expected"]), TextCell(j["headline"]), TextCell(j["user"]),
           TextCell(j["workflow"]), NumberCell(j["mfu_claimed"]), NumberCell(j["ofu_ci95"]),
           NumberCell(j["difference"]), Rounded(j["ratio_expected"], 1e4), j["flagged"].boolean(),
           TextCell(causes), NumberCell(j["corrected_mfu"]), TextCell(j["convention"]),
           NumberCell(j["gpu_seconds"]), TextCell(j["reason"]));
  }
  const int64_t total = answer["total"].integer_or(0);
  if (static_cast<int64_t>(t.rows.size()) < total) {
    t.notes.push_back(fmt::format("{} of {} jobs; --limit shows more", t.rows.size(), total));
  }
  return t;
}

}  // namespace flopwatch::cli
