// A whole server that asks Slurm: commands are shell scripts that print what a cluster printed
// (../shared/data/slurm/live-22.05), hang, or fail.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "data.h"
#include "fixtures/server.h"

namespace flopwatch::server {
namespace {

using ::testing::HasSubstr;

class SchedulerTest : public test::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    std::filesystem::create_directories(commands());
    Write("config", "ClusterName             = ofu\n");
    Write("node",
          "NodeName=gpu001 Arch=x86_64\n   Gres=gpu:8\n   State=MIXED ThreadsPerCore=1\n"
          "   Partitions=batch\n   CfgTRES=cpu=64,gres/gpu=8\n\n"
          "NodeName=gpu002 Arch=x86_64\n   Gres=gpu:8\n   State=IDLE+DRAIN ThreadsPerCore=1\n"
          "   Partitions=batch\n   CfgTRES=cpu=64,gres/gpu=8\n   Reason=broken fan [root@%s]\n\n");
    Write("job", Job("RUNNING", "", "gpu:2(IDX:4-5)"));
    // $MODE is a file: what it holds is done before anything is printed.
    Script("scontrol", "[ -f MODE ] && . ./MODE\nfor last; do :; done\ncat $last");
    Script("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    Script("sacctmgr", "exit 1");
  }
  std::filesystem::path commands() const { return directory_ / "slurm"; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(commands() / (name + ".new")) << text;
    std::filesystem::rename(commands() / (name + ".new"), commands() / name);
  }
  void Script(const std::string& name, const std::string& body) const {
    Write(name, "#!/bin/sh\ncd " + commands().string() + "\n" + body + "\n");
    std::filesystem::permissions(commands() / name, std::filesystem::perms::owner_all);
  }
  // A job of two GPUs that began at the first second of November 2026.
  static std::string Job(const std::string& state, const std::string& end,
                         const std::string& gres) {
    return fmt::format(
        "JobId=17 JobName=train it\n   UserId=alice(1001) GroupId=alice(1001)\n"
        "   Account=research QOS=normal\n   JobState={} Reason=None\n   RunTime=01:00:00\n"
        "   SubmitTime=1793491000 EligibleTime=1793491000\n   StartTime=1793491200 EndTime={}\n"
        "   Partition=batch AllocNode:Sid=localhost:1\n   NodeList=gpu001\n"
        "   TRES=cpu=8,node=1,gres/gpu=2\n     Nodes=gpu001 CPU_IDs=0-3 Mem=1 GRES={}\n"
        "   Comment=pretrain\n\n",
        state, end.empty() ? "Unknown" : end, gres);
  }
  ServerOptions WithSlurm() const {
    ServerOptions o = Options();
    o.slurm.emplace();
    o.slurm->poll = 50 * kMicrosPerMilli;
    o.slurm->time_limit = kMicrosPerSecond;
    o.slurm->path = commands();
    return o;
  }
  static Json Scheduler(const Server& server) { return Get(server, "/api/v1/status")["scheduler"]; }
  static Json Sql(const Server& server, const std::string& query) {
    return Json::Parse(Send(server, "/api/v1/sql", R"({"query": ")" + query + R"("})").body)
        .value_or(Json());
  }
  static std::string Metric(const Server& server, const std::string& name) {
    const auto page = Ask(server, "/metrics");
    const size_t at = page.ok() ? page->body.find("\n" + name + " ") : std::string::npos;
    if (at == std::string::npos) return "";
    const size_t from = at + name.size() + 2;
    return page->body.substr(from, page->body.find('\n', from) - from);
  }
};

TEST_F(SchedulerTest, ItsBooksAreStoredAndGoOnAfterARestart) {
  {
    auto server = Server::Start(WithSlurm());
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_TRUE(Eventually([&] { return Scheduler(**server)["looks"].integer_or(0) >= 2; }));
    const Json now = Scheduler(**server);
    EXPECT_EQ(now["cluster"].text(), "ofu");
    EXPECT_EQ(now["attempts"].integer_or(0), 1);
    EXPECT_EQ(now["placed"].integer_or(0), 1);
    EXPECT_EQ(now["nodes"].integer_or(0), 2);
    EXPECT_EQ(now["error"].text(), "");
    EXPECT_LT(now["last_look_age_s"].number_or(1e9), 60);
    EXPECT_TRUE(Eventually([&] { return !Scheduler(**server)["accounting"]["kept"].boolean(); }));
    EXPECT_EQ(Metric(**server, "flopwatch_scheduler_up"), "1");
    EXPECT_EQ(Metric(**server, "flopwatch_scheduler_nodes"), "2");
    EXPECT_TRUE((*server)->Stop().ok());
  }
  Write("job", Job("COMPLETED", "1793494800", ""));
  auto again = Server::Start(WithSlurm());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(Eventually([&] { return Scheduler(**again)["looks"].integer_or(0) >= 1; }));
  Json rows;
  EXPECT_TRUE(Eventually([&] {
    rows = Sql(**again,
               "SELECT job, state, gpus, placed, epoch(ended) - epoch(started) FROM attempts");
    return rows["rows"].array().size() == 1 &&
           rows["rows"].array()[0].array()[1].text() == "COMPLETED";
  }));
  if (rows["rows"].array().empty()) return;
  const auto& row = rows["rows"].array()[0].array();
  EXPECT_EQ(row[0].text(), "17");
  EXPECT_EQ(row[2].integer_or(0), 2);
  EXPECT_TRUE(row[3].boolean()) << "known from when it ran";
  EXPECT_EQ(row[4].number_or(0), 3600);
  const Json nodes =
      Sql(**again, "SELECT node, service, count(*) FROM nodes GROUP BY ALL ORDER BY node");
  ASSERT_EQ(nodes["rows"].array().size(), 2u) << "the records go on";
  EXPECT_EQ(nodes["rows"].array()[1].array()[1].text(), "drained");
}

TEST_F(SchedulerTest, AwaySlowAndBackAgain) {
  auto server = Server::Start(WithSlurm());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Eventually([&] { return Scheduler(**server)["looks"].integer_or(0) >= 1; }));
  Write("MODE", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n");
  EXPECT_TRUE(Eventually([&] { return !Scheduler(**server)["error"].text().empty(); }));
  EXPECT_THAT(Scheduler(**server)["error"].text(), HasSubstr("Unable to contact"));
  EXPECT_EQ(Metric(**server, "flopwatch_scheduler_up"), "0");
  Write("MODE", "sleep 600 & wait\n");
  EXPECT_TRUE(Eventually([&] {
    return Scheduler(**server)["error"].text().find("longer than") != std::string::npos;
  }));
  EXPECT_EQ(Scheduler(**server)["attempts"].integer_or(0), 1) << "the last known state";
  EXPECT_EQ(Get(**server, "/readyz")["ready"].boolean(), true) << "nothing else is held up";
  std::filesystem::remove(commands() / "MODE");
  EXPECT_TRUE(Eventually([&] { return Scheduler(**server)["error"].text().empty(); }));
  EXPECT_EQ(Metric(**server, "flopwatch_scheduler_up"), "1");
}

TEST_F(SchedulerTest, AStopEndsACommandThatHangs) {
  Write("MODE", "trap '' TERM\nwhile :; do sleep 1; done\n");
  ServerOptions options = WithSlurm();
  options.slurm->time_limit = 10 * kMicrosPerMinute;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Get(**server, "/api/v1/status")["scheduler"]["last_look"].is_null());
  const Micros begun = MonotonicNow();
  const Stopped stopped = (*server)->StopWithin(8 * kMicrosPerSecond);
  EXPECT_TRUE(stopped.stored.ok());
  EXPECT_TRUE(stopped.all_ended);
  EXPECT_LT(MonotonicNow() - begun, 8 * kMicrosPerSecond);
}

