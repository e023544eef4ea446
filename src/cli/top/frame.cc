#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

// From dark to bright, told apart in grey and by colour-blind eyes (after viridis). Height of the glyph says the same.
constexpr std::array<int16_t, 8> kScale = {60, 61, 31, 30, 36, 72, 113, 184};
constexpr std::array<std::string_view, 8> kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels = "_.-~=+*#";
constexpr int16_t kUsefulColor = 75, kLostColor = 214, kBadColor = 203, kSoft = 245;
constexpr Paintwork kDim{.foreground = kSoft};
constexpr Paintwork kBold{.bold = true};
constexpr Paintwork kHeader{.bold = true, .reverse = true};

struct Frame {
  const TopData& data;
  const TopUi& ui;
  Screen& screen;
  int width() const { return screen.width(); }
  int height() const { return screen.height(); }
};

// Where a metric stands between nothing and full.
double Scaled(double value, Metric metric, double top_power) {
  switch (metric) {
    case Metric::kPower: return top_power > 0 ? value / top_power : 0;
    case Metric::kTemperature: return (value - 20) / 70;  // 20 to 90 °C
    default: return value;
  }
}

// The scale of OFU ends at 60 %: few jobs pass it, and below it every step shows (an 8-level scale to 100 % would paint a
// whole fleet in three shades).
double TopOf(Metric metric) { return metric == Metric::kOfu || metric == Metric::kTensor ? 0.6 : 1.0; }

struct Glyph {
  std::string text;
  Paintwork paint;
};

Glyph LevelGlyph(const TopUi& ui, std::optional<double> ratio) {
  if (!ratio) return {ui.ascii ? "?" : "·", kDim};
  const int level = std::clamp(static_cast<int>(*ratio / TopOf(ui.metric) * 8), 0, 7);
  return {ui.ascii ? std::string(1, kAsciiLevels[level]) : std::string(kLevels[level]), {.foreground = kScale[level]}};
}

int PutBar(const Frame& f, int x, int y, std::optional<double> ratio, int width, int16_t color) {
  ViewOptions v;
  v.ascii = f.ui.ascii;
  const std::string bar = Bar(v, ratio, width);
  if (!ratio) return f.screen.Put(x, y, bar, kDim);
  // The filled part ends where the track's glyph begins.
  const std::string_view track = f.ui.ascii ? "-" : "░";
  const size_t at = std::min(bar.find(track), bar.size());
  x = f.screen.Put(x, y, std::string_view(bar).substr(0, at), {.foreground = color});
  return f.screen.Put(x, y, std::string_view(bar).substr(at), {.foreground = 238});
}

std::string Spark(const TopUi& ui, const std::vector<std::optional<double>>& values, int width) {
  ViewOptions v;
  v.ascii = ui.ascii;
  return Sparkline(v, values, width);
}

// --- header ---

std::string Clock(const std::string& rfc3339) {
  return rfc3339.size() >= 19 ? rfc3339.substr(11, 8) + " UTC" : rfc3339;
}

void DrawHeader(const Frame& f) {
  const TopData& d = f.data;
  f.screen.FillRow(0, kHeader);
  std::string right = d.offline ? "stored, up to " + (d.now.size() >= 16 ? d.now.substr(0, 10) + " " + d.now.substr(11, 5) : d.now)
                                : Clock(d.now);
  if (f.ui.paused) right = "paused  " + right;
  right += " ";
  const int right_at = f.width() - DisplayWidth(right);
  // Trouble first: what does not fit is left out whole.
  std::vector<std::string> parts;
  if (d.gpus_reporting) {
    parts.push_back(fmt::format("{} of {} GPUs reporting", Count(static_cast<double>(*d.gpus_reporting)), Count(static_cast<double>(d.gpus_deployed))));
  } else {
    parts.push_back(fmt::format("{} GPUs", Count(static_cast<double>(d.gpus_deployed))));
  }
  if (d.targets_up < d.targets) parts.push_back(fmt::format("{} of {} targets not up", d.targets - d.targets_up, d.targets));
  parts.push_back(fmt::format("{} jobs", Count(static_cast<double>(d.jobs_running))));
  parts.push_back(fmt::format("{} nodes", Count(static_cast<double>(d.nodes))));
  std::string left = " flopwatch ";
  for (const std::string& part : parts) {
    const std::string more = (left.size() > 11 ? " · " : " ") + part;
    if (DisplayWidth(left) + DisplayWidth(more) + 1 < right_at) left += more;
  }
  f.screen.Put(0, 0, left, kHeader, f.width());
  if (right_at > DisplayWidth(left)) f.screen.Put(right_at, 0, right, kHeader);
}

