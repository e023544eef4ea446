#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/top/columns.h"
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

// As wide as it is shown, with what would act on the terminal written out.
std::string Wrapped(const Frame& f, std::string_view text) {
  return Wrap(Visible(text), f.width() - 1, " ", " ");
}

// Text that is too long for its row goes on in the next ones, whole words each; at most `rows`.
// Returns the row after it.
int PutWrapped(const Frame& f, int y, std::string_view text, Paintwork paint, int rows = 8) {
  const std::string wrapped = Wrapped(f, text);
  for (size_t at = 0; at < wrapped.size() && rows > 0; --rows, ++y) {
    const size_t end = std::min(wrapped.find('\n', at), wrapped.size());
    f.screen.Put(0, y, std::string_view(wrapped).substr(at, end - at), paint);
    at = end + 1;
  }
  return y;
}

// The parts that fit into what is left of the row, each whole, the first ones first; what does not
// fit is left out. Returns the column after them.
int PutParts(const Frame& f, int x, int y, const std::vector<std::string>& parts, Paintwork paint,
             std::string_view between = "  ") {
  bool any = false;
  for (const std::string& part : parts) {
    const std::string more = (any ? std::string(between) : "") + part;
    if (x + DisplayWidth(Visible(more)) > f.width()) continue;
    x = f.screen.Put(x, y, more, paint);
    any = true;
  }
  return x;
}

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

// The fleet's (or job's) figures: two lines, or more where there is no OFU and its reason is long.
int DrawFigures(const Frame& f, int y, const UsageView& u, const SeriesView& series,
                std::string_view label) {
  const int bar = std::clamp(f.width() - 64, 10, 40);
  const std::string ofu = Percent(u.ofu);
  // A long name has a row of its own.
  if (DisplayWidth(label) + DisplayWidth(ofu) + bar + 4 > f.width()) {
    y = PutWrapped(f, y, label, kBold, 2);
    label = "OFU";
  }
  int x = f.screen.Put(1, y, fmt::format("{} ", label), kBold);
  x = f.screen.Put(x, y, ofu + " ", {.foreground = f.colors().useful, .bold = true});
  if (u.ofu) {
    x = PutBar(f, x, y, u.ofu, bar, f.colors().useful);
    const int room = f.width() - x - 3;
    if (room >= 8 && series.ofu.size() > 2) {
      f.screen.Put(x + 2, y, Spark(f.ui, series.ofu, std::min(room, 60)),
                   {.foreground = f.colors().useful});
    }
  } else if (x + 2 + DisplayWidth(u.reason) < f.width()) {
    f.screen.Put(x + 2, y, u.reason, f.dim());
  } else {
    y = PutWrapped(f, y + 1, u.reason, f.dim(), 2) - 1;
  }
  ++y;
  std::vector<std::string> parts = {"tensor " + Percent(u.tensor_active)};
  if (u.sm_clock_mhz) parts.push_back(fmt::format("clock {:.0f} MHz", *u.sm_clock_mhz));
  parts.push_back("duty " + Percent(u.gpu_util));
  parts.push_back("coverage " + Percent(u.coverage));
  if (u.power_w) parts.push_back(Watts(u.power_w) + " a GPU");
  if (f.data.samples_per_s && f.ui.level == Level::kFleet)
    parts.push_back(Count(*f.data.samples_per_s) + " samples/s");
  PutParts(f, 1, y, parts, f.dim(), "   ");
  return y + 1;
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
    l.label = std::max(l.label, DisplayWidth(n.name));
  }
  // Names stand whole, or not at all where they leave too little for the GPUs.
  if (width < 70 || l.label > width * 2 / 5) l.label = 0;
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
  std::vector<std::string> legend;
  if (l.gpus_per_cell > 1) legend.push_back(fmt::format("  one cell = {} GPUs", l.gpus_per_cell));
  legend.emplace_back(f.ui.ascii ? "  ? not known" : "  · not known");
  legend.emplace_back(f.ui.ascii ? "  x silent" : "  × silent");
  PutParts(f, x, y, legend, f.dim(), "");
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
      f.screen.Put(x, y, nodes[n].name, f.dim());
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
    std::vector<std::string> more;
    if (left_out > 0) more.push_back(fmt::format("{} more nodes do not fit", Count(left_out)));
    if (unread > 0) more.push_back(fmt::format("{} more GPUs were not asked for", Count(unread)));
    if (left_out > 0) more.emplace_back("/ filters");
    PutParts(f, 1, y++, more, f.dim(), "; ");
  }
  return y + 1;
}

