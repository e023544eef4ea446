#include "cli/args.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

namespace flopwatch::cli {

Arg Arg::Describe(const std::string& about) const { return Arg(option_->description(about)); }
Arg Arg::Required(bool required) const { return Arg(option_->required(required)); }
Arg Arg::ShowDefault() const { return Arg(option_->capture_default_str()); }
Arg Arg::Range(int64_t low, int64_t high) const {
  return Arg(option_->check(CLI::Range(low, high)));
}
Arg Arg::RangeOf(double low, double high) const {
  return Arg(option_->check(CLI::Range(low, high)));
}
Arg Arg::NotNegative() const { return Arg(option_->check(CLI::NonNegativeNumber)); }
Arg Arg::Positive() const { return Arg(option_->check(CLI::PositiveNumber)); }
Arg Arg::OneOf(std::initializer_list<std::string> words) const {
  return Arg(option_->check(CLI::IsMember(words)));
}
Arg Arg::Suggest(const std::vector<std::string>& words) const {
  // Where IsMember has its words, too: completion reads both there.
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
  const auto any = [](std::string&) { return std::string(); };
  return Arg(option_->check(CLI::Validator(any, "{" + list + "}")));
}
Arg Arg::Check(std::function<std::string(const std::string&)> why_not) const {
  return Arg(option_->check(CLI::Validator(std::move(why_not), "")));
}
Arg Arg::Delimiter(char c) const { return Arg(option_->delimiter(c)); }
Arg Arg::OneWord() const { return Arg(option_->allow_extra_args(false)); }
Arg Arg::Excludes(Arg other) const { return Arg(option_->excludes(other.option_)); }
size_t Arg::count() const { return option_->count(); }

Args Args::Command(const std::string& name, const std::string& about) const {
  return Args(app_->add_subcommand(name, about));
}
void Args::NeedsCommand() const { app_->require_subcommand(1); }
template <typename T>
Arg Args::Option(const std::string& names, T& value, const std::string& about) const {
  const size_t blank = names.find(' ');
  CLI::Option* option = app_->add_option(names.substr(0, blank), value, about);
  return Arg(blank == std::string::npos ? option : option->type_name(names.substr(blank + 1)));
}
Arg Args::Flag(const std::string& names, bool& value, const std::string& about) const {
  return Arg(app_->add_flag(names, value, about));
}
Arg Args::Find(const std::string& name) const { return Arg(app_->get_option(name)); }
void Args::Footer(const std::string& text) const { app_->footer(text); }
bool Args::parsed() const { return app_->parsed(); }

#define FW_OPTION_OF(T)                                                              \
  template Arg Args::Option<T>(const std::string&, T&, const std::string&) const;    \
  template Arg Args::Option<std::optional<T>>(const std::string&, std::optional<T>&, \
                                              const std::string&) const;             \
  template Arg Args::Option<std::vector<T>>(const std::string&, std::vector<T>&,     \
                                            const std::string&) const;
FW_OPTION_OF(std::string)
FW_OPTION_OF(int)
FW_OPTION_OF(int64_t)
FW_OPTION_OF(uint64_t)
FW_OPTION_OF(double)
#undef FW_OPTION_OF

}  // namespace flopwatch::cli
