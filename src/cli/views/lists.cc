#include "cli/views/lists.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/views/columns.h"
#include "cli/views/style.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

using enum ColumnFormat;

std::string RefusedText(const Json& refused) {
  std::string out;
  for (const auto& [reason, n] : refused.object()) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", reason, n.integer_or(0));
  }
  return out;
}

double Sum(const Json& object) {
  double sum = 0;
  for (const auto& [name, n] : object.object()) sum += n.number_or(0);
  return sum;
}

// A value that is no list and no object; empty for null.
Cell ScalarCell(const Json& v) {
  if (const auto* b = std::get_if<bool>(&v.value_)) return *b;
  if (const auto* i = std::get_if<int64_t>(&v.value_)) return *i;
  if (const auto* d = std::get_if<double>(&v.value_)) return *d;
  if (const auto* s = std::get_if<std::string>(&v.value_)) return *s;
  return {};
}

// A value of a SQL result that is no scalar (a list, a struct) as JSON text.
std::string AsJson(const Json& v) {
  std::string out;
  JsonWriter json(&out);
  const auto write = [&](const auto& self, const Json& j) -> void {
    if (j.is_array()) {
      json.BeginArray();
      for (const Json& e : j.array()) self(self, e);
      json.EndArray();
    } else if (j.is_object()) {
      json.BeginObject();
      for (const auto& [name, e] : j.object()) {
        json.Key(name);
        self(self, e);
      }
      json.EndObject();
    } else {
      WriteCell(json, ScalarCell(j));
    }
  };
  write(write, v);
  return out;
}

}  // namespace

Table JobsTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(
      Column{"job", "job"}, Column{"user", "user"}, Column{"state", "state"},
      Column{"gpus", "gpus", kCount}, Column{"gpu_seconds", "gpu time", kGpuHours},
      Column{"ofu", "ofu", kPercentBar}, Column{"lost_gpu_seconds", "lost", kGpuHours},
      Column{"gpu_util", "duty", kPercent}, Column{"coverage", "coverage", kPercent},
      Column{"note", "note"}, Column{"name", "name"}, Column{"workflow", "workflow"},
      Column{"tensor_active", "tensor", kPercent}, Column{"sm_clock_mhz", "sm mhz", kCount},
      Column{"power_w", "power", kWatts}, Column{"ofu_ci95", "ofu ±", kPercent},
      Column{"flags", "flags"}, Column{"ofu_reason", "why no ofu"});
  for (const Json& job : answer["jobs"].array()) {
    const UsageView u = UsageView::From(job["usage"]);
    t.rows.push_back({TextCell(job["job"]), TextCell(job["user"]),
                      std::string(job["running"].boolean() ? "running" : "ended"), u.gpus,
                      u.gpu_seconds, NumberCell(u.ofu),
                      u.computable_s > 0 ? Cell(u.lost_s) : Cell(), NumberCell(u.gpu_util),
                      NumberCell(u.coverage), TextCell(JobNote(u)), TextCell(job["name"]),
                      TextCell(job["workflow"]), NumberCell(u.tensor_active),
                      NumberCell(u.sm_clock_mhz), NumberCell(u.power_w), NumberCell(u.ci95),
                      TextCell(JoinTexts(job["flags"], ",")), TextCell(u.reason)});
  }
  const int64_t total = answer["total"].integer_or(static_cast<int64_t>(t.rows.size()));
  t.notes.push_back(
      fmt::format("{} of {} jobs, {}; OFU weighted by GPU-seconds; lost = GPU-hours of peak "
                  "arithmetic not done",
                  t.rows.size(), total, WindowView::From(answer["window"]).Text()));
  return t;
}

namespace {

void AddUsageNotes(const Json& answer, Table* table) {
  Table& t = *table;
  const std::string currency = answer["currency"].text();
  const Json& total = answer["total"];
  t.notes.push_back(fmt::format(
      "{} rows, {} jobs, {} GPU-hours held, {}; OFU weighted by GPU-seconds, OFU of all {}",
      answer["rows_total"].integer_or(0), total["jobs"].integer_or(0),
      GpuHours(total["gpu_seconds"].number_or(0)), WindowView::From(answer["window"]).Text(),
      total["ofu"].number() ? Percent(total["ofu"].number()) : "not computable"));
  if (const auto cost = total["cost"].number()) {
    t.notes.push_back(
        fmt::format("cost {:.2f}{}, of which {:.2f} for arithmetic not done; {} of "
                    "the time has a price",
                    *cost, currency.empty() ? "" : " " + currency, total["lost_money"].number_or(0),
                    Percent(total["cost_coverage"].number())));
  }
  for (const Json& note : answer["notes"].array()) t.notes.push_back(note.text());
}

std::string UnitOf(const Json& answer, std::string_view what) {
  const std::string currency = answer["currency"].text();
  return currency.empty() ? std::string(what) : fmt::format("{} {}", what, currency);
}

}  // namespace