int GridHeight(const TopData& d, const TopUi& ui, int width, int max_rows) {
  const GridLayout l = LayOutGrid(NodesOf(VisibleGpus(d, ui)), width, max_rows - 1);
  return std::max(1, l.rows) + 2;
}

// --- lists ---

// First row shown so that the selected one is in the middle of what is in view, and that is full.
int FirstRow(int selected, const std::vector<int>& heights, int room) {
  const int rows = static_cast<int>(heights.size());
  int first = std::clamp(selected, 0, std::max(0, rows - 1));
  for (int above = 0; first > 0; --first) {
    above += heights[static_cast<size_t>(first) - 1];
    if (above > room / 2) break;
  }
  int full = rows;  // the first of the rows that fill it up to the last one
  for (int used = 0; full > 0; --full) {
    used += heights[static_cast<size_t>(full) - 1];
    if (used > room) break;
  }
  return std::min(first, full);
}

// A text that no column is wide enough for, in pieces of at most `width` columns.
std::vector<std::string> Pieces(std::string_view text, int width) {
  std::vector<std::string> out;
  int used = width;
  for (size_t i = 0; i < text.size();) {
    const std::string_view glyph = text.substr(i, ReadUtf8(text, i).bytes);
    const int w = DisplayWidth(glyph);
    if (used + w > width) out.emplace_back(), used = 0;
    out.back() += glyph;
    used += w;
    i += glyph.size();
  }
  return out;
}

// What one row shows in a field.
struct CellText {
  std::string text = {};
  int16_t color = -1;
  std::optional<double> bar = {};  // of a bar
};

std::string Padded(const ListColumn& c, std::string_view text) {
  return c.right ? PadLeft(text, c.most) : PadRight(text, c.most);
}

template <typename CellOfField>
void DrawRow(const Frame& f, int y, const std::vector<ListColumn>& columns, const Paintwork& text,
             CellOfField&& cell) {
  int x = 1;
  for (const ListColumn& c : columns) {
    const CellText own = cell(c.field);
    Paintwork paint = text;
    if (own.color >= 0) paint.foreground = own.color;
    if (c.field == TopField::kBar) {
      PutBar(f, x, y, own.bar, c.most, f.colors().useful);
    } else {
      f.screen.Put(x, y,
                   Padded(c, c.field == TopField::kNote ? WholeParts(own.text, c.most) : own.text),
                   paint);
    }
    x += c.most + 1;
  }
}

// A row whose name is wider than its column has the name on lines of its own, above the rest.
std::vector<std::string> NameAbove(const Frame& f, const std::vector<ListColumn>& columns,
                                   const CellText& name) {
  const std::string shown = Visible(name.text);
  if (DisplayWidth(shown) <= columns.front().most) return {};
  return Pieces(shown, f.width() - 2);
}