// The fleet's (or job's) figures: two lines.
int DrawFigures(const Frame& f, int y, const UsageView& u, const SeriesView& series, std::string_view label) {
  const int bar = std::clamp(f.width() - 50, 10, 40);
  int x = f.screen.Put(1, y, fmt::format("{} ", label), kBold);
  x = f.screen.Put(x, y, fmt::format("{} ", Percent(u.ofu)), {.foreground = kUsefulColor, .bold = true});
  x = PutBar(f, x, y, u.ofu, bar, kUsefulColor);
  const int room = f.width() - x - 3;
  if (room >= 8 && series.ofu.size() > 2) {
    f.screen.Put(x + 2, y, Spark(f.ui, series.ofu, std::min(room, 60)), {.foreground = kUsefulColor});
  }
  if (!u.ofu && !u.reason.empty()) f.screen.Put(x + 2, y, u.reason, kDim);
  std::string line = fmt::format("tensor {}", Percent(u.tensor_active));
  if (u.sm_clock_mhz) line += fmt::format("   clock {:.0f} MHz", *u.sm_clock_mhz);
  line += fmt::format("   duty {}   coverage {}", Percent(u.gpu_util), Percent(u.coverage));
  if (u.power_w) line += fmt::format("   {} a GPU", Watts(u.power_w));
  if (f.data.samples_per_s && f.ui.level == Level::kFleet) line += fmt::format("   {} samples/s", Count(*f.data.samples_per_s));
  f.screen.Put(1, y + 1, line, kDim, f.width() - 2);
  return y + 2;
}

// --- the grid of GPUs: one node after the other, one character a GPU ---

struct GridNode {
  std::string name;
  std::vector<const TopGpu*> gpus;
};

std::vector<GridNode> NodesOf(const std::vector<const TopGpu*>& gpus) {
  std::vector<GridNode> out;
  for (const TopGpu* g : gpus) {
    if (out.empty() || out.back().name != g->node) out.push_back({g->node, {}});
    out.back().gpus.push_back(g);
  }
  return out;
}

struct GridLayout {
  int label = 0;       // columns of the row's first node name
  int per_row = 1;     // nodes a row
  int node_width = 1;  // columns of a node without its gap
  int rows = 0;
  int gpus_per_cell = 1;
};

GridLayout LayOutGrid(const std::vector<GridNode>& nodes, int width, int max_rows) {
  GridLayout l;
  if (nodes.empty() || max_rows <= 0) return l;
  size_t most = 1;
  for (const GridNode& n : nodes) {
    most = std::max(most, n.gpus.size());
    l.label = std::max(l.label, std::min(20, DisplayWidth(n.name)));
  }
  if (width < 70) l.label = 0;
  const int room = width - 2 - (l.label > 0 ? l.label + 1 : 0);
  for (l.gpus_per_cell = 1;; l.gpus_per_cell *= 2) {
    l.node_width = static_cast<int>((most + l.gpus_per_cell - 1) / l.gpus_per_cell);
    l.per_row = std::max(1, (room + 1) / (l.node_width + 1));
    l.rows = static_cast<int>((nodes.size() + l.per_row - 1) / l.per_row);
    if (l.rows <= max_rows || l.node_width == 1) break;
  }
  l.rows = std::min(l.rows, max_rows);
  return l;
}

