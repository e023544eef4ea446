// Web pages of others: names that were made to point here, documents shown in foreign frames.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/host_names.h"
#include "fixtures/server.h"
#include "net/raw_socket.h"

namespace flopwatch::attack {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DoorAttack : public test::ServerTest {
 protected:
  static std::string AsHost(const server::Server& server, const std::string& host) {
    testing_net::RawSocket socket = testing_net::RawSocket::Connect(server.port());
    socket.Send(
        fmt::format("GET /api/v1/status HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", host));
    return socket.ReadAll();
  }
};

// With --allow-remote too: whoever makes evil.example point at this machine reads no answer.
TEST_F(DoorAttack, ANameThatIsNotOursIsNotAnswered) {
  server::ServerOptions options = Options();
  options.loopback_only = false;
  options.host_names = {"gpus.example", "Proxy.Example:443"};
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  for (const char* host :
       {"127.0.0.1:9530", "localhost", "[::1]:9530", "10.0.0.7:9530", "[fe80::1]",
        "gpus.example:80", "GPUS.example.", "proxy.example", static_cast<const char*>(name)}) {
    EXPECT_THAT(AsHost(**server, host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"evil.example:9530", "10.0.0.7.evil.example", "gpus.example.evil",
                           "evilgpus.example", "10.0.0.7x", ""}) {
    const std::string refused = AsHost(**server, host);
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 403 ")) << host;
    EXPECT_THAT(refused, HasSubstr("server.hosts"));
  }
  EXPECT_THAT(Ask(**server, "/metrics")->body,
              HasSubstr("flopwatch_http_refused_requests_total{reason=\"unknown_host\"} 6\n"));
}

TEST(HostNames, WhatNoHostHeaderCanBeIsRefused) {
  for (const char* name : {"gpus.example", "GPUS.example:9530", "gpus_1", "[::1]:9530", "fe80::1"})
    EXPECT_TRUE(api::HostNames::Valid(name).ok()) << name;
  for (const char* name : {"", "a b", "http://gpus.example", "gpus.example/", "*.example", "a\n"})
    EXPECT_THAT(std::string(api::HostNames::Valid(name).message()), HasSubstr("no host name"))
        << name;
}

TEST_F(DoorAttack, EveryHtmlSaysWhatABrowserMayDoWithIt) {
  server::ServerOptions options = Options();
  options.traces.emplace();
  options.traces->directory = directory_ / "traces";
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto sent =
      Send(**server, "/api/v1/traces",
           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"<script>alert(1)</script>","pid":0,)"
           R"("tid":7,"ts":1,"dur":60,"args":{"device":0,"stream":7,"correlation":1}}]})");
  ASSERT_EQ(sent.status, 201) << sent.body;
  const std::string report = "/api/v1/traces/" +
                             Json::Parse(sent.body).value_or(Json())["id"].text() +
                             "/report?format=html";
  for (const std::string& path : {std::string("/"), std::string("/jobs/1"), report}) {
    const auto answer = Ask(**server, path);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_THAT(std::string(answer->Header("content-type").value_or("")), HasSubstr("text/html"));
    const std::string policy(answer->Header("content-security-policy").value_or(""));
    EXPECT_THAT(policy, HasSubstr("default-src 'none'")) << path;
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'")) << path;
    EXPECT_THAT(policy, Not(HasSubstr("script-src 'unsafe"))) << path;
    EXPECT_EQ(answer->Header("x-content-type-options").value_or(""), "nosniff") << path;
    EXPECT_EQ(answer->Header("referrer-policy").value_or(""), "no-referrer") << path;
    EXPECT_EQ(answer->body.find("<script>alert"), std::string::npos) << path;
  }
  EXPECT_EQ(Ask(**server, "/api/v1/jobs/none")->Header("x-content-type-options").value_or(""),
            "nosniff");
}

}  // namespace
}  // namespace flopwatch::attack
