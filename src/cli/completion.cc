// Completion scripts from the command table. Job ids and nodes are asked for live, quietly: a shell
// must not wait or be shouted at because no server runs.
#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/help.h"

namespace flopwatch::cli {
namespace {

struct Entry {
  std::string path;  // "calc peak"
  std::string about;
  std::vector<std::string> words;  // subcommands and options
  struct Option {
    std::string name, letter, about;  // "--output", "o" or ""
    std::string values;               // "table wide json": what it takes; "" = anything
  };
  std::vector<Option> options;
  std::vector<std::string> subcommands;
};

// The words that an option takes, as its checks say them: "STATE:{up,down}".
std::string ValuesOf(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  const size_t at = type.find(":{"), end = type.find('}', at);
  if (at == std::string::npos || end == std::string::npos) return "";
  std::string out = type.substr(at + 2, end - at - 2);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

void Collect(const CLI::App* app, const std::string& path, std::vector<Entry>* out) {
  Entry entry;
  entry.path = path;
  entry.about = app->get_description();
  for (const CLI::App* s :
       app->get_subcommands([](const CLI::App* x) { return !x->get_group().empty(); })) {
    entry.subcommands.push_back(s->get_name());
    entry.words.push_back(s->get_name());
  }
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      entry.words.push_back("--" + name);
      const std::vector<std::string> letters = option->get_snames();
      entry.options.push_back({"--" + name, letters.empty() ? "" : letters[0],
                               option->get_description(), ValuesOf(option)});
    }
  }
  out->push_back(entry);
  for (const CLI::App* s :
       app->get_subcommands([](const CLI::App* x) { return !x->get_group().empty(); })) {
    Collect(s, path.empty() ? s->get_name() : path + " " + s->get_name(), out);
  }
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

constexpr std::string_view kJobs =
    "flopwatch jobs -q --from -1d --limit 200 -o tsv --columns job --no-header 2>/dev/null";
constexpr std::string_view kNodes =
    "flopwatch gpus -q --limit 10000 -o tsv --columns node --no-header 2>/dev/null | sort -u";

// What the value of an option is, beyond free text.
enum class Takes : uint8_t { kText, kNode, kJob, kFile, kFolder };
// The command that names the nodes or the jobs there are.
std::string_view LiveNames(Takes takes) { return takes == Takes::kNode ? kNodes : kJobs; }
struct TakingOption {
  std::string_view name;
  Takes takes;
};
constexpr TakingOption kTaking[] = {
    {"--node", Takes::kNode},      {"--job", Takes::kJob},           {"--config", Takes::kFile},
    {"--file", Takes::kFile},      {"--targets-file", Takes::kFile}, {"--jobs-file", Takes::kFile},
    {"--write", Takes::kFile},     {"--truth", Takes::kFile},        {"--file-sd", Takes::kFile},
    {"--port-file", Takes::kFile}, {"--data-dir", Takes::kFolder},   {"--into", Takes::kFolder}};

// Both shells walk the words before the cursor to the deepest command they name ($at: $path is the
// PATH of zsh), then look at the word before it. `complete(takes)` and `offer(words)` are the
// shell's ways to offer values.
template <typename Complete, typename Offer>
std::string WalkWords(const std::vector<Entry>& entries, std::string_view words,
                      std::string_view previous, Complete&& complete, Offer&& offer) {
  std::string out =
      fmt::format("  for word in {}; do\n    case \"${{at:+$at }}$word\" in\n", words);
  for (const Entry& e : entries) {
    if (!e.path.empty()) out += fmt::format("      \"{0}\") at=\"{0}\" ;;\n", e.path);
  }
  out += fmt::format("    esac\n  done\n  case \"{}\" in\n", previous);
  for (const Takes takes : {Takes::kNode, Takes::kJob, Takes::kFile, Takes::kFolder}) {
    std::string names;
    for (const TakingOption& o : kTaking) {
      if (o.takes == takes) names += (names.empty() ? "" : "|") + std::string(o.name);
    }
    out += fmt::format("    {}) {}; return ;;\n", names, complete(takes));
  }
  // One name has other values in other commands; the program's own options go with every command.
  out += fmt::format("  esac\n  case \"$at {}\" in\n", previous);
  for (const bool global : {false, true}) {
    for (const Entry& e : entries) {
      if (e.path.empty() != global) continue;
      for (const Entry::Option& o : e.options) {
        if (o.values.empty()) continue;
        const std::string at = global ? "*\"" : "\"" + e.path;
        out += fmt::format("    {} {}\"", at, o.name);
        if (!o.letter.empty()) out += fmt::format("|{} -{}\"", at, o.letter);
        out += fmt::format(") {}; return ;;\n", offer(o.values));
      }
    }
  }
  return out + "  esac\n";
}

std::string Bash(const std::vector<Entry>& entries) {
  std::string out =
      "# bash completion for flopwatch; source it, or put it where bash-completion looks\n"
      "_flopwatch() {\n"
      "  local cur prev at=\"\" word words=\"\"\n"
      "  cur=\"${COMP_WORDS[COMP_CWORD]}\"\n"
      "  prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n";
  out += WalkWords(
      entries, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"", "$prev",
      [](Takes takes) -> std::string {
        if (takes == Takes::kFolder) return "COMPREPLY=($(compgen -d -- \"$cur\"))";
        if (takes == Takes::kFile) return "COMPREPLY=($(compgen -f -- \"$cur\"))";
        return fmt::format("COMPREPLY=($(compgen -W \"$({})\" -- \"$cur\"))", LiveNames(takes));
      },
      [](std::string_view values) {
        return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", values);
      });
  out += "  case \"$at\" in\n";
  const std::string global = Join(entries[0].words);
  std::vector<std::string> global_options;
  for (const Entry::Option& o : entries[0].options) global_options.push_back(o.name);
  for (const Entry& e : entries) {
    if (e.path.empty()) {
      out += fmt::format("    \"\") words=\"{}\" ;;\n", global);
    } else if (e.path == "job") {
      out += fmt::format(
          "    \"job\") if [[ \"$cur\" == -* ]]; then words=\"{}\"; else words=\"$({})\"; fi ;;\n",
          Join(e.words), kJobs);
    } else if (e.path == "completion") {
      out += fmt::format("    \"completion\") words=\"bash zsh fish {}\" ;;\n", Join(e.words));
    } else {
      out += fmt::format("    \"{}\") words=\"{}\" ;;\n", e.path, Join(e.words));
    }
  }
  out += fmt::format(
      "  esac\n"
      "  [[ -n \"$at\" && \"$cur\" == -* ]] && words=\"$words {}\"\n"
      "  if [[ \"$at\" == decode && \"$cur\" != -* ]]; then COMPREPLY=($(compgen -f -- \"$cur\")); "
      "return; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "}}\n"
      "complete -F _flopwatch flopwatch\n",
      Join(global_options));
  return out;
}

