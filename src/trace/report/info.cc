#include "trace/report/info.h"

#include <fmt/format.h>

#include <array>

namespace flopwatch::trace {
namespace {

constexpr size_t kCategories = static_cast<size_t>(Category::kOther) + 1;

struct OfCategory {
  int64_t events = 0;
  double us = 0;  // summed; rows that enclose each other count each
};

std::array<OfCategory, kCategories> Count(const RankTrace& rank) {
  std::array<OfCategory, kCategories> out;
  const EventTable& e = rank.events;
  for (size_t r = 0; r < e.size(); ++r) {
    OfCategory& c = out[static_cast<size_t>(e.category[r])];
    ++c.events;
    c.us += static_cast<double>(e.dur[r]) / 1e3;  // a sum of hostile durations may be beyond int64
  }
  return out;
}

std::string Devices(const RankTrace& rank) {
  std::string first;
  size_t same = 0;
  for (const Device& d : rank.devices) {
    if (first.empty()) first = d.name;
    if (d.name == first && !first.empty()) ++same;
  }
  if (first.empty()) return "";
  std::string out = same > 1 ? fmt::format("{} × {}", same, first) : first;
  if (same < rank.devices.size()) out += fmt::format(" and {} more", rank.devices.size() - same);
  return out;
}

Cell TextCell(std::string text) { return text.empty() ? Cell{} : Cell(std::move(text)); }
Cell NumberCell(int64_t n) { return n == kUnknown ? Cell{} : Cell(n); }

std::string Recorded(const RankTrace& rank) {
  std::string out;
  const auto add = [&](bool has, std::string_view name) {
    if (has) out += fmt::format("{}{}", out.empty() ? "" : " ", name);
  };
  add(rank.record_shapes, "shapes");
  add(rank.with_stack, "stack");
  add(rank.with_modules, "modules");
  add(rank.with_flops, "flops");
  add(rank.profile_memory, "memory");
  add(!rank.counters.empty(), "counters");
  return out;
}

}  // namespace

Table InfoRanks(const TraceSet& set) {
  Table t;
  t.columns = {{"rank", "rank"},
               {"format", "format"},
               {"events", "events", ColumnFormat::kCount},
               {"gpu_events", "GPU events", ColumnFormat::kCount},
               {"span_us", "span", ColumnFormat::kMicros},
               {"steps", "steps", ColumnFormat::kCount},
               {"complete_steps", "complete", ColumnFormat::kCount},
               {"devices", "devices"},
               {"world_size", "world", ColumnFormat::kCount},
               {"backend", "backend"},
               {"recorded", "recorded"},
               {"dropped", "left out", ColumnFormat::kCount},
               {"repaired", "repaired", ColumnFormat::kCount},
               {"file_bytes", "file", ColumnFormat::kBytes},
               {"text_bytes", "text", ColumnFormat::kBytes},
               {"nccl", "NCCL"},
               {"rank_known", "rank known"},
               {"path", "path"}};
  for (const RankTrace& r : set.ranks) {
    int64_t gpu = 0, complete = 0, dropped = 0, repaired = 0;
    for (const Category c : r.events.category) gpu += IsGpuWork(c) ? 1 : 0;
    for (const Step& s : r.steps) complete += s.complete ? 1 : 0;
    for (const Loss& l : r.losses) (l.repaired ? repaired : dropped) += l.count;
    t.rows.push_back(
        {int64_t{r.rank}, r.format, static_cast<int64_t>(r.events.size()), gpu,
         static_cast<double>(r.end - r.begin) / 1e3, static_cast<int64_t>(r.steps.size()), complete,
         TextCell(Devices(r)), NumberCell(r.world_size), TextCell(r.backend), TextCell(Recorded(r)),
         dropped, repaired, static_cast<int64_t>(r.file_bytes), static_cast<int64_t>(r.text_bytes),
         TextCell(r.nccl_version), r.rank_known, r.path});
  }
  return t;
}

Table InfoCategories(const TraceSet& set) {
  std::array<OfCategory, kCategories> sums;
  for (const RankTrace& r : set.ranks) {
    const auto own = Count(r);
    for (size_t c = 0; c < kCategories; ++c) {
      sums[c].events += own[c].events;
      sums[c].us += own[c].us;
    }
  }
  Table t;
  t.columns = {{"category", "category"},
               {"events", "events", ColumnFormat::kCount},
               {"sum_us", "summed time", ColumnFormat::kMicros}};
  for (size_t c = 0; c < kCategories; ++c) {
    if (sums[c].events > 0)
      t.rows.push_back(
          {std::string(CategoryName(static_cast<Category>(c))), sums[c].events, sums[c].us});
  }
  return t;
}

Table InfoGroups(const TraceSet& set) {
  Table t;
  t.columns = {{"group", "group"},
               {"description", "description"},
               {"backend", "backend"},
               {"size", "size", ColumnFormat::kCount}};
  for (const RankTrace& r : set.ranks) {
    for (const ProcessGroup& g : r.process_groups)
      t.rows.push_back({g.name, TextCell(g.description), TextCell(g.backend), NumberCell(g.size)});
    if (!t.rows.empty()) break;
  }
  return t;
}

std::string InfoJson(const TraceSet& set, const LossReport& losses) {
  std::string out;
  JsonWriter json(&out);
  const auto rows = [&](std::string_view key, const Table& t) {
    json.Key(key).BeginArray();
    for (const auto& row : t.rows) {
      json.BeginObject();
      for (size_t c = 0; c < t.columns.size(); ++c) {
        json.Key(t.columns[c].name);
        WriteCell(json, row[c]);
      }
      json.EndObject();
    }
    json.EndArray();
  };
  json.BeginObject();
  rows("ranks", InfoRanks(set));
  rows("categories", InfoCategories(set));
  rows("process_groups", InfoGroups(set));
  json.Field("origin_ns", set.origin());
  WriteLosses(json, losses);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace flopwatch::trace
