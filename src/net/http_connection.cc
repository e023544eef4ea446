#include "net/http_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <ctime>
#include <exception>

#include "base/log.h"
#include "base/text.h"
#include "net/gzip.h"

namespace flopwatch::net {
namespace {

constexpr size_t kProgressBytes = 64 << 10;  // a reader must take this much per idle_timeout
constexpr size_t kSinkBytes = 1 << 20;       // of an upload, gathered before it is written
constexpr Micros kLinger = 2 * kMicrosPerSecond;
constexpr size_t kMaxLingerBytes =
    8 << 20;  // read and thrown away after a refusal, so that the answer is seen
constexpr size_t kMaxTargetBytes = 16 << 10;

// A handler that throws is answered with 500.
template <typename F>
auto Guarded(const F& handler, const Request& request) -> decltype(handler(request)) {
  try {
    return handler(request);
  } catch (const std::exception& e) {
    LogError("{} {}: the handler failed: {}", request.method, Printable(request.path), e.what());
    return ErrorResponse(Internal("the request could not be answered; the server's log says why"));
  }
}

}  // namespace

std::optional<Response> ServerState::AnswerAtOnce(const Request& request) const {
  return Guarded(at_once, request);
}

Response ServerState::AnswerOnWorker(const Request& request) const {
  return Guarded(on_worker, request);
}

Response ServerState::Refuse(int status, const Status& said) {
  refused_requests.fetch_add(1, std::memory_order_relaxed);
  Response r = Refusal(status, said);
  if (status == 405)
    r.headers.emplace_back("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  if (status == 503 || status == 429) r.headers.emplace_back("Retry-After", "1");
  return r;
}

Response ServerState::AnswerPacked(Request* request) {
  HeldBytes held(&body_bytes);
  std::string plain;
  const Status unpacked = GunzipInto(
      request->body, options.max_body_bytes, &plain,
      [&](uint64_t bytes) { return held.Hold(bytes) <= options.max_body_bytes_at_once; });
  if (absl::IsUnavailable(unpacked))
    return Refuse(503, Unavailable("too many large requests at once; try again in a moment"));
  if (!unpacked.ok()) return Refuse(absl::IsResourceExhausted(unpacked) ? 413 : 400, unpacked);
  request->body = std::move(plain);
  if (auto answer = AnswerAtOnce(*request)) return *std::move(answer);
  return AnswerOnWorker(*request);
}

bool ServerLoop::Evict() {
  for (const std::list<ServerConnection*>& kind : waiting) {
    if (kind.empty()) continue;
    kind.front()->Evict();
    return true;
  }
  return false;
}

ServerConnection::ServerConnection(ServerState* shared, ServerLoop* loop, tcp::socket socket)
    : shared_(*shared), loop_(*loop), socket_(std::move(socket)), held_body_(&shared->body_bytes) {
  loop_.connections.insert(this);
}

ServerConnection::~ServerConnection() {
  WaitNoMore();
  loop_.connections.erase(this);
  shared_.open.fetch_sub(1, std::memory_order_relaxed);
}

void ServerConnection::Start() {
  ErrorCode ec;
  socket_.non_blocking(true, ec);
  socket_.set_option(tcp::no_delay(true), ec);
  BeginRequest();
  WaitReadable();
}

void ServerConnection::CheckDeadline(Micros now) {
  if (deadline_ == 0 || now < deadline_) return;
  if (state_ != State::kLinger) shared_.timed_out.fetch_add(1, std::memory_order_relaxed);
  Close();
}

void ServerConnection::Stop() {
  keep_alive_ = false;
  if (state_ == State::kRead) Close();
  if (state_ == State::kHandle && gone_) gone_->request_stop();
}

void ServerConnection::Evict() {
  shared_.evicted_connections.fetch_add(1, std::memory_order_relaxed);
  Close();
}

void ServerConnection::WaitFor(Waiting what) {
  if (waiting_ == what) return;
  WaitNoMore();
  std::list<ServerConnection*>& kind = loop_.waiting[static_cast<size_t>(what)];
  place_ = kind.insert(kind.end(), this);
  waiting_ = what;
}

void ServerConnection::WaitNoMore() {
  if (waiting_) loop_.waiting[static_cast<size_t>(*waiting_)].erase(place_);
  waiting_.reset();
}

void ServerConnection::BeginRequest() {
  parser_.emplace(shared_.options.max_header_bytes, shared_.options.max_body_bytes,
                  &shared_.uploads.is_upload);
  sink_.reset();
  state_ = State::kRead;
  deadline_ = MonotonicNow() + shared_.options.idle_timeout;
  WaitNoMore();  // behind those that wait since before
  WaitFor(Waiting::kForRequest);
}

void ServerConnection::WaitReadable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode ec) {
    if (!ec) self->OnReadable();
  });
}