std::optional<double> MeanRatio(const std::vector<const TopGpu*>& gpus, size_t from, size_t to, Metric metric, double top_power) {
  double sum = 0;
  int n = 0;
  for (size_t i = from; i < std::min(to, gpus.size()); ++i) {
    if (const auto v = gpus[i]->value(metric)) sum += Scaled(*v, metric, top_power), ++n;
  }
  return n > 0 ? std::optional<double>(sum / n) : std::nullopt;
}

double HighestPower(const TopData& d) {
  double top = 0;
  for (const TopGpu& g : d.gpus) top = std::max(top, g.power_w.value_or(0));
  return top;
}

int DrawGrid(const Frame& f, int y, int max_rows) {
  const auto gpus = VisibleGpus(f.data, f.ui);
  const auto nodes = NodesOf(gpus);
  const double top_power = HighestPower(f.data);
  const GridLayout l = LayOutGrid(nodes, f.width(), max_rows - 1);
  int x = f.screen.Put(1, y, fmt::format("GPUs by {}", MetricName(f.ui.metric)), kBold);
  std::string low = "  0 ", high = fmt::format(" {:.0f} %", TopOf(f.ui.metric) * 100);
  if (TopOf(f.ui.metric) < 1) high += "+";
  if (f.ui.metric == Metric::kPower) high = " " + Watts(top_power);
  if (f.ui.metric == Metric::kTemperature) low = "  20 ", high = " 90 °C";
  x = f.screen.Put(x, y, low, kDim);
  for (int level = 0; level < 8; ++level) {
    const Glyph g = LevelGlyph(f.ui, (level + 0.5) / 8 * TopOf(f.ui.metric));
    x = f.screen.Put(x, y, g.text, g.paint);
  }
  x = f.screen.Put(x, y, high, kDim);
  x = f.screen.Put(x, y, f.ui.ascii ? "  ? not known  x silent" : "  · not known  × silent", kDim, f.width() - x);
  if (l.gpus_per_cell > 1) f.screen.Put(x, y, fmt::format("  one cell = {} GPUs", l.gpus_per_cell), kDim, f.width() - x);
  ++y;
  if (nodes.empty()) {
    f.screen.Put(1, y, f.ui.filter.empty() ? "no GPU has reported yet" : "no GPU matches the filter", kDim);
    return y + 2;
  }
  size_t n = 0;
  for (int row = 0; row < l.rows; ++row, ++y) {
    x = 1;
    if (l.label > 0) {
      f.screen.Put(x, y, CutToWidth(nodes[n].name, l.label), kDim);
      x += l.label + 1;
    }
    for (int k = 0; k < l.per_row && n < nodes.size(); ++k, ++n) {
      const auto& members = nodes[n].gpus;
      for (size_t i = 0; i < members.size(); i += static_cast<size_t>(l.gpus_per_cell)) {
        const size_t end = i + static_cast<size_t>(l.gpus_per_cell);
        Glyph g = LevelGlyph(f.ui, MeanRatio(members, i, end, f.ui.metric, top_power));
        if (members[i]->state != "reporting" && !members[i]->state.empty()) g = {f.ui.ascii ? "x" : "×", {.foreground = kBadColor}};
        x = f.screen.Put(x, y, g.text, g.paint);
      }
      x += l.node_width + 1 - static_cast<int>((members.size() + l.gpus_per_cell - 1) / l.gpus_per_cell);
    }
  }
  const auto shown = static_cast<int64_t>(n);
  const auto left_out = static_cast<int64_t>(nodes.size()) - shown;
  const int64_t unread = f.data.gpus_total - static_cast<int64_t>(f.data.gpus.size());
  if (left_out > 0 || unread > 0) {
    std::string more;
    if (left_out > 0) more = fmt::format("{} more nodes do not fit; / filters", Count(static_cast<double>(left_out)));
    if (unread > 0) more += fmt::format("{}{} more GPUs were not asked for", more.empty() ? "" : "; ", Count(static_cast<double>(unread)));
    f.screen.Put(1, y++, more, kDim);
  }
  return y + 1;
}