Table UsageByTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(
      Column{"name", answer["by"].text()}, Column{"jobs", "jobs", kCount},
      Column{"gpu_seconds", "gpu time", kGpuHours}, Column{"ofu", "ofu", kPercentBar},
      Column{"lost_gpu_seconds", "lost", kGpuHours}, Column{"cost", UnitOf(answer, "cost"), kMoney},
      Column{"lost_money", UnitOf(answer, "lost"), kMoney}, Column{"mfu", "mfu", kPercent},
      Column{"mfu_coverage", "mfu of time", kPercent}, Column{"duty", "duty", kPercent},
      Column{"sm_efficiency", "sm active", kPercent}, Column{"coverage", "coverage", kPercent},
      Column{"energy_j", "energy j", kCount}, Column{"cost_coverage", "priced", kPercent},
      Column{"occupancy_active", "occ. active", kPercent},
      Column{"occupancy_elapsed", "occ. elapsed", kPercent},
      Column{"kwh_per_eflop_bf16", "kwh/eflop bf16"},
      Column{"kwh_per_eflop_coverage", "kwh of time", kPercent},
      Column{"ofu_reason", "why no ofu"});
  for (const Json& row : answer["rows"].array()) {
    t.rows.push_back(
        {TextCell(row["name"]), IntegerCell(row["jobs"]), NumberCell(row["gpu_seconds"]),
         NumberCell(row["ofu"]), NumberCell(row["lost_gpu_seconds"]), NumberCell(row["cost"]),
         NumberCell(row["lost_money"]), NumberCell(row["mfu"]), NumberCell(row["mfu_coverage"]),
         NumberCell(row["duty"]), NumberCell(row["sm_efficiency"]), NumberCell(row["coverage"]),
         NumberCell(row["energy_j"]), NumberCell(row["cost_coverage"]),
         NumberCell(row["occupancy_active"]), NumberCell(row["occupancy_elapsed"]),
         NumberCell(row["kwh_per_eflop_bf16"]), NumberCell(row["kwh_per_eflop_coverage"]),
         TextCell(row["ofu_reason"])});
  }
  AddUsageNotes(answer, &t);
  return t;
}

Table UsageStepsTable(const Json& answer) {
  Table t;
  t.columns =
      ColumnsOf(Column{"name", answer["by"].text()}, Column{"from", "from", kTime},
                Column{"gpu_seconds", "gpu time", kGpuHours}, Column{"ofu", "ofu", kPercentBar},
                Column{"lost_gpu_seconds", "lost", kGpuHours},
                Column{"cost", UnitOf(answer, "cost"), kMoney}, Column{"mfu", "mfu", kPercent},
                Column{"duty", "duty", kPercent}, Column{"sm_efficiency", "sm active", kPercent});
  const auto begin = ParseTime(answer["window"]["from"].text(), 0);
  const Micros step = answer["step_s"].integer_or(0) * kMicrosPerSecond;
  for (const Json& row : answer["rows"].array()) {
    const Json& points = row["points"];
    const std::vector<Json>& held = points["gpu_seconds"].array();
    for (size_t k = 0; k < held.size(); ++k) {
      if (!held[k].number()) continue;  // it had no GPU time in this step
      t.rows.push_back(
          {TextCell(row["name"]), Cell(begin.value_or(0) + static_cast<Micros>(k) * step)});
      for (const std::string_view figure :
           {"gpu_seconds", "ofu", "lost_gpu_seconds", "cost", "mfu", "duty", "sm_efficiency"})
        t.rows.back().push_back(NumberCell(points[figure].array()[k]));
    }
  }
  AddUsageNotes(answer, &t);
  return t;
}

Table UsageComparedTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(Column{"name", answer["by"].text()});
  struct Figure {
    std::string_view name, title;
    ColumnFormat format;
  };
  const std::string cost = UnitOf(answer, "cost");
  const Figure figures[] = {{"gpu_seconds", "gpu time", kGpuHours},
                            {"ofu", "ofu", kPercent},
                            {"lost_gpu_seconds", "lost", kGpuHours},
                            {"cost", cost, kMoney},
                            {"mfu", "mfu", kPercent},
                            {"duty", "duty", kPercent}};
  for (const Figure& f : figures) {
    t.columns.push_back({std::string(f.name), std::string(f.title), f.format});
    t.columns.push_back({fmt::format("{}_before", f.name), "before", f.format});
    t.columns.push_back({fmt::format("{}_change", f.name), "change", f.format});
  }
  for (const Json& row : answer["rows"].array()) {
    t.rows.push_back({TextCell(row["name"])});
    for (const Figure& f : figures) {
      t.rows.back().push_back(NumberCell(row[f.name]));
      t.rows.back().push_back(NumberCell(row["before"][f.name]));
      t.rows.back().push_back(NumberCell(row["change"][f.name]));
    }
  }
  AddUsageNotes(answer, &t);
  t.notes.push_back(fmt::format(
      "before: {}; change: the difference (of a ratio in points); empty where one is not known",
      WindowView::From(answer["compared_with"]["window"]).Text()));
  return t;
}

