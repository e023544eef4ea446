#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/table.h"
#include "base/text.h"

namespace flopwatch::cli {
namespace {

constexpr int kHelpWidth = 100;
constexpr int kNameColumn = 26;

std::string Path(const CLI::App* app) {
  std::string out = app->get_name();
  for (const CLI::App* up = app->get_parent(); up != nullptr; up = up->get_parent())
    out = up->get_name() + " " + out;
  return out;
}

std::vector<const CLI::App*> Subcommands(const CLI::App* app) {
  return app->get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); });
}

std::vector<const CLI::Option*> Options(const CLI::App* app, bool positional) {
  std::vector<const CLI::Option*> out;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional() == positional && !option->get_group().empty())
      out.push_back(option);
  }
  return out;
}

// The command that `word`, below `at`, was probably meant to be: "jobs", or "trace merge" for one
// that stands below another; "" = none.
std::string MeantCommand(const CLI::App& at, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* s : Subcommands(&at)) {
    names.push_back(s->get_name());
    for (const CLI::App* below : Subcommands(s))
      if (below->get_name() == word) return s->get_name() + " " + below->get_name();
  }
  return std::string(Nearest(word, {names.begin(), names.end()}));
}

bool IsGlobal(const CLI::Option* option) { return option->get_group() == "Global options"; }
bool IsFlag(const CLI::Option* option) { return option->get_expected_max() == 0; }

// "-o, --output FORMAT"
std::string Names(const CLI::Option* option) {
  std::string out;
  for (const std::string& name : option->get_snames()) out += (out.empty() ? "-" : ", -") + name;
  for (const std::string& name : option->get_lnames()) out += (out.empty() ? "--" : ", --") + name;
  if (!IsFlag(option)) {
    std::string type = option->get_type_name();
    type.resize(std::min(type.find(':'), type.size()));  // CLI11 adds what its validators allow
    if (type.empty()) type = "VALUE";
    out += option->get_expected_min() == 0 ? "[=" + type + "]" : " " + type;
  }
  return out;
}

std::string Describe(const CLI::Option* option) {
  std::string out = option->get_description();
  if (!option->get_default_str().empty())
    out += fmt::format(" (default {})", option->get_default_str());
  return out;
}

