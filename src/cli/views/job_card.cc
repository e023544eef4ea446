#include "cli/views/job_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json_copy.h"
#include "base/table.h"
#include "cli/views/columns.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

constexpr int kCardLabel = 16;
constexpr int kValue = 17;

std::string Dash(std::string text) { return text.empty() ? "-" : text; }

std::string Header(const Json& job, const Json& answer, const JobCardOptions& options) {
  const ViewOptions& v = options.view;
  const UsageView u = UsageView::From(job["usage"]);
  std::set<std::string> nodes, models;
  for (const Json& g : answer["gpus"].array()) {
    if (!g["node"].text().empty()) nodes.insert(g["node"].text());
    if (!g["model"].text().empty()) models.insert(g["model"].text());
  }
  std::string out = Paint(v, Tone::kBold, "Job " + job["job"].text());
  if (!job["name"].text().empty()) out += "  " + job["name"].text();
  out += "\n";
  const auto line = [&](std::string_view text) { out += Wrap(text, v.width, "  ", "  "); };
  std::string who = fmt::format("user {}", Dash(job["user"].text()));
  if (!job["workflow"].text().empty()) who += fmt::format(" · workflow {}", job["workflow"].text());
  const auto gpus = std::max<int64_t>(u.gpus, static_cast<int64_t>(answer["gpus"].array().size()));
  who += fmt::format(" · {} GPU{}", Count(gpus), gpus == 1 ? "" : "s");
  if (!nodes.empty())
    who += fmt::format(" on {} node{}", nodes.size(), nodes.size() == 1 ? "" : "s");
  if (!models.empty())
    who += " · " + *models.begin() +
           (models.size() > 1 ? fmt::format(" and {} more", models.size() - 1) : "");
  line(who);
  const auto started = TimeOf(job["started"].text()), ended = TimeOf(job["ended"].text());
  std::string when = job["running"].boolean() ? "running" : "ended";
  if (ended) when += " " + Minute(*ended) + " UTC";
  if (started) when += ", started " + Minute(*started) + " UTC";
  line(when);
  line(fmt::format("{}: {} · {} GPU-h", options.whole_life ? "window, the job's life" : "window",
                   WindowView::From(answer["window"]).Text(), GpuHours(u.gpu_seconds)));
  return out;
}

// "  label   value   bar   remark"
std::string BarLine(const ViewOptions& v, std::string_view label, const std::string& value,
                    std::optional<double> ratio, Tone tone, std::string_view remark) {
  // The remark gets its own column where there is room, and goes without where not.
  const int remark_width = v.width >= 100 ? 34 : 0;
  const int bar = std::clamp(
      v.width - 2 - kCardLabel - kValue - (remark_width > 0 ? remark_width + 2 : 0), 10, 60);
  std::string out =
      "  " + PadRight(label, kCardLabel) + PadRight(value, kValue) + Bar(v, ratio, bar, tone);
  if (remark_width > 0 && !remark.empty()) out += "  " + Paint(v, Tone::kDim, remark);
  return out + "\n";
}

// What the job reports of itself, beside what its GPUs did.
std::string Application(const Json& answer, const ViewOptions& v) {
  const Json& said = answer["application"];
  if (!said.is_object()) return "";
  const auto mfu = said["mfu"].number();
  std::string convention = said["convention"].text();
  std::string remark = convention.empty() ? "convention not said" : "as " + convention + " counts";
  if (said["mfu_source"].text() == "throughput") {
    remark = fmt::format("{:.0f} of {:.0f} TFLOP/s", said["tflops_per_gpu"].number_or(0),
                         said["peak_tflops"].number_or(0));
    if (!convention.empty()) remark += ", " + convention;
  }
  std::string out = BarLine(v, "MFU (reported)", Percent(mfu), mfu, Tone::kDim, remark);
  if (!mfu) {
    std::string why = said["mfu_reason"].text();
    std::replace(why.begin(), why.end(), '_', ' ');
    out += Wrap(why, v.width, "    not computable: ", "    ");
  }
  std::string more;
  const auto add = [&](const std::string& text) { more += (more.empty() ? "" : " · ") + text; };
  if (const auto tflops = said["tflops_per_gpu"].number(); tflops && !mfu)
    add(fmt::format("{:.1f} TFLOP/s a GPU", *tflops));
  if (const auto tokens = said["tokens_per_s"].number()) add(Count(*tokens) + " tokens/s");
  if (const auto loss = said["loss"].number()) add(fmt::format("loss {:.4g}", *loss));
  if (const auto step = said["last_step"].integer()) add(fmt::format("step {}", *step));
  if (said["claims"].integer_or(0) > 1)
    add(fmt::format("{} claims, the main one is shown", said["claims"].integer_or(0)));
  if (!more.empty())
    out += Wrap(more, v.width, "  " + PadRight("reported", kCardLabel),
                "  " + PadRight("", kCardLabel));
  return out;
}