// The titles, then as many rows as fit around the selected one; `cell(i, field)` says what row i
// has there. Returns the row after them.
template <typename CellOfRow>
int DrawList(const Frame& f, int y, int end, const std::vector<ListColumn>& columns, int rows,
             CellOfRow&& cell) {
  int x = 1;
  for (const ListColumn& c : columns) {
    const bool sorts = f.ui.level == Level::kFleet && c.sort != JobSort::kCount;
    f.screen.Put(
        x, y, Padded(c, c.title),
        {.foreground = f.colors().soft, .bold = true, .underline = sorts && c.sort == f.ui.sort});
    if (f.hits != nullptr && sorts) f.hits->push_back({y, x, x + c.most, std::nullopt, c.sort});
    x += c.most + 1;
  }
  ++y;
  const int room = std::max(1, end - y);
  std::vector<int> heights;
  for (int i = 0; i < rows; ++i)
    heights.push_back(1 + static_cast<int>(NameAbove(f, columns, cell(i, TopField::kName)).size()));
  const int first = FirstRow(f.ui.selected, heights, room);
  for (int i = first; i < rows && (i == first || y + heights[static_cast<size_t>(i)] <= end); ++i) {
    const bool chosen = i == f.ui.selected;
    const Paintwork text{.background = chosen ? f.colors().chosen : static_cast<int16_t>(-1),
                         .bold = chosen};
    const auto above = NameAbove(f, columns, cell(i, TopField::kName));
    for (int k = 0; k < heights[static_cast<size_t>(i)]; ++k) {
      if (chosen) f.screen.FillRow(y + k, text);
      if (f.hits != nullptr) f.hits->push_back({y + k, 0, f.width(), i});
    }
    if (chosen) f.screen.Put(0, y, f.ui.ascii ? ">" : "▸", text);
    for (const std::string& piece : above) f.screen.Put(1, y++, piece, text);
    DrawRow(f, y++, columns, text, [&](TopField field) {
      return field == TopField::kName && !above.empty() ? CellText{} : cell(i, field);
    });
  }
  return y;
}

// A column of text is as wide as its longest one, of those that are at most `most` wide.
int Longest(const std::vector<std::string>& texts, int least, int most = kMaxScreenColumns) {
  for (const std::string& t : texts) {
    if (const int width = DisplayWidth(Visible(t)); width <= most) least = std::max(least, width);
  }
  return least;
}

// Names that would take more of the row than this stand above it (NameAbove).
int MostName(const Frame& f) { return f.width() * 2 / 5; }

// Notes stand whole: the first part of each where the column is there at all.
ListColumn NoteColumn(const std::vector<std::string>& notes) {
  ListColumn c{TopField::kNote, "note"};
  for (const std::string& n : notes) {
    c.least = std::max(c.least, FirstPartWidth(n));
    c.most = std::max(c.most, DisplayWidth(Visible(n)));
  }
  if (c.most > 0) c.least = std::max(c.least, DisplayWidth(c.title));
  c.most = std::max(c.most, c.least);
  return c;
}

// What the list of jobs is and of how many; returns the row after it.
int DrawJobsTitle(const Frame& f, int y, size_t jobs) {
  std::string title = fmt::format("{} by {}{}", f.ui.tree ? "Users, jobs, GPUs" : "Jobs",
                                  JobSortName(f.ui.sort), f.ui.reverse ? ", reversed" : "");
  const int x = f.screen.Put(1, y, title, kBold);
  std::string count = Count(jobs);
  if (f.data.jobs_total > static_cast<int64_t>(jobs)) count += " of " + Count(f.data.jobs_total);
  std::vector<std::string> remarks = {count + (f.data.offline ? " in the last hour" : " running")};
  if (!f.ui.filter.empty()) remarks.push_back(fmt::format("filter \"{}\"", f.ui.filter));
  if (!f.data.offline) remarks.emplace_back("means of the last 5 min");
  PutParts(f, x + 2, y, remarks, f.dim(), ", ");
  return y + 1;
}

// What a list of jobs has room for: this first, then that.
constexpr TopField kJobOrder[] = {
    TopField::kName, TopField::kOfu,  TopField::kNote, TopField::kGpus,  TopField::kLost,
    TopField::kName, TopField::kDuty, TopField::kUser, TopField::kPower, TopField::kNote,
    TopField::kBar,  TopField::kBar,  TopField::kTrend};
