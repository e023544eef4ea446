// flopwatch import log: into a store directory, again, with options, and what is wrong with a file.
// The real program's parts all the way: what was imported is read back through `sql` and the API of
// the stored fleet.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json_read.h"
#include "base/time.h"
#include "command_line.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::path(testing::TempDir()) / "flopwatch-import-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  Outcome Import(std::vector<std::string> args) {
    args.insert(args.begin(), {"import", "log"});
    args.insert(args.end(), {"--data-dir", folder_ + "/data"});
    return RunCommand(args);
  }
  std::string Sql(const std::string& sql) {
    const Outcome o =
        RunCommand({"sql", sql, "-o", "csv", "--no-header", "--data-dir", folder_ + "/data", "-q"});
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  }
  // Ten steps of 5 s each, in the last hour.
  static std::string Megatron(int steps = 10, bool times = true) {
    std::string out =
        "------------------------ arguments ------------------------\n"
        "  bf16 ............................................ True\n"
        "  seq_length ...................................... 4096\n"
        "  world_size ...................................... 64\n"
        "-------------------- end of arguments ---------------------\n";
    const Micros start = FloorTo(Now(), kMicrosPerHour) - kMicrosPerHour;
    for (int i = 1; i <= steps; ++i) {
      std::string time = FormatTime(start + i * 5 * kMicrosPerSecond);
      time = time.substr(0, 10) + " " + time.substr(11, 8);
      out += fmt::format(
          "{} iteration {:8}/ 500 | consumed samples: {} | elapsed time per iteration (ms): 5000.0 "
          "| throughput per GPU (TFLOP/s/GPU): "
          "400.0 | learning rate: 1.0E-04 | global batch size: 1024 | lm loss: {}.5E+00 | grad "
          "norm: 0.5 |\n",
          times ? fmt::format(" [{}]", time) : "", i, i * 1024, 10 - i % 10);
    }
    return out;
  }
  std::string folder_;
};

TEST_F(ImportTest, OnceAndAgainWhenItHasGrown) {
  const std::string file = Write("train.log", Megatron(10));
  Outcome o = Import({file, "--job", "7", "-o", "json"});
  ASSERT_EQ(o.code, 0) << o.err;
  auto table = Json::Parse(o.out);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->array()[0]["stored"].integer(), 10);
  EXPECT_EQ(table->array()[0]["format"].text(), "megatron");
  EXPECT_EQ(table->array()[0]["gpus"].integer(), 64);
  EXPECT_THAT(o.err, HasSubstr("were read as UTC"));
  EXPECT_EQ(Sql("SELECT count(*), min(step), max(step), sum(span_s) FROM application_samples WHERE "
                "job = '7'"),
            "10,1,10,50\n");
  EXPECT_EQ(Sql("SELECT convention, precision, gpus, seq_len FROM application_claims"),
            "megatron,bf16,64,4096\n");
  // No GPU was ever seen here: the job is known by what it reports.
  o = RunCommand({"job", "7", "--data-dir", folder_ + "/data", "-o", "csv", "--columns",
                  "samples,convention", "--no-header", "-q"});
  EXPECT_EQ(o.out, "10,megatron\n") << o.err;
  Write("train.log", Megatron(12));
  o = Import({file, "--job", "7", "-o", "json", "--gpu", "H100 SXM"});
  table = Json::Parse(o.out);
  ASSERT_TRUE(table.ok()) << o.err;
  EXPECT_EQ(table->array()[0]["stored"].integer(), 2);
  EXPECT_EQ(table->array()[0]["duplicates"].integer(), 10);
  EXPECT_EQ(Sql("SELECT count(*) FROM application_samples"), "12\n");
}

TEST_F(ImportTest, GzipAndSeveralFiles) {
  const std::string plain = Write("a.log", Megatron(3)),
                    packed = Write("b.log.gz", net::Gzip(Megatron(5)));
  const Outcome o = Import({plain, packed, "--job", "ml/train-0", "--timezone", "UTC", "--columns",
                            "samples,stored,duplicates", "--no-header", "-o", "csv"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "3,3,0\n5,2,3\n");
  EXPECT_THAT(o.err, Not(HasSubstr("read as UTC")));
}

TEST_F(ImportTest, WhatIsWrongIsSaidInOneLineAndNothingIsStored) {
  const std::string timeless = Write("timeless.log", Megatron(3, false));
  Outcome o = Import({timeless, "--job", "7"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--start TIME"));
  EXPECT_EQ(Import({timeless, "--job", "7", "--start", "-1h", "--log-interval", "1"}).code, 0);
  o = Import({Write("poem.txt", "roses are red\n"), "--job", "7"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("no step line of a known format"));
  EXPECT_EQ(Import({Write("empty.log", ""), "--job", "7"}).code, 2);
  EXPECT_EQ(Import({folder_ + "/nothing.log", "--job", "7"}).code, 5);
  EXPECT_EQ(Import({Write("bad.gz", "\x1f\x8b\x08 damaged"), "--job", "7"}).code, 2);
  const std::string file = Write("train.log", Megatron(3));
  EXPECT_EQ(Import({file}).code, 2) << "no --job";
  o = Import({file, "--job", "7", "--format", "megatrom"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("did you mean 'megatron'"));
  EXPECT_EQ(Import({file, "--job", "7", "--gpu", "H1000"}).code, 2);
  EXPECT_EQ(Import({file, "--job", "7", "--precision", "bf17"}).code, 2);
  EXPECT_EQ(Import({file, "--job", "7", "--timezone", "Europe/Berlin"}).code, 2);
  EXPECT_EQ(Import({file, "--job", "7", "--gpus", "0"}).code, 2);
  EXPECT_EQ(Import({file, "--job", "7\n8"}).code, 2);
}

TEST_F(ImportTest, ADryRunStoresNothing) {
  const Outcome o = Import({Write("train.log", Megatron(3)), "--job", "7", "--dry-run", "-o", "csv",
                            "--columns", "samples,stored", "--no-header"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "3,0\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/data"));
}

TEST_F(ImportTest, LogsOlderThanIsKeptAreRefusedAndSaySo) {
  const Outcome o = Import({Write("old.log",
                                  "[2015-01-02 03:04:05] iteration 1/ 5 | elapsed time per "
                                  "iteration (ms): 1000.0 | lm loss: 2.0E+00 |\n"),
                            "--job", "7"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("too_old"));
}

}  // namespace
}  // namespace flopwatch::cli