void ServerConnection::OnReadable() {
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
  WaitFor(Waiting::kForRest);
  Parse({loop_.scratch.data(), n});
}

void ServerConnection::Parse(std::string_view data) {
  if (const ErrorCode ec = Feed(&*parser_, data, shared_.options.max_header_bytes, &rest_))
    return RefuseUnparsed(ec);
  if (!HoldBody(parser_->body.size()))
    return Refuse(503, Unavailable("too many large requests at once; try again in a moment"));
  if (parser_->upload && parser_->is_header_done()) {
    if (sink_ == nullptr && !OpenSink()) return;
    if (parser_->is_done() ? !parser_->body.empty() : parser_->body.size() >= kSinkBytes)
      return SinkBody();
  }
  if (parser_->is_done()) return HandleRequest();
  if (parser_->is_header_done() && std::exchange(parser_->expects_continue, false)) {
    ErrorCode ignored;  // a client that does not get it sends the body anyway after a moment
    socket_.write_some(asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), ignored);
  }
  WaitReadable();
}

bool ServerConnection::ReadHead(Request* request) {
  RequestParser& p = *parser_;
  request->remote = Remote();
  static constexpr std::string_view kMethods[] = {"GET",   "POST",   "PUT",
                                                  "PATCH", "DELETE", "OPTIONS"};
  if (std::find(std::begin(kMethods), std::end(kMethods), request->method) == std::end(kMethods)) {
    RefuseKeepingConnection(
        405, Unimplemented("method {} is not supported", Printable(request->method, 20)));
    return false;
  }
  if (const auto site = request->Header("sec-fetch-site");
      request->method != "GET" && site && *site != "same-origin" && *site != "none") {
    RefuseKeepingConnection(403,
                            PermissionDenied("the request comes from a page of another web site"));
    return false;
  }
  if (p.target.size() > kMaxTargetBytes || !DecodeTarget(p.target, request)) {
    RefuseKeepingConnection(
        400, InvalidArgument("the request target is not a valid path (malformed percent escape?)"));
    return false;
  }
  return true;
}

bool ServerConnection::OpenSink() {
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

void ServerConnection::SinkBody() {
  state_ = State::kHandle;
  WaitNoMore();
  deadline_ = 0;
  const auto bytes = std::make_shared<std::string>(std::move(parser_->body));
  parser_->body.clear();
  // Moved on, so that the connection never ends on the worker's thread.
  auto write = [self = shared_from_this(), bytes, sink = sink_]() mutable {
    Status status = sink->Write(*bytes);
    sink.reset();
    asio::io_context& io = self->loop_.io;
    asio::post(io, [self = std::move(self), status = std::move(status)] { self->OnSunk(status); });
  };
  // With no worker free the loop writes itself: a piece is small, half an upload helps nobody.
  if (!shared_.pool.TrySubmit(write)) write();
}

void ServerConnection::OnSunk(const Status& status) {
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
  WaitFor(Waiting::kForRest);
  deadline_ =
      MonotonicNow() +
      shared_.options.idle_timeout;  // for the next piece, not for the whole of a large file
  WaitReadable();
}

void ServerConnection::WatchForEnd() {
  socket_.async_wait(
      tcp::socket::wait_read, [self = shared_from_this(), request = handled_](ErrorCode ec) {
        if (ec || self->handled_ != request || self->state_ != State::kHandle) return;
        char byte;
        const ssize_t n = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0) return;  // the next request: whoever sends one waits
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->WatchForEnd();
        self->gone_->request_stop();
      });
}

