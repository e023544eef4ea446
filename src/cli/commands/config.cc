// flopwatch config: what is configured, and by whom.

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
  table.columns = {
      {"key", ""}, {"value", ""}, {"origin", "from"}, {"environment", ""}, {"help", "meaning"}};
  if (!only.empty()) FW_RETURN_IF_ERROR(config->Find(only).status());
  for (const ConfigKey& key : ConfigKeys()) {
    if (!only.empty() && key.name != only) continue;
    FW_ASSIGN_OR_RETURN(const ConfigValue* value, config->Find(key.name));
    std::string text;
    for (const std::string& item : value->items) text += (text.empty() ? "" : ", ") + item;
    table.rows.push_back({std::string(key.name), text.empty() ? Cell() : Cell(text), value->origin,
                          EnvironmentName(key), std::string(key.help)});
  }
  if (only.empty()) {
    table.notes.push_back(
        config->file_name().empty()
            ? "no configuration file; \"flopwatch config path\" tells where one is looked for"
            : "configuration file: " + config->file_name());
    for (std::string& note : ResolvedConfig::UnknownVariables(EnvironmentNames()))
      table.notes.push_back(std::move(note));
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
  for (const std::string& path : ConfigFileCandidates(context.impl()->streams.getenv))
    context.Out(path + "\n");
  return absl::OkStatus();
}

}  // namespace

Args AddConfig(Args app, Run* run) {
  Args config = app.Command("config", "Configuration in force, and where each value comes from");
  config.NeedsCommand();
  auto key = std::make_shared<std::string>();
  Args show = config.Command(
      "show", "Every key with its value and its origin: flag, environment, file or default");
  show.Option("key KEY", *key, "One key alone");
  show.Footer(
      "Examples:\n"
      "  flopwatch config show\n"
      "  flopwatch config show server.listen -o json\n"
      "  FLOPWATCH_SCRAPE_INTERVAL=30s flopwatch config show");
  Args path = config.Command("path", "The configuration file in use, or where one is looked for");
  path.Footer(
      "Examples:\n"
      "  flopwatch config path");
  config.Footer(
      "Examples:\n"
      "  flopwatch config show\n"
      "  flopwatch config path");
  *run = [show, key](Context& context) {
    return show.parsed() ? RunShow(context, *key) : RunPath(context);
  };
  return config;
}

}  // namespace flopwatch::cli
