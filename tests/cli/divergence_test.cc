// flopwatch divergence: the paper's numbers from the command line to the card, canned answers of
// the API, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/golden.h"
#include "cli/views/divergence.h"
#include "command_line.h"
#include "fake_server.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Outcome Calculate(std::vector<std::string> more) {
  std::vector<std::string> args = {"divergence"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}
Json Answer(std::vector<std::string> more) {
  more.insert(more.end(), {"-o", "json"});
  const Outcome o = Calculate(more);
  EXPECT_EQ(o.code, 0) << o.err;
  auto json = Json::Parse(o.out);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : Json();
}

// The cases of the OFU paper, V-C and VI-C.
TEST(Divergence, CardsOfThePapersCases) {
  ExpectGolden("divergence_latent.txt",
               Calculate({"--mfu", "54.27", "--ofu", "25.58", "-o", "table"}).out);
  ExpectGolden("divergence_hybrid.txt",
               Calculate({"--mfu", "24.51", "--ofu", "15.56", "-o", "table"}).out);
  ExpectGolden("divergence_recompute.txt",
               Calculate({"--mfu", "26", "--ofu", "34", "--gpu", "GB200", "--gpus", "256",
                          "--recompute", "full", "-o", "table"})
                   .out);
  ExpectGolden("divergence_peak_ascii.txt",
               Calculate({"--mfu", "20", "--ofu", "41.5", "--gpu", "H100 SXM", "--peak", "1979",
                          "--precision", "bf16", "-o", "table", "--ascii"})
                   .out);
}

TEST(Divergence, FirstCauseOfThePapersCases) {
  const auto first = [](const Json& d) {
    return d["explanations"].array().empty() ? Json() : d["explanations"].array()[0];
  };
  const Json latent = Answer({"--mfu", "54.27", "--ofu", "25.58"});
  EXPECT_EQ(latent["verdict"].text(), "alarm");
  EXPECT_EQ(first(latent)["parts"].array()[0]["id"].text(), "latent_moe_full_width");
  EXPECT_EQ(first(latent)["parts"].array()[1]["id"].text(), "recompute_not_counted");
  EXPECT_NEAR(*first(latent)["corrected_mfu"].number(), 0.1845, 1e-6);
  EXPECT_EQ(first(Answer({"--mfu", "24.51%", "--ofu", "15.56%"}))["parts"].array()[0]["id"].text(),
            "hybrid_as_dense");
  EXPECT_EQ(first(Answer({"--mfu", "0.26", "--ofu", "0.34"}))["parts"].array()[0]["id"].text(),
            "recompute_not_counted");
}

TEST(Divergence, FormatsOfOne) {
  EXPECT_THAT(Calculate({"--mfu", "24.51", "--ofu", "15.56", "-o", "csv"}).out,
              HasSubstr("rank,cause,fits,"));
  EXPECT_THAT(Calculate({"--mfu", "24.51", "--ofu", "15.56", "-o", "jsonl"}).out,
              HasSubstr("\"ids\":\"hybrid_as_dense\""));
  EXPECT_THAT(Calculate({"--mfu", "24.51", "--ofu", "15.56", "-o", "md"}).out,
              HasSubstr("| --- |"));
  EXPECT_THAT(Calculate({"--mfu", "24.51", "--ofu", "15.56", "--json", "rank,ids"}).out,
              StartsWith("[\n  {\"rank\":1,\"ids\":\"hybrid_as_dense\"},\n"));
}

TEST(Divergence, PerCentOrRatio) {
  EXPECT_NEAR(*Answer({"--mfu", "0.5427", "--ofu", "0.2558"})["mfu"].number(), 0.5427, 1e-9);
  EXPECT_NEAR(*Answer({"--mfu", "0.9%", "--ofu", "0.8%"})["mfu"].number(), 0.009, 1e-9);
  EXPECT_NEAR(*Answer({"--mfu", "1.5", "--ofu", "0.8"})["mfu"].number(), 0.015, 1e-9);
  EXPECT_THAT(Calculate({"--mfu", "0.5", "--ofu", "0.4", "-o", "json"}).err,
              HasSubstr("read as ratios"));
}