TEST_F(SchedulerTest, NoCommandsHereIsSaidAndNoErrorOfTheStart) {
  ServerOptions options = WithSlurm();
  options.slurm->path = directory_ / "nowhere";
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Eventually([&] { return !Scheduler(**server)["error"].text().empty(); }));
  EXPECT_THAT(Scheduler(**server)["error"].text(), HasSubstr("there is no such program"));
}

// What a real 22.05 printed while twelve jobs were known, five of them running.
TEST_F(SchedulerTest, CapturedOutputs) {
  const std::filesystem::path captured = testing_data::SharedData() / "slurm/live-22.05";
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/scontrol_show_job_d.txt");
  Script("scontrol", "for last; do :; done\ncase $last in config) cat config;; job) cat " +
                         (captured / "scontrol_show_job_d.txt").string() + ";; node) cat " +
                         (captured / "scontrol_show_node_d.txt").string() + ";; esac");
  auto server = Server::Start(WithSlurm());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Eventually([&] { return Scheduler(**server)["looks"].integer_or(0) >= 1; }));
  const Json now = Scheduler(**server);
  EXPECT_EQ(now["nodes"].integer_or(0), 4);
  EXPECT_TRUE(now["refused"].object().empty());
  EXPECT_GT(now["placed"].integer_or(0), 0);
}

}  // namespace
}  // namespace flopwatch::server
