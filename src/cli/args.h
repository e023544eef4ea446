// The options and arguments of a command, as its file declares them: thin handles on the library
// that parses the command line (CLI11, which is all headers and slow to compile). Only args.cc,
// app.cc, help.cc and completion.cc see the library itself.
//
//   Args sub = app.Command("sql", "Read-only SQL on samples, rollups, jobs and GPUs");
//   sub.Option("--max-rows N", o->max_rows, "At most so many rows").ShowDefault();
//
// Copies are the same command or option; valid as long as the command line's description. Before
// parsing, one thread. What is bound (o->max_rows) is written while the line is parsed and must
// live until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace flopwatch::cli {

class Arg {
 public:
  explicit Arg(CLI::Option* option) : option_(option) {}
  Arg Describe(const std::string& about) const;
  Arg Required(bool required = true) const;
  Arg ShowDefault() const;                     // --help shows the bound variable's value of now
  Arg Range(int64_t low, int64_t high) const;  // both inclusive
  Arg RangeOf(double low, double high) const;
  Arg NotNegative() const;
  Arg Positive() const;
  Arg OneOf(std::initializer_list<std::string> words) const;
  // Words that completion offers; who reads the value decides whether it is one.
  Arg Suggest(const std::vector<std::string>& words) const;
  Arg Check(std::function<std::string(const std::string&)> why_not)
      const;  // "" = accepted, else the reason
  Arg Delimiter(char c) const;
  // An option of several values takes one word each time, so that a positional may follow it.
  Arg OneWord() const;
  Arg Excludes(Arg other) const;  // the two cannot be given together
  size_t count() const;           // after parsing: how often it was given

 private:
  CLI::Option* option_;
};

class Args {
 public:
  explicit Args(CLI::App* app) : app_(app) {}
  Args Command(const std::string& name,
               const std::string& about) const;  // a command below this one
  void NeedsCommand() const;                     // one of those below must be chosen
  // "--name", "-n,--name", or a positional argument "NAME", each with what stands for the value in
  // --help after a blank: "--max-rows N", "--from TIME". T: std::string, int, int64_t, uint64_t,
  // double, std::optional and std::vector of such (args.cc lists them).
  template <typename T>
  Arg Option(const std::string& names, T& value, const std::string& about) const;
  Arg Flag(const std::string& names, bool& value, const std::string& about) const;
  Arg Find(const std::string& name) const;     // one that was added; it must be there
  void Footer(const std::string& text) const;  // examples, below --help
  bool parsed() const;                         // after parsing: it was chosen
  const CLI::App* app() const { return app_; }

 private:
  CLI::App* app_;
};

}  // namespace flopwatch::cli
