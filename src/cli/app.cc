#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/context_impl.h"
#include "cli/help.h"
#include "cli/output_formats.h"

namespace flopwatch::cli {
namespace {

constexpr std::string_view kAbout =
    "flopwatch tells how much of a GPU fleet's arithmetic is used (Overall FLOP Utilisation), "
    "which jobs waste it, and why.";
constexpr std::string_view kStart =
    "Start here:\n"
    "  flopwatch serve                   collect from the exporters on this machine, answer on "
    "127.0.0.1:9530\n"
    "  flopwatch serve --target n1:9400 --target n2:9400\n"
    "  flopwatch top                     the fleet, live, in this terminal\n"
    "  flopwatch jobs --sort lost        the jobs that waste most\n"
    "  flopwatch report --from -7d -o md > report.md";

// An error names the value, the choices and what was probably meant.
std::string CheckFormat(const std::string& value) {
  std::vector<std::string_view> names;
  for (const auto& [name, format] : kOutputFormats) {
    if (name == value) return "";
    names.push_back(name);
  }
  const std::string_view nearest = Nearest(value, names);
  return fmt::format(
      "there is no format \"{}\"; {}", Printable(value, 40),
      nearest.empty() ? "choose from " + OutputFormatNames(", ")
                      : fmt::format("did you mean {}? All: {}", nearest, OutputFormatNames(", ")));
}

void AddGlobalOptions(CLI::App& app, GlobalOptions* g) {
  const std::string group = "Global options";
  app.add_option("-o,--output", g->format,
                 fmt::format("Format of the data: {}; table on a terminal, tsv in a pipe",
                             OutputFormatNames(", ")))
      ->check(CLI::Validator(CheckFormat, "{" + OutputFormatNames(",") + "}"))
      ->type_name("FORMAT")
      ->group(group);
  app.add_option("--json", g->json,
                 "JSON with these fields alone; without a value lists the fields")
      ->type_name("FIELDS")
      ->expected(0, 1)
      ->group(group);
  app.add_option("--columns", g->columns, "Columns to write, separated by commas, in this order")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app.add_option(
         "--sort", g->sort,
         "Column to sort by: numbers largest first, text from A; NAME:asc or NAME:desc decides")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--limit", g->limit, "At most so many rows")->type_name("N")->group(group);
  app.add_flag("--no-header", g->no_header, "Leave out the line of column names")->group(group);
  app.add_option("--server", g->server, "Server to ask (environment: FLOPWATCH_SERVER)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--data-dir", g->data_dir,
                 "Data directory to serve from, or to read without a server")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--config", g->config_file, "Configuration file (environment: FLOPWATCH_CONFIG)")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--no-color", g->no_color, "No colour (also: NO_COLOR=1)")->group(group);
  app.add_flag("--ascii", g->ascii,
               "Plain ASCII in what people read, for terminals and fonts without block characters")
      ->group(group);
  app.add_flag("-q,--quiet", g->quiet, "Data alone, no talk on stderr")->group(group);
  app.add_flag("-v,--verbose", g->verbose, "More talk on stderr")->group(group);
}

// The deepest subcommand the line names.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

void CollectNames(const CLI::App& app, std::vector<std::string>* options) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) options->push_back("--" + name);
    for (const std::string& name : option->get_snames()) options->push_back("-" + name);
  }
}

std::string PathOf(const CLI::App* app) {
  std::string out = app->get_name();
  for (const CLI::App* up = app->get_parent(); up != nullptr; up = up->get_parent())
    out = up->get_name() + " " + out;
  return out;
}

// What other programs call an option that is called otherwise here.
struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName kOtherNames[] = {
    {"--port", "--listen"}, {"--bind", "--listen"},   {"--address", "--listen"},
    {"--since", "--from"},  {"--start", "--from"},    {"--until", "--to"},
    {"--end", "--to"},      {"--format", "--output"}, {"--help-all", "--help"}};

// The option that `word` was probably meant to be, of those there are; "" = none. A name of several
// words ("--scrape-interval", as the configuration has it) is meant by its last one, else its
// first.
std::string MeantOption(std::string_view word, const std::vector<std::string>& names) {
  const auto is_one = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [theirs, ours] : kOtherNames)
    if (word == theirs && is_one(ours)) return std::string(ours);
  if (const std::string_view near = Nearest(word, {names.begin(), names.end()}); !near.empty())
    return std::string(near);
  if (!word.starts_with("--") || word.find('-', 2) == std::string_view::npos) return "";
  for (const std::string& part : {"--" + std::string(word.substr(word.rfind('-') + 1)),
                                  std::string(word.substr(0, word.find('-', 2)))})
    if (is_one(part)) return part;
  return "";
}

// What the parser refused, as "what: why; next".
Status Explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* at = Deepest(&root);
  const std::string help = fmt::format("\"{} --help\" shows how", PathOf(at));
  const std::vector<std::string> extras = root.remaining(/*recurse=*/true);
  if (!extras.empty()) {
    const std::string& word = extras.front();
    if (word.size() > 1 && word[0] == '-') {
      std::vector<std::string> names;
      for (const CLI::App* up = at; up != nullptr; up = up->get_parent()) CollectNames(*up, &names);
      const std::string option = word.substr(0, word.find('='));
      const std::string nearest = MeantOption(option, names);
      return InvalidArgument("cannot understand the command line: {} has no option {}; {}",
                             PathOf(at), Printable(option, 80),
                             nearest.empty() ? help : fmt::format("did you mean {}?", nearest));
    }
    const auto subcommands =
        at->get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); });
    if (!subcommands.empty()) return NoSuchCommand(*at, word);
    return InvalidArgument("cannot understand the command line: {} takes no argument \"{}\"; {}",
                           PathOf(at), Printable(word, 80), help);
  }
  for (const CLI::Option* option : at->get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    return InvalidArgument("cannot understand the command line: {} needs {}; {}", PathOf(at),
                           DisplayName(option), help);
  }
  std::string why = error.what();
  while (!why.empty() && (why.back() == '\n' || why.back() == '.')) why.pop_back();
  return InvalidArgument("cannot understand the command line: {}; {}", why, help);
}

