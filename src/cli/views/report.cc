#include "cli/views/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/views/advise.h"
#include "cli/views/below.h"
#include "cli/views/columns.h"
#include "cli/views/report_parts.h"
#include "query/notes.h"

namespace flopwatch::cli {

void UserSums::Add(const Json& answer) {
  for (const Json& job : answer["jobs"].array()) {
    const UsageView u = UsageView::From(job["usage"]);
    ReportUser& user = users_[job["user"].text()];
    user.user = job["user"].text();
    ++user.jobs;
    user.gpu_seconds += u.gpu_seconds;
    user.computable_s += u.computable_s;
    user.useful_s += u.useful_s();
    user.lost_s += u.lost_s;
    if (!u.ofu && u.gpu_seconds > user.reason_s)
      user.reason = u.reason, user.reason_s = u.gpu_seconds;
    ++jobs_;
    gpu_seconds_ += u.gpu_seconds;
  }
}

std::vector<ReportUser> UserSums::Worst(size_t limit, size_t* left_out) const {
  std::vector<ReportUser> out;
  for (const auto& [name, user] : users_) out.push_back(user);
  std::stable_sort(out.begin(), out.end(),
                   [](const ReportUser& a, const ReportUser& b) { return a.lost_s > b.lost_s; });
  *left_out = out.size() > limit ? out.size() - limit : 0;
  out.resize(std::min(out.size(), limit));
  return out;
}

Report MakeReport(const Json& fleet, const Json& worst_jobs, const UserSums& users,
                  const Json& targets, size_t top, const Json& divergence) {
  Report r;
  r.window = WindowView::From(fleet["window"]);
  r.fleet = UsageView::From(fleet["usage"]);
  r.series = SeriesView::From(fleet["series"]);
  for (const Json& m : fleet["models"].array()) {
    r.models.push_back({m["model"].text(), m["gpus"].integer_or(0), UsageView::From(m["usage"])});
  }
  for (const Json& n : fleet["not_computable"].array()) {
    r.not_computable.push_back({n["reason"].text(), n["gpu_seconds"].number_or(0)});
  }
  for (const Json& j : worst_jobs["jobs"].array()) {
    if (r.worst_jobs.size() >= top) break;
    r.worst_jobs.push_back({j["job"].text(), j["name"].text(), j["user"].text(),
                            j["workflow"].text(), JoinTexts(j["flags"], ", "),
                            j["running"].boolean(), UsageView::From(j["usage"]), ""});
    for (const Json& d : divergence["jobs"].array()) {
      if (d["flagged"].boolean() && d["job"].text() == j["job"].text())
        r.worst_jobs.back().mfu_verdict = d["verdict"].text();
    }
  }
  r.total_jobs = worst_jobs["total"].integer_or(0);
  r.jobs_read = users.jobs();
  r.job_gpu_seconds = users.gpu_seconds();
  r.users = users.Worst(top, &r.users_left_out);
  r.targets = targets["total"].integer_or(0);
  r.targets_up = targets["up"].integer_or(0);
  for (const Json& t : targets["targets"].array()) {
    if (t["state"].text() == "up" || r.down.size() >= top) continue;
    r.down.push_back({t["url"].text(), t["state"].text(), t["error"].text(), t["age_s"].number()});
  }
  ReportDivergence& d = r.divergence;
  d.with_claim = divergence["jobs_with_claim"].integer_or(0);
  d.compared = divergence["jobs_compared"].integer_or(0);
  d.flagged = divergence["verdicts"]["alarm"].integer_or(0) +
              divergence["verdicts"]["impossible"].integer_or(0);
  const Json& all = divergence["all"]["by_jobs"];
  d.mae = all["mae"].number();
  d.mae_by_gpu_seconds = divergence["all"]["by_gpu_seconds"]["mae"].number();
  d.pearson = all["pearson"]["r"].number();
  d.pearson_low = all["pearson"]["low"].number();
  d.pearson_high = all["pearson"]["high"].number();
  Json::Array rows;
  for (const Json& j : divergence["jobs"].array()) {
    if (rows.size() < top && j["verdict"].text() != "agrees" &&
        j["verdict"].text() != "not_computable")
      rows.push_back(j);
  }
  d.jobs.value_ = std::move(rows);
  return r;
}

namespace {
constexpr const char* kToDoFirst = "What to do first";
}  // namespace

std::vector<ReportFact> FactsOf(const Report& r) {
  const UsageView& u = r.fleet;
  const auto share = [&](double s) {
    return u.gpu_seconds > 0 ? Percent(s / u.gpu_seconds) : std::string("-");
  };
  std::vector<ReportFact> out;
  out.push_back(
      {"GPU-hours deployed", GpuHours(u.gpu_seconds), fmt::format("{} GPUs", Count(u.gpus))});
  if (r.jobs_read > 0 && r.jobs_read == r.total_jobs) {
    out.push_back(
        {"owned by jobs", GpuHours(r.job_gpu_seconds),
         fmt::format("{} of deployed, {} jobs", share(r.job_gpu_seconds), Count(r.total_jobs))});
    out.push_back({"owned by nobody", GpuHours(r.unallocated_s()),
                   share(r.unallocated_s()) + " of deployed"});
  }
  if (u.ofu) {
    out.push_back({"useful", GpuHours(u.useful_s()),
                   "GPU-hours at peak arithmetic: OFU × hours with a known OFU"});
    out.push_back({"lost", GpuHours(u.lost_s), "the rest of the hours with a known OFU"});
  }
  out.push_back({"OFU not known", GpuHours(std::max(0.0, u.gpu_seconds - u.computable_s)),
                 "coverage " + Percent(u.coverage) + " of deployed GPU-hours"});
  if (r.advice["actions"].is_array() && r.advice["actions"].array().empty() &&
      r.advice["allocated_gpu_seconds"].number_or(0) > 0)
    out.push_back({"to do first", "nothing", "of what jobs held nothing is seen lost"});
  if (u.gpu_util) out.push_back({"duty cycle", Percent(u.gpu_util), "of time in any kernel"});
  if (u.tensor_active)
    out.push_back({"tensor active", Percent(u.tensor_active), "of cycles on tensor cores"});
  if (u.power_w)
    out.push_back(
        {"power", Watts(u.power_w) + " a GPU", u.energy_j ? Energy(u.energy_j) + " in all" : ""});
  return out;
}

std::string OfuHeadline(const Report& r) {
  if (!r.fleet.ofu) return "not computable: " + r.fleet.reason;
  std::string out = Percent(r.fleet.ofu);
  if (r.fleet.ci95) out += fmt::format(" ± {:.1f} points (95 %)", *r.fleet.ci95 * 100);
  return out;
}

std::string MethodText(const Report& r) {
  std::string out =
      "OFU = tensor activity × SM clock ÷ maximum tensor clock, weighted by GPU-seconds (not by "
      "jobs or samples). Hours whose "
      "OFU is not known are shown, never counted as 0.";
  if (r.fleet.source == "ratio") out += " Source: activity ratio and sampled clock.";
  if (r.fleet.source == "cycles") out += " Source: cycle counters.";
  if (r.fleet.source == "mixed")
    out +=
        " Source: cycle counters where exporters have them, else activity ratio and sampled clock.";
  if (r.jobs_read < r.total_jobs) {
    out += fmt::format(" Users are summed over {} of {} jobs, those with the most GPU-hours.",
                       r.jobs_read, r.total_jobs);
  }
  return out;
}

namespace {

// The last column says why there is no OFU: none where every row has one.
Table WithoutEmptyLast(Table t) {
  if (std::any_of(t.rows.begin(), t.rows.end(), [](const std::vector<Cell>& row) {
        return !std::holds_alternative<std::monostate>(row.back());
      }))
    return t;
  t.columns.pop_back();
  for (auto& row : t.rows) row.pop_back();
  return t;
}

}  // namespace

Table ReportModels(const Report& r) {
  Table t;
  t.columns = ColumnsOf(Column{"model", "GPU model"}, Column{"gpus", "GPUs", ColumnFormat::kCount},
                        Column{"gpu_seconds", "GPU time", ColumnFormat::kGpuHours},
                        Column{"ofu", "OFU", ColumnFormat::kPercentBar},
                        Column{"coverage", "coverage", ColumnFormat::kPercent},
                        Column{"ofu_reason", "why no OFU"});
  for (const ReportModel& m : r.models) {
    t.rows.push_back({m.model.empty() ? Cell(std::string("(not reported)")) : Cell(m.model), m.gpus,
                      m.usage.gpu_seconds, NumberCell(m.usage.ofu), NumberCell(m.usage.coverage),
                      TextCell(m.usage.reason)});
  }
  return WithoutEmptyLast(std::move(t));
}

Table ReportJobs(const Report& r) {
  Table t;
  t.columns = ColumnsOf(Column{"job", "job"}, Column{"user", "user"},
                        Column{"gpus", "GPUs", ColumnFormat::kCount},
                        Column{"gpu_seconds", "GPU time", ColumnFormat::kGpuHours},
                        Column{"lost", "lost", ColumnFormat::kGpuHours},
                        Column{"ofu", "OFU", ColumnFormat::kPercentBar},
                        Column{"duty", "duty", ColumnFormat::kPercent}, Column{"notes", "notes"});
  for (const ReportJob& j : r.worst_jobs) {
    const UsageView& u = j.usage;
    std::string notes = JobNote(u);
    if (!j.mfu_verdict.empty())
      notes += (notes.empty() ? "" : ", ") + std::string("MFU against OFU: ") + j.mfu_verdict;
    t.rows.push_back({j.job, TextCell(j.user), u.gpus, u.gpu_seconds,
                      u.computable_s > 0 ? Cell(u.lost_s) : Cell(), NumberCell(u.ofu),
                      NumberCell(u.gpu_util), TextCell(notes)});
  }
  return t;
}

Table ReportUsers(const Report& r) {
  Table t;
  t.columns = ColumnsOf(Column{"user", "user"}, Column{"jobs", "jobs", ColumnFormat::kCount},
                        Column{"gpu_seconds", "GPU time", ColumnFormat::kGpuHours},
                        Column{"lost", "lost", ColumnFormat::kGpuHours},
                        Column{"ofu", "OFU", ColumnFormat::kPercentBar},
                        Column{"ofu_reason", "why no OFU"});
  for (const ReportUser& u : r.users) {
    t.rows.push_back({u.user.empty() ? std::string("(not known)") : u.user, u.jobs, u.gpu_seconds,
                      u.computable_s > 0 ? Cell(u.lost_s) : Cell(), NumberCell(u.ofu()),
                      TextCell(u.ofu() ? "" : u.reason)});
  }
  return WithoutEmptyLast(std::move(t));
}

Table ReportLosses(const Report& r) {
  Table t;
  t.columns = {{"reason", "why"},
               {"gpu_seconds", "GPU time", ColumnFormat::kGpuHours},
               {"share", "of deployed", ColumnFormat::kPercent},
               {"advice", "what to do"}};
  for (const ReportLoss& l : r.not_computable) {
    const std::string_view advice = query::ReasonAdvice(l.reason);
    t.rows.push_back({query::ReasonTitle(l.reason), l.gpu_seconds,
                      r.fleet.gpu_seconds > 0 ? Cell(l.gpu_seconds / r.fleet.gpu_seconds) : Cell(),
                      TextCell(advice)});
  }
  return t;
}

Table ReportTargets(const Report& r) {
  Table t;
  t.columns = {{"target", "target"},
               {"state", "state"},
               {"age_s", "last seen", ColumnFormat::kSeconds},
               {"error", "error"}};
  for (const ReportTarget& d : r.down) {
    t.rows.push_back({d.url, d.state, NumberCell(d.age_s), TextCell(d.error)});
  }
  return t;
}

Table ReportDivergenceJobs(const Report& r) {
  Table t;
  t.columns = ColumnsOf(
      Column{"job", "job"}, Column{"user", "user"}, Column{"gpus", "GPUs", ColumnFormat::kCount},
      Column{"mfu", "MFU", ColumnFormat::kPercent}, Column{"ofu", "OFU", ColumnFormat::kPercent},
      Column{"ratio", "MFU / OFU"}, Column{"verdict", "verdict"}, Column{"what", "what"});
  for (const Json& j : r.divergence.jobs.array()) {
    const auto ratio = j["ratio"].number();
    t.rows.push_back({TextCell(j["job"]), TextCell(j["user"]), IntegerCell(j["gpus"]),
                      NumberCell(j["mfu"]), NumberCell(j["ofu"]),
                      ratio ? Cell(std::round(*ratio * 100) / 100) : Cell(), TextCell(j["verdict"]),
                      TextCell(j["headline"])});
  }
  return t;
}

std::string DivergenceRemark(const ReportDivergence& d) {
  std::string out = fmt::format("{} jobs report one, {} compared, {} with an alarm", d.with_claim,
                                d.compared, d.flagged);
  if (d.mae) out += fmt::format("; mean |error| {:.1f} points", *d.mae * 100);
  if (d.mae_by_gpu_seconds)
    out += fmt::format(" ({:.1f} by GPU-seconds)", *d.mae_by_gpu_seconds * 100);
  if (d.pearson)
    out += fmt::format("; r = {:.2f}", std::round(*d.pearson * 100) / 100 + 0.0);  // no "-0.00"
  if (d.pearson && d.pearson_low && d.pearson_high)
    out += fmt::format(" ({:.2f} to {:.2f})", *d.pearson_low, *d.pearson_high);
  return out;
}

// As the formats of tables have it.
Table ReportAdvice(const Report& r) {
  const std::string currency = r.advice["currency"].text();
  Table t;
  t.columns = ColumnsOf(
      Column{"action", "action"}, Column{"gpu_seconds", "brings GPU-h", ColumnFormat::kGpuHours},
      Column{"money", currency.empty() ? "money" : currency, ColumnFormat::kMoney},
      Column{"evidence", "evidence"});
  for (const Json& a : r.advice["actions"].array()) {
    t.rows.push_back({TextCell(a["action"]), NumberCell(a["gpu_seconds"]), NumberCell(a["money"]),
                      FirstEvidence(a)});
  }
  return t;
}

std::vector<ReportSection> SectionsOf(const Report& r) {
  std::vector<ReportSection> out;
  if (!r.advice["actions"].array().empty())
    out.push_back({kToDoFirst, "no GPU-second stands in two actions", ReportAdvice(r)});
  if (!r.models.empty()) out.push_back({"GPU models", "", ReportModels(r)});
  if (!r.worst_jobs.empty()) {
    out.push_back({"Jobs that lost most",
                   fmt::format("{} of {} jobs", r.worst_jobs.size(), r.total_jobs), ReportJobs(r)});
  }
  if (!r.users.empty()) {
    out.push_back(
        {"Users", r.users_left_out > 0 ? fmt::format("{} more are left out", r.users_left_out) : "",
         ReportUsers(r)});
  }
  if (r.divergence.with_claim > 0) {
    out.push_back(
        {"Claimed MFU against OFU", DivergenceRemark(r.divergence), ReportDivergenceJobs(r)});
  }
  if (!r.not_computable.empty())
    out.push_back({"GPU-hours without a known OFU", "", ReportLosses(r)});
  if (r.targets > 0) {
    ReportSection s{"Exporters that do not answer",
                    fmt::format("{} of {} are up", r.targets_up, r.targets), ReportTargets(r)};
    if (!r.down.empty()) out.push_back(std::move(s));
  }
  return out;
}

namespace {

// Columns of sentences, in whichever section.
constexpr BelowText kSentences[] = {
    kWhyNoOfu[0], {"notes", ""}, {"advice", ""}, {"error", ""}, {"what", ""}};

}  // namespace

std::string ReportText(const Report& r, const ViewOptions& v) {
  const auto heading = [&](std::string_view text, std::string_view remark) {
    std::string out = "\n" + Paint(v, Tone::kBold, text);
    if (remark.empty()) return out + "\n";
    if (DisplayWidth(text) + 2 + DisplayWidth(remark) <= v.width)
      return out + "  " + Paint(v, Tone::kDim, remark) + "\n";
    return out + "\n" + Paint(v, Tone::kDim, Wrap(remark, v.width, "", ""));
  };
  std::string out = Paint(v, Tone::kBold, "Fleet report") + "  " + r.window.Text() + "\n";
  if (!r.source.empty())
    out += Paint(v, Tone::kDim, fmt::format("from {}, written {}", r.source, r.written)) + "\n";
  out += "\n";
  const int bar = std::clamp(v.width - 4, 20, 96);
  out += "  " + Paint(v, Tone::kBold, "OFU " + OfuHeadline(r)) + "\n";
  if (r.fleet.ofu) {
    out += "  " + Bar(v, r.fleet.ofu, bar) + "\n";
    out += "  " + Paint(v, Tone::kUseful, Sparkline(v, Stretch(r.series.ofu, bar), bar)) + "\n";
    double low = 2, high = -1;
    for (const auto& p : r.series.ofu) {
      if (p) low = std::min(low, *p), high = std::max(high, *p);
    }
    if (high >= 0) {
      out += Paint(v, Tone::kDim,
                   fmt::format(
                       "  over time: {:.1f} to {:.1f} %, one value every {}", low * 100, high * 100,
                       FormatDuration(static_cast<Micros>(r.series.step_s) * kMicrosPerSecond))) +
             "\n";
    }
  }
  out += "\n";
  for (const ReportFact& f : FactsOf(r)) {
    const std::string line = "  " + PadRight(f.name, 20) + PadLeft(f.value, 12) + "  ";
    if (f.remark.empty()) {
      out += line.substr(0, line.size() - 2) + "\n";
      continue;
    }
    const std::string indent(DisplayWidth(line), ' ');
    out +=
        line + Paint(v, Tone::kDim, Wrap(f.remark, v.width, indent, indent).substr(indent.size()));
  }
  for (const ReportSection& s : SectionsOf(r)) {
    out += heading(s.title, s.remark);
    if (s.title == kToDoFirst) {  // sentences: a table would cut them
      out += AdviceList(r.advice, v, 1);
      continue;
    }
    WriteOptions options;
    options.color = v.color;
    options.width = v.width;
    Table t = s.table;
    if (v.ascii) {
      for (Column& c : t.columns) {
        if (c.format == ColumnFormat::kPercentBar) c.format = ColumnFormat::kPercent;
      }
    }
    out += RenderBelow(t, options, kSentences);
  }
  out += "\n" + Paint(v, Tone::kDim, Wrap(MethodText(r), v.width, "", ""));
  return out;
}

std::string ReportMarkdown(const Report& r) {
  std::string out = fmt::format("# Fleet report\n\n{}  \nfrom {}, written {}\n\n**OFU {}**\n\n",
                                r.window.Text(), r.source, r.written, OfuHeadline(r));
  if (r.fleet.ofu) {
    out += "`" + Sparkline({}, Stretch(r.series.ofu, 72), 72) + "`\n\n";
  }
  out += "| | | |\n| --- | ---: | --- |\n";
  for (const ReportFact& f : FactsOf(r))
    out += fmt::format("| {} | {} | {} |\n", f.name, f.value, f.remark);
  for (const ReportSection& s : SectionsOf(r)) {
    out += fmt::format("\n## {}\n\n", s.title);
    if (!s.remark.empty()) out += s.remark + "\n\n";
    WriteOptions options;
    options.format = OutputFormat::kMarkdown;
    out += Render(s.table, options);
  }
  return Visible(out + "\n" + MethodText(r) + "\n", /*keep_lines=*/true);
}

namespace {

void WriteUsageView(JsonWriter& json, const UsageView& u) {
  json.BeginObject().Field("ofu", u.ofu).Field("ofu_ci95", u.ci95);
  json.TextField("ofu_reason", u.reason);
  json.Field("gpu_seconds", u.gpu_seconds).Field("observed_gpu_seconds", u.observed_s);
  json.Field("computable_gpu_seconds", u.computable_s)
      .Field("useful_gpu_seconds", u.useful_s())
      .Field("lost_gpu_seconds", u.lost_s);
  json.Field("coverage", u.coverage).Field("weight", "gpu_seconds");
  json.TextField("source", u.source);
  json.Field("tensor_active", u.tensor_active)
      .Field("sm_clock_mhz", u.sm_clock_mhz)
      .Field("gpu_util", u.gpu_util);
  json.Field("power_w", u.power_w).Field("energy_j", u.energy_j).Field("gpus", u.gpus);
  json.EndObject();
}

void WriteHead(JsonWriter& json, const Report& r) {
  json.Field("written", r.written).Field("from_source", r.source);
  json.Key("window").BeginObject();
  json.TextField("from", r.window.from ? FormatTime(*r.window.from) : "");
  json.TextField("to", r.window.to ? FormatTime(*r.window.to) : "");
  json.Field("source", r.window.source).EndObject();
  json.Key("usage");
  WriteUsageView(json, r.fleet);
  json.Key("series").BeginObject().Field("step_s", r.series.step_s);
  const auto column = [&](std::string_view name, const auto& values) {
    json.Key(name).BeginArray();
    for (const auto& v : values) json.Value(v);
    json.EndArray();
  };
  column("ts", r.series.ts);
  column("ofu", r.series.ofu);
  column("coverage", r.series.coverage);
  json.EndObject();
}

// Models, jobs, users, and the hours without a known OFU.
void WriteRankings(JsonWriter& json, const Report& r) {
  json.Key("models").BeginArray();
  for (const ReportModel& m : r.models) {
    json.BeginObject().TextField("model", m.model).Field("gpus", m.gpus).Key("usage");
    WriteUsageView(json, m.usage);
    json.EndObject();
  }
  json.EndArray().Field("jobs_total", r.total_jobs).Field("jobs_read", r.jobs_read);
  json.Field("jobs_gpu_seconds", r.job_gpu_seconds).Key("worst_jobs").BeginArray();
  for (const ReportJob& j : r.worst_jobs) {
    json.BeginObject().Field("job", j.job).TextField("name", j.name).TextField("user", j.user);
    json.TextField("workflow", j.workflow).Field("running", j.running).Key("usage");
    WriteUsageView(json, j.usage);
    json.EndObject();
  }
  json.EndArray().Key("users").BeginArray();
  for (const ReportUser& u : r.users) {
    json.BeginObject().TextField("user", u.user).Field("jobs", u.jobs);
    json.Field("gpu_seconds", u.gpu_seconds).Field("computable_gpu_seconds", u.computable_s);
    json.Field("lost_gpu_seconds", u.lost_s).Field("ofu", u.ofu()).EndObject();
  }
  json.EndArray().Field("users_left_out", r.users_left_out).Key("not_computable").BeginArray();
  for (const ReportLoss& l : r.not_computable) {
    json.BeginObject().Field("reason", l.reason).Field("gpu_seconds", l.gpu_seconds).EndObject();
  }
  json.EndArray();
}

void WriteReportDivergence(JsonWriter& json, const ReportDivergence& d) {
  json.BeginObject().Field("jobs_with_claim", d.with_claim).Field("jobs_compared", d.compared);
  json.Field("flagged", d.flagged).Field("mae", d.mae);
  json.Field("mae_by_gpu_seconds", d.mae_by_gpu_seconds).Field("pearson", d.pearson);
  json.Field("pearson_low", d.pearson_low).Field("pearson_high", d.pearson_high);
  json.Key("jobs").BeginArray();
  for (const Json& j : d.jobs.array()) {
    json.BeginObject().TextField("job", j["job"].text()).TextField("user", j["user"].text());
    json.Field("gpus", j["gpus"].integer()).Field("mfu", j["mfu"].number());
    json.Field("ofu", j["ofu"].number()).Field("ratio", j["ratio"].number());
    json.Field("corrected_mfu", j["corrected_mfu"].number());
    json.TextField("verdict", j["verdict"].text()).TextField("headline", j["headline"].text());
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string ReportJson(const Report& r) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteHead(json, r);
  WriteRankings(json, r);
  json.Key("advice");
  r.advice["actions"].is_array() ? WriteActions(json, r.advice) : void(json.Null());
  json.Key("divergence");
  if (r.divergence.with_claim > 0) {
    WriteReportDivergence(json, r.divergence);
  } else {
    json.Null();
  }
  json.Key("targets").BeginObject().Field("total", r.targets).Field("up", r.targets_up);
  json.Key("not_up").BeginArray();
  for (const ReportTarget& t : r.down) {
    json.BeginObject().Field("url", t.url).Field("state", t.state).Field("age_s", t.age_s);
    json.TextField("error", t.error).EndObject();
  }
  json.EndArray().EndObject().EndObject();
  return out + "\n";
}

}  // namespace flopwatch::cli
