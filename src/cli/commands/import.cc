// flopwatch import SUBCOMMAND: what others recorded, into the store. One file a subcommand.
#include "cli/commands/import.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"

namespace flopwatch::cli {
namespace {

// The order of --help, completion and docs/cli.md.
constexpr Register kImports[] = {
    AddImportLog,
};

}  // namespace

CLI::App* AddImport(CLI::App& app, Run* run) {
  CLI::App* import = app.add_subcommand("import", "Take in what others recorded: training logs");
  import->require_subcommand(1);
  auto added = std::make_shared<std::vector<std::pair<CLI::App*, Run>>>();
  for (const Register add : kImports) {
    Run of_one;
    CLI::App* sub = add(*import, &of_one);
    added->emplace_back(sub, std::move(of_one));
  }
  *run = [added](Context& context) -> Status {
    for (const auto& [sub, of_one] : *added) {
      if (sub->parsed()) return of_one(context);
    }
    return absl::InvalidArgumentError("import: name a subcommand");
  };
  return import;
}

}  // namespace flopwatch::cli