std::string PositionalName(const CLI::Option* option) {
  std::string name = option->get_type_name();
  name.resize(std::min(name.find(':'), name.size()));
  // CLI11 names a type TEXT where the command says nothing better.
  if (name.empty() || name == "TEXT") name = option->get_name(/*positional=*/true);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string UsageOf(const CLI::App* app) {
  std::string out = Path(app);
  if (!Subcommands(app).empty()) out += " COMMAND";
  for (const CLI::Option* option : Options(app, true)) {
    std::string name = PositionalName(option);
    if (option->get_expected_max() > 1) name += "…";
    out += option->get_required() ? " " + name : " [" + name + "]";
  }
  return out + " [OPTIONS]";
}

// `text` wrapped to the help's width behind a left column.
std::string Wrapped(std::string_view left, std::string_view text) {
  std::string out = "  " + std::string(left);
  int column = DisplayWidth(out);
  if (column > kNameColumn - 2) {
    out += "\n" + std::string(kNameColumn, ' ');
  } else {
    out.append(kNameColumn - column, ' ');
  }
  column = kNameColumn;
  bool first = true;
  while (!text.empty()) {
    const size_t at = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    if (!first && column + 1 + DisplayWidth(word) > kHelpWidth) {
      out += "\n" + std::string(kNameColumn, ' ');
      column = kNameColumn;
      first = true;
    }
    if (!first) out += ' ', ++column;
    out += word;
    column += DisplayWidth(word);
    first = false;
  }
  return out + "\n";
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// The lines under "Examples:" in a command's footer.
std::vector<std::string> ExamplesOf(const CLI::App* app) {
  std::vector<std::string> out;
  bool in = false;
  for (const std::string& line : Lines(app->get_footer())) {
    if (in && !line.starts_with("  ")) break;
    if (in) out.push_back(line);
    if (line == "Examples:") in = true;
  }
  return out;
}

}  // namespace

std::string DisplayName(const CLI::Option* option) {
  return option->get_positional() ? PositionalName(option) : Names(option);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode /*mode*/) const {
  const auto heading = [&](std::string_view text) {
    return color_ ? fmt::format("\x1b[1m{}\x1b[0m\n", text) : fmt::format("{}\n", text);
  };
  std::string out = app->get_description() + "\n\n";
  out += heading("Usage");
  out += "  " + UsageOf(app) + "\n";
  if (const auto subcommands = Subcommands(app); !subcommands.empty()) {
    out += "\n" + heading("Commands");
    for (const CLI::App* s : subcommands) {
      const std::string about = s->get_description();
      out += Wrapped(s->get_name(), about.substr(0, about.find('\n')));
    }
  }
  if (const auto positionals = Options(app, true); !positionals.empty()) {
    out += "\n" + heading("Arguments");
    for (const CLI::Option* option : positionals)
      out += Wrapped(PositionalName(option), Describe(option));
  }
  std::vector<const CLI::Option*> own, global;
  for (const CLI::Option* option : Options(app, false)) {
    (IsGlobal(option) ? global : own).push_back(option);
  }
  // Every command has --help; it is worth no line where there are others.
  std::erase_if(own, [](const CLI::Option* o) { return o->check_lname("help"); });
  if (!own.empty()) {
    out += "\n" + heading("Options");
    for (const CLI::Option* option : own) out += Wrapped(Names(option), Describe(option));
  }
  if (!global.empty() && app->get_parent() == nullptr) {
    out += "\n" + heading("Global options, for every command");
    for (const CLI::Option* option : global) out += Wrapped(Names(option), Describe(option));
  }
  std::string footer = app->get_footer();
  // A command that only holds others teaches with the first example of each.
  if (footer.empty()) {
    for (const CLI::App* s : Subcommands(app)) {
      const std::vector<std::string> examples = ExamplesOf(s);
      if (!examples.empty()) footer += (footer.empty() ? "Examples:\n" : "\n") + examples[0];
    }
  }
  if (!footer.empty()) out += "\n";
  for (const std::string& line : Lines(footer)) {
    // An unindented line that ends with a colon is a heading: "Examples:".
    out += line.ends_with(':') && line[0] != ' ' ? heading(line.substr(0, line.size() - 1))
                                                 : line + "\n";
  }
  if (app->get_parent() != nullptr) {
    out += "\nOutput, server and other global options: \"flopwatch --help\".\n";
  } else {
    out += "\n\"flopwatch COMMAND --help\" teaches a command, with examples.\n";
  }
  return out;
}

// --- Markdown ---

namespace {

std::string MarkdownCell(std::string text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  return out;
}

void AppendOptions(const CLI::App* app, bool global, std::string* out) {
  std::string rows;
  for (const CLI::Option* option : Options(app, true)) {
    rows += fmt::format("| `{}` | {} |\n", PositionalName(option), MarkdownCell(Describe(option)));
  }
  for (const CLI::Option* option : Options(app, false)) {
    if (IsGlobal(option) != global || (!global && option->check_lname("help"))) continue;
    rows += fmt::format("| `{}` | {} |\n", Names(option), MarkdownCell(Describe(option)));
  }
  if (!rows.empty()) *out += "| option | meaning |\n| --- | --- |\n" + rows + "\n";
}

void AppendCommand(const CLI::App* app, std::string* out) {
  *out += fmt::format("### `{}`\n\n{}\n\n", UsageOf(app), app->get_description());
  AppendOptions(app, false, out);
  if (const std::vector<std::string> examples = ExamplesOf(app); !examples.empty()) {
    *out += "```\n";
    for (const std::string& line : examples) *out += line.substr(2) + "\n";
    *out += "```\n\n";
  }
  for (const CLI::App* s : Subcommands(app)) AppendCommand(s, out);
}

}  // namespace

Status NoSuchCommand(const CLI::App& at, std::string_view word) {
  const std::string meant = MeantCommand(at, word);
  return InvalidArgument("cannot understand the command line: {} has no command \"{}\"; {}",
                         Path(&at), Printable(word, 80),
                         meant.empty() ? fmt::format("\"{} --help\" lists them", Path(&at))
                                       : fmt::format("did you mean \"{}\"?", meant));
}

StatusOr<std::string> HelpOf(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* at = &root;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> below = Subcommands(at);
    const auto found = std::find_if(below.begin(), below.end(),
                                    [&](const CLI::App* s) { return s->get_name() == word; });
    if (found == below.end()) return NoSuchCommand(*at, word);
    at = *found;
  }
  // Not help(): that is of the command which was chosen, "help".
  return at->get_formatter()->make_help(at, "", CLI::AppFormatMode::Normal);
}

std::string ReferenceOf(const CLI::App& root) {
  std::string out = "### Global options\n\n";
  for (const CLI::Option* option : Options(&root, false)) {
    if (!IsGlobal(option)) continue;
    out += out.ends_with("options\n\n") ? "| option | meaning |\n| --- | --- |\n" : "";
    out += fmt::format("| `{}` | {} |\n", Names(option), MarkdownCell(Describe(option)));
  }
  out += "\n";
  for (const CLI::App* s : Subcommands(&root)) AppendCommand(s, &out);
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace flopwatch::cli
