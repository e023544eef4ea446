#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "net/http.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_net::RawSocket;

Response Text(std::string body) {
  Response r;
  r.content_type = "text/plain";
  r.body = std::move(body);
  return r;
}

std::unique_ptr<HttpServer> Serve(Handler handler, ServerOptions options = {},
                                  std::function<bool(const Request&)> is_slow = {}) {
  const auto at_once = [handler, is_slow](const Request& r) {
    return is_slow && is_slow(r) ? std::nullopt : std::optional<Response>(handler(r));
  };
  auto server = HttpServer::Start(options, at_once, handler);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

std::string UrlOf(const HttpServer& server, const std::string& path) {
  return "http://127.0.0.1:" + std::to_string(server.port()) + path;
}

Response Echo(const Request& r) {
  std::string out = r.method + " " + r.path;
  for (const auto& [k, v] : r.query) out += "|" + k + "=" + v;
  out += "|body=" + r.body;
  return Text(out);
}

// Sends raw bytes, then reads until the server closes.
std::string Exchange(const HttpServer& server, const std::string& bytes) {
  RawSocket s = RawSocket::Connect(server.port());
  EXPECT_TRUE(s.Send(bytes));
  return s.ReadAll();
}

TEST(HttpServer, AnswersAndDecodesTheTarget) {
  const auto server = Serve(Echo);
  const auto r = Fetch(UrlOf(*server, "/api/v1/jobs/a%20b?from=now-1h&q=x%2By+z&flag"));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->status, 200);
  EXPECT_EQ(r->body, "GET /api/v1/jobs/a b|from=now-1h|q=x+y z|flag=|body=");
  EXPECT_EQ(r->Header("server"), "flopwatch");
  EXPECT_TRUE(r->Header("date").has_value());
  EXPECT_EQ(server->requests(), 1u);
}

TEST(HttpServer, KeepsPlusInThePath) {
  const auto server = Serve(Echo);
  EXPECT_EQ(Fetch(UrlOf(*server, "/a+b"))->body, "GET /a+b|body=");
}

TEST(HttpServer, ReadsBodiesPlainChunkedAndGzip) {
  const auto server = Serve(Echo);
  EXPECT_EQ(Fetch(UrlOf(*server, "/p"), {.method = "POST", .body = "hello"})->body,
            "POST /p|body=hello");
  FetchOptions zipped{
      .method = "POST", .body = Gzip("hello gzip"), .headers = {{"Content-Encoding", "gzip"}}};
  EXPECT_EQ(Fetch(UrlOf(*server, "/p"), zipped)->body, "POST /p|body=hello gzip");
  EXPECT_THAT(
      Exchange(
          *server,
          "POST /p HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n"),
      HasSubstr("POST /p|body=abcde"));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  const auto server = Serve(Echo);
  std::string all;
  for (int i = 0; i < 50; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  all += "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const std::string answers = Exchange(*server, all);
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answers.find("GET /" + std::to_string(i) + "|", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_NE(answers.find("GET /last|", at), std::string::npos);
}

TEST(HttpServer, ParsesARequestThatComesByteByByte) {
  const auto server = Serve(Echo);
  RawSocket s = RawSocket::Connect(server->port());
  for (const char c : std::string("POST /slow?a=1 HTTP/1.1\r\nHost: x\r\nContent-Length: "
                                  "3\r\nConnection: close\r\n\r\nxyz")) {
    ASSERT_TRUE(s.Send({&c, 1}));
  }
  EXPECT_THAT(s.ReadAll(), HasSubstr("POST /slow|a=1|body=xyz"));
}

TEST(HttpServer, HeadHasTheHeaderOnly) {
  const auto server = Serve(Echo);
  const std::string answer =
      Exchange(*server, "HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 12\r\n"));  // "GET /x|body="
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\n"));
}

TEST(HttpServer, Http10ClosesUnlessAskedTo) {
  const auto server = Serve(Echo);
  EXPECT_THAT(Exchange(*server, "GET /old HTTP/1.0\r\n\r\n"), HasSubstr("GET /old|"));
}

TEST(HttpServer, SendsContinueBeforeTheBody) {
  const auto server = Serve(Echo);
  RawSocket s = RawSocket::Connect(server->port());
  ASSERT_TRUE(
      s.Send("POST /c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
             "2\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(s.ReadHeader(), StartsWith("HTTP/1.1 100 Continue\r\n"));
  ASSERT_TRUE(s.Send("ok"));
  EXPECT_THAT(s.ReadAll(), HasSubstr("POST /c|body=ok"));
}

struct Bad {
  std::string name, request;
  int status;
};

class Refusals : public ::testing::TestWithParam<Bad> {};

TEST_P(Refusals, AreAnsweredAndTheServerGoesOn) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2048;
  const auto server = Serve(Echo, options);
  const std::string answer = Exchange(*server, GetParam().request);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(GetParam().status) + " ")) << answer;
  EXPECT_THAT(answer, HasSubstr("{\"error\":{\"code\":\""));
  EXPECT_EQ(server->stats().refused_requests, 1u);
  EXPECT_EQ(Fetch(UrlOf(*server, "/after"))->status, 200);
}

INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    ::testing::Values(
        Bad{"NotHttp", "hello there\r\n\r\n", 400},
        Bad{"TlsHello",
            std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 ClientHello\r\n\r\n", 27),
            400},
        Bad{"BadEscape", "GET /a%zz HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
        Bad{"CutEscape", "GET /a%4 HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
        Bad{"NulInPath", "GET /a%00b HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
        Bad{"NoSlash", "GET foo HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
        Bad{"Method", "BREW /pot HTTP/1.1\r\nConnection: close\r\n\r\n", 405},
        Bad{"Connect", "CONNECT host:1 HTTP/1.1\r\nConnection: close\r\n\r\n", 405},
        Bad{"BodyTooLong",
            "POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x'), 413},
        Bad{"HugeLength", "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nabc", 413},
        Bad{"LengthOverflow", "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            400},
        Bad{"ChunksTooLong",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x'),
            413},
        Bad{"BadChunk", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        Bad{"EndlessChunkExtension",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(5000, 'e'),
            431},
        Bad{"LongHeader", "GET / HTTP/1.1\r\nA: " + std::string(5000, 'a') + "\r\n\r\n", 431},
        Bad{"LongTarget", "GET /" + std::string(5000, 'a') + " HTTP/1.1\r\n\r\n", 431},
        Bad{"BothLengths",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400},
        Bad{"TwoLengths", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            400},
        Bad{"OddTransferEncoding",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
        Bad{"Brotli",
            "POST / HTTP/1.1\r\nContent-Encoding: br\r\nContent-Length: 1\r\nConnection: "
            "close\r\n\r\nx",
            415},
        Bad{"NotGzip",
            "POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\nConnection: "
            "close\r\n\r\nx",
            400}),
    [](const auto& info) { return info.param.name; });

TEST(HttpServer, RefusesAGzipBomb) {
  ServerOptions options;
  options.max_body_bytes = 1 << 20;
  const auto server = Serve(Echo, options);
  FetchOptions bomb{.method = "POST",
                    .body = Gzip(std::string(20 << 20, 'x'), 6),
                    .headers = {{"Content-Encoding", "gzip"}}};
  ASSERT_LT(bomb.body.size(), 1u << 20);
  EXPECT_EQ(Fetch(UrlOf(*server, "/p"), bomb)->status, 413);
}

TEST(HttpServer, BoundsTheBodiesOfAllRequestsTogether) {
  ServerOptions options;
  options.max_body_bytes_at_once = 100'000;
  const auto server = Serve(Echo, options);
  const std::string head =
      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\nConnection: close\r\n\r\n";
  RawSocket first = RawSocket::Connect(server->port());
  ASSERT_TRUE(first.Send(head + std::string(79'999, 'a')));  // one byte is missing: it stays held
  // Others get room only when the sum allows it: the second is refused as soon as the server has
  // the first's bytes.
  for (;;) {
    RawSocket second = RawSocket::Connect(server->port());
    second.Send(head + std::string(80'000, 'b'));
    const std::string answer = second.ReadAll();
    if (answer.starts_with("HTTP/1.1 503 ")) break;
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  }
  ASSERT_TRUE(first.Send("a"));
  EXPECT_THAT(first.ReadAll(), StartsWith("HTTP/1.1 200 "));
  // And the room is given back.
  EXPECT_THAT(Exchange(*server, head + std::string(80'000, 'c')), StartsWith("HTTP/1.1 200 "));
  FetchOptions zipped{.method = "POST",
                      .body = Gzip(std::string(150'000, 'z')),
                      .headers = {{"Content-Encoding", "gzip"}}};
  EXPECT_EQ(Fetch(UrlOf(*server, "/p"), zipped)->status, 503);
}

TEST(HttpServer, RefusesWhatAForeignWebPageSends) {
  const auto server = Serve(Echo);
  const auto status = [&](const std::string& method, const std::string& site) {
    return Fetch(UrlOf(*server, "/api/v1/push/x"),
                 {.method = method, .headers = {{"Sec-Fetch-Site", site}}})
        ->status;
  };
  EXPECT_EQ(status("POST", "cross-site"), 403);
  EXPECT_EQ(status("POST", "same-site"), 403);
  EXPECT_EQ(status("DELETE", "cross-site"), 403);
  EXPECT_EQ(status("POST", "same-origin"), 200);
  EXPECT_EQ(status("POST", "none"), 200);
  EXPECT_EQ(status("GET", "cross-site"),
            200);  // a link; the browser keeps the answer from the page
}

TEST(HttpServer, CompressesLargeTextForThoseWhoAccept) {
  const std::string text(5000, 'a');
  const auto server = Serve([&](const Request& r) {
    Response out = Text(r.path == "/small" ? "x" : text);
    if (r.path == "/image") out.content_type = "image/png";
    out.no_gzip = r.path == "/no";
    return out;
  });
  const auto encoding = [&](const std::string& path) {
    const auto r = Fetch(UrlOf(*server, path));
    EXPECT_EQ(r->body.size(), path == "/small" ? 1u : 5000u);
    return r->Header("content-encoding").has_value();
  };
  EXPECT_TRUE(encoding("/big"));
  EXPECT_FALSE(encoding("/small"));
  EXPECT_FALSE(encoding("/image"));
  EXPECT_FALSE(encoding("/no"));
  EXPECT_THAT(
      Exchange(*server,
               "GET /big HTTP/1.1\r\nAccept-Encoding: gzip;q=0, br\r\nConnection: close\r\n\r\n"),
      HasSubstr("Content-Length: 5000\r\n"));
}

std::string StatusLine(const std::string& answer) { return answer.substr(0, answer.find('\r')); }
std::string BodyOf(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

// RFC 9110, 13.1.2 and 15.4.5: a tag the client has already is answered with 304, the headers it
// would have had and no body.
TEST(HttpServer, WhatTheClientHasIsNotSentAgain) {
  const auto server = Serve([](const Request& r) {
    Response out = Text("hello");
    if (r.path != "/untagged") out.headers.emplace_back("ETag", "\"v1\"");
    out.headers.emplace_back("Cache-Control", "no-cache");
    if (r.path == "/error") out.status = 500;
    return out;
  });
  const auto ask = [&](const std::string& path, const std::string& tags,
                       const std::string& method = "GET") {
    return Exchange(*server, method + " " + path + " HTTP/1.1\r\nIf-None-Match: " + tags +
                                 "\r\nConnection: close\r\n\r\n");
  };
  for (const char* tags : {"\"v1\"", "W/\"v1\"", "\"v0\", \"v1\"", "\"v,0\" , W/\"v1\"", "*"}) {
    const std::string answer = ask("/", tags);
    EXPECT_EQ(StatusLine(answer), "HTTP/1.1 304 Not Modified") << tags;
    EXPECT_EQ(BodyOf(answer), "") << tags;
    EXPECT_THAT(answer, HasSubstr("ETag: \"v1\"\r\n"));
    EXPECT_THAT(answer, HasSubstr("Cache-Control: no-cache\r\n"));
    EXPECT_THAT(answer, Not(HasSubstr("Content-Type")));
  }
  for (const char* tags : {"\"v2\"", "v1", "\"v1", "", "\"v12\""}) {
    EXPECT_EQ(StatusLine(ask("/", tags)), "HTTP/1.1 200 OK") << tags;
  }
  EXPECT_EQ(StatusLine(ask("/untagged", "\"v1\"")), "HTTP/1.1 200 OK");
  EXPECT_EQ(StatusLine(ask("/error", "\"v1\"")), "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(StatusLine(ask("/", "\"v1\"", "HEAD")), "HTTP/1.1 304 Not Modified");
  EXPECT_EQ(StatusLine(ask("/", "\"v1\"", "POST")), "HTTP/1.1 200 OK");
}

// A file that is stored packed goes packed to those who take it and unpacked to the rest; the tag
// is not strong for bytes that were made on the way.
TEST(HttpServer, UnpacksForClientsThatDoNotTakeGzip) {
  const std::string text(5000, 'a');
  const std::string packed = Gzip(text);
  const auto server = Serve([&](const Request&) {
    Response out = Text("");
    out.static_body = packed;
    out.headers = {{"Content-Encoding", "gzip"}, {"ETag", "\"v1\""}};
    return out;
  });
  const std::string plain = Exchange(*server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(BodyOf(plain), text);
  EXPECT_THAT(plain, Not(HasSubstr("Content-Encoding")));
  EXPECT_THAT(plain, HasSubstr("ETag: W/\"v1\"\r\n"));
  EXPECT_THAT(plain, HasSubstr("Vary: Accept-Encoding\r\n"));
  const std::string zipped =
      Exchange(*server, "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(BodyOf(zipped), packed);
  EXPECT_THAT(zipped, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_THAT(zipped, HasSubstr("ETag: \"v1\"\r\n"));
  EXPECT_THAT(zipped, HasSubstr("Vary: Accept-Encoding\r\n"));
  const std::string again = Exchange(*server,
                                     "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\nIf-None-Match: "
                                     "W/\"v1\"\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(StatusLine(again), "HTTP/1.1 304 Not Modified");
}

TEST(HttpServer, SendsStaticBodies) {
  static const std::string kStatic(3'000'000, 's');
  const auto server = Serve([&](const Request&) {
    Response out;
    out.content_type = "application/octet-stream";
    out.static_body = kStatic;
    return out;
  });
  EXPECT_EQ(Fetch(UrlOf(*server, "/static"))->body, kStatic);
}

TEST(HttpServer, SendsABodyThatIsInChunksAlreadyAsItIs) {
  const auto server = Serve([](const Request& r) {
    const std::string body(5000, 'c');
    Response out = Text(r.http_1_0 ? body : testing_net::InChunks(body, 2048));
    if (!r.http_1_0) out.headers.emplace_back("Transfer-Encoding", "chunked");
    out.no_gzip = true;
    return out;
  });
  const std::string raw = Exchange(*server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(raw, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(raw, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(raw, HasSubstr("\r\n\r\n800\r\nccc"));
  EXPECT_THAT(raw, HasSubstr("\r\n388\r\nccc"));  // 5000 = 2 * 2048 + 904
  EXPECT_EQ(Fetch(UrlOf(*server, "/"))->body, std::string(5000, 'c'));
  // A 1.0 client knows no chunks.
  EXPECT_THAT(Exchange(*server, "GET / HTTP/1.0\r\n\r\n"), HasSubstr("Content-Length: 5000"));
}

TEST(HttpServer, HeadersOfAHandlerCannotSplitTheAnswer) {
  const auto server = Serve([](const Request&) {
    Response r = Text("x");
    r.headers.emplace_back("X-Name", "a\r\nSet-Cookie: b");
    return r;
  });
  EXPECT_THAT(Exchange(*server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
              HasSubstr("X-Name: a  Set-Cookie: b\r\n"));
}

TEST(HttpServer, AThrowingHandlerIsA500) {
  const auto server = Serve([](const Request&) -> Response { throw std::runtime_error("boom"); });
  const auto r = Fetch(UrlOf(*server, "/"));
  EXPECT_EQ(r->status, 500);
  EXPECT_THAT(r->body, Not(HasSubstr("boom")));
}

// More slow ones than there are workers, and more bodies to unpack: what is asked beside them is
// answered, and they all are in the end.
TEST(HttpServer, WhatIsSlowLeavesWorkersToOthers) {
  std::latch release(1), two_slow(2), one_unpacked(1);
  std::atomic<int> slow{0}, unpacked{0};
  const auto is_slow = [](const Request& r) { return r.path == "/slow"; };
  ServerOptions options;
  options.workers = 4;
  options.is_slow = is_slow;
  const auto server = Serve(
      [&](const Request& r) {
        if (is_slow(r) && ++slow <= 2) two_slow.count_down();
        if (r.path == "/packed" && ++unpacked <= 1) one_unpacked.count_down();
        if (r.path != "/usual") release.wait();
        return Text(r.path);
      },
      options, [](const Request&) { return true; });
  std::vector<std::jthread> clients;
  std::atomic<int> ok{0};
  const auto ask = [&](const std::string& path, const FetchOptions& how) {
    clients.emplace_back([&, path, how] {
      if (Fetch(UrlOf(*server, path), how)->status == 200) ++ok;
    });
  };
  for (int k = 0; k < 5; ++k) ask("/slow", {});
  two_slow.wait();
  for (int k = 0; k < 3; ++k) {
    ask("/packed",
        {.method = "POST", .body = Gzip("body"), .headers = {{"Content-Encoding", "gzip"}}});
  }
  one_unpacked.wait();
  while (server->stats().requests < 8) std::this_thread::yield();
  for (int k = 0; k < 3; ++k) EXPECT_EQ(Fetch(UrlOf(*server, "/usual"))->body, "/usual");
  EXPECT_EQ(slow.load(), 2);
  EXPECT_EQ(unpacked.load(), 1);
  release.count_down();
  clients.clear();
  EXPECT_EQ(ok.load(), 8);
}

TEST(HttpServer, SlowRequestsDoNotHoldFastOnesAndTheQueueIsBounded) {
  std::latch release(1);
  std::atomic<int> running{0};
  ServerOptions options;
  options.workers = 1;
  options.max_queued = 1;
  const auto server = Serve(
      [&](const Request& r) {
        if (r.path == "/slow") {
          ++running;
          running.notify_all();
          release.wait();
        }
        return Text(r.path);
      },
      options, [](const Request& r) { return r.path == "/slow"; });
  std::vector<std::jthread> clients;
  std::atomic<int> ok{0};
  const auto slow = [&] {
    if (Fetch(UrlOf(*server, "/slow"))->status == 200) ++ok;
  };
  clients.emplace_back(slow);
  running.wait(0);             // the worker is busy
  clients.emplace_back(slow);  // and this one waits in the queue, once it got there
  int refused = 0;
  // Each attempt either takes the one place in the queue or is refused; the second of two must be
  // refused.
  RawSocket a = RawSocket::Connect(server->port()), b = RawSocket::Connect(server->port());
  a.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  b.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(Fetch(UrlOf(*server, "/fast"))->body, "/fast");
  // All three are at the server when it has counted them: one queued, two refused.
  while (server->stats().refused_requests < 2) std::this_thread::yield();
  release.count_down();
  clients.clear();
  for (RawSocket* s : {&a, &b}) {
    const std::string head = s->ReadHeader();
    if (head.find("503") != std::string::npos) {
      EXPECT_THAT(head, HasSubstr("Retry-After: 1\r\n"));
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
  EXPECT_GE(ok.load(), 1);
}

TEST(HttpServer, AboveTheLimitTheOneThatIdlesLongestGoes) {
  ServerOptions options;
  options.max_connections = 2;
  const auto server = Serve(Echo, options);
  RawSocket one = RawSocket::Connect(server->port()), two = RawSocket::Connect(server->port());
  const auto answered = [](RawSocket& socket) {
    return socket.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n") &&
           socket.ReadHeader().starts_with("HTTP/1.1 200 ");
  };
  EXPECT_TRUE(answered(one));
  EXPECT_TRUE(answered(two));
  EXPECT_TRUE(answered(one));
  RawSocket three = RawSocket::Connect(server->port());
  EXPECT_TRUE(answered(three));
  EXPECT_EQ(two.ReadAll(), "");
  EXPECT_TRUE(two.peer_closed());
  EXPECT_TRUE(answered(one)) << "it was used later than the second";
  EXPECT_EQ(server->stats().evicted_connections, 1u);
  EXPECT_EQ(server->refused_connections(), 0u);
}

TEST(HttpServer, HalfARequestIsKeptLongerThanNone) {
  ServerOptions options;
  options.max_connections = 2;
  const auto server = Serve(Echo, options);
  RawSocket half = RawSocket::Connect(server->port());
  half.Send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na");
  std::vector<RawSocket> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(RawSocket::Connect(server->port()));
    idle.back().Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(idle.back().ReadHeader(), StartsWith("HTTP/1.1 200 "));
  }
  half.Send("b");
  EXPECT_THAT(half.ReadHeader(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(server->stats().evicted_connections, 19u);
}

// Every client waits for the server: nobody can go.
TEST(HttpServer, RefusesConnectionsAboveTheLimit) {
  ServerOptions options;
  options.max_connections = 2;
  std::atomic<bool> go{false};
  const auto server = HttpServer::Start(
      options, [](const Request&) -> std::optional<Response> { return std::nullopt; },
      [&](const Request&) {
        while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Response();
      });
  ASSERT_TRUE(server.ok()) << server.status();
  RawSocket one = RawSocket::Connect((*server)->port()),
            two = RawSocket::Connect((*server)->port());
  one.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  two.Send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  while ((*server)->requests() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  RawSocket three = RawSocket::Connect((*server)->port());
  EXPECT_THAT(three.ReadAll(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ((*server)->refused_connections(), 1u);
  go = true;
  EXPECT_THAT(one.ReadHeader(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(two.ReadHeader(), StartsWith("HTTP/1.1 200 "));
}

// A body that takes its time to unpack holds no other client: it is not undone on the event loop.
TEST(HttpServer, UnpacksOnAWorker) {
  ServerOptions options;
  options.workers = 1;
  std::thread::id loop, packed;
  const auto server = HttpServer::Start(
      options,
      [&](const Request& r) -> std::optional<Response> {
        (r.body.empty() ? loop : packed) = std::this_thread::get_id();
        return Text(std::to_string(r.body.size()));
      },
      [](const Request&) { return Response(); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = "http://127.0.0.1:" + std::to_string((*server)->port());
  ASSERT_TRUE(Fetch(url).ok());
  const auto answer = Fetch(url, {.method = "POST",
                                  .body = Gzip(std::string(1 << 20, 'x')),
                                  .headers = {{"Content-Encoding", "gzip"}}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, std::to_string(1 << 20));
  EXPECT_NE(loop, packed);
}

// Bodies that are small as sent and large unpacked count as they are unpacked.
TEST(HttpServer, BoundsUnpackedBodiesOfAllRequestsTogether) {
  ServerOptions options;
  options.workers = 3;
  options.max_body_bytes = 4 << 20;
  options.max_body_bytes_at_once = 6 << 20;
  std::atomic<int> inside{0};
  std::atomic<bool> go{false};
  const auto server = HttpServer::Start(
      options, [](const Request&) -> std::optional<Response> { return std::nullopt; },
      [&](const Request&) {
        ++inside;
        while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Response();
      });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = "http://127.0.0.1:" + std::to_string((*server)->port());
  const FetchOptions post = {.method = "POST",
                             .body = Gzip(std::string(4 << 20, 'x')),
                             .headers = {{"Content-Encoding", "gzip"}}};
  std::thread first([&] { EXPECT_EQ(Fetch(url, post)->status, 200); });
  while (inside == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(Fetch(url, post)->status, 503);
  go = true;
  first.join();
  EXPECT_EQ(Fetch(url, post)->status, 200) << "what the first held was given back";
}

TEST(HttpServer, EndsASlowLoris) {
  ServerOptions options;
  options.idle_timeout = 100'000;
  const auto server = Serve(Echo, options);
  // Dripping header bytes does not buy time.
  RawSocket loris = RawSocket::Connect(server->port());
  ASSERT_TRUE(loris.Send("GET / HTTP/1.1\r\n"));
  bool closed = false;
  for (int i = 0; i < 1000 && !closed; ++i) {
    loris.Send("X: y\r\n");
    loris.ReadUntil([](const std::string&) { return false; }, 10);
    closed = loris.peer_closed();
  }
  EXPECT_TRUE(closed);
  // Nor does an answer that is never read.
  const std::string big(64 << 20, 'b');
  const auto sender = Serve([&](const Request&) { return Text(big); }, options);
  RawSocket idle = RawSocket::Connect(sender->port());
  ASSERT_TRUE(idle.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  while (sender->stats().timed_out_connections == 0) std::this_thread::yield();
  EXPECT_LT(idle.ReadAll().size(), big.size());
}

TEST(HttpServer, SaysWhoHasThePort) {
  const auto server = Serve(Echo);
  ServerOptions options;
  options.port = server->port();
  const auto second = HttpServer::Start(options, Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by net_test (process "));
}

TEST(HttpServer, ListensOnIpv6AndRefusesNonsense) {
  ServerOptions options;
  options.address = "::1";
  const auto v6 = HttpServer::Start(options, Echo);
  if (v6.ok()) {  // a container may have no IPv6
    EXPECT_EQ(Fetch("http://[::1]:" + std::to_string((*v6)->port()) + "/six")->body,
              "GET /six|body=");
  }
  options.address = "not an address";
  EXPECT_EQ(HttpServer::Start(options, Echo).status().code(), absl::StatusCode::kInvalidArgument);
  options.address = "203.0.113.1";  // documentation address: not ours
  EXPECT_EQ(HttpServer::Start(options, Echo).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HttpServer, StopsWhileClientsAreConnectedAndARequestRuns) {
  std::latch started(1);
  auto server = Serve(
      [&](const Request&) {
        started.count_down();
        return Text(std::string(1'000'000, 'z'));
      },
      {}, [](const Request&) { return true; });
  std::vector<RawSocket> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(RawSocket::Connect(server->port()));
  RawSocket busy = RawSocket::Connect(server->port());
  busy.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  started.wait();
  std::string answer;
  std::jthread reader([&] { answer = busy.ReadAll(); });
  server.reset();
  reader.join();
  EXPECT_GT(answer.size(), 1'000'000u);  // the running request was finished
  for (RawSocket& s : idle) EXPECT_EQ(s.ReadAll(), "");
}

TEST(HttpServer, ManyThreadsManyConnections) {
  ServerOptions options;
  options.threads = 3;
  const auto server = Serve(Echo, options);
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> clients;
    for (int t = 0; t < 4; ++t) {
      clients.emplace_back([&, t] {
        RawSocket s = RawSocket::Connect(server->port());
        for (int i = 0; i < 200; ++i) {
          const std::string path = "/" + std::to_string(t) + "/" + std::to_string(i);
          s.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
          const std::string want = "GET " + path + "|body=";
          if (s.ReadUntil([&](const std::string& got) {
                 return got.ends_with(want);
               }).ends_with(want))
            ++good;
        }
      });
    }
  }
  EXPECT_EQ(good.load(), 800);
  EXPECT_EQ(server->requests(), 800u);
}

}  // namespace
}  // namespace flopwatch::net
