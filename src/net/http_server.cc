// The HTTP server: one Asio loop a thread, connections dealt out round robin. A connection that waits for its next
// request holds a socket and a few hundred bytes, no buffer: it waits for "readable" and reads into its loop's scratch
// memory. All of a connection's state is touched by its loop alone; slow requests run on a worker and come back by post.
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/json_writer.h"
#include "base/log.h"
#include "base/scheduling.h"
#include "base/text.h"
#include "net/http.h"
#include "net/message_parser.h"
#include "net/port_owner.h"

namespace flopwatch::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr size_t kScratchBytes = 64 << 10;
constexpr size_t kMinGzipBytes = 1 << 10;      // below, the header of gzip eats the gain
constexpr size_t kGoChunkBytes = 2 << 10;      // bufio size before Go's chunkWriter
constexpr size_t kProgressBytes = 64 << 10;    // a reader must take this much per idle_timeout
constexpr size_t kSinkBytes = 1 << 20;         // of an upload, gathered before it is written
constexpr Micros kLinger = 2 * kMicrosPerSecond;
constexpr size_t kMaxLingerBytes = 8 << 20;    // read and thrown away after a refusal, so that the answer is seen
constexpr Micros kDrain = 5 * kMicrosPerSecond;
constexpr size_t kMaxTargetBytes = 16 << 10;
constexpr size_t kMaxUnpackedBytes = 64 << 20;  // of an embedded file for a client that does not take gzip

// Strict decoding of the path and query of a request; false on "%zz", a cut escape or a NUL.
bool DecodeComponent(std::string_view text, bool plus_is_space, std::string* out) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && !(i + 2 < text.size() && hex(text[i + 1]) && hex(text[i + 2]))) return false;
  }
  if (plus_is_space || text.find('+') == std::string_view::npos) {
    *out = PercentDecode(text);
  } else {
    std::string kept;
    for (const char c : text) kept += c == '+' ? std::string("%2B") : std::string(1, c);
    *out = PercentDecode(kept);
  }
  return out->find('\0') == std::string::npos;
}

bool DecodeTarget(std::string_view target, Request* request) {
  for (const std::string_view scheme : {"http://", "https://"}) {  // absolute form, as sent to proxies
    if (EqualsIgnoreCase(target.substr(0, scheme.size()), scheme)) {
      const size_t path = target.find('/', scheme.size());
      target = path == std::string_view::npos ? "/" : target.substr(path);
    }
  }
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  if (target.empty() || target[0] != '/') return false;
  if (!DecodeComponent(target.substr(0, question), false, &request->path)) return false;
  if (question == std::string_view::npos) return true;
  std::string_view query = target.substr(question + 1);
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (item.empty()) continue;
    const size_t equals = std::min(item.find('='), item.size());
    std::string key, value;
    if (!DecodeComponent(item.substr(0, equals), true, &key) ||
        !DecodeComponent(item.substr(std::min(equals + 1, item.size())), true, &value)) {
      return false;
    }
    request->query.emplace_back(std::move(key), std::move(value));
  }
  return true;
}

