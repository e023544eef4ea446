#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

// `scale` goes from dark to bright, told apart in grey and by colour-blind eyes (after viridis).
// Height of the glyph says the same.
struct Palette {
  std::array<int16_t, 8> scale;
  int16_t useful, lost, bad, soft, track, chosen;
};
constexpr Palette kDark = {{60, 61, 31, 30, 36, 72, 113, 184}, 75, 214, 203, 245, 238, 237};
// A light background has the same hues, dark enough to read, and the scale from light to dark.
constexpr Palette kLight = {{187, 150, 108, 72, 30, 24, 18, 53}, 25, 130, 160, 240, 252, 254};
const Palette& Colors(const TopUi& ui) { return ui.light ? kLight : kDark; }
constexpr std::array<std::string_view, 8> kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels = "_.-~=+*#";
constexpr Paintwork kBold{.bold = true};
constexpr Paintwork kHeader{.bold = true, .reverse = true};

struct Frame {
  const TopData& data;
  const TopUi& ui;
  Screen& screen;
  TopHits* hits;
  const Palette& colors() const { return Colors(ui); }
  Paintwork dim() const { return {.foreground = colors().soft}; }
  int width() const { return screen.width(); }
  int height() const { return screen.height(); }
};

// Scaled() is where a metric stands between nothing and full.
double Scaled(double value, Metric metric, double top_power) {
  if (metric == Metric::kPower) return top_power > 0 ? value / top_power : 0;
  return metric == Metric::kTemperature ? (value - 20) / 70 : value;  // 20 to 90 °C
}

// The scale of OFU ends at 60 %: few jobs pass it, and below it every step shows (an 8-level scale
// to 100 % would paint a whole fleet in three shades).
double TopOf(Metric metric) {
  return metric == Metric::kOfu || metric == Metric::kTensor ? 0.6 : 1.0;
}

struct Glyph {
  std::string text;
  Paintwork paint;
};

Glyph LevelGlyph(const TopUi& ui, std::optional<double> ratio) {
  if (!ratio) return {ui.ascii ? "?" : "·", {.foreground = Colors(ui).soft}};
  const int level = std::clamp(static_cast<int>(*ratio / TopOf(ui.metric) * 8), 0, 7);
  return {ui.ascii ? std::string(1, kAsciiLevels[level]) : std::string(kLevels[level]),
          {.foreground = Colors(ui).scale[static_cast<size_t>(level)]}};
}

int PutBar(const Frame& f, int x, int y, std::optional<double> ratio, int width, int16_t color) {
  ViewOptions v;
  v.ascii = f.ui.ascii;
  const std::string bar = Bar(v, ratio, width);
  if (!ratio) return f.screen.Put(x, y, bar, f.dim());
  // The filled part ends where the track's glyph begins.
  const std::string_view track = f.ui.ascii ? "-" : "░";
  const size_t at = std::min(bar.find(track), bar.size());
  x = f.screen.Put(x, y, std::string_view(bar).substr(0, at), {.foreground = color});
  return f.screen.Put(x, y, std::string_view(bar).substr(at), {.foreground = f.colors().track});
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
  std::string right =
      d.offline ? "stored, up to " +
                      (d.now.size() >= 16 ? d.now.substr(0, 10) + " " + d.now.substr(11, 5) : d.now)
                : Clock(d.now);
  if (f.ui.paused) right = "paused  " + right;
  right += " ";
  const int right_at = f.width() - DisplayWidth(right);
  // Trouble first: what does not fit is left out whole.
  std::vector<std::string> parts;
  if (d.gpus_reporting) {
    parts.push_back(
        fmt::format("{} of {} GPUs reporting", Count(*d.gpus_reporting), Count(d.gpus_deployed)));
  } else {
    parts.push_back(fmt::format("{} GPUs", Count(d.gpus_deployed)));
  }
  if (d.targets_up < d.targets)
    parts.push_back(fmt::format("{} of {} targets not up", d.targets - d.targets_up, d.targets));
  parts.push_back(fmt::format("{} jobs", Count(d.jobs_running)));
  parts.push_back(fmt::format("{} nodes", Count(d.nodes)));
  std::string left = " flopwatch ";
  for (const std::string& part : parts) {
    const std::string more = (left.size() > 11 ? " · " : " ") + part;
    if (DisplayWidth(left) + DisplayWidth(more) + 1 < right_at) left += more;
  }
  f.screen.Put(0, 0, left, kHeader, f.width());
  if (right_at > DisplayWidth(left)) f.screen.Put(right_at, 0, right, kHeader);
}

