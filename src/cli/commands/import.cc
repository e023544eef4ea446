// flopwatch import SUBCOMMAND: what others recorded, into the store or onto the screen. One file
// a subcommand.
#include "cli/commands/import.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"

namespace flopwatch::cli {
namespace {

// The order of --help, completion and docs/cli.md.
constexpr Register kImports[] = {
    AddImportLog,
    AddImportSlurm,
};

}  // namespace

Args AddImport(Args app, Run* run) {
  Args import = app.Command("import", "Take in what others recorded: training logs, Slurm's books");
  import.NeedsCommand();
  auto added = std::make_shared<std::vector<std::pair<Args, Run>>>();
  for (const Register add : kImports) {
    Run of_one;
    Args sub = add(import, &of_one);
    added->emplace_back(sub, std::move(of_one));
  }
  *run = [added](Context& context) -> Status {
    for (const auto& [sub, of_one] : *added) {
      if (sub.parsed()) return of_one(context);
    }
    return absl::InvalidArgumentError("import: name a subcommand");
  };
  return import;
}

}  // namespace flopwatch::cli
