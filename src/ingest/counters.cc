#include "ingest/counters.h"

namespace flopwatch::ingest {
namespace {

constexpr std::string_view kOwnNames[] = {"duplicate_exporter", "uuid_conflict", "stale_timestamp",
                                          "future_timestamp",   "entity_limit",  "source_limit",
                                          "entity_budget",      "model_budget",  "job_budget",
                                          "series_budget",      "source_budget", "source_memory"};
constexpr size_t kOfDecoder = static_cast<size_t>(telemetry::Refusal::kCount);
static_assert(kOfDecoder + std::size(kOwnNames) == kRefusalCount);

}  // namespace

std::string_view RefusalName(size_t reason) {
  if (reason < kOfDecoder) return telemetry::ReasonName(static_cast<telemetry::Refusal>(reason));
  return reason < kRefusalCount ? kOwnNames[reason - kOfDecoder] : "unknown";
}

Counts NonZero(const RefusalCounts& counts) {
  Counts out;
  for (size_t k = 0; k < counts.size(); ++k)
    if (counts[k] != 0) out.emplace_back(RefusalName(k), counts[k]);
  return out;
}

}  // namespace flopwatch::ingest