bool IsCompressibleType(std::string_view type) {
  for (const std::string_view part : {"text/", "json", "javascript", "xml", "csv"}) {
    if (type.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// Refusals by the server itself, in the shape of every other error.
Response Refusal(int status, std::string_view code, std::string_view message) {
  Response r;
  r.status = status;
  JsonWriter json(&r.body);
  json.BeginObject().Key("error").BeginObject().Field("code", code).Field("message", message).EndObject().EndObject();
  r.body += '\n';
  return r;
}

// Whether an If-None-Match header names this tag. Compared weakly, as RFC 9110 (13.1.2) asks: "W/" does not matter.
bool MatchesETag(std::string_view header, std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  while (!header.empty()) {
    const size_t start = header.find_first_not_of(" \t,");
    if (start == std::string_view::npos) return false;
    header.remove_prefix(start);
    if (header[0] == '*') return true;
    if (header.starts_with("W/")) header.remove_prefix(2);
    const size_t close = header.starts_with('"') ? header.find('"', 1) : std::string_view::npos;
    if (close == std::string_view::npos) return false;
    if (header.substr(0, close + 1) == etag) return true;
    header.remove_prefix(close + 1);
  }
  return false;
}

std::string_view CodeOf(int status) {
  switch (status) {
    case 403: return "permission_denied";
    case 405: return "method_not_allowed";
    case 413: return "too_large";
    case 415: return "unsupported_encoding";
    case 431: return "header_too_large";
    case 503: return "unavailable";
    default: return "invalid_argument";
  }
}

// A header value from a handler must not be able to start another header.
void AppendHeader(std::string* out, std::string_view name, std::string_view value) {
  out->append(name).append(": ");
  for (const char c : value) *out += (c == '\r' || c == '\n' || c == '\0') ? ' ' : c;
  out->append("\r\n");
}

std::string GoChunks(std::string_view body) {
  std::string out;
  out.reserve(body.size() + (body.size() / kGoChunkBytes + 2) * 8);
  for (size_t at = 0; at < body.size(); at += kGoChunkBytes) {
    const std::string_view piece = body.substr(at, kGoChunkBytes);
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
    out.append(piece).append("\r\n");
  }
  out += "0\r\n\r\n";
  return out;
}

// One event loop and what its connections share.
struct Loop {
  std::unordered_set<class Connection*> connections;  // before `io`, whose end lets go of the last connections
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer sweep{io};
  std::vector<char> scratch = std::vector<char>(kScratchBytes);
  std::string date;  // of this second
  Micros date_second = -1;
  bool stopping = false;
  std::jthread thread;
};

class WorkerPool {
 public:
  WorkerPool(int threads, int max_queued) : max_queued_(std::max(max_queued, 1)) {
    for (int i = 0; i < std::max(threads, 1); ++i) {
      threads_.emplace_back([this](std::stop_token stop) { Run(stop); });
    }
  }
  // Waits for running tasks and drops queued ones.
  void Stop() {
    threads_.clear();
    queue_.clear();
  }
  bool TrySubmit(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
    ready_.notify_one();
    return true;
  }

 private:
  void Run(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "http-worker");
    PreferLatency();
    std::unique_lock lock(mutex_);
    while (ready_.wait(lock, stop, [&] { return !queue_.empty(); })) {
      const std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;  // last: stops before the queue goes
};

struct Shared {
  Shared(ServerOptions o, Handler h, IsSlow s, Uploads u)
      : options(std::move(o)), handler(std::move(h)), is_slow(std::move(s)), uploads(std::move(u)), pool(options.workers, options.max_queued) {}

  const ServerOptions options;
  const Handler handler;
  const IsSlow is_slow;
  const Uploads uploads;
  std::atomic<uint64_t> requests{0}, refused_connections{0}, refused_requests{0}, timed_out{0};
  std::atomic<int> open{0};
  std::atomic<uint64_t> body_bytes{0};  // held by all connections
  WorkerPool pool;

  Response Answer(const Request& request) const {
    try {
      return handler(request);
    } catch (const std::exception& e) {
      LogError("{} {}: the handler failed: {}", request.method, Printable(request.path), e.what());
      return ErrorResponse(absl::InternalError("the request could not be answered; the server's log says why"));
    }
  }
};

// Shared ownership: the pending socket operation or the worker task keeps it alive, whichever it is in.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared* shared, Loop* loop, tcp::socket socket)
      : shared_(*shared), loop_(*loop), socket_(std::move(socket)) {
    loop_.connections.insert(this);
  }
  ~Connection() {
    HoldBody(0);
    loop_.connections.erase(this);
    shared_.open.fetch_sub(1, std::memory_order_relaxed);
  }

  void Start() {
    ErrorCode ec;
    socket_.non_blocking(true, ec);
    socket_.set_option(tcp::no_delay(true), ec);
    BeginRequest();
    WaitReadable();
  }

  // Called about once a second: ends what takes too long.
  void CheckDeadline(Micros now) {
    if (deadline_ == 0 || now < deadline_) return;
    if (state_ != State::kLinger) shared_.timed_out.fetch_add(1, std::memory_order_relaxed);
    Close();
  }

  // The server stops: idle connections close now, busy ones after their answer.
  void Stop() {
    keep_alive_ = false;
    if (state_ == State::kRead) Close();
  }

 private:
  enum class State { kRead, kHandle, kWrite, kLinger };

  void BeginRequest() {
    parser_.emplace(shared_.options.max_header_bytes, shared_.options.max_body_bytes, &shared_.uploads.is_upload);
    sink_.reset();
    state_ = State::kRead;
    deadline_ = MonotonicNow() + shared_.options.idle_timeout;
  }

  void WaitReadable() {
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode ec) {
      if (!ec) self->OnReadable();
    });
  }

  void OnReadable() {
    ErrorCode ec;
    const size_t n = socket_.read_some(asio::buffer(loop_.scratch), ec);
    if (ec == asio::error::would_block || ec == asio::error::interrupted) return WaitReadable();
    if (ec || n == 0) return Close();
    if (state_ == State::kLinger) {
      lingered_ += n;
      if (lingered_ > kMaxLingerBytes) return Close();
      return WaitReadable();
    }
    // The time for one whole request starts with its first byte and is not extended by dripping.
    if (!parser_->got_some()) deadline_ = MonotonicNow() + shared_.options.idle_timeout;
    Parse({loop_.scratch.data(), n});
  }

  void Parse(std::string_view data) {
    if (const ErrorCode ec = Feed(&*parser_, data, shared_.options.max_header_bytes, &rest_)) return RefuseUnparsed(ec);
    if (!HoldBody(parser_->body.size())) return Refuse(503, "too many large requests at once; try again in a moment");
    if (parser_->upload && parser_->is_header_done()) {
      if (sink_ == nullptr && !OpenSink()) return;
      if (parser_->is_done() ? !parser_->body.empty() : parser_->body.size() >= kSinkBytes) return SinkBody();
    }
    if (parser_->is_done()) return HandleRequest();
    if (parser_->is_header_done() && std::exchange(parser_->expects_continue, false)) {
      ErrorCode ignored;  // a client that does not get it sends the body anyway after a moment
      socket_.write_some(asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), ignored);
    }
    WaitReadable();
  }

  // What of a request is known from its header; false when it is no request we take (and it has been refused).
  bool ReadHead(Request* request) {
    RequestParser& p = *parser_;
    request->remote = Remote();
    static constexpr std::string_view kMethods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    if (std::find(std::begin(kMethods), std::end(kMethods), request->method) == std::end(kMethods)) {
      RefuseKeepingConnection(405, fmt::format("method {} is not supported", Printable(request->method, 20)));
      return false;
    }
    if (const auto site = request->Header("sec-fetch-site");
        request->method != "GET" && site && *site != "same-origin" && *site != "none") {
      RefuseKeepingConnection(403, "the request comes from a page of another web site");
      return false;
    }
    if (p.target.size() > kMaxTargetBytes || !DecodeTarget(p.target, request)) {
      RefuseKeepingConnection(400, "the request target is not a valid path (malformed percent escape?)");
      return false;
    }
    return true;
  }

  // Asks who takes this body; false when nobody does, and the request has been refused. The rest of it is not read.
  bool OpenSink() {
    Request head;
    head.method = parser_->method;
    head.headers = parser_->fields;
    keep_alive_ = false;  // of a refusal: a body that nobody takes would be read as the next request
    refused_ = true;
    if (!ReadHead(&head)) return false;
    StatusOr<std::shared_ptr<UploadSink>> sink = shared_.uploads.open(head);
    if (!sink.ok()) {
      shared_.refused_requests.fetch_add(1, std::memory_order_relaxed);
      Send(ErrorResponse(sink.status()));
      return false;
    }
    refused_ = false;
    sink_ = *std::move(sink);
    return true;
  }

  // Hands what has arrived to the sink, on a worker: a disk may make it wait. Nothing is read meanwhile.
  void SinkBody() {
    state_ = State::kHandle;
    deadline_ = 0;
    const auto bytes = std::make_shared<std::string>(std::move(parser_->body));
    parser_->body.clear();
    // Moved on, so that the connection never ends on the worker's thread.
    auto write = [self = shared_from_this(), bytes, sink = sink_]() mutable {
      const Status status = sink->Write(*bytes);
      sink.reset();
      asio::io_context& io = self->loop_.io;
      asio::post(io, [self = std::move(self), status] { self->OnSunk(status); });
    };
    // With no worker free the loop writes itself: a piece is small, and refusing half an upload helps nobody.
    if (!shared_.pool.TrySubmit(write)) write();
  }

  void OnSunk(const Status& status) {
    HoldBody(0);
    if (!status.ok()) {
      keep_alive_ = false;
      refused_ = true;
      shared_.refused_requests.fetch_add(1, std::memory_order_relaxed);
      return Send(ErrorResponse(status));
    }
    if (parser_->is_done()) return HandleRequest();
    if (loop_.stopping) return Close();
    state_ = State::kRead;
    deadline_ = MonotonicNow() + shared_.options.idle_timeout;  // for the next piece, not for the whole of a large file
    WaitReadable();
  }

  // Accounts for the body this connection holds now; false when all of them together are too large.
  bool HoldBody(size_t bytes) {
    const uint64_t before = shared_.body_bytes.fetch_add(bytes - held_body_, std::memory_order_relaxed);  // wraps: a sum
    const uint64_t all = before + (bytes - held_body_);
    const bool grew = bytes > held_body_;
    held_body_ = bytes;
    return !grew || all <= shared_.options.max_body_bytes_at_once;
  }

  void RefuseUnparsed(ErrorCode ec) {
    if (ec == http::error::body_limit) {
      return Refuse(413, fmt::format("the body is larger than {} bytes; send less at once", shared_.options.max_body_bytes));
    }
    if (ec == http::error::header_limit) {
      return Refuse(431, fmt::format("the header is larger than {} bytes", shared_.options.max_header_bytes));
    }
    Refuse(400, fmt::format("not a valid HTTP/1.1 request: {}", ec.message()));
  }

  // Refuses what cannot be read further: answers and closes.
  void Refuse(int status, std::string_view message) {
    keep_alive_ = false;
    refused_ = true;
    RefuseKeepingConnection(status, message);
  }
  void RefuseKeepingConnection(int status, std::string_view message) {
    shared_.refused_requests.fetch_add(1, std::memory_order_relaxed);
    Response r = Refusal(status, CodeOf(status), message);
    if (status == 405) r.headers.emplace_back("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    if (status == 503) r.headers.emplace_back("Retry-After", "1");
    Send(std::move(r));
  }

  void HandleRequest() {
    RequestParser& p = *parser_;
    state_ = State::kHandle;
    deadline_ = 0;
    keep_alive_ = p.keep_alive() && !loop_.stopping;
    shared_.requests.fetch_add(1, std::memory_order_relaxed);

    // Owned by a shared pointer: a std::function must be copyable, and a slow request moves into one.
    const auto request = std::make_shared<Request>();
    head_ = p.method == "HEAD";
    request->method = head_ ? "GET" : std::move(p.method);
    request->headers = std::move(p.fields);
    request->body = std::move(p.body);
    if (!ReadHead(request.get())) return;
    request->sink = std::move(sink_);
    // snappy is part of the remote-write protocol and unpacked by who decodes that.
    if (const auto encoding = request->Header("content-encoding");
        request->sink == nullptr && encoding && !EqualsIgnoreCase(*encoding, "identity") && !EqualsIgnoreCase(*encoding, "snappy")) {
      if (!EqualsIgnoreCase(*encoding, "gzip") && !EqualsIgnoreCase(*encoding, "deflate")) {
        return RefuseKeepingConnection(415, fmt::format("Content-Encoding '{}' is not supported; use gzip or none",
                                                        Printable(*encoding, 40)));
      }
      StatusOr<std::string> plain = Gunzip(request->body, shared_.options.max_body_bytes);
      if (!plain.ok()) {
        return RefuseKeepingConnection(absl::IsResourceExhausted(plain.status()) ? 413 : 400,
                                       std::string(plain.status().message()));
      }
      request->body = *std::move(plain);
      if (!HoldBody(request->body.size())) {
        return RefuseKeepingConnection(503, "too many large requests at once; try again in a moment");
      }
    }
    const auto accept = request->Header("accept-encoding");
    gzip_accepted_ = accept && HasToken(*accept, "gzip");
    if_none_match_ = request->method == "GET" ? std::string(request->Header("if-none-match").value_or("")) : std::string();

    if (!shared_.is_slow || !shared_.is_slow(*request)) return Send(shared_.Answer(*request));
    const bool queued = shared_.pool.TrySubmit([self = shared_from_this(), request]() mutable {
      // Shared for the same reason as the request; compressed here so that it costs no loop time.
      const auto response = std::make_shared<Response>(self->shared_.Answer(*request));
      self->Negotiate(response.get());
      // Moved, so that the connection never ends on this thread.
      asio::io_context& io = self->loop_.io;
      asio::post(io, [self = std::move(self), response] { self->Send(std::move(*response)); });
    });
    if (!queued) RefuseKeepingConnection(503, "too many slow requests at once; try again in a moment");
  }

  // What the client has already is not sent again, and nothing it cannot unpack.
  void Negotiate(Response* r) const {
    const std::string* etag = FindHeader(*r, "etag");
    const bool varies = r->status == 200 && !r->no_gzip && (FindHeader(*r, "content-encoding") != nullptr || Compressible(*r));
    if (r->status == 200 && etag != nullptr && MatchesETag(if_none_match_, *etag)) {
      // What the answer would say about itself stays (RFC 9110, 15.4.5); of its body nothing is left to say.
      std::erase_if(r->headers, [](const auto& h) { return EqualsIgnoreCase(h.first, "content-encoding"); });
      if (varies) r->headers.emplace_back("Vary", "Accept-Encoding");
      r->status = 304;
      SetBody(r, {});
    } else if (varies) {
      Recode(r);
      r->headers.emplace_back("Vary", "Accept-Encoding");
    }
    r->no_gzip = true;  // done
  }

  static bool Compressible(const Response& r) { return r.Body().size() >= kMinGzipBytes && IsCompressibleType(r.content_type); }
  static const std::string* FindHeader(const Response& r, std::string_view name) {
    for (const auto& [key, value] : r.headers) {
      if (EqualsIgnoreCase(key, name)) return &value;
    }
    return nullptr;
  }
  static void SetBody(Response* r, std::string body) {
    r->body = std::move(body);
    r->static_body = {};
    r->shared_body.reset();
  }
  // Packs a body, or unpacks one that is stored packed, as the client accepts.
  void Recode(Response* r) const {
    const std::string* encoding = FindHeader(*r, "content-encoding");
    if ((encoding != nullptr) == gzip_accepted_) return;
    if (encoding == nullptr) {
      SetBody(r, Gzip(r->Body()));
      r->headers.emplace_back("Content-Encoding", "gzip");
    } else {
      StatusOr<std::string> plain = Gunzip(r->Body(), kMaxUnpackedBytes);
      if (!plain.ok()) {
        *r = ErrorResponse(plain.status());
        return;
      }
      SetBody(r, *std::move(plain));
      std::erase_if(r->headers, [](const auto& h) { return EqualsIgnoreCase(h.first, "content-encoding"); });
    }
    // The same content in other bytes: such a tag may not be strong.
    for (auto& [name, value] : r->headers) {
      if (EqualsIgnoreCase(name, "etag") && !value.starts_with("W/")) value.insert(0, "W/");
    }
  }

  void Send(Response response) {
    if (!response.no_gzip) Negotiate(&response);
    response_ = std::move(response);
    const bool bodiless = response_.status == 204 || response_.status == 304;
    const bool chunked = response_.chunked && parser_->version == 11 && !bodiless;
    head_out_.clear();
    fmt::format_to(std::back_inserter(head_out_), "HTTP/1.1 {} {}\r\nServer: flopwatch\r\nDate: {}\r\n", response_.status,
                   ReasonPhrase(response_.status), Date());
    if (!bodiless) AppendHeader(&head_out_, "Content-Type", response_.content_type);
    for (const auto& [name, value] : response_.headers) AppendHeader(&head_out_, name, value);
    if (chunked) {
      head_out_ += "Transfer-Encoding: chunked\r\n";
      response_.body = GoChunks(response_.Body());
      response_.static_body = {};
      response_.shared_body.reset();
    } else if (!bodiless) {
      fmt::format_to(std::back_inserter(head_out_), "Content-Length: {}\r\n", response_.Body().size());
    }
    head_out_ += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
    out_[0] = asio::const_buffer(head_out_.data(), head_out_.size());
    const std::string_view body = head_ || bodiless ? std::string_view() : response_.Body();
    out_[1] = asio::const_buffer(body.data(), body.size());
    state_ = State::kWrite;
    written_ = 0;
    deadline_ = MonotonicNow() + shared_.options.idle_timeout;
    Write();
  }

  void Write() {
    while (out_[0].size() + out_[1].size() > 0) {
      ErrorCode ec;
      const size_t n = socket_.write_some(out_, ec);
      if (ec == asio::error::would_block) {
        return socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](ErrorCode error) {
          if (!error) self->Write();
        });
      }
      if (ec == asio::error::interrupted) continue;
      if (ec) return Close();
      const size_t from_head = std::min(n, out_[0].size());
      out_[0] += from_head;
      out_[1] += n - from_head;
      written_ += n;
      if (written_ >= kProgressBytes) {
        written_ = 0;
        deadline_ = MonotonicNow() + shared_.options.idle_timeout;
      }
    }
    OnWritten();
  }

  void OnWritten() {
    ReleaseAnswer();
    if (!keep_alive_) return Linger();
    BeginRequest();
    if (rest_.empty()) return WaitReadable();
    // The next request came with this one. By post, so that one busy client does not hold the loop.
    asio::post(loop_.io, [self = shared_from_this()] {
      if (self->socket_.is_open()) self->Parse({});
    });
  }

  // Assigning an empty string would keep the memory of the body for as long as the connection idles.
  void ReleaseAnswer() {
    HoldBody(0);
    Response().body.swap(response_.body);
    response_ = Response();
  }

  // Closing with unread bytes would reset the connection and may take the answer with it.
  void Linger() {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (!refused_ || loop_.stopping) return Close();
    state_ = State::kLinger;
    deadline_ = MonotonicNow() + kLinger;
    WaitReadable();
  }

  void Close() {
    ErrorCode ignored;
    socket_.close(ignored);  // pending waits end with an error and let go of the connection
    deadline_ = 0;
  }

  std::string Remote() {
    if (remote_.empty()) {
      ErrorCode ec;
      const tcp::endpoint peer = socket_.remote_endpoint(ec);
      if (!ec) {
        const std::string host = peer.address().to_string();
        remote_ = peer.address().is_v6() ? fmt::format("[{}]:{}", host, peer.port()) : fmt::format("{}:{}", host, peer.port());
      }
    }
    return remote_;
  }

  const std::string& Date() {
    const Micros second = Now() / kMicrosPerSecond;
    if (second != loop_.date_second) {
      const time_t t = second;
      tm utc;
      char text[64];
      gmtime_r(&t, &utc);
      loop_.date.assign(text, strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc));
      loop_.date_second = second;
    }
    return loop_.date;
  }

  Shared& shared_;
  Loop& loop_;
  tcp::socket socket_;
  std::optional<RequestParser> parser_;
  std::shared_ptr<UploadSink> sink_;  // of this request, once its header is there
  std::string rest_;  // bytes received and not parsed: an unfinished header, or the next request
  Response response_;
  std::string head_out_, remote_, if_none_match_;
  std::array<asio::const_buffer, 2> out_;
  size_t written_ = 0, lingered_ = 0, held_body_ = 0;
  Micros deadline_ = 0;  // monotonic; 0 = none (a handler has the request)
  State state_ = State::kRead;
  bool keep_alive_ = true, head_ = false, gzip_accepted_ = false, refused_ = false;
};