int GridHeight(const TopData& d, const TopUi& ui, int width, int max_rows) {
  const GridLayout l = LayOutGrid(NodesOf(VisibleGpus(d, ui)), width, max_rows - 1);
  return std::max(1, l.rows) + 2;
}

// --- lists ---

struct ListColumn {
  std::string title;
  int width;
  bool right;
};

// First row shown so that the selected one is in view.
int FirstRow(int selected, int rows, int room) { return std::clamp(selected - room / 2, 0, std::max(0, rows - room)); }

void PutCell(const Frame& f, int x, int y, const ListColumn& c, std::string_view text, Paintwork paint) {
  f.screen.Put(x, y, c.right ? PadLeft(text, c.width) : PadRight(text, c.width), paint);
}

int DrawJobs(const Frame& f, int y, int end) {
  const auto jobs = VisibleJobs(f.data, f.ui);
  const int rows = static_cast<int>(jobs.size());
  std::string title = fmt::format("Jobs by {}{}", JobSortName(f.ui.sort), f.ui.reverse ? ", reversed" : "");
  int x = f.screen.Put(1, y, title, kBold);
  std::string remark = "  " + Count(rows);
  if (f.data.jobs_total > rows) remark += " of " + Count(static_cast<double>(f.data.jobs_total));
  remark += f.data.offline ? " in the last hour" : " running";
  if (!f.ui.filter.empty()) remark += fmt::format(", filter \"{}\"", f.ui.filter);
  f.screen.Put(x, y++, remark, kDim);

  const bool wide = f.width() >= 110;
  const bool trends = wide && std::any_of(jobs.begin(), jobs.end(), [](const TopJob* j) { return j->trend.size() > 1; });
  const int bar = f.width() >= 70 ? 12 : 0;
  // One blank at the left edge, one after each column.
  const int fixed = 1 + 10 + 6 + 8 + (bar > 0 ? bar + 1 : 0) + 7 + 7 + 8 + (trends ? 9 : 0) + (wide ? 22 : 0);
  const int job_width = std::clamp(f.width() - fixed - 1, 8, 34);
  std::vector<ListColumn> columns = {{"job", job_width, false}, {"user", 9, false}, {"GPUs", 5, true}, {"OFU", 7, true}};
  if (bar > 0) columns.push_back({"", bar, false});
  columns.insert(columns.end(), {{"lost", 6, true}, {"duty", 6, true}, {"power", 7, true}});
  if (trends) columns.push_back({"trend", 8, false});
  if (wide) columns.push_back({"note", std::max(0, f.width() - job_width - (fixed - 22) - 1), false});
  x = 1;
  for (const ListColumn& c : columns) {
    PutCell(f, x, y, c, c.title, {.foreground = kSoft, .bold = true});
    x += c.width + 1;
  }
  ++y;
  if (rows == 0) {
    f.screen.Put(1, y, f.ui.filter.empty() ? "no job is running; jobs come from hpc_job or pod labels, or from jobs.static_file" : "no job matches the filter",
                 kDim);
    return y + 1;
  }
  const int room = std::max(1, end - y);
  const int first = FirstRow(f.ui.selected, rows, room);
  for (int i = first; i < std::min(rows, first + room); ++i, ++y) {
    const TopJob& j = *jobs[static_cast<size_t>(i)];
    const UsageView& u = j.usage;
    const bool chosen = i == f.ui.selected;
    const Paintwork text{.background = static_cast<int16_t>(chosen ? 237 : -1), .bold = chosen};
    if (chosen) {
      f.screen.FillRow(y, text);
      f.screen.Put(0, y, f.ui.ascii ? ">" : "▸", text);
    }
    const auto tint = [&](int16_t color) {
      Paintwork p = text;
      p.foreground = color;
      return p;
    };
    x = 1;
    size_t c = 0;
    const auto cell = [&](std::string_view value, Paintwork paint) {
      PutCell(f, x, y, columns[c], value, paint);
      x += columns[c].width + 1;
      ++c;
    };
    cell(j.job, text);
    cell(j.user.empty() ? "-" : j.user, text);
    cell(Count(static_cast<double>(u.gpus)), text);
    cell(Percent(u.ofu), u.ofu ? tint(kUsefulColor) : kDim);
    if (bar > 0) {
      PutBar(f, x, y, u.ofu, bar, kUsefulColor);
      x += bar + 1, ++c;
    }
    cell(u.ofu ? fmt::format("{:.1f}", j.lost_gpus) : "-", tint(kLostColor));
    cell(u.gpu_util ? fmt::format("{:.0f} %", *u.gpu_util * 100) : "-", text);
    cell(Watts(u.power_w), text);
    if (trends) {
      const std::vector<std::optional<double>> trend(j.trend.end() - std::min<std::ptrdiff_t>(8, std::ssize(j.trend)), j.trend.end());
      cell(j.trend.size() > 1 ? Spark(f.ui, trend, 8) : "", tint(kUsefulColor));
    }
    if (wide) cell(JobNote(j.usage), tint(kSoft));
  }
  return y;
}

