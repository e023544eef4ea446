// The `usage` and `series` objects of the API.
#pragma once

#include "base/json_writer.h"
#include "query/usage.h"

namespace flopwatch::api {

void WriteUsage(JsonWriter& json, const query::Usage& usage);
void WriteSeries(JsonWriter& json, const query::Series& series);

}  // namespace flopwatch::api
