// What the subcommands of `flopwatch import` share. One file a subcommand (import_NAME.cc), one row
// of the table in import.cc.
#pragma once

#include "cli/command.h"

namespace flopwatch::cli {

Args AddImportLog(Args import, Run* run);
Args AddImportSlurm(Args import, Run* run);

}  // namespace flopwatch::cli
