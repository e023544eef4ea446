// Uploaded traces that are made to empty the library, to fill the memory, or to end the server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "fixtures/server.h"
#include "net/http.h"
#include "net/raw_socket.h"

namespace flopwatch::attack {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Kernel(int64_t at, std::string_view name) {
  return fmt::format(R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":7,"ts":{},"dur":1,)"
                     R"("args":{{"device":0,"stream":7,"correlation":{}}}}})",
                     name, 2 * at, at);
}

std::string Trace(int rank, int events, bool own_names = false) {
  std::string out = fmt::format(
      R"({{"schemaVersion":1,"distributedInfo":{{"rank":{},"world_size":2}},"traceEvents":[)",
      rank);
  for (int i = 0; i < events; ++i) {
    if (i > 0) out += ",\n";
    out += Kernel(i, own_names ? fmt::format("kernel {} of rank {}", i, rank) : "gemm");
  }
  return out + "]}";
}

class UploadAttack : public test::ServerTest {
 protected:
  server::ServerOptions Options() const {
    server::ServerOptions o = ServerTest::Options();
    o.traces.emplace();
    o.traces->directory = directory_ / "traces";
    o.traces->min_free_disk_bytes = 0;
    return o;
  }
  // Its id.
  std::string Upload(const server::Server& server, std::string body,
                     const std::string& parameters = "") {
    const auto answer = Send(server, "/api/v1/traces" + parameters, std::move(body));
    EXPECT_EQ(answer.status, 201) << answer.body;
    return Json::Parse(answer.body).value_or(Json())["id"].text();
  }
  // The record once it is ready or has failed.
  Json Ended(const server::Server& server, const std::string& id) {
    Json record;
    EXPECT_TRUE(Eventually([&] {
      record = Get(server, "/api/v1/traces/" + id);
      const std::string state = record["state"].text();
      return state == "ready" || state == "failed";
    }));
    return record;
  }
  std::string StateOf(const server::Server& server, const std::string& id) {
    return Ended(server, id)["state"].text();
  }
};

TEST_F(UploadAttack, AnAnnouncementDeletesNothing) {
  server::ServerOptions options = Options();
  options.traces->max_bytes = 1 << 20;
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string kept = Upload(**server, Trace(0, 10));
  EXPECT_EQ(StateOf(**server, kept), "ready");
  // Nothing of it is sent: the connection ends in the middle.
  for (const char* length : {"1048576", "1048575", "1000000"}) {
    testing_net::RawSocket socket = testing_net::RawSocket::Connect((*server)->port());
    socket.Send(
        fmt::format("POST /api/v1/traces HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
                    length));
    EXPECT_THAT(socket.ReadHeader(), HasSubstr("100 Continue"));
  }
  EXPECT_EQ(Get(**server, "/api/v1/traces")["total"].integer_or(-1), 1);
  EXPECT_EQ(Get(**server, "/api/v1/traces/" + kept)["state"].text(), "ready");
}

TEST_F(UploadAttack, FilesEachAtTheLimitAreOverItTogether) {
  server::ServerOptions options = Options();
  options.traces->limits.max_events = 1000;
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string id = Upload(**server, Trace(0, 900));
  EXPECT_EQ(StateOf(**server, id), "ready");
  EXPECT_EQ(Upload(**server, Trace(1, 900), "?trace=" + id), id);
  EXPECT_TRUE(Eventually([&] { return StateOf(**server, id) == "failed"; }));
  EXPECT_THAT(Ended(**server, id)["error"].text(), HasSubstr("1000 events"));
}

TEST_F(UploadAttack, ABombStopsAtWhatItMayTakeTogether) {
  server::ServerOptions options = Options();
  options.traces->limits.max_text_bytes = 3 << 20;
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  std::string blanks = Trace(0, 10);
  blanks.insert(blanks.rfind(']'), std::string(2 << 20, ' '));
  const std::string id = Upload(**server, net::Gzip(blanks, 9));
  EXPECT_EQ(StateOf(**server, id), "ready");
  EXPECT_EQ(Upload(**server, net::Gzip(blanks, 9), "?trace=" + id), id);
  EXPECT_TRUE(Eventually([&] { return StateOf(**server, id) == "failed"; }));
  EXPECT_THAT(Ended(**server, id)["error"].text(), HasSubstr("bytes of text"));
}

// A process that ended while it analysed leaves the mark of its attempt; here the test plays it.
void Mark(const fs::path& folder, int attempts, int files) {
  std::ofstream(folder / "attempt.json")
      << fmt::format(R"({{"files":{},"attempts":{}}})", files, attempts);
  fs::remove_all(folder / "results");
}

TEST_F(UploadAttack, WhatEndedTheServerTwiceIsNotTriedAThirdTime) {
  server::ServerOptions options = Options();
  std::string id, other;
  {
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    id = Upload(**server, Trace(0, 10));
    other = Upload(**server, Trace(0, 10));
    EXPECT_EQ(StateOf(**server, id), "ready");
    EXPECT_EQ(StateOf(**server, other), "ready");
    EXPECT_FALSE(fs::exists(directory_ / "traces" / id / "attempt.json"));
  }
  Mark(directory_ / "traces" / id, 2, 1);
  Mark(directory_ / "traces" / other, 1, 1);
  for (int start = 0; start < 2; ++start) {
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    const Json record = Ended(**server, id);
    EXPECT_EQ(record["state"].text(), "failed");
    EXPECT_THAT(record["error"].text(), HasSubstr("ended 2 times"));
    EXPECT_EQ(StateOf(**server, other), "ready") << "the first time may have been chance";
  }
  // With another file it is another trace.
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Upload(**server, Trace(1, 10), "?trace=" + id), id);
  EXPECT_TRUE(Eventually([&] { return StateOf(**server, id) == "ready"; }));
}

TEST_F(UploadAttack, DistinctNamesAreBounded) {
  server::ServerOptions options = Options();
  options.traces->limits.max_names = 500;
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string id = Upload(**server, Trace(0, 1000, /*own_names=*/true));
  const Json record = Ended(**server, id);
  EXPECT_EQ(record["state"].text(), "failed");
  EXPECT_THAT(record["error"].text(), HasSubstr("500 distinct names"));
  EXPECT_EQ(StateOf(**server, Upload(**server, Trace(0, 1000))), "ready");
}

TEST_F(UploadAttack, MemoryIsBounded) {
  server::ServerOptions options = Options();
  options.traces->limits.max_memory_bytes = 1 << 20;
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string id = Upload(**server, Trace(0, 100'000, /*own_names=*/true));
  const Json record = Ended(**server, id);
  EXPECT_EQ(record["state"].text(), "failed");
  EXPECT_THAT(record["error"].text(), HasSubstr("traces.max_memory_mb"));
}

}  // namespace
}  // namespace flopwatch::attack