namespace {

// In words: what its last sample is flagged with, or that there is none of late.
std::string WhyNoOfu(const Json& gpu) {
  const std::string flags = FlagWords(gpu["flags"]);
  return flags.empty() && gpu["state"].text() != "reporting" ? gpu["state"].text() : flags;
}

}  // namespace

Table GpusTable(const Json& answer) {
  Table t;
  t.columns =
      ColumnsOf(Column{"node", "node"}, Column{"index", "gpu"}, Column{"job", "job"},
                Column{"state", "state"}, Column{"ofu", "ofu", kPercentBar},
                Column{"tensor_active", "tensor", kPercent},
                Column{"sm_clock_mhz", "sm mhz", kCount}, Column{"gpu_util", "duty", kPercent},
                Column{"power_w", "power", kWatts}, Column{"gpu_temp_c", "°c", kCount},
                Column{"fb_used_mib", "mib used", kCount}, Column{"age_s", "age", kSeconds},
                Column{"flags", "notes"}, Column{"model", "model"}, Column{"gpu", "uuid"},
                Column{"gpu_instance", "instance"}, Column{"ofu_reason", "why no ofu"});
  for (const Json& g : answer["gpus"].array()) {
    t.rows.push_back(
        {TextCell(g["node"]), IntegerCell(g["index"]), TextCell(g["job"]), TextCell(g["state"]),
         NumberCell(g["ofu"]), NumberCell(g["tensor_active"]), NumberCell(g["sm_clock_mhz"]),
         NumberCell(g["gpu_util"]), NumberCell(g["power_w"]), NumberCell(g["gpu_temp_c"]),
         NumberCell(g["fb_used_mib"]), NumberCell(g["age_s"]), TextCell(JoinTexts(g["flags"], ",")),
         TextCell(g["model"]), TextCell(g["gpu"]), IntegerCell(g["gpu_instance"]),
         TextCell(g["ofu"].number() ? "" : WhyNoOfu(g))});
  }
  t.notes.push_back(
      fmt::format("{} of {} GPUs, each as its last sample says; OFU = tensor activity × SM clock ÷ "
                  "maximum tensor clock",
                  t.rows.size(), answer["total"].integer_or(static_cast<int64_t>(t.rows.size()))));
  return t;
}

Table JobGpusTable(const Json& answer) {
  Table t;
  t.columns =
      ColumnsOf(Column{"node", "node"}, Column{"index", "gpu"}, Column{"rank", "rank"},
                Column{"ofu", "ofu", kPercentBar}, Column{"tensor_active", "tensor", kPercent},
                Column{"sm_clock_mhz", "sm mhz", kCount}, Column{"gpu_util", "duty", kPercent},
                Column{"power_w", "power", kWatts}, Column{"coverage", "coverage", kPercent},
                Column{"gpu_seconds", "gpu time", kGpuHours}, Column{"gpu", "uuid"},
                Column{"gpu_instance", "instance"}, Column{"model", "model"},
                Column{"ofu_reason", "why no ofu"});
  for (const Json& g : answer["gpus"].array()) {
    const UsageView u = UsageView::From(g["usage"]);
    t.rows.push_back({TextCell(g["node"]), IntegerCell(g["index"]), IntegerCell(g["rank"]),
                      NumberCell(u.ofu), NumberCell(u.tensor_active), NumberCell(u.sm_clock_mhz),
                      NumberCell(u.gpu_util), NumberCell(u.power_w), NumberCell(u.coverage),
                      u.gpu_seconds, TextCell(g["gpu"]), IntegerCell(g["gpu_instance"]),
                      TextCell(g["model"]), TextCell(u.reason)});
  }
  return t;
}

namespace {

// "ok", or what is not: "2 faulty, 1 undecided, 5 not judged". "" = no GPU was seen.
std::string CountersText(const Json& counters) {
  std::string text;
  for (const auto& [name, word] :
       {std::pair{"faulty", "faulty"}, std::pair{"undecided", "undecided"},
        std::pair{"not_judged", "not judged"}}) {
    if (const int64_t n = counters[name].integer_or(0); n > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, word);
  }
  return text.empty() && counters["ok"].integer_or(0) > 0 ? "ok" : text;
}

// "tensor_dead 2, power_missing 8".
std::string FaultsText(const Json& findings) {
  std::string text;
  for (const Json& f : findings.array())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Printable(f["rule"].text(), 60),
                        f["gpus"].integer_or(0));
  return text;
}

