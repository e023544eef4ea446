// flopwatch import slurm: several files of different kinds to one table, totals, losses, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json_read.h"
#include "command_line.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;

class ImportSlurmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::path(testing::TempDir()) / "flopwatch-slurm-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  static Outcome Import(std::vector<std::string> args) {
    args.insert(args.begin(), {"import", "slurm"});
    return RunCommand(args);
  }

  std::string folder_;
};

constexpr char kSacct[] =
    "JobIDRaw|JobID|Cluster|User|Account|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
    "10|2_0|ofu|alice|research|COMPLETED|7200|10800|3600|gres/gpu=4|n[1-2]|pretrain\n"
    "11|11|ofu|bob|research|CANCELLED by 0|7200|10800|1800|gres/gpu=2|n3|sft\n"
    "12|12|ofu|bob|research|COMPLETED|7200|10800|3600|cpu=4|n3|cpu only\n"
    "13|13|ofu|bob|research|PENDING|Unknown|Unknown|0|||later\n";

TEST_F(ImportSlurmTest, SeveralFilesOneTable) {
  const std::string sacct = Write("sacct.txt", kSacct);
  const std::string map = Write("map/n1/0", "10\n"), other = Write("map/n1/3", "10");
  const Outcome o = Import({sacct, map, other, "--cluster", "ofu", "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok()) << o.out;
  ASSERT_EQ(json->array().size(), 2u);
  const Json& first = json->array()[0];
  EXPECT_EQ(first["job"].text(), "2_0");
  EXPECT_EQ(first["raw_id"].integer(), 10);
  EXPECT_EQ(first["gpus"].integer(), 4);
  EXPECT_EQ(first["nodes"].text(), "n[1-2]");
  EXPECT_EQ(first["start"].text(), "1970-01-01T02:00:00Z");
  EXPECT_EQ(first["held_gpu_seconds"].integer(), 4 * 3600);
  EXPECT_EQ(first["gpu_indices"].text(), "n1:0,3");
  // An hour at two GPUs, half of it suspended.
  EXPECT_EQ(json->array()[1]["held_gpu_seconds"].integer(), 2 * 3600);
  EXPECT_EQ(json->array()[1]["suspended_gpu_seconds"].integer(), 2 * 1800);
  EXPECT_THAT(o.err, HasSubstr("2 attempts hold 6"));
  EXPECT_THAT(o.err, HasSubstr("1 without GPUs, 1 waiting"));
  EXPECT_THAT(o.err, HasSubstr("2 of 2 lines of prologs and map files found their attempt"));
}

TEST_F(ImportSlurmTest, RefusedRecordsAreShownAndMakeItPartial) {
  const std::string file =
      Write("sacct.txt", std::string(kSacct) +
                             "14|14|ofu|bob|research|COMPLETED|yesterday|10800|"
                             "3600|gres/gpu=1|n3|x\n");
  const Outcome o = Import({file, "-o", "csv"});
  EXPECT_EQ(o.code, 7);
  EXPECT_THAT(o.err, HasSubstr("bad_time"));
  EXPECT_THAT(o.err, HasSubstr("line 6: 'yesterday'"));
  EXPECT_THAT(o.out, HasSubstr("2_0"));
}

TEST_F(ImportSlurmTest, LocalTimesNeedAZone) {
  const std::string file =
      Write("sacct.txt",
            "JobID|State|Start|End|AllocTRES\n"
            "7|COMPLETED|2026-11-21T02:41:03|2026-11-21T03:41:03|gres/gpu=2\n");
  const Outcome without = Import({file});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err, HasSubstr("local time without a zone"));
  const Outcome with = Import({file, "--time-zone", "+01:00", "-o", "json"});
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_THAT(with.out, HasSubstr("2026-11-21T01:41:03Z"));
  EXPECT_THAT(Import({file, "--time-zone", "Mars/Olympus"}).err, HasSubstr("no time zone"));
}

TEST_F(ImportSlurmTest, FieldsAndAsOf) {
  const std::string file = Write("rows.txt", "7|RUNNING|7200|Unknown|gres/gpu=2\n");
  EXPECT_THAT(Import({file}).err, HasSubstr("sacct -P without its header"));
  const std::string fields = "JobID,State,Start,End,AllocTRES";
  Outcome o = Import({file, "--fields", fields, "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("no_end"));
  o = Import({file, "--fields", fields, "--as-of", "1970-01-01T03:00:00Z", "-o", "json"});
  EXPECT_EQ((*Json::Parse(o.out)).array().at(0)["held_gpu_seconds"].integer(), 2 * 3600);
  EXPECT_EQ(Import({file + ".none"}).code, 5);
}

constexpr char kNodesOfSacct[] =
    "NodeName=n1 Arch=x86_64\n   Gres=gpu:2\n   State=IDLE+DRAIN ThreadsPerCore=1\n"
    "   CfgTRES=cpu=4,gres/gpu=2\n   Reason=fan\n\n"
    "NodeName=n2 Arch=x86_64\n   Gres=gpu:2\n   State=IDLE ThreadsPerCore=1\n"
    "   CfgTRES=cpu=4,gres/gpu=2\n\n";

TEST_F(ImportSlurmTest, IntoAStoreAndAgain) {
  const std::string sacct = Write("sacct.txt", kSacct), node = Write("node.txt", kNodesOfSacct);
  const std::string data = folder_ + "/data";
  for (int time = 0; time < 2; ++time) {
    const Outcome o = Import({sacct, node, "--into", data, "-o", "json"});
    EXPECT_EQ(o.code, 0) << o.err;
    const auto json = Json::Parse(o.out);
    ASSERT_TRUE(json.ok()) << o.out;
    const Json& counts = json->array()[0];
    EXPECT_EQ(counts["attempts"].integer(), 2);
    EXPECT_EQ(counts["placed"].integer(), 1) << "all four GPUs of two nodes";
    EXPECT_EQ(counts["not_placed"].integer(), 1);
    EXPECT_EQ(counts["nodes"].integer(), 2);
    EXPECT_EQ(counts["refused"].integer(), 0);
  }
  const Outcome o = RunCommand(
      {"sql",
       "SELECT cluster, job, account, gpus, placed, epoch(ended - started) FROM attempts "
       "ORDER BY job",
       "--data-dir", data, "-o", "csv", "--no-header", "-q"});
  EXPECT_EQ(o.out, "ofu,10,research,4,true,3600\nofu,11,research,2,false,3600\n") << o.err;
  const Outcome n = RunCommand({"sql",
                                "SELECT node, service, reason FROM nodes WHERE \"to\" IS "
                                "NULL OR \"to\" > now() ORDER BY node",
                                "--data-dir", data, "-o", "csv", "--no-header", "-q"});
  EXPECT_THAT(n.out, HasSubstr("n1,drained,fan")) << n.err;
}

// Two clusters number their jobs alike, and are imported one after the other: each account has what
// its own jobs held, also by what the store has kept of it.
TEST_F(ImportSlurmTest, TwoClustersWithEqualIds) {
  constexpr char kHeader[] =
      "JobIDRaw|JobID|Cluster|User|Account|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n";
  const std::string data = folder_ + "/data";
  const std::string alpha =
      Write("alpha.txt", std::string(kHeader) +
                             "10|10|alpha|ann|physics|COMPLETED|7200|10800|3600|gres/gpu=4|n1|a\n"
                             "11|11|alpha|ann|physics|COMPLETED|7200|10800|3600|gres/gpu=2|n1|a\n");
  const std::string beta =
      Write("beta.txt", std::string(kHeader) +
                            "10|10|beta|bob|biology|COMPLETED|7200|9000|1800|gres/gpu=8|m1|b\n"
                            "12|12|beta|bob|biology|COMPLETED|7200|9000|1800|gres/gpu=1|m1|b\n");
  for (const std::string& file : {alpha, beta, alpha}) {
    const Outcome o = Import({file, "--into", data});
    EXPECT_EQ(o.code, 0) << o.err;
  }
  const auto usage = [&](const std::string& by) {
    const Outcome o = RunCommand({"usage", "--by", by, "--from", "1970-01-01T00:00:00Z", "--to",
                                  "1970-01-02T00:00:00Z", "--data-dir", data, "-o", "json", "-q"});
    EXPECT_EQ(o.code, 0) << o.err;
    std::map<std::string, double> rows;
    const auto json = Json::Parse(o.out);
    if (json.ok())
      for (const Json& row : json->array())
        rows[row["name"].text()] = row["gpu_seconds"].number_or(-1);
    return rows;
  };
  using Rows = std::map<std::string, double>;
  EXPECT_EQ(usage("account"), (Rows{{"physics", 6 * 3600}, {"biology", 9 * 1800}}));
  EXPECT_EQ(usage("cluster"), (Rows{{"alpha", 6 * 3600}, {"beta", 9 * 1800}}));
  EXPECT_EQ(usage("user"), (Rows{{"ann", 6 * 3600}, {"bob", 9 * 1800}}));
  EXPECT_EQ(usage("job"),
            (Rows{{"alpha:10", 4 * 3600}, {"11", 2 * 3600}, {"beta:10", 8 * 1800}, {"12", 1800}}));
}

TEST_F(ImportSlurmTest, AnErrorNamesItsFileOnce) {
  const std::string bad = Write("bad.txt", "<html>\n");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{bad}, {bad, "--into", folder_ + "/data"}}) {
    const Outcome o = Import(args);
    EXPECT_NE(o.code, 0);
    const size_t first = o.err.find("bad.txt");
    ASSERT_NE(first, std::string::npos) << o.err;
    EXPECT_EQ(o.err.find("bad.txt", first + 1), std::string::npos) << o.err;
  }
}

TEST_F(ImportSlurmTest, OnePlaceToStore) {
  const std::string sacct = Write("sacct.txt", kSacct);
  Outcome o = Import({sacct, "--into", folder_ + "/data", "--server", "http://127.0.0.1:1"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("give one"));
  o = Import({sacct, "--into", folder_ + "/data", "--jobs-file", folder_ + "/jobs.csv"});
  EXPECT_EQ(o.code, 2);
  o = Import({sacct, "--server", "http://127.0.0.1:1"});
  EXPECT_EQ(o.code, 6) << o.err;
}

}  // namespace
}  // namespace flopwatch::cli
