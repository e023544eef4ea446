// The blocking client: asynchronous operations on a loop of its own, each run until it ends or the
// deadline passes.
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/text.h"
#include "net/http.h"
#include "net/message_parser.h"
#include "net/resolver.h"
#include "net/url.h"

namespace flopwatch::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kMaxRedirects = 5;
constexpr size_t kReadBytes = 64 << 10;
constexpr Micros kStopLook = 50 * kMicrosPerMilli;  // between two looks at FetchOptions::stop
// Who writes an answer piece by piece (Prometheus: each series) is read in larger ones: each costs
// a change of threads, more than what is in it.
constexpr size_t kSmallRead = 16 << 10;
constexpr int kSmallReads = 4;  // one after the other
constexpr std::chrono::milliseconds kGather{1};
constexpr size_t kFilePieceBytes = 1 << 20;
constexpr uint64_t kMaxHeaderBytes = 64 << 10;

// One exchange with one server.
class Exchange {
 public:
  Exchange(const Url& url, const FetchOptions& options, Micros deadline)
      : url_(url), options_(options), deadline_(deadline), socket_(io_) {}

  StatusOr<FetchResult> Run() {
    FW_RETURN_IF_ERROR(Connect());
    if (url_.tls) FW_RETURN_IF_ERROR(Handshake());
    FW_RETURN_IF_ERROR(Send());
    return Receive();
  }

 private:
  // Starts an operation and runs the loop until it ends; timed_out when the deadline comes first.
  template <typename Start>
  ErrorCode Await(Start start, size_t* transferred = nullptr) {
    std::optional<ErrorCode> result;
    start([&result, transferred](ErrorCode ec, size_t n = 0) {
      if (transferred != nullptr) *transferred = n;
      result = ec;
    });
    io_.restart();
    do {
      const Micros left = deadline_ - MonotonicNow();
      const Micros wait = options_.stop.stop_possible() ? std::min(left, kStopLook) : left;
      io_.run_until(std::chrono::steady_clock::now() + std::chrono::microseconds(wait));
    } while (!result && MonotonicNow() < deadline_ && !options_.stop.stop_requested());
    if (result) return *result;
    ErrorCode ignored;
    socket_.close(ignored);
    io_.restart();
    io_.run();  // lets the cancelled operation end before its buffers go
    return asio::error::timed_out;
  }

  Status Failed(ErrorCode ec, const std::string& doing) const {
    if (options_.stop.stop_requested()) return Cancelled("{} {}: given up", doing, url_.HostPort());
    if (ec == asio::error::timed_out) {
      return DeadlineExceeded("{} {}: no answer within {}", doing, url_.HostPort(),
                              FormatDuration(options_.timeout));
    }
    if (ec == asio::error::connection_refused) {
      return Unavailable("nothing is listening on {}; is it running there?", url_.HostPort());
    }
    if (ec == asio::error::eof || ec == asio::error::connection_reset ||
        ec == asio::ssl::error::stream_truncated) {
      return Unavailable("{} closed the connection before the whole answer came", url_.HostPort());
    }
    return Unavailable("{} {}: {}", doing, url_.HostPort(), ec.message());
  }

  Status Connect() {
    FW_ASSIGN_OR_RETURN(const Addresses addresses,
                        SharedResolver().ResolveUntil(url_.host, deadline_));
    ErrorCode ec = asio::error::host_not_found;
    for (const auto& address : addresses) {
      ErrorCode ignored;
      socket_.close(ignored);
      ec =
          Await([&](auto done) { socket_.async_connect(tcp::endpoint(address, url_.port), done); });
      if (!ec || ec == asio::error::timed_out) break;
    }
    if (ec) return Failed(ec, "connecting to");
    socket_.set_option(tcp::no_delay(true), ec);
    return absl::OkStatus();
  }

