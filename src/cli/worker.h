// What the server starts this program as, to do the work of strangers in a process of its own:
// "flopwatch worker KIND", its job as JSON on standard input. Not for people, so not in the help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flopwatch::cli {

// The command line of a worker of this kind: this very program, also when its file was replaced.
std::vector<std::string> WorkerCommand(std::string_view kind);

// Reads the job and does it; the exit code.
int RunWorker(std::string_view kind);

}  // namespace flopwatch::cli
