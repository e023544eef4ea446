// What a server without its page answers in its place: the same numbers, as links.
#pragma once

#include <string_view>

namespace flopwatch::api {

inline constexpr std::string_view kPlainPage = R"(<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>flopwatch</title></head>
<body>
<h1>flopwatch</h1>
<p>The server runs, but it was built without its page: the build found no Node.js 18 or newer
(or it was switched off with
<code>FLOPWATCH_UI=OFF</code>). Install <code>nodejs</code> and <code>npm</code> and build again,
or read the same numbers here:</p>
<ul>
<li><a href="/api/v1/fleet">/api/v1/fleet</a>: OFU of the fleet, now and over time</li>
<li><a href="/api/v1/jobs">/api/v1/jobs</a>: jobs with their OFU and GPU-seconds</li>
<li><a href="/api/v1/gpus">/api/v1/gpus</a>: what each GPU says now</li>
<li><a href="/api/v1/targets">/api/v1/targets</a>: exporters and their health</li>
<li><a href="/api/v1/status">/api/v1/status</a>: the server itself</li>
<li><a href="/metrics">/metrics</a>: for a Prometheus</li>
<li><a href="/openapi.json">/openapi.json</a>: all of the API</li>
</ul>
<p>In a terminal: <code>flopwatch top</code>, <code>flopwatch jobs</code>,
<code>flopwatch report</code>.</p>
</body>
</html>
)";

}  // namespace flopwatch::api