// The fleet's (or job's) figures: two lines.
int DrawFigures(const Frame& f, int y, const UsageView& u, const SeriesView& series,
                std::string_view label) {
  const int bar = std::clamp(f.width() - 64, 10, 40);
  int x = f.screen.Put(1, y, fmt::format("{} ", label), kBold);
  x = f.screen.Put(x, y, fmt::format("{} ", Percent(u.ofu)),
                   {.foreground = f.colors().useful, .bold = true});
  x = PutBar(f, x, y, u.ofu, bar, f.colors().useful);
  const int room = f.width() - x - 3;
  if (room >= 8 && series.ofu.size() > 2) {
    f.screen.Put(x + 2, y, Spark(f.ui, series.ofu, std::min(room, 60)),
                 {.foreground = f.colors().useful});
  }
  if (!u.ofu && !u.reason.empty()) f.screen.Put(x + 2, y, u.reason, f.dim());
  std::string line = fmt::format("tensor {}", Percent(u.tensor_active));
  if (u.sm_clock_mhz) line += fmt::format("   clock {:.0f} MHz", *u.sm_clock_mhz);
  line += fmt::format("   duty {}   coverage {}", Percent(u.gpu_util), Percent(u.coverage));
  if (u.power_w) line += fmt::format("   {} a GPU", Watts(u.power_w));
  if (f.data.samples_per_s && f.ui.level == Level::kFleet)
    line += fmt::format("   {} samples/s", Count(*f.data.samples_per_s));
  f.screen.Put(1, y + 1, line, f.dim(), f.width() - 2);
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

std::optional<double> MeanRatio(const std::vector<const TopGpu*>& gpus, size_t from, size_t to,
                                Metric metric, double top_power) {
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
  x = f.screen.Put(x, y, low, f.dim());
  for (int level = 0; level < 8; ++level) {
    const Glyph g = LevelGlyph(f.ui, (level + 0.5) / 8 * TopOf(f.ui.metric));
    x = f.screen.Put(x, y, g.text, g.paint);
  }
  x = f.screen.Put(x, y, high, f.dim());
  x = f.screen.Put(x, y, f.ui.ascii ? "  ? not known  x silent" : "  · not known  × silent",
                   f.dim(), f.width() - x);
  if (l.gpus_per_cell > 1)
    f.screen.Put(x, y, fmt::format("  one cell = {} GPUs", l.gpus_per_cell), f.dim(),
                 f.width() - x);
  ++y;
  if (nodes.empty()) {
    f.screen.Put(1, y,
                 f.ui.filter.empty() ? "no GPU has reported yet" : "no GPU matches the filter",
                 f.dim());
    return y + 2;
  }
  size_t n = 0;
  for (int row = 0; row < l.rows; ++row, ++y) {
    x = 1;
    if (l.label > 0) {
      f.screen.Put(x, y, CutToWidth(nodes[n].name, l.label), f.dim());
      x += l.label + 1;
    }
    for (int k = 0; k < l.per_row && n < nodes.size(); ++k, ++n) {
      const auto& members = nodes[n].gpus;
      for (size_t i = 0; i < members.size(); i += static_cast<size_t>(l.gpus_per_cell)) {
        const size_t end = i + static_cast<size_t>(l.gpus_per_cell);
        Glyph g = LevelGlyph(f.ui, MeanRatio(members, i, end, f.ui.metric, top_power));
        if (members[i]->state != "reporting" && !members[i]->state.empty())
          g = {f.ui.ascii ? "x" : "×", {.foreground = f.colors().bad}};
        x = f.screen.Put(x, y, g.text, g.paint);
      }
      x += l.node_width + 1 -
           static_cast<int>((members.size() + l.gpus_per_cell - 1) / l.gpus_per_cell);
    }
  }
  const auto shown = static_cast<int64_t>(n);
  const auto left_out = static_cast<int64_t>(nodes.size()) - shown;
  const int64_t unread = f.data.gpus_total - static_cast<int64_t>(f.data.gpus.size());
  if (left_out > 0 || unread > 0) {
    std::string more;
    if (left_out > 0) more = fmt::format("{} more nodes do not fit; / filters", Count(left_out));
    if (unread > 0)
      more +=
          fmt::format("{}{} more GPUs were not asked for", more.empty() ? "" : "; ", Count(unread));
    f.screen.Put(1, y++, more, f.dim());
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
  JobSort sort = JobSort::kCount;  // what a click on the title sorts by
};

// First row shown so that the selected one is in view.
int FirstRow(int selected, int rows, int room) {
  return std::clamp(selected - room / 2, 0, std::max(0, rows - room));
}

// Writes the cells of one row, left to right.
class RowWriter {
 public:
  RowWriter(const Frame& f, int y, const std::vector<ListColumn>& columns, Paintwork text)
      : f_(f), y_(y), columns_(columns), text_(text) {}
  void Cell(std::string_view value) { Cell(value, text_); }
  void Cell(std::string_view value, int16_t color) {
    Paintwork p = text_;
    p.foreground = color;
    Cell(value, p);
  }
  void Bar(std::optional<double> ratio) {
    PutBar(f_, x_, y_, ratio, columns_[c_].width, f_.colors().useful);
    Next();
  }

 private:
  void Cell(std::string_view value, Paintwork paint) {
    const ListColumn& c = columns_[c_];
    f_.screen.Put(x_, y_, c.right ? PadLeft(value, c.width) : PadRight(value, c.width), paint);
    Next();
  }
  void Next() { x_ += columns_[c_++].width + 1; }

  const Frame& f_;
  const int y_;
  const std::vector<ListColumn>& columns_;
  const Paintwork text_;
  size_t c_ = 0;
  int x_ = 1;
};

// The titles, then as many rows as fit around the selected one; `draw(i, writer)` fills row i.
// Returns the row after them.
template <typename Draw>
int DrawList(const Frame& f, int y, int end, const std::vector<ListColumn>& columns, int rows,
             Draw&& draw) {
  int x = 1;
  for (const ListColumn& c : columns) {
    const bool sorts = f.ui.level == Level::kFleet && c.sort != JobSort::kCount;
    f.screen.Put(
        x, y, c.right ? PadLeft(c.title, c.width) : PadRight(c.title, c.width),
        {.foreground = f.colors().soft, .bold = true, .underline = sorts && c.sort == f.ui.sort});
    if (f.hits != nullptr && sorts) f.hits->push_back({y, x, x + c.width, std::nullopt, c.sort});
    x += c.width + 1;
  }
  ++y;
  const int room = std::max(1, end - y);
  const int first = FirstRow(f.ui.selected, rows, room);
  for (int i = first; i < std::min(rows, first + room); ++i, ++y) {
    const bool chosen = i == f.ui.selected;
    const Paintwork text{.background = chosen ? f.colors().chosen : static_cast<int16_t>(-1),
                         .bold = chosen};
    if (chosen) {
      f.screen.FillRow(y, text);
      f.screen.Put(0, y, f.ui.ascii ? ">" : "▸", text);
    }
    if (f.hits != nullptr) f.hits->push_back({y, 0, f.width(), i});
    RowWriter writer(f, y, columns, text);
    draw(i, writer);
  }
  return y;
}

// What the list of jobs is and of how many; returns the row after it.
int DrawJobsTitle(const Frame& f, int y, size_t jobs) {
  std::string title = fmt::format("{} by {}{}", f.ui.tree ? "Users, jobs, GPUs" : "Jobs",
                                  JobSortName(f.ui.sort), f.ui.reverse ? ", reversed" : "");
  int x = f.screen.Put(1, y, title, kBold);
  std::string remark = "  " + Count(jobs);
  if (f.data.jobs_total > static_cast<int64_t>(jobs)) remark += " of " + Count(f.data.jobs_total);
  remark += f.data.offline ? " in the last hour" : " running, means of the last 5 min";
  if (!f.ui.filter.empty()) remark += fmt::format(", filter \"{}\"", f.ui.filter);
  f.screen.Put(x, y, remark, f.dim());
  return y + 1;
}

// The layout says what of a row of jobs there is room for.
struct JobsLayout {
  bool wide, trends;
  int bar;  // columns; 0: none
  std::vector<ListColumn> columns;
};

JobsLayout LayOutJobs(const Frame& f, const std::vector<const TopJob*>& jobs) {
  const bool wide = f.width() >= 110;
  const bool trends =
      wide && !f.ui.tree &&
      std::any_of(jobs.begin(), jobs.end(), [](const TopJob* j) { return j->trend.size() > 1; });
  const int bar = f.width() >= 70 ? 12 : 0;
  // There is one blank at the left edge, one after each column.
  const int user = f.ui.tree ? 0 : 10, note = wide ? 22 : 0;
  const int fixed =
      1 + user + 6 + 8 + (bar > 0 ? bar + 1 : 0) + 7 + 7 + 8 + (trends ? 9 : 0) + note;
  const int name = std::clamp(f.width() - fixed - 1, 8, f.ui.tree ? 44 : 34);
  std::vector<ListColumn> columns = {
      {f.ui.tree ? "fleet / user / job / GPU" : "job", name, false, JobSort::kJob}};
  if (user > 0) columns.push_back({"user", user - 1, false, JobSort::kUser});
  columns.insert(columns.end(),
                 {{"GPUs", 5, true, JobSort::kGpus}, {"OFU", 7, true, JobSort::kOfu}});
  if (bar > 0) columns.push_back({"", bar, false});
  columns.insert(columns.end(), {{"lost", 6, true, JobSort::kLost},
                                 {"duty", 6, true, JobSort::kDuty},
                                 {"power", 7, true, JobSort::kPower}});
  if (trends) columns.push_back({"trend", 8, false});
  if (wide) columns.push_back({"note", std::max(0, f.width() - name - (fixed - note) - 1), false});
  return {wide, trends, bar, std::move(columns)};
}

std::string TreeNote(const TreeRow& t) {
  if (t.gpu != nullptr) return t.gpu->state == "reporting" ? t.gpu->flags : t.gpu->state;
  if (t.job != nullptr) return JobNote(t.job->usage);
  return fmt::format("{} {}", Count(t.jobs), t.jobs == 1 ? "job" : "jobs");
}

// Jobs, one a row, or the tree of users, jobs and GPUs.
int DrawJobs(const Frame& f, int y, int end) {
  const auto jobs = VisibleJobs(f.data, f.ui);
  y = DrawJobsTitle(f, y, jobs.size());
  if (jobs.empty()) {
    f.screen.Put(
        1, y + 1,
        f.ui.filter.empty()
            ? "no job is running; jobs come from hpc_job or pod labels, or from jobs.static_file"
            : "no job matches the filter",
        f.dim());
    return y + 2;
  }
  const JobsLayout l = LayOutJobs(f, jobs);
  const auto measures = [&](RowWriter& row, int64_t gpus, std::optional<double> ofu, double lost,
                            std::optional<double> duty, std::optional<double> power) {
    row.Cell(Count(gpus));
    row.Cell(Percent(ofu), ofu ? f.colors().useful : f.colors().soft);
    if (l.bar > 0) row.Bar(ofu);
    row.Cell(ofu ? fmt::format("{:.1f}", lost) : "-", f.colors().lost);
    row.Cell(duty ? fmt::format("{:.0f} %", *duty * 100) : "-");
    row.Cell(Watts(power));
  };
  if (f.ui.tree) {
    const auto tree = TreeRows(f.data, f.ui);
    return DrawList(f, y, end, l.columns, static_cast<int>(tree.size()),
                    [&](int i, RowWriter& row) {
                      const TreeRow& t = tree[static_cast<size_t>(i)];
                      const std::string_view sign = !t.has_parts ? " "
                                                    : f.ui.ascii ? (t.open ? "-" : "+")
                                                                 : (t.open ? "▾" : "▸");
                      row.Cell(fmt::format("{:{}}{} {}", "", 2 * t.depth, sign, t.name));
                      measures(row, t.gpus, t.ofu, t.lost_gpus, t.duty, t.power_w);
                      if (l.wide) row.Cell(TreeNote(t), f.colors().soft);
                    });
  }
  return DrawList(f, y, end, l.columns, static_cast<int>(jobs.size()), [&](int i, RowWriter& row) {
    const TopJob& j = *jobs[static_cast<size_t>(i)];
    row.Cell(j.job);
    row.Cell(j.user.empty() ? "-" : j.user);
    measures(row, j.usage.gpus, j.usage.ofu, j.lost_gpus, j.usage.gpu_util, j.usage.power_w);
    if (l.trends) {
      const std::vector<std::optional<double>> trend(
          j.trend.end() - std::min<std::ptrdiff_t>(8, std::ssize(j.trend)), j.trend.end());
      row.Cell(j.trend.size() > 1 ? Spark(f.ui, trend, 8) : "", f.colors().useful);
    }
    if (l.wide) row.Cell(JobNote(j.usage), f.colors().soft);
  });
}

int DrawGpuList(const Frame& f, int y, int end) {
  const auto gpus = VisibleGpus(f.data, f.ui);
  const int rows = static_cast<int>(gpus.size());
  int x = f.screen.Put(1, y,
                       fmt::format("GPUs, {} {} first", f.ui.reverse ? "highest" : "lowest",
                                   MetricName(f.ui.metric)),
                       kBold);
  std::string remark = fmt::format("  {} GPUs", rows);
  if (!f.ui.filter.empty()) remark += fmt::format(", filter \"{}\"", f.ui.filter);
  f.screen.Put(x, y++, remark, f.dim());
  const int node_width = std::clamp(f.width() - 62, 10, 30);
  const std::vector<ListColumn> columns = {
      {"node", node_width, false},
      {"gpu", 5, true},
      {"OFU", 7, true},
      {"", 12, false},
      {"tensor", 7, true},
      {"MHz", 5, true},
      {"duty", 6, true},
      {"power", 7, true},
      {"temp", 6, true},
      {"note", std::max(0, f.width() - node_width - 66), false}};
  return DrawList(f, y, end, columns, rows, [&](int i, RowWriter& row) {
    const TopGpu& g = *gpus[static_cast<size_t>(i)];
    row.Cell(g.node);
    row.Cell((g.index ? fmt::format("{}", *g.index) : "-") +
             (g.instance ? fmt::format("/{}", *g.instance) : ""));
    row.Cell(Percent(g.ofu));
    row.Bar(g.ofu);
    row.Cell(Percent(g.tensor));
    row.Cell(g.clock_mhz ? fmt::format("{:.0f}", *g.clock_mhz) : "-");
    row.Cell(g.duty ? fmt::format("{:.0f} %", *g.duty * 100) : "-");
    row.Cell(Watts(g.power_w));
    row.Cell(g.temperature_c ? fmt::format("{:.0f} °C", *g.temperature_c) : "-");
    row.Cell(g.state == "reporting" ? g.flags : g.state);
  });
}

void DrawGpu(const Frame& f, int y, int end) {
  const TopGpu* gpu = nullptr;
  for (const TopGpu& g : f.data.gpus) {
    if (g.gpu == f.ui.gpu && g.instance == f.ui.gpu_instance) gpu = &g;
  }
  f.screen.Put(1, y, f.ui.gpu, kBold);
  if (gpu != nullptr) {
    f.screen.Put(
        1, y + 1,
        fmt::format("{} · {} gpu {} · job {} · {}", gpu->model, gpu->node, gpu->index.value_or(-1),
                    gpu->job.empty() ? "-" : gpu->job, gpu->state),
        f.dim());
  }
  y += 3;
  const auto line = [&](std::string_view label, const std::string& value,
                        std::optional<double> ratio, bool bar) {
    if (y >= end) return;
    f.screen.Put(1, y, label);
    f.screen.Put(18, y, PadLeft(value, 10));
    if (bar) PutBar(f, 30, y, ratio, std::clamp(f.width() - 32, 8, 60), f.colors().useful);
    ++y;
  };
  if (gpu != nullptr) {
    line("OFU", Percent(gpu->ofu), gpu->ofu, true);
    line("tensor active", Percent(gpu->tensor), gpu->tensor, true);
    line("SM clock", gpu->clock_mhz ? fmt::format("{:.0f} MHz", *gpu->clock_mhz) : "-",
         std::nullopt, false);
    line("duty cycle", Percent(gpu->duty), gpu->duty, true);
    line("power", Watts(gpu->power_w), std::nullopt, false);
    line("temperature", gpu->temperature_c ? fmt::format("{:.0f} °C", *gpu->temperature_c) : "-",
         std::nullopt, false);
    line("memory used",
         gpu->memory_mib ? HumanCell(*gpu->memory_mib * 1048576, ColumnFormat::kBytes) : "-",
         std::nullopt, false);
    if (!gpu->flags.empty()) line("notes", gpu->flags, std::nullopt, false);
  }
  ++y;
  const auto series = [&](std::string_view label,
                          const std::vector<std::optional<double>>& values) {
    if (y >= end || values.size() < 2) return;
    f.screen.Put(1, y, label);
    f.screen.Put(18, y++, Spark(f.ui, values, std::clamp(f.width() - 20, 8, 120)),
                 {.foreground = f.colors().useful});
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
      "  Esc  Backspace   back, clear filter        /       filter by job, user, workflow, node",
      "  t                tree: fleet > user > job > GPU; Enter and arrows unfold and fold, Space "
      "does either",
      "  o                sort: o then l lost, o OFU, g GPUs, d duty, p power, u user, j job, r "
      "reverse",
      "  m                next metric of the grid   p       pause",
      "  + -              slower, faster            r       refresh now",
      "  s                save the screen as text   q       quit",
      "  mouse            wheel moves, a click selects, a second one opens, a click on a title "
      "sorts",
      "                   (hold Shift to mark text, or start with --no-mouse)",
      "",
      "  OFU = tensor activity × SM clock ÷ maximum tensor clock: the share of the matrix "
      "arithmetic the",
      "  hardware could do that was done. lost = how many GPUs' worth of it was not. duty = time "
      "in any kernel.",
      "  Sums weigh each GPU by its seconds; coverage = the share of those seconds an OFU is known "
      "for.",
      "  A dot is a value that is not known; it is never drawn as 0.",
  };
  int y = 2;
  f.screen.Put(1, y++, "Keys", kBold);
  for (const std::string_view line : kLines) f.screen.Put(0, y++, line);
}

void DrawDetailLine(const Frame& f, int y) {
  if (f.ui.level != Level::kFleet || f.ui.selected < 0) return;
  const auto at = static_cast<size_t>(f.ui.selected);
  const TopJob* chosen = nullptr;
  if (f.ui.tree) {
    const auto rows = TreeRows(f.data, f.ui);
    if (at < rows.size()) chosen = rows[at].job;
  } else if (const auto jobs = VisibleJobs(f.data, f.ui); at < jobs.size()) {
    chosen = jobs[at];
  }
  if (chosen == nullptr) return;
  const TopJob& j = *chosen;
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
    f.screen.Put(
        1, y,
        "filter: " + f.ui.filter + (f.ui.ascii ? "_" : "▏") + "   Enter keeps it, Esc clears it",
        kBold);
    return;
  }
  if (f.ui.choosing_sort) {
    f.screen.Put(
        1, y, "sort by:  l lost   o OFU   g GPUs   d duty   p power   u user   j job   r reverse",
        kBold);
    return;
  }
  if (!f.ui.message.empty()) {
    f.screen.Put(1, y, f.ui.message, kBold, f.width() - 2);
    return;
  }
  if (!f.data.error.empty()) {
    f.screen.Put(1, y, f.data.error, {.foreground = f.colors().bad, .bold = true}, f.width() - 2);
    return;
  }
  std::vector<std::string> keys = {"h help", "q quit"};
  if (f.ui.level != Level::kFleet) keys.emplace_back("Esc back");
  if (f.ui.level != Level::kGpu) {
    keys.insert(keys.end(), {"Enter open", "/ filter",
                             f.ui.level == Level::kFleet ? "o sort" : "o turn", "m metric"});
  }
  if (f.ui.level == Level::kFleet) keys.emplace_back(f.ui.tree ? "t list" : "t tree");
  keys.emplace_back("p pause");
  if (!f.data.offline) keys.push_back(fmt::format("+/- every {}s", f.ui.interval_s));
  // What does not fit is left out whole; h has all of them.
  int x = 1;
  for (const std::string& key : keys) {
    if (x + DisplayWidth(key) >= f.width()) break;
    x = f.screen.Put(x, y, key, f.dim()) + 2;
  }
}

void Draw(const TopData& data, const TopUi& ui, Screen& screen, TopHits* hits) {
  const Frame f{data, ui, screen, hits};
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
      y = DrawFigures(f, y, data.fleet, data.series,
                      data.offline ? "OFU, last hour" : "OFU, last 5 min");
      if (tall) ++y;
      // The grid takes at most half of the rows; the list of jobs needs five to be of use.
      const int grid = std::min((last - y) / 2, last - y - 8);
      if (tall && grid >= 3) y = DrawGrid(f, y, grid - 1);
      const int end = tall ? last - 2 : last;
      DrawJobs(f, y, end);
      if (tall) DrawDetailLine(f, last - 1);
      break;
    }
    case Level::kJob: {
      y = DrawFigures(f, y, data.detail_usage, data.detail_series,
                      "job " + ui.job + "  OFU, last hour");
      if (tall) ++y;
      if (tall) {
        TopUi grid_ui = ui;
        grid_ui.level = Level::kFleet;  // in the order of nodes
        const Frame g{data, grid_ui, screen, nullptr};
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

Screen DrawTop(const TopData& data, const TopUi& ui, int width, int height, TopHits* hits) {
  Screen screen(width, height);
  if (hits != nullptr) hits->clear();
  Draw(data, ui, screen, hits);
  if (ui.ascii) screen.MakeAscii();
  return screen;
}

int NaturalHeight(const TopData& data, const TopUi& ui, int width) {
  const int grid = GridHeight(data, ui, std::max(width, kMinTopColumns), 40) + 1;
  const int rows = RowCount(data, ui);
  // Header, figures, blank, grid, title and head of the list, its rows, blank, detail, footer; the
  // grid may take half.
  return std::clamp(std::max(4 + grid + 2 + rows + 3, 4 + 2 * grid + 3), 16, kMaxScreenRows);
}

}  // namespace flopwatch::cli