std::string Bars(const Json& job, const Json& answer, const ViewOptions& v) {
  const UsageView u = UsageView::From(job["usage"]);
  std::string ofu = Percent(u.ofu);
  if (u.ofu && u.ci95) ofu += fmt::format(" ± {:.1f}", *u.ci95 * 100);
  std::string out;
  out += BarLine(v, "OFU", ofu, u.ofu, Tone::kUseful, "of peak arithmetic");
  // Why it is what it is, or why it is not known.
  if (const std::string& why = job["cause"]["text"].text(); !why.empty())
    out += Wrap(why, v.width, "  " + PadRight("why", kCardLabel), "  " + PadRight("", kCardLabel));
  out += Application(answer, v);
  out += BarLine(v, "tensor active", Percent(u.tensor_active), u.tensor_active, Tone::kUseful,
                 "of cycles on tensor cores");
  std::string clock = u.sm_clock_mhz ? fmt::format("{:.0f} MHz", *u.sm_clock_mhz) : "-";
  const auto ratio = u.clock_ratio();
  if (ratio) clock += fmt::format(" ({:.0f} %)", *ratio * 100);
  out += BarLine(v, "SM clock", clock, ratio, Tone::kUseful, "of the maximum tensor clock");
  out += BarLine(v, "duty cycle", Percent(u.gpu_util), u.gpu_util, Tone::kDim,
                 "of time in any kernel");
  out += BarLine(v, "coverage", Percent(u.coverage), u.coverage, Tone::kDim,
                 "of GPU-hours with a known OFU");
  if (u.power_w) {
    out += "  " + PadRight("power", kCardLabel) + fmt::format("{} a GPU", Watts(u.power_w));
    if (u.energy_j) out += fmt::format(", {} in all", Energy(u.energy_j));
    out += "\n";
  }
  const SeriesView series = SeriesView::From(answer["series"]);
  double low = 2, high = -1;
  for (const auto& p : series.ofu) {
    if (p) low = std::min(low, *p), high = std::max(high, *p);
  }
  if (high >= 0 && series.ofu.size() > 2) {
    const int trend_width = std::clamp(v.width - 2 - kCardLabel - kValue, 10, 60);
    const std::string range = fmt::format("{:.0f} to {:.0f} %", low * 100, high * 100);
    out += "  " + PadRight("OFU over time", kCardLabel) + PadRight(range, kValue) +
           Paint(v, Tone::kUseful, Sparkline(v, Stretch(series.ofu, trend_width), trend_width)) +
           "\n";
  }
  return out;
}

std::string WhereItWent(const Json& job, const ViewOptions& v) {
  const UsageView u = UsageView::From(job["usage"]);
  if (!u.ofu || u.gpu_seconds <= 0) return "";
  const double unknown = std::max(0.0, u.gpu_seconds - u.computable_s);
  const double idle = u.gpu_util ? std::min(u.lost_s, u.computable_s * (1 - *u.gpu_util)) : 0;
  const int width = std::clamp(v.width - 4, 20, 96);
  const auto columns = [&](double s) { return static_cast<int>(s / u.gpu_seconds * width + 0.5); };
  const int useful = columns(u.useful_s()), none = columns(unknown);
  const int waiting = std::min(columns(idle), std::max(0, width - useful - none));
  const int busy = std::max(0, width - useful - none - waiting);
  const auto run = [&](std::string_view block, std::string_view plain, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += v.ascii ? plain : block;
    return out;
  };
  std::string out = "  " + Paint(v, Tone::kUseful, run("█", "#", useful)) +
                    Paint(v, Tone::kLost, run("▓", "+", busy)) +
                    Paint(v, Tone::kLost, run("▒", "-", waiting)) +
                    Paint(v, Tone::kDim, run("·", ".", none)) + "\n";
  const auto part = [&](std::string_view block, std::string_view plain, Tone tone,
                        const std::string& text) {
    return Paint(v, tone, v.ascii ? plain : block) + " " + text;
  };
  struct Part {
    std::string_view block, plain;
    Tone tone;
    std::string text;
  };
  std::vector<Part> parts = {
      {"█", "#", Tone::kUseful, fmt::format("useful {} GPU-h", GpuHours(u.useful_s()))},
      {"▓", "+", Tone::kLost, fmt::format("busy, not used {}", GpuHours(u.lost_s - idle))},
      {"▒", "-", Tone::kLost, fmt::format("no kernel {}", GpuHours(idle))}};
  if (unknown > 36)
    parts.push_back({"·", ".", Tone::kDim, fmt::format("unknown {}", GpuHours(unknown))});
  int column = 0;
  for (const Part& p : parts) {
    // What does not fit goes on in the next line.
    const int width = 2 + DisplayWidth(p.text);
    const std::string_view gap = column == 0 ? "  " : column + 3 + width > v.width ? "\n  " : "   ";
    column = gap == "   " ? column + 3 + width : 2 + width;
    out += std::string(gap) + part(p.block, p.plain, p.tone, p.text);
  }
  return out + "\n";
}