constexpr TopField kGpuOrder[] = {TopField::kName,  TopField::kIndex,       TopField::kOfu,
                                  TopField::kNote,  TopField::kName,        TopField::kTensor,
                                  TopField::kClock, TopField::kDuty,        TopField::kPower,
                                  TopField::kNote,  TopField::kTemperature, TopField::kBar};
constexpr int kLeastName = 16;

std::string TreeNote(const TreeRow& t) {
  if (t.gpu != nullptr) return t.gpu->Note();
  if (t.job != nullptr) return JobNote(t.job->usage);
  return fmt::format("{} {}", Count(t.jobs), t.jobs == 1 ? "job" : "jobs");
}

std::string TreeName(const TreeRow& t, bool ascii) {
  const std::string_view sign = !t.has_parts ? " "
                                : ascii      ? (t.open ? "-" : "+")
                                             : (t.open ? "▾" : "▸");
  return fmt::format("{:{}}{} {}", "", 2 * t.depth, sign, t.name);
}

// One row of the list of jobs, whatever it stands for.
struct JobsRow {
  std::string name, user, note;
  int64_t gpus = 0;
  std::optional<double> ofu, duty, power_w;
  double lost_gpus = 0;
  const TopJob* job = nullptr;  // of a list
};

std::vector<JobsRow> RowsOfJobs(const Frame& f, const std::vector<const TopJob*>& jobs) {
  std::vector<JobsRow> out;
  if (f.ui.tree) {
    for (const TreeRow& t : TreeRows(f.data, f.ui))
      out.push_back({TreeName(t, f.ui.ascii), "", TreeNote(t), t.gpus, t.ofu, t.duty, t.power_w,
                     t.lost_gpus});
    return out;
  }
  for (const TopJob* j : jobs)
    out.push_back({j->job, j->user.empty() ? "-" : j->user, JobNote(j->usage), j->usage.gpus,
                   j->usage.ofu, j->usage.gpu_util, j->usage.power_w, j->lost_gpus, j});
  return out;
}

std::vector<ListColumn> JobColumns(const Frame& f, const std::vector<JobsRow>& rows) {
  std::vector<std::string> names, users, notes;
  bool trends = false;
  for (const JobsRow& r : rows) {
    names.push_back(r.name), users.push_back(r.user), notes.push_back(r.note);
    trends = trends || (r.job != nullptr && r.job->trend.size() > 1);
  }
  const std::string title = f.ui.tree ? "fleet / user / job / GPU" : "job";
  const int name = Longest(names, DisplayWidth(title), MostName(f)), user = Longest(users, 4);
  std::vector<ListColumn> all = {{TopField::kName, title,
                                  std::min(name, std::max(kLeastName, DisplayWidth(title))), name,
                                  false, JobSort::kJob}};
  if (!f.ui.tree) all.push_back({TopField::kUser, "user", user, user, false, JobSort::kUser});
  all.insert(all.end(), {{TopField::kGpus, "GPUs", 5, 5, true, JobSort::kGpus},
                         {TopField::kOfu, "OFU", 7, 7, true, JobSort::kOfu},
                         {TopField::kBar, "", 6, 12},
                         {TopField::kLost, "lost", 6, 6, true, JobSort::kLost},
                         {TopField::kDuty, "duty", 6, 6, true, JobSort::kDuty},
                         {TopField::kPower, "power", 7, 7, true, JobSort::kPower}});
  if (trends) all.push_back({TopField::kTrend, "trend", 8, 8});
  all.push_back(NoteColumn(notes));
  return FitColumns(std::move(all), kJobOrder, f.width());
}

