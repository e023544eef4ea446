// The `usage` and `series` objects of the API.
#ifndef FLOPWATCH_API_USAGE_JSON_H_
#define FLOPWATCH_API_USAGE_JSON_H_

#include "base/json_writer.h"
#include "query/usage.h"

namespace flopwatch::api {

void WriteUsage(JsonWriter& json, const query::Usage& usage);
void WriteSeries(JsonWriter& json, const query::Series& series);

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_USAGE_JSON_H_
