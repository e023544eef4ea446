// Completion scripts from the command table. Job ids and nodes are asked for live, quietly: a shell must not wait or be
// shouted at because no server runs.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/help.h"

namespace flopwatch::cli {
namespace {

struct Entry {
  std::string path;  // "calc peak"
  std::string about;
  std::vector<std::string> words;  // subcommands and options
  std::vector<std::pair<std::string, std::string>> options;  // long name with dashes, description
  std::vector<std::string> subcommands;
};

void Collect(const CLI::App* app, const std::string& path, std::vector<Entry>* out) {
  Entry entry;
  entry.path = path;
  entry.about = app->get_description();
  for (const CLI::App* s : app->get_subcommands([](const CLI::App* x) { return !x->get_group().empty(); })) {
    entry.subcommands.push_back(s->get_name());
    entry.words.push_back(s->get_name());
  }
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      entry.words.push_back("--" + name);
      entry.options.emplace_back("--" + name, option->get_description());
    }
  }
  out->push_back(entry);
  for (const CLI::App* s : app->get_subcommands([](const CLI::App* x) { return !x->get_group().empty(); })) {
    Collect(s, path.empty() ? s->get_name() : path + " " + s->get_name(), out);
  }
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

// Values an option or argument takes; empty = a file name or free text.
constexpr std::string_view kFormats = "table wide json jsonl csv tsv md";
constexpr std::string_view kJobs = "flopwatch jobs -q --from -1d --limit 200 -o tsv --columns job --no-header 2>/dev/null";
constexpr std::string_view kNodes = "flopwatch gpus -q --limit 10000 -o tsv --columns node --no-header 2>/dev/null | sort -u";

std::string Bash(const std::vector<Entry>& entries) {
  std::string out =
      "# bash completion for flopwatch; source it, or put it where bash-completion looks\n"
      "_flopwatch() {\n"
      "  local cur prev path=\"\" word i\n"
      "  cur=\"${COMP_WORDS[COMP_CWORD]}\"\n"
      "  prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=\"${COMP_WORDS[i]}\"\n"
      "    case \"${path:+$path }$word\" in\n";
  for (const Entry& e : entries) {
    if (!e.path.empty()) out += fmt::format("      \"{0}\") path=\"{0}\" ;;\n", e.path);
  }
  out += fmt::format(
      "    esac\n"
      "  done\n"
      "  case \"$prev\" in\n"
      "    -o|--output) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n"
      "    --node) COMPREPLY=($(compgen -W \"$({})\" -- \"$cur\")); return ;;\n"
      "    --job) COMPREPLY=($(compgen -W \"$({})\" -- \"$cur\")); return ;;\n"
      "    --config|--file|--targets-file|--write|--truth|--file-sd) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
      "    --data-dir|--into) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n"
      "  esac\n"
      "  local words=\"\"\n"
      "  case \"$path\" in\n",
      kFormats, kNodes, kJobs);
  const std::string global = Join(entries[0].words);
  std::vector<std::string> global_options;
  for (const auto& [name, about] : entries[0].options) global_options.push_back(name);
  for (const Entry& e : entries) {
    if (e.path.empty()) {
      out += fmt::format("    \"\") words=\"{}\" ;;\n", global);
    } else if (e.path == "job") {
      out += fmt::format("    \"job\") if [[ \"$cur\" == -* ]]; then words=\"{}\"; else words=\"$({})\"; fi ;;\n", Join(e.words), kJobs);
    } else if (e.path == "completion") {
      out += fmt::format("    \"completion\") words=\"bash zsh fish {}\" ;;\n", Join(e.words));
    } else {
      out += fmt::format("    \"{}\") words=\"{}\" ;;\n", e.path, Join(e.words));
    }
  }
  out += fmt::format(
      "  esac\n"
      "  [[ -n \"$path\" && \"$cur\" == -* ]] && words=\"$words {}\"\n"
      "  if [[ \"$path\" == decode && \"$cur\" != -* ]]; then COMPREPLY=($(compgen -f -- \"$cur\")); return; fi\n"
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
      "  local path=\"\" word\n"
      "  local -a entries\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"${path:+$path }$word\" in\n";
  for (const Entry& e : entries) {
    if (!e.path.empty()) out += fmt::format("      \"{0}\") path=\"{0}\" ;;\n", e.path);
  }
  out += fmt::format(
      "    esac\n"
      "  done\n"
      "  case \"${{words[CURRENT-1]}}\" in\n"
      "    -o|--output) compadd {}; return ;;\n"
      "    --node) compadd ${{(f)\"$({})\"}}; return ;;\n"
      "    --job) compadd ${{(f)\"$({})\"}}; return ;;\n"
      "    --config|--file|--targets-file|--write|--truth|--file-sd) _files; return ;;\n"
      "    --data-dir|--into) _files -/; return ;;\n"
      "  esac\n"
      "  case \"$path\" in\n",
      kFormats, kNodes, kJobs);
  for (const Entry& e : entries) {
    out += fmt::format("    \"{}\")\n      entries=(\n", e.path);
    for (const std::string& s : e.subcommands) {
      const std::string sub = e.path.empty() ? s : e.path + " " + s;
      for (const Entry& other : entries) {
        if (other.path == sub) out += fmt::format("        '{}:{}'\n", s, Quoted(other.about, true));
      }
    }
    for (const auto& [name, about] : e.options) out += fmt::format("        '{}:{}'\n", name, Quoted(about, true));
    out += "      )\n";
    if (e.path == "job") out += fmt::format("      [[ $PREFIX == -* ]] || compadd ${{(f)\"$({})\"}}\n", kJobs);
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
          out += fmt::format("complete -c flopwatch -n '{}' -a '{}' -d '{}'\n", condition, s, Quoted(other.about, false));
        }
      }
    }
    for (const auto& [name, about] : e.options) {
      const std::string scope = e.path.empty() ? "" : fmt::format(" -n '{}'", condition);
      std::string values;
      if (name == "--output") values = fmt::format(" -x -a '{}'", kFormats);
      if (name == "--node") values = fmt::format(" -x -a '({})'", kNodes);
      if (name == "--job") values = fmt::format(" -x -a '({})'", kJobs);
      if (name == "--config" || name == "--file" || name == "--write") values = " -r -F";
      out += fmt::format("complete -c flopwatch{} -l {}{} -d '{}'\n", scope, name.substr(2), values, Quoted(about, false));
    }
    if (e.path == "job") out += fmt::format("complete -c flopwatch -n '{}' -a '({})'\n", condition, kJobs);
    if (e.path == "completion") out += fmt::format("complete -c flopwatch -n '{}' -a 'bash zsh fish'\n", condition);
    if (e.path == "decode") out += fmt::format("complete -c flopwatch -n '{}' -F\n", condition);
  }
  return out;
}

}  // namespace

StatusOr<std::string> CompletionScript(const CLI::App& root, std::string_view shell) {
  std::vector<Entry> entries;
  Collect(&root, "", &entries);
  if (shell == "bash") return Bash(entries);
  if (shell == "zsh") return Zsh(entries);
  if (shell == "fish") return Fish(entries);
  return absl::InvalidArgumentError(fmt::format("there is no completion for {}: known are bash, zsh and fish", shell));
}

}  // namespace flopwatch::cli
