#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/top/lists.h"
#include "cli/top/paint.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace top {
namespace {

constexpr Paintwork kHeader{.bold = true, .reverse = true};

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
}  // namespace top

Screen DrawTop(const TopData& data, const TopUi& ui, int width, int height, TopHits* hits) {
  Screen screen(width, height);
  if (hits != nullptr) hits->clear();
  top::Draw(data, ui, screen, hits);
  if (ui.ascii) screen.MakeAscii();
  return screen;
}

int NaturalHeight(const TopData& data, const TopUi& ui, int width) {
  const int grid = top::GridHeight(data, ui, std::max(width, kMinTopColumns), 40) + 1;
  const int rows = RowCount(data, ui);
  // Header, figures, blank, grid, title and head of the list, its rows, blank, detail, footer; the
  // grid may take half.
  return std::clamp(std::max(4 + grid + 2 + rows + 3, 4 + 2 * grid + 3), 16, kMaxScreenRows);
}

}  // namespace flopwatch::cli
