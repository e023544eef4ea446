// What is thought of the counters of GPUs, as JSON (docs/counters.md).
#pragma once

#include <span>
#include <vector>

#include "base/json_writer.h"
#include "ingest/judge.h"
#include "ingest/registry.h"

namespace flopwatch::api {

// Of one target: how many GPUs have which verdict, each finding once with its remedy, and the
// verdict of each GPU.
void WriteCounters(JsonWriter& json, const ingest::Registry& registry,
                   const std::vector<ingest::GpuCounters>& gpus);

}  // namespace flopwatch::api