int DrawGpuList(const Frame& f, int y, int end) {
  const auto gpus = VisibleGpus(f.data, f.ui);
  const int rows = static_cast<int>(gpus.size());
  int x = f.screen.Put(1, y, fmt::format("GPUs, {} {} first", f.ui.reverse ? "highest" : "lowest", MetricName(f.ui.metric)), kBold);
  std::string remark = fmt::format("  {} GPUs", rows);
  if (!f.ui.filter.empty()) remark += fmt::format(", filter \"{}\"", f.ui.filter);
  f.screen.Put(x, y++, remark, kDim);
  const int node_width = std::clamp(f.width() - 62, 10, 30);
  const std::vector<ListColumn> columns = {{"node", node_width, false}, {"gpu", 5, true}, {"OFU", 7, true}, {"", 12, false},
                                           {"tensor", 7, true},         {"MHz", 5, true}, {"duty", 6, true}, {"power", 7, true},
                                           {"temp", 6, true},           {"note", std::max(0, f.width() - node_width - 66), false}};
  x = 1;
  for (const ListColumn& c : columns) {
    PutCell(f, x, y, c, c.title, {.foreground = kSoft, .bold = true});
    x += c.width + 1;
  }
  ++y;
  const int room = std::max(1, end - y);
  const int first = FirstRow(f.ui.selected, rows, room);
  for (int i = first; i < std::min(rows, first + room); ++i, ++y) {
    const TopGpu& g = *gpus[static_cast<size_t>(i)];
    const bool chosen = i == f.ui.selected;
    const Paintwork text{.background = static_cast<int16_t>(chosen ? 237 : -1), .bold = chosen};
    if (chosen) {
      f.screen.FillRow(y, text);
      f.screen.Put(0, y, f.ui.ascii ? ">" : "▸", text);
    }
    std::string index = g.index ? fmt::format("{}", *g.index) : "-";
    if (g.instance) index += fmt::format("/{}", *g.instance);
    const std::string values[] = {g.node, index, Percent(g.ofu), "", Percent(g.tensor), g.clock_mhz ? fmt::format("{:.0f}", *g.clock_mhz) : "-",
                                  g.duty ? fmt::format("{:.0f} %", *g.duty * 100) : "-", Watts(g.power_w),
                                  g.temperature_c ? fmt::format("{:.0f} °C", *g.temperature_c) : "-",
                                  g.state == "reporting" ? g.flags : g.state};
    x = 1;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (c == 3) {
        PutBar(f, x, y, g.ofu, columns[c].width, kUsefulColor);
      } else {
        PutCell(f, x, y, columns[c], values[c], text);
      }
      x += columns[c].width + 1;
    }
  }
  return y;
}

