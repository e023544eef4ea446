// GPUs: the list of what each says now, and one GPU over a window.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "api/api_impl.h"
#include "api/usage_json.h"
#include "base/text.h"
#include "efficiency/usage_sums.h"

namespace flopwatch::api {
namespace {

using net::Request;
using store::EntityRecord;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxGpusCompared = 100'000;

// In the order of GpuSort, then those that are sorted by text.
const std::vector<std::string_view> kGpuSorts = {
    "seen",        "ofu",        "tensor_active", "sm_clock_mhz", "gpu_util", "power_w",
    "fb_used_mib", "gpu_temp_c", "age_s",         "node",         "gpu"};
constexpr int kByNode = static_cast<int>(query::GpuSort::kCount), kByGpu = kByNode + 1;

std::string_view StateOf(Micros age, Micros silent_after) {
  if (age <= silent_after) return "reporting";
  return age <= kMicrosPerHour ? "stale" : "silent";
}

void WriteIdentity(JsonWriter& json, const EntityRecord& e) {
  json.Field("gpu", e.key.uuid);
  json.Key("gpu_instance");
  e.key.gpu_instance >= 0 ? json.Value(e.key.gpu_instance) : json.Null();
  json.TextField("node", e.labels.node);
  json.Key("index");
  e.labels.index >= 0 ? json.Value(e.labels.index) : json.Null();
  json.TextField("model", e.labels.model);
}

void WriteNow(JsonWriter& json, const ingest::GpuNow& g, Micros now, Micros silent_after) {
  const Micros age = std::max<Micros>(0, now - g.ts);
  json.Field("state", g.ts == 0 ? std::string_view("silent") : StateOf(age, silent_after));
  json.Key("age_s");
  g.ts == 0 ? json.Null() : json.Value(static_cast<double>(age) / kMicrosPerSecond);
  json.Field("ofu", g.ofu)
      .Field("tensor_active", g.tensor_active)
      .Field("sm_clock_mhz", g.sm_clock_mhz);
  json.Field("sm_active", g.sm_active).Field("gpu_util", g.gpu_util).Field("power_w", g.power_w);
  json.Field("fb_used_mib", g.fb_used_mib).Field("gpu_temp_c", g.gpu_temp_c);
  json.Key("flags").BeginArray();
  for (const std::string_view flag : FlagNames(g.flags)) json.Value(flag);
  json.EndArray();
}

// Without a live state, the means of the last hour stand in for the latest row.
std::vector<ingest::GpuNow> FromRollups(const std::vector<store::GpuUsage>& usages) {
  std::vector<ingest::GpuNow> out;
  const auto mean = [](double sum, double seconds) {
    return seconds > 0 ? sum / seconds : kAbsent;
  };
  for (const store::GpuUsage& u : usages) {
    const store::UsageSums& s = u.sums;
    ingest::GpuNow g;
    g.entity = u.entity;
    g.ts = s.last_ts;
    g.ofu = s.ofu.Ofu().value_or(kAbsent);
    g.tensor_active = mean(s.tensor_s, s.tensor_span_s);
    g.sm_clock_mhz = mean(s.clock_mhz_s, s.clock_span_s);
    g.sm_active = mean(s.sm_active_s, s.sm_active_span_s);
    g.gpu_util = mean(s.gpu_util_s, s.gpu_util_span_s);
    g.power_w = mean(s.power_j, s.power_span_s);
    g.fb_used_mib = g.gpu_temp_c = kAbsent;
    constexpr uint32_t kShown =
        efficiency::kNoWork | efficiency::kModelUnknown | efficiency::kCyclePath;
    efficiency::ForEachUsageSum([&](auto sum) {
      constexpr uint32_t kFlag = efficiency::SpecOf(sum()).flag;
      if ((kFlag & kShown) != 0 && efficiency::Member<sum()>(s) > 0) g.flags |= kFlag;
    });
    out.push_back(g);
  }
  return out;
}

// Keys of the jobs a GPU has now; null, one key, or several joined by commas where they share it.
void WriteJobOf(JsonWriter& json, const query::Query& query, const ingest::GpuNow& g, Micros now) {
  const int32_t set =
      g.job_set != 0 ? g.job_set : query.jobs().Lookup(g.entity, std::min(now, g.ts));
  std::string keys;
  for (const int32_t job : query.jobs().SetMembers(set)) {
    if (const auto record = query.jobs().job(job)) {
      if (!keys.empty()) keys += ",";
      keys += record->key;
    }
  }
  json.TextField("job", keys);
}

}  // namespace

Api::Impl::Result Api::Impl::GetGpus(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"node", "job", "model", "sort",
                                                                   "order", "limit", "offset"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const int sort, params.OneOf("sort", kGpuSorts));
  const bool numeric = sort != static_cast<int>(query::GpuSort::kSeen) && sort < kByNode;
  FW_ASSIGN_OR_RETURN(const int order,
                      params.OneOf("order", {numeric ? "desc" : "asc", numeric ? "asc" : "desc"}));
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultPage, 1, kMaxPage));
  FW_ASSIGN_OR_RETURN(const int64_t offset, params.Int("offset", 0, 0, INT32_MAX));
  const Micros now = query.now();

  int32_t job = 0;
  if (const auto key = params.Text("job")) {
    const auto record = query.jobs().FindJob(*key);
    if (!record.has_value())
      return absl::NotFoundError(fmt::format("parameter 'job': no job '{}'", Printable(*key, 100)));
    job = record->id;
  }
  const auto node = params.Text("node"), model = params.Text("model");
  const bool filtered = node.has_value() || model.has_value();
  std::vector<int32_t> wanted;  // in order of id
  if (filtered) {
    query.registry().ForEachEntity([&](const EntityRecord& e) {
      if ((!node.has_value() || e.labels.node == *node) &&
          (!model.has_value() || e.labels.model == *model)) {
        wanted.push_back(e.id);
      }
    });
  }
  absl::flat_hash_map<int32_t, std::pair<std::string, int32_t>> names;
  if (sort == kByNode || sort == kByGpu) {
    query.registry().ForEachEntity([&](const EntityRecord& e) {
      names[e.id] = sort == kByNode ? std::pair(e.labels.node, e.labels.index)
                                    : std::pair(e.key.uuid, e.key.gpu_instance);
    });
  }

  // First what to sort by, of every GPU; then whole rows, of the page alone.
  struct Candidate {
    double key;
    int32_t entity;
  };
  std::vector<Candidate> gpus;
  const query::GpuSort by = numeric ? static_cast<query::GpuSort>(sort) : query::GpuSort::kSeen;
  const auto consider = [&](int32_t entity, double key) {
    if (!filtered || std::binary_search(wanted.begin(), wanted.end(), entity))
      gpus.push_back({key, entity});
  };
  absl::flat_hash_map<int32_t, ingest::GpuNow> offline;
  if (query.live() != nullptr) {
    const std::shared_ptr<const query::GpuColumns> all = query.gpus();
    const std::vector<double>& keys = all->keys[static_cast<size_t>(by)];
    gpus.reserve(job == 0 && !filtered ? keys.size() : 0);
    absl::flat_hash_map<int32_t, bool> of_job;  // by job set
    for (size_t k = 0; k < keys.size(); ++k) {
      if (job != 0) {
        const auto [known, fresh] = of_job.try_emplace(all->job_set[k], false);
        if (fresh) {
          const std::vector<int32_t> members = query.jobs().SetMembers(all->job_set[k]);
          known->second = std::find(members.begin(), members.end(), job) != members.end();
        }
        if (!known->second) continue;
      }
      consider(all->entity[k], keys[k]);
    }
  } else if (parts.store != nullptr) {
    const query::View view = query.Resolve({now - kMicrosPerHour, now}, /*allow_live=*/false);
    FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> usages,
                        parts.store->UsageByGpu(view.window, job));
    for (const ingest::GpuNow& g : FromRollups(usages)) {
      offline[g.entity] = g;
      consider(g.entity, query::SortKey(g, by));
    }
  }
  const auto first = std::min(gpus.size(), static_cast<size_t>(offset));
  const auto last = std::min(gpus.size(), first + static_cast<size_t>(limit));
  const bool ascending = numeric == (order == 1);
  std::partial_sort(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(last), gpus.end(),
                    [&](const Candidate& a, const Candidate& b) {
                      if (!names.empty()) {
                        const auto &x = names[a.entity], &y = names[b.entity];
                        if (x.first != y.first)
                          return ascending ? x.first < y.first : y.first < x.first;
                        if (x.second != y.second) return x.second < y.second;
                        return a.entity < b.entity;
                      }
                      if (std::isnan(a.key) != std::isnan(b.key)) return std::isnan(b.key);
                      if (!std::isnan(a.key) && a.key != b.key)
                        return ascending ? a.key < b.key : b.key < a.key;
                      return a.entity < b.entity;
                    });

  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("total", gpus.size()).Key("gpus").BeginArray();
  for (size_t k = first; k < last; ++k) {
    ingest::GpuNow g =
        query.live() != nullptr ? query.live()->Gpu(gpus[k].entity) : offline[gpus[k].entity];
    g.entity = gpus[k].entity;
    json.BeginObject();
    WriteIdentity(json, query.registry().entity(g.entity).value_or(EntityRecord{}));
    WriteJobOf(json, query, g, now);
    WriteNow(json, g, now, query.silent_after());
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetGpu(const Request& request, std::string_view arg) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"from", "to", "step", "gpu_instance"}));
  FW_RETURN_IF_ERROR(query.ready());
  if (parts.store == nullptr)
    return absl::UnavailableError("no store: the history of a GPU is not kept");
  const Micros now = query.now();
  FW_ASSIGN_OR_RETURN(const store::Window asked, params.Window(now));
  FW_ASSIGN_OR_RETURN(const int64_t instance, params.Int("gpu_instance", -1, 0, 1 << 20));
  const int32_t id = query.registry().FindEntity(arg, static_cast<int32_t>(instance));
  if (id == 0) {
    std::vector<std::string> all;
    query.registry().ForEachEntity([&](const EntityRecord& e) {
      if (all.size() < kMaxGpusCompared) all.push_back(e.key.uuid);
    });
    const std::vector<std::string_view> views(all.begin(), all.end());
    const std::string_view near = Nearest(arg, views);
    return absl::NotFoundError(
        fmt::format("no GPU '{}'{}; {}", Printable(arg, 100),
                    instance >= 0 ? fmt::format(" with instance {}", instance) : "",
                    near.empty() ? std::string("/api/v1/gpus lists them")
                                 : fmt::format("did you mean '{}'?", near)));
  }
  const EntityRecord e = query.registry().entity(id).value_or(EntityRecord{});
  const query::View view = query.Resolve(asked, /*allow_live=*/false);
  FW_ASSIGN_OR_RETURN(const Micros step, params.Step(view.window));

  // A GPU that is split is the sum of its instances, each by its share, and of its own board
  // values; in a step without instances it is itself.
  std::vector<EntityRecord> members = {e};
  query.registry().ForEachEntity([&](const EntityRecord& other) {
    if (other.parent == id) members.push_back(other);
  });
  std::vector<store::UsagePoint> points;
  absl::flat_hash_set<Micros> split;  // steps with instances
  for (size_t k = 1; k < members.size(); ++k) {
    FW_ASSIGN_OR_RETURN(std::vector<store::UsagePoint> own,
                        parts.store->GpuSeries(members[k].id, view.window, step));
    for (store::UsagePoint& p : own) {
      split.insert(p.ts);
      points.push_back({p.ts, efficiency::OfGpu(p.sums, query.registry().Fraction(members[k].id))});
    }
  }
  FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> own,
                      parts.store->GpuSeries(id, view.window, step));
  for (const store::UsagePoint& p : own)
    points.push_back({p.ts, split.contains(p.ts) ? efficiency::OfBoard(p.sums) : p.sums});
  const Micros from = std::max(view.window.from, e.first_seen);
  std::vector<double> expected(
      static_cast<size_t>((view.window.to - FloorTo(view.window.from, step) + step - 1) / step), 0);
  for (size_t k = 0; k < expected.size(); ++k) {
    const Micros begin = FloorTo(view.window.from, step) + static_cast<Micros>(k) * step;
    const Micros there = std::min(begin + step, view.window.to) - std::max(begin, from);
    expected[k] = static_cast<double>(std::max<Micros>(0, there)) / kMicrosPerSecond;
  }
  const query::Series series = query::MakeSeries(view.window, step, points, std::move(expected));
  query::Usage usage;
  for (const store::UsageSums& p : series.points) usage.sums += p;
  for (const double s : series.expected_s) usage.expected_s += s;
  usage.sums.gpus = 1;
  usage.ci95 = query::HalfWidth95(series);

  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("gpu").BeginObject();
  WriteIdentity(json, e);
  json.TextField("device", e.labels.device);
  json.TextField("pci_bus_id", e.labels.pci_bus_id);
  json.TextField("driver", e.labels.driver);
  json.TextField("mig_profile", e.labels.mig_profile);
  json.Key("sm_count");
  e.sm_count > 0 ? json.Value(e.sm_count) : json.Null();
  const auto model = query.registry().model(e.model);
  json.Field("tensor_clock_max_mhz",
             model.has_value() ? model->tensor_clock_max_mhz : std::nullopt);
  WriteTime(json, "first_seen", e.first_seen);
  ingest::GpuNow latest;
  latest.entity = id;
  latest.ofu = latest.tensor_active = latest.sm_clock_mhz = latest.sm_active = latest.gpu_util =
      latest.power_w = latest.fb_used_mib = latest.gpu_temp_c = kAbsent;
  if (query.live() != nullptr && query.live()->Gpu(id).ts != 0) {
    latest = query.live()->Gpu(id);
  } else {
    latest.ts = usage.sums.last_ts;
  }
  WriteJobOf(json, query, latest, now);
  WriteNow(json, latest, now, query.silent_after());
  json.Key("instances").BeginArray();
  for (size_t k = 1; k < members.size(); ++k) {
    json.BeginObject().Field("gpu_instance", members[k].key.gpu_instance);
    json.TextField("mig_profile", members[k].labels.mig_profile);
    json.Key("sm_count");
    members[k].sm_count > 0 ? json.Value(members[k].sm_count) : json.Null();
    json.EndObject();
  }
  json.EndArray().EndObject();
  WriteWindow(json, view);
  json.Key("usage");
  WriteUsage(json, usage);
  json.Key("series");
  WriteSeries(json, series);
  json.Key("jobs").BeginArray();
  for (const EntityRecord& member : members) {
    for (const jobs::IntervalRecord& i :
         query.jobs().EntityIntervals(member.id, view.window.from, view.window.to)) {
      const auto record = query.jobs().job(i.job);
      if (!record.has_value()) continue;
      json.BeginObject().Field("job", record->key);
      json.TextField("user", record->user);
      json.Key("gpu_instance");
      member.key.gpu_instance >= 0 ? json.Value(member.key.gpu_instance) : json.Null();
      json.Field("from", FormatTime(i.from));
      WriteTime(json, "to", i.to == jobs::kOpenEnd ? 0 : i.to);
      json.EndObject();
    }
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace flopwatch::api