bool ServerConnection::HoldBody(size_t bytes) {
  const bool grew = bytes > held_body_.bytes();
  return held_body_.Hold(bytes) <= shared_.options.max_body_bytes_at_once || !grew;
}

void ServerConnection::RefuseUnparsed(ErrorCode ec) {
  if (ec == http::error::body_limit) {
    return Refuse(413, ResourceExhausted("the body is larger than {} bytes; send less at once",
                                         shared_.options.max_body_bytes));
  }
  if (ec == http::error::header_limit) {
    return Refuse(431, ResourceExhausted("the header is larger than {} bytes",
                                         shared_.options.max_header_bytes));
  }
  Refuse(400, InvalidArgument("not a valid HTTP/1.1 request: {}", ec.message()));
}

void ServerConnection::Refuse(int status, const Status& said) {
  keep_alive_ = false;
  refused_ = true;
  RefuseKeepingConnection(status, said);
}

void ServerConnection::RefuseKeepingConnection(int status, const Status& said) {
  Send(shared_.Refuse(status, said));
}

void ServerConnection::HandleRequest() {
  RequestParser& p = *parser_;
  state_ = State::kHandle;
  deadline_ = 0;
  WaitNoMore();
  keep_alive_ = p.keep_alive() && !loop_.stopping;
  shared_.requests.fetch_add(1, std::memory_order_relaxed);
  ++handled_;
  gone_.reset();

  // The request is shared: a std::function must be copyable, and a declined request moves into one.
  const auto request = std::make_shared<Request>();
  head_ = p.method == "HEAD";
  request->method = head_ ? "GET" : std::move(p.method);
  request->http_1_0 = p.version == 10;
  request->headers = std::move(p.fields);
  request->body = std::move(p.body);
  if (!ReadHead(request.get())) return;
  request->sink = std::move(sink_);
  // snappy is part of the remote-write protocol and unpacked by who decodes that.
  const auto encoding = request->Header("content-encoding");
  const bool packed = request->sink == nullptr && encoding &&
                      !EqualsIgnoringCase(*encoding, "identity") &&
                      !EqualsIgnoringCase(*encoding, "snappy");
  if (packed && !EqualsIgnoringCase(*encoding, "gzip") &&
      !EqualsIgnoringCase(*encoding, "deflate")) {
    return RefuseKeepingConnection(
        415, InvalidArgument("Content-Encoding '{}' is not supported; use gzip or none",
                             Printable(*encoding, 40)));
  }
  const auto accept = request->Header("accept-encoding");
  accepted_.gzip = accept && HasToken(*accept, "gzip");
  accepted_.if_none_match = request->method == "GET"
                                ? std::string(request->Header("if-none-match").value_or(""))
                                : std::string();

  if (!packed) {
    if (auto answer = shared_.AnswerAtOnce(*request)) return Send(*std::move(answer));
  }
  const bool slow = shared_.options.is_slow && shared_.options.is_slow(*request);
  const bool apart = shared_.options.is_apart && shared_.options.is_apart(*request);
  if (slow || apart) {
    request->gone = gone_.emplace().get_token();
    WatchForEnd();
  }
  const auto pace = slow     ? WorkerPool::Pace::kSlow
                    : packed ? WorkerPool::Pace::kUnpacks
                             : WorkerPool::Pace::kUsual;
  const bool queued =
      (apart ? shared_.apart : shared_.pool)
          .TrySubmit(
              [self = shared_from_this(), request, packed]() mutable {
                // Shared for the same reason as the request; compressed here so that it costs no
                // loop time.
                ServerState& shared = self->shared_;
                const auto response = std::make_shared<Response>(
                    packed ? shared.AnswerPacked(request.get()) : shared.AnswerOnWorker(*request));
                Negotiate(self->accepted_, response.get());
                // Moved, so that the connection never ends on this thread.
                asio::io_context& io = self->loop_.io;
                asio::post(
                    io, [self = std::move(self), response] { self->Send(std::move(*response)); });
              },
              pace);
  if (queued) return;
  if (apart) {
    RefuseKeepingConnection(
        429, ResourceExhausted("{} such requests run and {} wait; try again in "
                               "a moment",
                               shared_.options.apart_workers, shared_.options.max_apart_queued));
  } else {
    RefuseKeepingConnection(503,
                            Unavailable("too many slow requests at once; try again in a moment"));
  }
}