void DrawGpu(const Frame& f, int y, int end) {
  const TopGpu* gpu = nullptr;
  for (const TopGpu& g : f.data.gpus) {
    if (g.gpu == f.ui.gpu && g.instance == f.ui.gpu_instance) gpu = &g;
  }
  f.screen.Put(1, y, f.ui.gpu, kBold);
  if (gpu != nullptr) {
    f.screen.Put(1, y + 1,
                 fmt::format("{} · {} gpu {} · job {} · {}", gpu->model, gpu->node, gpu->index.value_or(-1), gpu->job.empty() ? "-" : gpu->job, gpu->state),
                 kDim);
  }
  y += 3;
  const auto line = [&](std::string_view label, const std::string& value, std::optional<double> ratio, bool bar) {
    if (y >= end) return;
    f.screen.Put(1, y, label);
    f.screen.Put(18, y, PadLeft(value, 10));
    if (bar) PutBar(f, 30, y, ratio, std::clamp(f.width() - 32, 8, 60), kUsefulColor);
    ++y;
  };
  if (gpu != nullptr) {
    line("OFU", Percent(gpu->ofu), gpu->ofu, true);
    line("tensor active", Percent(gpu->tensor), gpu->tensor, true);
    line("SM clock", gpu->clock_mhz ? fmt::format("{:.0f} MHz", *gpu->clock_mhz) : "-", std::nullopt, false);
    line("duty cycle", Percent(gpu->duty), gpu->duty, true);
    line("power", Watts(gpu->power_w), std::nullopt, false);
    line("temperature", gpu->temperature_c ? fmt::format("{:.0f} °C", *gpu->temperature_c) : "-", std::nullopt, false);
    line("memory used", gpu->memory_mib ? HumanCell(*gpu->memory_mib * 1048576, ColumnFormat::kBytes) : "-", std::nullopt, false);
    if (!gpu->flags.empty()) line("notes", gpu->flags, std::nullopt, false);
  }
  ++y;
  const auto series = [&](std::string_view label, const std::vector<std::optional<double>>& values) {
    if (y >= end || values.size() < 2) return;
    f.screen.Put(1, y, label);
    f.screen.Put(18, y++, Spark(f.ui, values, std::clamp(f.width() - 20, 8, 120)), {.foreground = kUsefulColor});
  };
  if (f.data.detail_id == f.ui.gpu) {
    series("OFU, last hour", f.data.detail_series.ofu);
    series("duty cycle", f.data.detail_series.gpu_util);
    series("power", f.data.detail_series.power_w);
  }
}

// --- the rest ---

void DrawHelp(const Frame& f) {
  static constexpr std::string_view kLines[] = {
      "  j k  arrows      move                      Enter   open job, then GPU",
      "  Esc  Backspace   back, clear filter        /       filter by job, user, node",
      "  o                sort: o then l lost, o OFU, g GPUs, d duty, p power, u user, j job, r reverse",
      "  m                next metric of the grid   p       pause",
      "  + -              slower, faster            r       refresh now",
      "  h ?              this help                 q       quit",
      "",
      "  OFU = tensor activity × SM clock ÷ maximum tensor clock: the share of the matrix arithmetic the",
      "  hardware could do that was done. lost = how many GPUs' worth of it was not. duty = time in any kernel.",
      "  A dot is a value that is not known; it is never drawn as 0.",
  };
  int y = 2;
  f.screen.Put(1, y++, "Keys", kBold);
  for (const std::string_view line : kLines) f.screen.Put(0, y++, line);
}

void DrawDetailLine(const Frame& f, int y) {
  const auto jobs = VisibleJobs(f.data, f.ui);
  if (f.ui.level != Level::kFleet || f.ui.selected < 0 || f.ui.selected >= std::ssize(jobs)) return;
  const TopJob& j = *jobs[static_cast<size_t>(f.ui.selected)];
  std::string text = j.job;
  if (!j.name.empty()) text += "  " + j.name;
  if (!j.workflow.empty()) text += "  · workflow " + j.workflow;
  text += fmt::format("  · tensor {}", Percent(j.usage.tensor_active));
  if (j.usage.sm_clock_mhz) text += fmt::format("  · {:.0f} MHz", *j.usage.sm_clock_mhz);
  if (const std::string note = JobNote(j.usage); !note.empty()) text += "  · " + note;
  f.screen.Put(1, y, text, {}, f.width() - 2);
}

