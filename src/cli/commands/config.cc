// flopwatch config: what is configured, and by whom.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/environment.h"
#include "cli/context_impl.h"

namespace flopwatch::cli {
namespace {

Status RunShow(Context& context, const std::string& only) {
  FW_ASSIGN_OR_RETURN(const ResolvedConfig* config, context.impl()->Resolved());
  Table table;
  table.columns = {{"key", ""}, {"value", ""}, {"origin", "from"}, {"environment", ""}, {"help", "meaning"}};
  if (!only.empty()) FW_RETURN_IF_ERROR(config->Find(only).status());
  for (const ConfigKey& key : ConfigKeys()) {
    if (!only.empty() && key.name != only) continue;
    FW_ASSIGN_OR_RETURN(const ConfigValue* value, config->Find(key.name));
    std::string text;
    for (const std::string& item : value->items) text += (text.empty() ? "" : ", ") + item;
    table.rows.push_back({std::string(key.name), text.empty() ? Cell() : Cell(text), value->origin, EnvironmentName(key),
                          std::string(key.help)});
  }
  if (only.empty()) {
    table.notes.push_back(config->file_name().empty() ? "no configuration file; \"flopwatch config path\" tells where one is looked for"
                                                      : "configuration file: " + config->file_name());
    for (std::string& note : ResolvedConfig::UnknownVariables(EnvironmentNames())) table.notes.push_back(std::move(note));
  }
  return context.Write(table);
}

Status RunPath(Context& context) {
  FW_ASSIGN_OR_RETURN(const std::string in_use, context.Config("config.file"));
  if (!in_use.empty()) {
    context.Out(in_use + "\n");
    return absl::OkStatus();
  }
  context.Say("No configuration file. The first of these that exists is read:");
  for (const std::string& path : ConfigFileCandidates(context.impl()->streams.getenv)) context.Out(path + "\n");
  return absl::OkStatus();
}

}  // namespace

CLI::App* AddConfig(CLI::App& app, Run* run) {
  CLI::App* config = app.add_subcommand("config", "Configuration in force, and where each value comes from");
  config->require_subcommand(1);
  auto key = std::make_shared<std::string>();
  CLI::App* show = config->add_subcommand("show", "Every key with its value and its origin: flag, environment, file or default");
  show->add_option("key", *key, "One key alone")->type_name("KEY");
  show->footer(
      "Examples:\n"
      "  flopwatch config show\n"
      "  flopwatch config show server.listen -o json\n"
      "  FLOPWATCH_SCRAPE_INTERVAL=30s flopwatch config show");
  CLI::App* path = config->add_subcommand("path", "The configuration file in use, or where one is looked for");
  path->footer(
      "Examples:\n"
      "  flopwatch config path");
  config->footer(
      "Examples:\n"
      "  flopwatch config show\n"
      "  flopwatch config path");
  *run = [show, key](Context& context) { return show->parsed() ? RunShow(context, *key) : RunPath(context); };
  return config;
}

}  // namespace flopwatch::cli
