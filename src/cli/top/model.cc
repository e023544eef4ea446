#include "cli/top/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.h"

namespace flopwatch::cli {
namespace {

bool Has(const std::string& text, const std::string& lower_needle) {
  return LowerCase(text).find(lower_needle) != std::string::npos;
}

// Absent values come last in either direction.
template <typename T>
bool Before(const std::optional<T>& a, const std::optional<T>& b, bool descending) {
  if (a.has_value() != b.has_value()) return a.has_value();
  if (!a) return false;
  return descending ? *b < *a : *a < *b;
}

}  // namespace

std::string_view MetricName(Metric metric) {
  // The names are in the order of Metric.
  static constexpr std::string_view kNames[] = {"OFU", "tensor activity", "duty cycle", "power",
                                                "temperature"};
  return kNames[static_cast<size_t>(metric)];
}

std::string_view JobSortName(JobSort sort) {
  // The names are in the order of JobSort.
  static constexpr std::string_view kNames[] = {"lost",  "ofu",  "gpus", "duty",
                                                "power", "user", "job"};
  return kNames[static_cast<size_t>(sort)];
}

std::optional<double> TopGpu::value(Metric metric) const {
  // The names are in the order of Metric.
  static constexpr std::optional<double> TopGpu::*kValues[] = {
      &TopGpu::ofu, &TopGpu::tensor, &TopGpu::duty, &TopGpu::power_w, &TopGpu::temperature_c};
  return this->*kValues[static_cast<size_t>(metric)];
}

TopData MakeTopData(const TopAnswers& a) {
  TopData d;
  d.offline = a.offline;
  d.source = a.source;
  d.now = a.status["now"].text();
  d.gpus_deployed = a.status["gpus"].integer_or(0);
  d.gpus_reporting = a.status["gpus_reporting"].integer();
  d.nodes = a.status["nodes"].integer_or(0);
  d.jobs_running = a.status["jobs_running"].integer_or(0);
  d.samples_per_s = a.status["ingest"]["samples_per_s"].number();
  d.targets = a.targets["total"].integer_or(0);
  d.targets_up = a.targets["up"].integer_or(0);
  d.fleet = UsageView::From(a.fleet["now"].is_object() ? a.fleet["now"] : a.fleet["usage"]);
  d.series = SeriesView::From(a.fleet["series"]);
  for (const Json& j : a.jobs["jobs"].array()) {
    TopJob job;
    job.job = j["job"].text();
    job.name = j["name"].text();
    job.user = j["user"].text();
    job.workflow = j["workflow"].text();
    job.cause = j["cause"]["text"].text();
    job.running = j["running"].boolean();
    job.usage = UsageView::From(j["usage"]);
    if (job.usage.ofu)
      job.lost_gpus = static_cast<double>(job.usage.gpus) * std::max(0.0, 1 - *job.usage.ofu);
    job.trend.push_back(job.usage.ofu);
    d.jobs.push_back(std::move(job));
  }
  d.jobs_total = a.jobs["total"].integer_or(static_cast<int64_t>(d.jobs.size()));
  for (const Json& g : a.gpus["gpus"].array()) {
    TopGpu gpu;
    gpu.gpu = g["gpu"].text();
    gpu.node = g["node"].text();
    gpu.model = g["model"].text();
    gpu.job = g["job"].text();
    gpu.state = g["state"].text();
    gpu.flags = FlagWords(g["flags"]);
    gpu.index = g["index"].integer();
    gpu.instance = g["gpu_instance"].integer();
    gpu.ofu = g["ofu"].number();
    gpu.tensor = g["tensor_active"].number();
    gpu.clock_mhz = g["sm_clock_mhz"].number();
    gpu.duty = g["gpu_util"].number();
    gpu.power_w = g["power_w"].number();
    gpu.temperature_c = g["gpu_temp_c"].number();
    gpu.memory_mib = g["fb_used_mib"].number();
    gpu.age_s = g["age_s"].number();
    d.gpus.push_back(std::move(gpu));
  }
  d.gpus_total = a.gpus["total"].integer_or(static_cast<int64_t>(d.gpus.size()));
  d.detail_id = a.detail_id;
  d.detail_series = SeriesView::From(a.detail["series"]);
  d.detail_cause = a.detail["job"]["cause"]["text"].text();
  d.detail_usage =
      UsageView::From(a.detail["job"].is_object() ? a.detail["job"]["usage"] : a.detail["usage"]);
  return d;
}

namespace {

// What jobs, and users by the sums of theirs, are put in order by.
struct SortKey {
  double lost_gpus;
  std::optional<double> ofu, duty, power_w;
  int64_t gpus;
  std::string_view user, job;
};

// The worst first: most lost, lowest OFU and duty, most GPUs and power.
bool Precedes(const SortKey& x, const SortKey& y, const TopUi& ui) {
  switch (ui.sort) {
    case JobSort::kLost:
      return ui.reverse ? x.lost_gpus < y.lost_gpus : y.lost_gpus < x.lost_gpus;
    case JobSort::kOfu:
      return Before(x.ofu, y.ofu, ui.reverse);
    case JobSort::kGpus:
      return ui.reverse ? x.gpus < y.gpus : y.gpus < x.gpus;
    case JobSort::kDuty:
      return Before(x.duty, y.duty, ui.reverse);
    case JobSort::kPower:
      return Before(x.power_w, y.power_w, !ui.reverse);
    case JobSort::kUser:
      return ui.reverse ? y.user < x.user : x.user < y.user;
    case JobSort::kJob:
      return ui.reverse ? y.job < x.job : x.job < y.job;
    case JobSort::kCount:
      break;
  }
  return false;
}

}  // namespace

std::vector<const TopJob*> VisibleJobs(const TopData& data, const TopUi& ui) {
  const std::string needle = LowerCase(ui.filter);
  std::vector<const TopJob*> out;
  for (const TopJob& j : data.jobs) {
    if (!needle.empty() && !Has(j.job, needle) && !Has(j.name, needle) && !Has(j.user, needle) &&
        !Has(j.workflow, needle))
      continue;
    out.push_back(&j);
  }
  std::stable_sort(out.begin(), out.end(), [&](const TopJob* a, const TopJob* b) {
    const auto key = [](const TopJob& j) {
      return SortKey{j.lost_gpus, j.usage.ofu, j.usage.gpu_util, j.usage.power_w, j.usage.gpus,
                     j.user,      j.job};
    };
    return Precedes(key(*a), key(*b), ui);
  });
  return out;
}

std::vector<const TopGpu*> VisibleGpus(const TopData& data, const TopUi& ui) {
  const std::string needle = LowerCase(ui.filter);
  // A filter by user or workflow keeps the GPUs of the jobs it keeps.
  std::set<std::string_view> jobs;
  if (!needle.empty() && ui.level == Level::kFleet) {
    for (const TopJob* j : VisibleJobs(data, ui)) jobs.insert(j->job);
  }
  std::vector<const TopGpu*> out;
  for (const TopGpu& g : data.gpus) {
    if (!needle.empty() && !jobs.contains(g.job) && !Has(g.node, needle) && !Has(g.gpu, needle) &&
        !Has(g.job, needle) && !Has(g.model, needle)) {
      continue;
    }
    out.push_back(&g);
  }
  // The grid has them by node and index as they came, a job's list the lowest value first.
  if (ui.level != Level::kFleet) {
    const bool high_is_bad = ui.metric == Metric::kTemperature;
    std::stable_sort(out.begin(), out.end(), [&](const TopGpu* a, const TopGpu* b) {
      return Before(a->value(ui.metric), b->value(ui.metric), high_is_bad != ui.reverse);
    });
  }
  return out;
}

namespace {

// Sums of jobs: OFU by the GPU-seconds it was computed over, the others by those observed.
struct TreeSums {
  double useful = 0, computable = 0, duty = 0, duty_s = 0, power = 0, power_s = 0;
  void Add(const UsageView& u) {
    useful += u.useful_s();
    computable += u.ofu ? u.computable_s : 0;
    if (u.gpu_util) duty += *u.gpu_util * u.observed_s, duty_s += u.observed_s;
    if (u.power_w) power += *u.power_w * u.observed_s, power_s += u.observed_s;
  }
  void Into(TreeRow* row) const {
    if (computable > 0) row->ofu = useful / computable;
    if (duty_s > 0) row->duty = duty / duty_s;
    if (power_s > 0) row->power_w = power / power_s;
  }
};

// A user's jobs, or the fleet's.
struct TreePart {
  std::vector<const TopJob*> jobs;
  TreeSums sums;
  TreeRow row;