class ServerImpl final : public HttpServer {
 public:
  ServerImpl(ServerOptions options, Handler handler, IsSlow is_slow, Uploads uploads)
      : shared_(std::move(options), std::move(handler), std::move(is_slow), std::move(uploads)) {
    for (int i = 0; i < std::max(shared_.options.threads, 1); ++i) loops_.push_back(std::make_unique<Loop>());
    acceptor_.emplace(loops_[0]->io);
    accept_pause_.emplace(loops_[0]->io);
  }

  Status Listen() {
    const ServerOptions& o = shared_.options;
    std::string host = o.address == "localhost" ? "127.0.0.1" : o.address;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    ErrorCode ec;
    const auto address = asio::ip::make_address(host, ec);
    if (ec) {
      return absl::InvalidArgumentError(fmt::format(
          "listen address '{}' is not an IP address; use 127.0.0.1, 0.0.0.0, ::1 or ::", Printable(o.address)));
    }
    const tcp::endpoint endpoint(address, o.port);
    const auto failed = [&](std::string_view what) -> Status {
      const std::string where = fmt::format("listening on {}:{}: ", o.address, o.port);
      if (ec == asio::error::address_in_use) {
        const std::string owner = PortOwner(o.port);
        return absl::AlreadyExistsError(
            fmt::format("{}the port is in use{}{}; stop that, or choose another port (0 = any free one)", where,
                        owner.empty() ? "" : " by ", owner));
      }
      if (ec == asio::error::access_denied) {
        return absl::PermissionDeniedError(
            absl::StrCat(where, "not permitted; ports below 1024 need root, choose a higher one"));
      }
      if (ec == boost::system::errc::address_not_available) {
        return absl::InvalidArgumentError(absl::StrCat(where, "this machine has no such address; see `ip address`"));
      }
      return absl::UnavailableError(fmt::format("{}{}: {}", where, what, ec.message()));
    };
    if (acceptor_->open(endpoint.protocol(), ec)) return failed("opening a socket");
    acceptor_->set_option(tcp::acceptor::reuse_address(true), ec);
    if (address.is_v6()) acceptor_->set_option(asio::ip::v6_only(!address.is_unspecified()), ec);
    if (acceptor_->bind(endpoint, ec)) return failed("binding");
    if (acceptor_->listen(SOMAXCONN, ec)) return failed("listening");
    port_ = acceptor_->local_endpoint(ec).port();
    return absl::OkStatus();
  }