// Its UUID stands in where no node is known.
std::string NodeOf(const Json& gpu) {
  return gpu["node"].text().empty() ? gpu["gpu"].text() : gpu["node"].text();
}

std::string GpuLines(const Json& answer, const JobCardOptions& options) {
  const ViewOptions& v = options.view;
  struct Line {
    const Json* gpu;
    UsageView usage;
  };
  std::vector<Line> lines;
  for (const Json& g : answer["gpus"].array()) lines.push_back({&g, UsageView::From(g["usage"])});
  if (lines.empty()) return "";
  // Unknown first (it needs looking into), then the lowest OFU.
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    if (a.usage.ofu.has_value() != b.usage.ofu.has_value()) return !a.usage.ofu.has_value();
    return a.usage.ofu && *a.usage.ofu < *b.usage.ofu;
  });
  const size_t shown = std::min(lines.size(), options.max_gpus);
  std::string title = fmt::format("GPUs: {}", lines.size());
  if (shown < lines.size()) title += fmt::format(", the {} with the lowest OFU", shown);
  std::string out = Paint(v, Tone::kBold, title) + "\n";
  int node_width = 4;
  for (size_t i = 0; i < shown; ++i)
    node_width = std::max(node_width, DisplayWidth(NodeOf(*lines[i].gpu)));
  node_width = std::min(node_width, std::max(8, v.width - 62));
  const int bar = std::clamp(v.width - node_width - 51, 6, 30);
  const auto row = [&](std::string_view node, std::string_view gpu, std::string_view rank,
                       std::string_view ofu, std::string_view bars, std::string_view tensor,
                       std::string_view clock, std::string_view duty, std::string_view power) {
    return fmt::format("  {} {} {} {} {} {} {} {} {}\n", PadRight(node, node_width),
                       PadLeft(gpu, 4), PadLeft(rank, 4), PadLeft(ofu, 7), bars, PadLeft(tensor, 7),
                       PadLeft(clock, 5), PadLeft(duty, 6), PadLeft(power, 6));
  };
  out += Paint(
      v, Tone::kDim,
      row("node", "gpu", "rank", "OFU", std::string(bar, ' '), "tensor", "MHz", "duty", "power"));
  for (size_t i = 0; i < shown; ++i) {
    const Json& g = *lines[i].gpu;
    const UsageView& u = lines[i].usage;
    const auto text = [](const Json& j) {
      return j.integer() ? fmt::format("{}", *j.integer()) : std::string("-");
    };
    std::string gpu = text(g["index"]);
    if (g["gpu_instance"].integer()) gpu += "/" + text(g["gpu_instance"]);
    out +=
        row(NodeOf(g), gpu, text(g["rank"]), Percent(u.ofu), Bar(v, u.ofu, bar),
            Percent(u.tensor_active), u.sm_clock_mhz ? fmt::format("{:.0f}", *u.sm_clock_mhz) : "-",
            u.gpu_util ? fmt::format("{:.0f} %", *u.gpu_util * 100) : "-", Watts(u.power_w));
    if (!u.ofu && !u.reason.empty())
      out += Paint(v, Tone::kDim, Wrap(u.reason, v.width, "    ", "    "));
  }
  if (shown < lines.size())
    out += Paint(v, Tone::kDim, "  --gpus 0 shows all of them; -o csv has every column\n");
  return out;
}