// Each finding once over all targets: on how many GPUs, what it says, and the line that cures it.
void AddCounterNotes(const Json& targets, std::vector<std::string>* notes) {
  struct Found {
    int64_t gpus = 0, targets = 0;
    std::string says, remedy, example;
  };
  std::map<std::string, Found> all;
  for (const Json& target : targets.array()) {
    for (const Json& f : target["counters"]["findings"].array()) {
      Found& found = all[f["rule"].text() + "\n" + f["remedy"].text()];
      found.gpus += f["gpus"].integer_or(0);
      ++found.targets;
      if (found.targets > 1) continue;
      found.says = Printable(f["says"].text(), 200);
      found.remedy = Printable(f["remedy"].text(), 300);
      found.example = Printable(target["url"].text(), 120);
    }
  }
  for (const auto& [key, found] : all) {
    notes->push_back(fmt::format("{}: {} on {} GPUs of {} targets ({}{}). Try: {}",
                                 key.substr(0, key.find('\n')), found.says, found.gpus,
                                 found.targets, found.example, found.targets > 1 ? ", …" : "",
                                 found.remedy));
  }
}

}  // namespace

Table TargetsTable(const Json& answer) {
  Table t;
  t.columns = ColumnsOf(
      Column{"url", "target"}, Column{"state", "state"}, Column{"age_s", "last seen", kSeconds},
      Column{"failures", "failed", kCount}, Column{"refused", "refused", kCount},
      Column{"error", "error"}, Column{"counters", "counters"}, Column{"node", "node"},
      Column{"entities", "gpus", kCount}, Column{"samples", "samples", kCount},
      Column{"last_duration_ms", "took ms", kPlain}, Column{"last_bytes", "size", kBytes},
      Column{"scrapes", "scrapes", kCount}, Column{"timeouts", "timeouts", kCount},
      Column{"oversized", "oversized", kCount}, Column{"last_scrape", "last scrape"},
      Column{"last_success", "last success"}, Column{"refused_reasons", "refused because"},
      Column{"frozen_gpus", "frozen gpus", kCount}, Column{"conflicts", "contested gpus", kCount},
      Column{"last_failure", "last failure"}, Column{"faulty_gpus", "faulty counters", kCount},
      Column{"unjudged_gpus", "not judged", kCount}, Column{"counter_faults", "because"});
  for (const Json& g : answer["targets"].array()) {
    const Json& counters = g["counters"];
    const auto ms = g["last_duration_ms"].number();
    AddRow(&t, TextCell(g["url"]), TextCell(g["state"]), NumberCell(g["age_s"]),
           IntegerCell(g["failures"]), Sum(g["refused"]), TextCell(g["error"]),
           TextCell(CountersText(counters)), TextCell(g["node"]), IntegerCell(g["entities"]),
           IntegerCell(g["samples"]),
           ms ? Cell(static_cast<double>(static_cast<int64_t>(*ms * 10 + 0.5)) / 10) : Cell(),
           NumberCell(g["last_bytes"]), IntegerCell(g["scrapes"]), IntegerCell(g["timeouts"]),
           IntegerCell(g["oversized"]), TextCell(g["last_scrape"]), TextCell(g["last_success"]),
           TextCell(RefusedText(g["refused"])), IntegerCell(g["frozen_gpus"]),
           g["conflicts"].is_array() ? Cell(static_cast<int64_t>(g["conflicts"].array().size()))
                                     : Cell(),
           TextCell(g["last_failure"]), IntegerCell(counters["faulty"]),
           IntegerCell(counters["not_judged"]), TextCell(FaultsText(counters["findings"])));
  }
  AddCounterNotes(answer["targets"], &t.notes);
  const int64_t total = answer["total"].integer_or(static_cast<int64_t>(t.rows.size()));
  t.notes.push_back(fmt::format("{} targets, {} up", total, answer["up"].integer_or(0)));
  return t;
}

Table SqlTable(const Json& answer) {
  Table t;
  for (const Json& c : answer["columns"].array()) t.columns.push_back({c["name"].text(), ""});
  for (const Json& row : answer["rows"].array()) {
    auto& out = t.rows.emplace_back();
    for (const Json& v : row.array()) {
      out.push_back(v.is_array() || v.is_object() ? Cell(AsJson(v)) : ScalarCell(v));
    }
  }
  const auto ms = answer["elapsed_ms"].number();
  t.notes.push_back(
      fmt::format("{} rows{}{}", Count(t.rows.size()), ms ? fmt::format(" in {:.0f} ms", *ms) : "",
                  answer["truncated"].boolean() ? " — cut off: raise --max-rows for more" : ""));
  return t;
}

}  // namespace flopwatch::cli
