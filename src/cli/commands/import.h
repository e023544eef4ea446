// What the subcommands of `flopwatch import` share. One file a subcommand (import_NAME.cc), one row
// of the table in import.cc.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "cli/command.h"
#include "jobs/books.h"
#include "jobs/job_index.h"

namespace flopwatch::cli {

Args AddImportLog(Args import, Run* run);
Args AddImportSlurm(Args import, Run* run);
Args AddImportTable(Args import, Run* run);

// Opens the data directory (made where there is none), hands what it knows of jobs and nodes to
// `tell`, and stores what that changed. Nothing is rolled up, sealed or deleted. An error where
// another process, such as a server, holds the directory.
Status TellStore(Context& context, const std::string& directory,
                 absl::FunctionRef<void(jobs::Books*, jobs::JobIndex*)> tell);

}  // namespace flopwatch::cli