CellText JobCell(const Frame& f, const JobsRow& r, TopField field) {
  switch (field) {
    case TopField::kName:
      return {r.name};
    case TopField::kUser:
      return {r.user};
    case TopField::kGpus:
      return {Count(r.gpus)};
    case TopField::kOfu:
      return {Percent(r.ofu), r.ofu ? f.colors().useful : f.colors().soft};
    case TopField::kBar:
      return {.bar = r.ofu};
    case TopField::kLost:
      return {r.ofu ? fmt::format("{:.1f}", r.lost_gpus) : "-", f.colors().lost};
    case TopField::kDuty:
      return {r.duty ? fmt::format("{:.0f} %", *r.duty * 100) : "-"};
    case TopField::kPower:
      return {Watts(r.power_w)};
    case TopField::kTrend: {
      if (r.job == nullptr || r.job->trend.size() < 2) return {};
      const auto& trend = r.job->trend;
      return {Spark(f.ui,
                    {trend.end() - std::min<std::ptrdiff_t>(8, std::ssize(trend)), trend.end()}, 8),
              f.colors().useful};
    }
    case TopField::kNote:
      return {r.note, f.colors().soft};
    default:
      return {};
  }
}

// Jobs, one a row, or the tree of users, jobs and GPUs.
int DrawJobs(const Frame& f, int y, int end) {
  const auto jobs = VisibleJobs(f.data, f.ui);
  y = DrawJobsTitle(f, y, jobs.size());
  if (jobs.empty()) {
    return PutWrapped(
        f, y + 1,
        f.ui.filter.empty()
            ? "no job is running; jobs come from hpc_job or pod labels, or from jobs.static_file"
            : "no job matches the filter",
        f.dim());
  }
  const std::vector<JobsRow> rows = RowsOfJobs(f, jobs);
  return DrawList(
      f, y, end, JobColumns(f, rows), static_cast<int>(rows.size()),
      [&](int i, TopField field) { return JobCell(f, rows[static_cast<size_t>(i)], field); });
}

std::vector<ListColumn> GpuColumns(const Frame& f, const std::vector<const TopGpu*>& gpus) {
  std::vector<std::string> nodes, notes;
  for (const TopGpu* g : gpus) nodes.push_back(g->node), notes.push_back(g->Note());
  const int node = Longest(nodes, 4, MostName(f));
  return FitColumns({{TopField::kName, "node", std::min(node, kLeastName), node},
                     {TopField::kIndex, "gpu", 5, 5, true},
                     {TopField::kOfu, "OFU", 7, 7, true},
                     {TopField::kBar, "", 12, 12},
                     {TopField::kTensor, "tensor", 7, 7, true},
                     {TopField::kClock, "MHz", 5, 5, true},
                     {TopField::kDuty, "duty", 6, 6, true},
                     {TopField::kPower, "power", 7, 7, true},
                     {TopField::kTemperature, "temp", 6, 6, true},
                     NoteColumn(notes)},
                    kGpuOrder, f.width());
}

CellText GpuCell(const TopGpu& g, TopField field) {
  switch (field) {
    case TopField::kName:
      return {g.node};
    case TopField::kIndex:
      return {(g.index ? fmt::format("{}", *g.index) : "-") +
              (g.instance ? fmt::format("/{}", *g.instance) : "")};
    case TopField::kOfu:
      return {Percent(g.ofu)};
    case TopField::kBar:
      return {.bar = g.ofu};
    case TopField::kTensor:
      return {Percent(g.tensor)};
    case TopField::kClock:
      return {g.clock_mhz ? fmt::format("{:.0f}", *g.clock_mhz) : "-"};
    case TopField::kDuty:
      return {g.duty ? fmt::format("{:.0f} %", *g.duty * 100) : "-"};
    case TopField::kPower:
      return {Watts(g.power_w)};
    case TopField::kTemperature:
      return {g.temperature_c ? fmt::format("{:.0f} °C", *g.temperature_c) : "-"};
    case TopField::kNote:
      return {g.Note()};
    default:
      return {};
  }
}