  Status Handshake() {
    ErrorCode ec;
    tls_context_.emplace(asio::ssl::context::tls_client);
    FW_RETURN_IF_ERROR(SetUpTlsClient(tls_context_->native_handle(), options_.tls));
    tls_.emplace(socket_, *tls_context_);
    ErrorCode address_ec;
    asio::ip::make_address(url_.host, address_ec);
    X509_VERIFY_PARAM* const param = SSL_get0_param(tls_->native_handle());
    if (address_ec) {
      SSL_set_tlsext_host_name(tls_->native_handle(), url_.host.c_str());
      X509_VERIFY_PARAM_set1_host(param, url_.host.data(), url_.host.size());
    } else {
      X509_VERIFY_PARAM_set1_ip_asc(param, url_.host.c_str());
    }
    ec = Await([&](auto done) { tls_->async_handshake(asio::ssl::stream_base::client, done); });
    if (const long verdict = SSL_get_verify_result(tls_->native_handle());
        ec && verdict != X509_V_OK) {
      return Unavailable("the certificate of {} is not trusted: {}", url_.HostPort(),
                         X509_verify_cert_error_string(verdict));
    }
    return ec ? Failed(ec, "TLS handshake with") : absl::OkStatus();
  }

  Status Send() {
    std::string head =
        absl::StrCat(options_.method, " ", url_.target, " HTTP/1.1\r\nHost: ", url_.authority,
                     "\r\nConnection: close\r\nAccept-Encoding: gzip\r\n");
    bool has_agent = false;
    for (const auto& [name, value] : options_.headers) {
      if ((name + value).find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
        return InvalidArgument("request header '{}' contains a line break", Printable(name));
      }
      has_agent = has_agent || EqualsIgnoringCase(name, "user-agent");
      absl::StrAppend(&head, name, ": ", value, "\r\n");
    }
    if (!has_agent) absl::StrAppend(&head, "User-Agent: flopwatch/", FLOPWATCH_VERSION, "\r\n");
    std::ifstream file;
    uint64_t body_bytes = options_.body.size();
    if (!options_.body_file.empty()) {
      file.open(options_.body_file, std::ios::binary);
      std::error_code ec;
      body_bytes = std::filesystem::file_size(options_.body_file, ec);
      if (!file || ec) return NotFound("cannot read '{}' to send it", options_.body_file);
    }
    if (body_bytes > 0 || options_.method == "POST" || options_.method == "PUT")
      absl::StrAppend(&head, "Content-Length: ", body_bytes, "\r\n");
    head += "\r\n";
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head),
                                                       asio::buffer(options_.body)};
    const auto send = [&](const auto& pieces) {
      return Await([&](auto done) {
        if (tls_) return asio::async_write(*tls_, pieces, done);
        return asio::async_write(socket_, pieces, done);
      });
    };
    ErrorCode ec = send(buffers);
    std::string piece(kFilePieceBytes, '\0');
    for (uint64_t left = options_.body_file.empty() ? 0 : body_bytes; left > 0 && !ec;) {
      file.read(piece.data(), static_cast<std::streamsize>(std::min<uint64_t>(left, piece.size())));
      const auto n = static_cast<size_t>(file.gcount());
      if (n == 0) return DataLoss("'{}' became shorter while it was sent", options_.body_file);
      ec = send(asio::buffer(piece.data(), n));
      left -= n;
    }
    // A server that refuses a large body answers and closes while we send: its answer says why.
    if (ec && ec != asio::error::broken_pipe && ec != asio::error::connection_reset)
      return Failed(ec, "sending to");
    return absl::OkStatus();
  }

  StatusOr<FetchResult> Receive() {
    FetchResult result;
    std::string rest, buffer(kReadBytes, '\0');
    std::optional<ResponseParser> parser;
    bool ended = false;
    int small_reads = 0;
    for (int interim = 0; interim <= kMaxInterim; ++interim) {
      parser.emplace(kMaxHeaderBytes, options_.max_body_bytes, &result.body);
      parser->skip(options_.method == "HEAD");
      std::string_view data;
      while (!parser->is_done()) {
        if (const ErrorCode ec = Feed(&*parser, data, kMaxHeaderBytes, &rest)) return NotHttp(ec);
        if (parser->is_done()) break;
        if (ended) return Failed(asio::error::eof, "reading from");
        size_t n = 0;
        if (small_reads >= kSmallReads) std::this_thread::sleep_for(kGather);
        ErrorCode ec = Await(
            [&](auto done) {
              if (tls_) return tls_->async_read_some(asio::buffer(buffer), done);
              return socket_.async_read_some(asio::buffer(buffer), done);
            },
            &n);
        if (ec == asio::error::eof) {
          ended = true;
          if (!parser->got_some()) return Failed(ec, "reading from");
          parser->put_eof(ec);
          if (ec) return Failed(asio::error::eof, "reading from");
        } else if (ec) {
          return Failed(ec, "reading from");
        }
        data = {buffer.data(), n};
        // What TLS gives is one of its records: there may be more.
        small_reads = n < kSmallRead && !tls_ ? small_reads + 1 : 0;
      }
      if (parser->status_code / 100 != 1) break;
    }
    result.status = parser->status_code;
    result.headers = std::move(parser->fields);
    const auto encoding = result.Header("content-encoding");
    if (encoding && (*encoding == "gzip" || *encoding == "deflate") && !result.body.empty()) {
      StatusOr<std::string> plain = Gunzip(result.body, options_.max_body_bytes);
      if (!plain.ok()) return Annotate(plain.status(), absl::StrCat("answer of ", url_.HostPort()));
      result.body = *std::move(plain);
    }
    return result;
  }

  Status NotHttp(ErrorCode ec) const {
    if (ec == http::error::body_limit) {
      return ResourceExhausted("the answer of {} is larger than {} bytes", url_.HostPort(),
                               options_.max_body_bytes);
    }
    return DataLoss("{} does not answer in HTTP/1.1: {}", url_.HostPort(), ec.message());
  }

  const Url& url_;
  const FetchOptions& options_;
  const Micros deadline_;
  asio::io_context io_{1};
  tcp::socket socket_;
  std::optional<asio::ssl::context> tls_context_;
  std::optional<asio::ssl::stream<tcp::socket&>> tls_;
};

}  // namespace

