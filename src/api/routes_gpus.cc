// GPUs: the list of what each says now, and one GPU over a window.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "api/answers.h"
#include "api/routes.h"
#include "api/usage_json.h"
#include "base/text.h"
#include "efficiency/usage_sums.h"

namespace flopwatch::api {
namespace {

using query::GpuSort;
using store::EntityRecord;

constexpr double kAbsent = ingest::GpuNow::kAbsent;
constexpr size_t kMaxGpusCompared = 100'000;

// The text orders go on where GpuSort ends.
constexpr GpuSort kByNode = GpuSort::kCount;
constexpr GpuSort kByGpu = static_cast<GpuSort>(static_cast<int>(GpuSort::kCount) + 1);
constexpr std::string_view kGpuSorts[] = {
    "seen",        "ofu",        "tensor_active", "sm_clock_mhz", "gpu_util", "power_w",
    "fb_used_mib", "gpu_temp_c", "age_s",         "node",         "gpu"};
constexpr PathName kUuid("uuid", "UUID.");
constexpr Text kOfNode("node", "Only this node's.");
constexpr Text kGpusOfJob("job", "Only this job's.");
constexpr Text kOfModel("model", "Only this model.");
constexpr OneOf<GpuSort> kGpuSort("sort", kGpuSorts,
                                  "What to sort by; seen = order of first appearance.");
constexpr OptionalInteger kInstance("gpu_instance", 0, 1 << 20, "A MIG instance of it.");

bool IsTextColumn(GpuSort sort) { return sort >= GpuSort::kCount; }
bool IsNumber(GpuSort sort) { return sort != GpuSort::kSeen && !IsTextColumn(sort); }

std::string_view StateOf(Micros age, Micros silent_after) {
  if (age <= silent_after) return "reporting";
  return age <= kMicrosPerHour ? "stale" : "silent";
}

void WriteNow(JsonWriter& json, const ingest::GpuNow& g, Micros now, Micros silent_after) {
  const Micros age = std::max<Micros>(0, now - g.ts);
  json.Field("state", g.ts == 0 ? std::string_view("silent") : StateOf(age, silent_after));
  json.Key("age_s");
  g.ts == 0 ? json.Null() : json.Value(ToSeconds(age));
  json.Field("ofu", g.ofu)
      .Field("tensor_active", g.tensor_active)
      .Field("sm_clock_mhz", g.sm_clock_mhz);
  json.Field("sm_active", g.sm_active).Field("gpu_util", g.gpu_util).Field("power_w", g.power_w);
  json.Field("fb_used_mib", g.fb_used_mib).Field("gpu_temp_c", g.gpu_temp_c);
  json.Key("flags").BeginArray();
  for (const std::string_view flag : FlagNames(g.flags)) json.Value(flag);
  json.EndArray();
  // What was last seen an hour ago, or read from the store, has nobody who judges it.
  const bool judged = g.ts != 0 && g.counters.readings > 0;
  judged ? json.Field("counters", efficiency::CounterOpinionName(g.counters.opinion))
         : json.Key("counters").Null();
  judged&& g.counters.rule != efficiency::CounterRuleId::kNone
      ? json.Field("counter_fault", efficiency::RuleOf(g.counters.rule).name)
      : json.Key("counter_fault").Null();
}

// Without a live state, the means of the last hour stand in for the latest row.
ingest::GpuNow FromRollups(const store::GpuUsage& usage) {
  const store::UsageSums& s = usage.sums;
  const auto mean = [](double sum, double seconds) {
    return seconds > 0 ? sum / seconds : kAbsent;
  };
  ingest::GpuNow g;
  g.entity = usage.entity;
  g.ts = s.last_ts;
  g.ofu = s.ofu.Ofu().value_or(kAbsent);
  g.tensor_active = mean(s.tensor_s, s.tensor_span_s);
  g.sm_clock_mhz = mean(s.clock_mhz_s, s.clock_span_s);
  g.sm_active = mean(s.sm_active_s, s.sm_active_span_s);
  g.gpu_util = mean(s.gpu_util_s, s.gpu_util_span_s);
  g.power_w = mean(s.power_j, s.power_span_s);
  constexpr uint32_t kShown =
      efficiency::kNoWork | efficiency::kModelUnknown | efficiency::kCyclePath;
  efficiency::ForEachUsageSum([&](auto sum) {
    constexpr uint32_t kFlag = efficiency::SpecOf(sum()).flag;
    if ((kFlag & kShown) != 0 && efficiency::Member<sum()>(s) > 0) g.flags |= kFlag;
  });
  return g;
}

// Keys of the jobs a GPU has now; null, one key, or several joined by commas where they share it.
void WriteJobOf(JsonWriter& json, const query::Memory& memory, const ingest::GpuNow& g,
                Micros now) {
  const jobs::JobIndex& jobs = memory.jobs();
  std::string keys;
  for (const int32_t job :
       jobs.SetMembers(g.job_set != 0 ? g.job_set : jobs.Lookup(g.entity, std::min(now, g.ts)))) {
    if (const auto record = jobs.job(job)) {
      if (!keys.empty()) keys += ",";
      keys += record->key;
    }
  }
  json.TextField("job", keys);
}

// --- the list ---

// First what to sort by, of every GPU; then whole rows, of the page alone.
struct Candidate {
  double key;
  int32_t entity;
};
using GpuRowOf = std::function<ingest::GpuNow(int32_t entity)>;

struct GpuFilter {
  int32_t job = 0;                // 0 = of any
  bool by_text = false;           // `entities` counts
  std::vector<int32_t> entities;  // in order of id
  bool Takes(int32_t entity) const {
    return !by_text || std::binary_search(entities.begin(), entities.end(), entity);
  }
};

StatusOr<GpuFilter> FilterOf(const query::Memory& memory, const Arguments& args) {
  GpuFilter filter;
  if (const auto key = args[kGpusOfJob]) {
    const auto record = memory.jobs().FindJob(*key);
    if (!record.has_value()) return Annotate(NoSuchJob(memory.jobs(), *key), "parameter 'job'");
    filter.job = record->id;
  }
  const auto node = args[kOfNode], model = args[kOfModel];
  filter.by_text = node.has_value() || model.has_value();
  if (!filter.by_text) return filter;
  memory.registry().ForEachEntity([&](const EntityRecord& e) {
    if ((!node.has_value() || e.labels.node == *node) &&
        (!model.has_value() || e.labels.model == *model))
      filter.entities.push_back(e.id);
  });
  return filter;
}

std::vector<Candidate> LiveCandidates(const query::Memory& memory, const GpuFilter& filter,
                                      GpuSort by) {
  const std::shared_ptr<const query::GpuColumns> all = memory.gpus();
  const std::vector<double>& keys = all->keys[static_cast<size_t>(by)];
  std::vector<Candidate> gpus;
  gpus.reserve(filter.job == 0 && !filter.by_text ? keys.size() : 0);
  absl::flat_hash_map<int32_t, bool> of_job;  // by job set
  for (size_t k = 0; k < keys.size(); ++k) {
    if (filter.job != 0) {
      const auto [known, fresh] = of_job.try_emplace(all->job_set[k], false);
      if (fresh) {
        const std::vector<int32_t> members = memory.jobs().SetMembers(all->job_set[k]);
        known->second = std::find(members.begin(), members.end(), filter.job) != members.end();
      }
      if (!known->second) continue;
    }
    if (filter.Takes(all->entity[k])) gpus.push_back({keys[k], all->entity[k]});
  }
  return gpus;
}

void SortByText(const query::Memory& memory, GpuSort sort, bool ascending,
                std::vector<Candidate>::iterator end, std::vector<Candidate>* gpus) {
  absl::flat_hash_map<int32_t, std::pair<std::string, int32_t>> names;
  memory.registry().ForEachEntity([&](const EntityRecord& e) {
    names[e.id] = sort == kByNode ? std::pair(e.labels.node, e.labels.index)
                                  : std::pair(e.key.uuid, e.key.gpu_instance);
  });
  std::partial_sort(gpus->begin(), end, gpus->end(), [&](const Candidate& a, const Candidate& b) {
    const auto &x = names[a.entity], &y = names[b.entity];
    if (x.first != y.first) return ascending ? x.first < y.first : y.first < x.first;
    if (x.second != y.second) return x.second < y.second;
    return a.entity < b.entity;
  });
}

void SortByNumber(bool ascending, std::vector<Candidate>::iterator end,
                  std::vector<Candidate>* gpus) {
  std::partial_sort(gpus->begin(), end, gpus->end(), [&](const Candidate& a, const Candidate& b) {
    if (std::isnan(a.key) != std::isnan(b.key)) return std::isnan(b.key);
    if (!std::isnan(a.key) && a.key != b.key) return ascending ? a.key < b.key : b.key < a.key;
    return a.entity < b.entity;
  });
}

net::Response WriteGpus(const query::Memory& memory, const Arguments& args,
                        std::vector<Candidate> gpus, const GpuRowOf& row_of) {
  const GpuSort sort = args[kGpuSort];
  const auto [first, last] = PageOf(args, kLimit, kOffset, gpus.size());
  const auto end = gpus.begin() + static_cast<std::ptrdiff_t>(last);
  const Order order =
      args[kOrder].value_or(IsNumber(sort) ? Order::kDescending : Order::kAscending);
  if (IsTextColumn(sort)) {
    SortByText(memory, sort, order == Order::kAscending, end, &gpus);
  } else {
    SortByNumber(order == Order::kAscending, end, &gpus);
  }
  const Micros now = memory.now();
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("total", gpus.size()).Key("gpus").BeginArray();
  for (size_t k = first; k < last; ++k) {
    ingest::GpuNow g = row_of(gpus[k].entity);
    g.entity = gpus[k].entity;
    json.BeginObject();
    WriteIdentity(json, memory.registry().entity(g.entity).value_or(EntityRecord{}));
    WriteJobOf(json, memory, g, now);
    WriteNow(json, g, now, memory.silent_after());
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

GpuSort ColumnOf(GpuSort sort) { return IsTextColumn(sort) ? GpuSort::kSeen : sort; }

Result LiveGpus(const query::Memory& memory, const Arguments& args) {
  FW_ASSIGN_OR_RETURN(const GpuFilter filter, FilterOf(memory, args));
  return WriteGpus(memory, args, LiveCandidates(memory, filter, ColumnOf(args[kGpuSort])),
                   [&](int32_t entity) { return memory.live()->Gpu(entity); });
}

std::optional<Result> GpusNow(const query::Memory& memory, const Arguments& args) {
  // Names of a whole fleet are compared on a worker.
  if (memory.live() == nullptr || IsTextColumn(args[kGpuSort]) || args[kOfNode] || args[kOfModel] ||
      !memory.AtHand({query::Snapshot::kGpus}))
    return std::nullopt;
  return LiveGpus(memory, args);
}

Result GpusOver(const query::Query& query, const Arguments& args) {
  const query::Memory& memory = query.memory();
  FW_RETURN_IF_ERROR(memory.ready());
  if (memory.live() != nullptr) return LiveGpus(memory, args);
  FW_ASSIGN_OR_RETURN(const GpuFilter filter, FilterOf(memory, args));
  const Micros now = memory.now();
  FW_ASSIGN_OR_RETURN(
      const std::vector<store::GpuUsage> usages,
      query.store().UsageByGpu(memory.StoredView({now - kMicrosPerHour, now}).window, filter.job));
  absl::flat_hash_map<int32_t, ingest::GpuNow> rows;
  std::vector<Candidate> gpus;
  for (const store::GpuUsage& usage : usages) {
    const ingest::GpuNow g = rows[usage.entity] = FromRollups(usage);
    if (filter.Takes(g.entity)) gpus.push_back({SortKey(g, ColumnOf(args[kGpuSort])), g.entity});
  }
  return WriteGpus(memory, args, std::move(gpus), [&](int32_t entity) { return rows[entity]; });
}

// --- one GPU ---

struct GpuAnswer {
  query::View view;
  std::vector<EntityRecord> members;  // itself, then its instances
  query::Series series;
  query::Usage usage;
};

Status NoSuchGpu(const ingest::Registry& registry, std::string_view uuid,
                 std::optional<int64_t> instance) {
  std::vector<std::string> all;
  registry.ForEachEntity([&](const EntityRecord& e) {
    if (all.size() < kMaxGpusCompared) all.push_back(e.key.uuid);
  });
  const std::vector<std::string_view> views(all.begin(), all.end());
  const std::string_view near = Nearest(uuid, views);
  return NotFound("no GPU '{}'{}; {}", Printable(uuid, 100),
                  instance ? fmt::format(" with instance {}", *instance) : "",
                  near.empty() ? std::string("/api/v1/gpus lists them")
                               : fmt::format("did you mean '{}'?", near));
}

// Seconds of each step in which the GPU was known.
std::vector<double> KnownSeconds(store::Window window, Micros step, Micros first_seen) {
  const Micros start = FloorTo(window.from, step), from = std::max(window.from, first_seen);
  std::vector<double> out(static_cast<size_t>((window.to - start + step - 1) / step), 0);
  for (size_t k = 0; k < out.size(); ++k) {
    const Micros begin = start + static_cast<Micros>(k) * step;
    out[k] =
        ToSeconds(std::max<Micros>(0, std::min(begin + step, window.to) - std::max(begin, from)));
  }
  return out;
}

// A GPU that is split is the sum of its instances, each by its share, and of its own board values;
// in a step without instances it is itself.
StatusOr<GpuAnswer> GatherGpu(const query::Query& query, const EntityRecord& e,
                              const query::View& view, Micros step) {
  const ingest::Registry& registry = query.memory().registry();
  GpuAnswer answer{.view = view, .members = {e}, .series = {}, .usage = {}};
  registry.ForEachEntity([&](const EntityRecord& other) {
    if (other.parent == e.id) answer.members.push_back(other);
  });
  std::vector<store::UsagePoint> points;
  absl::flat_hash_set<Micros> split;  // steps with instances
  for (size_t k = 1; k < answer.members.size(); ++k) {
    const int32_t instance = answer.members[k].id;
    FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> own,
                        query.store().GpuSeries(instance, view.window, step));
    for (const store::UsagePoint& p : own) {
      split.insert(p.ts);
      points.push_back({p.ts, efficiency::OfGpu(p.sums, registry.Fraction(instance))});
    }
  }
  FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> own,
                      query.store().GpuSeries(e.id, view.window, step));
  for (const store::UsagePoint& p : own)
    points.push_back({p.ts, split.contains(p.ts) ? efficiency::OfBoard(p.sums) : p.sums});
  answer.series =
      query::MakeSeries(view.window, step, points, KnownSeconds(view.window, step, e.first_seen));
  for (const store::UsageSums& p : answer.series.points) answer.usage.sums += p;
  for (const double s : answer.series.expected_s) answer.usage.expected_s += s;
  answer.usage.sums.gpus = 1;
  answer.usage.ci95 = query::HalfWidth95(answer.series);
  return answer;
}

void WriteGpu(JsonWriter& json, const query::Memory& memory, const GpuAnswer& answer) {
  const EntityRecord& e = answer.members[0];
  WriteIdentity(json, e);
  json.TextField("device", e.labels.device);
  json.TextField("pci_bus_id", e.labels.pci_bus_id);
  json.TextField("driver", e.labels.driver);
  json.TextField("nvlink_domain", e.labels.nvlink_domain);
  json.TextField("mig_profile", e.labels.mig_profile);
  WriteIndex(json, "sm_count", e.sm_count, 1);
  const auto model = memory.registry().model(e.model);
  json.Field("tensor_clock_max_mhz",
             model.has_value() ? model->tensor_clock_max_mhz : std::nullopt);
  WriteTime(json, "first_seen", e.first_seen);
  ingest::GpuNow latest;
  if (memory.live() != nullptr) latest = memory.live()->Gpu(e.id);
  if (latest.ts == 0) {
    latest = {};
    latest.entity = e.id;
    latest.ts = answer.usage.sums.last_ts;
  }
  const Micros now = memory.now();
  WriteJobOf(json, memory, latest, now);
  WriteNow(json, latest, now, memory.silent_after());
  json.Key("instances").BeginArray();
  for (size_t k = 1; k < answer.members.size(); ++k) {
    const EntityRecord& instance = answer.members[k];
    json.BeginObject().Field("gpu_instance", instance.key.gpu_instance);
    json.TextField("mig_profile", instance.labels.mig_profile);
    WriteIndex(json, "sm_count", instance.sm_count, 1);
    json.EndObject();
  }
  json.EndArray();
}

void WriteJobsOf(JsonWriter& json, const jobs::JobIndex& jobs, const GpuAnswer& answer) {
  json.Key("jobs").BeginArray();
  const store::Window& window = answer.view.window;
  for (const EntityRecord& member : answer.members) {
    for (const jobs::IntervalRecord& i : jobs.EntityIntervals(member.id, window.from, window.to)) {
      const auto record = jobs.job(i.job);
      if (!record.has_value()) continue;
      json.BeginObject().Field("job", record->key);
      json.TextField("user", record->user);
      WriteIndex(json, "gpu_instance", member.key.gpu_instance);
      json.Field("from", FormatTime(i.from));
      WriteTime(json, "to", i.to == jobs::kOpenEnd ? 0 : i.to);
      json.EndObject();
    }
  }
  json.EndArray();
}

Result GpuOver(const query::Query& query, const Call& call) {
  const query::Memory& memory = query.memory();
  FW_RETURN_IF_ERROR(memory.ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, call.args.Window());
  const auto instance = call.args[kInstance];
  const int32_t id =
      memory.registry().FindEntity(call.name, static_cast<int32_t>(instance.value_or(-1)));
  if (id == 0) return NoSuchGpu(memory.registry(), call.name, instance);
  const query::View view = memory.StoredView(asked);
  FW_ASSIGN_OR_RETURN(const Micros step, call.args.Step(view.window));
  FW_ASSIGN_OR_RETURN(
      const GpuAnswer answer,
      GatherGpu(query, memory.registry().entity(id).value_or(EntityRecord{}), view, step));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("gpu").BeginObject();
  WriteGpu(json, memory, answer);
  json.EndObject();
  WriteWindow(json, view);
  json.Key("usage");
  WriteUsage(json, answer.usage);
  json.Key("series");
  WriteSeries(json, answer.series);
  WriteJobsOf(json, memory.jobs(), answer);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddGpuRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table) {
  table->Add(
      Get("/api/v1/gpus", "listGpus", "What each GPU says now; means of the last hour when offline",
          {&kOfNode, &kGpusOfJob, &kOfModel, &kGpuSort, &kOrder, &kLimit, &kOffset},
          {Ok("Gpus"), BadParameter(), NoneNear()}),
      [memory](const Call& call) { return GpusNow(*memory, call.args); },
      [query](const Call& call) { return GpusOver(*query, call.args); });
  table->Add(Get("/api/v1/gpus/{uuid}", "getGpu", "One GPU: usage, series, jobs",
                 {&kUuid, &kInstance, &kFrom, &kTo, &kStep},
                 {Ok("GpuDetail"), BadParameter(), NoneNear()}),
             {}, [query](const Call& call) { return GpuOver(*query, call); });
}

}  // namespace flopwatch::api
