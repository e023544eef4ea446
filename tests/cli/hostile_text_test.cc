// Text of others on the way to a person: whatever a server answers, no escape sequence, C1 control
// or bidirectional mark reaches the terminal, a document or a file for a spreadsheet.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/fake_server.h"

namespace flopwatch::cli {
namespace {

// Every name in an answer with more behind it: a window title, a cleared line, the end of a
// conceal, C1's escape, text turned around, and an end of line.
std::string Hostile(const std::string& canned) {
  static const std::regex kNames(
      R"re("(job|user|name|workflow|model|node|gpu|target|url|source|error|last_error)"\s*:)re"
      R"re(\s*"([^"]+)")re");
  return std::regex_replace(
      canned, kNames,
      R"re("$1":"$2\u001b]0;pwned\u0007\u001b[2K\r\u001b[28m\u009b2J\u202eexe\u2066x\u200f")re");
}

// Colours are ours: they say nothing and move nothing.
std::string WithoutColors(const std::string& text) {
  static const std::regex kColor("\x1b\\[[0-9;]*m");
  return std::regex_replace(text, kColor, "");
}

void ExpectHarmless(const std::string& text, const std::string& what) {
  const std::string plain = WithoutColors(text);
  const size_t n = plain.size();
  for (size_t i = 0; i < n;) {
    const Utf8Part part = ReadUtf8(plain, i);
    ASSERT_TRUE(part.valid) << what;
    const bool acts =
        ActsOnDisplay(part.code) || (IsControl(plain[i]) && plain[i] != '\n' && plain[i] != '\t');
    ASSERT_FALSE(acts) << what << ": " << Printable(plain.substr(i > 40 ? i - 40 : 0, 80));
    i += part.bytes;
  }
  EXPECT_EQ(text.find("\x1b[28m"), std::string::npos) << what << ": a colour of theirs";
}

TEST(HostileText, ReachesNobodyAsItIs) {
  FakeServer server;
  const std::pair<const char*, const char*> kCanned[] = {
      {"/api/v1/fleet", "fleet.json"},
      {"/api/v1/jobs", "jobs.json"},
      {"/api/v1/jobs/2115078", "job.json"},
      {"/api/v1/gpus", "gpus.json"},
      {"/api/v1/gpus/GPU-node-a-0", "gpu.json"},
      {"/api/v1/targets", "targets.json"},
      {"/api/v1/divergence", "divergence_set.json"},
      {"/api/v1/sql", "sql.json"}};
  for (const auto& [path, file] : kCanned) server.Set(path, 200, Hostile(CannedText(file)));
  server.Set("/api/v1/jobs/evil", 404,
             R"({"error": {"code": "not_found", "message": "no job \u001b[2J\u202ex"}})");
  const std::vector<std::vector<std::string>> kCommands = {
      {"jobs"},          {"job", "2115078"},
      {"gpus"},          {"targets"},
      {"report"},        {"divergence"},
      {"top", "--once"}, {"sql", "SELECT 1"},
      {"job", "evil"},   {"job", "x\x1b[2J\xe2\x80\xae"}};
  for (const auto& command : kCommands) {
    for (const char* format : {"", "table", "wide", "md", "csv", "tsv", "html", "json", "yaml"}) {
      for (const bool terminal : {true, false}) {
        std::vector<std::string> args = {"--server", server.url()};
        args.insert(args.end(), command.begin(), command.end());
        if (*format != '\0') args.insert(args.end(), {"-o", format});
        const Outcome o = RunCommand(
            args,
            {.environment = {{"TERM", "xterm-256color"}}, .terminal = terminal, .width = 120});
        const std::string what = command[0] + " -o " + format + (terminal ? " on a terminal" : "");
        ExpectHarmless(o.out, what);
        ExpectHarmless(o.err, what + ", stderr");
      }
    }
  }
}

}  // namespace
}  // namespace flopwatch::cli
