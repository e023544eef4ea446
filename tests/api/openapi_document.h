// docs/openapi.json as the routes declare it: its paths are written from the declarations, its head
// and the schemas of answers are written by hand and kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/route.h"

namespace flopwatch::test {

// `committed` with its paths replaced by those of the endpoints.
std::string OpenApiOf(const std::vector<api::Endpoint>& endpoints, std::string_view committed);

}  // namespace flopwatch::test
