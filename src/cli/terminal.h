// The real streams of this process.
#pragma once

#include <string_view>

#include "cli/app.h"

namespace flopwatch::cli {

Streams RealStreams();
// Writes all of it; a reader that went away (EPIPE) ends the process quietly, as pipes expect.
void WriteFd(int fd, std::string_view text);

}  // namespace flopwatch::cli
