// The real streams of this process.
#ifndef FLOPWATCH_CLI_TERMINAL_H_
#define FLOPWATCH_CLI_TERMINAL_H_

#include <string_view>

#include "cli/app.h"

namespace flopwatch::cli {

Streams RealStreams();
// Writes all of it; a reader that went away (EPIPE) ends the process quietly, as tools in a pipe
// do.
void WriteFd(int fd, std::string_view text);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_TERMINAL_H_
