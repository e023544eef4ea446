#include <sys/prctl.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/large_pages.h"
#include "cli/terminal.h"
#include "cli/worker.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "serve") flopwatch::cli::RestartOnLargePages(argv);
  // Started again on large pages it would be called "exe" by ps and top, which show this name.
  prctl(PR_SET_NAME, "flopwatch");
  // A closed pipe is seen by the write that fails, in a socket as on stdout; SIGINT keeps its
  // default (130 in a shell) except where a command has something to finish.
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 3 && std::string_view(argv[1]) == "worker") return flopwatch::cli::RunWorker(argv[2]);
  const std::vector<std::string> args(argv + 1, argv + argc);
  return flopwatch::cli::RunCommandLine(args, flopwatch::cli::RealStreams());
}