void ServerConnection::Send(Response response) {
  if (!response.no_gzip) Negotiate(accepted_, &response);
  response_ = std::move(response);
  const bool bodiless = response_.status == 204 || response_.status == 304;
  head_out_ = fmt::format("HTTP/1.1 {} {}\r\nServer: flopwatch\r\nDate: {}\r\n", response_.status,
                          ReasonPhrase(response_.status), Date());
  if (!bodiless) AppendHeader(&head_out_, "Content-Type", response_.content_type);
  bool framed = bodiless;
  for (const auto& [name, value] : response_.headers) {
    AppendHeader(&head_out_, name, value);
    framed = framed || EqualsIgnoringCase(name, "transfer-encoding");
  }
  if (!framed) head_out_ += fmt::format("Content-Length: {}\r\n", response_.Body().size());
  head_out_ += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  out_[0] = asio::const_buffer(head_out_.data(), head_out_.size());
  const std::string_view body = head_ || bodiless ? std::string_view() : response_.Body();
  out_[1] = asio::const_buffer(body.data(), body.size());
  state_ = State::kWrite;
  written_ = 0;
  deadline_ = MonotonicNow() + shared_.options.idle_timeout;
  Write();
}

void ServerConnection::Write() {
  while (out_[0].size() + out_[1].size() > 0) {
    ErrorCode ec;
    const size_t n = socket_.write_some(out_, ec);
    if (ec == asio::error::would_block) {
      WaitFor(Waiting::kForReader);
      return socket_.async_wait(tcp::socket::wait_write,
                                [self = shared_from_this()](ErrorCode error) {
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

void ServerConnection::OnWritten() {
  ReleaseAnswer();
  if (!keep_alive_) return Linger();
  BeginRequest();
  if (rest_.empty()) return WaitReadable();
  // The next request came with this one. By post, so that one busy client does not hold the loop.
  asio::post(loop_.io, [self = shared_from_this()] {
    if (self->socket_.is_open()) self->Parse({});
  });
}

void ServerConnection::ReleaseAnswer() {
  HoldBody(0);
  Response().body.swap(response_.body);
  response_ = Response();
}

void ServerConnection::Linger() {
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (!refused_ || loop_.stopping) return Close();
  state_ = State::kLinger;
  WaitFor(Waiting::kForRequest);
  deadline_ = MonotonicNow() + kLinger;
  WaitReadable();
}

void ServerConnection::Close() {
  ErrorCode ignored;
  WaitNoMore();
  socket_.close(ignored);  // pending waits end with an error and let go of the connection
  deadline_ = 0;
}

std::string ServerConnection::Remote() {
  if (remote_.empty()) {
    ErrorCode ec;
    const tcp::endpoint peer = socket_.remote_endpoint(ec);
    if (!ec) {
      const std::string host = peer.address().to_string();
      remote_ = peer.address().is_v6() ? fmt::format("[{}]:{}", host, peer.port())
                                       : fmt::format("{}:{}", host, peer.port());
    }
  }
  return remote_;
}

const std::string& ServerConnection::Date() {
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

}  // namespace flopwatch::net
