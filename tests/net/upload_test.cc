// Bodies of uploads that go to a sink as they arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "net/http.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;
using testing_net::RawSocket;

struct Sunk {
  std::string bytes;
  size_t largest = 0;
  std::atomic<int> alive{0};
  Status answer;  // of Write
};

class StringSink final : public UploadSink {
 public:
  explicit StringSink(Sunk* to) : to_(to) { ++to_->alive; }
  ~StringSink() override { --to_->alive; }
  Status Write(std::string_view bytes) override {
    to_->bytes += bytes;
    to_->largest = std::max(to_->largest, bytes.size());
    return to_->answer;
  }

 private:
  Sunk* to_;
};

class UploadTest : public testing::Test {
 protected:
  void Start(ServerOptions options = {}) {
    Uploads uploads;
    uploads.is_upload = [](std::string_view method, std::string_view target) {
      return method == "POST" && target.starts_with("/up");
    };
    uploads.open = [this](const Request& r) -> StatusOr<std::shared_ptr<UploadSink>> {
      ++opened_;
      if (r.Query("refuse")) return absl::PermissionDeniedError("not you");
      return std::make_shared<StringSink>(&sunk_);
    };
    auto server = HttpServer::Start(
        options, [](const Request&) { return std::optional<Response>(); },
        [](const Request& r) {
          Response out;
          out.body = std::string(r.sink != nullptr ? "sunk" : "kept") + " " +
                     std::to_string(r.body.size());
          return out;
        },
        std::move(uploads));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  FetchResult Post(const std::string& path, std::string body,
                   std::vector<std::pair<std::string, std::string>> headers = {}) {
    FetchOptions o;
    o.method = "POST";
    o.body = std::move(body);
    o.headers = std::move(headers);
    auto r = Fetch("http://127.0.0.1:" + std::to_string(server_->port()) + path, o);
    EXPECT_TRUE(r.ok()) << r.status();
    return r.ok() ? *std::move(r) : FetchResult();
  }
  // What the server holds ends a moment after the answer.
  void ExpectNoSinks() {
    for (int i = 0; i < 2000 && sunk_.alive > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(sunk_.alive, 0);
  }

  Sunk sunk_;
  std::atomic<int> opened_{0};
  std::unique_ptr<HttpServer> server_;
};

std::string Pattern(size_t n) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<char>((i * 2654435761u) >> 13);
  return out;
}

TEST_F(UploadTest, ABodyBeyondTheLimitArrivesInPieces) {
  Start({.max_body_bytes = 1 << 20, .max_body_bytes_at_once = 4 << 20});
  const std::string body = Pattern(20 << 20);
  const FetchResult r = Post("/up?name=x", body);
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body, "sunk 0");
  EXPECT_EQ(sunk_.bytes, body);
  EXPECT_LE(sunk_.largest, (1u << 20) + (64u << 10));
  ExpectNoSinks();
  // Other requests keep their limit, and the connection works on.
  EXPECT_EQ(Post("/other", Pattern(2 << 20)).status, 413);
  EXPECT_EQ(Post("/other", "abc").body, "kept 3");
}

TEST_F(UploadTest, AFileIsSentInPieces) {
  Start();
  const std::string path = testing::TempDir() + "/flopwatch_upload.bin", body = Pattern(3 << 20);
  std::ofstream(path, std::ios::binary) << body;
  FetchOptions o;
  o.method = "POST";
  o.body_file = path;
  const auto r = Fetch("http://127.0.0.1:" + std::to_string(server_->port()) + "/up", o);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->status, 200);
  EXPECT_EQ(sunk_.bytes, body);
  o.body_file = path + ".none";
  EXPECT_FALSE(Fetch("http://127.0.0.1:" + std::to_string(server_->port()) + "/up", o).ok());
}

TEST_F(UploadTest, RefusalsComeBeforeTheBody) {
  Start();
  EXPECT_EQ(Post("/up?refuse=1", Pattern(4 << 20)).status, 403);
  EXPECT_EQ(sunk_.bytes, "");
  EXPECT_EQ(Post("/up", Pattern(100), {{"sec-fetch-site", "cross-site"}}).status, 403);
  EXPECT_EQ(opened_, 1);
  // An encoding is not undone: the sink has the bytes as they came.
  EXPECT_EQ(Post("/up", "packed", {{"content-encoding", "gzip"}}).body, "sunk 0");
  EXPECT_EQ(sunk_.bytes, "packed");
}

TEST_F(UploadTest, AnErrorOfTheSinkEndsTheRequest) {
  Start();
  sunk_.answer = absl::ResourceExhaustedError("full");
  const FetchResult r = Post("/up", Pattern(8 << 20));
  EXPECT_EQ(r.status, 429);
  EXPECT_THAT(r.body, HasSubstr("full"));
  ExpectNoSinks();
}

TEST_F(UploadTest, AClientThatGoesLeavesNothing) {
  Start();
  {
    RawSocket s = RawSocket::Connect(server_->port());
    ASSERT_TRUE(s.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n" +
                       Pattern(2'000'000)));
    for (int i = 0; i < 2000 && sunk_.alive == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ExpectNoSinks();
}

TEST_F(UploadTest, ChunkedAndEmptyBodiesAndTheNextRequest) {
  Start();
  RawSocket s = RawSocket::Connect(server_->port());
  ASSERT_TRUE(s.Send(
      "POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
      "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
      "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"));
  const std::string all = s.ReadAll();
  EXPECT_EQ(sunk_.bytes, "abcde");
  EXPECT_THAT(all, HasSubstr("kept 2"));
  size_t answers = 0;
  for (size_t at = 0; (at = all.find("HTTP/1.1 200", at)) != std::string::npos; ++at) ++answers;
  EXPECT_EQ(answers, 3u);
  ExpectNoSinks();
}

}  // namespace
}  // namespace flopwatch::net
