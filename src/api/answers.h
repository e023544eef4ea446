// What the answers of several subjects have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "ingest/pipeline.h"
#include "jobs/job_index.h"
#include "net/http.h"
#include "query/memory.h"

namespace flopwatch::api {

inline constexpr size_t kMaxNodeName = 255;

net::Response JsonResponse(std::string body);

// Writes "window": {...}; the second form without where the numbers come from.
void WriteWindow(JsonWriter& json, const query::View& view);
void WriteSpan(JsonWriter& json, std::string_view name, store::Window window);
void WriteTime(JsonWriter& json, std::string_view name, Micros t);                     // null for 0
void WriteIndex(JsonWriter& json, std::string_view name, int64_t n, int64_t min = 0);  // null below
void WriteCounts(JsonWriter& json, std::string_view name, const ingest::Counts& counts);
void WriteTexts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts);
// Writes which GPU it is: its UUID, instance, node, index and model.
void WriteIdentity(JsonWriter& json, const store::EntityRecord& e);
// Names of the flags a job or GPU may have, by SampleFlag bits.
std::vector<std::string_view> FlagNames(uint32_t flags);

// Compares keys, which may take milliseconds: for a worker.
Status NoSuchJob(const jobs::JobIndex& jobs, std::string_view key);

}  // namespace flopwatch::api
