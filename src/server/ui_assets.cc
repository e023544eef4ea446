#include "server/ui_assets.h"

#include <cstddef>
#include <string>

#include "fmt/format.h"

#ifdef FLOPWATCH_UI_HEADER  // set by cmake/web.cmake; defines FLOPWATCH_UI_FILES when there is a page
#include FLOPWATCH_UI_HEADER
#endif

namespace flopwatch::server {
namespace {

struct UiFile {
  std::string_view path;
  std::string_view type;
  std::string_view etag;
  const unsigned char* data;
  size_t size;
  bool immutable;  // name carries a hash; data is gzip
};

#ifdef FLOPWATCH_UI_FILES
#include FLOPWATCH_UI_FILES  // kUiFiles, written by web/build.mjs
#else
constexpr std::string_view kPlainPage = R"(<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>flopwatch</title></head>
<body>
<h1>flopwatch</h1>
<p>The server runs, but it was built without its page: the build found no Node.js 18 or newer (or it was switched off with
<code>FLOPWATCH_UI=OFF</code>). Install <code>nodejs</code> and <code>npm</code> and build again, or read the same numbers here:</p>
<ul>
<li><a href="/api/v1/fleet">/api/v1/fleet</a>: OFU of the fleet, now and over time</li>
<li><a href="/api/v1/jobs">/api/v1/jobs</a>: jobs with their OFU and GPU-seconds</li>
<li><a href="/api/v1/gpus">/api/v1/gpus</a>: what each GPU says now</li>
<li><a href="/api/v1/targets">/api/v1/targets</a>: exporters and their health</li>
<li><a href="/api/v1/status">/api/v1/status</a>: the server itself</li>
<li><a href="/metrics">/metrics</a>: for a Prometheus</li>
<li><a href="/openapi.json">/openapi.json</a>: all of the API</li>
</ul>
<p>In a terminal: <code>flopwatch top</code>, <code>flopwatch jobs</code>, <code>flopwatch report</code>.</p>
</body>
</html>
)";
const UiFile kUiFiles[] = {
    {"/index.html", "text/html; charset=utf-8", "plain", reinterpret_cast<const unsigned char*>(kPlainPage.data()),
     kPlainPage.size(), false},
};
#endif

// Nothing from elsewhere, nothing inline, no frames: a stored name that reaches the page as markup cannot run.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

// Paths the page itself resolves.
bool IsPageRoute(std::string_view path) {
  return path == "/" || path == "/index.html" || path == "/jobs" || path == "/targets" || path.starts_with("/jobs/") ||
         path.starts_with("/gpus/");
}

net::Response Answer(const UiFile& file) {
  net::Response r;
  r.content_type = std::string(file.type);
  r.static_body = {reinterpret_cast<const char*>(file.data), file.size};
  r.headers.emplace_back("ETag", fmt::format("\"{}\"", file.etag));
  r.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (file.immutable) {
    r.headers.emplace_back("Content-Encoding", "gzip");
    r.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
  } else {
    r.headers.emplace_back("Cache-Control", "no-cache");
    r.headers.emplace_back("Content-Security-Policy", std::string(kContentSecurityPolicy));
    r.headers.emplace_back("Referrer-Policy", "no-referrer");
    r.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  }
  return r;
}

}  // namespace

std::optional<net::Response> ServeUi(std::string_view path) {
  const std::string_view wanted = IsPageRoute(path) ? std::string_view("/index.html") : path;
  for (const UiFile& file : kUiFiles) {
    if (file.path == wanted) return Answer(file);
  }
  return std::nullopt;
}

}  // namespace flopwatch::server
