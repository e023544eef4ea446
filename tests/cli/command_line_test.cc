// Whole commands in-process against a server with canned answers: output modes, errors and their
// exit codes, colours.
#include "command_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/command.h"
#include "fake_server.h"

namespace flopwatch::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CommandLine : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> args, Surroundings around = {}) {
    around.environment["FLOPWATCH_SERVER"] = server_.url();
    around.environment["HOME"] = "/nonexistent";
    return RunCommand(args, around);
  }
  FakeServer server_;
};

TEST_F(CommandLine, PipeGetsTsvTerminalGetsATable) {
  const Outcome pipe = Run({"jobs"});
  EXPECT_EQ(pipe.code, 0);
  EXPECT_THAT(pipe.out, StartsWith("job\tuser\tstate\tgpus\tgpu_seconds\tofu\t"));
  EXPECT_THAT(pipe.out, HasSubstr("\n2115078\talice\trunning\t64\t230400\t0.42\t"));
  EXPECT_THAT(pipe.out,
              HasSubstr("research/notebook-7f9c4d-very-long-name-of-a-pod-0"));  // never cut
  EXPECT_THAT(pipe.err, HasSubstr("5 of 7 jobs"));
  const Outcome terminal = Run({"jobs", "--no-color"}, {.terminal = true});
  EXPECT_THAT(terminal.out, StartsWith("JOB "));
  EXPECT_THAT(terminal.out, HasSubstr("42.0 % ███"));
}

TEST_F(CommandLine, OutputModesAndPicks) {
  EXPECT_EQ(Run({"jobs", "-q", "--columns", "job,gpus", "--no-header", "--limit", "5"}).out,
            "2115078\t64\n2115090\t8\n2115101\t4\nresearch/"
            "notebook-7f9c4d-very-long-name-of-a-pod-0\t2\n2114000\t16\n");
  EXPECT_EQ(Run({"jobs", "-o", "jsonl", "--columns", "job,ofu"}).out.substr(0, 30),
            "{\"job\":\"2115078\",\"ofu\":0.42}\n{");
  EXPECT_THAT(Run({"jobs", "--json", "job,ofu"}).out,
              StartsWith("[\n  {\"job\":\"2115078\",\"ofu\":0.42},\n"));
  EXPECT_THAT(Run({"jobs", "-o", "csv"}).out, StartsWith("job,user,state,"));
  EXPECT_THAT(Run({"jobs", "-o", "md"}).out, StartsWith("| job | user |"));
  EXPECT_THAT(Run({"-o", "json", "jobs"}).out,
              StartsWith("[\n  {\"job\":"));  // before the command, too
  EXPECT_EQ(Run({"jobs", "-q"}).err, "");
}