TEST(Divergence, WhatIsRefused) {
  const auto error = [](std::vector<std::string> args) {
    const Outcome o = Calculate(args);
    EXPECT_NE(o.code, 0) << o.out;
    EXPECT_EQ(o.out, "");
    return std::to_string(o.code) + " " + o.err;
  };
  EXPECT_THAT(error({"--mfu", "54"}), HasSubstr("2 "));
  EXPECT_THAT(error({"--mfu", "54"}), HasSubstr("belong together"));
  EXPECT_THAT(error({"--mfu", "many", "--ofu", "25"}), HasSubstr("--mfu 'many'"));
  EXPECT_THAT(error({"--mfu", "-3", "--ofu", "25"}), HasSubstr("--mfu '-3'"));
  EXPECT_THAT(error({"--mfu", "nan", "--ofu", "25"}), HasSubstr("--mfu 'nan'"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "1e300"}), HasSubstr("--ofu '1e300'"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--gpu", "H100"}), HasSubstr("H100 SXM"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--convention", "megatrom"}),
              HasSubstr("megatron"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--recompute", "some"}),
              HasSubstr("full, selective, none"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--mix", "bf16=0.3"}), HasSubstr("2 "));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--peak", "nan"}), HasSubstr("--peak"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--job", "7"}), HasSubstr("do not go together"));
  EXPECT_THAT(error({"--mfu", "30", "--ofu", "25", "--config", "/nonexistent.json"}),
              HasSubstr("/nonexistent.json"));
  const auto config =
      std::filesystem::path(testing::TempDir()) / "flopwatch_divergence_config.json";
  std::ofstream(config) << R"({"model_type":"llama","hidden_size":-5})";
  EXPECT_THAT(
      error({"--mfu", "30", "--ofu", "25", "--config", config.string(), "--seq-len", "4096"}),
      HasSubstr("hidden_size"));
}

TEST(Divergence, HostileNamesNeverReachTheTerminalRaw) {
  const auto d = Json::Parse(
      R"({"job":"a\u001b[2Jb","verdict":"alarm","headline":"x\u001b]0;t\u0007",
      "user":"\u001b[31m","gpu_models":["\u001b"],
    "mfu_claimed":0.5,"ofu":0.2,"ratio":2.5,"claim":{"convention":"\u001b[1m"},
    "peak":{"right_tflops":1,"right_basis":"\u001b"},
    "findings":["\u001b"],"actions":["\u001b"],"explanations":[{"rank":1,"title":"\u001b",
    "parts":[{"title":"\u001b"}]}]})");
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_THAT(DivergenceCard(*d, {}), Not(HasSubstr("\x1b")));
}

TEST(Divergence, AnAnswerOfAnotherShapeShowsNothingRatherThanFails) {
  for (const char* text :
       {"{}", "[]", "null",
        R"({"jobs":[null,{"causes":3}],"groups":[7],"explanations":[[],{"parts":{}}]})"}) {
    const auto json = Json::Parse(text);
    ASSERT_TRUE(json.ok());
    DivergenceCard(*json, {});
    ExplanationsTable(*json);
    DivergenceSummary(*json, {});
    DivergenceStatisticsTable(*json);
    DivergenceGroupsTable(*json);
    DivergenceJobsTable(*json);
  }
}

// Canned: a set of four jobs as tests/server/divergence_test.cc makes it.
TEST(Divergence, AsksTheServer) {
  FakeServer server;
  server.Set("/api/v1/divergence", 200, CannedText("divergence_set.json"));
  server.Set("/api/v1/jobs/2115078/divergence", 200, CannedText("divergence_job.json"));
  const Outcome set = RunCommand({"divergence", "--server", server.url(), "--from", "-14d",
                                  "--group-by", "gpus", "-o", "table"});
  EXPECT_EQ(set.code, 0) << set.err;
  EXPECT_THAT(
      server.TakeRequests(),
      testing::Contains("GET /api/v1/divergence?from=-14d&group_by=gpus&sort=divergence&limit=50"));
  ExpectGolden("divergence_set.txt", set.out);
  const Outcome job =
      RunCommand({"divergence", "--server", server.url(), "--job", "2115078", "-o", "table"});
  EXPECT_EQ(job.code, 0) << job.err;
  EXPECT_THAT(server.TakeRequests(), testing::Contains("GET /api/v1/jobs/2115078/divergence"));
  ExpectGolden("divergence_job.txt", job.out);
  // The whole answers for machines.
  EXPECT_EQ(RunCommand({"divergence", "--server", server.url(), "-o", "json"}).out,
            CannedText("divergence_set.json") + "\n");
  EXPECT_THAT(
      RunCommand({"divergence", "--server", server.url(), "--group-by", "gpus", "-o", "csv"}).out,
      HasSubstr("gpus,jobs,flagged,mfu_mean"));
  EXPECT_THAT(RunCommand({"divergence", "--server", server.url(), "-o", "csv"}).out,
              HasSubstr("job,verdict,gpus,mfu,ofu,ratio"));
  const Outcome missing = RunCommand({"divergence", "--server", server.url(), "--job", "9"});
  EXPECT_EQ(missing.code, 5);
  EXPECT_THAT(missing.err, HasSubstr("\"flopwatch jobs\" lists"));
}

}  // namespace
}  // namespace flopwatch::cli
