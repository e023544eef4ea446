#include "api/answers.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "telemetry/sample.h"

namespace flopwatch::api {
namespace {

constexpr size_t kMaxJobsCompared = 20'000;  // job keys compared for "did you mean"

}  // namespace

net::Response JsonResponse(std::string body) {
  net::Response r;
  r.body = std::move(body);
  r.headers.emplace_back("Cache-Control", "no-store");
  return r;
}

void WriteTime(JsonWriter& json, std::string_view name, Micros t) {
  json.Key(name);
  t > 0 ? json.Value(FormatTime(t)) : json.Null();
}

void WriteIndex(JsonWriter& json, std::string_view name, int64_t n, int64_t min) {
  json.Key(name);
  n >= min ? json.Value(n) : json.Null();
}

void WriteWindow(JsonWriter& json, const query::View& view) {
  json.Key("window").BeginObject();
  json.Field("from", FormatTime(view.window.from)).Field("to", FormatTime(view.window.to));
  json.Field("source", query::UsageSourceName(view.source)).EndObject();
}

void WriteSpan(JsonWriter& json, std::string_view name, store::Window window) {
  json.Key(name).BeginObject();
  json.Field("from", FormatTime(window.from)).Field("to", FormatTime(window.to)).EndObject();
}

void WriteCounts(JsonWriter& json, std::string_view name, const ingest::Counts& counts) {
  json.Key(name).BeginObject();
  for (const auto& [reason, n] : counts) json.Field(reason, n);
  json.EndObject();
}

void WriteTexts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.Key(name).BeginArray();
  for (const std::string& text : texts) json.Value(text);
  json.EndArray();
}

void WriteIdentity(JsonWriter& json, const store::EntityRecord& e) {
  json.Field("gpu", e.key.uuid);
  WriteIndex(json, "gpu_instance", e.key.gpu_instance);
  json.TextField("node", e.labels.node);
  WriteIndex(json, "index", e.labels.index);
  json.TextField("model", e.labels.model);
}

std::vector<std::string_view> FlagNames(uint32_t flags) {
  static constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {telemetry::kTensorMissing, "tensor_missing"},
      {telemetry::kClockMissing, "clock_missing"},
      {telemetry::kModelUnknown, "model_unknown"},
      {telemetry::kDeadCounter, "dead_counter"},
      {telemetry::kOutOfRange, "out_of_range"},
      {telemetry::kSpanUnknown, "span_unknown"},
      {telemetry::kStaleRepeat, "stale_repeat"},
      {telemetry::kHalfRateBoard, "half_rate_board"},
      {telemetry::kCyclePath, "cycle_path"},
      {telemetry::kCounterReset, "counter_reset"},
      {telemetry::kBackfilled, "backfilled"},
      {telemetry::kMigParent, "mig_parent"},
      {telemetry::kSuspectCounter, "suspect_counter"},
      {telemetry::kFrozen, "frozen"},
  };
  std::vector<std::string_view> out;
  for (const auto& [bit, name] : kNames)
    if ((flags & bit) != 0) out.push_back(name);
  return out;
}

Status NoSuchJob(const jobs::JobIndex& jobs, std::string_view key) {
  const std::vector<std::string> of_clusters = jobs.KeysOfId(key);
  if (!of_clusters.empty())
    return NotFound("jobs of several clusters have the id '{}': name one of {}",
                    Printable(key, 100),
                    Printable(fmt::format("{}", fmt::join(of_clusters, ", "))));
  std::vector<jobs::JobRecord> all = jobs.AllJobs();
  if (all.size() > kMaxJobsCompared) all.erase(all.begin(), all.end() - kMaxJobsCompared);
  std::vector<std::string_view> keys;
  for (const jobs::JobRecord& j : all) keys.push_back(j.key);
  const std::string_view near = Nearest(key, keys);
  return NotFound("no job '{}'; {}", Printable(key, 100),
                  near.empty() ? std::string("/api/v1/jobs lists those of a window")
                               : fmt::format("did you mean '{}'?", near));
}

}  // namespace flopwatch::api