std::string Notes(const Json& answer, const ViewOptions& v) {
  std::string out = Paint(v, Tone::kBold, "Notes") + "\n";
  const std::vector<query::Note> advice = AdviceFor(answer);
  for (const query::Note& a : advice) {
    const std::string mark = v.ascii ? (a.serious ? "!" : "*") : (a.serious ? "▲" : "•");
    std::string text = Wrap(a.finding, v.width, "    ", "    ");
    text.replace(2, 1, Paint(v, a.serious ? Tone::kLost : Tone::kDim, mark));
    out += text;
    if (!a.action.empty()) out += Wrap(a.action, v.width, "    ", "    ");
  }
  if (advice.empty()) {
    const UsageView u = UsageView::From(answer["job"]["usage"]);
    out += u.ofu ? "    Nothing stands out: the GPUs behave alike and are kept busy.\n"
                 : "    Nothing can be said without an OFU.\n";
  }
  return out;
}

}  // namespace

std::vector<query::Note> AdviceFor(const Json& answer) {
  std::vector<query::Note> out;
  for (const Json& n : answer["notes"].array())
    out.push_back({n["finding"].text(), n["action"].text(), n["serious"].boolean(),
                   n["gpu_seconds"].number_or(0)});
  return out;
}

std::string JobDocument(const Json& answer) {
  std::string out;
  JsonWriter json(&out);
  const auto copy = [&json](std::string_view name, const Json& value) {
    json.Key(name);
    WriteJson(json, value);
  };
  json.BeginObject();
  copy("window", answer["window"]);
  json.Key("job").BeginObject();
  for (const auto& [name, value] : answer["job"].object())
    if (name != "usage") copy(name, value);
  json.EndObject();
  copy("usage", answer["job"]["usage"]);
  copy("notes", answer["notes"]);
  json.Key("mfu").BeginObject();
  copy("reported", answer["application"]);
  copy("reason", answer["application_reason"]);
  copy("alarm", answer["mfu_alarm"]);
  json.EndObject();
  copy("gpus", answer["gpus"]);
  json.EndObject();
  return out + "\n";
}

std::string ApplicationCard(const Json& answer, const ViewOptions& v) {
  std::string out = Paint(v, Tone::kBold, "Job " + answer["job"].text()) + "\n";
  out +=
      Wrap("no GPU was seen with this job; this is what it reports of itself", v.width, "  ", "  ");
  const Json& window = answer["window"];
  if (window.is_object())
    out += Wrap(fmt::format("from {} to {}", window["from"].text(), window["to"].text()), v.width,
                "  ", "  ");
  return out + "\n" + Application(answer, v);
}

Table ApplicationTable(const Json& answer) {
  Table table;
  table.columns = ColumnsOf(
      Column{"job", "JOB"}, Column{"convention", "CONVENTION"}, Column{"precision", "PRECISION"},
      Column{"gpus", "GPUS"}, Column{"mfu", "MFU", ColumnFormat::kPercent},
      Column{"mfu_source", "FROM"}, Column{"peak_tflops", "PEAK"},
      Column{"tflops_per_gpu", "TFLOPS"}, Column{"tokens_per_s", "TOKENS/S", ColumnFormat::kCount},
      Column{"loss", "LOSS"}, Column{"samples", "SAMPLES", ColumnFormat::kCount},
      Column{"first", "FIRST"}, Column{"last", "LAST"});
  for (const Json& c : answer["claims"].array()) {
    table.rows.push_back({TextCell(answer["job"]), TextCell(c["convention"]),
                          TextCell(c["precision"]), IntegerCell(c["gpus"]), NumberCell(c["mfu"]),
                          TextCell(c["mfu_source"]), NumberCell(c["peak_tflops"]),
                          NumberCell(c["tflops_per_gpu"]), NumberCell(c["tokens_per_s"]),
                          NumberCell(c["loss"]), IntegerCell(c["samples"]), TextCell(c["first"]),
                          TextCell(c["last"])});
  }
  return table;
}

std::string JobCard(const Json& answer, const JobCardOptions& options) {
  const ViewOptions& v = options.view;
  const Json& job = answer["job"];
  std::string out = Header(job, answer, options) + "\n" + Bars(job, answer, v);
  if (const std::string where = WhereItWent(job, v); !where.empty()) {
    out += "\n" + Paint(v, Tone::kBold, "Where the GPU-hours went") + "\n" + where;
  }
  out += "\n" + Notes(answer, v);
  if (const std::string gpus = GpuLines(answer, options); !gpus.empty()) out += "\n" + gpus;
  out += "\n" + Paint(v, Tone::kDim,
                      Wrap("OFU = tensor activity × SM clock ÷ maximum tensor clock, averaged over "
                           "GPU-seconds: the share of "
                           "the hardware's matrix arithmetic that was used. The duty cycle only "
                           "says that some kernel ran.",
                           v.width, "", ""));
  return out;
}

}  // namespace flopwatch::cli