int DrawGpuList(const Frame& f, int y, int end) {
  const auto gpus = VisibleGpus(f.data, f.ui);
  const int rows = static_cast<int>(gpus.size());
  const int x = f.screen.Put(1, y,
                             fmt::format("GPUs, {} {} first", f.ui.reverse ? "highest" : "lowest",
                                         MetricName(f.ui.metric)),
                             kBold);
  std::vector<std::string> remarks = {fmt::format("{} GPUs", rows)};
  if (!f.ui.filter.empty()) remarks.push_back(fmt::format("filter \"{}\"", f.ui.filter));
  PutParts(f, x + 2, y++, remarks, f.dim(), ", ");
  return DrawList(f, y, end, GpuColumns(f, gpus), rows, [&](int i, TopField field) {
    return GpuCell(*gpus[static_cast<size_t>(i)], field);
  });
}

void DrawGpu(const Frame& f, int y, int end) {
  const TopGpu* gpu = nullptr;
  for (const TopGpu& g : f.data.gpus) {
    if (g.gpu == f.ui.gpu && g.instance == f.ui.gpu_instance) gpu = &g;
  }
  y = PutWrapped(f, y, f.ui.gpu, kBold);
  if (gpu != nullptr) {
    const std::string index = gpu->index ? fmt::format(" gpu {}", *gpu->index) : "";
    y = PutWrapped(f, y,
                   fmt::format("{} · {}{} · job {} · {}", gpu->model, gpu->node, index,
                               gpu->job.empty() ? "-" : gpu->job, gpu->state),
                   f.dim());
  }
  ++y;
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
    if (const std::string note = gpu->Note(); !note.empty() && y < end)
      y = PutWrapped(f, y, (gpu->ofu ? "notes: " : "no OFU: ") + note, {}, end - y);
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
  struct Key {
    std::string_view keys, what;
  };
  static constexpr Key kKeys[] = {
      {"j k, arrows", "move; Enter opens a job, then a GPU"},
      {"Esc, Backspace", "back, clear the filter"},
      {"/", "filter by job, user, workflow, node"},
      {"t", "tree: fleet > user > job > GPU; Enter and arrows unfold and fold"},
      {"o", "sort: then l lost, o OFU, g GPUs, d duty, p power, u user, j job, r reverse"},
      {"m", "next metric of the grid"},
      {"p, r", "pause, refresh now"},
      {"+ -", "slower, faster"},
      {"s, q", "save the screen as text, quit"},
      {"mouse",
       "wheel moves, click selects, again opens, on a title sorts; Shift marks text, or start with "
       "--no-mouse"},
  };
  static constexpr std::string_view kWords[] = {
      "OFU = tensor activity × SM clock ÷ maximum tensor clock: the share of the matrix arithmetic "
      "the hardware could do that was done. lost = how many GPUs' worth of it was not. duty = time "
      "in any kernel. coverage = the share of GPU-seconds an OFU is known for.",
      "A dot is a value that is not known; it is never drawn as 0.",
  };
  constexpr int kKeyWidth = 15;
  const std::string indent(kKeyWidth + 1, ' ');
  const int end = f.height() - 1;
  int y = 1;
  f.screen.Put(1, y++, "Keys", kBold);
  const auto put = [&](const std::string& wrapped) {
    for (size_t at = 0; at < wrapped.size() && y < end; ++y) {
      const size_t next = std::min(wrapped.find('\n', at), wrapped.size());
      f.screen.Put(0, y, std::string_view(wrapped).substr(at, next - at));
      at = next + 1;
    }
  };
  for (const Key& key : kKeys)
    put(Wrap(key.what, f.width() - 1, " " + PadRight(key.keys, kKeyWidth), indent));
  ++y;
  for (const std::string_view words : kWords) put(Wrap(words, f.width() - 1, " ", " "));
}

// Rows below the lists that say more of the chosen job than its row has room for.
int DetailRows(const Frame& f) {
  if (f.ui.level != Level::kFleet || f.ui.selected < 0 || f.height() < 16) return 0;
  return f.height() < 30 ? 2 : 3;
}

