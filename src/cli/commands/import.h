// What the subcommands of `flopwatch import` share. One file a subcommand (import_NAME.cc), one row
// of the table in import.cc.
#ifndef FLOPWATCH_CLI_COMMANDS_IMPORT_H_
#define FLOPWATCH_CLI_COMMANDS_IMPORT_H_

#include "cli/command.h"

namespace flopwatch::cli {

Args AddImportLog(Args import, Run* run);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_COMMANDS_IMPORT_H_