void DrawFooter(const Frame& f) {
  const int y = f.height() - 1;
  if (f.ui.typing_filter) {
    f.screen.Put(1, y, "filter: " + f.ui.filter + (f.ui.ascii ? "_" : "▏") + "   Enter keeps it, Esc clears it", kBold);
    return;
  }
  if (f.ui.choosing_sort) {
    f.screen.Put(1, y, "sort by:  l lost   o OFU   g GPUs   d duty   p power   u user   j job   r reverse", kBold);
    return;
  }
  if (!f.data.error.empty()) {
    f.screen.Put(1, y, f.data.error, {.foreground = kBadColor, .bold = true}, f.width() - 2);
    return;
  }
  std::string keys = "h help  q quit  ";
  if (f.ui.level != Level::kFleet) keys += "Esc back  ";
  if (f.ui.level != Level::kGpu) keys += fmt::format("Enter open  / filter  o {}  m metric  ", f.ui.level == Level::kFleet ? "sort" : "turn");
  keys += "p pause";
  if (!f.data.offline) keys += fmt::format("  +/- every {}s", f.ui.interval_s);
  f.screen.Put(1, y, keys, kDim, f.width() - 2);
}

void Draw(const TopData& data, const TopUi& ui, Screen& screen) {
  const Frame f{data, ui, screen};
  if (screen.width() < kMinTopColumns || screen.height() < kMinTopRows) {
    screen.Put(0, 0, "terminal too small");
    return;
  }
  DrawHeader(f);
  if (ui.help) {
    DrawHelp(f);
    DrawFooter(f);
    return;
  }
  int y = 1;
  const bool tall = screen.height() >= 16;
  const int last = screen.height() - 1;  // the footer's row
  switch (ui.level) {
    case Level::kFleet: {
      y = DrawFigures(f, y, data.fleet, data.series, "OFU");
      if (tall) ++y;
      // The grid takes at most half of what is there; the list of jobs needs five rows to be of use.
      const int grid = std::min((last - y) / 2, last - y - 8);
      if (tall && grid >= 3) y = DrawGrid(f, y, grid - 1);
      const int end = tall ? last - 2 : last;
      DrawJobs(f, y, end);
      if (tall) DrawDetailLine(f, last - 1);
      break;
    }
    case Level::kJob: {
      y = DrawFigures(f, y, data.detail_usage, data.detail_series, "job " + ui.job + "  OFU");
      if (tall) ++y;
      if (tall) {
        TopUi grid_ui = ui;
        grid_ui.level = Level::kFleet;  // in the order of nodes
        const Frame g{data, grid_ui, screen};
        y = DrawGrid(g, y, std::max(3, (last - y) / 3));
      }
      DrawGpuList(f, y, last - (tall ? 1 : 0));
      break;
    }
    case Level::kGpu:
      DrawGpu(f, y + 1, last);
      break;
  }
  DrawFooter(f);
}

}  // namespace

Screen DrawTop(const TopData& data, const TopUi& ui, int width, int height) {
  Screen screen(width, height);
  Draw(data, ui, screen);
  if (ui.ascii) screen.MakeAscii();
  return screen;
}

int NaturalHeight(const TopData& data, const TopUi& ui, int width) {
  const int grid = GridHeight(data, ui, std::max(width, kMinTopColumns), 40) + 1;
  const int rows = static_cast<int>(VisibleJobs(data, ui).size());
  // Header, figures, blank, grid, title and head of the list, its rows, blank, detail, footer; the grid may take half.
  return std::clamp(std::max(4 + grid + 2 + rows + 3, 4 + 2 * grid + 3), 16, kMaxScreenRows);
}

}  // namespace flopwatch::cli