struct Program {
  CLI::App app{std::string(kAbout), "flopwatch"};
  GlobalOptions global;
  std::vector<std::pair<Args, Run>> runs;

  Program() {
    app.formatter(std::make_shared<HelpFormatter>());
    app.fallthrough();  // global options may follow the command; subcommands inherit this
    app.set_version_flag("--version", std::string("flopwatch ") + FLOPWATCH_VERSION, "Version");
    app.get_option("--version")->group("Global options");
    app.get_option("--help")->group("Global options")->description("How to use this command");
    AddGlobalOptions(app, &global);
    for (const CommandEntry& entry : Commands()) {
      Run run;
      const Args sub = entry.add(Args(&app), &run);
      runs.emplace_back(sub, std::move(run));
    }
    app.footer(std::string(kStart));  // last: subcommands would inherit it
  }
};

}  // namespace

bool WantColor(const GetEnv& getenv, bool is_terminal) {
  const auto set = [&](std::string_view name) {
    const auto v = getenv(name);
    return v.has_value() && !v->empty();
  };
  if (set("NO_COLOR")) return false;
  if (set("CLICOLOR_FORCE") && getenv("CLICOLOR_FORCE") != "0") return true;
  if (getenv("TERM") == "dumb" || getenv("CLICOLOR") == "0") return false;
  return is_terminal;
}

std::string FormatError(const Status& status, bool color) {
  ErrorParts parts = PartsOf(status);
  for (std::string* part : {&parts.what, &parts.why, &parts.next})
    *part = Visible(*part, /*keep_lines=*/true);
  const auto style = [color](const char* code, std::string_view text) {
    return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  };
  std::string out = fmt::format("{} {}\n", style("1;31", "error:"), parts.what);
  if (!parts.why.empty()) out += fmt::format("  {}  {}\n", style("2", "why:"), parts.why);
  if (!parts.next.empty()) out += fmt::format("  {} {}\n", style("2", "next:"), parts.next);
  return out;
}

int RunCommandLine(const std::vector<std::string>& args, const Streams& streams) {
  Program program;
  CLI::App& app = program.app;
  const bool out_color = WantColor(streams.getenv, streams.out_is_terminal);
  const bool err_color = WantColor(streams.getenv, streams.err_is_terminal);
  static_cast<HelpFormatter*>(app.get_formatter().get())->set_color(out_color);
  const auto fail = [&](const Status& status) {
    streams.err(FormatError(status, err_color && !program.global.no_color));
    return static_cast<int>(ExitCodeFor(status));
  };
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    // What follows "help" names commands, and is not to be run as one.
    const auto first = std::find_if(args.begin(), args.end(),
                                    [](const std::string& a) { return !a.starts_with('-'); });
    if (first != args.end() && *first == "help" && first + 1 != args.end() &&
        !(first + 1)->starts_with('-'))
      reversed.insert(reversed.end() - (first - args.begin()) - 1, "--");
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    streams.out(Deepest(&app)->help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    streams.out(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(Explain(app, error));
  } catch (const std::exception& error) {
    return fail(Internal("cannot read the command line: {}", error.what()));
  }
  program.global.json_given = app.get_option("--json")->count() > 0;
  // One value, split here: with a delimiter CLI11 counts its parts against expected(0, 1). An
  // option given without its optional value leaves one empty string behind.
  const std::string json_fields = absl::StrJoin(program.global.json, ",");
  program.global.json = absl::StrSplit(json_fields, ',', absl::SkipEmpty());

  Context::Impl impl;
  impl.global = program.global;
  impl.streams = streams;
  impl.color = out_color && !program.global.no_color;
  Context context(&impl);
  for (auto& [sub, run] : program.runs) {
    if (!sub.parsed()) continue;
    if (!run) return fail(Internal("the command {} does nothing", sub.app()->get_name()));
    if (program.global.verbose > 0) SetLogLevel(LogLevel::kDebug);
    const Status status = run(context);
    if (!status.ok()) return fail(status);
    return static_cast<int>(impl.exit_code);
  }
  streams.out(app.help());
  return 0;
}

std::string CommandReference() {
  Program program;
  return ReferenceOf(program.app);
}

std::string ConfigReference() {
  std::string out =
      "| key | type | default | environment | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const ConfigKey& key : ConfigKeys()) {
    std::string type(ConfigTypeName(key.type));
    if (key.type == ConfigType::kInteger) type += fmt::format(" {} to {}", key.min, key.max);
    if (key.type == ConfigType::kChoice) {
      type = "one of";
      for (const char c : key.choices)
        type += c == '|'                                   ? std::string(",")
                : (type.back() == ',' || type == "one of") ? fmt::format(" {}", c)
                                                           : std::string(1, c);
    }
    out += fmt::format("| `{}` | {} | {} | `{}` | {} |\n", key.name, type,
                       key.fallback.empty() ? "" : fmt::format("`{}`", key.fallback),
                       EnvironmentName(key), key.help);
  }
  return out;
}

}  // namespace flopwatch::cli
