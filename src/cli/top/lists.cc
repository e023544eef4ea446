#include "cli/top/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/top/columns.h"
#include "cli/views/style.h"

namespace flopwatch::cli::top {
namespace {

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

}  // namespace

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

}  // namespace flopwatch::cli::top
