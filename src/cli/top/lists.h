// The lists of a frame of `flopwatch top`: users, jobs and GPUs as rows of whole columns
// (columns.h), a name that is too wide above its row. Private to this folder; pure.
#pragma once

#include "cli/top/paint.h"

namespace flopwatch::cli::top {

// From row `y` to before `end`, around the one that is chosen. Return the row after them.
int DrawJobs(const Frame& f, int y, int end);
int DrawGpuList(const Frame& f, int y, int end);

}  // namespace flopwatch::cli::top