// Single-quoted for zsh and fish; colons and brackets would end a zsh description.
std::string Quoted(std::string_view text, bool zsh) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '\'') {
      out += zsh ? "'\\''" : "\\'";
    } else if (zsh && (c == ':' || c == '[' || c == ']')) {
      out += std::string("\\") + c;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string Zsh(const std::vector<Entry>& entries) {
  std::string out =
      "#compdef flopwatch\n"
      "# zsh completion for flopwatch; put it on $fpath as _flopwatch\n"
      "_flopwatch() {\n"
      "  local at=\"\" word\n"
      "  local -a entries\n";
  out += WalkWords(
      entries, "${words[2,CURRENT-1]}", "${words[CURRENT-1]}",
      [](Takes takes) -> std::string {
        if (takes == Takes::kFolder) return "_files -/";
        if (takes == Takes::kFile) return "_files";
        return fmt::format("compadd ${{(f)\"$({})\"}}", LiveNames(takes));
      },
      [](std::string_view values) { return fmt::format("compadd {}", values); });
  out += "  case \"$at\" in\n";
  for (const Entry& e : entries) {
    out += fmt::format("    \"{}\")\n      entries=(\n", e.path);
    for (const std::string& s : e.subcommands) {
      const std::string sub = e.path.empty() ? s : e.path + " " + s;
      for (const Entry& other : entries) {
        if (other.path == sub)
          out += fmt::format("        '{}:{}'\n", s, Quoted(other.about, true));
      }
    }
    for (const Entry::Option& o : e.options)
      out += fmt::format("        '{}:{}'\n", o.name, Quoted(o.about, true));
    out += "      )\n";
    if (e.path == "job")
      out += fmt::format("      [[ $PREFIX == -* ]] || compadd ${{(f)\"$({})\"}}\n", kJobs);
    if (e.path == "completion") out += "      compadd bash zsh fish\n";
    if (e.path == "decode") out += "      _files\n";
    out += "      ;;\n";
  }
  out +=
      "  esac\n"
      "  _describe -t commands flopwatch entries\n"
      "}\n"
      "_flopwatch \"$@\"\n";
  return out;
}

std::string Fish(const std::vector<Entry>& entries) {
  std::string out =
      "# fish completion for flopwatch; put it into ~/.config/fish/completions/flopwatch.fish\n"
      "complete -c flopwatch -f\n";
  for (const Entry& e : entries) {
    std::string condition;
    if (e.path.empty()) {
      condition = "__fish_use_subcommand";
    } else {
      // Every word of the path has been typed.
      std::string path = e.path;
      size_t at = 0;
      constexpr std::string_view kAnd = "; and __fish_seen_subcommand_from ";
      while ((at = path.find(' ', at)) != std::string::npos) {
        path.replace(at, 1, kAnd);
        at += kAnd.size();  // past the blanks just written
      }
      condition = "__fish_seen_subcommand_from " + path;
    }
    for (const std::string& s : e.subcommands) {
      const std::string sub = e.path.empty() ? s : e.path + " " + s;
      for (const Entry& other : entries) {
        if (other.path == sub) {
          out += fmt::format("complete -c flopwatch -n '{}' -a '{}' -d '{}'\n", condition, s,
                             Quoted(other.about, false));
        }
      }
    }
    for (const auto& [name, letter, about, words] : e.options) {
      const std::string scope = e.path.empty() ? "" : fmt::format(" -n '{}'", condition);
      std::string values;
      const auto taking =
          std::find_if(std::begin(kTaking), std::end(kTaking),
                       [&name = name](const TakingOption& o) { return o.name == name; });
      const Takes takes = taking == std::end(kTaking) ? Takes::kText : taking->takes;
      if (!words.empty()) values = fmt::format(" -x -a '{}'", words);
      if (takes == Takes::kNode || takes == Takes::kJob)
        values = fmt::format(" -x -a '({})'", LiveNames(takes));
      if (takes == Takes::kFile) values = " -r -F";
      if (takes == Takes::kFolder) values = " -x -a '(__fish_complete_directories)'";
      out += fmt::format("complete -c flopwatch{}{} -l {}{} -d '{}'\n", scope,
                         letter.empty() ? "" : " -s " + letter, name.substr(2), values,
                         Quoted(about, false));
    }
    if (e.path == "job")
      out += fmt::format("complete -c flopwatch -n '{}' -a '({})'\n", condition, kJobs);
    if (e.path == "completion")
      out += fmt::format("complete -c flopwatch -n '{}' -a 'bash zsh fish'\n", condition);
    if (e.path == "decode") out += fmt::format("complete -c flopwatch -n '{}' -F\n", condition);
  }
  return out;
}

}  // namespace

StatusOr<std::string> CompletionScript(Args program, std::string_view shell) {
  const CLI::App& root = *program.app();
  std::vector<Entry> entries;
  Collect(&root, "", &entries);
  if (shell == "bash") return Bash(entries);
  if (shell == "zsh") return Zsh(entries);
  if (shell == "fish") return Fish(entries);
  return InvalidArgument("there is no completion for {}: known are bash, zsh and fish", shell);
}

}  // namespace flopwatch::cli
