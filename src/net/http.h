// HTTP messages as the rest of the product sees them. Boost.Asio/Beast stay inside net/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "net/tls.h"

namespace flopwatch::net {

// Takes the body of one large request piece by piece, so that it is never in memory whole.
// Destroyed before the handler has seen the request: the request did not arrive in full, or was
// refused.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  // Write() runs on a worker thread, one call at a time. An error refuses the request with it.
  virtual Status Write(std::string_view bytes) = 0;
};

struct Request {
  std::string method;  // "GET", also of a HEAD request, which is answered without its body
  std::string path;    // percent-decoded, without query: "/api/v1/jobs/42"
  std::vector<std::pair<std::string, std::string>> query;    // percent-decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;    // gzip undone, snappy not; bounded by ServerOptions::max_body_bytes
  std::string remote;  // "10.0.0.7:51234"
  bool http_1_0 = false;
  std::shared_ptr<UploadSink> sink;  // has the body as it was sent; null: `body` has it
  // Of requests that may run for long: nobody waits for the answer any more, because the client has
  // left or the server stops.
  std::stop_token gone = {};

  // First value of a query parameter or header (name in lower case); nullopt when absent.
  std::optional<std::string_view> Query(std::string_view name) const;
  std::optional<std::string_view> Header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // Bytes that outlive the server (embedded files), sent without a copy in place of `body`.
  std::string_view static_body;
  bool no_gzip = false;

  std::string_view Body() const { return static_body.empty() ? body : static_body; }
};

// {"error":{"code":"not_found","message":…,"what":…,"why":…,"try":…}} with the HTTP status that
// fits the code.
Response ErrorResponse(const Status& status);

// "Not Found" for 404.
std::string_view ReasonPhrase(int status);

struct ServerOptions {
  std::string address =
      "127.0.0.1";    // loopback by default; also "::1", "0.0.0.0", "::", "localhost"
  uint16_t port = 0;  // 0 = any free one
  int threads = 1;
  uint64_t max_body_bytes = 64ull << 20;  // of a request, before and after decompression
  uint64_t max_header_bytes = 32ull << 10;
  uint64_t max_body_bytes_at_once = 1ull
                                    << 30;  // of all requests being read or answered; above it 503
  // A new one above it takes the place of the one whose client has kept it waiting longest: without
  // a request, with half of one, or without taking its answer. Only where every client waits for
  // the server it is refused. Never more than half of the files that may be open.
  int max_connections = 4096;
  // Longest wait for the next request, for one whole request to arrive, and for a reader to take 64
  // KiB of an answer.
  Micros idle_timeout = 60 * kMicrosPerSecond;
  // Requests that are not answered at once run here; when the queue is full the answer is 503.
  int workers = 4;
  int max_queued = 64;
  // Which of them may run for long; empty = none. They wait in a queue of their own and leave two
  // workers to the others, bodies that are unpacked leave one.
  std::function<bool(const Request& request)> is_slow = {};
  // Which of them run on threads of their own, so that nobody else waits for one; a full queue is
  // 429. Empty = none.
  std::function<bool(const Request& request)> is_apart = {};
  int apart_workers = 2;
  int max_apart_queued = 8;
};

// Counts since the start.
struct ServerStats {
  uint64_t requests = 0;
  uint64_t connections = 0;          // open now
  uint64_t refused_connections = 0;  // above max_connections, and no other could go
  uint64_t evicted_connections = 0;  // closed to make room for a new one
  uint64_t refused_requests =
      0;  // malformed, too large, from another web site, or too much at once
  uint64_t timed_out_connections = 0;
};

// A request is first offered to `AtOnce`, on a server thread, which must not block for long: it
// answers, or declines with nullopt, and then the request goes to `Handler` on a bounded worker
// pool. Gzip is applied to large text answers when the client accepts it. A handler that throws is
// answered with 500 and logged. An answer with an ETag that the request's If-None-Match names
// becomes 304; one that is stored packed (Content-Encoding) is unpacked for clients that do not
// take gzip. A body that comes with a Transfer-Encoding of its own is sent as it is (set no_gzip).
// Requests that would change something (not GET) and that a browser sends for a page of another
// site (Sec-Fetch-Site) are refused with 403: a loopback port is no protection from web pages.
using Handler = std::function<Response(const Request&)>;
using AtOnce = std::function<std::optional<Response>(const Request&)>;
// Requests whose bodies go to a sink. Their size is the sink's business, not max_body_bytes'.
struct Uploads {
  // It goes by the first line of the request; false = the body is kept in memory as always.
  std::function<bool(std::string_view method, std::string_view target)> is_upload;
  // `open` is called on a server thread when the whole header is there, and must not block for
  // long. `request` has everything but a body. An error refuses the request before any of its body
  // is read.
  std::function<StatusOr<std::shared_ptr<UploadSink>>(const Request& request)> open;
};

class HttpServer {
 public:
  // A port in use is AlreadyExists and names the process that has it where that can be seen.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const ServerOptions& options, AtOnce at_once,
                                                     Handler on_worker, Uploads uploads = {});
  // Every request is answered at once.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const ServerOptions& options, Handler handler);
  // Stops accepting, lets requests in progress be answered for at most 3 s, closes connections,
  // joins. A handler that still runs is waited for.
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  virtual ServerStats stats() const = 0;
  uint64_t requests() const { return stats().requests; }
  uint64_t refused_connections() const { return stats().refused_connections; }
};

// Blocking client for commands and discovery: http, and https with the host verified against the
// system's roots. Follows up to 5 redirects (never from https to http). An answer of any HTTP
// status is a result, not an error. Errors: Unavailable (cannot resolve, "nothing is listening on
// …", TLS), DeadlineExceeded, ResourceExhausted (too large), InvalidArgument (URL), DataLoss (not
// an HTTP answer).
struct FetchOptions {
  std::string method = "GET";
  std::string body = {};
  std::string body_file = {};  // instead of body: this file, sent in pieces
  std::vector<std::pair<std::string, std::string>> headers = {};
  Micros timeout = 30 * kMicrosPerSecond;  // of the whole call, redirects included
  uint64_t max_body_bytes = 256ull << 20;  // before and after decompression
  TlsFiles tls = {};
  std::stop_token stop = {};  // given up once it says so (Cancelled)
  // A redirect to another scheme, host or port is an error (PermissionDenied): the headers open
  // this server alone.
  bool same_origin = false;
  // A redirect is given as the answer that it is: followed, a POST would become a GET, and a login
  // page that answers 200 would look as if it had taken the body.
  bool no_redirects = false;
};
struct FetchResult {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // decompressed
  std::optional<std::string_view> Header(std::string_view name) const;
};
StatusOr<FetchResult> Fetch(const std::string& url, const FetchOptions& options = {});

// gzip (also several members) or zlib data, with an output bound that guards against bombs:
// ResourceExhausted above it, DataLoss when damaged or cut.
StatusOr<std::string> Gunzip(std::string_view data, uint64_t max_bytes);
std::string Gzip(std::string_view data, int level = 1);

// "%20" and "+" decoding and its inverse. A malformed escape stays as it is.
std::string PercentDecode(std::string_view text);
std::string PercentEncode(std::string_view text);

}  // namespace flopwatch::net
