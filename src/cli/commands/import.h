// What the subcommands of `flopwatch import` share. One file a subcommand (import_NAME.cc), one row
// of the table in import.cc.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "cli/command.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "store/store.h"

namespace flopwatch::cli {

Args AddImportLog(Args import, Run* run);
Args AddImportPrometheus(Args import, Run* run);
Args AddImportSlurm(Args import, Run* run);
Args AddImportTable(Args import, Run* run);

// The options of a data directory that is not the server's own, from the configuration.
StatusOr<store::Options> StoreOptionsOf(Context& context, const std::string& directory);

// Opens the data directory (made where there is none), hands what it knows of jobs and nodes to
// `tell`, and stores what that changed. Nothing is rolled up, sealed or deleted. An error where
// another process, such as a server, holds the directory.
Status TellStore(Context& context, const std::string& directory,
                 absl::FunctionRef<void(jobs::Books*, jobs::JobIndex*)> tell);

}  // namespace flopwatch::cli
