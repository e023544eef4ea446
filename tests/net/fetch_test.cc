#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include "net/http.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;
using testing_net::RawServer;
using testing_net::RawSocket;

std::string LocalUrl(uint16_t port, const std::string& path = "/") {
  return "http://127.0.0.1:" + std::to_string(port) + path;
}

// Answers every request with the same bytes and closes.
std::function<void(RawSocket&)> Always(std::string answer) {
  return [answer](RawSocket& s) {
    s.ReadHeader();
    s.Send(answer);
  };
}

TEST(Fetch, ReadsLengthChunksAndUntilTheEnd) {
  for (const std::string& answer :
       {std::string("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        std::string("HTTP/1.0 200 OK\r\n\r\nhello"),
        std::string("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")}) {
    RawServer server(Always(answer));
    const auto r = Fetch(LocalUrl(server.port()));
    ASSERT_TRUE(r.ok()) << r.status() << "\n" << answer;
    EXPECT_EQ(r->status, 200);
    EXPECT_EQ(r->body, "hello");
  }
}

TEST(Fetch, GathersAnAnswerThatComesInSmallPieces) {
  std::string body, chunk(300, 'x');
  RawServer server([&](RawSocket& s) {
    s.ReadHeader();
    s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int k = 0; k < 500; ++k) {
      chunk[0] = static_cast<char>('a' + k % 26);
      body += chunk;
      s.Send("12c\r\n" + chunk + "\r\n");
      if (k % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    s.Send("0\r\n\r\n");
  });
  const auto r = Fetch(LocalUrl(server.port()));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->body, body);
}

TEST(Fetch, FollowsRedirectsButNotForEver) {
  int hits = 0;
  RawServer server([&](RawSocket& s) {
    const std::string request = s.ReadHeader();
    if (request.starts_with("GET /a "))
      return (void)s.Send("HTTP/1.1 302 Found\r\nLocation: b?x=1\r\nContent-Length: 0\r\n\r\n");
    if (request.starts_with("GET /b?x=1 "))
      return (void)s.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ++hits;
    s.Send("HTTP/1.1 301 Moved\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n");
  });
  EXPECT_EQ(Fetch(LocalUrl(server.port(), "/a"))->body, "ok");
  const auto loop = Fetch(LocalUrl(server.port(), "/loop"));
  EXPECT_EQ(loop.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(loop.status().message()), HasSubstr("more than 5 redirects"));
  EXPECT_EQ(hits, 6);
}

TEST(Fetch, SaysWhatWentWrong) {
  uint16_t closed_port = 0;
  {
    RawServer gone([](RawSocket&) {});
    closed_port = gone.port();
  }
  const auto refused = Fetch(LocalUrl(closed_port));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("nothing is listening on 127.0.0.1:"));

  for (const char* url : {"", "nonsense", "ftp://host/", "http://", "http://user:secret@host/",
                          "http://host:99999/", "http://host:0/", "http://a b/", "http:///path"}) {
    EXPECT_EQ(Fetch(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_THAT(std::string(Fetch("http://name.invalid/").status().message()),
              HasSubstr("cannot resolve 'name.invalid'"));

  RawServer garbage(Always("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
  EXPECT_EQ(Fetch(LocalUrl(garbage.port())).status().code(), absl::StatusCode::kDataLoss);
  RawServer cut(Always("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"));
  EXPECT_THAT(std::string(Fetch(LocalUrl(cut.port())).status().message()),
              HasSubstr("closed the connection before"));
  RawServer silent([](RawSocket& s) { s.ReadAll(); });
  const auto late = Fetch(LocalUrl(silent.port()), {.timeout = 50'000});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("no answer within 50ms"));
  EXPECT_EQ(Fetch(LocalUrl(silent.port()), {.headers = {{"A", "b\r\nC: d"}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Fetch, BoundsTheAnswer) {
  RawServer announced(Always("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"));
  RawServer endless([](RawSocket& s) {
    s.ReadHeader();
    s.Send("HTTP/1.1 200 OK\r\n\r\n");
    while (s.Send(std::string(65536, 'x'))) {
    }
  });
  RawServer bomb(Always("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" +
                        Gzip(std::string(10 << 20, 'x'), 6)));
  for (const RawServer* s : {&announced, &endless, &bomb}) {
    EXPECT_EQ(Fetch(LocalUrl(s->port()), {.max_body_bytes = 1 << 20}).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace flopwatch::net
