#include "cli/top/model.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace flopwatch::cli {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool Has(const std::string& text, const std::string& lower_needle) {
  return Lower(text).find(lower_needle) != std::string::npos;
}

// Absent values last in either direction.
template <typename T>
bool Before(const std::optional<T>& a, const std::optional<T>& b, bool descending) {
  if (a.has_value() != b.has_value()) return a.has_value();
  if (!a) return false;
  return descending ? *b < *a : *a < *b;
}

}  // namespace

std::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kOfu: return "OFU";
    case Metric::kTensor: return "tensor activity";
    case Metric::kDuty: return "duty cycle";
    case Metric::kPower: return "power";
    case Metric::kTemperature: return "temperature";
    case Metric::kCount: break;
  }
  return "";
}

std::string_view JobSortName(JobSort sort) {
  switch (sort) {
    case JobSort::kLost: return "lost";
    case JobSort::kOfu: return "ofu";
    case JobSort::kGpus: return "gpus";
    case JobSort::kDuty: return "duty";
    case JobSort::kPower: return "power";
    case JobSort::kUser: return "user";
    case JobSort::kJob: return "job";
    case JobSort::kCount: break;
  }
  return "";
}

std::optional<double> TopGpu::value(Metric metric) const {
  switch (metric) {
    case Metric::kOfu: return ofu;
    case Metric::kTensor: return tensor;
    case Metric::kDuty: return duty;
    case Metric::kPower: return power_w;
    case Metric::kTemperature: return temperature_c;
    case Metric::kCount: break;
  }
  return std::nullopt;
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
    job.flags = JoinTexts(j["flags"], ", ");
    job.running = j["running"].boolean();
    job.usage = UsageView::From(j["usage"]);
    if (job.usage.ofu) job.lost_gpus = static_cast<double>(job.usage.gpus) * std::max(0.0, 1 - *job.usage.ofu);
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
    gpu.flags = JoinTexts(g["flags"], ", ");
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
  d.detail_usage = UsageView::From(a.detail["job"].is_object() ? a.detail["job"]["usage"] : a.detail["usage"]);
  return d;
}

std::vector<const TopJob*> VisibleJobs(const TopData& data, const TopUi& ui) {
  const std::string needle = Lower(ui.filter);
  std::vector<const TopJob*> out;
  for (const TopJob& j : data.jobs) {
    if (!needle.empty() && !Has(j.job, needle) && !Has(j.name, needle) && !Has(j.user, needle) && !Has(j.workflow, needle)) continue;
    out.push_back(&j);
  }
  std::stable_sort(out.begin(), out.end(), [&](const TopJob* a, const TopJob* b) {
    const UsageView &x = a->usage, &y = b->usage;
    switch (ui.sort) {
      case JobSort::kLost: return ui.reverse ? a->lost_gpus < b->lost_gpus : b->lost_gpus < a->lost_gpus;
      case JobSort::kOfu: return Before(x.ofu, y.ofu, ui.reverse);  // the worst first
      case JobSort::kGpus: return ui.reverse ? x.gpus < y.gpus : y.gpus < x.gpus;
      case JobSort::kDuty: return Before(x.gpu_util, y.gpu_util, ui.reverse);
      case JobSort::kPower: return Before(x.power_w, y.power_w, !ui.reverse);
      case JobSort::kUser: return ui.reverse ? b->user < a->user : a->user < b->user;
      case JobSort::kJob: return ui.reverse ? b->job < a->job : a->job < b->job;
      case JobSort::kCount: break;
    }
    return false;
  });
  return out;
}

std::vector<const TopGpu*> VisibleGpus(const TopData& data, const TopUi& ui) {
  const std::string needle = Lower(ui.filter);
  // A filter by user or workflow keeps the GPUs of the jobs it keeps.
  std::set<std::string_view> jobs;
  if (!needle.empty() && ui.level == Level::kFleet) {
    for (const TopJob* j : VisibleJobs(data, ui)) jobs.insert(j->job);
  }
  std::vector<const TopGpu*> out;
  for (const TopGpu& g : data.gpus) {
    if (!needle.empty() && !jobs.contains(g.job) && !Has(g.node, needle) && !Has(g.gpu, needle) && !Has(g.job, needle) && !Has(g.model, needle)) {
      continue;
    }
    out.push_back(&g);
  }
  // By node and index as they came for the grid; in a job's list the lowest value of the metric first.
  if (ui.level != Level::kFleet) {
    const bool high_is_bad = ui.metric == Metric::kTemperature;
    std::stable_sort(out.begin(), out.end(), [&](const TopGpu* a, const TopGpu* b) {
      return Before(a->value(ui.metric), b->value(ui.metric), high_is_bad != ui.reverse);
    });
  }
  return out;
}