  void Run() {
    for (auto& loop : loops_) {
      Sweep(loop.get());
      loop->thread = std::jthread([io = &loop->io] {
        pthread_setname_np(pthread_self(), "http");
        PreferLatency();
        io->run();
      });
    }
    asio::post(loops_[0]->io, [this] { Accept(); });
  }

  ~ServerImpl() override {
    for (size_t i = 0; i < loops_.size(); ++i) {
      asio::post(loops_[i]->io, [this, i] {
        if (i == 0) CloseAcceptor();
        loops_[i]->stopping = true;
        const std::vector<Connection*> now(loops_[i]->connections.begin(), loops_[i]->connections.end());
        for (Connection* c : now) c->Stop();
      });
    }
    const Micros until = MonotonicNow() + kDrain;
    while (shared_.open.load() > 0 && MonotonicNow() < until && loops_[0]->thread.joinable()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (auto& loop : loops_) loop->io.stop();
    for (auto& loop : loops_) {
      if (loop->thread.joinable()) loop->thread.join();
    }
    // Workers post to the loops, connections use `shared_`: end them in this order.
    shared_.pool.Stop();
    accept_pause_.reset();
    acceptor_.reset();
    loops_.clear();
  }

  uint16_t port() const override { return port_; }
  ServerStats stats() const override {
    return {.requests = shared_.requests.load(),
            .connections = static_cast<uint64_t>(std::max(shared_.open.load(), 0)),
            .refused_connections = shared_.refused_connections.load(),
            .refused_requests = shared_.refused_requests.load(),
            .timed_out_connections = shared_.timed_out.load()};
  }

 private:
  void CloseAcceptor() {
    ErrorCode ignored;
    acceptor_->close(ignored);
  }

  void Accept() {
    Loop* loop = loops_[next_loop_++ % loops_.size()].get();
    acceptor_->async_accept(loop->io, [this, loop](ErrorCode ec, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (ec == boost::system::errc::too_many_files_open || ec == boost::system::errc::too_many_files_open_in_system) {
        // No descriptor is free: waiting connections stay in the kernel's queue until one is.
        shared_.refused_connections.fetch_add(1, std::memory_order_relaxed);
        accept_pause_->expires_after(std::chrono::milliseconds(100));
        return accept_pause_->async_wait([this](ErrorCode error) {
          if (!error) Accept();
        });
      }
      if (!ec) Admit(loop, std::move(socket));
      Accept();
    });
  }

  void Admit(Loop* loop, tcp::socket socket) {
    if (shared_.open.load(std::memory_order_relaxed) >= shared_.options.max_connections) {
      shared_.refused_connections.fetch_add(1, std::memory_order_relaxed);
      ErrorCode ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(std::string_view("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                                      "Content-Length: 0\r\nConnection: close\r\n\r\n")),
                        ignored);
      return;
    }
    shared_.open.fetch_add(1, std::memory_order_relaxed);
    // Shared: std::function-like handlers of other loops own it until the connection is made there.
    const auto held = std::make_shared<tcp::socket>(std::move(socket));
    asio::post(loop->io, [this, loop, held] {
      const auto connection = std::make_shared<Connection>(&shared_, loop, std::move(*held));
      if (!loop->stopping) connection->Start();
    });
  }

  void Sweep(Loop* loop) {
    const Micros period = std::clamp<Micros>(shared_.options.idle_timeout / 4, 10'000, kMicrosPerSecond);
    loop->sweep.expires_after(std::chrono::microseconds(period));
    loop->sweep.async_wait([this, loop](ErrorCode ec) {
      if (ec) return;
      const Micros now = MonotonicNow();
      for (Connection* c : loop->connections) c->CheckDeadline(now);
      Sweep(loop);
    });
  }

  Shared shared_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::optional<tcp::acceptor> acceptor_;
  std::optional<asio::steady_timer> accept_pause_;
  uint16_t port_ = 0;
  size_t next_loop_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ServerOptions& options, Handler handler, IsSlow is_slow,
                                                        Uploads uploads) {
  auto server = std::make_unique<ServerImpl>(options, std::move(handler), std::move(is_slow), std::move(uploads));
  FW_RETURN_IF_ERROR(server->Listen());
  server->Run();
  return server;
}

}  // namespace flopwatch::net