StatusOr<FetchResult> Fetch(const std::string& url, const FetchOptions& options) {
  const Micros deadline = MonotonicNow() + options.timeout;
  FetchOptions current = options;
  std::string at = url;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    FW_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(at));
    StatusOr<FetchResult> result = Exchange(parsed, current, deadline).Run();
    const std::string what = absl::StrCat(current.method, " ", Printable(at));
    if (!result.ok()) return Annotate(result.status(), what);
    const int status = result->status;
    const auto location = result->Header("location");
    const bool redirect =
        status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    if (!redirect || !location || options.no_redirects) return result;
    FW_ASSIGN_OR_RETURN(at, ResolveReference(at, *location));
    FW_ASSIGN_OR_RETURN(const Url next, ParseUrl(at));
    if (parsed.tls && !next.tls) {
      return Unavailable("{}: redirects from https to {}, which is not followed", what,
                         Printable(at));
    }
    const bool elsewhere =
        next.host != parsed.host || next.port != parsed.port || next.tls != parsed.tls;
    if (elsewhere && options.same_origin) {
      return PermissionDenied(
          "{}: redirects to another server, {}, which is not followed; name that one if it is "
          "right",
          what, next.HostPort());
    }
    if (elsewhere) {
      std::erase_if(current.headers, [](const auto& h) {
        return EqualsIgnoringCase(h.first, "authorization") ||
               EqualsIgnoringCase(h.first, "cookie");
      });
    }
    if (status == 303 || (status != 307 && status != 308 && current.method == "POST")) {
      current.method = "GET";
      current.body.clear();
    }
  }
  return Unavailable("GET {}: more than {} redirects", Printable(url), kMaxRedirects);
}

}  // namespace flopwatch::net
