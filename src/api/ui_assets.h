// The embedded page (web/): files made by the build, held in the binary, compressed. Without
// Node.js at build time a plain page says so and links to the API.
#pragma once

#include <optional>
#include <string_view>

#include "net/http.h"

namespace flopwatch::api {

// The answer to GET `path` (percent-decoded, no query): the entry page for the page's own routes
// ("/", "/jobs",
// "/jobs/KEY", "/gpus/UUID", "/targets"), a file under /assets/, or nullopt. Files under /assets/
// carry a hash in their name, are sent gzip-compressed and may be cached for ever; the entry page
// is always asked for anew. Any thread.
std::optional<net::Response> ServeUi(std::string_view path);

}  // namespace flopwatch::api
