// Runs a program and takes what it writes, within limits: it may hang, flood, or leave children of
// its own behind, and nothing of that reaches who asked. No shell is involved.
//
// It gets no file but its three, an empty set of blocked signals, standard input from /dev/null (or
// ProgramLimits::input) and a process group of its own, which is ended as a whole: SIGTERM first,
// SIGKILL after `grace`. What makes itself a session of its own escapes that, and is not waited
// for.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace flopwatch {

struct ProgramLimits {
  Micros longest = 20 * kMicrosPerSecond;  // from its start until it has ended
  size_t max_output = 64u << 20;           // bytes of standard output; more is an error
  // Bytes of standard error that are kept; the rest is read and dropped, so that nobody waits.
  size_t max_errors = 64u << 10;
  Micros grace = kMicrosPerSecond;  // between SIGTERM and SIGKILL
  std::string input;                // what it reads from standard input; "" = /dev/null
  bool any_exit = false;            // an exit code that is not 0 is an answer, too
  std::string name;                 // what messages call it; "" = argv[0]
  // Called with each whole line of standard error that is kept, as it comes, without its end. In
  // the caller's thread.
  std::function<void(std::string_view)> on_error_line;
};

struct ProgramOutput {
  std::string out, errors;
  int exit_code = 0;  // not 0 only where any_exit was set
};

// The whole output of `argv` once it has exited with 0; argv[0] without a slash is looked for in
// PATH. `environment` ("NAME=VALUE") is added to this process's own and wins over it.
//
// NotFound: there is no such program. DeadlineExceeded, ResourceExhausted: it was ended for its
// time or its output. Cancelled: `stop` was requested. Unavailable: it failed, with its exit code
// and the first lines of standard error. Every message can be printed.
StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& argv,
                                   const std::vector<std::string>& environment,
                                   const ProgramLimits& limits, std::stop_token stop = {});

}  // namespace flopwatch