namespace {

int RowCount(const TopData& data, const TopUi& ui) {
  switch (ui.level) {
    case Level::kFleet: return static_cast<int>(VisibleJobs(data, ui).size());
    case Level::kJob: return static_cast<int>(VisibleGpus(data, ui).size());
    case Level::kGpu: return 0;
  }
  return 0;
}

TopAction Move(int by, const TopData& data, TopUi* ui) {
  ui->selected = std::clamp(ui->selected + by, 0, std::max(0, RowCount(data, *ui) - 1));
  return TopAction::kRedraw;
}

TopAction Open(const TopData& data, TopUi* ui) {
  if (ui->level == Level::kFleet) {
    const auto jobs = VisibleJobs(data, *ui);
    if (ui->selected < 0 || ui->selected >= std::ssize(jobs)) return TopAction::kNone;
    ui->job = jobs[static_cast<size_t>(ui->selected)]->job;
    ui->level = Level::kJob;
    ui->fleet_selected = ui->selected;
  } else if (ui->level == Level::kJob) {
    const auto gpus = VisibleGpus(data, *ui);
    if (ui->selected < 0 || ui->selected >= std::ssize(gpus)) return TopAction::kNone;
    ui->gpu = gpus[static_cast<size_t>(ui->selected)]->gpu;
    ui->gpu_instance = gpus[static_cast<size_t>(ui->selected)]->instance;
    ui->level = Level::kGpu;
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
    // Whole UTF-8 characters.
    while (!ui->filter.empty() && (static_cast<unsigned char>(ui->filter.back()) & 0xC0) == 0x80) ui->filter.pop_back();
    if (!ui->filter.empty()) ui->filter.pop_back();
  } else if ((key.size() == 1 || static_cast<unsigned char>(key[0]) >= 0xC2) && ui->filter.size() < kMaxFilter) {
    ui->filter += key;
  }
  ui->selected = 0;
  return TopAction::kRedraw;
}

TopAction ChooseSort(std::string_view key, TopUi* ui) {
  ui->choosing_sort = false;
  static constexpr std::pair<char, JobSort> kLetters[] = {{'l', JobSort::kLost},  {'o', JobSort::kOfu},  {'g', JobSort::kGpus},
                                                          {'d', JobSort::kDuty},  {'p', JobSort::kPower}, {'u', JobSort::kUser},
                                                          {'j', JobSort::kJob}};
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

TopAction HandleKey(std::string_view key, const TopData& data, TopUi* ui) {
  if (key == "ctrl-c") return TopAction::kInterrupt;
  if (ui->typing_filter) return TypeFilter(key, ui);
  if (ui->choosing_sort) return ChooseSort(key, ui);
  if (key == "q") return TopAction::kQuit;
  if (key == "h" || key == "?") {
    ui->help = !ui->help;
    return TopAction::kRedraw;
  }
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
    ui->metric = static_cast<Metric>((static_cast<int>(ui->metric) + 1) % static_cast<int>(Metric::kCount));
    return TopAction::kRedraw;
  }
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
      {"\x1b[A", "up"},     {"\x1b[B", "down"},     {"\x1b[C", "right"},   {"\x1b[D", "left"},    {"\x1bOA", "up"},
      {"\x1bOB", "down"},   {"\x1bOC", "right"},    {"\x1bOD", "left"},    {"\x1b[H", "home"},    {"\x1b[F", "end"},
      {"\x1bOH", "home"},   {"\x1bOF", "end"},      {"\x1b[1~", "home"},   {"\x1b[4~", "end"},    {"\x1b[5~", "pageup"},
      {"\x1b[6~", "pagedown"}};
  std::vector<std::string> out;
  std::string_view rest = *pending;
  while (!rest.empty()) {
    const auto c = static_cast<unsigned char>(rest[0]);
    if (c == 0x1B) {
      if (rest.size() == 1) {
        if (!flush) break;
        out.emplace_back("esc");
        rest.remove_prefix(1);
        continue;
      }
      if (rest[1] != '[' && rest[1] != 'O') {
        out.emplace_back("esc");
        rest.remove_prefix(1);
        continue;
      }
      // A sequence ends at its first letter or '~'.
      size_t end = 2;
      while (end < rest.size() && end < 16 && !(std::isalpha(static_cast<unsigned char>(rest[end])) || rest[end] == '~')) ++end;
      if (end == rest.size()) {
        if (!flush) break;
        rest = {};
        continue;
      }
      const std::string_view sequence = rest.substr(0, end + 1);
      for (const auto& [bytes, name] : kSequences) {
        if (sequence == bytes) out.emplace_back(name);
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
