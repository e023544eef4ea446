// Documents, help and completion say the same as the command table and the table of configuration
// keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/golden.h"
#include "command_line.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;

// The generated part lies between two markers; FLOPWATCH_UPDATE_GOLDEN=1 writes it.
void ExpectDocumented(const std::string& file, const std::string& reference) {
  static constexpr std::string_view kBegin = "<!-- reference: begin -->\n",
                                    kEnd = "<!-- reference: end -->";
  const auto path = SourcePath(file);
  std::string text = ReadText(path);
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << file;
  ASSERT_NE(end, std::string::npos) << file;
  const size_t from = begin + kBegin.size();
  if (UpdateGolden()) {
    text.replace(from, end - from, "\n" + reference + "\n");
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), "\n" + reference + "\n")
      << file << " is behind the program; FLOPWATCH_UPDATE_GOLDEN=1 writes the reference anew";
}

TEST(Documents, CliReferenceIsTheCommandTable) {
  ExpectDocumented("docs/cli.md", CommandReference());
}
TEST(Documents, ConfigReferenceIsTheKeyTable) {
  ExpectDocumented("docs/config.md", ConfigReference());
}

TEST(Documents, ExitCodesAreThoseOfTheHeader) {
  const std::string text = ReadText(SourcePath("docs/cli.md"));
  for (const char* row :
       {"| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |", "| 5 |", "| 6 |", "| 7 |", "| 130 |"})
    EXPECT_THAT(text, HasSubstr(row));
}

std::string Shell(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int status = pclose(pipe);
  return out + (status != 0 ? "[status " + std::to_string(status) + "]" : "");
}

TEST(Completion, EveryCommandAndOptionIsInEveryScript) {
  const std::string reference = CommandReference();
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome o = RunCommand({"completion", shell});
    ASSERT_EQ(o.code, 0) << o.err;
    for (const CommandEntry& c : Commands())
      EXPECT_THAT(o.out, HasSubstr(std::string(c.name))) << shell;
    // Long options of the reference: "`--name" or ", --name".
    for (size_t at = 0; (at = reference.find("--", at)) != std::string::npos;) {
      const size_t end = reference.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
      const std::string option = reference.substr(at, end - at);
      const bool listed = reference[at - 1] == '`' || reference.substr(at - 2, 2) == ", ";
      if (listed && option.size() > 3) {
        // Not HasSubstr: its message would repeat the whole script for each option.
        const std::string needle = std::string(shell) == "fish" ? "-l " + option.substr(2) : option;
        ASSERT_NE(o.out.find(needle), std::string::npos) << shell << " lacks " << option;
      }
      at = end;
    }
  }
  EXPECT_EQ(RunCommand({"completion", "csh"}).code, 2);
}

TEST(Completion, OtherShellsKnowTheValuesToo) {
  EXPECT_THAT(RunCommand({"completion", "zsh"}).out,
              HasSubstr("\"simulate fleet --preset\") compadd research llm serving seren;"));
  EXPECT_THAT(RunCommand({"completion", "zsh"}).out,
              HasSubstr("*\" --output\"|*\" -o\") compadd table wide json"));
  EXPECT_THAT(RunCommand({"completion", "fish"}).out,
              HasSubstr("-l preset -x -a 'research llm serving seren'"));
}

TEST(Completion, BashCompletes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "flopwatch_completion.bash";
  std::ofstream(path) << RunCommand({"completion", "bash"}).out;
  const auto complete = [&](const std::string& words, int at) {
    return Shell("bash -c 'source " + path.string() + " && COMP_WORDS=(" + words +
                 ") COMP_CWORD=" + std::to_string(at) + " && _flopwatch && echo ${COMPREPLY[@]}'");
  };
  EXPECT_EQ(complete("flopwatch ser", 1), "serve\n");
  EXPECT_EQ(complete("flopwatch config sh", 2), "show\n");
  EXPECT_EQ(complete("flopwatch jobs --runn", 2), "--running\n");
  EXPECT_EQ(complete("flopwatch jobs --serv", 2), "--server\n");
  EXPECT_EQ(complete("flopwatch jobs -o js", 3), "json jsonl\n");
  EXPECT_EQ(complete("flopwatch jobs -o t", 3), "table tsv\n");
  // The values of an option are its own command's.
  EXPECT_EQ(complete("flopwatch jobs --sort l", 3), "lost\n");
  EXPECT_EQ(complete("flopwatch gpus --sort t", 3), "tensor temperature\n");
  EXPECT_EQ(complete("flopwatch usage --by par", 3), "partition\n");
  EXPECT_EQ(complete("flopwatch simulate fleet --preset se", 4), "serving seren\n");
  EXPECT_EQ(complete("flopwatch targets --state back", 3), "back_off\n");
  EXPECT_EQ(complete("flopwatch completion z", 2), "zsh\n");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace flopwatch::cli