TEST_F(CommandLine, JsonWithoutFieldsListsThem) {
  const Outcome o = Run({"jobs", "--json"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, StartsWith("job\nuser\nstate\n"));
}

TEST_F(CommandLine, GlobalSortIsForTablesWithoutTheirOwn) {
  const Outcome o = Run({"sql", "SELECT 1", "--sort", "node", "--columns", "node", "-q"});
  EXPECT_EQ(o.out,
            "node\nnode \\x1bb\nnode-a\n");  // the tab of the hostile name is a blank, its escape
                                             // is shown
  EXPECT_EQ(o.code, static_cast<int>(ExitCode::kPartial));  // the answer was cut off
  const Outcome bad = Run({"sql", "SELECT 1", "--sort", "nodes"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("did you mean \"node\"?"));
}

TEST_F(CommandLine, OptionsBecomeQuestions) {
  Run({"jobs", "--sort", "lost:asc", "--user", "a b", "--from", "-7d", "--running", "--limit",
       "3"});
  EXPECT_THAT(server_.TakeRequests(),
              Contains("GET /api/v1/jobs?from=-7d&user=a "
                       "b&sort=lost_gpu_seconds&order=asc&limit=3&running=true"));
  Run({"gpus", "--node", "n1", "--sort", "power"});
  EXPECT_THAT(server_.TakeRequests(), Contains("GET /api/v1/gpus?node=n1&sort=power_w&limit=200"));
  Run({"sql", "SELECT \"x\"", "--max-rows", "5"});
  EXPECT_THAT(server_.TakeRequests(),
              Contains("POST /api/v1/sql {\"query\":\"SELECT \\\"x\\\"\",\"limit\":5}"));
  Run({"job", "a/b c"});
  EXPECT_THAT(server_.TakeRequests(), Contains("GET /api/v1/jobs/a/b c"));
}

TEST_F(CommandLine, TheReportAsksAboutOneWindow) {
  const Outcome o = Run({"report", "--from", "-1h", "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto requests = server_.TakeRequests();
  EXPECT_THAT(requests, Contains("GET /api/v1/fleet?from=-1h"));
  EXPECT_THAT(
      requests,
      Contains(
          "GET "
          "/api/v1/"
          "jobs?from=2026-11-21T02:00:00Z&to=2026-11-21T03:00:00Z&sort=lost_gpu_seconds&limit=10"));
  EXPECT_TRUE(Json::Parse(o.out).ok());
  EXPECT_EQ(Run({"report", "-o", "csv"}).code, 2);
}

TEST_F(CommandLine, TheReportGoesToAFileWhoseEndingChooses) {
  const auto path = std::filesystem::path(testing::TempDir()) / "report_test.html";
  const Outcome o = Run({"report", "--write", path.string()});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(ReadText(path), StartsWith("<!doctype html>"));
  std::filesystem::remove(path);
}

TEST_F(CommandLine, TopOnceAndCards) {
  const Outcome top = Run({"top", "--once"});
  EXPECT_EQ(top.code, 0) << top.err;
  EXPECT_THAT(top.out, HasSubstr("19 of 21 GPUs reporting"));
  EXPECT_THAT(top.out, Not(HasSubstr("\x1b")));
  const Outcome job = Run({"job", "2115078", "-o", "table"});
  EXPECT_THAT(job.out, HasSubstr("Where the GPU-hours went"));
  EXPECT_THAT(Run({"job", "2115078"}).out,
              StartsWith("node\tindex\trank\tofu\t"));  // in a pipe: a row a GPU
  EXPECT_EQ(Run({"top", "--sort", "weight"}).code, 2);
  EXPECT_EQ(Run({"top", "--interval", "1h"}).code, 2);
}

TEST_F(CommandLine, AJobIsOneJsonDocument) {
  const Outcome o = Run({"job", "2115078", "-o", "json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto parsed = Json::Parse(o.out);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Json said = Canned("job.json");
  std::vector<std::string> members;
  for (const auto& [name, value] : parsed->object()) members.push_back(name);
  EXPECT_THAT(members, ::testing::ElementsAre("window", "job", "usage", "notes", "mfu", "gpus"));
  EXPECT_EQ((*parsed)["job"]["job"].text(), "2115078");
  EXPECT_TRUE((*parsed)["job"]["usage"].is_null()) << "it stands beside the job";
  EXPECT_EQ((*parsed)["usage"]["ofu"].number(), said["job"]["usage"]["ofu"].number());
  EXPECT_EQ((*parsed)["gpus"].array().size(), said["gpus"].array().size());
  // What the card says under "Notes", in its order.
  const std::string card = Run({"job", "2115078", "-o", "table"}).out;
  ASSERT_FALSE((*parsed)["notes"].array().empty());
  size_t at = 0;
  for (const Json& note : (*parsed)["notes"].array()) {
    at = card.find(note["finding"].text().substr(0, 30), at);
    EXPECT_NE(at, std::string::npos) << note["finding"].text();
  }
  // Fields that are picked are those of the GPUs, as in every other format.
  EXPECT_THAT(Run({"job", "2115078", "--json", "node,ofu"}).out, StartsWith("["));
}

TEST_F(CommandLine, AJobIsAskedForWithoutAWindowAndSaysWhichItGot) {
  EXPECT_THAT(Run({"job", "2115078", "-o", "table"}).out,
              HasSubstr("window, the job's life: 2026-11-21"));
  EXPECT_THAT(server_.TakeRequests(), Contains("GET /api/v1/jobs/2115078"));
  EXPECT_THAT(Run({"job", "2115078", "-o", "table", "--from", "-1h"}).out,
              Not(HasSubstr("the job's life")));
  EXPECT_THAT(server_.TakeRequests(), Contains("GET /api/v1/jobs/2115078?from=-1h"));
}

TEST_F(CommandLine, HttpStatusesBecomeExitCodes) {
  EXPECT_EQ(Run({"job", "x"}).code, 5);
  EXPECT_THAT(Run({"job", "x"}).err, HasSubstr("\"flopwatch jobs\" lists"));
  const auto code = [&](int status) {
    server_.Set("/api/v1/jobs", status,
                R"({"error":{"code":"c","message":"what failed: a; reason; the advice",)"
                R"("what":"what failed","why":"a; reason","try":"the advice"}})");
    return Run({"jobs"}).code;
  };
  EXPECT_EQ(code(400), 2);
  EXPECT_EQ(code(401), 4);
  EXPECT_EQ(code(403), 4);
  EXPECT_EQ(code(404), 5);
  EXPECT_EQ(code(500), 1);
  EXPECT_EQ(code(503), 6);
  EXPECT_EQ(Run({"jobs"}).err, "error: what failed\n  why:  a; reason\n  next: the advice\n");
  // An older server says no parts, and none are guessed.
  server_.Set("/api/v1/jobs", 500, R"({"error":{"code":"c","message":"what: why; next"}})");
  EXPECT_EQ(Run({"jobs"}).err, "error: what: why; next\n");
  server_.Set("/api/v1/jobs", 200, "this is not JSON");
  EXPECT_EQ(Run({"jobs"}).code, 1);
}

TEST_F(CommandLine, TargetsFailWhenAsked) {
  EXPECT_EQ(Run({"targets"}).code, 0);
  EXPECT_EQ(Run({"targets", "--fail"}).code, static_cast<int>(ExitCode::kUnhealthy));
}

TEST(Unreachable, SaysHowToStartOne) {
  const Outcome o = RunCommand({"jobs", "--server", "127.0.0.1:1"});
  EXPECT_EQ(o.code, static_cast<int>(ExitCode::kUnreachable));
  EXPECT_THAT(o.err, HasSubstr("error: cannot ask the flopwatch server at http://127.0.0.1:1\n"));
  EXPECT_THAT(o.err, HasSubstr("next: start one there with \"flopwatch serve\""));
  const Outcome nothing = RunCommand({"jobs", "--data-dir", "/nonexistent/flopwatch"});
  EXPECT_EQ(nothing.code, static_cast<int>(ExitCode::kUnreachable));
  EXPECT_THAT(nothing.err, HasSubstr("there is no fleet to read"));
}

// Every command that can be run, as the words that name it.
void CollectCommands(const std::string& reference, std::vector<std::vector<std::string>>* out) {
  constexpr std::string_view kHead = "### `flopwatch ";
  for (size_t at = 0; (at = reference.find(kHead, at)) != std::string::npos;) {
    at += kHead.size();
    std::vector<std::string> words;
    for (std::string word; at < reference.size() && std::islower(reference[at]) != 0;) {
      const size_t end = reference.find_first_of(" `", at);
      words.push_back(reference.substr(at, end - at));
      at = end + 1;
    }
    if (!words.empty()) out->push_back(words);
  }
}

TEST(Usage, AMistypedOptionIsUnderstoodInEveryCommand) {
  std::vector<std::vector<std::string>> commands;
  CollectCommands(CommandReference(), &commands);
  ASSERT_GT(commands.size(), 40u);
  for (std::vector<std::string> command : commands) {
    if (command[0] == "help") continue;  // what follows it are names of commands
    command.push_back("--srot");
    const Outcome o = RunCommand(command);
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr("did you mean --sort?")) << command[0] << " " << command[1];
  }
  const auto err = [](std::vector<std::string> args) { return RunCommand(args).err; };
  // As the configuration has it, and as other programs do.
  EXPECT_THAT(err({"serve", "--scrape-interval", "5s"}), HasSubstr("did you mean --interval?"));
  EXPECT_THAT(err({"serve", "--port", "9530"}), HasSubstr("did you mean --listen?"));
  EXPECT_THAT(err({"jobs", "--since", "-1h"}), HasSubstr("did you mean --from?"));
  EXPECT_THAT(err({"merge", "a"}), HasSubstr("did you mean \"trace merge\"?"));
}

TEST(Usage, HelpIsACommandToo) {
  EXPECT_EQ(RunCommand({"help"}).out, RunCommand({"--help"}).out);
  EXPECT_EQ(RunCommand({"help", "jobs"}).out, RunCommand({"jobs", "--help"}).out);
  EXPECT_EQ(RunCommand({"-q", "help", "trace", "sql"}).out,
            RunCommand({"trace", "sql", "--help"}).out);
  const Outcome wrong = RunCommand({"help", "jbos"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"jobs\"?"));
}

TEST(Usage, MistypedWordsAreUnderstood) {
  const auto err = [](std::vector<std::string> args) {
    const Outcome o = RunCommand(args);
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_EQ(o.out, "");
    return o.err;
  };
  EXPECT_THAT(err({"jbos"}), HasSubstr("did you mean \"jobs\"?"));
  EXPECT_THAT(err({"xyzzy"}), HasSubstr("\"flopwatch --help\" lists them"));
  EXPECT_THAT(err({"jobs", "--usr", "x"}), HasSubstr("did you mean --user?"));
  EXPECT_THAT(err({"jobs", "--serve=x"}), HasSubstr("did you mean --server?"));  // a global option
  EXPECT_THAT(err({"config", "shwo"}), HasSubstr("did you mean \"show\"?"));
  EXPECT_THAT(err({"config"}), HasSubstr("\"flopwatch config --help\" shows how"));
  EXPECT_THAT(err({"job"}), HasSubstr("flopwatch job needs ID"));
  EXPECT_THAT(err({"jobs", "extra"}), HasSubstr("takes no argument \"extra\""));
  EXPECT_THAT(
      err({"-o", "jsn", "jobs"}),
      HasSubstr("did you mean json? All: table, wide, json, jsonl, csv, tsv, md, html, yaml"));
  EXPECT_THAT(err({"-o", "spreadsheet", "jobs"}), HasSubstr("choose from table"));
  EXPECT_THAT(err({"jobs", "--limit", "many"}), HasSubstr("--limit"));
  EXPECT_THAT(err({"jobs", "\x1b[2J"}), Not(HasSubstr("\x1b")));
}

// A wrong time is the user's to mend whether or not a server runs.
TEST(Usage, TimesAreReadBeforeAnythingIsLookedFor) {
  for (const char* command : {"jobs", "report"}) {
    for (const char* end : {"--from", "--to"}) {
      const Outcome o = RunCommand({command, end, "NONSENSE", "--data-dir", "/nonexistent"});
      EXPECT_EQ(o.code, 2) << command;
      EXPECT_THAT(o.err, AllOf(HasSubstr(end), HasSubstr("NONSENSE"), Not(HasSubstr("no fleet"))))
          << command;
    }
  }
  EXPECT_EQ(RunCommand({"jobs", "--from", "now-2h", "--data-dir", "/nonexistent"}).code, 6);
}

TEST(Decode, AFileOfSomethingElseIsAnError) {
  const auto decode = [](std::string_view body) {
    const std::string path = testing::TempDir() + "/body.txt";
    std::ofstream(path) << body;
    return RunCommand({"decode", path});
  };
  const Outcome prose = decode("GPU fleets cost billions.\nNobody knows what they compute.\n");
  EXPECT_EQ(prose.code, 1);
  EXPECT_THAT(prose.err, HasSubstr("is it exporter output?"));
  const std::string labels = "{gpu=\"0\",UUID=\"GPU-1\"} ";
  EXPECT_EQ(decode("DCGM_FI_DEV_GPU_UTIL" + labels + "97\nnot a sample\n").code, 0);
  // Lines that say "no value" are samples that an exporter has not got.
  EXPECT_EQ(decode("DCGM_FI_DEV_GPU_UTIL" + labels + "9223372036854775794\n").code, 0);
  EXPECT_EQ(decode("# HELP nothing yet\n").code, 0);
}

TEST(Decode, FilesDoNotShareReadings) {
  std::vector<std::string> args = {"decode",        "-o",         "csv", "--columns",
                                   "uuid,gpu_util", "--no-header"};
  for (const int util : {11, 22, 33}) {
    args.push_back(fmt::format("{}/util-{}.prom", testing::TempDir(), util));
    std::ofstream(args.back()) << fmt::format(
        "DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",UUID=\"GPU-{0}\"}} {0}\n", util);
  }
  EXPECT_EQ(RunCommand(args).out, "GPU-11,0.11\nGPU-22,0.22\nGPU-33,0.33\n");
}

TEST(Usage, HelpTeaches) {
  const Outcome bare = RunCommand({});
  EXPECT_EQ(bare.code, 0);
  EXPECT_EQ(bare.out, RunCommand({"--help"}).out);
  for (const CommandEntry& c : Commands()) {
    EXPECT_THAT(bare.out, HasSubstr("\n  " + std::string(c.name) + " ")) << c.name;
    const Outcome help = RunCommand({std::string(c.name), "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_THAT(help.out, HasSubstr("\nUsage\n  flopwatch " + std::string(c.name))) << c.name;
    EXPECT_THAT(help.out,
                AllOf(HasSubstr("\nExamples\n  "), HasSubstr("  flopwatch " + std::string(c.name))))
        << c.name << " teaches no example";
  }
  EXPECT_THAT(RunCommand({"--version"}).out, StartsWith("flopwatch "));
}

TEST(Usage, ServeRefusesTheWorldWithoutAWord) {
  const Outcome o = RunCommand({"serve", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(o.code, static_cast<int>(ExitCode::kNotAuthorised));
  EXPECT_THAT(o.err, HasSubstr("--allow-remote"));
  EXPECT_EQ(RunCommand({"serve", "--listen", "nonsense"}).code, 2);
  EXPECT_EQ(RunCommand({"serve", "--listen", "127.0.0.1:99999"}).code, 2);
  EXPECT_EQ(RunCommand({"serve", "--interval", "10"}).code, 2);
}

TEST(Colour, FollowsTheRules) {
  using Map = std::map<std::string, std::string>;
  const auto want = [](const Map& env, bool terminal) {
    return WantColor(
        [&](std::string_view n) -> std::optional<std::string> {
          const auto it = env.find(std::string(n));
          return it != env.end() ? std::optional<std::string>(it->second) : std::nullopt;
        },
        terminal);
  };
  EXPECT_TRUE(want({}, true));
  EXPECT_FALSE(want({}, false));
  EXPECT_FALSE(want({{"NO_COLOR", "1"}}, true));
  EXPECT_TRUE(want({{"NO_COLOR", ""}}, true));  // no-color.org: present and not empty
  EXPECT_FALSE(want({{"TERM", "dumb"}}, true));
  EXPECT_FALSE(want({{"CLICOLOR", "0"}}, true));
  EXPECT_TRUE(want({{"CLICOLOR_FORCE", "1"}}, false));
  EXPECT_FALSE(want({{"CLICOLOR_FORCE", "0"}}, false));
  EXPECT_FALSE(want({{"CLICOLOR_FORCE", "1"}, {"NO_COLOR", "1"}}, true));
}

TEST(Errors, AreThreeShortLines) {
  EXPECT_EQ(FormatError(Internal("opening {}: line 3: bad; fix it", "a.toml"), false),
            "error: opening a.toml\n  why:  line 3: bad\n  next: fix it\n");
  EXPECT_EQ(FormatError(Internal("it failed"), false), "error: it failed\n");
  EXPECT_EQ(FormatError(Internal("{} is not there; try y", "http://x:1"), false),
            "error: http://x:1 is not there\n  next: try y\n");
}

TEST(Errors, WhatComesFromOutsideMovesNoPart) {
  EXPECT_EQ(FormatError(NotFound("no file {}; see {}", "a: b; run me", "ls"), false),
            "error: no file a: b; run me\n  next: see ls\n");
}

TEST(ConfigCommand, ShowsValuesWithTheirOrigin) {
  const Outcome o = RunCommand(
      {"config", "show", "scrape.interval", "-o", "jsonl", "--columns", "key,value,origin"},
      {.environment = {{"FLOPWATCH_SCRAPE_INTERVAL", "25s"}}});
  EXPECT_EQ(o.out,
            "{\"key\":\"scrape.interval\",\"value\":\"25s\",\"origin\":\"environment "
            "FLOPWATCH_SCRAPE_INTERVAL\"}\n");
  const Outcome flag = RunCommand({"config", "show", "store.directory", "--data-dir", "/d", "-o",
                                   "csv", "--columns", "value,origin", "--no-header"});
  EXPECT_EQ(flag.out, "/d,flag --data-dir\n");
  EXPECT_EQ(RunCommand({"config", "show", "no.key"}).code, 5);
  EXPECT_EQ(RunCommand({"config", "show", "--config", "/nonexistent.toml"}).code, 5);
}

TEST(Doctor, FailsWithThreeWhenTheNamedServerIsGone) {
  const Outcome o = RunCommand(
      {"doctor", "--server", "127.0.0.1:1", "-o", "jsonl", "--data-dir", testing::TempDir()});
  EXPECT_EQ(o.code, static_cast<int>(ExitCode::kUnhealthy));
  EXPECT_THAT(o.out, HasSubstr("{\"check\":\"server\",\"verdict\":\"fail\""));
  EXPECT_THAT(o.out,
              HasSubstr("{\"check\":\"database engine\",\"verdict\":\"ok\",\"detail\":\"DuckDB v"));
}

}  // namespace
}  // namespace flopwatch::cli
