// A whole server in this process: options in, an address out, and what it was given is there again
// after a restart.
#include "server/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "fixtures/server.h"

namespace flopwatch::server {
namespace {

using ::testing::HasSubstr;

using test::ServerTest;

std::unique_ptr<net::HttpServer> Exporter() {
  auto exporter = net::HttpServer::Start(
      {},
      [](const net::Request&) {
        net::Response r;
        r.content_type = "text/plain";
        r.body = std::string_view(test::Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410));
        return r;
      },
      {});
  EXPECT_TRUE(exporter.ok()) << exporter.status();
  return *std::move(exporter);
}

TEST_F(ServerTest, ScrapesAnswersAndRemembers) {
  const auto exporter = Exporter();
  ServerOptions options = Options();
  options.targets.static_targets = {fmt::format("127.0.0.1:{}", exporter->port())};
  {
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_TRUE(
        Eventually([&] { return Get(**server, "/api/v1/gpus")["total"].integer_or(0) == 1; }));
    const Progress p = (*server)->ProgressNow();
    EXPECT_EQ(p.targets, 1u);
    EXPECT_EQ(p.targets_up, 1u);
    EXPECT_EQ(Get(**server, "/api/v1/status")["version"].text(), "test");
    EXPECT_TRUE((*server)->Stop().ok());
    EXPECT_TRUE((*server)->Stop().ok()) << "a second time";
  }
  options.targets.static_targets.clear();
  auto again = Server::Start(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Get(**again, "/api/v1/gpus")["total"].integer_or(0), 1);
  EXPECT_GT((*again)->StoreNow().newest_ts, 0);
}

TEST_F(ServerTest, NothingToScrapeIsNoError) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto lists = (*server)->TargetLists();
  ASSERT_EQ(lists.size(), 1u);
  EXPECT_EQ(lists[0].source, discovery::kLocal);
  EXPECT_EQ(lists[0].targets, 0u);
}

TEST_F(ServerTest, TwoServersHaveTwoAddressesAndNeedTwoDirectories) {
  auto one = Server::Start(Options());
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_FALSE(Server::Start(Options()).ok()) << "the directory is taken";
  ServerOptions other = Options();
  other.store.directory = directory_ / "other";
  auto two = Server::Start(other);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NE((*one)->port(), (*two)->port());
  other.store.directory = directory_ / "third";
  other.http.port = (*one)->port();
  EXPECT_THAT(std::string(Server::Start(other).status().message()),
              HasSubstr(std::to_string((*one)->port())));
}

TEST_F(ServerTest, WatchesTheJobsFile) {
  ServerOptions options = Options();
  options.jobs_file = directory_ / "jobs.csv";
  const auto write = [&](const std::string& rows) {
    std::ofstream(options.jobs_file, std::ios::trunc) << "gpu,from,to,job\n" << rows;
  };
  write("n1:0,2026-01-01T00:00:00Z,,1\n");
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->job_assignments(), 1u);
  write("n1:0,2026-01-01T00:00:00Z,,1\nn1:1,2026-01-01T00:00:00Z,,2\n");
  EXPECT_TRUE(Eventually([&] { return (*server)->job_assignments() == 2; }));
  write("no such column here\n\"");
  EXPECT_FALSE((*server)->Reload().ok());
  EXPECT_EQ((*server)->job_assignments(), 2u) << "the last good one stays in force";
  (*server)->Stop().IgnoreError();
  EXPECT_FALSE(Server::Start(options).ok()) << "a start says that the file is broken";
}

}  // namespace
}  // namespace flopwatch::server