// The whole name of the chosen job and why its OFU is what it is, then what else fits.
void DrawDetail(const Frame& f, int y, int rows) {
  if (rows == 0) return;
  const auto at = static_cast<size_t>(f.ui.selected);
  const TopJob* chosen = nullptr;
  if (f.ui.tree) {
    const auto tree = TreeRows(f.data, f.ui);
    if (at < tree.size()) chosen = tree[at].job;
  } else if (const auto jobs = VisibleJobs(f.data, f.ui); at < jobs.size()) {
    chosen = jobs[at];
  }
  if (chosen == nullptr) return;
  const TopJob& j = *chosen;
  std::vector<std::string> parts = {j.job, j.cause, JobNote(j.usage), j.name};
  if (!j.workflow.empty()) parts.push_back("workflow " + j.workflow);
  if (!j.user.empty()) parts.push_back("user " + j.user);
  parts.push_back("tensor " + Percent(j.usage.tensor_active));
  if (j.usage.sm_clock_mhz) parts.push_back(fmt::format("{:.0f} MHz", *j.usage.sm_clock_mhz));
  std::string text;
  const auto fits = [&](const std::string& more) {
    const std::string wrapped = Wrapped(f, more);
    return std::count(wrapped.begin(), wrapped.end(), '\n') <= rows;
  };
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string longer = text.empty() ? part : text + " · " + part;
    if (fits(longer)) {
      text = longer;
    } else if (part == j.cause && fits(part)) {
      text = part;  // the name stands whole in its row
    }
  }
  PutWrapped(f, y, text, {}, rows);
}

// What went wrong or was done, whole, over as many of the last rows as it takes.
void DrawLast(const Frame& f, const std::string& text, Paintwork paint) {
  constexpr int kRows = 4;
  const std::string wrapped = Wrapped(f, text);
  const int rows =
      std::min<int>(kRows, static_cast<int>(std::count(wrapped.begin(), wrapped.end(), '\n')));
  for (int k = 0; k < rows; ++k) f.screen.FillRow(f.height() - rows + k, {});
  PutWrapped(f, f.height() - rows, text, paint, rows);
}

void DrawFooter(const Frame& f) {
  const int y = f.height() - 1;
  if (f.ui.typing_filter) {
    PutParts(f, 1, y,
             {"filter: " + f.ui.filter + (f.ui.ascii ? "_" : "▏"), "Enter keeps it, Esc clears it"},
             kBold);
    return;
  }
  if (f.ui.choosing_sort)
    return DrawLast(
        f, "sort by: l lost, o OFU, g GPUs, d duty, p power, u user, j job; r reverses it", kBold);
  if (!f.ui.message.empty()) return DrawLast(f, f.ui.message, kBold);
  if (!f.data.error.empty())
    return DrawLast(f, f.data.error, {.foreground = f.colors().bad, .bold = true});
  std::vector<std::string> keys = {"h help", "q quit"};
  if (f.ui.level != Level::kFleet) keys.emplace_back("Esc back");
  if (f.ui.level != Level::kGpu) {
    keys.insert(keys.end(), {"Enter open", "/ filter",
                             f.ui.level == Level::kFleet ? "o sort" : "o turn", "m metric"});
  }
  if (f.ui.level == Level::kFleet) keys.emplace_back(f.ui.tree ? "t list" : "t tree");
  keys.emplace_back("p pause");
  if (!f.data.offline) keys.push_back(fmt::format("+/- every {}s", f.ui.interval_s));
  PutParts(f, 1, y, keys, f.dim());  // h has all of them
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
      const int details = DetailRows(f);
      const int grid = std::min((last - y) / 2, last - y - 7 - details);
      if (tall && grid >= 3) y = DrawGrid(f, y, grid - 1);
      DrawJobs(f, y, tall ? last - 1 - details : last);
      DrawDetail(f, last - details, details);
      break;
    }
    case Level::kJob: {
      y = DrawFigures(f, y, data.detail_usage, data.detail_series,
                      "job " + ui.job + "  OFU, last hour");
      // Without an OFU its reason stands beside it already.
      if (tall && data.detail_usage.ofu && !data.detail_cause.empty())
        y = PutWrapped(f, y, "why: " + data.detail_cause, {}, 2);
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
