#include "api/counters_json.h"

#include <algorithm>
#include <array>

#include "api/answers.h"

namespace flopwatch::api {
namespace {

using efficiency::CounterOpinion;
using efficiency::CounterRule;
using efficiency::CounterVerdict;
using ingest::GpuCounters;

constexpr size_t kMaxListedGpus = 256;  // of a target; its findings count all
constexpr size_t kExamples = 4;

std::string NameOf(const ingest::Registry& registry, int32_t entity) {
  const auto record = registry.entity(entity);
  if (!record.has_value()) return "";
  return record->key.gpu_instance < 0
             ? record->key.uuid
             : record->key.uuid + "/" + std::to_string(record->key.gpu_instance);
}

void WriteRule(JsonWriter& json, const CounterRule& rule) {
  json.Field("rule", rule.name).Field("fault", efficiency::CounterFaultName(rule.fault));
  json.Field("counter", rule.counter.empty() ? std::string_view("all") : rule.counter);
  json.Field("says", rule.says);
}

void WriteFindings(JsonWriter& json, const ingest::Registry& registry,
                   const std::vector<GpuCounters>& gpus) {
  json.Key("findings").BeginArray();
  for (const CounterRule& rule : efficiency::CounterRules()) {
    std::vector<const GpuCounters*> of;
    for (const GpuCounters& gpu : gpus)
      if (gpu.verdict.rule == rule.id) of.push_back(&gpu);
    if (of.empty()) continue;
    float longest = 0;
    for (const GpuCounters* gpu : of) longest = std::max(longest, gpu->verdict.for_s);
    json.BeginObject();
    WriteRule(json, rule);
    json.Field("remedy", ingest::RemedyLine(*of.front()));
    json.Field("gpus", of.size()).Field("for_s", static_cast<double>(longest));
    json.Key("examples").BeginArray();
    for (size_t k = 0; k < std::min(of.size(), kExamples); ++k)
      json.Value(NameOf(registry, of[k]->entity));
    json.EndArray().EndObject();
  }
  json.EndArray();
}

void WriteGpus(JsonWriter& json, const ingest::Registry& registry,
               const std::vector<GpuCounters>& gpus) {
  json.Key("gpus").BeginArray();
  for (size_t k = 0; k < std::min(gpus.size(), kMaxListedGpus); ++k) {
    const CounterVerdict& v = gpus[k].verdict;
    const auto record = registry.entity(gpus[k].entity);
    json.BeginObject().Field("gpu", record ? std::string_view(record->key.uuid) : "");
    WriteIndex(json, "gpu_instance", record ? record->key.gpu_instance : -1);
    WriteIndex(json, "index", record ? record->labels.index : -1);
    json.Field("verdict", efficiency::CounterOpinionName(v.opinion));
    json.Key("rules").BeginArray();
    for (const CounterRule& rule : efficiency::CounterRules())
      if (v.Has(rule.id)) json.Value(rule.name);
    json.EndArray();
    json.TextField("why", efficiency::WhyNotJudged(v));
    json.Field("readings", static_cast<int>(v.readings)).EndObject();
  }
  json.EndArray();
}

}  // namespace

void WriteCounters(JsonWriter& json, const ingest::Registry& registry,
                   const std::vector<GpuCounters>& gpus) {
  std::array<size_t, 4> with{};
  for (const GpuCounters& gpu : gpus) ++with[static_cast<size_t>(gpu.verdict.opinion)];
  json.Key("counters").BeginObject();
  for (const auto opinion : {CounterOpinion::kHonest, CounterOpinion::kNotJudged,
                             CounterOpinion::kUndecided, CounterOpinion::kFaulty}) {
    json.Field(efficiency::CounterOpinionName(opinion), with[static_cast<size_t>(opinion)]);
  }
  WriteFindings(json, registry, gpus);
  WriteGpus(json, registry, gpus);
  json.EndObject();
}

}  // namespace flopwatch::api