  void Add(const TopJob& j) {
    jobs.push_back(&j);
    sums.Add(j.usage);
    row.gpus += j.usage.gpus;
    row.lost_gpus += j.lost_gpus;
    ++row.jobs;
  }
  void Finish(int depth, std::string key, std::string name, const TopUi& ui) {
    sums.Into(&row);
    row.depth = depth;
    row.open = ui.open.contains(key);
    row.has_parts = !jobs.empty();
    row.key = std::move(key);
    row.name = std::move(name);
  }
};

// Users come in the order of their first job, so by the chosen sort.
std::vector<TreePart> UsersOf(const std::vector<const TopJob*>& jobs, const TopUi& ui) {
  std::vector<TreePart> users;
  std::map<std::string_view, size_t> by_name;
  for (const TopJob* j : jobs) {
    const auto [it, fresh] = by_name.try_emplace(j->user, users.size());
    if (fresh) users.emplace_back();
    users[it->second].Add(*j);
  }
  for (TreePart& user : users) {
    const std::string& name = user.jobs.front()->user;
    user.Finish(1, "user " + name, name.empty() ? "user not known" : name, ui);
  }
  // Users by the same rule as jobs, of their sums; by job id they stay as their first job has it.
  std::stable_sort(users.begin(), users.end(), [&](const TreePart& a, const TreePart& b) {
    const auto key = [](const TreeRow& r) {
      return SortKey{r.lost_gpus, r.ofu, r.duty, r.power_w, r.gpus, r.name, {}};
    };
    return Precedes(key(a.row), key(b.row), ui);
  });
  return users;
}

TreeRow RowOf(const TopJob& j, const TopUi& ui) {
  TreeRow row;
  row.depth = 2;
  row.key = "job " + j.job;
  row.name = j.job;
  row.job = &j;
  row.open = ui.open.contains(row.key);
  row.jobs = 1;
  row.gpus = j.usage.gpus;
  row.ofu = j.usage.ofu;
  row.duty = j.usage.gpu_util;
  row.power_w = j.usage.power_w;
  row.lost_gpus = j.lost_gpus;
  return row;
}

TreeRow RowOf(const TopGpu& g, const TopJob& job) {
  const std::string instance = g.instance ? "/" + std::to_string(*g.instance) : "";
  TreeRow row;
  row.depth = 3;
  row.name = g.node + " " + (g.index ? std::to_string(*g.index) : "-") + instance;
  row.key = "gpu " + g.gpu + instance;
  row.gpu = &g;
  row.job = &job;
  row.gpus = 1;
  row.ofu = g.ofu;
  row.duty = g.duty;
  row.power_w = g.power_w;
  if (g.ofu) row.lost_gpus = std::max(0.0, 1 - *g.ofu);
  return row;
}

}  // namespace

std::vector<TreeRow> TreeRows(const TopData& data, const TopUi& ui) {
  const auto jobs = VisibleJobs(data, ui);
  TreePart fleet;
  for (const TopJob* j : jobs) fleet.Add(*j);
  fleet.Finish(0, "fleet", "all jobs", ui);
  fleet.row.open = !ui.open.contains("-fleet");  // closed on demand only
  std::vector<TreeRow> rows = {fleet.row};
  if (!fleet.row.open) return rows;
  std::map<std::string_view, std::vector<const TopGpu*>> gpus;
  for (const TopGpu& g : data.gpus) gpus[g.job].push_back(&g);
  for (const TreePart& user : UsersOf(jobs, ui)) {
    rows.push_back(user.row);
    if (!user.row.open) continue;
    for (const TopJob* j : user.jobs) {
      TreeRow row = RowOf(*j, ui);
      const auto own = gpus.find(j->job);
      row.has_parts = own != gpus.end();
      rows.push_back(row);
      if (!row.open || !row.has_parts) continue;
      for (const TopGpu* g : own->second) rows.push_back(RowOf(*g, *j));
    }
  }
  return rows;
}

int RowCount(const TopData& data, const TopUi& ui) {
  if (ui.level == Level::kGpu) return 0;
  if (ui.level == Level::kJob) return static_cast<int>(VisibleGpus(data, ui).size());
  return static_cast<int>(ui.tree ? TreeRows(data, ui).size() : VisibleJobs(data, ui).size());
}

namespace {

TopAction Move(int by, const TopData& data, TopUi* ui) {
  ui->selected = std::clamp(ui->selected + by, 0, std::max(0, RowCount(data, *ui) - 1));
  return TopAction::kRedraw;
}

void ShowGpu(const TopGpu& gpu, TopUi* ui) {
  ui->gpu = gpu.gpu;
  ui->gpu_instance = gpu.instance;
  ui->level = Level::kGpu;
}

// Shows or hides the parts of a row of the tree.
TopAction Fold(const TreeRow& row, bool open, TopUi* ui) {
  // The fleet is open unless closed; all else the other way round.
  const std::string key = row.depth == 0 ? "-fleet" : row.key;
  if (open != (row.depth == 0)) {
    ui->open.insert(key);
  } else {
    ui->open.erase(key);
  }
  return TopAction::kRedraw;
}

// The tree: what has parts unfolds first; a job that is unfolded opens, a GPU opens at once.
TopAction OpenTreeRow(const TopData& data, TopUi* ui, bool toggle) {
  const auto rows = TreeRows(data, *ui);
  if (ui->selected < 0 || ui->selected >= std::ssize(rows)) return TopAction::kNone;
  const TreeRow& row = rows[static_cast<size_t>(ui->selected)];
  if (row.has_parts && (!row.open || toggle)) return Fold(row, !row.open, ui);
  if (toggle || row.job == nullptr) return TopAction::kNone;
  ui->fleet_selected = ui->selected;
  ui->job = row.job->job;
  ui->level = Level::kJob;
  if (row.gpu != nullptr) {
    ui->job_selected = 0;
    ShowGpu(*row.gpu, ui);
  }
  ui->selected = 0;
  ui->filter.clear();
  return TopAction::kRefresh;
}

// Folds the row, or goes to the one it is a part of.
TopAction LeaveTreeRow(const TopData& data, TopUi* ui) {
  const auto rows = TreeRows(data, *ui);
  if (ui->selected < 0 || ui->selected >= std::ssize(rows)) return TopAction::kNone;
  const TreeRow& row = rows[static_cast<size_t>(ui->selected)];
  if (row.open) return Fold(row, false, ui);
  while (ui->selected > 0 && rows[static_cast<size_t>(ui->selected)].depth >= row.depth)
    --ui->selected;
  return TopAction::kRedraw;
}

TopAction Open(const TopData& data, TopUi* ui) {
  if (ui->level == Level::kFleet && ui->tree) return OpenTreeRow(data, ui, /*toggle=*/false);
  if (ui->level == Level::kFleet) {
    const auto jobs = VisibleJobs(data, *ui);
    if (ui->selected < 0 || ui->selected >= std::ssize(jobs)) return TopAction::kNone;
    ui->job = jobs[static_cast<size_t>(ui->selected)]->job;
    ui->level = Level::kJob;
    ui->fleet_selected = ui->selected;
  } else if (ui->level == Level::kJob) {
    const auto gpus = VisibleGpus(data, *ui);
    if (ui->selected < 0 || ui->selected >= std::ssize(gpus)) return TopAction::kNone;
    ShowGpu(*gpus[static_cast<size_t>(ui->selected)], ui);
    ui->job_selected = ui->selected;
  } else {
    return TopAction::kNone;
  }
  ui->selected = 0;
  ui->filter.clear();
  return TopAction::kRefresh;
}

TopAction Back(TopUi* ui) {
  if (ui->help) {
    ui->help = false;
    return TopAction::kRedraw;
  }
  if (!ui->filter.empty()) {
    ui->filter.clear();
    ui->selected = 0;
    return TopAction::kRedraw;
  }
  if (ui->level == Level::kFleet) return TopAction::kNone;
  const bool from_gpu = ui->level == Level::kGpu;
  ui->level = from_gpu ? Level::kJob : Level::kFleet;
  ui->selected = from_gpu ? ui->job_selected : ui->fleet_selected;
  return TopAction::kRefresh;
}

TopAction TypeFilter(std::string_view key, TopUi* ui) {
  constexpr size_t kMaxFilter = 64;
  if (key == "enter") {
    ui->typing_filter = false;
  } else if (key == "esc") {
    ui->typing_filter = false;
    ui->filter.clear();
  } else if (key == "backspace") {
    // Backspace removes whole UTF-8 characters.
    while (!ui->filter.empty() && (static_cast<unsigned char>(ui->filter.back()) & 0xC0) == 0x80)
      ui->filter.pop_back();
    if (!ui->filter.empty()) ui->filter.pop_back();
  } else if ((key.size() == 1 || static_cast<unsigned char>(key[0]) >= 0xC2) &&
             ui->filter.size() < kMaxFilter) {
    ui->filter += key;
  }
  ui->selected = 0;
  return TopAction::kRedraw;
}

TopAction ChooseSort(std::string_view key, TopUi* ui) {
  ui->choosing_sort = false;
  static constexpr std::pair<char, JobSort> kLetters[] = {
      {'l', JobSort::kLost},  {'o', JobSort::kOfu},  {'g', JobSort::kGpus}, {'d', JobSort::kDuty},
      {'p', JobSort::kPower}, {'u', JobSort::kUser}, {'j', JobSort::kJob}};
  if (key == "r") {
    ui->reverse = !ui->reverse;
    return TopAction::kRedraw;
  }
  for (const auto& [letter, sort] : kLetters) {
    if (key.size() == 1 && key[0] == letter) {
      ui->sort = sort;
      ui->reverse = false;
      ui->selected = 0;
    }
  }
  return TopAction::kRedraw;
}

}  // namespace

TopAction HandleMouse(std::string_view key, const TopHits& hits, const TopData& data, TopUi* ui) {
  int button = -1, x = 0, y = 0;
  char end = 0;
  // The key is "mouse:0:12:5:M", with columns and rows from 0.
  if (std::sscanf(std::string(key).c_str(), "mouse:%d:%d:%d:%c", &button, &x, &y, &end) != 4)
    return TopAction::kNone;
  if (ui->help || ui->typing_filter || ui->choosing_sort) return TopAction::kNone;
  constexpr int kWheelUp = 64, kWheelDown = 65, kWheelRows = 3;
  if (button == kWheelUp) return Move(-kWheelRows, data, ui);
  if (button == kWheelDown) return Move(kWheelRows, data, ui);
  if (button != 0 || end != 'M') return TopAction::kNone;
  for (const TopHit& hit : hits) {
    if (hit.y != y || x < hit.from || x >= hit.to) continue;
    if (hit.row) {
      if (ui->selected == *hit.row) return Open(data, ui);
      ui->selected = *hit.row;
      return TopAction::kRedraw;
    }
    ui->reverse = ui->sort == hit.sort && !ui->reverse;
    ui->sort = hit.sort;
    return TopAction::kRedraw;
  }
  return TopAction::kNone;
}

TopAction HandleKey(std::string_view key, const TopData& data, TopUi* ui) {
  ui->message.clear();
  if (key == "ctrl-c") return TopAction::kInterrupt;
  if (ui->typing_filter) return TypeFilter(key, ui);
  if (ui->choosing_sort) return ChooseSort(key, ui);
  if (key == "q") return TopAction::kQuit;
  if (key == "h" || key == "?") {
    ui->help = !ui->help;
    return TopAction::kRedraw;
  }
  if (key == "left" && ui->tree && ui->level == Level::kFleet && !ui->help)
    return LeaveTreeRow(data, ui);
  if (key == "esc" || key == "backspace" || key == "left") return Back(ui);
  if (ui->help) return TopAction::kNone;
  if (key == "j" || key == "down") return Move(1, data, ui);
  if (key == "k" || key == "up") return Move(-1, data, ui);
  if (key == "pagedown") return Move(10, data, ui);
  if (key == "pageup") return Move(-10, data, ui);
  if (key == "home" || key == "g") return Move(-1'000'000, data, ui);
  if (key == "end" || key == "G") return Move(1'000'000, data, ui);
  if (key == "enter" || key == "right") return Open(data, ui);
  if (key == "/") {
    ui->typing_filter = true;
    ui->filter.clear();
    return TopAction::kRedraw;
  }
  if (key == "o") {
    ui->choosing_sort = ui->level == Level::kFleet;
    if (ui->level == Level::kJob) ui->reverse = !ui->reverse;
    return TopAction::kRedraw;
  }
  if (key == "m") {
    ui->metric =
        static_cast<Metric>((static_cast<int>(ui->metric) + 1) % static_cast<int>(Metric::kCount));
    return TopAction::kRedraw;
  }
  if (key == "t" && ui->level == Level::kFleet) {
    ui->tree = !ui->tree;
    ui->selected = 0;
    return TopAction::kRedraw;
  }
  if (key == " " && ui->tree && ui->level == Level::kFleet)
    return OpenTreeRow(data, ui, /*toggle=*/true);
  if (key == "s") return TopAction::kSave;
  if (key == "p" || key == " ") {
    ui->paused = !ui->paused;
    return ui->paused ? TopAction::kRedraw : TopAction::kRefresh;
  }
  if (key == "+" || key == "=") {
    ui->interval_s = ui->interval_s < 5 ? ui->interval_s + 1 : std::min(300, ui->interval_s + 5);
    return TopAction::kRedraw;
  }
  if (key == "-") {
    ui->interval_s = ui->interval_s <= 5 ? std::max(1, ui->interval_s - 1) : ui->interval_s - 5;
    return TopAction::kRedraw;
  }
  if (key == "r") return TopAction::kRefresh;
  return TopAction::kNone;
}

std::vector<std::string> DecodeKeys(std::string* pending, bool flush) {
  static constexpr std::pair<std::string_view, std::string_view> kSequences[] = {
      {"\x1b[A", "up"},    {"\x1b[B", "down"}, {"\x1b[C", "right"},   {"\x1b[D", "left"},
      {"\x1bOA", "up"},    {"\x1bOB", "down"}, {"\x1bOC", "right"},   {"\x1bOD", "left"},
      {"\x1b[H", "home"},  {"\x1b[F", "end"},  {"\x1bOH", "home"},    {"\x1bOF", "end"},
      {"\x1b[1~", "home"}, {"\x1b[4~", "end"}, {"\x1b[5~", "pageup"}, {"\x1b[6~", "pagedown"}};
  std::vector<std::string> out;
  std::string_view rest = *pending;
  while (!rest.empty()) {
    const auto c = static_cast<unsigned char>(rest[0]);
    if (c == 0x1B) {
      if (rest.size() == 1 && !flush) break;
      if (rest.size() == 1 || (rest[1] != '[' && rest[1] != 'O')) {
        out.emplace_back("esc");
        rest.remove_prefix(1);
        continue;
      }
      // A sequence ends at its first letter or '~'.
      size_t end = 2;
      while (end < rest.size() && end < 24 &&
             !(std::isalpha(static_cast<unsigned char>(rest[end])) || rest[end] == '~'))
        ++end;
      if (end == rest.size()) {
        if (!flush) break;
        rest = {};
        continue;
      }
      const std::string_view sequence = rest.substr(0, end + 1);
      for (const auto& [bytes, name] : kSequences) {
        if (sequence == bytes) out.emplace_back(name);
      }
      // SGR reports the mouse as ESC [ < button ; column ; row, from 1, M (pressed) or m.
      int button = 0, column = 0, row = 0;
      char end_byte = 0;
      if (std::sscanf(std::string(sequence).c_str(), "\x1b[<%d;%d;%d%c", &button, &column, &row,
                      &end_byte) == 4) {
        out.push_back(fmt::format("mouse:{}:{}:{}:{}", button, column - 1, row - 1, end_byte));
      }
      rest.remove_prefix(end + 1);
      continue;
    }
    if (c == 0x03) {
      out.emplace_back("ctrl-c");
    } else if (c == '\r' || c == '\n') {
      out.emplace_back("enter");
    } else if (c == 0x7F || c == 0x08) {
      out.emplace_back("backspace");
    } else if (c >= 0x20) {
      size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
      if (n > rest.size()) {
        if (!flush) break;
        n = rest.size();
      }
      out.emplace_back(rest.substr(0, n));
      rest.remove_prefix(n);
      continue;
    }
    rest.remove_prefix(1);
  }
  *pending = std::string(rest);
  return out;
}

}  // namespace flopwatch::cli
